"""Means of anisotropic vectors between what is proved of them and what no method can beat.

The instances of dimension_free.py: d = 1000, normal data, (1, 1e-6)-DP under add-remove, mean
(1, ..., 1), of which methods that need a box know that it is within 100 of zero. Upper bounds,
expected errors and lower bounds are the functions that ``dpverify rates`` takes from spec/;
measured are the points of dimension_free.py, of which evidence/2026-11-22-bounds.csv keeps
medians, their 95% intervals (order statistics) and root mean squares. They were made over two
days by several states of the code; of 18 runs that were repeated on the last, all gave the same
error to 14 digits.

best / lower: the error of the best method over the larger of two lower bounds, of privacy
(tracing) and of sampling (the trace of Sigma over n), which no method beats in root mean square
at every mean. Once for the root mean square, once for the median; few runs may be below it by
chance, and a median is below what it bounds. target: at most 12 for instance 1 at n = 10,000.
noise / tracing: what of RefinedMean's expected error is due to privacy, over what must be.
Beside it the older bounds: by buckets of like variances, and by packing, which holds for pure DP
alone (failure 1/2, means in the ball about the box). bound: of RescaledMean's error, with
probability 95%, for every sub-Gaussian law of this proxy, friends or not.

    python -m tests.benchmarks.bounds                         the tables, from the kept points
    python -m tests.benchmarks.bounds --page                  the table of docs/measured/rates.md
    python -m tests.benchmarks.bounds --figures docs/figures  the pictures, with dpverify[plots]
    python -m tests.benchmarks.bounds --collect FILE...       new points, of dimension_free.py
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

from dpverify import Adjacency
from spec import coordinatewise_mean, refined_mean, rescaled_mean, variance_aware_mean
from spec.theory import buckets, centered, packing, tracing_bound
from tests.benchmarks.dimension_free import BUDGET, NONE, VARIANCES, D, methods
from tests.benchmarks.errors import Points, digits, interval
from tests.benchmarks.timing import header, table

KEPT = Path(__file__).parent / "evidence" / "2026-11-22-bounds.csv"
ADJACENCY = Adjacency.ADD_REMOVE
OURS = ("rescaled", "refined")
BASELINES = ("coordinatewise", "variance aware, known", "variance aware", "iterative")
TARGET, AT = 12.0, (1, 10_000)
BETA = Fraction(1, 20)
"""That an upper bound fails."""
RARELY = 1e-3
_REACH = Fraction(100 * math.isqrt(D))  # the ball about the box is a little larger


@dataclass(frozen=True, slots=True)
class Measured:
    """Errors of one method at one size: the median with its interval, and the root mean square.

    The interval is infinite for fewer than 6 runs, the root mean square where a run abstained.
    """

    instance: int
    n: int
    method: str
    runs: int
    low: float
    median: float
    high: float
    rms: float


def collect(points: Iterable[Points]) -> list[Measured]:
    """Collect all measurements of the methods that are drawn; a run in two files counts once."""
    by_method: dict[tuple[int, int, str], dict[int, float]] = {}
    for one in points:
        for point in one.points.values():
            key: Any = point["key"]
            name = str(key["method"]).removesuffix(f" ({ADJACENCY})")
            if name in (NONE, *OURS, *BASELINES):
                place = by_method.setdefault((key["instance"], key["n"], name), {})
                place[key["run"]] = float(point["value"])
    return [_summary(*key, list(runs.values())) for key, runs in sorted(by_method.items())]


def _summary(instance: int, n: int, method: str, errors: Sequence[float]) -> Measured:
    low, median, high = interval(errors)
    rms = float(np.sqrt(np.mean(np.square(errors))))
    rounded = [float(f"{value:.4g}") for value in (low, median, high, rms)]
    return Measured(instance, n, method, len(errors), *rounded)


def write(measured: Sequence[Measured], path: Path = KEPT) -> None:
    """Write one line for each measurement, with a header."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([field.name for field in fields(Measured)])
        lines.writerows(astuple(one) for one in measured)


def read(path: Path = KEPT) -> list[Measured]:
    """Read a file that ``write`` wrote."""
    with path.open(newline="") as file:
        return [
            Measured(
                int(line["instance"]),
                int(line["n"]),
                line["method"],
                int(line["runs"]),
                *(float(line[name]) for name in ("low", "median", "high", "rms")),
            )
            for line in csv.DictReader(file)
        ]


# --- what is proved -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """Proved bounds and expected errors of ours, and lower bounds, at one n from 300 on."""

    n: int
    rescaled_bound: float
    rescaled_expected: float
    refined_expected: float
    refined_noise: float
    sampling: float
    tracing: float
    buckets: float
    packing: float

    @property
    def lower(self) -> float:
        """Lower bound for any method of this privacy."""
        return max(self.sampling, self.tracing)


@cache
def bounds_at(instance: int, n: int) -> Bounds:
    """Compute bounds by the specs, for the measured mechanisms: n_max = n, the covariance
    public."""
    variances = [Fraction(value) for value in VARIANCES[instance].tolist()]
    rescaled, refined = _parameters("rescaled", instance, n), _parameters("refined", instance, n)
    sampling = tracing_bound.sampling_error(variances, n)
    noise = rescaled_mean.expected_error(rescaled, n)
    second = refined_mean.expected_error(refined, n)
    budget: dict[str, Any] = {"epsilon": Fraction(BUDGET.epsilon), "delta": Fraction(BUDGET.delta)}
    best = buckets.best_bucket([Fraction(math.sqrt(v)) for v in variances])
    # in five parts of beta: noise, number, sampling, pairs that are no friends, the farthest record
    bound = rescaled_mean.error_bound(rescaled, n, BETA / 5, VARIANCES[instance].tolist())
    return Bounds(
        n,
        float(bound),
        float(mp.hypot(noise, sampling)),
        float(mp.hypot(second, sampling)),
        float(second),
        float(sampling),
        float(tracing_bound.least_error(variances=variances, n=n, **budget)),
        float(len(best) * min(best) / (24 * n * budget["epsilon"])),
        float(
            packing.least_radius(
                epsilon=budget["epsilon"], d=D, n=n, reach=_REACH, beta=Fraction(1, 2)
            )
        ),
    )


def _parameters(name: str, instance: int, n: int) -> dict[str, Any]:
    full = f"{name} ({ADJACENCY})"
    made = next(method for method in methods(instance, n) if method.name == full)
    parameters: dict[str, Any] = made.mechanism.parameters
    return parameters


@cache
def least_n(name: str, instance: int) -> int:
    """Find n from which the search for medians fails with probability ``RARELY`` at most."""
    parameters = _parameters(name, instance, 1)
    if name == "coordinatewise":
        steps = coordinatewise_mean.steps(parameters)
        shared = steps
    else:
        steps = variance_aware_mean.side_steps(parameters)
        shared = steps + variance_aware_mean.spread_steps(parameters)
    low, high = 1, 10**6
    while low < high:
        middle = (low + high) // 2
        missed = centered.chance_of_missing(parameters, middle, steps, shared)
        low, high = (low, middle) if missed <= RARELY else (middle + 1, high)
    return low


# --- tables -------------------------------------------------------------------------------------


def best(measured: Sequence[Measured], instance: int, n: int) -> Measured | None:
    """Return the private method of the least root mean square, among those with an interval."""
    there = [
        one
        for one in measured
        if (one.instance, one.n) == (instance, n) and one.method != NONE and math.isfinite(one.high)
    ]
    return min(there, key=lambda one: one.rms, default=None)


def ratios(measured: Sequence[Measured], instance: int) -> Iterator[list[str]]:
    """Return a row for each n."""
    for n in sorted({one.n for one in measured if one.instance == instance}):
        leader, known = best(measured, instance, n), bounds_at(instance, n)
        if leader is None:
            continue
        worst = max(leader.rms, leader.median) / known.lower
        judged = ("met" if worst <= TARGET else "MISSED") if (instance, n) == AT else ""
        numbers = (leader.median, leader.rms, known.sampling, known.tracing)
        yield [
            str(n),
            f"{leader.method} /{leader.runs}",
            *map(digits, numbers),
            f"{leader.rms / known.lower:.2f}",
            f"{leader.median / known.lower:.2f}",
            judged,
            f"{known.refined_noise / known.tracing:.1f}",
            *map(digits, (known.buckets, known.packing, known.rescaled_bound)),
        ]


def medians(measured: Sequence[Measured], instance: int) -> Iterator[list[str]]:
    """Yield a row for each measurement of the instance, as in the pictures."""
    for one in measured:
        if one.instance == instance:
            ends = f"[{digits(one.low)}, {digits(one.high)}] /{one.runs}"
            yield [one.method, str(one.n), f"{digits(one.median)} {ends}", digits(one.rms)]


def page(measured: Sequence[Measured]) -> Iterator[str]:
    """Return the table of docs/measured/rates.md: by n the best method, its root mean square
    over the lower bound."""
    sizes = sorted({one.n for one in measured if best(measured, one.instance, one.n)})
    yield "| n | " + " | ".join(f"instance {i}" for i in VARIANCES) + " |"
    yield "|---|" + "---|" * len(VARIANCES)
    for n in sizes:
        cells = []
        for instance in VARIANCES:
            leader = best(measured, instance, n)
            if leader is None:
                cells.append("not measured")
                continue
            ratio = leader.rms / bounds_at(instance, n).lower
            cells.append(f"{NAMES[leader.method]} {digits(leader.rms)}, {ratio:.2f}")
        yield f"| {n:,} | " + " | ".join(cells) + " |"


NAMES = {
    "rescaled": "`RescaledMean`",
    "refined": "`RefinedMean`",
    "coordinatewise": "`CoordinatewiseMean`",
    "variance aware, known": "`VarianceAwareMean`",
    "variance aware": "`VarianceAwareMean`, unknown",
    "iterative": "`IterativeMean`",
}
COLUMNS = (
    *("n", "best / runs", "median", "root mean sq.", "sampling", "tracing"),
    *("best / lower", "of medians", "target", "noise / tracing"),
    *("buckets", "packing", "bound"),
)


def main() -> None:
    """Print the tables, or make the pictures."""
    parser = argparse.ArgumentParser(description="Upper bounds, measured errors, lower bounds.")
    parser.add_argument("--collect", type=Path, nargs="+", help="files of dimension_free.py")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--page", action="store_true", help="the table of docs/measured/rates.md")
    parser.add_argument("--figures", type=Path, help="folder to draw into")
    given = parser.parse_args()
    if given.collect:
        write(collect(Points(path) for path in given.collect), given.kept)
    measured = read(given.kept)
    if given.figures:
        from tests.benchmarks.pictures import draw

        for instance in VARIANCES:
            print(draw(measured, instance, given.figures))
        return
    if given.page:
        print("\n".join(page(measured)))
        return
    header("Means of anisotropic vectors, between bounds", "python -m tests.benchmarks.bounds")
    print(f"\n{__doc__}")
    for instance in VARIANCES:
        print(f"\ninstance {instance}: variances as in dimension_free.py\n")
        table(COLUMNS, ratios(measured, instance))
        print()
        table(("method", "n", "median", "root mean sq."), medians(measured, instance))
        needed = [f"{name} {least_n(name, instance)}" for name in BASELINES[:3]]
        print(
            f"\nmedians are missed with probability {RARELY} at most from n = {', '.join(needed)}"
        )


if __name__ == "__main__":
    main()
