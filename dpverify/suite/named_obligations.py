"""Names of obligations in the strings of a module, read from its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

_PREFIX = "obligation_"
"""Prefix of every obligation's name, in one piece wherever the name is written."""
BEGINNING = re.compile(rf"{_PREFIX}\w*", re.ASCII)
"""Pattern of the beginning of a name, which a format, an escape or another string may go on."""
_ARGUMENT = re.compile(
    r'^[^\n#"\']*[=,(][ \t\n]*(?:"((?:[\w/]+\.py:)?)|f"\{(\w+)\}:)'
    rf'({_PREFIX}\w*)"[ \t]*[,)]', re.ASCII | re.M
)  # fmt: skip


@cache
def names_in(text: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of the obligations that strings of a module name.

    What a format string inserts is known if it is a constant of the module, and could be
    anything if not.
    """
    plain = _plain_names(text)
    return tuple(_patterns(ast.parse(text)) if plain is None else map(_pattern_of, plain))


def _plain_names(text: str) -> list[str] | None:
    """Return the patterns where nothing has to be parsed: each name is an argument of a call, a
    string by itself or after a constant, outside docstrings. None where one may not be.
    """
    plain, patterns = [*_ARGUMENT.finditer(text)], list[str]()
    if len(plain) != text.count(_PREFIX):
        return None
    for one in plain:
        before, constant, name = one.groups()
        if constant is not None:
            given = re.findall(rf'^{constant}\b(?: = "([\w/.]+)"$)?', text, re.M)
            before = f"{given[0]}:" if len(given) == 1 and given[0] else None
        if before is None or text.count('"""', 0, one.start()) % 2:
            return None
        patterns.append(re.escape(before + name))
    return patterns


def _pattern_of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern if ":" in pattern else f".*:{pattern}")


def _patterns(tree: ast.Module) -> Iterator[re.Pattern[str]]:
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    formats = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formats for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pattern = "".join(_pattern(part, constants) for part in node.values)
        elif isinstance(node, ast.Constant) and id(node) not in parts:
            pattern = re.escape(node.value) if isinstance(node.value, str) else ""
        else:
            continue
        if _PREFIX in pattern:
            yield _pattern_of(pattern)


def _pattern(part: ast.expr, constants: dict[str, str]) -> str:
    """Return the pattern of a part of a format string."""
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
        known = constants.get(part.value.id)
        return ".*" if known is None else re.escape(known)
    return ".*"
