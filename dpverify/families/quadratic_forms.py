"""Laws of quadratic forms of normal vectors, by contour integrals of their Laplace transforms.

Q = y_1^2 + ... + y_d^2 for independent normal y_j of variances lambda_j, and phi(s) = E
exp(-s Q), which is prod_j (1 + 2 lambda_j s)^(-1/2). Lengths are in units in which the bound on
Q is 1. Accurate up to 5000 columns. Everything here is post-processing in floats. Source of the
contour, a parabola: Weideman and Trefethen 2007; its vertex, at a saddle point, and its edge:
OURS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats

Complexes = NDArray[np.complexfloating[Any, Any]]
_MIDPOINTS, _LONGEST_STEP = 128, 0.12
_HALF, _REAL = 64, 48  # Gauss's nodes, where the integrand is not zero at an end of the path
_WIDTHS = 32 * 2.0 ** (-np.arange(65) / 4)
_LOST = 40.0  # e^-40 of the integrand is negligible
_ASYMPTOTIC = 60.0


@dataclass(frozen=True, slots=True)
class Contour:
    """Nodes of a path, and the weights of the transform there.

    The weights are factors times exp(exponents). Shapes (m,).
    """

    nodes: Complexes
    factors: Complexes
    exponents: Complexes


@dataclass(frozen=True, slots=True)
class Transform:
    """The transform of one spectrum along a contour, of shape (m,), over exp(shift).

    ``inverse`` are the 1 / (1 + 2 lambda_i s), of shape (d, m).
    """

    spectrum: Floats
    nodes: Complexes
    terms: Complexes
    inverse: Complexes
    shift: float

    @property
    def total(self) -> float:
        """Integrate the transform itself, over exp(shift)."""
        return float(self.terms.sum().real)

    def once(self) -> Floats:
        """Integrate phi / (1 + 2 lambda_i s), over exp(shift): shape (d,)."""
        return np.asarray((self.inverse @ self.terms).real)

    def twice(self, slope: bool = False) -> Floats:
        """Integrate phi / ((1 + 2 lambda_i s) (1 + 2 lambda_j s)), times s for a ``slope``:
        shape (d, d).
        """
        terms = self.terms * self.nodes if slope else self.terms
        return np.asarray(((self.inverse * terms) @ self.inverse.T).real)


def transform(spectrum: Floats, contour: Contour) -> Transform:
    """Evaluate phi along a contour."""
    forms: Complexes = 1 + 2 * np.multiply.outer(spectrum, contour.nodes)
    logarithms = contour.exponents - 0.5 * np.log(forms).sum(axis=0)
    shift = float(logarithms.real.max())
    terms = contour.factors * np.exp(logarithms - shift)
    return Transform(spectrum, contour.nodes, terms, np.asarray(1 / forms), shift)


def inside(spectrum: Floats) -> Contour:
    """Give the path on which phi integrates to P(Q <= 1)."""
    _, edge, start = _right_path(spectrum)
    roots, step = midpoints(_width(spectrum, edge, start))
    nodes = start * roots**2 - edge
    return Contour(nodes, 2 * start * step / math.pi * roots / nodes, nodes)


def bounded(spectrum: Floats) -> Contour:
    """Give the path on which phi integrates to int_0^1 P(Q <= 1 / t) dt, which is E min(1, 1 / Q).

    It is (1 / 2 pi i) int exp(s) / s^2 Phi(s) ds for Phi(s) = int_0^s phi, for int_0^1 phi(t s)
    dt = Phi(s) / s. By parts, with -E_2(-s) / s for an integral of exp(s) / s^2, which jumps by
    2 pi i where the path crosses the positive numbers, at v, that is int_0^v phi ds + (1 / pi)
    Im int E_2(-s) phi(s) / s ds, from v through the upper half plane.
    """
    vertex, edge, start = _right_path(spectrum)
    largest = 2 * float(spectrum.max())
    places, weights = gauss(_REAL)
    top = _end(spectrum, math.log1p(largest * vertex))
    real = np.expm1(top * places) / largest
    real_factors = top * weights * np.exp(top * places) / largest
    places, weights = gauss(_HALF)
    width = _width(spectrum, edge, start)
    roots = 1 + 1j * width * places
    nodes = start * roots**2 - edge
    factors = 2 / math.pi * width * start * weights * scaled_e2(nodes) * roots / nodes
    return Contour(
        np.concatenate([real, nodes]),
        np.concatenate([real_factors, factors]),
        np.concatenate([np.zeros(_REAL), nodes]),
    )


def _right_path(spectrum: Floats) -> tuple[float, float, float]:
    """Give v, edge and start = v + edge of the path s = start (1 + i u)^2 - edge, from
    v > 0 around 0.

    About the singularities themselves, from -1 / (2 max lambda) on, phi falls all along the
    path, however many columns there are; but 0 is then close to it. It is far enough, for its
    width, if the edge is at most v^2.
    """
    vertex = _right_saddle(spectrum)
    edge = min(1 / (2 * float(spectrum.max())), vertex**2)
    return vertex, edge, vertex + edge


def _right_saddle(spectrum: Floats) -> float:
    """Solve v = 3 + sum_j lambda_j v / (1 + 2 lambda_j v): there exp(s) phi(s) / s^3 is flat.

    The right side is concave, so Newton's method comes down to the only solution from above. On
    the parabola from there exp(s) phi(s) falls at least as exp(-3 u^2), to the second order,
    and half as fast with two factors 1 + 2 lambda_i s more.
    """
    order = 3.0
    vertex = order + len(spectrum) / 2
    for _ in range(100):
        shares = spectrum / (1 + 2 * spectrum * vertex)
        slope = 1 - float((shares / (1 + 2 * spectrum * vertex)).sum())
        lower = vertex - (vertex - order - vertex * float(shares.sum())) / slope
        if lower >= vertex * (1 - 1e-9):
            break
        vertex = lower
    return vertex


def _end(spectrum: Floats, top: float) -> float:
    """Find the w up to which phi at s = (e^w - 1) / (2 max lambda) is not negligible beside
    phi(0) = 1.
    """
    ratios = spectrum / spectrum.max()
    return first_lost(
        lambda w: 0.5 * np.log1p(np.multiply.outer(np.expm1(w), ratios)).sum(axis=1), top, 40
    )


def first_lost(lost: Callable[[Floats], Floats], top: float, number: int) -> float:
    """Find where an increasing loss, in logarithms, leaves nothing.

    The search is among ``top`` and ``number`` quarter octaves below; it returns ``top`` if no
    other place is found.
    """
    tops = top * 2.0 ** (-np.arange(number) / 4)
    return float(tops[max(int(np.argmax(lost(tops) < _LOST)) - 1, 0)])


def _width(spectrum: Floats, edge: float, start: float) -> float:
    """Find where on the path s = start (1 + i u)^2 - edge nothing is left of exp(s) phi(s)."""

    def size(nodes: Complexes) -> Floats:
        forms = np.abs(1 + 2 * np.multiply.outer(spectrum, nodes))
        return np.asarray(nodes.real - 0.5 * np.log(forms).sum(axis=0))

    return path_width(size, edge, start)


def path_width(size: Callable[[Complexes], Floats], edge: float, start: float) -> float:
    """Find the u beyond which nothing is left of exp(size) / |s| on a path.

    The path is s = start (1 + i u)^2 - edge.
    """
    nodes = start * (1 + 1j * np.append(0.0, _WIDTHS)) ** 2 - edge
    sizes = size(nodes) - np.log(np.abs(nodes))
    left = sizes[1:] > sizes.max() - _LOST
    return float(_WIDTHS[max(int(np.argmax(left)) - 1, 0)]) if left.any() else float(_WIDTHS[-1])


def midpoints(width: float) -> tuple[Complexes, float]:
    """Give 1 + i u for u in the middles of equal steps up to ``width``, and the step."""
    number = max(_MIDPOINTS, math.ceil(width / _LONGEST_STEP))
    step = width / number
    return 1 + 1j * step * (np.arange(number) + 0.5), step


@lru_cache(maxsize=4)
def gauss(number: int) -> tuple[Floats, Floats]:
    """Give Gauss's nodes and weights on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(number)
    return (places + 1) / 2, weights / 2


def scaled_e2(nodes: Complexes) -> Complexes:
    """Compute exp(-s) E_2(-s), for Im s > 0.

    It is from E_1 where that can be, else by 24 terms of its expansion.
    """
    near = np.abs(nodes) < _ASYMPTOTIC
    values = np.empty(nodes.shape, np.complex128)
    close, far = nodes[near], nodes[~near]
    values[near] = 1 + close * scipy.special.exp1(-close) * np.exp(-close)
    term = np.asarray(-1 / far)
    second = term.copy()
    for k in range(2, 26 if len(far) else 2):
        term = term * k / far
        second += term
    values[~near] = second
    return values
