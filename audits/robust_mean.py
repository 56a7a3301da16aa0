"""Attacks on ``robust_mean``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid.image_view import Images
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim
from dpverify.transformations import SoftMean

from . import _robust_inner, _robust_plane, _robust_rounds, _robust_votes
from ._corruption import DH20
from ._robust_faults import exact_number, occupied, query_of, unmasked
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

# --- pairs
# -------------------------------------------------------------------------------------- In
# deviations the radius of friends is 1 and that of the ball a little more than 0.99: a record
# there is a friend of a crowd at 0, and moves the mean, the moments, a bin and the sum by as
# much as any.

_RIM = 0.985
_FAR = 8e307
_N = 16_000
_SHARES = tuple(map(Fraction, ("0.26", "0.21", "0.31", "0.22")))


def _pairs(least: int) -> tuple[NeighboringPair, ...]:
    """List pairs; ``least`` is so many friends that the first stage is about to abstain."""
    crowd = [0.0] * _N
    return (
        added("a friend on the rim of the ball", crowd, _RIM),
        added("a record at nearly twice the radius", crowd, 1.9),
        added("about to abstain", crowd[:least], _FAR),
    )


def _attacked(name: str) -> Configuration:
    """Attack every stage with about a quarter of mu^2, so that a fault in each shows."""
    mechanism = RobustMean.for_budget(
        ApproxDP(16, "1e-6"),
        adjacency=ADD,
        deviations=(1.0,),
        radius=1,
        record_radius=0.99,
        n_max=_N,
        gamma=0,
        directions=1,
        bins=2,
        shares=_SHARES,
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=_pairs(mechanism.minimum_n(beta="1/2")),
        faults=[fault(mechanism) for fault in (unmasked, occupied, exact_number)],
        quick_trials=120_000,
        first_stage=(added("a stranger moves the agreement by 5", [0.0] * _N, 9.0),),
    )


# --- a soft core, under replace -----------------------------------------------------------------


class Steep(SoftMean):
    """A mean whose weights reach 1 for half as many friends beyond half of all; the claimed
    reach is unchanged."""

    __slots__ = ()

    def weighted_sum(self, images: Images) -> tuple[list[int], int]:
        """Sum the records by the steeper weights."""
        return images.soft_sum(_half_as_far(self.full))


def _half_as_far(full: Fraction) -> Fraction:
    return (full + Fraction(1, 2)) / 2


def _steeper(mechanism: RobustMean) -> Fault:
    """Plant the steeper weights in both stages."""
    query = query_of(mechanism, "mean")
    parts = (getattr(query, field.name) for field in dataclasses.fields(query))
    agreement = query_of(mechanism, "agreement")
    wrong = {
        "mean": Steep(*parts),
        "agreement": dataclasses.replace(agreement, full=_half_as_far(query.full)),
    }
    plan = with_stages(
        mechanism.fixed_plan,
        lambda one: dataclasses.replace(one, query=wrong.get(one.name, one.query)),
    )
    return plan_fault("weights twice as steep as claimed", mechanism, plan)


_MANY = 4000


def _three(side: int) -> list[float]:
    """Place ``side`` records on either side of the others, who alone are friends of all."""
    return [-1.0] * side + [0.0] * (_MANY - 2 * side) + [1.0] * side


def _soft(name: str) -> Configuration:
    """Attack a soft core by a record that goes from one side to the other.

    Its friends change, so that the records of one side gain weight and those of the other lose
    weight. With a tenth on each side the mean moves by 9/10 of its reach, and the sum by nearly
    all of it.
    """
    mechanism = RobustMean.for_budget(
        ApproxDP(8, "1e-6"),
        adjacency=REPLACE,
        deviations=(1.0,),
        radius=1,
        record_radius=1.03,
        n_max=_MANY,
        gamma=0,
        full=Fraction(9, 10),
        directions=0,
        shares=(Fraction(11, 20), Fraction(9, 20)),
    )
    least = mechanism.core().minimum_n(Fraction(1, 2))
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=(
            replaced("from one side to the other", _three(_MANY // 10), 1.0),
            replaced("large sides", _three(3 * _MANY // 10), 1.0),
            replaced("about to abstain", [0.0] * least, _FAR),
        ),
        faults=[fault(mechanism) for fault in (_steeper, exact_number)],
        quick_trials=90_000,
        first_stage=(
            replaced("who knows all knows nobody", _three(9 * _MANY // 20), 9.0, at=_MANY // 2),
        ),
    )


_HALVES, _QUARTERS = (Fraction(1, 2),) * 2, (Fraction(1, 4),) * 4
_TRACED = RobustMean.for_budget(
    ApproxDP(3, "1e-6"),
    adjacency=REPLACE,
    deviations=(1.0,) * 600,
    n_max=175,
    gamma=0,
    directions=0,
)

# Rounds are attacked under replace alone. Under add-remove the plan has the same stages and
# regions; a signed count moves by 1 in place of 2, a slice by sqrt(R^2 + w^2) in place of 2 R, and
# the center is by degree weights. The latter two are attacked in "line".
# ``spec.robust_mean:obligation_loss`` has the exact losses of all stages of rounds under both.
CONFIGURATIONS = (
    _attacked("line"),
    traced(_soft("soft-core"), _TRACED, n=175, columns=600),
    _robust_plane.configuration("plane"),
    _robust_votes.configuration("votes"),
    _robust_inner.configuration("inner"),
    _robust_rounds.configuration("rounds"),
)


# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, d: int, count: int, **own: Any) -> RobustMean:
    parts = 4 if count else 2
    given: dict[str, Any] = {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(1, 8),
        "deviations": (1.0, 0.5)[:d],
        "radius": 1,
        "record_radius": 0.75,
        "n_max": 30,
        "tail": Fraction(1, 1000),
        "gamma": Fraction(0),
        "directions": count,
        "bins": 2,
        "shares": (Fraction(1, parts),) * parts,
        **own,
    }
    return RobustMean(**given)


_LINE = [0.25] * 40 + [-0.5, 1.0, 1e308]
_PLANE: Any = [(0.25, 0.5)] * 34 + [(0.5, -0.25), (1.0, -7.0)]

SMALL = (
    SmallInstance(name="line, add-remove", mechanism=_small(ADD, 1, 1), data=_LINE),
    SmallInstance(name="line, no direction, replace", mechanism=_small(REPLACE, 1, 0), data=_LINE),
    SmallInstance(name="plane, no direction, add-remove", mechanism=_small(ADD, 2, 0), data=_PLANE),
    SmallInstance(
        name="line, a soft core, replace",
        mechanism=_small(REPLACE, 1, 1, full=Fraction(3, 4)),
        data=_LINE,
    ),
    SmallInstance(  # with directions it would have 3^13 outcomes
        name="plane, no direction, a soft core, replace",
        mechanism=_small(REPLACE, 2, 0, full=Fraction(3, 4)),
        data=_PLANE,
    ),
    SmallInstance(
        name="plane, no direction, drawn in, replace",
        mechanism=_small(REPLACE, 2, 0, full=Fraction(3, 4), drawn=Fraction(1, 2)),
        data=_PLANE,
    ),
    SmallInstance(
        name="line, drawn in, add-remove",
        mechanism=_small(ADD, 1, 1, drawn=Fraction(1, 2)),
        data=_LINE,
    ),
    SmallInstance(name="nobody, add-remove", mechanism=_small(ADD, 1, 1), data=()),
    _robust_votes.small(),
)


# --- rates --------------------------------------------------------------------------------------


def _robust(setting: Mapping[str, Any]) -> RobustMean:
    """Build the mechanism with radii that do not depend on n, so that the error is noise over n."""
    d = setting["d"]
    return RobustMean(
        adjacency=setting["adjacency"],
        deviations=(1.0,) * d,
        radius=2 * float(np.sqrt(d)) + 5,
        record_radius=float(np.sqrt(d)) + 4,
        n_max=1000,
        tail=Fraction(1, 10**7),
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        directions=setting["directions"],
        full=setting.get("full"),
        gamma=Fraction(setting.get("gamma", Fraction(1, 10))),
        shares=_HALVES if not setting["directions"] else _QUARTERS,
    )


def _rate(name: str, values: tuple[Any, ...], setting: Mapping[str, Any], **own: Any) -> RateClaim:
    """Claim the distance for normal data about 3 in each coordinate."""
    given: dict[str, Any] = {
        "variable": "n",
        "error": lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
    }
    return RateClaim(
        name=name,
        mechanism=_robust,
        values=values,
        setting=setting,
        source="OURS, a robust mean by released regions",
        **given | own,
    )


def _inliers(n: int) -> int:
    """Return the number of inliers among n records, of which a tenth is far away."""
    return n - n // 10


def _sampling(d: int, n: int) -> float:
    """Return the distance of the inliers' mean from the law's mean: sqrt(d / inliers)."""
    return math.sqrt(d / _inliers(n))


def _mean_and_sampling(mechanism: RobustMean, data: Any) -> tuple[Any, float]:
    """Return the mean of the inliers, which come last, and its distance from the law's mean."""
    n, d = data.shape
    return data[-_inliers(n) :].mean(axis=0), _sampling(d, n)


def _beside_sampling(estimate: Any, known: tuple[Any, float]) -> float:
    """Return the distance from the mean of the inliers, over its sampling error."""
    mean, sampling = known
    return float(np.linalg.norm(estimate.value - mean)) / sampling


def _of_inliers(setting: Mapping[str, Any], data: Any, truth: Any) -> dict[str, float]:
    n = int(setting["n"])
    return {"inliers": _inliers(n), "sampling": _sampling(setting["d"], n)}


_NORMAL = Instance(kind="gaussian", parameters={"mean": 3.0, "deviation": 1.0})
_FREE: dict[str, Any] = {
    "values": (600, 1800, 5400),
    "setting": {
        "d": 3,
        "noise_multiplier": "3/8",
        "adjacency": REPLACE,
        "directions": 1,
        "full": Fraction(9, 10),
    },
    "instance": Instance(
        kind="contaminated", parameters={"mean": 3.0, "share": 0.1, "offset": 50.0}
    ),
    "facts": _of_inliers,
}

RATES = (
    _rate(
        "noise-against-n",
        (500, 1500, 4500),
        {"d": 20, "noise_multiplier": "1/3", "adjacency": ADD, "directions": 0},
        instance=_NORMAL,
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=Curve(function="expected_error", arguments=("parameters", "n")),
        exponent=Exponent(value=-1, tolerance=0.05),
        repeats=400,
    ),
    _rate(
        "noise-against-its-multiplier",
        tuple(map(Fraction, ("1/24", "1/12", "1/6", "1/3"))),
        {"d": 20, "n": 1500, "adjacency": ADD, "directions": 0},
        variable="noise_multiplier",
        instance=_NORMAL,
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=Curve(function="expected_error", arguments=("parameters", "n")),
        exponent=Exponent(value=1, tolerance=0.05),
        repeats=400,
    ),
    # Outliers inside the ball, nearly as many as the limit allows, which nothing cuts: the mean is
    # biased by gamma times their distance.
    _rate(
        "error-against-gamma",
        tuple(map(Fraction, ("1/50", "3/50", "11/100", "18/100"))),
        {"n": 1000, "d": 3, "noise_multiplier": "5", "adjacency": ADD, "directions": 0},
        variable="gamma",
        instance=Instance(
            kind="contaminated", parameters={"mean": 3.0, "share": "gamma", "offset": 0.9}
        ),
        target=Empirical(
            lambda mechanism, data: data[int(mechanism.gamma * len(data)) :].mean(axis=0)
        ),
        facts=lambda setting, data, truth: {
            "leaning": float(np.linalg.norm(data.mean(axis=0) - truth))
        },
        curve=Curve(
            function="expected_error", arguments=("parameters", "n"), beside="leaning", margin=1.12
        ),
        repeats=800,
    ),
    _rate(
        "privacy-for-free",  # the sampling error: that of the inliers' mean goes as n^-1/2
        **_FREE,
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        # with outliers that are known, it is a private mean of the others
        lower=Curve(function="lower_bound", arguments=("parameters", "inliers")),
        exponent=Exponent(value=-0.5, tolerance=0.15, drift=1.3),
        repeats=200,
    ),
    _rate(
        "noise-beside-sampling",  # at the same n, where that error would hide a lost constant
        **_FREE,
        target=Empirical(_mean_and_sampling),
        error=_beside_sampling,
        curve=Curve(
            function="expected_error",
            arguments=("parameters", "n", "inliers"),
            per="sampling",
            margin=1.15,  # slabs cut a few inliers
        ),
        exponent=Exponent(value=-0.5, tolerance=0.15),
        repeats=400,
    ),
)

EXPERIMENTS = (DH20,)
