"""Exact laws: noise on integers, enclosed up to a stated tail, and ways to put laws together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import Any

from flint import arb

from dpverify.privacy.balls import ball

from .graph import Law

REACH = 13
"""Gaussian noise is listed up to so many deviations: what is left out has a mass below 1e-37."""


def _exp(exponent: Fraction) -> arb:
    return ball(exponent).exp()


def exactly(masses: Mapping[Any, Fraction]) -> Law:
    """Make a law of rational masses."""
    return {outcome: ball(mass) for outcome, mass in masses.items() if mass}


@cache
def point(outcome: Hashable) -> Law:
    """Make the law that gives this outcome."""
    return {outcome: arb(1)}


@cache
def coin(epsilon: Fraction, answer: Hashable, other: Hashable) -> Law:
    """Make the law of an answer that is e^epsilon times as likely as the other one."""
    odds = _exp(epsilon)
    return {answer: odds / (1 + odds), other: 1 / (1 + odds)}


@cache
def weighted(exponents: tuple[Fraction, ...]) -> Law:
    """Make the law on positions with masses proportional to e^exponent."""
    weights = [_exp(exponent) for exponent in exponents]
    total = sum(weights, arb(0))
    return {i: weight / total for i, weight in enumerate(weights)}


# --- noise on an integer ------------------------------------------------------------------------


@cache
def laplace(center: int, scale: Fraction, low: int, high: int) -> Law:
    """Make the law of center + discrete Laplace noise, lumped at or below low, at or above high.

    Where all centers are from low to high, the lumped outcomes have one likelihood ratio: no
    divergence loses anything.
    """
    q = _exp(-1 / scale)
    inner = (1 - q) / (1 + q)

    def tail(m: int) -> arb:
        return q**m / (1 + q) if m > 0 else 1 - q ** (1 - m) / (1 + q)

    masses: dict[Hashable, arb] = {z: inner * q ** abs(z - center) for z in range(low + 1, high)}
    return masses | {low: tail(center - low), high: tail(high - center)}


@cache
def discrete_gaussian(center: int, sigma: Fraction) -> Law:
    """Make the law with mass proportional to e^(-(z - center)^2 / (2 sigma^2)) on integers z."""
    reach, width = int(REACH * sigma) + 1, 2 * sigma**2
    weights = [_exp(-Fraction(z * z) / width) for z in range(reach + 1)]
    listed = 2 * sum(weights, arb(0)) - 1
    # Beyond the reach the weights fall faster than a geometric series.
    beyond = 2 * _exp(-Fraction((reach + 1) ** 2) / width)
    beyond /= 1 - _exp(-Fraction(2 * reach + 3) / width)
    total = listed.union(listed + beyond)
    return {center + z: weights[abs(z)] / total for z in range(-reach, reach + 1)}


@cache
def _above(distance: Fraction, sigma: Fraction) -> arb:
    """Enclose P(sigma N(0, 1) > distance)."""
    return (ball(distance / sigma) / arb(2).sqrt()).erfc() / 2


@cache
def rounded_gaussian(center: int, sigma: Fraction) -> Law:
    """Make the law of center + round(sigma N(0, 1))."""
    reach, half = int(REACH * sigma) + 1, Fraction(1, 2)
    mass = [_above(z - half, sigma) - _above(z + half, sigma) for z in range(reach + 1)]
    return {center + z: mass[abs(z)] for z in range(-reach, reach + 1)}


def gaussian_above(least: int, sigma: Fraction) -> arb:
    """Enclose P(round(sigma N(0, 1)) >= least)."""
    return _above(least - Fraction(1, 2), sigma)


@cache
def shown_gaussian(center: int, sigma: Fraction, least: int) -> Law:
    """Make the law of center + round(sigma N(0, 1)), with all that is below ``least`` as one
    outcome."""
    half, reach = Fraction(1, 2), center + int(REACH * sigma) + 1
    ends = [_above(z - center - half, sigma) for z in range(least, reach + 2)]
    shown: dict[Hashable, arb] = {
        least + i: more - less for i, (more, less) in enumerate(pairwise(ends))
    }
    return {least - 1: 1 - ends[0], **shown}


@cache
def rounded_laplace(center: int, scale: Fraction) -> Law:
    """Make the law of center + round(scale Z), Z standard Laplace; 75 scales are listed."""
    reach, half = int(75 * scale) + 1, Fraction(1, 2)

    def above(z: int) -> arb:
        return _exp(-(z - half) / scale) / 2

    mass = [1 - 2 * above(1), *(above(z) - above(z + 1) for z in range(1, reach + 1))]
    return {center + z: mass[abs(z)] for z in range(-reach, reach + 1)}


# --- several laws -------------------------------------------------------------------------------


def together(laws: Sequence[Law]) -> Law:
    """Make the law of independent outcomes side by side."""
    joint: dict[Hashable, arb] = {(): arb(1)}
    for law in laws:
        joint = {(*o, x): m * n for (o, m), (x, n) in product(_tuples(joint), law.items())}
    return joint


def _tuples(law: Mapping[Hashable, arb]) -> Iterable[tuple[tuple[Any, ...], arb]]:
    return ((outcome, mass) for outcome, mass in law.items() if isinstance(outcome, tuple))


def mixed(parts: Iterable[tuple[arb, Law]]) -> Law:
    """Make the average of laws by hidden coins."""
    mixture: dict[Hashable, arb] = {}
    for weight, law in parts:
        for outcome, mass in law.items():
            mixture[outcome] = mixture.get(outcome, arb(0)) + weight * mass
    return mixture


def then(first: Law, second: Callable[[Any], Law]) -> Law:
    """Make the law of two stages, the second of which is chosen by what came first."""
    return {
        (one, other): mass * more
        for one, mass in first.items()
        for other, more in second(one).items()
    }


def mapped(law: Law, function: Callable[[Any], Law]) -> Law:
    """Make the law of a randomized function of the outcome."""
    return mixed((mass, function(outcome)) for outcome, mass in law.items())
