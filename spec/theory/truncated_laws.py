"""Foundations of truncated estimation: masses and means of truncated laws, tails of statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from dpverify.privacy import Source, SourceStatus, states

from . import families
from .families import Known
from .obligations import require

_BIAS = Source("ZZ25", "Proposition B.6, bias of a truncated mean", SourceStatus.CHANGED_CONSTANTS)
_MASS = Source("OURS", "mass of a set under a nearby parameter", note="by Jensen's inequality")
_TAIL = Source("ZZ25", "Proposition A.8, statistics are subexponential")


_INTERVALS = ((-1.5, 1.5), (-0.3, 2.0), (0.5, 3.0), (-4.0, -0.7))
"""Intervals about the mean, in deviations."""


def _worlds() -> list[tuple[str, Known, float]]:
    return [
        ("normal", families.normal(2.0), 0.7),
        ("exponential", families.exponential(), -0.2),
        ("bernoulli", families.bernoulli(), 1.5),
        ("continuous poisson", families.poisson(lattice=False), 2.0),
    ]


def bias_bound(share: float, variance: float) -> float:
    """Return sqrt(Var T (1 - a) / a), a bound on |E[T; S] / P(S) - E T|, a = P(S).

    Proof. E (T - E T) 1_S = E (T - E T)(1_S - a), by Cauchy and Schwarz. QED
    """
    return math.sqrt(variance * (1 - share) / share)


@states(_BIAS)
def obligation_bias(claimed: Callable[[float, float], float] = bias_bound) -> int:
    """Check for four families that the mean of records inside an interval is off by at most
    ``claimed``; half of the bound does not hold: above the median of a normal law it is .8 of
    it.
    """
    cases, worst = 0, 0.0
    for name, family, theta in _worlds():
        free = families.whole(family, theta)
        for low, high in (*_INTERVALS, (0.0, 30.0)):
            s = math.sqrt(free.variance)
            ends = free.mean + low * s, free.mean + high * s
            at = families.limited(family, theta, *ends, "mask")
            if not at.inside > 1e-9:
                continue
            bound = claimed(at.inside, free.variance)
            off = abs(at.mean - free.mean)
            require(off <= bound * (1 + 1e-9), f"{name}, {ends}: {off}, {bound}")
            worst, cases = max(worst, off / bound), cases + 1
    require(worst > 0.75, f"no law comes near the bound: {worst}")
    return cases


def mass_bound(share: float, most: float, distance: float) -> float:
    """Return ln a - sqrt(L (1 - a) / a) D - L D^2 / 2, a lower bound on ln P'(S).

    Parameters are D apart, with variances of T of at most L between them.

    P'(S) / a = E[exp((t' - t) T - A(t') + A(t)) | S] >= exp((t' - t) E[T | S] - A(t') + A(t))
    (Jensen), E[T | S] is within the bias of A'(t), and A(t') <= A(t) + A'(t)(t' - t) + L
    D^2 / 2. QED
    """
    return math.log(share) - bias_bound(share, most) * distance - most * distance**2 / 2


@states(_MASS)
def obligation_mass(claimed: Callable[[float, float, float], float] = mass_bound) -> int:
    """Check for four families and parameters to either side that an interval's mass is at least
    exp(``claimed``).

    The form a^2 exp(-L D^2), which needs parameters as far on the other side too, is above the
    mass of [5, inf) when an exponential rate goes from 1 to 3.
    """
    cases = 1
    for name, family, theta in _worlds():
        if name == "exponential":
            before, after = math.exp(-5.0), math.exp(-15.0)
            require(before**2 * math.exp(-(2.0**2)) > after, "the other form holds here as well")
            require(claimed(before, 1.0, 2.0) <= math.log(after), "this form does not")
        free = families.whole(family, theta)
        s = math.sqrt(free.variance)
        for (low, high), step in product(_INTERVALS, (-1.5, -0.4, 0.4, 1.5)):
            other = theta + step / s
            if name == "exponential" and other >= -1e-3:
                continue
            ends = free.mean + low * s, free.mean + high * s
            at, there = (families.limited(family, t, *ends, "mask") for t in (theta, other))
            if not at.inside > 1e-9:
                continue
            between = [theta + (other - theta) * k / 16 for k in range(17)]
            most = max(families.whole(family, t).variance for t in between)
            bound = claimed(at.inside, most, abs(other - theta))
            case = f"{name}, {ends}, from {theta} to {other}: {there.inside}, exp({bound})"
            require(bound <= math.log(max(there.inside, 1e-300)) + 1e-9, case)
            cases += 1
    return cases


def tail_bound(variance: float, reach: float, t: float) -> float:
    """Return 2 exp(-min(t^2 / (2 L), r t / 2)), a bound on P(|T - E T| > t), where the variance of
    T is at most L within r of theta.

    ln E exp(s (T - E T)) = A(theta + s) - A(theta) - s A'(theta) <= L s^2 / 2 for |s| <= r;
    Chernoff at s = t / L, or r. QED
    """
    return 2 * math.exp(-min(t * t / (2 * variance), reach * t / 2))


@states(_TAIL)
def obligation_tail(claimed: Callable[[float, float, float], float] = tail_bound) -> int:
    """Check four families, at one to five deviations, with r from a quarter to one over the
    deviation.
    """
    cases = 0
    for name, family, theta in _worlds():
        free = families.whole(family, theta)
        s = math.sqrt(free.variance)
        for r, far in product((0.25 / s, 0.5 / s, 0.9 / s), (1.0, 2.0, 3.5, 5.0)):
            near = [theta + r * k / 8 for k in range(-8, 9)]
            most = max(families.whole(family, t).variance for t in near)
            ends = free.mean - far * s, free.mean + far * s
            beyond = 1 - families.limited(family, theta, *ends, "mask").inside
            bound = claimed(most, r, far * s)
            require(beyond <= bound + 1e-9, f"{name}, {r}, {far}: {beyond}, {bound}")
            cases += 1
    return cases
