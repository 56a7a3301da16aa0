"""Moments of clipped and masked normal records: as the spec says, in closed forms, and back."""

from __future__ import annotations

import math
import time
from typing import Any, cast

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpverify.estimation.clip_bounds import How, expected_error
from dpverify.estimation.normal_fits import best_bound
from dpverify.families.clipped_moments import (
    clipped_inverse,
    clipped_spectrum,
    masked_inverse,
    masked_moments,
    masked_spectrum,
    response,
)
from spec.theory import clipped_errors
from spec.theory import clipped_moments as spec

Floats = NDArray[np.float64]
MU = 0.2367
SHARES = (1e-3, 0.05, 0.5, 1.0, 1.5, 3.0, 50.0, 1e3)
SPECTRA: dict[str, Floats] = {
    "one": np.ones(1),
    "two": np.array([1.0, 1e6]),
    "even": np.full(5, 2.0),
    "one short": np.r_[1e-6, np.ones(9)],
    "one long": np.r_[1.0, np.full(19, 1e-6)],
    "logarithmic": np.geomspace(1e-3, 1e3, 50),
    "many": np.geomspace(1, 100, 200),
}


def by_spec(function: Any, spectrum: tuple[float, ...], bound: float) -> list[float]:
    with mp.workdps(spec.DIGITS):
        return [float(v) for v in function([mp.mpf(v) for v in spectrum], mp.mpf(bound))]


@pytest.mark.parametrize(
    ("spectrum", "share"),
    [
        *(((3.0,), share) for share in (0.2, 1.0, 6.0)),
        *(((1.0, 7.0), share) for share in (0.2, 1.0, 6.0)),
        *(((1.0, 1e-4, 2.0), share) for share in (0.2, 6.0)),
        ((1.0, 1.0, 5.0, 9.0), 1.0),
    ],
)
def test_moments_are_the_spec_s(spectrum: tuple[float, ...], share: float) -> None:
    bound = share * sum(spectrum)
    own = np.array(spectrum)
    clipped = by_spec(spec.clipped_spectrum, spectrum, bound)
    assert np.allclose(clipped_spectrum(own, bound), clipped, rtol=1e-11, atol=0)
    mass, *inside = by_spec(spec.masked_spectrum, spectrum, bound)
    found_mass, masked = masked_spectrum(own, bound)
    assert math.isclose(found_mass, mass, rel_tol=1e-11)
    assert np.allclose(masked, inside, rtol=1e-11, atol=0)
    assert np.allclose(masked_moments(own, bound), masked / found_mass, rtol=1e-12, atol=0)
    if len(spectrum) > 1:
        with mp.workdps(spec.DIGITS):
            wanted = spec.off_diagonal([mp.mpf(v) for v in spectrum], mp.mpf(bound), 0, 1)
        assert math.isclose(response(own, bound).off_diagonal[0, 1], float(wanted), rel_tol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 50, 200])
@pytest.mark.parametrize("share", SHARES)
def test_equal_variances_have_closed_forms(d: int, share: float) -> None:
    bound, own = share * d, np.ones(d)
    inside = float(stats.chi2.cdf(bound, d + 2))
    wanted = inside + bound * float(stats.chi2.sf(bound, d)) / d
    assert np.allclose(clipped_spectrum(own, bound), wanted, rtol=1e-11, atol=0)
    mass, masked = masked_spectrum(own, bound)
    assert math.isclose(mass, float(stats.chi2.cdf(bound, d)), rel_tol=1e-10)
    assert np.allclose(masked, inside, rtol=1e-10, atol=0)
    matrix = np.asarray(response(own, bound).off_diagonal)
    psi = d * (d + 2) * stats.chi2.cdf(bound, d + 4) + bound * d * stats.chi2.sf(bound, d + 2)
    assert np.allclose(matrix[0, 1:], psi / (d * (d + 2)), rtol=1e-11, atol=0)


@pytest.mark.parametrize("d", [1000, 5000])
@pytest.mark.parametrize("share", [0.05, 0.9, 1.0, 1.02, 1.1, 1.3, 1.5, 2.0, 5.0, 100.0])
def test_many_columns_have_closed_forms(d: int, share: float) -> None:
    bound = share * d
    inside = float(stats.chi2.cdf(bound, d + 2))
    wanted = inside + bound * float(stats.chi2.sf(bound, d)) / d
    assert math.isclose(clipped_spectrum(np.ones(d), bound)[-1], wanted, rel_tol=1e-10)
    assert abs(masked_spectrum(np.ones(d), bound)[0] - stats.chi2.cdf(bound, d)) < 1e-10


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("share", SHARES)
def test_any_spectrum_keeps_the_laws(name: str, share: float) -> None:
    """Scaling; bounds grow the moments, up to the variances; the sum stays below the bound;
    every digit finite."""
    own = SPECTRA[name]
    bound = share * own.sum()
    clipped = clipped_spectrum(own, bound)
    assert ((clipped > 0) & (clipped <= own * (1 + 1e-12))).all()
    assert clipped.sum() <= bound * (1 + 1e-12)
    assert (clipped_spectrum(own, 1.1 * bound) >= clipped * (1 - 1e-12)).all()
    mass, inside = masked_spectrum(own, bound)
    assert 0 <= mass <= 1
    assert (inside <= clipped * (1 + 1e-12)).all()
    for factor in (2.0**-700, 2.0**700):
        assert np.array_equal(clipped_spectrum(factor * own, factor * bound), factor * clipped)
        assert np.array_equal(masked_spectrum(factor * own, factor * bound)[1], factor * inside)
    # |z|^2 is min(r^2, bound): E min(r^2, bound) is an integral of tails
    if len(own) == 50 and share in (0.5, 1.5):
        places, weights = np.polynomial.legendre.leggauss(40)
        xs = bound * (places + 1) / 2
        tails = [1 - masked_spectrum(own, x)[0] for x in xs]
        assert math.isclose(clipped.sum(), bound / 2 * float(weights @ tails), rel_tol=1e-10)


@pytest.mark.parametrize("name", SPECTRA)
def test_slopes_are_differences(name: str) -> None:
    own = SPECTRA[name]
    for share in (0.05, 1.0, 20.0):
        bound = share * own.sum()
        slopes = response(own, bound)
        for j in {0, len(own) // 2, len(own) - 1}:
            step = np.zeros(len(own))
            step[j] = 1e-4 * own[j]
            moved = [clipped_spectrum(own + k * step, bound) for k in (-2, -1, 1, 2)]
            wanted = (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * step[j])
            size = clipped_spectrum(own, bound) / own[j]
            assert (np.abs(slopes.diagonal[:, j] - wanted) <= 1e-8 * size).all()
        apart = np.subtract.outer(own, own)
        moments = clipped_spectrum(own, bound)
        far = np.abs(apart) > 1e-3 * np.maximum.outer(own, own)
        quotients = np.subtract.outer(moments, moments)[far] / apart[far]
        assert np.allclose(slopes.off_diagonal[far], quotients, rtol=1e-7, atol=0)


def test_moments_are_those_of_samples() -> None:
    """14 means of 400,000 records, each within 5.7 standard errors: false alarm below
    14 * 1.2e-8."""
    own = np.array([0.01, 0.5, 1.0, 1.0, 30.0])
    records = np.random.default_rng(7).normal(size=(400_000, 5)) * np.sqrt(own)
    squares = (records**2).sum(axis=1)
    for bound in (3.0, 40.0):
        clipped = records**2 * np.minimum(1, bound / squares)[:, np.newaxis]
        inside = records**2 * (squares <= bound)[:, np.newaxis]
        for seen, wanted in (
            (clipped, clipped_spectrum(own, bound)),
            (inside, masked_spectrum(own, bound)[1]),
        ):
            errors = seen.std(axis=0) / math.sqrt(len(seen))
            assert (np.abs(seen.mean(axis=0) - wanted) <= 5.7 * errors).all()
        mass = masked_spectrum(own, bound)[0]
        error = math.sqrt(mass * (1 - mass) / len(records))
        assert abs((squares <= bound).mean() - mass) <= 5.7 * error


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("share", SHARES)
def test_clipped_moments_are_inverted(name: str, share: float) -> None:
    own = SPECTRA[name]
    bound = share * own.sum()
    moments = clipped_spectrum(own, bound)
    fit = clipped_inverse(moments, bound)
    assert fit.converged
    assert np.allclose(clipped_spectrum(fit.variances, bound), fit.matched, rtol=1e-9, atol=0)
    if not fit.changed and moments.sum() < 0.98 * bound:
        assert np.allclose(fit.variances, own, rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("share", [0.5, 1.0, 3.0, 50.0])
def test_masked_moments_are_inverted(name: str, share: float) -> None:
    """The flatter the law in the ball, the less its moments say of the variances; they
    themselves come back always."""
    own = SPECTRA[name]
    bound = share * own.sum()
    moments = masked_moments(own, bound)
    fit = masked_inverse(moments, bound)
    assert fit.converged
    assert np.allclose(masked_moments(fit.variances, bound), moments, rtol=1e-8, atol=0)
    if share >= 3:
        assert np.allclose(fit.variances, own, rtol=1e-7, atol=0)


NOISY: dict[str, list[float]] = {
    "negative": [-0.3, 0.2, 1.0],
    "all negative": [-1.0, -2.0, -3.0],
    "huge": [1e300, 1.0, 2.0],
    "infinite": [math.inf, 1.0, -math.inf],
    "over the bound": [2.0, 2.0, 2.0],
    "at the bound": [3.0, 1.0, 1.0],
    "zero": [0.0, 0.0, 0.0],
    "lone": [9.0],
    "subnormal": [5e-324, 1.0],
    "one long": [4.9] + [1e-9] * 30,
}


@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_noisy_moments_have_variances(name: str, floor: float) -> None:
    values = np.array(NOISY[name])
    for inverse in (clipped_inverse, masked_inverse):
        fit = inverse(values, 5.0, floor)
        assert (fit.variances > 0).all()
        assert np.isfinite(fit.variances).all()
        assert fit.converged
        assert fit.matched.sum() <= 5.0 * (1 - 1e-3) * (1 + 1e-12)
    matched = clipped_inverse(values, 5.0, floor)
    again = clipped_spectrum(matched.variances, 5.0)
    assert np.allclose(again, matched.matched, rtol=1e-9, atol=0)


def test_masked_variances_stop_at_their_limit() -> None:
    """A uniform law in the ball has moments of bound / (d + 2): larger ones are of no normal
    law."""
    fit = masked_inverse(np.array([2.0, 0.1]), 5.0, most=1e3)
    assert fit.converged
    assert math.isclose(fit.variances[0], 5e3)
    assert math.isclose(masked_moments(fit.variances, 5.0)[1], 0.1, rel_tol=1e-9)
    assert masked_moments(fit.variances, 5.0)[0] < 2.0


@pytest.mark.parametrize(
    ("values", "bound"), [([math.nan, 1.0], 5.0), ([], 5.0), ([1.0], 0.0), ([1.0], math.inf)]
)
def test_what_has_no_answer_is_refused(values: list[float], bound: float) -> None:
    for inverse in (clipped_inverse, masked_inverse):
        with pytest.raises(ValueError, match="give a"):
            inverse(np.array(values), bound)
    with pytest.raises(ValueError, match="give a"):
        clipped_spectrum(np.array(values), bound)


def test_pairs_have_exponential_tails() -> None:
    """Q of pairs of variances is a sum of exponentials."""
    pairs = np.array([1.0, 3.0, 10.0])
    shares = [np.prod([a / (a - b) for b in pairs if a != b]) for a in pairs]
    for x in (1e-2, 5.0, 28.0, 60.0, 1000.0):
        tail = sum(s * math.exp(-x / (2 * a)) for s, a in zip(shares, pairs, strict=True))
        assert math.isclose(1 - masked_spectrum(np.repeat(pairs, 2), x)[0], tail, abs_tol=1e-13)


@pytest.mark.parametrize("how", ["clip", "mask"])
@pytest.mark.parametrize(("d", "n"), [(1, 100), (2, 1000), (5, 4000), (10, 64_000), (200, 10**6)])
@pytest.mark.parametrize(("moves", "weight"), [(2, None), (1, None), (1, 0.2)])
def test_errors_are_the_spec_s_and_least_but_for_the_grid(
    how: str, d: int, n: int, moves: int, weight: float | None
) -> None:
    """Bounds are on a grid of eighths of an octave, which costs less than 1%."""
    kind = cast(How, how)
    used = weight if weight is not None else 0 if how == "clip" else 1 if moves == 2 else 0.125
    bound = best_bound(d, n, MU, moves, kind, float(used))
    scale = math.sqrt(max(moves, 1 + used**2)) * bound / (n * MU)
    of_count = scale / (used * bound) if used else 0
    with mp.workdps(spec.DIGITS):
        wanted = float(clipped_errors.expected_error(d, n, bound, scale, of_count, how))
    error = expected_error(d, n, MU, moves, bound, kind, weight)
    assert math.isclose(error, wanted, rel_tol=1e-9)
    for k in range(-40, 41):
        assert error <= expected_error(d, n, MU, moves, bound * 1.05**k, kind, weight) * 1.01


@pytest.mark.parametrize(
    "given", [(0, 10, 1.0, 2), (3, 0, 1.0, 2), (3, 10, 0.0, 2), (3, 10, 1.0, 3)]
)
def test_numbers_without_a_bound_are_refused(given: tuple[int, float, float, int]) -> None:
    with pytest.raises(ValueError, match="positive n and mu"):
        expected_error(*given, bound=1.0)


@pytest.mark.parametrize("how", ["clip", "mask"])
def test_private_estimates_have_the_predicted_error(how: str) -> None:
    """160 estimates, 5 columns, n = 4000: their mean square has a standard error of 3% of the
    prediction and is off by 5% at most at this n, so that 20% is 5 standard errors more: false
    alarm below 1e-6."""
    kind, d, n, repeats = cast(How, how), 5, 4000, 160
    rng = np.random.default_rng(11)
    bound = best_bound(d, n, MU, 2, kind, float(how == "mask"))
    scale = math.sqrt(2) * bound / (n * MU)
    squares = []
    for _ in range(repeats):
        records = rng.normal(size=(n, d))
        lengths = (records**2).sum(axis=1)
        if how == "clip":
            records = records * np.sqrt(np.minimum(1, bound / lengths))[:, np.newaxis]
            count = float(n)
        else:
            records = records[lengths <= bound]
            count = len(records) + n * scale / bound * rng.normal()
        noise = rng.normal(size=(d, d))
        seen = (records.T @ records + n * scale * (noise + noise.T) / 2) / count
        values, vectors = np.linalg.eigh(seen)
        inverse = clipped_inverse if how == "clip" else masked_inverse
        own = inverse(values, bound, 0.01).variances
        squares.append((((vectors * own) @ vectors.T - np.eye(d)) ** 2).sum())
    ratio = float(np.mean(squares)) / expected_error(d, n, MU, 2, bound, kind) ** 2
    assert abs(ratio - 1) < 0.2


def test_large_spectra_are_quick() -> None:
    """50 columns: the forward map in milliseconds, the way back in tens of them (limits 20 times
    as long)."""
    own = np.geomspace(1e-3, 1e3, 50)
    start = time.process_time()
    moments = clipped_spectrum(own, own.sum())
    middle = time.process_time()
    assert clipped_inverse(moments, own.sum()).converged
    assert middle - start < 0.1
    assert time.process_time() - middle < 1.0
