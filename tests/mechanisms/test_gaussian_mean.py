"""``gaussian_mean``: by its spec's law on every dataset, within its error, of whole and of
truncated records, wherever the mean is."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    GaussianDP,
    GaussianMean,
    HalfSpace,
    InsideBall,
    OutsideBall,
    SeededBits,
)
from dpverify import VectorMeanEstimate as Estimate
from dpverify.grid.transcripts import transcript
from dpverify.plans.plan import stages_of
from dpverify.suite.refinement import compare_facts
from spec import gaussian_mean as spec
from spec.theory import clipped_response
from tests.mechanisms.centered import ADD, REPLACE, normal
from tests.mechanisms.helpers import edge_rows, estimates, fails_at_most
from tests.randomness.helpers import NoBits

OUTSIDE: tuple[Literal["clip", "mask"], ...] = ("clip", "mask")


def made(d: int = 2, **parameters: Any) -> GaussianMean:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "deviations": (1.0,) * d,
    }
    return GaussianMean(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers"),
    ({"reach": -1}, ValueError, "is not positive"),
    ({"reach": 1e13}, ValueError, "too far for the deviations"),
    ({"center": (0.0, 1e9)}, ValueError, "Subtract a public constant"),
    ({"deviations": (1.0, 2.0, 3.0)}, ValueError, "3 numbers for 2 columns"),
    ({"deviations": (1.0, 0.0)}, ValueError, "0.0 is not positive"),
    ({"deviations": (1e-200, 1e200)}, ValueError, "columns in units that are more alike"),
    ({"outside": "drop"}, ValueError, "write 'clip' or 'mask'"),
    ({"search_share": "1/2", "warm_share": "1/2"}, ValueError, "leaves nothing for the last sum"),
    ({"search_share": 2}, ValueError, r"outside \(0, 1\)"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
    ({"extra_steps": -1}, ValueError, "give an integer >= 0"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        made(**change)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    for data in ([(np.nan, 1.0)], [1.0, 2.0], [(1.0, 2.0, 3.0)], [("1", "2")]):
        with pytest.raises((ValueError, TypeError), match=r"not finite|shape|columns|strings"):
            made(adjacency=adjacency).release(data, NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match=r"have 9 records.*needs at least"):
            made(adjacency=REPLACE).release(np.zeros((9, 2)), NoBits())


@pytest.mark.parametrize(
    ("adjacency", "own"),
    [
        (ADD, {}),
        (REPLACE, {}),
        (ADD, {"outside": "mask"}),
        (REPLACE, {"outside": "mask"}),
        (ADD, {"deviations": (1e-3, 9.0), "reach": 9}),
        (ADD, {"outside": "mask", "kept": InsideBall(0.5)}),
        (REPLACE, {"outside": "mask", "kept": HalfSpace((1e300, -1e-300), 0.0)}),
        (
            REPLACE,
            {"outside": "mask", "kept": OutsideBall(1.5), "deviations": (1e-3, 9.0), "reach": 9},
        ),
        (
            REPLACE,
            {"covariance": ((1.0, -0.6), (-0.6, 3.0)), "deviations": None, "center": (0.3, -7.0)},
        ),
        (
            ADD,
            {
                "covariance": ((1e-6, 0.5), (0.5, 1e6)),
                "deviations": None,
                "outside": "mask",
                "kept": HalfSpace((3.0, 1e-4), 2.0),
            },
        ),
        (REPLACE, {"noise_multiplier": 10**9}),
    ],
)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    adjacency: Adjacency, own: dict[str, Any]
) -> None:
    mechanism = made(adjacency=adjacency, at_least=1, **own)
    datasets = [one for one in edge_rows() if len(one) >= mechanism.fewest_records()]
    assert compare_facts(spec, mechanism, datasets[::2]) > len(datasets)
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (Estimate, Abstained))
        if isinstance(release, Estimate):
            assert np.isfinite(release.value).all()


@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_the_estimate_is_the_mean_whose_limited_records_have_the_released_one(
    outside: Literal["clip", "mask"],
) -> None:
    """Compare for a written transcript, by the spec's numbers."""
    mechanism = made(adjacency=REPLACE, reach=8, extra_steps=0, at_least=400, outside=outside)
    unit = 2**40
    joint = outside == "mask"
    released: dict[str, Any] = {f"side {k}": (3 * unit, -3 * unit) for k in (1, 2, 3)}
    for name, x, y in (("warm sum", 3, -8), ("sum", 40, 31)):
        released[name] = (x * unit, y * unit)
        if joint:
            released[name] += (190 * unit if name == "sum" else 47 * unit,)
    if joint:
        released["sum and count"] = released.pop("sum")
    last = released.pop("sum and count" if joint else "sum")
    released |= {"count": (500,), "sum and count" if joint else "sum": last}
    estimate = mechanism.estimate(transcript(released))
    assert isinstance(estimate, Estimate)
    public, radius = spec.last_ball(mechanism.parameters, tuple(released.values()))
    per = float(radius * spec.scale(mechanism.parameters, spec.sum_share(mechanism.parameters)))
    count = 190 * per / (radius * spec.weight(mechanism.parameters)) if joint else 500
    place = [float(c * cell) for c, cell in zip(public.center, public.cells, strict=True)]
    told = (estimate.value - place) * float(public.factors[0] / public.cells[0])
    size = float(spec.deviation(mechanism.parameters))
    length = float(np.linalg.norm(told)) / size
    at = clipped_response.moment(2, radius * 1024 / size, length, outside)
    wanted = np.array([40 * per, 31 * per]) / count
    assert np.allclose(told * float(at.ratio), wanted, rtol=1e-9)
    assert estimate.count == pytest.approx(count)


def test_a_mean_far_from_the_center_is_an_outcome() -> None:
    mechanism = made(1, adjacency=REPLACE, reach=8, extra_steps=0, at_least=1)
    unit = 2**40
    released = {f"side {k}": (3 * unit,) for k in (1, 2, 3)}
    released |= {"warm sum": (0,), "count": (500,), "sum": (10**6 * unit,)}
    outcome = mechanism.estimate(transcript(released))
    assert isinstance(outcome, Abstained)
    assert "too far from the released center" in outcome.reason


@pytest.mark.parametrize("budget", [GaussianDP("1/3"), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_a_budget_is_met_with_the_least_noise(
    budget: Any, adjacency: Adjacency, outside: Any
) -> None:
    own: dict[str, Any] = {"adjacency": adjacency, "center": (0, 0), "deviations": (1, 2)}
    mechanism = GaussianMean.for_budget(budget, outside=outside, **own)
    assert mechanism.claim.guarantee == budget
    less = mechanism.noise_multiplier * (1 - Fraction(1, 10**6))
    louder = GaussianMean(noise_multiplier=less, outside=outside, **own)
    assert not louder.claim.guarantee.implies(budget)


def test_the_error_is_the_predicted_one_and_within_its_bound() -> None:
    """25 datasets of 1500 records in each of four ways, one release each: mean squares over the
    predicted ones are chi-square, of 1000 degrees together, of deviation .045, so that they are off
    by more than .235 with probability below 1e-6; of 250 degrees in each way, off by more than .5
    likewise. The helper states the other false alarm."""
    squares: list[float] = []
    over: list[float] = []
    for adjacency, outside in product(Adjacency, OUTSIDE):
        mechanism = made(10, adjacency=adjacency, outside=outside, noise_multiplier=5, reach=16)
        parameters = mechanism.parameters
        predicted = float(spec.expected_error(parameters, 1500))
        bound = float(spec.error_bound(parameters, 1500, Fraction(1, 20)))
        for seed in range(len(squares), len(squares) + 25):
            estimate = mechanism.release(normal(1500, (1.0,) * 10, seed=seed), SeededBits(seed))
            assert isinstance(estimate, Estimate)
            off = float(np.linalg.norm(estimate.value - 3.0))
            squares.append((off / predicted) ** 2)
            over.append(off / bound)
        assert abs(np.mean(squares[-25:]) - 1) < 0.5
        assert mechanism.expected_error(1500) == pytest.approx(
            float(spec.noise_error(parameters, 1500)), rel=1e-6
        )
    assert abs(np.mean(squares) - 1) < 0.235
    assert fails_at_most(over, 1.0, 0.05)
    assert not fails_at_most(over, 1 / 16, 0.05)


def test_intervals_hold_the_mean_without_noise() -> None:
    """400 releases of one dataset: of 4 coordinates each at 90%; fewer than 85% of 1600 has
    probability below 1e-8 (they are independent across releases: a binomial law's sum over
    coordinates of variance at most 16 * 400 * .09)."""
    mechanism = made(4, noise_multiplier=4, reach=16)
    data = normal(1500, (1.0,) * 4)
    quiet = made(4, noise_multiplier=Fraction(1, 50), reach=16, at_least=mechanism.least())
    settled = estimates(quiet, data, 1, 20)
    target = np.mean([one.value for one in settled], axis=0)
    held = [
        (low <= target) & (target <= high)
        for one in estimates(mechanism, data, 2, 400)
        for low, high in (one.interval(0.9),)
    ]
    assert np.mean(held) > 0.85


@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_the_mean_may_be_anywhere(outside: Literal["clip", "mask"]) -> None:
    """Up to 4e5 deviations away the error is the same: 4 means of 5 columns, expected length .1;
    5 times that is 10^-9."""
    mechanism = GaussianMean.for_budget(
        ApproxDP(1, "1e-6"),
        adjacency=REPLACE,
        center=(0.0,) * 5,
        deviations=(1e3,) * 5,
        outside=outside,
    )
    for seed, far in enumerate((0.0, 8.0, 1e3, 4e5)):
        mean = 1e3 * far * np.array([1, -1, 0.3, 0.001, 0.9])
        estimate = mechanism.release(normal(2000, (1e3,) * 5, mean, seed), SeededBits(seed))
        assert isinstance(estimate, Estimate)
        assert np.linalg.norm(estimate.value - mean) < 500


def test_columns_of_unlike_deviations() -> None:
    """Errors over deviations: of 60 releases the mean square is within 1.5 times the prediction
    for equal ones (its own deviation is a tenth)."""
    spreads = (1.0, 7.0, 1e-3, 20.0)
    mechanism = made(4, deviations=spreads, noise_multiplier=4, reach=40)
    errors = []
    for seed in range(60):
        estimate = mechanism.release(normal(1500, spreads, 1.0, seed), SeededBits(seed))
        assert isinstance(estimate, Estimate)
        errors.append(float((((estimate.value - 1.0) / spreads) ** 2).sum()))
    assert np.mean(errors) < 1.5 * float(spec.expected_error(mechanism.parameters, 1500)) ** 2


def test_what_is_no_normal_law_has_a_typed_outcome() -> None:
    """Equal records, two far clusters, nobody, one record."""
    mechanism = made(1)
    clusters = np.array([-1e4, 1e4] * 400)[:, np.newaxis]
    datasets: list[Any] = [np.full((800, 1), 7.25), clusters, np.zeros((0, 1)), [[1.0]]]
    for seed, data in enumerate(datasets):
        release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (Estimate, Abstained))
        if seed == 0:
            assert isinstance(release, Estimate)
            assert abs(release.value[0] - 7.25) < 0.2
        if seed >= 2:
            assert isinstance(release, Abstained)


@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_a_shift_of_data_and_center_shifts_the_estimate(outside: Any) -> None:
    """Shift by a power of two: what is released is the same, bit for bit."""
    data, own = normal(900, (1.0,) * 3), made(3, outside=outside, reach=64)
    moved = made(3, outside=outside, reach=64, center=(1024.0,) * 3)
    data = np.round(data * 2**20) / 2**20
    first, other = own.release(data, SeededBits(1)), moved.release(data + 1024.0, SeededBits(1))
    assert isinstance(first, Estimate)
    assert isinstance(other, Estimate)
    assert np.allclose(other.value - 1024.0, first.value, rtol=0, atol=1e-9)


def test_a_thousand_columns() -> None:
    """The error is the predicted length to a tenth (1000 degrees: its deviation is a 45th)."""
    mechanism = made(1000, noise_multiplier=Fraction(1, 2), adjacency=REPLACE)
    estimate = mechanism.release(normal(6000, (1.0,) * 1000, 100.0), SeededBits(0))
    assert isinstance(estimate, Estimate)
    predicted = float(spec.expected_error(mechanism.parameters, 6000))
    assert np.linalg.norm(estimate.value - 100.0) == pytest.approx(predicted, rel=0.12)


def test_order_of_rows_does_not_matter() -> None:
    mechanism, data = made(3), normal(900, (1.0,) * 3)
    first = mechanism.release(data, SeededBits(1))
    other = mechanism.release(data[::-1], SeededBits(1))
    assert isinstance(first, Estimate)
    assert isinstance(other, Estimate)
    assert first.value.tolist() == other.value.tolist()


def test_records_that_are_needed_are_told() -> None:
    """Compare numbers: under add-remove minimum_n is a little above at_least; expected errors
    are infinite below it."""
    mechanism = made(20, noise_multiplier=4)
    assert mechanism.least() < mechanism.minimum_n() < 2 * mechanism.least()
    assert mechanism.expected_error(mechanism.least() - 1) == math.inf
    assert mechanism.expected_error(mechanism.least()) < 1
    masked = made(20, noise_multiplier=4, outside="mask")
    assert masked.needed() == -(-masked.least() // 8)
    assert masked.least() < masked.minimum_n() < 2 * masked.least()


@pytest.mark.parametrize(("d", "outside"), [(1, "mask"), (5, "clip")])
def test_so_many_records_hardly_ever_abstain(d: int, outside: Literal["clip", "mask"]) -> None:
    """Release under add-remove at the number for a thousandth: of 20 releases of each of three
    datasets 3 abstain with probability below 1e-4, if the promise holds."""
    mechanism = GaussianMean.for_budget(
        ApproxDP(1, "1e-6"),
        adjacency=ADD,
        center=(0.0,) * d,
        deviations=(1.0,) * d,
        outside=outside,
    )
    n, releases = mechanism.minimum_n(), []
    for seed in range(3):
        law = mechanism.law(np.random.default_rng(seed).normal(size=(n, d)))
        batch = law.sample(SeededBits(seed), 20)
        releases += [mechanism.estimate(batch[i]) for i in range(20)]
    assert sum(isinstance(one, Abstained) for one in releases) < 3


def test_intervals_are_wide_enough_along_the_offset() -> None:
    """Few records in one column, whose released ball is off: the mean's noise goes by the slope,
    not the ratio.

    Errors over their stated deviations, against the noise-free value of the same ball, have a
    mean square within .2 of 1 over 400 releases (three standard errors; the seeds are fixed);
    by the ratio it is 1.5.
    """
    mechanism = GaussianMean.for_budget(
        ApproxDP(1, "1e-6"),
        adjacency=REPLACE,
        center=(0.0,),
        deviations=(1.0,),
        reach=64,
        at_least=1,
    )
    data = np.random.default_rng(5).normal(20.3, 1.0, (120, 1))
    law = mechanism.law(data)
    last = stages_of(mechanism.fixed_plan)[-1]
    batch, scores = law.sample(SeededBits(0), 400), []
    for i in range(400):
        one = batch[i]
        estimate = mechanism.estimate(one)
        _, center = law.built_after(last, [*one.released.values()][:-1])
        truth = mechanism.estimate(transcript({**one.released, last.name: tuple(center.tolist())}))
        if isinstance(estimate, Estimate) and isinstance(truth, Estimate):
            scores.append(float((estimate.value - truth.value)[0] / estimate.standard_deviation[0]))
    assert len(scores) > 300
    assert np.mean(np.square(scores)) == pytest.approx(1, abs=0.2)
