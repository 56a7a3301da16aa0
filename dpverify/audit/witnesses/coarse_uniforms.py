"""Noise made by inverting a distribution function at a number of few bits.

Such noise has few values: y = c + b F^-1(k / 2^32) for an integer k, and then 2^33
F((y - c) / b) is nearly an integer for every draw. About another center it is so for one draw
in a million, although both densities are alike (Mironov 2012). A float of 53 bits is too coarse
to show this of generators of 53 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy

from dpverify.audit.outputs.draws import PLAIN, Draws
from dpverify.audit.witnesses.features import Feature
from dpverify.privacy.numbers import Floats

_STEPS = 2.0**33  # steps of 32 bits, and the middles between them
_FEWEST, _MEASURED, _LOOKED = (
    200,
    20_000,
    1000,
)  # draws: at least, for centers and scales, for a first look
_DIFFERENT = 150  # values among the first; atoms have events of their own
_CLOSE, _SHARE = (
    1 / 256,
    0.1,
)  # so many of 200 draws of anything else are so close with probability 1e-15
_ERRORS = 4.0


def _laplace(away: Floats) -> Floats:
    return np.exp(-away)


def _normal(away: Floats) -> Floats:
    return np.asarray(scipy.special.ndtr(-away))


_TAILS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], float]]] = {
    "exponential": (_laplace, lambda away: float(np.mean(away))),
    "normal": (_normal, lambda away: float(np.sqrt(np.mean(away**2)))),
}


def inverted(columns: Sequence[int], own: Draws, other: Draws) -> Iterator[Feature]:
    """Yield how close 2^33 times a tail's probability is to an integer, where some of the draws
    are close.

    Centers are medians, scales are mean distances from them, each rounded as far as its standard
    error allows: round numbers are found, others are not.
    """
    for j in columns:
        for side in (own, other):
            values = _plain(j, side)
            if len(np.unique(values[:_FEWEST])) >= _DIFFERENT:
                with np.errstate(all="ignore"):
                    fits = list(_fitting(values))
                yield from (_feature(j, *one) for one in fits)


def _fitting(values: Floats) -> Iterator[tuple[str, float, float]]:
    """Yield laws, centers and scales about which many of the first draws are close."""
    for center in _round(float(np.median(values)), _ERRORS * _error(values), finer=1):
        away = np.abs(values - center)
        for law, (tail, scale_of) in _TAILS.items():
            for scale in _scales(scale_of(away), len(values)):
                if (_gap(away[:_FEWEST] / scale, tail) < _CLOSE).mean() > _SHARE:
                    yield law, center, scale


def _feature(j: int, law: str, center: float, scale: float) -> Feature:
    tail, _ = _TAILS[law]

    def score(draws: Draws) -> Floats:
        with np.errstate(all="ignore"):
            away = np.abs(draws.column(j) - center) / scale
        return -_gap(away, tail)

    name = f"2^33 times the {law} tail of number {j} beyond {center:g}, scale {scale:g}"
    return Feature(f"closeness to an integer of {name}", score)


def _gap(away: Floats, tail: Callable[[Floats], Floats]) -> Floats:
    """Return the distance to the next integer; 1 at the center, and in tails of less than one
    step.
    """
    steps = _STEPS * tail(away)
    return np.where((away > 0) & (steps >= 1), np.abs(steps - np.round(steps)), 1.0)


def _plain(j: int, side: Draws) -> Floats:
    return side.column(j)[:_MEASURED][side.marked(j).are(PLAIN)[:_MEASURED]]


def _error(values: Floats) -> float:
    """Estimate the error of the median."""
    low, high = np.quantile(values, (0.25, 0.75))
    return 2 * float(high / 2 - low / 2) / float(np.sqrt(len(values)))


def _scales(estimate: float, size: int) -> list[float]:
    """Return round numbers, and inverses of round numbers, near an estimate."""
    if not 1e-290 < estimate < 1e290:
        return []
    error = _ERRORS / np.sqrt(size)
    scales = _round(estimate, error * estimate)
    scales += [1 / rate for rate in _round(1 / estimate, error / estimate) if rate]
    return [one for one in dict.fromkeys(scales) if one > 0]


def _round(value: float, error: float, finer: int = 0) -> list[float]:
    """Return multiples, within the error, of the powers of ten and two that are just above it:
    for these the nearest one; for so many finer powers all.
    """
    if not (np.isfinite(value) and 1e-290 < error < 1e290):
        return []
    multiples = []
    for base in (10.0, 2.0):
        first = math.ceil(math.log(error, base))
        for power in range(first, first - finer - 1, -1):
            most = math.floor(error * base**-power)
            nearest = round(value * base**-power)
            multiples += [(nearest + k) / base**-power for k in range(-most, most + 1)]
    return list(dict.fromkeys(multiples))
