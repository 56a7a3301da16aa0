"""Single bits and remainders of numbers: low bits, which smooth noise leaves fair, and others
that reveal too much.

A bit is one of weight 2^e where all numbers are multiples of one power of two, else one of the
mantissa: those of numbers on a grid say how large the numbers are. Only bits that differ
plainly become candidates, and leading ones only where they tell far more than the number
itself: so others cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.events import event
from dpverify.audit.witnesses.features import (
    Candidate,
    Score,
    lowest_bit,
    separation,
    telling,
)
from dpverify.privacy.numbers import Floats

_PLAINLY = 4.5  # for a fair bit this is 6.4 standard errors, which none of thousands reaches (1e-6)
_MANTISSA = 52
_HIGH = 6  # leading bits of mantissas, which smooth noise need not have fair
_SPREAD = 64.0  # a bit of weight w is low where the middle of the numbers spans so many w
_MORE = 2.0  # times what the number itself tells: the least that a bit which is not low must tell
_DISTINCT = 0.5  # least share of distinct numbers: a few values have events of their own
_LARGEST = 1 << 53
_MODULI = (3, 5, 7)  # with the lowest bit these tell last digits apart, too
_LEAST_ROWS = 200  # least draws of columns that are not looked at closely
_MOST_COLUMNS = 2048


@dataclass(frozen=True, slots=True)
class _Bit:
    """One bit of the number in a column. unit: numbers are integers times 2^unit; None for the
    mantissa.
    """

    column: int
    place: int
    unit: int | None

    @property
    def name(self) -> str:
        if self.unit is None:
            return f"bit {self.place} of the mantissa of number {self.column} is"
        return f"bit of weight 2^{self.place + self.unit} of number {self.column} is"

    @property
    def shown(self) -> str:
        return "1"

    @property
    def score(self) -> Score:
        def scored(draws: Draws) -> Floats:
            words = _words(draws.column(self.column), self.unit)
            return ((words >> self.place) & 1).astype(np.float64)

        return scored


@dataclass(frozen=True, slots=True)
class _Remainder:
    """Remainder of the number in a column, as a multiple of 2^unit."""

    column: int
    modulus: int
    value: int
    unit: int

    @property
    def name(self) -> str:
        scaled = f" over 2^{self.unit}" if self.unit else ""
        return f"number {self.column}{scaled} modulo {self.modulus} is"

    @property
    def shown(self) -> str:
        return f"{self.value}"

    @property
    def score(self) -> Score:
        def scored(draws: Draws) -> Floats:
            words = _words(draws.column(self.column), self.unit)
            equal: NDArray[np.bool_] = words % self.modulus == self.value
            return equal.astype(np.float64)

        return scored


def low_bits(
    columns: list[int], own: Draws, other: Draws, cells: int, most: int
) -> list[Candidate]:
    """Return bits and remainders that differ plainly, the most telling ones.

    columns: those looked at closely; all others are looked at with few draws. cells: about how
    many numbers are looked at.
    """
    width = min(_MOST_COLUMNS, max(own.numbers.shape[1], other.numbers.shape[1]))
    rest = sorted(set(range(width)).difference(columns))
    bits: list[tuple[float, _Bit | _Remainder]] = []
    for some, least in ((columns, 0), (rest, _LEAST_ROWS)):
        rows = slice(max(least, cells // max(1, len(some))))
        for j in some:
            bits += _telling(j, own.column(j)[rows], other.column(j)[rows])
    bits.sort(key=lambda one: -abs(one[0]))
    return [event(one.name, one.shown, one.score, value) for value, one in bits[:most]]


def _telling(j: int, own: Floats, other: Floats) -> Iterator[tuple[float, _Bit | _Remainder]]:
    both = np.concatenate([own, other])
    if not len(own) or not len(other) or not both.any():
        return
    if len(np.unique(both)) < _DISTINCT * len(both):
        return
    unit, low = _form(both)
    yield from _telling_bits(j, own, other, unit, low)
    if unit is not None:
        yield from _telling_remainders(j, own, other, unit, low)


def _telling_remainders(
    j: int, own: Floats, other: Floats, unit: int, low: float
) -> Iterator[tuple[float, _Remainder]]:
    ours, theirs = _words(own, unit), _words(other, unit)
    for modulus in _MODULI:
        counts = [np.bincount(side % modulus, minlength=modulus) for side in (ours, theirs)]
        values = telling(counts[0], counts[1], len(own), len(other))
        for k in np.flatnonzero(np.abs(values) > _PLAINLY).tolist():
            if modulus <= 2**low or abs(values[k]) > _MORE * separation(own, other):
                yield float(values[k]), _Remainder(j, modulus, k, unit)


def _telling_bits(
    j: int, own: Floats, other: Floats, unit: int | None, low: float
) -> Iterator[tuple[float, _Bit]]:
    ours, theirs = (_ones(_words(side, unit))[:_MANTISSA] for side in (own, other))
    ones = telling(ours, theirs, len(own), len(other))
    zeros = telling(len(own) - ours, len(other) - theirs, len(own), len(other))
    values = np.where(np.abs(ones) >= np.abs(zeros), ones, -zeros)
    for k in np.flatnonzero(np.abs(values) > _PLAINLY).tolist():
        if k < low or abs(values[k]) > _MORE * separation(own, other):
            yield float(values[k]), _Bit(j, k, unit)


def _form(values: Floats) -> tuple[int | None, float]:
    """Return the unit of which all are multiples, None where they need the mantissa; and which
    bits are low.
    """
    unit = int(lowest_bit(values).min())
    if np.abs(values).max() >= np.ldexp(float(_LARGEST), unit):
        return None, _MANTISSA - _HIGH
    span = float(np.subtract(*np.quantile(values, [0.75, 0.25])))
    return unit, float(np.log2(max(1.0, np.ldexp(span, -unit) / _SPREAD)))


def _words(values: Floats, unit: int | None) -> NDArray[np.int64]:
    """Return the bits themselves. What is too large for integers is cut off there."""
    if unit is None:
        return np.ascontiguousarray(values).view(np.int64)
    with np.errstate(all="ignore"):
        scaled = np.floor(np.ldexp(values, -unit))
    return np.clip(scaled, -_LARGEST, _LARGEST).astype(np.int64)


def _ones(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many words have each bit set, from the lowest on."""
    octets = np.ascontiguousarray(words, dtype="<i8").view(np.uint8).reshape(-1, 8)
    counts: NDArray[np.int64] = np.unpackbits(octets, axis=1, bitorder="little").sum(
        axis=0, dtype=np.int64
    )
    return counts
