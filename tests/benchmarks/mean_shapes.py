"""Errors of the rescaled and the refined mean by dimension, rotation and law, and their speed.

(1, 1e-6)-DP under add-remove, n_max = n, mean (1, ..., 1), the covariance public. Cells: the
median error of a release, with order statistics that hold the true median with probability 95%,
and their number.

dimension: n = 1000; standard deviations 1/9 in the first 90 columns, the same data for every d,
and 1 in all, in equal parts, in the others: the trace of Sigma^(1/2) is 11 whatever d. target:
medians within 10%. rotation: d = 200, n = 2000, variances 1 / i, in random orthogonal
coordinates that are public. laws: d = 1000, n = 5000, variances 1 / i: normal, random signs,
uniform, and coins of probability 1/10, centered, whose covariance proxy is 2.03 times their
variance (Kearns and Saul, 1998). free: d = 100, standard deviations max(2^(1 - i), 1e-3): the
root mean square error over that without privacy. speed: 10^6 releases and their log-likelihoods
of 200 records of one column at (4, 1e-6), target 10 s; 10^4 x 1000, one release against NumPy's
X @ X.T in float64 and in turn, target 3 times; 10^5 x 50, one release, target 180 s. Wall times:
both sides use as many BLAS threads as they are given.

    python -m tests.benchmarks.mean_shapes [--parts dimension rotation laws free speed] [--runs 20]
        [--results FILE] [--keep]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dpverify import Adjacency, ApproxDP, RefinedMean, RescaledMean, SeededBits
from tests.benchmarks.errors import (
    Floats,
    Method,
    Points,
    code,
    distance,
    interval,
    seed_of,
    shown,
)
from tests.benchmarks.timing import clocked, header, table

BUDGET = ApproxDP(1, "1e-6")
ADD = Adjacency.ADD_REMOVE
MODULES = ("rescaled_mean", "refined_mean")
HEAD, DIMENSIONS = 90, (100, 1000, 10_000, 100_000)
FLAT = 0.10
SIZES = (2000, 5000, 10_000, 20_000, 50_000)
COIN = 0.1
PROXY = (1 - 2 * COIN) / (2 * math.log((1 - COIN) / COIN)) / (COIN * (1 - COIN))
NONE = "without privacy"
LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "coins": lambda rng, shape: np.asarray(
        ((rng.random(shape) < COIN) - COIN) / math.sqrt(COIN * (1 - COIN)), np.float64
    ),
}


class Cell:
    """One data law: errors of both means on the same data, run by run."""

    def __init__(self, points: Points, part: str, label: str, runs: int) -> None:
        self.points, self.part, self.label, self.runs = points, part, label, runs

    def fill(
        self, n: int, covariance: Floats, draw: Callable[[np.random.Generator], Floats]
    ) -> None:
        """Draw and release; ``draw`` maps a seed to records of mean 0."""
        fixed = {"budget": BUDGET, "adjacency": ADD, "covariance": covariance, "n_max": n}
        methods = [Method(module, module, fixed) for module in MODULES]
        for run in range(self.runs):
            at: dict[str, str | int] = {"part": self.part, "label": self.label, "run": run}
            seed = seed_of(self.part, run)  # the labels of a part share what they can
            known: list[Floats] = []

            def data(seed: int = seed, known: list[Floats] = known) -> Floats:
                if not known:
                    known.append(draw(np.random.default_rng(seed)))
                    known[0] += 1
                return known[0]

            def own(data: Callable[[], Floats] = data) -> float:
                return distance(data().mean(axis=0), np.ones(len(covariance)))

            self.points.get(own, **at, method=NONE)
            for method in methods:

                def error(
                    method: Method = method, seed: int = seed, data: Callable[[], Floats] = data
                ) -> float:
                    return method.error(data(), np.ones(len(covariance)), seed)

                self.points.get(error, **at, method=method.name)
        print(f"{self.part}: {self.label}", file=sys.stderr, flush=True)

    def values(self, method: str) -> list[float]:
        """Return all errors."""
        return self.points.values(part=self.part, label=self.label, method=method)

    def row(self, *more: str) -> list[str]:
        """Return a row's cells."""
        return [self.label, *(shown(self.values(name)) for name in (NONE, *MODULES)), *more]


COLUMNS = (NONE, "rescaled", "refined")


def normal(n: int, variances: Floats) -> Callable[[np.random.Generator], Floats]:
    """Draw independent columns; the first ones of a seed are the same in every dimension."""

    def draw(rng: np.random.Generator) -> Floats:
        records = np.empty((n, len(variances)))
        records[:, :HEAD] = rng.standard_normal((n, min(HEAD, len(variances))))
        records[:, HEAD:] = rng.standard_normal((n, max(0, len(variances) - HEAD)))
        records *= np.sqrt(variances)
        return records

    return draw


def dimension(points: Points, runs: int) -> None:
    """Measure errors for a fixed trace in several dimensions."""
    cells = []
    for d in DIMENSIONS:
        scales = np.full(d, 1 / (d - HEAD))
        scales[:HEAD] = 1 / 9
        cells.append(
            Cell(points, "dimension", f"d = {d}", runs if d < 10_000 else max(6, runs // 2))
        )
        cells[-1].fill(1000, scales**2, normal(1000, scales**2))
    table(("dimension", *COLUMNS), [cell.row() for cell in cells])
    for method in MODULES:
        medians = [interval(cell.values(method))[1] for cell in cells]
        off = max(medians) / min(medians) - 1
        print(f"{method}: largest over smallest median - 1 = {off:.3f}; {verdict(off <= FLAT)}")


def rotation(points: Points, runs: int) -> None:
    """Compare a general covariance with a diagonal one."""
    d, n = 200, 2000
    variances = 1 / np.arange(1, d + 1)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    full = turn @ np.diag(variances) @ turn.T
    straight, turned = (Cell(points, "rotation", name, runs) for name in ("diagonal", "general"))
    straight.fill(n, variances, normal(n, variances))
    turned.fill(n, (full + full.T) / 2, lambda rng: normal(n, variances)(rng) @ turn.T)
    table(("rotation", *COLUMNS), [straight.row(), turned.row()])


def laws(points: Points, runs: int) -> None:
    """Measure sub-Gaussian data that are not normal."""
    d, n = 1000, 5000
    variances = 1 / np.arange(1, d + 1)
    cells = []
    for name, law in LAWS.items():
        proxy = variances * (PROXY if name == "coins" else 1)
        cells.append(Cell(points, "laws", name, runs))

        def draw(
            rng: np.random.Generator,
            law: Callable[[np.random.Generator, tuple[int, int]], Floats] = law,
        ) -> Floats:
            return law(rng, (n, d)) * np.sqrt(variances)

        cells[-1].fill(n, proxy, draw)
    table(("law", *COLUMNS), [cell.row() for cell in cells])


def free(points: Points, runs: int) -> None:
    """Compare the error with that without privacy."""
    scales = np.maximum(2.0 ** -np.arange(100), 1e-3)
    rows = []
    for n in SIZES:
        cell = Cell(points, "free", f"n = {n}", runs if n < 50_000 else max(6, runs // 2))
        cell.fill(n, scales**2, normal(n, scales**2))
        own = math.hypot(*cell.values(NONE))
        over = (f"{math.hypot(*cell.values(name)) / own:.3f}" for name in MODULES)
        rows.append(cell.row(*over))
    table(("free", *COLUMNS, "rescaled / own", "refined / own"), rows)


def speed(_: Points, __: int) -> None:
    """Measure wall times; the first two are medians of three."""
    rows = []
    data = np.random.default_rng(0).normal(size=(200, 1))
    small = RescaledMean.for_budget(
        ApproxDP(4, "1e-6"), adjacency=ADD, covariance=[1.0], n_max=len(data)
    )
    law, draws, likely = small.law(data), [], []
    for seed in range(3):
        batch, *first = clocked(law.sample, SeededBits(seed), 10**6)
        likelihoods, *second = clocked(law.log_likelihood, batch)
        assert np.isfinite(likelihoods).all()
        draws.append(first[0])
        likely.append(second[0])
    both = statistics.median(draws) + statistics.median(likely)
    rows.append(["10^6 draws, log-likelihoods, n = 200", f"{both:.2f} s", "10", verdict(both < 10)])
    data = np.random.default_rng(1).normal(size=(10_000, 1000)) / np.sqrt(np.arange(1, 1001))
    for kind in RescaledMean, RefinedMean:
        mean = kind.for_budget(
            BUDGET, adjacency=ADD, covariance=1 / np.arange(1, 1001), n_max=10_000
        )
        ours, numpys = [], []
        for seed in range(3):
            ours.append(clocked(mean.release, data, SeededBits(seed))[1])
            numpys.append(clocked(np.matmul, data, data.T)[1])
        ratio = statistics.median(ours) / statistics.median(numpys)
        name = f"{kind.__name__}, 10^4 x 1000, over NumPy's {statistics.median(numpys):.2f} s"
        rows.append([name, f"{ratio:.2f}", "3", verdict(ratio < 3)])
    data = np.random.default_rng(2).normal(size=(100_000, 50))
    mean = RescaledMean.for_budget(BUDGET, adjacency=ADD, covariance=np.ones(50), n_max=100_000)
    seconds = clocked(mean.release, data, SeededBits(0))[1]
    rows.append(["RescaledMean, 10^5 x 50", f"{seconds:.1f} s", "180", verdict(seconds < 180)])
    table(("speed", "measured", "target", ""), rows)


def verdict(holds: bool) -> str:
    """Return the verdict in a word."""
    return "met" if holds else "MISSED"


PARTS: dict[str, Callable[[Points, int], None]] = {
    "dimension": dimension,
    "rotation": rotation,
    "laws": laws,
    "free": free,
    "speed": speed,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing and print it, part by part."""
    parser = argparse.ArgumentParser(description="Errors by shape, and speed.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=tuple(PARTS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--results", type=Path, default=Path("mean_shapes.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    given = parser.parse_args(arguments)
    points = Points(given.results, given.keep)
    header("Means by the shape of the data", "python -m tests.benchmarks.mean_shapes")
    print(f"# code {code()}\n\n{__doc__}")
    for part in given.parts:
        print()
        PARTS[part](points, given.runs)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
