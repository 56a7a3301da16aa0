"""The tutorial on mechanisms does what it says, from an empty folder to an agreeing ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpverify.suite import lemmas
from dpverify.suite.trees import find_root
from tests import pages

PAGE = (pages.DOCS / "tutorials" / "new_mechanism.md").read_text(encoding="utf-8")


def test_a_mechanism_goes_from_plan_to_ledger(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget: Callable[[], None],
) -> None:
    """Run the page, whose seed is fixed: the audit of the page draws the same numbers each time.

    Lemmas are taken as recorded, whatever code they were recorded for: a change of the kernel
    makes no page wrong.
    """
    recorded = lemmas.read(lemmas.path_of(find_root()))
    monkeypatch.setattr(lemmas, "shipped", recorded.get)
    monkeypatch.chdir(tmp_path)
    run = list(pages.follow(PAGE, capsys, forget))
    assert len(run) == 10
    assert set(pages.files(PAGE)) == {
        f"house/{tree}/two_sides.py" for tree in ("mechanisms", "spec", "audits")
    }


def test_where_the_code_was_changed_the_lemmas_are_run_as_the_page_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget: Callable[[], None],
) -> None:
    monkeypatch.setattr(lemmas, "shipped", {}.get)
    monkeypatch.chdir(tmp_path)
    checked, run = "checked for this build (... cases)", ", checked for this build of dpverify"
    told = "a lemma of dpverify, whose lemmas.toml is of another build"
    assert told in " ".join(PAGE.split())
    assert PAGE.count(checked) == 2
    assert PAGE.count(run) == 1
    page = PAGE.replace(checked, f"{told}...").replace(f"{run} (lemmas.toml); not run again", "")
    for command in pages.follow(page, capsys, forget):
        if command.startswith("dpverify prove"):
            return
    pytest.fail("the page proves nothing")
