"""Attacks on ``bernoulli_mean``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from dpverify import Abstained, Adjacency, ApproxDP, BernoulliMean, GaussianDP
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.grid import Count, ingest
from dpverify.plans import NoNoise, Plan, Stage
from dpverify.plans.law import Law
from dpverify.rates import (
    Curve,
    Empirical,
    Exponent,
    Instance,
    Population,
    RateClaim,
    RateFault,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_FAR, _TINY, _NAN = 1e308, 5e-324, float("nan")


def _fault(name: str, mechanism: BernoulliMean, plan: Plan) -> Fault:
    def law(data: ArrayLike) -> Law:
        return Law(plan, ingest(data, mechanism.domain), mechanism.adjacency, mechanism.domain)

    return Fault(name, law)


def _public_number(mechanism: BernoulliMean) -> Fault:
    """Plant the plan of the other adjacency, which releases the exact number of records."""
    plan = (Stage("count", Count(), NoNoise()), *mechanism.fixed_plan)
    return _fault("releases the number without noise", mechanism, plan)


def _unpaid_number(mechanism: BernoulliMean) -> Fault:
    """Add noise for the sum alone: for the sensitivity 1 instead of sqrt(2)."""
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
        quick_trials=100_000,
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
        quick_trials=100_000,
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


def _answers(setting: Mapping[str, Any]) -> BernoulliMean:
    return BernoulliMean(
        adjacency=setting["adjacency"], noise_multiplier=Fraction(setting["noise_multiplier"])
    )


def _lean(mechanism: BernoulliMean, transcript: Any) -> Any:
    estimate = mechanism.estimate(transcript)
    if isinstance(estimate, Abstained):
        return estimate
    return dataclasses.replace(estimate, value=2 * estimate.value - 1)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    own: dict[str, Any] = {
        "instance": Instance(kind="bernoulli", parameters={"share": 0.3}),
        "target": Empirical(lambda mechanism, data: float(data.mean())),
        "curve": Curve(function="expected_error", arguments=("parameters", "n", "share")),
        "facts": lambda setting, data, truth: {"share": truth},
        "repeats": 3000,
    }
    return RateClaim(
        name=name,
        mechanism=_answers,
        variable=variable,
        values=values,
        error=lambda estimate, truth: abs(estimate.value - truth),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        faults=(RateFault(name="forgets that the sum runs from -n to n", estimate=_lean),),
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (100, 300, 1000, 3000, 10_000),
        setting={"noise_multiplier": 2, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.05),
        source="K19: O(1 / (n epsilon)) from noise",
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/2", "2", "8", "32"))),
        setting={"n": 1000, "adjacency": REPLACE},
        exponent=Exponent(value=1, tolerance=0.05),
        source="DRS22, the Gaussian mechanism",
    ),
    _rate(
        "privacy-for-free",
        "n",
        (75, 1000, 3000, 9000),
        setting={"noise_multiplier": 6, "adjacency": REPLACE},
        instance=Instance(kind="bernoulli", parameters={"share": 0.5}),
        target=Population(lambda mechanism, setting: 0.5),
        facts=lambda setting, data, truth: {
            "share": truth,
            "sampling": math.sqrt(truth * (1 - truth) / setting["n"]),
        },
        curve=Curve(
            function="expected_error", arguments=("parameters", "n", "share"), beside="sampling"
        ),
        exponent=Exponent(value=-0.5, tolerance=0.1, start=1000, drift=1),
        repeats=6000,
        source="K19: O(1 / alpha^2) records for sampling alone, whatever the noise, from there on",
    ),
)
