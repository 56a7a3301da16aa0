"""The refined mean's noise against the tracing lower bound, and the loss by a smaller ball.

100 columns with variances i^-power, (1, 1e-6)-DP, n_max = n. any, GDP: the expected noise over
the lower bound of all (1, 1e-6)-DP estimates, and of those as private as this one, which are
Gaussian DP but for its rare event (spec/theory/tracing_bound.py); the latter as a product.
gaussian: the Gaussian mechanism at this budget on a sum of sensitivity sqrt(tr Sigma^(1/2)),
over that bound. any over GDP is what no proof can close for normal data: there are estimates, of
no use for they are searches of all of R^d, whose error has no sqrt(log(1 / delta)) beside tr
Sigma^(1/2) / (n epsilon). budget: what votes and center leave of mu^2. radius: the ball's over
sqrt(tr Sigma^(1/2)), the typical length of a record after the map. center: what the center's
noise adds to the radius. twice: a replaced record moves a sum by two radii. count: the number
under the same noise. balls: for a record_radius exceeded with probability at most p, the root
mean square distance from the mean, and from that of the sample, of normal records and of
centered exponential ones. normal: for normal records alone, that for add-remove over the lower
bound, the noise beside the distance from the sample's mean.

    nice python -m tests.benchmarks.where_noise_goes [--runs 24] [--seed 6]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Abstained, Adjacency, ApproxDP, GaussianDP, RefinedMean, SeededBits, calibrate
from dpverify.grid.shapes import tail_radius
from spec import refined_mean as spec
from spec.theory.tracing_bound import least_error
from tests.benchmarks.timing import header

BUDGET = ApproxDP(1, "1e-6")
D = 100


def made(power: float, n: int, adjacency: Adjacency, **own: Any) -> RefinedMean:
    """Build the mechanism with the right covariance."""
    variances = np.arange(1.0, D + 1) ** -power
    given = {"covariance": variances.tolist(), "n_max": n, **own}
    return RefinedMean.for_budget(BUDGET, adjacency=adjacency, **given)


def factors() -> None:
    """Print the factors of the product."""
    plain: Any = calibrate(GaussianDP, BUDGET)
    least = 1 / math.sqrt(float(plain.mu_squared))
    names = ("gaussian", "budget", "radius", "center", "twice", "count")
    print(f"{'adjacency':>11} power      n    any    GDP = " + " x ".join(names))
    for adjacency in Adjacency:
        for power, n in ((2, 3700), (2, 20_000), (1, 20_000), (0, 20_000)):
            mechanism = made(power, n, adjacency)
            noise = float(spec.expected_error(mechanism.parameters, n))
            bound = float(spec.lower_bound(mechanism.parameters, n))
            trace = float((np.arange(1.0, D + 1) ** (-power / 2)).sum())
            typical, own = math.sqrt(trace), float(mechanism.noise_multiplier)
            center = mechanism.core().expected_noise(n) * float(mechanism.radius) * math.sqrt(D)
            record = float(mechanism.record_radius)
            parts = [least * trace / n / bound, own / least, record / typical]
            parts += [math.hypot(record, center) / record, 2 - (adjacency is Adjacency.ADD_REMOVE)]
            parts.append(noise / bound / math.prod(parts))
            shown = " x ".join(f"{part:.3f}" for part in parts)
            variances = [Fraction(v) for v in np.arange(1.0, D + 1) ** -power]
            wide: Any = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "n": n}
            any_other = float(least_error(variances=variances, **wide))
            both = f"{noise / any_other:>6.2f} {noise / bound:>6.2f}"
            print(f"{adjacency!s:>11} {power:>5} {n:>6} {both} = {shown}", flush=True)


def balls(runs: int, seed: int) -> None:
    """Print errors for smaller balls."""
    n, power = 3700, 2.0
    roots = np.arange(1.0, D + 1) ** (-power / 2)
    for p in (1 / n, 0.003, 0.01, 2 / math.sqrt(n), 0.1, 0.3):
        radius = tail_radius(roots, p)
        mechanism = made(power, n, Adjacency.ADD_REMOVE, record_radius=radius)
        for law in ("normal", "exponential"):
            squares = []
            for run in range(runs):
                rng = np.random.default_rng([seed, run])
                drawn = (
                    rng.normal(size=(n, D)) if law == "normal" else rng.exponential(size=(n, D)) - 1
                )
                result = mechanism.release(drawn * roots, SeededBits(1000 * seed + run))
                assert not isinstance(result, Abstained)
                mean = (drawn * roots).mean(axis=0)
                squares.append([((result.value - m) ** 2).sum() for m in (0.0, mean)])
            from_mean, from_sample = np.sqrt(np.mean(squares, axis=0))
            print(
                f"p = {p:<8.2g} radius {radius:.2f} {law:>11}: {from_mean:.4f}, {from_sample:.4f}",
                flush=True,
            )


def normal(runs: int, seed: int) -> None:
    """Print errors for smaller balls where records are known to be normal, against the bound."""
    for power, n in ((2, 3700), (2, 20_000), (1, 20_000), (0, 20_000)):
        roots = np.arange(1.0, D + 1) ** (-power / 2)
        squares = [Fraction(v) for v in np.arange(1.0, D + 1) ** -power]
        given: Any = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "n": n}
        bound = float(least_error(variances=squares, **given))
        for p in (None, 0.1, 0.3, 0.5, 0.7, 0.9):
            own = {} if p is None else {"record_radius": tail_radius(roots, p)}
            mechanism = made(power, n, Adjacency.ADD_REMOVE, **own)
            off = []
            for run in range(max(2, runs // 6)):
                rows = np.random.default_rng([seed, run]).normal(size=(n, D)) * roots
                result = mechanism.release(rows, SeededBits(1000 * seed + run))
                assert not isinstance(result, Abstained)
                off.append(((result.value - rows.mean(axis=0)) ** 2).sum())
            noise = float(spec.expected_error(mechanism.parameters, n)) / bound
            away, named = math.sqrt(np.mean(off)) / bound, "default" if p is None else f"p = {p}"
            print(f"power {power} n {n:>6} {named:>8}: noise {noise:.2f}, {away:.2f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=6)
    given = parser.parse_args(arguments)
    command = f"python -m tests.benchmarks.where_noise_goes --runs {given.runs} --seed {given.seed}"
    header("Where the refined mean's noise goes", command, "no times")
    factors()
    balls(given.runs, given.seed)
    normal(given.runs, given.seed)


if __name__ == "__main__":
    main()
