"""Counts of records in public bins of one column or several, after a public integer matrix for each
axis.

A record's bin is decided by exact comparisons of floats, for each record on its own. What the
counts move on integers is in spec/theory/bin_counts.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import interval
from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.strategies import Strategy
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

Axis = int | tuple[float, ...]
"""Bins of one column: k for the categories 0, 1, ..., k - 1, or edges e_0 < e_1 < ... < e_m.

A record x is in the category x, or in the bin i with e_i <= x < e_(i + 1), the last one with x <=
e_m. Any other number is outside.
"""
_MOST_BINS = 1 << 20


def axes_of(value: Any, name: str) -> tuple[Axis, ...]:
    """Read axes, each a number of categories, or two or more edges. Raises TypeError or
    ValueError.
    """
    if not isinstance(value, (tuple, list)) or not value:
        raise TypeError(
            f"{name} = {value!r:.60}; give a tuple of axes, each a number of categories or a "
            "tuple of edges: ((0.0, 18.0, 65.0, 120.0),) or ((0.0, 65.0, 120.0), 3)."
        )
    axes = tuple(_axis(axis, name) for axis in value)
    if prod(map(bins_of, axes)) > _MOST_BINS:
        raise ValueError(f"{name}: {prod(map(bins_of, axes))} bins; give at most 2^20.")
    return axes


def bins_of(axis: Axis) -> int:
    """Count the bins of an axis."""
    return axis if isinstance(axis, int) else len(axis) - 1


def places(axis: Axis, values: Records) -> NDArray[np.int64]:
    """Find each value's bin, by exact comparisons of floats; -1 for a value outside."""
    bins = bins_of(axis)
    if isinstance(axis, int):
        inside = (values >= 0) & (values < bins) & (np.floor(values) == values)
        return np.where(inside, values, -1.0).astype(np.int64)
    indices = np.searchsorted(np.array(axis), values, side="right").astype(np.int64) - 1
    indices[values == axis[-1]] = bins - 1
    indices[values > axis[-1]] = -1
    return indices


def outside_of(axis: Axis) -> float:
    """Give a finite number in no bin. Raises ValueError for edges that leave none."""
    if isinstance(axis, int):
        return -1.0
    below, above = math.nextafter(axis[0], -math.inf), math.nextafter(axis[-1], math.inf)
    if not (math.isfinite(below) or math.isfinite(above)):
        raise ValueError("The edges hold every number; give a first or a last edge within.")
    return below if math.isfinite(below) else above


@dataclass(frozen=True, slots=True)
class BinCounts(Query):
    """The counts of all bins, each axis multiplied by its matrix, and ``other`` times the number
    outside.

    Bins are in the order of the first axis, then of the second, ... A record is outside if it is in
    no bin of some axis; with ``other`` = 0 it is left out and no number is released of it.
    norm: the norm in which the sensitivity is stated, L1 or squared L2.
    """

    adds_up = True
    axes: tuple[Axis, ...]
    strategies: tuple[Strategy, ...]
    norm: Norm = Norm.L1
    other: int = 0

    def __post_init__(self) -> None:
        settle(self, axes=axes_of(self.axes, "axes"), other=whole(self.other, "other"))
        if [one.bins for one in self.strategies] != [bins_of(axis) for axis in self.axes]:
            raise ValueError("Give for each axis a matrix with a column for each of its bins.")
        if self.norm not in (Norm.L1, Norm.SQUARED_L2) or not 0 <= self.other <= 1 << 40:
            raise ValueError(
                f"norm = {self.norm}, other = {self.other}; give the L1 or the squared L2 norm, "
                "and a weight from 0 to 2^40."
            )

    @property
    def width(self) -> int:
        """Number of released integers: one for each row of the product of the matrices, and one
        for the records outside.
        """
        return prod(one.rows for one in self.strategies) + bool(self.other)

    @property
    def in_any_order(self) -> bool:
        """True: counts do not depend on the order."""
        return True

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the counts, shape (width,), exact for every n."""
        counts, outside = self.counts(view.records)
        table: Integers = counts.astype(object) if _is_large(self, len(view)) else counts
        for axis, strategy in enumerate(self.strategies):
            moved = np.moveaxis(table, axis, -1)
            product = strategy.of(moved.reshape(-1, strategy.bins))
            table = np.moveaxis(product.reshape(*moved.shape[:-1], strategy.rows), -1, axis)
        flat = table.reshape(-1)
        if self.other:
            flat = np.append(flat, np.array([self.other * outside], flat.dtype))
        return flat if largest(flat) >= WORD else flat.astype(np.int64)

    def counts(self, records: Records) -> tuple[NDArray[np.int64], int]:
        """Count the records in each bin, in the shape of the axes, and those outside."""
        shape = tuple(bins_of(axis) for axis in self.axes)
        indices = np.zeros(len(records), np.int64)
        inside = np.ones(len(records), np.bool_)
        for column, (axis, bins) in enumerate(zip(self.axes, shape, strict=True)):
            here = places(axis, records[:, column])
            inside &= here >= 0
            indices = indices * bins + here
        kept = indices[inside]
        counted = np.bincount(kept, minlength=prod(shape)).astype(np.int64)
        return counted.reshape(shape), len(records) - len(kept)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Bound the sensitivity. Add-remove: the length of a column of the product, or the
        weight of those outside; replace: of two columns with the least in common, or of one and
        that weight.
        """
        return _moves(self, adjacency, domain, domain.replacement)


@lru_cache(maxsize=32)
def _moves(
    query: BinCounts, adjacency: Adjacency, domain: Domain, replacement: object
) -> Derivation[Sensitivity]:
    """Give the lemma, once for each query: a budget asks for it many times.

    replacement: that of the domain, which equal domains need not share.
    """
    if domain.columns != len(query.axes):
        raise ValueError(f"{domain}, for {len(query.axes)} axes; give a column for each axis.")
    own = prod(one.column(query.norm) for one in query.strategies)
    shared = prod(one.shared(query.norm) for one in query.strategies)
    beside = query.other if query.norm is Norm.L1 else query.other**2
    moved = max(own, beside)
    if adjacency is Adjacency.REPLACE:
        moved = max(2 * (own - shared), own + beside)
    bins = " x ".join(str(bins_of(axis)) for axis in query.axes)
    return sensitivity_lemma(
        Quantity.of(
            f"the counts in {bins} bins, {_words(query.strategies)}",
            "BinCounts",
            axes=tuple(_exact(axis) for axis in query.axes),
            strategies=tuple(one.described for one in query.strategies),
            other=query.other,
        ),
        norm=query.norm,
        value=moved,
        adjacency=adjacency,
        domain=domain,
        obligation="theory/bin_counts.py:obligation_bin_counts",
        source=Source("DMNS06", "Section 3, histogram queries", note="after a public matrix"),
    )


def _words(strategies: Sequence[Strategy]) -> str:
    plain = all(one.described[::2] == ("levels", (1,)) for one in strategies)
    return "as they are" if plain else "after a public matrix"


def _exact(axis: Axis) -> Any:
    return axis if isinstance(axis, int) else tuple(Fraction(edge) for edge in axis)


def _is_large(query: BinCounts, rows: int) -> bool:
    """Return whether an entry may leave 62 bits: no sum of a matrix's row is above bins times
    2^20.
    """
    entries = prod(max(one.described[2]) for one in query.strategies)
    return max(entries, query.other) * rows >= WORD


def _are_edges(axis: Sequence[Any]) -> bool:
    """Tell whether all of them are finite floats in increasing order."""
    if not all(type(edge) is float for edge in axis):
        return False
    edges = np.array(axis)
    return bool(np.isfinite(edges).all() and (edges[1:] > edges[:-1]).all())


def _axis(axis: Any, name: str) -> Axis:
    if isinstance(axis, (tuple, list)):
        if len(axis) < 2:
            raise ValueError(f"{name}: {axis!r:.60}; give at least two edges.")
        if _are_edges(axis):  # the same as below, for many edges at once
            return tuple(axis)
        edges = tuple(interval(low, high, name)[0] for low, high in pairwise(axis))
        return (*edges, interval(axis[-2], axis[-1], name)[1])
    bins = whole(axis, f"a number of categories in {name}")
    if not 1 <= bins <= _MOST_BINS:
        raise ValueError(f"{name}: {bins} categories; give from 1 to 2^20.")
    return bins
