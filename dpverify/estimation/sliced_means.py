"""A mean and the direction of outliers, from sums in slices: post-processing of a batch.

A released direction w is near to that of outliers, but not the same: a cut across w leaves some of
them, who move the mean across w too. Sums in slices across w, released in rounds, tell more than
one sum does: where outliers are, the mean differs. Normal records of deviation 1, of which a share
is moved along v on one side or both, are fitted to all rounds. The v of a fit is the next w.
Numbers are in deviations from the ball's center.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpverify.privacy.numbers import Floats

COUNT = 5
"""Number of slices."""
FIRST = (-2.2, -1.2, 1.2, 2.2)
"""Edges of the slices of the first round, about the middle of all records."""
EDGE = 1.1
"""Where later rounds cut, on a side that has outliers, from the fitted mean."""
NEVER = 1e6
"""An edge that nobody is beyond."""
_AWAY = (1.5, 2.25, 3.0, 4.0, 6.0)
_SIDES = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.5, 0.0), (0.0, 0.5))  # of the public share
_SPREAD = 0.5  # of outliers along their direction
_STEPS = 10
_AT_A_TIME = 1 << 7
_LEAST = 1e-9
_NEAR = 2.0
_CHOICES = np.array([(0.0, 0.0, 1.0), *((*side, a) for side in _SIDES for a in _AWAY)])


@dataclass(frozen=True, slots=True)
class Rounds:
    """What T rounds released about ``COUNT`` slices each, for a batch.

    along: unit vectors w, shape (size, T, d). edges: shape (size, T, COUNT - 1), rising. sums:
    shape (size, T, COUNT, d); numbers: of records, shape (size, T, COUNT). noise, off: deviations
    of the noise on these, shape (size,).
    """

    along: Floats
    edges: Floats
    sums: Floats
    numbers: Floats
    noise: Floats
    off: Floats

    def rows(self, part: slice) -> Rounds:
        """Return some draws of the batch."""
        own = (self.along, self.edges, self.sums, self.numbers, self.noise, self.off)
        return Rounds(*(values[part] for values in own))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit for each draw: the mean of inliers and the direction of outliers, shape (size, d); the
    shares of outliers on either side of it, shape (size, 2). noise: the deviation of the released
    noise in the mean's coordinates; spread: with what sampling and the unknown direction add, both
    of shape (size,).
    """

    mean: Floats
    along: Floats
    sides: Floats
    likely: NDArray[np.bool_]
    noise: Floats
    spread: Floats

    def deviations(self) -> Floats:
        """Return the deviation of the mean in each coordinate, shape (size, d): more along the
        direction, where the mean of what is within an edge follows the mean of all in part.
        """
        density, below = math.exp(-EDGE * EDGE / 2) / math.sqrt(2 * math.pi), float(ndtr(EDGE))
        one, two = 1 - density / below * (EDGE + density / below), 2 * below - 1
        follows = np.array([1.0, one, 1 - 2 * EDGE * density / two])
        slower = follows[(self.sides > 0).sum(axis=1)][:, np.newaxis]
        more = np.square(self.along) * (1 / slower**2 - 1)
        return np.asarray(self.spread[:, np.newaxis] * np.sqrt(1 + more))


def next_edges(fitted: Fitted, along: Floats) -> Floats:
    """Return edges of the next round, shape (size, COUNT - 1): a side is cut where the fit has
    outliers."""
    middle = (fitted.mean * along).sum(axis=1)
    never = np.full(len(middle), NEVER)
    upper = np.where(fitted.likely[:, 0], middle + EDGE, never)
    lower = np.where(fitted.likely[:, 1], middle - EDGE, -never)
    return np.column_stack([-never, lower, upper, never])


def fit(rounds: Rounds, first: Floats, share: float) -> Fitted:
    """Fit normal records, at most a share of them moved along a direction that is near ``first``,
    shape (size, d).
    """
    size = len(first)
    parts = (slice(i, i + _AT_A_TIME) for i in range(0, max(size, 1), _AT_A_TIME))
    each = [_fit(rounds.rows(part), first[part], share) for part in parts]
    names = ("mean", "along", "sides", "likely", "noise", "spread")
    return Fitted(*(np.concatenate([getattr(one, name) for one in each]) for name in names))


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a choice of outliers makes one expect in each slice: numbers, and the sums' parts along
    v and along w."""

    numbers: Floats
    by_v: Floats
    by_w: Floats


def _expected(rounds: Rounds, mean: Floats, v: Floats, share: float, total: Floats) -> _Expected:
    """Return what is expected; mean, v: shape (size, choices, d); total: number of records."""
    at = np.einsum("scd,std->sct", mean, rounds.along)[..., np.newaxis]
    cos = np.einsum("scd,std->sct", v, rounds.along)[..., np.newaxis]
    ends = np.full(rounds.edges.shape[:2], np.inf)[..., np.newaxis]
    edges = np.concatenate([-ends, rounds.edges, ends], axis=2)[:, np.newaxis] - at
    choices = _choices(share)[np.newaxis, :, np.newaxis, np.newaxis]
    shares, away = choices[..., :2], choices[..., 2]
    deviation = np.sqrt(1 - cos**2 * (1 - _SPREAD**2))
    inside, moved = _between(edges)
    rest = 1 - shares.sum(axis=4)
    numbers, by_w, by_v = rest * inside, rest * moved, np.zeros_like(inside)
    for side, sign in enumerate((1, -1)):
        inside, moved = _between((edges - sign * away * cos) / deviation)
        own = shares[..., side]
        numbers = numbers + own * inside
        by_w = by_w + own * moved / deviation
        by_v += own * (sign * away * inside - moved * cos * (1 - _SPREAD**2) / deviation)
    scale = total[:, np.newaxis, np.newaxis, np.newaxis]
    return _Expected(scale * numbers, scale * by_v, scale * by_w)


def _choices(share: float) -> Floats:
    """Return the choices of outliers: their shares on either side, and how far away they are; the
    first is none, and the only one for a share of 0."""
    return np.asarray((_CHOICES if share else _CHOICES[:1]) * (share, share, 1.0))


def _between(edges: Floats) -> tuple[Floats, Floats]:
    """Return probability and first moment of a normal law between neighboring edges."""
    density = np.exp(-edges * edges / 2) / np.sqrt(2 * np.pi)
    return np.diff(ndtr(edges)), -np.diff(density)


def _fit(rounds: Rounds, first: Floats, share: float) -> Fitted:
    """Fit some draws: for each choice of outliers alternate what is expected with the best mean and
    direction for it, then take the likeliest choice. The direction is as if one record's place
    told it beforehand, with the weight of the number of columns."""
    size, d = first.shape
    choices = _choices(share)
    total = np.maximum(rounds.numbers.sum(axis=2).mean(axis=1), 1.0)
    v = np.repeat(first[:, np.newaxis], len(choices), axis=1)
    overall = rounds.sums.sum(axis=(1, 2)) / (total * rounds.along.shape[1])[:, np.newaxis]
    middle = (overall * first).sum(axis=1, keepdims=True) * first
    mean = np.repeat(middle[:, np.newaxis], len(choices), axis=1)
    own = rounds.noise[:, np.newaxis, np.newaxis, np.newaxis] ** 2
    for _ in range(_STEPS):
        expected = _expected(rounds, mean, v, share, total)
        weights = 1 / (own + np.maximum(expected.numbers, 0))
        by_mean, by_v = expected.numbers * weights, expected.by_v * weights
        whole = np.maximum((by_mean * expected.numbers).sum(axis=(2, 3)), _LEAST)[..., np.newaxis]
        mixed = (by_mean * expected.by_v).sum(axis=(2, 3))[..., np.newaxis]
        of_mean = _weighed(rounds, by_mean, expected.by_w)
        pull = _weighed(rounds, by_v, expected.by_w) - mixed / whole * of_mean
        pull += d * first[:, np.newaxis]
        length = np.linalg.norm(pull, axis=2, keepdims=True)
        v = np.where(length > _LEAST, pull / np.maximum(length, _LEAST), v)
        mean = np.clip((of_mean - mixed * v) / whole, -NEVER, NEVER)
    expected = _expected(rounds, mean, v, share, total)
    losses = _losses(rounds, expected, mean, v, first)
    losses += (d - 1) / 2 * np.log(np.maximum(length[..., 0], 1e-9) / d)
    best = losses.argmin(axis=1)
    rows = np.arange(size)
    chosen = (whole[..., 0][rows, best], mixed[..., 0][rows, best], length[..., 0][rows, best])
    noise = rounds.noise * np.sqrt((by_mean[rows, best] ** 2).sum(axis=(1, 2))) / chosen[0]
    spread = np.sqrt(1 / chosen[0] + (chosen[1] / chosen[0]) ** 2 / np.maximum(chosen[2], d))
    sides = choices[best, :2]
    near = losses <= losses[rows, best][:, np.newaxis] + _NEAR
    likely = (near[..., np.newaxis] & (choices[:, :2] > 0)).any(axis=1)
    return Fitted(mean[rows, best], v[rows, best], sides, likely, noise, spread)


def _weighed(rounds: Rounds, weights: Floats, by_w: Floats) -> Floats:
    """Return the weighted sums, less what is expected along w."""
    plain = np.einsum("sctk,stkd->scd", weights, rounds.sums)
    return np.asarray(plain - np.einsum("sct,std->scd", (weights * by_w).sum(axis=3), rounds.along))


def _losses(rounds: Rounds, expected: _Expected, mean: Floats, v: Floats, first: Floats) -> Floats:
    """Return minus the logarithm of the likelihood of each choice, up to a constant."""
    own = rounds.noise[:, np.newaxis, np.newaxis, np.newaxis] ** 2 + expected.numbers
    losses = -first.shape[1] * np.einsum("scd,sd->sc", v, first)
    for t in range(rounds.along.shape[1]):
        off = rounds.sums[:, np.newaxis, t] - (
            expected.numbers[:, :, t, :, np.newaxis] * mean[:, :, np.newaxis]
            + expected.by_v[:, :, t, :, np.newaxis] * v[:, :, np.newaxis]
            + expected.by_w[:, :, t, :, np.newaxis] * rounds.along[:, np.newaxis, t, np.newaxis]
        )
        losses += ((off**2).sum(axis=3) / own[:, :, t]).sum(axis=2) / 2
    wrong = rounds.numbers[:, np.newaxis] - expected.numbers
    likely = rounds.off[:, np.newaxis, np.newaxis, np.newaxis] ** 2 + expected.numbers
    return np.asarray(losses + (wrong**2 / likely).sum(axis=(2, 3)) / 2)
