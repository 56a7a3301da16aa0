"""``coordinatewise_mean``: by its spec's law on every dataset, within its error; the baseline it
is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ApproxDP, CoordinatewiseMean, GaussianDP, SeededBits
from dpverify import VectorMeanEstimate as Estimate
from dpverify.grid.transcripts import transcript
from dpverify.suite.refinement import compare_facts
from spec import coordinatewise_mean as spec
from spec.theory import centered
from spec.theory.coordinates import middle
from tests.mechanisms.centered import REPLACE, aware, normal, plain
from tests.mechanisms.helpers import (
    OF_NORMAL_NOISE,
    edge_rows,
    estimates,
    fails_at_most,
    mean_square_fits,
)
from tests.randomness.helpers import NoBits

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers"),
    ({"reach": -1}, ValueError, "is not positive"),
    ({"reach": float("inf")}, ValueError, "reach = inf is not finite"),
    ({"reach": 1e13}, ValueError, "too far for the deviations"),
    ({"deviations": (1.0, 2.0, 3.0)}, ValueError, "3 numbers for 2 columns"),
    ({"deviations": (1.0, None)}, TypeError, "deviations is a NoneType"),
    ({"clipped": 0}, ValueError, r"outside \[1e-100, 1\)"),
    ({"clipped": 1}, ValueError, "try '1e-6'"),
    ({"search_share": 2}, ValueError, r"outside \(0, 1\)"),
    ({"at_least": True}, TypeError, "give an integer"),
    ({"adjacency": "replace"}, TypeError, "write Adjacency"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        plain(**change)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    for data in ([(np.nan, 1.0)], [1.0, 2.0], [(1.0, 2.0, 3.0)], [("1", "2")]):
        with pytest.raises((ValueError, TypeError), match=r"not finite|shape|columns|strings"):
            plain(adjacency=adjacency).release(data, NoBits())
    with pytest.raises(ValueError, match=r"have 0 records.*needs at least 1"):
        plain(adjacency=REPLACE).release(np.zeros((0, 2)), NoBits())


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    "own", [{}, {"deviations": (1e-3, 9.0)}, {"reach": "1e-2", "clipped": "1/2"}]
)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    adjacency: Adjacency, own: dict[str, Any]
) -> None:
    mechanism = plain(adjacency=adjacency, **own)
    datasets = [one for one in edge_rows() if len(one) >= mechanism.fewest_records()]
    assert compare_facts(spec, mechanism, datasets) > len(datasets)
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise"):
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (Estimate, Abstained))
        if isinstance(release, Estimate):
            assert np.isfinite(release.value).all()


def test_the_estimate_is_the_formula() -> None:
    """median + noisy sum / number in the map's units, for a written transcript, in exact
    numbers."""
    mechanism = plain(adjacency=REPLACE, extra_steps=0, noise_multiplier=1)
    unit = 2**40
    released = {
        "side 1": (3 * unit, -3 * unit),
        "side 2": (unit, -unit),
        "side 3": (unit, -unit),
        "count": (10,),
        "sum": (unit // 4, -unit // 2),
    }
    estimate = mechanism.estimate(transcript(released))
    assert isinstance(estimate, Estimate)
    steps = [[released[f"side {k}"][j] for k in (1, 2, 3)] for j in (0, 1)]
    medians = [8 * middle(values) for values in steps]
    assert medians == [6, -6]
    stretch, radius = spec.ball(mechanism.parameters, tuple(released.values()))
    scale = radius * centered.sum_scale(mechanism.parameters, Fraction(3, 4))
    for j, value in enumerate(estimate.value.tolist()):
        moved = released["sum"][j] * scale / unit / 10 * stretch.cells[j] / stretch.factors[j]
        assert value == pytest.approx(
            float(stretch.center[j] * stretch.cells[j] + moved), rel=1e-12
        )


@pytest.mark.parametrize("budget", [GaussianDP("1/3"), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_budget_is_met_with_the_least_noise(budget: Any, adjacency: Adjacency) -> None:
    made = CoordinatewiseMean.for_budget(
        budget, adjacency=adjacency, center=(0, 0), reach=9, deviations=(1, 2)
    )
    assert made.claim.guarantee == budget
    less = made.noise_multiplier * (1 - Fraction(1, 10**6))
    louder = CoordinatewiseMean(
        adjacency=adjacency, noise_multiplier=less, center=(0, 0), reach=9, deviations=(1, 2)
    )
    assert not louder.claim.guarantee.implies(budget)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_error_is_the_predicted_one_and_within_its_bound(adjacency: Adjacency) -> None:
    """1000 releases from one dataset of 400 records; the helper states the false alarm."""
    mechanism = plain(3, adjacency=adjacency, extra_steps=1, reach=4)
    data = normal(400, (1.0,) * 3, mean=1.0)
    releases = estimates(mechanism, data, 3, OF_NORMAL_NOISE)
    errors = np.linalg.norm(np.array([one.value for one in releases]) - data.mean(axis=0), axis=1)
    predicted = float(spec.expected_error(mechanism.parameters, 400))
    assert mean_square_fits(errors.tolist(), predicted, OF_NORMAL_NOISE)
    assert not mean_square_fits((1.3 * errors).tolist(), predicted, OF_NORMAL_NOISE)
    stretch, _ = spec.ball(mechanism.parameters, ((0, 0, 0),) * 4)
    unit = float(stretch.cells[0] / stretch.factors[0])
    bound = float(spec.error_bound(mechanism.parameters, 400, Fraction(1, 20)))
    assert fails_at_most((errors / unit).tolist(), bound, 0.05)
    assert not fails_at_most((errors / unit).tolist(), bound / 6, 0.05)


def test_columns_of_unlike_spreads_cost_this_one_more() -> None:
    """Deviations 1, 1/2, ..., 1/50: 2 sqrt(d t) against 2 sum s_j is 4 times the noise, and the
    radius more. Mean squares of 10 releases each vary by less than 2 times; the ratio is 10 and
    more."""
    spreads = 1.0 / np.arange(1, 51)
    own: dict[str, Any] = {"adjacency": REPLACE, "deviations": tuple(spreads.tolist())}
    squares: dict[str, float] = {}
    for kind, made in (("plain", plain(50, **own)), ("aware", aware(50, **own))):
        squares[kind] = 0.0
        for seed in range(10):
            estimate = made.release(normal(1500, spreads, seed=seed), SeededBits(seed))
            assert isinstance(estimate, Estimate)
            squares[kind] += float(((estimate.value - 3.0) ** 2).sum())
    assert squares["plain"] > 5 * squares["aware"]
