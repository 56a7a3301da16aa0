"""Draws by block inversion: one word each for nearly all, exact for every one.

A draw is a function of three uniform real numbers U, U', t (and a sign) whose bits are read as
far as they are needed: U chooses the block, t the place in it, and the value is accepted if
U' < exp(-g), g its excess (``blocks``). Three stages decide the same questions with more and
more bits, and no stage answers one that its bits leave open:

1. one word, integers compared with tables (``tables``): all but about 3% of the draws;
2. three more words, 64 bits of each number. exp(-g) is a polynomial in floats, whose error is
   proved below; a comparison as close as ``MARGIN`` is left open;
3. rationals and balls, with bits added until the answer is sure: for about one in 2^43 of the
   second stage's draws.

The only floats of the samplers are in ``as_floats``, ``factors``, ``excesses``, ``exponential``
and ``compared`` here.

The floats' error. Let e = 2^-53; every operation is IEEE + or * (numpy's or Python's, no
library function), so its result is (1 + d) times the true one, |d| <= e, and nothing here is
subnormal.
- The excess a o (2 L + o) or a o, for the rational a, the left end L, the offset o. On the
  integers L, o and 2 L + o are whole numbers below 2^53, hence exact; the coefficient's
  rounding and two products make a relative error below 3.01 e, and g <= 1/2 (``tables`` refuses
  more): 1.6 e. On the line, in units of m: o is the first 64 bits of t, and its conversion errs
  by at most e, which g, of slope a (2 j + 2 t) <= 2 g(1) <= 1, does not enlarge; 2 j + o rounds
  once more: 1.6 e + e + e / 2. Either way less than 4 e. (What later bits add to t is for
  ``compared`` to allow for.)
- The Horner scheme of degree 13 on [0, 1/2]: at most 2^-52 from the polynomial (a proof by
  Gappa is kept in tests/proofs/horner.gappa), which the remainder g^14 / 14! < 2^-50 parts from
  exp(-g), whose slope is at most 1 in absolute value.
- The first 64 bits of U' as a float: e / 2; the difference rounds by e / 2 more.
All in all 2^-51 + 2^-52 + 2^-50 + 2^-53 < 2^-49, and MARGIN is 2^-44.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats
from dpverify.randomness.bits import Bits, BoolArray, IntArray
from dpverify.randomness.blocks import Blocks, block_between, exponential_between
from dpverify.randomness.tables import Table

Words = NDArray[np.uint64]

CHUNK = 1 << 14
"""Number of draws whose buffers stay in the processor's cache together."""
SMALL = 1 << 12
FEW = 16
"""Number of draws that take less time one by one, in Python's integers."""
MARGIN = 2.0**-44
_DEGREE = 13
_COEFFICIENTS: tuple[float, ...] = tuple((-1) ** k / math.factorial(k) for k in range(_DEGREE + 1))
_DOWNWARD_ARRAYS = tuple(map(np.array, _COEFFICIENTS[-2::-1]))
"""All but the last, for arrays, which numpy would make of them in every operation."""
_WORD_LIMIT = 1 << 62
_Real = TypeVar("_Real", float, Floats)


def draw(table: Table, bits: Bits, size: int) -> IntArray:
    """Draw ``size`` independent integers, int64 (object if one is beyond 62 bits).

    Needs words of 64 bits. Small batches go through the second stage as a whole: whether the
    first stage suffices depends on the noise, and among few draws the time would tell. (How
    often a draw is rejected does not depend on what it is in the end.)
    """
    if size <= FEW:
        drawn = few(table, bits, size)
        large = max(map(abs, drawn), default=0) >= _WORD_LIMIT
        return np.array(drawn, dtype=object if large else np.int64)
    if size <= SMALL:
        values, accepted = settled(table, bits, bits.words(size))
        left = (~accepted).nonzero()[0]
    else:
        values = np.empty(size, dtype=np.int64)
        left, words = _first_stage(table, bits, values)
        numbers, accepted = settled(table, bits, words)
        values = _put(values, left, numbers)
        left = left[~accepted]
    return _put(values, left, draw(table, bits, len(left))) if len(left) else values


def _put(values: IntArray, where: NDArray[np.intp], numbers: IntArray) -> IntArray:
    if numbers.dtype != values.dtype:  # one of the two has more than 62 bits
        values = values.astype(object)
    values[where] = numbers
    return values


def _first_stage(table: Table, bits: Bits, values: IntArray) -> tuple[NDArray[np.intp], Words]:
    """Fill ``values``; return the indices where something was left open, and their words."""
    left, words = [], []
    buffers = Buffers.of(min(CHUNK, len(values)))
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        chunk = bits.words(len(part))
        open_ = np.flatnonzero(~at_once(table, chunk, part, buffers))
        left.append(open_ + start)
        words.append(chunk[open_])
    return np.concatenate(left), np.concatenate(words)


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Room for one chunk's intermediate results."""

    words: Words
    row: NDArray[np.int16]
    index: NDArray[np.int64]
    limit: Words
    accepted: BoolArray

    @classmethod
    def of(cls, size: int) -> Buffers:
        """Make buffers for chunks of up to ``size`` draws."""
        return cls(
            np.empty(size, dtype=np.uint64),
            np.empty(size, dtype=np.int16),
            np.empty(size, dtype=np.int64),
            np.empty(size, dtype=np.uint64),
            np.empty(size, dtype=np.bool_),
        )


def at_once(table: Table, words: Words, values: IntArray, buffers: Buffers) -> BoolArray:
    """Run the first stage: return whether each word alone decides.

    Where it does, ``values`` holds its integer. The result is a view of a buffer.
    """
    size = len(words)
    scratch, row, index = buffers.words[:size], buffers.row[:size], buffers.index[:size]
    limit, accepted = buffers.limit[:size], buffers.accepted[:size]
    np.right_shift(words, np.uint64(table.low_bits), out=scratch)
    # mode="clip" only spares numpy a second buffer: every index is in range.
    np.take(table.rows, scratch.view(np.int64), out=row, mode="clip")
    np.copyto(index, row)
    np.take(table.limits, index, out=limit, mode="clip")
    np.bitwise_and(words, np.uint64((1 << table.low_bits) - 1), out=scratch)
    np.less(scratch, limit, out=accepted)
    np.take(table.bases, index, out=values, mode="clip")
    if table.blocks.offset_bits:
        np.bitwise_and(words, np.uint64((1 << table.blocks.offset_bits) - 1), out=scratch)
        np.add(values, scratch.view(np.int64), out=values)
    if table.halved:
        np.right_shift(values, 1, out=values)
    return accepted


def settled(table: Table, bits: Bits, words: Words) -> tuple[IntArray, BoolArray]:
    """Run the second stage, and the third where it is needed: integers, and which are accepted."""
    second = second_stage(table, words, bits.words(3 * len(words)).reshape(3, -1))
    values, accepted = second.values, second.accepted
    for i in second.open.nonzero()[0].tolist():
        numbers = (int(each[i]) for each in (second.u, second.u2, second.t))
        exact, accepted[i] = _third_stage(table, bits, Open(i, bool(second.negative[i]), *numbers))
        values = _put(values, np.array([i]), _integer(exact))
    return values, accepted


def few(table: Table, bits: Bits, size: int) -> list[int]:
    """Draw as ``draw`` does, in Python's integers.

    For so few, numpy's calls alone would take longer.
    """
    values, accepted, opened = one_by_one(table, bits.words(4 * size).tolist())
    for one in opened:
        values[one.place], accepted[one.place] = _third_stage(table, bits, one)
    left = [i for i, yes in enumerate(accepted) if not yes]
    if left:
        for i, value in zip(left, few(table, bits, len(left)), strict=True):
            values[i] = value
    return values


def one_by_one(table: Table, words: list[int]) -> tuple[list[int], list[bool], list[Open]]:
    """Run the second stage in Python's integers, by the operations of ``second_stage``.

    They are the same whatever the value.

    words: the first of every draw, then of every draw the one with more bits of U, of U', of t.

    Returns integers, which are accepted, and what is open.
    """
    own, thresholds, bases, masks, shifts = _constants(table)
    (top, middle, last), (up, cell_bits, acceptance_bits, offset_bits, rest, low_bits) = (
        masks,
        shifts,
    )
    rounded, halved, size = table.blocks.rounded, table.halved, table.word_bits
    values: list[int] = []
    accepted: list[bool] = []
    opened: list[Open] = []
    n = len(words) // 4
    each = words[:n], words[n : 2 * n], words[2 * n : 3 * n], words[3 * n :]
    for word, first, second, third in zip(*each, strict=True):
        u = word & top | first >> cell_bits
        # 0 or -1: x ^ sign is x or -x - 1, and no branch shows which
        sign = -(word >> low_bits & 1)
        u2 = (word & middle) << up | second >> acceptance_bits
        inside = (word ^ sign) & last
        block = bisect_left(thresholds, u)
        base = bases[block]
        if rounded:
            t = inside << rest | third >> offset_bits
            excess = excesses(own, block, t)
        else:
            t, inside = inside, inside if block else 0
            excess = excesses(own, base, inside)
        yes, unsure = compared(u2, size, excess)
        if unsure or thresholds[block] == u:
            opened.append(Open(len(values), sign < 0, u, u2, t))
        values.append((((base + inside) >> halved) ^ sign) - sign)
        accepted.append(yes)
    return values, accepted, opened


class Open(NamedTuple):
    """A draw that 64 bits of each number leave open.

    Its place in the batch, its sign, and these bits.
    """

    place: int
    negative: bool
    u: int
    u2: int
    t: int


def _third_stage(table: Table, bits: Bits, one: Open) -> tuple[int, bool]:
    """Return the integer, and whether it is accepted."""
    u, u2, t = (Lazy(each, table.word_bits) for each in (one.u, one.u2, one.t))
    exact, accepted = exactly(table.blocks, bits, u, u2, t)
    return -exact if one.negative else exact, accepted


class _Constants(NamedTuple):
    """Numbers of a table that every draw needs, as Python's integers.

    bases: of each block, under a positive sign. masks: of the bits of U, of U' and of the offset
    in a word. shifts: places by which bits are moved, in the order of their use.
    """

    factors: tuple[float, float, bool]
    thresholds: list[int]
    bases: list[int]
    masks: tuple[int, int, int]
    shifts: tuple[int, ...]


@lru_cache(maxsize=64)
def _constants(table: Table) -> _Constants:
    size, cell_bits, low_bits = table.word_bits, table.cell_bits, table.low_bits
    offset_bits, acceptance_bits = table.blocks.offset_bits, table.acceptance_bits
    last = (1 << offset_bits) - 1
    masks = (1 << size) - (2 << low_bits), (1 << low_bits) - 1 - last, last
    shifts = cell_bits + 1, cell_bits, acceptance_bits, offset_bits, size - offset_bits, low_bits
    bases = table.bases[::2].tolist()
    return _Constants(factors(table), table.thresholds.tolist(), bases, masks, shifts)


class Second(NamedTuple):
    """Decisions by the first word_bits bits of U, U' and t.

    Where ``open``, values and acceptance mean nothing.

    t: the place in the block. On the integers it is the offset itself, exact.
    """

    values: IntArray
    accepted: BoolArray
    open: BoolArray
    negative: BoolArray
    u: Words
    u2: Words
    t: Words


class _Arrays(NamedTuple):
    """The same for arrays, which would convert Python's integers in every operation.

    offsets: the last offset of each block.
    """

    bases: NDArray[np.int64]
    offsets: Words
    masks: tuple[Words, ...]
    shifts: tuple[Words, ...]


@lru_cache(maxsize=64)
def _arrays(table: Table) -> _Arrays:
    own = _constants(table)
    offsets = np.full(len(own.bases), own.masks[-1], np.uint64)
    if not table.blocks.rounded:
        offsets[0] = 0
    masks, shifts = (
        tuple(np.array(x, np.uint64) for x in some) for some in (own.masks, own.shifts)
    )
    return _Arrays(np.array(own.bases, np.int64), offsets, masks, shifts)


def second_stage(table: Table, words: Words, more: Words) -> Second:
    """Decide by the bits of every word, joined to those of three more (shape (3, len(words))).

    Computes anew what the first stage computes, by other means: magnitude, then sign.
    """
    bases, offsets, (top, middle, last), shifts = _arrays(table)
    up, cell_bits, acceptance_bits, offset_bits, rest, low_bits = shifts
    rounded = table.blocks.rounded
    u = (words & top) | (more[0] >> cell_bits)
    sign = -((words >> low_bits).view(np.int64) & 1)  # 0 or -1: x ^ sign is x or -x - 1
    u2 = ((words & middle) << up) | (more[1] >> acceptance_bits)
    place = (words ^ sign.view(np.uint64)) & last
    t = (place << rest) | (more[2] >> offset_bits) if rounded else place
    block, opened = blocks_of(table.thresholds, u)
    base = bases[block]
    inside = place if rounded else place & offsets[block]
    left, offset = (block, t) if rounded else (base, inside)
    excess = excesses(factors(table), as_floats(left), as_floats(offset))
    accepted, close = compared(as_floats(u2), table.word_bits, excess)
    values = base + inside.view(np.int64)
    values >>= table.halved
    values ^= sign
    values -= sign
    opened |= close
    return Second(values, accepted, opened, sign < 0, u, u2, t)


def blocks_of(thresholds: Words, u: Words) -> tuple[NDArray[np.intp], BoolArray]:
    """Return the block of every U that begins with the bits of u, and where more bits may
    change it.
    """
    block = thresholds.searchsorted(u)
    return block, np.asarray(thresholds[block] == u)


def as_floats(integers: NDArray[Any]) -> Floats:
    """Return the nearest floats.

    Python takes the nearest one itself where it multiplies an integer by a float.
    """
    return integers.astype(np.float64)


@lru_cache(maxsize=64)
def factors(table: Table) -> tuple[float, float, bool]:
    """Return the float nearest to the table's slope, the unit of offsets, and whether the power
    is 2.
    """
    unit = 2.0**-table.word_bits if table.blocks.rounded else 1.0
    return float(table.slope), unit, table.blocks.power == 2


def excesses(own: tuple[float, float, bool], left: _Real, offset: _Real) -> _Real:
    """Return g of values at this offset in their block, whose left end is given.

    own: ``factors`` of the table. On the line, the left end is the block's number. offset: a
    whole number, on the line a word of t.
    """
    slope, unit, squared = own
    inside = offset * unit
    if squared:
        inside = inside * (2.0 * left + inside)
    return slope * inside


def exponential(excess: _Real) -> _Real:
    """Return exp(-g) for 0 <= g <= 1/2 to 2^-49, by its Taylor polynomial.

    For a float there is no loop, which would take longer; the operations are the same.
    """
    if isinstance(excess, float):
        x = excess
        c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13 = _COEFFICIENTS
        high = ((((((c13 * x + c12) * x + c11) * x + c10) * x + c9) * x + c8) * x + c7) * x + c6
        return (((((high * x + c5) * x + c4) * x + c3) * x + c2) * x + c1) * x + c0
    value: Any = 0.0 * excess + _COEFFICIENTS[-1]
    for coefficient in _DOWNWARD_ARRAYS:
        value *= excess
        value += coefficient
    return cast(_Real, value)


def compared(u: _Real, word_bits: int, excess: _Real) -> tuple[Any, Any]:
    """Return whether U' < exp(-g) for every U' and t with the given bits, and where it is open.

    With later bits U' can grow by 2^-word_bits, and t, and g with it (its slope is at most 1),
    too.
    """
    step = 2.0**-word_bits
    above = exponential(excess) - u * step
    enough = 2 * step + MARGIN
    return above > enough, (above >= -MARGIN) & (above <= enough)


@dataclass(slots=True)
class Lazy:
    """A uniform number on [0, 1) of which the first bits are known."""

    value: int
    bits: int

    def read(self, source: Bits) -> None:
        """Read one word more."""
        self.value = (self.value << source.word_bits) | int(source.words(1)[0])
        self.bits += source.word_bits

    def ends(self, scale: Fraction | int = 1) -> tuple[Fraction, Fraction]:
        """Return lower and upper with ``scale`` times the number in [lower, upper)."""
        unit = Fraction(scale, 1 << self.bits)
        return self.value * unit, (self.value + 1) * unit


def exactly(blocks: Blocks, bits: Bits, u: Lazy, u2: Lazy, place: Lazy) -> tuple[int, bool]:
    """Run the third stage: |x| rounded, and whether it is accepted.

    place: t on the line; on the integers its value is the offset, nothing more.
    """
    while (block := block_between(blocks, 1 - u.ends()[1], 1 - u.ends()[0], u.bits)) is None:
        u.read(bits)
    if not blocks.rounded:
        offset = place.value if block else 0
        return blocks.integer(block, offset), _accepts(blocks, bits, block, u2, Fraction(offset))
    integer = blocks.integer(block, place.value >> (place.bits - blocks.offset_bits))
    return integer, _accepts(blocks, bits, block, u2, place)


def _accepts(blocks: Blocks, bits: Bits, block: int, u2: Lazy, place: Lazy | Fraction) -> bool:
    """Return whether U' < exp(-g), with bits added to both sides until every U' and every g
    left agree.
    """
    while True:
        lower, upper = u2.ends()
        near, far = (place, place) if isinstance(place, Fraction) else place.ends(blocks.width)
        g = blocks.excess(block, near), blocks.excess(block, far)
        least, most = exponential_between(*g, u2.bits + 64)
        if upper <= least or lower >= most:
            return upper <= least
        u2.read(bits)
        if isinstance(place, Lazy):
            place.read(bits)


def _integer(value: int) -> IntArray:
    return np.array([value], dtype=np.int64 if abs(value) < _WORD_LIMIT else object)
