"""Duration of an attack on a function: measured first, reported where it is long, shown on a
bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

Progress = bool | Callable[[int, int], object] | None
"""Progress setting. None: on a terminal, a line and a bar for what takes long, elsewhere
nothing. True: also elsewhere. False: never. A function is called now and then with how many
calls are done, and how many there are at most.
"""

LONG = 10.0
"""Number of seconds; an attack that takes longer says so."""
_MEASURED = 0.25  # seconds of calls that tell how long one takes
_OFTEN = 0.1  # seconds between two looks at the clock


class CallbackFailed(BaseException):
    """An exception of the caller's progress function on its way out: no outcome of what is
    audited, where an exception is one.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Meter:
    """A count of calls, which tells others now and then.

    tell: called with what is counted, how many are done, how many there are at most, and the
    seconds since the start.
    """

    def __init__(self, tell: Callable[[str, int, int, float], object] | None = None) -> None:
        self._tell = tell
        self._next = 1
        self.begin("", 0)

    @property
    def is_watched(self) -> bool:
        """True if progress is reported; otherwise calls need not be counted."""
        return self._tell is not None

    def begin(self, what: str, total: int) -> None:
        """Count from 0 again."""
        self.what, self.total, self.done = what, total, 0
        self._start = perf_counter()
        self._next = 1

    def stop(self) -> None:
        """Stop reporting progress."""
        self._tell = None

    def count(self, number: int) -> None:
        """Count so many more calls as done."""
        self.done += number
        if self.done >= self._next:
            self.look()

    def look(self) -> None:
        """Report how far the count is, and choose when to look at the clock again."""
        seconds = perf_counter() - self._start
        if self._tell is not None:
            self._tell(self.what, self.done, self.total, seconds)
        rate = self.done / seconds if seconds > 0 else 1.0
        self._next = self.done + max(1, min(int(rate * _OFTEN), 100 * self.done + 1))

    def counted(
        self, function: Callable[..., Any], *, vectorized: bool = False
    ) -> Callable[..., Any]:
        """Wrap f(dataset), or f(dataset, size), so that its calls are counted; as it is if
        nothing is reported.
        """
        if not self.is_watched:
            return function

        def call(*given: Any) -> Any:
            try:
                return function(*given)
            finally:
                self.count(given[1] if vectorized else 1)

        call.__name__ = str(getattr(function, "__name__", repr(function)))
        # as functools.wraps has it: what the function remembers is still to be seen
        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call


class _Bar:
    """A line once it is clear that it takes long, then a bar."""

    def __init__(self, console: Console, advice: str) -> None:
        self._console, self._advice = console, advice
        self._bar: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int, seconds: float) -> None:
        """Show the progress, if the work takes long."""
        if self._bar is None:
            if not done or seconds < _MEASURED or seconds / done * total < LONG:
                return
            self._bar = self._start(what, seconds / done, total)
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def _start(self, what: str, call: float, total: int) -> RichProgress:
        text = (
            f"{what}: {in_words(call)} a call, so {total:,} calls take about "
            f"{in_words(call * total)}"
        )
        advice = f" ({self._advice})" if self._advice else ""
        self._console.print(f"{text}{advice}.", highlight=False, markup=False, soft_wrap=True)
        described = TextColumn("{task.description}", markup=False)
        columns = (described, BarColumn(), TimeRemainingColumn())
        bar = RichProgress(*columns, console=self._console, transient=True)
        bar.start()
        return bar

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def shown(progress: Progress, what: str, total: int, *, advice: str = "") -> Iterator[Meter]:
    """Give a meter that is shown as ``progress`` says, for as long as the block runs.

    advice: what else one can do, said with the time that it takes. Raises TypeError for another
    ``progress``, and what a function of progress raises, which ends the block.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            f"progress = {progress!r}; write True, False, None, or a function of (done, total)."
        )
    if callable(progress):
        meter = Meter(_telling(progress))
        meter.begin(what, total)
        try:
            yield meter
            meter.look()
        except CallbackFailed as failed:
            raise failed.error from None
        return
    console = Console(stderr=True)  # results go to standard output
    if progress is False or not (progress or console.is_terminal):
        yield Meter()
        return
    bar = _Bar(console, advice)
    meter = Meter(bar)
    meter.begin(what, total)
    try:
        yield meter
    finally:
        bar.stop()


def _telling(progress: Callable[[int, int], object]) -> Callable[[str, int, int, float], object]:
    def tell(_what: str, done: int, most: int, _seconds: float) -> None:
        try:
            progress(done, most)
        except Exception as error:
            raise CallbackFailed(error) from None

    return tell


def in_words(seconds: float) -> str:
    """Write a time as people say it: "2.1 ms", "45 s", "12 min", "3.5 h"."""
    for below, size, unit in (
        (1e-3, 1e-6, "us"),
        (1, 1e-3, "ms"),
        (120, 1, "s"),
        (7200, 60, "min"),
    ):
        if seconds < below:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


__all__ = ["LONG", "CallbackFailed", "Meter", "Progress", "in_words", "shown"]
