"""Numbers of groups of records whose variance of a column is at a level or above, for all
columns and levels.

The groups are those of ``groups``: one record more or less changes one of them, and a group is
in or out of each of these numbers. The largest exact work, a table of every group's bucket in
every column, is done once for a view. What it is on integers is in spec/theory/levels.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.groups import ZERO, GroupBuckets, KthLargest, buckets_of
from dpverify.grid.queries import Query
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import whole
from dpverify.privacy.rules import sensitivity_lemma

_SOURCE = Source(
    "DJYZZ24", "Algorithm 4, FindLargeVariances", note="a ladder of levels instead of one"
)


@dataclass(frozen=True, slots=True)
class LevelCounts(Query):
    """Number of groups that have a bucket of b or more, for each level b, from the highest on,
    and each column.

    Shape (levels * columns,), all columns at the first level, then at the second, ... hidden:
    columns whose answers are the public number -groups instead, far below those of any other
    column.
    Raises ValueError for levels that do not fall, or a hidden column that does not exist.
    """

    grouping: GroupBuckets
    levels: tuple[int, ...]
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        levels = [whole(b, "levels") for b in self.levels]
        if not levels or any(low >= high for high, low in pairwise(levels)):
            raise ValueError(f"levels = {self.levels}; give buckets from the highest down.")
        columns = self.grouping.columns
        if not all(0 <= whole(i, "hidden") < columns for i in self.hidden):
            raise ValueError(f"hidden = {self.hidden}: name columns from 0 to {columns - 1}.")

    @property
    def width(self) -> int:
        """Number of released integers: one for each level and column."""
        return len(self.levels) * self.grouping.columns

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the counts, shape (width,), from the groups' buckets; counted once for all
        queries of these levels of a view.
        """

        def counts() -> NDArray[np.int64]:
            table = bucket_table(self.grouping, view)
            return np.array([(table >= b).sum(axis=0) for b in self.levels], np.int64)

        level_counts = view.once(("levels", self.grouping, self.levels), counts).copy()
        level_counts[:, list(self.hidden)] = -self.grouping.groups
        return level_counts.ravel()

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: one record more or less changes one group, and each answer by
        1 at most, either way; a replaced one changes two groups.
        """
        return sensitivity_lemma(
            Quantity.of(
                f"the numbers of groups above each of {len(self.levels)} levels in "
                f"{self.grouping.columns} columns",
                "LevelCounts",
            ),
            norm=Norm.L_INFINITY,
            value=2 if adjacency is Adjacency.REPLACE else 1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/levels.py:obligation_level_counts",
            source=_SOURCE,
        )


def bucket_table(grouping: GroupBuckets, view: View) -> NDArray[np.int64]:
    """Return the bucket of each group's variance in each column, shape (groups, columns), -1024
    for a variance of zero.

    The statistic of the grouping does not matter. The table is computed once for each grouping
    of a view.
    """

    def table() -> NDArray[np.int64]:
        sums, pairs = grouping.sums(view)
        return np.where(pairs[:, np.newaxis] > 0, buckets_of(sums, np.maximum(2 * pairs, 1)), ZERO)

    return view.once(("buckets", replace(grouping, statistic=KthLargest(1))), table)
