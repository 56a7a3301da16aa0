"""Private means of data a tenth of which (``--share``) are outliers: errors of ``RobustMean``
beside other private means.

Normal records of deviation 1 about (1, ..., 1). "mixed": half of the outliers are uniform on {0,
1}^d, the other half at (12, -2, 0, ...). "hidden": moved by 0.9 sqrt(d) in one random direction.
"far": moved by 1e4 in every column. Replace, epsilon = 1, delta = 1e-6; the distance to the true
mean, its median over runs with order statistics that hold the true median with probability 95%,
and the number of runs.

mean: without privacy, of all records. ball: ``IterativeMean`` with the public knowledge that the
mean is within 100 of 0 in every column. refined: ``RefinedMean``, which knows what
``RobustMean`` knows. in floats: the median that a plain version of such an algorithm in floats
had, of 12 to 3 runs, before ours was written. floats: that version, written again
(robust_floats.py).

Where floats is among the methods: in how many runs ours was closer to the truth, and the mean of
the difference of their errors (negative where ours is better) with its standard error.

    python -m tests.benchmarks.robust [--cells 1000x10,2000x10] [--runs 10] [--methods robust,mean]
                                      [--share 0.2] [--results FILE] [--keep]

Releases that were measured before are not made again.
"""

from __future__ import annotations

import argparse
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from audits._corruption import CORRUPTIONS, SHARE, records
from dpverify import Adjacency, ApproxDP
from tests.benchmarks.errors import Method, Points, code, distance, shown
from tests.benchmarks.robust_floats import RobustFloats
from tests.benchmarks.timing import header, table

BUDGET = ApproxDP(1, "1e-6")
KINDS = ("clean", *CORRUPTIONS)
PLAIN = {
    (1000, 10): (0.315, 0.346, 0.389, 0.408),
    (2000, 10): (0.158, 0.202, 0.326, 0.199),
    (5000, 10): (0.0721, 0.1, 0.299, 0.0813),
    (10_000, 10): (0.0388, 0.0904, 0.285, 0.0465),
    (5000, 50): (0.231, 0.345, 0.666, 0.285),
    (5000, 100): (0.436, 0.956, 0.991, 0.543),
    (10_000, 50): (0.125, 0.248, 0.156, 0.149),
    (10_000, 100): (0.208, 0.342, 0.28, 0.259),
    (20_000, 100): (0.125, 0.184, 0.143, 0.146),
}


@cache
def means(n: int, d: int, share: float = SHARE) -> dict[str, Method]:
    """List the means by name. share: of outliers, that the robust one allows for."""
    ones = (1.0,) * d
    ball = {"center": (0.0,) * d, "radius": 100 * math.sqrt(d)}
    own: dict[str, tuple[str, dict[str, Any]]] = {
        "ball": ("iterative_mean", ball),
        "refined": ("refined_mean", {"covariance": ones, "n_max": n}),
        "robust": ("robust_mean", {"deviations": ones, "n_max": n, "gamma": str(share)}),
    }
    shared = {"budget": BUDGET, "adjacency": Adjacency.REPLACE}
    return {
        name: Method(name, module, {**shared, **given}) for name, (module, given) in own.items()
    }


def error(name: str, n: int, d: int, kind: str, run: int, share: float = SHARE) -> float:
    """Return the error of one release of fresh data; for "mean", of the mean without privacy."""
    data = records(n, d, kind, np.random.default_rng([n, d, run]), share)
    if name == "mean":
        return distance(data.mean(axis=0), np.ones(d))
    if name == "floats":
        estimate = RobustFloats(n, d).release(data, np.random.default_rng([n, d, run, 1]))
        return math.inf if estimate is None else distance(estimate, np.ones(d))
    return means(n, d, share)[name].error(data, np.ones(d), run)


def row(
    points: Points, names: list[str], n: int, d: int, kind: str, runs: int, share: float
) -> list[str]:
    """Return a row of the table."""
    cells, by_name = [str(n), str(d), kind], {}
    for name in names:
        by_name[name] = [
            points.get(
                lambda name=name, run=run: error(name, n, d, kind, run, share),  # type: ignore[misc]
                **({} if share == SHARE else {"share": str(share)}),
                n=n,
                d=d,
                kind=kind,
                method=name,
                run=run,
            )
            for run in range(runs)
        ]
        cells.append(shown(by_name[name]))
    plain = PLAIN.get((n, d)) if share == SHARE else None
    cells.append("-" if plain is None else f"{plain[KINDS.index(kind)]:.3g}")
    if {"robust", "floats"} <= by_name.keys():
        cells.append(compared(by_name["robust"], by_name["floats"]))
    return cells


def compared(ours: list[float], theirs: list[float]) -> str:
    """Compare the errors run by run, on the same data."""
    won = sum(a < b for a, b in zip(ours, theirs, strict=True))
    difference = np.array([a - b for a, b in zip(ours, theirs, strict=True) if max(a, b) < np.inf])
    error = difference.std(ddof=1) / math.sqrt(len(difference)) if len(difference) > 1 else math.nan
    return f"{won}/{len(ours)}, {difference.mean():+.4f} +- {error:.4f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Private means with a tenth of outliers.")
    parser.add_argument("--cells", default=",".join(f"{n}x{d}" for n, d in PLAIN))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--methods", default="mean,ball,refined,robust")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--results", type=Path, default=Path("robust.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    given = parser.parse_args()
    points, names, rows = Points(given.results, given.keep), given.methods.split(","), []
    for cell in given.cells.split(","):
        n, d = map(int, cell.split("x"))
        for kind in given.kinds.split(","):
            rows.append(row(points, names, n, d, kind, given.runs, given.share))
            print(*rows[-1], flush=True)
    header("means with outliers", f"python -m tests.benchmarks.robust --share {given.share}")
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n\n{__doc__}")
    paired = ["ours closer, by"] if {"robust", "floats"} <= set(names) else []
    table(["n", "d", "data", *names, "in floats", *paired], rows)


if __name__ == "__main__":
    main()
