"""Both parameters of location-scale families at (1, 1e-6), beside no privacy and
``UnivariateGaussian``; and real incomes.

First table: normal records of mean 777 and deviation 3, whole; root mean squares of the mean's
error in deviations and of the deviation's logarithm, times 1000; ``LocationScale`` clipped and
masked in ranges of 10^6 and of 10^-3 to 10^4, ``UnivariateGaussian`` with as large a reach, and
mean and deviation of the records themselves. Second table: other families, clipped under replace,
beside maximum likelihood without privacy, of location (in scales) and logarithm of the scale.
Third table: incomes (see ``families``) as log-normal, both parameters unknown: whole, and with
those above 50 left out; beside truncated maximum likelihood by scipy.

python -m tests.benchmarks.location_scale [--runs 100]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import optimize, stats

from dpverify import (
    Adjacency,
    ApproxDP,
    LocationScale,
    LocationScaleEstimate,
    NormalEstimate,
    SeededBits,
    UnivariateGaussian,
)
from dpverify.families import (
    LocationScaleFamily,
    LogisticFamily,
    LogNormalFamily,
    NormalFamily,
    WeibullFamily,
)
from tests.benchmarks.errors import seed_of
from tests.benchmarks.families import CAP, HIGH, LOW, incomes
from tests.benchmarks.timing import header, table

REPLACE, ADD = Adjacency.REPLACE, Adjacency.ADD_REMOVE
STRICT = ApproxDP(1, "1e-6")
MEAN, DEVIATION = 777.0, 3.0
WIDE = ((-1e6, 1e6), (1e-3, 1e4))
Pair = tuple[float, float]


def law_of(estimate: Any) -> Pair | None:
    """Return location and scale of a result, if it has them."""
    if isinstance(estimate, LocationScaleEstimate):
        return estimate.location, estimate.scale
    if isinstance(estimate, NormalEstimate):
        return estimate.value, estimate.deviation
    return None


def shown(laws: list[Pair | None], truth: Pair) -> list[str]:
    """Format both errors times 1000, and how often there was none."""
    off = [((one[0] - truth[0]) / truth[1], math.log(one[1] / truth[1])) for one in laws if one]
    errors = np.sqrt(np.square(off).mean(axis=0)) * 1000
    return [f"{errors[0]:.1f}", f"{errors[1]:.1f}", str(len(laws) - len(off))]


def normal(runs: int) -> Iterator[list[str]]:
    """Return the rows of the first table."""
    for adjacency in (REPLACE, ADD):
        made: list[Any] = [
            LocationScale.for_budget(
                STRICT, adjacency=adjacency, family=NormalFamily(), ranges=WIDE, outside=outside
            )
            for outside in ("clip", "mask")
        ]
        made += [
            UnivariateGaussian.for_budget(STRICT, adjacency=adjacency, cell=1e-3 / 4, reach=1e6)
        ]
        for n in (1000, 4000, 16_000):
            drawn = [
                np.random.default_rng(seed_of("located", n, run)).normal(MEAN, DEVIATION, n)
                for run in range(runs)
            ]
            row = [adjacency.value, str(n)]
            for one in made:
                estimates = [one.release(data, SeededBits(run)) for run, data in enumerate(drawn)]
                row += shown(list(map(law_of, estimates)), (MEAN, DEVIATION))
            row += shown([(float(d.mean()), float(d.std())) for d in drawn], (MEAN, DEVIATION))[:2]
            yield row


def likeliest(family: LocationScaleFamily, data: Any) -> Pair:
    """Estimate by maximum likelihood without privacy, by scipy."""
    if isinstance(family, LogisticFamily):
        pair = stats.logistic.fit(data)
        return float(pair[0]), float(pair[1])
    if isinstance(family, WeibullFamily):
        pair = stats.gumbel_l.fit(np.log(data))
        return float(pair[0]), float(pair[1])
    t = np.log(data)
    return float(t.mean()), float(t.std())


def others(runs: int) -> Iterator[list[str]]:
    """Return the rows of the second table."""
    positive = ((1e-3, 1e6), (0.1, 20.0))
    cases: tuple[tuple[LocationScaleFamily, Any, Pair], ...] = (
        (LogNormalFamily(), ((-20, 20), (0.01, 10)), (3.5, 0.6)),
        (LogisticFamily(), WIDE, (40.0, 2.0)),
        (WeibullFamily(), positive, (math.log(27), 1 / 1.7)),
    )
    for family, ranges, truth in cases:
        mechanism = LocationScale.for_budget(
            STRICT, adjacency=REPLACE, family=family, ranges=ranges
        )
        for n in (1000, 4000, 16_000):
            private, own = [], []
            for run in range(runs):
                data = family.sample(*truth, n, np.random.default_rng(seed_of("other", n, run)))
                private.append(law_of(mechanism.release(data, SeededBits(run))))
                own.append(likeliest(family, data))
            name = type(family).__name__
            yield [name, str(n), *shown(private, truth), *shown(list(own), truth)[:2]]


def truncated(data: Any, low: float, high: float) -> Pair:
    """Fit, without privacy, the log-normal law of the largest likelihood of records between two
    ends."""
    t, ends = np.log(data), np.log([low, high])

    def loss(law: Any) -> float:
        mean, deviation = law[0], math.exp(law[1])
        inside = stats.norm.cdf(ends[1], mean, deviation) - stats.norm.cdf(ends[0], mean, deviation)
        return float(-stats.norm.logpdf(t, mean, deviation).mean() + math.log(inside))

    options: Any = {"xatol": 1e-6, "fatol": 1e-10}
    fit: Any = optimize.minimize(
        loss, np.array([t.mean(), math.log(t.std())]), method="Nelder-Mead", options=options
    )
    return float(fit.x[0]), math.exp(fit.x[1])


def real(runs: int) -> Iterator[list[str]]:
    """Return the rows of the third table: releases of one file."""
    data = incomes()
    if data is None:
        return
    for name, records, last in (("whole", data, HIGH), ("up to 50", data[data < CAP], CAP)):
        own = truncated(records, LOW, last)
        for outside in ("mask", "clip"):
            kept = {"kept": (LOW, last)} if outside == "mask" else {}
            mechanism = LocationScale.calibrated_for(
                STRICT, adjacency=REPLACE, family=LogNormalFamily(), ranges=((-20, 20), (0.01, 10)),
                outside=outside, **kept
            )  # fmt: skip
            laws = [law_of(mechanism.release(records, SeededBits(run))) for run in range(runs)]
            values = np.array([one for one in laws if one])
            means, spreads = values.mean(axis=0), values.std(axis=0)
            row = [name, outside, str(len(records)), f"{own[0]:.4f}", f"{own[1]:.4f}"]
            for k in (0, 1):
                row += [f"{means[k]:.4f}", f"{spreads[k]:.4f}"]
            yield [*row, str(runs - len(values))]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Location-scale families.")
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    header("location-scale families", "python -m tests.benchmarks.location_scale", "No times.")
    print(f"\n{__doc__}", flush=True)
    both = ["location", "scale", "lost"]
    for rows, names in (
        (
            normal(given.runs),
            ["adjacency", "n", *both, "mask: loc.", "scale ", "lost ", "UG: mean", "dev.", " lost",
             "plain", "plain dev."],
        ),
        (others(given.runs), ["family", "n", *both, "plain", "plain scale"]),
        (
            real(given.runs),
            ["of incomes", "how", "n", "plain mean", "plain dev.", "mean", "spread", "dev.",
             "spread ", "lost"],
        ),
    ):  # fmt: skip
        lines = []
        for row in rows:
            print(*row, file=sys.stderr, flush=True)
            lines.append(row)
        table(names, lines)


if __name__ == "__main__":
    main()
