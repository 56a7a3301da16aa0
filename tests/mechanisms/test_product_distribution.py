"""``product_distribution``: probabilities of bits; rare ones with less noise; its errors,
intervals and refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    GaussianDP,
    ProductDistribution,
    ProductEstimate,
    SeededBits,
    result_from,
)
from dpverify.grid import Released, View
from dpverify.grid.orthants import BitSums, sign_of
from dpverify.privacy import Domain
from dpverify.suite.refinement import compare_facts
from spec import product_distribution as spec
from spec.theory import orthants
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]
DECAYING = np.minimum(0.5, 1 / np.arange(1, 401))


def bits(d: int = 3, **parameters: Any) -> ProductDistribution:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "d": d}
    return ProductDistribution(**base | parameters)


def entropy(truth: Floats, estimate: Floats) -> float:
    """sqrt(KL / 2) of two product distributions: a bound on the total variation between them."""
    rare = np.where(truth > 0, truth * np.log(np.maximum(truth, 1e-300) / estimate), 0)
    rest = (1 - truth) * np.log((1 - truth) / (1 - estimate))
    return math.sqrt(max(float((rare + rest).sum()), 0) / 2)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"d": 0}, ValueError, "d = 0; give an integer from 1"),
    ({"d": 10**6}, ValueError, "d = 1000000"),
    ({"coarse_share": 1}, ValueError, r"outside \(0, 1\)"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
    ({"precision": 0}, ValueError, "precision = 0"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        bits(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = bits(adjacency=adjacency)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0, 1), (1.0, np.nan, 0)], NoBits())
    with pytest.raises(ValueError, match="2 columns"):
        mechanism.release([(1.0, 2.0)], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match="needs at least"):
            mechanism.release(np.zeros((1, 3)), NoBits())


WORLDS: list[dict[str, Any]] = [
    {"at_least": 1},
    {"at_least": 1, "adjacency": REPLACE},
    {"d": 1, "at_least": 1},
    {"at_least": 1, "noise_multiplier": "1e-900"},
    {"noise_multiplier": "1e2000"},
    {"at_least": 1, "precision": 1, "coarse_share": "1/100"},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = bits(**parameters)
    d = mechanism.d
    edge = [0.0, -0.0, 0.5, 0.5000001, 5e-324, 1e308, -1e308]
    rng = np.random.default_rng(0)
    datasets = [rng.choice(edge, (n, d)) for n in (0, 1, 2, 30)]
    datasets += [np.zeros((400, d)), np.ones((400, d)), (rng.random((2000, d)) < 0.01) * 1.0]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    if 1e-100 < mechanism.noise_multiplier < 1e100:
        assert compare_facts(spec, mechanism, datasets) > 3
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert result_from(release.to_dict()) == release
        if isinstance(release, ProductEstimate):
            assert ((release.value > 0) & (release.value < 1)).all()
            assert np.isfinite(release.log_odds).all()


def _fixed(weights: tuple[int, ...]) -> Released[Any]:
    numbers = np.array([weights], np.int64)
    return Released((), lambda before: (numbers, np.zeros(1, np.intp)))


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_values_are_the_spec_s_for_all_weights(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(1)
    data = rng.choice([0.0, 1.0, 0.5, 7.0], (50, 3))
    rows: Any = [tuple(row) for row in data.tolist()]
    for weights in ((0, 0, 0), (9, -9, 5), (1 << 20, -(1 << 20), 1), (3, 4, -12)):
        for radius, weight in ((7, 0), (1 << 20, 5)):
            given = _fixed(weights)
            query = BitSums(
                columns=3, radius=radius, adjacency=adjacency, weights=given, weight=weight
            )
            expected = orthants.bit_sums(rows, weights, radius, adjacency, weight)
            assert tuple(query.evaluate(View(data)).tolist()) == expected
            assert max(map(abs, expected)) <= query.largest(len(data))
            stated = query.sensitivity(adjacency, Domain(columns=3)).conclusion.value
            assert stated == orthants.moved_squared(radius, weight, adjacency)
            assert sign_of(radius, 3, adjacency) == orthants.sign_of(radius, 3, adjacency)
            other = REPLACE if adjacency is ADD else ADD
            with pytest.raises(ValueError, match="the signs of these sums are for"):
                query.sensitivity(other, Domain(columns=3))


@pytest.mark.parametrize("n", [2000, 8000])
def test_rare_bits_have_less_error_than_with_plain_noise(n: int) -> None:
    """Medians of 9 runs at mu = 1, replace: at n = 2000 .39 (plain .69), at 8000 .146 (.31) on
    other seeds, with deviations of less than a tenth each; so a median above 1.25 times that has
    probability below 1e-6."""
    mechanism = ProductDistribution.for_budget(GaussianDP(1), adjacency=REPLACE, d=400)
    entropies = []
    for seed in range(9):
        rng = np.random.default_rng(60 + seed)
        data = (rng.random((n, 400)) < DECAYING) * 1.0
        released = mechanism.release(data, SeededBits(seed))
        assert isinstance(released, ProductEstimate)
        assert released.whitened == "whitened"
        entropies.append(entropy(DECAYING, released.value))
    assert np.median(entropies) < 1.25 * {2000: 0.39, 8000: 0.146}[n]


def test_common_bits_have_plain_noise() -> None:
    """Compare at 1/2, where both stages are signs: the length of the noise is that of the
    Gaussian mechanism of mu = 1, d / n."""
    mechanism = ProductDistribution.for_budget(GaussianDP(1), adjacency=REPLACE, d=50)
    data = (np.random.default_rng(3).random((4000, 50)) < 0.5) * 1.0
    squares = []
    for seed in range(100):
        estimate = mechanism.release(data, SeededBits(seed))
        assert isinstance(estimate, ProductEstimate)
        assert estimate.whitened == "plain"
        squares.append(float(((estimate.value - data.mean(axis=0)) ** 2).sum()))
    whole = sum(squares) * (4000 / 50) ** 2 * 50  # chi-square of 5000 degrees
    assert stats.chi2.ppf(5e-7, 5000) < whole < stats.chi2.ppf(1 - 5e-7, 5000)
    assert mechanism.expected_error(4000) == pytest.approx(
        50 / 4000, rel=2e-5
    )  # signs are whole numbers


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_intervals_cover(adjacency: Adjacency) -> None:
    """100 releases of 40 columns, rare ones and common ones: where at most a record in a
    thousand is clipped each interval of 95% holds the records' share with probability 95% or
    more. Columns of one release share nothing but the count; 4000 draws."""
    mechanism = bits(40, adjacency=adjacency, noise_multiplier=2)
    p = np.linspace(0.3, 0.7, 40)
    data = (np.random.default_rng(4).random((3000, 40)) < p) * 1.0
    share, held = data.mean(axis=0), 0
    batch = mechanism.law(data).sample(SeededBits(0), 100)
    for i in range(100):
        estimate = mechanism.estimate(batch[i])
        assert isinstance(estimate, ProductEstimate)
        low, high = estimate.interval(0.95)
        held += int(((low <= share) & (share <= high)).sum())
    assert held >= stats.binom.ppf(1e-6, 4000, 0.95)


def test_few_records_abstain_as_rarely_as_promised() -> None:
    """Count abstentions with minimum_n records: at most 1 of 1000 abstain: 8 or more of 400 with
    probability below 1e-6."""
    mechanism = bits(5, noise_multiplier=Fraction(2))
    data = np.ones((mechanism.minimum_n(), 5))
    abstained = sum(
        isinstance(mechanism.release(data, SeededBits(seed)), Abstained) for seed in range(400)
    )
    assert abstained < 8
    assert isinstance(mechanism.release(np.zeros((0, 5)), SeededBits(0)), Abstained)
    assert math.isinf(mechanism.expected_error(1))
