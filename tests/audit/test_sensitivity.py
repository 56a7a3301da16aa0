"""The attack on declared sensitivities: wrong queries beside right ones, exactness, refusals.

Nothing here is statistical: a violation is a proof for the values as returned, so a right query is
never flagged, whatever the seed. That wrong ones are found is checked for fixed seeds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from dpverify.audit.sensitivity import Excess, OutputNorm
from dpverify.privacy import Adjacency, Domain
from tests.audit.sensitivity_subjects import (
    ADD,
    CALLS,
    ONE,
    REPLACE,
    THREE,
    TWO,
    UNIT,
    Array,
    alternating,
    attack,
    blocked_float32,
    by_position,
    clip_about_the_mean,
    clip_about_zero,
    clip_then_narrow,
    clip_then_stretch,
    doubled_beyond,
    float64_sum,
    fraction_sum,
    grid_sum,
    int32_sum,
    int64_sum,
    large_exact_sum,
    large_float64_sum,
    moments,
    naive_variance,
    not_alternating,
    once_beyond,
    running_float32,
    shifted_variance,
    small_sum,
    stretch_then_clip,
    uint8_sum,
    whole_sum,
)

L1, L2 = OutputNorm.L1, OutputNorm.L2
INSIDE = {"low": 0, "high": 2**30}
WIDE = {"low": 0, "high": 2.0**62}
NEAR = {"values": [41.375]}

WRONG_AND_RIGHT: list[tuple[Any, Any, Adjacency, Domain, Any, Any, dict[str, Any]]] = [
    (running_float32, grid_sum, ADD, ONE, L1, 1, {}),
    (running_float32, grid_sum, REPLACE, ONE, L1, 2, {}),
    (blocked_float32, fraction_sum, ADD, ONE, L1, 1, {"rows": (0, 300)}),
    (float64_sum, grid_sum, ADD, ONE, L1, 1, {}),
    (float64_sum, grid_sum, REPLACE, ONE, L1, 1, {"low": 0, "high": 1}),
    (large_float64_sum, large_exact_sum, ADD, ONE, L1, 2**53, {"rows": (0, 300)}),
    (clip_then_stretch, stretch_then_clip, ADD, TWO, L2, UNIT, {}),
    (clip_about_the_mean, clip_about_zero, ADD, ONE, L1, UNIT, {}),
    (clip_about_the_mean, clip_about_zero, REPLACE, ONE, L1, 2 * UNIT, {}),
    (int32_sum, whole_sum, ADD, ONE, L1, 2**30, INSIDE),
    (int64_sum, whole_sum, ADD, ONE, L1, 2**62, WIDE),
    (uint8_sum, small_sum, ADD, ONE, L1, 100, {}),
    (alternating, not_alternating, ADD, ONE, L1, 1, {}),
    (by_position, not_alternating, REPLACE, ONE, L1, 2, {}),
    (naive_variance, shifted_variance, REPLACE, ONE, L1, Fraction(1, 4), {}),
    (doubled_beyond, once_beyond, ADD, ONE, L1, 1, NEAR),
]
NAMES = [f"{wrong.__name__}, {adjacency}" for wrong, _, adjacency, *_ in WRONG_AND_RIGHT]


@pytest.mark.parametrize("case", WRONG_AND_RIGHT, ids=NAMES)
def test_wrong_queries_are_found_and_right_ones_are_not(case: Any) -> None:
    wrong, right, adjacency, domain, norm, bound, more = case
    result = attack(wrong, adjacency, domain, norm=norm, bound=bound, **more)
    assert result.violated
    assert result.found_after is not None
    assert result.found_after <= result.calls <= CALLS
    assert "VIOLATED" in str(result)
    silent = attack(right, adjacency, domain, norm=norm, bound=bound, **more)
    assert not silent.violated
    assert silent.simplest is None
    assert silent.found_after is None
    assert 0 < silent.largest <= bound


def test_the_forgotten_factor_of_replace() -> None:
    for query in (grid_sum, not_alternating):
        assert not attack(query, ADD, ONE, norm=L1, bound=1).violated
        assert not attack(query, REPLACE, ONE, norm=L1, bound=2).violated
        result = attack(query, REPLACE, ONE, norm=L1, bound=1)
        assert result.violated
        assert result.largest == 2


def test_a_running_float32_sum_is_off_by_a_whole_record() -> None:
    result = attack(running_float32, ADD, ONE, norm=L1, bound=1, calls=2000)
    assert result.largest >= 1.9  # and not by one rounding alone
    assert result.simplest is not None
    assert result.simplest.kind is result.excess_of is Excess.SUBSTANCE
    assert (
        result.simplest.excess >= result.worst.excess / 2
    )  # two records show a rounding, which is another thing
    assert result.simplest.exceeds


def test_a_violation_is_shown_by_few_records_and_round_numbers() -> None:
    def late(x: Array) -> int:
        return 2 * int(len(x) >= 41 and bool((x > 0.37).any()))

    result = attack(late, REPLACE, ONE, norm=L1, bound=1, low=0, high=1, calls=1200)
    assert result.simplest is not None
    assert len(result.simplest.left) == 41
    numbers = set(result.simplest.left.ravel().tolist()) | set(
        result.simplest.right.ravel().tolist()
    )
    assert numbers == {0.0, 1.0}
    assert result.simplest.distance == 2


def test_climbing_finds_the_one_direction_that_is_stretched() -> None:
    result = attack(clip_then_narrow, ADD, Domain(4), norm=L2, bound=1, calls=2500)
    assert result.violated
    assert 1.03 < result.largest <= 1.05 * (1 + 1e-12)  # and no more than the truth


def test_moments_have_an_operator_norm_and_not_a_frobenius_norm() -> None:
    square = UNIT**2
    frobenius = attack(moments, REPLACE, THREE, norm=OutputNorm.FROBENIUS, bound=square, calls=600)
    assert frobenius.violated
    assert frobenius.largest == pytest.approx(math.sqrt(2) * square, rel=1e-3)
    operator = attack(moments, REPLACE, THREE, norm=OutputNorm.OPERATOR, bound=square, calls=600)
    assert not operator.violated
    assert operator.largest == square
    less = attack(moments, REPLACE, THREE, norm=OutputNorm.OPERATOR, bound=square - 1, calls=400)
    assert less.violated


def test_searched_datasets_are_neighbors_in_the_box_with_the_right_numbers_of_rows() -> None:
    seen: set[int] = set()

    def watching(x: Array) -> float:
        assert x.shape[1:] == (2,)
        assert np.isfinite(x).all()
        assert (x >= [-3, 0]).all()
        assert (x <= [2, 0.5]).all()
        seen.add(len(x))
        return 0.0

    for adjacency, rows, allowed in (
        (ADD, (0, 40), range(41)),
        (REPLACE, (0, 40), range(1, 41)),
        (REPLACE, (7, 9), range(7, 10)),
        (REPLACE, (100, 100), range(100, 101)),
    ):
        seen.clear()
        result = attack(
            watching,
            adjacency,
            TWO,
            norm=L1,
            bound=0,
            low=(-3, 0),
            high=(2, 0.5),
            rows=rows,
            calls=500,
        )
        assert not result.violated, str(result)
        assert seen <= set(allowed)
        assert {min(allowed), max(allowed)} <= seen
        assert adjacency.are_neighbors(result.left, result.right)


def test_a_mean_of_a_public_number_of_records() -> None:
    def mean(x: Array) -> Fraction:
        return Fraction(int(np.rint(np.clip(x, 0, 1) * UNIT).sum()), UNIT * len(x))

    tight: dict[str, Any] = {"norm": L1, "rows": (100, 100)}
    assert not attack(mean, REPLACE, ONE, bound=Fraction(1, 100), **tight).violated
    result = attack(mean, REPLACE, ONE, bound=Fraction(99, 10_000), **tight)
    assert result.violated
    assert result.simplest is not None
    assert len(result.simplest.left) == 100


def test_a_box_of_one_point_and_a_box_of_one_number_a_column() -> None:
    for edge in (0.0, -3.5, (1.0, 1e300)):
        domain = Domain(2 if isinstance(edge, tuple) else 1)
        result = attack(len, ADD, domain, norm=L1, bound="0.5", low=edge, high=edge)
        assert result.violated
        assert result.largest == 1
        none = attack(np.sum, REPLACE, domain, norm=L1, bound=0, low=edge, high=edge)
        assert none.largest == 0


def test_a_search_repeats_from_its_seed() -> None:
    one, two, other = (attack(float64_sum, ADD, ONE, norm=L1, bound=1, seed=s) for s in (5, 5, 6))
    assert one.to_dict() == two.to_dict()
    assert one.to_dict() != other.to_dict()
    fresh = attack(float64_sum, ADD, ONE, norm=L1, bound=1, seed=None, calls=200)
    again = attack(float64_sum, ADD, ONE, norm=L1, bound=1, seed=fresh.seed, calls=200)
    assert fresh.to_dict() == again.to_dict()


def test_the_number_of_calls_is_kept() -> None:
    counter = count()

    def counting(x: Array) -> float:
        next(counter)
        return float(float64_sum(x))

    for calls in (100, 777):
        start = next(counter)
        result = attack(counting, ADD, ONE, norm=L1, bound=1, calls=calls)
        assert next(counter) - start - 1 == result.calls <= calls
