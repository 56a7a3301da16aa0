"""Attacks on ``scale_family``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ScaleFamily
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.scale_families import Limited
from dpverify.estimation.stepped import STATISTICS
from dpverify.estimation.whitening import octave_of
from dpverify.plans.walking import rescaled_stage
from dpverify.privacy.numbers import Floats
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._stepped_faults import changed, exact_number, own_edges, unpaid_steps

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Planted = Callable[[ScaleFamily], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _free_number(mechanism: ScaleFamily) -> Fault:
    """Add noise for the statistics alone to a release whose number weighs three quarters as much
    again."""
    share = Fraction(7, 10) if mechanism.adjacency is ADD else Fraction(1, 2)
    plan = changed(mechanism, lambda s: rescaled_stage(s, share), STATISTICS)
    return plan_fault("does not pay for the number", mechanism, plan)


def _up_to_twice_the_mean(values: Floats) -> tuple[float, float]:
    near = np.clip(values, 0, 1e300)
    return 0.0, 2 * float(near.mean()) if len(near) else 1.0


_own_edges = own_edges(STATISTICS, _up_to_twice_the_mean)

# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_EQUAL = [
    1.3
] * 4600  # on no threshold of the search, far from where quarter octaves of numbers begin


# All of those below the median in even places: one more record in front turns what even places
# have more than odd ones.
_UNEVEN = [0.1, 1.3] * 100 + [1.3] * 4400


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs: an end of the interval, an empty side, NaN."""
    return (
        added("a far record enters", _EQUAL, _FAR),
        added("the lower end", _EQUAL, 0.0),
        added("one below the support", _EQUAL, -_FAR),
        NeighboringPair(
            name="nobody against somebody", left=[_FAR], right=np.zeros((0, 1)), adjacency=ADD
        ),
        added("a NaN enters", _EQUAL, _NAN),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs: one end by the other; a record that counts by one that does not."""
    return (
        replaced("one end for the other", [0.0, *_EQUAL], _FAR),
        replaced("the lower end by one outside", [0.0, *_EQUAL], -_FAR),
        replaced("a NaN by an end", [_NAN, *_EQUAL], 0.0),
        replaced("within a step", [0.0, *_EQUAL], 5e-324),
    )


def _attacked(
    name: str,
    adjacency: Adjacency,
    pairs: Sequence[NeighboringPair],
    which: Sequence[str],
    faults: Sequence[Planted],
    **parameters: Any,
) -> Configuration:
    """Attack one stage that has most of mu^2.

    Many equal records make the other stages nearly certain, so that few transcripts have edges
    of their own.
    """
    search = Fraction(24, 29) if "scale 1" in which else Fraction(1, 50)
    mechanism = ScaleFamily(
        adjacency=adjacency,
        noise_multiplier=Fraction(1, 2),
        search_share=search,
        at_least=4000,
        octaves=1,
        nonfinite="replace",
        **{"family": "exponential"} | parameters,
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset(which),
        quick_trials=12_500,
    )


CONFIGURATIONS = (
    _attacked(
        "search",
        ADD,
        (*_added()[:2], added("a record in front", _UNEVEN, 1.3, at=0)),
        ("scale 1", "count"),
        (unpaid_steps,),
    ),
    _attacked("clip", ADD, _added(), (STATISTICS,), (_free_number, exact_number, _own_edges)),
    _attacked(
        "mask", REPLACE, _replaced(), (STATISTICS,), (_free_number, _own_edges), outside="mask"
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(
    name: str, adjacency: Adjacency, multiplier: str, data: Any, **parameters: Any
) -> SmallInstance:
    own: dict[str, Any] = {"family": "exponential", "at_least": 1}
    mechanism = ScaleFamily(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )
    return SmallInstance(name=f"{name}, followed", mechanism=mechanism, data=data, followed=8)


_LINE = [0.01 + 0.37 * (k * k % 17) for k in range(50)]

SMALL = (
    _small("a line", ADD, "1/10", _LINE),
    _small("a masked line", REPLACE, "1/10", _LINE, outside="mask", cap=4.75),
    _small("powers", ADD, "1", _LINE, family="weibull", shape=2.5, outside="mask", unit=0.37),
    _small("about a center", REPLACE, "1/5", _LINE, family="laplace", center=1.3),
    _small("logarithms", REPLACE, "1/5", _LINE, family="pareto", shape=0.02, octaves=5),
    _small("squares", ADD, "1/5", [-1.0, *_LINE, 1e308], family="maxwell"),
    _small("nobody", ADD, "3/2", ()),
)

# --- rates --------------------------------------------------------------------------------------


def _made(setting: Mapping[str, Any]) -> ScaleFamily:
    return ScaleFamily(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        family="exponential",
        outside=setting["outside"],
        unit=16.0,
        octaves=2,
    )


def _without_noise(mechanism: ScaleFamily, data: Any) -> float:
    """Fit the scale to the exact mean of the records, limited where their own mean puts the
    limit."""
    law, near = Limited(1.0, mechanism.outside), float(data.mean())
    top = near * mechanism._cut(octave_of(float(len(data))))
    kept = np.minimum(data, top) if mechanism.outside == "clip" else data[data < top]
    b = law.back(float(kept.mean()) / top, top / near)
    return top / b if b else near


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the noise for exponential records of scale 27, searched for from 4 to 64; every
    release has the same records."""
    return RateClaim(
        name=name,
        mechanism=_made,
        variable=variable,
        values=values,
        instance=Instance(kind="gamma", parameters={"shape": 1.0, "scale": 27.0}),
        error=lambda estimate, truth: abs(math.log(estimate.value / truth)),
        target=Empirical(_without_noise),
        curve=Curve(function="noise_error", arguments=("parameters", "n"), margin=1.14),
        source="OURS, clipped and masked moments of exponential families; ZZ25",
        repeats=1200,
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (8000, 32_000, 128_000),
        setting={"noise_multiplier": 64, "adjacency": ADD, "outside": "clip"},
        exponent=Exponent(value=-0.95, tolerance=0.12),
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (4, 16, 64),
        setting={"n": 16_000, "adjacency": REPLACE, "outside": "mask"},
        exponent=Exponent(value=0.88, tolerance=0.12),
    ),
)
