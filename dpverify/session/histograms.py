"""Histograms as a session's answers: noisy counts by the names of public bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from dpverify.estimation.answers import shown
from dpverify.estimation.bin_estimates import BinsEstimate, RangeEstimate
from dpverify.privacy.numbers import Exact, Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram:
    """Noisy counts of disjoint public bins that hold every record: name of the bin -> count.

    A name is a declared value, or (low, high) for the numbers low <= x < high, in the last bin
    also x = high; for several columns a tuple with a name for each. Counts are unbiased, and may
    be negative.

    counts: the released counts. values: for each column its declared values, or None where it has
    edges.
    """

    counts: BinsEstimate
    values: tuple[tuple[Any, ...] | None, ...]

    @property
    def names(self) -> list[Any]:
        """The names of the bins, in order."""
        each = [
            [*pairwise(axis)] if values is None and isinstance(axis, tuple) else [*(values or ())]
            for axis, values in zip(self.counts.axes, self.values, strict=True)
        ]
        return each[0] if len(each) == 1 else [*product(*each)]

    @property
    def value(self) -> dict[Any, Any]:
        """The unbiased counts: the released ones, or, asked with ranges=True, those of least
        squares.
        """
        if self.counts.strategy == "identity":
            return dict(zip(self.names, self.counts.released, strict=False))
        return self._named(self.counts.value)

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the noise in every count, or in each by name where they differ."""
        deviations = self.counts.standard_deviation
        alike = bool((deviations == deviations.flat[0]).all())
        return float(deviations.flat[0]) if alike else self._named(deviations)

    def interval(self, level: Exact = 0.95, *, simultaneous: bool = False) -> Any:
        """Compute two mappings by bins, to the low and the high end of each count's interval.

        simultaneous: at this level for all bins together, by Bonferroni's bound.
        """
        low, high = self.counts.interval(level, simultaneous=simultaneous)
        return self._named(low), self._named(high)

    def range(self, *ends: Any) -> RangeEstimate:
        """Estimate the number of records from one edge to before another, ``result.range(18,
        65)``.

        For several columns give for each a pair of edges, or a declared value:
        ``result.range((18, 65), "north")``. Ask the histogram with ranges=True for less noise in
        ranges of many bins. Raises ValueError for what is no edge or value.
        """
        if len(self.values) == 1 and self.values[0] is None:
            return self.counts.range(*ends)
        if len(ends) != len(self.values):
            raise ValueError(
                f"range{ends}: give for each of {len(self.values)} columns a pair of edges, or a "
                "declared value."
            )
        return self.counts.range(*map(_ends, ends, self.values))

    def cumulative(self) -> dict[float, float]:
        """Add up the counts of one column with edges: the number of records below each edge."""
        return dict(
            zip(self._edges("cumulative()"), self.counts.cumulative().tolist(), strict=True)
        )

    def quantile(self, at: Exact) -> float:
        """Estimate a quantile from the counts of one column with edges; see
        ``BinsEstimate.quantile``."""
        self._edges("quantile()")
        return self.counts.quantile(at)

    def nonnegative(self) -> dict[Any, Any]:
        """Compute the counts with 0 for those below, for display; see
        ``BinsEstimate.nonnegative``."""
        return {name: max(0, count) for name, count in self.value.items()}

    def consistent(self, total: float) -> dict[Any, float]:
        """Compute the nearest counts that are at least 0 and add up to ``total``, a released or
        public number of records; see ``BinsEstimate.consistent``."""
        return self._named(self.counts.consistent(total))

    def to_dict(self) -> dict[str, Any]:
        """Return the histogram in plain JSON types: a list of names with counts, and what was
        released.
        """
        counts = [[_plain(name), count] for name, count in self.value.items()]
        return {"result": "Histogram", "counts": counts, "released": self.counts.to_dict()}

    def __str__(self) -> str:
        deviation = self.standard_deviation
        largest = max(deviation.values()) if isinstance(deviation, Mapping) else deviation
        noise = f"{len(self.names)} bins, noise of standard deviation {largest:.3g}"
        return "\n".join([noise, *(f"  {bin_name(k):>24}: {v:.6g}" for k, v in self.value.items())])

    def __repr__(self) -> str:
        return f"Histogram(value={shown(self.value)})"

    def _named(self, numbers: Floats) -> dict[Any, float]:
        return dict(zip(self.names, np.ravel(numbers).tolist(), strict=True))

    def _edges(self, what: str) -> tuple[float, ...]:
        axis = self.counts.axes[0]
        if len(self.values) > 1 or self.values[0] is not None or isinstance(axis, int):
            raise ValueError(f"{what} is of one column of numbers, with edges.")
        return axis


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Top:
    """The ``k`` values of a column with the largest released counts, the largest first.

    All counts were released together, so choosing the largest costs nothing; equal counts come in
    the declared order. A count that was chosen for being large is more often too large than too
    small, so ``interval`` holds for all values of the column at once.
    """

    histogram: Histogram
    k: int

    @property
    def value(self) -> dict[Any, Any]:
        """The values with their counts, as they were released."""
        counts = self.histogram.value
        return {name: counts[name] for name in sorted(counts, key=lambda n: -counts[n])[: self.k]}

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the noise in every count."""
        return self.histogram.standard_deviation

    def interval(self, level: Exact = 0.95) -> Any:
        """Compute two mappings by value, to the low and the high end of each count's interval.

        The level is for all values of the column together, shown or not, by Bonferroni's bound.
        """
        ends = self.histogram.interval(level, simultaneous=True)
        low, high = ({name: end[name] for name in self.value} for end in ends)
        return low, high

    def surely(self, level: Exact = 0.95) -> list[Any]:
        """List the values that are among the ``k`` most frequent, all of them together at this
        level.

        A value is listed if fewer than k others have an interval that reaches the low end of its
        own.
        """
        low, high = self.histogram.interval(level, simultaneous=True)
        return [
            name
            for name in self.value
            if sum(high[other] >= low[name] for other in high if other != name) < self.k
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the values in plain JSON types."""
        return {"result": "Top", "k": self.k, "histogram": self.histogram.to_dict()}

    def __str__(self) -> str:
        said = (f"{bin_name(name)}: {count:.6g}" for name, count in self.value.items())
        return f"{', '.join(said)}; each +- {self.standard_deviation:.3g}"

    def __repr__(self) -> str:
        return f"Top(value={shown(self.value)}, standard_deviation={self.standard_deviation:.6g})"


def bin_name(name: Any) -> str:
    """Write a bin's name for people."""
    if not isinstance(name, tuple):
        return str(name)
    if all(isinstance(end, float) for end in name):
        return f"{name[0]:.6g} to {name[1]:.6g}"
    return ", ".join(map(bin_name, name))


def _ends(end: Any, values: tuple[Any, ...] | None) -> Any:
    """Return a declared value as the range of its place. Raises ValueError for what is none."""
    if values is None:
        return end
    if end not in values:
        raise ValueError(f"{end!r} is not among the declared values {values}.")
    return values.index(end), values.index(end) + 1


def _plain(name: Any) -> Any:
    return [_plain(part) for part in name] if isinstance(name, tuple) else name
