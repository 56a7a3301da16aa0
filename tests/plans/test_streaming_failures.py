"""Failures with chunks: they show nothing and draw nothing; changes between passes are seen."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from dpverify import BoundedMean, Chunks, ClippedMean, IterativeMean, SourceFailed
from dpverify.plans import tallying
from dpverify.plans.chunks import require_unchanged
from tests.plans.streamed import ADD, COUNT, PLANE, REPLACE, ROWS, TWICE, NoBits, frames, released

SECRET = "the record 4.125 of somebody"


class Raises:
    """A chunk whose conversion raises with a record in its message."""

    ndim = 2

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)


class WithoutLength(np.ndarray):
    """An array that raises when it is looked at."""

    @property
    def ndim(self) -> Any:
        raise KeyError(SECRET)


def breaks_down() -> Iterator[Any]:
    yield ROWS[:3]
    raise OSError(SECRET)


FAILING: dict[str, tuple[Callable[[], Any], str]] = {
    "an iterator that raises": (breaks_down, "could not be read"),
    "a chunk that raises": (lambda: iter([ROWS, Raises()]), "does not become an array"),
    "a chunk that raises in its own way": (
        lambda: iter([ROWS, ROWS.view(WithoutLength)]),
        "could not be read",
    ),
    "no chunk": (lambda: iter([ROWS, 4.125]), "A chunk is a float"),
    "a record": (lambda: iter(ROWS), "has 1 dimension, and a record has 2 columns"),
    "a list": (lambda: iter(ROWS.tolist()), "A chunk is a list"),
    "columns more": (lambda: iter([ROWS, np.zeros((2, 3))]), "3 columns; this mechanism"),
    "dates": (lambda: iter([ROWS, np.zeros((2, 2), "M8[D]")]), "dates, not real numbers"),
    "other names": (
        lambda: iter([frames()[0], frames()[0].rename_columns(["a", "c"])]),
        "other names",
    ),
    "another order": (lambda: iter([*frames(), frames()[0].select(["b", "a"])]), "another order"),
    "a missing column": (
        lambda: Chunks([*frames(), frames()[0].select(["b"])], columns=["a", "b"]),
        "could not be read",
    ),
}


@pytest.mark.parametrize(("source", "why"), FAILING.values(), ids=FAILING.keys())
def test_what_goes_wrong_is_typed_shows_no_record_and_draws_no_bit(
    source: Callable[[], Any], why: str
) -> None:
    with pytest.raises(SourceFailed, match=rf"{why}.* Nothing was released\.$") as caught:
        PLANE.release(source(), NoBits())
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error))
    assert SECRET not in shown.replace("breaks_down", "")
    assert "4.125" not in str(error)


class Rude(BaseException):
    """A thing that a source may raise and that is no Exception."""


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (KeyboardInterrupt(SECRET), KeyboardInterrupt),
        (SystemExit(SECRET), SystemExit),
        (Rude(SECRET), SourceFailed),
        (GeneratorExit(SECRET), SourceFailed),
        (MemoryError(SECRET), SourceFailed),
        (StopIteration(SECRET), SourceFailed),
    ],
    ids=repr,
)
def test_whatever_a_source_raises_shows_no_record(
    raised: BaseException, kind: type[BaseException]
) -> None:
    """An interrupt of the process is obeyed, without what the source said."""

    def chunks() -> Iterator[Any]:
        yield ROWS[:3]
        raise raised

    with pytest.raises(kind) as caught:
        PLANE.release(Chunks(chunks), NoBits())
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_a_record_that_is_refused_is_refused_in_words() -> None:
    strict = ClippedMean(center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1)
    odd = np.array([[0.0, 1.0], [np.nan, 0.0]])
    where = "In chunk 1, before which 1000 records are: Record 1 is not finite"
    with pytest.raises(SourceFailed, match=where):
        strict.release(iter([ROWS, odd]), NoBits())
    many = np.concatenate([np.zeros((200_000, 2)), odd])  # cut in several pieces
    where = "In chunk 0, before which 0 records are: Record 200001 is not finite"
    with pytest.raises(SourceFailed, match=where):
        strict.release(iter([many]), NoBits())


@pytest.mark.parametrize("nonfinite", ["refuse", "replace"])
@pytest.mark.parametrize("odd", [np.zeros((1, 3)), np.array([["a", "b"]])], ids=["wide", "text"])
def test_a_chunk_that_is_refused_does_not_tell_how_many_records_there_are(
    nonfinite: Any, odd: Any
) -> None:
    mechanism = ClippedMean(
        center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1, nonfinite=nonfinite
    )
    told = set()
    for rows in (ROWS, ROWS[:-1]):
        with pytest.raises(SourceFailed, match=r"^In chunk 1: The data h") as caught:
            mechanism.release(iter([rows, odd]), NoBits())
        told.add(str(caught.value))
    assert len(told) == 1


@pytest.mark.parametrize("data", [{"a": [1.0]}, "x.parquet", 3, frames()[0]], ids=repr)
def test_what_is_no_source_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="no source of chunks"):
        Chunks(data)


def test_a_single_number_and_a_text_for_names_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(4.0))
    with pytest.raises(TypeError, match="without dimensions"):
        Chunks(np.load(tmp_path / "x.npy", mmap_mode="r"))
    with pytest.raises(TypeError, match="give a list of names"):
        Chunks(frames(), columns="ab")


@pytest.mark.parametrize(
    "made",
    [pa.array, lambda x: pa.chunked_array([x]), pd.array, pd.Index, pd.Series, polars.Series],
)
def test_a_column_of_any_library_is_a_chunk(
    made: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = ROWS[:, 0]
    whole = released(COUNT, column)
    assert released(COUNT, Chunks([made(column[:7]), made(column[7:])])) == whole
    monkeypatch.setattr(tallying, "NUMBERS", 30)
    assert released(COUNT, Chunks([made(column)])) == whole


def test_records_that_change_between_passes_are_seen() -> None:
    versions = [[ROWS[:, 0]], [np.concatenate([ROWS[1:, 0], [1.0]])]]
    with pytest.raises(SourceFailed, match="changed between two passes"):
        released(TWICE, Chunks(lambda: iter(versions.pop(0))))
    mispaired = [[ROWS], [np.column_stack([ROWS[:, 0], ROWS[::-1, 1]])]]
    plane = IterativeMean(center=(0.0, 0.0), radius=50, adjacency=ADD, noise_multiplier=1, steps=2)
    with pytest.raises(SourceFailed, match="changed between two passes"):
        released(plane, Chunks(lambda: iter(mispaired.pop(0))))
    fewer = [[ROWS[:, 0]], [ROWS[1:, 0]]]
    with pytest.raises(SourceFailed, match="another number of them"):
        released(TWICE, Chunks(lambda: iter(fewer.pop(0))))
    again = [[ROWS[:, 0]], [ROWS[600:, 0], ROWS[:600, 0]]]
    assert released(TWICE, Chunks(lambda: iter(again.pop(0)))) == released(TWICE, ROWS[:, 0])


def test_a_file_that_changes_while_it_is_read_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "rows.npy"
    np.save(file, ROWS)

    def fresh(change: bool) -> Iterator[Any]:
        yield np.load(file)
        if change:
            np.save(file, ROWS[:3])

    assert released(PLANE, Chunks(lambda: fresh(False), files=[file])) == released(PLANE, ROWS)
    with pytest.raises(SourceFailed, match="A file changed"):
        PLANE.release(Chunks(lambda: fresh(True), files=[file]), NoBits())
    file.unlink()
    with pytest.raises(SourceFailed, match="could not be read"):
        PLANE.release(Chunks([ROWS], files=[file]), NoBits())


def test_files_of_an_opened_dataset_and_of_a_memory_map_are_compared(tmp_path: Path) -> None:
    """Between passes of one release, and between questions; each is changed to as many records."""

    def write(shift: float) -> None:
        for place, frame in enumerate(frames()):
            rows = pa.table({"a": np.asarray(frame["a"]) + shift, "b": frame["b"]})
            parquet.write_table(rows, tmp_path / f"{place}.parquet")
        if not shift:
            np.save(tmp_path / "x.npy", ROWS)
        np.load(tmp_path / "x.npy", mmap_mode="r+")[:] = ROWS + shift

    def sources() -> list[Any]:
        parts = [dataset.dataset(file) for file in sorted(tmp_path.glob("*.parquet"))]
        whole = dataset.dataset([str(file) for file in sorted(tmp_path.glob("*.parquet"))])
        return [whole, dataset.dataset(parts), np.load(tmp_path / "x.npy", mmap_mode="r")]

    write(0.0)
    opened = [Chunks(one) for one in sources()]
    before = [one.source.stamp() for one in opened]
    for one, stamp in zip(opened, before, strict=True):
        assert released(PLANE, one) == released(PLANE, ROWS)
        assert one.source.stamp() == stamp != ()
        one.source.opened = stamp  # as a table does
    time.sleep(0.02)  # longer than a tick of the file system's clock
    write(1.0)
    for one, stamp in zip(opened, before, strict=True):
        assert one.source.stamp() != stamp
        with pytest.raises(SourceFailed, match="not what it was when it was opened"):
            require_unchanged(one.source)
        with pytest.raises(SourceFailed, match="not what it was when it was opened"):
            PLANE.release(one, NoBits())


def test_a_memory_map_without_a_file_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "x.npy").unlink()
    assert released(PLANE, mapped) == released(PLANE, ROWS)


def test_a_file_that_was_rewritten_in_place_with_its_old_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "rows.npy"
    np.save(file, ROWS)
    old = file.stat()

    def fresh() -> Iterator[Any]:
        yield np.load(file)
        time.sleep(0.02)  # longer than a tick of the file system's clock
        with file.open("r+b") as opened:
            opened.write(file.read_bytes()[::-1])
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))

    with pytest.raises(SourceFailed, match="A file changed"):
        PLANE.release(Chunks(fresh, files=[file]), NoBits())
    new = file.stat()
    assert (new.st_size, new.st_mtime_ns, new.st_ino) == (old.st_size, old.st_mtime_ns, old.st_ino)


def test_under_replace_the_number_of_records_is_counted_and_too_few_are_refused() -> None:
    few = BoundedMean(lower=0.0, upper=1.0, adjacency=REPLACE, noise_multiplier=1)
    column = ROWS[:, 0]
    assert released(few, Chunks([column[:7], column[7:]])) == released(few, column)
    with pytest.raises(ValueError, match="have 0 records; this mechanism needs at least 1"):
        few.release(Chunks([]), NoBits())


def test_what_is_made_of_chunks_prints_nothing_of_them() -> None:
    law = PLANE.law(Chunks([np.array([[4.125, 4.125]])]))
    shown = f"{Chunks(ROWS)!r} {law!r} {law._view!r} {law._view.__dict__['_passes']!r}"
    assert "4.125" not in shown
    with pytest.raises(TypeError, match="never all at once"):
        _ = law._view.records
