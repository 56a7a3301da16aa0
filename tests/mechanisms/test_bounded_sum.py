"""``bounded_sum``: on every dataset, by its formula, at its stated error."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import (
    Adjacency,
    BoundedSum,
    GaussianDP,
    PureDP,
    SeededBits,
    SumEstimate,
    result_from,
)
from dpverify.grid.transcripts import transcript
from spec import bounded_sum as spec
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    estimates,
    fails_at_most,
    largest_loss_found,
    mean_square_fits,
)
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def total(**parameters: Any) -> BoundedSum:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": -1.0, "upper": 3.0}
    return BoundedSum(**base | parameters)


BOUNDS = [(-1.0, 3.0), (120.0, 200.0), (0.0, 5e-324), (-1.7e308, 1.7e308), (-3.0, -2.0)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_the_sum_of_its_clamped_records(
    data: list[float], adjacency: Adjacency, lower: float, upper: float
) -> None:
    # P(noise != 0) < exp(-10^5): a scale of 10^-6 of a cell.
    narrow = total(adjacency=adjacency, lower=lower, upper=upper)
    moves = spec.sensitivities(narrow.parameters)["sum"]
    released = replace(narrow, noise_multiplier=Fraction(1, 10**6 * moves)).release(data)
    assert isinstance(released, SumEstimate)
    cell = float(spec.grid(narrow.parameters)[2])
    clamped = [Fraction(min(max(x, lower), upper)) for x in data]
    if np.isinf(released.value):
        assert abs(sum(clamped, Fraction(0))) > Fraction(1.7e308)
    else:
        off = Fraction(released.value) - sum(clamped, Fraction(0))
        assert abs(off) <= (len(data) + 1) * Fraction(cell)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_error_is_the_predicted_one_and_intervals_hold_it(noise: str) -> None:
    data = [0.5] * 20 + [7.0] * 3
    right = total(noise_multiplier=3, noise=noise)
    wrong = replace(right, noise_multiplier=Fraction(39, 10))
    with mp.workdps(50):
        predicted = float(spec.expected_error(right.parameters))
    assert right.expected_error(23) == pytest.approx(predicted, rel=1e-12)
    releases = estimates(right, data, 1)
    errors = [one.value - 19.0 for one in releases]
    assert mean_square_fits(errors, predicted)
    assert not mean_square_fits([one.value - 19.0 for one in estimates(wrong, data, 2)], predicted)
    low, high = releases[0].interval(0.9)
    reach = (high - low) / 2
    with mp.workdps(50):
        bound = float(spec.error_bound(right.parameters, Fraction(1, 10)))
    assert reach == pytest.approx(bound, rel=1e-4)
    assert fails_at_most(errors, reach, 0.1)
    assert not fails_at_most(errors, reach / 2, 0.1)


@pytest.mark.parametrize(
    ("noise", "claim"), [("laplace", PureDP("1/2")), ("gaussian", GaussianDP("1/2"))]
)
def test_it_claims_what_its_noise_gives(noise: Literal["laplace", "gaussian"], claim: Any) -> None:
    for adjacency in Adjacency:
        assert total(noise=noise, noise_multiplier=2, adjacency=adjacency).claim.guarantee == claim
        made = BoundedSum.for_budget(claim, adjacency=adjacency, lower=-1, upper=3, noise=noise)
        assert made.noise_multiplier == 2


def test_replacing_moves_a_sum_by_the_width_and_adding_by_the_farther_bound() -> None:
    wages = {"lower": 10.0, "upper": 60.0}
    added, replaced = (total(adjacency=one, **wages).expected_error(1) for one in (ADD, REPLACE))
    assert added / replaced == pytest.approx(60 / 50, rel=1e-6)


RECORDS = st.sampled_from([*EDGE_RECORDS, -1.0, 3.0])


def test_no_neighbors_lose_more_than_claimed() -> None:
    mechanism = total(noise_multiplier=2, cell=Fraction(1, 2))
    loss = largest_loss_found(mechanism, RECORDS)
    assert 0.999 / 2 < loss <= (1 + 1e-9) / 2


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": 3.0, "upper": -1.0}, ValueError, "reversed; give the smaller one first"),
    ({"lower": 1.0, "upper": 1.0}, ValueError, "equal"),
    ({"upper": float("inf")}, ValueError, "finite public bound"),
    ({"noise": "normal"}, ValueError, "write 'laplace' or 'gaussian'"),
    ({"lower": 1e9, "upper": 1e9 + 1e-4}, ValueError, "2\\^40 of the public grid"),
    ({"cell": 16}, ValueError, "no room between"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        total(**change)


def test_no_bit_is_drawn_for_refused_data_or_noise() -> None:
    with pytest.raises(ValueError, match="finite"):
        total().release([1.0, np.nan], NoBits())
    with pytest.raises(ValueError, match="drawn for standard deviations"):
        total(noise="gaussian", noise_multiplier=2e20).release([1.0], NoBits())


def test_a_missing_record_adds_what_is_nearest_to_nothing() -> None:
    exact = total(nonfinite="replace", noise_multiplier=Fraction(1, 10**14), lower=2.0, upper=5.0)
    assert exact.release([np.nan, 4.0], SeededBits(1)).value == 6.0  # type: ignore[union-attr]
    beyond = total(noise_multiplier="1e400").estimate(transcript({"sum": (1,)}))
    assert isinstance(beyond, SumEstimate)
    assert beyond.interval() == (-np.inf, np.inf)
    assert result_from(beyond.to_dict()) == beyond
