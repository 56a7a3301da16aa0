"""Engine without workers: one unit after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import threadpoolctl

from dpverify.suite.engines import AnyUnit, Replays, crashed
from dpverify.suite.events import UnitFinished


class Serial:
    """Engine whose units are done here, in the given order."""

    workers = 1

    def run(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[UnitFinished]:
        """Do one unit after another, with linear algebra in one thread, as workers have it."""
        with threadpoolctl.threadpool_limits(1):
            for unit in units:
                try:
                    done = do(unit, options)
                except Exception as error:
                    done = crashed(unit, options, error)
                yield done

    def __enter__(self) -> Serial:
        """Return the engine."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: nothing was started."""
