"""Rates as units of work: points and planted faults are measured apart, then judged together.

This module joins the specs' curves and the claims about errors, by the names of functions.
Measurements are written down point by point, under a key of everything that they depend on, so
that a stopped run can be resumed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import mpmath as mp

from dpverify.rates import (
    Curve,
    Empirical,
    RateClaim,
    Releases,
    Row,
    caught,
    enough,
    faults_of,
    looks,
    row_of,
)
from dpverify.rates.measuring import SHOWN_ALPHA
from dpverify.suite.entries import Entry, SuiteError
from dpverify.suite.events import Judgment, Outcome, UnitFinished, finished
from dpverify.suite.judges import TOTAL_ALPHA, rests_on, seed_of
from dpverify.suite.refinement import exact_records
from dpverify.suite.reporting import PART
from dpverify.suite.resuming import OF_RATES, key_of
from dpverify.suite.trees import Suite, load
from dpverify.suite.verdicts import Run, curves_of, judge

THOROUGH = 4
"""Factor on the number of releases in a full run, compared with a quick run."""
_DIGITS = 30


@dataclass(frozen=True, slots=True)
class RatePart:
    """Piece of a rate as plain data: the point of an index, or a fault by name."""

    rate: str
    index: int = 0
    fault: str = ""
    kind: str = PART

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.rate} {self.fault or f'point {self.index}'}"


class Named(Protocol):
    """Piece of work that knows its rate."""

    @property
    def rate(self) -> str:
        """Name of the rate."""


@dataclass(frozen=True, slots=True)
class RateOptions:
    """Options that the parts of one run share."""

    suite: Path | None = None
    seed: int = 0
    quick: bool = False

    def replay(self, part: Named) -> str:
        """Return the command that does this part's rate again."""
        suite = f" --suite {shlex.quote(str(self.suite))}" if self.suite is not None else ""
        quick = " --quick" if self.quick else ""
        return f"dpverify rates {part.rate} --seed {self.seed}{quick}{suite}"

    def repeats(self, claim: RateClaim) -> int:
        """Return the number of releases at each value."""
        return claim.repeats * (1 if self.quick else THOROUGH)


def rate_names(suite: Suite, names: Sequence[str]) -> list[str]:
    """List the rates that these names, of mechanisms or rates, select; no names: all."""
    return selected(suite.rates, names)


def selected(keys: Iterable[str], names: Sequence[str]) -> list[str]:
    """List those of the keys "mechanism:name" that are among these names, or whose mechanism
    is; no names: all.
    """
    return [key for key in keys if not names or any(n in (key, key.split(":")[0]) for n in names)]


def parts_of(rate: str, claim: RateClaim) -> list[RatePart]:
    """List the parts: every point, every planted fault."""
    points = [RatePart(rate, index) for index in range(len(claim.values))]
    return [*points, *(RatePart(rate, fault=fault.name) for fault in faults_of(claim))]


class RateJudge:
    """Judge of a rate whose parts arrive in any order: the rate is judged with the last of them."""

    def __init__(self, suite: Suite, rate: str, options: RateOptions) -> None:
        self._claim = suite.rate(rate)[1]
        self.parts: Sequence[RatePart] = parts_of(rate, self._claim)
        alpha = _alpha(suite, self._claim)
        self._run = Run(rate, options.seed, alpha, options.replay(RatePart(rate)))
        self._done = list[UnitFinished]()

    def take(self, done: UnitFinished) -> Iterator[UnitFinished]:
        """Take a finished part; yield the rate if it was the last one."""
        self._done.append(done)
        if len(self._done) == len(self.parts):
            yield judge(self._claim, self._done, self._run)


# --- measuring ----------------------------------------------------------------------------------


def run_part(part: RatePart, options: RateOptions) -> UnitFinished:
    """Measure a point, or look for a fault."""

    def measured() -> Judgment:
        suite = loaded(options.suite)
        with mp.workdps(_DIGITS):
            data = _fault_data(suite, part, options) if part.fault else _point(suite, part, options)
        return _measured(part, {"key": key_of_part(suite, part, options), **data})

    return finished(PART, part.name, options.replay(part), measured)


def known_point(part: RatePart, options: RateOptions, data: Mapping[str, Any]) -> UnitFinished:
    """Return a part that an earlier run measured, from its data."""
    return finished(PART, part.name, options.replay(part), partial(_measured, part, data))


def _measured(part: RatePart, data: Mapping[str, Any]) -> Judgment:
    data = {**data, "rate": part.rate, "index": part.index, "fault": part.fault}
    return Judgment(Outcome.HELD, "MEASURED", "", data=data)


@cache
def loaded(root: Path | None) -> Suite:
    """Return the suite, loaded once a process."""
    return load(root)


def _alpha(suite: Suite, claim: RateClaim) -> float:
    """Divide TOTAL_ALPHA over all rates and experiments of the suite and all intervals of this
    one.
    """
    return TOTAL_ALPHA / (suite.measured * claim.intervals)


def _point(suite: Suite, part: RatePart, options: RateOptions) -> dict[str, Any]:
    """Measure with few releases first, and with more as long as the claim stays open."""
    claim, rows = _claim(suite, part), _Rows(suite, part, options)
    alpha, row, slope = _alpha(suite, claim), None, rows.slope(part.index)
    *early, last = looks(options.repeats(claim), claim.fewest)
    for look in early:
        with suppress(ValueError):  # so few releases give no interval
            measured = partial(rows, part.index, repeats=look.repeats, alpha=look.share * alpha)
            row, surer = measured(), measured(shown=look.shown)
            if enough(claim, part.index, row, slope, surer=surer, sure=look.sure):
                break
    else:
        row = rows(part.index, repeats=last.repeats, alpha=last.share * alpha)
    assert row is not None
    return {**row.point.to_json(), **curves_of(row)}


class _Rows:
    """Rows of a part by index, each from as many releases as are asked for."""

    def __init__(self, suite: Suite, part: RatePart, options: RateOptions) -> None:
        self._entry, self._claim = suite.rate(part.rate)
        fault = next((f for f in faults_of(self._claim) if f.name == part.fault), None)
        seed = seed_of(part.rate, options.seed)
        self._known = dict[tuple[int, Curve], float]()
        self._releases = cache(lambda at: Releases(self._claim, at, seed=seed, fault=fault))

    def __call__(
        self, index: int, *, repeats: int, alpha: float, shown: float = SHOWN_ALPHA
    ) -> Row:
        point = self._releases(index).point(repeats, alpha, shown)
        return row_of(self._claim, point, lambda curve, at: self._at(index, curve, at.facts))

    def slope(self, index: int) -> float | None:
        """Compute the slope of the claim's curve from end to end of its regime; None if the
        curve depends on the drawn data, or the index is not of the regime.
        """
        claim, curve = self._claim, self._claim.curve
        if claim.exponent is None or curve is None or index not in claim.regime:
            return None
        if claim.facts is not None or "records" in curve.arguments:
            return None
        ends = claim.regime[0], claim.regime[-1]
        heights = [math.log(self._at(i, curve, {})) for i in ends]
        values = [math.log(claim.values[i]) for i in ends]
        return (heights[1] - heights[0]) / (values[1] - values[0])

    def _at(self, index: int, curve: Curve, facts: Mapping[str, float]) -> float:
        """Return the curve at a value, computed once: it takes seconds where it is an integral."""
        if (index, curve) not in self._known:
            height = _predicted(self._entry, self._claim, index, curve, facts)
            self._known[index, curve] = height
        return self._known[index, curve]


def _claim(suite: Suite, part: RatePart) -> RateClaim:
    """Return the part's claim. Raises SuiteError if it is about another mechanism than its file."""
    entry, claim = suite.rate(part.rate)
    made = type(claim.mechanism(claim.at(part.index)))
    if made is not entry.mechanism:
        raise SuiteError(f"audits/{entry.name}.py: the rate {claim.name!r} is of a {made.__name__}")
    return claim


def _fault_data(suite: Suite, part: RatePart, options: RateOptions) -> dict[str, Any]:
    """Look for the fault with few releases first."""
    claim = _claim(suite, part)
    fault = next(one for one in faults_of(claim) if one.name == part.fault)
    row, repeats = _Rows(suite, part, options), options.repeats(claim)
    by = caught(claim, fault, row, repeats=repeats, alpha=_alpha(suite, claim))
    return {"caught": bool(by), "by": by}


def _predicted(
    entry: Entry, claim: RateClaim, index: int, curve: Curve, facts: Mapping[str, float]
) -> float:
    """Compute the spec's function of this name, at a point."""
    function = getattr(entry.spec, curve.function, None)
    if not callable(function):
        raise SuiteError(f"spec/{entry.name}.py has no function {curve.function}")
    setting = claim.at(index)
    mechanism = claim.mechanism(setting)
    known: dict[str, Any] = {**setting, **facts, "parameters": mechanism.parameters}
    if "records" in curve.arguments:
        if not isinstance(claim.target, Empirical):
            raise SuiteError(f"{claim.name}: there are no records to give to {curve.function}")
        known["records"] = exact_records(claim.instance.data(setting), mechanism.domain)
    try:
        arguments = [known[name] for name in curve.arguments]
        beside = known[curve.beside] if curve.beside else 0.0
        per = known[curve.per] if curve.per else 1
    except KeyError as missing:
        raise SuiteError(
            f"{claim.name}: nothing is called {missing} for {curve.function}; there are "
            f"{', '.join(sorted(known))} and records"
        ) from None
    return math.hypot(float(function(*arguments)), float(beside)) / float(per)


# --- resuming -----------------------------------------------------------------------------------


def key_of_part(suite: Suite, part: RatePart, options: RateOptions) -> str:
    """Hash everything that a part's result depends on: code, claim, instance, seed, size."""
    _, claim = suite.rate(part.rate)
    setting = {name: str(value) for name, value in claim.at(part.index).items()}
    text = [
        part.rate,
        part.fault,
        str(sorted(setting.items())),
        str(claim.instance),
        str(claim.metric),
        str(options.repeats(claim)),
        str(options.seed),
        repr(_alpha(suite, claim)),
        rests_on(suite, part.rate),
    ]
    return key_of(suite.root, OF_RATES, text)
