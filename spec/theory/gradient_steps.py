"""Gradient steps on a list of records inside an interval: the list's size, the effect of noise,
and the noise of other methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .laws import real
from .obligations import require

Parameters = Mapping[str, Any]
MOST_LISTED = 2**24
_STEPS = Source(
    "ZZ25", "Algorithm 3.1, private gradient steps on truncated records",
    SourceStatus.CHANGED_CONSTANTS, note="all records in each step",
)  # fmt: skip
_RUNS = Source(
    "ZZ25", "Corollary B.4, several runs",
    SourceStatus.CHANGED_CONSTANTS, note="one parameter: the median of runs",
)  # fmt: skip
_ENGINE = Source(
    "ZZ25", "Algorithm 3.1, noise of sampled gradients (from BST14)", SourceStatus.CHANGED_CONSTANTS
)


def list_size(number: Fraction, share: Any, runs: int) -> int:
    """Return the size of the list: three deviations fewer records than are expected inside, at
    least one for each run; a multiple of ``runs``; at most 2^24.
    """
    mean = real(number) * share
    sure = mean - 3 * mp.sqrt(mean * (1 - share))
    return int(min(max(math.floor(sure / runs), 1), MOST_LISTED // runs)) * runs


def cut_number(number: Fraction) -> int:
    """Return the number rounded down to seven significant bits; at least 1, at most 10^18."""
    whole = min(max(number, Fraction(1)), Fraction(10**18))
    unit = Fraction(2) ** (_floor_log2(whole) - 6)
    return int(whole // unit * unit // 1)


def _floor_log2(value: Fraction) -> int:
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


@states(_STEPS)
def weights(steps: int) -> list[Fraction]:
    """Return the weight of each sum's noise in the average of the parameters, on a straight line.

    Proof. Let x_t be the noise in the parameter after t steps. Then x_(t+1) = t / (t + 2) x_t +
    2 / (t + 2) z_t, so t (t + 1) x_t = 2 sum_(s < t) (s + 1) z_s. The parameter after t
    steps weighs t + 1, and these weights add up to T (T + 3) / 2: z_s counts 4 (s + 1) / (T
    (T + 3)) times the sum of 1 / t for t from s + 1 to T. All together count 1. QED
    """
    tails = [
        sum((Fraction(1, t) for t in range(s + 1, steps + 1)), Fraction(0)) for s in range(steps)
    ]
    return [4 * (s + 1) * tail / (steps * (steps + 3)) for s, tail in enumerate(tails)]


def widening(steps: int) -> Any:
    """Return the noise of that average, over that of the plain mean of all sums."""
    return mp.sqrt(steps * real(sum((w * w for w in weights(steps)), Fraction(0))))


def middle_of(runs: int) -> Any:
    """Return the deviation of the median of so many normal numbers, approximately."""
    return mp.sqrt(mp.pi / (2 * (runs - 1) + mp.pi))


# --- obligations --------------------------------------------------------------------------------


@states(_STEPS)
def obligation_steps_average(claimed: Callable[[int], Sequence[Fraction]] = weights) -> int:
    """Check for 1 to 40 steps that the closed weights are those of the recursion, exactly; that
    they add up to 1; and that their noise is at least that of the plain mean and at most 1.16
    times it.
    """
    for steps in range(1, 41):
        own = [Fraction(0)] * steps
        total = [Fraction(0)] * steps
        for t in range(steps):
            own = [Fraction(t, t + 2) * w for w in own]
            own[t] += Fraction(2, t + 2)
            total = [a + (t + 2) * w for a, w in zip(total, own, strict=True)]
        all_weights = Fraction(steps * (steps + 3), 2)
        stated = list(claimed(steps))
        require(stated == [w / all_weights for w in total], f"{steps} steps: {stated}")
        require(sum(stated) == 1, f"{steps} steps: weights add up to {sum(stated)}")
        square = steps * sum(w * w for w in stated)
        require(1 <= square <= Fraction(116, 100) ** 2, f"{steps} steps: {float(square)}")
    return 40


def median(values: Sequence[Fraction]) -> Fraction:
    """Return the middle value; for an even number the mean of the middle two."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


@states(_RUNS)
def obligation_median_of_runs(claimed: Callable[[Sequence[Fraction]], Fraction] = median) -> int:
    """Check that if more than half of up to 6 results lie within a of a place, so does their
    median: on all results from -3 to 3 (and one far away).

    The results within a of the place are an interval's; with more than half of all in it, the
    middle ones are.
    """
    cases, places = 0, [Fraction(k) for k in range(-3, 4)] + [Fraction(10**6)]
    for count in range(1, 7):
        for values in combinations_with_replacement(places, count):
            for place, a in product(places[:7], (Fraction(0), Fraction(1), Fraction(3, 2))):
                if 2 * sum(abs(v - place) <= a for v in values) > count:
                    middle = claimed(values)
                    require(abs(middle - place) <= a, f"{values}: {middle}, {a} about {place}")
                    cases += 1
    return cases


def gaussian_mu(epsilon: Any, delta: Any) -> Any:
    """Return the largest mu for which mu-GDP gives (epsilon, delta), to ten digits."""

    def spent(mu: Any) -> Any:
        ends = (-epsilon / mu + mu / 2, -epsilon / mu - mu / 2)
        return mp.ncdf(ends[0]) - mp.exp(epsilon) * mp.ncdf(ends[1])

    low, high = mp.mpf(10) ** -6, mp.mpf(50)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


@states(_ENGINE)
def obligation_published_noise(claimed: tuple[Any, Any] = ("22.6", "29.2")) -> int:
    """Check that the published calibration of n^2 sampled gradients has 22.6 to 29.2 times the
    noise of as many full gradients under Gaussian DP, n times the diameter / mu each.

    The published variance is 32 L^2 n^2 log(n / delta) log(1 / delta) / epsilon^2 of n times a
    gradient, L the diameter.
    """
    cases, delta = 0, mp.mpf(10) ** -6
    low, high = (mp.mpf(end) for end in claimed)
    for n, epsilon in product((10**3, 10**4, 10**5), (mp.mpf("0.1"), mp.mpf("0.5"), mp.mpf(1))):
        theirs = mp.sqrt(32 * mp.log(n / delta) * mp.log(1 / delta)) / epsilon
        ratio = theirs * gaussian_mu(epsilon, delta)
        require(low <= ratio <= high, f"n = {n}, epsilon = {epsilon}: {ratio}")
        cases += 1
    return cases
