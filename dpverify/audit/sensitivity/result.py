"""Result of a search for an exceeded sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.sensitivity.norms import AnyNorm, Excess
from dpverify.audit.verdicts import Asked
from dpverify.privacy import Adjacency, render
from dpverify.privacy.numbers import Floats

_SHOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class SensitivityPair:
    """Neighbors and how far apart the query's values on them are.

    left, right: arrays of shape (n, columns). distance: in the result's norm, rounded down;
    infinite where ``problem`` says why it is none (NaN, other shapes, an exception). exceeds:
    whether it is above the bound, decided exactly; excess: by how much, rounded down; kind: the
    kind of the excess, by rounding or of substance.
    """

    left: Floats
    right: Floats
    distance: float
    exceeds: bool
    excess: float
    problem: str
    kind: Excess | None = None

    def __str__(self) -> str:
        far = self.problem or f"the values are {self.distance!r} apart"
        if self.exceeds and not self.problem:
            far += f", {self.excess!r} more than declared"
        return f"{far}\n  left     {_shown(self.left)}\n  right    {_shown(self.right)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; a dataset is a list of [times, record], equal records in a row
        together.
        """
        return {
            "left": _runs(self.left),
            "right": _runs(self.right),
            "distance": _plain(self.distance),
            "exceeds": self.exceeds,
            "excess": _plain(self.excess),
            "problem": self.problem,
            "kind": None if self.kind is None else str(self.kind),
        }


_ROUNDED = (
    "meaning    these are neighbors, and what the query returns for them is further apart than "
    "declared, by a rounding: at most a millionth of the bound. The loss of privacy by the "
    "distance is as small; but a sum of floats that rounds may still show its records in its "
    "last bits. Add up integers, or declare a little more."
)
_OF_SUBSTANCE = (
    "meaning    these are neighbors, and what the query returns for them is further apart than "
    "declared. Noise scaled to the declared sensitivity does not give the promised privacy."
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SensitivityResult(Asked):
    """Result of a search for an exceeded sensitivity.

    bound: the declared sensitivity, in ``norm``. worst: the pair with the largest distance found.
    simplest: for a violation, a pair of fewer records and rounder numbers that still exceeds
    the bound. calls: how often the query was evaluated; found_after: how often until the first
    violation, None without one. ``seed`` and ``calls_allowed`` repeat the search.
    """

    query: str
    norm: AnyNorm
    bound: Fraction
    adjacency: Adjacency
    domain: Box
    worst: SensitivityPair
    simplest: SensitivityPair | None
    calls: int
    found_after: int | None
    calls_allowed: int
    seed: int

    @property
    def violated(self) -> bool:
        """True if a pair is further apart than the bound: for the values as returned, a proof."""
        return self.worst.exceeds

    @property
    def excess_of(self) -> Excess | None:
        """Kind of the worst pair's excess over the bound: ``Excess.ROUNDING`` or SUBSTANCE;
        None without a violation.
        """
        return self.worst.kind

    @property
    def is_consistent(self) -> bool:
        """True if no pair was found that is further apart than the bound, not even by a
        rounding.
        """
        return not self.violated

    @property
    def largest(self) -> float:
        """The largest distance found, rounded down; infinite where there is none."""
        return self.worst.distance

    @property
    def left(self) -> Floats:
        """The first dataset of the worst pair, shape (n, columns)."""
        return self.worst.left

    @property
    def right(self) -> Floats:
        """The second dataset of the worst pair, shape (n, columns)."""
        return self.worst.right

    def __str__(self) -> str:
        lines = [
            f"{self.query}: {self.norm} sensitivity {render(self.bound)} under {self.adjacency}, "
            f"for {self.domain}",
            f"largest    {self.largest!r}",
            f"search     {self.calls} calls, seed {self.seed}",
        ]
        if not self.violated:
            lines[0] = f"nothing found: {lines[0]}"
            lines.append(
                "meaning    no neighbors further apart were found. That proves nothing: a worse "
                "pair may be where nobody looked."
            )
            return "\n".join(lines)
        rounded = self.excess_of is Excess.ROUNDING
        lines[0] = f"VIOLATED{' BY ROUNDING' * rounded}: {lines[0]}"
        lines[2] += f", first found after {self.found_after}"
        lines.append(f"neighbors  {self.simplest or self.worst}")
        lines.append(_ROUNDED if rounded else _OF_SUBSTANCE)
        return "\n".join(lines)

    def __repr__(self) -> str:
        said = f"VIOLATED ({self.excess_of})" if self.violated else "nothing found"
        return (
            f"<SensitivityResult {said}: {self.query}, {self.norm} sensitivity "
            f"{render(self.bound)} under {self.adjacency}, largest {self.largest!r}, "
            f"{self.calls} calls, seed {self.seed}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the bound as a string that reads back exactly, infinities as
        strings.
        """
        return {
            "result": "SensitivityResult",
            "query": self.query,
            "norm": str(self.norm),
            "bound": render(self.bound),
            "adjacency": str(self.adjacency),
            "domain": str(self.domain),
            "violated": self.violated,
            "excess_of": None if self.excess_of is None else str(self.excess_of),
            "largest": _plain(self.largest),
            "worst": self.worst.to_dict(),
            "simplest": None if self.simplest is None else self.simplest.to_dict(),
            "calls": self.calls,
            "found_after": self.found_after,
            "calls_allowed": self.calls_allowed,
            "seed": self.seed,
        }


def _runs(rows: Floats) -> list[list[Any]]:
    """Return [times, record] for each stretch of equal records; -0.0 is another number than 0.0
    here.
    """
    runs: list[list[Any]] = []
    for _, same in groupby(rows, key=lambda row: row.tobytes()):
        stretch = list(same)
        runs.append([len(stretch), [_plain(number) for number in stretch[0].tolist()]])
    return runs


def _plain(number: float) -> float | str:
    """Return a finite number as it is, else a string, since JSON has no infinities and no NaN;
    Python's float reads these strings.
    """
    return number if math.isfinite(number) else str(number)


def _shown(rows: Floats) -> str:
    runs = [f"{record}" if times == 1 else f"{times} x {record}" for times, record in _runs(rows)]
    if len(runs) > _SHOWN:
        runs[_SHOWN - 1 : -1] = ["..."]
    return f"{len(rows)} record{'s' if len(rows) != 1 else ''}: {', '.join(runs) or 'nobody'}"
