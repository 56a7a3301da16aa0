"""``GaussianMean`` of records kept in a public set before, and for a known covariance.

At (1, 1e-6) under replace. First table: of n normal records those in the set are left. Bias is the
length of the mean error over the runs (a quarter of them at d = 20), error its root mean square, in
deviations; "without" is maximum likelihood without privacy: the same way back from a ball of twice
the radius, about the mean of what was kept. "mask" and "clip" are not told the set. Sets: a ball of
1.25 sqrt(d) deviations and a mean .5 sqrt(d) from its center; the half-space that ends .5
deviations beyond the mean, and the one that ends there before it; the outside of a ball of
.8 sqrt(d) about a point .5 sqrt(d) from the mean.

Second table: 4000 records of 20 columns of correlation rho, errors in Mahalanobis' norm: of a
covariance that is known; of the columns' deviations alone, clipped; and of whitened records with
deviations 1.

    python -m tests.benchmarks.kept_means [--runs 40]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    ApproxDP,
    GaussianMean,
    HalfSpace,
    InsideBall,
    OutsideBall,
    SeededBits,
    VectorMeanEstimate,
)
from dpverify.estimation.kept_response import back, cut_of
from dpverify.estimation.kept_sets import Kept, in_cells
from dpverify.grid.coordinates import Stretch
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

STRICT, REPLACE = ApproxDP(1, "1e-6"), Adjacency.REPLACE
_BITS = 24


def made(d: int, **own: Any) -> GaussianMean:
    """Build the mechanism for deviations 1 about 0."""
    ones: dict[str, Any] = {"center": (0.0,) * d, "deviations": (1.0,) * d}
    return GaussianMean.for_budget(STRICT, adjacency=REPLACE, **ones | own)


def sets(d: int) -> Iterator[tuple[str, Kept, Any, Callable[[Any], Any]]]:
    """List name, set, mean, and a test of which records the set holds."""
    axis = np.random.default_rng(1).normal(size=d)
    axis /= np.linalg.norm(axis)
    mean, far = 0.5 * math.sqrt(d) * axis, math.sqrt(d)
    normal = tuple(axis.tolist())
    yield "ball", InsideBall(1.25 * far), mean, lambda x: (x**2).sum(axis=1) <= (1.25 * far) ** 2
    for name, depth in (("half-space, .69", 0.5), ("half-space, .31", -0.5)):
        end = float(mean @ axis) + depth
        yield name, HalfSpace(normal, end), mean, partial(_before, axis, end)
    yield "outside", OutsideBall(0.8 * far), mean, lambda x: (x**2).sum(axis=1) > 0.64 * d


def _before(axis: Any, end: float, rows: Any) -> Any:
    return rows @ axis <= end


def without(rows: Any, kept: Kept) -> Any:
    """Estimate without privacy, from a ball about the mean that holds nearly all records."""
    d = rows.shape[1]
    center = np.rint(np.ldexp(rows.mean(axis=0), _BITS)).astype(np.int64)
    stretch = Stretch(tuple(center.tolist()), (-_BITS,) * d, (1,) * d)
    place = np.ldexp(center, -_BITS)
    radius = 2 * math.sqrt(d) + 4
    inside = rows[((rows - place) ** 2).sum(axis=1) <= radius**2] - place
    cut, axis = cut_of(in_cells(kept, stretch, (0,) * d, 2.0**_BITS), radius, 2.0**_BITS, d)
    moments = back(cut, axis, inside.mean(axis=0))
    return None if moments is None else moments[0] + place


def truncated(runs: int) -> Iterator[list[str]]:
    """Return the rows of the first table."""
    for d, n in ((1, 4000), (1, 20_000), (5, 20_000), (20, 40_000)):
        for name, kept, mean, holds in sets(d):
            ways: dict[str, Any] = {
                "kept": made(d, outside="mask", kept=kept),
                "mask": made(d, outside="mask"),
                "clip": made(d),
            }
            errors: dict[str, list[Any]] = {way: [] for way in ("without", *ways)}
            left, some = 0, runs if d < 20 else max(10, runs // 4)
            for run in range(some):
                rng = np.random.default_rng(seed_of("kept mean", d, n, run))
                data = rng.normal(size=(n, d)) + mean
                data = data[holds(data)]
                left += len(data)
                exact = without(data, kept)
                errors["without"] += [] if exact is None else [exact - mean]
                for way, mechanism in ways.items():
                    one = mechanism.release(data, SeededBits(run))
                    errors[way] += [one.value - mean] if isinstance(one, VectorMeanEstimate) else []
            yield [
                name,
                str(d),
                str(left // some),
                *map(_error, errors.values()),
                *map(_bias, errors.values()),
                f"{some - len(errors['kept'])}/{some}",
            ]


def _error(off: list[Any]) -> str:
    return f"{math.sqrt(np.mean(np.sum(np.square(off), axis=1))):.4f}" if off else "-"


def _bias(off: list[Any]) -> str:
    return f"{np.linalg.norm(np.mean(off, axis=0)):.4f}" if off else "-"


def correlated(runs: int) -> Iterator[list[str]]:
    """Return the rows of the second table."""
    d, n = 20, 4000
    for rho in (0.0, 0.5, 0.9, 0.99):
        covariance = (1 - rho) * np.eye(d) + rho
        root = np.linalg.cholesky(covariance)
        ways = {
            "covariance": made(d, deviations=None, covariance=covariance.tolist()),
            "deviations": made(d),
        }
        plain, off = made(d), dict[str, list[float]]()
        for run in range(runs):
            rng = np.random.default_rng(seed_of("correlated mean", d, n, run))
            white = rng.normal(size=(n, d))
            for name, mechanism, data in (
                *((name, one, white @ root.T) for name, one in ways.items()),
                ("whitened", plain, white),
            ):
                one = mechanism.release(data + 3.0, SeededBits(run))
                if isinstance(one, VectorMeanEstimate):
                    error = one.value - 3.0
                    if name != "whitened":
                        error = np.linalg.solve(root, error)
                    off.setdefault(name, []).append(float(np.linalg.norm(error)))
            off.setdefault("without", []).append(float(np.linalg.norm(white.mean(axis=0))))
        names = ("without", "whitened", "covariance", "deviations")
        yield [f"{rho}", *(f"{math.sqrt(np.mean(np.square(off[k]))):.4f}" for k in names)]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Means of normal records that were kept in a set.")
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    header("kept normal means", "python -m tests.benchmarks.kept_means", "No times.")
    print(f"\n{__doc__}", flush=True)
    ways = ["without", "kept", "mask", "clip"]
    errors, biases = [f"error: {way}" for way in ways], [f"bias: {way}" for way in ways]
    for rows, names in (
        (truncated(given.runs), ["set", "d", "left", *errors, *biases, "lost"]),
        (correlated(given.runs), ["rho", "without", "whitened", "covariance", "deviations"]),
    ):
        lines = []
        for row in rows:
            print(*row, file=sys.stderr, flush=True)
            lines.append(row)
        table(names, lines)


if __name__ == "__main__":
    main()
