"""Attacks on ``bernoulli_mean``."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from dpverify import Adjacency, ApproxDP, BernoulliMean, GaussianDP
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.grid import Count, ingest
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.law import Law

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_FAR, _TINY, _NAN = 1e308, 5e-324, float("nan")


def _fault(name: str, mechanism: BernoulliMean, plan: Plan) -> Fault:
    def law(data: ArrayLike) -> Law:
        return Law(plan, ingest(data, mechanism.domain), mechanism.adjacency, mechanism.domain)

    return Fault(name, law)


def _public_number(mechanism: BernoulliMean) -> Fault:
    """The plan of the other adjacency: the number of records as it is."""
    plan = (Stage("count", Count(), NoNoise()), *mechanism.fixed_plan)
    return _fault("releases the number without noise", mechanism, plan)


def _unpaid_number(mechanism: BernoulliMean) -> Fault:
    """Noise for the sum alone, 1 instead of sqrt(2)."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    noise = stage.noise.rescaled(Fraction(70710678, 10**8))
    assert noise is not None
    return _fault(
        "does not pay for the number", mechanism, (dataclasses.replace(stage, noise=noise),)
    )


_NUMBER = BernoulliMean.for_budget(GaussianDP(1), adjacency=ADD, at_least=5, nonfinite="replace")

CONFIGURATIONS = (
    Configuration(
        name="answers",
        mechanism=_NUMBER,
        pairs=(
            added("a one enters", [0.0] * 20, 1.0),
            added("everything shifts by a place", [1.0, 0.0] * 10, 1.0),
            added("a zero enters, around the least number", [0.0] * 4, 0.0, at=4),
            added("nobody against somebody", [], 1.0),
            added("an outlier enters", [1.0] * 20, -_FAR, at=10),
            added("a NaN enters", [1.0] * 5, _NAN),
        ),
        faults=(_public_number(_NUMBER), _unpaid_number(_NUMBER)),
    ),
    Configuration(
        name="answers",
        mechanism=BernoulliMean.for_budget(ApproxDP(1, "1e-6"), adjacency=REPLACE),
        pairs=(
            replaced("a zero by a one", [0.0] * 20, 1.0),
            replaced("the only answer", [1.0], 0.0),
            replaced("an outlier by the opposite one", [_FAR] * 20, -_FAR, at=19),
            replaced("around a quarter", [0.25] * 5, 0.25000000000000006, at=2),
            replaced("a zero by a subnormal", [-0.0] * 5, _TINY),
        ),
    ),
)


def _small(adjacency: Adjacency, multiplier: str) -> Any:
    return BernoulliMean(adjacency=adjacency, noise_multiplier=Fraction(multiplier))


SMALL = (
    SmallInstance(
        name="three answers, add-remove", mechanism=_small(ADD, "3/2"), data=(1.0, 0.0, 1.0)
    ),
    SmallInstance(name="nobody, add-remove", mechanism=_small(ADD, "1/3"), data=()),
    SmallInstance(name="two answers, replace", mechanism=_small(REPLACE, "2"), data=(0.25, 7.0)),
)
