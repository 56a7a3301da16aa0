"""Verdicts: the evidence of the measured points on a claim.

A comparison ends in one of three ways. It is *shown* when the 95% interval lies within the
claimed range, *refuted* when the interval of level 1 - alpha lies wholly outside, and open
otherwise. The margin between the two keeps both errors rare: a mechanism at the edge of the
claim is refuted with probability at most alpha (by the metric's coverage). A comparison that is
open is repeated with more releases, up to four times as many as the claim says
(``dpverify.rates.looking``). If the error is as predicted, it stays open only if an end of an
interval is wrong by a whole margin even then.

Intervals of a root mean square lean on the normal law. Where a few errors carry the sum of
squares no interval is stated (``Metric.measure``), and a claim about such a point, or about a
slope through it, stays open: neither shown nor refuted. Tails in which no release falls are not
noticed: with errors that are large and so rare, an rms claim can be refuted, or shown, with
more than the stated probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dpverify.rates.claims import Curve, RateClaim
from dpverify.rates.fitting import Slope, fit
from dpverify.rates.measuring import Point
from dpverify.rates.metrics import LARGEST_SHARE

_CARRIED = f" (no interval: one error has over {LARGEST_SHARE:.0%} of the sum of squares)"
Predicted = Callable[[Curve, Point], float]
"""Function that computes the value of a curve at a point; a caller that knows the specs
provides it.
"""


class Finding(Enum):
    """Outcome of one comparison."""

    SHOWN = "shown"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One claimed relation, and its finding."""

    what: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Row:
    """Point with the curves there; None where there is none. lines: those of others, by name."""

    point: Point
    predicted: float | None = None
    upper: float | None = None
    lower: float | None = None
    lines: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Measured error over the predicted one."""
        return None if self.predicted is None else self.point.measured / self.predicted


@dataclass(frozen=True, slots=True)
class Table:
    """Table of measurements: rows by value, the slope in the regime, every comparison."""

    rows: tuple[Row, ...]
    slope: Slope | None
    comparisons: tuple[Comparison, ...]

    def findings(self, finding: Finding) -> list[str]:
        """List the comparisons that ended in this way."""
        return [c.what for c in self.comparisons if c.finding is finding]


def row_of(claim: RateClaim, point: Point, predicted: Predicted) -> Row:
    """Return the point with the claim's curves."""
    theory, upper, lower = (
        None if curve is None else predicted(curve, point)
        for curve in (claim.curve, claim.upper, claim.lower)
    )
    lines = {name: predicted(curve, point) for name, curve in claim.lines.items()}
    return Row(point, theory, upper, lower, lines)


def compare(claim: RateClaim, row: Row) -> list[Comparison]:
    """Compare one point with the curves."""
    point, compared = row.point, []
    at = f"at {claim.variable} = {point.value:g}{_CARRIED if _carried(claim, point) else ''}"
    if claim.curve is not None and row.predicted is not None:
        low, high = row.predicted / claim.curve.margin, row.predicted * claim.curve.margin
        compared.append(
            _within(point, low, high, f"{claim.curve.function} to {claim.curve.margin:g} {at}")
        )
    if claim.upper is not None and row.upper is not None:
        high = row.upper * claim.upper.margin
        compared.append(_within(point, 0.0, high, f"at most {claim.upper.function} {at}"))
    if claim.lower is not None and row.lower is not None:
        above = float("inf")
        compared.append(_within(point, row.lower, above, f"at least {claim.lower.function} {at}"))
    return compared


def table_of(claim: RateClaim, rows: Sequence[Row]) -> Table:
    """Collect all comparisons of all points, and of their slope."""
    compared = [comparison for row in rows for comparison in compare(claim, row)]
    if claim.exponent is None:
        return Table(tuple(rows), None, tuple(compared))
    what = f"exponent {claim.exponent.value:g} to {claim.exponent.tolerance:g}"
    points = [rows[i].point for i in claim.regime]
    if any(_carried(claim, point) for point in points):
        return Table(tuple(rows), None, (*compared, Comparison(what + _CARRIED, Finding.OPEN)))
    slope = fit(points)
    low = claim.exponent.value - claim.exponent.tolerance
    high = claim.exponent.value + claim.exponent.tolerance
    return Table(tuple(rows), slope, (*compared, _within(slope, low, high, what)))


def _carried(claim: RateClaim, point: Point) -> bool:
    """Return whether the point has no interval, since a few errors carry its sum of squares."""
    return claim.metric.kind == "rms" and point.low == 0 and point.high == math.inf


def _within(measured: Point | Slope, low: float, high: float, what: str) -> Comparison:
    """Compare an interval with [low, high]."""
    if measured.surely_high < low or measured.surely_low > high:
        return Comparison(what, Finding.REFUTED)
    inside = low <= measured.low and measured.high <= high
    return Comparison(what, Finding.SHOWN if inside else Finding.OPEN)
