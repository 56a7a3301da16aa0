"""Figures of kept events by matplotlib instead of SVG, for pages and papers. Needs dpverify[plots].

python -m tests.benchmarks.report_pictures EVENTS.jsonl... PICTURE.svg
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpverify.report.figures import Figure, Layer, Look, figures_of
from dpverify.suite.events import UnitFinished
from dpverify.suite.stored import read

_WIDTH, _HEIGHT = 4.0, 3.6  # inches of a figure
_STYLES: dict[Look, dict[str, Any]] = {
    "claim": {"color": "#1b2430", "linestyle": "-"},
    "certified": {"color": "#0b63b0", "linestyle": "--", "marker": "o", "markersize": 4},
    "fitted": {"color": "#0b63b0", "linestyle": (0, (1, 1)), "linewidth": 3},
    "upper": {"color": "#8a5300", "linestyle": "-."},
    "lower": {"color": "#6b3fa0", "linestyle": ":"},
    "refuted": {"color": "#b3261e", "linestyle": "none", "marker": "x"},
    "nothing": {"color": "#55606e", "linestyle": ":", "linewidth": 1},
}


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Draw all figures in a row; the same bytes for the same events."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({"svg.hashsalt": "dpverify", "font.size": 9}):
        canvas = Canvas(figsize=(_WIDTH * len(figures), _HEIGHT), layout="constrained")
        for figure, axes in zip(
            figures, canvas.subplots(1, len(figures), squeeze=False)[0], strict=True
        ):
            for layer in figure.layers:
                _layer(axes, layer)
            axes.set(xlim=(figure.x.low, figure.x.high), ylim=(figure.y.low, figure.y.high))
            axes.set(
                xscale="log" if figure.x.log else "linear",
                yscale="log" if figure.y.log else "linear",
            )
            axes.set(xlabel=figure.x.label, ylabel=figure.y.label)
            axes.set_title(figure.title.replace(": ", "\n"), fontsize=9)
            axes.legend(fontsize=7.5, frameon=False)
        canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _layer(axes: Any, layer: Layer) -> None:
    """Draw a line, or marks with their intervals, and the regions around marks."""
    style = _STYLES[layer.look]
    if layer.line:
        axes.plot(*zip(*layer.line, strict=True), label=layer.label, **{**style, "marker": ""})
    elif layer.marks:
        x, y = zip(*layer.marks, strict=True)
        bars = [[abs(value - end) for value, end in zip(y, ends, strict=True)]
                for ends in zip(*layer.bars, strict=True)] or None  # fmt: skip
        axes.errorbar(x, y, yerr=bars, label=layer.label, **{**style, "linestyle": "none"})
    for mark, corners in layer.areas:
        axes.fill(
            *zip(*_stairs(mark, corners), strict=True), color=style["color"], alpha=0.2, linewidth=0
        )


def _stairs(mark: tuple[float, float], corners: Sequence[tuple[float, float]]) -> Any:
    """Return the path from the mark up, down the stairs of the corners, and back."""
    x, y = mark
    yield mark
    yield x, max(y, corners[0][1])
    for (right, height), (_, below) in zip(corners, [*corners[1:], mark], strict=True):
        yield max(x, right), max(y, height)
        yield max(x, right), max(y, below)


def main(paths: Sequence[str]) -> None:
    """Draw every figure of the units in these files, in their order."""
    *kept, picture = map(Path, paths)
    units = [e for path in kept for e in read(path).events if isinstance(e, UnitFinished)]
    draw([figure for unit in units for figure in figures_of(unit.data)], picture)


if __name__ == "__main__":
    main(sys.argv[1:])
