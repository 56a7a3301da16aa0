"""Disjoint blocks of the records: by index, or by a public function of each record alone."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.hashes import fingerprints
from dpverify.grid.masks import cut
from dpverify.grid.records import Records
from dpverify.privacy.numbers import settle, whole

_MOST = 1 << 20


class Split(Hashable, Protocol):
    """A way to divide records into so many blocks. by: the rule that decides a record's block,
    as in ``rules.parallel``.
    """

    @property
    def blocks(self) -> int:
        """Number of blocks."""

    @property
    def by(self) -> Literal["index", "value"]:
        """Rule for which block a record is in: by its index, or by its value."""

    def labels(self, records: Records) -> NDArray[np.int64]:
        """Return each record's block, from 0 on, shape (n,)."""


def members(split: Split, records: Records) -> list[NDArray[np.intp]]:
    """Return the places of each block's records, in increasing order."""
    labels = split.labels(records)
    order = np.argsort(labels, kind="stable")
    return cut(order, np.searchsorted(labels[order], np.arange(1, split.blocks)))


@dataclass(frozen=True, slots=True)
class ByIndex:
    """Split by index: record i is in block i modulo ``blocks``. It is private under replace
    alone, for a removal moves all later records.
    """

    by: ClassVar[Literal["index"]] = "index"
    blocks: int

    def __post_init__(self) -> None:
        settle(self, blocks=_number(self.blocks))

    def labels(self, records: Records) -> NDArray[np.int64]:
        """Return the blocks, from the places alone."""
        return np.arange(len(records)) % self.blocks


@dataclass(frozen=True, slots=True)
class ByInterval:
    """Split by intervals: the block is how many of the edges are at most the record's number in
    this column (from 0).

    edges: finite floats in increasing order, public; there is one block more than edges.
    """

    edges: tuple[float, ...]
    column: int = 0
    by: ClassVar[Literal["value"]] = "value"

    def __post_init__(self) -> None:
        settle(self, edges=tuple(map(float, self.edges)))
        rising = all(low < high for low, high in pairwise((-np.inf, *self.edges, np.inf)))
        if not rising or whole(self.column, "column") < 0:
            raise ValueError(
                f"edges = {self.edges}, column = {self.column}; give finite numbers in "
                "increasing order, and a column from 0 on."
            )

    @property
    def blocks(self) -> int:
        """Number of blocks: one more than edges."""
        return len(self.edges) + 1

    def labels(self, records: Records) -> NDArray[np.int64]:
        """Return the blocks, by comparisons of floats, which do not round."""
        edges = np.array(self.edges, np.float64)
        return np.searchsorted(edges, records[:, self.column], side="right").astype(np.int64)


@dataclass(frozen=True, slots=True)
class ByHash:
    """Split by a public hash of the record's cells (of 2^exponent, up to 2^40 of them), modulo
    ``blocks``.

    Equal records are in one block. key: 0..2^63 - 1; another one gives another hash. Privacy
    does not rest on it.
    """

    blocks: int
    exponent: int
    key: int = 0
    by: ClassVar[Literal["value"]] = "value"

    def __post_init__(self) -> None:
        settle(self, blocks=_number(self.blocks))
        if not 0 <= whole(self.key, "key") < 1 << 63:
            raise ValueError(f"key = {self.key} is outside 0..2^63 - 1.")

    def labels(self, records: Records) -> NDArray[np.int64]:
        """Return the blocks, from each record's own cells."""
        prints = fingerprints(records, self.exponent, self.key)
        return (prints % np.uint64(self.blocks)).astype(np.int64)


def _number(blocks: int) -> int:
    if not 1 <= whole(blocks, "blocks") <= _MOST:
        raise ValueError(f"blocks = {blocks}; give a number from 1 to 2^20.")
    return int(blocks)
