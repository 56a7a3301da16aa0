"""Expectations of normal vectors that a ball limits, by contour integrals of Laplace transforms.

y is normal of mean m and covariance diag(lambda), Q = |y|^2, and phi(s) = E exp(-s Q), which is
prod_j (1 + 2 lambda_j s)^(-1/2) exp(-s m_j^2 / (1 + 2 lambda_j s)). Under the weight exp(-s Q)
the vector is again normal, of mean a_j = m_j / (1 + 2 lambda_j s) and variance b_j = lambda_j /
(1 + 2 lambda_j s), for complex s too: so one path gives E f(Q) times any monomial of y.
Accurate to about 12 digits. Source of the path, a parabola: Weideman and Trefethen 2007; its
vertex and its edge as in ``quadratic_forms``, which has the case m = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy

from dpverify.families.quadratic_forms import (
    Complexes,
    Contour,
    first_lost,
    gauss,
    midpoints,
    path_width,
    scaled_e2,
)
from dpverify.privacy.numbers import Floats

Limit = Literal["inside", "root", "ratio"]
"""The function f(Q). inside: 1 inside the ball and 0 outside; root: min(1, r / |y|); ratio:
min(1, r^2 / |y|^2).
"""

_ORDER = 3.0  # exp(s) phi(s) falls at least as fast as exp(-3 u^2) on the path
_HALF, _REAL = 64, 48  # Gauss's nodes, where the integrand is not zero at an end of the path
_OCTAVES = 200  # quarters searched for the end of the real part: a far mean's is near 0
_ASYMPTOTIC = 60.0


@dataclass(frozen=True)
class Law:
    """The law of y in units in which the ball's radius is 1.

    Means and positive variances, both of shape (d,).
    """

    means: Floats
    variances: Floats

    def logarithm(self, nodes: Complexes) -> Complexes:
        """Compute log phi at nodes, of any shape."""
        forms = 1 + 2 * np.multiply.outer(self.variances, nodes)
        far = np.tensordot(self.means**2, 1 / forms, 1) * nodes
        return np.asarray(-np.log(forms).sum(axis=0) / 2 - far)

    def limited(self, limit: Limit) -> Limited:
        """Evaluate the transform along the path for f."""
        contour = self._inside() if limit == "inside" else self._bounded(limit)
        logs = contour.exponents + self.logarithm(contour.nodes)
        shift = float(logs.real.max())
        terms = contour.factors * np.exp(logs - shift)
        inverse = 1 / (1 + 2 * np.multiply.outer(self.variances, contour.nodes))
        a, b = (part[:, np.newaxis] * inverse for part in (self.means, self.variances))
        return Limited(np.asarray(terms), np.asarray(a), np.asarray(b), shift)

    def _inside(self) -> Contour:
        """Return the contour of P(Q <= 1), which is (1 / 2 pi i) int exp(s) phi(s) / s ds."""
        _, edge, start = self._path()
        roots, step = midpoints(self._width(edge, start))
        nodes = start * roots**2 - edge
        return Contour(nodes, 2 * start * step / math.pi * roots / nodes, nodes)

    def _bounded(self, limit: Limit) -> Contour:
        """Return the contour of E min(1, Q^-p), p = 1/2 or 1.

        That is int_1^inf p b^(-p-1) P(Q <= b) db, so p E_(p+1)(-s) takes the place of exp(s) in
        ``_inside``. E_(p+1)(-s) is cut along positive s, where its imaginary part over pi is
        s^p / Gamma(p) / p: up to the vertex v int_0^v s^(p-1) phi(s) ds / Gamma(p), and from v
        on through the upper half plane (1 / pi) Im int p E_(p+1)(-s) phi(s) / s ds.
        """
        vertex, edge, start = self._path()
        largest = 2 * float(self.variances.max())
        places, weights = gauss(_REAL)
        top = self._end(math.log1p(largest * vertex), largest)
        power = (
            1 if limit == "ratio" else 2
        )  # s is (exp(w^power) - 1) / largest: its root is smooth
        w = top ** (1 / power) * places
        real = np.expm1(w**power) / largest
        factors = top ** (1 / power) * weights * power * w ** (power - 1) * np.exp(w**power)
        if limit == "root":
            factors = factors / np.sqrt(math.pi * real)
        places, weights = gauss(_HALF)
        width = self._width(edge, start)
        roots = 1 + 1j * width * places
        nodes = start * roots**2 - edge
        scaled = scaled_e2(nodes) if limit == "ratio" else _scaled_half_e(nodes)
        upper = 2 / math.pi * width * start * weights * scaled * roots / nodes
        return Contour(
            np.concatenate([real, nodes]),
            np.concatenate([factors / largest, upper]),
            np.concatenate([np.zeros(_REAL), nodes]),
        )

    def _path(self) -> tuple[float, float, float]:
        """Return v, edge and v + edge of the path s = (v + edge) (1 + i u)^2 - edge.

        v is where exp(s) phi(s) / s^3 is flat.
        """
        squares = self.means**2

        def rising(log: float) -> float:
            v = math.exp(log)
            forms = 1 + 2 * self.variances * v
            return 1 - _ORDER / v - float((self.variances / forms + squares / forms**2).sum())

        low = math.log(_ORDER)
        high = low + 1
        while rising(high) < 0:
            high += 2
        vertex = math.exp(float(scipy.optimize.brentq(rising, low, high, rtol=1e-9)))
        edge = min(1 / (2 * float(self.variances.max())), vertex**2)
        return vertex, edge, vertex + edge

    def _width(self, edge: float, start: float) -> float:
        """Find where on the path nothing is left of exp(s) phi(s) / s."""
        return path_width(lambda nodes: (nodes + self.logarithm(nodes)).real, edge, start)

    def _end(self, top: float, largest: float) -> float:
        """Find the w up to which phi at s = (e^w - 1) / largest is not negligible beside
        phi(0) = 1.
        """

        def lost(w: Floats) -> Floats:
            return np.asarray(-self.logarithm((np.expm1(w) / largest).astype(np.complex128)).real)

        return first_lost(lost, top, _OCTAVES)


@dataclass(frozen=True)
class Limited:
    """Expectations E f(Q) g(y) for monomials g, each over exp(shift).

    terms (m,) of f and phi, a and b (d, m) of y.
    """

    terms: Complexes
    a: Complexes
    b: Complexes
    shift: float

    @cached_property
    def total(self) -> float:
        """Return E f(Q)."""
        return float(self.terms.sum().real)

    @cached_property
    def first(self) -> Floats:
        """Return E y f(Q), shape (d,)."""
        return np.asarray((self.a @ self.terms).real)

    @cached_property
    def second(self) -> Floats:
        """Return E y y^T f(Q), shape (d, d)."""
        moments = ((self.a * self.terms) @ self.a.T).real
        moments[np.diag_indices(len(moments))] += (self.b @ self.terms).real
        return np.asarray(moments)

    @cached_property
    def third(self) -> Floats:
        """Return E y_i y_j y_k f(Q), shape (d, d, d)."""
        d = len(self.a)
        pairs = (self.a[:, np.newaxis] * self.a).reshape(d * d, -1) * self.terms
        moments = (pairs @ self.a.T).real.reshape(d, d, d)
        mixed = ((self.b * self.terms) @ self.a.T).real  # E b_i a_k
        i = np.arange(d)
        moments[i, i, :] += mixed
        moments[i, :, i] += mixed
        moments[:, i, i] += mixed.T
        return np.asarray(moments)

    @cached_property
    def fourth(self) -> Floats:
        """Return E y_i y_j y_k y_l f(Q), shape (d, d, d, d), by Wick's formula on each node."""
        d = len(self.a)
        pairs = (self.a[:, np.newaxis] * self.a).reshape(d * d, -1)
        moments = ((pairs * self.terms) @ pairs.T).real.reshape(d, d, d, d)
        mixed = ((pairs * self.terms) @ self.b.T).real.reshape(d, d, d)  # E a_i a_j b_k
        both = ((self.b * self.terms) @ self.b.T).real
        for k in range(d):
            part = mixed[:, :, k]
            moments[:, :, k, k] += part
            moments[k, k, :, :] += part
            moments[:, k, :, k] += part
            moments[k, :, k, :] += part
            moments[:, k, k, :] += part
            moments[k, :, :, k] += part
        i, j = np.meshgrid(np.arange(d), np.arange(d), indexing="ij")
        np.add.at(moments, (i, i, j, j), both)
        np.add.at(moments, (i, j, i, j), both)
        np.add.at(moments, (i, j, j, i), both)
        return np.asarray(moments)


def _scaled_half_e(nodes: Complexes) -> Complexes:
    """Compute exp(-s) E_(3/2)(-s) / 2 for Im s > 0.

    It is 1 - sqrt(pi z) w(i sqrt z) at z = -s; far out by 24 terms.
    """
    z = -nodes
    near = np.abs(z) < _ASYMPTOTIC
    roots = np.sqrt(np.where(near, z, 1.0))
    first = 1 - math.sqrt(math.pi) * roots * scipy.special.wofz(1j * roots)
    far = np.where(near, 2 * _ASYMPTOTIC, z)
    term = 1 / (2 * far)
    second = term.copy()
    for k in range(1, 25):
        term = -term * (k + 0.5) / far
        second += term
    return np.asarray(np.where(near, first, second))
