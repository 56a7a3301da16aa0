"""Normal vectors limited by a ball, the curvature of their families, and the effect of errors of
released moments, by mpmath.

y is normal of mean m and covariance diag(lambda), Q = |y|^2, and the ball is Q <= 1. phi(s) = E
exp(-s Q) is prod_j (1 + 2 lambda_j s)^(-1/2) exp(-s m_j^2 / (1 + 2 lambda_j s)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

from dpverify.privacy import Source, states

from . import clipped_response
from .caches import cache
from .obligations import require

DIGITS = 17
_MIDPOINTS = 44
_ANGLES = 120
_LIMITED = Source(
    "OURS", "normal vectors limited by a ball", note="under exp(-s Q) they are normal"
)
_CURVATURE = Source("OURS", "curvature of normal families")
_ERROR = Source("OURS", "errors of matched moments", note="by strong monotonicity")
_RULE = GaussLegendre(mp.mp)
_EXPONENTS = {"root": mp.mpf(1) / 2, "ratio": mp.mpf(1)}
Numbers = Sequence[Any]


def tilted(means: Numbers, variances: Numbers, s: Any, indices: tuple[int, ...]) -> Any:
    """Return E exp(-s Q) prod y_i over ``indices``.

    The density times exp(-s Q) is phi(s) times that of independent normal numbers of means a =
    m / f and variances b = lambda / f, f = 1 + 2 lambda s: complete the square. By Stein's
    identity E y^(k + 1) = a E y^k + k b E y^(k - 1) for each. Equal coordinates are computed once.
    """
    exponent, root = mp.mpf(0), mp.mpf(1)
    for (m, v), times in Counter(zip(means, variances, strict=True)).items():
        form = 1 + 2 * v * s
        root *= mp.sqrt(form) ** times
        exponent += times * m * m / form
    value = mp.exp(-s * exponent) / root
    for i, power in Counter(indices).items():
        form = 1 + 2 * variances[i] * s
        a, b = means[i] / form, variances[i] / form
        before, moment = mp.mpf(0), mp.mpf(1)
        for k in range(power):
            before, moment = moment, a * moment + k * b * before
        value *= moment
    return value


def inside(means: Numbers, variances: Numbers, bound: Any, indices: tuple[int, ...] = ()) -> Any:
    """Return E prod y_i over ``indices`` where Q <= bound: (1 / 2 pi i) int exp(s bound)
    tilted / s ds, to the right of 0.
    """
    vertex = _saddle(means, variances, bound)

    def term(u: Any) -> Any:
        root = mp.mpc(1, u)
        s = vertex * root**2
        return mp.re(mp.exp(s * bound) * tilted(means, variances, s, indices) / root)

    peak, end = abs(term(mp.mpf(0))), mp.mpf(1)
    while max(abs(term(end)), abs(term(end * mp.mpf("1.1")))) > peak * mp.mpf(10) ** -DIGITS:
        end *= mp.mpf("1.2")
    step = end / _MIDPOINTS  # the integrand is even and analytic: midpoints converge exponentially
    return 2 / mp.pi * step * mp.fsum(term((k + mp.mpf("0.5")) * step) for k in range(_MIDPOINTS))


@cache
def _saddle_of(means: tuple[Any, ...], variances: tuple[Any, ...], bound: Any) -> Any:
    low, high = mp.mpf(1) / bound, mp.mpf(2) / bound

    def rising(v: Any) -> bool:
        pull = mp.fsum(
            v_ / (1 + 2 * v_ * v) + (m / (1 + 2 * v_ * v)) ** 2
            for m, v_ in zip(means, variances, strict=True)
        )
        return bool(bound - 3 / v - pull > 0)

    while not rising(high):
        high *= 2
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) else (middle, high)
    return high


def _saddle(means: Numbers, variances: Numbers, bound: Any) -> Any:
    """Return a point near which exp(s bound) phi(s) / s^3 is flat: there the path's integrand is
    largest at its vertex.
    """
    return _saddle_of(tuple(means), tuple(variances), bound)


@states(_LIMITED)
def limited(means: Numbers, variances: Numbers, limit: str, indices: tuple[int, ...] = ()) -> Any:
    """Return E f(Q) prod y_i over ``indices``, for one of three limits f.

    f is 1 inside the unit ball and 0 outside ("inside"), min(1, Q^(-1/2)) ("root") or
    min(1, 1 / Q) ("ratio"). The last two are int_0^1 1[Q <= t^(-1/p)] dt for the power p.
    """
    if limit == "inside":
        return inside(means, variances, mp.mpf(1), indices)
    power = _EXPONENTS[limit]
    free = tilted(means, variances, mp.mpf(0), indices)
    mean = mp.fsum(m * m + v for m, v in zip(means, variances, strict=True))
    most = 6 * mp.fsum(variances) + (mp.sqrt(mean) + 8 * mp.sqrt(max(variances))) ** 2
    end = power * mp.log(most)  # end of log(1 / t): beyond, all is inside

    def at(x: Any) -> Any:
        return mp.exp(-x) * inside(means, variances, mp.exp(x / power), indices)

    if end <= 0:
        return free
    return free * mp.exp(-end) + _gauss(at, (mp.mpf(0), end / 3, end))


def _gauss(function: Callable[[Any], Any], ends: Numbers) -> Any:
    """Return the integral by Gauss and Legendre's rule, of 12 points between two ``ends`` each.

    ``mp.quadgl`` would come to these points after those of two coarser rules.
    """
    return mp.fsum(
        weight * function(x)
        for low, high in pairwise(ends)
        for x, weight in _RULE.get_nodes(low, high, 3, mp.mp.prec)
    )


def curvature(low: Any, high: Any, far: Any) -> tuple[Any, Any]:
    """Return bounds on the eigenvalues of the Fisher information of (precision, precision times
    mean).

    Precisions are from ``low`` to ``high``, means up to ``far``.

    In the direction (U, w) it is tr(U Sigma U Sigma) / 2 + (w - U m)^T Sigma (w - U m). With s
    the least eigenvalue of Sigma this is at least s^2 |U|^2 / 2 + s (|w| - |U| far)_+^2, a form
    in (|U|, |w|) of the matrix s ((s / 2 + far^2, -far), (-far, 1)), which grows with s and
    whose least eigenvalue falls with far; with the largest eigenvalue, at most that with the
    other sign.
    """
    ends = []
    for s, pick in ((1 / high, min), (1 / low, max)):
        values = mp.eigsy(s * mp.matrix([[s / 2 + far**2, far], [far, 1]]), eigvals_only=True)
        ends.append(pick(values))
    return ends[0], ends[1]


def error_bound(least: Any, moved: Any) -> Any:
    """Return |F(theta') - F(theta)| / least, a bound on |theta' - theta| where the symmetrized
    derivative of F is at least ``least`` between them.

    For the minimizer theta' of a convex F over a convex set, or the solution of its variational
    inequality, the released F stands for F(theta'): <F(theta') - released, theta - theta'> >= 0
    for theta of the set.

    Proof. <F(theta') - F(theta), theta' - theta> is the integral of the derivative's form along
    the segment, at least least |theta' - theta|^2; and at most |F(theta') - F(theta)| |theta' -
    theta| (Cauchy and Schwarz). QED
    """
    return moved / least


def clipped_of(precisions: Numbers, bound: Any) -> list[Any]:
    """Return the mean -E z_i^2 / 2 of the statistic, for records in the plane of these precisions
    clipped to |z|^2 <= bound.

    y = R w for w = (cos / sqrt b_1, sin / sqrt b_2) of an even angle and an independent R^2 of
    mean 2 with exponential tails: E min(R^2, bound / |w|^2) is 2 (1 - exp(-bound / (2 |w|^2))).
    The integrand is periodic and analytic.
    """
    moments = [mp.mpf(0), mp.mpf(0)]
    for k in range(_ANGLES):
        angle = mp.pi * k / _ANGLES
        squares = [mp.cos(angle) ** 2 / precisions[0], mp.sin(angle) ** 2 / precisions[1]]
        size = -2 * mp.expm1(-bound / (2 * sum(squares)))
        moments = [m + size * w / _ANGLES for m, w in zip(moments, squares, strict=True)]
    return [-m / 2 for m in moments]


def jacobian(precisions: Numbers, bound: Any) -> Any:
    """Return the derivative of ``clipped_of``, by differences."""
    h = mp.mpf(10) ** -6
    columns = []
    for k in range(len(precisions)):
        ends = [
            clipped_of([b + sign * h * (i == k) for i, b in enumerate(precisions)], bound)
            for sign in (1, -1)
        ]
        columns.append([(up - down) / (2 * h) for up, down in zip(*ends, strict=True)])
    return mp.matrix(columns).T


def least_of(precisions: Numbers, bound: Any) -> Any:
    """Return the least eigenvalue of the symmetrized derivative."""
    slope = jacobian(precisions, bound)
    return min(mp.eigsy((slope + slope.T) / 2, eigvals_only=True))


# --- obligations --------------------------------------------------------------------------------

_LINES = (("0.3", "0.2"), ("1.5", "0.4"))
_PLANES = ((("0.3", "0.5"), ("1", "0.01")), (("1", "0"), ("0.1", "0.3")))
_BALLS = ((3, "1.1", "0.2"), (20, "0.5", "0.05"))


def _density(m: Any, v: Any, y: Any) -> Any:
    return mp.npdf(y, m, mp.sqrt(v))


def _weight(limit: str, square: Any) -> Any:
    if square <= 1:
        return mp.mpf(1)
    return mp.mpf(0) if limit == "inside" else square ** -_EXPONENTS[limit]


def _in_line(m: Any, v: Any, limit: str, power: int) -> Any:
    far = abs(m) + 1 + 12 * mp.sqrt(v)
    ends = [-1, m, 1] if -1 < m < 1 else [-1, 0, 1]
    if limit != "inside":
        ends = sorted({-far, *ends, m, far})
    return mp.quad(lambda y: _weight(limit, y * y) * y**power * _density(m, v, y), ends)


@cache  # the same ends for each power
def _between(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return E z^k of a standard normal z between ``a`` and ``b``, k = 0, 1 and 2."""
    low, high = mp.npdf(a), mp.npdf(b)
    mass = mp.ncdf(b) - mp.ncdf(a)
    return mass, low - high, mass + a * low - b * high


def _in_plane(means: Numbers, variances: Numbers, powers: tuple[int, int]) -> Any:
    """Return textbook moments inside the ball, with sin t as the first coordinate and the second
    in an interval.
    """
    (m, n), (v, w) = means, variances

    def inner(half: Any, power: int) -> Any:
        s = mp.sqrt(w)
        parts = _between((-half - n) / s, (half - n) / s)
        return mp.fsum(
            mp.binomial(power, k) * n ** (power - k) * s**k * parts[k] for k in range(power + 1)
        )

    def outer(t: Any) -> Any:
        x, half = mp.sin(t), mp.cos(t)
        return inner(half, powers[1]) * x ** powers[0] * _density(m, v, x) * half

    return mp.quadgl(outer, mp.linspace(-mp.pi / 2, mp.pi / 2, 13), maxdegree=4)


@states(_LIMITED)
def obligation_limited(claimed: Callable[..., Any] = limited) -> int:
    """Check the limited moments to 8 digits against integrals of the density: on the line for all
    three limits up to fourth moments, and in the plane inside the ball.

    For equal variances in up to 20 dimensions they are compared with the mean that another spec
    derives by Stein's identity.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for (m, v), limit, power in product(_LINES, ("inside", "root", "ratio"), (1, 4)):
            if (limit, m, power) in (("root", "0.3", 4), ("ratio", "1.5", 4)):
                continue
            world = [mp.mpf(m)], [mp.mpf(v)]
            wanted = _in_line(world[0][0], world[1][0], limit, power)
            cases += _same(
                claimed(*world, limit, (0,) * power), wanted, f"{m}, {v}, {limit}, {power}"
            )
        for (means, variances), powers in product(_PLANES, ((0, 0), (1, 1), (2, 2))):
            both = [[mp.mpf(one) for one in given] for given in (means, variances)]
            wanted = _in_plane(both[0], both[1], powers)
            indices = (0,) * powers[0] + (1,) * powers[1]
            case = f"{means}, {variances}, {powers}"
            cases += _same(claimed(*both, "inside", indices), wanted, case)
        for d, offset, variance in _BALLS:
            s = mp.sqrt(mp.mpf(variance))
            along, equal = [mp.mpf(offset)] + [mp.mpf(0)] * (d - 1), [s * s] * d
            for limit, outside in (("inside", "mask"), ("root", "clip"))[: 1 + (d < 10)]:
                other = clipped_response.moment(d, 1 / s, mp.mpf(offset) / s, outside)
                wanted = other.length * s * (other.inside if limit == "inside" else 1)
                case = f"{d} equal, {offset}, {variance}, {limit}"
                cases += _same(claimed(along, equal, limit, (0,)), wanted, case)
    return cases


def _same(value: Any, wanted: Any, case: str) -> int:
    off = abs(value - wanted)
    require(
        off <= mp.mpf(10) ** -8 * (abs(wanted) + mp.mpf(10) ** -6), f"{case}: {value}, not {wanted}"
    )
    return 1


def fisher(precision: Any, mean: Numbers) -> Any:
    """Return Cov of (-x x^T / 2, x), packed isometrically, in the plane, from second differences
    of its log partition.

    A = -log det P / 2 + h^T P^-1 h / 2 for h = P mean.
    """
    theta = [precision[0, 0], precision[1, 1], mp.sqrt(2) * precision[0, 1]]
    theta += list(precision * mp.matrix(mean))

    def partition(t: Numbers) -> Any:
        off = t[2] / mp.sqrt(2)
        matrix, h = mp.matrix([[t[0], off], [off, t[1]]]), mp.matrix(t[3:])
        return -mp.log(mp.det(matrix)) / 2 + (h.T * mp.inverse(matrix) * h)[0] / 2

    step, n = mp.mpf(10) ** -6, len(theta)
    information = mp.matrix(n, n)
    for i, j in combinations_with_replacement(range(n), 2):
        parts = [
            a
            * b
            * partition([t + step * (a * (k == i) + b * (k == j)) for k, t in enumerate(theta)])
            for a, b in product((1, -1), repeat=2)
        ]
        information[i, j] = information[j, i] = mp.fsum(parts) / (4 * step**2)
    return information


@states(_CURVATURE)
def obligation_curvature(claimed: Callable[..., tuple[Any, Any]] = curvature) -> int:
    """Check that eigenvalues of the Fisher information over precisions and means of the set lie
    between the bounds, and that spherical laws with the longest mean attain both ends, to 6
    digits.
    """
    cases = 0
    with mp.workdps(40):
        for low, high, far in (("0.5", "2", "1"), ("1", "10", "3")):
            a, b, m = mp.mpf(low), mp.mpf(high), mp.mpf(far)
            least, most = claimed(a, b, m)
            seen = []
            for one, other, angle, share in product((a, b), (a, b), (0, 1), (0, 1)):
                turn = mp.matrix([[mp.cos(angle), -mp.sin(angle)], [mp.sin(angle), mp.cos(angle)]])
                precision = turn * mp.diag([one, other]) * turn.T
                values = mp.eigsy(fisher(precision, [m * mp.mpf(share), 0]), eigvals_only=True)
                seen += [min(values), max(values)]
                case = f"{low} to {high}, {far}: {values}, not from {least} to {most}"
                require(min(values) >= least * (1 - mp.mpf(10) ** -6), case)
                require(max(values) <= most * (1 + mp.mpf(10) ** -6), case)
                cases += 1
            tight = abs(min(seen) / least - 1) < 1e-6 and abs(max(seen) / most - 1) < 1e-6
            require(tight, f"{low} to {high}, {far}: nothing attains {least}, {most}")
    return cases


@states(_ERROR)
def obligation_error(claimed: Callable[[Any, Any], Any] = error_bound) -> int:
    """Check on clipped records that no two pairs of precisions are farther apart than claimed, and
    some more than a third of it.

    The precisions are two numbers between 1 and 2, and the bound uses the least of the
    symmetrized derivatives on a grid. For precisions from 1 to 10, in a ball that holds .05 of
    the records of least precision, the least derivative is negative: such a bound would say
    nothing.
    """
    with mp.workdps(15):
        bound = mp.mpf(3)
        grid = [[1 + mp.mpf(i) / 2, 1 + mp.mpf(j) / 2] for i, j in product(range(3), repeat=2)]
        least = min(least_of(place, bound) for place in grid)
        require(least > 0, f"the least eigenvalue is {least}")
        images = [clipped_of(place, bound) for place in grid]
        worst, cases = mp.mpf(0), 0
        for i, j in product(range(len(grid)), repeat=2):
            if i != j:
                apart, moved = (
                    mp.norm(mp.matrix(given[i]) - mp.matrix(given[j])) for given in (grid, images)
                )
                allowed = claimed(least, moved)
                require(apart <= allowed, f"{grid[i]}, {grid[j]}: {apart} apart, not {allowed}")
                worst, cases = max(worst, apart / allowed), cases + 1
        require(worst > mp.mpf(1) / 3, f"no pair comes near the bound: {worst}")
        narrow = -2 * mp.log(mp.mpf("0.95"))
        wide = min(least_of([mp.mpf(1), b], narrow) for b in (mp.mpf(3), mp.mpf(10)))
        require(wide < 0, f"from 1 to 10 the least eigenvalue is {wide}")
    return cases + 1
