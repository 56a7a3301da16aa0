"""A diagonal matrix and a radius from released levels of variances, exactly; and the noise as a
function of d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from math import floor, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real
from .obligations import require

_OURS = Source("OURS", "one mean about a diagonal of released variances")
EXCESS = Fraction(9, 2)
LN_2 = Fraction(7, 10)
"""Rational that is at least ln 2."""
_FINE = 2**20


def root_up(square: Fraction) -> Fraction:
    """Return a number above the square root by less than 2^-20 of it: in fixed point of even
    precision.
    """
    ones = square.denominator.bit_length() - square.numerator.bit_length()
    bits = max(0, ones // 2 + 22)
    return Fraction(isqrt(floor(square * 4**bits)) + 1, 2**bits)


@states(_OURS)
def roots(
    levels: Mapping[int, int], below: int, others: int, d: int
) -> tuple[dict[int, Fraction], int]:
    """Return (the roots of the diagonal M, in cells, by reported column; the number of columns not
    reported).

    A root is 2^b for a column at level b. For each of m others it is about 2^others / sqrt(m),
    within 2^-8 and 1 of 2^below.
    """
    by_column = {column: Fraction(2) ** b for column, b in levels.items()}
    m = d - len(levels)
    if m:
        spread = Fraction(2) ** others * _FINE / isqrt(m * _FINE**2)
        spread = max(min(spread, Fraction(2) ** below), Fraction(2) ** (below - 8))
        by_column |= {column: spread for column in range(d) if column not in levels}
    return by_column, m


@states(_OURS, Source("DJYZZ24", "Lemma 3.2, the radius of friends", note="of a diagonal"))
def radius_squared(
    levels: Mapping[int, int], below: int, others: int, d: int, n_max: int
) -> Fraction:
    """Return r^2 in cells: EXCESS (tr + 2 sqrt(sq t) + 2 top t), t >= ln n_max, both roots rounded
    up.

    Let A = M^(-1/2) Sigma for a diagonal Sigma with Sigma_jj at most EXCESS times 4^b for the
    reported columns, EXCESS 4^(below - 1) for the others, whose sum is at most EXCESS 4^others.
    Then A has the trace EXCESS tr, EXCESS top the largest, and the sum of squares is at most
    EXCESS^2 sq: of the others at most their sum times their largest. |M^(-1/4) (x - mean)|^2 is
    a weighted sum of chi_1^2 for normal x, and above tr(A) + 2 sqrt(tr(A^2) t) + 2 |A| t with
    probability at most e^-t (Laurent and Massart; Hsu, Kakade and Zhang). EXCESS sqrt(sq t) =
    sqrt(EXCESS^2 sq t). QED.
    """
    entries, m = roots(levels, below, others, d)
    trace = sum((entries[i] for i in levels), Fraction(0))
    squares = sum((entries[i] ** 2 for i in levels), Fraction(0))
    top = max((entries[i] for i in levels), default=Fraction(0))
    if m:
        spread = next(entry for i, entry in entries.items() if i not in levels)
        single = min(Fraction(4) ** (below - 1), Fraction(4) ** others) / spread
        summed = Fraction(4) ** others / spread
        trace, squares, top = trace + summed, squares + summed * single, max(top, single)
    t = LN_2 * n_max.bit_length()
    return EXCESS * (trace + 2 * root_up(squares * t) + 2 * top * t)


def diagonal(
    levels: Mapping[int, int], below: int, others: int, d: int, cell: Fraction, n_max: int
) -> tuple[tuple[float, ...], Fraction]:
    """Return M in the data's units, each entry the nearest float, and the radius of records."""
    entries, _ = roots(levels, below, others, d)
    squares = {entry: float((cell * entry) ** 2) for entry in {*entries.values()}}
    matrix = tuple(squares[entries[i]] for i in range(d))
    return matrix, root_up(radius_squared(levels, below, others, d, n_max) * cell)


# --- obligations --------------------------------------------------------------------------------


def obligation_radius(
    claimed: Callable[[Mapping[int, int], int, int, int, int], Fraction] = radius_squared,
) -> int:
    """Check that Chernoff's bound, at its best exponent, on P(|M^(-1/4) x|^2 > claimed) is at most
    1 / n_max, and above that at half of ``claimed``.

    Columns have EXCESS times their edges, of which the others are as uneven as ``below``
    allows.
    """
    cases = 0
    for n_max, reported, m in product((100, 10**5), (0, 1, 3), (1, 40)):
        levels, below, d = {i: 6 - i for i in range(reported)}, 4, reported + m
        for others in (1, 3) if m == 1 else (3, 5):
            entries, _ = roots(levels, below, others, d)
            left, values = Fraction(4) ** others, []
            for i, entry in entries.items():
                edge = Fraction(4) ** levels[i] if i in levels else min(left, Fraction(4) ** 3)
                left -= 0 if i in levels else edge
                values.append(real(EXCESS * edge / entry))
            case = f"{n_max}, {levels}, {m} others of {others}"
            square = real(claimed(levels, below, others, d, n_max))
            log = mp.log(n_max)
            require(
                _best_exponent(values, square) >= log, f"{case}: {mp.nstr(square, 6)} is too small"
            )
            require(
                _best_exponent(values, square / 2) < log,
                f"{case}: {mp.nstr(square, 6)} is too large",
            )
            cases += 1
    return cases


def _best_exponent(values: list[Any], square: Any) -> Any:
    """Return sup over s of s square + 1/2 sum ln(1 - 2 s a), by ternary search: it is concave."""
    largest = max(values)

    def exponent(s: Any) -> Any:
        return s * square + mp.fsum(mp.log(1 - 2 * s * a) for a in values if a) / 2

    low, high = mp.mpf(0), (1 - mp.mpf(10) ** -9) / (2 * largest)
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if exponent(left) < exponent(right) else (low, right)
    return exponent(low)


@states(_OURS)
def obligation_one_mean(claimed: Fraction = Fraction(1)) -> int:
    """Check that the noise S + T of one mean about M is at most ``claimed`` times
    sqrt(2 (S^2 + T^2)), the noise of two means at half the squared mu each.

    S is the sum of the reported roots and T = sqrt(m total) of the others; equality holds for
    S = T (Cauchy and Schwarz).
    """
    cases, nearest = 0, mp.mpf(0)
    for s, t in product(range(1, 6), repeat=2):
        one, two = mp.mpf(s + t), mp.sqrt(2 * (s * s + t * t))
        require(one <= real(claimed) * two * (1 + mp.mpf(10) ** -20), f"{s}, {t}: {one}, {two}")
        nearest, cases = max(nearest, one / two), cases + 1
    require(nearest >= real(claimed) * (1 - mp.mpf(10) ** -20), f"at most {nearest}")
    return cases


@states(_OURS)
def most_lost(d: int, k: int) -> Any:
    """Return a bound on (S + T) / (sum of all roots) if the k largest of d roots are reported: (1
    + sqrt(d / k)) / 2.

    Let the roots s_1 >= ... >= s_d add up to 1, x be the sum of the first k, S = x, and T =
    sqrt((d - k) sum of s_j^2 over the others). Each other root is at most s_k <= x / k and they
    add up to 1 - x, so T^2 <= r x (1 - x) with r = d / k - 1, and x + sqrt(r x (1 - x)) is at
    most (1 + sqrt(1 + r)) / 2: with x = (1 + cos a) / 2 it is 1/2 + (cos a + sqrt(r) sin
    a) / 2. QED.
    """
    return (1 + mp.sqrt(mp.mpf(d) / k)) / 2


@states(_OURS)
def obligation_most_lost(claimed: Callable[[int, int], Any] = most_lost) -> int:
    """Check that no spectrum of a few shapes is above ``claimed``, and that k equal columns with x
    near the worst are within 3%.
    """
    cases = 0
    for d, k in product((64, 256), (1, 4, 16)):
        bound, most = claimed(d, k), mp.mpf(0)
        shapes = [[1] * size + [0] * (d - size) for size in range(k, d + 1)]
        shapes += [[mp.mpf(j) ** -p for j in range(1, d + 1)] for p in (mp.mpf(1) / 2, 1, 2)]
        for roots_ in shapes:
            rest = mp.fsum(s * s for s in roots_[k:])
            noise = mp.fsum(roots_[:k]) + mp.sqrt((d - k) * rest)
            most, cases = max(most, noise / mp.fsum(roots_)), cases + 1
        require(most <= bound * (1 + mp.mpf(10) ** -20), f"{d}, {k}: {most} is above {bound}")
        require(k == 1 or most >= bound * mp.mpf("0.97"), f"{d}, {k}: {most}, far below {bound}")
    return cases
