"""Attacks on ``truncated_mle``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, TruncatedMle
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.stepped import STATISTICS
from dpverify.estimation.whitening import octave_of
from dpverify.families import ContinuousBernoulli, LogNormal, Normal, Pareto, Poisson, Weibull
from dpverify.grid import View, ingest
from dpverify.mechanisms import truncated_mle
from dpverify.plans import Blocks, Law, Part, Stage
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.place import Place
from dpverify.plans.walking import rescaled_stage
from dpverify.randomness import Bits
from dpverify.rates import (
    Curve,
    Empirical,
    Exponent,
    Instance,
    Metric,
    Population,
    RateClaim,
)

from ._stepped_faults import about_mean, changed, exact_number, own_edges, unpaid_steps

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Planted = Callable[[TruncatedMle], Fault]
_BY_GRADIENTS: dict[str, Any] = {"method": "gradient", "outside": "mask"}

# --- planted faults -----------------------------------------------------------------------------


def _free_number(mechanism: TruncatedMle) -> Fault:
    """Weigh the number by twice the range, for which the noise does not suffice."""

    def change(stage: Stage) -> Stage:
        query: Any = stage.query
        heavy = dataclasses.replace(query.query, weight=4 * query.query.cells)
        return dataclasses.replace(stage, query=dataclasses.replace(query, query=heavy))

    plan = changed(mechanism, change, STATISTICS)
    return plan_fault("does not pay for the number", mechanism, plan)


_own_edges = own_edges(STATISTICS, about_mean)


def _unpaid_gradients(mechanism: TruncatedMle) -> Fault:
    """Give every gradient the noise that would suffice for a single gradient."""
    names = [name for run in mechanism.descent().stages() for name in run]
    root = Fraction(1 / math.sqrt(mechanism.steps))
    plan = changed(mechanism, lambda s: rescaled_stage(s, root), *names)
    return plan_fault("pays for one gradient alone", mechanism, plan)


class _InOrder(FaultyLaw):
    """A law whose lists keep the order of the records: planted."""

    def _parts(
        self, part: Part, place: Place, live: NDArray[np.intp], bits: Bits
    ) -> Iterator[tuple[Place, NDArray[np.intp]]]:
        assert part.on is not None
        listed = View(part.on.listed(place.view.records))
        yield Place(part.plan, f"{place.path}{part.name}/", listed, part.on.within), live


class _Overlapping(FaultyLaw):
    """A law in which every chunk is the whole list: planted."""

    def _blocks_in(self, blocks: Blocks, place: Place) -> Iterator[Place]:
        for part in blocks.parts:
            path = f"{place.path}{part.name}/"
            yield Place(part.plan, path, place.view, blocks.within)


def _faulty(mechanism: TruncatedMle, name: str, kind: type[Law]) -> Fault:
    """Run the same plan under another law."""

    def law(data: Any) -> Law:
        records = ingest(data, mechanism.domain)
        return kind(mechanism.fixed_plan, records, mechanism.adjacency, mechanism.domain)

    return Fault(name, law)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_EQUAL = [4.0] * 4600
# All of those above the median in even places: one more record in front turns what even places
# have more than odd ones.
_UNEVEN = [9.0, 4.0] * 100 + [4.0] * 4400


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs: both ends of the interval, an empty side, NaN, and a value outside the
    family's support."""
    return (
        added("a far record enters", _EQUAL, _FAR),
        added("one below the support", _EQUAL, -_FAR),
        NeighboringPair(
            name="nobody against somebody", left=[_FAR], right=np.zeros((0, 1)), adjacency=ADD
        ),
        added("a NaN enters", _EQUAL, _NAN),
        added("a record in front", _UNEVEN, 4.0, at=0),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs: one end by the other; a record that counts by one that does not; a count by a
    number that is none."""
    return (
        replaced("one end for the other", [0.0, *_EQUAL], 8.0),
        replaced("the lower end by one outside", [0.0, *_EQUAL], -_FAR),
        replaced("a NaN by an end", [_NAN, *_EQUAL], 0.0),
        replaced("a count by a number between counts", [3.0, *_EQUAL], 2.5),
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
    search = Fraction(24, 29) if "parameter 1" in which else Fraction(1, 50)
    mechanism = TruncatedMle(
        adjacency=adjacency,
        noise_multiplier=Fraction(1, 2),
        search_share=search,
        at_least=4000,
        family=Poisson(),
        lowest=2.0,
        highest=8.0,
        nonfinite="replace",
        **parameters,
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset(which),
        quick_trials=12_500,
    )


def _chunks() -> Configuration:
    """Attack two chunks of a short list; in its given order one has the large records, the other
    the small ones.

    A record's unknown chunk hides half of its effect, so the noise of the sums is attacked in
    the list that is not divided.
    """
    mechanism = TruncatedMle(
        adjacency=REPLACE,
        noise_multiplier=Fraction(1, 2),
        search_share=Fraction(1, 50),
        at_least=1,
        family=Poisson(),
        lowest=3.9,
        highest=4.1,
        nonfinite="replace",
        runs=2,
        steps=1,
        **_BY_GRADIENTS,
    )
    uneven = [9.0, 1.0] * 6
    return Configuration(
        name="chunks",
        mechanism=mechanism,
        pairs=(
            replaced("one end for the other", [1.0, *([4.0] * 10)], 9.0),
            replaced("the first by one outside", uneven, _FAR),
        ),
        faults=[
            _faulty(mechanism, "does not shuffle the list", _InOrder),
            _faulty(mechanism, "takes the whole list for each chunk", _Overlapping),
        ],
        target_stages=frozenset(),
        quick_trials=2000,
    )


CONFIGURATIONS = (
    _attacked(
        "search",
        ADD,
        (*_added()[:2], _added()[-1]),
        ("parameter 1", "count"),
        (unpaid_steps,),
    ),
    _attacked("clip", ADD, _added(), (STATISTICS,), (_free_number, exact_number, _own_edges)),
    _attacked(
        "mask", REPLACE, _replaced(), (STATISTICS,), (_free_number, _own_edges), outside="mask"
    ),
    _attacked(
        "gradient",
        ADD,
        (added("one end pushes the other out", [0.0] * 4600, 16.0, at=0), *_added()[:2]),
        ("descent/step 1",),
        (_unpaid_gradients,),
        steps=2,
        **_BY_GRADIENTS,
    ),
    _chunks(),
)

# --- small instances ----------------------------------------------------------------------------


def _small(
    name: str, adjacency: Adjacency, multiplier: str, data: Any, **parameters: Any
) -> SmallInstance:
    own: dict[str, Any] = {"family": Poisson(), "lowest": 0.5, "highest": 50.0, "at_least": 1}
    mechanism = TruncatedMle(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )
    return SmallInstance(name=f"{name}, followed", mechanism=mechanism, data=data, followed=8)


_COUNTS = [float(k * k % 17) for k in range(50)]
_LINE = [0.01 + 0.37 * c for c in _COUNTS]


def _range(family: Any, lowest: float, highest: float) -> dict[str, Any]:
    return {"family": family, "lowest": lowest, "highest": highest}


SMALL = (
    _small("counts", ADD, "1/10", _COUNTS),
    _small("masked counts", REPLACE, "1/10", _COUNTS, outside="mask", kept=(2, 9)),
    _small("a line", REPLACE, "1/10", [-1e308, *_LINE], **_range(Normal(2.0), -30, 30)),
    _small("logarithms", ADD, "1", [-1.0, 0.0, *_LINE], **_range(LogNormal(0.7), -9, 9)),
    _small("powers", REPLACE, "1/5", _LINE, **_range(Weibull(2.5), 0.1, 9), outside="mask"),
    _small("a tail", ADD, "1/5", [1e308, *_LINE], **_range(Pareto(0.02), 0.1, 9)),
    _small(
        "shares", ADD, "1/5", [c / 17 for c in _COUNTS], **_range(ContinuousBernoulli(), 0.1, 0.95)
    ),
    _small("nobody", ADD, "3/2", ()),
    _small("gradients", ADD, "1/10", _COUNTS, **_BY_GRADIENTS, steps=2),
    _small(
        "gradients of all",
        REPLACE,
        "1/10",
        [-1e308, *_LINE],
        **_range(Normal(2.0), -30, 30) | _BY_GRADIENTS,
    ),
    _small("gradients of nobody", ADD, "3/2", (), **_BY_GRADIENTS),
    SmallInstance(
        name="chunks of a list, by all orders",
        mechanism=TruncatedMle(
            adjacency=REPLACE,
            noise_multiplier=Fraction(1),
            family=Poisson(),
            lowest=3.9,
            highest=4.1,
            at_least=1,
            runs=2,
            steps=1,
            **_BY_GRADIENTS,
        ),
        data=[4.0, 9.0, 2.0, 5.0, 3.0],
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _made(setting: Mapping[str, Any]) -> TruncatedMle:
    """Build the mechanism for exponential records, or for counts where the setting says so, from
    a multiplier or a budget."""
    counts = setting.get("counts", False)
    own: dict[str, Any] = {
        "adjacency": setting["adjacency"],
        "family": Poisson() if counts else Weibull(),
        "lowest": 3.0 if counts else 9.0,
        "highest": 8.0 if counts else 81.0,
        "outside": setting["outside"],
        "kept": setting.get("kept"),
    }
    if "epsilon" in setting:
        return TruncatedMle.for_budget(ApproxDP(setting["epsilon"], "1e-6"), **own)
    return TruncatedMle(noise_multiplier=Fraction(setting["noise_multiplier"]), **own)


def _without_noise(mechanism: TruncatedMle, data: Any) -> float:
    """Fit the natural parameter to the exact mean of the records, limited where their own mean
    puts the interval."""
    family = mechanism.family
    near = family.natural(float(data.mean()))
    frame = truncated_mle.frame_of(mechanism, near, octave_of(float(len(data))))
    ends = frame.low, frame.low + frame.length
    kept = np.clip(data, *ends)
    if mechanism.outside == "mask":
        kept = data[(data >= ends[0]) & (data < ends[1])]
    mean = float(kept.mean())

    def off(theta: float) -> float:
        return frame.law(family, theta, mechanism.outside).mean - mean

    return float(scipy.optimize.brentq(off, 4 * near, near / 4))


_EXPONENTIAL = Instance(kind="gamma", parameters={"shape": 1.0, "scale": 27.0})
_POISSON: dict[str, Any] = {
    "instance": Instance(kind="poisson", parameters={"rate": 5.0}),
    "facts": lambda setting, data, truth: {
        "parameter": 5.0,
        "beta": math.exp(-float(setting.get("log_inverse_beta", 1))),
    },
}


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the noise for exponential records of scale 27; every release has the same records."""
    own: dict[str, Any] = {
        "instance": _EXPONENTIAL,
        "target": Empirical(_without_noise),
        "facts": lambda setting, data, truth: {"parameter": 27.0},
        "curve": Curve(
            function="noise_error", arguments=("parameters", "n", "parameter"), margin=1.14
        ),
        "repeats": 800,
    }
    return RateClaim(
        name=name,
        mechanism=_made,
        variable=variable,
        values=values,
        error=lambda estimate, truth: abs(estimate.natural - truth),
        source="OURS, clipped and masked moments of exponential families; ZZ25",
        **own | claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (8000, 32_000, 128_000),
        setting={"noise_multiplier": 64, "adjacency": ADD, "outside": "clip"},
        exponent=Exponent(value=-0.92, tolerance=0.12),
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (4, 16, 64),
        setting={"n": 16_000, "adjacency": REPLACE, "outside": "mask"},
        exponent=Exponent(value=0.91, tolerance=0.12),
    ),
    _rate(  # of records up to 40, so that the interval is the same for every budget
        "noise-against-epsilon",
        "epsilon",
        (Fraction(1, 8), Fraction(1, 2), Fraction(2)),
        setting={"n": 16_000, "adjacency": REPLACE, "outside": "mask", "kept": (0, 40)},
        exponent=Exponent(value=-0.93, tolerance=0.12),
    ),
    _rate(  # of counts from 1 to 8, for the same reason
        "noise-against-log-of-its-probability",
        "log_inverse_beta",
        (Fraction(3, 2), Fraction(5, 2), Fraction(4)),
        setting={
            "counts": True,
            "n": 20_000,
            "noise_multiplier": 16,
            "adjacency": REPLACE,
            "outside": "mask",
            "kept": (1, 8),
        },
        metric=Metric("quantile", tail="log_inverse_beta"),
        curve=Curve(
            function="noise_quantile",
            arguments=("parameters", "n", "parameter", "log_inverse_beta"),
            margin=1.12,
        ),
        upper=Curve(
            function="error_bound", arguments=("parameters", "n", "parameter", "beta"), margin=1.0
        ),
        exponent=Exponent(value=0.68, tolerance=0.19),
        repeats=2800,
        **_POISSON,
    ),
    _rate(
        "population-error",
        "n",
        (3000,),
        setting={"counts": True, "noise_multiplier": 48, "adjacency": REPLACE, "outside": "clip"},
        target=Population(lambda mechanism, setting: math.log(5.0)),
        curve=Curve(
            function="expected_error", arguments=("parameters", "n", "parameter"), margin=1.14
        ),
        lower=Curve(function="lower_bound", arguments=("parameters", "n", "parameter")),
        repeats=2000,
        **_POISSON,
    ),
)
