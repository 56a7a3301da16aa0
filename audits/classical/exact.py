"""Exact laws of the classical mechanisms: closed forms, and integrals over one shared noise.

A sparse vector's answers are independent given the threshold's noise, and a noisy maximum's losers
are independent given the winner: each probability is one integral of a function that is smooth
between known kinks. Gauss-Legendre quadrature between the kinks is good to about 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_SCALES = 40
"""Reach of the integrals, in scales: what is left out is below e^-40."""


def laplace_cdf(x: ArrayLike, scale: float) -> Floats:
    """Return P(L <= x) for Laplace noise L."""
    values = np.asarray(x, dtype=np.float64) / scale
    half = np.exp(-np.abs(values)) / 2
    return np.where(values < 0, half, 1 - half)


def exponential_cdf(x: ArrayLike, scale: float) -> Floats:
    """Return P(E <= x) for exponential noise E of mean ``scale``."""
    return -np.expm1(-np.maximum(np.asarray(x, dtype=np.float64), 0.0) / scale)


def under_laplace(scale: float, kinks: Iterable[float], given: Callable[[Floats], Floats]) -> float:
    """Integrate ``given(r)`` over Laplace noise r; ``given`` is smooth between the kinks."""
    steps = scale * np.arange(-_SCALES, _SCALES + 1)
    return _integral([*steps, *kinks], lambda r: np.exp(-np.abs(r) / scale) / 2 / scale * given(r))


def under_exponential(
    scale: float, kinks: Iterable[float], given: Callable[[Floats], Floats]
) -> float:
    """Integrate ``given(r)`` over exponential noise r of mean ``scale``."""
    steps = scale * np.arange(_SCALES + 1)
    inside = [kink for kink in kinks if kink > 0]
    return _integral([*steps, *inside], lambda r: np.exp(-r / scale) / scale * given(r))


def _integral(breaks: Sequence[float], integrand: Callable[[Floats], Floats]) -> float:
    ends = np.unique(np.asarray(breaks, dtype=np.float64))
    halves, middles = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    places = (middles[:, np.newaxis] + halves[:, np.newaxis] * _NODES).ravel()
    weights = (halves[:, np.newaxis] * _WEIGHTS).ravel()
    return float(weights @ integrand(places))
