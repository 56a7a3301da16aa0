"""Tests for noise that outputs share: nothing is certified then, but a common drift is allowed.

Certificates are about calls that are independent, or private given the calls before
(``witnesses.guesses``). Where noise is kept from call to call, every call by itself may be
private, and all of them together say nothing. Three tests find such noise, each with a false
alarm of probability 1e-12 at most where the calls are independent and their laws stay as they
are, or drift slowly beside a hundred calls:

- outputs that equal the next one of the same side, and not one from about 64 calls later. Of
  independent outputs of one law of masses p that has the probability sum p^2 (1 - p) <= 1/4;
- outputs in few runs of equal ones, where nine of ten equal the next one: of m values with
  counts c_k in n places, at most sum_{j <= r} C(n-1, j-1) m (m-1)^(j-1) of the n! / prod c_k!
  equally likely arrangements have no more than r runs;
- an event that next outputs share or lack more often than outputs about 64 calls apart. Where
  only one of the two agrees, each does with probability 1/2 if laws stay as they are; 3/4 is
  allowed, for a drift.

A common drift in steps of several hundred calls, with fresh noise beside it, stays below these
bounds. What no such test can tell is noise that is drawn once: ``refuse_constant`` says so, and
asks for a factory. Before a claim is called false, ``kept_noise`` looks at every number by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.confidence_regions import Counts
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import (
    AuditedLaw,
    CallableDraws,
    are_functions,
    name_of_function,
    only_output,
)
from dpverify.audit.stateless import remembers_nothing
from dpverify.audit.witnesses.events import first_prints
from dpverify.privacy.numbers import Floats

NEVER = 1e-12
"""The probability of a false alarm of each test."""
_BLOCK, _PAIRS = (
    72,
    24,
)  # cycle of outputs of one side: pairs of neighbors among the first 48, then one more for each
_EQUAL, _STAYED, _AGREED = 0.25, 0.9, 0.75
_COLUMNS = 8
_KEPT = 100_000  # outputs of a side that are kept to be looked at again, number by number
_EXPECTED = 5
_FEWEST = 30


class InvalidRun(ValueError):
    """An audit that says nothing, because nothing was audited."""


@dataclass(slots=True)
class Score:
    """Count of an event that independent outputs have with probability ``most`` at most."""

    most: float
    happened: int = 0
    tried: int = 0

    def add(self, happened: NDArray[np.bool_]) -> None:
        """Add these numbers to the count."""
        self.happened += int(np.count_nonzero(happened))
        self.tried += len(happened)

    def add_agreements(self, happened: NDArray[np.bool_]) -> None:
        """Count how often an output agrees with the next one, where it agrees either with that
        or with one about 64 calls later. happened: of one side's outputs, in order.
        """
        first, near, far = _triples(len(happened))
        agreed = happened[first] == happened[near]
        self.add(agreed[agreed != (happened[first] == happened[far])])

    @property
    def is_chance(self) -> bool:
        """True if so many are likelier than ``NEVER``."""
        return self.is_likelier_than(NEVER)

    def is_likelier_than(self, level: float) -> bool:
        """Return whether so many, or more, have at least this probability."""
        return (
            not self.happened
            or float(scipy.special.bdtrc(self.happened - 1, self.tried, self.most)) >= level
        )


@dataclass(slots=True)
class Watch:
    """Evidence, from a function's outputs on two neighbors, of noise that its calls share.

    laws: of both sides; only functions are examined. equal: for each quantity that is compared,
    how often it equaled that of the next output and not that of a later one. stayed: the least
    logarithm so far of the probability of so few runs. seen: the first outputs of either side, or
    their first numbers (``kept_noise``).
    """

    laws: Sequence[AuditedLaw]
    equal: dict[str, Score] = field(default_factory=dict)
    stayed: float = 0.0
    seen: tuple[list[Draws], list[Draws]] = field(default_factory=lambda: ([], []))

    def copied(self) -> Watch:
        """Return an independent copy of what was seen so far."""
        seen = [*self.seen[0]], [*self.seen[1]]
        return Watch(self.laws, deepcopy(self.equal), self.stayed, seen)

    def take(self, drawn: Sequence[Draws]) -> None:
        """Look at outputs of the left side and of the right, in the order in which they were made;
        either may be none.
        """
        if not are_functions(self.laws):
            return
        for seen, draws in zip(self.seen, drawn, strict=True):
            if not len(draws):
                continue
            left = _KEPT - sum(map(len, seen))
            if left > 0:
                seen.append(_first_numbers(draws, left))
            first, near, far = _triples(len(draws))
            for name, values in _looked_at(draws):
                score = self.equal.setdefault(name, Score(_EQUAL))
                score.add((values[first] == values[near]) & (values[first] != values[far]))
            self.stayed = min(self.stayed, log_chance_of_runs(first_prints(draws)))

    def require_fresh(self) -> None:
        """Raise InvalidRun where outputs share noise."""
        for name, score in self.equal.items():
            if not score.is_chance:
                self._refuse(
                    f"{name} was that of the call before and not that of about 64 calls later "
                    f"{score.happened} of {score.tried} times"
                )
        if self.stayed < math.log(NEVER):
            self._refuse("equal outputs come in runs, and a run gives way to another")

    def _refuse(self, seen: str) -> None:
        name = name_of_function(self.laws[0])
        raise InvalidRun(f"{name} shares noise between outputs: {seen}. {ADVICE}")


ADVICE = (
    "Outputs are not independent, and nothing can be certified. Draw noise anew for each output; "
    "or give fresh=make, where make() returns a new function, so that each is called once."
)


@dataclass(slots=True)
class EventWatch:
    """Test of whether an event, or either event of a guess, comes in runs."""

    laws: Sequence[AuditedLaw]
    event: str
    scores: tuple[Score, Score] = field(default_factory=lambda: (Score(_AGREED), Score(_AGREED)))

    def take(self, happenings: Sequence[NDArray[np.bool_]]) -> None:
        """Look at whether the event happened, output after output of one side."""
        for happened, score in zip(happenings, self.scores, strict=True):
            score.add_agreements(happened)

    def require_fresh(self) -> None:
        """Raise InvalidRun where the event comes in runs."""
        for score in self.scores:
            if are_functions(self.laws) and not score.is_chance:
                raise InvalidRun(
                    f"{name_of_function(self.laws[0])} shares noise between outputs: the event "
                    f"{self.event} comes in runs, alike in neighbors and not about 64 calls "
                    f"apart {score.happened} times, the other way round "
                    f"{score.tried - score.happened} times. {ADVICE}"
                )


def log_chance_of_runs(values: NDArray[Any]) -> float:
    """Bound the chance of so few runs of equal values, if all orders were equally likely;
    return its logarithm.

    0 where fewer than nine of ten values equal the next one.
    """
    runs = 1 + int(np.count_nonzero(values[1:] != values[:-1]))
    if not stays(values):
        return 0.0
    _, counts = np.unique(values, return_counts=True)
    n, m, j = len(values), len(counts), np.arange(1, runs + 1)
    orders = scipy.special.gammaln(n + 1) - scipy.special.gammaln(counts + 1).sum()
    few = (
        scipy.special.gammaln(n)
        - scipy.special.gammaln(j)
        - scipy.special.gammaln(n - j + 1)
        + math.log(m)
        + scipy.special.xlogy(j - 1, m - 1)
    )
    return float(min(0.0, scipy.special.logsumexp(few) - orders))


def stays(values: NDArray[Any]) -> bool:
    """Return whether nine of ten values equal the next one."""
    return len(values) > 1 and float(np.mean(values[1:] == values[:-1])) >= _STAYED


def refuse_constant(pair: str, laws: Sequence[AuditedLaw], batches: Sequence[Draws]) -> None:
    """Raise InvalidRun where each side gave one output alone, of one kind and not the same.

    Then either nothing is random, or what is random was drawn once, and no number of calls can
    tell. A function that can remember nothing between calls is of the first sort.
    """
    functions = [law for law in laws if isinstance(law, CallableDraws) and not law.vectorized]
    if len(functions) < len(laws) or any(law.is_fresh for law in functions):
        return
    seen = [only_output(draws) for draws in batches]
    kinds = {kind for draws in batches for kind in draws.kinds.counts()}
    alike = seen[0] is None or seen[1] is None or seen[0] == seen[1] or len(kinds) > 1
    if alike or min(map(len, batches)) < _FEWEST or remembers_nothing(functions[0].function):
        return
    shown = [_shown(draws) for draws in batches]
    raise InvalidRun(
        f"Every call of {name_of_function(functions[0])} on the left of the pair {pair!r} gave "
        f"{shown[0]}, and every call on the right {shown[1]}. If nothing in it is random, these "
        "two outputs refute every epsilon and need no audit. If its noise is drawn once and "
        "kept, no number of calls can tell: give fresh=make, where make() returns a new "
        "function, so that each is called once."
    )


def require_even_batches(hits: Counts, sizes: Counts, event: str) -> None:
    """Raise InvalidRun where an event is common in some batches and rare in others, as if
    outputs shared a draw.

    A chi-square test at level 1e-12. Batches one after the other are taken together until at least
    5 hits and 5 others are expected.
    """
    share = hits.sum() / sizes.sum()
    starts = _starts(sizes * min(share, 1 - share))
    if len(starts) < 2:
        return
    hits, sizes = np.add.reduceat(hits, starts), np.add.reduceat(sizes, starts)
    expected = sizes * share
    misfit = float(((hits - expected) ** 2 / (expected * (1 - share))).sum())
    if scipy.special.chdtrc(len(sizes) - 1, misfit) < NEVER:
        raise InvalidRun(
            f"The event {event} happened {hits[np.argmin(hits / sizes)]} times in one batch and "
            f"{hits[np.argmax(hits / sizes)]} times in another of about {int(sizes[0])} outputs: "
            "they are not independent, and nothing can be certified. Give each output noise of "
            "its own, or audit f(dataset)."
        )


def _starts(expected: Floats) -> list[int]:
    """Return where groups of batches start, so that enough is expected in each; what is left at
    the end belongs to the last.
    """
    starts, seen = [0], 0.0
    for k, one in enumerate(expected):
        if seen >= _EXPECTED:
            starts, seen = [*starts, k], 0.0
        seen += float(one)
    return starts if seen >= _EXPECTED else starts[:-1]


def _triples(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return places of outputs, of their next ones, and of ones 25 to 48 later on that side;
    all of them different.
    """
    starts = _BLOCK * np.arange(size // _BLOCK)[:, None]
    k = np.arange(_PAIRS)
    first = (starts + 2 * k).ravel()
    return first, first + 1, (starts + 2 * _PAIRS + k).ravel()


def _first_numbers(draws: Draws, size: int) -> Draws:
    """Return the first of these outputs with a copy of their first numbers."""
    rows = slice(min(size, len(draws)))
    first = draws.select(rows)
    first.numbers = first.numbers[:, :_COLUMNS].copy()
    return first


def _looked_at(draws: Draws) -> list[tuple[str, NDArray[Any]]]:
    """Return what is looked at: the whole output and its first numbers, but for those that
    never fall or never rise (clocks and counters).
    """
    columns: list[tuple[str, NDArray[Any]]] = [("the output", first_prints(draws))]
    for j in range(min(draws.numbers.shape[1], _COLUMNS)):
        before, after = draws.numbers[:-1, j], draws.numbers[1:, j]
        if (after < before).any() and (after > before).any():
            columns.append((f"number {j} of the output", draws.numbers[:, j]))
    return columns


def _shown(draws: Draws) -> str:
    label, numbers = draws.coded.table[draws.coded.codes[0]], draws.numbers[0].tolist()
    shown = f"{label} {numbers[0] if len(numbers) == 1 else numbers}" if numbers else f"{label}"
    return shown if len(shown) <= 80 else shown[:80] + "..."


__all__ = [
    "EventWatch",
    "InvalidRun",
    "Watch",
    "log_chance_of_runs",
    "refuse_constant",
    "require_even_batches",
    "stays",
]
