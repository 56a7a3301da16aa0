"""Gradient steps on lists beside one masked release, at (1, 1e-6): the cost of Algorithm 3.1 of
ZZ25, and of several runs of it.

The same records and seeds in every column; root mean squares of the natural parameter's error,
over maximum likelihood without privacy (the column "plain"), and of its noise alone, each
estimate less the one without privacy, over that of one masked release.

    python -m tests.benchmarks.gradients [--runs 60]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpverify import Adjacency, ApproxDP, FamilyEstimate, SeededBits, TruncatedMle
from dpverify.families import ContinuousBernoulli, Family, LogNormal, Normal, Poisson, Weibull
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

STRICT = ApproxDP(1, "1e-6")
LAWS: tuple[tuple[Family, float, float, float], ...] = (
    (Poisson(), 1e-2, 1e5, 30.0),
    (ContinuousBernoulli(), 1e-3, 0.999, 0.7),
    (Normal(3.0), -1e6, 1e6, 777.0),
    (LogNormal(0.7), -20.0, 20.0, 11.0),
    (Weibull(1.0), 1e-3, 1e6, 27.0),
)
METHODS: dict[str, dict[str, Any]] = {
    "one release": {},
    "10 steps": {"method": "gradient"},
    "100 steps": {"method": "gradient", "steps": 100},
    "5 runs": {"method": "gradient", "runs": 5},
}


def rows(runs: int) -> Iterator[list[str]]:
    """Return a row for each law, number of records and adjacency."""
    for family, lowest, highest, parameter in LAWS:
        theta = family.natural(parameter)
        for n, adjacency in (
            (4000, Adjacency.REPLACE),
            (16_000, Adjacency.REPLACE),
            (4000, Adjacency.ADD_REMOVE),
        ):
            given = {"family": family, "lowest": lowest, "highest": highest, "outside": "mask"}
            made = [
                TruncatedMle.calibrated_for(STRICT, adjacency=adjacency, **given | method)
                for method in METHODS.values()
            ]
            off = _errors(made, family, theta, n, runs)
            plain, *errors = (float(np.sqrt(np.mean(np.square(one)))) for one in off.T)
            noises = [float(np.sqrt(np.nanmean(np.square(one - off[:, 0])))) for one in off.T[1:]]
            parts = [
                f"{e / plain:.2f} ({z / noises[0]:.2f})"
                for e, z in zip(errors, noises, strict=True)
            ]
            yield [type(family).__name__, str(n), str(adjacency), f"{plain:.3g}", *parts]


def _errors(
    made: list[TruncatedMle], family: Family, theta: float, n: int, runs: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the errors without privacy and by each mechanism, shape (runs, 1 + mechanisms)."""
    errors = []
    for k in range(runs):
        rng = np.random.default_rng(seed_of("gradients", family, n, k))
        records = family.sample(theta, n, rng)
        mean = float(np.mean([family.statistic(x) for x in records.tolist()]))
        row = [_solved(family, theta, mean) - theta]
        for mechanism in made:
            one = mechanism.release(records, SeededBits(seed_of("bits", k)))
            row.append(one.natural - theta if isinstance(one, FamilyEstimate) else math.nan)
        errors.append(row)
    return np.array(errors)


def _solved(family: Family, theta: float, mean: float) -> float:
    low, high = (theta - abs(theta) * 0.5, theta + abs(theta) * 0.5)
    return float(
        brentq(lambda t: family.limited(t, *family.window(t), "clip").mean - mean, low, high)
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Gradient steps beside one release.")
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    header("gradient steps", "python -m tests.benchmarks.gradients", "No times.")
    print(f"\n{__doc__}", flush=True)
    lines = []
    for row in rows(given.runs):
        print(*row, file=sys.stderr, flush=True)
        lines.append(row)
    table(["family", "n", "adjacency", "plain", *METHODS], lines)


if __name__ == "__main__":
    main()
