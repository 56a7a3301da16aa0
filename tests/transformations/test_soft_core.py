"""Soft core: its integers against all pairs in fractions, and attacked on neighbors; no statistics.

That they move by no more than is claimed, for every dataset, is for the spec to show; here the
shipped integers are held against the claim on crafted and random neighbors, and what would break
it is planted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpverify.grid import UNIT, View
from dpverify.grid.image_view import Images
from dpverify.grid.nearness import Nearness
from dpverify.plans import Transcripts
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Domain
from dpverify.transformations import SoftAgreement, SoftMean
from dpverify.transformations.means import SoftCoreMean
from dpverify.transformations.soft_core import agreement_of, checked_full, moves, reach
from spec import soft_core as spec
from spec.theory import soft_weights
from tests.transformations.test_degree_weights import random_records

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR, DOMAIN = Nearness(1000, 0, (1.0,)), Domain(columns=1)
SHARES = tuple(map(Fraction, ("1", "9/10", "5/6", "3/4")))
Records = list[int]


def seen(records: Records, about: int = 0) -> View:
    return View(np.array(records, np.float64).reshape(-1, 1) + about)


def mapped(records: Records, about: int = 0) -> Images:
    return seen(records, about).images(NEAR)


def stated(records: Records, full: Fraction) -> tuple[int, Fraction]:
    """Return the agreement and the mean (0 without weights) of the spec."""
    agreement, weights = spec.law(records, lambda x, y: abs(x - y) <= 1000, full)
    total = sum(w * x for w, x in zip(weights, records, strict=True))
    return agreement, Fraction(total, sum(weights)) if sum(weights) else Fraction(0)


def pairs() -> Iterator[tuple[Records, Records]]:
    rng = random.Random(18)
    crafted = [
        [0] * n + [1000] * k + [2000] * j for n in (0, 30, 80) for k in (1, 40) for j in (1, 9)
    ]
    for data in [*crafted, *(random_records(rng) for _ in range(150))]:
        for new in (rng.choice(data) if data else 0, 2000, -1000, 10**6):
            if data:
                yield data, [*data[1:], new]


@pytest.mark.parametrize("full", SHARES)
def test_agreement_and_mean_are_the_spec_s(full: Fraction) -> None:
    rng = random.Random(5)
    for _ in range(100):
        records = random_records(rng)
        here, (agreement, mean) = mapped(records), stated(records, full)
        assert agreement_of(here, full) == agreement
        query = SoftAgreement(NEAR, full, 7)
        assert query.evaluate(seen(records)).tolist() == [agreement - 7]
        sums, total = here.soft_sum(full)
        assert Fraction(sums[0], max(1, total)) == mean


@cache
def view_of(records: tuple[int, ...]) -> View:
    """Return one view for all tests: what the records' distances tell is computed once."""
    return seen([*records])


def value_after(view: View, query: SoftMean, released: int) -> list[int]:
    column = {"agreement": np.array([[released]])}
    batch = Transcripts(column, np.ones(1, np.intp), np.full(1, -1, np.intp), ())
    answer: list[int] = query.evaluate(view, batch)[0].tolist()
    return answer


def largest_shares(full: Fraction, released_above: int = 0) -> tuple[Fraction, Fraction]:
    """Return, as shares of what is claimed, how far the agreement moves, and (squared) the mean
    in its unit."""
    query = SoftMean(NEAR, Fraction(3), REPLACE, full)
    most = query.sensitivity(REPLACE, DOMAIN).conclusion.value
    agreement, mean = Fraction(0), Fraction(0)
    for pair in pairs():
        views = [view_of(tuple(records)) for records in pair]
        sides = [agreement_of(view.images(NEAR), full) for view in views]
        agreement = max(agreement, Fraction(abs(sides[0] - sides[1]), moves(full)))
        if min(sides) >= 1:
            a, b = (value_after(v, query, min(sides) + released_above) for v in views)
            mean = max(mean, Fraction((a[0] - b[0]) ** 2) / most)
    return agreement, mean


@pytest.mark.parametrize("full", SHARES)
def test_neighbors_move_both_by_no_more_than_is_claimed(full: Fraction) -> None:
    agreement, mean = largest_shares(full)
    assert Fraction(1, 2) <= agreement <= 1
    assert Fraction(1, 10) <= mean <= 1


def test_without_the_premise_on_the_released_agreement_the_mean_moves_further() -> None:
    """Planted: N in place of what is left of it, here 60 above the smaller agreement."""
    assert largest_shares(Fraction(9, 10), released_above=60)[1] > 1


def test_a_float_mean_is_refuted_far_from_zero_and_the_exact_one_is_not() -> None:
    """Planted: the weighted mean in float64. About 1e14 one replaced record moves it by more
    than the claim allows; the exact mean moves as it does about 0, to the last bit."""
    full, near = Fraction(9, 10), Nearness(8, 0, (1.0,))
    base = np.random.default_rng(3).integers(-3, 4, 3000).astype(np.float64)
    most = float(reach(full)) * 8 / 3000

    def sides(about: float, i: int) -> tuple[Any, Any]:
        one, other = base + about, base + about
        one[i], other[i] = about - 4, about + 4
        return one, other

    for i in range(3):
        exact = []
        for about in (0.0, float(1 << 39)):
            soft_sums = (Images(one.reshape(-1, 1), near).soft_sum(full) for one in sides(about, i))
            left, right = (Fraction(sums[0], total) for sums, total in soft_sums)
            exact.append(abs(right - left))
        assert exact[0] == exact[1] <= most
    largest = {0.0: 0.0, 1e14: 0.0}
    for about in largest:
        for n in range(2600, 3001):  # where a sum is rounded up on one side and down on the other
            a, b = (float(np.mean(one[:n])) for one in sides(about, 0))
            largest[about] = max(largest[about], abs(a - b))
    assert largest[0.0] <= float(reach(full)) * 8 / 2600 < largest[1e14]


def test_what_is_claimed_is_the_theorem_s() -> None:
    for full in SHARES:
        assert moves(full) == soft_weights.moves(full)
        assert reach(full) == soft_weights.reach(full, Fraction(1))
        shown = SoftAgreement(NEAR, full, 0).sensitivity(REPLACE, DOMAIN)
        assert shown.conclusion.value == moves(full)
        mean = SoftMean(NEAR, Fraction(3), REPLACE, full).sensitivity(REPLACE, DOMAIN)
        exact = (UNIT / Fraction(3) + 1) ** 2
        assert exact <= mean.conclusion.value < exact + 1
        names = {leaf.obligation for one in (shown, mean) for leaf in one.lemmas}
        assert names == {"soft_core.py:obligation_agreement", "soft_core.py:obligation_reach"}


def test_nothing_is_claimed_under_add_remove_nor_for_other_shares() -> None:
    for query in (SoftAgreement(NEAR, SHARES[1], 0), SoftMean(NEAR, Fraction(3), ADD, SHARES[1])):
        with pytest.raises(ValueError, match="bounds for replace only"):
            query.sensitivity(ADD, DOMAIN)
    for full in ("1/2", "0", "101/100", "1001/2000"):
        with pytest.raises(ValueError, match="give a rational above 1/2"):
            checked_full(Fraction(full))


def test_the_plan_spends_its_budget_and_pays_for_its_event() -> None:
    tail = Fraction(1, 10**6)
    for multiplier, full in ((Fraction(1, 9), SHARES[1]), (Fraction(17, 3), SHARES[3])):
        core = SoftCoreMean(REPLACE, NEAR, multiplier, 2000, tail, full)
        guarantee: Any = derive(core.plan, REPLACE, DOMAIN).conclusion.guarantee
        most = 1 / multiplier**2
        assert guarantee.delta == tail
        assert most * Fraction(999, 1000) < guarantee.mu_squared <= most
        noise, left = core.noise, core.shift - moves(full)
        assert noise.falls_short(left + 1, tail)
        assert not noise.falls_short(left, tail)


@pytest.mark.parametrize("n", [10**6, 3 * 10**6])
def test_millions_of_records_do_not_overflow(n: int) -> None:
    here: Any = mapped([])
    here.__dict__["degrees"] = np.full(n, n - 1, np.int64)
    here.__dict__["images"] = np.full((n, 1), (1 << 40) - 1, np.int64)
    here.__dict__["images"][::2] -= 1000
    sums, total = here.soft_sum(Fraction(99, 100))
    assert total == n * 98 * n
    assert sums == [98 * n * (n * ((1 << 40) - 1) - 1000 * ((n + 1) // 2))]
    assert agreement_of(here, Fraction(99, 100)) == n


def test_the_order_of_records_does_not_show() -> None:
    rng = random.Random(6)
    for _ in range(30):
        records = random_records(rng)
        turned = rng.sample(records, len(records))
        for full in SHARES:
            assert mapped(records).soft_sum(full) == mapped(turned).soft_sum(full)
