"""Mean of the normal records of unit covariance that are in a ball cut by a public set, and the
way back from it.

A ball about the origin cut by a half-space, a slab, another ball or the outside of one is symmetric
about an axis. Along that axis one quadrature is left: across it the squared length of a record is
noncentral chi-square of d - 1 degrees. The mean of the records that count lies in the plane of the
axis and the mean of all; so the way back is a search in two dimensions. Lengths are in deviations.
Everything here is a function of public numbers and of what was released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from dpverify.estimation.clipped_response import Inverse, farthest
from dpverify.estimation.kept_sets import LEAST_MASS
from dpverify.grid.public_sets import PublicSet, Slab
from dpverify.privacy.numbers import Floats, to_float

_NODES = 96  # nodes of a smooth piece along the axis
_FAR = 12.0  # deviations from the mean along the axis; the probability beyond is below 1e-31
_WIDE = 12  # standard deviations of a Poisson law; the mass beyond is below 1e-30
_BEYOND = 1e100  # stands for every larger radius: its square is a float
_STEPS = 200
_CLOSE = 1e-11


@dataclass(frozen=True, slots=True)
class Cut:
    """Ball of ``radius`` about the origin of d dimensions, cut by a set with an axis.

    ends: the places along the axis of the planes between which the set lies. about, bound: the
    place along the axis and the radius of a ball, of which the set is the inside or, with
    ``outside``, the outside.
    """

    d: int
    radius: float
    ends: tuple[float, float] = (-math.inf, math.inf)
    about: float = 0.0
    bound: float = math.inf
    outside: bool = False

    def sections(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the squared lengths across the axis between which the set lies at these
        places; the set is empty where the second is not larger.
        """
        own = self.radius**2 - t**2
        if math.isinf(self.bound):
            return np.full_like(t, -1.0), own
        other = self.bound**2 - (t - self.about) ** 2
        return (other, own) if self.outside else (np.full_like(t, -1.0), np.minimum(own, other))

    def places(self, middle: float) -> Floats:
        """Return the ends of smooth pieces along the axis, in order, within reach of
        ``middle``; fewer than two where there is nothing.
        """
        low = max(-self.radius, self.ends[0], middle - _FAR)
        high = min(self.radius, self.ends[1], middle + _FAR)
        inner = []
        if math.isfinite(self.bound):
            inner = [self.about - self.bound, self.about + self.bound]
            if self.about:
                # the place where both spheres meet
                inner.append((self.radius**2 - self.bound**2 + self.about**2) / (2 * self.about))
        places = sorted({low, high, *(p for p in inner if low < p < high)}) if low < high else []
        return np.array(places)


@dataclass(frozen=True, slots=True)
class Limited:
    """Moments of those y ~ N(m, I) that are counted, with m given along the axis and across it.

    inside: their share. mean: along and across, shape (2,). covariance: of these, shape (2, 2),
    which is the derivative of the mean by m. beside: the variance in every other direction.
    """

    inside: float
    mean: Floats
    covariance: Floats
    beside: float


def cut_of(kept: PublicSet, radius: float, deviation: float, d: int) -> tuple[Cut, Floats]:
    """Return a public set of images in a ball of so many deviations as a cut, with its axis, of
    unit length and shape (d,).
    """
    if isinstance(kept, Slab):
        normal = np.array(kept.normal, np.float64)
        length = float(np.linalg.norm(normal))
        ends = [
            default if end is None else to_float(Fraction(end)) / (length * deviation)
            for end, default in ((kept.low, -math.inf), (kept.high, math.inf))
        ]
        return Cut(d, radius, ends=(ends[0], ends[1])), normal / length
    center = np.array(kept.center, np.float64)
    about = float(np.linalg.norm(center))
    bound = min(to_float(Fraction(kept.radius)) / deviation, _BEYOND)
    axis = center / about if about else np.eye(1, d)[0]
    return Cut(d, radius, about=about / deviation, bound=bound, outside=kept.outside), axis


def limited(cut: Cut, along: float, across: float) -> Limited | None:
    """Compute ``Limited`` by Gauss's rule in an angle, so that square roots at the ends of
    pieces are smooth; None where nothing counts.

    For |z|^2 noncentral chi-square of d - 1 degrees, z = (across, 0, ...) + noise: with F_k =
    P(|z|^2 <= h) for k more degrees, E z = across F_2 and E z z^T = F_2 I + across^2 F_4 along
    (across, 0, ...).
    """
    places, weights = _nodes(cut, along)
    if not len(places):
        return None
    density = weights * np.exp(-((places - along) ** 2) / 2) / math.sqrt(2 * math.pi)
    low, high = cut.sections(places)
    parts = _shares(cut.d - 1, high, abs(across)) - _shares(cut.d - 1, low, abs(across))
    zero, two, four = np.maximum(parts, 0.0) * density
    inside = float(zero.sum())
    if not inside > 0:
        return None
    first, own = float(places @ zero) / inside, float(two.sum()) / inside
    square, mixed = float(places**2 @ zero) / inside, across * float(places @ two) / inside
    second, beyond = across * own, across**2 * float(four.sum()) / inside
    cross = mixed - first * second
    covariance = np.array([[square - first**2, cross], [cross, own + beyond - second**2]])
    if cut.d == 1:
        covariance, own = np.array([[square - first**2, 0.0], [0.0, 1.0]]), 1.0
    return Limited(inside, np.array([first, second]), covariance, own)


def solved(cut: Cut, target: Floats) -> tuple[Floats, Limited] | None:
    """Find the mean, along the axis and across it, of the law whose counted records have this
    mean; return it with its ``Limited``.

    The minimized function is convex: the logarithm of the integral over the set of exp(<m, y> -
    |y|^2 / 2), less <m, target>. Its derivative is the mean less the target, its second one the
    covariance; so damped Newton steps end at the only solution, if there is one. Returns None
    where they do not, where the solution is too far from the ball's center to be told, and
    where less than LEAST_MASS counts; and at once for a target outside of the ball, which
    cannot be the mean of records inside.
    """
    length, limit = float(np.linalg.norm(target)), farthest(cut.d, "mask") + 1
    if not length < cut.radius:
        return None
    at = target * min(1.0, limit / max(length, limit))
    here = limited(cut, *at)
    for _ in range(_STEPS):
        if here is None:
            return None
        gradient = here.mean - target
        if float(np.abs(gradient).max()) <= _CLOSE * (1 + cut.radius):
            return (at, here) if here.inside >= LEAST_MASS else None
        if float(np.linalg.norm(at)) > limit:
            return None
        step: Floats = np.asarray(
            np.linalg.lstsq(here.covariance, -gradient, rcond=None)[0], np.float64
        )
        size = float(np.linalg.norm(step))
        if not size > 0:  # the set is thinner than floats can tell, so its mean follows no mean
            return None
        moved = _nearer(cut, at, here, step * min(1.0, 1.0 / size), target)
        if moved is None:
            return None
        at, here = moved
    return None


def back(cut: Cut, axis: Floats, offset: Floats) -> tuple[Floats, Inverse] | None:
    """Find the mean of all records from the mean of those that count, both of shape (d,);
    return it with the derivative. None as for ``solved``.
    """
    along = float(axis @ offset)
    rest = offset - along * axis
    across = float(np.linalg.norm(rest))
    solution = solved(cut, np.array([along, across]))
    if solution is None:
        return None
    at, here = solution
    other = rest / across if across else rest
    axes = np.stack([axis, other], axis=1)
    return axes @ at, Inverse(
        here.beside, axes, np.asarray(np.linalg.inv(here.covariance), np.float64)
    )


def _nearer(
    cut: Cut, at: Floats, here: Limited, step: Floats, target: Floats
) -> tuple[Floats, Limited] | None:
    """Halve the step until the minimized function decreases, or its derivative does where
    rounding hides the decrease.
    """
    off = float(np.linalg.norm(here.mean - target))
    for _ in range(40):
        moved = at + step
        there = limited(cut, *moved)
        if there is not None:
            less = _level(moved, there, target) < _level(at, here, target)
            if less or float(np.linalg.norm(there.mean - target)) < off:
                return moved, there
        step = step / 2
    return None


def _level(at: Floats, here: Limited, target: Floats) -> float:
    return float(at @ at) / 2 + math.log(here.inside) - float(at @ target)


def _nodes(cut: Cut, middle: float) -> tuple[Floats, Floats]:
    """Return places along the axis and their weights, of all pieces."""
    ends = cut.places(middle)
    if len(ends) < 2:
        return ends[:0], ends[:0]
    unit, weights = _rule()
    half = np.diff(ends)[:, np.newaxis] / 2
    return (ends[:-1, np.newaxis] + half * unit).ravel(), (half * weights).ravel()


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Compute Gauss's rule for t = 1 - cos(angle), from 0 to 2."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    angles = (nodes + 1) * math.pi / 2
    return 1 - np.cos(angles), weights * (math.pi / 2) * np.sin(angles)


def _shares(k: int, squares: Floats, offset: float) -> Floats:
    """Compute P(|z|^2 <= square) for noncentral chi-square of k, k + 2 and k + 4 degrees, shape (3,
    number of squares)."""
    mean = offset * offset / 2
    spread = _WIDE * (math.sqrt(mean) + 3)
    first = max(0, math.floor(mean - spread))
    terms = np.arange(first, math.ceil(mean + spread) + 1)
    weights = (
        np.exp(terms * math.log(mean) - mean - scipy.special.gammaln(terms + 1))
        if mean
        else terms == 0
    )
    half = k / 2 + np.arange(first, first + len(terms) + 2)[:, np.newaxis]
    masses = np.where(
        squares < 0, 0.0, scipy.special.gammainc(np.maximum(half, 0.5), np.maximum(squares, 0) / 2)
    )
    masses[half[:, 0] == 0] = squares >= 0  # with no degrees of freedom z = 0
    return np.stack([weights @ masses[i : i + len(terms)] for i in range(3)])
