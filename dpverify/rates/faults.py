"""Planted faults: what a measurement of an error must be able to see."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpverify.grid import ingest
from dpverify.plans import Law, Mechanism, Plan
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.plan import rescaled_stage, with_stages
from dpverify.privacy.numbers import Floats
from dpverify.rates.claims import Exponent, RateClaim, RateFault

LOST = Fraction(13, 10)
"""The factor of a constant that was lost on the way from the theory to the code."""
_DRIFT = 2.0
"""How many tolerances the slope is off in a fault of the exponent."""


def faults_of(claim: RateClaim) -> list[RateFault]:
    """The generic faults that this claim says something about, then its own."""
    found = []
    if claim.curve is not None or claim.upper is not None:
        found.append(noise_times(LOST))
    if claim.exponent is not None:
        found.append(_drifting(claim, claim.exponent))
    return [*found, *claim.faults]


def noise_times(factor: Fraction) -> RateFault:
    """The noise of every stage is so many times what it should be."""

    def law(mechanism: Mechanism[Any], data: Floats, value: Any) -> Law:
        return faulty_law(mechanism, data, rescaled(mechanism.fixed_plan, factor))

    return RateFault(name=f"noise x {float(factor):g}", law=law)


def _drifting(claim: RateClaim, exponent: Exponent) -> RateFault:
    """Noise that is right at the regime's start and grows from there on."""
    drift = _DRIFT * exponent.tolerance if exponent.drift is None else exponent.drift
    first = float(claim.values[claim.regime[0]])

    def law(mechanism: Mechanism[Any], data: Floats, value: Any) -> Law:
        factor = Fraction((float(value) / first) ** drift).limit_denominator(1 << 20)
        return faulty_law(mechanism, data, rescaled(mechanism.fixed_plan, factor))

    return RateFault(name=f"noise x {claim.variable}^{drift:g}", law=law)


def faulty_law(mechanism: Mechanism[Any], data: Floats, plan: Plan) -> Law:
    """The law of another plan on the same data; it may have no claim at all."""
    records = ingest(data, mechanism.domain)
    return FaultyLaw(plan, records, mechanism.adjacency, mechanism.domain)


def rescaled(plan: Plan, factor: Fraction) -> Plan:
    """The plan with the scale of every noise multiplied, where it has one."""
    return with_stages(plan, lambda stage: rescaled_stage(stage, factor))
