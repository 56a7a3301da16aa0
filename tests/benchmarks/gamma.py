"""Theorem 2.1 of DH20 against gamma: its filter, without privacy, and ``RobustMean``.

n normal records of deviation 1 about (1, ..., 1), of which a share gamma is moved by so many
deviations in one random direction, or by 1e4 in all columns (inf). A cell has the largest median
error over these moves, and the move. filter: as its authors and DH20 coded it, for gamma = 1 / n
where no record is moved. robust: (1, 1e-6) under replace, for_budget's choices for this gamma; its
limit is 0.4. The theorem says that the error is O(gamma sqrt(ln(1 / gamma))) with enough records;
x: times that. clean: of the mean of the records before any was moved.

    nice python -m tests.benchmarks.gamma [--n 10000] [--d 10] [--runs 5] [--seed 7]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from audits.exhibits import _robust
from dpverify import Abstained, Adjacency, ApproxDP, RobustMean, SeededBits
from tests.benchmarks.errors import Floats
from tests.benchmarks.timing import header, table

BUDGET = ApproxDP(1, "1e-6")
SHARES = tuple(
    map(Fraction, ("0", "1/100", "1/50", "1/20", "1/10", "3/20", "19/100", "1/4", "2/5"))
)
MOVES = (1.0, 2.0, 3.0, 5.0, 8.0, math.inf)


def records(n: int, d: int, gamma: Fraction, move: float, rng: np.random.Generator) -> Floats:
    """Move the first share gamma of the records; an infinite move is 1e4 in every column."""
    sample, k = rng.normal(1.0, 1.0, (n, d)), math.floor(gamma * n)
    along = rng.normal(size=d)
    moved = np.full(d, 1e4) if math.isinf(move) else move * along / np.linalg.norm(along)
    sample[:k] += moved
    return sample


@cache
def robust(n: int, d: int, gamma: Fraction) -> RobustMean:
    """Build the mechanism with the choices of ``for_budget`` for this share."""
    given: dict[str, Any] = {"deviations": (1.0,) * d, "n_max": n, "gamma": gamma}
    return RobustMean.for_budget(BUDGET, adjacency=Adjacency.REPLACE, **given)


def by_filter(data: Floats, gamma: Fraction, seed: int) -> Floats:
    """Return the filtered mean, tau = 1 / n."""
    n = len(data)
    return _robust.as_coded(data, max(float(gamma), 1 / n), 1 / n)


def by_robust(data: Floats, gamma: Fraction, seed: int) -> Floats:
    """Release once; infinitely far away where it abstains."""
    n, d = data.shape
    estimate = robust(n, d, gamma).release(data, SeededBits(seed))
    return np.full(d, math.inf) if isinstance(estimate, Abstained) else estimate.value


def worst(
    estimate: Callable[[Floats, Fraction, int], Floats],
    n: int,
    d: int,
    gamma: Fraction,
    runs: int,
    seed: int,
) -> tuple[float, float]:
    """Return the largest median error over the moves, and that move."""
    medians = []
    for move in MOVES if gamma else MOVES[:1]:
        errors = []
        for run in range(runs):
            data = records(n, d, gamma, move, np.random.default_rng([seed, run]))
            errors.append(float(np.linalg.norm(estimate(data, gamma, seed + run) - 1)))
        medians.append((float(np.median(errors)), move))
    return max(medians)


def rows(n: int, d: int, runs: int, seed: int) -> list[list[str]]:
    """Return a row for each share."""
    lines = []
    for gamma in SHARES:
        rate = float(gamma) * math.sqrt(math.log(1 / gamma)) if gamma else 0.0
        cells = [f"{float(gamma):g}"]
        for estimate in (by_filter, by_robust):
            error, move = worst(estimate, n, d, gamma, runs, seed)
            told = f" (move {move:g}, x {error / rate:.2f})" if rate else ""
            cells.append(
                f"{error:.3g}{told}" if math.isfinite(error) else f"abstains (move {move:g})"
            )
        lines.append(cells)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Errors against the share of outliers.")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--d", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args(arguments)
    command = "python -m tests.benchmarks.gamma " + " ".join(
        f"--{name} {value}" for name, value in vars(given).items()
    )
    header("Errors against gamma, the worst outliers tried", command, "no times")
    print(f"\nclean: about {math.sqrt(given.d / given.n):.3g}; medians of {given.runs} runs\n")
    table(["gamma", "filter", "robust"], rows(given.n, given.d, given.runs, given.seed))


if __name__ == "__main__":
    main()
