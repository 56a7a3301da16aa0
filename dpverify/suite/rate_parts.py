"""Rates and experiments in parts, measured apart, in any order and on any machine, and judged
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpverify.suite.doing import results
from dpverify.suite.engines import Engine
from dpverify.suite.events import UnitFinished
from dpverify.suite.experimenting import (
    CellPart,
    ExperimentJudge,
    experiment_names,
    key_of_cell,
    known_cell,
    run_cell,
    units_of,
)
from dpverify.suite.rating import (
    RateJudge,
    RateOptions,
    RatePart,
    key_of_part,
    known_point,
    rate_names,
    run_part,
)
from dpverify.suite.trees import Suite

Part = RatePart | CellPart


class Rates:
    """Rates and experiments that some names select; no names: all."""

    def __init__(self, suite: Suite, names: Sequence[str], options: RateOptions) -> None:
        rates, experiments = rate_names(suite, names), experiment_names(suite, names)
        self._suite, self._options = suite, options
        self._experiments = [ExperimentJudge(suite, key, options) for key in experiments]
        self._judges: list[RateJudge | ExperimentJudge] = [
            *(RateJudge(suite, rate, options) for rate in rates),
            *self._experiments,
        ]
        self.units = len(rates) + units_of(suite, experiments, options)

    @property
    def parts(self) -> list[Part]:
        """All parts to measure."""
        return [part for judge in self._judges for part in judge.parts]

    def measured(
        self,
        parts: Sequence[Part],
        engine: Engine,
        known: Mapping[str, Mapping[str, Any]],
    ) -> Iterator[UnitFinished]:
        """Yield each part as it finishes, those that are ``known``, by key, first."""

        def earlier(part: Part) -> UnitFinished | None:
            data = known.get(self._key(part)) if known else None
            if data is None:
                return None
            if isinstance(part, RatePart):
                return known_point(part, self._options, data)
            return known_cell(part, self._options, data)

        return results(parts, self._options, run_either, engine, earlier)

    def judged(self, done: Iterable[UnitFinished]) -> Iterator[UnitFinished]:
        """Yield each part, and after it everything that can be judged then; a rate without all
        of its parts is not judged.
        """
        of = {part.name: judge for judge in self._judges for part in judge.parts}
        for experiment in self._experiments:
            yield from experiment.begin()
        for part in done:
            yield part
            yield from of[part.name].take(part)

    def _key(self, part: Part) -> str:
        if isinstance(part, RatePart):
            return key_of_part(self._suite, part, self._options)
        return key_of_cell(self._suite, part, self._options)


def run_either(part: Part, options: RateOptions) -> UnitFinished:
    """Measure a part of a rate or of an experiment."""
    return run_part(part, options) if isinstance(part, RatePart) else run_cell(part, options)
