"""The pictures of bounds.py: error against n, both on logarithmic axes. Needs dpverify[plots]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bounds import BASELINES, RARELY, Bounds, Measured, bounds_at, least_n
from tests.benchmarks.dimension_free import NONE, D

LAWS = {
    1: "variances 1 / i²",
    2: "variances 1 / i",
    3: "variances max(exp(-(i - 1) / 10), 10⁻⁶)",
}
NS = tuple(round(n) for n in np.geomspace(400, 30_000, 25))
_Y = (2e-4, 3e3)
_SIZE = (8.0, 6.2)  # inches
POINTS = {  # label, color, marker
    "coordinatewise": ("CoordinatewiseMean", "#a05a00", "s"),
    "variance aware, known": ("VarianceAwareMean, variances known (PLAN)", "#d55e00", "^"),
    "variance aware": ("VarianceAwareMean, found (PLAN)", "#e69f00", "v"),
    "iterative": ("IterativeMean (CoinPress)", "#cc79a7", "D"),
    "rescaled": ("RescaledMean", "#0072b2", "o"),
    "refined": ("RefinedMean", "#009e73", "*"),
    NONE: ("mean of the sample, not private", "#888888", "x"),
}
LINES: tuple[tuple[str, Callable[[Bounds], float], dict[str, Any]], ...] = (
    (
        "RescaledMean: bound, 95%, all friends",
        lambda b: b.rescaled_bound,
        {"color": "#0072b2", "linewidth": 1.6},
    ),
    (
        "RescaledMean: expected",
        lambda b: b.rescaled_expected,
        {"color": "#0072b2", "linewidth": 1, "linestyle": "--"},
    ),
    (
        "RefinedMean: expected",
        lambda b: b.refined_expected,
        {"color": "#009e73", "linewidth": 1, "linestyle": "--"},
    ),
    ("lower bound: sampling", lambda b: b.sampling, {"color": "#888888", "linewidth": 1.2}),
    ("lower bound: privacy, by tracing", lambda b: b.tracing, {"color": "black", "linewidth": 1.6}),
    (
        "lower bound for pure DP, by packing",
        lambda b: b.packing,
        {"color": "black", "linewidth": 1, "linestyle": ":"},
    ),
)


def draw(measured: Sequence[Measured], instance: int, folder: Path, kind: str = "svg") -> Path:
    """Draw one picture; the same bytes for the same points."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "dpverify", "font.size": 10}):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        _lines(axes, instance)
        for method in POINTS:
            _points(axes, [m for m in measured if (m.instance, m.method) == (instance, method)])
        _finish(axes, figure, instance)
        path = folder / f"rates-{instance}.{kind}"
        figure.savefig(path, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return path


def _lines(axes: Any, instance: int) -> None:
    known = [bounds_at(instance, n) for n in NS]
    for label, value, style in LINES:
        axes.plot(NS, [value(b) for b in known], label=label, zorder=2, **style)
    sure = least_n("variance aware, known", instance)
    axes.axvspan(NS[0], sure, color="#d55e00", alpha=0.06, linewidth=0, zorder=0)
    axes.text(
        sure * 0.97,
        _Y[0] * 1.3,
        f"n < {sure}: a search for {D} medians\nmay miss one (bound above {RARELY})",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color="#7a3600",
    )


def _points(axes: Any, measured: Sequence[Measured]) -> None:
    """Draw medians, with an interval from 6 runs on, slightly beside n lest they hide each other.

    A thin line joins those of baselines. Abstaining has no place.
    """
    finite = sorted((m for m in measured if math.isfinite(m.median)), key=lambda m: m.n)
    if not finite:
        return
    label, color, marker = POINTS[finite[0].method]
    aside = 1 + 0.012 * (list(POINTS).index(finite[0].method) - len(POINTS) // 2)
    n, median = [m.n * aside for m in finite], [m.median for m in finite]
    low = [m.median - m.low if math.isfinite(m.high) else 0.0 for m in finite]
    high = [m.high - m.median if math.isfinite(m.high) else 0.0 for m in finite]
    axes.errorbar(
        n,
        median,
        yerr=[low, high],
        label=label,
        color=color,
        marker=marker,
        markersize=9 if marker == "*" else 6,
        linewidth=0.7 if measured[0].method in BASELINES else 0,
        alpha=0.95,
        elinewidth=1.5,
        capsize=2.5,
        zorder=4,
    )


def _finish(axes: Any, figure: Any, instance: int) -> None:
    from matplotlib.lines import Line2D

    axes.set(
        xscale="log",
        yscale="log",
        xlim=(NS[0], NS[-1]),
        ylim=_Y,
        xlabel="records n",
        ylabel="distance from the true mean (L2)",
        title=f"Instance {instance}: d = {D}, {LAWS[instance]}, (1, 10⁻⁶)-DP, add-remove",
    )
    ticks = (500, 1000, 2000, 5000, 10_000, 20_000)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    gap = [Line2D([], [], linestyle="none")]  # lines in one column, points in the other
    figure.legend(
        [*handles[: len(LINES)], *gap, *handles[len(LINES) :]],
        [*labels[: len(LINES)], "", *labels[len(LINES) :]],
        loc="outside lower center",
        ncols=2,
        fontsize=8.5,
        frameon=False,
    )
