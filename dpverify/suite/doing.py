"""Execution of units by an engine, except those that an earlier run did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpverify.suite.engines import AnyUnit, Engine, Replays
from dpverify.suite.events import UnitFinished
from dpverify.suite.times import Times


def results(
    units: Sequence[AnyUnit],
    options: Replays[AnyUnit],
    do: Callable[[AnyUnit, Any], UnitFinished],
    engine: Engine,
    known: Callable[[AnyUnit], UnitFinished | None] = lambda unit: None,
) -> Iterator[UnitFinished]:
    """Yield the known results, then those of all other units, done by the engine with ``do``, a
    function of a module. Several workers begin with the units that were slow last time, so that
    none of them waits at the end.
    """
    earlier = {unit: result for unit in units if (result := known(unit)) is not None}
    yield from earlier.values()
    units, times = [unit for unit in units if unit not in earlier], Times()
    ordered = units if engine.workers == 1 else times.slow_first(units, options)
    try:
        for result in engine.run(ordered, do, options):
            times.took(result)
            yield result
    finally:
        times.save()
