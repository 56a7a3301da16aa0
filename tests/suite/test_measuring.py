"""``audit --self-check`` and ``audit --power`` as units of one run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpverify.audit import Configuration, Fault, certificates
from dpverify.audit.audit_targets import AuditTarget
from dpverify.audit.cases import cases
from dpverify.audit.confidence_regions import ConfidenceRegion, Counted, confidence_region
from dpverify.audit.coverage import repeats_of
from dpverify.audit.power import Effort
from dpverify.cli import main
from dpverify.report.jsonl import JsonLines
from dpverify.suite import measuring
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Event, Outcome, RunFinished, UnitFinished
from dpverify.suite.judges import Unit, audit_target, audited_keys
from dpverify.suite.measuring import (
    MeasureOptions,
    chance_of_failing_all,
    coverage_units,
    measure_unit,
    power_units,
    run_measuring,
)
from dpverify.suite.trees import Suite, load

QUICK = MeasureOptions(seed=1, quick=True)
CASE = Unit("coverage", "a rare event")
COUNT = "noisy_count:replace:within"
SMALL = Effort(few=5000, many=5000, deficits=3, faults=2, again=0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "QUICK", SMALL)
    monkeypatch.setitem(measuring._SAMPLES, SMALL, 20_000)
    monkeypatch.setitem(measuring._COMPARED, SMALL, measuring._COMPARED[measuring.FULL][1:])


@pytest.fixture
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few repeats to tell a sound auditor's false alarms from a few too many."""
    monkeypatch.setattr(measuring, "repeats_of", lambda case, quick: 20)


def _careless(counted: Counted, share: int, alpha: float) -> ConfidenceRegion:
    return confidence_region(counted, share, 0.5)


# --- coverage -----------------------------------------------------------------------------------


def test_there_is_a_unit_for_every_case() -> None:
    units = coverage_units()
    assert {unit.name for unit in units} == set(cases())
    assert cases()[units[0].name].alpha < 0.05  # the longest first
    assert 0 < chance_of_failing_all(quick=False) <= 1e-3 * len(units)


@pytest.mark.usefixtures("shortly")
def test_a_sound_auditor_is_covered() -> None:
    """It fails with probability 1e-3 at most; the seed is fixed."""
    assert repeats_of(cases()[CASE.name], quick=True) == 200
    finished = measure_unit(CASE, QUICK)
    assert finished.outcome is Outcome.HELD
    assert finished.data["repeats"] == 20
    assert finished.data["alarms"] <= finished.data["limit"]
    assert (
        finished.replay == f"dpverify audit {shlex.quote(CASE.name)} --self-check --seed 1 --quick"
    )


@pytest.mark.usefixtures("shortly")
def test_a_broken_auditor_is_refuted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(certificates, "confidence_region", _careless)
    suite, written = load(), tmp_path / "events.jsonl"
    units = [Unit("coverage", "four values"), CASE]
    assert run_measuring(suite, units, QUICK, [JsonLines(written)], Serial()) == 1
    events = [json.loads(line) for line in written.read_text().splitlines()]
    assert events[0]["command"] == "self-check"
    assert [event["outcome"] for event in events[1:3]] == ["refuted", "refuted"]
    assert events[1]["data"]["alarms"] > events[1]["data"]["limit"]
    assert "epsilon" in events[1]["data"]["kinds"]


@pytest.mark.usefixtures("shortly")
def test_the_same_seed_gives_the_same_alarms() -> None:
    first, second = (measure_unit(CASE, QUICK) for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


@pytest.mark.usefixtures("shortly")
def test_after_an_interrupt_the_table_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    done = measure_unit

    def second_is_interrupted(unit: Unit, options: MeasureOptions) -> UnitFinished:
        if unit is not CASE:
            raise KeyboardInterrupt
        return done(unit, options)

    monkeypatch.setattr(measuring, "measure_unit", second_is_interrupted)
    events: list[Event] = []
    units = [CASE, Unit("coverage", "Laplace")]
    assert run_measuring(load(), units, QUICK, [events.append], Serial()) == 130
    assert [event.name for event in events if isinstance(event, UnitFinished)] == [CASE.name]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].interrupted


def test_what_goes_wrong_inside_is_invalid() -> None:
    finished = measure_unit(Unit("coverage", "no such case"), QUICK)
    assert finished.outcome is Outcome.INVALID
    assert "KeyError" in finished.summary


# --- power --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_power_of_a_configuration() -> None:
    finished = measure_unit(Unit("power", COUNT), QUICK)
    assert finished.outcome is Outcome.HELD, finished.summary
    assert finished.replay == f"dpverify audit {COUNT} --power --seed 1 --quick"
    data: Any = finished.data
    assert data["smallest_deficit"] is not None
    assert data["smallest_deficit"] <= 0.3
    assert {fault["name"] for fault in data["faults"]} >= {"count: scale x 0.7"}
    assert all(fault["seen"] == fault["tried"] == 2 for fault in data["faults"])
    (compared,) = data["oracle"]
    assert compared["factor"] <= 3
    assert compared["draws"] >= compared["oracle"]["draws"]
    json.dumps(data)
    text = "\n".join(finished.details)
    assert "seen 3 of 3" in text
    assert f"({compared['factor']:g} x)" in text


@pytest.mark.usefixtures("small")
def test_a_fault_that_cannot_be_seen_is_powerless(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load()
    whole = suite.configuration(COUNT)
    harmless = Fault("changes nothing", whole.mechanism.law)
    changed = Configuration(
        name=whole.name, mechanism=whole.mechanism, pairs=whole.pairs, faults=[harmless]
    )
    entry = replace(suite.entries["noisy_count"], configurations=(changed,))
    only = replace(suite, entries={"noisy_count": entry})
    monkeypatch.setattr(measuring, "_suite", lambda root: only)
    events: list[Event] = []
    assert run_measuring(only, power_units(only, []), QUICK, [events.append], Serial()) == 4
    (finished,) = [event for event in events if isinstance(event, UnitFinished)]
    assert finished.outcome is Outcome.POWERLESS
    (line,) = [line for line in finished.details if line.startswith("  changes nothing")]
    assert ": 2 of 2 (<= 1.00) at 5,000" in line


@pytest.mark.usefixtures("small")
def test_without_a_closed_law_nothing_is_known_of_an_oracle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One pair and no planted fault are enough for that."""

    def less(suite: Suite, key: str) -> tuple[Configuration, AuditTarget]:
        configuration, attacked = audit_target(suite, key)
        return configuration, replace(attacked, pairs=attacked.pairs[:1], only=frozenset(), own=())

    monkeypatch.setattr(measuring, "audit_target", less)
    finished = measure_unit(Unit("power", "rescaled_mean:add-remove:basic"), QUICK)
    assert finished.outcome is not Outcome.INVALID, finished.summary
    (compared,) = dict[str, Any](finished.data)["oracle"]
    assert not compared["closed"]
    assert compared["oracle"] is None
    assert "the law is not closed" in finished.details[-1]


def test_shares_of_a_first_stage_are_missing_where_they_are_attacked() -> None:
    suite, name = load(), "rescaled_mean:replace:weights"
    whole, first_stage = (audit_target(suite, key)[1] for key in (name, f"{name}:first-stage"))
    less = "agreement: scale x 0.7"
    assert less in {fault.name for fault in first_stage.planted()}
    assert less not in {fault.name for fault in whole.planted()}


def test_names_select_configurations() -> None:
    suite = load()
    assert {unit.name for unit in power_units(suite, [])} == set(audited_keys(suite))
    assert [unit.name for unit in power_units(suite, [COUNT])] == [COUNT]
    assert coverage_units([CASE.name]) == [CASE]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["noisy_count", "--self-check"], CASE.name),  # of the cases
        (["randomised response", "--self-check"], "did you mean randomized response"),
        (["--power", "--trials", "5000"], "leave"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 2
    assert advice in capsys.readouterr().err
