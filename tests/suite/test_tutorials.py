"""The tutorial on mechanisms does what it says, from an empty folder to an agreeing ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import pages

PAGE = (pages.DOCS / "tutorials" / "new_mechanism.md").read_text(encoding="utf-8")


def test_a_mechanism_goes_from_plan_to_ledger(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget: Callable[[], None],
) -> None:
    """Run the page, whose seed is fixed: the audit of the page draws the same numbers each time."""
    monkeypatch.chdir(tmp_path)
    run = list(pages.follow(PAGE, capsys, forget))
    assert len(run) == 10
    assert set(pages.files(PAGE)) == {
        f"house/{tree}/two_sides.py" for tree in ("mechanisms", "spec", "audits")
    }
