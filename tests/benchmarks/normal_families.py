"""Processor seconds of the moments and estimates of families of normal vectors: medians of five.

Truncated and clipped: log mass and mean of (-x x^T / 2, x), eigenvalues from 1 to 1e4, a ball of
E |x - c|^2 about a center that is not the mean. covariance: of the same statistic, of d
(d + 3) / 2 numbers. precision: the truncated maximum likelihood estimate from moments with noise
of 2% on the diagonal, precisions known to lie between 0.4 and 3 and a ball of least mass .5.
both: the same with the mean. least: the least curvature of the clipped precision's moments over
that prior.

    python -m tests.benchmarks.normal_families
"""

from __future__ import annotations

import math
import sys

import numpy as np

from dpverify.families import (
    Ball,
    Eigenvalues,
    MultivariateNormal,
    NormalPrecision,
    Solved,
    least_curvature,
    truncated_mle,
)
from tests.benchmarks.timing import header, table, timed


def _moments(d: int) -> list[str]:
    rng, family = np.random.default_rng(d), MultivariateNormal(d)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values, mean = np.geomspace(1, 1e4, d), rng.normal(size=d)
    theta = family.natural(mean, (turn * values) @ turn.T)
    ball = Ball((0.0,) * d, math.sqrt(float(values.sum() + mean @ mean)))
    shown = [timed(call, theta, ball)[1] for call in (family.truncated, family.clipped)]
    if d <= 20:
        shown.append(timed(lambda: family.truncated(theta, ball).covariance)[1])
    return [f"{1e3 * one:.1f}" for one in shown] + ["-"] * (3 - len(shown))


def _estimates(d: int) -> list[str]:
    rng, prior, shown = np.random.default_rng(d), Eigenvalues(0.4, 3.0, 0.5), []
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covariance = (turn * np.geomspace(0.5, 2, d)) @ turn.T
    precise, both = NormalPrecision(d), MultivariateNormal(d)
    for family, theta in (
        (precise, precise.natural(covariance)),
        (both, both.natural(np.full(d, 0.1 / math.sqrt(d)), covariance)),
    ):
        if family is both and d > 20:
            shown.append("-")
            continue
        kept = family.survival(prior, 0.5)
        noisy = family.truncated(theta, kept).mean + 0.01 * rng.normal(size=family.p)
        solution, seconds = timed(truncated_mle, family, prior, kept, noisy)
        assert isinstance(solution, Solved)
        shown.append(f"{1e3 * seconds:.1f}")
    kept = precise.survival(prior, 0.5)
    seconds = timed(least_curvature.__wrapped__, precise, prior, kept, "clip")[1]
    return [*shown, f"{1e3 * seconds:.1f}"]


def main() -> int:
    """Print the table."""
    header("families of normal vectors", "python -m tests.benchmarks.normal_families")
    rows = [[str(d), *_moments(d), *_estimates(d)] for d in (2, 5, 10, 20, 50, 100)]
    print("\nMilliseconds:\n")
    table(["d", "truncated", "clipped", "covariance", "precision", "both", "least"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
