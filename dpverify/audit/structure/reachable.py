"""Reachable floats: the set that a float formula for Laplace noise can reach is porous, and
moves with the center.

An inverse-CDF sampler makes its noise of a uniform u = j 2^-53, so an output y around a center
a has at most a few candidates j near 2^53 exp(-|y - a| / scale): all within ``WINDOW`` are
tried. Where the set is so dense that this is too few, nearly every float is reachable and
nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats

Hits = NDArray[np.bool_]
Formula = Callable[[Floats, Floats, float], Hits]
"""Function (outputs, centers, scale) -> which outputs the formula can reach; shape (n,) each."""

WINDOW = 40
_GRID = 2.0**53
_SPLITTER = 2.0**27 + 1  # Dekker 1971: halves of 26 bits multiply exactly
_AT_ONCE = 1 << 14


def reachable(formula: Formula, outputs: Floats, centers: Floats, scale: float) -> Hits:
    """Return which outputs the formula reaches from their centers, shape (n,); never where not
    finite.
    """
    hits = np.zeros(len(outputs), dtype=np.bool_)
    with np.errstate(all="ignore"):
        for start in range(0, len(outputs), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            hits[part] = formula(outputs[part], centers[part], scale)
    return hits & np.isfinite(outputs)


def numpy_laplace(outputs: Floats, centers: Floats, scale: float) -> Hits:
    """Test numpy's Generator.laplace: loc + scale log(2u) for u < 1/2, else loc - scale
    log(2 - 2u).
    """
    y, a = outputs[:, np.newaxis], centers[:, np.newaxis]
    half = _tail(y, a, scale) / 2
    low = _near(half)
    high = _near(1 - half)
    below = (a + scale * np.log(low + low) == y) & (low < 0.5)
    above = (a - scale * np.log(2.0 - high - high) == y) & (high >= 0.5)
    return np.asarray((below | above).any(axis=1), dtype=np.bool_)


def textbook(outputs: Floats, centers: Floats, scale: float) -> Hits:
    """Test center +- scale log(u), every operation rounded."""
    y, a = outputs[:, np.newaxis], centers[:, np.newaxis]
    noise = scale * np.log(_near(_tail(y, a, scale)))
    return np.asarray(((a + noise == y) | (a - noise == y)).any(axis=1), dtype=np.bool_)


def quotient(outputs: Floats, centers: Floats, scale: float) -> Hits:
    """Test center +- log(u) / epsilon with epsilon = 1 / scale."""
    y, a = outputs[:, np.newaxis], centers[:, np.newaxis]
    noise = np.log(_near(_tail(y, a, scale))) / (1.0 / scale)
    return np.asarray(((a + noise == y) | (a - noise == y)).any(axis=1), dtype=np.bool_)


def fused(outputs: Floats, centers: Floats, scale: float) -> Hits:
    """Test center +- scale log(u) rounded once, as compilers do where the processor multiplies
    and adds.
    """
    y, a = outputs[:, np.newaxis], centers[:, np.newaxis]
    logs = np.log(_near(_tail(y, a, scale)))
    near = (_multiply_add(scale, logs, a) == y) | (_multiply_add(-scale, logs, a) == y)
    return np.asarray(near.any(axis=1), dtype=np.bool_)


FORMULAS: MappingProxyType[str, Formula] = MappingProxyType(
    {
        "numpy's formula": numpy_laplace,
        "the textbook's formula": textbook,
        "the textbook's formula, divided by epsilon": quotient,
        "the textbook's formula, fused": fused,
    }
)


def _tail(y: Floats, a: Floats, scale: float) -> Floats:
    return np.asarray(np.exp(-np.abs(y - a) / scale), dtype=np.float64)


def _near(u: Floats) -> Floats:
    """Return the multiples of 2^-53 in (0, 1] around each u, shape (n, 2 WINDOW + 1); NaN
    outside.
    """
    j = np.rint(_GRID * u) + np.arange(-WINDOW, WINDOW + 1)
    return np.where((j >= 1) & (j <= _GRID), j / _GRID, np.nan)


def _multiply_add(x: float, y: Floats, z: Floats) -> Floats:
    """Compute x y + z rounded once (but for ties of the second order), by error-free
    transformations.
    """
    product = x * y
    total = z + product
    back = total - z
    lost = (z - (total - back)) + (product - back)
    return np.asarray(total + (lost + _product_error(x, y, product)), dtype=np.float64)


def _product_error(x: float, y: Floats, product: Floats) -> Floats:
    x_high, x_low = _split(np.asarray(x, dtype=np.float64))
    y_high, y_low = _split(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return np.asarray(error, dtype=np.float64)


def _split(x: Floats) -> tuple[Floats, Floats]:
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high
