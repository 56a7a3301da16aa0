"""The soft core's theorem is not true of other weights: what each condition in it is for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from spec import soft_core
from spec.theory import soft_weights
from spec.theory.embeddings import Weight
from spec.theory.obligations import ObligationFailed


def _from_a_third(full: Fraction) -> Weight:
    """Count a record from a third of all on: a < 1/2."""
    p, q = full.numerator, full.denominator
    return lambda degree, n: min(max(0, q * (3 * degree - n)), (2 * p - q) * n)


def _from_one_less(full: Fraction) -> Weight:
    """Count a record from (n - 1) / 2 friends on: half of all are enough."""
    p, q = full.numerator, full.denominator
    return lambda degree, n: min(max(0, q * (2 * degree - n + 1)), (2 * p - q) * n)


def _steeper(full: Fraction) -> Weight:
    """Weigh as steeply as for another share than the claimed one."""
    return soft_weights.weight(Fraction(1, 2) + (full - Fraction(1, 2)) / 2)


_MUTANTS: dict[str, Callable[[Fraction], Weight]] = {
    "from a third": _from_a_third,
    "from one friend less": _from_one_less,
    "twice as steep": _steeper,
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_other_weights_move_the_mean_further(name: str) -> None:
    with pytest.raises(ObligationFailed):
        soft_core.obligation_reach(weigh=_MUTANTS[name])


def test_full_at_all_of_them_is_the_reach_of_degree_weights() -> None:
    assert soft_weights.reach(Fraction(1), Fraction(1)) == Fraction(17, 8)
    assert soft_weights.moves(Fraction(1)) == 6


def test_weights_and_agreement_of_a_few_records() -> None:
    """Ten records, nine of them friends: 9 friends are all that full = 9/10 asks but for half of
    one."""
    degrees = [9] * 9 + [1]
    assert soft_weights.weights(degrees, Fraction(9, 10)) == (70,) * 9 + (0,)
    assert soft_weights.exact_agreement(630, 10, Fraction(9, 10)) == Fraction(2 * 630, 80) - 10
    assert soft_weights.agreement(degrees, Fraction(9, 10)) == 5
    assert soft_weights.agreement(degrees, Fraction(3, 4)) == 8
    assert soft_weights.agreement([], Fraction(3, 4)) == 0
