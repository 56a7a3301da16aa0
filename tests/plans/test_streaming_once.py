"""Iterators are read once: what was read already is refused before a record is read."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest

from dpverify import Chunks, ClippedMean, IterativeMean, SeededBits, SourceFailed
from tests.plans.streamed import ADD, COUNT, PLANE, ROWS, TWICE, NoBits, frames, released


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
