"""Laplace noise of any rational scale, rounded to an integer, exactly.

It is for scales that follow the data. round(s Z), Z standard Laplace: |Z| is exponential, and
floor(2^k |Z|) is geometric, whatever s is; one public table draws it (a discrete Laplace number
other than 0, less 1 in magnitude). That mostly decides floor(s |Z| + 1/2), by comparing
integers. Where it does not, |Z| gets more binary digits: those of an exponential number are
independent, the one of weight w being 1 with odds e^-w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.bits import Bits, BoolArray, IntArray
from dpverify.randomness.samplers import discrete_laplace

_DIGITS = 40
_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class RoundedLaplace:
    """The law of round(scale Z), Z standard Laplace, halves away from 0; scale > 0."""

    scale: Fraction

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw as ``rounded_laplace`` does."""
        return rounded_laplace(bits, self.scale, size)

    def atoms(self, exponential: Callable[[Fraction], Fraction]) -> list[tuple[int, Fraction]]:
        """Return atoms by P(|z| >= j) = e^(-(j - 1/2) / scale), but for 1/4000 of the mass."""
        step, beyond = exponential(1 / self.scale), exponential(1 / (2 * self.scale))
        atoms, j = [(0, 1 - beyond)], 0
        while 4000 * beyond > 1:
            j, mass = j + 1, beyond * (1 - step) / 2
            atoms += [(j, mass), (-j, mass)]
            beyond *= step
        return atoms


def rounded_laplace(bits: Bits, scale: Fraction, size: int, *, digits: int = _DIGITS) -> IntArray:
    """Draw ``size`` independent integers round(scale Z), Z a real standard Laplace number.

    digits: number of binary digits of |Z|, after the point, that are drawn at first; any number
    gives the same law.

    Raises ValueError for scale <= 0.
    """
    if scale <= 0:
        raise ValueError(f"scale = {scale} is not positive.")

    def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        drawn = discrete_laplace(bits, Fraction(1 << digits), len(pending))
        return drawn, np.asarray(drawn != 0, dtype=np.bool_)

    drawn = bits.until_accepted(size, attempt)
    known = np.abs(drawn) - 1  # the digits of |Z| so far, as an integer
    rounded, open_ = _rounded(known, digits, scale)
    known = known[open_].astype(object)
    while len(open_):
        digits += 1
        known = 2 * known + _digit(bits, digits, len(open_))
        values, still = _rounded(known, digits, scale)
        rounded[open_] = values  # below the ends that fewer digits had, so they fit
        known, open_ = known[still], open_[still]
    return np.where(drawn < 0, -rounded, rounded)


def _rounded(known: IntArray, digits: int, scale: Fraction) -> tuple[IntArray, NDArray[np.intp]]:
    """Return floor(scale x + 1/2) at x = known 2^-digits, and where later digits may raise it.

    That is where it is more just before (known + 1) 2^-digits. Only as many digits are used as
    64-bit integers have room for, and all of them where these do not decide.
    """
    slope, most = 2 * scale.numerator, int(known.max(initial=0)) + 1
    few = 0  # digits left out at first
    while (
        few < digits and _needed(slope, most >> few, scale.denominator << (digits - few)) >= _LIMIT
    ):
        few += 1
    if _needed(slope, most >> few, scale.denominator << (digits - few)) >= _LIMIT:
        return _exactly(known.astype(object), digits, scale)
    first, open_ = _exactly((known >> few).astype(np.int64), digits - few, scale)
    if few == 0 or not len(open_):
        return first, open_
    whole, left = scale.denominator << (digits + 1), known[open_]
    if left.dtype == object or whole + (slope << few) >= _LIMIT:
        values, still = _exactly(left.astype(object), digits, scale)
    else:
        values, still = _raised(first[open_], left, slope, whole)
    first[open_] = values  # at most the last one that fewer digits leave, which fits
    return first, open_[still]


def _needed(slope: int, most: int, half: int) -> int:
    """Return a bound above any number on the way."""
    return slope * (most + 1) + 3 * half


def _exactly(known: IntArray, digits: int, scale: Fraction) -> tuple[IntArray, NDArray[np.intp]]:
    slope, whole = 2 * scale.numerator, scale.denominator << (digits + 1)
    numerators = slope * known + (whole >> 1)
    first: IntArray = numerators // whole
    return first, _open(numerators - first * whole, slope, whole)


def _raised(
    first: IntArray, known: IntArray, slope: int, whole: int
) -> tuple[IntArray, NDArray[np.intp]]:
    """Return what ``_exactly`` does, from the quotients that fewer digits gave.

    What these leave of a numerator is below ``whole``, and the digits left out add less than
    ``slope`` 2^few to it. Both together are below 2^62, so a rest is its residue modulo 2^64, to
    which all products are reduced.
    """
    products = known.view(np.uint64) * np.uint64(slope) - first.view(np.uint64) * np.uint64(whole)
    rests = (products + np.uint64(whole >> 1)).view(np.int64)
    more = rests // whole
    return first + more, _open(rests - more * whole, slope, whole)


def _open(rests: IntArray, slope: int, whole: int) -> NDArray[np.intp]:
    """Return where a rest of a division by ``whole`` exceeds it after less than ``slope`` more."""
    return np.flatnonzero(np.asarray(rests > whole - slope, dtype=np.bool_))


def _digit(bits: Bits, place: int, size: int) -> IntArray:
    """Draw the binary digits of weight 2^-place of exponential numbers: 1 with odds
    e^-(2^-place).
    """

    def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        proposed = bits.below(2, len(pending))
        kept = np.asarray(proposed == 0, dtype=np.bool_)
        ones = np.flatnonzero(~kept)
        kept[ones] = bits.bernoulli_exp(np.ones(len(ones), dtype=np.int64), 1 << place)
        return proposed, kept

    return bits.until_accepted(size, attempt)
