"""Shares of estimates within two of the deviations that they report, for normal records.

A case is a mechanism at (1, 1e-6), an adjacency, n normal records of d columns. For each of so
many datasets the mechanism's law is executed once and many releases are drawn from it. Of every
number that is estimated, the error is divided by the deviation that is reported for it; "within
two" is the share of all such ratios within -2 and 2 (95.4% for a normal law), with an interval of
95% from the spread between datasets, since releases about one dataset share what clipping makes
of it; "rms" is the ratios' root mean square (1 for a normal law).

The truth is what the estimate would be without noise, clipping and cuts: the mean of all records,
or their second moments about the known center. Where a result reports the deviation of sampling
too, the truth is the parameter of the law, and both deviations are taken together. Of a shape,
whose deviation is of the noise alone, it is the same mechanism's value with hardly any noise; of
``ClippedMean`` with a ball that clips many records, the mean of the clipped ones, which is what
it is said to estimate. A release that abstains is left out, and counted.

    python -m tests.benchmarks.deviations [--datasets 40] [--draws 25] [--first 0] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import dpverify
from dpverify import Abstained, Adjacency, ApproxDP, SeededBits, families
from tests.benchmarks.timing import header, table

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
AIM = 0.94
Ratios = Callable[[Any, Any], Any]


def means(result: Any, data: Any) -> Any:
    """Divide the distances from the mean of all records by the reported deviations."""
    return (result.value - data.mean(axis=0)) / result.standard_deviation


def clipped_means(result: Any, data: Any) -> Any:
    """Divide the distances from the mean of records clipped to sqrt(d) by the reported
    deviations."""
    length = np.linalg.norm(data, axis=1, keepdims=True)
    return means(result, data * np.minimum(1, math.sqrt(data.shape[1]) / length))


def moments(result: Any, data: Any) -> Any:
    """Divide the errors of the upper triangle of second moments by the reported deviations."""
    above = np.triu_indices(data.shape[1])
    off = result.value - data.T @ data / len(data)
    return off[above] / result.standard_deviation[above]


def entries(result: Any, truth: Any) -> Any:
    """Divide the distances of the upper triangle from another matrix's by the reported
    deviations."""
    above = np.triu_indices(len(truth))
    return (result.value - truth)[above] / result.standard_deviation[above]


def own_moments(result: Any, data: Any) -> Any:
    """Divide the errors of second moments about the mean of all records."""
    return moments(result, data - data.mean(axis=0))


def locations(result: Any, data: Any) -> Any:
    """Divide the distances of the location from the mean of all records."""
    return (result.location - data.mean(axis=0)) / result.location_deviation


def normal_law(result: Any, data: Any) -> Any:
    """Divide the errors of mean and logarithm of the deviation by noise and sampling together."""
    mean = (result.value - 0.3) / math.hypot(result.spread, result.sampling)
    own = math.hypot(result.relative_spread, result.relative_sampling)
    return np.array([mean, math.log(result.deviation) / own])


def location_scale(result: Any, data: Any) -> Any:
    """Divide the errors of both parameters by noise and sampling together."""
    off = np.subtract(result.value, (0.3, 1.0))
    return off / np.hypot(result.spread, result.sampling)


def one_parameter(result: Any, data: Any) -> Any:
    """Divide the error of the mean by noise and sampling together."""
    return np.array([(result.value - 0.3) / math.hypot(result.spread, result.sampling)])


def scale(result: Any, data: Any) -> Any:
    """Divide the error of the scale's logarithm by noise and sampling together."""
    return np.array([math.log(result.value) / math.hypot(result.spread, result.sampling)])


@dataclass(frozen=True)
class Case:
    """A mechanism with its public facts on n normal records of d columns, mean 0.3, deviation 1."""

    name: str
    kind: str
    adjacency: Adjacency
    n: int
    d: int
    parameters: dict[str, Any]
    ratios: Ratios = means
    center: float = 0.3
    """The mean of every column."""
    quiet: bool = False
    """Whether the truth is the release of the same mechanism with hardly any noise."""

    def mechanism(self) -> Any:
        """Build the mechanism for the budget."""
        made: Any = getattr(dpverify, self.kind)
        return made.for_budget(BUDGET, adjacency=self.adjacency, **self.parameters)

    correlation: Any = None
    """The correlation matrix of columns, shape (d, d); None for uncorrelated ones."""

    def data(self, run: int) -> Any:
        """Draw a run's dataset: shape (n, d), or (n,) for a mechanism of numbers."""
        shape = (self.n, self.d) if self.d else (self.n,)
        rng = np.random.default_rng([self.n, self.d, run])
        if self.correlation is None:
            return rng.normal(self.center, 1.0, shape)
        return self.center + rng.normal(size=shape) @ np.linalg.cholesky(self.correlation).T


def _both(name: str, kind: str, n: int, columns: int, /, **own: Any) -> Iterator[Case]:
    ratios = own.pop("ratios", means)
    center = own.pop("mean", 0.3)
    for adjacency in (ADD, REPLACE):
        yield Case(f"{name}, {adjacency}", kind, adjacency, n, columns, own, ratios, center)


def cases() -> Iterator[Case]:
    """List every mechanism whose result reports a deviation for numbers of normal records."""
    for n, d in ((1000, 3), (3000, 3), (3000, 10)):
        zero, one = [0.0] * d, [1.0] * d
        at = f"{n} x {d}"
        ball: dict[str, Any] = {"center": zero, "radius": 2 * math.sqrt(d) + 2}
        yield from _both(f"clipped {at}", "ClippedMean", n, d, **ball)
        small: dict[str, Any] = {"center": zero, "radius": math.sqrt(d), "mean": 0.0}
        small["ratios"] = clipped_means
        yield from _both(f"clipped at sqrt(d) {at}", "ClippedMean", n, d, **small)
        yield from _both(f"iterative {at}", "IterativeMean", n, d, center=zero, radius=50)
        far: dict[str, Any] = {"center": zero, "reach": 50}
        yield from _both(f"coordinatewise {at}", "CoordinatewiseMean", n, d, deviations=one, **far)
        yield from _both(f"variance-aware {at}", "VarianceAwareMean", n, d, deviations=one, **far)
        yield from _both(f"gaussian {at}", "GaussianMean", n, d, center=zero, deviations=one)
        mask: dict[str, Any] = {"center": zero, "deviations": one, "outside": "mask"}
        yield from _both(f"gaussian, mask {at}", "GaussianMean", n, d, **mask)
        friends: dict[str, Any] = {"covariance": one, "n_max": n}
        if n > 1000:
            searched = {**far, "least_deviation": 0.1}
            yield from _both(
                f"variance-aware, searched {at}", "VarianceAwareMean", n, d, **searched
            )
            yield from _both(f"rescaled {at}", "RescaledMean", n, d, **friends)
            yield from _both(f"refined {at}", "RefinedMean", n, d, **friends)
            yield from _both(f"robust {at}", "RobustMean", n, d, deviations=one, n_max=n)
            wide = {"lower": [-20.0] * d, "upper": [20.0] * d}
            yield Case(f"winsorized {at}", "WinsorizedMean", REPLACE, n, d, wide)
            known = {"center": zero, "cell": 2.0**-10, "ratios": moments, "mean": 0.0}
            yield from _both(f"covariance {at}", "GaussianCovariance", n, d, **known)
            scaled = {"scale": 1.0, "cell": 2.0**-10, "ratios": own_moments, "center": zero}
            yield from _both(
                f"covariance, center searched {at}", "GaussianCovariance", n, d, **scaled
            )
            turned = {"center": zero, "cell": 2.0**-10}
            for adjacency in (ADD, REPLACE):
                name = f"shape {at}, {adjacency}"
                yield Case(name, "SignCovariance", adjacency, n, d, turned, entries, 0.0, True)
    for n, d in ((20_000, 3), (20_000, 10), (50_000, 10)):
        yield from _both(
            f"unknown covariance {n} x {d}", "UnknownCovarianceMean", n, d, d=d, n_max=n
        )
    yield from centers()
    yield from columns()
    yield from correlated()


def correlations(d: int) -> dict[str, Any]:
    """List correlation matrices: one correlation of all columns, autoregressive ones, and, scaled
    to the unit diagonal, variances 1 / i in a random rotation and one variance of 10 along a random
    axis, 1 across it."""
    rows = np.arange(d)
    made = {f"equal {c}": np.where(np.eye(d, dtype=bool), 1.0, c) for c in (0.2, 0.5, 0.9)}
    made |= {f"AR {c}": c ** np.abs(rows[:, None] - rows) for c in (0.5, 0.9)}
    turned = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))[0]
    covariance = (turned / (rows + 1)) @ turned.T
    axis = np.random.default_rng([d, 1]).normal(size=d)
    long = np.eye(d) + 9 * np.outer(axis, axis) / float(axis @ axis)
    for name, one in (("rotated", covariance), ("long axis", long)):
        scales = np.sqrt(np.diag(one))
        made[name] = one / np.outer(scales, scales)
    return made


def correlated() -> Iterator[Case]:
    """List ``RobustMean`` with histograms, inner moments, without directions and in rounds, for
    correlated records."""
    for n, d in ((3000, 3), (3000, 10), (10_000, 50)):
        looks: dict[str, dict[str, Any]] = {
            "histograms": {"inner": 0},
            "inner moments": {"inner": min(d - 1, 10)},
            "no directions": {"directions": 0},
        }
        looks |= {"rounds": {"inner": 10, "rounds": 4}} if d == 50 else {}
        for kind, matrix in correlations(d).items():
            for look, own in looks.items():
                given = {"deviations": [1.0] * d, "n_max": n, **own}
                for adjacency in (ADD, REPLACE):
                    name = f"robust, correlated {kind}, {look} {n} x {d}, {adjacency}"
                    yield Case(name, "RobustMean", adjacency, n, d, given, correlation=matrix)


def centers() -> Iterator[Case]:
    """List mechanisms that report a location beside a matrix, by its location."""
    for n, d in ((2000, 2), (5000, 3), (20_000, 3), (20_000, 10)):
        at = f"location {n} x {d}"
        own: dict[str, Any] = {"cell": 2.0**-10, "ratios": locations}
        searched = own | {"center": [0.0] * d, "scale": 1.0}
        yield from _both(f"covariance, {at}", "GaussianCovariance", n, d, **searched)
        shared = {**searched, "mean_share": 0.2}
        yield from _both(f"covariance, mean_share, {at}", "GaussianCovariance", n, d, **shared)
        yield from _both(f"shape, {at}", "SignCovariance", n, d, **searched)
        yield from _both(f"normal law, {at}", "Gaussian", n, d, d=d, **own)


def columns() -> Iterator[Case]:
    """List mechanisms for one column."""
    cell, box = {"cell": 2.0**-10}, ((-20.0, 20.0), (0.1, 10.0))
    for n in (500, 1000, 3000):
        yield from _both(f"bounded {n}", "BoundedMean", n, 0, lower=-4, upper=5)
        if n > 500:
            yield from _both(
                f"normal law {n}", "UnivariateGaussian", n, 0, **cell, ratios=normal_law
            )
            own: dict[str, Any] = {"family": families.NormalFamily(), "ranges": box}
            own["ratios"] = location_scale
            yield from _both(f"location-scale {n}", "LocationScale", n, 0, **own)
            half = {"family": "half_normal", "ratios": scale, "mean": 0.0}
            yield from _both(f"scale {n}", "ScaleFamily", n, 0, **half)
            rate: dict[str, Any] = {"family": families.Normal(1.0), "ratios": one_parameter}
            yield from _both(
                f"one parameter {n}", "TruncatedMle", n, 0, **rate, lowest=-9, highest=9
            )


def quiet_value(mechanism: Any, data: Any) -> Any:
    """Release the value with hardly any noise, which needs no privacy here."""
    return (
        replace(mechanism, noise_multiplier=Fraction(1, 1000), budget=None)
        .release(data, SeededBits(0))
        .value
    )


def measured(case: Case, datasets: int, draws: int, first: int = 0) -> list[str]:
    """Measure a row of the table, on so many datasets from the run ``first`` on."""
    mechanism, shares, squares, missing = case.mechanism(), [], [], 0
    if case.n < mechanism.fewest_records():
        return [case.name, "-", "-", "-", "refused", "-"]
    for run in range(first, first + datasets):
        data = case.data(run)
        batch = mechanism.law(data).sample(SeededBits(run), draws)
        results = [mechanism.estimate(batch[i]) for i in range(draws)]
        estimates = [one for one in results if not isinstance(one, Abstained)]
        missing += draws - len(estimates)
        if estimates:
            truth = quiet_value(mechanism, data) if case.quiet else data
            ratios = np.array([case.ratios(one, truth) for one in estimates])
            shares.append(float((np.abs(ratios) <= 2).mean()))
            squares.append(float((ratios**2).mean()))
    if len(shares) < 2:
        return [case.name, "-", "-", "-", str(missing), "-"]
    share = float(np.mean(shares))
    off = 1.96 * float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    verdict = "ok" if share >= AIM else ("open" if share + off >= AIM else "below")
    rms = math.sqrt(np.mean(squares))
    return [case.name, f"{share:.3f}", f"{off:.3f}", f"{rms:.3f}", str(missing), verdict]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Do reported deviations cover?")
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--first", type=int, default=0, help="seed of the first dataset")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rows = []
    for case in cases():
        if re.search(given.only, case.name):
            rows.append(measured(case, given.datasets, given.draws, given.first))
            print(*rows[-1], file=sys.stderr, flush=True)
    header("coverage of reported deviations", "python -m tests.benchmarks.deviations")
    print(f"\n{__doc__}")
    table(["case", "within two", "+-", "rms", "abstained", f"aim {AIM}"], rows)


if __name__ == "__main__":
    main()
