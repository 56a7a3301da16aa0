"""Verdict on a rate from its measured parts: outcome, text for the terminal, data for a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpverify.rates import (
    Empirical,
    Finding,
    Point,
    RateClaim,
    Row,
    Table,
    faults_of,
    table_of,
)
from dpverify.suite.events import Outcome, UnitFinished


@dataclass(frozen=True, slots=True)
class Run:
    """Identity of a measurement: which rate, with which seed, at which alpha an interval, and
    how to do it again.
    """

    rate: str
    seed: int
    alpha: float
    replay: str


def judge(claim: RateClaim, parts: Sequence[UnitFinished], run: Run) -> UnitFinished:
    """Return the verdict on a rate whose parts are all there."""
    seconds = sum(part.seconds for part in parts)
    broken = [part for part in parts if part.outcome is not Outcome.HELD]
    try:
        if broken:
            raise ValueError(f"{broken[0].name}: {broken[0].summary}")
        points = sorted((p for p in parts if not p.data["fault"]), key=lambda p: p.data["index"])
        table = table_of(claim, [_row_in(part.data) for part in points])
        order = {fault.name: i for i, fault in enumerate(faults_of(claim))}
        faults = sorted((p for p in parts if p.data["fault"]), key=lambda p: order[p.data["fault"]])
        seen = {str(p.data["fault"]): str(p.data["by"]) for p in faults}
    except ValueError as error:
        return UnitFinished(
            "rate", run.rate, Outcome.INVALID, "INVALID", str(error), (), run.replay, seconds
        )
    outcome = _outcome(table, seen)
    return UnitFinished(
        "rate",
        run.rate,
        outcome,
        _VERDICTS[outcome],
        _summary(claim, table, seen),
        _details(claim, table, seen),
        run.replay,
        seconds,
        _data(claim, table, seen, run),
    )


_VERDICTS = {
    Outcome.HELD: "HELD",
    Outcome.REFUTED: "REFUTED",
    Outcome.POWERLESS: "POWERLESS",
}


def curves_of(row: Row) -> dict[str, Any]:
    """Return the curves at a point, and the lines of others, as plain data."""
    curves = {"predicted": row.predicted, "upper": row.upper, "lower": row.lower}
    return {**curves, "lines": dict(row.lines)}


def _row_in(data: Mapping[str, Any]) -> Row:
    theory, upper, lower = (
        None if data[n] is None else float(data[n]) for n in ("predicted", "upper", "lower")
    )
    names = Point.__dataclass_fields__
    lines = {name: float(value) for name, value in data["lines"].items()}
    return Row(Point.from_json({n: data[n] for n in names}), theory, upper, lower, lines)


def _outcome(table: Table, seen: Mapping[str, str]) -> Outcome:
    if table.findings(Finding.REFUTED):
        return Outcome.REFUTED
    shown = not table.findings(Finding.OPEN) and all(seen.values())
    return Outcome.HELD if shown else Outcome.POWERLESS


def _summary(claim: RateClaim, table: Table, seen: Mapping[str, str]) -> str:
    text = [f"{claim.metric} against {claim.variable}"]
    if table.slope is not None and claim.exponent is not None:
        slope = table.slope
        text.append(
            f"slope {slope.value:.3f} [{slope.low:.3f}, {slope.high:.3f}], "
            f"claimed {claim.exponent.value:g} to {claim.exponent.tolerance:g}"
        )
    ratios = [row.ratio for row in table.rows if row.ratio is not None]
    if ratios:
        text.append(f"measured / predicted {min(ratios):.3f}..{max(ratios):.3f}")
    text.append(f"{sum(map(bool, seen.values()))}/{len(seen)} planted faults caught")
    return ", ".join(text)


def _details(claim: RateClaim, table: Table, seen: Mapping[str, str]) -> tuple[str, ...]:
    """List a line for each value, then what was refuted, left open, or not seen."""
    header = f"{claim.variable:>12} {claim.metric!s:>12}  95% interval"
    lines = [f"{header:<50}{'theory':>10}{'ratio':>8}{'upper':>10}{'lower':>10}"]
    for row in table.rows:
        point = row.point
        text = f"{point.value:>12.6g} {point.measured:>12.5g}  {point.low:.5g}..{point.high:.5g}"
        curves = [_shown(row.predicted, 10), _shown(row.ratio, 8)]
        curves += [_shown(row.upper, 10), _shown(row.lower, 10)]
        lines.append(f"{text:<50}{''.join(curves)}".rstrip())
    for name in claim.lines:
        there = ", ".join(f"{row.lines[name]:.4g}" for row in table.rows)
        lines.append(f"{name}: {there}")
    lines += [f"refuted: {what}" for what in table.findings(Finding.REFUTED)]
    lines += [f"left open, too few releases: {what}" for what in table.findings(Finding.OPEN)]
    return (*lines, *(f"missed fault: {name}" for name, by in seen.items() if not by))


def _shown(value: float | None, width: int) -> str:
    return f"{'-' if value is None else f'{value:.4g}':>{width}}"


def _data(claim: RateClaim, table: Table, seen: Mapping[str, str], run: Run) -> dict[str, Any]:
    """Return the data of a rate's report."""
    exponent = claim.exponent
    return {
        "variable": claim.variable,
        "metric": str(claim.metric),
        "target": "empirical" if isinstance(claim.target, Empirical) else "population",
        "setting": {name: str(value) for name, value in claim.setting.items()},
        "instance": str(claim.instance),
        "source": claim.source,
        "seed": run.seed,
        "alpha": run.alpha,
        "exponent": None if exponent is None else asdict(exponent),
        "slope": None if table.slope is None else asdict(table.slope),
        "curves": {
            name: None if curve is None else asdict(curve)
            for name, curve in (
                ("predicted", claim.curve),
                ("upper", claim.upper),
                ("lower", claim.lower),
            )
        },
        "lines": {name: asdict(curve) for name, curve in claim.lines.items()},
        "points": [
            {**row.point.to_json(), **curves_of(row), "ratio": row.ratio} for row in table.rows
        ],
        "comparisons": [{"what": c.what, "finding": c.finding.value} for c in table.comparisons],
        "faults": [{"name": name, "caught": bool(by), "by": by} for name, by in seen.items()],
    }
