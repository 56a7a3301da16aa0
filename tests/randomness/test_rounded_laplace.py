"""Rounded Laplace noise: its law fraction for fraction, whatever the number of digits drawn at first."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpverify.randomness import Bits, RoundedLaplace, SeededBits, enumerate_law, rounded_laplace
from dpverify.randomness import rounded_laplace as shipped
from dpverify.randomness.bits import IntArray
from spec.theory.laws import real_exponential
from spec.theory.smooth import rounded_mass
from tests.randomness.helpers import STAND_INS, NoBits, formal_exponential
from tests.randomness.test_samplers import exactly_equal_mass

CASES = [("1/2", 0), ("1", 0), ("1", 1), ("2", 1), ("4/3", 1)]


def _digit_without_odds(bits: Bits, known: int, digits: int, scale: Fraction) -> int:
    """A fair digit at a time."""
    while True:
        digits, known = digits + 1, 2 * known + int(bits.below(2, 1)[0])
        first, last = shipped_module._rounded(np.array([known], dtype=object), digits, scale)
        if first[0] == last[0]:
            return int(first[0])


import dpverify.randomness.rounded_laplace as shipped_module  # noqa: E402


def _check(scale: str, digits: int, root: Fraction) -> Fraction:
    s = Fraction(scale)
    e = formal_exponential(root, 8 * s.numerator)
    law = enumerate_law(
        lambda bits: int(rounded_laplace(bits, s, 1, digits=digits)[0]),
        max_choices=14,
        exponential=e,
    )
    return exactly_equal_mass(law, lambda z: Fraction(rounded_mass(z, s, e)))


@pytest.mark.parametrize("root", STAND_INS[:2], ids=str)
@pytest.mark.parametrize(("scale", "digits"), CASES)
def test_the_law_is_right_fraction_for_fraction(scale: str, digits: int, root: Fraction) -> None:
    assert _check(scale, digits, root) >= Fraction(9, 10)
