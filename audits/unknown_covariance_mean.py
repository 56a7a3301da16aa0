"""Attacks on ``unknown_covariance_mean``.

No pair moves all stages most at once, so three configurations give most of mu^2 to different
stages, which their pairs and generic faults attack. Two faults are planted elsewhere: missing
noise on the agreement, a small part of the center's budget, where ``refined_mean`` is attacked;
and missing noise on a report, whose loss has no Gaussian part, in ``large_variances``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpverify import Adjacency, UnknownCovarianceMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added
from dpverify.audit.faults import plan_fault
from dpverify.grid import ingest
from dpverify.grid.groups import GroupBuckets
from dpverify.grid.levels import LevelCounts
from dpverify.mechanisms.unknown_covariance_mean import MEAN_PART
from dpverify.plans import Plan
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from . import large_variances
from ._group_votes import pairs_replaced
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_VOTES, _MEAN = (
    frozenset({"largest", "others"}),
    frozenset({"mean/agreement", "mean/mean", "mean/sum and count"}),
)

_QUICK = 12_000

# --- planted faults -----------------------------------------------------------------------------


def _one_group(mechanism: UnknownCovarianceMean) -> Fault:
    """Plant, under replace, noise for the group that a record enters and none for the one it
    leaves."""

    def change(stage: Any) -> Any:
        groups = isinstance(stage.query, (LevelCounts, GroupBuckets))
        return rescaled_stage(stage, Fraction(1, 2)) if groups else stage

    return plan_fault("pays for one group alone", mechanism, _changed(mechanism, change))


def _exact_sum(mechanism: UnknownCovarianceMean) -> Fault:
    """Release the votes for the other columns' sum exactly."""

    def change(stage: Any) -> Any:
        if stage.name != "others":
            return stage
        return dataclasses.replace(stage, noise=stage.noise.dropped())

    return plan_fault("the others' sum without noise", mechanism, _changed(mechanism, change))


def _own_variances(mechanism: UnknownCovarianceMean) -> Fault:
    """Take M from the records' own variances, so that each record changes the units of all
    others."""

    def law(data: ArrayLike) -> FaultyLaw:
        records = ingest(data, mechanism.domain)
        some = np.clip(records, -1e9, 1e9) if len(records) else np.zeros((1, mechanism.d))
        spread = some.std(axis=0).max()
        bucket = int(np.clip(np.log2(max(spread / float(mechanism.cell), 1.0)), 0, 40))

        *before, _ = mechanism.fixed_plan
        row = (bucket, *([0] * mechanism.reports), bucket)
        plan: Plan = (*before, mechanism.mean_for(row).part(MEAN_PART))
        return FaultyLaw(plan, records, mechanism.adjacency, mechanism.domain)

    return Fault("M from the data's own variances", law)


def _changed(mechanism: UnknownCovarianceMean, change: Any) -> Plan:
    return with_stages(mechanism.fixed_plan, change)


# --- configurations -----------------------------------------------------------------------------


def _made(adjacency: Adjacency, multiplier: str, **own: Any) -> UnknownCovarianceMean:
    return UnknownCovarianceMean(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), tail=Fraction(1, 10**6), **own
    )


def _voting() -> Configuration:
    """Attack the two votes under replace, with nearly all of mu^2; for one column both votes are
    the same."""
    mechanism = _made(
        REPLACE,
        "3/5", d=1, n_max=1600, reports=1, reach="1/1000",
        votes_share="9/10", ladder_share="1/50", center_share="1/50",
    )  # fmt: skip
    query = stages_of(mechanism.fixed_plan)[0].query
    assert isinstance(query, GroupBuckets)
    return Configuration(
        name="votes",
        mechanism=mechanism,
        pairs=pairs_replaced(query),
        faults=[_one_group(mechanism), _exact_sum(mechanism)],
        target_stages=_VOTES,
        quick_trials=_QUICK,
    )


def _climbing() -> Configuration:
    """Attack one report that has nearly all of mu^2.

    Friends are too few for a mean; the ladder has as many groups as vote, so that the votes find
    its level.
    """
    mechanism = _made(
        ADD,
        "1/3", d=3, n_max=600, groups=300, reports=1, depth=2, reach="1/1000",
        votes_share="1/20", ladder_share="17/20", center_share="1/50",
    )  # fmt: skip
    return Configuration(
        name="ladder",
        mechanism=mechanism,
        pairs=large_variances.pairs_of(mechanism)[:3],
        faults=[large_variances.by_index(mechanism)],
        target_stages=frozenset({"report 1"}),
        elsewhere=frozenset({"report 1"}),
        quick_trials=_QUICK,
    )


def _averaging() -> Configuration:
    """Attack center and sum, which have nearly all of mu^2, about half each; friends reach only
    as far as the radius."""
    n = 4000
    mechanism = _made(
        ADD,
        "3/5", d=1, n_max=n, reports=1, reach="49/50", cell=1,
        votes_share="1/25", ladder_share="1/50", center_share="47/100",
    )  # fmt: skip
    zeros = np.zeros((n, 1))
    start = (0, *([mechanism.ladder().asked] * mechanism.reports), 0)  # no report
    mean = mechanism.mean_for(start)
    scale = mechanism.rough_for(start).matrix[0] ** 0.25
    edge = 0.9999 * float(mean.radius) * scale
    least = mean.minimum_n(beta="1/2")
    pairs: tuple[NeighboringPair, ...] = (
        added("a friend at the end of its reach", zeros, [edge]),
        added("a stranger", zeros, [9 * edge]),
        added("about to abstain", zeros[:least], [9 * edge]),
        added("an outlier beside a crowd far from zero", zeros + 50 * edge, [1e8]),
    )
    return Configuration(
        name="mean",
        mechanism=mechanism,
        pairs=pairs,
        faults=[_own_variances(mechanism)],
        target_stages=_MEAN,
        elsewhere=frozenset({"mean/agreement"}),
        quick_trials=_QUICK,
    )


_TRACED = UnknownCovarianceMean(
    adjacency=ADD,
    noise_multiplier=Fraction(10, 9),
    d=660,
    n_max=150,
    reports=1,
    tail=Fraction(1, 10**7),
    votes_share=Fraction(1, 4),
    ladder_share=Fraction(1, 50),
    center_share=Fraction(1, 5),
)

CONFIGURATIONS = (_voting(), _climbing(), traced(_averaging(), _TRACED, n=150, columns=660))

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, **own: Any) -> UnknownCovarianceMean:
    """Build an instance in which two groups vote and surface together; a report has noise of
    scales 1/8 and 1/4."""
    given: dict[str, Any] = {
        "noise_multiplier": Fraction(1, 32 if adjacency is ADD else 64),
        "n_max": 4,
        "groups": 2,
        "reports": 1,
        "depth": 2,
        "tail": Fraction(1, 20),
        "votes_share": Fraction(1, 8),
        "ladder_share": Fraction(1, 4),
        "center_share": Fraction(1, 4),
        "cell": Fraction(1),
    }
    return UnknownCovarianceMean(adjacency=adjacency, **given | own)


_LINE = (0.0, 1.0) * 20

SMALL = (
    SmallInstance(name="line, add-remove", mechanism=_small(ADD, d=1), data=_LINE),
    SmallInstance(name="line, replace", mechanism=_small(REPLACE, d=1), data=_LINE),
)

# --- rates --------------------------------------------------------------------------------------


def _unknown(setting: Mapping[str, Any]) -> UnknownCovarianceMean:
    """Build the mechanism with a fixed ``n_max``, so that the radius does not depend on n."""
    return UnknownCovarianceMean(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        d=setting["d"],
        n_max=6000,
        reports=setting.get("reports", setting.get("count", 3)),
        tail=Fraction(1, 10**7),
    )


_ALIKE = Instance(kind="gaussian", parameters={"mean": 3.0, "deviation": "deviation"})
_ALIKE_CURVE = Curve(function="noise_error", arguments=("parameters", "n", "deviation", "power"))
_FEW = Instance(
    kind="few_large", parameters={"mean": 3.0, "deviation": "deviation", "count": "count"}
)
_FEW_CURVE = Curve(function="noise_few_large", arguments=("parameters", "n", "deviation", "count"))
_FALLING = Instance(
    kind="geometric", parameters={"mean": 3.0, "deviation": "deviation", "ratio": "ratio"}
)
_FALLING_CURVE = Curve(
    function="noise_geometric", arguments=("parameters", "n", "deviation", "ratio")
)
_FIXED: dict[str, Any] = {
    "n": 4000,
    "deviation": 1.4,
    "noise_multiplier": Fraction(1, 4),
    "adjacency": ADD,
}


def _rate(
    name: str,
    variable: str,
    values: tuple[Any, ...],
    instance: Instance = _ALIKE,
    curve: Curve = _ALIKE_CURVE,
    **claimed: Any,
) -> RateClaim:
    """Claim the distance for normal columns about 3, with variances in the middle of a level."""
    claimed.setdefault("target", Empirical(lambda mechanism, data: data.mean(axis=0)))
    return RateClaim(
        name=name,
        mechanism=_unknown,
        variable=variable,
        values=values,
        instance=instance,
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="DJYZZ24, Algorithm 2: a mean of unknown covariance",
        curve=curve,
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (4000, 8000, 16_000),
        setting={
            "d": 8,
            "deviation": 1.4,
            "power": 0,
            "noise_multiplier": Fraction(1, 4),
            "adjacency": ADD,
        },
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=300,
    ),
    _rate(
        "noise-against-its-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/16", "1/8", "1/4"))),
        setting={"n": 8000, "d": 8, "deviation": 1.4, "power": 0, "adjacency": REPLACE},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=300,
    ),
    _rate(  # beside what no private estimate can go below, a fifth of it; sampling included
        "population-error",
        "n",
        (3000,),
        curve=Curve(function="expected_error", arguments=("parameters", "n", "deviation", "power")),
        setting={
            "d": 48,
            "deviation": 1.4,
            "power": 0,
            "noise_multiplier": Fraction(2),
            "adjacency": ADD,
        },
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        lower=Curve(function="lower_bound", arguments=("parameters", "n", "deviation", "power")),
        repeats=200,
    ),
    _rate(  # three large columns and others of 1 / d: the noise does not follow the dimension
        "noise-against-d, few large columns",
        "d",
        (8, 36, 144),
        _FEW,
        _FEW_CURVE,
        setting={**_FIXED, "count": 3},
        exponent=Exponent(value=0, tolerance=0.1),
        repeats=200,
    ),
    _rate(  # variances that fall by factors of 4: neither does it here
        "noise-against-d, geometric variances",
        "d",
        (8, 36, 144),
        _FALLING,
        _FALLING_CURVE,
        setting={**_FIXED, "ratio": 0.5, "reports": 5},
        exponent=Exponent(value=0, tolerance=0.1),
        repeats=200,
    ),
    _rate(  # but it does the number of large columns
        "noise-against-large-columns",
        "count",
        (4, 8, 16),
        _FEW,
        _FEW_CURVE,
        setting={**_FIXED, "d": 48},
        repeats=200,
    ),
)
