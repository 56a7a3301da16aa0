"""Accuracy of ``variance_aware_mean`` and ``coordinatewise_mean`` beside published figures, by hand.

    python -m tests.benchmarks.plan [--runs 40] [--only unlike,alike,steep] [--n 10000,20000]

Replace adjacency, mu = sqrt(2 rho): what rho-zCDP methods spend is spent here as Gaussian DP of the same
concentrated cost. The error is the Euclidean distance from the mean of the law. "alike" and "steep" are
settings of PLAN's experiments (mean errors of 50 runs, from the authors' result files: without privacy,
PLAN, PLAN without scaling); "unlike" are three laws in 1000 dimensions at the rho of (1, 1e-6), where the
figures beside ours are means of 3 to 5 runs of a plain version of PLAN with known variances and of the
authors' code with unknown ones. Printed is the median, and the upper end of its 95% interval (an order
statistic, one-sided); a * says that this end is within 1.10 times the figure of the same kind.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpverify import (
    Abstained,
    Adjacency,
    CoordinatewiseMean,
    SeededBits,
    VarianceAwareMean,
)

Floats = NDArray[np.float64]
REPLACE = Adjacency.REPLACE
RHO = "0.02436"  # of (1, 1e-6)


@dataclass(frozen=True, slots=True)
class Setting:
    """A law, a number of records, a budget; figures by the kind of mechanism they are compared with."""

    name: str
    deviations: Floats
    n: int
    rho: str
    mean: float
    reach: float
    least: float
    figures: dict[str, float]


def _unlike() -> Iterator[Setting]:
    i = np.arange(1, 1001)
    laws = {
        "1/i": 1.0 / i,
        "1/sqrt(i)": i**-0.5,
        "e^(-i/20)": np.sqrt(np.maximum(np.exp(-(i - 1) / 10), 1e-6)),
    }
    figures: dict[str, dict[int, tuple[float, float]]] = {  # known, unknown variances
        "1/i": {2000: (1800, 2872), 5000: (1785, 1817), 10**4: (232, 0.0726), 20000: (0.0174, 0.0267)},
        "1/sqrt(i)": {2000: (1791, 2867), 5000: (1502, 1723), 10**4: (28, 0.0994), 20000: (0.0890, 0.0523)},
        "e^(-i/20)": {2000: (1799, 2872), 5000: (1777, 1796), 10**4: (311, 0.146), 20000: (0.0393, 0.0521)},
    }  # fmt: skip
    for name, deviations in laws.items():
        for n, (known, unknown) in figures[name].items():
            beside = {"known": known, "unknown": unknown}
            yield Setting(f"unlike {name}", deviations, n, RHO, 1.0, 100.0, 2.0**-11, beside)


def _alike() -> Iterator[Setting]:
    for d, rho, plan in (
        (128, "0.125", 0.263), (128, "1", 0.190), (1024, "0.125", 1.627), (1024, "1", 0.718),
        (2048, "0.125", 8.484), (2048, "1", 1.231),
    ):  # fmt: skip
        beside = {"known": plan, "unknown": plan}
        yield Setting(f"alike d={d}", np.ones(d), 4000, rho, 0.0, 50.0, 2.0**-4, beside)


def _steep() -> Iterator[Setting]:
    for d, rho, plan in (
        (64, "0.125", 0.742), (64, "1", 0.788), (512, "0.125", 6.42), (512, "1", 5.84),
        (1024, "0.125", 13.9), (1024, "1", 13.0), (2048, "0.125", 74.2), (2048, "1", 27.1),
    ):  # fmt: skip
        deviations = d / np.arange(1, d + 1)
        beside = {"known": plan, "unknown": plan}
        yield Setting(f"steep d={d}", deviations, 10**4, rho, 10.0, 100.0, 0.5, beside)


SETTINGS = {"unlike": _unlike, "alike": _alike, "steep": _steep}


def mechanisms(setting: Setting) -> dict[str, Any]:
    """By kind: known deviations, unknown ones, and folklore."""
    d = len(setting.deviations)
    base: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": Fraction(1 / math.sqrt(2 * float(setting.rho))),
        "center": (0.0,) * d,
        "reach": setting.reach,
    }
    given = tuple(setting.deviations.tolist())
    return {
        "known": VarianceAwareMean(**base, deviations=given),
        "unknown": VarianceAwareMean(**base, least_deviation=setting.least),
        "folklore": CoordinatewiseMean(**base, deviations=given),
    }


def errors(setting: Setting, runs: int) -> dict[str, list[float]]:
    """Of every kind and of the mean itself, on the same records."""
    kinds = mechanisms(setting)
    found: dict[str, list[float]] = {name: [] for name in ("none", *kinds)}
    for seed in range(runs):
        rng = np.random.default_rng([17, seed])
        size = (setting.n, len(setting.deviations))
        data = setting.mean + rng.normal(size=size) * setting.deviations
        found["none"].append(float(np.linalg.norm(data.mean(axis=0) - setting.mean)))
        for name, mechanism in kinds.items():
            one = mechanism.release(data, SeededBits(17, seed))
            far = math.inf
            if not isinstance(one, Abstained):
                far = float(np.linalg.norm(one.value - setting.mean))
            found[name].append(far)
    return found


def upper_end(values: list[float]) -> float:
    """Of the median's one-sided 95% interval; infinite for fewer than 5 values."""
    place = int(binom.isf(0.05, len(values), 0.5)) + 1
    return sorted(values)[place - 1] if place <= len(values) and len(values) >= 5 else math.inf


def line(setting: Setting, found: dict[str, list[float]]) -> str:
    """One row of the table."""
    parts = [f"{setting.name:18} n={setting.n:<6} rho={setting.rho:8}"]
    for name, values in found.items():
        median, figure = float(np.median(values)), setting.figures.get(name)
        text = f"{name} {median:.4g}"
        if figure is not None:
            end = upper_end(values)
            star = "*" if end <= 1.1 * figure else " "
            text += f" (<= {end:.4g}{star}, beside {figure:g})"
        parts.append(text)
    return " | ".join(parts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default=",".join(SETTINGS))
    parser.add_argument("--n", default="")
    chosen = parser.parse_args()
    sizes = [int(n) for n in chosen.n.split(",") if n]
    for kind in chosen.only.split(","):
        for setting in SETTINGS[kind]():
            if not sizes or setting.n in sizes:
                print(line(setting, errors(setting, chosen.runs)), flush=True)


if __name__ == "__main__":
    main()
