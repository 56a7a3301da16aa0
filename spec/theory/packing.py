"""Pure privacy and many hypotheses: the packing bound, with packings that are built and measured.

Means v of a packing are more than 2 alpha apart, so an estimate is within alpha of one of them
at most. A dataset X_v belongs to each; success is P(|M(X_v) - v| <= alpha). All datasets of n
records are at distance n at most (replace), or 2 n, and each n from the empty one (add-remove).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .chi_square import interval, lower, upper
from .laws import KaryResponseLaw, real, real_exponential
from .obligations import neighbors, require

PACKING = Source("HT10", "packing argument")
THEOREM = Source("DJYZZ24", "Theorem 5.1, pure privacy needs a number of records that grows with d",
                 note="with constants")  # fmt: skip
Point = tuple[Fraction, ...]


@states(PACKING, THEOREM)
def most_success(epsilon: Fraction, n: int, count: int, adjacency: Adjacency) -> Any:
    """Return the largest success, on average over ``count`` means, of any epsilon-DP estimate;
    rounded up.

    Replace: let s_v be the success at X_v. P(near v | X_u) >= e^(-n epsilon) s_v, and these
    events are disjoint: 1 >= s_u + e^(-n epsilon) (sum of the other s_v). On average over u,
    s <= e^(n epsilon) / (e^(n epsilon) + count - 1).
    Add-remove: let q_v be the empty dataset's. s_v <= e^(n epsilon) q_v and 1 - s_v >=
    e^(-n epsilon) (1 - q_v), both concave in q_v, and the q_v add up to at most 1:
    s <= min(e^(n epsilon) / count, 1 - e^(-n epsilon) (1 - 1 / count)). The claim must hold at
    the empty dataset; if it starts at one record, use replace with 2 epsilon.
    """
    e = mp.iv.exp(interval(n * Fraction(epsilon)))
    if adjacency is Adjacency.REPLACE:
        return min(upper(e / (e + count - 1)), mp.mpf(1))
    return min(upper(e / count), upper(1 - (1 - interval(Fraction(1, count))) / e))


@states(PACKING, THEOREM)
def records_needed(*, epsilon: Fraction, count: Any, beta: Fraction) -> Any:
    """Return a number of records below which some mean fails with probability above beta, under
    either adjacency: (ln count + ln(1 - beta)) / epsilon, rounded down.

    ``count`` is a number, or an interval.
    """
    size = interval(count) if isinstance(count, (int, Fraction)) else count
    told = mp.iv.log(size) + mp.iv.log(interval(1 - Fraction(beta)))
    return max(mp.mpf(0), lower(told / interval(epsilon)))


@states(THEOREM)
def records_needed_in_ball(
    *, epsilon: Fraction, d: int, reach: Fraction, alpha: Fraction, beta: Fraction
) -> Any:
    """Return (d ln(R / (2 alpha)) + ln(1 - beta)) / epsilon, for means within R of 0; it does not
    depend on Sigma.

    Balls of radius 2 alpha around a maximal packing cover the ball of radius R, so it has at
    least (R / (2 alpha))^d means.
    """
    return records_needed(epsilon=epsilon, count=interval(reach / (2 * alpha)) ** d, beta=beta)


@states(THEOREM)
def least_radius(*, epsilon: Fraction, d: int, n: int, reach: Fraction, beta: Fraction) -> Any:
    """Return a radius such that within any smaller alpha of the mean no estimate from n records is
    with probability 1 - beta at every mean.

    It is (R / 2) ((1 - beta) e^(-n epsilon))^(1 / d), rounded down.
    """
    exponent = (mp.iv.log(interval(1 - Fraction(beta))) - interval(n * Fraction(epsilon))) / d
    return lower(interval(reach) / 2 * mp.iv.exp(exponent))


# --- packings -----------------------------------------------------------------------------------


def squared_distance(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    """Return the squared distance, exactly."""
    return sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0))


@states(PACKING)
def lattice_packing(d: int, reach: int, alpha: Fraction) -> list[Point]:
    """Return a greedy packing of integer points within ``reach`` of 0: each that is more than 2
    alpha from all so far.
    """
    side = range(-reach, reach + 1)
    inside = (p for p in product(side, repeat=d) if sum(x * x for x in p) <= reach**2)
    chosen: list[Point] = []
    for candidate in inside:
        given = tuple(map(Fraction, candidate))
        if all(squared_distance(given, other) > 4 * alpha**2 for other in chosen):
            chosen.append(given)
    return chosen


@states(PACKING)
def lattice_count(d: int, reach: int, alpha: Fraction) -> Any:
    """Return a lower bound on the number of means: ((R - h) / (2 alpha + h))^d, h = sqrt(d) / 2;
    rounded down.

    A point within R - h of 0 is within h of an integer point, which is within R, hence within 2
    alpha of a chosen one. So balls of radius 2 alpha + h cover the ball of radius R - h.
    """
    h = mp.iv.sqrt(interval(d)) / 2
    return lower(((interval(reach) - h) / (interval(2 * alpha) + h)) ** d)


@states(PACKING)
def greedy_code(d: int, apart: int) -> list[int]:
    """Return the words of d bits, in order, that each differ from all so far in ``apart`` bits at
    least.

    As signs times R / sqrt(d) they are means at squared distances of at least 4 R^2 apart / d.
    """
    words: list[int] = []
    for word in range(1 << d):
        if all((word ^ other).bit_count() >= apart for other in words):
            words.append(word)
    return words


@states(PACKING)
def code_count(d: int, apart: int) -> Fraction:
    """Return a lower bound on the number of words: 2^d over the number of words within ``apart`` -
    1 bits of one (Gilbert 1952).
    """
    return Fraction(2**d, sum(comb(d, k) for k in range(apart)))


# --- obligations --------------------------------------------------------------------------------


@states(PACKING)
def obligation_lattice(
    claimed: Callable[[int, int, Fraction], Any] = lattice_count,
) -> int:
    """Check that built packings keep their distances, exactly, and have as many means as is
    claimed.
    """
    cases = 0
    sizes = ((1, 10, "1"), (1, 60, "3/4"), (2, 8, "1"), (2, 8, "3/2"), (3, 5, "1"), (3, 6, "2"))
    for d, reach, text in sizes:
        alpha = Fraction(text)
        means = lattice_packing(d, reach, alpha)
        near = min(squared_distance(a, b) for a, b in combinations(means, 2))
        require(near > 4 * alpha**2, f"d = {d}: two means are at squared distance {near}")
        least = claimed(d, reach, alpha)
        require(len(means) >= least > 1, f"d = {d}, R = {reach}: {len(means)} means, not {least}")
        cases += 1
    return cases


@states(PACKING)
def obligation_codes(claimed: Callable[[int, int], Fraction] = code_count) -> int:
    """Check that built codes keep their distances, exactly, and have as many words as is claimed;
    as means of length R their distances are those of the words.
    """
    cases = 0
    for d, apart in ((3, 1), (5, 2), (7, 3), (9, 4), (10, 3), (10, 5)):
        words = greedy_code(d, apart)
        near = min((a ^ b).bit_count() for a, b in combinations(words, 2))
        require(near >= apart, f"d = {d}: two words differ in {near} bits")
        root = Fraction(isqrt(d * 10**12), 10**6)  # R = about 1
        signs = [tuple((2 * (w >> j & 1) - 1) / root for j in range(d)) for w in words[:12]]
        gaps = [squared_distance(a, b) for a, b in combinations(signs, 2)]
        require(min(gaps) >= 4 * apart / root**2, f"d = {d}: means at squared distance {min(gaps)}")
        least = claimed(d, apart)
        require(len(words) >= least, f"d = {d}, {apart} apart: {len(words)} words, not {least}")
        cases += 1
    return cases


@states(PACKING)
def obligation_success(
    claimed: Callable[[Fraction, int, int, Adjacency], Any] = most_success,
) -> int:
    """Check that no private choice among ``count`` means succeeds more often than ``claimed``, and
    that for one record some choice does as often.

    This is exact: k-ary randomized response; for more records the choice with weights e^(share
    times how many records say so), at the epsilon that it has on all neighbors.
    """
    cases, near = 0, 1 + mp.mpf("1e-12")
    for count, text in product((2, 3, 5), ("1/10", "1", "3")):
        epsilon = Fraction(text)
        response = KaryResponseLaw((0,), count, 1 / epsilon).probability((0,), real_exponential)
        most = claimed(epsilon, 1, count, Adjacency.REPLACE)
        case = f"{count} means, epsilon = {text}: {response} of {most}"
        require(response <= most * near and most <= response * near, case)
        e, even = mp.exp(real(epsilon)), mp.mpf(1) / count  # the empty dataset chooses evenly
        best = min(e * even, 1 - (1 - even) / e)
        most = claimed(epsilon, 1, count, Adjacency.ADD_REMOVE)
        require(
            best <= most * near and most <= best * near, f"{case}; {best} of {most} from nothing"
        )
        cases += 2
    for adjacency, count, share in product(Adjacency, (2, 3), (Fraction(1, 5), Fraction(2))):
        for n in (2, 3):
            epsilon = _epsilon_of_choice(adjacency, count, n, share)
            success = _choice((0,) * n, count, share)[0]
            most = claimed(epsilon, n, count, adjacency)
            require(success <= most, f"{adjacency}, {count}, n = {n}: {success} beyond {most}")
            cases += 1
    return cases


def _choice(records: Sequence[int], count: int, share: Fraction) -> list[Any]:
    weights = [mp.exp(real(share) * sum(r == v for r in records)) for v in range(count)]
    return [weight / sum(weights) for weight in weights]


def _epsilon_of_choice(adjacency: Adjacency, count: int, n: int, share: Fraction) -> Fraction:
    """Return the largest loss over all neighbors of at most n records, rounded up."""
    worst = mp.mpf(0)
    for left, right in neighbors(tuple(range(count)), n, adjacency):
        laws = _choice(left, count, share), _choice(right, count, share)
        worst = max(worst, *(abs(mp.log(p / q)) for p, q in zip(*laws, strict=True)))
    return Fraction(int(mp.ceil(worst * 10**9)), 10**9)


@states(THEOREM)
def obligation_records(claimed: Callable[..., Any] = records_needed) -> int:
    """Check that with fewer records than claimed even the best choice fails more often than beta
    allows, under both adjacencies; ``least_radius`` is where (R / (2 alpha))^d means need n
    records.
    """
    cases = 0
    for text, count, beta in product(
        ("1/10", "1"), (10, 10**6), (Fraction(1, 3), Fraction(1, 100))
    ):
        epsilon = Fraction(text)
        needed = claimed(epsilon=epsilon, count=count, beta=beta)
        n = int(mp.ceil(needed)) - 1
        for adjacency in Adjacency:
            best = most_success(epsilon, n, count, adjacency)
            case = f"{adjacency}, epsilon = {text}, {count} means, n = {n}: {best}"
            require(n > 0 and best < 1 - real(beta), case)
            cases += 1
        enough = most_success(epsilon, n + 1, count, Adjacency.ADD_REMOVE)
        require(
            enough * mp.exp(real(epsilon)) >= 1 - real(beta),
            f"{needed} is far below what is needed",
        )
        given: dict[str, Any] = {"epsilon": epsilon, "d": 5, "reach": Fraction(100), "beta": beta}
        alpha = least_radius(n=7, **given)
        packed = (mp.iv.mpf(100) / (2 * alpha)) ** 5
        back = claimed(epsilon=epsilon, count=packed, beta=beta)
        require(abs(back - 7) < mp.mpf("1e-9"), f"{given}: {back} records at {alpha}, not 7")
        cases += 1
    return cases
