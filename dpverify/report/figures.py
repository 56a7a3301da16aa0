"""Figures of a report as plain data, drawn by ``svg`` in a page or by any other renderer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Point = tuple[float, float]
Points = tuple[Point, ...]
Look = Literal[
    "claim", "certified", "fitted", "upper", "lower", "refuted", "nothing", "other", "another"
]
"""Role of a part of a figure; each role has its color, its dashes and its marker."""
_SMALLEST, _LARGEST = 1e-300, 1e300  # ends of any axis
_NONE = "\N{EN DASH}"  # stands for a missing number in a table


@dataclass(frozen=True, slots=True)
class Axis:
    """A name and a range, on a logarithmic axis if ``log``.

    Raises ValueError for a range that has no places.
    """

    label: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        least = _SMALLEST if self.log else -_LARGEST
        if not least <= self.low < self.high <= _LARGEST:
            raise ValueError(f"an axis from {self.low} to {self.high}")


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a figure, with its line in the legend: a line, marks, or areas around marks.

    bars: the lower and the upper end of each mark's interval.
    areas: outer corners of regions that reach from their mark to the right and upward.
    """

    label: str
    look: Look
    line: Points = ()
    marks: Points = ()
    bars: tuple[Point, ...] = ()
    areas: tuple[tuple[Point, Points], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a figure, for readers and for screen readers.

    texts: the number of columns of text that come before them.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with axes, its text for those who do not see it, and its numbers."""

    title: str
    description: str
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    table: Table


def figures_of(data: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of a unit's data: two of an audit, one of a rate, none of anything else.

    Data of another version may lack a piece or spell it differently; then its figure is left
    out.
    """
    for make in (tradeoff, profile, rate):
        try:
            yield make(data)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            continue


# --- the trade-off curve ------------------------------------------------------------------------


def tradeoff(data: Mapping[str, Any]) -> Figure:
    """Plot type II error against type I error: the claim's curve, and the certified events.

    Every event has its region.
    """
    profile_points = [(number(e), number(d)) for e, d, *_ in data["profile"]]
    events = [one for one in data["curve"] if one["draws"] and one["other_draws"]]
    regions = {id(one): area for one, area in zip(data["curve"], data["regions"], strict=True)}
    layers = [
        Layer("no privacy is lost", "nothing", line=((0.0, 1.0), (1.0, 0.0))),
        Layer("claim: no test does better", "claim", line=claimed_tradeoff(profile_points)),
    ]
    kinds: tuple[tuple[str, Look, bool], ...] = (
        ("certified events, with confidence regions", "certified", False),
        ("events that refute the claim", "refuted", True),
    )
    for label, look, refuted in kinds:
        own = [one for one in events if bool(one["refuted"]) is refuted]
        if own:
            marks = tuple(_errors(one) for one in own)
            corners = [tuple((number(x), number(y)) for x, y in regions[id(one)]) for one in own]
            areas = tuple((m, c) for m, c in zip(marks, corners, strict=True) if c)
            layers.append(Layer(label, look, marks=marks, areas=areas))
    description = (
        f"Trade-off curve of the claim with {len(events)} certified events. An event is a test "
        "of one dataset against the other; its errors lie in the shaded region, left of and "
        "below its outer corners."
    )
    x, y = Axis("type I error", 0, 1), Axis("type II error", 0, 1)
    return Figure("Trade-off curve", description, x, y, tuple(layers), _events(events, regions))


def claimed_tradeoff(profile_points: Sequence[Point], steps: int = 24) -> Points:
    """Return the least type II errors that points (epsilon, delta) of a profile allow.

    They are 1 - delta - e^epsilon alpha, and the mirror image, for a claim holds in both
    directions.
    """
    lines = [(math.exp(min(e, 700.0)), 1 - d) for e, d in profile_points]

    def least(alpha: float) -> float:
        either = (max(top - slope * alpha, (top - alpha) / slope) for slope, top in lines)
        return max(0.0, max(either))

    center, wide = 0.0, 1.0
    for _ in range(50):  # where the curve meets its mirror image
        middle = (center + wide) / 2
        center, wide = (middle, wide) if least(middle) > middle else (center, middle)
    half = [(a, least(a)) for a in (center * (i / steps) ** 2 for i in range(steps + 1))]
    return (*half, *((b, a) for a, b in reversed(half)))


def _errors(event: Mapping[str, Any]) -> Point:
    return event["other_hits"] / event["other_draws"], 1 - event["hits"] / event["draws"]


def _events(events: Sequence[Mapping[str, Any]], regions: Mapping[int, Any]) -> Table:
    header = ("pair", "direction", "event", "type I", "at most", "type II", "at most", "epsilon ≥")
    rows = []
    for one in events:
        first, second = _errors(one)
        corners = regions[id(one)] or [[math.nan, math.nan]]
        ends = number(corners[-1][0]), number(corners[0][1])
        shown = (digits(first), digits(ends[0]), digits(second), digits(ends[1]))
        where = (str(one[name]) for name in ("pair", "direction", "event"))
        rows.append((*where, *shown, digits(one["epsilon"])))
    return Table("Certified events, with the ends of their regions", header, tuple(rows), texts=3)


# --- the profile --------------------------------------------------------------------------------


def profile(data: Mapping[str, Any]) -> Figure:
    """Plot delta against epsilon on a logarithmic axis: the claim, and certified points below
    it.
    """
    points = [(number(e), number(c), number(s)) for e, c, s in data["profile"]]
    low = 10.0 ** math.floor(math.log10(max(1e-9, _least(points))))
    claimed = _falling([(e, c) for e, c, _ in points], low)
    shown = _falling([(e, s) for e, _, s in points], low)
    layers = [Layer("claim: delta is at most", "claim", line=claimed)]
    if shown:
        layers.append(Layer("certified: delta is at least", "certified", line=shown))
    beyond = tuple((e, s) for e, c, s in points if s > c)
    if beyond:
        layers.append(Layer("certified above the claim: refuted", "refuted", marks=beyond))
    rows = tuple((digits(e), digits(c), digits(s)) for e, c, s in points)
    table = Table("Privacy profile", ("epsilon", "claimed delta", "certified delta"), rows)
    x, y = Axis("epsilon", 0, points[-1][0]), Axis("delta", low, 1.0, log=True)
    verb = "exceeds" if beyond else "stays below"
    description = f"Privacy profile: the certified lower bound {verb} the claimed delta."
    return Figure("Privacy profile", description, x, y, tuple(layers), table)


def _least(points: Sequence[tuple[float, float, float]]) -> float:
    """Return the smallest delta that is drawn."""
    return min((d for _, *deltas in points for d in deltas if d > 0), default=0.1)


def _falling(points: Sequence[Point], low: float) -> Points:
    """Return the points down to the lower end of the axis, which is met once."""
    above = [point for point in points if point[1] > low]
    ends = [e for e, d in points if d <= low and above and e > above[-1][0]][:1]
    return (*above, *((e, low) for e in ends))


# --- rates --------------------------------------------------------------------------------------


def rate(data: Mapping[str, Any]) -> Figure:
    """Plot error against the variable: measured with intervals, theory, upper and lower bounds."""
    points, what = data["points"], str(data["variable"])
    layers = [_measured(points), *_fitted(data)]
    names: tuple[tuple[str, str, Look], ...] = (
        ("predicted", "theory", "claim"),
        ("upper", "upper bound", "upper"),
        ("lower", "lower bound", "lower"),
    )
    for key, label, look in names:
        line = tuple((number(p["value"]), number(p[key])) for p in points if p[key] is not None)
        if line:
            layers.append(Layer(label, look, line=line))
    others: tuple[Look, ...] = ("other", "another")
    names_of_others = list(points[0].get("lines", {})) if points else []
    for name, look in zip(names_of_others, others, strict=False):
        line = tuple((number(p["value"]), number(p["lines"][name])) for p in points)
        layers.append(Layer(str(name), look, line=line))
    keys = ("value", "measured", "low", "high", "predicted", "upper", "lower", "ratio")
    rows = tuple(
        tuple(_NONE if p[k] is None else digits(p[k]) for k in keys)
        + tuple(digits(p["lines"][name]) for name in names_of_others)
        for p in points
    )
    header = (what, "measured", "from", "to", "theory", "upper", "lower", "measured / theory")
    columns = (*header, *map(str, names_of_others))
    drawn = [xy for layer in layers for xy in (*layer.line, *layer.marks)]
    ends = [
        (x, y) for (x, _), bar in zip(layers[0].marks, layers[0].bars, strict=True) for y in bar
    ]
    x = _axis(what, [x for x, _ in drawn])
    y = _axis(f"error, {data['metric']}", [y for _, y in (*drawn, *ends)])
    caption = f"Error against {what}, with 95% intervals"
    return Figure(
        f"Error against {what}{_slope(data)}", f"{caption}, from {len(points)} values.", x, y,
        tuple(layers), Table(caption, columns, rows),
    )  # fmt: skip


def _measured(points: Sequence[Mapping[str, Any]]) -> Layer:
    finite = [p for p in points if math.isfinite(number(p["measured"]))]
    marks = tuple((number(p["value"]), number(p["measured"])) for p in finite)
    bars = tuple((number(p["low"]), number(p["high"])) for p in finite)
    return Layer("measured, 95% interval", "certified", marks=marks, bars=bars)


def _fitted(data: Mapping[str, Any]) -> Iterator[Layer]:
    """Yield the fitted power of the variable, through the center of the points that it was
    fitted to.
    """
    slope, exponent = data["slope"], data["exponent"] or {}
    start, end = number(exponent.get("start", 0.0)), number(exponent.get("end", math.inf))
    logs = [
        (math.log(number(p["value"])), math.log(number(p["measured"])))
        for p in (data["points"] if slope is not None else ())
        if max(start, _SMALLEST) <= number(p["value"]) <= end
        and 0 < number(p["measured"]) < math.inf
    ]
    if len(logs) > 1:
        x, y = (math.fsum(one) / len(logs) for one in zip(*logs, strict=True))
        ends = min(logs)[0], max(logs)[0]
        line = tuple((math.exp(e), math.exp(y + number(slope["value"]) * (e - x))) for e in ends)
        yield Layer("fitted slope", "fitted", line=line)


def _slope(data: Mapping[str, Any]) -> str:
    slope, exponent = data["slope"], data["exponent"]
    if slope is None:
        return ""
    low, high = number(slope["low"]), number(slope["high"])
    claimed = "" if exponent is None else f"; claimed {number(exponent['value']):g}"
    return f": slope {number(slope['value']):.3f} [{low:.3f}, {high:.3f}]{claimed}"


def _axis(label: str, values: Sequence[float]) -> Axis:
    """Make an axis, logarithmic where all values are positive, between the round numbers around
    them.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    if low <= 0:
        return Axis(label, min(low, 0.0), high or 1.0)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    rounds = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    least = max(one for one in rounds if one <= low / 1.05)
    return Axis(label, least, min(one for one in rounds if one >= high * 1.05), log=True)


# --- numbers ------------------------------------------------------------------------------------


def number(value: Any) -> float:
    """Read a number, also where JSON has an infinity as text."""
    return float(value)


def digits(value: Any) -> str:
    """Write a number with four significant digits.

    What is no number is written as a dash, or as it is.
    """
    try:
        shown = number(value)
    except (TypeError, ValueError, OverflowError):
        return f"{value!s:.20}"
    return _NONE if math.isnan(shown) else f"{shown:.4g}".replace("inf", "∞")
