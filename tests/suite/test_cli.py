"""The command line: exit codes, replay lines, the event stream, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dpverify.cli import main
from dpverify.report.page import page
from dpverify.suite.events import Outcome, RunStarted, UnitFinished, exit_code, to_json
from dpverify.suite.judges import audited_keys, traced_keys
from dpverify.suite.stored import read
from dpverify.suite.trees import load

_HERE = ("--workers", "1")
"""No processes besides this one: each would import everything again."""
_KINDS = ("jsonl", "junit", "report")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_exit_codes_by_precedence() -> None:
    held, refuted, weak, invalid = (
        Outcome.HELD,
        Outcome.REFUTED,
        Outcome.POWERLESS,
        Outcome.INVALID,
    )
    assert exit_code([held, refuted, weak, invalid]) == 3
    assert exit_code([held, refuted, weak]) == 1
    assert exit_code([held, weak]) == 4
    assert exit_code([]) == 5
    assert exit_code([held]) == 0


@pytest.mark.parametrize(
    "command", ["audit", "prove", "list", "explain", "papers", "claims", "report"]
)
def test_help_shows_exit_codes_and_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"example: dpverify {command}" in printed
    assert "130  stopped by Ctrl-C" in printed


def test_list_shows_every_configuration_and_exhibit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    suite = load()
    for key in [*suite.configurations, *(f"exhibits/{name}" for name in suite.exhibits)]:
        assert key in printed
    for ending in (":first-stage", ":friendly-core", ":traced"):
        assert f"CONFIGURATION{ending}" in printed
        assert any(key.endswith(ending) for key in [*audited_keys(suite), *traced_keys(suite)])


@pytest.mark.parametrize(("given", "meant"), [("prov", "prove"), ("lists", "list")])
def test_an_unknown_command_is_wrong_usage_with_the_nearest_one(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([given])
    assert ended.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_an_unknown_command_like_no_other_is_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for wrong in (["xyzzy"], ["audit", "--trials", "prov"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2
        assert "did you mean" not in capsys.readouterr().err


def test_an_unknown_name_is_wrong_usage_with_the_nearest_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("audit", "prove", "explain"):
        assert main([command, "bounded_maen"]) == 2
        assert "did you mean bounded_mean" in capsys.readouterr().err


def test_a_name_like_no_other_is_sent_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "nothing"]) == 2
    said = "there is no 'nothing'; see `dpverify list`, with --suite PATH for a suite of your own."
    assert capsys.readouterr().err == f"dpverify: {said}\n"


def test_an_unknown_option_is_wrong_usage_with_the_nearest_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for given, said in (
        ("--quik", "did you mean --quick?"),
        ("--zzz", "see `dpverify audit --help`"),
        ("--html=FILE", "no --html=FILE; did you mean --report?"),
        ("--output", "did you mean --report?"),
        ("--seeds", "did you mean --seed?"),
        ("--n", "did you mean --trials?"),
        ("--jobs", "did you mean --workers?"),
        ("--alpha", "audit(..., alpha=) in Python"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["audit", given])
        assert ended.value.code == 2
        printed = capsys.readouterr().err
        assert "usage: dpverify audit" in printed
        assert said in printed


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], [], ["audit", "--trials", "0"], ["audit", "--seed", "-1"],
     ["audit", "--seed", "x"],
     ["audit", "--quick", "--trials", "500"],
        ["audit", "--trials", "99"],
        ["prove", "--digits", "29"], ["explain"]],
)  # fmt: skip
def test_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_few_trials_are_powerless(capsys: pytest.CaptureFixture[str]) -> None:
    unit = "sparse_vector:add-remove:chosen-by-answers"
    assert main(["audit", unit, "--trials", "280", "--seed", "1", *_HERE]) == 4
    assert "missed fault: report 1: scale x 0.7" in capsys.readouterr().out


def test_trials_that_can_show_nothing_are_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "noisy_count:replace:within", "--trials", "100", "--seed", "1"]) == 3
    printed = capsys.readouterr().out
    assert "trials = 100 can refute pure(2) at alpha" in printed
    assert "give at least" in printed


def test_a_violation_leaves_a_witness(tmp_path: Path) -> None:
    folder, command = tmp_path / "found", "exhibits/count_silent_when_empty"
    assert (
        main(["audit", command, "--trials", "2000", "--seed", "1", "--evidence", str(folder)]) == 0
    )
    (file,) = folder.iterdir()
    assert file.name == "exhibits-count_silent_when_empty.json"
    assert file.stat().st_size < 10_000
    checker = Path(__file__).parents[2] / "spec" / "theory" / "check_witness.py"
    checked = subprocess.run(
        [sys.executable, str(checker), str(file)], capture_output=True, text=True
    )
    assert checked.returncode == 0
    assert "refutes it at level" in checked.stdout


def test_a_time_limit_bets_until_it_is_refuted_or_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "exhibits/count_silent_when_empty", "--time", "20s", "--seed", "1"]) == 0
    assert "VIOLATED, as it should be" in capsys.readouterr().out
    for wrong in ("20", "0s", "-1m", "1d"):
        with pytest.raises(SystemExit) as ended:
            main(["audit", "--time", wrong])
        assert ended.value.code == 2


def test_a_suite_without_trees_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("list", "audit", "prove", "claims"):
        assert main([command, "--suite", str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"dpverify: {tmp_path} is no suite: it has no folder audits/")


def test_a_folder_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--suite", "/no/such/folder"]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_what_crashes_is_no_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr("dpverify.cli.statements", broken)
    assert main(["papers"]) == 3


def test_a_closed_pipe_is_not_all_held(foreign: Path) -> None:
    """Fail: what reads our output goes away before the first line: no verdict was given to
    anybody."""
    command = [sys.executable, "-u", "-m", "dpverify", "prove", "my_count", "--suite", str(foreign)]
    process = subprocess.Popen(
        [*command, *_HERE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 3
    assert errors == ""


def test_theory_and_exhibits_have_names_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "theory/queries", "samplers", *_HERE]) == 0
    assert "every retry followed" in capsys.readouterr().out
    assert main(["explain", "exhibits/count_silent_when_empty"]) == 0
    assert "false, because on empty data" in capsys.readouterr().out
    assert main(["explain", "bounded_mean"]) == 0
    assert "departs from K19" in capsys.readouterr().out


def test_events_are_json_lines_and_say_what_the_terminal_says(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    arguments = ["noisy_count", "exhibits/count_silent_when_empty", "--seed", "3"]
    arguments += [part for kind in _KINDS for part in (f"--{kind}", str(tmp_path / f"out.{kind}"))]
    assert main(["audit", *arguments, "--trials", "20000", *_HERE]) == 0
    events = _lines(file)
    assert [e["event"] for e in events] == ["run-started", *["unit-finished"] * 5, "run-finished"]
    assert events[0]["seed"] == 3
    assert events[0]["alpha"] == 1e-6
    assert events[-1]["exit_code"] == 0
    assert events[-1]["counts"] == {"held": 5}
    for event in events[1:-1]:
        assert event["data"]["faults"] or event["kind"] == "exhibit"
        assert event["data"]["alpha"] * len(load().configurations) < 1e-6
    assert (tmp_path / "out.report").read_text(encoding="utf-8") == page(read(file).events)
    assert (tmp_path / "out.junit").read_text(encoding="utf-8").count("<testcase ") == 5


def test_events_carry_infinities_as_strings() -> None:
    finished = UnitFinished("audit", "x", Outcome.HELD, "v", "s", data={"epsilon": float("inf")})
    assert to_json(finished)["outcome"] == "held"
    assert to_json(RunStarted("audit", "0", "s", 1, 1, 0.0))["event"] == "run-started"


def test_the_replay_line_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, first, again = "randomized_response:replace:yes-no", tmp_path / "1", tmp_path / "2"
    assert main(["audit", "randomized_response", "--trials", "300", "--seed", "9",
                 "--jsonl", str(first), *_HERE]) == 4  # fmt: skip
    (line,) = re.findall(rf"replay: dpverify (audit {key} .*)", capsys.readouterr().out)
    assert main([*line.split(), "--jsonl", str(again), *_HERE]) == 4
    of = {e["name"]: e["data"] for e in _lines(first) if e["event"] == "unit-finished"}
    assert [e["data"] for e in _lines(again) if e.get("name") == key] == [of[key]]


def test_explain_shows_long_fractions_briefly_and_in_full_where_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = str(load().configurations["clipped_mean:replace:ball"].mechanism.composed)
    assert main(["explain", "clipped_mean:replace:ball"]) == 0
    printed = capsys.readouterr().out
    assert long not in printed
    assert "gaussian(0.236704...) under replace" in printed
    assert main(["explain", "clipped_mean:replace:ball", "--exact"]) == 0
    assert long in capsys.readouterr().out


def test_explain_takes_every_name_that_audit_takes(capsys: pytest.CaptureFixture[str]) -> None:
    core = "rescaled_mean:add-remove:basic:friendly-core"
    assert main(["explain", core]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{core}\n\n")
    assert "under friendly add-remove" in printed.splitlines()[2]
    for ending, keys in ((":first-stage", audited_keys), (":traced", traced_keys)):
        key = next(key for key in keys(load()) if key.endswith(ending))
        assert main(["explain", key]) == 0
        assert capsys.readouterr().out.startswith(key.removesuffix(":traced"))


def test_prove_explain_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "noisy_count", "-v", *_HERE]) == 0
    assert "largest exact loss 0.5" in capsys.readouterr().out
    assert main(["explain", "bounded_mean:add-remove:height"]) == 0
    assert "lemmas it rests on" in capsys.readouterr().out
    assert main(["papers"]) == 0
    shown = capsys.readouterr().out
    assert "refuted" in shown
    assert "(in Coq: discrete_laplace_mechanism; the rest in prose)" in shown
    assert "discrete_gaussian (proved in prose)" in shown


def _listen_to_ctrl_c() -> None:
    """A background job of a shell starts with Ctrl-C ignored, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("workers", "sent", "code", "said"),
    [
        ("1", signal.SIGINT, 130, "Stopped; what is above is valid."),
        ("2", signal.SIGTERM, 143, "Stopped by SIGTERM; what is above is valid."),
    ],
)
def test_a_run_that_is_stopped_leaves_a_valid_partial_report_and_nothing_else(
    foreign: Path, tmp_path: Path, workers: str, sent: signal.Signals, code: int, said: str
) -> None:
    """Three audits finish, and then an exhibit waits for ten minutes."""
    exhibits, file = foreign / "audits" / "exhibits", tmp_path / "partial.jsonl"
    exhibits.mkdir()
    ours = Path(__file__).parents[2] / "audits" / "exhibits" / "count_silent_when_empty.py"
    text = ours.read_text(encoding="utf-8")
    waiting = text.replace(
        "    if len(data) == 0:", "    __import__('time').sleep(600)\n    if len(data) == 0:"
    )
    assert waiting != text
    (exhibits / "count_that_waits.py").write_text(waiting, encoding="utf-8")
    command = [sys.executable, "-m", "dpverify", "audit", "--seed", "1", "--workers", workers]
    process = subprocess.Popen(
        [*command, "--trials", "20000", "--jsonl", str(file), "--suite", str(foreign),
         "--junit", str(tmp_path / "partial.xml"), "--report", str(tmp_path / "partial.html")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=_listen_to_ctrl_c,
    )  # fmt: skip
    _wait_for(file, "unit-finished")
    process.send_signal(sent)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "")  # no complaint of a leaked semaphore, say
    assert said in printed
    _wait_for_the_end_of_group(process.pid)
    events = _lines(file)
    assert events[-1]["event"] == "run-finished"
    assert events[-1]["interrupted"] is True
    assert sum(events[-1]["counts"].values()) == len(events) - 2 >= 1
    cases = ElementTree.parse(tmp_path / "partial.xml").getroot().iter("testcase")
    assert len(list(cases)) == len(events) - 2
    assert "Stopped before its end" in (tmp_path / "partial.html").read_text(encoding="utf-8")


def _wait_for_the_end_of_group(process: int) -> None:
    """Until neither it nor any of its workers is left."""
    for _ in range(200):
        try:
            os.killpg(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("a process is left")


def _wait_for(file: Path, text: str) -> None:
    for _ in range(6000):
        if file.exists() and text in file.read_text(encoding="utf-8"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{text!r} did not appear in {file}")
