"""``sparse_vector``: on every dataset, the right queries are reported, within the error bound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import (
    Adjacency,
    ApproxDP,
    NextQuery,
    PureDP,
    SeededBits,
    SparseEstimate,
    SparseVector,
)
from dpverify.grid import Answers, ClampedSum, Count
from dpverify.grid.transcripts import transcript
from dpverify.privacy import BoundedRange, DiscreteLaplaceShift, GaussianDP
from spec import sparse_vector as spec
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    RELEASES,
    estimates,
    fails_at_most,
    largest_loss_found,
)
from tests.mechanisms.test_private_quantile import BAD_DATA
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
QUERIES = tuple(Count(within=(float(i), float(i + 1))) for i in range(6))


def sparse(**parameters: Any) -> SparseVector:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "queries": QUERIES}
    return SparseVector(**base | {"threshold": 2} | parameters)


def exact(**parameters: Any) -> SparseVector:
    """P(some noise != 0) < exp(-200): the first counts that reach the threshold."""
    return sparse(noise_multiplier="1/2000", **parameters)


def released(mechanism: SparseVector, data: Any, seed: int = 1) -> SparseEstimate:
    estimate = mechanism.release(data, SeededBits(seed))
    assert isinstance(estimate, SparseEstimate)
    return estimate


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("reports", [1, 3, 6])
@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_a_release(data: list[float], reports: int, adjacency: Adjacency) -> None:
    estimate = released(sparse(adjacency=adjacency, reports=reports), data)
    assert list(estimate.above) == sorted(set(estimate.above))
    assert len(estimate.above) <= reports
    assert estimate.answered == (estimate.above[-1] + 1 if len(estimate.above) == reports else 6)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_without_noise_it_finds_the_first_ones(adjacency: Adjacency) -> None:
    data = [1.5] * 2 + [3.5] * 4 + [4.5] + [5.5] * 2
    cases = {1: ((1,), 2), 2: ((1, 3), 4), 3: ((1, 3, 5), 6), 4: ((1, 3, 5), 6)}
    for reports, (above, answered) in cases.items():
        estimate = released(exact(adjacency=adjacency, reports=reports), data)
        assert estimate == SparseEstimate(above, answered)
    assert released(exact(threshold=10**30), data) == SparseEstimate((), 6)
    assert released(exact(threshold=-(10**30), reports=6), data).above == tuple(range(6))


def halving(answers: tuple[bool, ...]) -> Count:
    """Return a half of what is left: the lower one, and the upper one after "below"."""
    low, high = 0.0, 8.0
    for above in answers:
        middle = (low + high) / 2
        low, high = (low, middle) if above else (middle, high)
    return Count(within=(low, (low + high) / 2))


@pytest.mark.parametrize("place", [0.5, 2.5, 3.5, 7.5])
def test_queries_may_follow_from_the_answers(place: float) -> None:
    """A search for the crowd by three halvings."""
    mechanism = exact(queries=NextQuery(halving, 3), reports=3, threshold=5)
    estimate = released(mechanism, [place] * 9)
    bits = [i not in estimate.above for i in range(3)]
    assert int("".join("01"[b] for b in bits), 2) == int(place)


def test_a_fixed_list_is_a_choice_that_ignores_the_answers() -> None:
    data = [0.5, 1.5, 1.5, 3.5, 3.5, 3.5]
    chosen = NextQuery(lambda answers: QUERIES[len(answers)], 6)
    for seed in range(20):
        fixed, following = (sparse(queries=q, reports=3) for q in (QUERIES, chosen))
        assert released(fixed, data, seed) == released(following, data, seed)


def test_an_estimate_reads_the_transcript() -> None:
    mechanism = sparse(reports=3)
    made = mechanism.estimate(transcript({"report 1": (1,), "report 2": (4,), "report 3": (6,)}))
    assert made == SparseEstimate((1, 4), 6)
    made = mechanism.estimate(transcript({"report 1": (6,), "report 2": (6,), "report 3": (6,)}))
    assert made == SparseEstimate((), 6)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("reports", [1, 2])
def test_answers_are_right_within_the_error_bound(adjacency: Adjacency, reports: int) -> None:
    """Count over 2000 releases; false alarm below 1e-6. Noise of three times the scale is
    noticed."""
    beta = Fraction(1, 20)
    mechanism = sparse(adjacency=adjacency, reports=reports, threshold=100)
    far = spec.error_bound(mechanism.parameters, beta)
    low, high = 100 - far, 100 + far
    data = np.repeat(np.arange(6) + 0.5, [low, low, high, low, low, high])
    right = (2, 5)[:reports]
    for changed, fits in (
        (mechanism, True),
        (replace(mechanism, noise_multiplier=Fraction(3)), False),
    ):
        wrong = [float(estimate.above != right) for estimate in estimates(changed, data, 3)]
        assert len(wrong) == RELEASES
        assert fails_at_most(wrong, 0.5, float(beta)) is fits


@pytest.mark.parametrize("n", [0, 1, 2, 10**5])
def test_all_sizes_of_data(n: int) -> None:
    """|noise| < 200 with probability above 1 - 1e-20."""
    estimate = released(sparse(threshold=n // 8 + 300, reports=2), np.arange(n) % 4)
    assert estimate.above == ((0, 1) if n == 10**5 else ())


def test_many_queries() -> None:
    queries = tuple(Count(within=(float(i), float(i) + 0.5)) for i in range(2000))
    mechanism = sparse(queries=queries, threshold=200, reports=2)
    estimate = released(mechanism, [700.0] * 400 + [1999.25] * 400)
    assert estimate == SparseEstimate((700, 1999), 2000)


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"queries": ()}, ValueError, "There is no query"),
    ({"queries": Count()}, TypeError, "give a tuple of queries"),
    ({"queries": 3}, TypeError, "give a tuple of queries"),
    ({"queries": ("count",)}, TypeError, "'count' is not a query"),
    ({"queries": (Answers(2),), "adjacency": REPLACE}, ValueError, "with one number"),
    ({"queries": NextQuery(lambda answers: None, 2)}, TypeError, "None is not a query"),  # type: ignore[arg-type, return-value]
    ({"threshold": 1.5}, TypeError, "give an integer"),
    ({"threshold": None}, TypeError, "threshold"),
    ({"reports": 0}, ValueError, "give a number from 1 to 6"),
    ({"reports": 7}, ValueError, "reports = 7 of 6 queries"),
    ({"reports": "two"}, TypeError, "reports"),
    ({"by_range": 1}, TypeError, "write True or False"),
    ({"by_range": True, "adjacency": REPLACE}, ValueError, "leave out by_range"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
    ({"adjacency": None}, TypeError, "write Adjacency"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        sparse(**change)


def test_a_bad_choice_of_queries_is_refused() -> None:
    bad: Any = "count"
    with pytest.raises(TypeError, match="give a function"):
        NextQuery(bad, 3)
    with pytest.raises(ValueError, match="at least one query"):
        NextQuery(halving, 0)


@pytest.mark.parametrize(("data", "kind", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sparse().release(data, NoBits())


def test_queries_that_move_further_get_more_noise() -> None:
    wide = ClampedSum(-3, 2, 0, 0)
    for adjacency, moved in ((ADD, 3), (REPLACE, 5)):
        (stage,) = sparse(adjacency=adjacency, queries=(Count(), wide)).fixed_plan
        assert not isinstance(stage, tuple)
        made = sparse(adjacency=adjacency, queries=(Count(), wide)).claim.guarantee
        assert made == DiscreteLaplaceShift(2 * moved, 2 * moved)


def test_a_later_query_that_moves_further_is_refused_when_it_comes() -> None:
    def after(answers: tuple[bool, ...]) -> Any:
        if answers == (False, True):
            return ClampedSum(-3, 2, 0, 0)
        return Count(within=(0.0, 1.0 + len(answers)))

    mechanism = exact(queries=NextQuery(after, 3), reports=2, adjacency=REPLACE, threshold=1)
    assert mechanism.composed.largest_loss == 2 * 2000
    with pytest.raises(ValueError, match="declare the largest loss"):
        mechanism.release([1.5] * 3, SeededBits(1))


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_budget_is_met_and_hardly_more(adjacency: Adjacency) -> None:
    """Under add-remove Gaussian DP is met by the range; the test of many counts looks at that."""
    budgets = (PureDP(1), ApproxDP(1, "1e-6"), GaussianDP(1))
    for budget in budgets if adjacency is REPLACE else budgets[:2]:
        made = SparseVector.for_budget(
            budget, adjacency=adjacency, queries=QUERIES, threshold=2, reports=4
        )
        assert made.claim.guarantee == budget
        assert made.composed.implies(budget)
        less = made.noise_multiplier * Fraction(9999, 10**4)
        assert not replace(made, budget=None, noise_multiplier=less).composed.implies(budget)


def test_claims_are_those_of_the_rule() -> None:
    assert sparse(noise_multiplier=3).composed == DiscreteLaplaceShift(2, 6)
    assert sparse(noise_multiplier=3, by_range=True).composed == BoundedRange("1/2")
    assert sparse(noise_multiplier=3, adjacency=REPLACE).composed.largest_loss == Fraction(1, 3)
    assert sparse(reports=4).composed.largest_loss == 4


def test_rounds_compose_better_than_their_epsilons_add_up() -> None:
    """20 reports at epsilon = 1, delta = 1e-2 where the sum would allow a multiplier of 20."""
    queries = tuple(Count(within=(float(i), float(i + 1))) for i in range(20))
    made = SparseVector.for_budget(
        ApproxDP(1, "1e-2"), adjacency=REPLACE, queries=queries, threshold=2, reports=20
    )
    assert 7 < made.noise_multiplier < 9


def test_many_counts_under_add_remove_are_claimed_by_their_range() -> None:
    """The range needs less noise, with which the other way misses the budget; and it is not
    looked for where it does not."""
    queries = tuple(Count(within=(float(i), float(i + 1))) for i in range(4))
    given: dict[str, Any] = {"adjacency": ADD, "queries": queries, "threshold": 2, "reports": 4}
    budget = GaussianDP("1/4")
    made = SparseVector.for_budget(budget, **given)
    assert made.by_range
    assert made.claim.guarantee == budget
    less = made.noise_multiplier * Fraction(9999, 10**4)
    assert not replace(made, budget=None, noise_multiplier=less).composed.implies(budget)
    assert not replace(made, by_range=False, budget=None).composed.implies(budget)
    assert not SparseVector.for_budget(PureDP(1), **given).by_range


RECORDS = st.sampled_from([*EDGE_RECORDS, 0.5, 1.5, 2.5, 5.5])


@pytest.mark.parametrize(("adjacency", "reports"), [(REPLACE, 1), (ADD, 2)])
def test_no_neighbors_lose_more_than_claimed(adjacency: Adjacency, reports: int) -> None:
    mechanism = sparse(adjacency=adjacency, reports=reports, noise_multiplier=Fraction(1, 2))
    loss = largest_loss_found(mechanism, RECORDS)
    assert loss <= 2 * reports * (1 + 1e-9)
    assert loss > 0.9  # of small datasets, and events that are seen


def test_nothing_depends_on_the_floating_point_environment() -> None:
    expected = released(sparse(reports=3), EDGE_RECORDS * 3, 6)
    with np.errstate(all="raise"):
        assert released(sparse(reports=3), EDGE_RECORDS * 3, 6) == expected
