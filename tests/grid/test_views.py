"""Views: what queries see of records, computed once; and parts of a batch, as later queries see
it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify.grid import NOTHING, Count, Handle, Released, Transcripts, View
from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import KeptCount
from dpverify.grid.splits import ByInterval
from dpverify.grid.transcripts import joined, transcript
from dpverify.grid.views import Retained
from dpverify.randomness.bits import IntArray

SECRET = np.array([[12345.0], [12346.0], [-7.0]])
NEAR = Nearness(5, 0, (1.0,))
SIZE = 6


def batch() -> Transcripts:
    """Six draws of a plan of four stages, some of which stopped."""
    values: dict[str, IntArray] = {
        "a": np.arange(SIZE)[:, np.newaxis],
        "p/x": np.arange(2 * SIZE).reshape(SIZE, 2),
        "p/q/y": 10 + np.arange(SIZE)[:, np.newaxis],
        "b": np.full((SIZE, 1), 5),
    }
    reached, stopped = np.array([4, 1, 2, 4, 3, 0]), np.array([-1, 0, 1, -1, 1, 0])
    return Transcripts(values, reached, stopped, ("first", "second"))


# --- views ----------------------------------------------------------------------------------------


def test_what_is_asked_for_twice_is_computed_once() -> None:
    """Planted: a key that two questions share, and a cache that forgets."""
    view, calls = View(SECRET), list[str]()

    def compute(name: str) -> str:
        calls.append(name)
        return name

    for _ in range(3):
        assert view.once("a", lambda: compute("a")) == "a"
        assert view.once(("a",), lambda: compute("b")) == "b"
    assert calls == ["a", "b"]
    assert view.images(NEAR) is view.images(Nearness(5, 0, (1.0,)))
    assert view.images(NEAR) is not view.images(Nearness(5, 1, (1.0,)))
    assert View(SECRET).once("a", lambda: "new") == "new"  # of other records


def test_a_view_prints_nothing_of_its_records() -> None:
    view = View(SECRET)
    view.once("x", lambda: SECRET)
    kept = Retained(view, np.ones((2, 3), np.bool_))
    shown = {repr(view), str(view), repr(kept), repr(view.parts(ByInterval((0.0,))))}
    assert not any("1234" in text or "7" in text for text in shown)


def test_blocks_are_views_of_their_own() -> None:
    """Planted: images of the whole in the place of a block's."""
    view = View(SECRET)
    low, high = view.parts(ByInterval((0.0,)))
    assert [len(view), len(low), len(high)] == [3, 1, 2]
    assert high.records.tolist() == [[12345.0], [12346.0]]
    assert [len(one.images(NEAR).degrees) for one in (view, low, high)] == [3, 1, 2]
    assert high.images(NEAR).degrees.tolist() == [2, 2]
    assert [Count().evaluate(one).tolist() for one in (view, low, high)] == [[3], [1], [2]]


def test_behind_a_filter_every_draw_sees_other_records() -> None:
    view = View(SECRET)
    keep = np.array([[True, True, False], [False, False, False], [True, True, True]])
    kept = Retained(view, keep)
    assert not view.is_filtered
    assert kept.is_filtered
    assert view.retained.tolist() == [[True, True, True]]
    assert kept.retained.tolist() == keep.tolist()
    assert kept.images(NEAR) is view.images(
        NEAR
    )  # of all records: the filter's coins are elsewhere
    query = KeptCount(NEAR, 1)
    assert query.evaluate(view).tolist() == [2]
    assert query.evaluate(kept).tolist() == [[1], [-1], [2]]
    assert query.evaluate(kept.of(np.array([2, 0]))).tolist() == [[2], [1]]


# --- batches --------------------------------------------------------------------------------------


def test_one_draw_is_a_batch_of_one() -> None:
    whole = batch()
    for i in range(SIZE):
        one = whole[i]
        assert len(one) == 1
        names = list(whole.values)[: int(whole.reached[i])]
        assert one.released == {n: tuple(int(v) for v in whole[n][i]) for n in names}
        assert one.stopped == [None, "first", "second", None, "second", "first"][i]
    assert whole[3].numbers("p/x") == (6, 7)
    assert whole[3].number("b") == 5
    assert {*map(type, whole[3].numbers("p/x"))} == {int}
    with pytest.raises(ValueError, match="a batch of 6 draws"):
        _ = whole.released
    with pytest.raises(ValueError, match="unpack"):
        whole[3].number("p/x")


def test_the_inside_of_a_part_is_what_the_part_released() -> None:
    """Stages by their own names, how far each draw came, and why it stopped. Planted: off by a
    stage."""
    whole = batch()
    part = whole.within("p")
    assert list(part.values) == ["x", "q/y"]
    assert part.reached.tolist() == [2, 0, 1, 2, 2, 0]
    assert part[2].released == {"x": (4, 5)}
    assert part[2].stopped == "second"
    deeper = part.within("q")
    assert list(deeper.values) == ["y"]
    assert deeper.reached.tolist() == [1, 0, 0, 1, 1, 0]
    assert whole.within("none").values == {}
    assert [whole.within("none")[i].released for i in range(SIZE)] == [{}] * SIZE


def test_a_query_is_shown_what_it_reads_by_its_own_names() -> None:
    """Planted: another stage, another part, other draws."""
    whole = batch()
    some = np.array([4, 0])
    seen = whole.seen(some, "p/", ("x", "later"))
    assert list(seen.values) == ["x"]
    assert seen["x"].tolist() == [[8, 9], [0, 1]]
    assert seen.reached.tolist() == [3, 4]
    with pytest.raises(KeyError):
        _ = seen["q/y"]
    every = whole.seen(np.arange(SIZE), "p/")
    assert list(every.values) == ["x", "q/y"]
    assert whole.seen(np.arange(SIZE), "", ()).values == {}


def test_a_written_transcript_is_one_draw() -> None:
    made = transcript({"count": (3,), "wide": (2**70, -1), "none": ()}, "few")
    assert made.released == {"count": (3,), "wide": (2**70, -1), "none": ()}
    assert made.stopped == "few"
    assert transcript({"count": [1]}).stopped is None
    assert len(NOTHING) == 1
    assert NOTHING.released == {}


def test_numbers_side_by_side_keep_their_order_and_read_what_both_read() -> None:
    """Planted: columns of the second first, or readings lost."""

    def of(name: str) -> Released[Any]:
        return Released((name,), lambda before: before[name])

    both = joined(of("p/x"), of("a"), of("p/x"))
    assert both.reads == ("p/x", "a")
    assert both(batch())[3].tolist() == [6, 7, 3, 6, 7]
    one = of("a")
    assert joined(one) is one


def test_a_handle_is_a_name_that_knows_how_it_is_seen_from_outside() -> None:
    assert Handle("sum").under("mean").under("round") == "round/mean/sum"
    assert batch()[Handle("x").under("p")].shape == (SIZE, 2)
