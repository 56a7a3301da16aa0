"""Machine-proved lemmas: their form, how z3 decides them, and the integer words that they share.

A lemma is a fact of arithmetic that a function of the trusted core relies on, kept with a *twin*: a
plausible mis-statement of it. z3 must find that nothing contradicts the statement, and something
that contradicts the twin. Statement and twin are mostly made by one function of what differs, so
they share their premises, and a lemma cannot hold only because its premises never do.

Integers and reals are unbounded here. That shipped int64 arithmetic agrees with them is a lemma of
its own (lemmas_sums.py, lemmas_samplers.py); that floats do is for tests.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

z3: Any = importlib.import_module("z3") if importlib.util.find_spec("z3") else None
"""Untyped. None where it is not installed: proofs are skipped then, but lemmas still counted."""

Term = Any
"""A z3 expression."""
TIMEOUT_MS = 2000


@dataclass(frozen=True, slots=True)
class Lemma:
    """``where``: the code that relies on it, as "dpverify/path.py:function" or ":Class.method".

    ``statement`` and ``twin`` make a z3 BoolRef, meant for all values of its constants.
    """

    name: str
    where: str
    statement: Callable[[], Term]
    twin: Callable[[], Term]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``word``: "proved", "refuted" (``shown`` is a counterexample) or "unknown" (the reason)."""

    word: str
    shown: str


def decide(formula: Term, timeout_ms: int = TIMEOUT_MS) -> Verdict:
    """Return whether the formula holds for all values of its constants: its negation has no
    model."""
    own = z3.Context()  # what z3 does is then the same whatever was decided before
    solver = z3.Solver(ctx=own)
    solver.set("timeout", timeout_ms)
    solver.add(z3.Not(formula).translate(own))
    answer = solver.check()
    if answer == z3.unsat:
        return Verdict("proved", "")
    if answer == z3.sat:
        return Verdict("refuted", str(solver.model()))
    return Verdict("unknown", solver.reason_unknown())


def size(x: Term) -> Term:
    """|x|."""
    return z3.If(x >= 0, x, -x)


def larger(x: Term, y: Term) -> Term:
    """max(x, y)."""
    return z3.If(x >= y, x, y)


def smaller(x: Term, y: Term) -> Term:
    """min(x, y)."""
    return z3.If(x <= y, x, y)


def clip(x: Term, low: Term, high: Term) -> Term:
    """np.clip: the larger of x and low, then the smaller of that and high."""
    return smaller(larger(x, low), high)


def is_below(x: Term, n: Term) -> Term:
    """0 <= x < n."""
    return z3.And(x >= 0, x < n)


def one(condition: Term) -> Term:
    """1 where the condition holds, else 0."""
    return z3.If(condition, 1, 0)


def ceiling(x: Term) -> Term:
    """The least integer that is not below the real x."""
    return -z3.ToInt(-x)


def half_up(x: Term) -> Term:
    """The nearest integer, ties upward."""
    return z3.ToInt(x + z3.Q(1, 2))


def rint(x: Term) -> Term:
    """np.rint: the nearest integer, ties to even."""
    up = half_up(x)
    return z3.If(z3.And(up == x + z3.Q(1, 2), up % 2 == 1), up - 1, up)


def is_nearest(r: Term, x: Term) -> Term:
    """The integer r is a nearest one to x; at a tie either of the two."""
    return size(x - r) <= z3.Q(1, 2)


def quotient_is(q: Term, x: Term, divisor: Term) -> Term:
    """q = x // divisor (x >> b for divisor 2^b), the divisor being positive."""
    return z3.And(divisor * q <= x, x < divisor * (q + 1))


def rounded_up_is(q: Term, x: Term, divisor: Term) -> Term:
    """q = -((-x) // divisor), the divisor being positive."""
    return quotient_is(-q, -x, divisor)
