"""Releases from collections of Dask: the sums of workers, noise once, and workers that die or
raise."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from dpverify import Adjacency, Chunks, ClippedMean, IterativeMean, SeededBits, SourceFailed
from dpverify.plans import Mechanism
from dpverify.plans.tallying import Tally
from tests.suite.engine_units import local_cluster

ADD = Adjacency.ADD_REMOVE
ROWS = np.random.default_rng(3).normal(1.0, 1.0, (1000, 2))
PLANE = ClippedMean(
    center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1, nonfinite="replace"
)
TWICE = IterativeMean(center=(0.0, 0.0), radius=50, adjacency=ADD, noise_multiplier=1, steps=2)
SECRET = "the record 4.125 of somebody"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Yield a client of two workers, processes of their own."""
    with (
        local_cluster() as address,
        Client(address, set_as_default=False, name="dpverify-tests") as made,
    ):
        made.wait_for_workers(2, timeout=60)
        yield made


def frame() -> Any:
    return dask.dataframe.from_pandas(pd.DataFrame(ROWS, columns=["a", "b"]), npartitions=5)


def parts(*frames: Any, fails: Any = None) -> Any:
    """Return a collection whose partitions are not looked at before they are computed."""
    meta = pd.DataFrame({"a": [0.0], "b": [0.0]}).iloc[:0]
    delayed = [dask.delayed(one) for one in frames]
    if fails is not None:
        delayed.append(dask.delayed(fails)())
    return dask.dataframe.from_delayed(delayed, meta=meta, verify_meta=False)


def good(start: int = 0) -> Any:
    return pd.DataFrame(ROWS[start : start + 10], columns=["a", "b"])


def raises() -> Any:
    raise ValueError(SECRET)


def dies() -> Any:
    os._exit(1)


def released(mechanism: Mechanism[Any], data: Any) -> Any:
    return mechanism.release(data, SeededBits(7))


COLLECTIONS = {
    "an array": lambda: dask.array.from_array(ROWS, chunks=(300, 2)),
    "an array in blocks of columns": lambda: dask.array.from_array(ROWS, chunks=(300, 1)),
    "a data frame": frame,
    "columns of a data frame": lambda: Chunks(
        frame().assign(c=0.5)[["b", "c", "a"]], columns=["a", "b"]
    ),
    "many partitions": lambda: Chunks(frame().repartition(npartitions=40)),
    "no records": lambda: dask.array.from_array(ROWS[:0], chunks=(300, 2)),
}


@pytest.mark.parametrize("made", COLLECTIONS.values(), ids=COLLECTIONS.keys())
def test_a_collection_gives_what_one_array_gives(made: Any) -> None:
    data = made()
    expected = ROWS[:0] if made is COLLECTIONS["no records"] else ROWS
    with dask.config.set(scheduler="threads"):
        assert released(PLANE, data) == released(PLANE, expected)


def test_workers_give_what_one_array_gives_by_one_pass_or_two(client: Client) -> None:
    with client.as_current():
        assert released(PLANE, frame()) == released(PLANE, ROWS)
        assert released(TWICE, dask.array.from_array(ROWS, chunks=(100, 2))) == released(
            TWICE, ROWS
        )


def test_only_what_was_added_up_comes_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []
    compute = dask.compute

    def watched(*asked: Any, **options: Any) -> Any:
        got.append(compute(*asked, **options))
        return got[-1]

    monkeypatch.setattr(dask, "compute", watched)
    with client.as_current():
        released(PLANE, frame())
    ((total,),) = got
    assert isinstance(total, Tally)
    assert sum(value.size for sums in total.sums for value in sums.values) == 3


def test_what_has_no_blocks_is_refused() -> None:
    with pytest.raises(TypeError, match="A Delayed of Dask has no blocks of records"):
        Chunks(dask.delayed(good)())


FAILING = {
    "a partition that raises": (lambda: parts(good(), fails=raises), "could not be read"),
    "a worker that dies": (lambda: parts(good(), fails=dies), "could not be read"),
    "a partition of another schema": (
        lambda: parts(good(), good().rename(columns={"b": "c"})),
        "other names",
    ),
    "a partition with a column more": (
        lambda: parts(good(), good().assign(c=1.0)),
        "3 columns; this mechanism",
    ),
}


@pytest.mark.parametrize(("made", "why"), FAILING.values(), ids=FAILING.keys())
def test_what_goes_wrong_on_a_worker_is_typed_and_shows_nothing(
    client: Client, made: Any, why: str
) -> None:
    bits = SeededBits(7)
    with client.as_current(), pytest.raises(SourceFailed, match=why) as caught:
        PLANE.release(made(), bits)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert bits.words(3).tolist() == SeededBits(7).words(3).tolist()
    client.wait_for_workers(1, timeout=60)
    with client.as_current():  # and the next release is right
        assert released(PLANE, parts(good(), good(10))) == released(PLANE, ROWS[:20])
