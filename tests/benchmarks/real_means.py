"""Private means of real data: diamonds (53,940 x 7) and handwritten digits (1797 x 64).

What is public is in real_data.py: a rough scale, and for the methods that need one a box. An
error is the L2 distance of a release from the mean of the data, in pixels of 0 to 16 for digits,
in rough scales for diamonds (half a carat, 2%, 2%, 5000 dollars, 1 mm three times). Cells: the
median of as many releases, with order statistics that hold the true median with probability 95%,
and their number.

"diamonds as they are": in their own units (carat, %, dollars, mm), with nothing known of the
scales but that values are below 10^5 and, where a method needs it, that no standard deviation is
below 1/20 or above 10^4; errors are in rough scales, as above.

    python -m tests.benchmarks.real_means [--releases 40] [--results FILE] [--keep]

Diamonds need plotnine (pip install 'dpverify[data]'); without it they are left out.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpverify import Abstained, Adjacency, ApproxDP, SeededBits
from tests.benchmarks.errors import Floats, Method, Points, code, distance, seed_of, shown
from tests.benchmarks.real_data import DATASETS, SCALES, Public
from tests.benchmarks.timing import header, table

EPSILONS = ("1", "1/5")
DELTA = "1e-6"


def methods(public: Public) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """List (name, module, parameters)."""
    d, spread = len(public.center), public.spread
    deviations = (math.sqrt(public.trace / d),) * d
    box = {"center": public.center, "reach": max(public.half), "deviations": deviations}
    ball = {"center": public.center, "radius": math.hypot(*public.half)}
    yield "rescaled", "rescaled_mean", spread
    yield "refined", "refined_mean", spread
    yield "clipped", "clipped_mean", ball
    yield "coordinatewise", "coordinatewise_mean", box
    yield "variance aware", "variance_aware_mean", box
    yield "iterative", "iterative_mean", {**ball, "deviation": math.sqrt(public.largest)}


def without_scales(public: Public) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """List the methods with nothing known of the columns' scales."""
    d = len(public.center)
    origin, widest = (0.0,) * d, 1e5
    ball = {"center": origin, "radius": widest * math.sqrt(d)}
    box = {"center": origin, "reach": widest}
    yield "unknown covariance", "unknown_covariance_mean", {"d": d, "n_max": public.n_max}
    yield "variance aware", "variance_aware_mean", {**box, "least_deviation": "1/20"}
    yield "coordinatewise", "coordinatewise_mean", {**box, "deviations": (1e4,) * d}
    yield "iterative", "iterative_mean", {**ball, "deviation": 1e4}
    yield "clipped", "clipped_mean", ball


def errors(
    method: Method, data: Floats, releases: int, seed: int, unit: Sequence[float]
) -> list[float]:
    """Return the errors of releases from one law; unit: one for each column."""
    if method.mechanism is None:
        return [math.inf] * releases
    drawn = method.mechanism.law(data).sample(SeededBits(seed), releases)
    means = (method.mechanism.estimate(drawn[i]) for i in range(releases))
    mean = data.mean(axis=0) / unit
    return [math.inf if isinstance(x, Abstained) else distance(x.value / unit, mean) for x in means]


Listed = Sequence[tuple[str, str, dict[str, Any]]]


def measure(
    points: Points, name: str, data: Floats, listed: Listed, releases: int, unit: Sequence[float]
) -> None:
    """Measure all these methods, adjacencies and budgets on one dataset."""
    rows = []
    for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE:
        for label, module, parameters in listed:
            cells = [f"{label} ({adjacency})"]
            for epsilon in EPSILONS:
                fixed = {"budget": ApproxDP(epsilon, DELTA), "adjacency": adjacency}
                method = Method(cells[0], module, {**fixed, **parameters})
                key = {"data": name, "method": cells[0], "epsilon": epsilon}
                cells.append(shown(_values(points, method, data, releases, key, unit)))
            rows.append(cells)
            print(cells, file=sys.stderr, flush=True)
    table((name, *(f"epsilon = {epsilon}" for epsilon in EPSILONS)), rows)


def _values(
    points: Points,
    method: Method,
    data: Floats,
    releases: int,
    key: dict[str, str],
    unit: Sequence[float],
) -> list[float]:
    made: list[float] = []

    def value(run: int) -> float:
        if not made:
            made.extend(errors(method, data, releases, seed_of(*key.values()), unit))
        return made[run]

    for run in range(releases if method.kind is not None else 0):
        points.get(partial(value, run), **key, run=run)
    return [x for run in range(releases) for x in points.values(**key, run=run)]


def main() -> None:
    """Measure what is missing and print it."""
    parser = argparse.ArgumentParser(description="Private means of real data.")
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--results", type=Path, default=Path("real_means.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    given = parser.parse_args()
    points = Points(given.results, given.keep)
    header("Private means of real data", "python -m tests.benchmarks.real_means")
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n\n{__doc__}")
    for name, load in DATASETS.items():
        dataset = load()
        if dataset is None:
            print(f"{name}: left out; pip install 'dpverify[data]'\n")
            continue
        data, public = dataset
        unit = (1.0,) * len(public.center)
        measure(points, name, data, [*methods(public)], given.releases, unit)
        print()
        if name == "diamonds":
            raw, blind = f"{name} as they are", [*without_scales(public)]
            measure(points, raw, data * SCALES, blind, given.releases, SCALES)
            print()


if __name__ == "__main__":
    main()
