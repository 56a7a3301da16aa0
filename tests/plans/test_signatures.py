"""``for_budget`` has each mechanism's own parameters, for type checkers and at run time."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from typing import Any

import pytest

import dpverify
from dpverify import Adjacency, BoundedMean, PureDP
from dpverify.plans import Mechanism

from .signatures import REFUSED, accepted, accepted_budgets

KINDS = [
    kind
    for kind in vars(dpverify).values()
    if isinstance(kind, type) and issubclass(kind, Mechanism) and not inspect.isabstract(kind)
]
SPREAD = {"columns", "trace", "largest"}
"""Parameters that some mechanisms take in place of a covariance."""


def _written(kind: type[Any]) -> ast.FunctionDef | None:
    """Find the signature that a class writes down for type checkers, because it chooses
    parameters."""
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    functions = [
        function
        for one in tree.body
        if isinstance(one, ast.ClassDef) and one.name == kind.__name__
        for block in one.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for function in block.body
        if isinstance(function, ast.FunctionDef) and function.name == "for_budget"
    ]
    return functions[0] if functions else None


WRITTEN = {kind: written for kind in KINDS if (written := _written(kind))}


def test_what_type_checkers_let_in_is_made() -> None:
    assert [type(one).__name__ for one in accepted()][-1] == "BoundedMean"
    accepted_budgets()


@pytest.mark.parametrize("case", REFUSED)
def test_what_type_checkers_keep_out_is_refused(case: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        REFUSED[case]()


def test_classes_that_choose_parameters_write_their_signature() -> None:
    chooses = {kind for kind in KINDS if "calibrated_for" in vars(kind)}
    assert set(WRITTEN) <= chooses
    # these two choose what has a default anyway
    assert {kind.__name__ for kind in chooses - set(WRITTEN)} == {
        "PrivateQuantiles",
        "SmoothMedian",
        "SparseVector",
    }


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.__name__)
def test_a_written_signature_has_the_parameters_of_the_class(kind: type[Any]) -> None:
    """Compare names, annotations and defaults; what the class chooses says so, and what has no
    default elsewhere has none."""
    arguments = WRITTEN[kind].args
    written = {
        one.arg: (ast.unparse(one.annotation or ast.Constant(None)), default)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    fields = {one.name: one for one in dataclasses.fields(kind) if one.init}
    taken = inspect.signature(kind.calibrated_for).parameters.values()
    more = {one.name for one in taken if one.kind is one.KEYWORD_ONLY} - {*fields}
    assert more <= {*written}, "what calibrated_for takes by name is written down"
    assert {*written} - more - SPREAD == {*fields} - {"noise_multiplier", "budget"}
    for name in {*written} - more - SPREAD:
        annotation, default = written[name]
        assert annotation == ast.unparse(ast.parse(str(fields[name].type)))
        if default is None:
            assert fields[name].default is dataclasses.MISSING
        elif ast.unparse(default) != "CHOSEN":
            module = vars(sys.modules[kind.__module__])
            assert eval(ast.unparse(default), module) == fields[name].default


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"adjacency": Adjacency.REPLACE, "noise_multiplier": 2}, "noise_multiplier is no"),
        ({"adjacency": Adjacency.REPLACE, "budget": PureDP(1)}, "budget is no parameter"),
        ({"lower": 0, "upper": 1}, "adjacency is missing, and has no default"),
        ({"adjacency": Adjacency.REPLACE, "lowr": 0}, "lowr"),
    ],
)
def test_refusals_say_what_to_write(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        BoundedMean.for_budget(PureDP(1), **given)


def test_without_a_noise_multiplier_nothing_is_made() -> None:
    with pytest.raises(ValueError, match=r"noise_multiplier = 0 is not positive; use for_budget"):
        BoundedMean(adjacency=Adjacency.REPLACE, lower=0, upper=1)
