"""Templates and proposals: true neighbors inside the box, and the attacks that they promise."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, QueryMoves, added, replaced
from dpverify.audit.neighbors.proposals import change_of, mutated, random_pair
from dpverify.audit.neighbors.templates import templates
from dpverify.privacy.adjacency import canonical_rows

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
SPACES: list[tuple[Neighboring, Box]] = [
    (ADD, Box()),
    (ADD, Box(low=-1, high=5, rows=(0, 9))),
    (ADD, Box(low=(0, -3), high=(1, 8), columns=2, nonfinite="replace")),
    (ADD, Box(low=10, high=20, rows=(5, 30))),
    (REPLACE, Box(low=0, high=4, integers=True, rows=(1, 1))),
    (REPLACE, Box(columns=3)),
    (REPLACE, Box(low=-1, rows=(12, 12))),
    (QueryMoves(), Box(low=-10, high=10, columns=5)),
    (QueryMoves(at_once=1), Box(low=0, high=10, columns=5)),
    (QueryMoves("0.1"), Box(low=(0.1, -7), high=(0.2, 0.7), columns=2)),
    (QueryMoves(2), Box(low=0, high=1, columns=3)),
    (QueryMoves(), Box(low=-3, high=3, integers=True)),
]


def _inside(pair: NeighboringPair, adjacency: Neighboring, box: Box) -> bool:
    sides = pair.left, pair.right
    if isinstance(adjacency, QueryMoves):
        return all(box.contains(side) for side in sides)
    fewest, most = box.sizes
    return all(
        fewest <= len(side) <= most and all(box.contains(row) for row in side) for side in sides
    )


@pytest.mark.parametrize(("adjacency", "box"), SPACES)
def test_templates_are_different_neighbors_in_the_box(adjacency: Neighboring, box: Box) -> None:
    pairs = list(templates(adjacency, box, thresholds=[0.5], minimum_n=10))
    assert len(pairs) >= 4
    assert all(pair.adjacency == adjacency for pair in pairs)
    assert all(_inside(pair, adjacency, box) for pair in pairs)
    texts = {repr((np.array(p.left).tolist(), np.array(p.right).tolist())) for p in pairs}
    assert len(texts) == len(pairs)


@pytest.mark.parametrize(("adjacency", "box"), SPACES)
def test_random_and_mutated_pairs_are_neighbors_in_the_box(
    adjacency: Neighboring, box: Box
) -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for i in range(40):
        pair = random_pair(f"random {i}", adjacency, box, rng)
        assert _inside(pair, adjacency, box)
        child = mutated("child", pair, box, rng)
        assert child is None or _inside(child, adjacency, box)
        seen.add(repr((np.array(pair.left).tolist(), np.array(pair.right).tolist())))
    assert len(seen) > 4


def _names(adjacency: Neighboring, box: Box, **more: Any) -> dict[str, NeighboringPair]:
    return {pair.name: pair for pair in templates(adjacency, box, **more)}


def test_datasets_of_all_kinds() -> None:
    by_name = _names(ADD, Box(low=-1, high=5, nonfinite="replace", rows=(0, 100)), minimum_n=40)
    sizes = {(len(pair.left), len(pair.right)) for pair in by_name.values()}
    assert {(1, 0), (2, 1), (39, 38), (40, 39), (41, 40), (42, 41), (100, 99)} <= sizes
    outlier = by_name["a far outlier at the high end"]
    assert (outlier.left[0], set(outlier.right)) == (5.0, {0.0})
    rows = [list(pair.left) for pair in by_name.values()]
    assert any(math.isnan(row[0]) for row in rows)
    assert any(math.copysign(1, row[0]) < 0 and row[0] == 0 for row in rows)
    assert any(row[0] == 5e-324 for row in rows)
    shift = by_name["everything after the front shifts by a place"]
    assert all(a != b for a, b in zip(shift.left, shift.right, strict=False))
    majority = by_name["the high end gets the majority"]
    assert list(majority.left).count(5.0) == list(majority.left).count(-1.0) + 1


def test_thresholds_are_crossed_by_the_smallest_step() -> None:
    by_name = _names(REPLACE, Box(low=-8, high=8), thresholds=[2.5])
    pair = by_name["one reaches threshold 2.5 in column 0"]
    assert (pair.left[0], pair.right[0]) == (2.5, math.nextafter(2.5, 0))


def test_extremes_stay_out_of_a_box_that_excludes_them() -> None:
    everywhere, bounded = _names(ADD, Box()), _names(ADD, Box(low=-1, high=1))
    assert "a record of 1e+308" in everywhere
    assert "a record of 1e+308" not in bounded
    assert "a record of nan" not in everywhere


def test_query_vectors_of_all_kinds() -> None:
    pairs = list(templates(QueryMoves(), Box(low=-10, high=10, columns=5)))
    moves = {tuple(np.sign(np.subtract(p.right, p.left)).astype(int)) for p in pairs}
    wanted = {(1,) * 5, (-1,) * 5, (1, -1, -1, -1, -1), (1, 0, 0, 0, 0), (1, 1, 1, -1, -1)}
    assert wanted <= moves
    starts = [tuple(pair.left) for pair in pairs]
    assert (0.0,) * 5 in starts
    assert (9.0, -10.0, -10.0, -10.0, -10.0) in starts
    gaps = {round(b - a, 9) for start in starts for a, b in pairwise(start)}
    assert {0.0, 1.0, 2.0, 20.0} <= gaps


def test_only_so_many_answers_move_at_once() -> None:
    for pair in templates(QueryMoves(at_once=1), Box(low=0, high=9, columns=4)):
        assert sum(a != b for a, b in zip(pair.left, pair.right, strict=True)) == 1


@pytest.mark.parametrize(
    "pair", [added("a", [1.0, 2.0], 3.0, at=1), replaced("r", [1.0, 2.0], 3.0, at=1)]
)
def test_the_change_of_a_pair_makes_it_again(pair: NeighboringPair) -> None:
    box = Box(low=0, high=9)
    change = change_of(pair, box)
    assert change is not None
    assert isinstance(pair.adjacency, Adjacency)
    again = change.pair(pair.adjacency, box)
    assert again is not None
    assert canonical_rows(again.left) == canonical_rows(pair.left)
    assert canonical_rows(again.right) == canonical_rows(pair.right)


def test_what_is_no_change() -> None:
    box = Box(low=0, high=9)
    same = NeighboringPair(name="same", left=[1.0], right=[1.0], adjacency=Adjacency.REPLACE)
    assert change_of(same, box) is None
    assert change_of(replaced("texts", ["a"], "b"), box) is None
    assert change_of(replaced("wide", [(1.0, 2.0)], (1.0, 3.0)), box) is None
    assert mutated("m", same, box, np.random.default_rng(0)) is None


class _Anyone:
    def why_not_neighbors(self, left: Any, right: Any) -> str | None:
        return None


BAD_BOXES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"low": 2, "high": 1}, ValueError, "low = 2 is above high = 1"),
    ({"low": (0, 5), "high": (1, 1), "columns": 2}, ValueError, "above high"),
    ({"low": "1"}, TypeError, "no number"),
    ({"low": 10**400}, ValueError, "not finite as a float64"),
    ({"rows": 20}, TypeError, "the fewest and the most"),
    ({"low": (0, 5), "high": 9}, ValueError, "2 numbers for 1 columns"),
    ({"low": math.nan}, ValueError, "low=None for no bound"),
    ({"high": math.inf}, ValueError, "high=None for no bound"),
    ({"high": 0.5, "integers": True}, ValueError, "bounded by integers"),
    ({"columns": 0}, ValueError, "at least one"),
    ({"columns": 1.5}, TypeError, "give an integer"),
    ({"rows": (5, 2)}, ValueError, "fewest and the most"),
    ({"rows": (0, 0)}, ValueError, "fewest and the most"),
    ({"nonfinite": "ignore"}, ValueError, "'refuse' or 'replace'"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_BOXES)
def test_bad_boxes(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Box(**arguments)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="A box of query answers needs bounds"):
        next(templates(QueryMoves(), Box(low=0, columns=3)))
    with pytest.raises(TypeError, match="Give pairs of your own"):
        next(templates(_Anyone(), Box()))
    with pytest.raises(ValueError, match="an integer answer moves by at least 1"):
        next(templates(QueryMoves("0.5"), Box(low=0, high=9, integers=True)))
    with pytest.raises(ValueError, match="allow more rows"):
        random_pair("r", ADD, Box(rows=(1, 1)), np.random.default_rng(0))
