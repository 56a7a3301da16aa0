"""Attacks on ``histogram_gaussian``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, HistogramGaussian
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Transcripts, View
from dpverify.grid.cells import quantize
from dpverify.grid.linear import Integers
from dpverify.grid.pairs import ClampedSquares, PairOctaves
from dpverify.grid.transcripts import NOTHING
from dpverify.mechanisms.histogram_gaussian import BINS, MEAN, OCTAVES, SQUARES
from dpverify.plans import Plan, Stage, ThresholdedLaplace
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

REPLACE = Adjacency.REPLACE
Planted = Callable[[HistogramGaussian], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _changed(mechanism: HistogramGaussian, change: Callable[[Stage], Stage], *names: str) -> Plan:
    return with_stages(mechanism.fixed_plan, lambda s: change(s) if s.name in names else s)


def _low_threshold(name: str) -> Planted:
    """Lower the threshold, so that a key of one record is shown more often than delta allows."""

    def planted(mechanism: HistogramGaussian) -> Fault:
        def change(stage: Stage) -> Stage:
            assert isinstance(stage.noise, ThresholdedLaplace)
            low = ThresholdedLaplace(stage.noise.scale, 2)
            return dataclasses.replace(stage, noise=low)

        return plan_fault("shows what is rare", mechanism, _changed(mechanism, change, name))

    return planted


@dataclasses.dataclass(frozen=True, slots=True)
class _Overlapping(PairOctaves):
    """Octaves of every record and the next one, in overlapping pairs: planted."""

    def keys(self, view: View) -> Integers:
        """Return the keys of both ways to pair consecutive records."""
        both = [PairOctaves.keys(self, View(view.records[start:])) for start in (0, 1)]
        return np.concatenate(both)


def _overlapping(mechanism: HistogramGaussian) -> Fault:
    """Pair every record twice, so that replacing it moves four counts."""

    def change(stage: Stage) -> Stage:
        assert isinstance(stage.query, PairOctaves)
        return dataclasses.replace(stage, query=_Overlapping(stage.query.exponent))

    plan = _changed(mechanism, change, OCTAVES)
    return plan_fault("pairs every record with the next one", mechanism, plan)


@dataclasses.dataclass(frozen=True, slots=True)
class _AboutTheFirst(ClampedSquares):
    """Squares about the first record: planted."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Sum squares about the first record, and ignore the released mean."""
        cells = quantize(view.records[:, 0], self.lower, self.upper, self.exponent)
        total = int(((cells - cells[0]) ** 2).sum())
        return np.full((len(before), 1), total)


def _own_center(mechanism: HistogramGaussian) -> Fault:
    """Take squares about a record, which moves all of them."""

    def change(stage: Stage) -> Stage:
        asked = stage.query
        assert isinstance(asked, ClampedSquares)
        wrong = _AboutTheFirst(asked.lower, asked.upper, asked.exponent, asked.center)
        return dataclasses.replace(stage, query=wrong)

    plan = _changed(mechanism, change, SQUARES)
    return plan_fault("takes squares about a record", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_FAR, _NAN = 1e308, float("nan")
# Thousands of equal records: ties are the fullest octave and 0 is the fullest bin, for certain;
# bins are 4 wide.
_EQUAL = [0.0] * 4000
_APART = [0.0, 1.0] * 60 + [0.0, 9.0] * 60
_FEW = [20.0] * 120 + [40.0] * 120


def _pairs(which: str) -> tuple[NeighboringPair, ...]:
    """List the pairs that move the stage ``which`` most: a pair to another octave, a record to
    another bin, one end by the other."""
    pairs: dict[str, tuple[NeighboringPair, ...]] = {
        OCTAVES: (
            replaced("a pair to another octave", [*_APART, *_EQUAL], 9.0, at=1),
            replaced("a pair to an octave of its own", [*_APART, *_EQUAL], 1e9, at=1),
        ),
        BINS: (
            replaced("a record to another bin", [*_FEW, *_EQUAL], 40.0),
            replaced("a record to a bin of its own", [*_FEW, *_EQUAL], 1e9),
        ),
        MEAN: (
            replaced("one end for the other", [_FAR, *_EQUAL, 0.0], -_FAR),
            replaced("a NaN by an end", [_NAN, *_EQUAL, 0.0], _FAR),
        ),
        SQUARES: (
            replaced("one end for the other", [_FAR, *_EQUAL, 0.0], -_FAR),
            replaced("an end for the middle", [_FAR, *_EQUAL, 0.0], 0.0),
        ),
    }
    return pairs[which]


def _attacked(which: str, *faults: Planted) -> Configuration:
    """Attack one stage that has most of epsilon.

    Squares are attacked with a released mean at either end, for its noise is many times the
    range.
    """
    places = (OCTAVES, BINS, MEAN, SQUARES)
    shares: dict[str, Fraction] = {name: Fraction(1, 50) for name in places}
    if which == SQUARES:
        shares[MEAN] = Fraction(1, 10**6)
    shares[which] += 1 - sum(shares.values())
    mechanism = HistogramGaussian(
        adjacency=REPLACE,
        noise_multiplier=Fraction(1, 2),
        cell=1.0,
        delta=Fraction(1, 20),
        shares=tuple(shares[name] for name in places),
        nonfinite="replace",
    )
    return Configuration(
        name=which,
        mechanism=mechanism,
        pairs=_pairs(which),
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset({which}),
        quick_trials=10_000,
    )


CONFIGURATIONS = (
    _attacked(OCTAVES, _low_threshold(OCTAVES), _overlapping),
    _attacked(BINS, _low_threshold(BINS)),
    _attacked(MEAN),
    _attacked(SQUARES, _own_center),
)

# --- small instances ----------------------------------------------------------------------------


def _small(name: str, data: Any, **parameters: Any) -> SmallInstance:
    own: dict[str, Any] = {"cell": 0.25, "delta": Fraction(1, 5), "at_least": 2}
    mechanism = HistogramGaussian(
        adjacency=REPLACE, noise_multiplier=Fraction(1, 20), **own | parameters
    )
    return SmallInstance(name=name, mechanism=mechanism, data=data, followed=15)


SMALL = (
    _small("a line, followed", [0.7 * (k % 11) - 2.0 for k in range(41)]),
    _small("far away, followed", [1e6 + 3.0 * (k * k % 7) for k in range(30)], failure="1/2"),
    _small("equal records and one far, followed", [5.5] * 20 + [1e308]),
    _small("few, followed", (0.3, -0.6, 0.1, 1e308, 0.2, -0.0)),
)

# --- rates --------------------------------------------------------------------------------------


def _line(setting: Mapping[str, Any]) -> HistogramGaussian:
    return HistogramGaussian(
        adjacency=REPLACE,
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        cell=2**-8,
        delta=Fraction(1, 10**6),
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the mean's noise for normal records of deviation 1.04.

    Their differences are mostly from 1 to 2, so that the width is 4.
    """
    return RateClaim(
        name=name,
        mechanism=_line,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 1.3, "deviation": 1.04}),
        target=Empirical(lambda mechanism, data: float(data.mean())),
        error=lambda estimate, truth: abs(estimate.value - truth) / 4,
        curve=Curve(function="noise_error", arguments=("parameters", "n"), margin=1.14),
        source="KV18, a clamped mean",
        repeats=2000,
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (4000, 16_000, 64_000),
        exponent=Exponent(value=-1, tolerance=0.12),
        setting={"noise_multiplier": 1},
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (Fraction(1, 4), 1, 4),
        exponent=Exponent(value=1, tolerance=0.12),
        setting={"n": 16_000},
    ),
)
