"""Records after a public linear map, one by one, on exact rationals: neighboring datasets have
images that are neighbors, or equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from dpverify.privacy import Adjacency, Norm, Premise, Source, of_query, shows, states

from .coordinates import Stretch, scaled_masked_sum, scaled_sum, side_counts
from .obligations import neighbors, require
from .queries import of_each
from .vectors import Record, Vector, squared_distance

_OURS = Source("OURS", "a query of records after a public map")
_BOX = 2**40


@dataclass(frozen=True, slots=True)
class RecordMap:
    """Map y = unit round(C z / 2^shift), halves up, z_j = round(x_j / cell_j) - center_j; z +
    center and y / unit are clamped to ``box``.
    """

    center: Vector
    cells: tuple[Fraction, ...]
    matrix: tuple[Vector, ...]
    shift: int
    unit: Fraction
    box: int = _BOX

    def image(self, record: Record) -> Record:
        """Return the image of one record."""
        z = [
            min(max(round(x / cell), -self.box), self.box) - c
            for x, cell, c in zip(record, self.cells, self.center, strict=True)
        ]
        sums = (sum(a * b for a, b in zip(row, z, strict=True)) for row in self.matrix)
        half = 2**self.shift // 2
        return tuple(
            self.unit * min(max((s + half) // 2**self.shift, -self.box), self.box) for s in sums
        )


def images(public: RecordMap, records: Sequence[Record]) -> list[Record]:
    """Return every record's image, in its place."""
    return of_each(public.image, records)


_PLANE = tuple((Fraction(x), Fraction(y)) for x in (-3, 0, 10**9) for y in (-2, 0, 5))
_MAPS = (
    RecordMap((0, 0), (Fraction(1), Fraction(1, 2)), ((1, 0), (0, 1)), 0, Fraction(1)),
    RecordMap((1, -1), (Fraction(1, 2), Fraction(2)), ((5, 0), (-3, 4)), 2, Fraction(1, 4), 64),
)
_QUERIES: tuple[Callable[[Sequence[Record]], Vector], ...] = (
    partial(side_counts, highs=(Fraction(0), Fraction(1))),
    partial(
        scaled_sum, stretch=Stretch((0, 0), (Fraction(1, 2), Fraction(1, 2)), (1, 1)), radius=3
    ),
    partial(
        scaled_masked_sum,
        stretch=Stretch((0, 1), (Fraction(1), Fraction(1)), (1, 1)),
        radius=3,
        weight=2,
    ),
)


@states(_OURS)
@shows(
    "OfImages",
    Norm.SQUARED_L2,
    value=of_query(lambda moved, adjacency: moved, "moved"),
    premises=lambda s: (Premise(Norm.SQUARED_L2, s.query["moved"]),),
)
def obligation_of_images(claimed: Callable[..., list[Record]] = images) -> int:
    """Check for all neighbors of at most 2 records of a small universe that their images are
    neighbors, or equal, and that each of a few queries moves no further than over all neighbors
    of images.
    """
    cases = 0
    for public in _MAPS:
        reached = sorted({y for record in _PLANE for y in claimed(public, [record])})
        for adjacency in (Adjacency.REPLACE, Adjacency.ADD_REMOVE):
            most = [_largest(query, reached, adjacency) for query in _QUERIES]
            for left, right in neighbors(_PLANE, 2, adjacency):
                ours, theirs = claimed(public, left), claimed(public, right)
                require(_near(ours, theirs, adjacency), f"{left}, {right}: {ours}, {theirs}")
                for query, largest in zip(_QUERIES, most, strict=True):
                    moved = squared_distance(query(ours), query(theirs))
                    require(moved <= largest, f"{left}, {right}: {moved}, not {largest}")
                cases += 1
    return cases


def _near(left: Sequence[Any], right: Sequence[Any], adjacency: Adjacency) -> bool:
    """Return whether lists differ in one place, or one has one more."""
    if adjacency is Adjacency.REPLACE:
        return len(left) == len(right) and sum(map(_differ, left, right)) <= 1
    longer, shorter = sorted((list(left), list(right)), key=len, reverse=True)
    dropped = (longer[:i] + longer[i + 1 :] for i in range(len(longer)))
    return shorter in dropped


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other)


def _largest(
    query: Callable[[Sequence[Record]], Vector], universe: Sequence[Record], adjacency: Adjacency
) -> int:
    known: dict[Sequence[Record], Vector] = {}
    largest = 0
    for pair in neighbors(universe, 2, adjacency):
        for records in pair:
            if records not in known:
                known[records] = query(records)
        largest = max(largest, squared_distance(known[pair[0]], known[pair[1]]))
    return largest
