"""Sources of bits and formal exponentials that several tests share."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness import Bits
from dpverify.randomness.enumeration import Exponential

STAND_INS = (Fraction(1, 2), Fraction(2, 5), Fraction(7, 11))
"""Rational stand-ins for a root of exp(-1)."""


class ScriptedBits(Bits):
    """Hands out the given words in order; IndexError when they run out."""

    def __init__(self, words: Iterable[int], word_bits: int = 64) -> None:
        self._left = list(words)
        self.word_bits = word_bits

    def words(self, count: int) -> NDArray[np.uint64]:
        if count > len(self._left):
            raise IndexError("the script is over")
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken, dtype=np.uint64)


class NoBits(Bits):
    """Any draw is an error: what is refused must be refused before a bit is drawn."""

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("a bit was drawn")


def formal_exponential(root: Fraction, unit: int) -> Exponential:
    """g -> root^(g unit), multiplicative in g; a stand-in for exp(-g)."""

    def exponential(exponent: Fraction) -> Fraction:
        power = exponent * unit
        if power.denominator != 1:  # no AssertionError: a false twin must fail for its law
            raise ValueError(f"exp(-{exponent}) is not a power of the root")
        return root**power.numerator

    return exponential
