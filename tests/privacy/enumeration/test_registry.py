"""Every public rule has an enumeration, and none has one that is not run."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType

import pytest

from dpverify.privacy import rules

from . import premises
from .registry import ENUMERATED, LEAVES, Enumeration


def _function(entry: Enumeration, name: str) -> FunctionType:
    function = getattr(import_module(f"{__package__}.{entry.module}"), name)
    assert isinstance(function, FunctionType)
    return function


def test_every_rule_that_concludes_something_is_enumerated() -> None:
    assert {*rules.__all__} - LEAVES == {*ENUMERATED}
    assert {*rules.__all__} >= LEAVES


@pytest.mark.parametrize("rule", ENUMERATED)
def test_the_test_of_a_rule_concludes_by_it_and_has_false_twins(rule: str) -> None:
    """Check that a rule's test judges, that it has twins, and that none of them may be skipped."""
    entry = ENUMERATED[rule]
    assert entry.twins
    assert callable(getattr(premises, rule))
    for name in (entry.test, *entry.twins):
        assert name.startswith("test_")
        marks = {mark.name for mark in getattr(_function(entry, name), "pytestmark", [])}
        assert marks <= {"parametrize"}, f"{name} may be skipped"
    assert "judge" in _names(_function(entry, entry.test))


def _names(function: FunctionType) -> set[str]:
    """List what a function and the helpers of its module that it calls refer to."""
    seen, names, left = set[str](), set[str](), [function]
    while left:
        code = left.pop().__code__
        codes = [code, *(c for c in code.co_consts if hasattr(c, "co_names"))]
        for name in {name for one in codes for name in one.co_names}:
            names.add(name)
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and name not in seen:
                seen.add(name)
                left.append(helper)
    return names


@pytest.mark.parametrize("rule", ENUMERATED)
def test_the_test_of_a_rule_calls_it(rule: str) -> None:
    entry = ENUMERATED[rule]
    assert rule in _names(_function(entry, entry.test))
    assert rule in _names(getattr(premises, rule))
