"""The HTML report without a browser: complete, escaped, self-contained, and made of whatever was
kept."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from dpverify.cli import _parser, main
from dpverify.cli.shared import check_outputs
from dpverify.report.jsonl import JsonLines
from dpverify.report.junit import JUnit
from dpverify.report.page import page
from dpverify.suite.events import Event, Outcome, RunFinished, UnitFinished, from_json
from dpverify.suite.stored import read
from tests.report.cases import ENDED, STARTED, audited, everything, places, spoiled, unit, written

_VOID = {"meta", "link", "wbr"}


class _Read(HTMLParser):
    """Elements with their attributes, and whether every end has its beginning."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.seen, self.text = list[str](), list[tuple[str, dict[str, str | None]]](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.seen)


@pytest.fixture(scope="module")
def whole() -> _Read:
    return _Read(page(everything()))


def test_the_page_is_well_formed_with_ids_that_are_its_own(whole: _Read) -> None:
    assert whole.open == []
    ids = [given["id"] for _, given in whole.seen if "id" in given]
    assert len(ids) == len(set(ids)) > 10
    targets = [str(given["href"]) for tag, given in whole.seen if tag == "a"]
    assert len(targets) > 5
    assert {target.removeprefix("#") for target in targets} <= set(ids)
    named = [str(given["aria-labelledby"]) for _, given in whole.seen if "aria-labelledby" in given]
    assert {one for names in named for one in names.split()} <= set(ids)


def test_what_results_say_is_text(whole: _Read) -> None:
    assert whole.count("script") == 1
    assert whole.count("img") == 0
    assert not [key for _, given in whole.seen for key in given if key.startswith("on")]
    assert whole.text.count("<script>window.hacked = 1</script>") == 9


def test_nothing_is_fetched_and_a_policy_forbids_it(whole: _Read) -> None:
    addresses = [
        str(given[key]) for _, given in whole.seen for key in ("src", "href") if key in given
    ]
    assert {one[:1] for one in addresses if not one.startswith("data:,")} == {"#"}
    (policy,) = (given["content"] for _, given in whole.seen if given.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "url(" not in page([])


def test_every_unit_has_a_row_the_worst_first_and_every_claim_its_section(whole: _Read) -> None:
    rows = [
        str(given["data-outcome"])
        for tag, given in whole.seen
        if tag == "tr" and "data-outcome" in given
    ]
    worst = ["invalid", "refuted", "refuted", "powerless"]
    assert rows == [*worst, *["held"] * 5]
    assert whole.count("section") == 8  # a unit that held and has nothing to show is a row
    assert "a piece" not in whole.text
    assert whole.count("svg") == 5
    for said in (
        "Derivation, 3 steps",
        "Replay the audit",
        "slope -1.010",
        "false alarms of the whole suite",
    ):
        assert said in whole.text


def test_replay_lines_and_all_numbers_of_the_figures_are_there(whole: _Read) -> None:
    count = audited("noisy_count:add-remove:all")
    assert count.replay in whole.text
    assert all(one["event"] in whole.text for one in count.data["curve"])


def test_one_claim_proved_and_audited_is_one_section() -> None:
    proof = {"statement": "a sum", "rule": "sum (OURS)", "premises": []}
    units = [
        unit(Outcome.HELD, name="m:c", kind=kind, derivation=proof) for kind in ("audit", "profile")
    ]
    read = _Read(page([STARTED, *units, ENDED]))
    assert read.count("section") == 1
    assert read.text.count("Derivation, 1 step") == 1
    assert "Exact loss" in read.text
    assert read.text.count("Claim") == 1


def test_a_section_says_the_claim_and_what_was_attacked_of_it() -> None:
    proof = {"statement": "approx(1, 1e-6) under replace, for lists [proved]"}
    stronger = unit(Outcome.HELD, guarantee="gaussian(1/4)", adjacency="replace", derivation=proof)
    text = _Read(page([STARTED, stronger, ENDED])).text
    assert "Claimapprox(1, 1e-6) under replace, for lists [proved]" in text
    assert "Attacked asgaussian(1/4) under replace" in text
    alone = unit(Outcome.HELD, guarantee="pure(1)", adjacency="replace", curve=[])
    assert "Claimpure(1) under replace" in _Read(page([STARTED, alone, ENDED])).text


@pytest.mark.parametrize(
    ("ended", "stopped"),
    [
        ([ENDED], False),
        ([], True),
        ([RunFinished(130, {}, 1.0, interrupted=True)], True),
        ([STARTED, ENDED], True),
    ],
)
def test_a_run_that_did_not_end_says_so(ended: list[Event], stopped: bool) -> None:
    """Say so also where another run follows in the stream."""
    text = _Read(page([STARTED, unit(Outcome.HELD), *ended])).text
    assert ("Stopped before its end" in text) is stopped


def test_a_shard_and_why_a_run_was_stopped_are_said() -> None:
    end = RunFinished(4, {}, 1.0, interrupted=True, ending="The cluster went away.")
    text = _Read(page([replace(STARTED, shard="2/8"), end])).text
    assert "shard 2/8" in text
    assert "The cluster went away. Stopped before its end" in text


def test_an_empty_run_is_a_page() -> None:
    assert _Read(page([])).open == []


_BAD: list[Any] = [
    None, "", "x", True, -1, 1e308, 5e-324, math.nan, math.inf, "-inf", 10**400,
    "1" * 30 + "/" + "0" * 30, [], {}, [[]],
]  # fmt: skip


@settings(max_examples=150)
@given(strategies.data())
def test_whatever_a_place_of_the_data_holds_there_is_a_page(drawn: strategies.DataObject) -> None:
    """Write a page and a JUnit file: what other versions, other projects and by-passers write is
    no reason to lose a report."""
    units = [event for event in everything() if isinstance(event, UnitFinished) and event.data]
    chosen = drawn.draw(strategies.sampled_from(units))
    place = drawn.draw(strategies.sampled_from(places(chosen.data)[1:]))
    by = drawn.draw(strategies.sampled_from(_BAD))
    data = spoiled(chosen.data, place, by)
    events: list[Event] = [STARTED, replace(chosen, data=data), ENDED]
    assert _Read(page(events)).count("tr") >= 2
    with TemporaryDirectory() as folder:
        consumer = JUnit(Path(folder) / "out.xml")
        for event in events:
            consumer(event)


def test_a_derivation_without_end_is_cut_off() -> None:
    proof: dict[str, Any] = {"statement": "the last"}
    for _ in range(900):
        proof = {"statement": "one more", "premises": [proof]}
    text = _Read(page([STARTED, unit(Outcome.HELD, derivation=proof), ENDED])).text
    assert "Derivation, 901 steps" in text
    assert "the last" not in text


# --- kept lines ---------------------------------------------------------------------------------


def _kept(path: Path) -> Path:
    consumer = JsonLines(path)
    for event in everything()[
        :-3
    ]:  # a name that is half a character is no UTF-8, and ends in \ud800
        consumer(event)
    consumer(ENDED)
    return path


def test_events_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    kept, again = _kept(tmp_path / "kept"), tmp_path / "again"
    events = read(kept).events
    assert len(events) == len(everything()) - 2
    consumer = JsonLines(again)
    for event in events:
        consumer(event)
    assert again.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


def test_the_command_makes_the_page_of_kept_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, output = _kept(tmp_path / "kept.jsonl"), tmp_path / "out.html"
    cut = written(tmp_path / "cut.jsonl", kept.read_text(encoding="utf-8")[:-40])
    assert main(["report", str(kept), str(cut), "-o", str(output)]) == 0
    assert "units of 2 files" in capsys.readouterr().out
    read = _Read(output.read_text(encoding="utf-8"))
    assert read.text.count("Stopped before its end") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cut.jsonl",
        "kept.jsonl",
        "out.html",
    ]


def test_what_a_later_version_adds_is_left_out_and_what_it_lacks_is_empty() -> None:
    plain = {"event": "unit-finished", "kind": "k", "name": "n", "outcome": "held", "verdict": "V"}
    assert from_json({**plain, "new": 1}) == UnitFinished("k", "n", Outcome.HELD, "V", "")


@pytest.mark.parametrize(
    "lines",
    [
        "no json\n{}",
        '{"event": "from-elsewhere"}',
        "[1]",
        "3",
        '{"event": ' + "1" * 5000 + "}",
        "[" * 100_000,
        '{"event": "unit-finished", "kind": "audit"}',
        '{"event": "unit-finished", "kind": 1, "name": "n", "outcome": "held", "verdict": "V"}',
        '{"event": "run-finished", "exit_code": 0, "counts": {}, "seconds": 1'
        + "0" * 400
        + ', "interrupted": false}',
        '{"event": "unit-finished", "kind": "k", "name": "n", "outcome": "held", '
        '"verdict": "V", "data": 3}',
        '{"event": "unit-finished", "kind": "k", "name": "n", "outcome": "fine", "verdict": "V"}',
        '{"event": "run-started"}',
        "\ud800",
    ],
)
def test_files_of_others_are_refused_in_a_line(
    lines: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = written(tmp_path / "kept", lines), tmp_path / "out.html"
    assert main(["report", str(file), "-o", str(output)]) == 2
    printed = capsys.readouterr().err
    assert re.fullmatch(r"dpverify: \S+ is no .*; give a file that --jsonl wrote\.\n", printed)
    assert not output.exists()


def test_no_file_a_folder_and_itself_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = _kept(tmp_path / "kept")
    for arguments, said in (
        ([str(tmp_path / "none"), "-o", str(tmp_path / "o")], "none cannot be read: No such file"),
        ([str(tmp_path), "-o", str(tmp_path / "o")], "cannot be read: Is a directory"),
        ([str(kept), "-o", str(tmp_path)], "cannot be written: it is a folder"),
        ([str(kept), "-o", str(tmp_path / "no" / "o")], "its folder does not exist"),
        ([str(kept), "-o", str(kept)], "would overwrite the events"),
    ):
        assert main(["report", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert main(["report", str(written(tmp_path / "empty", "")), "-o", str(tmp_path / "o")]) == 5


# --- options of other commands ------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--junit", "--report"])
def test_paths_that_cannot_be_written_are_refused_before_anything_runs(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = written(tmp_path / "kept.jsonl", "of yesterday\n")
    asked: list[tuple[Any, str]] = [
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "out", "its folder does not exist"),
        (kept, "is asked for twice"),
        (Path("/dev/null"), "it is no file"),
    ]
    for path, said in asked:
        arguments = ["noisy_count", "--jsonl", str(kept), option, str(path)]
        assert main(["prove", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert kept.read_text(encoding="utf-8") == "of yesterday\n"


def test_the_commands_of_the_documentation_are_understood() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how_to" / "report.md").read_text(encoding="utf-8")
    lines = re.findall(r"^dpverify (.+)$", text, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        options, unknown = _parser().parse_known_args(line.split())
        assert unknown == []
        check_outputs(options)


def test_a_claim_takes_little_room() -> None:
    """A page of 150 such claims, and a row for each of 500 other units, stays below 3 MB."""
    count = audited("noisy_count:add-remove:all")
    sizes = [len(page([STARTED, *units, ENDED])) for units in ([], [count], [unit(Outcome.HELD)])]
    assert sizes[1] - sizes[0] < 18_000
    assert sizes[2] - sizes[0] < 1_000
