"""``iterative_mean``: on every dataset, in every ball as the spec says, and nothing but typed
results."""

from __future__ import annotations

import dataclasses
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpverify import Abstained, Adjacency, ApproxDP, GaussianDP, IterativeMean, SeededBits
from dpverify import VectorMeanEstimate as Estimate
from dpverify.estimation.clip_schedule import heights, in_units, rungs_above
from dpverify.plans import Adaptive, Stage, Transcripts
from dpverify.plans.plan import stages_of
from dpverify.privacy.numbers import root_up
from dpverify.suite.refinement import compare_facts, exact_records
from spec import _balls as balls_of
from spec import iterative_mean as spec
from spec.theory import shrinking
from tests.mechanisms.helpers import edge_rows, fails_at_most
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
STRETCHED = ((2.0, 1.0), (0.0, 0.25))
Floats = NDArray[np.float64]


def mean(d: int = 2, **parameters: Any) -> IterativeMean:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "center": (0.0,) * d,
        "radius": 100,
        "steps": 3,
    }
    return IterativeMean(**base | parameters)


def normal(n: int, d: int, seed: int = 0, about: float = 5.0) -> Floats:
    return np.random.default_rng(seed).normal(about, 1, (n, d))


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers, one for each column"),
    ({"center": ()}, ValueError, "center is empty"),
    ({"center": (1.0, math.nan)}, ValueError, "give finite numbers"),
    ({"center": (1e9, 0.0)}, ValueError, "Subtract a public constant"),
    ({"radius": 0}, ValueError, "radius = 0 is not positive; give a public radius > 0"),
    ({"radius": math.inf}, ValueError, "radius = inf is not finite"),
    ({"radius": 1e6}, ValueError, "give a smaller public ball"),
    ({"radius": None}, TypeError, "radius is a NoneType"),
    ({"deviation": 0}, ValueError, "largest standard deviation of the data"),
    ({"deviation": -1}, ValueError, "deviation = -1 is not a positive float"),
    ({"deviation": "1e400"}, ValueError, "is not a positive float"),
    ({"matrix": [[1, 2]]}, ValueError, r"another shape than \(2, 2\)"),
    ({"matrix": [[1, 2], [2, 4]]}, ValueError, "singular, or nearly"),
    ({"steps": 0}, ValueError, "steps = 0; give an integer from 1 to 20"),
    ({"steps": 21}, ValueError, "from 1 to 20"),
    ({"steps": 2.0}, TypeError, "give an integer"),
    ({"shares": "1"}, TypeError, "give a tuple of 3 numbers, one for each step"),
    ({"shares": ("1/2", "1/2")}, ValueError, "give 3 positive numbers, one for each step"),
    ({"shares": ("1/3", "1/3", 0.333)}, ValueError, "whose sum is 1, as exact ones"),
    ({"shares": (1, 1, -1)}, ValueError, "positive numbers"),
    ({"beta": 0}, ValueError, r"beta = 0 is outside \[1e-300, 1\); try '1/100'"),
    ({"beta": 1}, ValueError, "beta = 1 is outside"),
    ({"coarseness": 0}, ValueError, r"outside \[1/1024, 4\]; try '1/16'"),
    ({"coarseness": 5}, ValueError, r"outside \[1/1024, 4\]"),
    ({"at_least": 0}, ValueError, "at_least = 0; give an integer from 1"),
    ({"nonfinite": "drop"}, ValueError, "write 'refuse'"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        mean(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = mean(adjacency=adjacency, at_least=3)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0), (1.0, np.inf), (0, 0)], NoBits())
    with pytest.raises(ValueError, match="3 columns"):
        mechanism.release([(1.0, 2.0, 3.0)], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match=r"have 2 records.*needs at least 3"):
            mechanism.release(np.zeros((2, 2)), NoBits())


WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE},
    {"matrix": STRETCHED, "center": (1e-3, 7.0), "deviation": 0.1, "radius": 3},
    {"matrix": STRETCHED, "adjacency": REPLACE, "noise_multiplier": "1e-3"},
    {"steps": 1},
    {"steps": 1, "adjacency": REPLACE, "deviation": 5e-324, "radius": 1e-322},
    {"shares": ("1/2", "1/3", "1/6"), "beta": "1e-9", "coarseness": 2},
    {"matrix": ((1e200, 3e200), (0, -2e200)), "deviation": 1e199, "radius": 1e200},
    {"deviation": 1.7e308, "radius": 1.7e308, "adjacency": REPLACE},
    {"noise_multiplier": "1e-900"},
    {"noise_multiplier": "1e-900", "adjacency": REPLACE, "matrix": STRETCHED},
    {"noise_multiplier": "1e2000"},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = mean(**parameters)
    datasets = [*edge_rows(), normal(100, 2) * (float(Fraction(mechanism.deviation)) / 16)]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    if mechanism.noise_multiplier > 1e-100:  # else too many digits for the code's enclosures
        assert compare_facts(spec, mechanism, [datasets[0], *datasets[-2:]]) > 3
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
            again = mechanism.release(data, SeededBits(seed)) if seed % 3 == 0 else release
        assert type(again) is type(release)
        if isinstance(release, Estimate) and isinstance(again, Estimate):
            assert np.array_equal(release.value, again.value)
            assert np.isfinite(release.value).all()
            assert not np.isnan(release.covariance).any()
            assert release.count >= mechanism.at_least


def balls(mechanism: IterativeMean, t: int, batch: Transcripts) -> tuple[Floats, Floats]:
    """Radii in deviations and centers of the balls before step t of each transcript."""
    rungs, multiples = mechanism._path(t, mechanism._grid(), batch)
    radii = np.array([mechanism._ball(t, int(rung)).radius for rung in rungs])
    return radii, multiples * 2.0 ** mechanism._grid().exponent


FOLLOWED: list[tuple[int, dict[str, Any]]] = [
    (2, {"noise_multiplier": 3}),
    (2, {"adjacency": REPLACE, "noise_multiplier": 3}),
    (2, {"matrix": STRETCHED, "center": (1.0, -3.0), "noise_multiplier": "5/3"}),
    (2, {"matrix": STRETCHED, "adjacency": REPLACE, "deviation": 3.7, "radius": 900}),
    (1, {"adjacency": REPLACE, "deviation": 1e-20, "radius": 1e-18}),
    (7, {"deviation": "0.7", "steps": 5, "noise_multiplier": "1/3", "coarseness": "1/1000"}),
    (2, {"noise_multiplier": "1/2", "at_least": 90}),
]


@pytest.mark.parametrize(("d", "parameters"), FOLLOWED, ids=range(len(FOLLOWED)))
def test_every_transcript_leads_to_the_spec_s_stages(d: int, parameters: dict[str, Any]) -> None:
    """Exact values of the queries in each ball; no chance in it but the noise of a fixed seed."""
    mechanism = mean(d, **parameters)
    data = normal(90, d) * float(Fraction(mechanism.deviation)) / 3
    law, public = mechanism.law(data), mechanism.adjacency is REPLACE
    batch = law.sample(SeededBits(7), 8)
    specified = spec.law(mechanism.parameters, exact_records(data, mechanism.domain))
    seen: set[tuple[int, ...]] = set()
    for i in range(len(batch)):
        outcomes = tuple(batch[i].released.values())
        row = batch.select(np.array([i]))
        for t, element in enumerate(mechanism.fixed_plan):
            if isinstance(element, Adaptive):
                (numbers,) = element.numbers(row).tolist()
                stage: Any = element.build(tuple(numbers))
                expected: Any = specified.stages[t][1](outcomes[:t])
                assert tuple(law.center(stage.query).tolist()) == expected.center
                seen.add(expected.center)
    assert len(seen) >= (2 if public else 6)  # more than one ball was looked at


def test_balls_shrink_around_the_mean() -> None:
    for adjacency in (ADD, REPLACE):
        mechanism = mean(4, adjacency=adjacency, radius=1000, steps=4, beta="1e-9")
        data = normal(3000, 4)
        batch = mechanism.law(data).sample(SeededBits(3), 50)
        last = np.full(50, np.inf)
        for t in range(4):
            radii, centers = balls(mechanism, t, batch)
            # beta is 1e-9, so the chance of a miss is below 4 (2 * 3000 + 2) 1e-9 < 1e-4 for the
            # data, which are fixed, and below 1e-6 for the noise of all 50
            assert (np.linalg.norm(centers - 5.0, axis=1) <= radii).all()
            assert (radii < last).all()
            last = radii
        assert (last < 1).all()


def test_with_too_few_records_the_ball_stays() -> None:
    for adjacency in (ADD, REPLACE):
        mechanism = mean(adjacency=adjacency, noise_multiplier=50)
        radii, centers = balls(mechanism, 2, mechanism.law(normal(5, 2)).sample(SeededBits(1), 50))
        assert (radii == 100).all()
        assert (centers == 0).all()


def test_a_transcript_leads_to_one_ball_whatever_its_batch() -> None:
    mechanism = mean(3, matrix=np.diag([1.0, 2.0, 0.3]) + 0.1)
    batch = mechanism.law(normal(200, 3)).sample(SeededBits(5), 150)
    later = [e for e in mechanism.fixed_plan if isinstance(e, Adaptive)]
    wide = dataclasses.replace(
        batch, values={name: column.astype(object) for name, column in batch.values.items()}
    )
    rng = np.random.default_rng(0)
    for element in later:
        numbers = element.numbers(batch).tolist()
        assert len(set(map(tuple, numbers))) > 50
        assert element.numbers(wide).tolist() == numbers
        for size in (1, 7, 60):
            rows = rng.permutation(150)[:size]
            assert element.numbers(batch.select(rows)).tolist() == [numbers[i] for i in rows]


def test_every_ball_has_exactly_the_declared_claim() -> None:
    for adjacency in (ADD, REPLACE):
        mechanism = mean(3, adjacency=adjacency, noise_multiplier="17/13")
        batch = mechanism.law(normal(500, 3)).sample(SeededBits(5), 20)
        for element in mechanism.fixed_plan:
            if isinstance(element, Adaptive):
                for row in element.numbers(batch).tolist():
                    claims = [
                        stage.derivation(adjacency, mechanism.domain).conclusion.guarantee
                        for stage in (element.declared, element.build(tuple(row)))
                    ]
                    assert claims[0] == claims[1]


def test_a_release_is_a_draw_of_the_law() -> None:
    for mechanism in (mean(), mean(adjacency=REPLACE, matrix=STRETCHED)):
        data = normal(60, 2)
        one = mechanism.release(data, SeededBits(4))
        drawn = mechanism.estimate(mechanism.law(data).sample(SeededBits(4), 1)[0])
        assert repr(one) == repr(drawn)


@pytest.mark.parametrize("parameters", FOLLOWED, ids=range(len(FOLLOWED)))
def test_the_estimate_is_the_last_step_s_mean(parameters: tuple[int, dict[str, Any]]) -> None:
    """The spec's last ball, its center plus the exact ratio, in the ball of what is clipped."""
    d, own = parameters
    mechanism = mean(d, **own)
    data = normal(300, d) * float(Fraction(mechanism.deviation)) / 3
    batch = mechanism.law(data).sample(SeededBits(8), 3)
    known, last = mechanism.parameters, mechanism.steps - 1
    for i in range(3):
        outcomes = tuple(batch[i].released.values())
        sums = outcomes[1:] if mechanism.adjacency is REPLACE else outcomes
        ball = balls_of.first_ball(known)
        for t in range(last):
            ball = balls_of.next_ball(known, t, ball, sums[t], outcomes[0][0])
        public, noise = balls_of.map_of(known, ball), balls_of.scale(known, last, ball)
        count = Fraction(300)
        if mechanism.adjacency is ADD:
            count = sums[last][-1] * balls_of.count_noise(known, last) / 2**40
        offset = np.array([float(s * noise / (2**40 * count)) for s in sums[last][:d]])
        offset *= min(1.0, public.radius / np.linalg.norm(offset))
        matrix = np.eye(d) if public.matrix is None else np.array(public.matrix, dtype=float)
        moved = np.linalg.solve(matrix, offset) * float(public.cell)
        start = [float(k * balls_of.grid_step(known)) for k in ball.multiples]
        estimate = mechanism.estimate(batch[i])
        assert isinstance(estimate, Estimate)
        assert estimate.count == pytest.approx(float(count), rel=1e-12)
        assert np.allclose(estimate.value, np.array(start) + moved, rtol=1e-9, atol=0)
        width = float(noise / count) * np.linalg.inv(matrix) * float(public.cell)
        square = width @ width.T
        if mechanism.adjacency is ADD:
            along = moved * float(balls_of.count_noise(known, last) / count)
            square = square + np.outer(along, along)
        assert np.allclose(estimate.covariance, square, rtol=1e-9, atol=0)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("d", [1, 6])
def test_the_error_bound_fails_as_rarely_as_stated(adjacency: Adjacency, d: int) -> None:
    """60 fresh datasets of 400 records; clipping adds less than 1e-5 to the stated 1/20."""
    mechanism = mean(d, adjacency=adjacency, beta="1e-9")
    bound = float(spec.error_bound(mechanism.parameters, 400, Fraction(1, 20)))
    releases = [mechanism.release(normal(400, d, s), SeededBits(9, s)) for s in range(60)]
    errors = [np.linalg.norm(one.value - 5) for one in releases if isinstance(one, Estimate)]
    assert len(errors) == 60
    most = stats.binom.isf(1e-6, 60, 0.05)
    assert sum(error >= bound for error in errors) <= most
    assert sum(error >= bound / 6 for error in errors) > most  # planted: a bound that is too small


def test_clipping_is_as_rare_as_stated() -> None:
    """Normal records, a mean on the first ball's boundary: 40,000 records, beta = 1/100; a binomial
    number of them is outside, with a false alarm below 1e-6. The radius is not idle either."""
    d = 5
    reach = float(shrinking.clip_radius(30, d, Fraction(1, 100)))
    lengths = np.linalg.norm(normal(40_000, d, 3, 30 / math.sqrt(d)), axis=1)
    assert (lengths > reach).sum() <= stats.binom.isf(1e-6, 40_000, 0.01)
    assert (lengths > reach - 2).sum() > stats.binom.isf(1e-6, 40_000, 0.01)


@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_noise_for_a_budget_is_the_least(budget: Any, adjacency: Adjacency) -> None:
    made = IterativeMean.for_budget(budget, adjacency=adjacency, center=(0, 0, 0), radius=30)
    assert made.claim.guarantee == budget
    assert made.composed.implies(budget)
    with pytest.raises(ValueError, match=r"does not imply|not follow|imply"):
        dataclasses.replace(made, noise_multiplier=made.noise_multiplier * (1 - Fraction(1, 10**6)))
    if budget == GaussianDP(1):
        assert 1 <= made.noise_multiplier < 1 + Fraction(1, 10**6)


def test_steps_share_the_budget_as_stated() -> None:
    def squares(mechanism: IterativeMean) -> list[float]:
        shown = [s.derivation(ADD, mechanism.domain) for s in stages_of(mechanism.fixed_plan)]
        guarantees: list[Any] = [one.conclusion.guarantee for one in shown]
        return [float(guarantee.mu_squared) for guarantee in guarantees]

    assert squares(mean(steps=4)) == pytest.approx([1 / 12] * 3 + [3 / 4])
    assert squares(mean(steps=2)) == pytest.approx([1 / 4, 3 / 4])
    assert squares(mean(steps=1)) == pytest.approx([1])
    assert squares(mean(shares=("1/2", "1/3", "1/6"))) == pytest.approx([1 / 2, 1 / 3, 1 / 6])


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_minimum_n_is_enough_and_abstaining_is_typed(adjacency: Adjacency) -> None:
    """Release minimum_n records for beta = 1e-9: none of 200 abstains but with probability 2e-7;
    20 fewer: all but surely some."""
    mechanism = mean(adjacency=adjacency, at_least=30)
    least = mechanism.minimum_n(beta="1e-9")
    batch = mechanism.law(normal(least, 2)).sample(SeededBits(2), 200)
    assert all(isinstance(mechanism.estimate(batch[i]), Estimate) for i in range(200))
    if adjacency is REPLACE:
        assert least == 30
        return
    batch = mechanism.law(normal(least - 20, 2)).sample(SeededBits(2), 200)
    releases = [mechanism.estimate(batch[i]) for i in range(200)]
    assert not fails_at_most([float(isinstance(o, Abstained)) for o in releases], 1.0, 1e-9)
    stopped = mechanism.release(np.zeros((0, 2)), SeededBits(1))
    assert str(stopped) == "abstained: fewer than 30 records, by the last released count"
    with pytest.raises(ValueError, match="beta"):
        mechanism.minimum_n(beta=1)


def test_a_nonfinite_record_counts_as_the_center_when_replaced() -> None:
    mechanism = mean(center=(0.3, -7.0), nonfinite="replace")
    (query,) = (e.query for e in mechanism.fixed_plan if isinstance(e, Stage))
    bad, good = [(np.nan, 1.0), (-np.inf, np.nan)], [(0.3, -7.0)] * 2
    assert mechanism.law(bad).center(query).tolist() == mechanism.law(good).center(query).tolist()


def test_ten_thousand_columns_and_large_matrices_are_quick() -> None:
    """Generous: ten times what it takes, so that a busy machine does not fail it."""
    start = time.perf_counter()
    wide = mean(10**4, adjacency=REPLACE, radius=1000, steps=2)
    assert isinstance(wide.release(np.ones((20, 10**4)), SeededBits(1)), Estimate)
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))
    dense = mean(100, matrix=q, adjacency=REPLACE)
    estimate = dense.release(normal(20, 100), SeededBits(1))
    assert isinstance(estimate, Estimate)
    assert estimate.covariance.shape == (100, 100)
    assert time.perf_counter() - start < 60


# --- the parts ----------------------------------------------------------------------------------


def test_rungs_are_the_spec_s_and_roots_are_rounded_up() -> None:
    radii = np.exp(np.random.default_rng(1).uniform(-30, 30, 2000))
    rungs = heights(rungs_above(radii))
    assert ((radii <= rungs) & (rungs <= radii * 9 / 8)).all()
    for radius, height in zip(radii[:300].tolist(), rungs[:300].tolist(), strict=True):
        assert shrinking.rung_above(radius) == Fraction(height)
    for value in (Fraction(1), Fraction(2), Fraction(1, 3), Fraction(12), Fraction(10**30, 7)):
        assert root_up(value, 40) == shrinking.root_up(value)
        assert (root_up(value, 40) - Fraction(1, 1 << 40)) ** 2 < value <= root_up(value, 40) ** 2


def test_integers_in_units_are_the_same_however_they_are_stored() -> None:
    values = np.random.default_rng(2).integers(-(2**62), 2**62, 500)
    for per in (Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), Fraction(7, 2**40)):
        narrow = in_units(values, per)
        assert np.array_equal(narrow, in_units(values.astype(object), per))
        assert np.isfinite(narrow).all()
    huge = np.array([10**900, -(10**900)], dtype=object)
    assert in_units(huge, Fraction(3, 10**900)).tolist() == [3.0, -3.0]
