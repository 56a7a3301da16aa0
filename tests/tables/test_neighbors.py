"""The basis of both rules for tables: on all small tables, selections of neighbors are
neighbors, equal, or two steps apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, Category, Number, Table
from dpverify.tables import Selection
from tests.privacy.enumeration.graph import Pairs, edges

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ROWS = ((20, "north"), (None, "south"), ("x", "north"), (99, None))
KEEPING = {"bmi": Number(15, 45, missing=30), "region": Category("north", "south", missing="south")}
LEAVING = {"bmi": Number(15, 45), "region": Category("north", "south")}
Rows = tuple[Any, ...]
Select = Callable[[Table], Selection]
SELECTIONS: dict[str, Select] = {
    "a column": lambda t: t.select("bmi"),
    "both": lambda t: t.select("region", "bmi"),
    "none": lambda t: t.select(),
    "a group": lambda t: t.select("bmi").by("region")["north"],
    "two conditions": lambda t: (
        t.select("bmi").where("bmi", between=(18, 40)).where("region", among=["south"])
    ),
    "filled": lambda t: t.select("bmi").where("region", among=["north"]).filled(7.0),
    "flags": lambda t: t.select().where("region", among=["south"]).filled(1.0),
}


@cache
def table(rows: Rows, leaving: bool) -> Table:
    return Table(list(rows), columns=LEAVING if leaving else KEEPING)


def one_less(long: list[Any], short: list[Any]) -> bool:
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def apart(left: Any, right: Any) -> int:
    """Count the steps of add-remove, at most two, or 3 for more."""
    a, b = (list(map(tuple, records.tolist())) for records in (left, right))
    if a == b:
        return 0
    if one_less(a, b) or one_less(b, a):
        return 1
    shorter = [a[:i] + a[i + 1 :] for i in range(len(a))]
    return 2 if any(one == b[:j] + b[j + 1 :] for one in shorter for j in range(len(b))) else 3


def wrong(records: Callable[[Rows], Any], leaves_out: bool) -> list[tuple[Rows, Rows]]:
    """List the neighbors whose records are farther apart than the rules say."""
    faults = []
    for about in Adjacency:
        pairs: Pairs = edges(about, ROWS, 3)
        for one, other in pairs:
            left, right = records(one), records(other)
            if leaves_out:
                fine = apart(left, right) <= (1 if about is ADD_REMOVE else 2)
            else:
                same_number = len(left) == len(one) and len(right) == len(other)
                fine = same_number and about.are_neighbors(left, right)
            if not fine:
                faults.append((one, other))
    return faults


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_is_a_function_of_each_record(name: str, leaving: bool) -> None:
    @cache
    def records(rows: Rows) -> Any:
        return SELECTIONS[name](table(rows, leaving)).records

    leaves_out = SELECTIONS[name](table((), leaving)).leaves_out
    assert leaves_out == (
        name not in ("filled", "flags", "none")
        and (leaving or ("column" not in name and name != "both"))
    )
    assert wrong(records, leaves_out) == []
    if leaves_out:  # and it needs to be said
        assert wrong(records, False)


def imputed(rows: Rows) -> Any:
    """Planted: a missing cell counts as the others' mean."""
    column = table(rows, True).numbers("bmi").copy()
    column[np.isnan(column)] = np.nanmean(column) if (~np.isnan(column)).any() else 30.0
    return column.reshape(-1, 1)


def complete_columns(rows: Rows) -> Any:
    """Planted: a column with a missing cell is dropped."""
    columns = [table(rows, True).numbers(name) for name in LEAVING]
    kept = [column for column in columns if not np.isnan(column).any()]
    return np.array(kept).T if kept else np.zeros((len(rows), 1))


def ordered(rows: Rows) -> Any:
    """Planted: records in the order of their values, which no longer differ at one place."""
    return np.sort(table(rows, False).select("bmi").records, axis=0)


@pytest.mark.parametrize("planted", [imputed, complete_columns, ordered])
def test_planted_maps_that_look_at_other_records_are_seen(planted: Callable[[Rows], Any]) -> None:
    assert wrong(planted, False)


def complete_tables(rows: Rows) -> Any:
    """Planted: no record is kept of a table with a missing cell."""
    column = table(rows, True).numbers("bmi").reshape(-1, 1)
    return column[:0] if np.isnan(column).any() else column


def smaller_ones(rows: Rows) -> Any:
    """Planted: records below the mean of all are kept."""
    records = table(rows, False).select("bmi").records
    return records[records[:, 0] <= records.mean()] if len(records) else records


@pytest.mark.parametrize("planted", [complete_tables, smaller_ones])
def test_and_those_that_leave_records_out(planted: Callable[[Rows], Any]) -> None:
    assert wrong(planted, True)
