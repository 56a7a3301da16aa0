"""Releases from chunks: the same bits give the same release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpverify import Chunks, NoisyCount, SeededBits
from dpverify.grid.chunked import Sums
from dpverify.plans import tallying
from dpverify.plans.mechanism import laws_on
from dpverify.plans.streaming import streaming
from tests.large_data import configurations
from tests.plans.streamed import COUNT, PLANE, ROWS, TWICE, NoBits, frames, released


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
