"""Balls about released points: computed once for all queries of a batch, and the same as anew."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, RobustMean, SeededBits
from dpverify.grid import region_queries
from dpverify.grid.region_queries import in_balls
from dpverify.grid.slice_sums import SliceSum
from dpverify.grid.transcripts import Released
from dpverify.grid.views import View
from dpverify.plans import Transcripts

_N = 3000
_BALLS = "_balls"


def mechanism() -> RobustMean:
    """Build a mechanism with moments, inner moments, a signed count and two rounds in slices."""
    shares = tuple(map(Fraction, ("0.01", "0.004", "0.004", "0.4", "0.582")))
    given: dict[str, Any] = {"inner": 2, "rounds": 2, "bins": 6, "gamma": Fraction(1, 20)}
    return RobustMean.for_budget(
        ApproxDP(20, "1e-6"),
        adjacency=Adjacency.REPLACE,
        deviations=(1.0, 1.0),
        radius=4,
        record_radius=3,
        n_max=_N,
        full=Fraction(3, 4),
        directions=1,
        drawn=Fraction(3, 4),
        shares=shares,
        **given,
    )


def records() -> Any:
    """Return records at five places, so that balls of many draws are one block of numbers."""
    crowd = [(0.5, 0.0), (0.0, 0.5), (-0.5, 0.0), (0.0, -0.5)] * (_N // 4)
    return np.array([*[(2.9, 0.0)] * (_N // 20), *crowd[_N // 20 :]])


def test_what_is_computed_once_for_a_batch_is_what_is_computed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch has two balls: that of the moments and the signed count, and that of the rounds."""
    made, seen, balls = mechanism(), dict[bool, Any](), region_queries._balls
    for shared in (True, False):
        counted = list[int]()

        def counting(*given: Any, counted: list[int] = counted) -> Any:
            counted.append(1)
            return balls(*given)

        monkeypatch.setattr(region_queries, _BALLS, counting)
        if not shared:
            monkeypatch.setattr(region_queries, "_FEW", 10**6)
        law, other = made.law(records()), made.law(records()[::-1] / 2)
        batch = law.sample(SeededBits(5), 300)
        scores = [one.log_likelihood(batch).tolist() for one in (law, other)]
        values = {name: column.tolist() for name, column in batch.values.items()}
        seen[shared] = values, scores, len(counted)
    assert seen[True][:2] == seen[False][:2]
    assert seen[True][2] == 2 * 2
    assert seen[False][2] >= 2 * 5
    assert np.any(np.array(seen[True][0]["round 2"]))


def test_regions_of_other_bins_or_of_another_part_are_not_taken_for_each_other() -> None:
    nearness, size = mechanism()._nearness(), 20
    ends = np.zeros(size, np.intp), np.full(size, -1, np.intp), ()
    axes = np.array([[[4096, 0]]]), np.array([[[0, 4096]]])
    place: Any = Released((), lambda _: (np.zeros((size, 2), int), np.full(size, nearness.radius)))
    along: Any = Released(("m",), lambda read: np.where(read["m"][:, :, np.newaxis] > 0, *axes))
    slabs: Any = Released((), lambda _: (np.zeros((size, 1), int), np.full((size, 1), 4096)))
    across: Any = Released((), lambda _: (np.tile([0, 4096], (size, 1)), np.zeros((size, 1), int)))
    lengths: Any = Released((), lambda _: np.full(size, nearness.radius))

    def query(bins: int) -> SliceSum:
        return SliceSum(
            nearness, Fraction(1), Adjacency.REPLACE, place,
            bins=bins, along=along, slabs=slabs, across=across, lengths=lengths,
        )  # fmt: skip

    ones, view = np.ones((size, 1), np.int64), View(np.random.default_rng(0).normal(size=(200, 2)))
    answers = []
    batches: list[dict[Any, Any] | None] = [{}, None]
    for known in batches:
        batch = Transcripts({"a/m": ones, "b/m": -ones}, *ends, known)
        asked = [(4, "a/"), (64, "a/"), (64, "b/")]
        parts = [
            query(bins).evaluate(view, batch.seen(np.arange(size), part)) for bins, part in asked
        ]
        answers.append([part.tolist() for part in parts])
    assert answers[0] == answers[1]
    assert len({str(part) for part in answers[0]}) == 3


def test_what_queries_share_is_read_only() -> None:
    nearness = mechanism()._nearness()
    images = View(records()).images(nearness)
    points, radii = np.zeros((20, 2), np.int64), np.full(20, nearness.radius)
    batch = Transcripts({}, np.zeros(20, np.intp), np.full(20, -1, np.intp), (), {})
    ((rows, moved, often),) = in_balls(images, points, radii, batch)
    assert rows.start == 0
    for array in (moved, often):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert in_balls(images, points, radii, batch) is in_balls(images, points, radii, batch)
    assert in_balls(images, points + 1, radii, batch) is not in_balls(images, points, radii, batch)
