"""Waiting times of dpverify: its import, a mechanism for a budget, its releases, a draw.

    python -m tests.benchmarks.responsiveness [--repeats 3] [--only TEXT]
    [--parts import means draws]

Seconds of processor time on one core, with one thread for linear algebra; the least of the repeats.

import: in a fresh interpreter, whose own start is not counted; modules: how many were loaded by it.

means: each repeat in a fresh interpreter that has imported dpverify and made the data. n = 5000
normal records of mean 0; deviations are 1, but for the full matrix, 0.5^|i - j|. (1, 1e-6)-DP,
under add-remove if no other adjacency is named. Public: n_max = n; a radius of 40 for the
clipped mean and of 1000 for the iterative one; a reach of 128 and, where deviations are
searched, a least one of 1/8; bounds +-100 for the winsorized one. for_budget: with nothing kept
from earlier calls. first: the first release. again: the second one, of the same mechanism from
the same data. sum: x.sum(axis=0) for these data x. passes: that sum and, for what searches, one
np.count_nonzero(x > c, axis=0) for each of its steps. x x^T: np.matmul(x, x.T) into an array
that is there, for means of friends, who are found by inner products; no part of passes. over: a
release over passes. waits: for_budget and first.

draws: law.sample(bits, k) for a law that has been sampled before, a call, in microseconds; the
least of batches of calls. Laws of 100 records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpverify import (
    Adjacency,
    ApproxDP,
    BoundedMean,
    ClippedMean,
    CoordinatewiseMean,
    IterativeMean,
    NoisyCount,
    PureDP,
    RandomizedResponse,
    RefinedMean,
    RescaledMean,
    RobustMean,
    SeededBits,
    StabilityHistogram,
    SystemBits,
    UnknownCovarianceMean,
    VarianceAwareMean,
    WinsorizedMean,
)
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
Seconds = dict[str, float]
N, SEED = 5000, 7
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
PARTS = ("import", "means", "draws")
SIZES = (1, 3, 10)
_BATCH = 0.05
"""Seconds of a batch of draws, about."""
_BATCHES = 4
"""Number of batches of draws, for each of the repeats."""
_FEW = 100
_SIDES, _SPREADS = 7 + 4, 3
"""Steps from a reach of 128 to a deviation of 1, four of them extra; and three more down to 1/8."""
_DEVIATIONS = 6
"""Steps of a search for deviations between 1/8 and 128, two of them extra."""


# --- means --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A kind of mean with its public parameters, dimension, and the number of its comparisons.

    friends: whether it looks at pairs of records. correlated: the data have the full matrix.
    """

    name: str
    kind: Any
    d: int
    parameters: Callable[[int], dict[str, Any]]
    steps: int = 0
    adjacency: Adjacency = ADD
    friends: bool = False
    correlated: bool = False


def _zeros(d: int) -> tuple[float, ...]:
    return (0.0,) * d


def _ones(d: int) -> tuple[float, ...]:
    return (1.0,) * d


def _decaying(d: int) -> Floats:
    """Return a correlation that halves from one column to the next."""
    i = np.arange(d)
    return np.asarray(0.5 ** np.abs(i[:, None] - i))


def _searched(**own: Any) -> Callable[[int], dict[str, Any]]:
    return lambda d: {"center": _zeros(d), "reach": 128, **own}


def _known(d: int) -> dict[str, Any]:
    return {"center": _zeros(d), "reach": 128, "deviations": _ones(d)}


def _with_friends(d: int) -> dict[str, Any]:
    return {"covariance": _ones(d), "n_max": N}


MEANS = (
    Mean("ClippedMean", ClippedMean, 1000, lambda d: {"center": _zeros(d), "radius": 40}),
    Mean("CoordinatewiseMean", CoordinatewiseMean, 1000, _known, _SIDES),
    Mean("IterativeMean", IterativeMean, 1000, lambda d: {"center": _zeros(d), "radius": 1000}),
    Mean("VarianceAwareMean, known", VarianceAwareMean, 1000, _known, _SIDES),
    Mean(
        "VarianceAwareMean, unknown",
        VarianceAwareMean,
        1000,
        _searched(least_deviation="1/8"),
        _SIDES + _SPREADS + _DEVIATIONS,
    ),
    Mean("RescaledMean", RescaledMean, 1000, _with_friends, friends=True),
    Mean("RefinedMean", RefinedMean, 1000, _with_friends, friends=True),
    Mean(
        "RescaledMean, full matrix",
        RescaledMean,
        400,
        lambda d: {"covariance": _decaying(d), "n_max": N},
        friends=True,
        correlated=True,
    ),
    Mean(
        "RobustMean", RobustMean, 20, lambda d: {"deviations": _ones(d), "n_max": N}, friends=True
    ),
    Mean(
        "UnknownCovarianceMean",
        UnknownCovarianceMean,
        50,
        lambda d: {"d": d, "n_max": N},
        friends=True,
    ),
    Mean(
        "WinsorizedMean, replace",
        WinsorizedMean,
        100,
        lambda d: {"lower": (-100.0,) * d, "upper": (100.0,) * d},
        adjacency=REPLACE,
    ),
)
COLUMNS = (
    "ms", "d", "for_budget", "first", "again", "sum", "passes", "x x^T", "first over", "again over",
    "waits",
)  # fmt: skip


def data_of(mean: Mean) -> Floats:
    """Draw the mechanism's normal records."""
    records = np.random.default_rng(SEED).normal(size=(N, mean.d))
    if mean.correlated:
        records = records @ np.linalg.cholesky(_decaying(mean.d)).T
    return records


def measure(mean: Mean) -> Seconds:
    """Time the budget, two releases and the passes, in this interpreter, which is to be a fresh
    one."""
    x, parameters = data_of(mean), mean.parameters(mean.d)
    middle = np.full(mean.d, 0.01)
    seconds: Seconds = {}

    def take(name: str, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = call()
        seconds[name] = min(time.process_time() - start, seconds.get(name, np.inf))
        return result

    made = take(
        "for_budget",
        lambda: mean.kind.for_budget(BUDGET, adjacency=mean.adjacency, **parameters),
    )
    take("first", lambda: made.release(x, SeededBits(SEED, 1)))
    take("again", lambda: made.release(x, SeededBits(SEED, 2)))
    for _ in range(5):
        take("sum", lambda: x.sum(axis=0))
        take("comparison", lambda: np.count_nonzero(x > middle, axis=0))
    if mean.friends:
        turned, products = np.array(x.T, order="C"), np.zeros((N, N))
        for _ in range(2):
            take("product", lambda: np.matmul(x, turned, out=products))
    return seconds


def mean_row(mean: Mean, repeats: int) -> list[str]:
    """Time the mean in fresh interpreters and write its line."""
    command = [sys.executable, "-m", "tests.benchmarks.responsiveness", "--mean", mean.name]
    runs: list[Seconds] = [json.loads(_output(command)) for _ in range(repeats)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    passes = best["sum"] + mean.steps * best["comparison"]
    waits = best["for_budget"] + best["first"]
    cells = [best[name] for name in ("for_budget", "first", "again", "sum")]
    product = _ms(best["product"]) if "product" in best else "-"
    over = [f"{best[name] / passes:,.1f}" for name in ("first", "again")]
    texts = [*map(_ms, cells), _ms(passes), product, *over, _ms(waits)]
    return [mean.name, str(mean.d), *texts]


# --- import -------------------------------------------------------------------------------------

_IMPORT = """
import sys, time
before, start = len(sys.modules), time.process_time()
import {module}
print(time.process_time() - start, len(sys.modules) - before, "scipy.stats" in sys.modules)
"""


def import_row(module: str, repeats: int) -> list[str]:
    """Import in fresh interpreters, once more than counted so that the bytecode is there."""
    command = [sys.executable, "-c", _IMPORT.format(module=module)]
    runs = [_output(command).split() for _ in range(repeats + 1)][1:]
    best = min(float(seconds) for seconds, *_ in runs)
    _, modules, stats = runs[-1]
    return [module, _ms(best), modules, "yes" if stats == "True" else "no"]


def _ms(seconds: float) -> str:
    """Write milliseconds in three digits, or more where these are whole."""
    value = 1000 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# --- draws --------------------------------------------------------------------------------------


def laws() -> dict[str, Any]:
    """Make laws of few records by name."""
    rng = np.random.default_rng(SEED)
    numbers, vectors = rng.normal(170, 10, _FEW), rng.normal(size=(_FEW, 10))
    answers = rng.integers(0, 4, _FEW)
    count = NoisyCount.for_budget(PureDP(1), adjacency=ADD)
    bounded = BoundedMean.for_budget(PureDP(1), adjacency=ADD, lower=120, upper=220)
    clipped = ClippedMean.for_budget(BUDGET, adjacency=ADD, center=_zeros(10), radius=4)
    histogram = StabilityHistogram.for_budget(BUDGET, adjacency=ADD, width=5, delta="1e-6")
    response = RandomizedResponse.for_budget(PureDP(1), adjacency=REPLACE, categories=4)
    return {
        "NoisyCount": count.law(numbers),
        "BoundedMean": bounded.law(numbers),
        "ClippedMean, d = 10": clipped.law(vectors),
        "StabilityHistogram": histogram.law(numbers),
        "RandomizedResponse": response.law(answers),
    }


def draw_row(name: str, law: Any, bits: SystemBits | SeededBits, repeats: int) -> list[str]:
    """Time draws by one source, the sizes in turn, so that other load hits all alike."""
    timers = [
        timeit.Timer(partial(law.sample, bits, size), timer=time.process_time) for size in SIZES
    ]
    calls = [max(10, round(_BATCH / (timer.timeit(20) / 20))) for timer in timers]
    best = [float("inf")] * len(SIZES)
    for _ in range(_BATCHES * repeats):
        for i, timer in enumerate(timers):
            best[i] = min(best[i], timer.timeit(calls[i]) / calls[i])
    return [name, type(bits).__name__, *(f"{1e6 * seconds:.4g}" for seconds in best)]


# --- all of it ----------------------------------------------------------------------------------


def main() -> None:
    """Measure what is asked for, then print the tables."""
    parser = argparse.ArgumentParser(description="How long one waits for dpverify.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the names of means and of laws")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--mean", help="used within: time one mean here, and print JSON")
    given = parser.parse_args()
    with threadpool_limits(1):
        if given.mean is not None:
            print(json.dumps(measure(next(mean for mean in MEANS if mean.name == given.mean))))
            return
        report(given.parts, given.only, given.repeats)


def report(parts: Sequence[str], only: str, repeats: int) -> None:
    """Print a table for each part."""
    times = (
        f"Here: the least of {repeats}, of batches the least of {_BATCHES * repeats}; one thread."
    )
    header("Waiting for dpverify", "python -m tests.benchmarks.responsiveness", times)
    # Imported here because it loads scipy.stats, which the interpreters that time a mean must not.
    from tests.benchmarks.errors import code

    print(f"# what releases run: sha256 of its files {code()}\n")
    print(__doc__)
    if "import" in parts:
        print("\nimport\n")
        modules = ("numpy", "dpverify")
        rows = [import_row(module, repeats) for module in modules]
        table(("", "ms", "modules", "scipy.stats loaded"), rows)
    if "means" in parts:
        print("\nmeans\n")
        chosen = [mean for mean in MEANS if only in mean.name]
        table(COLUMNS, [mean_row(mean, repeats) for mean in chosen])
    if "draws" in parts:
        print("\ndraws\n")
        chosen_laws = {name: law for name, law in laws().items() if only in name}
        sources = (SystemBits(), SeededBits(SEED))
        rows = [
            draw_row(name, law, bits, repeats)
            for name, law in chosen_laws.items()
            for bits in sources
        ]
        table(("microseconds", "bits", *(f"k = {size}" for size in SIZES)), rows)


if __name__ == "__main__":
    main()
