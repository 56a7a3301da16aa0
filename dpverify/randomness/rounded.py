"""Laplace noise of any rational scale, rounded to an integer, exactly: for scales that follow the data.

round(s Z), Z standard Laplace: |Z| is exponential, and floor(2^k |Z|) is geometric, whatever s is; one
public table draws it (a discrete Laplace number other than 0, less 1 in magnitude). That mostly decides
floor(s |Z| + 1/2), by comparing integers. Where it does not, |Z| gets more binary digits: those of an
exponential number are independent, the one of weight w being 1 with odds e^-w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.bits import Bits, BoolArray, IntArray
from dpverify.randomness.samplers import discrete_laplace

_DIGITS = 30
_WORD_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class RoundedLaplace:
    """The law of round(scale Z), Z standard Laplace, halves away from 0; scale > 0."""

    scale: Fraction

    def draw(self, bits: Bits, size: int) -> IntArray:
        """``rounded_laplace``."""
        return rounded_laplace(bits, self.scale, size)

    def atoms(self, exponential: Callable[[Fraction], Fraction]) -> list[tuple[int, Fraction]]:
        """P(|z| >= j) = e^(-(j - 1/2) / scale), up to where 1/4000 of the mass is left."""
        step, beyond = exponential(1 / self.scale), exponential(1 / (2 * self.scale))
        found, j = [(0, 1 - beyond)], 0
        while 4000 * beyond > 1:
            j, mass = j + 1, beyond * (1 - step) / 2
            found += [(j, mass), (-j, mass)]
            beyond *= step
        return found


def rounded_laplace(bits: Bits, scale: Fraction, size: int, *, digits: int = _DIGITS) -> IntArray:
    """``size`` independent integers round(scale Z), Z a real standard Laplace number.

    digits: of |Z|, after the binary point, that are drawn at first; any number gives the same law.
    Raises ValueError for scale <= 0.
    """
    if scale <= 0:
        raise ValueError(f"scale = {scale} is not positive.")

    def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        drawn = discrete_laplace(bits, Fraction(1 << digits), len(pending))
        return drawn, np.asarray(drawn != 0, dtype=np.bool_)

    drawn = bits.until_accepted(size, attempt)
    known = np.where(drawn < 0, -drawn, drawn) - 1  # the digits of |Z| so far, as an integer
    found, last = _rounded(known, digits, scale)
    for i in np.flatnonzero(np.asarray(found != last, dtype=np.bool_)).tolist():
        found[i] = _refined(bits, int(known[i]), digits, scale)
    return np.where(drawn < 0, -found, found)


def _rounded(known: IntArray, digits: int, scale: Fraction) -> tuple[IntArray, IntArray]:
    """floor(scale x + 1/2) at x = known 2^-digits, and just before (known + 1) 2^-digits."""
    slope, half = 2 * scale.numerator, scale.denominator << digits
    if slope * (int(known.max(initial=0)) + 1) + 3 * half >= _WORD_LIMIT:
        known = known.astype(object)
    first: IntArray = (slope * known + half) // (2 * half)
    last: IntArray = -((-slope * (known + 1) - half) // (2 * half)) - 1
    return first, last


def _refined(bits: Bits, known: int, digits: int, scale: Fraction) -> int:
    """The same of one number, with as many more digits as it takes."""
    while True:
        digits += 1
        weight = 1 << digits

        def digit(pending: NDArray[np.intp], weight: int = weight) -> tuple[IntArray, BoolArray]:
            proposed = bits.below(2, len(pending))
            kept = np.asarray(proposed == 0, dtype=np.bool_)
            ones = np.flatnonzero(~kept)
            kept[ones] = bits.bernoulli_exp(np.ones(len(ones), dtype=np.int64), weight)
            return proposed, kept

        known = 2 * known + int(bits.until_accepted(1, digit)[0])
        first, last = _rounded(np.array([known], dtype=object), digits, scale)
        if first[0] == last[0]:
            return int(first[0])
