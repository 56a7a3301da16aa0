"""Instances: datasets as plain data, a kind with parameters and a seed, that any process can make.

Every generator takes a numpy Generator, the number of records n and of columns d, and its own
parameters by name; it returns an array of shape (n, d).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from dpverify.privacy.numbers import Floats

Generator = np.random.Generator


def gaussian(rng: Generator, n: int, d: int, *, mean: float, deviation: float) -> Floats:
    """Draw independent normal coordinates."""
    return rng.normal(mean, deviation, (n, d))


def gamma(rng: Generator, n: int, d: int, *, shape: float, scale: float) -> Floats:
    """Draw independent gamma coordinates; of shape 1, exponential ones."""
    return rng.gamma(shape, scale, (n, d))


def poisson(rng: Generator, n: int, d: int, *, rate: float) -> Floats:
    """Draw independent counts of this rate."""
    return rng.poisson(rate, (n, d)).astype(np.float64)


def decaying(rng: Generator, n: int, d: int, *, mean: float, power: float) -> Floats:
    """Draw independent normal coordinates of standard deviation j^-power in column j = 1, 2, ..."""
    return mean + rng.normal(size=(n, d)) * np.arange(1.0, d + 1) ** -power


def few_large(
    rng: Generator, n: int, d: int, *, mean: float, deviation: float, count: int
) -> Floats:
    """Draw independent normal coordinates: ``count`` of this deviation, the others of it
    divided by d.
    """
    own = np.where(np.arange(d) < count, deviation, deviation / d)
    return mean + rng.normal(size=(n, d)) * own


def geometric(
    rng: Generator, n: int, d: int, *, mean: float, deviation: float, ratio: float
) -> Floats:
    """Draw independent normal coordinates of deviation, deviation ratio, deviation ratio^2, ..."""
    return mean + rng.normal(size=(n, d)) * (deviation * ratio ** np.arange(d))


def products(rng: Generator, n: int, d: int, *, kappa: float) -> Floats:
    """Draw outer products x x^T, row by row: x of k = sqrt(d) independent normal coordinates,
    the first of variance kappa, the others of variance 1. Raises ValueError where d is no
    square.
    """
    k = math.isqrt(d)
    if k * k != d:
        raise ValueError(f"d = {d}; outer products of k coordinates have k^2 columns.")
    x = rng.normal(size=(n, k))
    x[:, 0] *= math.sqrt(kappa)
    return np.asarray(np.einsum("ni,nj->nij", x, x).reshape(n, d))


def contaminated(
    rng: Generator, n: int, d: int, *, mean: float, share: float, offset: float
) -> Floats:
    """Draw normal coordinates of deviation 1, but for a share of the records (rounded down),
    which is moved by ``offset`` in every coordinate.
    """
    records = rng.normal(mean, 1.0, (n, d))
    records[: int(share * n)] += offset
    return records


def uniform(rng: Generator, n: int, d: int, *, low: float, high: float) -> Floats:
    """Draw independent uniform coordinates."""
    return rng.uniform(low, high, (n, d))


def evenly(rng: Generator, n: int, d: int, *, low: float, high: float) -> Floats:
    """Return the middles of n equal parts of an interval, the same in every column; no chance
    in it.
    """
    column = low + (np.arange(n) + 0.5) * ((high - low) / n)
    return np.repeat(column[:, np.newaxis], d, axis=1)


def bernoulli(rng: Generator, n: int, d: int, *, share: float) -> Floats:
    """Draw ones with probability ``share``, else zeros."""
    return (rng.random((n, d)) < share).astype(np.float64)


def student(
    rng: Generator, n: int, d: int, *, freedom: float, center: float, scale: float, within: float
) -> Floats:
    """Draw heavy tails: center + scale t, t of Student's law, clipped at ``within`` from the
    center.
    """
    return center + np.clip(scale * rng.standard_t(freedom, (n, d)), -within, within)


def lognormal(rng: Generator, n: int, d: int, *, deviation: float) -> Floats:
    """Draw skewed heavy tails: exp(deviation z), z standard normal, independently in every
    coordinate.
    """
    return np.exp(deviation * rng.normal(size=(n, d)))


def sphere(rng: Generator, n: int, d: int, *, radius: float, offset: float) -> Floats:
    """Draw uniformly from a sphere about (offset, 0, ..., 0)."""
    records = rng.normal(size=(n, d))
    records *= radius / np.linalg.norm(records, axis=1, keepdims=True)
    records[:, 0] += offset
    return records


def point_masses(
    rng: Generator, n: int, d: int, *, points: tuple[float, ...], shares: tuple[float, ...]
) -> Floats:
    """Return exactly round(share n) records at each point, what is left at the last; no chance
    in it.

    This is for adversarial data: majorities, ties, records at the ends.
    """
    counts = [round(share * n) for share in shares[:-1]]
    counts.append(n - sum(counts))
    if min(counts) < 0 or len(points) != len(shares):
        raise ValueError(f"points {points} and shares {shares} do not make {n} records.")
    return np.repeat(np.repeat(points, counts)[:, np.newaxis], d, axis=1).astype(np.float64)


def hidden(
    rng: Generator,
    n: int,
    d: int,
    *,
    ends: tuple[float, float],
    at: float,
    loss: float,
    epsilon: Any,
) -> Floats:
    """Return 2 loss / epsilon records at one point, the others half at each end; no chance in
    it.

    These are the hardest data for a median: a method that finds the point must distinguish it
    from every other one by ``loss``.
    """
    inside = 2 * round(loss / float(epsilon))
    below = (n - inside) // 2
    counts = [below, inside, n - inside - below]
    if below < 0:
        raise ValueError(f"n = {n} records are fewer than the {inside} at {at}; give more.")
    points = np.repeat([ends[0], at, ends[1]], counts)
    return np.repeat(points[:, np.newaxis], d, axis=1)


def zipf(rng: Generator, n: int, d: int, *, bins: int, power: float, width: float) -> Floats:
    """Draw the middle of bin k = 0, 1, ..., bins - 1 of this width, with probability ~ (k +
    1)^-power.
    """
    weights: Floats = np.arange(1, bins + 1, dtype=np.float64) ** -power
    return np.asarray((rng.choice(bins, (n, d), p=weights / weights.sum()) + 0.5) * width)


KINDS: Mapping[str, Callable[..., Floats]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            gaussian,
            gamma,
            poisson,
            decaying,
            few_large,
            products,
            geometric,
            contaminated,
            uniform,
            evenly,
            bernoulli,
            student,
            lognormal,
            sphere,
            point_masses,
            hidden,
            zipf,
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Kind of data, its parameters and its seed. Raises ValueError for parameters that no
    generator takes.

    A parameter may be the name of a number of the setting ("low": "edge"), which then gives it.
    """

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"There is no instance {self.kind!r}; take one of {', '.join(KINDS)}.")
        taken = list(inspect.signature(KINDS[self.kind]).parameters)[3:]
        if sorted(taken) != sorted(self.parameters):
            raise ValueError(
                f"The instance {self.kind!r} takes the parameters {', '.join(taken)}; given were "
                f"{', '.join(self.parameters) or 'none'}."
            )
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed}; give an integer >= 0.")

    def data(self, setting: Mapping[str, Any], *stream: int) -> Floats:
        """Draw the records, shape (n, d), for the n and d (default 1) of a setting.

        Another ``stream`` gives another dataset of the same law; none is the instance's own.
        """
        rng = np.random.default_rng([self.seed, *stream])
        named = {
            name: setting[value] if isinstance(value, str) else value
            for name, value in self.parameters.items()
        }
        return KINDS[self.kind](rng, int(setting["n"]), int(setting.get("d", 1)), **named)

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.kind}({inside}), seed {self.seed}"
