"""Error that a ball, slabs and boxes add to the mean of correlated normal records, from what was
released.

Second moments about a center show the inliers' covariance, up to their noise. Records of that law
are drawn once, from public bits, and cut as the mechanism cut its own: so the error follows for any
covariance and any cut. Where no moments were released, how many records agree, of those in the
ball, shows how much of one correlation all columns can have. Lengths are in deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

_POINTS, _NUMBERS = 2048, 1 << 21
_LEAST = 1e-3  # eigenvalues, of their mean
_LEAST_RESPONSE = 0.05
_FARTHEST = 1e3  # deviations from a center to a mean
_ROUNDS = 6
_NODES, _LENGTHS = 24, 8
_GRID = np.append(np.linspace(0, 0.95, 20), 0.99)


@lru_cache(maxsize=4)
def points(d: int) -> Floats:
    """Draw standard normal points, shape (n, d), from public bits; in every column their mean
    square is 1. They stand for their mirror images, too: what is computed of them is even. There
    are 2048, fewer in more than 1024 columns."""
    n = max(64, min(_POINTS, _NUMBERS // d))
    words = np.arange(1, n * d + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    uniform = ((words ^ (words >> np.uint64(31))) >> np.uint64(12)).astype(np.float64)
    drawn = scipy.special.ndtri((uniform + 0.5) / 2.0**52).reshape(n, d)
    return np.asarray(drawn / np.sqrt(np.square(drawn).mean(axis=0)))


def spectrum(moments: Floats, noise: float, radius: float, reach: float, away: float) -> Floats:
    """Compute the variances of inliers along the eigenvectors of released second moments, of mean
    1, shape (d,).

    moments: the eigenvalues. noise: the standard deviation of a diagonal entry's noise. The records
    were in a ball of this radius, and drawn in to ``reach``. Noise spreads eigenvalues about their
    mean by noise^2 (d + 1) / 2 in squares, less what the mean itself has; the rest is the
    inliers'. That records are cut and drawn in is undone by rounds of drawn records.
    """
    d, mean = len(moments), float(moments.mean())
    if d == 1 or not 0 < mean < math.inf:
        return np.ones(d)
    off = moments / mean - 1
    seen = float(np.square(off).mean())
    own = max(seen - np.square(noise / mean) * ((d + 1) / 2 - 1 / d), 0.0)
    if not own:
        return np.ones(d)
    shown = np.maximum(1 + math.sqrt(own / seen) * off, _LEAST)
    variances = shown / shown.mean()
    squares = np.square(points(d))
    for _ in range(_ROUNDS):
        lengths = squares @ variances + away
        weights = limited(lengths, reach) ** 2 * (lengths <= radius * radius)
        left = weights @ squares * variances
        total = float(left.sum())
        if not total > 0:
            return np.ones(d)
        variances = np.maximum(variances * shown / np.maximum(left / total * d, _LEAST), 0)
        variances = np.maximum(variances / variances.mean(), _LEAST)
    return np.asarray(variances / variances.mean())


def about_mean(values: Floats, vectors: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of second moments about the mean, from those about a
    center, which is ``step`` from it; the mean square of a record is the number of columns."""
    scale = float(values.sum()) / len(values)
    if not 0 < scale < math.inf:
        return values, vectors
    near = np.clip(step, -_FARTHEST, _FARTHEST)
    own, turned = np.linalg.eigh((vectors * (values / scale)) @ vectors.T - np.outer(near, near))
    return np.asarray(own * scale), np.asarray(turned)


def limited(squares: Floats, reach: float) -> Floats:
    """Return min(1, reach / length) for these squared lengths."""
    return np.asarray(np.minimum(1.0, reach / np.sqrt(np.maximum(squares, 1e-300))))


def plain_response(d: int, radius: float, reach: float, away: float) -> float:
    """Compute the response of the drawn records, as in ``cuts``, where they are uncorrelated and
    there is no slab."""
    lengths = np.square(points(d)).sum(axis=1)
    inside = lengths + away <= radius * radius
    share = max(float(inside.mean()), 1 / len(lengths))
    weights = limited(lengths + away, reach) * inside
    return max(float(weights @ lengths) / len(lengths) / d / share, _LEAST_RESPONSE)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Normal records that a ball about their mean, slabs and boxes leave.

    share: of the records. follows: derivative of the estimate by the mean of all along each
    eigenvector, shape (d,). excess: n times the variance of (estimate - mean of all n records),
    shape (d,).
    """

    share: float
    follows: Floats
    excess: Floats


@dataclass(frozen=True, slots=True)
class Inner:
    """Inner moments: the ball's radius, the reach, the constant, and the standard deviation of an
    entry's noise off the diagonal."""

    radius: float
    reach: float
    constant: float
    noise: float


def cuts(
    variances: Floats,
    radius: float,
    reach: float,
    axes: Floats,
    halves: Floats,
    away: float,
) -> Cuts:
    """Compute what is left, and what the mean of it over ``plain_response`` makes of the mean of
    all.

    variances: along the eigenvectors. axes: of slabs and boxes, in the eigenvectors' coordinates,
    shape (k, d); halves: their half widths. away: the square of the mean's distance from the
    center, which adds to those of records. A record y counts by h(|y|) y with h = min(1, reach /
    |y|). By Stein's identity the mean follows the mean of all, along an eigenvector of variance
    v, by a = E h y^2 / v over the share; that is also the covariance of the two means over v / n.
    """
    drawn = points(len(variances)) * np.sqrt(variances)
    squares = np.square(drawn)
    lengths = squares.sum(axis=1) + away
    response = plain_response(len(variances), radius, reach, away)
    inside = (lengths <= radius * radius) & (np.abs(drawn @ axes.T) <= halves).all(axis=1)
    share = max(float(inside.mean()), 1 / len(drawn))
    own = limited(lengths, reach) * inside / (len(drawn) * share * response)
    follows = own @ squares / variances
    square = (own**2 @ squares) * len(drawn)
    excess = np.maximum(square - 2 * follows * variances + variances, 0.0)
    return Cuts(share, np.maximum(follows, _LEAST_RESPONSE), excess)


def along_squares(
    own: Floats, lost: Floats, middles: list[tuple[Floats, float]], *, apart: bool
) -> tuple[Floats, Floats]:
    """Compute the mean square errors along each eigenvector, and its share that slabs span, both of
    shape (d,).

    own: mean square errors about the mean of all. lost: what of a shift of their middle the
    estimate follows. middles: orthogonal axes of slabs, and the mean square errors of their
    middles. Center and histograms are of the same records, and err alike where these are a small
    sample of all: that part adds up. apart: whether slabs' middles have other errors.
    """
    errors, spans = np.zeros_like(own), np.zeros_like(own)
    for axis, error in middles:
        errors += error * np.square(axis)
        spans += np.square(axis)
    spans = np.minimum(spans, 1.0)
    alike = np.maximum(lost * (1 - spans) if apart else lost, 0.0)
    return own * np.square(1 + alike) + np.square(lost) * errors, spans


def window_error(
    half: float, variance: float, noise: float, width: float, number: float, bins: int
) -> float:
    """Compute the mean square error of a slab's middle, for normal records of this variance.

    half: half the slab's width. noise: of a bin's count. width: of a bin. number: of records. The
    middle starts in the bin of the median, and is the mean within the slab after four rounds: of
    the start's error each leaves what that mean does not follow, and adds its noise and sampling.
    """
    if not (0 < half < math.inf and 0 < width < math.inf):
        return math.inf
    ratio = half / math.sqrt(variance)
    share = max(math.erf(ratio / math.sqrt(2)), _LEAST)
    density = math.exp(-ratio * ratio / 2) / math.sqrt(2 * math.pi)
    follows = max(1 - 2 * ratio * density / share, 1e-9)
    left = (1 - follows) ** 4
    median = noise * noise * bins / 4 + number / 4
    start = width * width / 12 + 2 * math.pi * variance * median / (number * number)
    counted = number * share * follows
    within = 2 * noise * noise * half * half * half / (3 * width) / (counted * counted)
    sampling = variance * (1 / (follows * share) - 1) / number
    return left**2 * start + (1 - left) ** 2 * (within + sampling)


def inner_errors(
    axes: Floats, step: Floats, variances: Floats, leading: Floats, inner: Inner, number: float
) -> list[float]:
    """Compute the mean square errors of the mean along directions that inner moments show.

    axes, step, leading: the directions, the estimate's distance from the center, and the moments'
    directions, in the eigenvectors' coordinates, shapes (m, d), (d,) and (k, d). Records count by
    h^2, h what their places and the constant are drawn in by: so along an eigenvector the mean
    follows the distance from the center by a = E h^2 y^2 / (v E h^2).
    """
    drawn = points(len(variances)) * np.sqrt(variances)
    squares = np.square(drawn)
    lengths = np.square(drawn @ leading.T).sum(axis=1) + inner.constant * inner.constant
    lengths += float(np.square(leading @ step).sum())
    within = squares.sum(axis=1) + float(step @ step) <= inner.radius * inner.radius
    weights = limited(lengths, inner.reach) ** 2 * within
    counted = max(float(weights.mean()), _LEAST)
    weights /= counted * len(weights)
    follows = weights @ squares / variances
    square = len(weights) * (weights**2 @ squares)
    sampling = np.maximum(square - 2 * follows * variances + variances, 0) / number
    noise = inner.noise / (inner.constant * counted * number)
    moved = axes @ ((1 / np.maximum(follows, _LEAST_RESPONSE) - 1) * step)
    total = np.square(moved) + noise * noise + np.square(axes) @ sampling
    return [float(one) for one in total]


# --- one correlation of all columns -----------------------------------------------------------


@lru_cache(maxsize=64)
def agreement_shares(d: int, radius: float, full: Fraction | None) -> Floats:
    """Compute the share of n that normal records agree to, for each of ``_GRID`` as the
    correlation of any two of d >= 2 columns, shape (21,).

    radius: that of friends. A record's weight is 2 f - 1 for a share f of friends, over 2 full -
    1 and at most 1 for a soft core. Along the long axis records are at normal quantiles; the
    squared distance across is taken for a multiple of a chi-square of its mean and variance.
    """
    along = scipy.special.ndtri((np.arange(_NODES) + 0.5) / _NODES)
    across = scipy.special.chdtri(d - 1, 1 - (np.arange(_LENGTHS) + 0.5) / _LENGTHS)
    means, spreads = across + d - 1, 2 * (d - 1) + 4 * across
    shares = []
    for common in _GRID:
        long, short = 1 + (d - 1) * common, 1 - common
        room = np.maximum(radius * radius - long * np.square(along[:, None] - along), 0) / short
        scaled = room[..., None] * means / spreads
        friends = scipy.special.gammainc(means**2 / spreads, scaled).mean(axis=1)
        weights = np.maximum(2 * friends - 1, 0)
        if full is not None:
            weights = np.minimum(weights / (2 * float(full) - 1), 1)
        shares.append(2 * float(weights.mean()) - 1)
    return np.array(shares)


def one_axis(d: int, radius: float, common: float) -> tuple[float, Floats, Floats]:
    """Compute, for normal records of d >= 2 columns any two of which have this correlation, the
    share within a radius of their mean, and along the long axis and across it: by how much the
    mean of these follows the mean of all, and n times the variance of their difference; both of
    shape (2,).
    """
    along = np.square(scipy.special.ndtri((np.arange(512) + 0.5) / 512))
    long, short = 1 + (d - 1) * common, 1 - common
    room = np.maximum(radius * radius - long * along, 0) / (2 * short)
    inside = scipy.special.gammainc((d - 1) / 2, room)
    share = max(float(inside.mean()), 1e-9)
    more = scipy.special.gammainc((d + 1) / 2, room)
    follows = np.array([float((along * inside).mean()), float(more.mean())]) / share
    variances = np.array([long, short])
    excess = variances * np.maximum(follows / share - 2 * follows + 1, 0)
    return share, np.maximum(follows, _LEAST_RESPONSE), excess


@lru_cache(maxsize=64)
def _shares_inside(d: int, radius: float) -> Floats:
    """Tabulate the share of ``one_axis`` for each of ``_GRID``, shape (21,)."""
    return np.array([one_axis(d, radius, float(common))[0] for common in _GRID])


def most_correlated(
    d: int, friends: float, radius: float, full: Fraction | None, ratio: float
) -> float:
    """Find the largest correlation of any two of d >= 2 columns with which the agreement is at
    least ``ratio`` of the records within ``radius`` of the mean; 0 where there is none.
    """
    expected = agreement_shares(d, friends, full) / _shares_inside(d, radius)
    allowed = np.flatnonzero(expected >= ratio)
    if not len(allowed):
        return 0.0
    last = int(allowed[-1])
    if last + 1 == len(_GRID):
        return float(_GRID[-1])
    part = (expected[last] - ratio) / (expected[last] - expected[last + 1])
    return float(_GRID[last] + part * (_GRID[last + 1] - _GRID[last]))
