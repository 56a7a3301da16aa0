"""``robust_mean`` with votes for the farthest column: which columns are cut, and what that does
to the mean."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify import RobustMeanEstimate as Estimate
from dpverify.estimation.column_cuts import OPEN, boxes, half_width
from dpverify.grid import Released, Transcripts, View
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.nearness import Nearness
from dpverify.randomness import SeededBits
from spec.theory import farthest_columns as spec
from spec.theory.regions import Region
from tests.mechanisms.helpers import estimates
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_N, _D = 5000, 12
_LITTLE = Fraction(1, 10**12)
Floats = NDArray[np.float64]


def made(**own: Any) -> RobustMean:
    """Little noise: the third of the stages has a count's deviation of 3."""
    given: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": 1,
        "deviations": (1.0,) * _D,
        "radius": 8,
        "record_radius": 6,
        "n_max": _N,
        "tail": "1e-7",
        "full": "9/10",
        "directions": 0,
        "votes": True,
        "shares": (Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)),
    }
    return RobustMean(**{**given, **own})


def _records(away: float, columns: int, seed: int = 1) -> Floats:
    """Return normal records about 5; the first tenth is moved, an equal part of it along each of
    the first columns."""
    records: Floats = np.random.default_rng(seed).normal(5, 1, (_N, _D))
    for j, part in enumerate(np.array_split(np.arange(_N // 10), columns)):
        records[part, j] += away
    return records


@pytest.mark.parametrize("own", [{}, {"directions": 2, "shares": (Fraction(1, 5),) * 5}])
def test_outliers_along_three_columns_are_cut_off(own: dict[str, Any]) -> None:
    """Cut them off: without votes and directions 500 outliers at 4 move the mean by 0.2. Fixed
    seeds, 10 releases."""
    data = _records(4, 3)
    inliers = data[_N // 10 :].mean(axis=0)
    releases = estimates(made(**own), data, 2, 10)
    if not own:  # with directions two of the columns would be seen
        without = made(votes=False, shares=(Fraction(2, 5), Fraction(3, 5)))
        plain = [np.linalg.norm(one.value - inliers) for one in estimates(without, data, 3, 10)]
        assert min(plain) > 0.15
    assert max(float(np.linalg.norm(one.value - inliers)) for one in releases) < 0.09
    assert all(one.slabs >= 3 and _N * 0.6 < one.count < _N * 0.92 for one in releases)


@pytest.mark.parametrize(("away", "columns"), [(0, 1), (2, 12), (1e9, 1), (-1e300, 1)])
def test_nothing_is_cut_in_clean_data_and_of_what_is_far_away(away: float, columns: int) -> None:
    """Nor where outliers are along all columns alike. Fixed seeds, 20 releases."""
    releases = estimates(made(), _records(away, columns), 4, 20)
    assert all(one.slabs == 0 and one.certificate is None for one in releases)


def test_columns_that_are_all_unlike_what_was_stated_are_not_outliers() -> None:
    """Five columns have half the deviation that is stated, so that the others have all the
    votes."""
    data = np.random.default_rng(5).normal(5, 1, (_N, _D)) * np.where(np.arange(_D) < 7, 0.5, 1)
    assert all(one.slabs == 0 for one in estimates(made(), data, 6, 20))


def test_what_a_cut_column_adds_is_in_the_reported_deviation() -> None:
    one, clean = (estimates(made(), _records(away, 1), 7, 1)[0] for away in (4.0, 0.0))
    assert isinstance(one, Estimate)
    assert isinstance(clean, Estimate)
    assert (one.slabs, clean.slabs) == (1, 0)
    added = np.asarray(one.cut) / np.asarray(clean.cut)
    assert added[0] > 1.5 * added[1:].max()


def test_boxes_are_the_spec_s() -> None:
    """Compare for random counts, and at the ends of what is read."""
    rng, cut = np.random.default_rng(8), 0
    for d, each in ((1, 10), (2, 300), (9, 40), (12, 10**6), (3, 2**40)):
        votes = rng.poisson(each, (40, d)).astype(np.int64)
        votes[20:, 0] += rng.integers(0, 10 * int(each**0.5), 20)
        votes[-1] = rng.integers(-(2**50), 2**50, d)
        for noise, gamma in ((Fraction(1, 16), Fraction(1, 7)), (Fraction(99, 8), Fraction(0))):
            limits = boxes(votes, noise, gamma, 5)
            own = [spec.box(row.tolist(), noise, gamma, 5) for row in votes]
            assert own == list(map(tuple, limits.tolist()))
            cut += int((limits < OPEN).sum())
    assert 10 < cut < 60
    for exponent in (-70, -58, -20, 0, 1, 2):
        assert half_width(exponent) == spec.half_width(Fraction(2) ** exponent)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_votes_are_the_spec_s(d: int) -> None:
    """Compare in cells of 1/4, about two points, with ties, equal records, and records that are
    clamped."""
    rng = np.random.default_rng(9)
    near = Nearness(40, -2, (1.0,) * d)
    data = np.vstack(
        [rng.integers(-12, 12, (300, d)) / 4, np.full((2, d), 1e308), np.zeros((9, d))]
    )
    points, radii = rng.integers(-9, 9, (12, d)), rng.integers(1, 30, 12)
    for rows in (slice(0, 2), slice(0, 12)):  # few, and many
        own = points[rows], radii[rows]
        place: Released[Any] = Released((), partial(lambda own, before: own, own))
        size = len(points[rows])
        before = Transcripts({}, np.zeros(size, np.intp), np.full(size, -1))
        votes = FarthestColumns(near, place).evaluate(View(data), before)
        images = Counter(tuple(row) for row in View(data).images(near).images.tolist())
        for row, point, radius in zip(votes, points[rows], radii[rows], strict=True):
            region = Region(tuple(point.tolist()), int(radius))
            assert spec.votes(images, region) == tuple(row.tolist())


def test_votes_are_asked_for_where_they_would_show_outliers() -> None:
    budget = ApproxDP(1, "1e-6")

    def chosen(n: int, d: int, **own: Any) -> RobustMean:
        ones = (1.0,) * d
        return RobustMean.for_budget(budget, adjacency=REPLACE, deviations=ones, n_max=n, **own)

    fifty = chosen(10_000, 50)
    assert fifty.votes
    assert fifty.shares == tuple(map(Fraction, ("1/20", "1/4", "3/25", "1/25", "27/50")))
    assert fifty.claim.guarantee == budget
    assert (chosen(5000, 50).votes, chosen(5000, 50).directions) == (True, 0)
    for n, d in ((1000, 50), (10_000, 7), (2000, 10)):
        assert not chosen(n, d).votes
    assert not chosen(10_000, 50, directions=0).votes
    assert chosen(10_000, 50, directions=0, votes=True).votes
    assert not chosen(10_000, 50, votes=False).votes
    # what votes cost clean data: 4% of mu^2, so at most 4% of the error
    assert fifty.expected_error(10_000) < 1.04 * chosen(10_000, 50, votes=False).expected_error(
        10_000
    )


@pytest.mark.parametrize(
    ("own", "kind", "message"),
    [
        ({"votes": 1}, TypeError, "votes = 1; give True or False"),
        ({"shares": (Fraction(1, 2),) * 2}, ValueError, "give 3 positive numbers"),
        (
            {
                "noise_multiplier": 1e9,
                "shares": (Fraction(1, 2), _LITTLE, Fraction(1, 2) - _LITTLE),
            },
            ValueError,
            "more noise on each count than 2\\^44",
        ),
    ],
)
def test_refusals(own: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        made(**own)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_same_plan_for_either_adjacency_and_data_of_one_record(adjacency: Adjacency) -> None:
    """Too few records are refused or abstain; nothing is drawn for what is refused."""
    mechanism = made(adjacency=adjacency, full="9/10" if adjacency is REPLACE else None)
    assert [getattr(s, "name", "") for s in mechanism.fixed_plan][-2:] == ["votes", "sum and count"]
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match="records"):
            mechanism.release(np.zeros((1, _D)), NoBits())
    else:
        assert not isinstance(mechanism.release(np.zeros((1, _D)), SeededBits(1)), Estimate)
