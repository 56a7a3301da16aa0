"""Verdicts: what the measured points show of a claim.

A comparison ends in one of three ways. It is *shown* when the 95% interval lies within what is claimed,
*refuted* when the interval of level 1 - alpha lies wholly outside, and open otherwise. The margin
between the two keeps both errors rare: a mechanism at the edge of what is claimed is refuted with
probability at most alpha (by the metric's coverage). One whose error is as predicted is refuted or left
open only if an end is wrong by a whole margin: with the shipped numbers of releases that is 4.5
standard errors or more beyond the 95% end, a probability below 1e-5 a comparison (normal law).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from dpverify.rates.claims import Curve, RateClaim
from dpverify.rates.fitting import Slope, fit
from dpverify.rates.measuring import Point

Predicted = Callable[[Curve, Point], float]
"""The value of a curve at a point; whoever knows the specs provides it."""


class Finding(Enum):
    """How one comparison ended."""

    SHOWN = "shown"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing that is claimed, and how it ended."""

    what: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Row:
    """A point with the curves there; None where there is none."""

    point: Point
    predicted: float | None = None
    upper: float | None = None
    lower: float | None = None

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return None if self.predicted is None else self.point.measured / self.predicted


@dataclass(frozen=True, slots=True)
class Table:
    """What was measured: rows by value, the slope in the regime, every comparison."""

    rows: tuple[Row, ...]
    slope: Slope | None
    comparisons: tuple[Comparison, ...]

    def found(self, finding: Finding) -> list[str]:
        """What ended in this way."""
        return [c.what for c in self.comparisons if c.finding is finding]


def row_of(claim: RateClaim, point: Point, predicted: Predicted) -> Row:
    """The point with the claim's curves."""
    values = [
        None if curve is None else predicted(curve, point)
        for curve in (claim.curve, claim.upper, claim.lower)
    ]
    return Row(point, *values)


def compare(claim: RateClaim, row: Row) -> list[Comparison]:
    """One point against the curves."""
    point, found = row.point, []
    at = f"at {claim.variable} = {point.value:g}"
    if claim.curve is not None and row.predicted is not None:
        low, high = row.predicted / claim.curve.margin, row.predicted * claim.curve.margin
        found.append(
            _within(point, low, high, f"{claim.curve.function} to {claim.curve.margin:g} {at}")
        )
    if claim.upper is not None and row.upper is not None:
        high = row.upper * claim.upper.margin
        found.append(_within(point, 0.0, high, f"at most {claim.upper.function} {at}"))
    if claim.lower is not None and row.lower is not None:
        above = float("inf")
        found.append(_within(point, row.lower, above, f"at least {claim.lower.function} {at}"))
    return found


def table_of(claim: RateClaim, rows: Sequence[Row]) -> Table:
    """All comparisons of all points, and of their slope."""
    found = [comparison for row in rows for comparison in compare(claim, row)]
    if claim.exponent is None:
        return Table(tuple(rows), None, tuple(found))
    slope = fit([rows[i].point for i in claim.regime])
    low = claim.exponent.value - claim.exponent.tolerance
    high = claim.exponent.value + claim.exponent.tolerance
    what = f"exponent {claim.exponent.value:g} to {claim.exponent.tolerance:g}"
    return Table(tuple(rows), slope, (*found, _within(slope, low, high, what)))


def _within(measured: Point | Slope, low: float, high: float, what: str) -> Comparison:
    """Whether an interval is within [low, high]."""
    if measured.surely_high < low or measured.surely_low > high:
        return Comparison(what, Finding.REFUTED)
    inside = low <= measured.low and measured.high <= high
    return Comparison(what, Finding.SHOWN if inside else Finding.OPEN)
