"""The cost of a wrong public spread for the rescaled and the refined mean, with and without ladder.

n = 3700 = n_max normal records of 100 columns with variances 1 / i^2 about 3, (1, 1e-6)-DP. The
stated deviations are a factor times the true ones; "turned" records are in random orthogonal
coordinates, and the stated covariance is the diagonal one of the coordinates before. Cells: the
median distance from the mean, and how many releases abstained. Without a ladder is
``ladder_multiplier=None``, on the same records with the same bits. cost: pairs of runs at the
right scale, rms with the ladder over rms without, and the error of that ratio by the jackknife.

    nice python -m tests.benchmarks.stated_scales [--runs 100] [--seed 34]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpverify import Abstained, Adjacency, ApproxDP, RefinedMean, RescaledMean, SeededBits
from tests.benchmarks.errors import Floats
from tests.benchmarks.timing import header

BUDGET = ApproxDP(1, "1e-6")
N, D = 3700, 100
VARIANCES = 1 / np.arange(1.0, D + 1) ** 2
KINDS: tuple[Any, ...] = (RescaledMean, RefinedMean)
_BOTH: tuple[dict[str, Any], ...] = ({"ladder_multiplier": None}, {})
FACTORS = (1 / 10, 1 / 3, 1 / 2, 1.0, 2.0, 3.0, 10.0)


def errors(mechanism: Any, n: int, runs: int, seed: int, turned: bool = False) -> Floats:
    """Return the distances from the mean, infinite where it abstained."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))
    distances = np.full(runs, math.inf)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        records, mean = rng.normal(3, np.sqrt(VARIANCES), (n, D)), np.full(D, 3.0)
        if turned:
            records, mean = records @ turn, mean @ turn
        result = mechanism.release(records, SeededBits(10**6 * seed + run))
        if not isinstance(result, Abstained):
            distances[run] = np.linalg.norm(result.value - mean)
    return distances


def made(kind: Any, adjacency: Adjacency, factor: float, n: int = N, **own: Any) -> Any:
    """Build the mechanism for stated deviations of this factor times the true ones."""
    covariance = (VARIANCES * factor**2).tolist()
    return kind.for_budget(BUDGET, adjacency=adjacency, covariance=covariance, n_max=n, **own)


def shown(distances: Floats) -> str:
    """Format the median of the releases, and the number of abstentions."""
    told = distances[np.isfinite(distances)]
    lost = len(distances) - len(told)
    value = f"{np.median(told):.4f}" if len(told) else "-"
    return f"{value:>7} {lost:>3} abstain" if lost else f"{value:>7}            "


def reach(runs: int, seed: int) -> None:
    """Print the table of factors."""
    for adjacency, turned in ((a, t) for t in (False, True) for a in Adjacency):
        print(f"\n{adjacency}{', turned' if turned else ''}: {runs} runs a cell")
        print(
            f"{'factor':>8}"
            + "".join(
                f"  {k.__name__ + ', ' + w:<22}" for k in KINDS for w in ("without", "ladder")
            )
        )
        for factor in FACTORS:
            cells = []
            for kind in KINDS:
                for own in _BOTH:
                    mechanism = made(kind, adjacency, factor, **own)
                    count = runs if not own else max(4, runs // 10)
                    cells.append(shown(errors(mechanism, N, count, seed, turned)))
            print(f"{factor:>8.3g}" + "".join(f"  {cell:<22}" for cell in cells), flush=True)


def cost(runs: int, seed: int) -> None:
    """Print the cost at the right scale, for several numbers of records."""
    print(f"\nwhat the ladder costs at the right scale: {2 * runs} pairs of runs")
    for adjacency in Adjacency:
        for kind in KINDS:
            for n in (2000, N):
                two = [
                    made(kind, adjacency, 1, n, **own) for own in ({}, {"ladder_multiplier": None})
                ]
                squares = [errors(one, n, 2 * runs, seed + 1) ** 2 for one in two]
                lost = [int(np.isinf(s).sum()) for s in squares]
                kept = np.isfinite(squares[0] + squares[1])
                one, other = (s[kept] for s in squares)
                ratio = math.sqrt(one.sum() / other.sum())
                left = np.sqrt((one.sum() - one) / (other.sum() - other))
                deviation = math.sqrt(len(left) * float(np.var(left)))
                has = "with" if two[0].ladder_multiplier is not None else "no"
                print(
                    f"{adjacency!s:>11} {kind.__name__:<13} n = {n}: {has} ladder, "
                    f"ratio {ratio:.3f} +- {deviation:.3f}, "
                    f"rms {math.sqrt(one.mean()):.4f}, abstained {lost[0]} and {lost[1]}",
                    flush=True,
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=34)
    given = parser.parse_args(arguments)
    command = f"python -m tests.benchmarks.stated_scales --runs {given.runs} --seed {given.seed}"
    header("A wrong public spread, with a ladder and without", command, "no times")
    cost(given.runs, given.seed)
    reach(given.runs, given.seed)


if __name__ == "__main__":
    main()
