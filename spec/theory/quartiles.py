"""Distance, in replaced records, of a dataset from one whose interquartile distance lies in
another bin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, shows, states

from .obligations import neighbors, require
from .tables import Counts, ThresholdedLaplaceLaw

_QUARTILES = Source("DL09", "the interquartile range", note="distances are exact, on a grid")


def edges(most: int, step: Fraction) -> list[int]:
    """List the edges of bins: 0 twice, 1, then each ``step`` times the last, rounded up and one
    more at the least.

    Two are above ``most``. Bin k holds edges[k] <= distance < edges[k + 2].
    """
    limits = [0, 0, 1]
    while sum(edge > most for edge in limits) < 2:
        grown = step * limits[-1]
        limits.append(max(limits[-1] + 1, -((-grown.numerator) // grown.denominator)))
    return limits


def ranks(n: int) -> tuple[int, int]:
    """Give the ranks p and q of the quartiles: the least of which at least a quarter, and three,
    are at or below."""
    return next(p for p in range(1, n + 1) if 4 * p >= n), next(
        q for q in range(1, n + 1) if 4 * q >= 3 * n
    )


def apart(cells: Sequence[int]) -> int:
    """Compute the distance of the quartiles; 0 of fewer than two records."""
    if len(cells) < 2:
        return 0
    ordered, (p, q) = sorted(cells), ranks(len(cells))
    return ordered[q - 1] - ordered[p - 1]


@states(_QUARTILES)
def reach(cells: Sequence[int], lower: int, upper: int, k: int) -> tuple[int, int]:
    """Compute the least and the largest distance of the quartiles after k of at least two records
    are replaced.

    Put z_j = lower for j < 1 and upper for j > n. Largest: max over a + b = k of z_(q + b) - z_(p -
    a). Least: max(0, min over a + b = k of z_(q - b) - z_(p + a)).

    Proof. Let w <= v be the new quartiles, w < v. Largest: of the n - q + 1 new records >= v at
    most B are replacements, so n - q + 1 - B old ones are >= v, and v <= z_(q + B); likewise w >=
    z_(p - A), A the replacements <= w; A + B <= k as w < v, and the bound rises with both.
    Attained: between z_(p - a) and z_(q + b) there are a + b + q - p - 1 >= k records; put a of
    them at lower and b at upper (where p - a < 1 or q + b > n fewer do). Least: at most p - 1 new
    records are < w, so at most p - 1 + A old ones are, A the removed ones < w: w <= z_(p + A);
    likewise v >= z_(q - B), B the removed ones > v, and A + B <= k. Attained for p + a <= q - b:
    remove a below z_(p + a) in the order and b above z_(q - b), of which there are p + a - 1
    and n - q + b, and put k records between. From k = q - p on it is 0. QED
    """
    (p, q), n = ranks(len(cells)), len(cells)
    ordered = sorted(cells)

    def z(j: int) -> int:
        return lower if j < 1 else upper if j > n else ordered[j - 1]

    splits = [(a, k - a) for a in range(k + 1)]
    least = min(z(q - b) - z(p + a) for a, b in splits) if k < q - p else 0
    return max(0, least), max(z(q + b) - z(p - a) for a, b in splits)


Distance = Callable[[Sequence[int], int, int, int, int], int]


@states(_QUARTILES)
def distance(cells: Sequence[int], lower: int, upper: int, low: int, high: int) -> int:
    """Count how many of the records at least are replaced until the quartiles are not low..high - 1
    apart; n if none suffice."""
    for k in range(1, len(cells) + 1 if len(cells) > 1 else 1):
        least, largest = reach(cells, lower, upper, k)
        if least < low or largest >= high:
            return k
    return max(1, len(cells))


@states(_QUARTILES)
def bins(cells: Sequence[int], lower: int, upper: int, step: Fraction) -> Counts:
    """List (bin, distance) for the two bins in which the quartiles' distance lies."""
    ends, own = edges(upper - lower, step), apart(cells)
    held = [k for k in range(len(ends) - 2) if ends[k] <= own < ends[k + 2]]
    return tuple((k, distance(cells, lower, upper, ends[k], ends[k + 2])) for k in held)


BINS_OF_A_VALUE = 2


@states(_QUARTILES)
@shows(
    "QuartileBins",
    Norm.STABLE,
    value=lambda s: BINS_OF_A_VALUE if s.adjacency is Adjacency.REPLACE else None,
)
def obligation_stable(
    claimed: int = BINS_OF_A_VALUE, far: Distance = distance, steps: tuple[str, ...] = ("5/4", "2")
) -> int:
    """Check on all datasets of at most five records on six cells that a bin's distance is the
    number of records that the nearest dataset in another bin does not share.

    So between neighbors it moves by at most 1, or the bin changes and both distances are 1.
    Every value is in ``claimed`` bins, an even and an odd one, and bins begin at their edges.
    """
    cases, lower, upper = 0, -2, 3
    for step in map(Fraction, steps):
        ends = edges(upper - lower, step)
        require(ends[:3] == [0, 0, 1] and ends == sorted(ends), f"{ends}")
        for n in range(2, 6):
            known = {
                cells: apart(cells)
                for cells in combinations_with_replacement(range(lower, upper + 1), n)
            }
            for cells, own in known.items():
                held = [k for k in range(len(ends) - 2) if ends[k] <= own < ends[k + 2]]
                case = f"{cells}, {own} apart, bins {held} of {ends}"
                require(len(held) == claimed and sum(k % 2 for k in held) == 1, case)
                shared = Counter(cells)
                for k in held:
                    others = [y for y, its in known.items() if not ends[k] <= its < ends[k + 2]]
                    true = min((n - (shared & Counter(y)).total() for y in others), default=n)
                    stated = far(cells, lower, upper, ends[k], ends[k + 2])
                    require(stated == true, f"{case}: bin {k} is {true} away, not {stated}")
                    cases += 1
    return cases + _between_neighbors(far)


def _between_neighbors(far: Distance) -> int:
    """Show that the distance moves as the norm says, on all neighbors of at most three records."""
    cases, ends = 0, edges(4, Fraction(2))

    def rows(cells: Sequence[int]) -> dict[int, tuple[int, int]]:
        held = [k for k in range(len(ends) - 2) if ends[k] <= apart(cells) < ends[k + 2]]
        return {k % 2: (k, far(cells, 0, 4, ends[k], ends[k + 2])) for k in held}

    for left, right in neighbors(range(5), 3, Adjacency.REPLACE):
        if len(left) < 2:
            continue
        own, other = rows(left), rows(right)
        for parity in (0, 1):
            (a, near), (b, away) = own[parity], other[parity]
            stays = a == b and abs(near - away) <= 1
            require(stays or near == away == 1, f"{left}, {right}: {own}, {other}")
            cases += 1
    return cases


class LaplaceTestLaw(ThresholdedLaplaceLaw):
    """Law of (value, distance + Z) for every value with distance + Z >= threshold: a noisy test."""

    def tested_part(self, other: Any) -> tuple[Any, Any]:
        """Give (the largest loss of the values that both have, with what probability one passes
        that the other has not)."""
        return self.pure_part(other)
