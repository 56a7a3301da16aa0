"""Large audits, in parts that run apart: the subject and each planted fault at once.

A part is plain data, as any unit, and its result the same as in one piece; the audit is judged
from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import mpmath as mp
import numpy as np

from dpverify.audit.parts import Given, OnePart, PartDone
from dpverify.suite.doing import results
from dpverify.suite.engines import Engine
from dpverify.suite.events import Outcome, UnitFinished, finished
from dpverify.suite.judges import (
    Options,
    Unit,
    audit_target,
    judge_audit,
    loaded_suite,
    rests_on,
    run_unit,
)
from dpverify.suite.resuming import keyed
from dpverify.suite.trees import Suite

LARGE = 10**9
"""Numbers that a large attack draws on the subject: a million draws in a thousand columns."""


@dataclass(frozen=True, slots=True)
class AuditPart:
    """One attack of an audit; number: as in ``dpverify.audit.parts``."""

    audit: str
    number: int
    kind: str = "audit"

    @property
    def name(self) -> str:
        """Name of the part for people, where it fails."""
        return f"{self.audit} part {self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class AuditOfParts:
    """Audit with the results of its parts, and the seconds that they took."""

    name: str
    parts: Mapping[int, Any]
    seconds: float
    kind: str = "audit"


def is_large(suite: Suite, unit: Unit, options: Options) -> bool:
    """Return whether draws times columns, over both sides of all pairs, reach LARGE. A bet on
    draws has no parts.
    """
    if unit.kind != "audit" or options.seconds is not None:
        return False
    if unit.name.partition(":")[0] in suite.boxes:
        return False
    _, attacked = audit_target(suite, unit.name)
    draws = 2 * int(options.extent(attacked.quick_trials)["trials"])
    sides = [np.shape(side) for pair in attacked.pairs for side in (pair.left, pair.right)]
    width = max((shape[1] for shape in sides if len(shape) > 1), default=1)
    return draws * len(attacked.pairs) * width >= LARGE


def unit_results(
    suite: Suite,
    units: Sequence[Unit],
    options: Options,
    do: Callable[[Unit, Any], UnitFinished],
    engine: Engine,
    known: Callable[[Unit], UnitFinished | None],
) -> Iterator[UnitFinished]:
    """Yield as ``results`` does, with large units in parts if there is more than one worker."""
    large = [
        unit
        for unit in units
        if engine.workers > 1 and is_large(suite, unit, options) and known(unit) is None
    ]
    parts = {part.name: part for unit in large for part in _parts(suite, unit, options)}
    if not parts:
        yield from results(units, options, do, engine, known)
        return
    done: dict[str, dict[int, UnitFinished]] = {unit.name: {} for unit in large}
    ordinary = [unit for unit in units if unit not in large]

    def earlier(unit: Unit | AuditPart) -> UnitFinished | None:
        return known(unit) if isinstance(unit, Unit) else None

    whole: list[Unit | AuditPart] = [*parts.values(), *ordinary]
    for one in results(whole, options, run_either, engine, earlier):
        if one.name in parts:
            part = parts[one.name]
            done[part.audit][part.number] = one
        else:
            yield one
    yield from results(
        [_joined(name, of) for name, of in done.items()], options, run_joined, engine
    )


def _parts(suite: Suite, unit: Unit, options: Options) -> list[AuditPart]:
    """List the subject's part, and one for each fault; where an oracle leaves faults out, the
    last parts have nothing to do.
    """
    _, attacked = audit_target(suite, unit.name)
    count = 1 + len(attacked.planted(thorough=options.thorough))
    return [AuditPart(unit.name, number) for number in range(count)]


def _joined(name: str, parts: Mapping[int, UnitFinished]) -> AuditOfParts:
    """Join the parts that gave a result. A part that failed is left out: it is done again, and
    fails for all to see.
    """
    given = {n: one.data["result"] for n, one in parts.items() if "result" in one.data}
    return AuditOfParts(name, given, sum(one.seconds for one in parts.values()))


def run_either(unit: Unit | AuditPart, options: Options) -> UnitFinished:
    """Do a whole unit, or one part of an audit."""
    if isinstance(unit, Unit):
        return run_unit(unit, options)
    start, data = perf_counter(), dict[str, Any]()
    try:
        with mp.workdps(options.digits):
            judge_audit(loaded_suite(options.suite), unit.audit, options, OnePart(unit.number))
    except PartDone as part:
        data = {"result": part.result}
    except Exception as error:
        data = {"failed": str(error)}
    said = Outcome.HELD, "DONE", ""
    return UnitFinished(unit.kind, unit.name, *said, seconds=perf_counter() - start, data=data)


def run_joined(unit: AuditOfParts, options: Options) -> UnitFinished:
    """Judge an audit whose parts are done."""
    suite, whole = loaded_suite(options.suite), Unit("audit", unit.name)

    def judge() -> Any:
        with mp.workdps(options.digits):
            return judge_audit(suite, unit.name, options, Given(unit.parts))

    done = finished("audit", unit.name, options.replay(whole), judge, asked="judged")
    done = replace(done, seconds=done.seconds + unit.seconds)
    return keyed(suite.root, done, options, rests_on(suite, unit.name))
