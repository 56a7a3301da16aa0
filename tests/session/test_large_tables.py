"""Sessions about tables that are read chunk by chunk: the same answers, one pass for a plan, one
spend whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from dpverify import (
    Adjacency,
    ApproxDP,
    Boolean,
    Category,
    Chunks,
    Integer,
    Number,
    SeededBits,
    Session,
    SourceFailed,
    Table,
)
from dpverify.session import ReleaseFailed

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COLUMNS: dict[str, Any] = {
    "age": Integer(0, 120),
    "region": Category("north", "south"),
    "pay": Number(0, 8000, missing=0),
    "old": Boolean(missing=False),
}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 600
    data = pd.DataFrame(
        {
            "unused": rng.normal(size=n),
            "pay": rng.gamma(2.0, 900.0, n),
            "age": rng.integers(18, 90, n).astype(float),
            "region": rng.choice(["north", "south", "nowhere"], n),
            "old": rng.random(n) < 0.3,
        }
    )
    data.loc[7, "age"] = np.nan
    data.loc[[3, 599], "pay"] = [np.inf, -5.0]
    return data


FRAME = frame()


def parts(*at: int) -> list[pd.DataFrame]:
    return [FRAME.iloc[a:b] for a, b in zip((0, *at), (*at, len(FRAME)), strict=True)]


def asked(table: Table, adjacency: Adjacency) -> list[Any]:
    """Return the results of questions of a session and of a plan, by the same bits."""
    budget = ApproxDP(40, "1e-5")
    session = Session(table, budget=budget, adjacency=adjacency, bits=SeededBits(2))
    got = [
        session.sum("pay", share="1/20"),
        session.mean("pay", where={"region": ["north"], "old": [True]}, share="1/20"),
        session.count(by="region", share="1/20"),
        session.histogram("pay", 4, share="1/20"),
        session.covariance(["age", "pay"], share="1/20"),
    ]
    plan = session.plan()
    plan.count(where={"old": [True]})
    plan.mean(["age", "pay"], share=2)
    plan.variance("pay")
    answers = plan.answer(share="1/2")
    return [plain(one.result) for one in (*got, *answers.values())]


def plain(result: Any) -> Any:
    if isinstance(result, dict):
        return {group: plain(one) for group, one in result.items()}
    return result.to_dict()


@pytest.fixture(scope="module")
def expected() -> dict[Adjacency, list[Any]]:
    return {near: asked(Table(FRAME, columns=COLUMNS), near) for near in (ADD, REPLACE)}


def written(folder: Path) -> Path:
    """Return three files: whole, without rows, and with ages and truth stored in another way."""
    one, two, three = (pa.Table.from_pandas(part) for part in parts(250, 250))
    other = three.set_column(
        three.schema.get_field_index("age"), "age", three["age"].cast(pa.int32())
    )
    for name, part in (("a", one), ("b", two), ("c", other)):
        parquet.write_table(part, folder / f"{name}.parquet", row_group_size=90)
    return folder


def test_a_folder_of_parquet_files_has_the_answers_of_the_table_in_memory(
    tmp_path: Path, expected: dict[Adjacency, list[Any]]
) -> None:
    folder = written(tmp_path)
    for near, results in expected.items():
        table = Table.read_parquet(folder, columns=COLUMNS, in_memory=False, name="table")
        assert asked(table, near) == results
    assert table.private_number_of_rows == len(FRAME)
    assert "rows private" in repr(table)


SOURCES: dict[str, Callable[[], Any]] = {
    "a list of frames": lambda: Chunks(parts(10, 300)[::-1]),
    "a function": lambda: Chunks(lambda: iter(parts(599))),
    "partitions of Dask": lambda: dask.dataframe.from_pandas(FRAME, npartitions=4),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_other_sources_have_them_too(
    source: Callable[[], Any], expected: dict[Adjacency, list[Any]]
) -> None:
    with dask.config.set(scheduler="synchronous"):
        assert asked(Table(source(), columns=COLUMNS), ADD) == expected[ADD]


def test_arrays_of_rows_have_names() -> None:
    rows = np.array([[20.0, 1.0], [30.0, 5.0], [40.0, np.nan]])
    declared = {"x": Number(0, 9), "age": Integer(0, 120)}
    whole = Table(rows, columns=declared, names=["age", "x"])
    table = Table(Chunks([rows[:1], rows[1:]]), columns=declared, names=["age", "x"])
    chunks = table.select("x").records
    assert isinstance(chunks, Chunks)
    (run,) = chunks.then[-1:]
    got = [run(chunks.then[0](part)) for part in (rows[:1], rows[1:])]
    assert np.concatenate(got).tolist() == whole.select("x").records.tolist() == [[1.0], [5.0]]


def counted() -> tuple[Table, list[int]]:
    passes: list[int] = []

    def fresh() -> Iterator[Any]:
        passes.append(1)
        return iter(parts(100))

    return Table(Chunks(fresh), columns=COLUMNS), passes


def test_a_plan_reads_once_and_so_does_every_question() -> None:
    table, passes = counted()
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    plan = session.plan()
    plan.count()
    plan.mean("pay")
    plan.covariance(["age", "pay"])
    plan.histogram("region")
    assert passes == []
    plan.answer(share="1/2")
    assert len(passes) == 1
    session.histogram("pay", 10, share="1/10")
    assert len(passes) == 2


def test_what_does_not_add_up_is_refused_before_anything_is_spent_or_read() -> None:
    table, passes = counted()
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    with pytest.raises(ValueError, match=r"needs all records at once.*Nothing was spent"):
        session.robust_mean(["age", "pay"], deviations=[9, 900], share="1/10")
    assert passes == []
    assert session.log == ()


def test_a_file_that_changes_while_it_is_read_is_refused_and_the_spend_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.read_parquet(written(tmp_path), columns=COLUMNS, in_memory=False)
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    session.count(share="1/10")
    spend = session.account.spend

    def changing(*given: Any) -> Any:
        parquet.write_table(pa.Table.from_pandas(FRAME), tmp_path / "b.parquet")
        return spend(*given)

    monkeypatch.setattr(session.account, "spend", changing)
    with pytest.raises(ReleaseFailed, match=r"stays spent\. A file is not what it was") as caught:
        session.count(share="1/10", where={"old": [True]})
    assert caught.value.__context__ is None
    assert len(session.log) == 2


CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "gone": (lambda file: file.unlink(), "could not be read"),
    "no Parquet": (lambda file: file.write_bytes(b"somebody of 4.125"), "not what it was when"),
    "another": (lambda file: parquet.write_table(pa.Table.from_pandas(FRAME), file), "when it was"),
}


def named(folder: Path) -> Table:
    """Return a table of chunks of a function, which names the files that it reads."""
    files = sorted(written(folder).glob("*.parquet"))
    chunks = Chunks(lambda: map(parquet.read_table, files), files=files)
    return Table(chunks, columns=COLUMNS)


OPENED: dict[str, Callable[[Path], Table]] = {
    "by name": lambda folder: Table.read_parquet(written(folder), columns=COLUMNS, in_memory=False),
    "by a function": named,
    "a dataset": lambda folder: Table(
        Chunks(dataset.dataset(written(folder), format="parquet")), columns=COLUMNS
    ),
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED.keys())
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_changed_or_is_gone_is_refused_before_the_spend(
    tmp_path: Path,
    adjacency: Adjacency,
    change: Callable[[Path], Any],
    why: str,
    opened: Callable[[Path], Table],
) -> None:
    table = opened(tmp_path)
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=adjacency, bits=SeededBits(2))
    session.mean("pay", share="1/10")  # under replace the rows are counted and known from here on
    plan = session.plan()
    plan.mean("pay")
    change(tmp_path / "b.parquet")
    for ask in (lambda: session.mean("age", share="1/10"), lambda: plan.answer(share="1/10")):
        with pytest.raises(SourceFailed, match=why) as caught:
            ask()
        assert caught.value.__context__ is None
        assert len(session.log) == 1
    assert session.derivation.conclusion.guarantee is not None


@pytest.mark.parametrize("fresh", [iter, lambda once: map(pd.DataFrame, once)], ids=["", "map"])
def test_a_function_that_gives_its_iterator_twice_is_seen(fresh: Callable[[Any], Any]) -> None:
    once = iter(parts(100))
    table = Table(Chunks(lambda: fresh(once)), columns=COLUMNS)
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    session.count(share="1/10")
    with pytest.raises(ReleaseFailed, match="came from an iterator and have been read"):
        session.mean("pay", share="1/10")
    assert len(session.log) == 2  # each question is paid for once


def test_a_function_that_gives_fewer_rows_the_second_time_is_seen() -> None:
    given = [parts(100), parts(100)[1:]]
    table = Table(Chunks(lambda: given.pop(0)), columns=COLUMNS)
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    session.count(share="1/10")
    with pytest.raises(ReleaseFailed, match="another number of them") as caught:
        session.mean("pay", share="1/10")
    assert not any(map(str.isdigit, str(caught.value)))  # that they changed, and no numbers


SECRET = "somebody of 4.125"


def fails(bad: Any) -> Table:
    def fresh() -> Iterator[Any]:
        yield FRAME
        if isinstance(bad, Exception):
            raise bad
        yield bad

    return Table(Chunks(fresh), columns=COLUMNS)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (ValueError(SECRET), "could not be read"),
        (FRAME.drop(columns="age"), "A chunk has 0 columns named 'age', not one"),
        (FRAME[FRAME.columns[::-1]], "other names, or another order"),
        (FRAME.iloc[0].tolist(), "A chunk is a list; give data frames"),
        ({"age": 4.125}, "A chunk is a dict"),
    ],
    ids=["raises", "a column less", "another order", "a row", "a row by name"],
)
def test_a_chunk_that_fails_shows_nothing_and_is_paid_for_once(bad: Any, why: str) -> None:
    session = Session(fails(bad), budget=ApproxDP(5, "1e-5"), adjacency=ADD, bits=SeededBits(2))
    with pytest.raises(ReleaseFailed, match=rf"stays spent\. .*{why}") as caught:
        session.count(share="1/10")
    assert caught.value.__context__ is None
    assert "4.125" not in str(caught.value)
    assert len(session.log) == 1


def test_under_replace_too_few_rows_are_seen_before_the_spend() -> None:
    table = Table(Chunks([FRAME.iloc[:0]]), columns=COLUMNS)
    session = Session(table, budget=ApproxDP(5, "1e-5"), adjacency=REPLACE, bits=SeededBits(2))
    with pytest.raises(ValueError, match="has 0 rows"):
        session.mean("pay", share="1/10")
    broken = Session(
        fails(OSError(SECRET)), budget=ApproxDP(5, "1e-5"), adjacency=REPLACE, bits=SeededBits(2)
    )
    with pytest.raises(SourceFailed):
        broken.mean("pay", share="1/10")
    assert session.log == broken.log == ()


def test_a_collection_of_dask_without_the_columns_is_refused_at_once() -> None:
    made = dask.dataframe.from_pandas(FRAME, npartitions=2)
    pay = {"pay": Number(0, 8000)}
    with pytest.raises(ValueError, match="0 columns are named 'height'"):
        Table(made, columns={"height": Number(0, 3)})
    for other in (made["pay"], made[["pay", "age"]].to_dask_array(), made["pay"].sum()):
        with pytest.raises(TypeError, match="no table of 1 columns"):
            Table(other, columns=pay)
    rows = made[["pay", "age"]].to_dask_array()
    with dask.config.set(scheduler="synchronous"):
        table = Table(rows, columns=pay, names=["pay", "age"])
        assert table.private_number_of_rows == len(FRAME)


def test_what_is_no_table_of_chunks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="can be read once"):
        Table(iter([FRAME]), columns=COLUMNS)
    folder = written(tmp_path)
    with pytest.raises(ValueError, match="give in_memory=False"):
        Table.read_parquet(folder, columns=COLUMNS)
    a = folder / "a.parquet"
    with pytest.raises(ValueError, match="no name of its own"):
        Table.read_parquet([a], columns=COLUMNS, in_memory=False)
    with pytest.raises(ValueError, match="there twice"):
        Table.read_parquet([folder, a], columns=COLUMNS, in_memory=False, name="x")
    with pytest.raises(ValueError, match="0 columns are named 'height'"):
        Table.read_parquet(a, columns={"height": Number(0, 3)}, in_memory=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no Parquet file"):
        Table.read_parquet(tmp_path / "empty", columns=COLUMNS, in_memory=False)
    table = Table.read_parquet(a, columns=COLUMNS, in_memory=False)
    assert table.name == "a"
    for ask in (lambda: table.numbers("age"), lambda: table.fingerprint):
        with pytest.raises(TypeError, match="is read chunk by chunk"):
            ask()
