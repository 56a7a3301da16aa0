"""The slow paths of the draws, driven by hand: words are chosen so that each stage is left open.

They fire once in 2^43 draws and less, so no statistics reach them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from types import CodeType, FrameType
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify.randomness import SeededBits, inversion
from dpverify.randomness.blocks import (
    Blocks,
    gaussian_blocks,
    laplace_blocks,
    rounded_gaussian_blocks,
    thresholds,
)
from dpverify.randomness.inversion import FEW, Lazy, draw, exactly, one_by_one, settled
from dpverify.randomness.tables import Table, table
from tests.randomness.helpers import NoBits, ScriptedBits

ONES = 2**64 - 1
LAPLACE, GAUSSIAN = laplace_blocks(Fraction(100)), gaussian_blocks(Fraction(1000))
ROUNDED, FINE = rounded_gaussian_blocks(Fraction(1000)), rounded_gaussian_blocks(Fraction(1, 3))
COIN = laplace_blocks(Fraction(1))


def words_of(lookup: Table, u: int, negative: bool, u2: int, place: int) -> list[int]:
    """Return the first word and the three after it, for these 64 bits of U, U' and t (or the
    offset)."""
    blocks, rest = lookup.blocks, 64 - lookup.cell_bits
    size = blocks.offset_bits
    top = place >> (64 - size) if blocks.rounded and size else place * (not blocks.rounded)
    kept = (1 << size) - 1 - top if negative else top
    first = (u >> rest) << rest | negative << lookup.low_bits
    first |= u2 >> (64 - lookup.acceptance_bits) << size | kept
    more = [(u << lookup.cell_bits) & ONES, (u2 << lookup.acceptance_bits) & ONES]
    return [first, *more, (place << size) & ONES if blocks.rounded else 0]


def attempt(
    blocks: Blocks, u: int, u2: int, place: int = 0, then: Sequence[int] = (), minus: bool = False
) -> tuple[int, bool]:
    """Return one attempt, as among many and as among few; ``then`` are the words of the third
    stage, all to be read."""
    lookup = table(blocks)
    first, *more = words_of(lookup, u, minus, u2, place)
    bits = ScriptedBits([*more, *then])
    values, accepted = settled(lookup, bits, np.array([first], dtype=np.uint64))
    ones, yes, opened = one_by_one(lookup, [first, *more])
    others = ScriptedBits(then)
    for one in opened:
        ones[0], yes[0] = inversion._third_stage(lookup, others, one)
    assert (ones, yes) == (values.tolist(), accepted.tolist())
    for source in (bits, others):
        with pytest.raises(IndexError):
            source.words(1)
    return ones[0], yes[0]


def inside(blocks: Blocks, block: int) -> int:
    """64 bits of U that decide on this block."""
    before, here = [-1, *thresholds(blocks, 64)][block : block + 2]
    return (before + here) // 2


def expected(blocks: Blocks, block: int, place: int) -> int:
    size = blocks.offset_bits
    return blocks.integer(block, place >> (64 - size) if blocks.rounded else place)


def boundary(blocks: Blocks, block: int, place: int, bits: int) -> int:
    """floor(2^bits exp(-g)), from mpmath; at the nearer end of t."""
    offset = Fraction(place, 2**64) * blocks.width if blocks.rounded else Fraction(place)
    g = blocks.excess(block, offset)
    with mp.workprec(500):
        return int(mp.ldexp(mp.exp(-mp.mpf(g.numerator) / g.denominator), bits))


def test_the_words_of_a_draw_are_read_as_they_are_laid_out() -> None:
    """An attempt that the second stage decides, for both signs, against the definition."""
    for blocks in (LAPLACE, GAUSSIAN, ROUNDED, FINE, COIN):
        for block in (1, 2, 9):
            place = (1 << blocks.offset_bits) - 1 if not blocks.rounded else 0x9ABC << 48
            value = expected(blocks, block, place)
            near = boundary(blocks, block, place, 64)
            u = inside(blocks, block)
            for minus in (False, True):
                sign = -1 if minus else 1
                assert attempt(blocks, u, near - 2**30, place, (), minus) == (sign * value, True)
                if blocks is not COIN:
                    assert attempt(blocks, u, near + 2**30, place, (), minus)[1] is False


@pytest.mark.parametrize("blocks", [LAPLACE, GAUSSIAN, ROUNDED, FINE, COIN], ids=str)
@pytest.mark.parametrize("block", [0, 1, 7])
def test_a_number_equal_to_a_threshold_reads_more(blocks: Blocks, block: int) -> None:
    u, longer = thresholds(blocks, 64)[block], thresholds(blocks, 192)[block]
    place = 1 if blocks is LAPLACE else 0
    here, next_ = (expected(blocks, b, place) for b in (block, block + 1))
    assert attempt(blocks, u, 0, place, [0]) == (here, True)
    assert attempt(blocks, u, 0, place, [ONES]) == (next_, True)
    assert attempt(blocks, u, 0, place, [ONES], minus=True) == (-next_, True)
    middle, last = (longer >> 64) & ONES, longer & ONES
    # A second word that equals the threshold's own bits leaves it open once more.
    assert attempt(blocks, u, 0, place, [middle, last - 1]) == (here, True)
    assert attempt(blocks, u, 0, place, [middle, last + 1]) == (next_, True)


@pytest.mark.parametrize("blocks", [LAPLACE, GAUSSIAN, ROUNDED, COIN], ids=str)
def test_numbers_beyond_the_last_threshold_go_on(blocks: Blocks) -> None:
    """U = 1 - 2^-128 and up: a block that the table does not have."""
    assert thresholds(blocks, 64)[-1] == ONES
    place, further = 0, []
    for then in ([ONES, 0], [ONES, ONES, 0], [ONES] * 3 + [0]):
        value, accepted = attempt(blocks, ONES, 0, place, then)
        further.append(value)
        tails = thresholds(blocks, 64 * (len(then) + 1))
        joined = ((1 << 64 * len(then)) - 1) << 64
        assert accepted
        assert value == expected(blocks, int(sum(t < joined for t in tails)), place)
    assert further == sorted(further)
    assert further[0] > expected(blocks, len(thresholds(blocks, 64)) - 1, place)


@pytest.mark.parametrize("minus", [False, True])
@pytest.mark.parametrize("blocks", [LAPLACE, GAUSSIAN], ids=str)
def test_an_acceptance_too_close_to_tell_reads_more(blocks: Blocks, minus: bool) -> None:
    block, place = 5, (1 << blocks.shift) - 1
    u, near = inside(blocks, block), boundary(blocks, block, place, 192)
    value = expected(blocks, block, place) * (-1 if minus else 1)
    first, second, third = near >> 128, (near >> 64) & ONES, near & ONES
    assert attempt(blocks, u, first - 1, place, (), minus) == (value, True)  # balls suffice
    assert attempt(blocks, u, first + 1, place, (), minus) == (value, False)
    assert attempt(blocks, u, first, place, [second - 1], minus) == (value, True)
    assert attempt(blocks, u, first, place, [second + 1], minus) == (value, False)
    assert attempt(blocks, u, first, place, [second, third - 1], minus) == (value, True)
    assert attempt(blocks, u, first, place, [second, third + 1], minus) == (value, False)


@pytest.mark.parametrize("blocks", [ROUNDED, FINE], ids=str)
def test_an_acceptance_too_close_to_tell_reads_more_of_the_place_too(blocks: Blocks) -> None:
    block, place = 5, 0xFEDC << 48
    u, value = inside(blocks, block), expected(blocks, block, place)
    near = boundary(blocks, block, place, 128)
    with mp.workprec(500):  # with t at its upper end after another word of ones
        far = blocks.excess(block, Fraction(place + 1, 2**64) * blocks.width)
        least = int(mp.ldexp(mp.exp(-mp.mpf(far.numerator) / far.denominator), 128))
    assert least < near
    assert attempt(blocks, u, (least >> 64) - 1, place) == (value, True)
    assert attempt(blocks, u, (near >> 64) + 1, place) == (value, False)
    # Words are read for U', then for t.
    assert attempt(blocks, u, near >> 64, place, [(near & ONES) - 5, 0]) == (value, True)
    assert attempt(blocks, u, near >> 64, place, [(near & ONES) + 5, 0]) == (value, False)
    assert attempt(blocks, u, near >> 64, place, [(near & ONES) - 5, ONES])[1] is (
        (near & ONES) - 5 < (least & ONES) and near >> 64 == least >> 64
    )


def test_a_value_that_is_surely_accepted_is_accepted_at_any_word() -> None:
    """exp(-0) = 1 is above every U', but not above the float of the largest ones."""
    assert attempt(COIN, inside(COIN, 3), ONES) == (3, True)
    assert attempt(LAPLACE, inside(LAPLACE, 0), ONES, 1) == (0, True)
    assert attempt(LAPLACE, inside(LAPLACE, 0), ONES, 1, (), True) == (0, True)


def test_a_rejected_draw_is_drawn_again() -> None:
    lookup = table(ROUNDED)
    block, place = 20, 0xFF << 56
    rejected = words_of(lookup, inside(ROUNDED, block), False, ONES, place)
    accepted = words_of(lookup, inside(ROUNDED, 2), True, 0, place)
    bits = ScriptedBits([*rejected, *accepted])
    assert draw(lookup, bits, 1).tolist() == [-expected(ROUNDED, 2, place)]


def test_large_batches_settle_what_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of three: one at once, one in the second stage, one rejected and drawn again."""
    monkeypatch.setattr(inversion, "SMALL", 0)
    monkeypatch.setattr(inversion, "FEW", 0)
    monkeypatch.setattr(inversion, "CHUNK", 2)
    lookup, place = table(GAUSSIAN), 3
    easy = words_of(lookup, inside(GAUSSIAN, 2), False, 0, place)
    close = words_of(lookup, inside(GAUSSIAN, 40), True, boundary(GAUSSIAN, 40, 3, 64) - 2**30, 3)
    no = words_of(lookup, inside(GAUSSIAN, 40), False, ONES, place)
    again = words_of(lookup, inside(GAUSSIAN, 7), False, 0, place)
    more = [word for pair in zip(close[1:], no[1:], strict=True) for word in pair]
    bits = ScriptedBits([easy[0], close[0], no[0], *more, again[0], 0, 0, 0, 0])
    values = [expected(GAUSSIAN, block, place) for block in (2, 40, 7)]
    assert draw(lookup, bits, 3).tolist() == [values[0], -values[1], values[2]]


def test_values_beyond_62_bits_become_python_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = table(COIN)
    first, *more = words_of(lookup, ONES, True, 0, 0)

    def far(*arguments: object) -> tuple[int, bool]:
        return 2**80, True

    monkeypatch.setattr(inversion, "exactly", far)
    small = words_of(lookup, inside(COIN, 3), False, 0, 0)
    bits = ScriptedBits([w for pair in zip(more, small[1:], strict=True) for w in pair])
    values, accepted = settled(lookup, bits, np.array([first, small[0]], dtype=np.uint64))
    assert values.dtype == object
    assert values.tolist() == [-(2**80), 3]
    assert accepted.all()
    words = [w for pair in zip([first, *more], small, strict=True) for w in pair]
    drawn = draw(lookup, ScriptedBits(words), 2)
    assert drawn.dtype == object
    assert drawn.tolist() == [-(2**80), 3]


def test_a_lazy_number_reads_words_of_its_source() -> None:
    number = Lazy(5, 3)
    number.read(ScriptedBits([9], word_bits=4))
    assert (number.value, number.bits) == (5 * 16 + 9, 7)
    assert number.ends() == (Fraction(89, 128), Fraction(90, 128))
    assert number.ends(Fraction(1, 2)) == (Fraction(89, 256), Fraction(90, 256))


def test_far_blocks_need_no_table() -> None:
    """1 - U about 1000 / 2^5000: the block by its closed form for discrete Laplace."""
    u = Lazy(2**5000 - 1000, 5000)
    value, accepted = exactly(COIN, NoBits(), u, Lazy(0, 64), Lazy(0, 0))
    with mp.workprec(100):  # P(|Z| > k) = 2 q^(k + 1) / (1 + q) <= 1000 / 2^5000, q = exp(-1)
        k = 5000 * mp.log(2) - mp.log(1000) + mp.log(2 / (1 + mp.exp(-1))) - 1
    assert accepted
    assert value == math.ceil(k)


@contextmanager
def traced(codes: set[CodeType]) -> Iterator[set[tuple[str, int]]]:
    """Yield the lines of these functions that run meanwhile."""
    seen: set[tuple[str, int]] = set()

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_name, frame.f_lineno))
        return local

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code in codes else None

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        yield seen
    finally:
        sys.settrace(before)


def every_line(code: CodeType) -> set[tuple[str, int]]:
    lines = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
    return {(code.co_name, line) for line in lines}


SLOW: tuple[Callable[..., Any], ...] = (
    inversion.settled,
    inversion.exactly,
    inversion._accepts,
    inversion._put,
    inversion._integer,
    Lazy.read,
    Lazy.ends,
    inversion.draw,
    inversion._first_stage,
    inversion._third_stage,
    inversion.few,
    inversion.one_by_one,
)


def test_every_line_of_the_slow_paths_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {function.__code__ for function in SLOW}
    with traced(codes) as seen:
        test_a_number_equal_to_a_threshold_reads_more(LAPLACE, 0)
        test_an_acceptance_too_close_to_tell_reads_more(GAUSSIAN, True)
        test_an_acceptance_too_close_to_tell_reads_more_of_the_place_too(ROUNDED)
        with monkeypatch.context() as patched:
            test_values_beyond_62_bits_become_python_integers(patched)
        draw(table(COIN), SeededBits(1), 10_000)
        draw(table(COIN), SeededBits(1), 2 * FEW)
        test_a_rejected_draw_is_drawn_again()
    wanted = set().union(*map(every_line, codes))
    assert len(wanted) > 40
    assert wanted - seen == set()


def test_a_line_that_does_not_run_is_noticed() -> None:
    codes = {inversion._put.__code__}
    with traced(codes) as seen:
        inversion._put(np.zeros(2, dtype=np.int64), np.array([0]), np.array([1]))
    assert set().union(*map(every_line, codes)) - seen
