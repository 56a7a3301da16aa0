"""Large audits in parts: the same results as in one piece, whatever happens to a part."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpverify.suite import large
from dpverify.suite.doing import results
from dpverify.suite.engines import AnyUnit, Replays
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Outcome, UnitFinished, to_json
from dpverify.suite.judges import Options, Unit, certified_units, run_unit
from dpverify.suite.large import AuditPart, is_large, unit_results
from dpverify.suite.trees import Suite, load

NAMES = ("my_count:add-remove:within", "my_count:replace:within")
UNITS = [Unit("audit", name) for name in NAMES]


class _Sending(Serial):
    """An engine of two workers, to whom units and results are sent; ``lost`` parts come to
    nothing."""

    workers = 2

    def __init__(self, lost: Callable[[Any], bool] = lambda unit: False) -> None:
        self.begun, self.lost, self._lost = list[Any](), 0, lost

    def run(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[UnitFinished]:
        sent = pickle.loads(pickle.dumps(list(units)))
        self.begun += sent
        for done in super().run(sent, do, options):
            if self._lost(done.name):
                self.lost += 1
                done = replace(done, outcome=Outcome.INVALID, data={})
            yield pickle.loads(pickle.dumps(done))


@pytest.fixture
def suite(foreign: Path) -> Suite:
    return load(foreign)


def _options(suite: Suite, trials: int) -> Options:
    return Options(suite=suite.root, seed=4, trials=trials, audits=certified_units(suite))


def _unknown(unit: Unit) -> UnitFinished | None:
    return None


def _done(
    suite: Suite, options: Options, engine: Serial, units: Sequence[Unit] = UNITS
) -> list[UnitFinished]:
    return list(unit_results(suite, units, options, run_unit, engine, _unknown))


def _lines(finished: Iterable[UnitFinished]) -> list[str]:
    """Format as --jsonl writes them, but for the time."""
    plain = [to_json(replace(one, seconds=0.0)) for one in finished]
    return sorted(json.dumps(one, sort_keys=True) for one in plain)


@pytest.mark.parametrize(
    ("trials", "lost", "units"), [(300, None, UNITS[:1]), (2000, 0, UNITS), (300, 1, UNITS[1:])]
)
def test_parts_that_run_apart_give_what_one_piece_gives(
    suite: Suite,
    trials: int,
    lost: int | None,
    units: list[Unit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare also where a part is lost, and (300 draws) where faults are missed, or caught with
    more draws alone."""
    options, engine = _options(suite, trials), _Sending(lambda name: name.endswith(f"part {lost}"))
    finished = list(results(units, options, run_unit, Serial()))
    if lost is None:
        assert _lines(_done(suite, options, _Sending(), units)) == _lines(finished)  # not large
    monkeypatch.setattr(large, "LARGE", 1)
    assert _lines(_done(suite, options, engine, units)) == _lines(finished)
    parts = [unit for unit in engine.begun if isinstance(unit, AuditPart)]
    assert len(parts) == len(units) + sum(len(one.data["faults"]) for one in finished)
    assert len(engine.begun) == len(parts) + len(units)
    assert engine.lost == (0 if lost is None else len(units))


def test_an_audit_is_judged_from_its_parts(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that says that a fault was missed makes it POWERLESS: nothing is done twice."""
    monkeypatch.setattr(large, "LARGE", 1)
    right = large.run_either

    def forged(unit: Any, options: Options) -> UnitFinished:
        done = right(unit, options)
        if isinstance(unit, AuditPart) and unit.number == 1:
            missed = replace(done.data["result"], caught=False, needs=math.inf)
            return replace(done, data={"result": missed})
        return done

    monkeypatch.setattr(large, "run_either", forged)
    finished = _done(suite, _options(suite, 2000), _Two())
    assert {one.verdict for one in finished} == {"POWERLESS"}


class _Two(Serial):
    """Two workers that nothing is sent to."""

    workers = 2


def test_what_is_large_is_a_matter_of_draws_times_columns(suite: Suite) -> None:
    options = _options(suite, large.LARGE // 2)
    assert is_large(suite, UNITS[0], options)
    assert not is_large(suite, UNITS[0], replace(options, seconds=5.0))
    assert not is_large(suite, UNITS[0], replace(options, trials=10_000))
    assert not is_large(suite, Unit("exhibit", "exhibits/x"), options)
