"""A plain version of an algorithm like ``RobustMean``'s, in floats, none of its constants tuned.

A peer for errors only. Its sums of floats are not private as they stand, whatever the noise. It
was written again from a description of the version whose medians are the column "in floats"
(robust.py), where that left a choice with the older constants; it is not that code: in 12 cells
its medians (of 40 to 12 runs) are from 10% below to 17% above those.

Friends are records within r; a record weighs by its share of friends, between 11/20 and 17/20 of
all. Then one step of a clipped mean, two rounds of cuts along eigenvectors with heavy tails, and
the mean of what is left in a ball of radius R. A tenth of the records may be anything; the
others have deviation 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

Floats = NDArray[np.float64]
GAMMA, LOW, HIGH = 0.1, 11 / 20, 17 / 20
MU, FAILURE = 0.2355, 1e-7  # (1, 9e-7) by Gaussian noise, and a tenth of delta for the lower end
SHARES = {"weight": 0.08, "center": 0.12, "step": 0.10, "covariance": 0.28, "histogram": 0.08}
SHARES |= {"count": 0.02, "sum": 0.32}
ROUNDS, MOST_CUTS = 2, 3
WEIGHT_MOVES = 1 / (HIGH - LOW) + 1
_WIDTH, _FIRST_CUT, _STEP, _ROWS = 0.5, 1.5, 0.5, 1000


@dataclass(frozen=True)
class RobustFloats:
    """A robust mean for n records of d columns at (1, 1e-6), had it no floats."""

    n: int
    d: int

    def release(self, data: Floats, rng: np.random.Generator) -> Floats | None:
        """Release once, shape (d,); None where it abstains."""
        n, d, r = self.n, self.d, math.sqrt(2 * chi2.ppf(0.98, self.d))
        share = (friends(data, r) / n - LOW) / (HIGH - LOW)
        weights = np.clip(share, 0, 1)
        spread = WEIGHT_MOVES / _mu("weight")
        least = weights.sum() + spread * (rng.normal() + ndtri(FAILURE))
        if least < n / 4:
            return None
        error = 2 * r * (WEIGHT_MOVES + 1) / (least * _mu("center"))
        center = weights @ data / weights.sum() + error * rng.normal(size=d)
        radius = self.radius(r, error)
        error = 2 * radius / n / _mu("step")
        center = center + clipped(data - center, radius).mean(axis=0) + error * rng.normal(size=d)
        radius = self.radius(r, error)
        rows = data - center
        rows = rows[np.linalg.norm(rows, axis=1) <= radius]
        for _ in range(ROUNDS):
            rows, cut = self.cut(rows, radius, rng)
            if not cut:
                break
        count = len(rows) + rng.normal() / _mu("count")
        total = rows.sum(axis=0) + 2 * radius / _mu("sum") * rng.normal(size=d)
        return np.asarray(center + total / max(count, n / 4))

    def radius(self, r: float, error: float) -> float:
        """Return the radius that holds all records of a sample but half of one, about a center
        this far off."""
        q = chi2.ppf(1 - 1 / (2 * self.n), self.d)
        return math.sqrt((1 + error**2) * q) + GAMMA * r / (1 - GAMMA)

    def cut(self, rows: Floats, radius: float, rng: np.random.Generator) -> tuple[Floats, bool]:
        """Cut the tails along the largest eigenvectors of a noisy covariance; return whether any
        was cut."""
        n, d = self.n, self.d
        scale = math.sqrt(2) * radius**2 / (n * _mu("covariance") / math.sqrt(ROUNDS))
        noise = rng.normal(size=(d, d))
        values, vectors = np.linalg.eigh(rows.T @ rows / n + scale * (noise + noise.T) / 2)
        usual = 1 + GAMMA * math.log(1 / GAMMA) + 2 * math.sqrt(d / n) + d / n
        large = usual + scale * (math.sqrt(2 * d) + 2)
        axes = [i for i in range(d - 1, d - 1 - MOST_CUTS, -1) if i >= 0 and values[i] > large]
        kept, any_cut = np.ones(len(rows), dtype=bool), False
        for i in axes:
            along = rows @ vectors[:, i]
            middle, end = self.ends(along, radius, rng)
            if end is not None:
                kept &= np.abs(along - middle) <= end
                any_cut = True
        return rows[kept], any_cut

    def ends(
        self, along: Floats, radius: float, rng: np.random.Generator
    ) -> tuple[float, float | None]:
        """Return a noisy median, and the point from which tails are too heavy for a normal
        sample."""
        bins = math.ceil(radius / _WIDTH)
        edges = _WIDTH * np.arange(-bins, bins + 1)
        deviation = math.sqrt(2 * ROUNDS * MOST_CUTS) / _mu("histogram")
        counts = np.histogram(along, edges)[0] + deviation * rng.normal(size=2 * bins)
        middles = (edges[1:] + edges[:-1]) / 2
        below = np.cumsum(counts)
        middle = float(middles[int(np.argmax(below >= below[-1] / 2))])
        cut = _FIRST_CUT
        while cut < radius:
            outside = np.abs(middles - middle) > cut
            allowed = 1.3 * self.n * 2 * ndtr(-cut) + 0.002 * self.n
            if counts[outside].sum() > allowed + 3 * deviation * math.sqrt(outside.sum()):
                return middle, cut + _STEP
            cut += _STEP
        return middle, None


def _mu(part: str) -> float:
    return MU * math.sqrt(SHARES[part])


def friends(data: Floats, r: float) -> NDArray[np.intp]:
    """Count the records within r of each, itself included."""
    data = data - np.median(data, axis=0)
    squares = (data**2).sum(axis=1)
    counts = []
    for start in range(0, len(data), _ROWS):
        part = slice(start, start + _ROWS)
        distances = squares[part, None] + squares - 2 * (data[part] @ data.T)
        counts.append(np.count_nonzero(distances <= r * r, axis=1))
    return np.concatenate(counts)


def clipped(rows: Floats, radius: float) -> Floats:
    """Clip to the ball about 0."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1, radius / np.maximum(norms, 1e-300)))
