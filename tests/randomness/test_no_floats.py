"""No float decides anything in the samplers and the coins: read off the source itself."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from dpverify.randomness import bits, samplers

COINS = {"below", "bernoulli", "bernoulli_exp", "until_accepted", "_integers"}
FORBIDDEN_NAMES = {"math", "cmath", "random", "float", "round", "scipy", "time"}
ALLOWED_NUMPY = {
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
    "where",
    "zeros",
}


def functions(source: str) -> list[ast.FunctionDef]:
    """The outermost functions and methods."""
    found: list[ast.FunctionDef] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                found.append(child)
            else:
                visit(child)

    visit(ast.parse(source))
    return found


def fraction_parameters(function: ast.FunctionDef) -> set[str]:
    """The parameters annotated as Fraction: dividing a whole number by one of them is exact."""
    arguments = (
        a for f in ast.walk(function) if isinstance(f, ast.FunctionDef) for a in f.args.args
    )
    return {
        a.arg
        for a in arguments
        if isinstance(a.annotation, ast.Name) and a.annotation.id == "Fraction"
    }


def inexact(function: ast.FunctionDef) -> Iterator[str]:
    """What could bring a float in, with its line."""
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
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("np."):
            name = ast.unparse(node).removeprefix("np.")
            if name not in ALLOWED_NUMPY:
                yield f"{node.lineno}: np.{name}"


def deciding_functions(module: ModuleType) -> list[ast.FunctionDef]:
    found = functions(inspect.getsource(module))
    return [f for f in found if module is samplers or f.name in COINS]


def test_every_deciding_function_is_looked_at() -> None:
    assert {f.name for f in deciding_functions(bits)} == COINS
    assert {f.name for f in deciding_functions(samplers)} >= {
        "discrete_laplace",
        "randomized_response",
        "_geometric",
        "_bernoulli_exp_constant",
    }


@pytest.mark.parametrize("module", [bits, samplers], ids=["bits", "samplers"])
def test_nothing_inexact_decides(module: ModuleType) -> None:
    assert [found for f in deciding_functions(module) for found in inexact(f)] == []


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
