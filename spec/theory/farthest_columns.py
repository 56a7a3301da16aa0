"""Votes for the column in which a record is farthest off, and the boxes that follow from them.

A record votes once, or not at all where it is more than two radii from the center; so one more
record moves one count by one, and a replaced record two. The reading of the votes bounds no
loss: it is stated so that the law of later stages is known, number by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .obligations import neighbors, require
from .regions import Images, Region, inside
from .vectors import Vector, squared_distance

_VOTES = Source("OURS", "each record names one column")
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
OPEN = 2**60
"""The half width of a column that is not cut."""
_MOST, _EXCESS = 2**30, 2**29


@states(_VOTES)
def votes(images: Images, region: Region) -> Vector:
    """Return, for each column, how many records within two radii of the center are farthest from
    it in that column, the first of the farthest.
    """
    counts = [0] * len(region.center)
    for y, often in inside(images, Region(region.center, 2 * region.radius)).items():
        counts[max(range(len(y)), key=lambda j: abs(y[j]))] += often
    return tuple(counts)


@states(_VOTES)
def votes_moves(adjacency: Adjacency) -> int:
    """Return the squared sensitivity: one count moves by one; under replace two may."""
    return 2 if adjacency is Adjacency.REPLACE else 1


def half_width(cell: Fraction) -> int:
    """Return 11/4 deviations, in cells of so many deviations."""
    return min(floor(Fraction(11, 4) / cell), OPEN)


@states(_VOTES)
def box(
    counts: Sequence[int],
    noise: Fraction,
    gamma: Fraction,
    half: int,
    surprise: Fraction = Fraction(7, 2),
) -> Vector:
    """Return the half widths of the columns.

    A column is cut if it has more votes than the middle one (the lower of two), by more than
    7/2 standard deviations of the noise and of that many votes; none is where these columns
    have more such votes than 5/4 gamma of all.
    """
    kept = [min(max(c, -_MOST), _MOST) for c in counts]
    middle = sorted(kept)[(len(kept) - 1) // 2]
    excess = [min(c - middle, _EXCESS) for c in kept]
    square = 4 * surprise**2
    least = min(ceil(square * noise**2), 2**61) + square * max(middle, 0)
    cut = [e > 0 and 4 * e**2 > least for e in excess]
    most = Fraction(ceil(Fraction(5, 4) * gamma * 2**16), 2**16) * max(sum(kept), 0)
    many = sum(e for e, c in zip(excess, cut, strict=True) if c) > most
    return tuple(half if c and not many else OPEN for c in cut)


# --- obligations --------------------------------------------------------------------------------

_CASES: tuple[tuple[Region, tuple[Vector, ...]], ...] = (
    (
        Region((0, 0), 3),
        ((0, 0), (2, 1), (1, 2), (-2, 2), (2, -2), (0, -6), (6, 0), (6, 1), (50, 0)),
    ),
    (Region((1, -7, 5), 2), ((1, -7, 5), (2, -7, 7), (1, -10, 5), (4, -4, 5), (2**41, 0, 0))),
    (Region((2**41,), 3), tuple((2**41 + z,) for z in (0, 3, -6, 7, -(2**42)))),
)


@states(_VOTES)
@shows("FarthestColumns", Norm.SQUARED_L2, value=of_query(votes_moves))
def obligation_votes(claimed: Callable[[Adjacency], int] = votes_moves) -> int:
    """Check over all neighbors of at most two records in up to three columns that the counts move
    by at most ``claimed``, and by exactly that where there are two columns; every record of the
    ball about them votes once.
    """
    cases = 0
    for (region, universe), adjacency in product(_CASES, _ALL):
        most, largest = claimed(adjacency), 0
        for left, right in neighbors(universe, 2, adjacency):
            one, other = (votes(Counter(side), region) for side in (left, right))
            square = squared_distance(one, other)
            require(square <= most, f"{left}, {right}, {adjacency}: {square}, stated {most}")
            largest, cases = max(largest, square), cases + 1
        if len(region.center) > 1:
            require(largest == most, f"{region}, {adjacency}: {largest}, not {most}")
        ball = Region(region.center, 2 * region.radius)
        voters = sum(inside(Counter(universe), ball).values())
        require(sum(votes(Counter(universe), region)) == voters, f"{region}: not {voters} votes")
    return cases


Box = Callable[[Sequence[int], Fraction, Fraction, int], Vector]


@states(_VOTES)
def obligation_box(claimed: Box = box) -> int:
    """Check that equal counts are not cut, nor with three standard deviations more in one column;
    four more are cut there alone.

    This holds in up to half the columns less one, as long as they are a share gamma at most;
    where they are a share 2 gamma nothing is cut.
    """
    cases = 0
    for d, each, noise in product((8, 9, 50), (100, 10**4), (Fraction(1, 16), Fraction(30))):
        chance = mp.sqrt(noise * noise + each)
        more = int(mp.ceil(4 * chance))
        for named in (0, 1, 3, (d - 1) // 2):
            counts = [each + more * (j < named) for j in range(d)]
            gamma = max(Fraction(named * more, sum(counts)), Fraction(1, 100))
            sides = claimed(counts, noise, gamma, 7)
            require(sides == (7,) * named + (OPEN,) * (d - named), f"{d}, {each}, {named}: {sides}")
            fewer = [each + int(3 * chance) * (j < named) for j in range(d)]
            require(set(claimed(fewer, noise, gamma, 7)) == {OPEN}, f"{d}, {each}, {named}: cut")
            if named:
                own = Fraction(named * more, 2 * sum(counts))
                require(set(claimed(counts, noise, own, 7)) == {OPEN}, f"{named}: many are cut")
            cases += 1
    return cases
