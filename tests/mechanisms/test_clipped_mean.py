"""``clipped_mean``: on every dataset, by its formula, and nothing but typed results."""

from __future__ import annotations

import dataclasses
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    ClippedMean,
    GaussianDP,
    NoisyCount,
    PureDP,
    SeededBits,
)
from dpverify import VectorMeanEstimate as Estimate
from dpverify.grid.transcripts import transcript
from dpverify.plans import RoundedGaussian
from dpverify.privacy import Guarantee
from dpverify.suite.refinement import compare_facts
from spec import clipped_mean as spec
from tests.mechanisms.clipped import ADD, REPLACE, STRETCHED, cloud, mean
from tests.mechanisms.helpers import estimates
from tests.randomness.helpers import NoBits


def test_under_replace_a_clipped_mean_has_the_public_number() -> None:
    mechanism = mean(adjacency=REPLACE, at_least=3)
    assert mechanism.minimum_n() == 3
    for n in (3, 4, 50):
        releases = estimates(mechanism, cloud(n, 2), n, 50)
        assert {one.count for one in releases} == {float(n)}
    for n in (0, 1, 2):
        with pytest.raises(ValueError, match=rf"have {n} records?.*needs at least 3"):
            mechanism.release(np.zeros((n, 2)), NoBits())


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers, one for each column"),
    ({"center": "12"}, TypeError, "give a sequence of numbers"),
    ({"center": np.array(1.0)}, TypeError, "give a sequence of numbers"),
    ({"center": {1.0, 2.0}}, TypeError, "give a sequence of numbers"),
    ({"center": (1.0, None)}, TypeError, "center is a NoneType; give an int"),
    ({"center": (1.0, 1j)}, TypeError, "center is a complex; give an int"),
    ({"center": (True, 1.0)}, TypeError, "center = True is a truth value"),
    ({"center": ()}, ValueError, "center is empty; give one number for each column"),
    ({"center": (1.0, float("nan"))}, ValueError, "give finite numbers"),
    ({"center": (1.0, 10**400)}, ValueError, "give finite numbers"),
    ({"center": (1e9, 0.0)}, ValueError, "Subtract a public constant"),
    ({"radius": 0}, ValueError, "radius = 0 is not positive; give a public radius > 0"),
    ({"radius": -1.5}, ValueError, "is not positive"),
    ({"radius": None}, TypeError, "radius is a NoneType"),
    ({"radius": float("inf")}, ValueError, "radius = inf is not finite"),
    ({"matrix": 3}, TypeError, "give 2 rows of 2 numbers"),
    ({"matrix": [1, 2]}, TypeError, "matrix = 1; give a sequence of numbers"),
    ({"matrix": [[1, 2]]}, ValueError, r"another shape than \(2, 2\)"),
    ({"matrix": [[1, 2], [3]]}, ValueError, r"another shape than \(2, 2\)"),
    ({"matrix": [[0, 0], [0, 0]]}, ValueError, "matrix is zero; give an invertible matrix"),
    ({"matrix": [[1, 2], [2, 4]]}, ValueError, "singular, or nearly, after rounding to 12 bits"),
    ({"matrix": [[1, 0], [0, 1e-5]]}, ValueError, "change the units of some columns"),
    ({"matrix": [[1, 0], [0, float("nan")]]}, ValueError, "give finite numbers"),
    ({"outside": "drop"}, ValueError, "outside = 'drop'; write 'clip' or 'mask'"),
    ({"outside": None}, ValueError, "write 'clip' or 'mask'"),
    ({"count_weight": 0}, ValueError, r"outside \(0, 1000\]; try '1'"),
    ({"count_weight": 1001}, ValueError, r"outside \(0, 1000\]"),
    ({"count_weight": 1000, "matrix": STRETCHED}, ValueError, "for this matrix; give at most"),
    ({"at_least": 0}, ValueError, "a mean needs at least 1 record"),
    ({"at_least": 2.0}, TypeError, "give an integer"),
    ({"nonfinite": "drop"}, ValueError, "write 'refuse'"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        mean(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ([(1.0, np.inf)], ValueError, "Record 0 is not finite"),
        ([1.0, 2.0], ValueError, r"records of shape \(n, 2\)"),
        ([(1.0, 2.0, 3.0)], ValueError, "3 columns"),
        ([(1.0,), (1.0, 2.0)], TypeError, "ragged"),
        ([("1", "2")], TypeError, "strings"),
        (np.array([(1, "2")], dtype=object), TypeError, "strings"),
    ],
    ids=range(6),
)
def test_no_bit_is_drawn_for_refused_data(
    data: Any, kind: type[Exception], message: str, adjacency: Adjacency
) -> None:
    with pytest.raises(kind, match=message):
        mean(adjacency=adjacency).release(data, NoBits())


EDGE = [0.0, -0.0, 0.5, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308]
WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE},
    {"outside": "mask"},
    {"outside": "mask", "adjacency": REPLACE, "noise_multiplier": "1e-3"},
    {"matrix": STRETCHED, "center": (1e-3, 7.0), "radius": 0.1},
    {"matrix": ((1e-9, 0), (0, 2e-9)), "radius": "1e-9"},
    {"matrix": ((1e200, 3e200), (0, -2e200)), "radius": 1e190},
    {"center": (1.7e308, -1.7e308), "radius": 1.7e308, "adjacency": REPLACE},
    {"radius": 5e-324},
    {"noise_multiplier": "1e-900"},
    {"noise_multiplier": "1e2000", "adjacency": REPLACE},
    {"noise_multiplier": "1e-900", "adjacency": REPLACE, "matrix": STRETCHED},
    {"count_weight": "1e-9"},
    {"count_weight": 500, "matrix": STRETCHED},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism, rng = mean(**parameters), np.random.default_rng(0)
    near = np.array(mechanism.center) / 2 + rng.normal(size=(6, 2)) * (
        float(Fraction(mechanism.radius)) / 16
    )
    rows = np.array([(x, y) for x in EDGE for y in EDGE])
    datasets: list[Any] = [rows[i : i + n] for n in (0, 1, 2, 20) for i in range(0, 60, 9)]
    datasets = [one for one in (*datasets, near, rows) if len(one) >= mechanism.fewest_records()]
    if mechanism.noise_multiplier > 1e-100:
        assert compare_facts(spec, mechanism, datasets) > len(datasets)
    else:  # too many digits for the code's enclosures: it may only be above
        stage = mechanism.fixed_plan[-1]
        lemma = stage.query.sensitivity(mechanism.adjacency, mechanism.domain).conclusion  # type: ignore[union-attr]
        most = max(spec.sensitivities(mechanism.parameters).values())
        assert most <= lemma.value <= most * (1 + Fraction(1, 10**9))
    for seed, data in enumerate(datasets):
        release = mechanism.release(data, SeededBits(seed))
        with np.errstate(all="raise"):
            again = mechanism.release(data, SeededBits(seed))
        assert type(again) is type(release)
        if isinstance(release, Estimate) and isinstance(again, Estimate):
            assert np.array_equal(release.value, again.value)
            assert np.isfinite(release.value).all()
            assert not np.isnan(release.covariance).any()
            assert (release.standard_deviation >= 0).all()
            assert release.count >= mechanism.at_least


def test_the_law_is_the_same_however_the_data_come() -> None:
    class Frame:
        def __init__(self, rows: Any) -> None:
            self.rows = rows

        def to_numpy(self) -> Any:
            return np.asfortranarray(self.rows)

    rows = np.random.default_rng(1).integers(0, 2, size=(40, 3))
    rows[3], rows[7] = (-1000, 5, 2), (0, 0, 0)
    mechanism = mean(3, center=(0.5, 0.25, 0), radius=1)
    query = mechanism.fixed_plan[0].query  # type: ignore[union-attr]
    expected = mechanism.law(rows).center(query).tolist()
    kinds: list[Any] = [
        rows.tolist(),
        list(map(tuple, rows)),
        Frame(rows),
        rows[::-1],
        rows.T.copy().T,
    ]
    kinds += [rows.astype(kind) for kind in ("f2", "f4", "f8", "i2", "i8", ">f8")]
    kinds += [np.random.default_rng(seed).permutation(rows) for seed in range(5)]
    for data in kinds:
        assert mechanism.law(data).center(query).tolist() == expected
    truths = np.abs(rows) % 2 == 1
    assert (
        mechanism.law(truths).center(query).tolist()
        == mechanism.law(truths + 0.0).center(query).tolist()
    )


@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_a_nonfinite_record_counts_as_the_center_when_replaced(outside: Any) -> None:
    mechanism = mean(center=(0.3, -7.0), nonfinite="replace", outside=outside)
    query = mechanism.fixed_plan[0].query  # type: ignore[union-attr]
    bad = [(np.nan, 1.0), (0.0, np.inf), (-np.inf, np.nan), (0.5, -7.0)]
    good = [(0.3, -7.0)] * 3 + [(0.5, -7.0)]
    assert mechanism.law(bad).center(query).tolist() == mechanism.law(good).center(query).tolist()


def test_a_release_is_a_draw_of_the_law() -> None:
    for parameters in ({}, {"adjacency": REPLACE}, {"outside": "mask", "matrix": STRETCHED}):
        mechanism, data = mean(**parameters), cloud(30, 2)
        for seed in range(5):
            one = mechanism.release(data, SeededBits(seed))
            drawn = mechanism.estimate(mechanism.law(data).sample(SeededBits(seed), 1)[0])
            assert repr(one) == repr(drawn)


@pytest.mark.parametrize("parameters", WORLDS[:7], ids=range(7))
def test_the_estimate_is_the_formula(parameters: dict[str, Any]) -> None:
    """center + C^-1 (sum / number), moved into the ball first, in exact numbers of 60 digits."""
    mechanism = mean(**parameters)
    ratio, public = spec.released(mechanism.parameters), spec.public_map(mechanism.parameters)
    unit = ratio.scale / 2**40
    for total, n in (((0, 0), 3), ((1, -2), 7), ((10**6, 10**5), 2), ((-3 * 10**7, 1), 5)):
        sums = tuple(round(t / unit) for t in total)
        if ratio.weight is None:
            name, counted = "sum", Fraction(n)
            estimate = mechanism.estimate(transcript({"count": (n,), "sum": sums}))
        else:
            number = round(n * ratio.weight / unit)
            name, counted = "sum and count", number * unit / ratio.weight
            estimate = mechanism.estimate(transcript({name: (*sums, number)}))
        assert isinstance(estimate, Estimate)
        assert estimate.count == float(counted)
        offset = [float(s * unit / counted) for s in sums]
        shrink = min(1.0, public.radius / max(math.hypot(*offset), 1e-300))
        matrix = np.eye(2) if public.matrix is None else np.array(public.matrix, dtype=float)
        moved = np.linalg.solve(matrix, np.array(offset) * shrink) * float(public.cell)
        assert np.allclose(estimate.value, np.array(mechanism.center) + moved, rtol=1e-9, atol=0)


@pytest.mark.parametrize("budget", [GaussianDP(1), GaussianDP("1/7"), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_noise_for_a_budget_is_the_least(
    budget: Any, outside: Any, adjacency: Adjacency
) -> None:
    made = ClippedMean.for_budget(
        budget, adjacency=adjacency, center=(0, 0, 0), radius=3, outside=outside
    )
    assert made.claim.guarantee == budget
    assert made.composed.implies(budget)
    less = made.noise_multiplier * (1 - Fraction(1, 10**6))
    with pytest.raises(ValueError, match=r"does not imply|not follow|imply"):
        dataclasses.replace(made, noise_multiplier=less)
    noise = made.fixed_plan[-1].noise  # type: ignore[union-attr]
    assert noise == RoundedGaussian(2**40)


def test_ten_thousand_columns_and_large_matrices_are_quick() -> None:
    """Generous: 60 times what it takes, so that a busy machine does not fail it."""
    start = time.perf_counter()
    wide = mean(10**4, adjacency=REPLACE)
    assert isinstance(wide.release(np.ones((20, 10**4)), SeededBits(1)), Estimate)
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(150, 150)))
    dense = mean(150, matrix=q, adjacency=REPLACE)
    again = dataclasses.replace(dense, noise_multiplier=Fraction(2))
    estimate = again.release(np.zeros((20, 150)), SeededBits(1))
    assert isinstance(estimate, Estimate)
    assert estimate.covariance.shape == (150, 150)
    assert time.perf_counter() - start < 60


def test_a_power_of_two_common_to_matrix_and_radius_changes_nothing() -> None:
    for power in (-400, -30, 30, 400):
        size = 2.0**power
        scaled = tuple(tuple(entry * size for entry in row) for row in STRETCHED)
        other = mean(matrix=scaled, radius=0.75 * size)
        assert other._query() == mean(matrix=STRETCHED, radius=0.75)._query()


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 0)], ids=str)
def test_a_pure_budget_is_told_what_to_give(budget: Guarantee) -> None:
    with pytest.raises(
        ValueError, match=r"no amount of Gaussian noise is pure DP; give an ApproxDP"
    ):
        ClippedMean.for_budget(budget, adjacency=ADD, center=(0, 0), radius=1)
    with pytest.raises(ValueError, match=r"is pure DP; give noise='laplace', or an ApproxDP"):
        NoisyCount.for_budget(budget, adjacency=ADD, noise="gaussian")
