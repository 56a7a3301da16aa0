"""``unknown_covariance_mean``: what it estimates, its refusals, and that its numbers are the
spec's."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    GaussianDP,
    SeededBits,
    UnknownCovarianceMean,
)
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.estimation.rough_covariance import root_above, rough
from dpverify.estimation.variance_ladder import bucket_from, buckets_from
from dpverify.grid.groups import SumOver
from dpverify.grid.transcripts import Transcripts, transcript
from dpverify.plans import stages_of
from dpverify.plans.calibrating import least_multiplier
from dpverify.privacy import Guarantee, calibrate
from dpverify.privacy.guarantees import ApproximateGaussianDP
from spec import unknown_covariance_mean as spec
from spec.theory import rough_covariance
from tests.mechanisms.helpers import EDGE_DATA
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def made(**parameters: Any) -> UnknownCovarianceMean:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "d": 3, "reports": 2}
    return UnknownCovarianceMean(**base | {"n_max": 4000, "tail": "1e-7"} | parameters)


@pytest.mark.parametrize(
    ("adjacency", "cell", "reports"),
    [
        (adjacency, cell, 1 + 2 * ((i + j) % 2))
        for i, cell in enumerate((Fraction(1), Fraction(2) ** -400, Fraction(2) ** 400))
        for j, adjacency in enumerate(Adjacency)
    ],
)
def test_every_dataset_has_a_release(adjacency: Adjacency, cell: Any, reports: int) -> None:
    """Release also with so little noise that every vote surfaces."""
    mechanism = made(
        adjacency=adjacency, cell=cell, reports=reports, noise_multiplier="1/1000", n_max=60
    )
    for data in EDGE_DATA:
        rows = np.repeat(np.array(data, np.float64).reshape(-1, 1), 3, axis=1)
        for own in (rows, rows * np.array([1.0, 0.0, 2.0**-300])):
            release = mechanism.release(own, SeededBits(1))
            assert isinstance(release, (VectorMeanEstimate, Abstained))
            if isinstance(release, VectorMeanEstimate):
                assert np.isfinite(release.value).all()


def test_histograms_of_any_width_make_one_plan() -> None:
    """The others' votes have as many buckets as the data: that is no shape that a stage must
    keep."""
    rng = np.random.default_rng(2)
    data = rng.normal(size=(4000, 3)) * np.array([0.0, 8.0, 0.0])
    mechanism = made(reports=1, noise_multiplier="1/2", depth=3)
    declared: Any = next(s for s in stages_of(mechanism.fixed_plan) if s.name == "others")
    law = mechanism.law(data)
    widths = {len(law.center(declared.query))}
    for seed in range(5):
        transcript = law.sample(SeededBits(seed), 1)[0]
        row = np.array([*transcript.released["report 1"]], np.int64)
        query = replace(declared.query, statistic=SumOver((0, 2)))
        widths.add(len(law.center(query)))
        assert row[0] % 3 == 1  # the column that was left out of the others
        assert isinstance(mechanism.estimate(transcript), VectorMeanEstimate)
    assert min(widths) == 1 < max(widths)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_error_is_the_predicted_one(adjacency: Adjacency, power: float) -> None:
    """20 releases on one dataset: the root mean square over the prediction has a relative
    deviation of 0.07 (d = 5, chi-square), and the typical levels may be one off, a factor 2:
    false alarm below 1e-6."""
    d, n = 5, 20_000
    mechanism = made(adjacency=adjacency, d=d, n_max=n, reports=3, noise_multiplier="1/2")
    data = np.random.default_rng(7).normal(size=(n, d)) * np.arange(1.0, d + 1) ** -power - 40.0
    law = mechanism.law(data)
    batch = law.sample(SeededBits(0), 20)
    estimates = [mechanism.estimate(batch[i]) for i in range(20)]
    values = [e.value for e in estimates if isinstance(e, VectorMeanEstimate)]
    assert len(values) == 20
    off = np.sqrt(np.mean([np.sum((value - data.mean(axis=0)) ** 2) for value in values]))
    predicted = float(spec.noise_error(mechanism.parameters, n, 1, power))
    assert predicted / 2 <= off <= 2 * predicted


def test_the_noise_follows_the_variances_and_not_the_dimension() -> None:
    """Deviations j^-2 add up to less than 1.7 whatever d, and those of all columns alike to d."""
    means = {}
    for d, power in ((4, 2), (64, 2), (64, 0)):
        mechanism = made(d=d, n_max=50_000, reports=4)
        means[d, power] = float(spec.noise_error(mechanism.parameters, 50_000, 1, power))
    assert means[64, 2] < 3 * means[4, 2]
    assert means[64, 0] > 8 * means[64, 2]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_mean_s_parameters_are_the_spec_s(adjacency: Adjacency) -> None:
    """M, radii and multipliers after several transcripts, number for number."""
    mechanism = made(adjacency=adjacency, d=4, reports=2, noise_multiplier="7/3")
    asked = mechanism.ladder().asked
    for top, places, others in (
        (0, (0, 1), 0),
        (21, (3, 6), 20),
        (40, (asked, asked), 0),
        (5, (7, asked), 40),
        (17, (2, 2), 12),
    ):
        row = (top, *places, others)
        prefix = ((top, 9), *((p,) for p in places), (others, 9))
        expected = spec.mean_part(mechanism.parameters, prefix)
        shipped = mechanism.mean_for(row).parameters
        for name in ("matrix", "radius", "record_radius", "n_max", "tail"):
            assert shipped[name] == expected[name], name
        for name in ("noise_multiplier", "center_multiplier"):
            assert shipped[name] == expected[name], name


def test_a_rough_covariance_is_the_spec_s() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        d = int(rng.integers(1, 9))
        named = rng.permutation(d)[: int(rng.integers(0, d + 1))]
        levels = {int(i): int(rng.integers(-20, 41)) for i in named}
        below, others = int(rng.integers(-20, 41)), int(rng.integers(0, 41))
        cell, n_max = Fraction(2) ** int(rng.integers(-30, 30)), int(rng.integers(2, 10**6))
        covariance = rough(levels, below, others, d, cell, n_max)
        expected = rough_covariance.diagonal(levels, below, others, d, cell, n_max)
        assert (covariance.matrix, covariance.record_radius) == expected
    for square in (Fraction(2), Fraction(1, 10**40), Fraction(10**40) + Fraction(1, 7)):
        assert square < root_above(square) ** 2 < square * (1 + Fraction(1, 2**18))


def test_buckets_of_a_batch() -> None:
    votes = [(), (-1024, 9), (2, 5, 3, 7), (2, 7, 3, 7), (90, 1)]
    column = np.empty(5, object)
    column[:] = votes
    expected = [0, 0, 3, 2, 40]
    assert [bucket_from(v) for v in votes] == expected
    batch = Transcripts({"votes": column}, np.ones(5, np.intp), np.full(5, -1, np.intp))
    assert buckets_from("votes").reads == ("votes",)
    assert buckets_from("votes")(batch)[:, 0].tolist() == expected
    assert buckets_from("votes")(transcript({"votes": (2, 5, 3, 7)})).tolist() == [[3]]


def test_it_abstains_where_nothing_surfaces() -> None:
    mechanism = made(d=2)
    for data in (np.zeros((0, 2)), np.ones((1, 2))):
        for seed in range(3):
            release = made(d=2, n_max=40).release(data, SeededBits(seed))
            assert isinstance(release, Abstained)
    assert isinstance(mechanism.estimate(transcript({"largest": ()}, "stopped")), Abstained)


def test_a_threshold_that_jumps_over_the_budget_is_approached_by_decisions() -> None:
    """No secant leads to a jump. Planted: 24 guesses of a delta were made, and then all was
    searched, 72 multipliers in all.
    """
    budget, asked = ApproxDP(1, "1e-6"), list[Fraction]()
    base = made(tail="5e-8", d=10, reports=1, n_max=10_000)

    def claimed(multiplier: Fraction) -> Guarantee:
        asked.append(multiplier)
        return replace(base, noise_multiplier=multiplier).claim.guarantee

    least = least_multiplier(claimed, budget)
    below, above = (
        claimed(least * (1 + side * Fraction(1, 1 << 49))).delta_at(1).upper for side in (-1, 1)
    )
    assert above < budget.delta * Fraction(99, 100)  # it does jump
    assert budget.delta < below < budget.delta * Fraction(101, 100)
    assert len(asked) < 60


def test_reports_by_the_rule() -> None:
    """Report as many as the groups carry: more with more records, at most d, at least 1."""
    budget = ApproxDP(1, "1e-6")
    mechanisms = [
        UnknownCovarianceMean.for_budget(budget, adjacency=ADD, d=50, n_max=n)
        for n in (2000, 100_000, 10**6)
    ]
    numbers = [one.reports for one in mechanisms]
    assert numbers[0] == 1
    assert numbers[0] < numbers[1] < numbers[2] == 50
    assert all(one.claim.guarantee == budget for one in mechanisms)
    assert mechanisms[2].minimum_n(beta="0.1") <= 10**6


@pytest.mark.parametrize(("d", "n"), [(3, 400), (50, 100_000), (1000, 100_000), (300, 4 * 10**6)])
def test_reports_by_the_specs_rule(d: int, n: int) -> None:
    """The default number of reports is the spec's, with no bound of its own below a quarter of
    the columns."""
    mechanism = UnknownCovarianceMean.for_budget(ApproxDP(1, "1e-6"), adjacency=ADD, d=d, n_max=n)
    mu = calibrate(lambda mu: ApproximateGaussianDP(mu, 3 * mechanism.tail, 0), ApproxDP(1, "1e-6"))
    multiplier = Fraction(1 / math.sqrt(float(mu.mu_squared)))  # as if reports were Gaussian
    given = {**mechanism.parameters, "noise_multiplier": multiplier}
    assert mechanism.reports == spec.reports_by_rule(given)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"reports": 0}, r"reports = 0 is outside 1..3"),
        ({"n_max": 1}, r"groups of two need 2 records"),
        ({"groups": 3000}, r"4000 records \(n_max\) make 1 to 2000 groups"),
        ({"depth": 31}, r"at most 30 levels"),
        ({"cell": Fraction(2) ** 420}, r"2\^-400..2\^400"),
        ({"tail": "1/2"}, r"outside \(0, 1/10\)"),
        ({"votes_share": 0}, r"votes_share = 0"),
        ({"ladder_share": "9/10"}, r"leaves nothing for the mean"),
        ({"reach": 0}, r"reach = 0 is not positive"),
    ],
)
def test_bad_parameters_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**parameters)


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="say which"):
        UnknownCovarianceMean.for_budget(GaussianDP(1), adjacency=ADD, d=2, n_max=100)
    with pytest.raises(ValueError, match="Raise n_max or the budget"):
        made(n_max=200).minimum_n()
    with pytest.raises(ValueError, match="columns"):
        made().release(np.zeros((4, 2)), NoBits())
