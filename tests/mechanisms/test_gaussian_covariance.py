"""``gaussian_covariance``: a covariance without bounds; its accuracy, its outcomes, what it
refuses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    Concentrated,
    CovarianceEstimate,
    GaussianCovariance,
    GaussianDP,
    SeededBits,
)
from spec import gaussian_covariance as spec
from tests.mechanisms.helpers import EDGE, some_edge_rows, typed_releases
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]


def covariance(d: int = 2, **parameters: Any) -> GaussianCovariance:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "center": (0.0,) * d}
    return GaussianCovariance(**base | {"cell": 2**-8} | parameters)


def released(mechanism: GaussianCovariance, data: Any, seed: int = 0) -> CovarianceEstimate:
    estimate = mechanism.release(data, SeededBits(seed))
    assert isinstance(estimate, CovarianceEstimate)
    return estimate


def drawn(mechanism: GaussianCovariance, data: Any, size: int) -> list[CovarianceEstimate]:
    batch = mechanism.law(data).sample(SeededBits(3), size)
    draws = [mechanism.estimate(batch[i]) for i in range(size)]
    assert all(isinstance(one, CovarianceEstimate) for one in draws)
    return draws  # type: ignore[return-value]


SPECTRA: dict[str, Any] = {
    "logarithmic": lambda d: np.logspace(0, 8, d),
    "one small": lambda d: np.r_[1.0, np.full(d - 1, 1e8)],
    "one large": lambda d: np.r_[np.ones(d - 1), 1e8],
    "halves": lambda d: np.repeat([1.0, 1e8], d // 2),
}


def normal(spectrum: Floats, n: int, seed: int) -> tuple[Floats, Floats]:
    """Return normal records with these eigenvalues, turned; and a root of their covariance."""
    rng = np.random.default_rng(seed)
    root = np.linalg.qr(rng.normal(size=(len(spectrum),) * 2))[0] * np.sqrt(spectrum)
    return rng.normal(size=(n, len(spectrum))) @ root.T, root


def relative(root: Floats, factor: Floats) -> Floats:
    """Return the estimate in the coordinates where the truth is the identity."""
    own = np.linalg.solve(root, factor)
    return np.asarray(own @ own.T)


# --- what is refused ------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"center": 1.0}, TypeError, "give a sequence of numbers, one for each column"),
    ({"center": ()}, ValueError, "center is empty"),
    ({"center": (0.0,) * 1025}, ValueError, "1025"),
    ({"center": (1.0, math.inf)}, ValueError, "give finite numbers"),
    ({"center": (1e12, 0.0)}, ValueError, "Subtract a public constant"),
    ({"cell": 0}, ValueError, "cell = 0 is not positive"),
    ({"cell": None}, TypeError, "cell"),
    ({"cell": (1.0, 1.0, 1.0)}, ValueError, "cell: 3 numbers for 2 columns"),
    ({"scale": -1}, ValueError, "scale = -1 is not positive"),
    ({"scale": 1, "rounds": 0}, ValueError, "Leave out scale and give a public center"),
    ({"scale": 1, "certify": "1/10"}, ValueError, "the certificate is for a public center"),
    ({"mean_share": "1/10"}, ValueError, "the mean is released where it is unknown"),
    ({"largest": 1}, ValueError, "leave one of them out"),
    ({"largest": 0, "rounds": 0}, ValueError, "largest = 0 is not positive"),
    ({"largest": 1e300, "rounds": 0}, ValueError, r"give one of 1 to 2\^40 cells"),
    ({"largest": 2.0**-9, "rounds": 0}, ValueError, "0.5 cells; give one of 1"),
    ({"rounds": 21}, ValueError, "rounds = 21; give an integer from 0 to 20"),
    ({"outside": "drop"}, ValueError, "outside"),
    ({"check_share": "96/100"}, ValueError, "add up to less than 1"),
    ({"rounds_share": 1}, ValueError, r"outside \(0, 1\)"),
    ({"scale_steps": 41}, ValueError, "scale_steps = 41"),
    ({"at_least": 0}, ValueError, "at_least = 0; give an integer from 1"),
    ({"precision": 1}, ValueError, "precision = 1; give an integer from 2 to 40"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        covariance(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = covariance(adjacency=adjacency)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([(0, 0), (1.0, np.inf), (0, 0)], NoBits())
    with pytest.raises(ValueError, match="3 columns"):
        mechanism.release([(1.0, 2.0, 3.0)], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match=r"have 2 records.*needs at least"):
            mechanism.release(np.zeros((2, 2)), NoBits())


# --- what is released of any data -----------------------------------------------------------------

WORLDS: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE, "at_least": 1},
    {"at_least": 1, "rounds": 1, "certify": "1/10"},
    {"at_least": 1, "rounds": 0},
    {"at_least": 1, "rounds": 0, "largest": 2.0**32, "outside": "mask"},
    {"at_least": 1, "rounds": 0, "largest": 2.0**-8, "adjacency": REPLACE, "outside": "mask"},
    {"at_least": 1, "scale": 1, "mean_share": "1/10", "rounds": 2, "adjacency": REPLACE},
    {"at_least": 1, "scale": 3, "center": (1e-3, 7.0), "rounds": 2, "precision": 3},
    {"at_least": 1, "cell": (1.0, 2.0**-30), "rounds": 2},
    {"at_least": 1, "cell": 5e-324, "rounds": 2},
    {"at_least": 1, "cell": 1.7e308, "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e-900", "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e2000", "rounds": 2},
    {"at_least": 1, "noise_multiplier": "1e-9", "adjacency": REPLACE, "rounds": 2},
]


@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_every_dataset_has_a_typed_release(world: int) -> None:
    mechanism = covariance(**WORLDS[world])
    datasets: list[Any] = [*some_edge_rows(world), [(1.0, 2.0)] * 90, [(1.0, 0.0)] * 90]
    datasets += [np.random.default_rng(0).normal(size=(100, 2)) * size for size in (1.0, 1e300)]
    _are_typed(mechanism, datasets)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_one_column_has_a_typed_release(adjacency: Adjacency) -> None:
    column = np.array(EDGE)[:, np.newaxis]
    mechanism = covariance(1, adjacency=adjacency, at_least=1)
    many = np.random.default_rng(0).normal(size=(3000, 1))
    _are_typed(mechanism, [column[:0], column[:1], column[-2:], column, many])
    estimate = released(mechanism, many)
    assert estimate.value[0, 0] == pytest.approx(1, abs=0.2)  # six deviations of 1/40, and noise


def _are_typed(mechanism: GaussianCovariance, datasets: list[Any]) -> None:
    for release in typed_releases(mechanism, datasets):
        assert isinstance(release, CovarianceEstimate | Concentrated | Abstained)
        if isinstance(release, CovarianceEstimate):
            for numbers in (release.value, release.factor, release.location):
                assert np.isfinite(numbers).all()
            assert not math.isnan(release.spread)
            assert not math.isnan(release.trace_spread)


def test_copies_and_constant_columns_are_outcomes() -> None:
    rng = np.random.default_rng(1)
    mechanism = covariance(3, noise_multiplier="1/10")
    assert isinstance(mechanism.release(np.zeros((3000, 3)), SeededBits(0)), Abstained)
    for seed in range(3):
        equal = mechanism.release(np.full((3000, 3), 7.0), SeededBits(seed))
        assert isinstance(equal, Concentrated)
        hidden = equal.directions[equal.value == 0]
        assert len(hidden) == 2
        assert np.abs(hidden.sum(axis=1)).max() < 1e-3  # across (1, 1, 1)
    constant = np.column_stack([rng.normal(size=(4000, 2)), np.zeros(4000)])
    outcome = mechanism.release(constant, SeededBits(0))
    assert isinstance(outcome, Concentrated)
    assert 2 in outcome.columns


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "runs"), [(1000, 2), (4000, 3)])
def test_errors_are_as_predicted_whatever_the_spectrum(n: int, runs: int) -> None:
    """The median over all spectra, at kappa 1e8 and fixed seeds, which a change of code moves, not
    chance; the error of one run has a deviation of about 8% of itself, so a median of 8 is off by
    15% with a probability below 1e-5. Of one spectrum it is off by 30% likewise."""
    mechanism = covariance(10, adjacency=REPLACE)
    predicted = float(spec.expected_error(mechanism.parameters, n))
    every: list[float] = []
    most = 1.15 if n > 1000 else 1.4
    for name, spectrum in SPECTRA.items():
        errors = []
        for seed in range(runs):
            records, root = normal(spectrum(10), n, 100 * n + len(every) + seed)
            estimate = released(mechanism, records, seed)
            errors.append(float(np.linalg.norm(relative(root, estimate.factor) - np.eye(10))))
        assert 0.7 * predicted < np.median(errors) < (most + 0.15) * predicted, name
        every += errors
    assert 0.85 * predicted < np.median(every) < most * predicted


@pytest.mark.parametrize(("adjacency", "outside"), [(ADD, "clip"), (REPLACE, "mask")])
def test_noise_is_as_long_as_is_said(adjacency: Adjacency, outside: str) -> None:
    """Measure 150 draws about their mean, off and along the identity: 750 and 150 normal
    numbers, whose deviation is off by 13% and 28% with probability below 1e-6 each; 5% are for
    the second order."""
    records = np.random.default_rng(0).normal(size=(3000, 3))
    mechanism = covariance(
        3, adjacency=adjacency, outside=outside, rounds=0, largest=1, noise_multiplier=4
    )
    draws = drawn(mechanism, records, 150)
    values = np.array([one.value for one in draws])
    off = values - values.mean(axis=0)
    along = np.trace(off, axis1=1, axis2=2) / math.sqrt(3)
    across = math.sqrt(((off**2).sum() - (along**2).sum()) / (5 * 150))
    said = [np.median([getattr(one, name) for one in draws]) for name in ("spread", "trace_spread")]
    assert across == pytest.approx(said[0], rel=0.18)
    assert along.std() == pytest.approx(said[1], rel=0.33)
    whole = math.sqrt((off**2).sum() / 150)
    assert whole == pytest.approx(mechanism.expected_error(3000), rel=0.18)
    noise = float(spec.noise_error(mechanism.parameters, 3000))
    assert mechanism.expected_error(3000) == pytest.approx(noise, rel=1e-3)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_intervals_hold_for_what_there_is_without_noise(adjacency: Adjacency) -> None:
    """Each entry on its own in 120 draws: 95%, but for 1e-6; about the mean of the draws. Half
    as wide ones do not hold: of an entry as often as that with probability below 1e-4."""
    records = normal(np.array([1.0, 100.0]), 3000, 4)[0]
    mechanism = covariance(adjacency=adjacency, noise_multiplier=8, rounds=3)
    draws = drawn(mechanism, records, 120)
    exact = np.mean([one.value for one in draws], axis=0)
    least = stats.binom.ppf(1e-6, 120, 0.95)
    for level, holds in ((0.95, True), (0.67, False)):
        inside = np.zeros((2, 2))
        for one in draws:
            low, high = one.interval(level)
            inside += (low <= exact) & (exact <= high)
        assert (inside >= least).all() == holds


def test_a_certificate_holds() -> None:
    """20 runs at kappa 1e4, each wrong with probability at most 1/100: more than 4 of them with
    one below 2e-6. The upper end is there, for no record was clipped in most runs."""
    mechanism = covariance(4, certify="1/5", noise_multiplier="1/2")
    wrong = finite = 0
    for seed in range(20):
        records, root = normal(np.logspace(0, 4, 4), 2000, 50 + seed)
        estimate = released(mechanism, records, seed)
        assert estimate.certificate is not None
        low, high = estimate.certificate
        values = np.linalg.eigvalsh(np.linalg.inv(relative(root, estimate.factor)))
        wrong += not low <= values[0] <= values[-1] <= high
        finite += high < 3
        assert 0.3 < low < 1 < high
    assert wrong <= 4
    assert finite >= 15


def test_far_from_normal_is_said() -> None:
    rng = np.random.default_rng(2)
    mechanism = covariance(3, center=(5.0,) * 3, scale=1, mean_share="1/10", noise_multiplier="1/2")
    laws = {
        "normal": rng.normal(size=(8000, 3)),
        "exponential": rng.exponential(size=(8000, 3)) - 1,
        "t": rng.standard_t(3, size=(8000, 3)),
    }
    for name, records in laws.items():
        estimate = released(mechanism, records + 5)
        assert estimate.looks_normal is (name == "normal")


def test_an_unknown_center_is_found() -> None:
    """Find the center: its noise has the deviation that is said: 30 runs of 3 numbers about
    their mean, off by 40% with probability below 1e-6 (chi-square of 87 degrees)."""
    records, root = normal(np.logspace(0, 4, 3), 3000, 6)
    for share in (None, "1/5"):
        mechanism = covariance(
            3, adjacency=REPLACE, scale=4, mean_share=share, rounds=4, noise_multiplier=4
        )
        draws = drawn(mechanism, records + 100.0, 30)
        places = np.array([one.location for one in draws])
        assert np.abs(np.linalg.solve(root, places.mean(axis=0) - 100.0)).max() < 0.12
        off = np.linalg.solve(root, (places - places.mean(axis=0)).T)
        said = mechanism.expected_mean_error(3000)
        assert math.sqrt((off**2).sum() / 30) == pytest.approx(said, rel=0.4)


@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_public_deviation_saves_the_rounds(adjacency: Adjacency, outside: str) -> None:
    """Nearly spherical records; 1.5 times their deviation is public. Six times the predicted
    error is never seen."""
    records = np.random.default_rng(3).normal(size=(4000, 4)) * [1.0, 0.8, 1.1, 0.9]
    mechanism = covariance(4, adjacency=adjacency, rounds=0, largest=1.5, outside=outside)
    names = [stage.name for stage in mechanism.fixed_plan]  # type: ignore[union-attr]
    assert names == ["count", "moments", "beyond"]
    estimate = released(mechanism, records)
    plain: Any = np.linalg.cholesky(records.T @ records / 4000)
    error = np.linalg.norm(relative(plain, estimate.factor) - np.eye(4))
    assert error < 6 * float(spec.expected_error(mechanism.parameters, 4000))


def test_a_hundred_columns() -> None:
    """n = 30000: the error is that of the prediction within 15% (5049 numbers add up: a few
    percent by chance)."""
    mechanism = covariance(100, adjacency=REPLACE, rounds=2)
    records, root = normal(np.logspace(0, 1, 100), 30_000, 9)
    estimate = released(mechanism, records)
    error = np.linalg.norm(relative(root, estimate.factor) - np.eye(100))
    with mp.workdps(50):
        predicted = float(spec.expected_error(mechanism.parameters, 30_000))
    assert error == pytest.approx(predicted, rel=0.15)


# --- what changes nothing -------------------------------------------------------------------------


def test_order_of_records_changes_nothing() -> None:
    records = normal(np.logspace(0, 2, 3), 1000, 6)[0]
    turned = records[np.random.default_rng(0).permutation(len(records))]
    for mechanism in (covariance(3), covariance(3, scale=2, mean_share="1/5", adjacency=REPLACE)):
        first, second = (mechanism.release(one, SeededBits(2)) for one in (records, turned))
        assert first == second


def test_columns_may_have_units_of_their_own() -> None:
    """Scaling columns by powers of two, with their cells, scales the result and nothing else."""
    records = normal(np.logspace(0, 2, 3), 2000, 5)[0]
    factors = np.array([2.0**20, 1.0, 2.0**-30])
    cells = 2.0**-8 * factors
    plain = released(covariance(3, cell=(2.0**-8,) * 3), records, 1)
    scaled = released(covariance(3, cell=tuple(cells.tolist())), records * factors, 1)
    np.testing.assert_allclose(
        scaled.value, plain.value * np.outer(factors, factors), rtol=1e-12, atol=0
    )


def test_what_noise_does_is_told_before() -> None:
    for adjacency in Adjacency:
        mechanism = covariance(4, adjacency=adjacency, noise_multiplier=Fraction(3))
        n = mechanism.minimum_n() + 3000
        errors = [mechanism.expected_error(k) for k in (n, 2 * n, 8 * n)]
        assert errors[0] > errors[1] > errors[2] > 0
        assert mechanism.records_for(errors[1]) <= 2 * n
        assert math.isinf(mechanism.expected_error(3))


@pytest.mark.parametrize("budget", [GaussianDP(1), ApproxDP(1, "1e-6")])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_budget_is_met(budget: Any, adjacency: Adjacency) -> None:
    for more in ({}, {"scale": 1, "mean_share": "1/10"}, {"certify": "1/10"}):
        parameters: dict[str, Any] = {"center": (0.0,) * 3, "cell": 1e-3, **more}
        mechanism = GaussianCovariance.for_budget(budget, adjacency=adjacency, **parameters)
        assert mechanism.claim.guarantee == budget
        plain = 1.0 if isinstance(budget, GaussianDP) else 0.236704
        assert float(mechanism.noise_multiplier) == pytest.approx(1 / plain, rel=1e-4)


@pytest.mark.parametrize("cell", [1e-264, 1e-160, 1e140, 1e290])
def test_what_follows_from_an_estimate_has_no_nan_in_any_unit(cell: float) -> None:
    """Change units: where the covariance is below or beyond every float, its factor,
    correlations and deviations are not."""
    mechanism = covariance(2, cell=cell, noise_multiplier=Fraction(1, 10))
    data = np.random.default_rng(0).normal(size=(3000, 2)) @ [[1.0, 0.5], [0.0, 1.0]] * 1000 * cell
    fit = mechanism.release(data, SeededBits(0))
    assert isinstance(fit, CovarianceEstimate)
    assert fit.correlation[0, 1] == pytest.approx(math.sqrt(0.2), abs=0.05)
    assert fit.deviations == pytest.approx(np.array([1.0, math.sqrt(1.25)]) * 1000 * cell, rel=0.1)
    own = (fit.precision, fit.standard_deviation, fit.deviations_noise, *fit.interval())
    assert not any(np.isnan(one).any() for one in own)
    assert (fit.deviations_noise < fit.deviations).all()


def test_errors_do_not_follow_the_condition_number() -> None:
    """Medians of 16 runs at kappa 1, 10^4 and 10^8: the logarithm of an error has a deviation of
    .45, so that of a ratio of medians .2, and one beyond 2.4 a probability below 1e-5. One
    round in place of eight is not enough at 10^8, and says so."""

    def records(seed: int, roots: Floats) -> Floats:
        return np.asarray(np.random.default_rng(seed).normal(size=(1600, 2)) * roots)

    def median(kappa: float) -> float:
        mechanism = covariance(adjacency=REPLACE, noise_multiplier=6)
        roots, errors = np.sqrt(np.geomspace(1.0, kappa, 2)), []
        for seed in range(16):
            data = records(seed, roots)
            value = released(mechanism, data, seed).value
            errors.append(float(np.linalg.norm(value / np.outer(roots, roots) - np.eye(2))))
        return float(np.median(errors))

    medians = [median(kappa) for kappa in (1.0, 1e4, 1e8)]
    assert max(medians) < 2.4 * min(medians)
    hasty = covariance(adjacency=REPLACE, noise_multiplier=6, rounds=1)
    far = records(0, np.array([1.0, 1e4]))
    assert isinstance(hasty.release(far, SeededBits(0)), Concentrated)
