"""JUnit XML, as continuous integration systems read it: a test case for each unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from dpverify.report.figures import digits
from dpverify.report.markup import tag, xml
from dpverify.report.saving import save
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.reporting import PART

_ELEMENTS = {
    Outcome.REFUTED: "failure",
    Outcome.INVALID: "error",
    Outcome.POWERLESS: "skipped",  # nothing was refuted, and nothing was shown
}


class JUnit:
    """A consumer that writes JUnit XML after the last event.

    After Ctrl-C it writes the units that finished.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = datetime.now(UTC)
        self._started: RunStarted | None = None
        self._units: list[UnitFinished] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, RunStarted):
            self._started = event
        elif isinstance(event, RunFinished):
            save(self._path, xml(self._suites(event)))
        elif event.kind != PART:
            self._units.append(event)

    def _suites(self, end: RunFinished) -> Element:
        """Make one suite with all units, under the element that readers expect around it."""
        command = self._started.command if self._started else "report"
        numbers = _counts(self._units, end.seconds)
        suite = tag(
            "testsuite",
            tag("properties", *(_property(*one) for one in self._about(end))),
            *map(_case, self._units),
            name=f"dpverify {command}",
            timestamp=self._begun.strftime("%Y-%m-%dT%H:%M:%S"),
            hostname="localhost",
            **numbers,
        )
        return tag("testsuites", suite, name="dpverify", **numbers)

    def _about(self, end: RunFinished) -> Iterator[tuple[str, str]]:
        """Yield what a reader should know of the run; if it was stopped, that it was."""
        if self._started is not None:
            yield "version", self._started.version
            yield "seed", str(self._started.seed)
            yield "alpha", digits(self._started.alpha)
            yield "units", str(self._started.units)
        yield "interrupted", str(end.interrupted).lower()
        yield "exit code", str(end.exit_code)


def _counts(units: Sequence[UnitFinished], seconds: float) -> dict[str, str]:
    ended = [_ELEMENTS.get(unit.outcome) for unit in units]
    return {
        "tests": str(len(units)),
        "failures": str(ended.count("failure")),
        "errors": str(ended.count("error")),
        "skipped": str(ended.count("skipped")),
        "time": f"{seconds:.3f}",
    }


def _case(unit: UnitFinished) -> Element:
    """Make a test case: its facts as properties, a failure with the line that replays it, its
    details.
    """
    ended = _ELEMENTS.get(unit.outcome)
    lines = [*unit.details, f"replay: {unit.replay}"]
    wrong = (
        tag(ended, "\n".join(lines), message=f"{unit.verdict}: {unit.summary}") if ended else None
    )
    if wrong is not None and ended != "skipped":
        wrong.set("type", unit.verdict)
    return tag(
        "testcase",
        tag("properties", *(_property(*one) for one in _facts(unit))),
        wrong,
        tag("system-out", "\n".join([unit.summary, *unit.details])) if wrong is None else None,
        name=unit.name,
        classname=f"dpverify.{unit.kind}",
        time=f"{unit.seconds:.3f}",
    )


def _facts(unit: UnitFinished) -> Iterator[tuple[str, str]]:
    """Yield claim, bound and false-alarm probability where the unit has them; verdict and
    replay line always.
    """
    yield "verdict", unit.verdict
    data = unit.data
    if "guarantee" in data:
        yield "claim", f"{data['guarantee']} under {data.get('adjacency', '?')}"
    best: Any = data.get("strongest")
    if "epsilon" in data and isinstance(best, dict) and "delta" in best:
        yield "bound", f"epsilon >= {digits(data['epsilon'])} at delta {digits(best['delta'])}"
    slope: Any = data.get("slope")
    if isinstance(slope, dict) and {"low", "high"} <= set(slope):
        yield "bound", f"slope in [{digits(slope['low'])}, {digits(slope['high'])}]"
    if "alpha" in data:
        yield "alpha", digits(data["alpha"])
    yield "replay", unit.replay


def _property(name: str, value: str) -> Element:
    return tag("property", name=name, value=value)
