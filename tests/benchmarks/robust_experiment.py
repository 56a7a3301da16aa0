"""The experiment of DH20 (Figures 1 to 3), done at one guarantee for all: excess error against the dimension.

Records: normal, of deviation 1 about (1, ..., 1), a tenth of them replaced as in tests/benchmarks/robust.py: "mixed"
is the paper's corruption, "hidden" and "far" are harder. Excess error: the L2 distance of a release from
(1, ..., 1), less that of the mean of the records before they were replaced. Every method is
(1, 1e-6)-differentially private under replace, proved; medians over runs of fresh data, with order statistics
that hold the true median with probability 95%.

robust: ``RobustMean``, which is told the deviations. refined: ``RefinedMean``, likewise. winsorized: ``WinsorizedMean``
with the public bounds -100 and 100 in every column. iterative: ``IterativeMean`` with the center 0 and the
radius of that box. zero: 0 for all data, which is private for nothing. A dash: it abstains, or refuses so few records.

paper 1 and 2: Algorithms 1 and 2 of DH20, whose privacy claim is false (audits/exhibits has the refutations) and
which claim delta = 1 / n; the medians of 5 (n = 100), 3 (n = 1000) and 1 (n = 10000) runs of the authors' MATLAB
files, unchanged, under GNU Octave 7.3, with eps = 1, C = 0.5 and a vector of noise in place of a matrix of it
(the files add a d x d matrix and report its spectral norm, which is twice as large and more).

    python -m tests.benchmarks.robust_experiment [--n 100,1000] [--d 100,200] [--runs 20] [--kinds mixed]
        [--methods robust,zero] [--seconds 300] [--results FILE] [--keep] [--picture FILE.png]      (pictures need matplotlib)

Releases that were measured before are not made again.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP
from tests.benchmarks.errors import Method, Points, code, degrees_once, distance, interval, shown
from tests.benchmarks.robust import SHARE, records
from tests.benchmarks.timing import header, table

SIZES, DIMENSIONS, KINDS = (100, 1000, 10_000), (100, 200, 300, 400), ("mixed", "hidden", "far")
BUDGET, WIDEST = ApproxDP(1, "1e-6"), 100.0
NAMES = ("robust", "refined", "winsorized", "iterative", "zero")
PAPER = {  # (n, d): error of Algorithm 1, of Algorithm 2, of the mean before records were replaced
    (100, 100): (203, 34.3, 1.08),
    (100, 200): (305, 49.4, 1.487),
    (100, 400): (418, 70.6, 2.071),
    (1000, 100): (254, 13.3, 0.333),
    (1000, 200): (345.5, 17.7, 0.465),
    (1000, 400): (500, 25.0, 0.662),
    (10_000, 100): (308, 7.29, 0.102),
    (10_000, 200): (409, 8.85, 0.137),
    (10_000, 400): (556, 15.5, 0.207),
}


@cache
def methods(n: int, d: int) -> dict[str, Method]:
    """By name."""
    ones, ends = (1.0,) * d, (WIDEST,) * d
    own: dict[str, tuple[str, dict[str, Any]]] = {
        "robust": ("robust_mean", {"deviations": ones, "n_max": n}),
        "refined": ("refined_mean", {"covariance": ones, "n_max": n}),
        "winsorized": (
            "winsorized_mean",
            {"lower": tuple(-x for x in ends), "upper": ends, "clipped": f"1/{n}"},
        ),
        "iterative": (
            "iterative_mean",
            {"center": (0.0,) * d, "radius": WIDEST * math.sqrt(d)},
        ),
    }
    shared = {"budget": BUDGET, "adjacency": Adjacency.REPLACE}
    return {
        name: Method(name, module, {**shared, **given}) for name, (module, given) in own.items()
    }


def excess(name: str, n: int, d: int, kind: str, run: int) -> float:
    """Of one release of fresh data; infinite where there is none."""
    truth = np.ones(d)
    data = records(n, d, kind, np.random.default_rng([n, d, run]))
    clean = distance(records(n, d, "clean", np.random.default_rng([n, d, run])).mean(axis=0), truth)
    if name == "zero":
        return math.sqrt(d) - clean
    if name == "not private":
        return distance(data.mean(axis=0), truth) - clean
    try:
        return methods(n, d)[name].error(data, truth, run) - clean
    except ValueError as refused:  # too few records for any release
        print(f"{name}, n = {n}: {refused}", file=sys.stderr)
        return math.inf


def measured(points: Points, name: str, n: int, d: int, kind: str, runs: int, until: float) -> None:
    """Runs that are missing, until the clock is at ``until``."""
    for run in range(runs):
        if time.monotonic() > until:
            return
        points.get(
            lambda run=run: excess(name, n, d, kind, run),  # type: ignore[misc]
            n=n,
            d=d,
            kind=kind,
            method=name,
            run=run,
        )


def rows(points: Points, sizes: list[int], dimensions: list[int], kinds: list[str]) -> Any:
    """Of the table, from what was measured."""
    for kind in kinds:
        for n in sizes:
            for d in dimensions:
                names = ("not private", *NAMES)
                values = [points.values(n=n, d=d, kind=kind, method=name) for name in names]
                paper = ["-", "-"]
                if (n, d) in PAPER and kind == "mixed":
                    *errors, clean = PAPER[n, d]
                    paper = [f"{error - clean:.3g}" for error in errors]
                yield [kind, str(n), str(d), *map(shown, values), *paper]


def picture(points: Points, sizes: list[int], kinds: list[str], path: Path) -> None:
    """Excess error against the dimension, a panel for each kind and number of records."""
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(
        len(kinds),
        len(sizes),
        figsize=(9, 2.6 * len(kinds)),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    marks = dict(zip(NAMES, ("o-", "s-", "^-", "v-", "--"), strict=True))
    for kind, line in zip(kinds, axes, strict=True):
        for n, panel in zip(sizes, line, strict=True):
            for name, mark in marks.items():
                _curve(points, panel, n, kind, name, mark)
            if kind == "mixed":
                for i, mark in enumerate((":", "-.")):
                    known = {d: PAPER[m, d][i] - PAPER[m, d][2] for m, d in PAPER if m == n}
                    panel.plot(
                        list(known),
                        list(known.values()),
                        mark,
                        color="gray",
                        label=f"paper {i + 1}",
                    )
            panel.set_yscale("log")
            panel.set_title(f"{kind}, n = {n}", fontsize=9)
            panel.grid(visible=True, alpha=0.3)
    for panel in axes[-1]:
        panel.set_xlabel("dimension")
    for panel in axes[:, 0]:
        panel.set_ylabel("excess L2 error")
    named: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    labels = [label for label in (*NAMES, "paper 1", "paper 2") if label in named]
    figure.legend(
        [named[label] for label in labels],
        labels,
        loc="upper center",
        ncols=len(labels),
        fontsize=8,
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, dpi=110)


def _curve(points: Points, panel: Any, n: int, kind: str, name: str, mark: str) -> None:
    found = {}
    for d in DIMENSIONS:
        values = points.values(n=n, d=d, kind=kind, method=name)
        if values and math.isfinite(interval(values)[1]):
            found[d] = interval(values) if len(values) > 5 else (float(np.median(values)),) * 3
    if not found:
        return
    low, middle, high = (np.array([ends[i] for ends in found.values()]) for i in range(3))
    above = np.where(np.isfinite(high), high, middle) - middle
    shades = {"fmt": mark, "color": "k" if name == "zero" else f"C{NAMES.index(name)}"}
    bars = (middle - low, above)
    panel.errorbar(list(found), middle, bars, markersize=4, capsize=2, label=name, **shades)


def main() -> None:
    """Measure what is missing, and print and draw what there is."""
    parser = argparse.ArgumentParser(description="Excess errors against the dimension.")
    for name, default in (("n", SIZES), ("d", DIMENSIONS), ("kinds", KINDS)):
        parser.add_argument(f"--{name}", default=",".join(map(str, default)))
    parser.add_argument("--methods", default=",".join(("not private", *NAMES)))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after these")
    parser.add_argument("--results", type=Path, default=Path("robust_experiment.jsonl"))
    parser.add_argument("--keep", action="store_true", help="also points of other code")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    points = Points(given.results, given.keep)
    sizes, dimensions = ([int(x) for x in text.split(",")] for text in (given.n, given.d))
    kinds, until = given.kinds.split(","), time.monotonic() + given.seconds
    for n in sizes:
        for d in dimensions:
            for kind in kinds:
                with degrees_once():
                    for name in given.methods.split(","):
                        measured(points, name, n, d, kind, given.runs, until)
    header(
        f"Excess errors with a share {SHARE} of outliers, at {BUDGET}",
        "python -m tests.benchmarks.robust_experiment",
    )
    print(f"# points by the code that made them: {points.codes()}; now {code()}\n\n{__doc__}")
    columns = ["data", "n", "d", "not private", *NAMES, "paper 1", "paper 2"]
    table(columns, list(rows(points, sizes, dimensions, kinds)))
    if given.picture:
        picture(points, sizes, kinds, given.picture)


if __name__ == "__main__":
    main()
