"""Tests that the tables of docs/floors/ say what the files say."""

from __future__ import annotations

import pytest

from .floor_pages import PAGES, ROOT, page


def test_the_tables_of_the_floors_quote_the_files() -> None:
    """If this fails: python -m tests.floor_pages --update."""
    stale = [
        path.name for path in PAGES if page(path.read_text("utf-8")) != path.read_text("utf-8")
    ]
    assert len(PAGES) == 7
    assert stale == []


def test_a_wrong_row_and_a_missing_one_are_seen() -> None:
    text = (ROOT / "docs" / "floors" / "plans.md").read_text("utf-8")
    rows = [line for line in text.splitlines(keepends=True) if line.startswith("| `")]
    assert len(rows) > 15
    for changed in (text.replace(rows[0], ""), text.replace(rows[1], rows[1].upper())):
        assert changed != text
        assert page(changed) == text
    with pytest.raises(ValueError, match="below a heading"):
        page(text.replace("### `dpverify/plans/`", "### Plans"))
