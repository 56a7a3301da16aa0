"""Budget of a mean of records that agree: noise scales, shifts and gates, from public numbers.

There is one class for each way to decide which records agree: weights by degree, coins of the
basic filter, noisy scores of the Gaussian filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import soft_weights
from .caches import cache
from .filters import gaussian_probability
from .laws import DiscreteLaplaceLaw, real, real_exponential

_SHARES = Source("OURS", "the mean of records that agree: shares of a budget")
Parameters = Mapping[str, Any]
_SIXTEENTHS = 16
_LEAST = Fraction(1, _SIXTEENTHS)


def least(holds: Callable[[int], bool]) -> int:
    """Return the least t >= 1 from which on the condition holds."""
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@cache
def gaussian_shift(scale: Fraction, rare: Fraction) -> int:
    """Return the least t >= 1 with P(round(scale N) >= t) <= rare."""
    return least(lambda t: bool(gaussian_probability(0, scale, t - 1) <= real(rare)))


@cache
def laplace_shift(scale: Fraction, rare: Fraction) -> int:
    """Return the least t >= 1 with P(noise >= t) <= rare, for discrete Laplace noise."""
    noise = DiscreteLaplaceLaw(0, scale)
    return least(lambda t: bool(noise.at_most(-t, real_exponential) <= real(rare)))


def spread(mu_squared: Fraction, width: int) -> Fraction:
    """Return s with (1 / s + sqrt(width) 2^-40)^2 <= mu^2, hardly larger than needed: a multiple
    of 2^-40.

    mu is rounded down to 2^-60, and sqrt(width) 2^-40 replaced by (floor(sqrt(width)) + 1)
    2^-40 (1 + 2^-30).
    """
    root = Fraction(isqrt(floor(mu_squared * 2**120)), 2**60)
    left = root - Fraction(isqrt(width) + 1, 2**40) * (1 + Fraction(1, 2**30))
    return Fraction(ceil(2**40 / left), 2**40)


def upper_quantile(rare: Any) -> Any:
    """Return z with P(N > z) = rare."""
    return _upper_quantile(rare, mp.mp.prec)


@cache
def _upper_quantile(rare: Any, precision: int) -> Any:
    return mp.sqrt(2) * mp.erfinv(1 - 2 * real(rare))


def _down(value: Any) -> Fraction:
    """Return the value rounded down to a multiple of 1/16."""
    return Fraction(int(mp.floor(value * _SIXTEENTHS)), _SIXTEENTHS)


# --- weights by degree --------------------------------------------------------------------------


@states(_SHARES)
@dataclass(frozen=True, slots=True)
class Weights:
    """Budget of a mean weighted by degree.

    The agreement moves by ``moves``; of mu^2 it has the share
    (moves z multiplier / n_max)^(2/3), at most 1/2, z the quantile of ``tail``. The mean has
    the remainder.
    """

    adjacency: Adjacency
    multiplier: Fraction
    n_max: int
    tail: Fraction
    width: int

    least = 10
    """Released agreement from which on a mean is released."""

    @property
    def moves(self) -> int:
        """Maximum change in the agreement between neighboring datasets."""
        return 5 if self.adjacency is Adjacency.ADD_REMOVE else 6

    @property
    def slack(self) -> int:
        """Slack of the agreement: 2 under replace, for the way through a dataset of n - 1
        records.
        """
        return 0 if self.adjacency is Adjacency.ADD_REMOVE else 2

    @property
    def reach(self) -> Fraction:
        """Largest move of the mean, in radii over the released agreement."""
        return Fraction(17, 16) * (1 if self.adjacency is Adjacency.ADD_REMOVE else 2)

    @property
    def scale(self) -> Fraction:
        """Scale of the noise on the agreement, rounded up to 1/16."""
        z, m = upper_quantile(self.tail), real(self.multiplier)
        share = min((self.moves * z * m / self.n_max) ** (mp.mpf(2) / 3), mp.mpf(1) / 2)
        return -_down(-self.moves * m / mp.sqrt(share))

    @property
    def shift(self) -> int:
        """Shift of the agreement: moves + slack + t with P(noise > t) <= tail."""
        above = least(lambda t: bool(gaussian_probability(0, self.scale, t) <= real(self.tail)))
        return self.moves + above + self.slack

    @property
    def spread(self) -> Fraction:
        """Deviation of the noise on the mean, over the mean's reach."""
        left = 1 / self.multiplier**2 - (self.moves / self.scale) ** 2
        return spread(left, self.width)

    def noise(self, radius: int, released: int) -> Fraction:
        """Return the standard deviation of the noise on the mean, in cells."""
        return self.reach * radius * self.spread / max(1, released)


@states(_SHARES)
@dataclass(frozen=True, slots=True)
class Soft(Weights):
    """Budget of a mean with a soft core's weights, for replace alone; replacement is bounded
    directly, without a dataset of n - 1 records.
    """

    full: Fraction

    @property
    def moves(self) -> int:
        """Maximum change in the agreement between neighboring datasets."""
        return soft_weights.moves(self.full)

    @property
    def slack(self) -> int:
        """Zero: the bound needs no dataset of n - 1 records."""
        return 0

    @property
    def reach(self) -> Fraction:
        """Largest move of the mean, in radii over the released agreement."""
        return soft_weights.reach(self.full, Fraction(1))


# --- the basic filter ---------------------------------------------------------------------------


@states(_SHARES)
@dataclass(frozen=True, slots=True)
class Basic:
    """Budget of a mean behind the basic filter.

    The number of kept records has discrete Laplace noise of 3/2 (n_max / 2000)^(1/3)
    multipliers, from 1/2 to 8, in sixteenths; the mean has one multiplier, in two radii.
    """

    multiplier: Fraction
    n_max: int
    tail: Fraction

    @property
    def scale(self) -> Fraction:
        """Scale of the noise on the number of kept records."""
        times = mp.mpf(3) / 2 * mp.cbrt(mp.mpf(self.n_max) / 2000)
        times = min(max(times, mp.mpf(1) / 2), mp.mpf(8))
        return self.multiplier * Fraction(int(mp.nint(_SIXTEENTHS * times)), _SIXTEENTHS)

    @property
    def shift(self) -> int:
        """Shift of the number of kept records."""
        return laplace_shift(self.scale, self.tail)


# --- the Gaussian filter ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """Filter, and spread of the mean's noise, for an assumed number ``rows`` of records.

    weights: (p, q) of a score p friends - (q - p) strangers. sigma: deviation of its noise.
    threshold: the value that it must exceed. strangers: the most that a kept record has; None
    where kept records may replace each other.
    """

    rows: int
    weights: tuple[int, int]
    sigma: Fraction
    threshold: int
    spread: Fraction
    strangers: int | None


@states(_SHARES)
@dataclass(frozen=True, slots=True)
class Gaussian:
    """Budget of a mean behind the Gaussian filter: mu^2 = 1 / multiplier^2 over number of rows
    (add-remove), scores, number kept, and mean.

    The number kept has the share (5 multiplier / n_max)^(2/3), at most 1/10, the number of rows
    half as much. Among the scores (p, q) and the rooms, in standard deviations between the
    threshold and full agreement, those are chosen that make the mean's noise least.
    """

    adjacency: Adjacency
    multiplier: Fraction
    n_max: int
    tail: Fraction
    width: int

    @property
    def counts(self) -> tuple[Fraction, Fraction]:
        """Noise scales on the number kept and on the number of rows."""
        m = real(self.multiplier)
        share = min((5 * m / self.n_max) ** (mp.mpf(2) / 3), mp.mpf(1) / 10)
        scales = _down(m / mp.sqrt(share)), _down(m / mp.sqrt(share / 2))
        return max(scales[0], _LEAST), max(scales[1], _LEAST)  # more than the share needs

    @property
    def shifts(self) -> tuple[int, int]:
        """Shifts of the number kept, and of the number of rows, which is public under replace."""
        kept, rows = self.counts
        public = self.adjacency is Adjacency.REPLACE
        return gaussian_shift(kept, self.tail), 0 if public else gaussian_shift(rows, self.tail)

    @property
    def block(self) -> Fraction:
        """Total mu^2 of filter, number kept and mean."""
        whole = 1 / self.multiplier**2
        return whole if self.adjacency is Adjacency.REPLACE else whole - 1 / self.counts[1] ** 2

    @property
    def fewest(self) -> int:
        """Assumed number of rows below which there is no room for a filter."""
        return _fewest(self)

    @property
    def gate(self) -> int:
        """Least released number of rows with which the mechanism goes on."""
        if self.adjacency is Adjacency.REPLACE:
            return self.fewest
        return self.fewest - 1 - self.shifts[1]

    def assumed(self, released: int) -> int:
        """Return a number of rows that is rarely below the true one."""
        return few_digits(max(self.fewest, released + 1 + self.shifts[1]))

    def setting(self, rows: int) -> Setting | None:
        """Return the best setting; None where there is no room."""
        return _setting(self, rows)

    def margin(self, q: int, p: int) -> int:
        """Return the largest score of a record without a majority on the other side."""
        return q - p if self.adjacency is Adjacency.ADD_REMOVE else q

    def cost(self, q: int, p: int) -> int:
        """Return the largest squared move of a row's score, where the record that goes may be
        kept.
        """
        return p * (q - p) if self.adjacency is Adjacency.ADD_REMOVE else q * q


def few_digits(rows: int) -> int:
    """Return the number rounded up so that only 9 binary digits lead."""
    step = 1 << max(0, rows.bit_length() - 9)
    return -(-rows // step) * step


@cache
def _fewest(mean: Gaussian) -> int:
    return few_digits(least(lambda rows: mean.setting(few_digits(rows)) is not None))


@cache
def _setting(mean: Gaussian, rows: int) -> Setting | None:
    kept, noisy = mean.counts
    public = mean.adjacency is Adjacency.REPLACE
    surely = rows - 1 - mean.shifts[1] - (0 if public else ceil(2 * noisy))
    far = upper_quantile(mean.tail / rows)
    choices: list[tuple[Any, Fraction, Fraction]] = []
    for twentieths in (10,) if public else (10, 8, 6, 5, 4, 3, 2):
        share = Fraction(twentieths, 20)
        p, q = share.numerator, share.denominator
        for room in map(Fraction, ("3", "2.6", "2.2")):
            sigma = _down((p * surely - mean.margin(q, p) - 1) / (far + real(room)))
            if sigma <= 1:
                continue
            left = mean.block - mean.cost(q, p) * rows / sigma**2 - 1 / kept**2
            if left * 8 < mean.block or (q - p) ** 2 * rows / sigma**2 > mean.block:
                continue
            reach = min(Fraction(2), 1 + share * rows / max(surely, 1))
            noise = real(reach) / mp.sqrt(real(left)) / mp.ncdf(real(room))
            choices.append((noise, share, sigma))
    if not choices:
        return None
    _, share, sigma = min(choices)
    p, q = share.numerator, share.denominator
    left = mean.block - mean.cost(q, p) * rows / sigma**2 - 1 / kept**2
    threshold = mean.margin(q, p) - 1 + gaussian_shift(sigma, mean.tail / rows)
    strangers = None if public else (p * rows - 1) // q
    return Setting(rows, (p, q), sigma, threshold, spread(left, mean.width), strangers)
