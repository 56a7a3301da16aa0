"""Planted faults: errors that a measurement must be able to detect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

from dpverify.grid import ingest
from dpverify.plans import Law, Mechanism, Plan
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.privacy.numbers import Floats
from dpverify.rates.claims import Exponent, RateClaim, RateFault
from dpverify.rates.judging import Finding, Row, compare, table_of

LOST = Fraction(13, 10)
"""Factor of a constant that was lost on the way from the theory to the code."""
_DRIFT = 2.0
"""Number of tolerances by which the slope is off in a fault of the exponent."""
_FEWER, _STEP = math.sqrt(2), 1.2  # factors between early stages: as a rule, and the least one
_EARLY, _MOST_EARLY = 1 / 32, 14
"""Share of alpha of each stage with fewer releases than all, and the largest number of these."""
_NOISIER = frozenset({"noise_multiplier", "d"})
"""Variables at whose last value a lost constant is looked for first."""
_MORE = (1, 0.4), (math.sqrt(2), 0.2), (2, 0.2), (4, 0.2)
"""Stages after the first looks: the factor on the number of all releases, and the share of the
remaining alpha. Only the last one is about all values.
"""


class Measured(Protocol):
    """Measurement of a planted fault."""

    def __call__(self, index: int, *, repeats: int, alpha: float) -> Row:
        """Return the point of this index by so many releases, with its curves."""


def faults_of(claim: RateClaim) -> list[RateFault]:
    """Return the generic faults that this claim says something about, then its own."""
    faults = []
    if claim.curve is not None or claim.upper is not None:
        # beside sampling error the fault shows where there is most noise, and first where errors
        # of many coordinates vary least
        more = claim.shows_last or claim.variable in _NOISIER
        faults.append(replace(noise_times(LOST), grows=more))
    if claim.exponent is not None:
        faults.append(_drifting(claim, claim.exponent))
    return [*faults, *claim.faults]


def noise_times(factor: Fraction) -> RateFault:
    """Build the fault that multiplies the noise of every stage by this factor."""

    def law(mechanism: Mechanism[Any], data: Floats, value: Any) -> Law:
        return faulty_law(mechanism, data, rescaled(mechanism.fixed_plan, factor))

    return RateFault(name=f"noise x {float(factor):g}", law=law)


def _drifting(claim: RateClaim, exponent: Exponent) -> RateFault:
    """Build the fault whose noise is right at the regime's start and grows from there on."""
    drift = _DRIFT * exponent.tolerance if exponent.drift is None else exponent.drift
    first = float(claim.values[claim.regime[0]])

    def law(mechanism: Mechanism[Any], data: Floats, value: Any) -> Law:
        factor = Fraction((float(value) / first) ** drift).limit_denominator(1 << 20)
        return faulty_law(mechanism, data, rescaled(mechanism.fixed_plan, factor))

    return RateFault(name=f"noise x {claim.variable}^{drift:g}", law=law, grows=True)


def faulty_law(mechanism: Mechanism[Any], data: Floats, plan: Plan) -> Law:
    """Return the law of another plan on the same data; it may have no claim at all."""
    records = ingest(data, mechanism.domain)
    return FaultyLaw(plan, records, mechanism.adjacency, mechanism.domain)


def rescaled(plan: Plan, factor: Fraction) -> Plan:
    """Return the plan with the scale of every noise multiplied, where it has one."""
    return with_stages(plan, lambda stage: rescaled_stage(stage, factor))


def caught(
    claim: RateClaim,
    fault: RateFault,
    row: Measured,
    *,
    repeats: int,
    alpha: float,
) -> str:
    """Return the name of a comparison that is refuted under a planted fault; empty if none is.

    The search has stages: few releases at one value first, since most faults are coarse; then
    up to twice as many as the claim says, since more at one value take less time than as many at
    another one; and four times as many, at all values, before a fault counts as missed. All stages
    together refute a true claim with probability at most alpha an interval.
    """
    *early, (most, share) = stages(repeats, claim.fewest)
    order = list(range(len(claim.values)))[:: -1 if fault.grows else 1]
    one = order if claim.curve is None and claim.upper is None else order[:1]
    for releases, own in early:
        with suppress(ValueError):  # so few releases give no interval or slope; more do
            measured = partial(row, repeats=releases, alpha=own * alpha)
            if refuted := _refuted(claim, measured, one):
                return refuted
    return _refuted(claim, partial(row, repeats=most, alpha=share * alpha), order)


def stages(repeats: int, fewest: int) -> Iterator[tuple[int, float]]:
    """Yield the releases at a value in each stage, at least ``fewest``, and the stage's share of
    alpha.
    """
    sizes = [repeats]
    while sizes[0] >= _STEP * fewest and len(sizes) <= _MOST_EARLY:
        sizes.insert(0, max(fewest, int(sizes[0] / _FEWER)))
    yield from ((size, _EARLY) for size in sizes[:-1])
    left = 1 - _EARLY * (len(sizes) - 1)
    yield from ((round(more * repeats), left * share) for more, share in _MORE)


def _refuted(claim: RateClaim, row: Callable[[int], Row], order: Sequence[int]) -> str:
    """Test value by value until a comparison is refuted; then the slope, if these are all
    values.
    """
    rows = dict[int, Row]()
    for index in order:
        rows[index] = row(index)
        for comparison in compare(claim, rows[index]):
            if comparison.finding is Finding.REFUTED:
                return comparison.what
    if len(rows) < len(claim.values):
        return ""
    refuted = table_of(claim, [rows[index] for index in sorted(rows)]).findings(Finding.REFUTED)
    return refuted[0] if refuted else ""
