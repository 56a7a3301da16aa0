"""Errors of ``variance_aware_mean`` beside those that PLAN's authors published, by hand.

    python -m tests.benchmarks.plan [--tables A B C unlike] [--largest 512] [--runs 50]
        [--results FILE] [--keep]

Replace adjacency, mu^2 = 2 rho: what rho-zCDP methods spend is spent here as Gaussian DP of the
same concentrated cost. An error is the Euclidean distance from the mean of the law, of one
release.

A, B, C: normal data. A: covariance I, n = 4000, mean 0, known to be within 25 sqrt(d). B:
d = 512, variances (512 / i)^a. C: variances (d / i)^2. Both n = 10,000, mean 10 in every column,
known to be within 50 d^(1 + a / 4) of 0, a = 2 in C. Settings and figures (means over 50 runs,
without privacy and of PLAN) are from github.com/ChristianLebeda/PLAN-experiments,
experiments_results/gaussianA to gaussianC, where a run's data are the same for all methods; the
code there now sets d = 2048 for B, the results say 512 in every row.

Ours: means over the runs, +- 1.96 standard errors, in both kinds: "known", the deviations are
public; "unknown", found from a least one on, which is what PLAN does. ratio: of our mean to
PLAN's. It is loose where the sampling error is most of both, since their 50 datasets are not
ours (C at d = 64: without privacy they have 0.688 and 0.776 from one law). overhead: the same of
both over the error without privacy on the same data, for which that cancels. target: at most
1.1, for the ratio and for the overhead.

unlike: three laws in 1000 dimensions, mean 1 in every column, known to be within 100, at the rho
that (1, 1e-6) allows (0.02436). The figures beside ours are means of 2 to 5 runs of prototypes
in floats: PLAN with known variances, and the authors' code; no overhead, for their errors
without privacy are means of 3 to 5 runs. Medians here: where the search for medians fails at
times, means say nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from dpverify import Abstained, Adjacency, SeededBits, VarianceAwareMean
from tests.benchmarks.errors import Floats, Points, code, digits, distance, seed_of, shown
from tests.benchmarks.timing import header, table

TARGET = 1.1
NONE, KINDS = "without privacy", ("known", "unknown")
FEW = 8
"""Runs of the laws in 1000 dimensions."""
_FINEST = 2**21  # reach over least deviation, at most


@dataclass(frozen=True, slots=True)
class Setting:
    """A law, a number of records, a budget, public facts, and published errors by kind."""

    name: str
    deviations: tuple[float, ...]
    n: int
    rho: str
    mean: float
    reach: float
    least: float
    figures: dict[str, float]

    @property
    def d(self) -> int:
        """The dimension."""
        return len(self.deviations)


def _setting(
    name: str, variances: Floats, n: int, rho: str, mean: float, reach: float, *figures: float
) -> Setting:
    deviations = tuple(np.sqrt(variances).tolist())
    beside = dict(zip((NONE, "unknown", "known"), (*figures, figures[1]), strict=True))
    least = max(min(deviations) / 2, reach / _FINEST * (1 + 2**-20))
    return Setting(name, deviations, n, rho, mean, reach, least, beside)


def alike() -> Iterator[Setting]:
    """List the settings of table A."""
    for d, rho, none, plan in (
        (128, "1/8", 0.178, 0.263), (128, "1", 0.178, 0.190), (1024, "1/8", 0.505, 1.627),
        (1024, "1", 0.507, 0.718), (2048, "1/8", 0.714, 8.484), (2048, "1", 0.717, 1.231),
    ):  # fmt: skip
        yield _setting(f"d = {d}", np.ones(d), 4000, rho, 0.0, 25 * math.sqrt(d), none, plan)


def steeper() -> Iterator[Setting]:
    """List the settings of table B."""
    for a, rho, none, plan in (
        (0, "1/8", 0.225, 0.369), (0, "1", 0.225, 0.247), (1, "1/8", 0.581, 0.853),
        (1, "1", 0.571, 0.614), (2, "1/8", 5.67, 6.79), (2, "1", 5.80, 5.91),
    ):  # fmt: skip
        yield _steep(f"a = {a}", 512, a, rho, none, plan)


def steep() -> Iterator[Setting]:
    """List the settings of table C."""
    for d, rho, none, plan in (
        (64, "1/8", 0.688, 0.742), (64, "1", 0.776, 0.788), (512, "1/8", 5.59, 6.42),
        (512, "1", 5.74, 5.84), (1024, "1/8", 11.6, 13.9), (1024, "1", 12.8, 13.0),
        (2048, "1/8", 24.4, 74.2), (2048, "1", 26.6, 27.1),
    ):  # fmt: skip
        yield _steep(f"d = {d}", d, 2, rho, none, plan)


def _steep(name: str, d: int, a: int, rho: str, none: float, plan: float) -> Setting:
    variances = (d / np.arange(1.0, d + 1)) ** a
    return _setting(name, variances, 10_000, rho, 10.0, 50 * d ** (1 + a / 4), none, plan)


def unlike() -> Iterator[Setting]:
    """List the laws in 1000 dimensions."""
    i = np.arange(1.0, 1001)
    laws = {
        "1/i^2": (1 / i**2, (1800, 2872), (1785, 1817), (232, 0.0726), (0.0174, 0.0267)),
        "1/i": (1 / i, (1791, 2867), (1502, 1723), (28, 0.0994), (0.0890, 0.0523)),
        "e^(-i/10)": (
            np.maximum(np.exp(-(i - 1) / 10), 1e-6),
            *((1799, 2872), (1777, 1796), (311, 0.146), (0.0393, 0.0521)),
        ),
    }
    for name, (variances, *figures) in laws.items():
        for n, (known, unknown) in zip((2000, 5000, 10_000, 20_000), figures, strict=True):
            deviations = tuple(np.sqrt(variances).tolist())
            beside = {"known": known, "unknown": unknown}
            yield Setting(name, deviations, n, "0.02436", 1.0, 100.0, 2.0**-11, beside)


TABLES: dict[str, Callable[[], Iterator[Setting]]] = {
    "A": alike,
    "B": steeper,
    "C": steep,
    "unlike": unlike,
}
COLUMNS = ("", "rho", "n", "kind", "runs", NONE, "ours", "PLAN", "ratio", "overhead", "target")


@cache
def mechanism(
    deviations: tuple[float, ...] | None, d: int, rho: str, reach: float, least: float
) -> VarianceAwareMean:
    """Build the mechanism about 0, for known deviations or a least one of unknown ones."""
    known = deviations is not None
    return VarianceAwareMean(
        adjacency=Adjacency.REPLACE,
        noise_multiplier=Fraction(1 / math.sqrt(2 * Fraction(rho))),
        center=(0.0,) * d,
        reach=reach,
        deviations=deviations,
        least_deviation=None if known else least,
    )


def measure(points: Points, name: str, setting: Setting, run: int) -> None:
    """Measure every kind on one dataset; infinite where it abstains."""
    at: dict[str, str | int] = {"table": name, "law": setting.name, "rho": setting.rho}
    at |= {"d": setting.d, "n": setting.n, "run": run}
    rng = np.random.default_rng(seed_of("plan", name, setting.name, setting.n, setting.rho, run))
    data = setting.mean + rng.normal(size=(setting.n, setting.d)) * setting.deviations
    truth = np.full(setting.d, setting.mean)
    points.get(lambda: distance(data.mean(axis=0), truth), kind=NONE, **at)
    for kind in KINDS:

        def error(kind: str = kind) -> float:
            given = setting.deviations if kind == "known" else None
            made = mechanism(given, setting.d, setting.rho, setting.reach, setting.least)
            release = made.release(data, SeededBits(seed_of("noise", kind, *at.values())))
            return math.inf if isinstance(release, Abstained) else distance(release.value, truth)

        points.get(error, kind=kind, **at)


def row(points: Points, name: str, setting: Setting) -> list[list[str]]:
    """Return cells, a line for each kind."""
    at: dict[str, str | int] = {"table": name, "law": setting.name, "rho": setting.rho}
    at["n"] = setting.n
    values = {kind: points.values(kind=kind, **at) for kind in (NONE, *KINDS)}
    lines = []
    for kind in KINDS:
        start = [setting.name, setting.rho, str(setting.n), kind, str(len(values[kind]))]
        own, figure = values[kind], setting.figures[kind]
        if not own:
            lines.append([*start, *["-"] * 5, "not measured"])
        elif NONE not in setting.figures:
            median = float(np.median(own))
            cells = [digits(float(np.median(values[NONE]))), shown(own), digits(figure)]
            lines.append([*start, *cells, f"{median / figure:.3g}", "-", ""])
        else:
            lines.append([*start, *_beside(own, values[NONE], setting, kind)])
    return lines


def _beside(own: Sequence[float], none: Sequence[float], setting: Setting, kind: str) -> list[str]:
    mean, sample = float(np.mean(own)), float(np.mean(none))
    width = 1.96 * float(np.std(own)) / math.sqrt(len(own))
    figure = setting.figures[kind]
    ratio = mean / figure
    overhead = mean / sample / (figure / setting.figures[NONE])
    verdicts = ["met" if value <= TARGET else "MISSED" for value in (ratio, overhead)]
    cells = [digits(sample), f"{digits(mean)} +- {digits(width)}", digits(figure)]
    return [*cells, f"{ratio:.3f}", f"{overhead:.3f}", ", ".join(verdicts)]


def main() -> None:
    """Measure what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description="Means with noise to match, beside PLAN's.")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=tuple(TABLES))
    parser.add_argument("--largest", type=int, default=2048, help="dimension")
    parser.add_argument("--runs", type=int, default=50, help="0 prints")
    parser.add_argument("--results", type=Path, default=Path("plan.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    given = parser.parse_args()
    points = Points(given.results, given.keep)
    chosen = {
        name: [s for s in TABLES[name]() if s.d <= given.largest or not given.runs]
        for name in given.tables
    }
    for name, settings in chosen.items():
        for setting in settings:
            runs = min(given.runs, FEW) if name == "unlike" else given.runs
            for run in range(runs):
                measure(points, name, setting, run)
            print(f"{name}, {setting.name}, rho = {setting.rho}", file=sys.stderr, flush=True)
    header("Errors of variance_aware_mean beside published ones", "python -m tests.benchmarks.plan")
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n")
    print(__doc__)
    for name, settings in chosen.items():
        print(f"\n{name}\n")
        table(COLUMNS, [line for setting in settings for line in row(points, name, setting)])


if __name__ == "__main__":
    main()
