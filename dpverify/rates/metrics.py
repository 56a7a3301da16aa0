"""Metrics of a sample of errors, with confidence intervals of stated coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

FEWEST_REPEATS = 200
"""Fewest errors, where a claim does not say that their law allows for fewer."""
FEWEST_OF_NORMS = 50
"""Fewest errors of all: for lengths of several nearly normal numbers, which vary little."""
_POWER = 6
LARGEST_SHARE = 0.05
"""Largest share of the sum of squares: where one error has more of it, the normal law says
nothing of the mean.
"""
_KINDS = ("rms", "median", "quantile", "misses")


@dataclass(frozen=True, slots=True)
class Interval:
    """Measured value and an interval that contains the true one, by its method's coverage."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance l_p of an estimate's value from the truth, as the ``error`` of a claim; p >= 1,
    or infinity.
    """

    power: float = 2.0

    def __post_init__(self) -> None:
        if not self.power >= 1:
            raise ValueError(f"power = {self.power} makes no norm; give 1, 2 or math.inf, say.")

    def __call__(self, estimate: Any, truth: Any) -> float:
        """Compute the distance; numbers count as vectors of length one, matrices entry by entry."""
        off = np.asarray(estimate.value, dtype=np.float64) - np.asarray(truth, dtype=np.float64)
        return float(np.linalg.norm(off.ravel(), ord=self.power))


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric of errors e >= 0: "rms" (root mean square), "median", or "quantile" of a level in
    (0, 1).

    "misses" is the share of errors above ``beyond``; an abstention is a miss. tail: in place of
    a level, the name of a number t > 0 of the setting, for the quantile that is exceeded with
    probability exp(-t), so that a claim can run over t = ln(1 / beta).
    """

    kind: str = "rms"
    level: float = 0.5
    tail: str = ""
    beyond: float = math.inf

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"There is no metric {self.kind!r}; take one of {', '.join(_KINDS)}.")
        if not 0 < self.level < 1:
            raise ValueError(f"level = {self.level} is outside (0, 1); try 0.95.")
        if self.kind != "quantile" and (self.level != 0.5 or self.tail):
            raise ValueError(
                f"{self.kind!r} has no level; leave level = {self.level}, tail = {self.tail!r} out."
            )
        if self.tail and self.level != 0.5:
            raise ValueError(f"level = {self.level}, tail = {self.tail!r}: give one of them.")
        if (self.kind == "misses") is (self.beyond == math.inf):
            raise ValueError(
                f"{self.kind!r} with beyond = {self.beyond}: misses are errors above a finite "
                "number, and no other metric has one. Give beyond=4, say, for misses alone."
            )

    def __str__(self) -> str:
        if self.tail:
            return f"1 - exp(-{self.tail}) quantile"
        if self.kind == "misses":
            return f"share above {self.beyond:g}"
        return f"{self.level:g} quantile" if self.kind == "quantile" else self.kind

    def at(self, setting: Mapping[str, Any]) -> Metric:
        """Read the level from a setting where it is named there. Raises ValueError where it is not,
        or not positive."""
        if not self.tail:
            return self
        t = float(setting.get(self.tail, 0.0))
        if not t > 0:
            raise ValueError(
                f"tail = {self.tail!r} is no positive number of the setting {dict(setting)}; "
                "put ln(1 / beta) there, or let it be the variable."
            )
        return Metric(self.kind, -math.expm1(-t))

    def measure(self, errors: Floats, alpha: float) -> Interval:
        """Compute the metric of independent errors with a two-sided interval of level 1 -
        alpha.

        rms: asymptotic (``mean_square``), and 0 to infinity where one error has over
        LARGEST_SHARE of the sum of squares: a few errors then carry the mean, and no interval
        can be stated. A tail so rare that no error of it was drawn cannot be noticed: the true
        value may be far above, and no interval from finitely many errors excludes it. Take the
        median where tails are heavy. median, quantile: at least 1 - alpha for every law
        (``order_statistics``). misses: exact for a binomial number (Clopper and Pearson).
        Raises ValueError where the level is still to be read from a setting.
        """
        if self.tail:
            raise ValueError(f"The level follows {self.tail!r} of a setting; take .at(setting).")
        if self.kind == "rms":
            square = mean_square(errors, alpha)
            if math.isfinite(square.value) and _largest_share(errors) > LARGEST_SHARE:
                return Interval(math.sqrt(square.value), 0.0, math.inf)
            return Interval(math.sqrt(square.value), math.sqrt(square.low), math.sqrt(square.high))
        if self.kind == "misses":
            return share(int(np.sum(errors > self.beyond)), len(errors), alpha)
        return order_statistics(errors, self.level, alpha)


RMS = Metric("rms")


def _largest_share(errors: Floats) -> float:
    """Return the largest square over the sum of all."""
    squares = np.square(errors)
    return float(squares.max() / squares.sum())


def alpha_of_few(alpha: float, number: int) -> float:
    """Return the alpha at which the upper end of so few errors misses no more often than that of
    200 at ``alpha``.

    Below 200 errors Hall's upper end misses more often: at 1e-10 up to 370 times as often as
    stated with 50 squares of normal vectors, and 3 to 11 times with 200. At alpha (N / 200)^6 it
    is as rare as with 200, for lengths of 2 to 36 normal numbers (measured by importance
    sampling at 1e-8 and 5e-11). For these the lower end is conservative.
    """
    return float(alpha * min(1.0, number / FEWEST_REPEATS) ** _POWER)


def share(misses: int, n: int, alpha: float) -> Interval:
    """Compute the share of misses among n independent errors, with Clopper's and Pearson's
    interval of level 1 - alpha.
    """
    low = scipy.special.betaincinv(misses, n - misses + 1, alpha / 2) if misses else 0.0
    high = scipy.special.betaincinv(misses + 1, n - misses, 1 - alpha / 2) if misses < n else 1.0
    return Interval(misses / n, float(low), float(high))


def mean_square(errors: Floats, alpha: float) -> Interval:
    """Compute the mean of e^2 with Hall's interval: Student's t, freed of the skewness of
    squares.

    Squares of errors are far from symmetric, and their mean and variance go up and down
    together, so that plain t intervals miss above. Hall's cubic transformation of t removes
    that to second order: the coverage is 1 - alpha + O(1/N) for N independent errors with six
    moments. Source: P. Hall, On the removal of skewness by transformation, JRSS B 54 (1992).
    """
    squares = np.square(errors)
    if not np.isfinite(squares).all():
        return Interval(math.inf, math.inf, math.inf)
    n, mean = len(squares), float(squares.mean())
    deviation = float(squares.std(ddof=1))
    if deviation == 0.0:
        raise ValueError(f"All {n} errors are {math.sqrt(mean):g}; their spread gives no interval.")
    skewness = float(np.mean(((squares - mean) / deviation) ** 3)) / math.sqrt(n)
    z = -float(scipy.special.stdtrit(n - 1, alpha / 2))
    ends = [mean - deviation / math.sqrt(n) * _untransformed(x, skewness) for x in (z, -z)]
    return Interval(mean, max(0.0, ends[0]), ends[1])


def _untransformed(z: float, skewness: float) -> float:
    """Return the t whose transform t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 is z; a = skewness /
    sqrt(N).
    """
    if abs(skewness) < 1e-9:
        return z
    return 3 / skewness * float(np.cbrt(1 + skewness * (z - skewness / 6)) - 1)


def order_statistics(errors: Floats, level: float, alpha: float, *, least: float = 0.0) -> Interval:
    """Compute the quantile with the order statistics between which it lies with probability >=
    1 - alpha.

    The number of errors at most (below) the quantile is at least (at most) binomial(N, level),
    for every law of the errors, also one with atoms. An end that no order statistic reaches is
    ``least`` (what no error is below) or inf. An interval that is a single value, as of
    integers, is extended to the next values that occur: a lattice resolves no more.
    """
    ordered, n = np.sort(errors), len(errors)
    below, above = _ranks(n, level, alpha)
    low = float(ordered[below - 1]) if below >= 1 else least
    high = float(ordered[above - 1]) if above <= n else math.inf
    if low == high:
        lower, higher = ordered[ordered < low], ordered[ordered > high]
        low, high = float(lower.max(initial=least)), float(higher.min(initial=math.inf))
    return Interval(float(ordered[max(0, math.ceil(level * n) - 1)]), low, high)


@cache
def _ranks(n: int, level: float, alpha: float) -> tuple[int, int]:
    """Return the largest number that a binomial(n, level) is below with probability alpha / 2 at
    most, and the smallest that it reaches with that probability.
    """
    binomial = scipy.stats.binom
    below, above = binomial.ppf(alpha / 2, n, level), binomial.isf(alpha / 2, n, level) + 1
    return int(below), int(above)
