"""The samplers and the coins let no float decide anything: read off the source itself.

Except in five functions of ``inversion``, where a proof beside them bounds the floats' error and
what is closer than the bound is left to exact arithmetic. ``blocks`` divides balls and rationals.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from dpverify.randomness import bits, blocks, inversion, samplers, tables

COINS = {"below", "bernoulli", "bernoulli_exp", "bernoulli_rows", "until_accepted", "_integers"}
FORBIDDEN_NAMES = {"math", "cmath", "random", "float", "round", "scipy", "time"}
PROVED = {"as_floats", "excesses", "factors", "exponential", "compared"}
ALLOWED_NUMPY = {
    "add",
    "array",
    "bitwise_and",
    "concatenate",
    "copyto",
    "empty",
    "int16",
    "less",
    "minimum",
    "repeat",
    "right_shift",
    "searchsorted",
    "take",
    "arange",
    "asarray",
    "bool_",
    "flatnonzero",
    "full",
    "int64",
    "intp",
    "ndarray",
    "ones",
    "tile",
    "uint64",
    "uint8",
    "where",
    "zeros",
}


def functions(source: str) -> list[ast.FunctionDef]:
    """Return the outermost functions and methods."""
    definitions: list[ast.FunctionDef] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                definitions.append(child)
            else:
                visit(child)

    visit(ast.parse(source))
    return definitions


def fraction_parameters(function: ast.FunctionDef) -> set[str]:
    """Return the parameters annotated as Fraction: dividing a whole number by one of them is
    exact."""
    arguments = (
        a for f in ast.walk(function) if isinstance(f, ast.FunctionDef) for a in f.args.args
    )
    return {
        a.arg
        for a in arguments
        if isinstance(a.annotation, ast.Name) and a.annotation.id == "Fraction"
    }


def inexact(function: ast.FunctionDef) -> Iterator[str]:
    """List what could bring a float in, with its line."""
    exact = fraction_parameters(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            yield f"{node.lineno}: the literal {node.value}"
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            right = node.right if isinstance(node, ast.BinOp) else node.value
            whole = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)
            if not (whole and isinstance(right, ast.Name) and right.id in exact):
                yield f"{node.lineno}: a true division"
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield f"{node.lineno}: {node.id}"
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) == "np"
            and node.attr not in ALLOWED_NUMPY
        ):
            yield f"{node.lineno}: np.{node.attr}"


def deciding_functions(module: ModuleType) -> list[ast.FunctionDef]:
    definitions = functions(inspect.getsource(module))
    if module is inversion:
        return [f for f in definitions if f.name not in PROVED]
    return [f for f in definitions if module is not bits or f.name in COINS]


def test_every_deciding_function_is_looked_at() -> None:
    assert {f.name for f in deciding_functions(bits)} == COINS
    assert {f.name for f in deciding_functions(samplers)} >= {
        "discrete_laplace",
        "randomized_response",
        "_geometric",
    }


@pytest.mark.parametrize("module", [bits, samplers, tables, inversion], ids=lambda m: m.__name__)
def test_nothing_inexact_decides(module: ModuleType) -> None:
    assert [problem for f in deciding_functions(module) for problem in inexact(f)] == []


def test_blocks_divide_balls_and_rationals_alone() -> None:
    """Check that no float comes in: there is no numpy, no math and no literal."""
    problems = [problem for f in deciding_functions(blocks) for problem in inexact(f)]
    assert all(problem.endswith("a true division") for problem in problems)
    assert "import numpy" not in inspect.getsource(blocks)


def test_the_functions_with_a_proof_are_there_and_hold_the_only_floats() -> None:
    definitions = {f.name: f for f in functions(inspect.getsource(inversion))}
    assert definitions.keys() >= PROVED
    assert all(list(inexact(definitions[name])) for name in PROVED)


@pytest.mark.parametrize(
    "body",
    [
        "return u < 0.5",
        "return u / a",
        "return 1 / a",
        "return scale / 2",
        "u /= a",
        "return math.exp(-u)",
        "return np.exp(-u)",
        "return np.log(u)",
        "return np.random.default_rng()",
        "return np.float64(u)",
        "return float(u) < a",
        "return round(scale)",
        "return (lambda: u * 1e0)()",
    ],
)
def test_a_planted_float_is_found(body: str) -> None:
    (function,) = functions(f"def f(u: int, a: int, scale: Fraction) -> int:\n    {body}\n")
    assert list(inexact(function)) != []


def test_a_whole_number_over_a_fraction_is_exact() -> None:
    (function,) = functions("def f(scale: Fraction) -> Fraction:\n    return 1 / scale\n")
    assert list(inexact(function)) == []
