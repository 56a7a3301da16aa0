"""Views of records that are read chunk by chunk: queries that add up, asked of each chunk and
added exactly.

Sums of integers do not depend on how records are divided, nor on their order, so every value
here is the one that the query has on all records in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.hashes import mixed, multipliers
from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.queries import Count, Query
from dpverify.grid.record_maps import OfImages, RecordMap
from dpverify.grid.records import Records
from dpverify.grid.splits import Split
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View

Inside = tuple[tuple[Split, int], ...]
"""Path from all records to some of them: into a block of a split, then into a block of a split
of that block.
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """A query that adds up, or such a query of images, asked of the records that some steps
    lead to.
    """

    query: Query
    inside: Inside = ()

    def of(self, chunk: View, before: Transcripts) -> Integers:
        """Compute the value on one chunk."""
        view = chunk
        for split, block in self.inside:
            view = view.parts(split)[block]
        return np.asarray(view.value(self.query, before))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sums:
    """Sums of what queries add up to over some chunks: as secret as the data; the repr shows
    nothing of them.

    digest: of all records in any order, modulo 2^64, by which a second pass sees that records
    changed.
    """

    rows: int
    values: tuple[Integers, ...]
    digest: int = 0

    def __add__(self, other: Sums) -> Sums:
        """Add what other chunks gave, exactly."""
        values = tuple(map(_sum, self.values, other.values))
        return Sums(self.rows + other.rows, values, (self.digest + other.digest) % (1 << 64))

    def __repr__(self) -> str:
        return "<sums over private data>"


def _sum(one: Integers, two: Integers) -> Integers:
    """Add in int64 where no number can leave 62 bits, else in Python's integers."""
    if largest(one) + largest(two) >= WORD:
        return np.asarray(one.astype(object) + two.astype(object))
    return np.asarray(one.astype(np.int64) + two.astype(np.int64))


def sums_of(chunk: View, asks: Sequence[Ask], before: Transcripts, digested: bool) -> Sums:
    """Ask one chunk."""
    values = tuple(ask.of(chunk, before) for ask in asks)
    return Sums(len(chunk), values, digest_of(chunk.records) if digested else 0)


def digest_of(records: Records) -> int:
    """Give a sum over records of a public hash of each one's numbers together, modulo 2^64."""
    words = np.ascontiguousarray(records).view(np.uint64) * multipliers(records.shape[1], 0)
    rows = np.add.reduce(mixed(words), axis=1, dtype=np.uint64)
    return int(np.add.reduce(mixed(rows), dtype=np.uint64))


Pass = Callable[[Sequence[Ask], Transcripts], Sums]
"""Function that asks all chunks of a dataset, by one pass over them."""


class Passes:
    """The passes over the chunks of one dataset. The first one is made, or shared with others,
    before it is asked.
    """

    def __init__(self, run: Pass, asks: Sequence[Ask], first: Sums) -> None:
        """Take what the first pass gave for these queries; ``run`` makes another one."""
        self._run, self.rows = run, first.rows
        self._known = dict(zip(asks, first.values, strict=True))

    def value(self, ask: Ask, before: Transcripts) -> Integers:
        """Give the value of a query: from an earlier pass, or by another one where it reads
        what was released.
        """
        if ask.query.reads:
            return self._run((ask,), before).values[0]
        if ask not in self._known:
            self._known[ask] = self._run((ask,), before).values[0]
        return self._known[ask]


class ChunkedView(View):
    """All records of a dataset that is read chunk by chunk; as secret as they are.

    It answers queries that add up, and those whose value follows from such. Any other one is
    refused from the plan, before a record is read; to ask for the records themselves is an
    error of a plan that was not checked.
    """

    def __init__(
        self, passes: Passes, inside: Inside = (), images: tuple[RecordMap, ...] = ()
    ) -> None:
        self.progress = None
        self._known: dict[Hashable, Any] = {}
        self._passes, self._inside, self._images = passes, inside, images

    @property
    def records(self) -> Records:  # type: ignore[override]
        """Refuse: the records are not in memory together."""
        raise TypeError("The records are read chunk by chunk, and never all at once.")

    def __len__(self) -> int:
        if not self._inside:
            return self._passes.rows
        return int(self._passes.value(Ask(Count(), self._inside), NOTHING)[0])

    def value(self, query: Query, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return a sum over all chunks, or what follows from such sums."""
        if not query.adds_up:
            return query.evaluate(self, before)
        asked: Any = query
        for public in reversed(self._images):
            asked = OfImages(asked, public)
        return self._passes.value(Ask(asked, self._inside), before)

    def mapped(self, public: RecordMap) -> View:
        """Return the view of the images."""
        images = (*self._images, public)
        return self.once(public, lambda: ChunkedView(self._passes, self._inside, images))

    def parts(self, split: Split) -> list[View]:
        """Return the views of the blocks of the records themselves."""

        def views() -> list[View]:
            steps = [(*self._inside, (split, block)) for block in range(split.blocks)]
            return [ChunkedView(self._passes, inside) for inside in steps]

        return self.once(split, views)
