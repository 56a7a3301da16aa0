"""A stated spread that is wrong: the ladder of radii of ``rescaled_mean`` and ``refined_mean``."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    RefinedMean,
    RescaledMean,
    SeededBits,
)
from dpverify.estimation.scale_ladder import chosen_rungs
from dpverify.suite.refinement import RefinementFailed, compare_facts
from spec import refined_mean as refined_spec
from spec import rescaled_mean as rescaled_spec
from spec.theory import scale_ladder as spec

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
KINDS: tuple[Any, ...] = (RescaledMean, RefinedMean)
BUDGET = ApproxDP(1, "1e-6")
N, D = 3700, 100
VARIANCES = 1 / np.arange(1.0, D + 1) ** 2


def made(kind: Any, stated: float, adjacency: Adjacency = ADD, **own: Any) -> Any:
    """stated: times the true deviations."""
    given = {"covariance": (VARIANCES * stated**2).tolist(), "n_max": N, **own}
    return kind.for_budget(BUDGET, adjacency=adjacency, **given)


def errors(mechanism: Any, runs: int, turn: Any = None) -> list[float]:
    """Distances from the mean; infinite where it abstained."""
    distances = []
    for run in range(runs):
        records = np.random.default_rng(run).normal(3, np.sqrt(VARIANCES), (N, D))
        mean = np.full(D, 3.0)
        if turn is not None:
            records, mean = records @ turn, mean @ turn
        result = mechanism.release(records, SeededBits(run))
        miss = isinstance(result, Abstained)
        distances.append(np.inf if miss else float(np.linalg.norm(result.value - mean)))
    return distances


@pytest.mark.parametrize("kind", KINDS)
def test_a_spread_ten_times_off_costs_accuracy_and_no_answer(kind: Any) -> None:
    """Seeds are fixed. Without a ladder 1/10 abstains always, and 10 is five to nine times off."""
    right = np.mean(errors(made(kind, 1), 2))
    for stated in (0.1, 3.0, 10.0) if kind is RescaledMean else (0.1, 0.3, 10.0):
        assert errors(made(kind, stated), 1)[0] < 3 * right
    without = made(kind, 0.1, ladder_multiplier=None)
    assert errors(without, 1) == [np.inf]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_rare_records_far_from_the_bulk_are_not_lost(adjacency: Adjacency) -> None:
    """A share of 3/100 at 1, the others at 0, whose sub-Gaussian proxy is .135: half of the stated
    radius leaves 6% of the pairs apart, and would cost nothing else. The mean is then 0, or nearly
    so. Of 40,000 records it is .0300 with deviation .0009, and noise 20 times less: within .006 but
    for 1e-9. Seeds are fixed.
    """
    mechanism = RescaledMean.for_budget(
        BUDGET, adjacency=adjacency, covariance=[0.135], n_max=40_000
    )
    for seed in range(2):
        records = (np.random.default_rng(seed).random((40_000, 1)) < 0.03).astype(float)
        result = mechanism.release(records, SeededBits(seed))
        assert not isinstance(result, Abstained)
        assert abs(float(result.value[0]) - 0.03) < 0.006


def test_a_diagonal_proxy_of_turned_records_gives_an_answer() -> None:
    """Records whose covariance is far from the stated diagonal one, and ten times as large."""
    turn, _ = np.linalg.qr(np.random.default_rng(7).normal(size=(D, D)))
    assert max(errors(made(RefinedMean, 0.1), 2, turn)) < 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_votes_are_a_20th_of_mu_squared(kind: Any, adjacency: Adjacency) -> None:
    mechanism = made(kind, 1, adjacency)
    composed = mechanism.composed
    assert isinstance(composed, ApproximateGaussianDP)
    share = 1 / mechanism.ladder_multiplier**2 / composed.mu_squared
    assert Fraction(49, 1000) < share < Fraction(51, 1000)
    assert made(kind, 1, adjacency, n_max=10**5).ladder_multiplier == mechanism.ladder_multiplier
    assert mechanism.claim.guarantee == BUDGET


def test_few_records_have_no_ladder() -> None:
    """Too few pairs for their noise, or a budget that the votes would take from the agreement."""
    for n_max in (50, 300, 1400):
        assert made(RescaledMean, 1, n_max=n_max).ladder_multiplier is None
    assert made(RescaledMean, 1, filter="basic").ladder_multiplier is None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"filter": "gaussian", "ladder_multiplier": 3}, "only filter='weights' has a ladder"),
        ({"ladder_multiplier": 0}, "not positive"),
        ({"ladder_multiplier": "1e10"}, "1e-100 to 1e9"),
    ],
)
def test_bad_ladders_are_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(RescaledMean, 1, **own)


def refusal(kind: Any, **given: Any) -> str | None:
    """Text with which these parameters are refused; None where they are not."""
    fixed = {"center_multiplier": 1} if kind is RefinedMean else {}
    try:
        kind(adjacency=ADD, n_max=90, tail="1e-3", **fixed, **given)
    except ValueError as error:
        return str(error)
    return None


_EDGES = (-1230, -1180, -1177, -1176, -1120, 1100, 1169, 1214, 1215, 1230)
_RADII: list[Any] = [
    *(Fraction(5, 3) * Fraction(2) ** edge for edge in _EDGES),
    *(1.7e308, 1e-308, 5e-324, 1 + Fraction(1, 2**12_997), Fraction(10**3910)),
]
_MATRICES: list[Any] = [
    (1.0,),
    (1e300, 1e290),
    ((2e300, 5e299), (5e299, 3e299)),
    ((2e-300, 5e-301), (5e-301, 3e-301)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_ladder_refuses_before_any_data_what_its_rungs_would(kind: Any) -> None:
    """Radii at and beyond both ends of what grids and numbers serve: the text is that of the
    stated radius, or else of the lowest rung, or of the highest, each built by itself."""
    refused = list[str | None]()
    for matrix, radius in itertools.product(_MATRICES, map(Fraction, _RADII)):
        given = {"matrix": matrix, "noise_multiplier": 1}
        ball = {} if kind is RescaledMean else {"record_radius": 3 * radius}
        rungs = [
            refusal(kind, radius=radius * k, **{name: r * k for name, r in ball.items()}, **given)
            for k in (1, Fraction(1, 16), 64)
        ]
        expected = next((text for text in rungs if text is not None), None)
        assert refusal(kind, radius=radius, ladder_multiplier=2, **ball, **given) == expected
        refused.append(expected)
    assert len(refused) > refused.count(None) > 10
    for text in ("exponent = 1201", "exponent = -1201", "radius has more than 4000 digits"):
        assert any(text in (one or "") for one in refused)


# --- against the spec ---------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(
            st.integers(-300, 3000) | st.integers(-(10**15), 10**15), min_size=12, max_size=12
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([Fraction(1, 4), Fraction(26), Fraction(10**9, 3)]),
)
def test_the_rung_is_the_specs(votes: list[list[int]], scale: Fraction) -> None:
    rungs = chosen_rungs(np.array(votes), scale).tolist()
    assert rungs == [spec.chosen(tuple(row), scale) for row in votes]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_are_the_specs(kind: Any, adjacency: Adjacency) -> None:
    """Votes, centers, noise and sensitivities on extreme data; and not with another radius."""
    edge = [0.0, -0.0, 5e-324, 1e308, -1e308, 2.0**-1022, 7.3, 7.3, 7.4, 8.5]
    rows = np.array([(x, y) for x in edge for y in edge])
    datasets: list[Any] = [*(rows[:n] for n in (0, 1, 2, 3)), rows, np.repeat(rows, 3, axis=0)]
    module: Any = rescaled_spec if kind is RescaledMean else refined_spec
    own = {} if kind is RescaledMean else {"center_multiplier": 1, "record_radius": 1}
    mechanism = kind(
        adjacency=adjacency,
        noise_multiplier=1,
        ladder_multiplier=2,
        matrix=((2.0, 0.5), (0.5, 0.3)),
        radius="0.3",
        n_max=90,
        tail="1e-3",
        **own,
    )
    with mp.workdps(50):
        assert compare_facts(module, mechanism, datasets) > 2 * len(datasets)

    class Twin:
        sensitivities = staticmethod(module.sensitivities)

        @staticmethod
        def law(parameters: Any, records: Any) -> Any:
            return module.law({**parameters, "radius": 1}, records)

    twin: Any = Twin
    with mp.workdps(50), pytest.raises(RefinementFailed):
        compare_facts(twin, mechanism, datasets)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("d", [1, 10])
def test_sorted_and_repeated_records_are_answered(adjacency: Adjacency, d: int) -> None:
    """Pairs follow a hash, of places under replace: who stands beside whom in the list does not
    matter."""
    drawn = np.random.default_rng(3).normal(size=(N, d))
    repeated = np.repeat(drawn[: N // 2], 2, axis=0)
    mechanism = made(RescaledMean, 1, adjacency, covariance=[1.0] * d)
    for records in (drawn, drawn[np.argsort(drawn[:, 0])], repeated):
        result = mechanism.release(records, SeededBits(0))
        assert not isinstance(result, Abstained)
        assert np.linalg.norm(result.value - records.mean(axis=0)) < 0.1 * np.sqrt(d)
