"""Subjects of the structure attacks: planted faults, their sound counterparts, and ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import (
    Abstained,
    Adjacency,
    BernoulliMean,
    BoundedMean,
    ClippedMean,
    NoisyCount,
    PrivateQuantile,
    RandomizedResponse,
    SeededBits,
    StabilityHistogram,
)
from dpverify.plans import Mechanism, Stage

Floats = NDArray[np.float64]
Vectorized = Callable[[float, int], Any]

COUNT = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1))
MEAN = BoundedMean(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), lower=0, upper=1)
ANSWERS = RandomizedResponse(
    adjacency=Adjacency.REPLACE,
    noise_multiplier=Fraction(1),
    categories=4,
)
_WEAK: dict[str, Any] = {"adjacency": Adjacency.ADD_REMOVE, "noise_multiplier": Fraction(10)}
"""mu = 1/10: far from the epsilon of 1 that the attacks take to be claimed."""
VECTORS = ClippedMean(center=(0.5,), radius=0.5, **_WEAK)
SHARES = BernoulliMean(**_WEAK)
QUANTILE = PrivateQuantile(
    adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), lower=0, upper=1
)
HISTOGRAM = StabilityHistogram(
    adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(2), width=0.5, delta=Fraction(1, 1000)
)
PEOPLE = [0.25, 0.5, 0.75, 0.1] * 5
ONE_MORE = [*PEOPLE, 1.0]
CATEGORIES = [0.0, 1.0, 2.0, 3.0]
ANOTHER_ANSWER = [1.0, 1.0, 2.0, 3.0]


def numpy_laplace(seed: int, scale: float = 1.0) -> Vectorized:
    """numpy's float Laplace noise around the input."""
    rng = np.random.default_rng(seed)
    return lambda center, size: rng.laplace(center, scale, size)


def textbook_laplace(seed: int, scale: float = 1.0) -> Vectorized:
    """center + sign * -log(u) * scale, in floats."""
    rng = np.random.default_rng(seed)

    def release(center: float, size: int) -> Floats:
        signs = np.where(rng.random(size) < 0.5, -1.0, 1.0)
        result: Floats = center + signs * -np.log(1.0 - rng.random(size)) * scale
        return result

    return release


def numpy_normal(seed: int, scale: float = 1.0) -> Vectorized:
    """numpy's float Gaussian noise added to the input."""
    rng = np.random.default_rng(seed)
    return lambda center, size: center + rng.normal(0.0, scale, size)


def snapped(release: Vectorized, cell: float = 1 / 16) -> Vectorized:
    """Return the same outputs, rounded to a public grid."""
    return lambda center, size: np.rint(release(center, size) / cell) * cell


@dataclass(frozen=True)
class Ours:
    """One of our mechanisms on two neighbors; what an attacker may know of its noise is exact."""

    name: str
    mechanism: Mechanism[Any]
    left: list[float]
    right: list[float]
    about: tuple[float, float] | None = None

    def law(self, seed: int) -> Callable[[Any, int], Any]:
        """Return the last stage's released integers, by seeded bits: shape (size, width)."""
        bits = SeededBits(seed)

        def law(data: Any, size: int) -> Any:
            drawn = self.mechanism.law(data).sample(bits, size).values[self._last.name]
            if drawn.ndim == 1:  # tuples of keys and counts: the sum of the counts
                return np.array([[sum(row[1::2])] for row in drawn], dtype=np.float64)
            return drawn

        return law

    def release(self, seed: int) -> Callable[[Any], float | str]:
        """Release as a number (the share of category 0 for answers) or a text."""
        bits = SeededBits(seed)

        def release(data: Any) -> float | str:
            estimate: Any = self.mechanism.release(data, bits)
            if isinstance(estimate, Abstained):
                return str(estimate)
            if self.mechanism is HISTOGRAM:
                return float(sum(estimate.counts.values()))
            shares = getattr(estimate, "frequencies", None)
            return float(np.ravel(estimate.value if shares is None else shares)[0])

        return release

    def centers(self, released: bool = False) -> tuple[Floats, Floats]:
        """Return the last query's exact values on both datasets, or what they are after the
        estimate.

        For a quantile and a histogram, what comes out about it: no noise is added to the query's
        value.
        """
        if self.about is not None:
            return np.array([self.about[0]]), np.array([self.about[1]])
        laws = (self.mechanism.law(data) for data in (self.left, self.right))
        exact = [law.center(self._last.query).astype(np.float64) for law in laws]
        if released and self.mechanism in (MEAN, VECTORS, SHARES):
            exact = [np.array([np.mean(data)]) for data in (self.left, self.right)]
        if released and self.mechanism is ANSWERS:
            exact = [np.array([np.mean(np.equal(data, 0))]) for data in (self.left, self.right)]
        return exact[0], exact[1]

    def scale(self, released: bool = False) -> float:
        """Scale of the last stage's noise; 1 for answers, which have none."""
        scale = float(getattr(self._last.noise, "scale", 1))
        cells = getattr(self._last.query, "exponent", 0)
        return math.ldexp(scale, cells) / len(self.left) if released and cells else scale

    def timed(self, seed: int) -> tuple[Callable[[int], Any], float]:
        """Return the last stage's integers from a law made beforehand, and their center."""
        law, bits = self.mechanism.law(self.left), SeededBits(seed)
        center = float(law.center(self._last.query)[0])
        return lambda size: law.sample(bits, size).values[self._last.name][:, 0], center

    @property
    def _last(self) -> Stage:
        last = self.mechanism.fixed_plan[-1]
        assert isinstance(last, Stage)
        return last


COUNTED = Ours("noisy_count", COUNT, PEOPLE, ONE_MORE)
AVERAGED = Ours("bounded_mean", MEAN, PEOPLE, ONE_MORE)
ANSWERED = Ours("randomized_response", ANSWERS, CATEGORIES, ANOTHER_ANSWER)
# so many that the mean never abstains, which would be a time of its own
MANY_AVERAGED = Ours("bounded_mean of many", MEAN, PEOPLE * 100, [*PEOPLE * 100, 1.0])
OURS = (COUNTED, AVERAGED, ANSWERED)
ONES = [0.0, 1.0, 1.0, 0.0, 1.0] * 60
NEWER = (
    Ours("clipped_mean", VECTORS, PEOPLE * 20, [*PEOPLE * 20, 1.0]),
    Ours("bernoulli_mean", SHARES, ONES, [*ONES, 1.0]),
    Ours("private_quantile", QUANTILE, PEOPLE, ONE_MORE, (0.25, 0.25)),
    Ours("stability_histogram", HISTOGRAM, PEOPLE, ONE_MORE, (20.0, 21.0)),
)


def geometric_loop(seed: int, stop: float = 0.05) -> Callable[[int], list[int]]:
    """Two-sided geometric noise by counting failures: its time is its size."""
    rng = np.random.default_rng(seed)

    def release(size: int) -> list[int]:
        outputs = []
        for _ in range(size):
            count = 0
            while rng.random() > stop:
                count += 1
            outputs.append(count if rng.random() < 0.5 else -count)
        return outputs

    return release


def tabulated(seed: int, draws: int) -> Callable[[int], Sequence[float]]:
    """Return the same noise drawn beforehand: its time is a look-up."""
    table = iter(np.random.default_rng(seed).laplace(0.0, 20.0, draws).tolist())
    return lambda size: [next(table) for _ in range(size)]


def unit_rows(seed: int, rows: int, columns: int, kind: type = np.float32) -> NDArray[Any]:
    """Return records of norm 1."""
    drawn = np.random.default_rng(seed).normal(size=(rows, columns))
    records: NDArray[Any] = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(kind)
    return records


def project_then_clip(seed: int, columns: int, kind: type) -> Callable[[Any], Any]:
    """X @ B, then each row scaled to norm 1 at most: row by row on paper only."""
    basis: NDArray[Any] = np.random.default_rng(seed).normal(size=(columns, 50)).astype(kind)

    def rowwise(rows: Any) -> Any:
        projected = rows @ basis
        return projected / np.maximum(1, np.linalg.norm(projected, axis=1, keepdims=True))

    return rowwise


def crossing_rows() -> NDArray[np.float32]:
    """Return records of norm at most 1 whose float32 sum counts double once it is beyond 2^14.

    Half a unit in the last place and a little more is exact below 2^14 and rounded up to a whole
    unit above it; one record more lets the sum arrive there earlier.
    """
    column = np.concatenate([np.ones(2**14 - 1), np.full(3000, 2.0**-10 + 2.0**-20)])
    return np.stack([column, np.zeros(len(column))], axis=1).astype(np.float32)


def exact_sum(rows: Any) -> list[float]:
    """Correctly rounded, whatever the order."""
    return [math.fsum(column) for column in np.asarray(rows, np.float64).T.tolist()]
