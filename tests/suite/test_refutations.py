"""Witnesses beside the ledger: what is missing, changed, or of something else is seen, and said."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpverify import ledger
from dpverify.audit import added, replaced
from dpverify.audit.portable import datasets_as_json, tells
from dpverify.cli import main
from dpverify.suite import refutations
from dpverify.suite.refutations import DIGEST, OPEN, Unsound, shown
from dpverify.suite.trees import Suite, load

ROOT = Path(__file__).parents[2]
NAME = "count_silent_when_empty"
KEY = f"exhibits/{NAME}"
SUITE = load()
RECORDED = ledger.read(ledger.path_of(SUITE))
ENTRY = RECORDED[KEY]
Witness = dict[str, Any]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Return two exhibits of ours, with a folder of witnesses of its own."""
    (tmp_path / refutations.FOLDER).mkdir(parents=True)
    names = (NAME, "clean_mean")
    for path in map(refutations.path_of, names):
        shutil.copy(ROOT / path, tmp_path / path)
    return replace(SUITE, root=tmp_path, exhibits={name: SUITE.exhibits[name] for name in names})


def _change(suite: Suite, change: Callable[[Witness], object], *, name: str = NAME) -> str:
    """Return the new digest of a witness that was changed, and sealed again as its writer would."""
    file = suite.root / refutations.path_of(name)
    witness = json.loads(file.read_text(encoding="ascii"))
    change(witness)
    text = json.dumps({**witness, "sha256": ""}, sort_keys=True)
    witness["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(json.dumps(witness), encoding="ascii")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_refuted_claim_has_a_witness_that_the_checker_accepts() -> None:
    entries = {key: entry for key, entry in RECORDED.items() if entry["status"] == "refuted"}
    assert len(entries) == len(SUITE.exhibits) >= 10
    in_part = []
    for key, entry in entries.items():
        file = ROOT / entry["witness"]
        assert file.stat().st_size < 10_000
        left = shown(SUITE, key.removeprefix("exhibits/"), entry)
        assert left == entry.get(OPEN, [])
        if left:
            in_part.append(key)
            assert json.loads(file.read_text(encoding="ascii"))["pairs"][0]["data"] is None
            assert all("NOT CHECKED: whether " in line for line in left)
    assert in_part == ["exhibits/clean_mean", "exhibits/clean_mean_of_gaussians"]


def test_a_missing_witness_is_named(suite: Suite) -> None:
    (suite.root / ENTRY["witness"]).unlink()
    (difference,) = ledger.unshown(suite, RECORDED)
    assert (difference.key, difference.kind, difference.breaking) == (KEY, "WITNESS", True)
    assert f"there is no witness {suite.root / ENTRY['witness']}" in difference.detail
    without = {**RECORDED, KEY: {k: v for k, v in ENTRY.items() if k != DIGEST}}
    (difference,) = ledger.unshown(suite, without)
    assert "no witness is recorded" in difference.detail


def test_a_changed_file_is_seen_by_its_digest(suite: Suite) -> None:
    _change(suite, lambda witness: None)  # spaces alone
    (difference,) = ledger.unshown(suite, RECORDED)
    assert difference.key == KEY
    assert f"and {ENTRY[DIGEST]} is recorded" in difference.detail


FORGED: list[tuple[Callable[[Witness], object], str]] = [
    (lambda w: w["certificate"]["counts"].__setitem__(2, 9000), "the counts do not refute"),
    (lambda w: w["certificate"].update(alpha=0.5), "alpha exceeds that of the run"),
    (lambda w: w["points"][0].__setitem__(0, 0.5), r"the point \(0.5, 0.0\) is not promised"),
    (lambda w: w.update(subject="exhibits/clean_mean"), "its subject is 'exhibits/clean_mean'"),
    (lambda w: w["claim"].update(guarantee="pure(1/2)"), r"its guarantee is 'pure\(1/2\)'"),
    (lambda w: w["claim"].update(adjacency="replace"), "its adjacency is 'replace'"),
    (lambda w: w["events"][0].__setitem__(0, "others"), r"its pair is \['others'\]"),
    (lambda w: w["certificate"].update(certified=[[99.0, 0.0]]), "its certified epsilon is '99.0'"),
    (lambda w: w["pairs"][0].update(data=[[[2.0]], []]), "other records than the exhibit's"),
    (lambda w: w["pairs"][0].update(data="no zlib"), "is no witness of this claim"),
    (lambda w: w.pop("events"), "is no witness of this claim: 'events'"),
]


@pytest.mark.parametrize(("change", "said"), FORGED)
def test_a_forged_witness_fails_whatever_its_digests(
    suite: Suite, change: Callable[[Witness], object], said: str
) -> None:
    digest = _change(suite, change)
    with pytest.raises(Unsound, match=said):
        shown(suite, NAME, {**ENTRY, DIGEST: digest})
    recorded = {**RECORDED, KEY: {**ENTRY, DIGEST: digest}}
    assert [difference.key for difference in ledger.unshown(suite, recorded)] == [KEY]


def test_what_is_left_open_is_said(suite: Suite) -> None:
    key, name = "exhibits/clean_mean", "clean_mean"
    silent = {**RECORDED, key: {k: v for k, v in RECORDED[key].items() if k != OPEN}}
    (difference,) = ledger.unshown(suite, silent)
    assert "NOT CHECKED: whether 'two clusters' are replace neighbors" in difference.detail
    digest = _change(suite, lambda w: w["pairs"][0]["digests"].reverse(), name=name)
    with pytest.raises(Unsound, match="other records than the exhibit's"):
        shown(suite, name, {**RECORDED[key], DIGEST: digest})


def test_files_of_no_exhibit_are_named(suite: Suite) -> None:
    assert refutations.strays(suite) == []
    (suite.root / refutations.FOLDER / "gone.json").write_text("{}", encoding="ascii")
    (difference,) = ledger.unshown(suite, RECORDED)
    assert difference.key == f"{refutations.FOLDER}/gone.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a suite of somebody else's: one exhibit."""
    for tree in ("mechanisms", "spec", "audits/exhibits"):
        (tmp_path / tree).mkdir(parents=True)
    exhibit = f"audits/exhibits/{NAME}.py"
    shutil.copy(ROOT / exhibit, tmp_path / exhibit)
    return tmp_path


def test_the_tool_writes_witnesses_and_checks_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--suite", str(folder)]
    assert main(["claims", "--update", *options]) == 0
    assert ledger.read(folder / "claims.toml")[KEY]["witness"] == refutations.path_of(NAME)
    file = folder / refutations.path_of(NAME)
    first = file.read_bytes()
    assert main(["claims", "--check", *options]) == 0
    assert "1 witnesses of refuted claims accepted by the checker, 0 in part" in _out(capsys)
    file.write_bytes(first.replace(b'"replay":"', b'"replay":"x'))
    assert main(["claims", "--check", *options]) == 1
    assert f"WITNESS      {KEY}  breaking" in _out(capsys)
    file.unlink()
    assert main(["claims", *options]) == 1
    assert "there is no witness" in _out(capsys)
    assert main(["claims", "--update", *options]) == 0
    assert file.read_bytes() == first


def test_a_witness_that_still_shows_it_is_left_as_it_is(folder: Path) -> None:
    suite = load(folder)
    refutation = refutations.attack(suite)[NAME]
    refutations.keep(suite, refutation)
    older = _change(suite, lambda w: w["run"]["versions"].update(numpy="2.0.0"))
    assert refutations.keep(suite, refutation)[DIGEST] == older
    wrong = _change(suite, lambda w: w["certificate"]["counts"].__setitem__(2, 9000))
    assert refutations.keep(suite, refutation)[DIGEST] not in (older, wrong)


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


@pytest.mark.parametrize("room", [5000, 90, 0])
def test_datasets_are_told_from_others(room: int) -> None:
    pair = replaced("one", [0.1, *[float("nan")] * 40, 7], "a", at=3)
    written = json.loads(json.dumps(datasets_as_json(pair, room)))
    assert tells(written, pair)
    assert not tells(written, replaced("one", [0.1, *[float("nan")] * 40, 7], "b", at=3))
    assert not tells(written, added("one", [0.1], 7.0))
    kinds = {5000: "list", 90: "str", 0: "NoneType"}
    assert type(written["data"]).__name__ == kinds[room]
