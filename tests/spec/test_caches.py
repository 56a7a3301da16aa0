"""Caches of specs: none keeps digits of another precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest

from spec.theory import caches, chi_square, normal_fits, slabs

_SPEC = Path(slabs.__file__).parent.parent
_CACHES = {"cache", "lru_cache"}
_FILES = sorted(set(_SPEC.rglob("*.py")) - {Path(caches.__file__)})


def kept_by_arguments_alone(tree: ast.Module) -> Iterator[str]:
    """Yield what remembers values whatever the precision is: caches of functools, and empty
    containers of a module or class, which are there to be filled."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and "functools" in {one.name for one in node.names}:
            yield "functools"
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            yield from sorted(_CACHES & {one.name for one in node.names})
        if isinstance(node, ast.Module | ast.ClassDef):
            for line in node.body:
                value = line.value if isinstance(line, ast.Assign | ast.AnnAssign) else None
                if value is not None and ast.unparse(value) in {"{}", "[]", "dict()", "set()"}:
                    yield ast.unparse(line)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.relative_to(_SPEC).as_posix())
def test_no_cache_is_keyed_by_arguments_alone(path: Path) -> None:
    """Values that a cache keeps may depend on mpmath's precision. Planted: 62 files took those of
    functools, and three filled a dict of their own."""
    assert list(kept_by_arguments_alone(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "text",
    [
        "from functools import lru_cache, partial",
        "import functools",
        "import functools as known",
        "_KNOWN: dict[str, int] = {}",
        "class A:\n    known = dict()",
    ],
)
def test_caches_of_other_kinds_are_seen(text: str) -> None:
    assert list(kept_by_arguments_alone(ast.parse(text)))


def test_one_reading_is_of_one_precision() -> None:
    """A cached property is its object's, so that only objects of a keyed cache may have any."""
    using = [path.stem for path in _FILES if "cached_property" in path.read_text("utf-8")]
    assert using == ["covariance_readings"]
    text = (_SPEC / "gaussian_covariance.py").read_text("utf-8")
    assert text.count("partial(Reading, parameters)") == 2
    assert "cache(partial(Reading, parameters))" in text


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (slabs._shares, (2, 3, 1)),
        (normal_fits.length_within, (7, mp.mpf("0.5"))),
        (chi_square.below, (7, 0.25)),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_who_asks_later_at_more_digits_gets_them(function: Any, given: Any) -> None:
    """Planted: shares of bins at 50 digits were those that were asked for at 15."""

    def at(digits: int) -> Any:
        with mp.workdps(digits):
            value = function(*given)
            return value[0] if isinstance(value, list) else value

    few, many = at(15), at(50)
    assert few != many
    assert abs(few / many - 1) < 1e-13
    assert at(15) == few


def test_a_cache_of_parameters_tells_them_and_precisions_apart() -> None:
    asked = []

    @caches.parameters_cache
    def third(parameters: dict[str, Any], number: int) -> Any:
        asked.append(number)
        return mp.mpf(parameters["one"]) * number / 3

    for one, number, digits in ((1, 1, 15), (1, 1, 30), (2, 1, 15), (1, 2, 15), (1, 1, 15)):
        with mp.workdps(digits):
            assert third({"one": one}, number) == mp.mpf(one) * number / 3
    assert asked == [1, 1, 1, 2]
