"""Sums of records drawn in to two balls about a released point, under one noise, and what the outer
ball adds, shrunk.

With r < R the radii, a and c a record's vector z drawn in to either, and B = 2 r c - (R + r) a,
the inner sum of a and g times the sum of B are released, g = 1 / sqrt(R^2 - r^2).

Sensitivity. Up to |z| = r, B = (r - R) z; from there on c = min(|z|, R) z / |z| and a = r z / |z|
but for rounding, and B = r (2 min(|z|, R) - R - r) z / |z|. So |a| <= r and |B| <= r (R - r) for
every z, but for rounding, by less than two cells in each coordinate of c and of a: |B| is at most
``tilted_reach``. One record moves the sums, with w in the number, by at most r^2 + w^2 + g^2 |B|^2
squared; two records, replaced, by twice the root of r^2 + g^2 |B|^2 where both are counted, and w
<= r where one is. QED.

Noise. Of the multiplier 1, without w and rounding, the noise of a and of g B has the variance s^2 =
r^2 + r^2 (R - r)^2 / (R^2 - r^2) = 2 R r^2 / (R + r). The sum of c is A + Y with Y = B / (2 r) +
k A, k = (R - r) / (2 r). Its variance is R^2, as that of one ball. A less its regression on Y has
the variance r^2 (``obligation_noise``): that of the inner ball alone.

Shrinking. Y is S + N(0, v I), and an error e costs e^T Q e, Q = M^(1/2). Instead of Y take f Y,
f = 1 - c v / Y^T Q Y. Integrating by parts, the mean cost is v tr Q + v^2 E[(c^2 - 2 c (tr Q -
2 Y^T Q^2 Y / Y^T Q Y)) / Y^T Q Y], where the quotient is at most the largest eigenvalue q. So it
is at most v tr Q for every S if 0 <= c <= 2 (tr Q - 2 q). A negative f may be 0 instead: each
coordinate of Y is rather of the sign of S than of the other. QED (James and Stein for Q = I.)
The regression's residual is independent of Y, so the mean square error of the sum of c is not above
that of one outer ball of the same privacy, whatever the records are, but for rounding to cells:
its part of ``tilted_reach`` is noise that one ball has not, which counts where the inner ball has
few cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, shows, states

from .gaussian_laws import UNIT
from .obligations import neighbors, require
from .transcript_sums import root_up, stated_for_unit, unit_sensitivity, weight
from .vectors import Vector, clip_to_ball, squared_distance, squared_norm

_OURS = Source("OURS", "two sums about a released point, under one noise")
_SHRUNK = Source("OURS", "the estimator of James and Stein for a weighted length")
Both = tuple[Vector, Vector]
"""Inner sum with the weighted number after it, and sum of B."""


def inside(radius: int, ratio: Fraction) -> int:
    """Return the inner radius in cells: the part of the outer one, rounded down, at least 1."""
    return max(1, math.floor(ratio * radius))


def two_ball_sums(
    images: Mapping[Vector, int], point: Vector, radius: int, ratio: Fraction
) -> Both:
    """Return the sums over the images within two outer radii of the point."""
    small, d = inside(radius, ratio), len(point)
    inner, rest, number = [0] * d, [0] * d, 0
    for image, often in images.items():
        z = tuple(v - c for v, c in zip(image, point, strict=True))
        if squared_norm(z) > 4 * radius**2:
            continue
        near, far = clip_to_ball(z, small), clip_to_ball(z, radius)
        for i in range(d):
            inner[i] += often * near[i]
            rest[i] += often * (2 * small * far[i] - (radius + small) * near[i])
        number += often
    return (*inner, weight(small) * number), tuple(rest)


def tilt(small: int, radius: int) -> Fraction:
    """Return g, its root rounded up to 2^-20; 1 for equal radii."""
    return 1 / root_up(max(1, radius**2 - small**2))


def tilted_reach(small: int, radius: int, d: int) -> int:
    """Return a bound on |B|: r (R - r) + sqrt(d) (2 (2 r) + 2 (R + r)) for rounding; 0 for equal
    radii.
    """
    if small == radius:
        return 0
    return small * (radius - small) + math.isqrt(4 * d * (3 * small + radius) ** 2 - 1) + 1


@states(_OURS)
def reach(small: int, radius: int, d: int, adjacency: Adjacency) -> Fraction:
    """Return D^2, the squared sensitivity of (inner sum, w number, g sum of B)."""
    rest = (tilt(small, radius) * tilted_reach(small, radius, d)) ** 2
    if adjacency is Adjacency.REPLACE:
        return 4 * (small**2 + rest)
    return small**2 + weight(small) ** 2 + rest


def noise(small: int, radius: int, d: int, adjacency: Adjacency, spread: Fraction) -> Fraction:
    """Return the standard deviation of the noise in cells: spread D, D rounded up to 2^-20."""
    square = reach(small, radius, d, adjacency) * 4**20
    root = math.isqrt(math.ceil(square) - 1) + 1
    return spread * Fraction(root, 2**20)


def in_unit(sums: Both, small: int, radius: int, deviation: Fraction) -> Vector:
    """Return both sums, the second one times g, in 2^-40 of the noise, ties to even."""
    one = UNIT / deviation
    g = tilt(small, radius)
    return (*(round(one * v) for v in sums[0]), *(round(g * one * v) for v in sums[1]))


def shrinkage(weights: Sequence[Fraction]) -> Fraction:
    """Return c for the eigenvalues of Q: tr Q, or 2 (tr Q - 2 q) if that is less, and at least
    0.
    """
    trace = sum(weights, Fraction(0))
    return max(Fraction(0), min(trace, 2 * (trace - 2 * max(weights))))


@states(_SHRUNK)
def left_of_noise(weights: Sequence[Any], signal: Any = 0) -> Any:
    """Return the mean square error of Y, shrunk, over that of its noise; 1 where c < tr Q.

    S and the noise are taken as normal with covariances in proportion, E|S|^2 ``signal`` times the
    noise's mean square, t = signal / (1 + signal). Given Y, S is then t Y and an error of t times
    the noise's, and (1 + signal) W = Y^T Q Y / (v tr Q), where W has about the gamma law of the
    same mean and variance.
    """
    trace = mp.fsum(weights)
    if trace < 4 * max(weights):
        return mp.mpf(1)
    known = mp.mpf(signal) / (1 + signal)

    def part(w: Any) -> Any:
        length = (1 + signal) * w
        return (max(1 - 1 / length, mp.mpf(0)) - known) ** 2 * length

    half = trace**2 / mp.fsum(q**2 for q in weights) / 2
    return known + _gamma_mean(half, part, [1 / mp.mpf(1 + signal)])


def _gamma_mean(half: Any, part: Callable[[Any], Any], kinks: Sequence[Any]) -> Any:
    """Return E part(W) for the gamma law of mean 1 and shape ``half``."""
    log, wide = half * mp.log(half) - mp.loggamma(half), 1 / mp.sqrt(half)
    ends = {mp.mpf(0), *(1 + k * wide for k in (-8, -4, -1, 0, 1, 4, 16, 100)), *kinks}

    def weighed(w: Any) -> Any:
        return part(w) * mp.exp(log + (half - 1) * mp.log(w) - half * w) if w else mp.mpf(0)

    return mp.quad(weighed, sorted(end for end in ends if 0 <= end <= 1 + 100 * wide))


@states(Source("OURS", "squared lengths by the gamma law of their first three moments"))
def signal(values: Sequence[Any], n: int, small: Any, large: Any, center: Any, noise: Any) -> Any:
    """Return E|S|^2 over the mean square of Y's noise, in lengths of Q, for n normal records.

    values: eigenvalues of their covariance, in proportion to Q. center: the deviation of the
    point in each coordinate. noise: the multiplier, doubled where records are replaced.

    A record y at the length L adds h y / L, h = min(L, R) - min(L, r). Its squared length
    y^T Q y h^2 / L^2 needs E(y^T Q y | L^2), taken as linear: with c_k the sum of the k-th
    powers of values, c_2 + (L^2 - c_1) c_3 / c_2. The law of L^2 - d center^2 is taken as
    that gamma law, moved, which has its first three moments. The point's error e moves S by about
    n k e, k = E(h L) / c_1 (Stein's identity, averaged over directions).
    """
    first, second, third = (mp.fsum(q**k for q in values) for k in (1, 2, 3))
    half, scale = second**3 / third**2 / 2, second**2 / third
    off = len(values) * center**2

    def more(w: Any) -> tuple[Any, Any]:
        square = first + off + scale * (w - 1)
        length = mp.sqrt(square)
        return square, min(length, large) - min(length, small)

    def own(w: Any) -> Any:
        square, h = more(w)
        return max(second + third / second * scale * (w - 1), 0) * h**2 / square if h else h

    def moved(w: Any) -> Any:
        square, h = more(w)
        return h * mp.sqrt(square)

    kinks = [1 + (end**2 - first - off) / scale for end in (small, large)]
    spread = n * _gamma_mean(half, own, kinks) / first
    moves = n * center * _gamma_mean(half, moved, kinks) / first
    return (spread + moves**2) / ((noise * large) ** 2 * (large - small) / (large + small))


# --- obligations --------------------------------------------------------------------------------

_BALLS = tuple(product((1, 2, 7, 100, 2**20 + 1), (Fraction(1, 2), Fraction(9, 10))))
_POINTS: tuple[Vector, ...] = ((0,), (2**41,), (1, -(2**41)))


def _universe(point: Vector, small: int, radius: int) -> list[Vector]:
    """Return the point, ends of both balls, and records between and beyond; in the plane some off
    the axes.
    """
    steps: list[Vector] = [(0,), (small,), (-small,), (radius,), (-radius,), (radius + 1,)]
    steps += [((small + radius) // 2,), (2 * radius + 1,)]
    if len(point) > 1:
        steps = [(0, 0), (small, 0), (0, -small), (radius, 0), (-radius, 0), (radius, radius)]
        steps += [(small, small), (2 * radius, 1)]
    return [tuple(c + z for c, z in zip(point, step, strict=True)) for step in steps]


def _moves(
    point: Vector, small: int, radius: int, ratio: Fraction, adjacency: Adjacency
) -> Iterator[tuple[Both, Both]]:
    for left, right in neighbors(_universe(point, small, radius), 2, adjacency):
        yield (
            two_ball_sums(Counter(left), point, radius, ratio),
            two_ball_sums(Counter(right), point, radius, ratio),
        )


@states(_OURS)
@shows("TwoBallSum", Norm.SQUARED_L2, value=stated_for_unit)
def obligation_two_ball_sum(
    claimed: Callable[[int, int, int, Adjacency], Fraction] = reach,
) -> int:
    """Check that for every point and both radii no neighbors of at most two records move the sums
    by more than ``claimed``, and large ones by so much but for a thousandth; nor in the unit of
    the noise by more than ``unit_sensitivity``.
    """
    cases = 0
    for point, (radius, ratio), adjacency in product(_POINTS, _BALLS, Adjacency):
        small, d = inside(radius, ratio), len(point)
        where = f"about {point} within {small} and {radius}, {adjacency}"
        most, g, farthest = claimed(small, radius, d, adjacency), tilt(small, radius), Fraction(0)
        moves = Counter(_moves(point, small, radius, ratio, adjacency))
        spreads = [Fraction(1, 3), Fraction(10**6 + 1, 3)]
        units = [(noise(small, radius, d, adjacency, s), unit_sensitivity(s, 2 * d + 1))
                 for s in spreads]  # fmt: skip
        for (left, right), times in moves.items():
            moved = squared_distance(left[0], right[0])
            whole = moved + g**2 * squared_distance(left[1], right[1])
            require(whole <= most, f"{where}: {float(whole)} > {float(most)}")
            farthest = max(farthest, whole)
            for deviation, stated in units:
                sides = [in_unit(side, small, radius, deviation) for side in (left, right)]
                far = squared_distance(*sides)
                require(far <= stated, f"{where}, noise {float(deviation)}: {far} > {stated}")
            cases += times
        if radius > 2**20:
            require(farthest >= most * Fraction(999, 1000), f"{where}: {float(farthest)} at most")
    return cases


def noises(small: Fraction, radius: Fraction) -> tuple[Fraction, Fraction]:
    """Return the variances of the outer sum's noise, and of the inner one's less its regression,
    for the multiplier 1.
    """
    return radius**2, small**2


@states(_OURS)
def obligation_noise(
    claimed: Callable[[Fraction, Fraction], tuple[Fraction, Fraction]] = noises,
) -> int:
    """Check the variances by exact arithmetic for many radii."""
    cases = 0
    for small, more in product((Fraction(1), Fraction(7, 3), Fraction(100)), range(1, 40)):
        large = small * (1 + Fraction(more, 13))
        tilted = 1 / (large**2 - small**2)  # g^2
        own = small**2 + tilted * (small * (large - small)) ** 2
        slope = (large - small) / (2 * small)
        rest = own / (4 * small**2 * tilted) + slope**2 * own
        both = slope * own  # covariance of A and Y
        outer, inner = own + 2 * both + rest, own - both**2 / rest
        require(claimed(small, large) == (outer, inner), f"{small}, {large}: {outer}, {inner}")
        cases += 1
    return cases


@states(_SHRUNK)
def obligation_shrinking(
    claimed: Callable[[Sequence[Fraction]], Fraction] = shrinkage,
) -> int:
    """Check on a grid of Y that the estimate of the risk without bias, c^2 - 2 c (tr Q - 2 Y^T Q^2
    Y / Y^T Q Y), is not positive, and that c = tr Q with four equal directions or more.
    """
    cases = 0
    for weights in _WEIGHTS:
        c, trace = claimed(weights), sum(weights, Fraction(0))
        enough = trace >= 4 * max(weights)
        require((c == trace) == enough, f"{weights}: c = {c}")
        for y in product((-3, 0, 1, 2), repeat=len(weights)):
            first, second = (sum(q**k * v * v for q, v in zip(weights, y, strict=True))
                             for k in (1, 2))  # fmt: skip
            if first:
                risk = c**2 - 2 * c * (trace - 2 * second / first)
                require(risk <= 0, f"{weights}, Y = {y}, c = {c}: {risk}")
                cases += 1
    return cases


_WEIGHTS = tuple(
    tuple(map(Fraction, text.split()))
    for text in ("1", "1 1", "1 1 1", "1 1 1 1", "1 1 1 1 1 1", "1 1/2 1/3 1/4 1/5", "2 1 1 1")
)
