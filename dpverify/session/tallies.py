"""Counts in public bins, by one release: histograms of one column or several, and counts by
groups.

One record is in one bin of one group, so all counts together cost what a single one costs under
add-remove; under replace a record moves two of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from dpverify.estimation.bin_estimates import BinsEstimate
from dpverify.estimation.range_strategies import MOST_CIRCULANT
from dpverify.grid.bin_counts import Axis, bins_of, outside_of
from dpverify.mechanisms.histogram import Histogram as HistogramMechanism
from dpverify.mechanisms.noisy_count import CountEstimate
from dpverify.privacy.numbers import whole
from dpverify.session.accounting import Unit
from dpverify.session.choices import Choice, edges_of, noise_of
from dpverify.session.histograms import Histogram, Top
from dpverify.session.questions import Question
from dpverify.tables import Boolean, Category, ColumnType, Integer, Selection, Table


@dataclass(frozen=True, slots=True)
class Tally:
    """Public bins for a question: a selection with a column for each axis, and the counting
    mechanism.

    groups: the declared values of ``by``, whose axis is the first; None without. values: for the
    other axes, declared values, or None for edges.
    """

    selection: Selection
    choice: Choice
    groups: tuple[Any, ...] | None
    values: tuple[tuple[Any, ...] | None, ...]
    top: int | None = None

    @property
    def bins(self) -> int:
        """Number of counts."""
        return prod(map(bins_of, self.choice.parameters["axes"]))

    def results(self, released: BinsEstimate) -> dict[Any, Any]:
        """Return the result of each group, or of all records under None."""
        if self.groups is None:
            return {None: self._shown(Histogram(released, self.values))}
        own = np.array(released.released, object).reshape(len(self.groups), -1).tolist()
        return {
            group: self._of_group(released, tuple(numbers))
            for group, numbers in zip(self.groups, own, strict=True)
        }

    def _of_group(self, released: BinsEstimate, numbers: tuple[int, ...]) -> Any:
        if not self.values:
            return CountEstimate(numbers[0], released.deviation, released.noise)
        own = replace(released, released=numbers, axes=released.axes[1:])
        return self._shown(Histogram(own, self.values))

    def _shown(self, counts: Histogram) -> Histogram | Top:
        return counts if self.top is None else Top(counts, self.top)


def tally_of(question: Question, table: Table, unit: Unit) -> Tally | None:
    """Choose bins for a histogram or for counts by groups; None for any other question.

    Raises TypeError or ValueError, from public facts alone.
    """
    if question.kind not in _OF_BINS and (question.kind != "count" or question.by is None):
        return None
    if question.kind in _OF_BINS and not question.columns:
        raise ValueError(f"{question.kind}: give the name of a column, or a list of names.")
    top = _top_of(question, table) if question.kind == "top" else None
    groups = None if question.by is None else table.select().by(question.by)
    by = () if question.by is None else (question.by,)
    selection = question.kept(table, *by, *question.columns)
    axes: list[Axis] = [] if groups is None else [len(groups)]
    values: list[tuple[Any, ...] | None] = []
    for column in question.columns:
        kind = table.type_of(column)
        axis, named = _axis(column, kind, _bins_of(question, column, kind))
        axes.append(axis)
        values.append(named)
    given: dict[str, Any] = {"axes": tuple(axes), "noise": noise_of(unit)}
    if question.given.get("ranges"):
        ordered = sum(not isinstance(axis, int) for axis in axes)
        circulant = unit != "epsilon" and ordered <= MOST_CIRCULANT
        given["strategy"] = "circulant" if circulant else "tree"
    choice = Choice(HistogramMechanism, given, _why(axes, unit, given), (outside_of(axes[0]), {}))
    named = None if groups is None else tuple(groups)
    return Tally(selection, choice, named, tuple(values), top)


_OF_BINS = ("histogram", "top")


def _top_of(question: Question, table: Table) -> int:
    """Return k of a question for the k most frequent values. Raises TypeError or ValueError."""
    k, kinds = whole(question.given["k"], "k"), [*map(table.type_of, question.columns)]
    if len(kinds) != 1 or not isinstance(kinds[0], (Category, Boolean)):
        raise TypeError(
            f"top of {', '.join(question.columns)}: it is about the declared values of one "
            "Category or Boolean; ask a histogram of numbers, with bins."
        )
    most = len(kinds[0].values)
    if not 1 <= k <= most:
        raise ValueError(f"k = {k}: the column has {most} values; give a number from 1 to {most}.")
    return k


def _why(axes: list[Axis], unit: Unit, given: Mapping[str, Any]) -> str:
    how = (
        ""
        if "strategy" not in given
        else f", after a public matrix for ranges ({given['strategy']})"
    )
    return f"{prod(map(bins_of, axes))} counts at once take {noise_of(unit)} noise{how}"


def _bins_of(question: Question, column: str, kind: ColumnType) -> Any:
    """Return the bins that were given for a column: for several columns by name, or one number
    for all of them.
    """
    bins = question.given.get("bins")
    if not isinstance(bins, Mapping):
        listed = isinstance(kind, (Category, Boolean))
        return None if listed and len(question.columns) > 1 else bins
    unknown = [name for name in bins if name not in question.columns]
    if unknown:
        raise ValueError(f"bins of {unknown[0]!r}: the histogram is of {list(question.columns)}.")
    return bins.get(column)


def _axis(column: str, kind: ColumnType, bins: Any) -> tuple[Axis, tuple[Any, ...] | None]:
    """Return a column's bins, with their names where they are declared values."""
    if isinstance(kind, (Category, Boolean)):
        if bins is not None:
            raise ValueError(
                f"bins of {column!r}: its declared values are the bins; leave bins out, or give "
                "them for the other columns by name, bins={'age': 10}."
            )
        return len(kind.values), tuple(kind.values)
    edges = edges_of(column, kind, bins)
    if isinstance(kind, Integer):
        _require_whole(column, edges)
    return tuple(edges), None


def _require_whole(column: str, edges: list[float]) -> None:
    """Refuse a bin that contains no whole number."""
    for i, (low, high) in enumerate(pairwise(edges), 1):
        last = i + 1 == len(edges)
        if math.ceil(low) > (math.floor(high) if last else math.ceil(high) - 1):
            raise ValueError(
                f"bins of {column!r}: no whole number is from {low} to {high}; give fewer bins, or "
                "whole edges."
            )
