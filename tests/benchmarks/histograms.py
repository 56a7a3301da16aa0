"""Histograms and ranges of their bins, beside OpenDP and diffprivlib at the same budgets.

    python -m tests.benchmarks.histograms --peers-python PYTHON    (with opendp and diffprivlib)

Prices of 53,940 diamonds between 0 and 20,000, and their cuts. Budgets: PureDP(1), with Laplace
noise for all; and zCDP of 1/32 (mu = 1/4), with Gaussian noise for all. Errors: of bins the root
mean square over the bins, after negative counts of all became 0; of ranges that over all ranges
of neighboring bins, of the counts as they came (diffprivlib's are never negative). Shown are
medians over the runs; "ratio" is ours over the best peer's mean squared error, square root, with
its 99.9% interval by 10,000 resamples of both. target: at most theirs, that is no interval above
1. What the peers do is in histograms_peers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, Histogram, PureDP, SeededBits, ZeroConcentratedDP
from dpverify.grid.bin_counts import places
from tests.benchmarks.first_day import CUTS, tables
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
PEERS = Path(__file__).with_name("histograms_peers.py")
RESAMPLES = 10_000
HIGHEST = 20_000
RHO = "1/32"


@dataclass(frozen=True)
class Asked:
    """A question: bins of the price, with each cut or all together, alone or in ranges."""

    bins: int
    noise: str
    adjacency: Adjacency
    ranges: bool = False
    by_cut: bool = False

    def __str__(self) -> str:
        bins = f"{self.bins} x {len(CUTS)}" if self.by_cut else str(self.bins)
        return f"{'all ranges of' if self.ranges else ''} {bins} bins".strip()

    @property
    def axes(self) -> tuple[Any, ...]:
        """Edges of the prices' bins, and the number of cuts."""
        edges = tuple(np.linspace(0, HIGHEST, self.bins + 1).tolist())
        return (edges, len(CUTS)) if self.by_cut else (edges,)

    @property
    def shape(self) -> list[int]:
        """Number of bins of each column."""
        return [self.bins, len(CUTS)] if self.by_cut else [self.bins]

    def mechanism(self) -> Histogram:
        """Make ours, by the rule of sessions."""
        laplace = self.noise == "laplace"
        strategy: Any = "identity"
        if self.ranges:
            strategy = "tree" if laplace else "circulant"
        given: dict[str, Any] = {"noise": self.noise, "strategy": strategy, "axes": self.axes}
        budget = PureDP(1) if laplace else ZeroConcentratedDP(RHO)
        return Histogram.for_budget(budget, adjacency=self.adjacency, **given)

    def task(self, data: Floats) -> dict[str, Any]:
        """Write down what a peer is asked."""
        each = [places(axis, data[:, i]) for i, axis in enumerate(self.axes)]
        flat = each[0] if len(each) == 1 else each[0] * len(CUTS) + each[1]
        budget = 1.0 if self.noise == "laplace" else 1 / 32
        own = {"bins": prod(self.shape), "shape": self.shape, "places": flat.tolist()}
        asked = {"noise": self.noise, "ranges": self.ranges, "adjacency": str(self.adjacency)}
        return own | asked | {"budget": budget}

    def error(self, answer: Any, truth: Floats) -> float:
        """Measure a mean squared error, of bins or of all their ranges."""
        given = np.asarray(answer, np.float64).ravel()
        if not self.ranges:
            return float(((np.maximum(given, 0) - truth) ** 2).mean())
        below = np.concatenate([[0.0], np.cumsum(given - truth)])
        apart = len(below) * float(below @ below) - float(below.sum()) ** 2
        return 2 * apart / (len(below) * (len(below) - 1))


ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
QUESTIONS = (
    *(Asked(20, noise, near) for noise, near in product(("laplace", "gaussian"), (ADD, REPLACE))),
    *(Asked(10, noise, ADD, by_cut=True) for noise in ("laplace", "gaussian")),
    *(
        Asked(bins, noise, near, ranges=True)
        for bins, noise, near in product((64, 1024), ("laplace", "gaussian"), (ADD, REPLACE))
    ),
)


def rows(runs: int, python: str) -> Iterator[tuple[str, ...]]:
    """Make a row for each question."""
    diamonds, rng = tables()["diamonds"], np.random.default_rng(7)
    columns = [diamonds.numbers("price"), diamonds.numbers("cut")]
    data = {True: np.column_stack(columns), False: np.column_stack(columns[:1])}
    tasks = [asked.task(data[asked.by_cut]) for asked in QUESTIONS]
    given = json.dumps({"runs": runs, "questions": tasks})
    done = subprocess.run([python, PEERS], input=given, capture_output=True, text=True, check=True)
    for seed, (asked, others, task) in enumerate(
        zip(QUESTIONS, json.loads(done.stdout), tasks, strict=True)
    ):
        truth = np.bincount(task["places"], minlength=task["bins"]).astype(np.float64)
        own = asked.mechanism()
        estimates = [own.release(data[asked.by_cut], SeededBits(seed, run)) for run in range(runs)]
        ours = np.array([asked.error(one.value, truth) for one in estimates])  # type: ignore[union-attr]
        theirs = {
            name: np.array([asked.error(one, truth) for one in answers])
            for name, answers in others.items()
        }
        best = min(theirs, key=lambda name: float(theirs[name].mean()))
        yield (
            str(asked),
            asked.noise,
            str(asked.adjacency),
            _shown(ours),
            f"{_ratio(ours, theirs[best], rng)} ({best})",
            "; ".join(f"{name}: {_shown(errors)}" for name, errors in theirs.items()),
        )


def _shown(errors: Floats) -> str:
    return f"{float(np.median(errors)) ** 0.5:.3g}"


def _ratio(ours: Floats, theirs: Floats, rng: np.random.Generator) -> str:
    """Format the ratio of root mean squared errors with its 99.9% interval, and whether it
    misses."""

    def means(errors: Floats) -> Floats:
        return np.asarray(errors[rng.integers(len(errors), size=(RESAMPLES, len(errors)))].mean(1))

    low, high = np.sqrt(np.quantile(means(ours) / means(theirs), [0.0005, 0.9995]))
    middle = (ours.mean() / theirs.mean()) ** 0.5
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]{' MISSED' * bool(low > 1)}"


HEAD = ("question", "noise", "adjacency", "ours", "ratio to the best peer", "peers")


def main() -> None:
    """Measure all of it and print it."""
    parser = argparse.ArgumentParser(description="Histograms and ranges of their bins.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--peers-python", required=True)
    given = parser.parse_args()
    command = f"python -m tests.benchmarks.histograms --runs {given.runs} --peers-python PYTHON"
    header("Histograms and ranges of their bins", command)
    print(f"\n{__doc__}")
    table(HEAD, rows(given.runs, given.peers_python))


if __name__ == "__main__":
    main()
