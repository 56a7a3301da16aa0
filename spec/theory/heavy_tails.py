"""Means of records of which only a second moment is known: the bias of clipping them to a ball."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real
from .obligations import require

Point = tuple[Any, ...]
Law = Mapping[Point, Fraction]
"""A finite law: points and their probabilities."""
_BIAS = Source("OURS", "clipping moves a mean by at most the second moment over four radii")
_HEAVY = Source(
    "KSU20",
    "means under a bounded second moment",
    note="the bound and its constants are derived here",
)


@states(_BIAS, _HEAVY)
def clipping_bias(second_moment: Any, radius: Any, outliers: Any = 0) -> Any:
    """Bound how far clipping to a ball moves a mean of records with E |X - center|^2 <=
    second_moment.

    outliers: the additional share of records that may be arbitrary; their effect is on the mean
    of the clipped records.
    Proof. Clipping moves X by (|X - center| - R)^+, and (t - R)^+ <= t^2 / (4 R) as (t - 2 R)^2
    >= 0; so the mean moves by at most E |X - center|^2 / (4 R). With t = 2 R or 0 both are
    equal. A record that is replaced by any other moves the mean of the clipped ones by at most
    2 R / n, a share of them by 2 R times the share. QED
    """
    return real(second_moment) / (4 * real(radius)) + 2 * real(radius) * real(outliers)


def best_radius(second_moment: Any, noise: Any, outliers: Any = 0) -> Any:
    """Find the radius R that makes (noise + 2 outliers) R + second_moment / (4 R) least, noise for
    R = 1."""
    return mp.sqrt(real(second_moment) / (real(noise) + 2 * real(outliers))) / 2


def _laws() -> Iterator[tuple[Law, Fraction]]:
    """List small laws in one and two dimensions, and radii; the first attain the bound."""
    for rare, radius in product((Fraction(1, 2), Fraction(1, 100)), (Fraction(1), Fraction(3))):
        yield {(Fraction(0),): 1 - rare, (2 * radius,): rare}, radius
        yield {(Fraction(0), Fraction(0)): 1 - rare, (Fraction(0), -2 * radius): rare}, radius
    for radius in (Fraction(1), Fraction(5)):
        for far in (Fraction(1), Fraction(7), Fraction(10**6)):
            half = Fraction(1, 2)
            yield {(-far,): half, (far,): half}, radius
            yield {(Fraction(0),): half, (far,): half / 3, (-2 * far,): half * 2 / 3}, radius
            yield {(3 * far, 4 * far): half / 5, (Fraction(0), far / 9): 1 - half / 5}, radius


def _length(point: Point) -> Any:
    return mp.sqrt(mp.fsum(real(x) ** 2 for x in point))


def _moved(law: Law, radius: Fraction) -> Any:
    """Compute how far clipping moves the mean of this law."""
    width = len(next(iter(law)))
    total = [mp.mpf(0)] * width
    for point, mass in law.items():
        length = _length(point)
        left = 1 - min(mp.mpf(1), real(radius) / length) if length else mp.mpf(0)
        total = [t + real(mass) * left * real(x) for t, x in zip(total, point, strict=True)]
    return _length(tuple(total))


@states(_BIAS)
def obligation_bias(claimed: Callable[..., Any] = clipping_bias) -> int:
    """Check that clipping moves the mean of no small law by more than ``claimed`` of its second
    moment, and that of some law by as much; outliers that are opposite to all other records
    move it by 2 R times their share besides.
    """
    cases, attained = 0, 0
    for law, radius in _laws():
        second = mp.fsum(real(m) * _length(p) ** 2 for p, m in law.items())
        moved, bound = _moved(law, radius), claimed(second, radius)
        require(moved <= bound * (1 + mp.mpf(10) ** -20), f"{law}, {radius}: {moved}, {bound}")
        attained += abs(moved / bound - 1) < mp.mpf(10) ** -20
        cases += 1
    require(attained >= 4, "no law attains the bound")
    for share, radius in product((Fraction(1, 100), Fraction(1, 4)), (Fraction(1), Fraction(6))):
        # all records at the radius, a share of them moved to the other side and beyond
        moved = 2 * radius * share
        added = claimed(radius**2, radius, share) - claimed(radius**2, radius)
        require(abs(added / real(moved) - 1) < mp.mpf(10) ** -20, f"{share}, {radius}: {added}")
        cases += 1
    return cases


@states(_HEAVY)
def obligation_radius(claimed: Callable[..., Any] = best_radius) -> int:
    """Check that ``claimed`` minimizes the sum of noise and bias, with the minimum
    sqrt(second_moment (noise + 2 outliers)).

    So the error goes as (second_moment / (epsilon n))^(1/2), and with outliers alone as
    (2 second_moment outliers)^(1/2).
    """
    cases = 0
    for second, noise, share in product((1, 50), ("1/10", "1/10000"), ("0", "1/20")):
        rate, part = real(Fraction(noise)), Fraction(share)

        def total(radius: Any, rate: Any = rate, part: Any = part, second: Any = second) -> Any:
            return rate * radius + clipping_bias(second, radius, part)

        radius = claimed(second, rate, part)
        case = f"{second}, {noise}, {share}: radius {mp.nstr(radius, 8)}"
        for factor in ("9/10", "11/10"):
            require(total(radius) < total(radius * real(Fraction(factor))), case)
        least = mp.sqrt(second * (rate + 2 * real(part)))
        require(abs(total(radius) / least - 1) < mp.mpf(10) ** -12, case)
        cases += 1
    return cases


@states(_HEAVY)
def second_moment_bound(noise: Any, n: int, second_moment: Any, radius: Any) -> Any:
    """Bound the root mean squared error of a clipped mean of n independent records, ``noise`` being
    the length of its noise.

    Clipping brings no two records farther apart, so a clipped record's variance is at most the
    second moment.
    """
    sampling = real(second_moment) / n
    return mp.sqrt(real(noise) ** 2 + sampling) + clipping_bias(second_moment, radius)


# --- two heavy-tailed laws in one dimension -----------------------------------------------------


def _density(law: str, x: Any) -> Any:
    if law == "student":  # Student's law with three degrees of freedom
        return 2 / (mp.pi * mp.sqrt(3) * (1 + x**2 / 3) ** 2)
    return mp.exp(-(mp.log(x) ** 2) / 2) / (x * mp.sqrt(2 * mp.pi)) if x > 0 else mp.mpf(0)


def mean_of(law: str) -> Any:
    """Give the mean of t with three degrees of freedom, or of the standard log-normal law."""
    return mp.mpf(0) if law == "student" else mp.exp(mp.mpf(1) / 2)


def clipped_moments(law: str, radius: Any) -> tuple[Any, Any]:
    """Compute mean and variance of records of this law clipped to -radius..radius, by
    quadrature."""
    with mp.workdps(20):
        r = real(radius)
        ends = [-r, 0, r] if law == "student" else [0, min(mp.mpf(1), r / 2), r]
        inside, first, second = (
            mp.quad(lambda x, k=k: x**k * _density(law, x), ends) for k in (0, 1, 2)
        )
        beyond = 1 - inside
        first += 0 if law == "student" else r * beyond
        return first, second + r**2 * beyond - first**2
