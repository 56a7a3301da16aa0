"""Every lemma is proved by z3, every false twin refuted; and both are about code that exists."""

from __future__ import annotations

import ast
import inspect
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import (
    lemmas,
    lemmas_bits,
    lemmas_friends,
    lemmas_losses,
    lemmas_noise,
    lemmas_rounding,
    lemmas_samplers,
    lemmas_sums,
    lemmas_thresholds,
)
from .lemmas import Lemma, decide

ROOT = Path(__file__).parents[2]
MODULES = (
    lemmas_rounding,
    lemmas_sums,
    lemmas_bits,
    lemmas_samplers,
    lemmas_noise,
    lemmas_thresholds,
    lemmas_losses,
    lemmas_friends,
)
LEMMAS: list[Lemma] = [lemma for module in MODULES for lemma in module.LEMMAS]
FEWEST = 15

each = pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name.replace(" ", "-"))


@pytest.fixture
def z3() -> Any:
    """Skips a proof where z3 is not installed; what needs no z3 is tested all the same."""
    return pytest.importorskip("z3")


@each
def test_a_statement_is_proved(lemma: Lemma, z3: Any) -> None:
    verdict = decide(lemma.statement())
    assert verdict.word == "proved", f"{lemma.name}: {verdict.word}, {verdict.shown}"


@each
def test_a_false_twin_is_refuted(lemma: Lemma, z3: Any) -> None:
    verdict = decide(lemma.twin())
    assert verdict.word == "refuted", f"{lemma.name}: {verdict.word} {verdict.shown}"


@each
def test_the_premises_of_a_statement_can_hold(lemma: Lemma, z3: Any) -> None:
    statement = lemma.statement()
    if z3.is_implies(statement):
        assert decide(z3.Not(statement.arg(0))).word == "refuted"


@each
def test_a_lemma_names_code_that_exists(lemma: Lemma) -> None:
    assert defined(lemma.where), f"{lemma.where} is not there"


@each
def test_a_statement_says_what_it_is_for_and_a_twin_what_is_wrong(lemma: Lemma) -> None:
    assert lemma.statement.__doc__
    assert (lemma.twin.__doc__ or "").startswith("Twin: ")


def test_no_lemma_is_left_out() -> None:
    assert len(LEMMAS) >= FEWEST
    assert len({lemma.name for lemma in LEMMAS}) == len(LEMMAS)
    files = {path.stem for path in Path(__file__).parent.glob("lemmas_*.py")}
    assert files == {module.__name__.rpartition(".")[2] for module in MODULES}
    listed = {f for lemma in LEMMAS for f in (lemma.statement, lemma.twin)}
    assert len(listed) == 2 * len(LEMMAS)
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                assert function in listed, f"{name} is in no lemma"


def test_a_lemma_about_code_that_does_not_exist_is_noticed() -> None:
    assert defined("dpverify/grid/queries.py:ClampedSum.evaluate")
    assert not defined("dpverify/grid/queries.py:ClampedSum.guess")
    assert not defined("dpverify/grid/queries.py:evaluate")
    assert not defined("dpverify/grid/nowhere.py:quantize")


def test_verdicts(z3: Any) -> None:
    x, y, z = z3.Ints("x y z")
    assert decide(x + 1 > x).word == "proved"
    refuted = decide(x != 3)
    assert (refuted.word, refuted.shown) == ("refuted", "[x = 3]")
    fermat = z3.Implies(z3.And(x > 0, y > 0, z > 0), x**3 + y**3 != z**3)
    assert decide(fermat, timeout_ms=20).word == "unknown"


@pytest.mark.parametrize("x", [Fraction(k, 4) for k in range(-11, 12)], ids=str)
def test_the_words_of_lemmas_mean_what_the_code_means(x: Fraction, z3: Any) -> None:
    def value(term: Any) -> int:
        return int(z3.simplify(term).as_long())

    here = z3.Q(x.numerator, x.denominator)
    assert value(lemmas.rint(here)) == round(x) == np.rint(float(x))
    assert value(lemmas.half_up(here)) == math.floor(x + Fraction(1, 2))
    assert value(lemmas.ceiling(here)) == math.ceil(x) == -(-x.numerator // x.denominator)
    near = [r for r in range(-4, 5) if z3.is_true(z3.simplify(lemmas.is_nearest(r, here)))]
    assert near == [r for r in range(-4, 5) if abs(x - r) <= Fraction(1, 2)]
    k = x.numerator
    for low, high in ((-2, 3), (1, 1), (2, -2)):
        clipped = lemmas.clip(z3.IntVal(k), z3.IntVal(low), z3.IntVal(high))
        assert value(clipped) == np.clip(k, low, high)
    for bits in range(3):
        for q in range(-12, 13):
            down = lemmas.quotient_is(z3.IntVal(q), z3.IntVal(k), z3.IntVal(1 << bits))
            up = lemmas.rounded_up_is(z3.IntVal(q), z3.IntVal(k), z3.IntVal(1 << bits))
            assert z3.is_true(z3.simplify(down)) == (q == k >> bits)
            assert z3.is_true(z3.simplify(up)) == (q == -((-k) >> bits))


def defined(where: str) -> bool:
    """Return whether "dpverify/path.py:name" or ":Class.name" is a function defined there."""
    path, _, dotted = where.partition(":")
    file = ROOT / path
    if not (path.startswith("dpverify/") and file.is_file()):
        return False
    nodes: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    *classes, function = dotted.split(".")
    for name in classes:
        owners = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name]
        nodes = [node for owner in owners for node in owner.body]
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in nodes)
