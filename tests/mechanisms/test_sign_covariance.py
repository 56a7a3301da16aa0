"""``sign_covariance``: on every dataset, after every map as the spec says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    Concentrated,
    GaussianDP,
    SeededBits,
    ShapeEstimate,
    SignCovariance,
)
from dpverify.estimation.sign_rounds import measured, spectrum_of, sphere_spectrum
from dpverify.plans import Stage
from dpverify.suite.refinement import compare_facts, exact_records
from spec import sign_covariance as spec
from spec.theory import sign_readings, signs
from tests.mechanisms.helpers import edge_rows, typed_releases
from tests.mechanisms.sign_shapes import ADD, REPLACE, law_of, shape
from tests.randomness.helpers import NoBits

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers, one for each column"),
    ({"center": ()}, ValueError, "center is empty"),
    ({"center": (1.0,)}, ValueError, "a shape is of 2 to 1024 columns"),
    ({"center": (0.0,) * 1025}, ValueError, "center has 1025 coordinates"),
    ({"center": (1.0, math.inf)}, ValueError, "give finite numbers"),
    ({"center": (1e12, 0.0)}, ValueError, "Subtract a public constant"),
    ({"cell": 0}, ValueError, "cell = 0 is not positive"),
    ({"cell": math.nan}, ValueError, "cell"),
    ({"cell": None}, TypeError, "cell"),
    ({"scale": -1}, ValueError, "scale = -1 is not positive"),
    ({"scale": 2**-10}, ValueError, "give one of 1 to 2.40 cells"),
    ({"scale": 2.0**40}, ValueError, "give one of 1 to 2.40 cells"),
    ({"rounds": 0}, ValueError, "rounds = 0; give an integer from 1 to 20"),
    ({"rounds": 2.0}, TypeError, "give an integer"),
    ({"shares": ("1/2", "1/2")}, ValueError, "give 8 positive numbers, one for each step"),
    ({"at_least": 0}, ValueError, "at_least = 0; give an integer from 1"),
    ({"precision": 1}, ValueError, "precision = 1; give an integer from 2 to 40"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        shape(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = shape(adjacency=adjacency)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0), (1.0, np.inf), (0, 0)], NoBits())
    with pytest.raises(ValueError, match="3 columns"):
        mechanism.release([(1.0, 2.0, 3.0)], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match=r"have 2 records.*needs at least 43"):
            mechanism.release(np.zeros((2, 2)), NoBits())


WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE, "at_least": 1},
    {"at_least": 1, "rounds": 3},
    {"at_least": 1, "rounds": 1},
    {"at_least": 1, "scale": 1, "center": (1e-3, 7.0), "rounds": 4},
    {"at_least": 1, "scale": 1e5, "adjacency": REPLACE, "precision": 3},
    {"at_least": 1, "cell": 5e-324, "rounds": 4},
    {"at_least": 1, "cell": 1.7e308, "scale": 1.7e308, "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e-900"},
    {"at_least": 1, "noise_multiplier": "1e-9", "adjacency": REPLACE},
    {"at_least": 1, "noise_multiplier": "1e2000"},
    {"at_least": 1, "shares": ("1/2", "1/3", "1/6"), "rounds": 3},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = shape(**parameters)
    normal = np.random.default_rng(0).normal(size=(100, 2))
    datasets: list[Any] = [*edge_rows(), [(1.0, 2.0)] * 90, normal]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    if mechanism.noise_multiplier > 1e-100:  # else too many digits for the code's enclosures
        assert compare_facts(spec, mechanism, [datasets[0], *datasets[-2:]]) > 3
    for release in typed_releases(mechanism, datasets):
        if isinstance(release, ShapeEstimate):
            assert np.isfinite(release.value).all()
            assert np.linalg.eigvalsh(release.value)[0] >= -1e-9 * np.trace(release.value)
            assert np.linalg.slogdet(release.factor)[1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_noise_beyond_every_float_abstains(adjacency: Adjacency) -> None:
    """Abstain: the default ``at_least`` is more than any count of records."""
    mechanism = shape(adjacency=adjacency, noise_multiplier="1e310")
    assert mechanism.least() == sign_readings.at_least(mechanism.parameters) == 1 << 60
    assert math.isinf(mechanism.expected_error(10**15))
    if adjacency is ADD:
        for n in (0, 1, 90):
            assert isinstance(mechanism.release(np.ones((n, 2)), SeededBits(n)), Abstained)
    else:
        with pytest.raises(ValueError, match="needs at least 1152921504606846976"):
            mechanism.release(np.ones((90, 2)), NoBits())


FOLLOWED: list[tuple[int, dict[str, Any]]] = [
    (2, {"noise_multiplier": 3, "at_least": 1, "rounds": 4}),
    (2, {"adjacency": REPLACE, "at_least": 1, "rounds": 4, "noise_multiplier": "1/3"}),
    (3, {"at_least": 1, "rounds": 4, "noise_multiplier": 2}),
    (2, {"scale": 3, "center": (1.0, -3.0), "rounds": 4, "at_least": 1}),
    (2, {"scale": 3, "adjacency": REPLACE, "rounds": 3, "at_least": 1, "precision": 4}),
    (2, {"noise_multiplier": 3, "at_least": 90, "rounds": 3}),
    (4, {"at_least": 1, "rounds": 2}),
]


@pytest.mark.parametrize(("d", "parameters"), FOLLOWED, ids=range(len(FOLLOWED)))
def test_every_transcript_leads_to_the_spec_s_stages(d: int, parameters: dict[str, Any]) -> None:
    """Exact values after each map, of a batch and of each draw alone; no chance in it but the
    noise of a fixed seed."""
    mechanism = shape(d, **parameters)
    data = law_of(d, 90 if d < 4 else 20, kappa=1e4)[0]  # of four columns fractions are long
    law, public = mechanism.law(data), mechanism.adjacency is REPLACE
    batch = law.sample(SeededBits(7), 2 if d + (mechanism.scale is not None) < 4 else 1)
    specified = spec.law(mechanism.parameters, exact_records(data, mechanism.domain))
    seen: set[tuple[int, ...]] = set()
    for i in range(len(batch)):
        outcomes = tuple(batch[i].released.values())
        for t, stage in enumerate(mechanism.fixed_plan):
            if t > public:
                assert isinstance(stage, Stage)
                center = law.center_after(stage, outcomes[:t])
                expected: Any = specified.stages[t][1](outcomes[:t])
                assert tuple(center.tolist()) == expected.center
                seen.add(expected.center)
    assert len(seen) >= len(batch)  # more than one map was looked at


def test_a_transcript_leads_to_one_map_whatever_its_batch() -> None:
    mechanism = shape(3, at_least=1, precision=5, rounds=3, noise_multiplier=4)
    batch = mechanism.law(law_of(3, 60)[0]).sample(SeededBits(5), 150)
    maps, which = mechanism.maps(2, batch)
    numbers = maps[which].tolist()
    assert len(set(map(tuple, numbers))) > 30
    rng = np.random.default_rng(0)
    for size in (1, 7, 60):
        rows = rng.permutation(150)[:size]
        maps, which = mechanism.maps(2, batch.select(rows))
        assert maps[which].tolist() == [numbers[i] for i in rows]
    values = {name: column.astype(object) for name, column in batch.values.items()}
    wide = type(batch)(values, batch.reached, batch.stopped_by)
    maps, which = mechanism.maps(2, wide)
    assert maps[which].tolist() == numbers


def test_measured_numbers_are_the_nearest_whatever_the_precision() -> None:
    """Ties and huge numbers too; by the spec's fractions."""
    rng = np.random.default_rng(2)
    rows = [[1, 1, 1], [3, 1, 2], [2**61, 5, -(2**61)], [1, -3, 1], [0, 0, 0], [7, 1, 239]]
    rows += rng.integers(-(2**50), 2**50, (40, 3)).tolist()
    for precision in (2, 8, 30, 40, 62):
        for kind in (np.int64, object):
            numbers, good = measured(np.array(rows, kind), precision, 2)
            for row, own, fine in zip(rows, numbers.tolist(), good, strict=True):
                expected = signs.measured(row, precision, 2)
                assert fine == (expected is not None)
                assert expected is None or tuple(own) == expected


@pytest.mark.parametrize("d", [2, 3, 10, 60])
def test_the_spectrum_of_signs_is_inverted(d: int) -> None:
    for kappa in (1.0, 1e3, 1e9):
        wanted = np.logspace(0, math.log10(kappa), d)
        wanted /= wanted.sum()
        assert np.allclose(sphere_spectrum(spectrum_of(wanted)), wanted, rtol=1e-10, atol=0)
    lone = np.r_[1e-6, np.ones(d - 1)]
    assert np.allclose(
        sphere_spectrum(spectrum_of(lone / lone.sum())), lone / lone.sum(), rtol=1e-9
    )


def test_the_shape_that_was_released_is_the_spec_s() -> None:
    """Compare the shape of the last round: C^-1 of the shape whose signs were measured there,
    scaled to a determinant of 1."""
    mechanism = shape(2, adjacency=REPLACE, rounds=3)
    batch = mechanism.law(law_of(2, 500, kappa=100)[0]).sample(SeededBits(1), 3)
    for i in range(3):
        estimate = mechanism.estimate(batch[i])
        assert isinstance(estimate, ShapeEstimate)
        outcomes = list(batch[i].released.values())
        public = np.array(
            sign_readings.map_after(mechanism.parameters, outcomes[1:3], 500)
        ).reshape(2, 2)
        seen = np.array(signs.symmetric(outcomes[3], 2).tolist(), dtype=np.float64).reshape(2, 2)
        seen[0, 1] *= 169 / 239
        seen[1, 0] *= 169 / 239
        shares, axes = np.linalg.eigh(seen / np.trace(seen))
        root = np.linalg.solve(public, axes * shares)  # for two numbers lambda is the square
        value = root @ root.T
        assert np.allclose(estimate.value, value / math.sqrt(np.linalg.det(value)), rtol=1e-8)


def test_too_few_records_abstain_as_rarely_as_stated() -> None:
    """n = minimum_n: 4000 draws; more than 1e-3 of them abstain with probability below 1e-6.
    Under replace none is drawn."""
    for scale in (None, 1):
        mechanism = shape(noise_multiplier=3, scale=scale, rounds=1, at_least=60)
        n = mechanism.minimum_n()
        data = np.random.default_rng(1).normal(size=(n, 2))
        batch = mechanism.law(data).sample(SeededBits(1), 4000)
        few = (mechanism.numbers(batch) < mechanism.least()).sum()
        assert few <= stats.binom.isf(1e-6, 4000, 1e-3)
        less = mechanism.law(data[: n // 3]).sample(SeededBits(1), 1)[0]
        assert isinstance(mechanism.estimate(less), Abstained)
        assert math.isinf(mechanism.expected_error(mechanism.least() - 1))
    public = shape(adjacency=REPLACE)
    assert (
        public.minimum_n()
        == public.fewest_records()
        == sign_readings.at_least(public.parameters)
        == 43
    )


@pytest.mark.parametrize("rounds", [1, 8])
def test_without_signs_there_is_no_shape_of_noise(rounds: int) -> None:
    """2000 public records, all at the center: 25 fixed seeds; or half of them: then errors are
    those of the other half."""
    mechanism = shape(adjacency=REPLACE, rounds=rounds)
    data = np.zeros((2000, 2))
    for seed in range(25):
        outcome = mechanism.release(data, SeededBits(seed))
        assert isinstance(outcome, Abstained)
        assert "have a sign" in outcome.reason
    data[:1000] = np.random.default_rng(0).normal(size=(1000, 2))
    half = mechanism.release(data, SeededBits(0))
    assert isinstance(half, ShapeEstimate)
    assert half.count == pytest.approx(1000, rel=0.02)
    assert half.spread == pytest.approx(4 * mechanism._noise(rounds - 1, 1000), rel=0.02)


def test_records_at_the_center_count_for_nothing_there_and_something_elsewhere() -> None:
    data = np.zeros((2000, 2))
    assert isinstance(shape().release(data, SeededBits(0)), Abstained)
    outcome = shape(scale=1).release(data, SeededBits(0))
    assert isinstance(outcome, Concentrated)  # all signs are the constant's
    assert outcome.value.tolist()[:2] == [0, 0]


@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("d", [2, 100])
def test_a_budget_is_met_and_hardly_missed(budget: Any, adjacency: Adjacency, d: int) -> None:
    """Calibrate: in exact arithmetic rounding costs less than 2^-16 of the multiplier."""
    parameters: dict[str, Any] = {"center": (0.0,) * d, "cell": 1e-3}
    mechanism = SignCovariance.for_budget(budget, adjacency=adjacency, **parameters)
    assert mechanism.claim.guarantee == budget
    plain = GaussianDP(1) if isinstance(budget, GaussianDP) else GaussianDP("0.236704")
    assert float(mechanism.noise_multiplier) == pytest.approx(
        1 / float(plain.mu_squared) ** 0.5, rel=2e-5
    )


def test_a_release_is_a_draw_of_the_law() -> None:
    for mechanism in (shape(), shape(adjacency=REPLACE, scale=2)):
        data = law_of(2, 700, kappa=10)[0]
        one = mechanism.release(data, SeededBits(4))
        drawn = mechanism.estimate(mechanism.law(data).sample(SeededBits(4), 1)[0])
        assert isinstance(one, ShapeEstimate)
        assert one == drawn
