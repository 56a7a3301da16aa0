"""Real data for means of vectors, with their public facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Public:
    """Facts known without the data: a spread as for ``RescaledMean``, an approximate number of
    records, and a box for the methods that need one."""

    trace: float
    largest: float
    n_max: int
    center: tuple[float, ...]
    half: tuple[float, ...]

    @property
    def spread(self) -> dict[str, Any]:
        """Parameters of the means without a box."""
        columns = len(self.center)
        shared = {"columns": columns, "trace": self.trace, "largest": self.largest}
        return {**shared, "n_max": self.n_max}


def digits() -> tuple[Floats, Public]:
    """Return 1797 handwritten digits of 8 x 8 pixels, from 0 to 16.

    scikit-learn's copy of Alpaydin and Kaynak, 1998. Rough guess: a pixel's standard deviation
    is a quarter of its range, and no direction has more than a quarter of all variance.
    """
    data = np.asarray(load_digits().data, dtype=np.float64)
    trace = 64 * 4.0**2
    return data, Public(trace, trace / 4, 2000, (8.0,) * 64, (8.0,) * 64)


COLUMNS = ("carat", "depth", "table", "price", "x", "y", "z")
SCALES = (0.5, 2.0, 2.0, 5000.0, 1.0, 1.0, 1.0)
_BOX = ((0, 5), (40, 80), (40, 100), (0, 20_000), (0, 12), (0, 12), (0, 12))


def diamonds_file() -> Path | None:
    """Find the file in the package plotnine, which is not imported; None without it."""
    spec = find_spec("plotnine")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "data" / "diamonds.csv"


def diamonds() -> tuple[Floats, Public] | None:
    """Return 53,940 diamonds: the seven columns of numbers, each over a rough scale.

    Wickham's ggplot2; the copy in plotnine. The scales are half a carat, 2% of depth and of
    table, 5000 dollars, a millimeter each way.

    Rough guess: a column varies by about its scale, so the trace is 7; five columns say how
    large a stone is and move together, so one direction may have 5 of it. The box: up to 5
    carats, 20,000 dollars and 12 mm, proportions from 40% to 80% and 100%. None of it was read
    off the data.
    """
    path = diamonds_file()
    if path is None:
        return None
    names = path.read_text().splitlines()[0].replace('"', "").split(",")
    chosen = [names.index(column) for column in COLUMNS]
    data = np.loadtxt(path, delimiter=",", skiprows=1, usecols=chosen) / SCALES
    low, high = (np.array(end) / SCALES for end in zip(*_BOX, strict=True))
    center, half = ((high + low) / 2).tolist(), ((high - low) / 2).tolist()
    return data, Public(7.0, 5.0, 50_000, tuple(center), tuple(half))


DATASETS: dict[str, Callable[[], tuple[Floats, Public] | None]] = {
    "diamonds": diamonds,
    "digits": digits,
}
