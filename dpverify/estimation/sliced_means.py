"""A mean and the direction of outliers, from sums in two slices: post-processing of a batch.

A released direction w is near to that of outliers, but not the same: a cut across w leaves some of
them, who move the mean across w too. Sums on either side of an edge across w, released in rounds,
tell more than one sum does: beyond the edge outliers are many, and there the mean differs. Normal
records of deviation 1, of which a share is moved along v, are fitted to all rounds. The v of a fit
is the next w. Numbers are in deviations from the ball's center.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy

from dpverify.privacy.numbers import Floats

EDGE = Fraction(11, 10)
"""Distance, in deviations, of a round's edge from the mean of inliers along w."""
TURNED = Fraction(7, 4)
"""Distance along the first w at which outliers are expected; they move the mean of all by gamma
times that."""
DRAWN_TO = Fraction(9, 16)
"""Share of the ball's radius to which records are drawn in, at most, where they are in slices."""
_AWAY = 2.25  # how far outliers are expected to be along v
_SPREAD = 0.5  # their deviation along v
_STEPS = 4
_FARTHEST = 1e6
_LEAST, _LEAST_SQUARE = 1e-9, 1e-18


@dataclass(frozen=True, slots=True)
class Rounds:
    """Released sums of T rounds in two slices each, for a batch: up to the edge, and beyond.

    along: unit vectors w, shape (size, T, d). edges: shape (size, T). sums: shape (size, T, 2, d);
    numbers: of records, shape (size, T, 2). noise: the deviation of the noise on a sum, shape
    (size,).
    """

    along: Floats
    edges: Floats
    sums: Floats
    numbers: Floats
    noise: Floats


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit for each draw: the mean of inliers and the direction of outliers, shape (size, d).

    noise: the deviation of the released noise in the mean's coordinates; spread: that from the mean
    of all inliers, with what slices and the unknown direction add, both of shape (size,).
    """

    mean: Floats
    along: Floats
    noise: Floats
    spread: Floats

    def deviations(self) -> Floats:
        """Return the deviation of the mean in each coordinate, shape (size, d): more along the
        direction, where the mean of what is within an edge follows the mean of all in part.
        """
        edge = float(EDGE)
        hazard = (
            math.exp(-edge * edge / 2) / math.sqrt(2 * math.pi) / float(scipy.special.ndtr(edge))
        )
        follows = 1 - hazard * (edge + hazard)
        more = np.square(self.along) * (1 / follows**2 - 1)
        return np.asarray(self.spread[:, np.newaxis] * np.sqrt(1 + more))


def next_edges(fitted: Fitted, along: Floats) -> Floats:
    """Return the edge of the next round across these w, shape (size,)."""
    return np.asarray((fitted.mean * along).sum(axis=1) + float(EDGE))


def fit(rounds: Rounds, first: Floats, share: float) -> Fitted:
    """Fit normal records, a share of them moved along a direction that is near ``first``, shape
    (size, d): alternate what is expected in slices with the best mean and direction for it.

    The direction is as if one record's place told it beforehand, with the weight of the number of
    columns. The mean is (to first order) linear in the sums and in that place, of variance 1 / d
    in each coordinate: its deviation follows from what each counts for.
    """
    v, d = first, first.shape[1]
    total = np.maximum(rounds.numbers.sum(axis=2).mean(axis=1), 1.0)[:, np.newaxis, np.newaxis]
    overall = rounds.sums.sum(axis=(1, 2)) / (total[:, 0] * rounds.along.shape[1])
    mean = (overall * first).sum(axis=1, keepdims=True) * first
    for _ in range(_STEPS):
        numbers, by_v, by_w = (total * one for one in _expected(rounds, mean, v, share))
        own = np.square(rounds.noise)[:, np.newaxis, np.newaxis] + numbers
        weights = 1 / np.maximum(own, _LEAST_SQUARE)
        of_mean, of_v = numbers * weights, by_v * weights
        whole = np.maximum((of_mean * numbers).sum(axis=(1, 2)), _LEAST)[:, np.newaxis]
        mixed = (of_mean * by_v).sum(axis=(1, 2))[:, np.newaxis] / whole
        moved = _weighed(rounds, of_mean, by_w)
        pull = _weighed(rounds, of_v, by_w) - mixed * moved + d * first
        length = np.linalg.norm(pull, axis=1, keepdims=True)
        v = np.where(length > _LEAST, pull / np.maximum(length, _LEAST), v)
        mean = np.clip(moved / whole - mixed * v, -_FARTHEST, _FARTHEST)
    turned = (mixed / np.maximum(length, d))[..., np.newaxis]
    used = of_mean / whole[..., np.newaxis] - turned * (of_v - mixed[..., np.newaxis] * of_mean)
    noise = rounds.noise * np.sqrt(np.square(used).sum(axis=(1, 2)))
    outliers = share * total * _expected(rounds, mean, v, 1.0)[0]
    square = _sampled(numbers, outliers, used, (1 - share) * total[:, 0])
    square += np.square(noise) + d * np.square(turned[:, 0, 0])
    return Fitted(mean, v, noise, np.sqrt(square))


def _sampled(numbers: Floats, outliers: Floats, used: Floats, inliers: Floats) -> Floats:
    """Return the variance of the records' part in a coordinate of the fit's mean, less the mean of
    all inliers, shape (size,).

    numbers, outliers: of records and outliers in each slice; used: how much a sum counts for the
    mean, of shape (size, T, 2); inliers: how many, shape (size, 1). Rounds sum the same records, so
    what they count for adds up: each round is taken to have the same records beyond its edge. That
    drawn-in records vary by about a hundredth more in many columns is left out.
    """
    number, others, counts = numbers.mean(axis=1), outliers.mean(axis=1), used.sum(axis=1)
    rest = np.maximum(number - others, 0.0)  # below 0 where the last step moved the fit far
    own = rest * np.square(counts - 1 / inliers) + others * np.square(counts)
    return np.asarray(own.sum(axis=1))


def _expected(
    rounds: Rounds, mean: Floats, v: Floats, share: float
) -> tuple[Floats, Floats, Floats]:
    """Return what one record adds to each slice: a number, and a sum's parts along v and along w
    beside that number times the mean; each of shape (size, T, 2).
    """
    at, cos = (np.einsum("sd,std->st", one, rounds.along) for one in (mean, v))
    edges, lost = rounds.edges - at, cos * (1 - _SPREAD**2)
    # not below that along v, and a released axis may be longer than 1 where moments are equal
    deviation = np.sqrt(np.maximum(1 - cos * lost, _SPREAD**2))
    inside, moved = _sides(edges)
    own, own_moved = _sides((edges - _AWAY * cos) / deviation)
    own_moved = own_moved / deviation[..., np.newaxis]
    by_v = share * (_AWAY * own - lost[..., np.newaxis] * own_moved)
    rest = 1 - share
    return rest * inside + share * own, by_v, rest * moved + share * own_moved


def _sides(edges: Floats) -> tuple[Floats, Floats]:
    """Return probability and first moment of a normal law up to an edge, and beyond it."""
    edges = np.clip(edges, -_FARTHEST, _FARTHEST)  # the squares of others need not be floats
    density = np.exp(-edges * edges / 2) / np.sqrt(2 * np.pi)
    return np.stack([scipy.special.ndtr(edges), scipy.special.ndtr(-edges)], axis=-1), np.stack(
        [-density, density], axis=-1
    )


def _weighed(rounds: Rounds, weights: Floats, by_w: Floats) -> Floats:
    """Return the weighted sums, less what is expected along w."""
    plain = np.einsum("stk,stkd->sd", weights, rounds.sums)
    return np.asarray(plain - np.einsum("st,std->sd", (weights * by_w).sum(axis=2), rounds.along))
