"""The terminal consumer: a progress bar, a line per finished unit, a summary in words.

The bar is shown where there is a terminal. It grows by the time that units took last time, so
that the time left is that of the units left.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dpverify.audit.verdicts import MEANING
from dpverify.suite.events import (
    EXIT_EMPTY,
    Event,
    Outcome,
    RunFinished,
    RunStarted,
    UnitFinished,
    units_of,
)

_BESIDE_THE_BAR = 42
"""Number of columns of a terminal that are left for the numbers beside the bar."""
_MARKS = {
    Outcome.HELD: "[green]ok  [/]",
    Outcome.REFUTED: "[bold red]FAIL[/]",
    Outcome.POWERLESS: "[yellow]WEAK[/]",
    Outcome.INVALID: "[bold magenta]ERR [/]",
}
_ENDINGS = {
    0: "All held.",
    1: "A claim was refuted or an obligation is false.",
    3: "A unit could not be judged: this run is invalid.",
    4: "Nothing was refuted, but not everything that should have been seen was seen.",
    EXIT_EMPTY: "Nothing was collected.",
    130: "Stopped; what is above is valid.",
}


class Terminal:
    """A consumer that prints; ``show_details`` prints a unit's details even if it held."""

    def __init__(self, console: Console, *, show_details: bool = False) -> None:
        self._console = console
        self._details = show_details
        self._progress: Progress | None = None
        self._command = ""
        self._expected: Mapping[str, float] = {}
        self._usual = 1.0

    def __call__(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif isinstance(event, UnitFinished):
            self._unit(event)
        else:
            self._finish(event)

    def _start(self, event: RunStarted) -> None:
        self._command = event.command
        line = f"dpverify {event.version}  {event.command}  {units_of(event.units)}"
        if event.alpha:
            line += f"  seed {event.seed}  false alarms of the whole suite <= {event.alpha:g}"
        self._console.print(line, highlight=False, soft_wrap=True)
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn(event.command),
                BarColumn(bar_width=max(8, min(40, self._console.width - _BESIDE_THE_BAR))),
                TextColumn("{task.fields[done]}/{task.fields[units]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._expected, known = event.expected, sum(event.expected.values())
            if known:  # a unit of which nothing is known counts as the mean of the others
                self._usual = known / len(event.expected)
            total = known + self._usual * (event.units - len(event.expected))
            self._progress.add_task(event.command, total=total, done=0, units=event.units)
            self._progress.start()

    def _unit(self, event: UnitFinished) -> None:
        self._print_unit(event)
        if self._details or event.outcome is not Outcome.HELD:
            for detail in event.details:
                self._console.print(f"       {escape(detail)}", highlight=False, soft_wrap=True)
        if event.outcome is not Outcome.HELD:
            self._console.print(
                f"       replay: {escape(event.replay)}", highlight=False, soft_wrap=True
            )
        if self._progress is not None:
            (task,) = self._progress.tasks
            share = self._expected.get(f"{event.kind} {event.name}", self._usual)
            self._progress.update(task.id, advance=share, done=task.fields["done"] + 1)

    def _print_unit(self, event: UnitFinished) -> None:
        """Print a line, or on a terminal that is too narrow for it a line and an indented
        paragraph.
        """
        first = f"{_MARKS[event.outcome]} {event.kind:<10} {escape(event.name)}"
        second = (
            f"[bold]{escape(event.verdict)}[/]  {escape(event.summary)}  "
            f"[dim]{event.seconds:.1f}s[/]"
        )
        whole = Text.from_markup(f"{first}  {second}")
        if not self._console.is_terminal or len(whole) <= self._console.width:
            self._console.print(whole, highlight=False, soft_wrap=True)
            return
        self._console.print(first, highlight=False, soft_wrap=True)
        said = Padding(Text.from_markup(second), (0, 0, 0, 5))
        self._console.print(said, highlight=False, soft_wrap=False)

    def _finish(self, event: RunFinished) -> None:
        if self._progress is not None:
            self._progress.stop()
        counts = ", ".join(f"{count} {name}" for name, count in event.counts.items()) or "none"
        ending = event.ending or _ENDINGS[event.exit_code]
        line = f"{ending} {counts}; {event.seconds:.1f}s"
        self._console.print(line, highlight=False, soft_wrap=True)
        if self._command == "audit" and event.exit_code in (0, 1, 4) and not event.ending:
            for verdict, meaning in MEANING.items():
                text = f"[dim]{verdict}: {meaning}.[/]"
                self._console.print(text, highlight=False, soft_wrap=True)
