"""``moment_matrix``: on every dataset, by its formulas, with the deviations and intervals it
states."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    ComponentsEstimate,
    GaussianDP,
    MomentMatrix,
    MomentMatrixEstimate,
    PureDP,
    SeededBits,
    result_from,
)
from dpverify.grid.transcripts import transcript
from tests.mechanisms.helpers import edge_rows, typed_releases
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
LOW, HIGH = (-4.0, 0.0, -10.0), (4.0, 10.0, 30.0)
DRAWS = 1000
TINY = Fraction(1, 10**9)


def matrix(**parameters: Any) -> MomentMatrix:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": LOW, "upper": HIGH}
    return MomentMatrix(**base | parameters)


def people(n: int = 3000, seed: int = 1) -> NDArray[np.float64]:
    """Return two correlated features and a target, a few beyond the bounds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 1.2, n)
    z = 5 + x + rng.normal(0, 1.5, n)
    return np.column_stack([x, z, 3 * x - 2 * z + 10 + rng.normal(0, 2, n)])


DATA = people()
CLAMPED = np.clip(DATA, LOW, HIGH)


def released(mechanism: MomentMatrix, data: Any = DATA, seed: int = 3) -> MomentMatrixEstimate:
    estimate = mechanism.release(data, SeededBits(seed))
    assert isinstance(estimate, MomentMatrixEstimate)
    return estimate


@pytest.fixture(
    scope="module", params=[(ADD, "gaussian"), (REPLACE, "gaussian"), (REPLACE, "laplace")], ids=str
)
def drawn(request: pytest.FixtureRequest) -> list[MomentMatrixEstimate]:
    """Independent releases with noise of a few percent."""
    adjacency, noise = request.param
    of = 2 if noise == "gaussian" else "1/2"
    mechanism = matrix(adjacency=adjacency, noise=noise, noise_multiplier=of)
    batch = mechanism.law(DATA).sample(SeededBits(5), DRAWS)
    releases = [mechanism.estimate(batch[i]) for i in range(DRAWS)]
    return [one for one in releases if isinstance(one, MomentMatrixEstimate)]


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": (0.0,)}, ValueError, "1 lower and 3 upper bounds"),
    ({"upper": (0.0,) * 1025, "lower": (-1.0,) * 1025}, ValueError, "at most 1024"),
    ({"upper": (4.0, -1.0, 30.0)}, ValueError, "column 1: .*reversed"),
    ({"upper": (4.0, float("inf"), 30.0)}, ValueError, "finite"),
    ({"upper": (4.0, 1e200, 30.0)}, ValueError, "squares of its values are no floats"),
    ({"lower": (1e9, 0.0, 0.0), "upper": (1e9 + 1e-6, 1, 1)}, ValueError, "subtract a public"),
    ({"radius": 0}, ValueError, "radius = 0 is not positive"),
    ({"radius": 1e-9}, ValueError, r"below 2\^-16; give narrower bounds"),
    ({"noise": "normal"}, ValueError, "write 'gaussian' or 'laplace'"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
    ({"targets": 3}, ValueError, "targets = 3 of 3 columns; leave at least 1 feature"),
    ({"targets": -1}, ValueError, "targets = -1; give an integer of at least 0"),
    ({"lower": 3.0}, TypeError, "lower"),
    ({"noise_multiplier": 0}, ValueError, "not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        matrix(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    for data in (np.zeros((3, 2)), [[1.0, np.nan, 2.0]], np.zeros(3)):
        with pytest.raises(ValueError, match=r"column|finite|NaN|shape"):
            matrix().release(data, NoBits())


@pytest.mark.parametrize("radius", [None, 0.5, 1.0])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_every_dataset_has_a_result(adjacency: Adjacency, radius: float | None) -> None:
    own: dict[str, Any] = {"lower": (-1.0, -2.0), "upper": (1.0, 3.0), "radius": radius}
    mechanism = matrix(adjacency=adjacency, **own)
    for release in typed_releases(mechanism, edge_rows()):
        if isinstance(release, Abstained):
            assert release.reason == "fewer than 1 records, by the released count"
            continue
        for array in (release.mean, release.covariance, release.covariance_deviation):
            assert np.isfinite(array).all()
        assert np.linalg.eigvalsh(release.covariance).min() > -1e-9
        fit = release.regression(1)
        assert np.isfinite(fit.predict(np.array([[1e308], [-1e308], [0.0]]))).all()
        assert np.isfinite(release.principal_components(2).value).all()


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_without_noise_it_is_numpy(adjacency: Adjacency) -> None:
    estimate = released(matrix(adjacency=adjacency, noise_multiplier=TINY))
    assert estimate.count == pytest.approx(len(DATA), rel=1e-6)
    assert np.allclose(estimate.mean, CLAMPED.mean(axis=0), rtol=1e-4)
    assert np.allclose(estimate.covariance, np.cov(CLAMPED.T, bias=True), rtol=1e-4)
    fit, least = estimate.regression(2), np.column_stack([CLAMPED[:, :2], np.ones(len(DATA))])
    expected, rest = np.linalg.lstsq(least, CLAMPED[:, 2], rcond=None)[:2]
    assert np.allclose([*fit.value, fit.intercept], expected, rtol=1e-3)
    assert fit.residual_deviation == pytest.approx(np.sqrt(rest[0] / len(DATA)), rel=1e-3)
    predicted = np.clip(least @ expected, LOW[2], HIGH[2])
    assert np.allclose(fit.predict(CLAMPED[:, :2]), predicted, atol=1e-3)
    both = estimate.regression([2, 0], [1])
    assert both.value.shape == (2, 1)
    for t, column in enumerate((2, 0)):
        assert np.allclose(both.value[t], estimate.regression(column, [1]).value)
    values, vectors = np.linalg.eigh(np.cov(CLAMPED.T, bias=True))
    axes = estimate.principal_components(2)
    assert np.allclose(np.abs(axes.value @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-3)
    assert np.allclose(axes.variances, values[::-1][:2], rtol=1e-3)
    assert np.allclose(axes.shares, values[::-1][:2] / values.sum(), rtol=1e-3)
    assert np.allclose(axes.transform(CLAMPED).mean(axis=0), 0, atol=1e-3)


def test_a_ridge_is_added_to_the_variances() -> None:
    estimate = released(matrix(noise_multiplier=TINY))
    z = (CLAMPED - estimate.middle) / estimate.half
    z = z - z.mean(axis=0)
    covariance = z.T @ z / len(z)
    expected = np.linalg.solve(covariance[:2, :2] + np.eye(2) / 10, covariance[:2, 2])
    fit = estimate.regression(2, ridge="1/10")
    assert np.allclose(fit.value, expected * estimate.half[2] / estimate.half[:2], rtol=1e-3)
    assert np.abs(fit.bias).max() > 0.1
    for bad in (-1, "x"):
        with pytest.raises(ValueError, match="ridge"):
            estimate.regression(2, ridge=bad)


@pytest.mark.parametrize(
    ("target", "on", "message"),
    [(3, None, "from 0 to 2"), ([0, 0], None, "each once"), (0, [0, 1], "share"), (0, [], "least")],
)
def test_columns_that_make_no_regression_are_refused(target: Any, on: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        released(matrix()).regression(target, on)


@pytest.mark.parametrize("k", [0, 4])
def test_there_are_as_many_components_as_columns(k: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 3"):
        released(matrix()).principal_components(k)


def ratio(samples: list[Any], stated: Any) -> Any:
    """Measured over stated deviation, of 1000 draws: within 12% with probability 1 - 1e-7 (5.4
    deviations)."""
    return np.std(np.array(samples), axis=0) / stated


def test_the_noise_is_the_stated_one(drawn: list[MomentMatrixEstimate]) -> None:
    one = released(matrix(noise_multiplier=TINY))
    assert len(drawn) == DRAWS
    noisy = drawn[0].standard_deviation > 0
    measured = np.std([d.value for d in drawn], axis=0)[noisy]
    assert np.allclose(measured / drawn[0].standard_deviation[noisy], 1, atol=0.12)
    assert np.allclose(ratio([d.mean for d in drawn], drawn[0].mean_deviation), 1, atol=0.12)
    wide = ratio([d.covariance for d in drawn], drawn[0].covariance_deviation)
    assert np.allclose(wide, 1, atol=0.14)
    low, high = drawn[0].interval("0.999999")
    assert ((low <= one.value) & (one.value <= high))[noisy].all()


def covered(fits: list[Any], share: float = 1.0) -> int:
    """Count the fits whose interval of the first coefficient holds that of least squares."""
    truth = released(matrix(noise_multiplier=TINY)).regression(2).value
    hits = 0
    for fit in fits:
        shorter = replace(fit, standard_deviation=fit.standard_deviation * share)
        low, high = shorter.interval(0.95)
        hits += bool(low[0] <= truth[0] <= high[0])
    return hits


LEAST = int(stats.binom.ppf(1e-6, DRAWS, 0.93))


def test_coefficients_are_in_their_intervals_and_move_as_stated(
    drawn: list[MomentMatrixEstimate],
) -> None:
    """Compare to first order: at least 93% of intervals of 95% hold; a false alarm has
    probability 1e-6."""
    fits = [one.regression(2) for one in drawn]
    assert min(fit.resolved for fit in fits) > 1
    stated = np.mean([fit.standard_deviation for fit in fits], axis=0)
    assert np.allclose(ratio([fit.value for fit in fits], stated), 1, atol=0.15)
    assert covered(fits) >= LEAST
    assert covered(fits, 0.5) < LEAST


def test_with_sampling_intervals_hold_the_populations_coefficients() -> None:
    """Count over 300 datasets of 400 records under noise that is less than the sampling error."""
    mechanism = matrix(noise_multiplier="1/100", lower=(-6.0, -5.0, -60.0), upper=(7.0, 15.0, 60.0))
    hits = few = 0
    for seed in range(300):
        fit = released(mechanism, people(400, seed), seed).regression(2)
        for how in (True, False):
            low, high = fit.interval(0.95, sampling=how)
            inside = bool(low[1] <= -2 <= high[1])
            hits, few = hits + (how and inside), few + (not how and inside)
    assert hits >= stats.binom.ppf(1e-6, 300, 0.93)
    assert few < 0.8 * hits


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_without_noise_a_target_whose_square_is_not_released_is_fitted_by_least_squares(
    adjacency: Adjacency, noise: str
) -> None:
    whole = released(matrix(adjacency=adjacency, noise=noise, noise_multiplier=TINY))
    own: dict[str, Any] = {"adjacency": adjacency, "noise": noise, "noise_multiplier": TINY}
    for targets in (1, 2):
        part = released(matrix(**own, targets=targets))
        first = 3 - targets
        hidden = np.zeros((4, 4), bool)
        hidden[1 + first :, 1 + first :] = True
        assert (np.isnan(part.value) == hidden).all()
        assert (np.isinf(part.standard_deviation) == hidden).all()
        assert np.allclose(part.value[~hidden], whole.value[~hidden], rtol=1e-4, atol=1e-3)
        assert np.allclose(part.mean, whole.mean, rtol=1e-4)
        for target in range(first, 3):
            fit, right = (one.regression(target, list(range(first))) for one in (part, whole))
            assert np.allclose([*fit.value, fit.intercept], [*right.value, right.intercept], 1e-3)
            assert right.residual_deviation < fit.residual_deviation <= part.half[target]
        both = part.regression(list(range(first, 3)))
        assert np.allclose(both.value[-1], part.regression(2).value)
    assert result_from(part.to_dict()) == part


@pytest.mark.parametrize(("adjacency", "noise"), [(ADD, "laplace"), (REPLACE, "gaussian")])
def test_without_the_targets_square_there_is_less_noise_and_it_is_the_stated_one(
    adjacency: Adjacency, noise: str
) -> None:
    """Compare 1000 draws: a deviation within 12% with probability 1 - 1e-7, and 93% of intervals
    of 95% hold (a false alarm has probability 1e-6; intervals half as long must fail)."""
    of = 2 if noise == "gaussian" else "1/2"
    own: dict[str, Any] = {"lower": (LOW[0], LOW[2]), "upper": (HIGH[0], HIGH[2]), "noise": noise}
    mechanism = matrix(**own, adjacency=adjacency, noise_multiplier=of, targets=1)
    plane = DATA[:, [0, 2]]
    batch = mechanism.law(plane).sample(SeededBits(5), DRAWS)
    drawn: list[Any] = [mechanism.estimate(batch[i]) for i in range(DRAWS)]
    part = released(mechanism, plane)
    known = (part.standard_deviation > 0) & np.isfinite(part.standard_deviation)
    measured = np.std([one.value for one in drawn], axis=0)[known]
    assert np.allclose(measured / part.standard_deviation[known], 1, atol=0.12)
    whole = released(replace(mechanism, targets=0), plane)
    cross = (2, 1)
    assert part.standard_deviation[cross] < 0.9 * whole.standard_deviation[cross]
    truth = released(replace(mechanism, noise_multiplier=TINY), plane).regression(1).value[0]
    fits = [one.regression(1) for one in drawn]
    assert min(fit.resolved for fit in fits) > 1
    for share, holds in ((1.0, True), (0.5, False)):
        shorter = (replace(f, standard_deviation=f.standard_deviation * share) for f in fits)
        ends = np.array([fit.interval(0.95) for fit in shorter])[:, :, 0]
        hits = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
        assert (hits >= LEAST) is holds


def test_what_needs_the_targets_squares_is_refused() -> None:
    part = released(matrix(targets=1))
    for ask in (
        lambda: part.covariance,
        lambda: part.covariance_deviation,
        lambda: part.principal_components(1),
    ):
        with pytest.raises(ValueError, match=r"last 1 columns were not released; use .*regression"):
            ask()
    for target, on in ((0, None), (0, [1]), ([0, 2], [1]), (2, [0, 2])):
        with pytest.raises(ValueError, match=r"they can only be targets|share the columns"):
            part.regression(target, on)


def test_noise_that_hides_the_features_leaves_no_interval() -> None:
    for targets in (0, 1):
        fit = released(matrix(noise_multiplier=300, targets=targets)).regression(2)
        assert fit.resolved < 1
        assert all(np.isinf(end).all() for end in fit.interval())
        assert np.isfinite(fit.value).all()


def test_intervals_are_about_least_squares_whatever_ridge_was_given() -> None:
    """Count over 100 releases with little noise, where a ridge moves coefficients much further than
    noise does."""
    mechanism = matrix(noise_multiplier="1/10")
    truth = released(matrix(noise_multiplier=TINY)).regression(2, ridge=0).value
    smallest = float(np.linalg.eigvalsh(released(mechanism).in_units().spread[:2, :2])[0])
    inside = 0
    for seed in range(100):
        estimate = released(mechanism, seed=seed)
        low, high = estimate.regression(2, ridge=0).interval(0.95)
        inside += int(((low <= truth) & (truth <= high)).all())
        for ridge in (smallest / 4, 10 * smallest):
            fit = estimate.regression(2, ridge=ridge)
            assert np.median(np.abs(fit.bias) / fit.standard_deviation) > 2
            least, most = fit.interval(0.95)
            assert np.allclose(least, np.minimum(low, fit.value))
            assert np.allclose(most, np.maximum(high, fit.value))
    assert inside >= 85


def test_variances_are_in_their_intervals_where_directions_are_alike() -> None:
    """Noise alone tells directions of one variance from each other."""
    d, rng, hits = 6, np.random.default_rng(3), 0
    mechanism = MomentMatrix(adjacency=ADD, noise_multiplier=1, lower=(-1.0,) * d, upper=(1.0,) * d)
    for seed in range(60):
        rows = np.clip(rng.normal(0, 0.15, (6000, d)), -1, 1)
        axes = released(mechanism, rows, seed).principal_components(d)
        low, high = axes.interval(0.95)
        along = ((rows - rows.mean(axis=0)) @ axes.value.T).var(axis=0)
        hits += int(((low <= along) & (along <= high)).sum())
    assert hits >= 0.95 * 60 * d


@pytest.mark.parametrize("terms", [1, 2, 3, 55])
def test_intervals_hold_for_sums_of_laplace_noises_at_every_level(terms: int) -> None:
    """A variance along a direction sums up as many noises as there are entries: a single one's
    quantile at 60% held for 46% of the sums of 55. Of 100,000 seeded sums a share that is 0.6%
    too small has a probability below 1e-4."""
    one = np.ones(1)
    own: Any = {
        "standard_deviation": one,
        "bias": 0 * one,
        "angles": 0 * one,
        "total": 99.0,
        "mean": one,
    }
    axes = ComponentsEstimate(np.ones((1, 1)), 99 * one, **own, noise="laplace")
    sums = np.random.default_rng(5).laplace(size=(100_000, terms)).sum(axis=1)
    sums /= (2 * terms) ** 0.5
    for level in (0.3, 0.6, 0.8, 0.95, 0.999):
        low, high = axes.interval(level)
        assert np.mean(np.abs(sums) <= (high[0] - low[0]) / 2) >= level - 0.006


def test_angles_are_about_what_noise_turns(drawn: list[MomentMatrixEstimate]) -> None:
    truth = released(matrix(noise_multiplier=TINY)).principal_components(1).value[0]
    turned, components = [], [one.principal_components(1) for one in drawn]
    for one in components:
        turned.append(np.arccos(min(1.0, abs(float(one.value[0] @ truth)))))
    measured = float(np.sqrt(np.mean(np.square(turned))))
    stated = float(np.mean([one.angles[0] for one in components]))
    assert 0.85 < measured / stated < 1.15
    values = [float(one.variances[0]) for one in components]
    deviation = components[0].standard_deviation[0]
    assert ratio(values, deviation) == pytest.approx(1, abs=0.14)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
def test_the_noise_for_a_budget_is_the_least(budget: Any, adjacency: Adjacency) -> None:
    made = MomentMatrix.for_budget(budget, adjacency=adjacency, lower=LOW, upper=HIGH)
    assert made.claim.guarantee == budget
    less = made.noise_multiplier * (1 - Fraction(1, 10**5))
    assert not replace(made, noise_multiplier=less, budget=None).composed.implies(budget)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_laplace_noise_is_pure_and_less_for_few_columns(adjacency: Adjacency) -> None:
    def made(budget: Any, noise: str, d: int) -> MomentMatrix:
        own: dict[str, Any] = {"lower": (-1.0,) * d, "upper": (1.0,) * d, "noise": noise}
        return MomentMatrix.for_budget(budget, adjacency=adjacency, **own)

    pure = made(PureDP(1), "laplace", 2)
    assert pure.claim.guarantee == PureDP(1)
    assert pure.noise_multiplier == 1
    approx = ApproxDP(1, "1e-6")
    for d, fewer in ((2, True), (20, False)):
        errors = [made(approx, noise, d).expected_error(100) for noise in ("laplace", "gaussian")]
        assert (errors[0] < errors[1]) is fewer


def test_what_is_replaced_counts_in_the_number_alone() -> None:
    holes = np.full((50, 3), np.nan)
    own: dict[str, Any] = {"nonfinite": "replace", "noise_multiplier": TINY}
    estimate = released(matrix(**own), holes)
    assert np.allclose(estimate.value[1:, 1:], 0, atol=1e-3)
    assert estimate.count == pytest.approx(50)


def test_the_released_count_decides_whether_there_is_an_estimate() -> None:
    mechanism = matrix(at_least=20)
    enough = mechanism.minimum_n()
    assert 20 < enough < 60
    assert isinstance(mechanism.release(DATA[:2], SeededBits(1)), Abstained)
    assert isinstance(mechanism.release(DATA[:enough], SeededBits(1)), MomentMatrixEstimate)
    assert matrix(adjacency=REPLACE, at_least=20).minimum_n() == 20
    with pytest.raises(ValueError, match="20"):
        matrix(adjacency=REPLACE, at_least=20).release(DATA[:19], NoBits())
    assert mechanism.expected_error(3) == float("inf")


def test_huge_noise_stays_finite() -> None:
    estimate = matrix(noise_multiplier="1e400").estimate(transcript({"moments": (1 << 60,) * 10}))
    assert isinstance(estimate, MomentMatrixEstimate)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(estimate.covariance).all()
        assert np.isfinite(estimate.regression(0).value).all()


def test_many_columns_are_quick_and_their_sums_exact() -> None:
    """Sum 200 columns: the released integers without noise are those of Python's."""
    rng = np.random.default_rng(2)
    data = rng.integers(-8, 9, (60, 200)) / 8.0
    wide = matrix(lower=(-1.0,) * 200, upper=(1.0,) * 200, noise_multiplier=TINY)
    estimate = released(wide, data)
    assert np.allclose(estimate.value[1:, 1:], data.T @ data, atol=1e-2)
    assert isinstance(estimate.regression(0, list(range(1, 9))).value[0], float)
