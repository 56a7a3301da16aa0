"""``noisy_count``: on every dataset, at its stated error, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import (
    Adjacency,
    CountEstimate,
    GaussianDP,
    NoisyCount,
    PureDP,
    SeededBits,
    result_from,
)
from dpverify.grid.transcripts import transcript
from spec import noisy_count as spec
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

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def count(**parameters: Any) -> NoisyCount:
    return NoisyCount(**{"adjacency": ADD, "noise_multiplier": 1, **parameters})


EXACT = count(noise_multiplier="1/1000000", within=(0.0, 1.0))
"""P(noise != 0) < exp(-10^5): what it releases is the count itself."""


@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_a_release(data: list[float]) -> None:
    released = count().release(data)
    assert isinstance(released, CountEstimate)
    assert type(released.value) is int
    # By system bits: |noise| > 60 has probability below 2 exp(-60) < 1e-25.
    assert abs(released.value - len(data)) <= 60


@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_the_count_within_is_the_count_within(data: list[float]) -> None:
    for column in (data, data[::-1], np.array(data).reshape(-1, 1), tuple(data)):
        released = EXACT.release(column, SeededBits(1))
        assert isinstance(released, CountEstimate)
        assert released.value == sum(0 <= x <= 1 for x in data)


def test_a_nonfinite_record_counts_as_outside_when_replaced() -> None:
    mechanism = replace(EXACT, nonfinite="replace")
    data: Any = [np.nan, np.inf, None, 5.0, 0.5]
    released = mechanism.release(data, SeededBits(1))
    assert isinstance(released, CountEstimate)
    assert released.value == 1  # what is missing lies nowhere


def test_the_order_of_the_records_does_not_matter() -> None:
    mechanism, data = count(within=(0.0, 1.0), noise_multiplier=50), EDGE_RECORDS * 3
    assert mechanism.release(data, SeededBits(3)) == mechanism.release(data[::-1], SeededBits(3))


@pytest.mark.parametrize("data", [EDGE_RECORDS, [], [1e308] * 4], ids=["edges", "none", "huge"])
def test_nothing_depends_on_the_floating_point_environment(data: list[float]) -> None:
    expected = count(within=(0.0, 1.0)).release(data, SeededBits(4))
    with np.errstate(all="raise"):
        assert count(within=(0.0, 1.0)).release(data, SeededBits(4)) == expected


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": REPLACE}, ValueError, r"len\(data\) is the answer.*within=\(a, b\)"),
    ({"within": [0.0, 1.0]}, TypeError, r"give a pair such as \(120\.0, 200\.0\)"),
    ({"within": (0.0,)}, TypeError, "give a pair"),
    ({"within": (0.0, 1.0, 2.0)}, TypeError, "give a pair"),
    ({"within": 1.0}, TypeError, "give a pair"),
    ({"within": (1.0, 1.0)}, ValueError, "equal; give the smaller one first"),
    ({"within": (1.0, 0.0)}, ValueError, "reversed; give the smaller one first"),
    ({"within": (0.0, float("inf"))}, ValueError, "give a finite public bound"),
    ({"within": (float("nan"), 1.0)}, ValueError, "give a finite public bound"),
    ({"within": (0, 10**400)}, ValueError, "give a finite public bound"),
    ({"within": ("0", "1")}, TypeError, "a bound is a number"),
    ({"within": (False, 1.0)}, TypeError, "a bound is a number"),
    ({"within": (None, 1.0)}, TypeError, "a bound is a number"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        count(**change)


BAD_DATA: list[tuple[Any, type[Exception]]] = [
    ([1.0, np.nan], ValueError),
    ([[1.0, 2.0]], ValueError),
    (3.0, ValueError),
    ([[1.0], [1.0, 2.0]], TypeError),
    (["1"], TypeError),
    ([None], ValueError),
    (None, TypeError),
    ([1j], TypeError),
]


@pytest.mark.parametrize(("data", "kind"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        count().release(data, NoBits())


def test_the_check_for_drawn_bits_can_fail() -> None:
    with pytest.raises(AssertionError, match="a bit was drawn"):
        count().release([1.0], NoBits())


@pytest.mark.parametrize("multiplier", ["1/3", "1", "7/2", "1e6", "1e300"])
def test_the_estimate_is_the_released_count_and_its_stated_deviation(multiplier: str) -> None:
    mechanism = count(noise_multiplier=multiplier)
    noisy = mechanism.estimate(transcript({"count": (-17,)}))
    assert isinstance(noisy, CountEstimate)
    assert noisy.value == -17
    with mp.workdps(700):  # 1 - exp(-1e-300) needs its digits
        assert abs(noisy.standard_deviation / spec.expected_error(mechanism.parameters) - 1) < 1e-12


@pytest.mark.parametrize("multiplier", ["1e310", "1e330"])
def test_a_deviation_beyond_floats_is_infinite(multiplier: str) -> None:
    mechanism = count(noise_multiplier=multiplier)
    released = mechanism.release([0.5], SeededBits(1))
    assert isinstance(released, CountEstimate)
    assert released.standard_deviation == float("inf")
    assert abs(released.value) > 10**300  # P < 10^-9


@pytest.mark.parametrize(
    ("multiplier", "noise"), [*((m, "laplace") for m in ("1", "10/3", "100")), ("3", "gaussian")]
)
@pytest.mark.parametrize("within", [None, (0.0, 1.0)])
def test_the_error_is_the_predicted_one(
    multiplier: str, noise: str, within: tuple[float, float] | None
) -> None:
    data = [0.5] * 20 + [3.0] * (0 if within is None else 30)
    right = count(noise_multiplier=multiplier, within=within, noise=noise)
    wrong = replace(right, noise_multiplier=right.noise_multiplier * Fraction(13, 10))
    predicted = float(spec.expected_error(right.parameters))
    errors = [noisy.value - 20 for noisy in estimates(right, data, 1)]
    assert mean_square_fits(errors, predicted)
    assert not mean_square_fits(
        [noisy.value - 20 for noisy in estimates(wrong, data, 2)], predicted
    )
    # Unbiased: the mean of 2000 has sd predicted / 44; 6 sd have probability below 1e-8 (normal).
    assert abs(float(np.mean(errors))) < 6 * predicted / RELEASES**0.5


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("beta", ["0.05", "0.001"])
def test_the_error_bound_fails_as_rarely_as_stated(beta: str, noise: str) -> None:
    mechanism = count(noise_multiplier=5, noise=noise)
    bound = float(spec.error_bound(mechanism.parameters, Fraction(beta)))
    errors = [noisy.value for noisy in estimates(mechanism, [], 3)]
    assert fails_at_most(errors, bound, float(Fraction(beta)))
    assert not fails_at_most(errors, bound / 2, float(Fraction(beta)))


RECORDS = st.one_of(
    st.sampled_from([*EDGE_RECORDS, 1.0000000000000002]),
    st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.mark.parametrize(
    "mechanism",
    [count(noise_multiplier=2), count(noise_multiplier="2/3", within=(0.0, 1.0))],
    ids=["all", "within"],
)
def test_no_neighbors_lose_more_than_claimed(mechanism: NoisyCount) -> None:
    loss = largest_loss_found(mechanism, RECORDS)
    epsilon = float(1 / mechanism.noise_multiplier)
    assert mechanism.claim.guarantee == PureDP(1 / mechanism.noise_multiplier)
    assert 0.999 * epsilon < loss <= epsilon * (1 + 1e-9)


def test_replacing_a_record_loses_no_more_than_claimed() -> None:
    mechanism = count(adjacency=REPLACE, within=(0.0, 1.0), noise_multiplier=3)
    loss = largest_loss_found(mechanism, RECORDS)
    assert 0.999 / 3 < loss <= (1 + 1e-9) / 3


def test_gaussian_noise_claims_gaussian_privacy_and_says_its_law() -> None:
    mechanism = NoisyCount.for_budget(GaussianDP("1/2"), adjacency=ADD, noise="gaussian")
    assert mechanism.claim.guarantee == GaussianDP("1/2")
    noisy = mechanism.estimate(transcript({"count": (40,)}))
    assert isinstance(noisy, CountEstimate)
    assert noisy.noise == "gaussian"
    low, high = noisy.interval(0.95)
    # 1.96 * 2 records, rounded up to whole ones; Laplace noise of that deviation would say 4.2.
    assert (low, high) == (36, 44)
    assert result_from(noisy.to_dict()) == noisy


@pytest.mark.parametrize("multiplier", ["1/1025", "2e14"])
def test_gaussian_noise_that_cannot_be_drawn_is_refused_before_a_bit_is(multiplier: str) -> None:
    with pytest.raises(ValueError, match="drawn for standard deviations"):
        count(noise_multiplier=multiplier, noise="gaussian").release([1.0], NoBits())
