"""JUnit XML: by the rules of the schema that readers share, whole or not there, and by verdict."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from dpverify.report.junit import JUnit
from dpverify.suite.events import Event, Outcome, RunFinished, RunStarted, UnitFinished
from tests.report.cases import ENDED, NASTY, RATE, STARTED, audited, everything, unit

_COUNTS = {"tests", "failures", "errors", "skipped"}
_RULES: dict[str, tuple[set[str], set[str], str]] = {
    # required attributes, further ones, children in their order as a pattern
    "testsuites": (set(), {"name", "time", *_COUNTS}, r"(testsuite )*"),
    "testsuite": (
        {"name", "timestamp", "hostname", "time", *_COUNTS}, set(),
        r"(properties )?(testcase )*(system-out )?(system-err )?",
    ),
    "properties": (set(), set(), r"(property )+"),
    "property": ({"name", "value"}, set(), ""),
    "testcase": (
        {"name", "classname", "time"}, set(),
        r"(properties )?(skipped |error |failure )?(system-out )?(system-err )?",
    ),
    "failure": ({"type", "message"}, set(), ""),
    "error": ({"type", "message"}, set(), ""),
    "skipped": (set(), {"message"}, ""),
    "system-out": (set(), set(), ""),
}  # fmt: skip
_ENDED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def problems(element: Element) -> list[str]:
    """List what the schema (the common parts of those of Jenkins, Ant and Testmo) forbids here
    and below."""
    if element.tag not in _RULES:
        return [f"unknown element {element.tag}"]
    required, further, children = _RULES[element.tag]
    names, given = "".join(f"{child.tag} " for child in element), set(element.attrib)
    wrong = [f"{element.tag} lacks {name}" for name in required - given]
    wrong += [f"{element.tag} has {name}" for name in given - required - further]
    if not re.fullmatch(children, names):
        wrong.append(f"{element.tag} has children {names}")
    for name in _COUNTS & given:
        cases = element.iter("testcase")
        counted = sum(name == "tests" or case.find(_ENDED[name]) is not None for case in cases)
        if element.get(name) != str(counted):
            wrong.append(f"{element.tag} counts {element.get(name)} {name}, not {counted}")
    if "time" in given and not re.fullmatch(r"\d+\.\d{3}", element.attrib["time"]):
        wrong.append(f"time {element.get('time')}")
    if "timestamp" in given and not re.fullmatch(
        r"[-\d]{10}T[:\d]{8}", element.attrib["timestamp"]
    ):
        wrong.append(f"timestamp {element.get('timestamp')}")
    return wrong + [problem for child in element for problem in problems(child)]


def written(path: Path, *events: Event) -> Element:
    consumer = JUnit(path)
    for event in events:
        consumer(event)
    return ElementTree.parse(path).getroot()


def _facts(case: Element) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}


def test_every_outcome_has_its_element_and_the_document_keeps_the_schema(tmp_path: Path) -> None:
    root = written(tmp_path / "out.xml", *everything())
    assert problems(root) == []
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert len(cases) == 9
    for outcome, ended in (("refuted", "failure"), ("invalid", "error"), ("powerless", "skipped")):
        (wrong,) = cases[f"audit_{outcome}"].iter(ended)
        assert wrong.get("message") == f"{outcome.upper()}: summary of {outcome}"
        assert wrong.text == f"a detail\nreplay: dpverify audit {outcome} --seed 7"
    held = cases["audit_held"]
    assert not [one for ended in _ENDED.values() for one in held.iter(ended)]
    assert _facts(held)["replay"] == "dpverify audit held --seed 7"


def test_facts_of_an_audit_and_a_rate_are_properties(tmp_path: Path) -> None:
    count = audited("noisy_count:add-remove:all")
    rate = UnitFinished("rate", "r", Outcome.HELD, "HELD", "s", replay="again", data=RATE)
    root = written(tmp_path / "out.xml", STARTED, count, rate, ENDED)
    first, second = map(_facts, root.iter("testcase"))
    assert first["claim"] == "pure(1) under add-remove"
    assert re.fullmatch(r"epsilon >= 0\.\d+ at delta 0", first["bound"])
    assert float(first["alpha"]) == pytest.approx(count.data["alpha"], rel=1e-3)
    assert first["replay"] == count.replay
    assert second["bound"] == "slope in [-1.05, -0.97]"
    assert "claim" not in second
    suite = root.find("testsuite/properties")
    assert suite is not None
    assert _facts(suite) == {
        "version": "0.1.0", "seed": "7", "alpha": "1e-06", "units": "9", "interrupted": "false",
        "exit code": "1",
    }  # fmt: skip


def test_names_that_are_markup_stay_names(tmp_path: Path) -> None:
    root = written(tmp_path / "out.xml", *everything())
    (name,) = (c.attrib["name"] for c in root.iter("testcase") if "script" in c.attrib["name"])
    assert name == NASTY.replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")


def test_a_stopped_run_says_so(tmp_path: Path) -> None:
    stopped = RunFinished(130, {"held": 1}, 1.0, interrupted=True)
    root = written(tmp_path / "out.xml", STARTED, unit(Outcome.HELD), stopped)
    assert problems(root) == []
    suite = root.find("testsuite/properties")
    assert suite is not None
    assert (_facts(suite)["interrupted"], _facts(suite)["units"]) == ("true", "9")


def _drop_time(root: Element) -> None:
    del root[0].attrib["time"]


def _count_wrongly(root: Element) -> None:
    root[0].attrib["failures"] = "0"


def _add_verdict(root: Element) -> None:
    root[0].append(Element("verdict"))


def _two_ends(root: Element) -> None:
    next(root.iter("testcase")).extend([Element("skipped"), Element("skipped")])


@pytest.mark.parametrize("breaking", [_drop_time, _count_wrongly, _add_verdict, _two_ends])
def test_the_check_of_the_schema_can_fail(
    breaking: Callable[[Element], None], tmp_path: Path
) -> None:
    root = written(tmp_path / "out.xml", *everything())
    breaking(root)
    assert problems(root) != []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_the_file_is_replaced_whole_or_not_at_all(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.xml"
    path.write_text("of yesterday", encoding="utf-8")

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", full)
    said = (
        "out.xml cannot be written: No space left on device" if isinstance(error, OSError) else None
    )
    with pytest.raises(type(error), match=said):
        written(path, RunStarted("prove", "0", "s", 0, 0, 0.0), ENDED)
    assert path.read_text(encoding="utf-8") == "of yesterday"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target.xml", tmp_path / "link.xml"
    link.symlink_to(target)
    written(link, STARTED, ENDED)
    assert link.is_symlink()
    assert problems(ElementTree.parse(target).getroot()) == []
