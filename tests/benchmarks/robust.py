"""Private means of data a tenth of which are outliers: errors of ``RobustMean`` beside other private means.

Normal records of deviation 1 about (1, ..., 1). "mixed": half of the outliers are uniform on {0, 1}^d, the
other half at (12, -2, 0, ...). "hidden": moved by 0.9 sqrt(d) in one random direction. "far": moved by 1e4
in every column. Replace, epsilon = 1, delta = 1e-6; the median over seeds of the distance to the true mean.

mean: without privacy, of all records. ball: ``IterativeMean`` with the public knowledge that the mean is within
100 of 0 in every column. refined: ``RefinedMean``, which knows what ``RobustMean`` knows. A dash: it abstained.

Run: python -m tests.benchmarks.robust [QUICK]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    IterativeMean,
    RefinedMean,
    RobustMean,
    SeededBits,
)
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
BUDGET, SHARE = ApproxDP(1, "1e-6"), 0.1
SIZES = ((1000, 10), (2000, 10), (5000, 10), (10_000, 10), (5000, 50), (10_000, 50), (10_000, 100))
KINDS = ("clean", "mixed", "hidden", "far")


def records(n: int, d: int, kind: str, rng: np.random.Generator) -> Floats:
    """Shape (n, d)."""
    found: Floats = rng.normal(1.0, 1.0, (n, d))
    k = round(SHARE * n)
    if kind == "mixed":
        found[: k // 2] = rng.integers(0, 2, (k // 2, d))
        found[k // 2 : k] = [12, -2, *[0] * (d - 2)]
    elif kind == "hidden":
        along = rng.normal(size=d)
        found[:k] += 0.9 * math.sqrt(d) * along / np.linalg.norm(along)
    elif kind == "far":
        found[:k] += 1e4
    return found


def means(n: int, d: int) -> dict[str, Any]:
    """By name."""
    ones, shared = (1.0,) * d, {"adjacency": Adjacency.REPLACE}
    return {
        "ball": IterativeMean.for_budget(
            BUDGET, center=(0.0,) * d, radius=100 * math.sqrt(d), **shared
        ),
        "refined": RefinedMean.for_budget(BUDGET, covariance=ones, n_max=n, **shared),
        "robust": RobustMean.for_budget(BUDGET, deviations=ones, n_max=n, **shared),
    }


def median(seeds: int, error: Callable[[int], float]) -> str:
    """Over seeds."""
    found = float(np.median([error(seed) for seed in range(seeds)]))
    return f"{found:.3g}" if math.isfinite(found) else "-"


def row(n: int, d: int, kind: str, known: dict[str, Any], seeds: int) -> list[str]:
    """Of the table."""
    data = [records(n, d, kind, np.random.default_rng([n, d, seed])) for seed in range(seeds)]

    def distance(value: Floats) -> float:
        return float(np.linalg.norm(value - 1))

    def released(mechanism: Any, seed: int) -> float:
        found = mechanism.release(data[seed], SeededBits(seed))
        return math.inf if isinstance(found, Abstained) else distance(found.value)

    cells = [median(seeds, lambda seed: distance(data[seed].mean(axis=0)))]
    cells += [
        median(seeds, lambda seed, one=one: released(one, seed))  # type: ignore[misc]
        for one in known.values()
    ]
    return [str(n), str(d), kind, *cells]


def main() -> None:
    """The table."""
    quick = len(sys.argv) > 1
    rows = []
    for n, d in SIZES[:2] if quick else SIZES:
        known = means(n, d)
        rows += [row(n, d, kind, known, 3 if quick else 9) for kind in KINDS]
    header("means with a tenth of outliers", "python -m tests.benchmarks.robust")
    table(["n", "d", "data", "mean", "ball", "refined", "robust"], rows)


if __name__ == "__main__":
    main()
