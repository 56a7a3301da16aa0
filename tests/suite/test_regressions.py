"""``dpverify compare``: what got worse from one run to another is seen, named, and failed where it
is not allowed."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpverify.cli import main
from dpverify.report.jsonl import JsonLines
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from dpverify.suite.reporting import PART

STARTED = RunStarted("audit", "1.0", "suite", 7, 2, 1e-6)
FINISHED = RunFinished(0, {"held": 2}, 3.0, False)
DATA = {
    "guarantee": "approx(1, 1e-6)",
    "adjacency": "add-remove",
    "trials": 1000,
    "epsilon": 0.8,
    "mu": 0.9,
    "faults": [{"name": "noise dropped"}, {"name": "scale x 0.5"}],
}
SUM = UnitFinished("audit", "sum", Outcome.HELD, "CONSISTENT", "", seconds=2.0, data=DATA)
PROOF = UnitFinished("obligation", "sum:obligation_loss", Outcome.HELD, "HOLDS", "", seconds=1.0)
RATE = UnitFinished(
    "rate", "sum:n", Outcome.HELD, "HELD", "", seconds=1.0,
    data={"points": [{"value": v, "measured": m} for v, m in ((10, 4.0), (100, 2.0))]},
)  # fmt: skip

NOISE = UnitFinished(
    "calibration", "test_noise", Outcome.HELD, "CONSISTENT", "", data={"claim": "approx(1, 1e-6)"}
)  # of a test suite: ``--dp-report``


def _run(*units: UnitFinished, started: RunStarted = STARTED, ended: bool = True) -> list[Event]:
    return [started, *units, *[FINISHED] * ended]


def _write(path: Path, events: list[Event]) -> Path:
    consumer = JsonLines(path)
    for event in events:
        consumer(event)
    if not isinstance(events[-1], RunFinished):
        os.close(consumer._file)
    return path


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the exit code and what is printed, lines by lines and cells by cells."""

    def run(old: list[Event], new: list[Event], *fail: str) -> tuple[int, list[list[str]]]:
        files = [_write(tmp_path / name, run) for name, run in (("old", old), ("new", new))]
        limits = [word for limit in fail for word in ("--fail", limit)]
        code = main(["compare", *map(str, files), *limits])
        printed = capsys.readouterr()
        assert not printed.err
        return code, [re.split(r" {2,}", line) for line in printed.out.splitlines()]

    return run


def _with(**data: Any) -> UnitFinished:
    return replace(SUM, data={**DATA, **data})


def test_a_run_is_no_worse_than_itself(compare: Any) -> None:
    unknown = replace(RATE, name="unknown", data={"points": [{"value": 1, "measured": math.nan}]})
    run = _run(SUM, PROOF, RATE, NOISE, unknown)
    for fail in ([], ["epsilon:0%", "delta:0%", "certified:0%", "error:0%", "seconds:0%"]):
        code, lines = compare(run, run, *fail)
        assert code == 0
        assert len(lines) == 1
        assert lines[0][0].startswith("nothing got worse")


WORSE: list[tuple[UnitFinished, UnitFinished, tuple[str, ...], list[str]]] = [
    (SUM, _with(guarantee="approx(1.1, 1e-6)"), (), ["epsilon", "1", "1.1", "+10.0%; 0% allowed"]),
    (SUM, _with(guarantee="approx(1.1, 1e-6)"), ("epsilon:5%",),
     ["epsilon", "1", "1.1", "+10.0%; 5% allowed"]),
    (SUM, _with(guarantee="approx(1, 2e-6)"), (),
     ["delta", "1e-06", "2e-06", "+100.0%; 0% allowed"]),
    (SUM, _with(guarantee="approx(1, 2e-6)"), ("epsilon:5%",),
     ["epsilon", "1", "inf", "infinitely more; 5% allowed"]),
    (SUM, _with(guarantee="approx(1.1, 1e-6)"), ("seconds:50%",),
     ["epsilon", "1", "1.1", "0% allowed"]),
    (SUM, _with(guarantee="zcdp(1)"), ("epsilon:50%",), ["epsilon", "1", "", "50% allowed"]),
    (_with(guarantee="gaussian(1)"), _with(guarantee="gaussian(1.2)"), ("epsilon:10%",),
     ["epsilon", "", "", ""]),
    (SUM, _with(guarantee="no guarantee"), (), ["result", "cannot be compared"]),
    (SUM, _with(guarantee=None), (), ["result", "cannot be compared"]),
    (SUM, _with(adjacency="replace"), (), ["adjacency", "add-remove", "replace"]),
    (SUM, _with(epsilon=0.99), ("certified:10%",),
     ["certified", "0.8", "0.99", "+23.7%; 10% allowed"]),
    (SUM, _with(epsilon=math.inf), ("certified:10%",),
     ["certified", "0.8", "inf", "infinitely more; 10% allowed"]),
    (SUM, _with(epsilon="much"), ("certified:10%",), ["result", "cannot be compared"]),
    (SUM, _with(epsilon=math.nan), ("certified:10%",), ["result", "cannot be compared"]),
    (SUM, _with(guarantee="pure(1e400)"), (), ["result", "cannot be compared"]),
    (NOISE, replace(NOISE, data={"claim": "approx(5, 1e-6)"}), (),
     ["epsilon", "1", "5", "0% allowed"]),
    (RATE, replace(RATE,
        data={"points": [{"value": 10, "measured": math.nan}, {"value": 100, "measured": 9.0}]}),
     ("error:20%",), ["result", "cannot be compared"]),
    (_with(guarantee="gaussian(1)"), _with(guarantee="gaussian(1)", mu=1.0), ("certified:10%",),
     ["certified", "0.9", "1", "+11.1%; 10% allowed"]),
    (SUM, replace(SUM, outcome=Outcome.POWERLESS, verdict="POWERLESS"), (),
     ["verdict", "CONSISTENT", "POWERLESS"]),
    (SUM, replace(SUM, outcome=Outcome.REFUTED, verdict="VIOLATED"), ("seconds:900%",),
     ["verdict", "CONSISTENT"]),
    (SUM, replace(SUM, outcome=Outcome.INVALID, verdict="INVALID", data={}), (),
     ["verdict", "CONSISTENT", "INVALID"]),
    (PROOF, replace(PROOF, outcome=Outcome.REFUTED, verdict="FALSE"), (),
     ["verdict", "HOLDS", "FALSE"]),
    (SUM, replace(SUM, seconds=3.5), ("seconds:50%",),
     ["seconds", "2", "3.5", "+75.0%; 50% allowed"]),
    (RATE, replace(RATE,
        data={"points": [{"value": 10, "measured": 4.0}, {"value": 100, "measured": 2.5}]}),
     ("error:20%",), ["error", "2", "2.5", "+25.0%; 20% allowed"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "fail", "said"), WORSE)
def test_what_got_worse_fails(
    compare: Any, old: UnitFinished, new: UnitFinished, fail: tuple[str, ...], said: list[str]
) -> None:
    other = replace(SUM, name="other")
    code, lines = compare(_run(other, old), _run(other, new), *fail)
    assert code == 1
    failed = [line for line in lines if line[0] == "FAIL"]
    assert {line[1] for line in failed} == {f"{new.kind} {new.name}"}
    (line,) = [line[2:] for line in failed if line[2] == said[0]]
    for cell, part in zip(line, said, strict=False):
        assert all(word in cell for word in part.split())
    many = "1 regression" if len(failed) == 1 else f"{len(failed)} regressions"
    assert lines[-1][0].startswith(f"{many} from ")


ALLOWED: list[tuple[UnitFinished, tuple[str, ...], set[str]]] = [
    (_with(guarantee="approx(1.05, 1e-6)"), ("epsilon:5%",), {"worse"}),
    (_with(guarantee="approx(0.9, 1e-6)"), (), {"better"}),
    (_with(guarantee="pure(1)"), (), {"better"}),
    (_with(epsilon=0.99), (), set()),
    (_with(epsilon=0.88), ("certified:10%",), {"worse"}),
    (_with(epsilon=0.7), ("certified:0%",), {"better"}),
    (_with(trials=4000), (), {"note"}),
    (_with(bound="100"), (), {"note"}),
    (_with(faults=[{"name": "noise dropped"}]), (), {"note"}),
    (replace(SUM, seconds=3.0), ("seconds:50%",), {"worse"}),
    (replace(SUM, seconds=300.0), (), set()),
]


@pytest.mark.parametrize(("new", "fail", "marks"), ALLOWED)
def test_what_is_allowed_or_better_is_shown_and_passes(
    compare: Any, new: UnitFinished, fail: tuple[str, ...], marks: set[str]
) -> None:
    code, lines = compare(_run(SUM), _run(new), *fail)
    assert code == 0
    assert {line[0] for line in lines[1:-1]} == marks


def test_a_profile_is_compared_everywhere(compare: Any) -> None:
    """Two Gaussians may have one epsilon at a point, and a pure claim beside them."""
    old = [_run(_with(guarantee="gaussian(0.5)")), _run(_with(guarantee="pure(3)"))]
    code, lines = compare(old[0], old[1])
    assert code == 1
    assert ["claim", "gaussian(0.5)", "pure(3)", "promises less somewhere"] in [
        line[2:] for line in lines
    ]
    code, lines = compare(old[0], _run(_with(guarantee="gaussian(0.4)")))
    assert code == 0


def test_units_of_one_run_only_are_named(compare: Any) -> None:
    code, lines = compare(_run(SUM, PROOF), _run(SUM, RATE))
    assert code == 1
    assert ["FAIL", "obligation sum:obligation_loss", "unit", "HOLDS", "-", "gone"] in lines
    assert ["new", "rate sum:n", "unit", "-", "HELD"] in lines
    code, lines = compare(_run(SUM), _run(SUM, RATE))
    assert code == 0


def test_runs_that_differ_as_wholes_say_so(compare: Any) -> None:
    other = replace(STARTED, version="2.0", seed=8)
    part = UnitFinished(PART, "a part", Outcome.HELD, "HELD", "")
    code, lines = compare(_run(SUM, part), _run(SUM, started=other, ended=False))
    assert code == 0
    assert [line[2:] for line in lines[1:-1]] == [
        ["version", "1.0", "2.0"],
        ["seed", "7", "8"],
        ["end", "NEW was stopped before its end"],
    ]


def test_wrong_usage_and_files_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = _write(tmp_path / "good", _run(SUM))
    twice = _write(tmp_path / "twice", _run(SUM, SUM))
    other = _write(tmp_path / "other", _run(PROOF))
    empty = _write(tmp_path / "empty", _run())
    (tmp_path / "corrupt").write_text('{"event": "unit-finished"}\n[]\n', encoding="utf-8")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for old, new, said in (
        (good, twice, "NEW has two results of audit sum"),
        (good, other, "none of OLD's is in NEW"),
        (empty, good, "OLD has 0 finished units"),
        (good, tmp_path / "corrupt", "corrupt:1 is no event"),
        (good, tmp_path / "bytes", "give a file that --jsonl wrote"),
        (good, tmp_path / "none", "none cannot be read: No such file"),
        (tmp_path, good, "cannot be read: Is a directory"),
    ):
        assert main(["compare", str(old), str(new)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert main(["compare", str(good), str(good), *["--fail", "epsilon:5%"] * 2]) == 2
    for limit in ("epsilon", "epsilon:5", "epsilon:-5%", "speed:5%", "epsilon:x%"):
        with pytest.raises(SystemExit) as ended:
            main(["compare", str(good), str(good), "--fail", limit])
        assert ended.value.code == 2
        assert "is no limit; write epsilon:5%" in capsys.readouterr().err
