"""``smooth_median``: on every dataset, within its error, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    MediansEstimate,
    PrivateQuantile,
    PureDP,
    SeededBits,
    SmoothMedian,
)
from dpverify.grid.smooth import SmoothMedians, weights_of
from dpverify.grid.transcripts import transcript
from dpverify.mechanisms.smooth_median import best_decay
from dpverify.plans import SmoothNoise
from dpverify.privacy import Profile, SmoothLaplace
from spec import smooth_median as spec
from spec.theory import smooth
from spec.theory.laws import real_exponential
from tests.mechanisms.helpers import EDGE_DATA, EDGE_RECORDS, estimates, mean_square_fits
from tests.randomness.helpers import NoBits

REPLACE = Adjacency.REPLACE


def median(**parameters: Any) -> SmoothMedian:
    base: dict[str, Any] = {"adjacency": REPLACE, "noise_multiplier": 2}
    return SmoothMedian(**base | {"lower": (0.0,), "upper": (100.0,)} | parameters)


BOUNDS = [(-1.0, 3.0), (0.0, 5e-316), (-1.7e308, 1.7e308), (0, 1e7), (-2e-308, 1.0), (10.0, 11.0)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("data", EDGE_DATA[1:], ids=range(len(EDGE_DATA) - 1))
def test_every_dataset_has_a_release_between_the_bounds(
    data: list[float], lower: float, upper: float
) -> None:
    for decay in ("1/2", "99/100"):
        mechanism = median(lower=(lower,), upper=(upper,), decay=decay)
        with np.errstate(all="raise"):
            released = mechanism.release(data, SeededBits(1))
        assert isinstance(released, MediansEstimate)
        assert lower <= released.value[0] <= upper


@pytest.mark.parametrize("d", [1, 3, 500])
@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_the_value_is_the_specs_in_every_column(n: int, d: int) -> None:
    """The center and the scale of every column, with ties and records at the bounds."""
    rng = np.random.default_rng(3)
    mechanism = median(lower=(0.0,) * d, upper=(16.0,) * d, cells=16, decay="4/5")
    data = np.where(rng.random((n, d)) < 0.3, 4.0, rng.uniform(-3, 19, (n, d)))
    (stage,) = mechanism.fixed_plan
    numbers = mechanism.law(data).center(stage.query)  # type: ignore[union-attr]
    records = [tuple(map(Fraction, row)) for row in data]
    ((_, law),) = spec.law(mechanism.parameters, records).stage_laws()
    assert isinstance(law, smooth.SmoothLaw)
    assert [tuple(row) for row in numbers.tolist()] == list(law.numbers)


@pytest.mark.parametrize("most", [1, 7, 2**20, 2**25])
@pytest.mark.parametrize("decay", ["1/2", "2/3", "19/20", "4095/4096"])
def test_weights_fall_no_faster_than_they_may(most: int, decay: str) -> None:
    rate = Fraction(decay)
    weights = weights_of(most, rate)
    assert list(weights) == smooth.weights(most, rate)
    assert all(rate * a <= b < a for a, b in pairwise(weights))
    following = -(-weights[-1] * rate.numerator // rate.denominator)
    assert following * most <= weights[0]


def test_long_scales_are_exact() -> None:
    """Weights times distances need more than 63 bits at 2^25 cells and the smallest decay."""
    mechanism = median(lower=(0.0,), upper=(1.0,), cells=2**24, decay="4095/4096")
    data = np.linspace(-0.5, 1.5, 301)
    (stage,) = mechanism.fixed_plan
    (numbers,) = mechanism.law(data).center(stage.query).tolist()  # type: ignore[union-attr]
    ((_, law),) = spec.law(mechanism.parameters, [Fraction(x) for x in data]).stage_laws()
    assert isinstance(law, smooth.SmoothLaw)
    assert tuple(numbers) == law.numbers[0]


CASES: list[tuple[dict[str, Any], Any]] = [
    ({}, np.linspace(10, 90, 500)),
    ({"decay": "1/2", "noise_multiplier": "1/2"}, np.linspace(40, 60, 4000)),
    ({"cells": 4096, "noise_multiplier": "1/20"}, [50.0] * 40),
]


@pytest.mark.parametrize(("parameters", "data"), CASES, ids=range(len(CASES)))
def test_the_error_is_what_the_spec_expects(parameters: dict[str, Any], data: Any) -> None:
    mechanism = median(**parameters)
    ordered = [Fraction(x) for x in np.sort(data)]
    predicted = float(spec.expected_error(mechanism.parameters, ordered))
    target = float(ordered[(len(ordered) + 1) // 2 - 1])
    errors = [estimate.value[0] - target for estimate in estimates(mechanism, data, 2)]
    assert mean_square_fits(errors, predicted)
    longer = replace(mechanism, noise_multiplier=mechanism.noise_multiplier * Fraction(13, 10))
    errors = [estimate.value[0] - target for estimate in estimates(longer, data, 2)]
    assert not mean_square_fits(errors, predicted)


def test_the_order_of_records_and_other_columns_do_not_matter() -> None:
    mechanism = median(lower=(0.0, 0.0), upper=(1.0, 9.0))
    data = np.array([[0.1, 3.0], [0.9, 1.0], [0.4, 8.0], [0.4, 2.0]])
    expected = mechanism.release(data, SeededBits(4))
    again = mechanism.release(data[[2, 0, 3, 1]], SeededBits(4))
    apart = mechanism.release(np.stack([data[:, 0], data[::-1, 1]], axis=1), SeededBits(4))
    for estimate in (again, apart):
        assert isinstance(estimate, MediansEstimate)
        assert isinstance(expected, MediansEstimate)
        assert estimate.value.tolist() == expected.value.tolist()


BUDGETS = [("1", "1e-6", 1), ("1/4", "1e-9", 1), ("10", "1e-3", 1), ("2", "1e-6", 3)]


@pytest.mark.parametrize(("epsilon", "delta", "d"), BUDGETS)
def test_a_budget_is_met_and_hardly_more(epsilon: str, delta: str, d: int) -> None:
    budget = ApproxDP(epsilon, delta)
    made = SmoothMedian.for_budget(budget, adjacency=REPLACE, lower=(0.0,) * d, upper=(1.0,) * d)
    assert made.claim.guarantee == budget
    assert made.composed.implies(budget)
    one = SmoothLaplace(1 / made.noise_multiplier, 1 / made.decay)
    assert made.composed == (one if d == 1 else Profile([(one, d)]))
    less = replace(made, budget=None, noise_multiplier=made.noise_multiplier * Fraction(98, 100))
    assert not less.composed.implies(budget)
    own = SmoothMedian.for_budget(
        budget, adjacency=REPLACE, lower=(0.0,) * d, upper=(1.0,) * d, decay=made.decay
    )
    assert own == made


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("1/4", "1e-6"), ("6", "1e-3")])
def test_the_decay_is_the_best_one(epsilon: str, delta: str) -> None:
    """Compare on even records, by the exact scale and profile: other decays have more noise (or
    1% less at most)."""
    budget, data = ApproxDP(epsilon, delta), [Fraction(2 * i + 1, 1000) for i in range(500)]

    def error(**own: Any) -> float:
        made = SmoothMedian.for_budget(budget, adjacency=REPLACE, lower=(0,), upper=(1,), **own)
        return float(spec.expected_error(made.parameters, data))

    best = best_decay(budget, 1)
    assert best is not None
    rise, least = 1 / best - 1, error()
    for factor in map(Fraction, ("1/2", "4/5", "5/4", "3/2")):
        assert error(decay=(1 / (1 + factor * rise)).limit_denominator(4096)) > 0.99 * least
    assert error(decay=(1 / (1 + rise / 3)).limit_denominator(4096)) > 1.1 * least


def test_it_is_shorter_than_the_published_noise_and_longer_than_the_exponential_mechanism() -> None:
    """Compare at (1, 1e-6), on 2000 even records: scale 2 S / epsilon with beta = epsilon / (2
    ln(2 / delta)), as published, is 1.5 times as long; a private quantile of epsilon = 1 alone
    has less than a sixth of it."""
    data = np.linspace(0.0, 1.0, 2001)[:-1] + 1 / 4000
    made = SmoothMedian.for_budget(
        ApproxDP(1, "1e-6"), adjacency=REPLACE, lower=(0.0,), upper=(1.0,)
    )
    records = [Fraction(x) for x in data]
    with mp.workdps(20):
        published = Fraction(float(mp.exp(-1 / (2 * mp.log(2e6))))).limit_denominator(4096)
        other = spec.expected_error(median(decay=published, upper=(1.0,)).parameters, records)
        own = spec.expected_error(made.parameters, records)
    assert 1.45 < float(other / own) < 1.6
    exponential = PrivateQuantile.for_budget(PureDP(1), adjacency=REPLACE, lower=0, upper=1)
    errors = [estimate.value - 0.5 for estimate in estimates(exponential, data, 5, 1000)]
    assert 6 * float(np.sqrt(np.mean(np.square(errors)))) < float(own)


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": Adjacency.ADD_REMOVE}, ValueError, "has to be public. Use Adjacency.REPLACE"),
    ({"lower": (100.0,)}, ValueError, "equal; give the smaller one first"),
    ({"lower": (0.0, 1.0)}, ValueError, "one of each for every column"),
    ({"upper": (float("inf"),)}, ValueError, "not a finite float"),
    ({"cells": 1}, ValueError, r"outside 2\.\.2\^24"),
    ({"cells": 2.5}, TypeError, "cells"),
    ({"decay": "1/3"}, ValueError, r"outside \[1/2, 1 - 2\^-12\]"),
    ({"decay": 1}, ValueError, r"outside \[1/2, 1 - 2\^-12\]"),
    ({"lower": (1.0,), "upper": (1.0000000000000002,)}, ValueError, "Subtract a public constant"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        median(**change)


BAD_BUDGETS: list[tuple[Any, dict[str, Any], str]] = [
    (PureDP(1), {}, "no pure or concentrated DP.*Give an ApproxDP"),
    (ApproxDP(1, 0), {}, "Give an ApproxDP with a delta above 0"),
    (ApproxDP("1/1000", "1e-9"), {}, "too little for 1 columns"),
    (ApproxDP("1/10", "1e-9"), {"decay": "1/2"}, "no noise suffices. Leave the decay out"),
    (PureDP(1), {"decay": "1/2"}, "There is no least noise"),
    (ApproxDP(1, "1e-6"), {"decay": 0}, "outside"),
    (ApproxDP("1e-400", "1e-6"), {}, "too little"),
]


@pytest.mark.parametrize(("budget", "own", "message"), BAD_BUDGETS, ids=range(len(BAD_BUDGETS)))
def test_bad_budgets_are_refused(budget: Any, own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SmoothMedian.for_budget(budget, adjacency=REPLACE, lower=(0.0,), upper=(1.0,), **own)


BAD_DATA: list[tuple[Any, type[Exception], str]] = [
    ([], ValueError, "needs at least 1"),
    ([1.0, np.inf], ValueError, "Record 1 is not finite"),
    ([[1.0, 2.0]], ValueError, "2 columns"),
]


@pytest.mark.parametrize(("data", "kind", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        median().release(data, NoBits())


def test_a_nonfinite_record_counts_as_the_middle_when_replaced() -> None:
    mechanism = median(nonfinite="replace")
    expected = mechanism.release([50.0, 50.0, 9.0], SeededBits(8))
    estimate = mechanism.release([np.nan, -np.inf, 9.0], SeededBits(8))
    assert isinstance(estimate, MediansEstimate)
    assert isinstance(expected, MediansEstimate)
    assert estimate.value[0] == expected.value[0]


def test_a_cell_is_its_value_within_the_bounds() -> None:
    mechanism = median(lower=(-1.0,), upper=(0.25,), cells=10)  # cells of 1/8
    values = [mechanism.estimate(transcript({"medians": (cell,)})) for cell in (-50, -3, 1, 10**30)]
    assert [estimate.value[0] for estimate in values] == [-1.0, -0.375, 0.125, 0.25]  # type: ignore[union-attr]


def test_noise_and_medians_go_together() -> None:
    query = SmoothMedians(((0, 8, 0),), Fraction(1, 2))
    with pytest.raises(ValueError, match="needs SmoothMedians of just these"):
        SmoothNoise(1, query.unit, 2).check(query)
    with pytest.raises(ValueError, match="no room between"):
        SmoothMedians(((8, 8, 0),), Fraction(1, 2))
    with pytest.raises(ValueError, match=r"2\^50 of the public grid"):
        SmoothMedians(((0, 2**51, 0),), Fraction(1, 2))


@pytest.mark.parametrize("data", [EDGE_RECORDS, [3.0], [50.0] * 7], ids=range(3))
def test_log_probabilities_are_the_specs(data: list[float]) -> None:
    mechanism = median(cells=100, noise_multiplier="1/3")
    (stage,) = mechanism.fixed_plan
    law = mechanism.law(data)
    outputs = np.arange(-60, 160)[:, np.newaxis]
    noise = stage.noise  # type: ignore[union-attr]
    log_masses = noise.log_probability(outputs, law.center(stage.query))  # type: ignore[union-attr]
    ((_, exact),) = spec.law(mechanism.parameters, [Fraction(x) for x in data]).stage_laws()
    wanted = [float(mp.log(exact.probability((z,), real_exponential))) for z in range(-60, 160)]
    assert np.allclose(log_masses, wanted, rtol=1e-9, atol=1e-9)


FAR_BUDGETS = [("1e9", "1e-6"), ("2", "1e-3000"), ("50", "9/10"), ("1e-3", "1/2")]


@pytest.mark.parametrize(("epsilon", "delta"), FAR_BUDGETS)
def test_far_budgets_are_met_too(epsilon: str, delta: str) -> None:
    """The search for a decay is in floats, and stays in their range."""
    budget = ApproxDP(epsilon, delta)
    made = SmoothMedian.for_budget(budget, adjacency=REPLACE, lower=(0.0,), upper=(1.0,))
    assert made.composed.implies(budget)
