"""Exact samplers: integer laws of rational scale, given ideal bits.

Noise is drawn by block inversion (``blocks``, ``tables``, ``inversion``): no law is truncated,
and no decision is left to rounding. ``discrete_laplace_by_coins`` takes integer coins alone; its
running time follows the noise, so do not let others time single releases at scales outside
[2^-10, 2^45].
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy import Source, states
from dpverify.randomness.bits import Bits, BoolArray, IntArray
from dpverify.randomness.blocks import (
    Blocks,
    gaussian_blocks,
    laplace_blocks,
    rounded_gaussian_blocks,
)
from dpverify.randomness.choice import Choice
from dpverify.randomness.enumeration import EnumeratedBits
from dpverify.randomness.inversion import draw
from dpverify.randomness.tables import Table, table

SMALLEST_SCALE, LARGEST_SCALE = Fraction(1, 1 << 10), Fraction(1 << 45)
"""Range of scales for which block inversion fits one word; ``discrete_laplace`` has another way
beyond.
"""
_WORD_LIMIT = 1 << 62


def discrete_laplace(bits: Bits, scale: Fraction, size: int) -> IntArray:
    """Draw ``size`` independent integers z with mass proportional to exp(-|z| / scale).

    Raises ValueError for scale <= 0. Enumerated bits take the coins: of 64-bit words there are
    too many (tests/randomness/test_small_words.py enumerates the tables at shorter ones).
    """
    law_table = None if isinstance(bits, EnumeratedBits) else _laplace_table(*_ratio(scale))
    return (
        discrete_laplace_by_coins(bits, scale, size)
        if law_table is None
        else _drawn(law_table, bits, size)
    )


def discrete_gaussian(bits: Bits, sigma: Fraction, size: int) -> IntArray:
    """Draw ``size`` independent integers z with mass proportional to exp(-z^2 / (2 sigma^2)).

    Raises ValueError unless 2^-10 <= sigma <= 2^45.
    """
    return _drawn(_gaussian_table(gaussian_blocks, *_ratio(sigma)), bits, size)


def rounded_gaussian(bits: Bits, sigma: Fraction, size: int) -> IntArray:
    """Draw ``size`` independent integers round(sigma Z), Z a real standard normal number.

    Raises ValueError unless 2^-10 <= sigma <= 2^45.
    """
    return _drawn(_gaussian_table(rounded_gaussian_blocks, *_ratio(sigma)), bits, size)


def _ratio(scale: Fraction) -> tuple[int, int]:
    """Return numerator and denominator, by which tables are found.

    To hash a fraction takes a modular inverse, longer than to draw a coordinate.
    """
    return scale.numerator, scale.denominator


@lru_cache(maxsize=16)
def _laplace_table(numerator: int, denominator: int) -> Table | None:
    """Return the table; None where block inversion does not fit one word."""
    scale = Fraction(numerator, denominator)
    return table(laplace_blocks(scale)) if SMALLEST_SCALE <= scale <= LARGEST_SCALE else None


@lru_cache(maxsize=16)
def _gaussian_table(kind: Callable[[Fraction], Blocks], numerator: int, denominator: int) -> Table:
    return table(kind(_supported(Fraction(numerator, denominator))))


def _drawn(law_table: Table, bits: Bits, size: int) -> IntArray:
    if bits.word_bits != law_table.word_bits:
        raise ValueError(
            f"word_bits = {bits.word_bits}; block inversion reads words of {law_table.word_bits} "
            "bits. Take another source of bits."
        )
    return draw(law_table, bits, size)


def _supported(sigma: Fraction) -> Fraction:
    if not SMALLEST_SCALE <= sigma <= LARGEST_SCALE:
        raise ValueError(
            f"sigma = {sigma}; Gaussian noise is drawn for 2^-10 <= sigma <= 2^45. Choose another "
            "unit for the values it is added to."
        )
    return sigma


@states(Source("CKS20", "Algorithms 1 and 2, exact coins and discrete Laplace noise"))
def discrete_laplace_by_coins(bits: Bits, scale: Fraction, size: int) -> IntArray:
    """Draw ``size`` independent integers z with mass proportional to exp(-|z| / scale), by coins.

    With scale = a / b: X geometric of ratio exp(-1/a), built as U + a V; then floor(X / b) is
    geometric of ratio exp(-b/a); a sign is added and "minus zero" is rejected.

    Source: Canonne, Kamath, Steinke 2020, Algorithm 2. Raises ValueError for scale <= 0.
    """
    if scale <= 0:
        raise ValueError(f"scale = {scale} is not positive.")
    a, b = scale.numerator, scale.denominator

    def remainder(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        u = bits.below(a, len(pending))
        return u, bits.bernoulli_exp(u, a)

    def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        u = bits.until_accepted(len(pending), remainder)
        v = _geometric(bits, len(pending))
        if max((int(v.max(initial=0)) + 1) * a, b) >= _WORD_LIMIT:
            u, v = u.astype(object), v.astype(object)
        magnitude = (u + a * v) // b
        negative = bits.below(2, len(pending)) == 1
        signed = np.where(negative, -magnitude, magnitude)
        return signed, np.asarray(~(negative & (magnitude == 0)), dtype=np.bool_)

    return bits.until_accepted(size, attempt)


def randomized_response(
    bits: Bits, answers: IntArray, categories: int, scale: Fraction, size: int
) -> IntArray:
    """Draw ``size`` rows; each keeps answers[j] with weight 1, other categories exp(-1 / scale).

    Whether an answer is kept is a choice of one category of weight 1 or of the others together.
    Then one of these is uniform. Answers are integers in [0, categories). Shape (size,
    len(answers)).
    """
    shifts = bits.noise(_response(categories, *_ratio(scale)), size * len(answers))
    others = shifts.nonzero()[0]
    shifts[others] = 1 + bits.below(max(1, categories - 1), len(others))
    shown: IntArray = (shifts.reshape(size, len(answers)) + answers) % categories
    return shown


@lru_cache(maxsize=64)
def _response(categories: int, numerator: int, denominator: int) -> Choice:
    """Return the law of whether an answer changes: 1 with the weight of all other categories."""
    return Choice((0, 1), Fraction(denominator, numerator), (1, categories - 1))


def _geometric(bits: Bits, size: int) -> IntArray:
    """Draw the number of successes of exp(-1) coins before the first failure."""
    count = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while len(running):
        succeeded = bits.bernoulli_exp(np.ones(len(running), dtype=np.int64), 1)
        running = running[succeeded.nonzero()[0]]
        count[running] += 1
    return count
