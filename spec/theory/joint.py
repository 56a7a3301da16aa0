"""A sum and the number of its records under one noise: their law, and the error of their ratio.

Write S for a sum of n vectors of norm at most R, and w for the weight of the number. (S, w n)
is released in one unit of noise, so in cells S + scale g and n + (scale / w) g', g and g'
standard normal, up to two roundings of a unit; their ratio, moved into the ball, estimates
S / n. Where the number is public it is free of noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Premise, Source, of_query, shows, states

from .gaussian_laws import UNIT, RoundedGaussianLaw
from .laws import TranscriptLaw, real
from .obligations import neighbors, require
from .vectors import (
    Map,
    Record,
    Vector,
    free_weight,
    squared_distance,
    vector_sum,
    vector_sum_sensitivity,
)

_JOINT = Source("OURS", "a sum and a count under one noise")
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)


def sum_with_count(records: Sequence[Record], public: Map, weight: int) -> Vector:
    """Return the sum of the clipped images, then ``weight`` times the number of all records."""
    return (*vector_sum(records, public), weight * len(records))


def counted(square: int, weight: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity of a sum with its number, for any sum that moves by
    ``square``, squared.

    The number w n is one more coordinate, whose square adds up: it moves by w under add-remove;
    under replace it stays.
    """
    return square if adjacency is Adjacency.REPLACE else square + weight**2


def with_count_sensitivity(radius: int, weight: int, adjacency: Adjacency) -> int:
    """Return the squared sensitivity, where a record contributes (z, w), |z| <= R.

    add-remove: |(z, w)|^2 <= R^2 + w^2. replace: the number stays, and (z - z', 0) has |z -
    z'| <= 2R.
    """
    return counted(vector_sum_sensitivity(radius, adjacency), weight, adjacency)


_LINE = tuple((Fraction(i, 2),) for i in range(-5, 6))
_PLANE = tuple((Fraction(i), Fraction(j)) for i, j in product((-3, -1, 1, 3), (-1, 0, 2)))
_MAPS = (
    (Map((0,), 1), _LINE),
    (Map((1,), 2, Fraction(1, 2)), _LINE),
    (Map((0, 0), 2), _PLANE),
    (Map((1, -1), 2), _PLANE),
    (Map((0, 0), 3, Fraction(1, 2), box=4), _PLANE),
    (Map((0, 0), 2, matrix=((1, 1), (0, 1))), _PLANE),
)


@states(_JOINT)
@shows(
    "WithCount",
    Norm.SQUARED_L2,
    value=of_query(counted, "moved", "weight"),
    premises=lambda s: (Premise(Norm.SQUARED_L2, s.query["moved"]),),
)
def obligation_with_count(claimed: Callable[..., int] = with_count_sensitivity) -> int:
    """Check that the largest move over all neighbors of at most 2 records of small universes is
    ``claimed``.
    """
    cases = 0
    for (public, universe), adjacency in product(_MAPS, _ALL):
        for weight in (1, public.radius, free_weight(public.radius), 5 * public.radius):
            moves = list(_moves(public, universe, weight, adjacency))
            largest = claimed(public.radius, weight, adjacency)
            case = f"{public}, weight {weight}, {adjacency}: {max(moves)}, not {largest}"
            require(max(moves) == largest, case)
            cases += len(moves)
    return cases


def _moves(
    public: Map, universe: Sequence[Record], weight: int, adjacency: Adjacency
) -> Iterator[int]:
    seen: dict[tuple[Record, ...], Vector] = {}
    for pair in neighbors(universe, 2, adjacency):
        for records in pair:
            if records not in seen:
                seen[records] = sum_with_count(records, public, weight)
        yield squared_distance(seen[pair[0]], seen[pair[1]])


def mu_squared(left: TranscriptLaw, right: TranscriptLaw) -> Fraction:
    """Return mu^2 of the last stage, the noisy one; the public stages before it must agree, and
    then are free.
    """
    if left.stages[1:]:
        ours, theirs = (law.stages[0][1](()) for law in (left, right))
        require(ours == theirs, f"the public numbers differ: {ours}, {theirs}")
    ours, theirs = (law.stages[-1][1](law.example) for law in (left, right))
    if not isinstance(ours, RoundedGaussianLaw) or not isinstance(theirs, RoundedGaussianLaw):
        raise TypeError("the last stage is not of Gaussian noise")
    return ours.mu_squared(theirs)


# --- the ratio ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ratio:
    """Released mean. scale, radius, weight in cells; ``weight`` None: the number is public."""

    scale: Fraction
    radius: int
    width: int
    weight: int | None

    @property
    def count_scale(self) -> Fraction:
        """Standard deviation of the released number of records."""
        return Fraction(0) if self.weight is None else self.scale / self.weight


@states(Source("OURS", "chi-square tail", note="after Laurent and Massart 2000, Lemma 1"))
def normal_length(width: int, beta: Fraction) -> Any:
    """Return a length that a standard normal vector exceeds with probability at most beta.

    Its square is d + 2 sqrt(d L) + 2 L, L = ln(1 / beta). Proof: for 0 < s < 1/2 the logarithm
    of E exp(s (|g|^2 - d)) is -(d/2) ln(1 - 2s) - s d <= d s^2 / (1 - 2s). By Chernoff the tail
    at t = 2 sqrt(d L) + 2 L is at most exp(d s^2 / (1 - 2s) - s t), which at s =
    sqrt(L) / (sqrt(d) + 2 sqrt(L)) is exp(-L): there 1 - 2s = sqrt(d) / (sqrt(d) + 2 sqrt(L)),
    d s^2 / (1 - 2s) = s sqrt(d L), and s (2 sqrt(d L) + 2 L - sqrt(d L)) = s sqrt(L) (sqrt(d) +
    2 sqrt(L)) = L. QED
    """
    level = mp.log(1 / real(beta))
    return mp.sqrt(width + 2 * mp.sqrt(width * level) + 2 * level)


def obligation_normal_length(length: Callable[[int, Fraction], Any] = normal_length) -> int:
    """Check that the chi-square tail beyond ``length`` (incomplete gamma function) is at most
    beta, and beyond half of it more.
    """
    cases = 0
    for width in (1, 2, 3, 10, 50, 1000):
        for beta in map(Fraction, ("1/10", "1/20", "1/1000", "1/1000000000")):
            half = mp.mpf(width) / 2
            tail = mp.gammainc(half, length(width, beta) ** 2 / 2, mp.inf, regularized=True)
            shorter = (length(width, beta) / 2) ** 2 / 2
            above = mp.gammainc(half, shorter, mp.inf, regularized=True)
            require(tail <= real(beta) <= above, f"width {width}, {beta}: {tail}, {above}")
            cases += 1
    return cases


@states(Source("OURS", "error of a ratio of a noisy sum and a noisy count"))
def error_bound(released: Ratio, n: int, beta: Fraction, at_least: int) -> Any:
    """Return a bound in cells on |estimate - S / n|, for any n vectors in the ball, that fails
    with probability at most beta.

    Let |g| < a and |g'| < b except with probability beta / 2 each (a alone, except with beta,
    where the number is public). Rounding to the unit, and the noise's own, move each coordinate
    by at most 1/2 unit each, u = scale / 2^40 together. The released number is off by less than
    t = (scale / w) b + u / w. If n - t >= at_least there is an estimate, and before it is moved
    into the ball |(S + scale g + u) / (n + c) - S / n| <= (scale a + sqrt(d) u + |S / n|
    |c|) / (n - t), |S / n| <= R. Moving into a convex set that has S / n in it brings nothing
    further from S / n. Raises ValueError when n is too small for the bound to say anything.
    """
    unit, share = real(released.scale / UNIT), beta if released.weight is None else beta / 2
    length, t = normal_length(released.width, share), mp.mpf(0)
    if released.weight is not None:  # P(|g'| >= b) <= exp(-b^2 / 2)
        t = real(released.count_scale) * mp.sqrt(-2 * mp.log(real(share))) + unit / released.weight
    if n - t < at_least:
        raise ValueError(f"n = {n} is within the count's noise {mp.nstr(t, 3)} of {at_least}")
    from_sum = real(released.scale) * length + mp.sqrt(released.width) * unit
    return (from_sum + released.radius * t) / (n - t)


def expected_error(released: Ratio, n: int, offset: Any) -> Any:
    """Return the root mean squared length of the error to first order in 1/n, in cells.

    Here ``offset`` = |S / n|: the noise of the sum is in every coordinate, that of the number
    along S / n.
    """
    from_count = real(released.count_scale) * offset
    return mp.sqrt(released.width * real(released.scale) ** 2 + from_count**2) / n


def abstains(released: Ratio, n: int, at_least: int) -> Any:
    """Return the exact probability that the released number of n records is below ``at_least``."""
    if released.weight is None:
        return mp.mpf(n < at_least)
    per_record = released.weight * UNIT / released.scale
    most = ceil(at_least * per_record) - 1 - round(n * per_record)  # largest noise that abstains
    return mp.ncdf((most + mp.mpf(1) / 2) / real(UNIT))


def default_weight(radius: int, d: int) -> int:
    """Return R (4 d)^(-1/4), rounded down, at least 1: the largest w with 4 d w^4 <= R^4."""
    low, high = 0, radius + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 4 * d * middle**4 <= radius**4 else (low, middle)
    return max(1, low)


@states(Source("OURS", "the weight of a record in a joint release"))
def obligation_default_weight(weight: Callable[[int, int], int] = default_weight) -> int:
    """Check under add-remove that the mean square is at most 3/2 times the least over weights,
    wherever the mean is, and that it is the least where the mean is half a radius from the
    center.

    With w in radii and t = |mean - center| / R the mean square is proportional to (1 + w^2)
    (d + t^2 / w^2), least at w^2 = t / sqrt(d): (sqrt(d) + t)^2. At w^2 = 1 / (2 sqrt(d)) that
    is t = 1/2.
    """
    cases, radius, slack = 0, 2**20, 1 + mp.mpf(2) ** -16
    for d, tenths in product((1, 2, 3, 10, 100, 10**4), range(11)):
        t, w = Fraction(tenths, 10), Fraction(weight(radius, d), radius) ** 2
        mean_square = real((1 + w) * (d + t**2 / w))
        least = (mp.sqrt(d) + real(t)) ** 2
        most = least * slack if tenths == 5 else least * slack * 3 / 2
        require(mean_square <= most, f"d = {d}, t = {t}: {mean_square}, not {least}")
        cases += 1
    return cases


@states(
    Source("DRS22", "Gaussian differential privacy: definition, profile, group privacy"),
    Source("OURS", "lower bound for means under Gaussian DP", note="by Assouad's method"),
)
def least_error(mu: Any, n: int, width: int) -> Any:
    """Return a lower bound on the root mean squared error, on some dataset, of every mu-GDP
    estimate (replace) of means of n vectors in the unit ball of R^d.

    For signs v in {-1, 1}^d let k records be v_j e_j, for each j, and the others 0 (d k <= n).
    The mean is v k / n. Flipping v_j replaces k records: k mu-GDP, a total variation of at most
    2 Phi(k mu / 2) - 1, so any estimate has the wrong sign at j with probability at least
    Phi(-k mu / 2) on average over v_j, which costs (k / n)^2. Summed over j and averaged over
    v: the mean square is at least d (k / n)^2 Phi(-k mu / 2) for some v. QED
    """
    most = min(n // width, floor(8 / mu) + 1)  # k^2 Phi(-k mu / 2) falls from k mu = 3 on
    best = max((k**2 * mp.ncdf(-k * mu / 2) for k in range(1, most + 1)), default=mp.mpf(0))
    return mp.sqrt(width * best) / n
