"""``dpverify rates``: verdicts, events, resuming; theory that is off, and faults that go unseen."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import spec.noisy_count
from dpverify import Adjacency
from dpverify.cli import main
from dpverify.rates import Curve, Point, RateFault, faults_of
from dpverify.suite import pieces, rate_parts, rating, resuming, verdicts
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Outcome, UnitFinished
from dpverify.suite.rate_parts import Rates
from dpverify.suite.rating import RateOptions, RatePart
from dpverify.suite.reporting import PART
from dpverify.suite.resuming import OF_AUDITS, OF_RATES, known_parts
from dpverify.suite.trees import Suite, load

ROOT = Path(__file__).parents[2]
KEY = "noisy_count:error-against-n"
RUN = ["rates", KEY, "--quick", "--seed", "5", "--workers", "1"]
OPTIONS = RateOptions(seed=5, quick=True)


def _units(path: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [e for e in events if e["event"] == "unit-finished" and e["kind"] == kind]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the events of one run. A right mechanism is not HELD with probability below 1e-4."""
    file = tmp_path_factory.mktemp("rates") / "whole.jsonl"
    assert main([*RUN, "--jsonl", str(file)]) == 0
    return file


def test_a_unit_has_all_that_a_report_draws(whole: Path) -> None:
    (unit,) = _units(whole, "rate")
    data = unit["data"]
    assert unit["name"] == KEY
    assert unit["outcome"] == "held"
    assert unit["replay"] == f"dpverify rates {KEY} --seed 5 --quick"
    assert (data["variable"], data["metric"], data["target"]) == ("n", "rms", "empirical")
    assert [p["value"] for p in data["points"]] == [10.0, 100.0, 1000.0, 10_000.0]
    for point in data["points"]:
        assert point["lower"] < point["low"] < point["measured"] < point["high"]
        assert abs(point["ratio"] - 1) < 0.1
        assert point["n"] == point["value"]
    assert data["exponent"]["value"] == 0
    assert data["slope"]["low"] < data["slope"]["value"] < data["slope"]["high"]
    assert [fault["caught"] for fault in data["faults"]] == [True, True]
    assert data["alpha"] * 5 * load().measured == pytest.approx(1e-6)
    assert len(unit["details"]) == 5


def test_the_terminal_shows_the_table_and_not_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == 0
    printed = capsys.readouterr().out
    assert "slope -0.0" in printed or "slope 0.0" in printed
    assert re.search(r"1000 +1\d\.\d+ +1\d\.\d+\.\.1\d\.\d+ +14\.14 +(0\.9\d*|1\.0\d*|1) ", printed)
    assert "seed 5  false alarms of the whole suite <= 1e-06" in printed
    assert "rates  1 unit  " in printed
    assert PART not in printed


@pytest.mark.usefixtures("forked")
def test_workers_do_not_change_the_result(foreign: Path, tmp_path: Path) -> None:
    measurements, key = [], "my_count:error-against-n"
    for workers in ("1", "2"):
        file = tmp_path / workers
        run = ["rates", key, "--quick", "--seed", "5", "--workers", workers]
        assert main([*run, "--suite", str(foreign), "--jsonl", str(file)]) == 0
        measurements.append(_units(file, "rate")[0]["data"])
    assert measurements[0] == measurements[1]


def test_a_resumed_run_is_the_same_bit_for_bit(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resume from half of the parts and a line that was cut off, into the same file."""
    lines = whole.read_text(encoding="utf-8").splitlines()
    parts = [i for i, line in enumerate(lines) if f'"{PART}"' in line]
    file, done = tmp_path / "again.jsonl", list[RatePart]()
    file.write_text("\n".join([*lines[: parts[3]], lines[parts[3]][:50]]), encoding="utf-8")
    right = rating.run_part

    def counted(part: RatePart, options: RateOptions) -> UnitFinished:
        done.append(part)
        return right(part, options)

    monkeypatch.setattr(rate_parts, "run_part", counted)
    assert main([*RUN, "--resume", str(file), "--jsonl", str(file)]) == 0
    assert len(parts) == 6
    assert len(done) == 3
    assert _units(file, "rate")[0]["data"] == _units(whole, "rate")[0]["data"]
    assert known_parts(file, PART) == known_parts(whole, PART)
    assert main([*RUN, "--resume", str(file)]) == 0
    assert len(done) == 3


@pytest.mark.parametrize(
    "changed",
    [RateOptions(seed=6, quick=True), RateOptions(seed=5), None],
)
def test_what_was_measured_otherwise_is_measured_again(
    whole: Path, changed: RateOptions | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another seed, another size, other code."""
    part, suite = RatePart(KEY, 1), load()
    assert rating.key_of_part(suite, part, OPTIONS) in known_parts(whole, PART)
    if changed is None:
        monkeypatch.setattr(resuming, "_digest_of", lambda root, code: "other code")
    assert rating.key_of_part(suite, part, changed or OPTIONS) not in known_parts(whole, PART)


def test_theory_that_is_off_is_refuted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load().entries["noisy_count"].spec
    right = module.expected_error
    monkeypatch.setattr(module, "expected_error", lambda parameters: right(parameters) * 1.3)
    assert main(RUN) == 1
    assert "refuted: expected_error to 1.1 at n = 10" in capsys.readouterr().out


def test_an_error_below_the_lower_bound_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load().entries["noisy_count"].spec
    monkeypatch.setattr(
        module, "lower_bound", lambda epsilon: 3 * spec.noisy_count.lower_bound(epsilon) * 10
    )
    assert main(RUN) == 1


def test_a_fault_that_goes_unseen_is_powerless(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = [RateFault(name="nothing at all")]
    for module in (rating, verdicts):
        monkeypatch.setattr(module, "faults_of", lambda claim: nothing)
    assert main(RUN) == 4
    assert "missed fault: nothing at all" in capsys.readouterr().out


def _only(**changed: Any) -> Suite:
    suite = load()
    entry = suite.entries["noisy_count"]
    claim = replace(suite.rates[KEY][1], values=(10, 20, 30), repeats=200, **changed)
    return replace(suite, entries={"noisy_count": replace(entry, rates=(claim,))})


def _judged(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> UnitFinished:
    monkeypatch.setattr(rating, "loaded", lambda root: suite)
    asked = Rates(suite, [KEY], OPTIONS)
    *_, last = asked.judged(asked.measured(asked.parts, Serial(), {}))
    assert last.kind == "rate"
    return last


def test_few_releases_leave_things_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 Laplace errors: the 95% interval is 16% to either side, beyond what is claimed."""
    finished = _judged(_only(), monkeypatch)
    assert finished.outcome is Outcome.POWERLESS
    assert any("left open, too few releases" in line for line in finished.details)


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (Curve(function="no_such", arguments=()), "spec/noisy_count.py has no function no_such"),
        (Curve(function="expected_error", arguments=("speed",)), "nothing is called 'speed'"),
    ],
)
def test_a_curve_that_is_not_there_is_invalid(
    curve: Curve, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = _judged(_only(curve=curve), monkeypatch)
    assert finished.outcome is Outcome.INVALID
    assert message in finished.summary


def test_a_rate_of_another_mechanism_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    other = load().rates["bernoulli_mean:error-against-n"][1].mechanism
    setting = {"noise_multiplier": 1, "adjacency": Adjacency.REPLACE}
    finished = _judged(_only(mechanism=other, setting=setting), monkeypatch)
    assert finished.outcome is Outcome.INVALID
    assert "'error-against-n' is of a BernoulliMean" in finished.summary


def test_two_rates_of_one_name_are_refused() -> None:
    entry, module = load().entries["noisy_count"], ModuleType("audits.noisy_count")
    exported = {"CONFIGURATIONS": entry.configurations, "SMALL": entry.small}
    for rates, lacks in (
        (entry.rates, []),
        ((entry.rates[0], entry.rates[0]), ["two rates of one mechanism have the same name"]),
    ):
        vars(module).update(exported, RATES=rates)
        assert [*pieces.lacks_of_audits("noisy_count", module, entry.mechanism)] == lacks


def test_every_mechanism_has_rates_against_n_and_its_noise() -> None:
    suite = load()
    for entry in suite.entries.values():
        variables = {claim.variable for claim in entry.rates}
        if all(
            claim.metric.kind == "misses" for claim in entry.rates
        ):  # how many groups, or records, are enough
            assert "epsilon" in variables, entry.name
            assert "n" in variables or {"t", "d"} <= variables, entry.name
            continue
        assert "n" in variables, entry.name
        assert variables & {"epsilon", "noise_multiplier"}, entry.name
        assert any(claim.exponent and claim.curve for claim in entry.rates), entry.name
    assert "d" in {claim.variable for claim in suite.entries["clipped_mean"].rates}


def test_a_lost_factor_is_planted_in_every_regime() -> None:
    """Plant it: where sampling hides the noise, another claim of the same data and setting looks
    at the noise alone."""
    suite = load()
    for key, (entry, claim) in suite.rates.items():
        alike = [
            other
            for other in entry.rates
            if (other.variable, other.values, other.setting, other.instance)
            == (claim.variable, claim.values, claim.setting, claim.instance)
        ]
        planted = {fault.name for other in alike for fault in faults_of(other)}
        assert "noise x 1.3" in planted, key


@pytest.mark.parametrize(
    "arguments",
    [
        ["no_such"],
        ["--resume", "/no/such/file", "--seed", "1"],
        ["--resume", __file__],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rates", *arguments]) == 2
    assert capsys.readouterr().err.startswith("dpverify: ")


def test_a_file_of_something_else_cannot_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not an event\n{}\n", encoding="utf-8")
    assert main([*RUN, "--resume", str(file)]) == 2
    assert "notes.txt:1 is no event" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rates", "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "example: dpverify rates" in printed
    assert "130  stopped by Ctrl-C" in printed


def _listen_to_ctrl_c() -> None:
    """A background job of a shell starts with Ctrl-C ignored, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_a_file_to_resume_from(foreign: Path, tmp_path: Path) -> None:
    """Interrupt: what is measured at epsilon = 3/10 waits for ten minutes; the rest finishes."""
    audits, file = foreign / "audits" / "my_count.py", tmp_path / "partial.jsonl"
    text = audits.read_text(encoding="utf-8")
    waits = "    if setting['epsilon'] == _EPSILONS[3]:\n        __import__('time').sleep(600)\n"
    waiting = text.replace(
        "    multiplier = 1 / Fraction(", f"{waits}    multiplier = 1 / Fraction("
    )
    assert waiting != text
    audits.write_text(waiting, encoding="utf-8")
    command = [sys.executable, "-m", "dpverify", "rates", "--quick", "--seed", "5"]
    process = subprocess.Popen(
        [*command, "--workers", "1", "--jsonl", str(file), "--suite", str(foreign)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=_listen_to_ctrl_c,
    )  # fmt: skip
    for _ in range(6000):
        if file.exists() and f'"{PART}"' in file.read_text(encoding="utf-8"):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Stopped; what is above is valid." in printed
    lines = file.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["interrupted"] is True
    known = known_parts(file, PART)
    assert known
    points = [data for data in known.values() if not data["fault"]]
    for data in points:
        point = Point.from_json({name: data[name] for name in Point.__dataclass_fields__})
        assert point.low < point.measured < point.high


@pytest.mark.parametrize(
    "changed", ["audits/common.py", "spec/theory/deep/sums.py", "mechanisms/helper.py", ""]
)
def test_the_key_is_of_every_file_of_the_suite(changed: str, tmp_path: Path) -> None:
    """Digest every file, also of modules that belong to no mechanism; and nothing changed,
    nothing changes."""
    for name in ("audits/noisy_count.py", "audits/common.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("VALUES = (1, 2, 3)\n", encoding="utf-8")
    suite, part = replace(load(), root=tmp_path), RatePart(KEY, 1)
    before = rating.key_of_part(suite, part, OPTIONS)
    if changed:
        (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / changed).write_text("VALUES = (1, 2, 30)\n", encoding="utf-8")
    resuming._digest_of.cache_clear()
    assert (rating.key_of_part(suite, part, OPTIONS) != before) is bool(changed)


@pytest.mark.parametrize("name", ["folders", "joining", "_LIBRARIES"])
def test_the_key_is_of_what_measures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry counts: without its first one the key is another."""
    suite, part = load(), RatePart(KEY, 1)
    resuming._digest_of.cache_clear()
    before = rating.key_of_part(suite, part, OPTIONS)
    if name == "_LIBRARIES":
        monkeypatch.setattr(resuming, name, getattr(resuming, name)[1:])
    else:
        less = replace(OF_RATES, **{name: getattr(OF_RATES, name)[1:]})
        monkeypatch.setattr(rating, "OF_RATES", less)
    resuming._digest_of.cache_clear()
    assert rating.key_of_part(suite, part, OPTIONS) != before
    resuming._digest_of.cache_clear()


def test_the_key_is_of_every_floor_below() -> None:
    """Digest all folders of the package that mechanisms and rates import from: scikit-learn's
    shapes are none."""
    audits = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "audits").rglob("*.py"))
    assert "dpverify.sklearn" not in audits
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    floors = text.split('"dpverify.audit | dpverify.rates"')[1].split("]")[0]
    below = set(re.findall(r"dpverify\.(\w+)", floors)) - {"sklearn"} | {"rates"}
    assert below == set(OF_RATES.folders)
    assert below ^ set(OF_AUDITS.folders) == {"rates", "audit"}


def test_another_numpy_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    suite, part = load(), RatePart(KEY, 1)
    before = rating.key_of_part(suite, part, OPTIONS)
    right = metadata.version
    other = {"numpy": "0.0"}
    monkeypatch.setattr(resuming, "version", lambda name: other.get(name) or right(name))
    resuming._digest_of.cache_clear()
    assert rating.key_of_part(suite, part, OPTIONS) != before
    resuming._digest_of.cache_clear()


def test_errors_that_a_few_carry_are_powerless_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One error in 150 is a million times too large: far from theory, and not refuted. That
    there is none among 600 has probability 0.02, more than 20 at a point below 1e-15; the seed
    is fixed."""

    def wild(estimate: Any, truth: Any) -> float:
        off = abs(float(estimate.value - truth))
        return off * (1e6 if off > 50 else 1)

    finished = _judged(_only(error=wild), monkeypatch)
    assert finished.outcome is Outcome.POWERLESS
    assert any("no interval: one error has over 5%" in line for line in finished.details)


def test_a_point_that_is_left_open_has_more_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve that is 6% off is shown to 1.1 by more than half of 4000 releases: 1.5% are a
    standard error."""
    part, suite = RatePart(KEY, 3), load()
    few = rating.run_part(part, OPTIONS).data
    assert few["repeats"] <= suite.rates[KEY][1].repeats // 2
    entry = suite.rates[KEY][0]
    right = entry.spec.expected_error
    monkeypatch.setattr(entry.spec, "expected_error", lambda parameters: right(parameters) * 1.06)
    monkeypatch.setattr(rating, "loaded", lambda root: suite)
    more = rating.run_part(part, OPTIONS).data
    assert more["repeats"] > few["repeats"]
    assert more["high"] / more["low"] < few["high"] / few["low"]
