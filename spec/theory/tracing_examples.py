"""The tracing bound against estimates whose privacy and error are known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, states

from .gaussian_laws import most_gaussian
from .laws import real
from .obligations import require
from .tracing_bound import (
    BOUND,
    Error,
    Variances,
    least_error,
    least_error_in_box,
    least_gaussian_error,
)


def _implied(epsilon: Fraction) -> tuple[Any, Any]:
    """Return the epsilon of a randomized sign that tracing implies, by positive parts and by
    means.
    """
    kept = 1 / (1 + mp.exp(-real(epsilon)))
    return mp.log(2 * kept), mp.asinh(2 * kept - 1)


_PRINTED = {"1/2": (0.22, 0.24), "1": (0.38, 0.45), "2": (0.57, 0.70)}


@states(BOUND)
def obligation_response(claimed: Callable[[Fraction], tuple[Any, Any]] = _implied) -> int:
    """Check (b) and (c) where all is exact: the sign of X ~ N(0, 1) by randomized response.

    E Z^+ <= e^epsilon E Z'^+ and E Z <= sinh(epsilon) E|Z'|, by quadrature; solved for epsilon
    they say what is claimed, never above the truth: (0.22, 0.24), (0.38, 0.45), (0.57, 0.70) at
    1/2, 1, 2.
    """
    near = mp.mpf("1e-12")
    for text, printed in _PRINTED.items():
        epsilon = Fraction(text)
        kept = 1 / (1 + mp.exp(-real(epsilon)))
        length = mp.quad(lambda x: x * mp.npdf(x), [0, 3, 12])  # over either half of the line
        positive, negative = 2 * kept * length, 2 * (1 - kept) * length
        without = 2 * length  # E|Z'|: the sign says nothing of a fresh record
        require(abs(without - mp.sqrt(2 / mp.pi)) < near, f"E|Z'| = {without}")
        epsilons = mp.log(2 * positive / without), mp.asinh((positive - negative) / without)
        for mine, said, rounded in zip(epsilons, claimed(epsilon), printed, strict=True):
            case = f"epsilon = {epsilon}: implied {mine}, said to be {said}, about {rounded}"
            require(abs(mine - said) < near and said <= real(epsilon), case)
            require(abs(said - rounded) <= 0.005, case)
    return len(_PRINTED)


@states(BOUND)
def obligation_below_errors(claimed: Error = least_error) -> int:
    """Check that the bound is at most the exact error of private estimates: one randomized sign a
    record and coordinate, best weighted; and with probability delta the posterior mean, else 0.
    Both are private where records are replaced, and some sign is within a tenth of that bound.
    """
    cases, nearest = 0, mp.inf
    spreads = (Fraction(1, 2), Fraction(5))
    for n, spread, sigmas, adjacency in product((1, 2, 100), spreads, ((1,), (2, 1, 1)), Adjacency):
        variances = [Fraction(sigma) ** 2 for sigma in sigmas]
        given = {"variances": variances, "n": n, "spread": spread, "adjacency": adjacency}
        for text in ("0", "1/100", "1/2", "1", "3"):
            epsilon = Fraction(text)
            bound = claimed(epsilon=epsilon, delta=Fraction(0), **given)
            error = _response_error(epsilon / len(sigmas), n, spread, variances)
            case = f"{given}, epsilon = {text}: error {error} below the bound {bound}"
            require(bound <= error * (1 + mp.mpf("1e-12")), case)
            if adjacency is Adjacency.REPLACE and epsilon:
                nearest = min(nearest, error / bound)
            cases += 1
        for delta in (Fraction(1, 10**6), Fraction(1, 2), Fraction(99, 100)):
            bound = claimed(epsilon=Fraction(0), delta=delta, **given)
            error = _rare_error(delta, n, spread, variances)
            require(bound <= error, f"{given}, delta = {delta}: error {error} below {bound}")
            cases += 1
    require(nearest < mp.mpf("1.1"), f"no error is below {nearest} of its bound")
    return cases


def _response_error(epsilon: Fraction, n: int, spread: Fraction, variances: Variances) -> Any:
    """Return the error of the best multiple of the sum of n randomized signs s of N(p, sigma^2): p
    and s have covariance c, two signs of one mean v (Sheppard's arcsine).
    """
    told, square = mp.tanh(real(epsilon) / 2), real(spread**2)
    total = mp.mpf(0)
    for variance in variances:
        whole = real(spread**2 + variance)
        c = told * mp.sqrt(2 / mp.pi / whole) * square
        v = told**2 * 2 / mp.pi * mp.asin(square / whole)
        total += square - n * c**2 / (1 + (n - 1) * v)
    return mp.sqrt(total)


def _rare_error(delta: Fraction, n: int, spread: Fraction, variances: Variances) -> Any:
    square = spread**2
    each = (square - delta * n * square**2 / (n * square + v) for v in variances)
    return mp.sqrt(real(sum(each, Fraction(0))))


_APART = {"1e-3": "3.13", "1e-6": "3.34", "1e-9": "4.265"}


@states(BOUND)
def obligation_apart(claimed: Mapping[str, str] = _APART) -> int:
    """Check, within 1/200, the factor by which the bound for the most Gaussian DP that
    (1, delta)-DP implies is above that for all (1, delta)-DP estimates of 100 columns.

    The noise of that Gaussian mechanism, on records whose length is sqrt(tr S^(1/2)) for
    certain, is within 0.3% of the former. So this factor is not lost by an estimate from sums
    and Gaussian noise: it is a difference between the bounds.
    """
    for text, said in claimed.items():
        delta = Fraction(text)
        square = most_gaussian(1, real(delta))
        own: dict[str, Any] = {"variances": [Fraction(1, 100)] * 100, "n": 50}
        every = least_error(epsilon=Fraction(1), delta=delta, **own)
        gaussian = least_gaussian_error(mu_squared=square, **own)
        apart = gaussian / every
        require(
            abs(apart - mp.mpf(said)) <= mp.mpf(1) / 200, f"delta = {text}: {apart}, not {said}"
        )
        noise = 10 / (50 * mp.sqrt(real(square)))
        require(gaussian <= noise <= gaussian * mp.mpf("1.003"), f"{text}: {noise}, {gaussian}")
    return len(claimed)


@states(BOUND)
def obligation_in_box(claimed: Error = least_error_in_box) -> int:
    """Check that the bound for uniform means is at most the errors of 0 and of the best multiple
    of one randomized sign, by quadrature.
    """
    cases = 0
    for reach, sigma in product((Fraction(1, 2), Fraction(1), Fraction(10)), (1, 3)):
        square = real(reach**2) / 3

        def told(p: Any, sigma: int = sigma) -> Any:
            return p * mp.erf(p / sigma / mp.sqrt(2))

        c = mp.quad(told, [0, real(reach)]) / real(reach)
        for text in ("1/1000", "1/10", "1", "3"):
            epsilon = Fraction(text)
            error = mp.sqrt(square - (c * mp.tanh(real(epsilon) / 2)) ** 2)
            for n, delta, most in ((1, Fraction(0), error), (9, Fraction(1, 9), mp.sqrt(square))):
                given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "n": n, "reach": reach}
                bound = claimed(variances=[Fraction(sigma**2)], **given)
                require(bound <= most, f"{given}, sigma = {sigma}: error {most} below {bound}")
                cases += 1
    return cases
