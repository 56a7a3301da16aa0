"""Error that clipping normal records, or leaving some out, adds to their mean; from public
numbers and what was released.

For normal records the mean of all is the efficient estimate. So the difference between it and any
other regular estimate has the variance of that one less 1 / n; with moments of clipped or masked
records both follow from chi-square laws. Lengths are in deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from dpverify.estimation.clipped_response import Outside, moment, poisson
from dpverify.privacy.numbers import Floats

_LEAST_INSIDE = 1e-3  # share of the records; a ball with fewer tells nothing
_PARTS = 16  # candidates of the radius to which records are drawn in, as parts of the ball's radius
_NEARLY = 1.05
_FARTHEST = 1000.0  # deviations from a center to a mean; beyond, spreads are a thousandth of it
_FAR = 1e100  # stands for every longer length, whose square may be infinite
# derivative of a limited mean by the mean; below it the ball is far from the records
_LEAST_RESPONSE = 0.01
_NEAR_ZERO = 1e-3  # least magnitude of half the degrees less one, by which sums are divided
_LEAST = 1e-12  # share or response below which a float tells nothing


@lru_cache(maxsize=256)
def solved_excess(d: int, radius: float, outside: Outside) -> float:
    """Compute n times the variance, in each coordinate, of (solved mean - mean of all n records).

    The solved mean is that of the normal law whose records, clipped to a ball about its mean or
    counted inside of it, have the mean that was measured. With clipping, E y min(1, r / |y|)
    follows the mean with the slope a, and a record has the variance E min(|y|, r)^2 / d. With a
    mask, a share F of the records is inside; their mean follows the mean with the slope a,
    which is also a record's variance.
    """
    at = moment(d, radius, 0.0, outside)
    if outside == "mask":
        return max(1 / max(at.inside * at.ratio, _LEAST) - 1, 0.0)
    half, square = d / 2, radius * radius / 2
    own = float(scipy.special.gammainc(half + 1, square)) + radius * radius / d * float(
        scipy.special.gammaincc(half, square)
    )
    return max(own / max(at.ratio, _LEAST) ** 2 - 1, 0.0)


def clipped_deviation(spreads: Floats, radius: float, count: float, offset: Floats) -> Floats:
    """Compute the deviation of (mean of clipped records - mean of all), shape (d,), in column j
    over the length of a record, whose mean square is 1.

    Column j of a record has variance v_j, spreads_j over their sum; radius: of the ball; offset: of
    the clipped mean from the ball's center. E y_j^2 f(|y|^2) = v_j E f(Q_j) for every f, Q_j being
    |y|^2 and v_j times a chi-square of 2 degrees. So what is cut off by chance has the variance
    v_j E (1 - r / sqrt(Q_j))^2 where that is positive; and the derivative of the clipped mean by
    the mean is less than one by E (1 - r / sqrt(Q_j)) (Stein's identity).
    """
    part = spreads / spreads.max()
    part /= part.sum()
    means, squares = 1 + 2 * part, 2 * float(part @ part) + 4 * part**2
    lost, less = _cut_off(2 * means**2 / squares, means, radius)
    moved = less / np.maximum(1 - less, _LEAST_RESPONSE) * offset
    return np.asarray(np.hypot(np.sqrt(part * (lost / count)), moved))


def _cut_off(degrees: Floats, means: Floats, radius: float) -> tuple[Floats, Floats]:
    """Compute E (1 - r / sqrt(Q))^2 and E (1 - r / sqrt(Q)), both where Q > r^2, for Q of these
    means, taken for multiples of chi-squares of these degrees, at least 1.

    With a = degrees / 2 - 1, E 1 / Q needs the upper incomplete gamma function at a, which below 0
    follows from that at a + 1 by parts.
    """
    less = degrees / 2 - 1
    less = np.where(np.abs(less) < _NEAR_ZERO, _NEAR_ZERO, less)
    half, scale = less + 1, means / (2 * less + 2)
    square = radius * radius / scale / 2
    beyond = scipy.special.gammaincc(half, square)
    inverse = np.exp(scipy.special.gammaln(half - 0.5) - scipy.special.gammaln(half)) / np.sqrt(
        2 * scale
    )
    first = radius * inverse * scipy.special.gammaincc(half - 0.5, square)
    density = np.exp(less * np.log(square) - square - scipy.special.gammaln(half))
    upper = (
        np.where(less > 0, scipy.special.gammaincc(np.abs(less), square), beyond - density) / less
    )
    second = radius * radius / (2 * scale) * upper
    return np.maximum(beyond - 2 * first + second, 0.0), np.clip(beyond - first, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Effect on the mean of leaving out the records beyond a ball and slabs about their mean.

    follows: derivative of the mean of the remaining records by the mean of all, away from
    slabs. excess: the variance in each coordinate, shape (d,), of (mean of these - mean of
    all), times the number of records that are left.
    """

    follows: float
    excess: Floats

    def deviation(self, count: float, step: Floats) -> Floats:
        """Return the deviation, shape (d,), of the difference between the two means for
        ``count`` records, where the mean of what is left was ``step`` from the ball's center.
        """
        moved = (1 - self.follows) / max(self.follows, _LEAST_RESPONSE) * step
        return np.asarray(np.hypot(np.sqrt(self.excess / count), moved))


@lru_cache(maxsize=256)
def drawn_response(d: int, radius: float, reach: float, offset: float = 0.0) -> tuple[float, float]:
    """Compute how the mean of the records in a ball, drawn in to ``reach``, follows the mean of
    all, which is ``offset`` from the ball's center, and the variance of such a record in each
    coordinate, on average.

    A record counts by h y, h = min(1, reach / |y|). With Q a noncentral chi-square, E h y is E h
    times the mean for Q of d + 2 degrees (Stein), and E h^2 |y|^2 is E min(Q, reach^2) for d
    degrees; both over the share inside. Returns (1, 1) for a ball with less than a thousandth of
    the records. Long lengths are scaled down together: only their ratios matter there.
    """
    lengths = [min(length, _FAR) for length in (radius, reach, offset)]
    scale = _FARTHEST / max(lengths[2], _FARTHEST)
    radius, reach, offset = (scale * length for length in lengths)
    extra, weights = poisson(offset * offset / 2)
    half, outer, square = d / 2 + extra, radius * radius / 2, reach * reach / 2
    shares, short = scipy.special.gammainc(half, outer), scipy.special.gammainc(half, square)
    inside = float(weights @ shares)
    if inside < _LEAST_INSIDE:
        return 1.0, 1.0
    own = float(
        weights
        @ (2 * half * scipy.special.gammainc(half + 1, square) + reach**2 * (shares - short))
    )
    half = half + 1
    inverse = np.exp(scipy.special.gammaln(half - 0.5) - scipy.special.gammaln(half)) / math.sqrt(2)
    between = scipy.special.gammainc(half - 0.5, outer) - scipy.special.gammainc(half - 0.5, square)
    ratio = (
        float(weights @ (scipy.special.gammainc(half, square) + reach * inverse * between)) / inside
    )
    return ratio, max(own / inside - (ratio * offset) ** 2, 0.0) / d


def best_drawn(d: int, radius: float, n: int, noise: float, offset: float = 0.0) -> Fraction:
    """Choose the share of the ball's radius to which n normal records are drawn in: the largest
    with which the squared error is within a twentieth of the least.

    noise: the deviation of the noise on their sum, over the length of a record. offset: the
    distance of their mean from the ball's center. The fewer records are drawn in, the less it
    matters that inliers are not quite normal.
    """
    inside = float(scipy.special.gammainc(d / 2, radius * radius / 2))

    def square(share: Fraction) -> float:
        ratio, own = drawn_response(d, radius, float(share) * radius, offset)
        number = n * max(inside, _LEAST) * ratio
        return own * n * inside / number**2 + (noise * float(share) * radius / number) ** 2

    errors = {share: square(share) for share in (Fraction(k, _PARTS) for k in range(1, _PARTS + 1))}
    most = _NEARLY * min(errors.values())
    return max(share for share, error in errors.items() if error <= most)


def left_out(
    d: int,
    radius: float,
    halves: Sequence[float],
    axes: Floats,
    drawn: tuple[float, float] | None = None,
) -> LeftOut:
    """Compute the effect of slabs of these half widths across ``axes``, of shape (slabs, d).

    drawn: None, or ``drawn_response`` where records are drawn in; then the mean of these is taken
    over their response, so that it follows the mean one for one. A record has the variance V over
    the response squared, and (mean of these - mean of all) the variance (V / F + I - 2 R) / n,
    R = I but along slabs, where less follows.

    With F the share of all n records that is left, and V their variance, (mean of these - mean
    of all) has the variance (I - 2 V + V / F) / n: the mean of all is 1 / n times the sum of
    these and of the rest, whose second moments are what I has beside F V. Ball and slabs count
    as independent.
    """
    inside = float(scipy.special.gammainc(d / 2, radius * radius / 2))
    follows = float(scipy.special.gammainc(d / 2 + 1, radius * radius / 2)) / max(inside, _LEAST)
    own = np.full(d, follows)
    if drawn is not None:
        ratio, variance = drawn
        follows, own = 1.0, np.full(d, variance / ratio**2)
    left, lost = inside, np.zeros(d)
    for half, axis in zip(halves, axes, strict=True):
        part = math.erf(half / math.sqrt(2))
        density = math.exp(-half * half / 2) / math.sqrt(2 * math.pi)
        left *= part
        lost += 2 * half * density / max(part, _LEAST) * np.square(axis)
    kept = np.clip(1 - lost, 0.0, 1.0)
    return LeftOut(follows, np.maximum(left + kept * (own - 2 * left * follows), 0.0))
