"""A diagonal matrix and radii from released levels of variances: exact arithmetic, no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpverify.privacy.numbers import root_down

EXCESS = Fraction(9, 2)
"""Largest variance that is assumed for a level, over the level's lower edge, a power of 4."""
LN_2 = Fraction(7, 10)
"""A little above the natural logarithm of 2."""


@dataclass(frozen=True, slots=True)
class RoughCovariance:
    """Diagonal matrix M, and the radius about their mean of records of such a covariance after
    M^(-1/4).

    roots: of the diagonal, in the data's unit, exactly. record_radius: rarely exceeded, see
    ``rough``.
    """

    roots: tuple[Fraction, ...] = field(hash=False)  # they are many, and searches look them up
    record_radius: Fraction

    @property
    def matrix(self) -> tuple[float, ...]:
        """The diagonal, each number the nearest float."""
        squares = {key: float(root**2) for key, root in {id(r): r for r in self.roots}.items()}
        return tuple(squares[id(root)] for root in self.roots)


def rough(
    levels: Mapping[int, int], below: int, others: int, d: int, cell: Fraction, n_max: int
) -> RoughCovariance:
    """Build M and the radius from each reported column's level, the level the others are below,
    and that of their sum.

    A reported column at level b has M_jj = 4^b cell^2; each of the m others has t^2, where m t^2 =
    4^others cell^2 (up to 2^-20), but no more than 4^below cell^2, and no less than 4^-8 of that,
    for the grid's sake. The radius r is EXCESS^(1/2) times the root of

        tr + 2 sqrt(sq ln n_max) + 2 max ln n_max.

    Here tr is the sum of the variances' lower edges over the roots of M, max is the largest of
    these terms, and sq is the sum of their squares, of which the others have at most tr max. Then
    |M^(-1/4) (x - mean)| exceeds r with probability at most 1 / n_max for normal x of variances up
    to EXCESS times the edges (Hsu, Kakade and Zhang 2012).
    """
    m = d - len(levels)
    named = {column: Fraction(2) ** b for column, b in levels.items()}
    trace = sum(named.values(), Fraction(0))
    squares = sum((root**2 for root in named.values()), Fraction(0))
    most = max(named.values(), default=Fraction(0))
    roots = [Fraction(0)] * d
    if m:
        total, edge = Fraction(4) ** others, Fraction(4) ** (below - 1)
        spread = min(Fraction(2) ** others / root_down(m, 20), Fraction(2) ** below)
        spread = max(spread, Fraction(2) ** (below - 8))
        summed, single = total / spread, min(edge, total) / spread
        trace, squares, most = trace + summed, squares + summed * single, max(most, single)
        roots = [cell * spread] * d  # one object: thousands of columns may share it
    log = LN_2 * n_max.bit_length()
    square = EXCESS * (trace + 2 * root_above(squares * log) + 2 * most * log)
    for column, root in named.items():
        roots[column] = cell * root
    return RoughCovariance(tuple(roots), root_above(square * cell))


def root_above(square: Fraction) -> Fraction:
    """Return a number above the square root of a positive number, by less than 2^-20 of it."""
    bits = max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2 + 22)
    return root_down(square, bits) + Fraction(1, 1 << bits)
