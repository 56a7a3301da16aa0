"""Attacks on ``private_quantile``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, PrivateQuantile, PureDP
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.grid import ingest
from dpverify.plans import Law, QuantileChoice, Stage
from dpverify.plans.noise import LogProbabilities
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.choice import Choice
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_STEP = 7


class _GapsAlike(QuantileChoice):
    """A choice that ignores lengths: a gap between records, or a record's cell, is chosen by its
    score alone, then a cell in it."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw a gap, then one of its cells."""
        starts, sizes, scores = self.groups(center)
        filled = np.flatnonzero(sizes)
        gaps = filled[Choice(scores[filled].tolist(), 1 / self.scale).draw(bits, size)]
        return self._within(bits, starts, sizes, gaps)[:, np.newaxis]

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Divide the gap's probability by its number of cells."""
        starts, sizes, scores = self.groups(center)
        filled = sizes > 0
        weights = np.where(filled, np.exp(-scores / float(self.scale)), 0.0)
        places = _places(starts, outputs)
        log_masses: LogProbabilities = np.log(weights[places] / weights.sum() / sizes[places])
        return log_masses

    def _within(self, bits: Bits, starts: IntArray, sizes: IntArray, gaps: IntArray) -> IntArray:
        cells = np.zeros(len(gaps), dtype=np.int64)
        for gap in np.unique(gaps):
            rows = np.flatnonzero(gaps == gap)
            cells[rows] = starts[gap] + bits.below(int(sizes[gap]), len(rows))
        return cells


class _StepsFromARecord(QuantileChoice):
    """A uniform number of limited resolution added to the record below: only every seventh cell
    after it can come out, just as only some floats can where a uniform float is added to a
    record."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw a cell, and round it down to a step from the gap's first cell."""
        cells = QuantileChoice.sample(self, bits, center, size)
        return cells - self._beyond(cells, center)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Add up the cells of a step; the last step of a gap may be shorter."""
        own = QuantileChoice.log_probability(self, outputs, center)
        starts, sizes, _ = self.groups(center)
        place = _places(starts, outputs)
        left = starts[place] + sizes[place] - outputs[:, 0]
        together = own + np.log(np.minimum(left, _STEP))
        return np.where(self._beyond(outputs, center)[:, 0] == 0, together, -np.inf)

    def _beyond(self, cells: IntArray, center: IntArray) -> IntArray:
        starts, _, _ = self.groups(center)
        beyond: IntArray = (cells - starts[_places(starts, cells)][:, np.newaxis]) % _STEP
        return beyond


class _ARecordItself(QuantileChoice):
    """A choice that returns the record next to the chosen cell, as where values of the data are
    interpolated."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw a cell, and return the next record from there on, or the upper bound."""
        cells = QuantileChoice.sample(self, bits, center, size)
        ends = np.append(center[0], self.upper)
        snapped: IntArray = ends[np.searchsorted(center[0], cells, side="left")]
        return snapped

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Add up a record's gap; any other value is impossible."""
        own = QuantileChoice.log_probability(self, outputs, center)
        ends = np.unique(np.append(center[0], self.upper))
        firsts = np.append(self.lower, ends[:-1] + 1)
        places = np.minimum(np.searchsorted(ends, outputs[:, 0], side="left"), len(ends) - 1)
        gaps = QuantileChoice.log_probability(self, firsts[places, np.newaxis], center)
        sizes = ends[places] - firsts[places]
        together = np.logaddexp(own, gaps + np.log(np.maximum(sizes, 1)))
        at_end = outputs[:, 0] == ends[places]
        return np.where(at_end, np.where(sizes > 0, together, own), -np.inf)


def _places(starts: IntArray, cells: IntArray) -> IntArray:
    """Return the group of each cell."""
    places: IntArray = np.searchsorted(starts, cells[:, 0], side="right") - 1
    return places


def _faults(mechanism: PrivateQuantile) -> list[Fault]:
    """Plant faults in the choice; ``half`` forgets the factor 2 of the exponential mechanism."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    noise = stage.noise
    assert isinstance(noise, QuantileChoice)
    fields = [getattr(noise, field.name) for field in dataclasses.fields(noise)]
    half = (*fields[:-1], noise.scale / 2)

    def planted(name: str, changed: QuantileChoice) -> Fault:
        plan = (dataclasses.replace(stage, noise=changed),)

        def law(data: Any) -> Law:
            records = ingest(data, mechanism.domain)
            return Law(plan, records, mechanism.adjacency, mechanism.domain)

        return Fault(f"cell: {name}", law)

    return [
        planted("the score's sensitivity taken once, not twice", QuantileChoice(*half)),
        planted("gaps weigh alike, however long", _GapsAlike(*fields)),
        planted("uniform steps added to a record", _StepsFromARecord(*fields)),
        planted("a record itself comes out", _ARecordItself(*fields)),
    ]


def _configuration(name: str, mechanism: PrivateQuantile, pairs: Sequence[Any]) -> Configuration:
    return Configuration(name=name, mechanism=mechanism, pairs=pairs, faults=_faults(mechanism))


_PERCENT: dict[str, Any] = {"lower": 0.0, "upper": 100.0}
_CELL = 2.0**-14  # of the grid of 0..100

CONFIGURATIONS: Sequence[Configuration] = (
    _configuration(
        "median",
        PrivateQuantile.for_budget(PureDP(1), adjacency=_ADD, **_PERCENT),
        (
            added("far more cells above", [5.0, 50.0, 90.0], 90.0),
            added("next to another record", [10.0, 50.0, 90.0], 50.0 + _CELL),
            added("an outlier", [1.0] * 5 + [2.0] * 4, 1e308),
            added("the middle of a wide gap", [1.0] * 10 + [40.0, 60.0] + [99.0] * 10, 50.0),
            added("nobody against somebody", [], 50.0),
            added("a subnormal", [0.0] * 4 + [60.0] * 5, 5e-324),
            added("everybody at the upper bound", [100.0] * 8, 100.0),
        ),
    ),
    _configuration(
        "median",
        PrivateQuantile.for_budget(PureDP(1), adjacency=_REPLACE, **_PERCENT),
        (
            replaced("from end to end", [5.0, 50.0, 50.0, 75.0], 100.0),
            replaced("the median jumps across a wide gap", [1.0] * 20 + [99.0] * 20, 99.0),
            replaced("the only record", [0.0], 100.0),
            replaced("all equal, one moves by a cell", [50.0] * 9, 50.0 + _CELL),
            replaced("across the quantile", [49.0] * 3 + [50.0] + [51.0] * 3, 1e308, at=2),
        ),
    ),
    _configuration(
        "upper-decile",
        PrivateQuantile.for_budget(
            PureDP("1/2"), adjacency=_ADD, lower=-1e300, upper=1e300, quantile=Fraction(9, 10),
            nonfinite="replace",
        ),
        (
            added("far more cells above", [-1e300] * 9 + [5e299] * 6 + [9e299] * 3, 1e308),
            added("a NaN enters", [-1e300] * 3 + [1e300] * 2, float("nan")),
            added("nobody against somebody", [], -1e308),
            added("a subnormal", [-5e-324] * 5 + [5e299] * 2, 5e-324),
        ),
    ),
)  # fmt: skip

_SMALL: dict[str, Any] = {"lower": 0.0, "upper": 4.0, "cell": Fraction(1)}

SMALL = (
    SmallInstance(
        name="median of three, add-remove",
        mechanism=PrivateQuantile(adjacency=_ADD, noise_multiplier=Fraction(1, 2), **_SMALL),
        data=(1.2, 3.0, 1e308),
    ),
    SmallInstance(
        name="upper quartile of two, replace",
        mechanism=PrivateQuantile(
            adjacency=_REPLACE, noise_multiplier=Fraction(3, 8), quantile=Fraction(3, 4), **_SMALL
        ),
        data=(-5e-324, 2.5),
    ),
    SmallInstance(
        name="nobody, add-remove",
        mechanism=PrivateQuantile(adjacency=_ADD, noise_multiplier=Fraction(1), **_SMALL),
        data=(),
    ),
)


def _median(setting: Mapping[str, Any]) -> PrivateQuantile:
    multiplier = 1 / Fraction(setting["epsilon"])
    return PrivateQuantile(
        adjacency=setting["adjacency"], noise_multiplier=multiplier, lower=0.0, upper=1.0
    )


def _rank_error(estimate: Any, ordered: Any) -> float:
    """Return the distance of n / 2 from the ranks of the released value, as a share of n."""
    below, up_to = (int(np.searchsorted(ordered, estimate.value, side)) for side in _SIDES)
    return max(0.0, below / len(ordered) - 0.5, 0.5 - up_to / len(ordered))


_SIDES: Any = ("left", "right")


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    own: dict[str, Any] = {
        "instance": Instance(kind="evenly", parameters={"low": 0.0, "high": 1.0}),
        "source": "S11, utility of the exponential mechanism",
    }
    return RateClaim(
        name=name,
        mechanism=_median,
        variable=variable,
        values=values,
        target=Empirical(lambda mechanism, data: np.sort(data[:, 0])),
        error=_rank_error,
        curve=Curve(function="expected_error", arguments=("parameters", "records"), per="n"),
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=7000,
        **own | claimed,
    )


_HARDEST: dict[str, Any] = {"ends": (0.0, 1.0), "at": 0.25, "loss": 14.5, "epsilon": "epsilon"}


RATES = (
    _rate(
        "error-against-n",
        "n",
        (100, 300, 1000, 3000),
        instance=Instance(kind="uniform", parameters={"low": 0.0, "high": 1.0}),
        setting={"epsilon": Fraction(1, 4), "adjacency": _ADD},
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/16", "1/8", "1/4", "1/2"))),
        setting={"n": 1000, "adjacency": _REPLACE},
    ),
    _rate(
        "hardest-data-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/64", "1/32", "1/16", "1/8"))),
        instance=Instance(kind="hidden", parameters=_HARDEST),
        setting={"n": 4000, "adjacency": _ADD},
        lower=Curve(function="lower_bound", arguments=("parameters", "epsilon", "n"), per="n"),
        source="S11; HT10 for the lower bound, on data of this kind",
    ),
)
