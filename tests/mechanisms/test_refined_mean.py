"""``refined_mean``: budgets, refusals, typed results on every dataset, honest error bars, skewed
data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import Abstained, Adjacency, ApproxDP, RefinedMean, RescaledMean, SeededBits
from dpverify import VectorMeanEstimate as Estimate
from dpverify.grid.masks import Counted, different, distinct, each_once, sums_in_balls
from dpverify.grid.rounding import rounded_multiples
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.suite.refinement import compare_facts
from spec import refined_mean as spec
from tests.mechanisms.helpers import estimates, fails_at_most
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
LOOSE = ApproxDP(6, "1e-6")


def refined(**changes: Any) -> RefinedMean:
    """Large shares, small radii: a few dozen records are enough."""
    given: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": Fraction(1, 2),
        "center_multiplier": Fraction(1, 2),
        "matrix": (1.0, 1.0),
        "radius": 6,
        "record_radius": 4,
        "n_max": 300,
        "tail": Fraction(1, 10**7),
        **changes,
    }
    return RefinedMean(**given)


# --- claims -------------------------------------------------------------------------------------


def _chosen(d: int, n_max: int) -> RefinedMean | RescaledMean:
    """tr M^(1/2) = 1 in every dimension."""
    budget, covariance = ApproxDP(1, "1e-6"), (float(d) ** -2,) * d
    return RefinedMean.where_it_helps(budget, adjacency=ADD, covariance=covariance, n_max=n_max)


def test_there_are_two_stages_where_they_have_less_noise() -> None:
    """Few dimensions and many records for two; with many dimensions, or too few records, one."""
    for d, n_max in ((2, 3000), (100, 10**5)):
        assert isinstance(_chosen(d, n_max), RefinedMean)
    for d, n_max in ((10_000, 1000), (2, 180)):
        assert isinstance(_chosen(d, n_max), RescaledMean)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("covariance", [(1.0,), (4.0, 0.25), ((2.0, 0.5), (0.5, 1.0))])
def test_a_budget_is_met_by_both_stages_together(adjacency: Adjacency, covariance: Any) -> None:
    made = RefinedMean.for_budget(BUDGET, adjacency=adjacency, covariance=covariance, n_max=5000)
    assert made.claim.guarantee == BUDGET
    composed = made.composed
    assert isinstance(composed, ApproximateGaussianDP)
    assert made.ladder_multiplier is not None
    multipliers = (made.center_multiplier, made.noise_multiplier, made.ladder_multiplier)
    square = sum(1 / x**2 for x in multipliers)
    # what one-unit rounding adds to mu is below 2^-38 for such multipliers
    assert (
        square * (1 - Fraction(1, 2**20))
        <= composed.mu_squared
        <= square * (1 + Fraction(1, 2**20))
    )
    assert composed.implies(BUDGET)
    # neither more noise than needed
    more = RefinedMean(
        **{
            **made.parameters,
            "budget": None,
            "noise_multiplier": made.noise_multiplier * Fraction(99, 100),
        }
    )
    assert not more.composed.implies(BUDGET)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_so_many_records_as_expected_rarely_abstain(adjacency: Adjacency) -> None:
    for n_max in (1500, 5000, 50_000):
        made = RefinedMean.for_budget(BUDGET, adjacency=adjacency, covariance=(1.0,), n_max=n_max)
        assert made.minimum_n() <= n_max
        assert 0 < made.expected_noise(n_max) < 1


def test_at_large_n_the_second_stage_has_less_noise_than_the_first_alone() -> None:
    from dpverify import RescaledMean

    known: dict[str, Any] = {"adjacency": ADD, "covariance": (1.0,) * 20, "n_max": 20_000}
    one, two = (kind.for_budget(BUDGET, **known) for kind in (RescaledMean, RefinedMean))
    first, second = (m.expected_noise(20_000) * m.radius for m in (one, two))
    assert second < 0.7 * first


# --- refusals -----------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"record_radius": 0}, ValueError, "record_radius = 0 is not positive"),
    ({"record_radius": float("nan")}, ValueError, "record_radius"),
    ({"record_radius": None}, TypeError, "record_radius"),
    ({"center_multiplier": 0}, ValueError, "center_multiplier = 0 is not positive"),
    ({"center_multiplier": "-1"}, ValueError, "is not positive"),
    ({"center_epsilon": 1}, ValueError, "the basic filter needs one"),
    ({"filter": "basic"}, ValueError, "the basic filter needs one"),
    ({"filter": "hard"}, ValueError, "write 'weights'"),
    ({"radius": -1}, ValueError, "radius = -1 is not positive"),
    ({"matrix": (1.0, 0.0)}, ValueError, "positive numbers"),
    ({"matrix": ((1.0, 2.0), (2.0, 1.0))}, ValueError, "not positive definite"),
    ({"n_max": 0}, ValueError, "say about how many records"),
    ({"tail": 1}, ValueError, "outside"),
    ({"noise_multiplier": 0}, ValueError, "is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        refined(**change)


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ([(1.0, np.inf)], ValueError, "Record 0 is not finite"),
        ([1.0, 2.0], ValueError, r"records of shape \(n, 2\)"),
        ([(1.0,), (1.0, 2.0)], TypeError, "ragged"),
    ],
)
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        refined().release(data, NoBits())


def test_a_budget_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves room for two stages at n_max = 20"):
        RefinedMean.for_budget(BUDGET, adjacency=ADD, covariance=(1.0,), n_max=20)


# --- every dataset ------------------------------------------------------------------------------

DATA: list[Any] = [
    np.zeros((0, 2)),
    np.zeros((1, 2)),
    np.full((300, 2), 1e308),
    np.full((300, 2), 5e-324),
    np.repeat([[0.0, 0.0], [100.0, 0.0]], 150, axis=0),
    np.random.default_rng(5).normal(size=(300, 2)) + 1e6,
    np.concatenate([np.zeros((290, 2)), np.full((10, 2), -1e308)]),
]
WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE},
    {"matrix": ((2.0, 0.5), (0.5, 1.0))},
    {"noise_multiplier": "1e-12"},
    {"noise_multiplier": "1e400"},
    {"center_multiplier": "1e-9"},
    {"record_radius": 1e12},
    {"record_radius": "1e-9", "adjacency": REPLACE},
]


@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(world: dict[str, Any]) -> None:
    mechanism = refined(**world)
    for data in DATA:
        release = mechanism.release(data, SeededBits(1))
        assert isinstance(release, (Abstained, Estimate))
        if isinstance(release, Estimate):
            assert release.value.shape == (2,)
            assert not np.isnan(release.value).any()
    assert compare_facts(spec, mechanism, [data[:40] for data in DATA]) == 3 + 3 * len(DATA)


@pytest.mark.parametrize("n", [0, 1, 2, 12])
def test_too_few_records_abstain(n: int) -> None:
    data = np.zeros((n, 2))
    releases = estimates(refined(), data, n, 200)
    assert all(isinstance(one, Abstained) for one in releases)


def test_neither_batch_nor_order_matters() -> None:
    mechanism, rng = refined(), np.random.default_rng(6)
    data = rng.normal(size=(300, 2))
    laws = [mechanism.law(data), mechanism.law(data[rng.permutation(300)])]
    batches = [law.sample(SeededBits(7), 40) for law in laws]
    for name, values in batches[0].values.items():
        assert np.array_equal(values, batches[1].values[name]), name
    one_by_one = [laws[0].log_likelihood(batches[0].select(np.array([i]))) for i in range(40)]
    assert np.array_equal(np.concatenate(one_by_one), laws[0].log_likelihood(batches[0]))


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "matrix"), [(ADD, ((2.0, 0.5), (0.5, 1.0))), (REPLACE, (1.0, 1.0))]
)
def test_error_bars_cover(adjacency: Adjacency, matrix: Any) -> None:
    """Measure 2000 releases: e^T C^-1 e about the empirical mean is chi-square with 2 degrees of
    freedom, for each covariance C that is stated: its mean is 2 to within 6.5 / sqrt(500), a
    false alarm of 1e-9; the spec's expected error squared to within 15%, six deviations."""
    mechanism = refined(adjacency=adjacency, matrix=matrix, record_radius=7)
    data = np.random.default_rng(8).normal(size=(300, 2)) + 1e6
    releases = estimates(mechanism, data, 9, 2000)
    errors = np.array([one.value - data.mean(axis=0) for one in releases])
    covariances = np.array([one.covariance for one in releases])
    lengths = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(covariances), errors)
    assert abs(lengths.mean() - 2) < 6.5 / np.sqrt(500)
    expected = float(spec.expected_error(mechanism.parameters, 300))
    assert abs((errors**2).sum(axis=1).mean() / expected**2 - 1) < 0.15


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_error_bound_holds(adjacency: Adjacency) -> None:
    """False alarm below 1e-6."""
    mechanism, rng = refined(adjacency=adjacency, record_radius=5), np.random.default_rng(10)
    data = rng.uniform(-2, 2, size=(300, 2))
    beta, within = Fraction(1, 20), Fraction(3)
    assert np.linalg.norm(data - data.mean(axis=0), axis=1).max() < within
    bound = float(spec.error_bound(mechanism.parameters, 300, beta, within))
    releases = estimates(mechanism, data, 11, 1000)
    errors = [float(np.linalg.norm(one.value - data.mean(axis=0))) for one in releases]
    assert fails_at_most(errors, bound, float(beta))
    assert bound < 6 * np.sqrt(np.mean(np.square(errors)))


def test_the_center_leans_where_data_are_skewed_and_the_estimate_does_not() -> None:
    """Exponential records: the mean by degree weights is off by more than 6 standard errors of
    the 400 released ones, and that of the estimates is within 6 of its own (each false alarm
    below 1e-8)."""
    mechanism = refined(matrix=(1.0,), radius=2, record_radius=14, n_max=1000)
    data = np.random.default_rng(12).exponential(size=(1000, 1))
    batch = mechanism.law(data).sample(SeededBits(13), 400)
    core = mechanism.core()
    centers = [
        float(core.noise_of(batch[i]) * batch[i].number("mean") / 2**40)
        * 2.0**core.nearness.exponent
        for i in range(400)
    ]
    releases = [mechanism.estimate(batch[i]) for i in range(400)]
    values = [one.value[0] - data.mean() for one in releases if isinstance(one, Estimate)]
    assert len(values) == 400
    lean = np.array(centers) - data.mean()
    assert lean.mean() < -6 * lean.std() / 20 - 0.05
    assert abs(np.mean(values)) < 6 * np.std(values) / 20


@pytest.mark.parametrize("factor", [Fraction(1, 10), 1, 10])
def test_n_max_may_be_wrong_by_a_factor_of_ten(factor: Fraction) -> None:
    """The error stays within 2 of that of the right one; measured to a fifth by 100 releases."""
    n = 6000
    data = np.random.default_rng(14).normal(size=(n, 2))
    rms = {}
    for n_max in {int(n * factor), n}:
        mechanism = RefinedMean.for_budget(
            BUDGET, adjacency=ADD, covariance=(1.0, 1.0), n_max=n_max
        )
        releases = [e for e in estimates(mechanism, data, 15, 100) if isinstance(e, Estimate)]
        assert len(releases) == 100
        errors = [np.sum((one.value - data.mean(axis=0)) ** 2) for one in releases]
        rms[n_max] = np.sqrt(np.mean(errors))
    assert max(rms.values()) < 2 * rms[n]


@pytest.mark.parametrize(("kind", "adjacency"), [("basic", REPLACE), ("gaussian", ADD)])
def test_random_filters_in_front(kind: Any, adjacency: Adjacency) -> None:
    """200 releases of normal data: within five stated standard deviations of the mean, all of
    them (a chance of 1e-4 in a normal law; the seed is fixed), and the covariances in the mean
    within a third."""
    mechanism = RefinedMean.for_budget(
        LOOSE, adjacency=adjacency, covariance=(1.0,), n_max=1000, filter=kind
    )
    assert mechanism.claim.guarantee == LOOSE
    data = np.random.default_rng(16).normal(size=(1000, 1))
    releases = [e for e in estimates(mechanism, data, 17, 200) if isinstance(e, Estimate)]
    assert len(releases) > 195
    ratios = np.array([(e.value - data.mean())[0] / e.standard_deviation[0] for e in releases])
    assert np.abs(ratios).max() < 5
    low, high = (float(stats.chi2.ppf(p, len(releases))) / len(releases) for p in (1e-7, 1 - 1e-7))
    assert low / 1.1 < np.mean(ratios**2) < high * 1.1


# --- exact parts --------------------------------------------------------------------------------


def test_sums_in_balls_are_those_of_python_integers() -> None:
    rng = np.random.default_rng(18)
    for _ in range(60):
        d, n, size = rng.integers(1, 4), rng.integers(0, 9), rng.integers(1, 9)
        reach = int(rng.choice([3, 10**6, 2**40]))
        vectors, centers = (rng.integers(-reach, reach + 1, (k, d)) for k in (n, size))
        radii = rng.integers(1, 2 * reach, size)
        for data in (each_once(vectors), distinct(vectors)):
            sums, numbers = sums_in_balls(data, centers, radii)
            for center, radius, total, number in zip(centers, radii, sums, numbers, strict=True):
                moved = [[int(a) - int(b) for a, b in zip(v, center, strict=True)] for v in vectors]
                inside = [z for z in moved if sum(x * x for x in z) <= int(radius) ** 2]
                assert number == len(inside)
                assert total.tolist() == [sum(z[i] for z in inside) for i in range(d)]


def test_sums_beyond_a_word_are_python_integers() -> None:
    data = Counted(np.array([[2**40]]), np.array([2**25]), rising=True)
    sums, numbers = sums_in_balls(data, np.array([[-(2**41)]]), np.array([2**42]))
    assert sums[0, 0] == (2**40 + 2**41) * 2**25
    assert numbers[0] == 2**25


def test_rounded_multiples_are_exact_ties_to_even_included() -> None:
    rng = np.random.default_rng(19)
    factors = [
        Fraction(1, 2),
        Fraction(5, 2),
        Fraction(1, 6),
        Fraction(10**30 + 1, 10**29),
        Fraction(2**70),
    ]
    factors += [Fraction(int(a), int(b)) for a, b in rng.integers(1, 2**62, (40, 2))]
    for factor in factors:
        for reach in (20, 2**40, 2**61):
            values = rng.integers(-reach, reach, 60)
            multiples = [int(v) for v in rounded_multiples(values, [factor])]
            assert multiples == [round(int(v) * factor) for v in values]


def test_rounded_multiples_of_unlike_rows_in_one_batch() -> None:
    """Some that short floats settle, some that long ones do, and some so near a half that only
    integers do."""
    rng = np.random.default_rng(20)
    prime = 2**31 - 1
    factors = [Fraction(int(a), prime) for a in rng.integers(1, prime, 20)]
    which = rng.integers(0, len(factors), 3000)
    values = rng.integers(-(2**61), 2**61, (3000, 2)) >> rng.integers(0, 60, (3000, 1))
    for row, k in enumerate(
        which[:1000].tolist()
    ):  # (prime +- 1) / 2 more than a multiple of prime
        inverse = pow(factors[k].numerator, -1, prime)
        values[row] = (prime + 1) // 2 * inverse % prime, (prime - 1) // 2 * inverse % prime
        values[row] += prime * (row << 18)
    multiples = rounded_multiples(values, factors, which)
    assert multiples.tolist() == _rounded(values, factors, which)
    mixed = values.astype(object)
    assert rounded_multiples(mixed, factors, which).tolist() == multiples.tolist()
    mixed[::7] *= 10**9  # beyond a word
    assert rounded_multiples(mixed, factors, which).tolist() == _rounded(mixed, factors, which)


def _rounded(values: Any, factors: list[Fraction], which: Any) -> list[list[int]]:
    pairs = zip(values.tolist(), which.tolist(), strict=True)
    return [[round(v * factors[k]) for v in row] for row, k in pairs]


@pytest.mark.parametrize("kind", [np.int64, object])
def test_different_integers_are_those_of_a_sort(kind: type) -> None:
    rng = np.random.default_rng(21)
    for size, reach in ((0, 1), (1, 2**62), (50, 3), (50, 4096), (50, 2**62), (9000, 8999)):
        column: Any = rng.integers(-reach, reach, size).astype(kind)
        seen, which = different(column)
        assert seen.tolist() == sorted(set(column.tolist()))
        assert seen[which].tolist() == column.tolist()
