"""The tables of the trusted base in ARCHITECTURE.md are what the code is; a rule that nothing is
behind is seen."""

from __future__ import annotations

import re

import pytest

from dpverify.privacy import rules, sources_of
from dpverify.suite import papers as suite_papers
from dpverify.suite.dependencies import TRUSTED

from . import trusted_base
from .privacy.enumeration.registry import ENUMERATED
from .trusted_base import (
    PAGE,
    PROVED,
    ROOT,
    arithmetic,
    code_lines,
    enumerated,
    gaps,
    table_of_theorems,
    theorems,
    updated,
)

TEXT = '''"""A module,
in two lines."""

# a comment
import os  # counts

LIMIT = 3
"""A limit."""


def f(
    x: int,
) -> str:
    """A docstring."""

    text = """no docstring,

    so all of its lines count"""
    return text * x


class C:
    """Only this."""
'''


def test_the_tables_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page, "run `python -m tests.trusted_base --update`"


def test_the_theorems_that_users_see_are_those_that_are_tied() -> None:
    assert PROVED.read_text(encoding="utf-8") == table_of_theorems()
    assert {name for name in rules.__all__ if theorems(name)} == {*suite_papers.theorems()}


def test_a_rule_is_said_to_be_proved_by_coq_or_in_prose() -> None:
    place, said = "dpverify/privacy/rules/{}.py:{}".format, suite_papers.proof_at
    composed = place("composition", "adaptive_compose")
    assert "compose_dominated" in said(composed, "DR14", "Theorem B.1")
    assert said(composed, "BS16", "composition of zCDP") == "proved in prose"
    assert said(place("noise", "discrete_gaussian"), "CKS20", "Theorem 14") == "proved in prose"
    assert said("spec/bounded_mean.py:law", "DR14", "Theorem B.1") == ""


def test_what_is_in_prose_beside_theorems_is_stated_by_a_rule_that_has_theorems() -> None:
    sources = [s for name in suite_papers.theorems() for s in sources_of(getattr(rules, name))]
    assert {(source.paper, source.item) for source in sources} > suite_papers.IN_PROSE


def test_lines_of_code_leave_out_what_explains() -> None:
    assert code_lines(TEXT) == 1 + 1 + 3 + 3 + 1 + 1
    assert code_lines("") == code_lines('"""Alone."""\n') == code_lines("# a comment\n\n") == 0
    assert code_lines("x = (\n\n    1\n)\n") == 3


def test_every_file_of_the_core_is_counted_once() -> None:
    rows = [row for row in trusted_base.table_of_files() if row.startswith("| ")]
    files = [file for name in TRUSTED for file in (ROOT / "dpverify" / name).rglob("*.py")]
    counted = [[cell.strip() for cell in row.split("|")[2:5]] for row in rows]
    folders = [int(count) for folder, count, _ in counted if folder.startswith("`")]
    assert sum(folders) == len(files) == int(counted[-1][1])
    lines = sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
    assert f"{lines:,}" == counted[-1][2]
    assert trusted_base.FLOORS.keys() == {*TRUSTED}


def test_every_rule_has_a_row_and_nothing_is_missing() -> None:
    assert gaps() == []
    rows = list(trusted_base.table_of_rules())[2:]
    assert [re.findall(r"`(\w+)`", row)[0] for row in rows] == sorted(rules.__all__)
    assert arithmetic("discrete_laplace") == ["triangle inequality", "L1 norm"]
    assert "keys of a record" in arithmetic("stability_histogram")  # of a function that it calls
    assert arithmetic("post_process") == []
    assert theorems("post_process") == ["`post_process`"]
    assert len(theorems("privacy_filter")) == 2
    assert theorems("advanced_compose") == []


def test_a_rule_without_an_entry_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ENUMERATED, "convert")
    monkeypatch.setitem(trusted_base.LEAVES, "invent", "nothing")
    assert gaps() == [
        "convert: nothing is said to stand behind this rule; enter a test in the registry of "
        "enumerations",
        "invent has an entry and is no rule",
    ]
    with pytest.raises(ValueError, match="convert: nothing is said"):
        updated(PAGE.read_text(encoding="utf-8"))


def test_a_rule_s_test_is_the_registry_s() -> None:
    where = enumerated("compose")
    assert where == "tests/privacy/enumeration/test_composition.py:test_compose"
    path, _, test = where.partition(":")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
    assert not enumerated("conjecture")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="each once, around the tables"):
        updated("# The house\n")
