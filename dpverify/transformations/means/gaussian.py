"""The mean of the records that ``GaussianFilter`` keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpverify.grid import Count
from dpverify.grid.masks import different
from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import KEPT
from dpverify.plans import (
    UNIT,
    Adaptive,
    Filtered,
    Gate,
    KeptMean,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
    Unless,
)
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import to_float
from dpverify.randomness.bits import IntArray
from dpverify.transformations.gaussian_filter import ROWS, GaussianFilter, enough_rows, margin
from dpverify.transformations.means.shared import (
    MEAN,
    TOO_FEW,
    kept_plan,
    least,
    least_shift,
    spread_for,
)

_SHARES = tuple(Fraction(k, 20) for k in (10, 8, 6, 5, 4, 3, 2))
_ROOMS = (
    3.0,
    2.6,
    2.2,
)  # standard deviations between the threshold and the score of full agreement
_LEAST_LEFT = Fraction(1, 8)
_KEY_BITS = 9
_SIXTEENTH = 16


@dataclass(frozen=True, slots=True)
class _Setting:
    """Choices that are made once the (noisy) number of rows is known."""

    filter: GaussianFilter
    spread: Fraction
    room: float


@dataclass(frozen=True, slots=True)
class GaussianCoreMean:
    """A plan that shares mu^2 = 1 / multiplier^2 among all that it releases or draws.

    These are the number of rows (under replace it is public), the noisy scores, the number of
    kept records and their mean. Each number's share is (5 / (mu n_max))^(2/3), where its shift
    costs as much as its noise saves; the number of rows has half as much. The scores' share
    leaves room for records that all agree, with the share of strangers that gives the least
    noise on the mean.
    """

    adjacency: Adjacency
    nearness: Nearness
    multiplier: Fraction
    n_max: int
    tail: Fraction

    @property
    def plan(self) -> Plan:
        """Plan of the number of rows, then what depends on it: the filter, and what runs behind
        it.
        """
        first = self._least_rows
        keys = Released((ROWS,), lambda before: self._keys(before[ROWS][:, 0])[:, np.newaxis])
        enough = enough_rows(slack=self._added)
        core = Adaptive(self._filtered(first), keys, lambda row: self._filtered(*row), (enough,))
        if self.adjacency is Adjacency.REPLACE:
            rows = Stage(ROWS, Count(), NoNoise())
            return (rows, Gate(ROWS, first, TOO_FEW), core, Unless(enough, Fraction(0)))
        return (
            Stage(ROWS, Count(), self._rows_noise),
            Gate(ROWS, first - self._added, TOO_FEW),
            core,
            Unless(enough, self.tail),
        )

    def noise_of(self, transcript: Transcripts) -> Fraction:
        """Return the standard deviation of the released mean, in cells."""
        setting = self._setting(self._key(transcript.number(ROWS)))
        return self._query(setting, transcript.number(KEPT)).noise

    def expected_noise(self, n: int) -> float:
        """Return the mean's noise in radii where n records agree."""
        if n < self._least_rows + self._rows_shift:
            return math.inf
        setting = self._setting(_rounded_up(n + self._rows_shift))
        left = n - self._shift
        if left <= 0:
            return math.inf
        return float(self._query(setting, left).noise / self.nearness.radius)

    def minimum_n(self, beta: Fraction) -> int:
        """Return the least n at which a mean is released, for records that are all friends.

        The gates on the rows and on the kept records may fail with a third of beta each, and so
        may Hoeffding's bound on how many records are lost to the noise on the scores.
        """
        third, first = beta / 3, self._least_rows
        noise = self._count_noise

        def holds(n: int) -> bool:
            if self.adjacency is Adjacency.REPLACE:
                enough = n >= first
            else:
                enough = n >= first and self._rows_noise.falls_short(n - first + 1 + 1, third)
            if not enough:
                return False
            room = self._setting(_rounded_up(n + 2 * self._rows_shift)).room
            kept = n * NormalDist().cdf(room) - math.sqrt(n * math.log(3 / float(beta)) / 2)
            return noise.falls_short(math.floor(kept) - self._shift, third)

        return least(holds)

    # --- what depends on the number of rows -----------------------------------------------------

    def _filtered(self, key: int) -> Filtered:
        setting = self._setting(key)

        def mean(released: int) -> Stage:
            return self._mean(setting, released)

        inner = kept_plan(self.nearness, self._count_noise, self._shift, self.tail, mean)
        return Filtered("core", setting.filter, inner)

    def _mean(self, setting: _Setting, released: int) -> Stage:
        return Stage(MEAN, self._query(setting, released), RoundedGaussian(UNIT))

    def _query(self, setting: _Setting, released: int) -> KeptMean:
        strangers = setting.filter.friendly.strangers
        return KeptMean(self.nearness, setting.spread, released, strangers)

    def _key(self, released: int) -> int:
        """Return at least the number of rows, up to the chance of ``tail``; rounded up, so
        there are few.
        """
        return _rounded_up(max(self._least_rows, released + self._added))

    @property
    def _added(self) -> int:
        """Number added to a released number of rows, so that it is rarely below the larger
        neighbor's.
        """
        return 1 + self._rows_shift

    def _keys(self, released: IntArray) -> IntArray:
        seen, which = different(released)
        keys: IntArray = np.array([self._key(rows) for rows in seen.tolist()], dtype=np.int64)[
            which
        ]
        return keys

    def _setting(self, most_rows: int) -> _Setting:
        setting = _settings(self, most_rows)
        if setting is None:
            raise ValueError(f"{most_rows} rows are too few for this budget.")
        return setting

    # --- what is fixed before any data ----------------------------------------------------------

    @property
    def _mu_squared(self) -> Fraction:
        return 1 / self.multiplier**2

    @property
    def _count_share(self) -> float:
        share: float = (5 * to_float(self.multiplier) / self.n_max) ** (2 / 3)
        return min(0.1, share)

    @property
    def _count_noise(self) -> RoundedGaussian:
        return RoundedGaussian(_sixteenths(float(self.multiplier) / math.sqrt(self._count_share)))

    @property
    def _rows_noise(self) -> RoundedGaussian:
        share = self._count_share / 2
        return RoundedGaussian(_sixteenths(float(self.multiplier) / math.sqrt(share)))

    @property
    def _shift(self) -> int:
        return _shift_of(self._count_noise, self.tail)

    @property
    def _rows_shift(self) -> int:
        if self.adjacency is Adjacency.REPLACE:
            return 0
        return _shift_of(self._rows_noise, self.tail)

    @property
    def _rows_deviation(self) -> float:
        public = self.adjacency is Adjacency.REPLACE
        return 0.0 if public else to_float(self._rows_noise.scale)

    @property
    def _block(self) -> Fraction:
        """Budget (mu^2) that filter, number and mean may spend together."""
        if self.adjacency is Adjacency.REPLACE:
            return self._mu_squared
        return self._mu_squared - 1 / self._rows_noise.scale**2

    @property
    def _least_rows(self) -> int:
        """Least number of rows for which the scores have room."""
        return _fewest(self)


@lru_cache(maxsize=64)
def _shift_of(noise: RoundedGaussian, tail: Fraction) -> int:
    return least_shift(noise, tail)


@lru_cache(maxsize=64)
def _fewest(core: GaussianCoreMean) -> int:
    return _rounded_up(least(lambda rows: _settings(core, _rounded_up(rows)) is not None))


@lru_cache(maxsize=4096)
def _settings(core: GaussianCoreMean, most_rows: int) -> _Setting | None:
    """Return the filter of the least noise on the mean for at most so many rows; None where
    there is no room.

    Floats propose; what is claimed is computed by ``GaussianFilter`` from what is proposed.
    """
    proposals = sorted(_proposals(core, most_rows))
    for _, share, sigma, room in proposals[:1]:
        exact_sigma = Fraction(sigma)
        rare = core.tail / most_rows
        least_above = _shift_of(RoundedGaussian(exact_sigma), rare)
        threshold = margin(share, core.adjacency) - 1 + least_above
        spent = _filter_cost(share, core.adjacency) * most_rows / exact_sigma**2
        left = core._block - spent - 1 / core._count_noise.scale**2
        spread = spread_for(left, core.nearness.width)
        chosen = GaussianFilter(
            adjacency=core.adjacency,
            nearness=core.nearness,
            strangers_share=share,
            most_rows=most_rows,
            sigma=exact_sigma,
            threshold=threshold,
            missed=core.tail,
            budget=core._block,
        )
        return _Setting(chosen, spread, room)
    return None


def _proposals(
    core: GaussianCoreMean, most_rows: int
) -> Iterator[tuple[float, Fraction, float, float]]:
    """Yield (noise on the mean, share of strangers, sigma, room)."""
    block = float(core._block)
    rows = most_rows - 1 - core._rows_shift - math.ceil(2 * core._rows_deviation)
    count = 1 / float(core._count_noise.scale) ** 2
    far: float = -NormalDist().inv_cdf(float(core.tail) / most_rows) if most_rows > 1 else math.inf
    for share in _SHARES if core.adjacency is Adjacency.ADD_REMOVE else _SHARES[:1]:
        top = share.numerator * rows - margin(share, core.adjacency) - 1
        for room in _ROOMS:
            sigma = math.floor(_SIXTEENTH * top / (far + room)) / _SIXTEENTH
            if sigma <= 1:
                continue
            spent = float(_filter_cost(share, core.adjacency)) * most_rows / sigma**2
            left = block - spent - count
            outside = (share.denominator - share.numerator) ** 2 * most_rows / Fraction(sigma) ** 2
            if left < float(_LEAST_LEFT) * block or outside > core._block:
                continue
            reach = 1 + float(share) * most_rows / max(rows, 1)
            lost = NormalDist().cdf(-room)
            yield min(2.0, reach) / math.sqrt(left) / (1 - lost), share, sigma, room


def _filter_cost(share: Fraction, adjacency: Adjacency) -> int:
    """Return the cost of one row, in squared units of a score (GaussianFilter)."""
    p, q = share.numerator, share.denominator
    return p * (q - p) if adjacency is Adjacency.ADD_REMOVE else q * q


def _sixteenths(value: float) -> Fraction:
    """Round down to sixteenths, but not to nothing: more noise than its share needs."""
    return Fraction(max(1, math.floor(_SIXTEENTH * value)), _SIXTEENTH)


def _rounded_up(rows: int) -> int:
    """Round up to a multiple of 2^k with at most 9 bits before it: few different numbers, none
    below.
    """
    step = 1 << max(0, rows.bit_length() - _KEY_BITS)
    return -(-rows // step) * step
