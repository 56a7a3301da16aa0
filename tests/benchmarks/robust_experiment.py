"""The picture of an experiment measured by ``dpverify rates``: error against the variable.

    dpverify rates robust_mean:dh20 --seed 20261122 --jsonl run.jsonl
    python -m tests.benchmarks.robust_experiment run.jsonl docs/figures/robust-experiment.png

Medians with 95% intervals where a method answers in most of its runs, and the references. A run
that was stopped has the panels that were finished. Needs dpverify[plots].
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from dpverify.suite.panels import PANEL

LEFT_OUT = ("mean",)  # from the picture: negligible at n = 100, and of no privacy
STYLES = {  # color, marker and line
    "robust": ("C0", "o-"),
    "refined": ("C1", "s-"),
    "winsorized": ("C2", "^-"),
    "iterative": ("C3", "v-"),
    "zero": ("k", "--"),
    "algorithm 1": ("C5", "x-"),
    "algorithm 2": ("C6", "+-"),
    "paper 1": ("gray", ":"),
    "paper 2": ("gray", "-."),
    "printed 1": ("#bbbbbb", ":"),
    "printed 2": ("#bbbbbb", "-."),
}
Panels = dict[str, dict[str, Any]]


def panels_in(path: Path) -> Panels:
    """Read the data of the finished panels, by name; a last line that was cut off is left out."""
    panels: Panels = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event.get("kind") == PANEL and event["data"]:
            panels[event["data"]["panel"]] = event["data"]
    return panels


def curve(cells: list[dict[str, Any]]) -> list[tuple[float, float, float, float]]:
    """Return (value, median, low, high) where there is a median; an infinite end becomes the
    median."""
    points = []
    for cell in cells:
        if not cell["runs"] or not math.isfinite(median := float(cell["median"])):
            continue
        ends = [float(cell[name]) for name in ("low", "high")]
        low, high = (end if math.isfinite(end) else median for end in ends)
        points.append((cell["value"], median, low, high))
    return points


def draw(panels: Panels, path: Path) -> None:
    """Draw a line of pictures for each kind of data, a column for each number of records."""
    from matplotlib.figure import Figure

    sizes = sorted({int(data["setting"]["n"]) for data in panels.values()})
    kinds = list(dict.fromkeys(data["setting"]["kind"] for data in panels.values()))
    figure = Figure(figsize=(9, 2.6 * len(kinds)))
    axes = figure.subplots(len(kinds), len(sizes), sharex=True, sharey=True, squeeze=False)
    for data in panels.values():
        place = kinds.index(data["setting"]["kind"]), sizes.index(int(data["setting"]["n"]))
        _panel(axes[place], data)
    for panel in axes[-1]:
        panel.set_xlabel("dimension")
    for panel in axes[:, 0]:
        panel.set_ylabel("excess L2 error")
    named: dict[str, Any] = {}
    for panel in axes.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    labels = [label for label in STYLES if label in named]
    handles = [named[label] for label in labels]
    figure.legend(handles, labels, loc="upper center", ncols=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.94))
    figure.savefig(path, dpi=100)


def _panel(axes: Any, data: dict[str, Any]) -> None:
    for name, cells in data["methods"].items():
        points = curve(cells)
        if name in LEFT_OUT or not points:
            continue
        values, medians, lows, highs = zip(*points, strict=True)
        bars = [[m - end for m, end in zip(medians, lows, strict=True)],
                [end - m for m, end in zip(medians, highs, strict=True)]]  # fmt: skip
        color, mark = STYLES[name]
        axes.errorbar(
            values, medians, bars, fmt=mark, color=color, markersize=4, capsize=2, label=name
        )
    for name, known in data["references"].items():
        color, mark = STYLES[name]
        axes.plot(
            [p["value"] for p in known], [p["error"] for p in known], mark, color=color, label=name
        )
    axes.set_yscale("log")
    axes.set_title(data["panel"], fontsize=9)
    axes.grid(visible=True, alpha=0.3)


def main() -> None:
    """Read the events, and draw."""
    parser = argparse.ArgumentParser(description="The picture of an experiment's run.")
    parser.add_argument("events", type=Path, help="what --jsonl wrote")
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    panels = panels_in(given.events)
    if not panels:
        raise SystemExit(f"{given.events} has no finished panel; run dpverify rates to the end.")
    draw(panels, given.picture)
    print(f"{given.picture}: {', '.join(panels)}")


if __name__ == "__main__":
    main()
