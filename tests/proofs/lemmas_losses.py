"""Compositions of privacy losses, and bounds in decimals."""

from __future__ import annotations

from .lemmas import Lemma, Term, quotient_is, rounded_up_is, z3


def _least(strict: bool) -> Term:
    n, d, c, other = z3.Ints("n d c other")
    up = quotient_is(c - 1, n, d) if strict else rounded_up_is(c, n, d)
    known = z3.And(d >= 1, up)
    return z3.Implies(known, z3.And(n <= d * c, z3.Implies(n <= d * other, c <= other)))


def negated_division_is_the_least_bound() -> Term:
    """-(-n // d) is the least integer that is not below n / d: round_up is safe and no looser than
    its digits."""
    return _least(False)


def division_plus_one_is_the_least_bound() -> Term:
    """Twin: n // d + 1."""
    return _least(True)


def _squares(copy_first: bool) -> Term:
    before, now = z3.Ints("before now")
    bit = now % 2
    known = z3.And(before >= 1, quotient_is(before, now, 2))
    return z3.Implies(known, (2 * (before + bit) if copy_first else 2 * before + bit) == now)


def squares_and_copies_count_up() -> Term:
    """``_power`` has as many copies as the leading bits of ``times`` say: one more bit doubles them
    and adds it."""
    return _squares(False)


def copies_and_squares_count_up() -> Term:
    """Twin: the copy comes before the square."""
    return _squares(True)


_NUMERICS = "dpverify/privacy/numerics"
LEMMAS = (
    Lemma(
        "least integer above",
        "dpverify/privacy/balls.py:round_up",
        negated_division_is_the_least_bound,
        division_plus_one_is_the_least_bound,
    ),
    Lemma(
        "copies",
        f"{_NUMERICS}/lattice.py:_power",
        squares_and_copies_count_up,
        copies_and_squares_count_up,
    ),
)
