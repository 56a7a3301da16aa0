"""A line is understood in an IDE hover: docstrings of functions begin with a verb, and names of
variables say what these are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("dpverify", "_dpverify_pytest", "spec", "audits")
PHRASES = """
a all an as at by each every for from how in it its no none of one that the this what when where
whether which who whose with
"""
NO_VERBS = frozenset(PHRASES.split())
"""First words of a phrase that leans on its neighbors, or of a noun phrase."""
NOUNS = {"property", "cached_property", "setter"}
"""Decorators of what is read as an attribute, and described as one."""


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements, and what they consist of but for expressions: a tenth of all nodes."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, name, ())


def without_a_verb(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of each function's docstring that begins with no verb."""
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            said = (ast.get_docstring(node) or "Say").partition("\n")[0]
            decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
            if not decorators & NOUNS and said.split()[0].strip(".,:;`").lower() in NO_VERBS:
                yield node.lineno, said


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_of_functions_begin_with_a_verb(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py")]
    assert files
    wrong = [
        f"{file.relative_to(ROOT)}:{line}: {said}"
        for file in files
        for line, said in without_a_verb(file.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_phrase_is_seen_and_an_attribute_is_none() -> None:
    function = 'def f():\n    """{}"""\n'
    assert [*without_a_verb(function.format("What the first stage releases."))]
    assert [*without_a_verb(function.format("Of k steps."))]
    assert not [*without_a_verb(function.format("Return the first stage's query."))]
    assert not [*without_a_verb("@property\n" + function.format("The first stage's query."))]


EVERYWHERE = (*FOLDERS, "tests")
VAGUE = "found"
"""Name that tells how a value came about, and not what it is."""


def vague_names(source: str) -> Iterator[int]:
    """Yield the lines that bind a variable, a parameter or a function of the vague name."""
    for node in ast.walk(ast.parse(source)) if re.search(rf"\b{VAGUE}\b", source) else ():
        bound = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
        bound = bound or (node.arg if isinstance(node, ast.arg) else "")
        bound = bound or (node.name if isinstance(node, ast.FunctionDef) else "")
        if bound == VAGUE:
            yield getattr(node, "lineno", 0)


@pytest.mark.parametrize("folder", EVERYWHERE)
def test_no_variable_has_the_vague_name(folder: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in (ROOT / folder).rglob("*.py")
        for line in vague_names(file.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source", ["found = 1", "for found in []: pass", "lambda found: 0", "def found(): pass"]
)
def test_a_vague_name_is_seen(source: str) -> None:
    assert [*vague_names(source)] == [1]
