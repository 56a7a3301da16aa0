"""Normal laws fitted to clipped moments: what a fit follows, where records are clipped, how far
off it is at most."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from dpverify.estimation.clip_bounds import expected_error
from dpverify.estimation.normal_fits import (
    best_bound,
    best_mean_bound,
    fitted,
    length_within,
    mean_response,
    of_identity,
    per_record,
    quotients,
    rarely_longer,
    responses,
    sandwich,
)
from dpverify.families.clipped_moments import clipped_spectrum, masked_moments
from spec.theory import normal_fits as spec
from spec.theory.chi_square import below

How = Literal["clip", "mask"]
_FINE = 40


@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_a_fit_has_the_moments_that_were_seen(d: int, outside: How) -> None:
    """Turned, at condition number 10; of a law clipped at a squared radius of twice its trace."""
    moments = clipped_spectrum if outside == "clip" else masked_moments
    rng = np.random.default_rng(d)
    own = np.logspace(0, 1, d)
    bound = 2 * own.sum()
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    seen = (turn * (moments(own, bound) / bound)) @ turn.T
    entries = np.r_[np.diag(seen), seen[np.triu_indices(d, 1)]]
    row = tuple(int(v) for v in np.rint(np.ldexp(entries, _FINE)))
    fit = fitted(row, d, _FINE, 1e-9, outside)
    assert fit is not None
    covariance = fit.factor @ fit.factor.T * bound
    np.testing.assert_allclose(covariance, (turn * own) @ turn.T, rtol=1e-6, atol=1e-6)
    assert fitted((-1,) * len(row), d, _FINE, 1e-9, outside) is None


@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize("d", [2, 5])
def test_responses_are_derivatives(d: int, outside: How) -> None:
    """Central differences, without and along the identity; 1e-3 for the one-sided ones that are
    shipped."""
    moments = clipped_spectrum if outside == "clip" else masked_moments
    for bound in (0.5 * d, 1.0 * d, 4.0 * d):
        across, along = responses(d, bound, outside)
        even, step = np.ones(d), 1e-5
        apart = np.r_[1.0, -1.0, np.zeros(d - 2)] * step
        slope = (moments(even + apart, bound) - moments(even - apart, bound))[0] / (
            2 * step * bound
        )
        assert across == pytest.approx(slope, rel=1e-3)
        trace = (moments(even + step, bound) - moments(even - step, bound)).sum() / (
            2 * step * bound
        )
        assert along == pytest.approx(trace / d, rel=1e-3)


@pytest.mark.parametrize("d", [1, 3, 20])
def test_moments_of_the_identity(d: int) -> None:
    """Compare with quadrature over the length."""
    square = stats.chi2(d)
    for bound in (0.7 * d, 2.0 * d):
        below = integrate.quad(lambda v: v * square.pdf(v), 0, bound)[0]
        inside = float(square.cdf(bound))
        trace, share = of_identity(d, bound, "clip")
        assert trace == pytest.approx(below / bound + 1 - inside, rel=1e-6)
        assert share == 1
        trace, share = of_identity(d, bound, "mask")
        assert share == pytest.approx(inside, rel=1e-9)
        assert trace == pytest.approx(below / bound / inside, rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_a_clipped_mean_follows_the_mean(d: int) -> None:
    """E[min(1, r / |y|)] by quadrature, |y|^2 chi-square of d + 2 degrees; and its limits."""
    law = stats.chi(d + 2)
    for bound in (0.1 * d, 1.0 * d, 3.0 * d):
        r = math.sqrt(bound)
        low, middle, high = 0.0, min(max(r, law.ppf(1e-12)), law.isf(1e-12)), law.isf(1e-14)
        wanted = integrate.quad(law.pdf, low, middle)[0]
        wanted += integrate.quad(lambda v, r=r: r / v * law.pdf(v), middle, high)[0]
        assert mean_response(d, bound) == pytest.approx(wanted, rel=1e-6)
    assert mean_response(d, 50.0 * d + 200) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.parametrize(("d", "n", "mu"), [(2, 300.0, 1.0), (10, 4000.0, 0.5), (40, 1e6, 0.1)])
def test_bounds_are_nearly_the_best(d: int, n: float, mu: float, outside: How) -> None:
    """Within 1% in error of the least on a grid 16 times as fine."""
    best = best_bound(d, n, mu, 2, outside, float(outside == "mask"))
    assert round(8 * math.log2(best / d)) == pytest.approx(8 * math.log2(best / d), abs=1e-9)

    def error(bound: float) -> float:
        return expected_error(d, n, mu, 2, bound, outside, float(outside == "mask"))

    least = min(error(d * 2 ** (k / 128)) for k in range(-3 * 128, 6 * 128))
    assert error(best) <= 1.01 * least


def test_mean_bounds_are_nearly_the_best() -> None:
    """Compare the errors of 200,000 normal records, whose noise is the same for all bounds; 2%
    of the error for them."""
    d, n, mu = 5, 400.0, 0.5
    squares = stats.chi2(d).rvs(200_000, random_state=1)

    def error(bound: float) -> float:
        sampling = np.minimum(squares, bound).mean() / n
        noise = d * 4 * bound / (n * mu) ** 2
        return math.sqrt(sampling + noise) / mean_response(d, bound)

    best = best_mean_bound(d, n, mu, 2)
    assert error(best) <= 1.02 * min(error(d * 2 ** (k / 16)) for k in range(-40, 90))


@pytest.mark.parametrize("digits", [15, 25, 50])
def test_lengths_of_the_spec_have_all_their_digits(digits: int) -> None:
    """Also of rare shares, on either side: the share is right to all digits but three."""
    shares = ("0.5", "0.9", "1e-9", "0.05", "0.999999")
    for d, share in itertools.product((1, 2, 3, 10, 100, 1024), map(mp.mpf, shares)):
        with mp.workdps(digits):
            length = spec.length_within(d, share)
        with mp.workdps(digits + 20):
            assert abs(below(d, length**2) / share - 1) < mp.mpf(10) ** (3 - digits)


def test_lengths_are_quantiles_and_their_bounds() -> None:
    for d in (1, 3, 50):
        assert length_within(d, 0.5) ** 2 == pytest.approx(stats.chi2(d).ppf(0.5), rel=1e-9)
        for n in (10.0, 1e5):
            assert n * stats.chi2(d).sf(rarely_longer(d, n, 0.01) ** 2) <= 0.01


def test_quotients_are_the_nearest_and_cut() -> None:
    values, by = np.array([[1.0, -2.0, 1e300], [0.5, 0.0, -1e300]]), np.array([4.0, 0.25])
    assert quotients(values, by, 2).tolist() == [[1, -2, 16], [8, 0, -16]]
    seen = per_record(np.array([[10, 20, 100]]), 2, Fraction(1, 10), np.array([4.0]), 20)
    assert seen.tolist() == [[2**18, 2**19, round(Fraction(100 * 169, 239 * 40) * 2**20)]]


def test_a_sandwich_holds() -> None:
    """400 noisy moments of 500 records, a noisy number of them too: wrong with probability 1/50
    at most; so more than 25 times with one below 1e-5 (binomial)."""
    rng = np.random.default_rng(0)
    d, n, noise, of_number = 4, 500, 0.05, 0.03
    wrong = 0
    for _ in range(400):
        records = rng.normal(size=(n, d))
        own = rng.normal(size=(d, d)) * noise
        number = n * (1 + of_number * rng.normal())
        seen: Any = records.T @ records / number + (own + own.T) / math.sqrt(2)
        low, high = sandwich(np.linalg.eigvalsh(seen), n, noise, 0.02, of_number)
        wrong += not low <= 1 <= high
    assert wrong <= 25
    assert sandwich(np.ones(3), 4.0, 0.1, 0.01)[1] == math.inf
    assert sandwich(np.zeros(3), 1e6, 0.1, 0.01)[0] == 0
