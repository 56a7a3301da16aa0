"""``variance_aware_mean``: on every dataset, by its spec's law, within its error, and refused
before draws."""

from __future__ import annotations

import dataclasses
import time
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ApproxDP, GaussianDP, SeededBits, VarianceAwareMean
from dpverify import VectorMeanEstimate as Estimate
from dpverify.grid.transcripts import transcript
from dpverify.plans import RoundedGaussian, stages_of
from dpverify.plans.search import Search
from dpverify.suite.refinement import compare_facts
from spec import variance_aware_mean as spec
from spec.theory.coordinates import middle
from tests.mechanisms.centered import ADD, REPLACE, aware, normal
from tests.mechanisms.helpers import edge_rows, estimates, fails_at_most
from tests.randomness.helpers import NoBits

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": ()}, ValueError, "center is empty"),
    ({"center": (0.0, float("nan"))}, ValueError, "give finite numbers"),
    ({"reach": 0}, ValueError, "reach = 0 is not positive; give a public distance"),
    ({"reach": 1.7e308, "center": (1e308, 0.0)}, ValueError, "together leave the floats"),
    ({"deviations": None}, ValueError, "Give either deviations"),
    ({"least_deviation": 1}, ValueError, "Give either deviations"),
    ({"deviations": (1.0,)}, ValueError, "1 numbers for 2 columns"),
    ({"deviations": (1.0, 0.0)}, ValueError, "leave out a column that is known to be constant"),
    ({"deviations": (1.0, -1.0)}, ValueError, "is not positive"),
    ({"deviations": (1.0, 1e-12)}, ValueError, "too far for the deviations"),
    ({"extra_steps": 60}, ValueError, "steps; a search takes from 1 to 50"),
    ({"deviations": None, "least_deviation": 0}, ValueError, "is not positive; give the least"),
    ({"deviations": None, "least_deviation": 9}, ValueError, "give a number from 1 to"),
    ({"deviations": None, "least_deviation": 1e-9}, ValueError, "give a number from 1 to"),
    ({"search_share": 0}, ValueError, r"outside \(0, 1\)"),
    ({"norm_share": 1}, ValueError, r"outside \(0, 1\)"),
    ({"norm_share": "3/4"}, ValueError, "leaves nothing for the sum"),
    ({"extra_steps": -1}, ValueError, "give an integer >= 0"),
    ({"extra_steps": 1.0}, TypeError, "give an integer"),
    ({"radii": ()}, ValueError, "give at least one"),
    ({"radii": (2, 1)}, ValueError, "in increasing order"),
    ({"radii": (1, 65)}, ValueError, "to 64"),
    ({"radii": 3}, TypeError, "give a sequence of multiples"),
    ({"one_in": 1}, ValueError, "at least 2"),
    ({"at_least": 0}, ValueError, "a mean needs at least 1 record"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0, 0.0),
        "reach": 8,
        "deviations": (1.0, 1.0),
    }
    with pytest.raises(kind, match=message):
        VarianceAwareMean(**base | change)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    for data in ([(1.0, np.inf)], [1.0, 2.0], [(1.0, 2.0, 3.0)], [("1", "2")]):
        with pytest.raises((ValueError, TypeError), match=r"not finite|shape|columns|strings"):
            aware(adjacency=adjacency).release(data, NoBits())
    for n in (0, 1, 2):
        mechanism = aware(adjacency=REPLACE, at_least=3)
        with pytest.raises(ValueError, match=rf"have {n} records?.*needs at least 3"):
            mechanism.release(np.zeros((n, 2)), NoBits())


WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE},
    {"least_deviation": 1},
    {"least_deviation": "1e-4", "adjacency": REPLACE, "noise_multiplier": "1e-3"},
    {"deviations": (1e-3, 5.0), "center": (1e-3, 7.0), "reach": "1/3"},
    {"deviations": (1e302, 3e302), "reach": 1.5e308},
    {"deviations": (5e-324, 1e-322), "reach": 1e-319},
    {"least_deviation": 2e302, "reach": 1e308, "adjacency": REPLACE},
    {"noise_multiplier": "1e-60", "adjacency": REPLACE},
    {"noise_multiplier": "1e60"},
    {"radii": (64,), "one_in": 10**9, "extra_steps": 0},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = aware(**parameters)
    datasets = [one for one in edge_rows() if len(one) >= mechanism.fewest_records()]
    if mechanism.noise_multiplier > 1e-9:  # else too many digits for the code's enclosures
        assert compare_facts(spec, mechanism, datasets[::3]) > len(datasets)
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise"):
            release = mechanism.release(data, SeededBits(seed))
        if isinstance(release, Estimate):
            assert np.isfinite(release.value).all()
            assert (release.standard_deviation >= 0).all()
            assert release.count >= mechanism.least()
        else:
            assert isinstance(release, Abstained)


@pytest.mark.parametrize("parameters", [{}, {"adjacency": REPLACE, "least_deviation": "1/8"}])
def test_every_stage_built_from_a_transcript_is_the_spec_s(parameters: dict[str, Any]) -> None:
    """Along transcripts that were drawn, not only where everything is zero; no chance in the
    verdict."""
    mechanism, data = aware(**parameters), normal(40, (1.0, 0.25))
    law, records = mechanism.law(data), [tuple(map(Fraction, row)) for row in data.tolist()]
    expected = spec.law(mechanism.parameters, records)
    batch = law.sample(SeededBits(5), 20)
    for i in range(20):
        outcomes = tuple(batch[i].released.values())
        for k, element in enumerate(mechanism.fixed_plan):
            stage: Any
            part = cast(Any, element)
            (stage, _), *_ = law._built.of(part, law._root(), batch[i], np.array([0]))
            specified: Any = expected.stages[k][1](outcomes[:k])
            center = specified.center if hasattr(specified, "center") else specified.value
            assert tuple(law.center(stage.query).tolist()) == tuple(center), stage.name


@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("own", [{"deviations": (1.0, 2.0, 3.0)}, {"least_deviation": "1/4"}])
def test_the_noise_for_a_budget_is_the_least(budget: Any, adjacency: Adjacency, own: Any) -> None:
    made = VarianceAwareMean.for_budget(
        budget, adjacency=adjacency, center=(0, 0, 0), reach=9, **own
    )
    assert made.claim.guarantee == budget
    assert made.composed.implies(budget)
    less = made.noise_multiplier * (1 - Fraction(1, 10**6))
    with pytest.raises(ValueError, match=r"does not imply|not follow|imply"):
        dataclasses.replace(made, noise_multiplier=less)
    noisy = [stage.noise for stage in stages_of(made.fixed_plan) if stage.name != "count"]
    assert set(noisy) == {RoundedGaussian(2**40)}


SPREADS = 1.0 / np.arange(1, 9)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("known", [True, False])
def test_the_error_for_normal_records_is_the_predicted_one(
    adjacency: Adjacency, known: bool
) -> None:
    """20 datasets of 2000: the mean square has a relative sd of about 0.15 (no column counts for
    more than 40%), so 0.4 to 1.9 times the prediction for a radius of 1.3 expected norms are 4
    sd and more: false alarm below 1e-4 each, with a fixed seed. Spherical noise would be 3.4
    times it."""
    own: dict[str, Any] = {"least_deviation": "1/32"}
    if known:
        own = {"deviations": tuple(SPREADS.tolist())}
    mechanism = aware(8, adjacency=adjacency, noise_multiplier=4, reach=64, **own)
    squares = []
    for seed in range(20):
        release = mechanism.release(normal(2000, SPREADS, seed=seed), SeededBits(seed))
        assert isinstance(release, Estimate)
        squares.append(float(((release.value - 3.0) ** 2).sum()))
    parameters = mechanism.parameters | {"deviations": tuple(SPREADS.tolist())}
    ratio = float(np.mean(squares)) / float(spec.population_error(parameters, 2000, 1.3)) ** 2
    assert 0.4 < ratio < 1.9


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_noise_is_the_stated_one_and_within_its_bound(adjacency: Adjacency) -> None:
    """About the mean, 1000 releases: each coordinate's error over its stated deviation has mean
    square 1 with sd 0.045, and 0.75 to 1.25 are 5.6 sd: false alarm below 1e-7 for each of 6
    numbers."""
    mechanism = aware(3, adjacency=adjacency, deviations=(1.0, 0.5, 0.25), radii=(8,))
    data = normal(500, (1.0, 0.5, 0.25))
    releases = estimates(mechanism, data, 7, 1000)
    errors = np.array([one.value for one in releases]) - data.mean(axis=0)
    stated = np.array([one.standard_deviation for one in releases])
    ratios = ((errors / stated) ** 2).mean(axis=0)
    assert ((ratios > 0.75) & (ratios < 1.25)).all()
    radius = int(spec.edges(mechanism.parameters)[0])
    bound = float(spec.error_bound(mechanism.parameters, radius, 500, Fraction(1, 20)))
    stretch = mechanism.ball((1, 1, 1, 0))[0]
    units = np.ldexp(1.0, np.array(stretch.exponents)) / np.array(stretch.factors)
    lengths = np.linalg.norm(errors / units, axis=1).tolist()
    assert fails_at_most(lengths, bound, 0.05)
    assert not fails_at_most(lengths, bound / 6, 0.05)


def test_the_search_misses_as_rarely_as_stated_and_collapses_below() -> None:
    """Medians at 3 with a reach of 64 in 8 columns; a miss is an error beyond 1. The bound at
    1/2 record a unit of sqrt(d) / mu says nothing, at 100 it is below 1e-6."""
    mechanism = aware(8, adjacency=REPLACE, deviations=(0.01,) * 8, reach=64, noise_multiplier=4)
    unit = 4 * 8**0.5
    enough, few = round(100 * unit), round(3 * unit)
    assert float(spec.chance_of_missing(mechanism.parameters, enough)) < 1e-6
    assert float(spec.chance_of_missing(mechanism.parameters, few)) == 1
    far = {
        n: [
            float(np.abs(one.value - 3.0).max()) > 1
            for one in estimates(mechanism, normal(n, (0.01,) * 8), n, 40)
        ]
        for n in (enough, few)
    }
    assert not any(far[enough])
    assert sum(far[few]) >= 30  # nearly all: for each of 8 columns a miss is more likely than not


def test_a_search_is_the_spec_s_rule() -> None:
    """Compare on random values of all sizes, small ones and zeros among them."""
    rng, search = np.random.default_rng(3), Search("side", 5, 9)
    for _ in range(50):
        sizes = rng.choice([0, 1, 2**39, 2**40, 2**41 - 1, 2**41, 2**45], size=(9, 5))
        values = sizes * rng.choice([-1, 1], size=(9, 5))
        released = transcript({search.stage(k): values[k].tolist() for k in range(9)})
        for k in range(10):
            row = search.nodes(k)(released)[0].tolist()
            expected = [middle(values[:k, j].tolist()) for j in range(5)]
            assert [Fraction(m, 2**9) for m in search.middles(row)] == expected


def test_constant_records_give_back_the_constant() -> None:
    mechanism = aware(adjacency=REPLACE, noise_multiplier="1e-6", reach=8)
    release = mechanism.release(np.full((50, 2), (1.3, -7.9)), SeededBits(1))
    assert isinstance(release, Estimate)
    assert np.abs(release.value - (1.3, -7.9)).max() < 1e-4


def test_few_records_abstain_with_a_typed_reason() -> None:
    mechanism = aware(at_least=30)
    least = mechanism.minimum_n(beta="0.05")
    releases = estimates(mechanism, np.zeros((least, 2)), 6, 500)
    assert fails_at_most([float(isinstance(one, Abstained)) for one in releases], 1.0, 0.05)
    stopped = mechanism.release(np.zeros((0, 2)), SeededBits(1))  # 30 by noise: 7 sd and more
    assert str(stopped) == "abstained: fewer than 30 records, by the released count"


def test_ten_thousand_columns_are_quick() -> None:
    """Generous, so that a busy machine does not fail it."""
    start = time.perf_counter()
    wide = aware(10**4, adjacency=REPLACE, reach=4, extra_steps=0)
    assert isinstance(wide.release(np.ones((20, 10**4)), SeededBits(1)), Estimate)
    assert time.perf_counter() - start < 60
