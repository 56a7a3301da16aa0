"""Attacks on ``gaussian``.

No pair moves all stages most at once. So two configurations give most of mu^2 to different
stages, which their pairs and generic faults attack; the rounds of signs, the searches for
lengths, the moments and the count are attacked where ``sign_covariance`` and
``gaussian_covariance`` are. Many records make the stages that are not attacked nearly certain,
so that few transcripts lead to different parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpverify import Adjacency, Gaussian
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import ingest
from dpverify.mechanisms.gaussian import FIT
from dpverify.plans import Stage
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.rates import Curve, Exponent, Instance, Population, RateClaim

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_SEARCHED = frozenset({"median 1"})
_QUICK = 16_000
_FITTED = frozenset({f"{FIT}/mean"})

# --- planted faults -----------------------------------------------------------------------------


def _scaled(name: str, which: frozenset[str], factor: Fraction) -> Callable[[Gaussian], Fault]:
    """Multiply the noise of the stages ``which`` by ``factor``."""

    def fault(mechanism: Gaussian) -> Fault:
        def change(stage: Stage) -> Stage:
            return rescaled_stage(stage, factor) if stage.name in which else stage

        return plan_fault(name, mechanism, with_stages(mechanism.fixed_plan, change))

    return fault


def _own_center(mechanism: Gaussian) -> Fault:
    """Center everything after the searches at the first record, with which all others change."""

    def law(data: ArrayLike) -> FaultyLaw:
        records = ingest(data, mechanism.domain)
        nodes = [2 + int(value > 0) for value in records[0]] if len(records) else [2] * mechanism.d
        *searches, _ = mechanism.fixed_plan
        part = mechanism.fit((*nodes, 2)).part(FIT)
        return FaultyLaw((*searches, part), records, mechanism.adjacency, mechanism.domain)

    return Fault("takes the center from the first record", law)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_AROUND = [(3048.0, 2048.0), (1048.0, 2048.0), (2048.0, 3048.0), (2048.0, 1048.0)]


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs in which a far record moves the counts of all columns and of lengths."""
    equal = [(1.0, -1.0)] * 2000
    return (
        added("a record far above enters", equal, (_FAR, _FAR)),
        added("all shift by a place", [*equal[:3], (-1.0, 1.0)] * 500, (_FAR, _FAR)),
        NeighboringPair(
            name="nobody against somebody",
            left=[(_FAR, -_FAR)],
            right=np.zeros((0, 2)),
            adjacency=ADD,
        ),
        added("a NaN enters", [(_TINY, -0.0)] * 2000, (_NAN, 1.0)),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs about (2048, 2048): a record by the opposite one, by an orthogonal one, by the
    center."""
    crowd = _AROUND * 500
    return (
        replaced("the opposite record", crowd, (-_FAR, 2048.0)),
        replaced("an orthogonal one", crowd, (2048.0, _FAR)),
        replaced("a NaN by the center", [(_NAN, 0.0), *crowd], (2048.0, 2048.0)),
    )


def _made(adjacency: Adjacency, multiplier: str, **shares: str) -> Gaussian:
    """Build the mechanism for two columns within 4096 cells, one step a search, and matrices to
    a quarter of their trace."""
    coarse: dict[str, Any] = {"cell": 1, "bound": 4096.0, "rounds": 1, "precision": 2}
    coarse |= {"center_steps": 1, "spread_steps": 1, "scale_steps": 1}
    coarse |= {f"{name}_share": Fraction(share) for name, share in shares.items()}
    return Gaussian(
        adjacency=adjacency,
        noise_multiplier=Fraction(multiplier),
        d=2,
        nonfinite="replace",
        at_least=1000,
        **coarse,
    )


def _attacked(
    name: str,
    mechanism: Gaussian,
    which: frozenset[str],
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[Gaussian], Fault],
) -> Configuration:
    planted = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=planted,
        target_stages=which,
        quick_trials=_QUICK,
    )


_SEARCHES = _made(
    ADD, "1/2", center="24/25", rounds="1/200", scale="1/200", mean="1/100", check="1/200"
)
_FIT = _made(REPLACE, "1/2", center="1/50", rounds="1/50", scale="1/50", mean="17/20", check="1/50")

CONFIGURATIONS = (
    _attacked(
        "medians",
        _SEARCHES,
        _SEARCHED,
        _added(),
        _scaled("pays for one column alone", frozenset({"median 1"}), Fraction(7, 10)),
        _scaled("tells the length", frozenset({"spread 1"}), Fraction(1, 100)),
    ),
    _attacked(
        "mean",
        _FIT,
        _FITTED,
        _replaced(),
        _scaled("pays for one end of the ball", frozenset({f"{FIT}/mean"}), Fraction(1, 2)),
        _own_center,
    ),
)

# --- small instances ----------------------------------------------------------------------------

# The least plan releases sixteen numbers, more than can be enumerated.
_ROWS: Any = [(33.0 + 20 * (k % 5), 30.0 - 9 * (k % 7)) for k in range(60)]


def _small(name: str, adjacency: Adjacency, multiplier: str, **parameters: Any) -> SmallInstance:
    own: dict[str, Any] = {"d": 2, "cell": 1, "bound": 64.0, "rounds": 2, "at_least": 1}
    own |= {"center_steps": 2, "spread_steps": 2, "scale_steps": 3} | parameters
    made = Gaussian(adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own)
    return SmallInstance(name=name, mechanism=made, data=_ROWS, followed=6)


SMALL = (
    _small("add-remove", ADD, "1/20"),
    _small("replace, a cell for each column", REPLACE, "1/100", cell=(1.0, 2.0)),
    _small("mostly noise", ADD, "4", precision=4),
)

# --- rates --------------------------------------------------------------------------------------


def _normal(setting: Mapping[str, Any]) -> Gaussian:
    """Build the mechanism with few steps and one round, which suffices for white records."""
    return Gaussian(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        d=setting["d"],
        cell=2**-7,
        bound=8.0,
        rounds=1,
        center_steps=4,
        spread_steps=4,
        scale_steps=9,
    )


def _apart(estimate: Any, truth: Any) -> float:
    """Return sqrt(2 |mean|^2 + |covariance - identity|_F^2): twice the root of the relative
    entropy, to first order."""
    d = len(truth)
    far = np.linalg.norm(estimate.value - np.eye(d))
    return float(np.hypot(np.sqrt(2) * np.linalg.norm(estimate.location - truth), far))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error for standard normal records about 1."""
    return RateClaim(
        name=name,
        mechanism=_normal,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 1.0, "deviation": 1.0}),
        error=_apart,
        target=Population(lambda mechanism, setting: np.ones(setting["d"])),
        curve=Curve(function="expected_error", arguments=("parameters", "n")),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        source="OURS, a normal law without bounds; KLSU19",
        fewest=50,  # lengths of fourteen nearly normal numbers
        repeats=200,
        **claimed,
    )


# Between the -1/2 of sampling and the -1 of noise, of which there is more.
RATES = (
    _rate(
        "error-against-n",
        "n",
        (6000, 14_000, 36_000),
        setting={"d": 4, "noise_multiplier": 16, "adjacency": ADD},
        exponent=Exponent(value=-0.83, tolerance=0.15),
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        (4, 8, 16),
        setting={"n": 6000, "d": 4, "adjacency": REPLACE},
    ),
)
