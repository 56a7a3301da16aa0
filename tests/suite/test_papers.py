"""Items of the implemented papers, wherever a text names one: each exists, with its number, in
``numbered_items.toml``.

``test_trees.py`` holds that list against what specs, rules and exhibits state; here are all
other mentions: sources of claims and lemmas, departures, rates, docstrings and pages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpverify.suite.papers import numbered_items

ROOT = Path(__file__).parents[2]
LISTED = {(one.paper, one.item) for one in numbered_items()}
PAPERS = {paper for paper, _ in LISTED}
_KINDS = (
    "Theorem", "Lemma", "Proposition", "Corollary", "Definition", "Algorithm", "Remark", "Fact",
    "Figure",
    "Equation", "Condition", "Assumption",
)  # fmt: skip
_ONE = r"[A-C\d](?:\.\d+)*"
_NAMED = re.compile(
    rf"\b({'|'.join(sorted(PAPERS))})(?:'s)?,?\s+({'|'.join(_KINDS)})s?\s+({_ONE}(?:(?:, "
    rf"| and | to |, and ){_ONE})*)\b"
)


def named(text: str) -> Iterator[tuple[str, str]]:
    """(paper, item) of every numbered item that follows its paper's key; of "Lemmas 4.5 to 4.7"
    the two ends."""
    for paper, kind, numbers in _NAMED.findall(text):
        for number in re.findall(_ONE, numbers):
            yield paper, f"{kind} {number}"


def sourced(text: str) -> Iterator[tuple[str, str]]:
    """(paper, item) of every ``Source`` of an implemented paper, marked on a function or not."""
    for node in ast.walk(ast.parse(text)) if "Source(" in text else ():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Source":
            paper, item = (
                one.value if isinstance(one, ast.Constant) else "" for one in node.args[:2]
            )
            if paper in PAPERS:
                yield str(paper), str(item)


def _files(*patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(ROOT.glob(pattern))


def test_every_item_that_a_text_names_is_one_of_its_paper() -> None:
    texts = _files(
        "dpverify/**/*.py", "spec/**/*.py", "audits/**/*.py", "docs/**/*.md", "*.md", "claims.toml"
    )
    mentions = {(path, one) for path in texts for one in named(path.read_text(encoding="utf-8"))}
    assert [
        (str(path.relative_to(ROOT)), *one) for path, one in mentions if one not in LISTED
    ] == []
    assert len({one for _, one in mentions}) > 20


def test_every_source_begins_with_an_item_of_its_paper() -> None:
    citations = {
        (path, one)
        for path in _files("dpverify/**/*.py", "spec/**/*.py", "audits/**/*.py")
        for one in sourced(path.read_text(encoding="utf-8"))
    }
    begun = re.compile("|".join(rf"{re.escape(item)}(?![\w.]*\w)" for _, item in LISTED))
    wrong = [
        (str(path.relative_to(ROOT)), paper, item)
        for path, (paper, item) in citations
        if not (match := begun.match(item)) or (paper, match[0]) not in LISTED
    ]
    assert wrong == []
    assert {paper for _, (paper, _) in citations} == PAPERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("by ZZ25, Lemma 9.9 (of nobody)", [("ZZ25", "Lemma 9.9")]),
        ("DJYZZ24's\nTheorems 3.1, 4.1 and 5.9",
         [("DJYZZ24", f"Theorem {x}") for x in ("3.1", "4.1", "5.9")]),
        ("DH20, Figures 1 to 3: error", [("DH20", "Figure 1"), ("DH20", "Figure 3")]),
        ("ZZ25, Algorithms B.1 and B.2", [("ZZ25", "Algorithm B.1"), ("ZZ25", "Algorithm B.2")]),
        ("DR14, Theorem 3.16, is no paper that is implemented", []),
    ],
)  # fmt: skip
def test_numbers_are_read(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(named(text)) == expected
    assert {("ZZ25", "Lemma 9.9"), ("DJYZZ24", "Theorem 5.9")}.isdisjoint(LISTED)


def test_a_source_of_no_item_is_seen() -> None:
    text = 'x = Source("ZZ25", "Lemma 9.9, of nobody")\ny = Source("OURS", "anything")'
    assert list(sourced(text)) == [("ZZ25", "Lemma 9.9, of nobody")]
