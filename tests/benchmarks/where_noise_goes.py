"""The refined mean's noise against the tracing lower bound, with one ball and with two.

100 columns with variances i^-power, (1, 1e-6)-DP, n_max = n. any, GDP: the expected noise over
the lower bound of all (1, 1e-6)-DP estimates, and of those as private as this one, which are
Gaussian DP but for its rare event (spec/theory/tracing_bound.py); the latter as a product.
gaussian: the Gaussian mechanism at this budget on a sum of sensitivity sqrt(tr Sigma^(1/2)),
over that bound. any over GDP is what no proof can close for normal data: there are estimates, of
no use for they are searches of all of R^d, whose error has no sqrt(log(1 / delta)) beside tr
Sigma^(1/2) / (n epsilon). budget: what votes and center leave of mu^2. radius: the ball's over
sqrt(tr Sigma^(1/2)), the typical length of a record after the map. center: what the center's
noise adds to the radius. twice: a replaced record moves a sum by two radii. two balls: what they
leave of the noise, and of what the outer one adds, for normal records. count: the number under
the same noise. A star marks what ``for_budget`` chooses. --runs 0: without measured distances.

maps: whether another map than Sigma^(-1/4) would do better. It is best for a record of typical
length, and a map that shrinks the first columns more has a shorter tail.

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
CASES = ((2, 3700), (2, 20_000), (1, 20_000), (0, 20_000))


def made(power: float, n: int, adjacency: Adjacency, **own: Any) -> RefinedMean:
    """Build the mechanism with the right covariance."""
    variances = np.arange(1.0, D + 1) ** -power
    given = {"covariance": variances.tolist(), "n_max": n, **own}
    return RefinedMean.for_budget(BUDGET, adjacency=adjacency, **given)


def ratio_of_two(power: float, n: int) -> dict[str, Any]:
    """Return the radii of two balls, as ``for_budget`` chooses them where noise is small."""
    roots = np.arange(1.0, D + 1) ** (-power / 2)
    outer = tail_radius(roots, 0.5 / math.sqrt(n))
    return {"record_radius": outer, "inner_ratio": Fraction(tail_radius(roots, 0.5) / outer)}


def factors() -> None:
    """Print the factors of the product."""
    plain: Any = calibrate(GaussianDP, BUDGET)
    least = 1 / math.sqrt(float(plain.mu_squared))
    names = ("gaussian", "budget", "radius", "center", "twice", "two balls", "count")
    print(f"{'adjacency':>11} power      n balls    any    GDP = " + " x ".join(names))
    for adjacency in Adjacency:
        for power, n in CASES:
            one, default = made(power, n, adjacency, inner_ratio=None), made(power, n, adjacency)
            two = (
                default
                if default.inner_ratio
                else made(power, n, adjacency, **ratio_of_two(power, n))
            )
            for mechanism, balls in ((one, "one"), (two, "two")):
                mark = "*" if mechanism.inner_ratio == default.inner_ratio else " "
                shown = " ".join(_row(mechanism, power, n, least))
                print(f"{adjacency!s:>11} {power:>5} {n:>6} {balls:>4}{mark} {shown}", flush=True)


def _row(mechanism: RefinedMean, power: float, n: int, least: float) -> tuple[str, str]:
    noise = float(spec.expected_error(mechanism.parameters, n))
    alone = float(spec.expected_error({**mechanism.parameters, "inner_ratio": None}, n))
    bound = float(spec.lower_bound(mechanism.parameters, n))
    trace = float((np.arange(1.0, D + 1) ** (-power / 2)).sum())
    typical, own = math.sqrt(trace), float(mechanism.noise_multiplier)
    center = mechanism.core().expected_noise(n) * float(mechanism.radius) * math.sqrt(D)
    record = float(mechanism.record_radius)
    parts = [least * trace / n / bound, own / least, record / typical]
    parts += [math.hypot(record, center) / record]
    parts += [2 - (mechanism.adjacency is Adjacency.ADD_REMOVE), noise / alone]
    parts.append(noise / bound / math.prod(parts))
    variances = [Fraction(v) for v in np.arange(1.0, D + 1) ** -power]
    wide: Any = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "n": n}
    wide["adjacency"] = mechanism.adjacency
    any_other = float(least_error(variances=variances, **wide))
    both = f"{noise / any_other:>6.2f} {noise / bound:>6.2f}"
    return both, "= " + " x ".join(f"{part:.3f}" for part in parts)


def maps(seed: int) -> None:
    """Print the least noise of one ball over maps diag(w_j^(1/2) / sigma_j), w_j = sigma_j / (1 +
    c w_j)^(1/2), relative to that of c = 0.

    For a map, the noise is proportional to the radius times sqrt(sum_j sigma_j^2 / w_j), and the
    radius is the root of a quantile of sum_j w_j g_j^2, g standard normal.
    """
    squares = np.random.default_rng([seed, 1]).normal(size=(200_000, D)) ** 2
    print("power, share of records out of the ball: c of least noise, its noise over that of c = 0")
    for power in (2, 1, 0):
        roots = np.arange(1.0, D + 1) ** (-power / 2)
        for share in (0.5 / math.sqrt(20_000), 0.05, 0.5):
            noise: dict[float, float] = {}
            for c in (0, 0.1, 0.3, 1, 3, 10, 100):
                weights = roots
                for _ in range(60):
                    weights = (weights + roots / np.sqrt(1 + c * weights)) / 2
                square = np.quantile(squares @ weights, 1 - share)
                noise[c] = math.sqrt(square * (roots**2 / weights).sum())
            best = min(noise, key=noise.__getitem__)
            print(f"{power}, {share:.4f}: {best:g}, {noise[best] / noise[0]:.3f}", flush=True)


def drawn(law: str, n: int, rng: np.random.Generator) -> Any:
    """Draw n records of mean 0 and variances 1: normal, of heavy tails, or skewed in all columns or
    in the first one."""
    rows = rng.normal(size=(n, D))
    if law == "student 5":
        rows = rng.standard_t(5, size=(n, D)) / math.sqrt(5 / 3)
    elif law != "normal":
        columns = D if law == "exponential" else 1
        rows[:, :columns] = rng.exponential(size=(n, columns)) - 1
    return rows


def laws(runs: int, seed: int) -> None:
    """Print root mean square distances for one ball and for the default."""
    print("law: one ball, default, from the records' mean; then from the law's")
    for adjacency in Adjacency:
        for power, n in CASES:
            roots = np.arange(1.0, D + 1) ** (-power / 2)
            kinds = [made(power, n, adjacency, inner_ratio=None), made(power, n, adjacency)]
            if kinds[1].inner_ratio is None:
                continue
            for law in ("normal", "student 5", "exponential", "one exponential"):
                squares: list[list[float]] = []
                for run in range(max(4, runs * 3700 // n)):
                    rows = drawn(law, n, np.random.default_rng([seed, run])) * roots
                    squares.append([])
                    for kind in kinds:
                        result = kind.release(rows, SeededBits(1000 * seed + run))
                        assert not isinstance(result, Abstained)
                        own = ((result.value - m) ** 2 for m in (rows.mean(axis=0), 0.0))
                        squares[-1] += [float(square.sum()) for square in own]
                a, b, c, d = np.sqrt(np.mean(squares, axis=0))
                where = f"{adjacency!s:>11} {power:>5} {n:>6} {law:>16}"
                print(f"{where}: {a:.5f} {c:.5f}; {b:.5f} {d:.5f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--seed", type=int, default=6)
    given = parser.parse_args(arguments)
    command = f"python -m tests.benchmarks.where_noise_goes --runs {given.runs} --seed {given.seed}"
    header("Where the refined mean's noise goes", command, "no times")
    factors()
    maps(given.seed)
    if given.runs:
        laws(given.runs, given.seed)


if __name__ == "__main__":
    main()
