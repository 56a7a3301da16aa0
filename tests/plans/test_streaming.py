"""Releases from chunks: the same bits give the same release, and what goes wrong shows nothing
and draws nothing."""

from __future__ import annotations

import itertools
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from dpverify import (
    Adjacency,
    BoundedMean,
    Chunks,
    ClippedMean,
    IterativeMean,
    NoisyCount,
    SeededBits,
    SourceFailed,
)
from dpverify.grid.chunked import Sums
from dpverify.plans import Mechanism, tallying
from dpverify.plans.chunks import require_unchanged
from dpverify.plans.mechanism import laws_on
from dpverify.plans.streaming import streaming
from dpverify.randomness import Bits
from tests.large_data import configurations

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
PLANE = ClippedMean(
    center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1, nonfinite="replace"
)
COUNT = NoisyCount(adjacency=ADD, noise_multiplier=1)
TWICE = IterativeMean(
    center=(0.0,), radius=50, adjacency=ADD, noise_multiplier=1, steps=2, nonfinite="replace"
)


RNG = np.random.default_rng(11)
ROWS = RNG.normal(1.0, 1.0, (1000, 2))


class NoBits(Bits):
    """Bits of which none may be drawn."""

    def words(self, count: int) -> Any:
        raise AssertionError("a bit was drawn")


def cut(data: Any, seed: int) -> list[Any]:
    """Return the records in up to four chunks in another order, one of them empty."""
    rng = np.random.default_rng(seed)
    parts = np.split(data, np.sort(rng.integers(0, len(data) + 1, 3)))
    return [*(parts[i] for i in rng.permutation(4)), data[:0]]


def test_every_mechanism_that_adds_up_releases_what_it_releases_in_one_piece() -> None:
    tried = set()
    for name, mechanism, records in configurations():
        if streaming(mechanism.fixed_plan).refusal is None:
            whole = mechanism.release(records, SeededBits(5))
            assert mechanism.release(Chunks(cut(records, 3)), SeededBits(5)) == whole, name
            tried.add(type(mechanism))
    assert len(tried) >= 18


def test_every_other_mechanism_is_refused_before_a_record_is_read_and_a_bit_is_drawn() -> None:
    def chunks() -> Iterator[Any]:
        raise AssertionError("a record was read")

    refused = 0
    for _, mechanism, _ in configurations():
        if streaming(mechanism.fixed_plan).refusal is not None:
            with pytest.raises(TypeError, match=r"needs all records at once: .*Give one array"):
                mechanism.release(Chunks(chunks), NoBits())
            refused += 1
    assert refused >= 12


def released(mechanism: Mechanism[Any], data: Any) -> Any:
    return mechanism.release(data, SeededBits(7))


def frames() -> list[Any]:
    return [pa.table({"a": part[:, 0], "b": part[:, 1]}) for part in np.split(ROWS, [3, 3, 700])]


SOURCES: dict[str, Callable[[], Any]] = {
    "an iterator": lambda: iter(np.split(ROWS, [10, 500])),
    "a generator of other dtypes": lambda: (part.astype(object) for part in np.split(ROWS, [7])),
    "a list": lambda: Chunks([ROWS[:400], ROWS[400:]]),
    "slices of an array": lambda: Chunks(ROWS),
    "a function": lambda: Chunks(lambda: iter([ROWS[5:], ROWS[:5]])),
    "frames": lambda: Chunks(frames()),
    "columns of frames": lambda: Chunks(
        [frame.append_column("c", frame["a"]).select(["c", "b", "a"]) for frame in frames()],
        columns=["a", "b"],
    ),
    "record batches": lambda: pa.concat_tables(frames()).to_reader(),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_source_gives_what_one_array_gives(source: Callable[[], Any]) -> None:
    assert released(PLANE, source()) == released(PLANE, ROWS)


def test_files_and_memory_maps_give_what_one_array_gives(tmp_path: Path) -> None:
    whole = released(PLANE, ROWS)
    parquet.write_table(pa.concat_tables(frames()), tmp_path / "x.parquet", row_group_size=77)
    with parquet.ParquetFile(tmp_path / "x.parquet") as file:
        assert released(PLANE, file) == whole
        assert released(PLANE, Chunks(file, columns=["a", "b"])) == whole
        assert released(PLANE, Chunks(file, columns=["b", "a"])) != whole
    np.save(tmp_path / "x.npy", ROWS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert released(PLANE, mapped) == whole
    assert streaming(PLANE.fixed_plan).refusal is None
    assert type(PLANE.law(mapped)._view).__name__ == "ChunkedView"


def test_chunks_that_are_too_large_for_a_cache_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "NUMBERS", 30)
    whole = released(PLANE, ROWS)
    made = pa.concat_tables(frames())
    for chunk in (
        ROWS,
        made,
        made.to_pandas(),
        polars.DataFrame(ROWS),
        *made.combine_chunks().to_batches(),
    ):
        assert len(list(tallying._pieces(chunk, 30))) == 67
        assert released(PLANE, Chunks([chunk])) == whole


def test_records_that_are_missing_count_as_in_one_piece() -> None:
    odd = ROWS.copy()
    odd[[0, 5, 999], [0, 1, 1]] = np.nan, np.inf, -np.inf
    mixed = [odd[:3].astype(object), odd[3:3], odd[3:].astype(np.float64)]
    mixed[0][1, 0] = "no number"
    odd[1, 0] = np.nan
    assert released(PLANE, Chunks(mixed)) == released(PLANE, odd)
    exact = (
        np.array([[2**53 + 1, 3]]),
        np.array([[0.5, 2.0]], np.float32),
        np.array([[True, False]]),
    )
    assert released(PLANE, Chunks(exact)) == released(PLANE, np.vstack(exact).astype(float))


def test_no_chunk_and_empty_chunks_are_nobody() -> None:
    nobody = released(PLANE, np.zeros((0, 2)))
    for chunks in ([], [np.zeros((0, 2))], [np.zeros(0), np.zeros((0, 2), object)]):
        assert released(PLANE, Chunks(chunks)) == nobody


@pytest.mark.parametrize("large", [2**61 - 1, 2**61, -(2**61), 2**70])
def test_sums_beyond_a_word_are_exact(large: int) -> None:
    kind = object if abs(large) > 2**62 else np.int64
    part = Sums(1, (np.array([large, -1], kind),), 2**63)
    total = part + part + part
    assert total.values[0].tolist() == [3 * large, -3]
    assert (total.rows, total.digest) == (3, 2**63)


def test_several_mechanisms_share_one_pass() -> None:
    passes = []

    def fresh() -> Iterator[Any]:
        passes.append(1)
        return iter([ROWS[:9], ROWS[9:]])

    chunks = Chunks(fresh)
    first = chunks.mapped(lambda rows: rows[:, :1])
    laws = laws_on([(PLANE, chunks), (COUNT, first), (TWICE, first)])
    assert len(passes) == 1
    assert PLANE.release(laws[0], SeededBits(7)) == released(PLANE, ROWS)
    assert COUNT.release(laws[1], SeededBits(7)) == released(COUNT, ROWS[:, 0])
    assert len(passes) == 1
    assert TWICE.release(laws[2], SeededBits(7)) == released(TWICE, ROWS[:, 0])
    assert len(passes) == 2
    with pytest.raises(TypeError, match="law of another mechanism"):
        COUNT.release(laws[0], NoBits())


@pytest.mark.parametrize("multiplier", ["1/2000", "1e14"])
def test_noise_that_is_not_drawn_is_refused_before_a_chunk_is_read(multiplier: str) -> None:
    def unread() -> Iterator[Any]:
        raise AssertionError("a chunk was read")
        yield

    count = NoisyCount(adjacency=COUNT.adjacency, noise_multiplier=multiplier, noise="gaussian")
    for ask in (count.law, lambda chunks: laws_on([(COUNT, chunks), (count, chunks)])):
        with pytest.raises(ValueError, match="drawn for standard deviations"):
            ask(Chunks(unread))


def test_an_iterator_is_refused_for_several_passes_before_it_is_read() -> None:
    def chunks() -> Iterator[Any]:
        raise AssertionError("a record was read")
        yield

    with pytest.raises(
        TypeError, match=r"IterativeMean reads the records up to 2 times.*a function"
    ):
        TWICE.release(chunks(), NoBits())
    used = Chunks(iter([ROWS]))
    assert released(PLANE, used) == released(PLANE, ROWS)
    with pytest.raises(TypeError, match="have been read"):
        PLANE.release(used, NoBits())


ONE_SHOT: dict[str, Callable[[], Iterator[Any]]] = {
    "a generator": lambda: (part for part in [ROWS]),
    "an iterator over a list": lambda: iter([ROWS]),
    "a map": lambda: map(np.asarray, [ROWS]),
    "a reader of record batches": lambda: pa.concat_tables(frames()).to_reader(),
}


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT.keys())
def test_an_iterator_is_read_once_whatever_chunks_are_made_of_it(
    make: Callable[[], Iterator[Any]],
) -> None:
    given = make()
    other = Chunks(given)
    assert released(PLANE, given) == released(PLANE, ROWS)
    for again in (given, Chunks(given), other):
        with pytest.raises(TypeError, match="came from an iterator and have been read"):
            PLANE.release(again, NoBits())
    with pytest.raises(SourceFailed, match="came from an iterator and have been read"):
        PLANE.release(Chunks(lambda: given), NoBits())
    assert released(PLANE, make()) == released(PLANE, ROWS)


def test_a_generator_that_somebody_else_read_is_refused() -> None:
    given = (part for part in [ROWS])
    assert len(list(given)) == 1
    with pytest.raises(TypeError, match="have been read"):
        PLANE.release(given, NoBits())


OVER_ONE: dict[str, Callable[[Iterator[Any]], Iterator[Any]]] = {
    "a map": lambda given: map(np.asarray, given),
    "a filter": lambda given: filter(len, given),
    "a zip": lambda given: (pair[0] for pair in zip(given, itertools.count())),
    "a generator expression": lambda given: (part for part in given),
    "a map of a chain": lambda given: map(np.asarray, itertools.chain(given)),
}


@pytest.mark.parametrize("over", OVER_ONE.values(), ids=OVER_ONE.keys())
@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=ONE_SHOT.keys())
def test_a_fresh_map_over_an_iterator_that_was_read_is_refused(
    make: Callable[[], Iterator[Any]], over: Callable[[Iterator[Any]], Iterator[Any]]
) -> None:
    """It would give nothing, and a release be about no records without a warning."""
    given = make()
    assert released(PLANE, over(given)) == released(PLANE, ROWS)
    for again in (over(given), Chunks(over(given)), given):
        with pytest.raises(TypeError, match="came from an iterator and have been read"):
            PLANE.release(again, NoBits())
    with pytest.raises(SourceFailed, match="came from an iterator and have been read"):
        PLANE.release(Chunks(lambda: over(given)), NoBits())
    one = make()
    plane = IterativeMean(center=(0.0, 0.0), radius=50, adjacency=ADD, noise_multiplier=1, steps=2)
    with pytest.raises(SourceFailed, match="came from an iterator and have been read"):
        plane.release(Chunks(lambda: over(one)), SeededBits(1))
    assert released(plane, Chunks(lambda: over(make()))) == released(plane, ROWS)


def test_maps_over_what_can_be_read_again_are_read_again(tmp_path: Path) -> None:
    parts = [ROWS[:400], ROWS[400:]]
    plane = IterativeMean(center=(0.0, 0.0), radius=50, adjacency=ADD, noise_multiplier=1, steps=2)
    whole = released(plane, ROWS)
    assert released(plane, Chunks(lambda: map(np.asarray, parts))) == whole
    one, two = itertools.tee(part for part in parts)
    assert released(PLANE, map(np.asarray, one)) == released(PLANE, map(np.asarray, two))
    np.savetxt(tmp_path / "x.csv", ROWS, fmt="%.17g")
    with (tmp_path / "x.csv").open() as file:

        def lines() -> Iterator[Any]:
            file.seek(0)
            return (np.array([line.split()], float) for line in file)

        assert released(plane, Chunks(lines)) == whole


class Same:
    """A container that gives one and the same iterator whenever it is asked."""

    def __init__(self) -> None:
        self._one = (part for part in [ROWS[:, 0]])

    def __iter__(self) -> Iterator[Any]:
        return self._one


def test_a_container_that_gives_its_chunks_once_is_not_read_twice() -> None:
    chunks = Chunks(Same())
    assert released(COUNT, chunks) == released(COUNT, ROWS[:, 0])
    with pytest.raises(SourceFailed, match="have been read"):
        COUNT.release(chunks, NoBits())
    with pytest.raises(SourceFailed, match="have been read"):
        TWICE.release(Chunks(Same()), SeededBits(1))


def test_a_list_is_records_and_never_chunks() -> None:
    with pytest.raises(ValueError, match="The data have 1000 columns"):
        ClippedMean(center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1).release(
            [ROWS, ROWS], NoBits()
        )
    two = np.tile(PLANE.domain.replacement, (2, 1))
    assert released(PLANE, [ROWS, ROWS]) == released(PLANE, two)


def test_a_lazy_frame_is_refused_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="A LazyFrame is no source of chunks"):
            Chunks(polars.DataFrame(ROWS).lazy())
        with pytest.raises(SourceFailed, match="A chunk is a LazyFrame"):
            PLANE.release(Chunks([polars.DataFrame(ROWS).lazy()]), NoBits())


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
