"""``randomized_response``: on every dataset, unbiased, at its stated error."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import Adjacency, FrequencyEstimate, PureDP, RandomizedResponse, SeededBits
from dpverify.grid.transcripts import transcript
from spec import randomized_response as spec
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    RELEASES,
    estimates,
    fails_at_most,
    largest_loss_found,
    mean_square_fits,
)
from tests.randomness.helpers import NoBits

REPLACE = Adjacency.REPLACE


def response(**parameters: Any) -> RandomizedResponse:
    base: dict[str, Any] = {"adjacency": REPLACE, "noise_multiplier": 1, "categories": 3}
    return RandomizedResponse(**base | parameters)


EXACT = response(noise_multiplier="1/1000000")
"""P(a given answer changes) < exp(-10^5): what it releases are the answers themselves."""


@pytest.mark.parametrize("data", EDGE_DATA[1:], ids=range(1, len(EDGE_DATA)))
def test_every_dataset_has_a_release(data: list[float]) -> None:
    for column in (data, np.array(data).reshape(-1, 1)):
        released = response().release(column, SeededBits(1))
        assert isinstance(released, FrequencyEstimate)
        assert len(released.answers) == len(data)
        assert set(released.answers) <= {0, 1, 2}
        assert abs(sum(released.frequencies) - 1) < 1e-9


@pytest.mark.parametrize("data", EDGE_DATA[1:], ids=range(1, len(EDGE_DATA)))
def test_answers_come_in_order_rounded_and_clamped(data: list[float]) -> None:
    released = EXACT.release(data, SeededBits(2))
    assert isinstance(released, FrequencyEstimate)
    expected = tuple(min(max(round(Fraction(x)), 0), 2) for x in data)
    assert released.answers == expected
    shares = [expected.count(j) / len(expected) for j in range(3)]
    assert np.allclose(released.frequencies, shares, rtol=0, atol=1e-12)


def test_a_nonfinite_record_counts_as_category_zero_when_replaced() -> None:
    released = replace(EXACT, nonfinite="replace").release([np.nan, 2.0, np.inf], SeededBits(1))
    assert isinstance(released, FrequencyEstimate)
    assert released.answers == (0, 2, 0)


def test_nothing_depends_on_the_floating_point_environment() -> None:
    expected = response().release(EDGE_RECORDS, SeededBits(4))
    with np.errstate(all="raise"):
        assert response().release(EDGE_RECORDS, SeededBits(4)) == expected


def test_nobody_is_refused_before_a_bit_is_drawn() -> None:
    with pytest.raises(ValueError, match="have 0 records; this mechanism needs at least 1"):
        response().release([], NoBits())
    with pytest.raises(ValueError, match="needs at least 1"):
        response(nonfinite="replace").release(np.zeros((0, 1)), NoBits())


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": Adjacency.ADD_REMOVE}, ValueError, r"Use Adjacency\.REPLACE"),
    ({"categories": 1}, ValueError, "from 2 to 65536"),
    ({"categories": 0}, ValueError, "from 2 to 65536"),
    ({"categories": -3}, ValueError, "from 2 to 65536"),
    ({"categories": 65537}, ValueError, "from 2 to 65536"),
    ({"categories": 10**400}, ValueError, "from 2 to 65536"),
    ({"categories": 2.0}, TypeError, "give an integer"),
    ({"categories": True}, TypeError, "give an integer"),
    ({"categories": "3"}, TypeError, "give an integer"),
    ({"categories": None}, TypeError, "give an integer"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        response(**change)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([1.0, np.nan], ValueError),
        ([[1.0, 2.0]], ValueError),
        (["yes", "no"], TypeError),
        ([None, 1], ValueError),
        ([[1], [1, 2]], TypeError),
    ],
    ids=range(5),
)
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        response().release(data, NoBits())


TRANSCRIPT = transcript({"answers": (0, 0, 2, 1, 0, 1)})


@pytest.mark.parametrize("multiplier", ["1/1000", "1/10", "2/3", "1", "7", "1000"])
@pytest.mark.parametrize("categories", [3, 5, 1000])
def test_the_estimate_is_the_formula(multiplier: str, categories: int) -> None:
    check_estimate(response(noise_multiplier=multiplier, categories=categories))


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-12", "1e-17", "1e-20", "1e-300", "1e6", "1e400"])
def test_the_estimate_is_the_formula_at_extreme_budgets(epsilon: str) -> None:
    """p - q is about epsilon / k: to be computed without subtracting one float from another."""
    check_estimate(response(noise_multiplier=1 / Fraction(epsilon)))


def check_estimate(mechanism: RandomizedResponse) -> None:
    """(share - q) / (p - q) at 700 digits, against the floats."""
    estimate = mechanism.estimate(TRANSCRIPT)
    assert isinstance(estimate, FrequencyEstimate)
    k, epsilon = mechanism.categories, 1 / mechanism.noise_multiplier
    with mp.workdps(700):
        w = mp.exp(-mp.mpf(epsilon.numerator) / epsilon.denominator)
        p, q = 1 / (1 + (k - 1) * w), w / (1 + (k - 1) * w)
        assert len(estimate.frequencies) == k
        for got, share in zip(estimate.frequencies[:4], (3, 2, 1, 0), strict=False):
            true = (mp.mpf(share) / 6 - q) / (p - q)
            assert abs(got - true) <= 1e-6 * abs(true) + 1e-15 / (p - q)
        deviation = mp.sqrt(max(p * (1 - p), q * (1 - q)) / 6) / (p - q)
        # Where answers hardly ever change, a deviation below 1e-100 is as good as 0.
        assert abs(estimate.standard_deviation - deviation) <= 1e-6 * deviation + 1e-100


CASES = [(10, 2, "1"), (20, 2, "2/3"), (100, 3, "1"), (100, 3, "1/2"), (30, 5, "3")]


def column(n: int) -> list[float]:
    return [0.0] * (n - n // 4) + [1.0] * (n // 4)


@pytest.mark.parametrize(("n", "categories", "multiplier"), CASES)
def test_the_error_is_the_predicted_one_and_has_no_bias(
    n: int, categories: int, multiplier: str
) -> None:
    right = response(noise_multiplier=multiplier, categories=categories)
    wrong = replace(right, noise_multiplier=right.noise_multiplier * Fraction(13, 10))
    shares = [column(n).count(float(j)) / n for j in range(categories)]
    releases = estimates(right, column(n), 1)
    # From the reports of the faulty noise, the estimate that the right one would make of them.
    batch = wrong.law(column(n)).sample(SeededBits(63), RELEASES)
    faulty = [right.estimate(batch[i]) for i in range(RELEASES)]
    biases = []
    for j, share in enumerate(shares):
        predicted = float(spec.expected_error(right.parameters, n, share))
        errors = [estimate.frequencies[j] - share for estimate in releases]
        assert mean_square_fits(errors, predicted)
        # The mean of 2000 has sd predicted / 44; 6 sd have probability below 1e-8 (normal).
        assert abs(float(np.mean(errors))) < 6 * predicted / math.sqrt(RELEASES)
        wrongs = [e.frequencies[j] - share for e in faulty if isinstance(e, FrequencyEstimate)]
        biases.append(abs(float(np.mean(wrongs))) * math.sqrt(RELEASES) / predicted)
    assert max(biases) > 6  # noise x 1.3, and the same check for bias rejects it


@pytest.mark.parametrize("multiplier", ["1", "1/2"])
def test_noise_larger_than_stated_is_noticed_in_the_error(multiplier: str) -> None:
    """Noise x 1.3 with its own estimate, against the prediction without."""
    right = response(noise_multiplier=multiplier)
    wrong = replace(right, noise_multiplier=right.noise_multiplier * Fraction(13, 10))
    predicted = float(spec.expected_error(right.parameters, 40, 0.75))
    errors = [estimate.frequencies[0] - 0.75 for estimate in estimates(wrong, column(40), 2)]
    assert not mean_square_fits(errors, predicted)


def test_the_stated_deviation_bounds_the_predicted_error() -> None:
    mechanism = response(categories=4)
    estimate = mechanism.release(column(40), SeededBits(1))
    assert isinstance(estimate, FrequencyEstimate)
    errors = [float(spec.expected_error(mechanism.parameters, 40, f / 10)) for f in range(11)]
    assert max(errors) <= estimate.standard_deviation * (1 + 1e-12)
    assert estimate.standard_deviation <= max(errors) * (1 + 1e-12)


@pytest.mark.parametrize("n", [50, 200])
def test_the_error_bound_fails_as_rarely_as_stated(n: int) -> None:
    mechanism, beta = response(categories=2), Fraction(1, 20)
    bound = float(spec.error_bound(mechanism.parameters, n, beta))
    share = (n - n // 4) / n
    errors = [estimate.frequencies[0] - share for estimate in estimates(mechanism, column(n), 3)]
    assert fails_at_most(errors, bound, float(beta))
    assert not fails_at_most(errors, bound / 2, float(beta))


RECORDS = st.one_of(
    st.sampled_from([*EDGE_RECORDS, 2.0, 3.0]), st.floats(allow_nan=False, allow_infinity=False)
)


@pytest.mark.parametrize(("categories", "multiplier"), [(2, 1), (3, "2/3"), (7, 4)])
def test_no_neighbors_lose_more_than_claimed(categories: int, multiplier: Any) -> None:
    mechanism = response(categories=categories, noise_multiplier=multiplier)
    loss = largest_loss_found(mechanism, RECORDS, fewest=0)
    epsilon = float(1 / mechanism.noise_multiplier)
    assert mechanism.claim.guarantee == PureDP(1 / mechanism.noise_multiplier)
    assert 0.999 * epsilon < loss <= epsilon * (1 + 1e-9)
