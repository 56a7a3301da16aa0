"""Tables of pandas and polars as outputs: whatever they show tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.audit import Verdict
from tests.audit.test_contents import Model, alike, audited, unseen


def _with_attrs(made: Any, d: Any) -> Any:
    made.attrs["note"] = d
    return made


def _pandas_makers() -> list[Callable[[Any], Any]]:
    pd = pytest.importorskip("pandas")
    days = pd.DatetimeIndex(["2020-01-01", "2020-01-02"])

    def category(d: Any) -> Any:
        return pd.Categorical(["a"], categories=["a", f"b{d}"])

    def ordered(d: Any) -> Any:
        return pd.Categorical(["a"], categories=["a", "b"], ordered=d == 1)

    return [
        category, ordered,
        lambda d: category(d).dtype,
        lambda d: pd.Series(category(d)),
        lambda d: pd.Series(ordered(d)),
        lambda d: pd.DataFrame({"x": category(d)}),
        lambda d: pd.DataFrame({"x": [1.0]}, index=category(d)),
        lambda d: pd.DataFrame([[1.0]], columns=category(d)),
        lambda d: pd.CategoricalIndex(category(d)),
        lambda d: _with_attrs(pd.DataFrame({"x": [1.0]}), d),
        lambda d: _with_attrs(pd.Series([1.0]), [d]),
        lambda d: pd.Series([1.0], name=d),
        lambda d: pd.Series([1.0], index=pd.Index([0], name=d)),
        lambda d: pd.DataFrame({"x": [1.0]}, index=pd.Index([0], name=d)),
        lambda d: pd.DataFrame([[1.0]], columns=pd.Index([0], name=d)),
        lambda d: pd.MultiIndex.from_arrays([[0], [1]], names=["a", d]),
        lambda d: pd.MultiIndex.from_product([[0], [0, d]])[:1],
        lambda d: pd.Series([1.0, 2.0], index=days if d == 1 else pd.date_range(*days)),
        lambda d: pd.Series([1, None], dtype="Int64" if d == 1 else "float64"),
        lambda d: pd.DataFrame({"x": pd.Series([1, None], dtype="Int64" if d == 1 else "float64")}),
        lambda d: pd.Series(["a"], dtype="string" if d == 1 else object),
        lambda d: pd.DataFrame({"x": ["a"]}, dtype="string" if d == 1 else object),
        lambda d: pd.DataFrame({"x": [1], "y": np.array([1], np.int64 if d == 1 else np.int32)}),
        lambda d: pd.DataFrame({"x": [1], "y": [d]}),
        lambda d: pd.Series([Model(d)]),
        lambda d: pd.Series([1.0]).set_flags(allows_duplicate_labels=d == 1),
    ]  # fmt: skip


def _polars_makers() -> list[Callable[[Any], Any]]:
    pl = pytest.importorskip("polars")

    def column(d: Any) -> Any:
        return pl.Series("x", ["a"], dtype=pl.Enum(["a", f"b{d}"]))

    return [
        column,
        lambda d: pl.DataFrame([column(d)]),
        lambda d: pl.Series([None if d == 1 else float("nan")], dtype=pl.Float64),
        lambda d: pl.DataFrame({"x": pl.Series([None if d == 1 else float("nan"), 1.0])}),
        lambda d: pl.Series([1], dtype=pl.Int32 if d == 1 else pl.Int64),
        lambda d: pl.Series(f"{d}", [1]),
        lambda d: pl.DataFrame({"x": [1.0], "y": [d]}),
    ]


@pytest.mark.parametrize("makers", [_pandas_makers, _polars_makers])
def test_what_a_table_shows_tells_tables_apart(makers: Callable[[], Any]) -> None:
    for i, make in enumerate(makers()):
        assert not alike(make(1), make(2)), i
        assert alike(make(1), make(1)), i
        assert not unseen(make(1)), i


def test_a_category_nobody_has_is_a_violation() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)

    def table(data: Any) -> Any:
        there = ["a", "b"][int(rng.integers(2))]
        return pd.Series(pd.Categorical([there], categories=["a", "b", f"{len(data)} rows"]))

    assert audited(table).verdict is Verdict.VIOLATED


def test_a_query_that_was_not_run_is_noted() -> None:
    pl = pytest.importorskip("polars")
    assert "PyLazyFrame" in unseen(pl.DataFrame({"x": [1.0]}).lazy())[0]
