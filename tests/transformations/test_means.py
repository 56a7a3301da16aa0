"""The split of a budget by the mean of records that agree: spent, shifted, built and promised."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import RescaledMean
from dpverify.grid import UNIT
from dpverify.grid.nearness import Nearness
from dpverify.grid.vector_queries import unit_sensitivity
from dpverify.plans import Law, Unless
from dpverify.plans.plan import derive, stages_of
from dpverify.privacy import Adjacency, ApproxDP, Domain
from dpverify.privacy.guarantees import ApproximateGaussianDP, Lifted
from dpverify.randomness import SeededBits
from dpverify.transformations.means import (
    BasicCoreMean,
    CoreMean,
    GaussianCoreMean,
    WeightedCoreMean,
)
from dpverify.transformations.means.gaussian import _rounded_up
from dpverify.transformations.means.shared import least, least_shift, spread_for

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR = Nearness(1 << 20, 0, (1.0, 1.0))
DOMAIN = Domain(columns=2)
TAIL = Fraction(1, 10**6)
KINDS: tuple[type[CoreMean], ...] = (WeightedCoreMean, GaussianCoreMean, BasicCoreMean)
EVERY = [(kind, adjacency) for kind in KINDS for adjacency in Adjacency]
EACH = pytest.mark.parametrize(("kind", "adjacency"), EVERY)


def core(kind: Any, adjacency: Adjacency, multiplier: Any = 1, tail: Fraction = TAIL) -> Any:
    return kind(adjacency, NEAR, Fraction(multiplier), 2000, tail)


# --- what is spent --------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("multiplier", ["1/9", "1", "17/3", "40"])
def test_the_plan_spends_its_budget_and_no_more(adjacency: Adjacency, multiplier: str) -> None:
    """mu^2 = 1 / multiplier^2, nearly all of it; one tail for each rare event."""
    most = 1 / Fraction(multiplier) ** 2
    for kind, tails in ((WeightedCoreMean, 1), (GaussianCoreMean, 3 if adjacency is ADD else 2)):
        guarantee = derive(
            core(kind, adjacency, multiplier).plan, adjacency, DOMAIN
        ).conclusion.guarantee
        assert isinstance(guarantee, ApproximateGaussianDP)
        assert guarantee.delta == tails * TAIL
        assert guarantee.tv == 0
        assert most * Fraction(999, 1000) < guarantee.mu_squared <= most


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_basic_plan_is_lifted_and_pays_for_its_event(adjacency: Adjacency) -> None:
    guarantee = derive(core(BasicCoreMean, adjacency).plan, adjacency, DOMAIN).conclusion.guarantee
    assert isinstance(guarantee, Lifted)
    assert guarantee.base.delta_floor == TAIL
    assert guarantee.moved == (2 if adjacency is ADD else 3)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 15, 16, 17, 99, 1000])
@pytest.mark.parametrize("mu_squared", ["1", "1/3", "1e-6", "1e-12", "40", "123456"])
def test_a_spread_is_enough_and_about_the_least(mu_squared: str, width: int) -> None:
    most = Fraction(mu_squared)
    spread = spread_for(most, width)
    assert Fraction(unit_sensitivity(spread, width), UNIT**2) <= most
    less = spread * (1 - Fraction(1, 10**5))
    assert Fraction(unit_sensitivity(less, width), UNIT**2) > most


def test_a_budget_that_rounding_takes_is_refused() -> None:
    for little in (Fraction(0), Fraction(1, 2**90), Fraction(32, 2**40) ** 2):
        with pytest.raises(ValueError, match="leaves nothing for 1000 columns"):
            spread_for(little, 1000)


# --- shifts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [Fraction(1, 20), TAIL, Fraction(1, 10**12)])
@EACH
def test_shifts_are_the_least_that_the_tail_allows(
    kind: Any, adjacency: Adjacency, tail: Fraction
) -> None:
    made = core(kind, adjacency, 3, tail)
    if kind is WeightedCoreMean:  # P(noise >= t + 1), t what is left of the shift
        moved = {ADD: 5, REPLACE: 6 + 2}[adjacency]
        shifts = [(made.noise, made.shift - moved + 1)]
    elif kind is BasicCoreMean:
        shifts = [(made.noise, made.shift)]
    else:
        shifts = [(made._count_noise, made._shift)]
        if adjacency is ADD:
            shifts.append((made._rows_noise, made._rows_shift))
    for noise, shift in shifts:
        if kind is BasicCoreMean:
            tails = [_laplace_tail(float(noise.scale), t) for t in (shift, shift - 1)]
        else:
            tails = [stats.norm.sf((t - 0.5) / float(noise.scale)) for t in (shift, shift - 1)]
        assert tails[0] <= tail < tails[1]
        assert kind is WeightedCoreMean or least_shift(noise, tail) == shift


def _laplace_tail(scale: float, t: int) -> float:
    q = math.exp(-1 / scale)
    return q**t / (1 + q)


def test_least_is_where_a_condition_begins() -> None:
    for start in (1, 2, 3, 7, 8, 9, 1000):
        assert least(lambda t, start=start: t >= start) == start  # type: ignore[misc]


# --- what is built for each noisy number of rows --------------------------------------------------


def test_rows_are_rounded_up_to_few_numbers() -> None:
    for rows in (*range(1, 5000), 2**20 - 1, 2**20, 2**20 + 1, 10**30):
        rounded = _rounded_up(rows)
        assert rows <= rounded <= rows * Fraction(257, 256)
        assert rounded % (1 << max(0, rows.bit_length() - 9)) == 0
        assert _rounded_up(rounded) == rounded


def keys(made: GaussianCoreMean) -> Iterator[int]:
    """Yield all from the least on for a while, then some."""
    key = made._least_rows
    for _ in range(45):
        yield key
        key = _rounded_up(key + 1)
    while key < 10**8:
        yield key
        key = _rounded_up(key + key // 3)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("multiplier", "tail"), [("1/4", Fraction(1, 10**7)), ("1", Fraction(1, 1000)), ("6", TAIL)]
)
def test_whatever_is_built_has_what_was_declared(
    adjacency: Adjacency, multiplier: str, tail: Fraction
) -> None:
    """A number of rows for which the build were refused would end a release with an error."""
    made = core(GaussianCoreMean, adjacency, multiplier, tail)
    first = made._filtered(made._least_rows).derivation(adjacency, DOMAIN).conclusion.guarantee
    for key in keys(made):
        built = made._filtered(key)
        assert built.filter.most_rows == key
        assert built.derivation(adjacency, DOMAIN).conclusion.guarantee == first


@pytest.mark.parametrize("released", [-50, 0, 1, 17, 100, 511, 512, 513, 100_000])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_assumed_number_of_rows_is_above_the_released_one(
    adjacency: Adjacency, released: int
) -> None:
    """Exceed it by the shift, and by the one record more that a neighbor may have."""
    made = core(GaussianCoreMean, adjacency)
    key = made._key(released)
    assert key >= max(1, released + 1 + made._rows_shift)
    assert made._keys(np.array([released, 10**25], object)[:1]).tolist() == [key]


# --- what is promised to users --------------------------------------------------------------------


def drawn(made: Any, n: int, seed: int, size: int) -> Any:
    """Return all records at one point."""
    law = Law(made.plan, np.full((n, 2), 7.0), made.adjacency, DOMAIN)
    return law.sample(SeededBits(23, seed), size)


@EACH
def test_so_many_records_rarely_abstain(kind: Any, adjacency: Adjacency) -> None:
    """False alarm below 1e-8: a binomial of at most beta beyond its quantile of that probability.

    Planted: with half as many records over what the shifts take it does so too often.
    """
    made, beta = core(kind, adjacency, 1), Fraction(1, 20)
    n = made.minimum_n(beta)
    limit = stats.binom.isf(1e-8, 150, float(beta))
    stopped = np.count_nonzero(drawn(made, n, 1, 150).stopped_by >= 0)
    assert stopped <= limit
    fewer = np.count_nonzero(drawn(made, n // 2, 2, 150).stopped_by >= 0)
    assert fewer > limit
    assert made.minimum_n(Fraction(1, 10**9)) > n or (kind, adjacency) == (
        GaussianCoreMean,
        REPLACE,
    )


@EACH
def test_the_expected_noise_is_about_the_one_that_is_added(kind: Any, adjacency: Adjacency) -> None:
    """Within 15% on average: a shift or a share forgotten would change it by more. The released
    number spreads by less than 10% of itself here, so the mean over 100 draws is off by 5% with
    probability below 1e-6; but for that nothing is left to chance."""
    made = core(kind, adjacency, 1)
    n = 2 * made.minimum_n(Fraction(1, 1000)) + 1000
    batch = drawn(made, n, 3, 100)
    assert (batch.stopped_by < 0).all()
    noises = [float(made.noise_of(batch[i]) / NEAR.radius) for i in range(100)]
    assert made.expected_noise(n) == pytest.approx(np.mean(noises), rel=0.15)
    assert made.expected_noise(1) == math.inf


def test_every_plan_names_the_events_that_it_pays_for() -> None:
    for kind, adjacency in EVERY:
        plan = core(kind, adjacency).plan
        outside = [element for element in plan if isinstance(element, Unless)]
        assert bool(outside) is (kind is not BasicCoreMean)
        public = kind is GaussianCoreMean and adjacency is REPLACE  # so is the number of rows
        assert all(element.probability == (0 if public else TAIL) for element in outside)
        assert [stage.name for stage in stages_of(plan)][-1] == "mean"


@pytest.mark.parametrize("filter_", ["weights", "gaussian", "basic"])
def test_a_tail_beyond_delta_is_refused_before_a_search(filter_: Any) -> None:
    shared: dict[str, Any] = {"matrix": (1.0,), "radius": 1.0, "n_max": 2000, "filter": filter_}
    budget = ApproxDP(1, "1e-6")
    for tail in ("1e-6", "1e-3"):
        with pytest.raises(ValueError, match="leaves nothing of delta in"):
            RescaledMean.for_budget(budget, adjacency=ADD, tail=tail, **shared)
    for tail in ("1e-400", "0", "0.2"):
        with pytest.raises(ValueError, match=r"tail = .* is outside|leaves nothing"):
            RescaledMean.for_budget(budget, adjacency=ADD, tail=tail, **shared)
