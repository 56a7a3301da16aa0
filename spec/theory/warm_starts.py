"""Warm starts for a parameter, from a noisy histogram of each statistic or a noisy mean of
truncated records: ZZ25's Appendices B.6 and B.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Source, SourceStatus, states

from . import families
from .families import Known
from .obligations import require
from .truncated_laws import bias_bound, tail_bound

_STEP = Source(
    "ZZ25",
    "Lemma B.7, one step of the warm start",
    SourceStatus.CHANGED_CONSTANTS,
    note="(error + sqrt(L (1 - a) / a)) / l",
)
_BOX = Source(
    "ZZ25",
    "Theorem B.10, the interval of the fullest bin",
    SourceStatus.CHANGED_CONSTANTS,
    note="width max(sqrt(2 L t), 2 t / r), t = ln(2 n / (a beta)); whichever bin is named, if it "
    "holds a record",
)


def _worlds() -> list[tuple[str, Known, float]]:
    return [
        ("normal", families.normal(2.0), 0.7),
        ("exponential", families.exponential(), -0.2),
        ("bernoulli", families.bernoulli(), 1.5),
        ("continuous poisson", families.poisson(lattice=False), 2.0),
    ]


@states(_STEP)
def warm_distance(error: float, share: float, least: float, most: float) -> float:
    """Give (e + sqrt(L (1 - a) / a)) / l, a bound on the error of the parameter whose whole law
    has a mean within e of that of the truncated law.

    The latter is off by the bias at most (Proposition B.6), and means are gradients of the log
    partition, whose Hessian is at least l between the two parameters: l |theta' - theta*| <=
    |E_theta' T - E_theta* T|. QED Without noise that is a constant distance, however many
    records there are; matching the truncated law's mean instead has no bias
    (``uniform_convergence.records_needed``).
    """
    return (error + bias_bound(share, most)) / least


_INTERVALS = ((-1.5, 1.5), (-0.3, 2.0), (0.5, 3.0))


@states(_STEP)
def obligation_step(claimed: Callable[..., float] = warm_distance) -> int:
    """Check for four families, intervals of a twentieth to nearly all of the mass, and released
    means to either side, that the parameter is within ``claimed``, and for some a third of it
    away; without noise it is off too.
    """
    cases = 0
    for name, family, theta in _worlds():
        nearest = biased = 0.0
        free = families.whole(family, theta)
        s = math.sqrt(free.variance)
        for (low, high), error in product(_INTERVALS, (-0.3, 0.0, 0.2)):
            at = families.limited(family, theta, free.mean + low * s, free.mean + high * s, "mask")
            other = _matched(family, theta, at.mean + error * s)
            if other is None:
                continue
            between = [theta + (other - theta) * k / 4 for k in range(5)]
            variances = [families.whole(family, one).variance for one in between]
            most = claimed(abs(error) * s, at.inside, min(variances), free.variance)
            case = f"{name}, {low} to {high}, {error}: {other - theta}, {most}"
            require(abs(other - theta) <= most * (1 + 1e-6), case)
            nearest = max(nearest, abs(other - theta) / most if most else 0.0)
            biased = max(biased, abs(other - theta) * s if not error else 0.0)
            cases += 1
        far = f"{name}, never near: {nearest}; unbiased: {biased}"
        require(nearest > 1 / 3 and biased > 0.3, far)
    return cases


def _matched(family: Known, theta: float, mean: float) -> float | None:
    """Find the parameter whose whole law has this mean, by Newton's method, for the variance is the
    mean's derivative; None where it is too far."""
    natural = theta
    for _ in range(8):
        at = families.whole(family, natural)
        step = (mean - at.mean) / at.variance
        natural += max(-0.3, min(0.3, step * math.sqrt(at.variance))) / math.sqrt(at.variance)
        if family.support[1] == math.inf and family.support[0] == 0 and theta < 0:
            natural = min(natural, theta / 20)
    at = families.whole(family, natural)
    return natural if abs(at.mean - mean) < 1e-6 * math.sqrt(at.variance) else None


@states(_BOX)
def bin_width(n: int, share: float, beta: float, most: float, reach: float) -> float:
    """Give a width w such that all of n truncated records are within w of the mean, except with
    probability beta, where the variance of T is at most L within r of theta.

    A tail of ``truncated_laws.tail_bound`` is at most beta a / n, and inside at most 1 / a
    times that. Then, of bins of length w, one that contains a record is within w of the mean,
    so the mean is in it or beside it: it does not matter which bin is named, and how
    accurately, as long as empty ones are not (``noisy_histograms.rarely_named``). QED
    """
    t = math.log(2 * n / (share * beta))
    return max(math.sqrt(2 * most * t), 2 * t / reach)


@states(_BOX)
def obligation_bin_width(claimed: Callable[..., float] = bin_width) -> int:
    """Check that the tail bound at the width is at most beta a / n, and at half the width above;
    and that n times the mass beyond it, over that inside an interval, is at most beta, for four
    families.

    Of all bins of length 4 that contain a point within 4 of a mean, the mean is in one of
    three, exactly.
    """
    cases = 0
    for (name, family, theta), n, beta in product(_worlds(), (10, 10**4), (0.1, 1e-4)):
        free = families.whole(family, theta)
        s, share = math.sqrt(free.variance), 0.3
        reach = 0.5 / s
        most = max(families.whole(family, theta + reach * k / 8).variance for k in range(-8, 9))
        width = claimed(n, share, beta, most, reach)
        tails = [tail_bound(most, reach, part * width) for part in (1.0, 0.5)]
        case = f"{name}, {n}, {beta}: {tails}, {beta * share / n}"
        require(tails[0] <= beta * share / n * (1 + 1e-9) < tails[1], case)
        ends = free.mean - width, free.mean + width
        inside = families.limited(family, theta, *ends, "mask").inside
        require(n * max(0.0, 1 - inside - 1e-9) / share <= beta, f"{case}, {inside}")
        cases += 1
    for mean, off in product(range(-8, 9), range(-8, 9)):
        place: Any = Fraction(mean, 2) + Fraction(off, 2)
        held = place // 4
        require(4 * (held - 1) <= Fraction(mean, 2) <= 4 * (held + 2), f"{mean}, {off}")
        cases += 1
    return cases
