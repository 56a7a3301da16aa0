"""Planted faults in stages: coarse ones are seen with few releases, and all stages share one
alpha."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any

import pytest

from dpverify.rates import Curve, Exponent, RateClaim, Row, caught, faults_of, stages
from tests.rates.helpers import claim, point

_CURVE = Curve(function="expected_error", arguments=("parameters",))
_LOST, _DRIFT = faults_of(claim(curve=_CURVE, exponent=Exponent(value=-1, tolerance=0.05)))
ALPHA = 1e-9


@pytest.mark.parametrize("repeats", [50, 99, 100, 399, 400, 600, 2000, 40_000, 10**6])
def test_stages_grow_to_four_times_all_releases_and_share_alpha(repeats: int) -> None:
    schedule = list(stages(repeats, 50))
    sizes = [size for size, _ in schedule]
    assert sizes[-4:] == [repeats, round(math.sqrt(2) * repeats), 2 * repeats, 4 * repeats]
    assert sizes[0] >= 50
    assert all(1.19 * a <= b for a, b in pairwise(sizes))
    assert all(b <= 1.5 * a for a, b in pairwise(sizes[:-1]))
    assert sum(share for _, share in schedule) == pytest.approx(1)
    assert schedule[-4][1] >= 1 / 5


def _asked(made: RateClaim, fault: Any, seen_with: int) -> tuple[str, list[tuple[int, int, float]]]:
    """Return what was caught, and every measured point: far above the curve from so many
    releases on."""
    asked = list[tuple[int, int, float]]()

    def row(index: int, *, repeats: int, alpha: float) -> Row:
        asked.append((index, repeats, alpha))
        high = 3.0 if repeats >= seen_with else 1.0
        at = dataclasses.replace(point(float(made.values[index]), high, 0.01), alpha=alpha)
        return Row(at, predicted=1.0)

    return caught(made, fault, row, repeats=3200, alpha=ALPHA), asked


def test_a_coarse_fault_is_seen_with_the_first_releases() -> None:
    made = claim(curve=_CURVE)
    by, asked = _asked(made, _LOST, 0)
    assert by.startswith("expected_error to 1.1 at")
    assert asked == [(0, 200, ALPHA / 32)]


def test_what_grows_is_looked_for_at_the_last_value() -> None:
    _, asked = _asked(claim(curve=_CURVE), _DRIFT, 0)
    assert [index for index, *_ in asked] == [len(claim(curve=_CURVE).values) - 1]


def test_lost_constants_are_looked_for_where_they_show_most() -> None:
    assert not _LOST.grows
    for variable in ("noise_multiplier", "d"):
        (lost,) = faults_of(claim(curve=_CURVE, variable=variable, values=(1, 2, 4)))
        assert lost.grows
    (lost,) = faults_of(claim(curve=_CURVE, shows_last=True))
    assert lost.grows


def test_a_fine_fault_is_seen_with_all_releases() -> None:
    by, asked = _asked(claim(curve=_CURVE), _LOST, 3200)
    assert by
    early = [200, 281, 398, 564, 799, 1130, 1599, 2262]
    assert [repeats for _, repeats, _ in asked] == [*early, 3200]
    assert sum(alpha for *_, alpha in asked) == pytest.approx(ALPHA * (8 / 32 + 24 / 32 * 0.4))


def test_a_finer_fault_is_seen_with_four_times_all_releases() -> None:
    by, asked = _asked(claim(curve=_CURVE), _LOST, 12_800)
    assert by
    assert asked[-1][:2] == (0, 12_800)


def test_what_is_right_is_measured_at_every_value_in_the_end_and_not_caught() -> None:
    made = claim(curve=_CURVE)
    by, asked = _asked(made, _LOST, 10**9)
    assert by == ""
    assert [index for index, repeats, _ in asked if repeats == 12_800] == [*range(len(made.values))]
    assert {index for index, repeats, _ in asked if repeats < 12_800} == {0}


def test_too_few_releases_for_an_interval_are_no_end_of_it() -> None:
    made = claim(curve=_CURVE)

    def row(index: int, *, repeats: int, alpha: float) -> Row:
        if repeats < 12_800:
            raise ValueError("all errors are equal")
        return Row(point(float(made.values[index]), 3.0, 0.01), predicted=1.0)

    assert caught(made, _LOST, row, repeats=3200, alpha=ALPHA)

    def broken(index: int, *, repeats: int, alpha: float) -> Row:
        raise ValueError("an error is negative")

    with pytest.raises(ValueError, match="negative"):
        caught(made, _LOST, broken, repeats=3200, alpha=ALPHA)
