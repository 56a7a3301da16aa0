"""A progress bar on a terminal, with the time left; elsewhere nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(what: str = "counting friends") -> Iterator[Callable[[int, int], None]]:
    """Yield a function to give to a release: ``mean.release(data, progress=bar)``.

    For the data's owner: how fast it goes depends on the data.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show
