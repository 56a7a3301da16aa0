"""The pytest plugin, in runs of pytest within these tests: what fails, what it says, and what is
reported.

Seeds follow from names, so each run is the same every time. A run is checked by ``_check``, and
every mistake that is planted in the plugin must make that check fail.
"""

from __future__ import annotations

import hashlib
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import _dpverify_pytest
from dpverify.testing import Finding
from tests.inner_runs import FAST, ROOT, inner, lines_of, run, units_of

__all__ = ["inner"]  # a fixture
pytest_plugins = "pytester"
FACTS = ("claim", "seen", "pair", "chance", "replay")
AUDITS = """
    import random
    from dpverify import ApproxDP, PureDP
    from dpverify.audit import added

    coins = random.Random(0)
    PAIRS = [added("somebody enters", [], 1.0)]

    def noisy(data):  # epsilon = log 3
        return coins.random() < (0.75 if len(data) else 0.25)

    def leaky(data):  # epsilon = log 99
        return coins.random() < (0.99 if len(data) else 0.01)

    def test_leaky(audited):
        audited(leaky, claim=PureDP(2), pairs=PAIRS, trials=400)

    def test_sound(audited):
        audited(noisy, claim=PureDP(2), pairs=PAIRS, faults=[leaky], trials=400)

    def test_out_of_reach(audited):
        claim = ApproxDP(2, "1e-12")
        audited(noisy, claim=claim, pairs=PAIRS, faults=[leaky], trials=400)

    def as_noisy(data):
        return noisy(data)

    def test_missed(audited):
        audited(noisy, claim=PureDP(2), pairs=PAIRS, faults=[leaky, as_noisy], trials=400)
"""


def _check(inner: pytest.Pytester, *options: str) -> dict[str, Any]:
    """Hold a run of FAST against what is promised: failures, their facts, the report, JUnit XML,
    seeds."""
    inner.makepyfile(test_fast=FAST)
    result, lines = run(inner, *options)
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        ["dpverify: 1 CONSISTENT, 1 INVALID, 2 VIOLATED, 2 nothing found; *"]
    )
    assert [line["event"] for line in lines] == [
        "run-started",
        *["unit-finished"] * 6,
        "run-finished",
    ]
    assert lines[0]["units"] == 6
    assert lines[-1]["exit_code"] == 3  # one is invalid
    units = units_of(lines)
    ends = {name.partition("::")[2]: unit["outcome"] for name, unit in units.items()}
    assert ends == {
        "test_calibrated": "held",
        "test_too_little_noise": "refuted",
        "test_of_a_fixture": "held",
        "test_several": "held",
        "test_several#2": "refuted",
        "test_raising": "invalid",
    }
    shown = result.stdout.str()
    properties = _properties(inner.path / "junit.xml")
    for name, unit in units.items():
        test, _, number = name.partition("#")
        facts = unit["data"]["facts"]
        assert tuple(facts) == FACTS
        assert facts["replay"].startswith(f"pytest {shlex.quote(test)}")
        assert ("--dp-seed" in facts["replay"]) == (unit["kind"] != "calibration")
        at = number and f"#{number}"
        known = properties.get(test.rpartition("::")[2], {})
        assert known.get(f"dpverify.verdict{at}") == unit["verdict"]
        for fact in FACTS:
            assert known.get(f"dpverify.{fact}{at}") == facts[fact]
            if unit["outcome"] != "held":
                assert re.search(rf"^E +{fact} +{re.escape(facts[fact])}$", shown, re.MULTILINE)
    again = units_of(run(inner, *options)[1])
    assert [unit["replay"] for unit in again.values()] == [one["replay"] for one in units.values()]
    return units


def _properties(path: Path) -> dict[str, dict[str, str]]:
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return {
        case.attrib["name"]: {
            one.attrib["name"]: one.attrib["value"] for one in case.iter("property")
        }
        for case in cases
    }


def test_a_run_keeps_its_promises(inner: pytest.Pytester) -> None:
    _check(inner)


class _ForgetsEvents(_dpverify_pytest.AuditedTest):
    def take_events(self) -> list[dict[str, Any]]:
        return []


class _OtherSeeds(_dpverify_pytest.AuditedTest):
    def seed(self, given: int | None) -> int:
        return random.SystemRandom().randrange(2**32)


class _NoSeedInReplay(_dpverify_pytest.AuditedTest):
    def replay(self, seed: int | None) -> str:
        return super().replay(None)


class _RecordsTheFirst(_dpverify_pytest.AuditedTest):
    def record(self, finding: Finding) -> None:
        if not self._audits:
            super().record(finding)


class _Unstated(Finding):
    def __str__(self) -> str:
        return self.verdict


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a seed that changes from run to run": lambda patch: patch.setattr(
        _dpverify_pytest, "AuditedTest", _OtherSeeds
    ),
    "a replay line without the seed": lambda patch: patch.setattr(
        _dpverify_pytest, "AuditedTest", _NoSeedInReplay
    ),
    "events that are lost": lambda patch: patch.setattr(
        _dpverify_pytest, "AuditedTest", _ForgetsEvents
    ),
    "a second audit that is not recorded": lambda patch: patch.setattr(
        _dpverify_pytest, "AuditedTest", _RecordsTheFirst
    ),
    "a violation that is swallowed": lambda patch: patch.setattr(
        "dpverify.audit.calibration.CalibrationResult.is_consistent", True
    ),
    "an error of an audit that is swallowed": lambda patch: patch.setattr(
        "dpverify.testing.audit.__wrapped__.__code__", (lambda *_, **__: None).__code__
    ),
    "a failure that does not say what was seen": lambda patch: patch.setattr(
        "dpverify.testing.Finding", _Unstated
    ),
    "properties that JUnit does not get": lambda patch: patch.setattr(
        "_pytest.junitxml._NodeReporter.add_property", lambda *_: None
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_mistakes_in_the_plugin_are_seen(
    mistake: str, inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTED[mistake](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _check(inner)


def test_workers_give_the_same_seeds_and_one_report(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_fast=FAST)
    _, lines = run(inner)
    named = hashlib.sha256(b"test_fast.py::test_of_a_fixture").digest()
    units = units_of(lines)
    first = units["test_fast.py::test_of_a_fixture"]["data"]["seed"]
    assert first == int.from_bytes(named[:4], "big")
    # a process of its own, since workers take the path that xdist saw when it was imported
    result = inner.runpytest_subprocess("-n2", "--dist=loadgroup", "--dp-report=report.jsonl")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        ["dpverify: 1 CONSISTENT, 1 INVALID, 2 VIOLATED, 2 nothing found; *"]
    )
    assert [*units_of(lines_of(inner)).items()] == [*units.items()]


def test_audits_of_functions(inner: pytest.Pytester) -> None:
    """False alarms: the coins are seeded, so what this test sees it always sees."""
    inner.makepyfile(test_audits=AUDITS)
    inner.makeini("[pytest]\nfilterwarnings = default")
    result, lines = run(inner)
    result.assert_outcomes(passed=2, failed=2, warnings=1)
    shown = result.stdout.str()
    for fact in (
        r"claim +pure\(2\) under add-remove, by leaky",
        r"seen +epsilon >= [23]\.\d+ at delta 0 \(claimed: 2\), "
        r"by the event .+: \d+/\d+ against \d+/\d+",
        r"pair +'somebody enters', .+: \[1\.0\] and \[\]",
        r"chance +a sound subject is refuted with probability at most 1e-06",
        r"replay +pytest test_audits\.py::test_leaky --dp-seed \d+",
        r"seen +epsilon >= .*; missed the planted fault as_noisy",
        r"dpverify: 2 CONSISTENT, 1 POWERLESS, 1 VIOLATED; false-alarm probability 4e-06 in "
        r"all; .*",
        r" +.*OutOfReachWarning: delta = 1e-12 is out of reach: .*",
    ):
        assert re.search(rf"^(E )? *{fact}$", shown, re.MULTILINE), fact
    assert lines[0]["alpha"] == pytest.approx(4e-6)
    beyond = units_of(lines)["test_audits.py::test_out_of_reach"]
    assert "; delta = 1e-12 is out of reach: " in beyond["data"]["facts"]["seen"]
    leaky = units_of(lines)["test_audits.py::test_leaky"]
    assert leaky["data"]["witness"]["claim"]["guarantee"] == "pure(2)"


def test_a_failure_is_replayed_by_its_line(inner: pytest.Pytester) -> None:
    inner.mkdir("below")
    (inner.path / "below" / "test_of it.py").write_text(
        "import pytest\nfrom dpverify import PureDP\nfrom dpverify.audit import added\n"
        "@pytest.mark.parametrize('by', ['a b', \"it's\"])\n"
        "def test(audited, by):\n"
        "    audited(lambda data: 1 / 0, claim=PureDP(1), pairs=[added('one', [0.0], 1.0)], "
        "trials=300)\n",
    )
    inner.makeini("[pytest]")
    _, lines = run(inner)
    (first, second) = units_of(lines).values()
    assert first["replay"] != second["replay"]
    elsewhere = inner.mkdir("elsewhere")
    for unit in (first, second):
        words = shlex.split(unit["replay"])
        assert words[0] == "pytest"
        _, again = run(inner, *words[1:])
        assert units_of(again) == {unit["name"]: unit}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        result = inner.runpytest_inprocess("..", "--dp-seed=7")
    result.stdout.fnmatch_lines(
        ["E *replay *pytest '../below/test_of it.py::test[[]a b]' --dp-seed 7"]
    )


def test_the_plugin_is_inert_where_it_is_not_used(inner: pytest.Pytester) -> None:
    """Run in a process of its own, which tells what was loaded."""
    inner.makepyfile("import sys\ndef test(): assert not {'dpverify', 'numpy'} & {*sys.modules}")
    site = [str(inner.path / "site"), str(ROOT)]
    code = f"import sys; sys.path[:0] = {site}; import pytest; sys.exit(pytest.main(['-q', '-rA']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "1 passed" in done.stdout
    assert "dpverify" not in done.stdout


def test_without_the_plugin_there_is_no_fixture(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test(audited): pass")
    inner.runpytest_inprocess().assert_outcomes(passed=1)
    result = inner.runpytest_inprocess("-p", "no:dpverify")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'audited' not found*"])
