"""Number of groups of records at a level or above in a column, and what one record changes.

Groups, and a group's variances, are those of ``groups``. An answer for a level b and a column
counts the groups whose bucket there is at least b.

Proof of the sensitivity. One record more or less changes one group (``groups``), and a group is
counted or not: every answer moves by 1 at most, some up and others down, for a group's
variances may fall when a record enters. A replaced record changes two groups, which may move
alike. QED.
A reported column's answers are a public number from then on, whatever the data, and do not
move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .caches import cache
from .groups import Cells, Group, Hash, bucket, members, moved, variances
from .obligations import neighbors, require

_SOURCE = Source("DJYZZ24", "Algorithm 4, FindLargeVariances", note="a ladder of levels")


def table(grouped: Sequence[Group], d: int) -> list[list[int]]:
    """Return each group's bucket in each column."""
    return [[bucket(value) for value in variances(list(group), d)] for group in grouped]


def counts(
    buckets: Sequence[Sequence[int]], d: int, levels: Sequence[int], hidden: Sequence[int]
) -> tuple[int, ...]:
    """Return the answers for all columns at the first level, then at the next; -(number of groups)
    for hidden columns.
    """
    return tuple(
        -len(buckets) if i in hidden else sum(row[i] >= level for row in buckets)
        for level, i in product(levels, range(d))
    )


def identified(places: Sequence[int], d: int, levels: Sequence[int]) -> tuple[dict[int, int], int]:
    """Return the column of each report so far with its level, the first time; and the level that
    all other columns are below.
    """
    asked, columns = d * len(levels), {}
    for place in places:
        if place < asked and place % d not in columns:
            columns[place % d] = levels[place // d]
    answered = asked if places and places[-1] >= asked else (places[-1] + 1 if places else 1)
    return columns, levels[0] + 1 - answered // d


@states(_SOURCE)
def answer_moves(adjacency: Adjacency) -> tuple[int, bool]:
    """Return the largest move of any answer, and whether all move in one direction."""
    return moved(adjacency), False


_RECORDS: tuple[Cells, ...] = ((0, 0), (5, 1), (1, 9), (9, 1))
_HASHES = (Hash(1), Hash(2, 7), Hash(3, 0, factors=(0, 0)), Hash(5, 24))


@states(_SOURCE)
@shows("LevelCounts", Norm.L_INFINITY, value=lambda s: of_query(answer_moves)(s)[0])
def obligation_level_counts(
    claimed: Callable[[Adjacency], tuple[int, bool]] = answer_moves,
) -> int:
    """Check the largest move of an answer, and whether all answers of a pair move in one
    direction.

    All neighbors of at most four records are tried, for several hashes, and for one of them of
    at most six records of two kinds.
    """
    cases = 0
    for adjacency in Adjacency:
        moves, looked_at = _largest_move(adjacency)
        case = "{}: moves by {}, one way: {}".format(adjacency, *moves)
        require(moves == claimed(adjacency), case)
        cases += looked_at
    return cases


def _largest_move(adjacency: Adjacency) -> tuple[tuple[int, bool], int]:
    """Return the most that an answer moves, and whether all of a pair move one way; and of how
    many pairs.
    """
    most, one_way, levels = 0, True, (3, 2, 1, 0, -1)
    pairs = [*product(_HASHES, neighbors(_RECORDS[:3], 4, adjacency))]
    pairs += product(_HASHES[-1:], neighbors(_RECORDS[::3], 6, adjacency))
    answers = cache(lambda by, side: counts(table(members(side, by), 2), 2, levels, ()))
    for by, sides in pairs:
        left, right = (answers(by, side) for side in sides)
        moves = [a - b for a, b in zip(left, right, strict=True)]
        most = max(most, *map(abs, moves))
        one_way = one_way and min(moves) * max(moves) >= 0
    return (most, one_way), len(pairs)


def obligation_identified(
    claimed: Callable[[Sequence[int], int, Sequence[int]], tuple[dict[int, int], int]] = identified,
) -> int:
    """Check, for every increasing list of places of two columns at three levels, that the result
    has each reported column at its first place, and that every other column was answered at the
    returned level, and not at the next.
    """
    cases, d, levels = 0, 2, (4, 3, 2)
    for k in range(1, 4):
        for places in product(range(7), repeat=k):
            if any(a >= b and b < 6 for a, b in pairwise(places)):
                continue
            columns, below = claimed(places, d, levels)
            answered = range(min(places[-1] + 1, 6))
            for i in range(d):
                own = [place for place in places if place < 6 and place % d == i]
                expected = levels[own[0] // d] if own else None
                require(columns.get(i) == expected, f"{places}: column {i} in {columns}")
            here = [all(levels.index(b) * d + i in answered for i in range(d)) for b in levels]
            lowest = min((b for b, all_ in zip(levels, here, strict=True) if all_), default=5)
            require(below == lowest, f"{places}: below {below}, not {lowest}")
            cases += 1
    return cases
