"""Views of a dataset as a query sees it: the records, their images under a map, which of them a
filter retained.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.image_view import Images
from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.grid.records import Records
from dpverify.grid.splits import Split, members
from dpverify.grid.transcripts import NOTHING, Transcripts

if TYPE_CHECKING:
    from dpverify.grid.queries import Query
    from dpverify.grid.record_maps import RecordMap

Progress = Callable[[int, int], None]
"""Function that is called with (done, total) now and then. Running time depends on private
data, so whoever sees the progress learns something about them.
"""
_Value = TypeVar("_Value")


class View:
    """The records as queries see them. Quantities that several queries need are computed once.

    A view is as secret as its dataset; its repr shows nothing of it.
    """

    def __init__(self, records: Records, progress: Progress | None = None) -> None:
        self.records = records
        self.progress = progress
        self._known: dict[Hashable, Any] = {}

    def __repr__(self) -> str:
        return "<a view of private data>"

    def __len__(self) -> int:
        return len(self.records)

    def once(self, key: Hashable, compute: Callable[[], _Value]) -> _Value:
        """Return what was computed for this key, or compute it."""
        cached = self._known.get(key)  # looked up once: a key takes longer to hash than to find
        if cached is None:
            cached = self._known[key] = compute()
        value: _Value = cached
        return value

    def value(self, query: Query, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the exact value of a query, of which another query's value is a function."""
        return query.evaluate(self, before)

    def mapped(self, public: RecordMap) -> View:
        """Return the view of the records' images under a public map, once for each map."""
        return self.once(public, lambda: View(public.images(self.records), self.progress))

    def images(self, nearness: Nearness) -> Images:
        """Return the records after a public map, once for each map."""
        return self.once(nearness, lambda: Images(self.records, nearness, self.progress))

    @property
    def is_filtered(self) -> bool:
        """True if every draw of a batch sees other records, those that a filter retained for it."""
        return False

    @property
    def retained(self) -> NDArray[np.bool_]:
        """Mask of the records that are seen, shape (size, n); all of them, in one row, where
        there is no filter.
        """
        return np.ones((1, len(self)), np.bool_)

    def parts(self, split: Split) -> list[View]:
        """Return the views of disjoint blocks of the records, once for each split."""

        def views() -> list[View]:
            blocks = members(split, self.records)
            return [View(self.records[some], self.progress) for some in blocks]

        return self.once(split, views)


class Retained(View):
    """View of the records behind a random filter, which retains other records in every draw of
    a batch.
    """

    def __init__(self, whole: View, retained: NDArray[np.bool_]) -> None:
        super().__init__(whole.records, whole.progress)
        self._known, self._retained = whole._known, retained

    @property
    def is_filtered(self) -> bool:
        """True: every draw sees the records that the filter retained for it."""
        return True

    @property
    def retained(self) -> NDArray[np.bool_]:
        """Mask of the records that were retained, shape (size, n)."""
        return self._retained

    def of(self, draws: Integers) -> Retained:
        """Return the view of some of the draws."""
        return Retained(self, self._retained[draws])
