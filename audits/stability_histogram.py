"""Attacks on ``stability_histogram``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, StabilityHistogram
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.grid import NOTHING, Transcripts, View, ingest
from dpverify.grid.queries import Query
from dpverify.grid.tables import KeyedCounts
from dpverify.plans import Law, Stage, ThresholdedGaussian, ThresholdedLaplace
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.thresholds import Shown, as_tuples, shown_in
from dpverify.privacy import Derivation, Domain, Sensitivity
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.rates import Curve, Empirical, Exponent, Instance, Metric, Population, RateClaim

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


class _ExactWhereShown(ThresholdedLaplace):
    """Noise that decides whether a key is shown, while the shown count is exact."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Return the exact counts of the keys whose noisy counts reach the threshold."""
        noisy = self.added.sample(bits, center[:, 1], size)
        values = np.broadcast_to(center[:, 1], noisy.shape)
        return as_tuples(center[:, 0], values, np.asarray(noisy >= self.threshold, dtype=np.bool_))

    def log_probability_of_distinct(
        self, outputs: Sequence[Shown], center: IntArray
    ) -> LogProbabilities:
        """Return log probabilities of keys shown or withheld by noise; -inf for any other count."""
        counts = center[:, 1]
        withheld = np.array([self.below(self.threshold - int(c)) for c in counts])
        owner, places, values = shown_in(outputs, center)
        terms, known = np.full(len(owner), -np.inf), np.flatnonzero(places >= 0)
        known = known[values[known] == counts[places[known]]]
        hidden = withheld[places[known]]
        terms[known] = np.log1p(-hidden) - np.log(hidden)
        per_output = np.bincount(owner, weights=terms, minlength=len(outputs))
        return np.asarray(np.log(withheld).sum() + per_output, dtype=np.float64)


class _ShownByExactCount(ThresholdedLaplace):
    """Noise on the shown counts, while exact counts decide which keys are shown."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Add noise to the keys whose exact counts reach the threshold."""
        large = center[center[:, 1] >= self.threshold]
        if not len(large):
            return as_tuples(large[:, 0], np.zeros((size, 0)), np.zeros((size, 0), np.bool_))
        noisy = self.added.sample(bits, large[:, 1], size)
        return as_tuples(large[:, 0], noisy, np.ones(noisy.shape, dtype=np.bool_))

    def log_probability_of_distinct(
        self, outputs: Sequence[Shown], center: IntArray
    ) -> LogProbabilities:
        """Return log probabilities; -inf unless exactly the keys with large counts are shown."""
        large = center[center[:, 1] >= self.threshold]
        owner, places, values = shown_in(outputs, large)
        terms, known = np.full(len(owner), -np.inf), np.flatnonzero(places >= 0)
        noise = values[known] - large[places[known], 1]
        terms[known] = self.added.log_probability(noise[:, np.newaxis], _ZERO)
        log_masses = np.bincount(owner, weights=terms, minlength=len(outputs))
        shown = np.bincount(owner, minlength=len(outputs))
        return np.where(shown == len(large), log_masses, -np.inf)


_ZERO = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _ByArrival(Query):
    """The right counts, with keys in the order of their first records."""

    base: KeyedCounts

    is_table = True

    @property
    def width(self) -> None:
        """None: the number of keys depends on the data."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Count records by key, shape (bins, 2)."""
        table = self.base.evaluate(view)
        _, first = np.unique(self.base.bins(view.records[:, 0]), return_index=True)
        return table[np.argsort(first)]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Claim the sensitivity of the sorted table."""
        return self.base.sensitivity(adjacency, domain)


def _faults(mechanism: StabilityHistogram) -> list[Fault]:
    """Plant faults in the threshold, in the shown values and in the order of keys."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    noise, query = stage.noise, stage.query
    assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
    assert isinstance(query, KeyedCounts)

    def planted(name: str, **changed: Any) -> Fault:
        plan = (dataclasses.replace(stage, **changed),)

        def law(data: Any) -> Law:
            records = ingest(data, mechanism.domain)
            return Law(plan, records, mechanism.adjacency, mechanism.domain)

        return Fault(f"histogram: {name}", law)

    kind, scale, threshold = type(noise), noise.scale, noise.threshold
    faults = [
        planted("a threshold for > used with >=", noise=kind(scale, threshold - 1)),
        planted("keys in the order of arrival", query=_ByArrival(query)),
        planted("exact counts of the keys shown", noise=_ExactWhereShown(scale, threshold)),
        planted("keys shown by their exact counts", noise=_ShownByExactCount(scale, threshold)),
    ]
    if isinstance(noise, ThresholdedLaplace):
        tail = floor(1 - float(scale) * log(2 * mechanism.delta))
        faults.append(
            planted("the tail of real noise", noise=kind(scale, min(tail, threshold - 1)))
        )
    return faults


def _configuration(
    name: str, mechanism: StabilityHistogram, pairs: Sequence[NeighboringPair]
) -> Configuration:
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=_faults(mechanism),
        quick_trials=100_000,
    )


def _threshold(mechanism: StabilityHistogram) -> int:
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    noise = stage.noise
    assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
    return noise.threshold


def _pairs_added(least: int) -> tuple[NeighboringPair, ...]:
    """List pairs for bins of width 10 with edges at its multiples; ``least`` is the threshold."""
    crowd = [5.0] * 40
    return (
        added("a large bin grows and comes first", crowd + [-5.0] * 30, -5.0),
        added("a bin appears", crowd, 25.0),
        added("a bin reaches the threshold", [1e308] * (least - 1), 1e308),
        added("nobody against somebody", [], -5e-324),
    )


def _pairs_replaced(least: int) -> tuple[NeighboringPair, ...]:
    crowd, edge = [5.0] * 40, [10.0] * 30
    return (
        replaced("from an edge to the bin below it", [*edge, *crowd], 9.999999999999998),
        replaced("a bin disappears, another appears", [15.0, *crowd], 25.0),
        replaced("around the threshold", [*[15.0] * least, *[-5.0] * (least - 1)], -5.0),
        replaced("from end to end", [1e308] * 9 + [-1e308] * 9, -1e308),
    )


_TEN: dict[str, Any] = {"width": 10, "delta": "0.05"}
_LAPLACE = StabilityHistogram.for_budget(ApproxDP(1, "0.05"), adjacency=_ADD, **_TEN)
_REPLACED = StabilityHistogram(adjacency=_REPLACE, noise_multiplier=Fraction(1), **_TEN)
_GAUSSIAN = StabilityHistogram(
    adjacency=_ADD, noise_multiplier=Fraction(1), noise="gaussian", **_TEN
)

CONFIGURATIONS: Sequence[Configuration] = (
    _configuration("laplace", _LAPLACE, _pairs_added(_threshold(_LAPLACE))),
    _configuration("laplace", _REPLACED, _pairs_replaced(_threshold(_REPLACED))),
    _configuration("gaussian", _GAUSSIAN, _pairs_added(_threshold(_GAUSSIAN))),
)

_SMALL: dict[str, Any] = {"width": 2, "delta": "0.3"}

SMALL = (
    SmallInstance(
        name="two crowds, laplace",
        mechanism=StabilityHistogram(adjacency=_ADD, noise_multiplier=Fraction(1), **_SMALL),
        data=(0.5,) * 12 + (-5e-324,) * 13,
    ),
    SmallInstance(
        name="counts of 1, 2 and 4, gaussian",
        mechanism=StabilityHistogram(
            adjacency=_ADD, noise_multiplier=Fraction(1), noise="gaussian", **_SMALL
        ),
        data=(5.0, 0.5, 1.9999999999999998, -1.0, -1.0, -2.0, -0.25),
    ),
    SmallInstance(
        name="counts of 1 and 2, gaussian, replace",
        mechanism=StabilityHistogram(
            adjacency=_REPLACE, noise_multiplier=Fraction(1, 2), noise="gaussian", **_SMALL
        ),
        data=(1e308, -1e308, -1e308),
    ),
)


def _histogram(setting: Mapping[str, Any]) -> StabilityHistogram:
    return StabilityHistogram(
        adjacency=_ADD,
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        noise=setting["noise"],
        width=1,
        delta=setting.get("delta", Fraction(1, 10**6)),
    )


def _bins(mechanism: StabilityHistogram, data: Any) -> dict[float, int]:
    edges, counts = np.unique(np.floor(data), return_counts=True)
    return dict(zip(edges.tolist(), counts.tolist(), strict=True))


def _of_the_first(estimate: Any, bins: dict[float, int]) -> float:
    """Measure the error of the first bin's count, as a share of all records."""
    return float(abs(estimate.counts.get(0.0, 0) - bins[0.0]) / sum(bins.values()))


def _of_the_worst(estimate: Any, bins: dict[float, int]) -> float:
    """Measure the largest error of a count; a withheld count is 0."""
    return float(max(abs(estimate.counts.get(edge, 0) - count) for edge, count in bins.items()))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    bins: dict[str, Any] = {"bins": 10, "power": claimed.pop("power"), "width": 1.0}
    return RateClaim(
        name=name,
        mechanism=_histogram,
        variable=variable,
        values=values,
        instance=Instance(kind="zipf", parameters=bins),
        target=Empirical(_bins),
        exponent=Exponent(value=-1, tolerance=0.1),
        **claimed,
    )


def _shares(estimate: Any, bins: int) -> Any:
    """Return the released counts of bins 0, 1, ... as shares of their sum; negative counts are
    kept."""
    counts = np.array([estimate.counts.get(float(k), 0) for k in range(bins)], dtype=np.float64)
    return counts / counts.sum() if counts.sum() > 0 else counts


def _variation(estimate: Any, bins: int) -> float:
    """Measure the total variation distance from the uniform law."""
    return float(np.abs(_shares(estimate, bins) - 1 / bins).sum()) / 2


def _kolmogorov(estimate: Any, bins: int) -> float:
    """Measure the Kolmogorov distance from the uniform law."""
    return float(np.abs(np.cumsum(_shares(estimate, bins) - 1 / bins)).max())


def _off_location(estimate: Any, truth: float) -> float:
    """Measure the distance of the fullest bin's middle from the truth; infinite without a bin."""
    fullest = max(estimate.counts, key=estimate.counts.__getitem__, default=math.inf)
    return abs(float(fullest) + 0.5 - truth)


def _learned(name: str, distance: Any) -> RateClaim:
    """Claim the error of learning a uniform law on 16 bins; at first most of the error is noise."""
    return RateClaim(
        name=f"{name}-against-n",
        mechanism=_histogram,
        variable="n",
        values=(6400, 12_800),
        setting={
            "epsilon": Fraction(1, 32),
            "delta": Fraction(1, 100),
            "noise": "laplace",
            "bins": _BINS,
        },
        instance=Instance(kind="zipf", parameters={"bins": _BINS, "power": 0.0, "width": 1.0}),
        target=Population(lambda mechanism, setting: setting["bins"]),
        error=distance,
        curve=Curve(function=f"{name}_error", arguments=("parameters", "n", "bins")),
        lower=Curve(function=f"least_{name}", arguments=("parameters", "n", "bins")),
        repeats=800,
        source="univariate discrete laws: DHS15 (total variation), BNSV15 (Kolmogorov distance)",
    )


_BINS = 16
_SHARE_ERROR = Curve(function="expected_error", arguments=("parameters",), per="n")

RATES = (
    _rate(
        "error-against-n",
        "n",
        (1000, 3000, 10_000, 30_000),
        power=1.0,
        setting={"epsilon": Fraction(1, 2), "noise": "laplace"},
        error=_of_the_first,
        curve=_SHARE_ERROR,
        repeats=8000,
        source="KKMN09: the noise of a count that surfaces",
    ),
    _rate(
        "gaussian-error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/20", "1/8", "1/2"))),
        power=1.0,
        setting={"n": 5000, "noise": "gaussian"},
        error=_of_the_first,
        curve=_SHARE_ERROR,
        repeats=3000,
        source="KKMN09, with Gaussian noise of deviation 1 / epsilon",
    ),
    _rate(
        "worst-bin-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/32", "1/16", "1/8", "1/4"))),
        power=0.0,
        setting={"n": 12_000, "noise": "laplace", "beta": Fraction(1, 20), "bins": 10},
        metric=Metric("quantile", 0.95),
        error=_of_the_worst,
        upper=Curve(function="error_bound", arguments=("parameters", "bins", "beta")),
        repeats=5000,
        source="KKMN09, all bins together",
    ),
    *(
        _learned(name, distance)
        for name, distance in (("variation", _variation), ("kolmogorov", _kolmogorov))
    ),
    RateClaim(
        name="unknown-location-against-n",
        mechanism=_histogram,
        variable="n",
        values=(12, 14, 16),
        setting={"epsilon": 1, "noise": "laplace"},
        instance=Instance(kind="point_masses", parameters={"points": (-1e6,), "shares": (1.0,)}),
        target=Empirical(lambda mechanism, data: float(data[0, 0])),
        error=_off_location,
        metric=Metric("misses", beyond=1.0),
        curve=Curve(function="withheld", arguments=("parameters", "n"), margin=1.2),
        lower=Curve(function="least_withheld", arguments=("parameters", "n")),
        shows_last=True,  # where few releases are withheld
        repeats=15_000,
        source="KV18: ln(1 / (delta beta)) / epsilon records for a mean without bounds",
    ),
)
