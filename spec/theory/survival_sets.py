"""Sets to which records are truncated: the mass that they have under every near law, and the
variance that remains inside.

T is the statistic of an exponential family with p parameters; the eigenvalues of its covariance
are from l to L for parameters in a convex set. Under a prior, |theta - theta0| <= R, records
with |T - E_theta0 T| <= ``survival_radius`` are kept. Where ZZ25 chains constants, there are
explicit ones here; all of them concern errors, and privacy rests on none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from . import families
from .clipped_response import moment
from .families import Known
from .obligations import require
from .truncated_laws import mass_bound

_RADIUS = Source(
    "ZZ25", "Proposition B.1, mass of the survival set", note="with the radius sqrt(2 p L) + L R"
)
_SQUARE = Source(
    "ZZ25",
    "Proposition B.2, mass under a nearby parameter",
    SourceStatus.REFUTED,
    note="a^2 exp(-c L D^2) fails for every c where L bounds the covariance on a convex set of "
    "parameters alone; from a mass of 1/4 on it holds with c = 3/2, and Jensen's inequality bounds "
    "all masses",
)
_VARIANCE = Source(
    "ZZ25",
    "Proposition B.3, variance of a truncated law",
    SourceStatus.CHANGED_CONSTANTS,
    note="l (a / B)^(2 k) / (2 k + 1); for statistics of degree 1 it is l a^2 / 12",
)
_CONVEX = Source(
    "ZZ25",
    "Lemma 3.5, strong convexity on the projection set",
    SourceStatus.CHANGED_CONSTANTS,
    note="l / 48 for statistics of degree 1, without exp(L / l)",
)


def _worlds() -> list[tuple[str, Known, float]]:
    return [
        ("normal", families.normal(2.0), 0.7),
        ("exponential", families.exponential(), -0.2),
        ("bernoulli", families.bernoulli(), 1.5),
        ("continuous poisson", families.poisson(lattice=False), 2.0),
    ]


# --- masses -------------------------------------------------------------------------------------


@states(_RADIUS)
def survival_radius(p: int, most: float, far: float) -> float:
    """Give sqrt(2 p L) + L R: within this distance of E_theta0 T lie at least half of the records
    of every law with |theta - theta0| <= R.

    E|T - E_theta T|^2 = tr Cov <= p L, so by Markov half of them are within sqrt(2 p L) of
    their mean; and means are gradients of the log partition, whose Hessian is at most L on the
    segment: |E_theta T - E_theta0 T| <= L R. QED Three masses about 0 attain the first term.
    """
    return math.sqrt(2 * p * most) + most * far


def _star(p: int, far: float) -> tuple[float, float, float]:
    """Return a bound L for |theta| <= far; and the mass of T = 0 under theta0 and under the
    farthest theta along an axis.

    T is 0 with mass .48, else a unit vector along one of the axes, either way, under
    theta0 = 0.

    The Hessian is at most the diagonal of E T_j^2, which is largest for theta along axis j.
    """
    q, rise = 0.52, math.cosh(far)
    total = 1 - q + q / p * (rise + p - 1)
    return q / p * rise / total, 1 - q, (1 - q) / total


@states(_RADIUS)
def obligation_survival(claimed: Callable[[int, float, float], float] = survival_radius) -> int:
    """Check that at the ends of the prior at least half of the mass is inside: for three masses
    about 0 in up to 9 dimensions, where 3% less would be false, for four families, and for
    normal vectors in up to 30 dimensions.
    """
    cases = 0
    for p, far in product((1, 2, 9), (0.0, 0.02)):
        most, near, end = _star(p, far)
        inside = 1.0 if claimed(p, most, far) >= 1 else min(near, end)
        require(inside >= 0.5, f"star, {p}, {far}: {inside}")
        cases += 1
    for d, far in product((1, 5, 30), (0.0, 1.0, 6.0)):
        inside = float(moment(d, mp.mpf(claimed(d, 1.0, far)), mp.mpf(far), "mask").inside)
        require(inside >= 0.5, f"normal, {d}, {far}: {inside}")
        cases += 1
    for (name, family, theta), steps in product(_worlds(), (0.0, 0.3, 0.8)):
        free = families.whole(family, theta)
        far = steps / math.sqrt(free.variance)
        between = [theta + far * k / 8 for k in range(-8, 9)]
        most = max(families.whole(family, one).variance for one in between)
        radius = claimed(1, most, far)
        for one in (between[0], theta, between[-1]):
            ends = free.mean - radius, free.mean + radius
            inside = families.limited(family, one, *ends, "mask").inside
            require(inside >= 0.5, f"{name}, {theta}, {far}: {inside}")
            cases += 1
    return cases


LEAST_SHARE = 0.25


@states(_SQUARE)
def obligation_square_of_mass(claimed: float = LEAST_SHARE) -> int:
    """Check that from ``claimed`` on a^2 exp(-3/2 L D^2) is below what Jensen's inequality gives,
    and so below the mass; for small sets it is not below the mass, with any constant.

    With D in units of sqrt(L): -ln a + D^2 >= D sqrt((1 - a) / a) for every D where (1 - a) / (4 a)
    <= -ln a, and 1 - a <= -ln a. But when an exponential rate goes from 1 to 3, L = 1, the mass
    e^-x of [x, inf) becomes e^(-3 x), below e^(-2 x - 4 c) from x > 4 c on.
    """
    cases = 0
    for k, j in product(range(1, 81), range(120)):
        share, distance = claimed + (1 - claimed) * k / 80, j / 12
        square = 2 * math.log(share) - 1.5 * distance**2
        require(square <= mass_bound(share, 1.0, distance) + 1e-12, f"{share}, {distance}")
        cases += 1
    for c in (1.0, 1.5, 10.0, 1000.0):
        x = 4 * c + 1
        require(-3 * x < -2 * x - c * 2**2, f"{c}: the mass of [{x}, inf) is no counterexample")
        require(mass_bound(math.exp(-min(x, 700.0)), 1.0, 2.0) <= -3 * min(x, 700.0), f"{c}")
        cases += 1
    return cases


# --- variances ----------------------------------------------------------------------------------


@states(_VARIANCE)
def least_variance(share: float, degree: int = 1, ball: float = 2.0) -> float:
    """Compute (a / B)^(2 k) / (2 k + 1): the variance that remains on every set of mass a, where
    P(|T - c| <= g s) <= B g^(1 / k) for all c and g.

    s is the deviation of T. Inside, P(|T - c| <= g s) <= B g^(1 / k) / a, so E (T - c)^2 is at
    least s^2 times the integral of 1 - (B / a) t^(1 / (2 k)) over t up to (a / B)^(2 k), for
    every c, the mean inside among them. QED Of a log-concave law of degree k in its records B
    exists (Carbery and Wright). For T linear in them, T along any direction is log-concave
    (Prekopa) and has a density of at most 1 / s, so that B = 2, k = 1: a^2 / 12 in every
    direction. For let M be the largest value of a log-concave density f, at the quantile q. As
    a function of the quantile p, f is concave (its derivative is that of log f), so at least M
    min(p / q, (1 - p) / (1 - q)), with equality for exponential tails of scales q / M and
    (1 - q) / M to either side. Distances between quantiles, which are integrals of 1 / f, are
    at most those of that law, hence so is the variance, half of the mean square of the distance
    of two draws: (1 - 2 q (1 - q)) / M^2 at most. QED
    """
    return float((share / ball) ** (2 * degree) / (2 * degree + 1))


SQUARED_NORMAL = math.sqrt(2 / math.pi) * 8**0.25
"""B for k = 2 of squares of normal numbers, whose density falls: P(x^2 <= 2 g sqrt(2)) <= sqrt(2 /
pi) (2 g sqrt(2))^(1/2)."""
Piece = tuple[float, float]


def _sets(middle: float, s: float, low: float) -> Iterator[tuple[Piece, ...]]:
    """Yield intervals, half-lines and pairs of intervals, in deviations about the mean; and short
    ones from the support's low end on."""
    for a, b in ((-0.5, 0.5), (-1.0, 0.2), (0.3, 40.0), (-0.05, 0.05), (-2.0, 2.0)):
        yield ((middle + a * s, middle + b * s),)
    yield ((middle - 0.6 * s, middle - 0.5 * s), (middle + 0.1 * s, middle + 0.4 * s))
    yield ((middle - 9 * s, middle - 0.9 * s), (middle + 1.1 * s, middle + 9 * s))
    if low > -math.inf:
        for width in (0.02, 0.3, 1.0):
            yield ((low, low + width * s),)


def _inside(family: Known, theta: float, pieces: tuple[Piece, ...]) -> tuple[float, float]:
    """Compute the mass of a union of intervals, and the variance of T inside."""
    parts = [families.limited(family, theta, *piece, "mask") for piece in pieces]
    share = math.fsum(part.inside for part in parts)
    if not share > 1e-12:
        return 0.0, 0.0
    mean = math.fsum(part.inside * part.mean for part in parts) / share
    squares = math.fsum(part.inside * (part.variance + (part.mean - mean) ** 2) for part in parts)
    return share, squares / share


@states(_VARIANCE)
def obligation_least_variance(claimed: Callable[..., float] = least_variance) -> int:
    """Check on intervals, half-lines and unions of two, for four log-concave families, that no
    variance inside is below ``claimed`` times that of the whole law.

    For short intervals at an exponential law's end one is within 5% of it. No interval has more
    mass than its length over the deviation. For squares of normal numbers, of degree 2, the
    same holds, and one is within a factor of 2.
    """
    cases, nearest = 0, 0.0
    for name, family, theta in _worlds():
        free = families.whole(family, theta)
        s, low = math.sqrt(free.variance), max(family.support[0], family.window(theta)[0])
        for pieces in _sets(free.mean, s, low if family.support[0] > -math.inf else -math.inf):
            share, variance = _inside(family, theta, pieces)
            if not share:
                continue
            case = f"{name}, {pieces}: {share}, {variance / free.variance}, {claimed(share)}"
            require(variance >= claimed(share) * free.variance * (1 - 1e-6), case)
            length = math.fsum(b - a for a, b in pieces)
            require(share <= length / s * (1 + 1e-9), f"{case}: {length / s}")
            nearest, cases = max(nearest, claimed(share) * free.variance / variance), cases + 1
    require(nearest > 0.95, f"the bound is never near: {nearest}")
    return cases + _of_squares(claimed)


def _of_squares(claimed: Callable[..., float]) -> int:
    """Look at T = x^2 of a standard normal x, of variance 2, for a <= |x| <= b."""
    cases, nearest = 0, 0.0
    for a, b in ((0.0, 0.05), (0.0, 0.7), (0.0, 3.0), (0.5, 0.6), (1.0, 9.0)):
        parts = [
            mp.quad(lambda x, k=k: 2 * x**k * mp.npdf(x), [a, (a + b) / 2, b]) for k in (0, 2, 4)
        ]
        variance = parts[2] / parts[0] - (parts[1] / parts[0]) ** 2
        bound = 2 * claimed(float(parts[0]), 2, SQUARED_NORMAL)
        require(variance >= bound, f"squares, {a} to {b}: {variance}, {bound}")
        nearest, cases = max(nearest, float(bound / variance)), cases + 1
    require(nearest > 0.5, f"squares: the bound is never near: {nearest}")
    return cases


LEAST_CURVATURE = least_variance(0.5)


@states(_CONVEX)
def obligation_curvature(claimed: float = LEAST_CURVATURE) -> int:
    """Check that on the survival set of mass 1/2 every law of the prior keeps ``claimed`` of the
    least variance over the prior: four families, and normal vectors in every direction."""
    cases = 0
    for (name, family, theta), steps in product(_worlds(), (0.05, 0.4, 0.8)):
        free = families.whole(family, theta)
        far = steps / math.sqrt(free.variance)
        between = [theta + far * k / 8 for k in range(-8, 9)]
        variances = [families.whole(family, one).variance for one in between]
        radius = survival_radius(1, max(variances), far)
        ends = free.mean - radius, free.mean + radius
        for one in between:
            slope = families.limited(family, one, *ends, "mask").slope
            case = f"{name}, {steps}, {one}: {slope}, {claimed * min(variances)}"
            require(slope >= claimed * min(variances), case)
            cases += 1
    for d, far in product((1, 5, 30), (0.0, 1.0, 6.0)):
        at = moment(d, mp.mpf(survival_radius(d, 1.0, far)), mp.mpf(far), "mask")
        require(min(at.slope, at.ratio) >= claimed, f"normal, {d}, {far}: {at}")
        cases += 1
    return cases
