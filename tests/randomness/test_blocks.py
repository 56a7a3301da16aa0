"""Thresholds, tables of cells, limits and bases against definitions, at every entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify.privacy.balls import ball, working_precision
from dpverify.randomness import blocks as shipped
from dpverify.randomness.blocks import (
    Blocks,
    block_between,
    exponential_between,
    gaussian_blocks,
    laplace_blocks,
    rounded_gaussian_blocks,
    thresholds,
)
from dpverify.randomness.tables import Table, table

LAWS: dict[str, Callable[[Fraction], Blocks]] = {
    "discrete Laplace": laplace_blocks,
    "discrete Gaussian": gaussian_blocks,
    "rounded Gaussian": rounded_gaussian_blocks,
}
SCALES = [
    Fraction(text)
    for text in (
        [
            "1/1024",
            "1/1000",
            "1/3",
            "1",
            "5/2",
            "40/3",
            "64",
            "127",
            "1000",
            "123456789/1001",
            "1000003",
            "35184372088832",
        ]
    )
]
UGLY = [Fraction(10**30 + 57, 3**40), Fraction(2**45) - Fraction(1, 10**20)]


@lru_cache
def masses(blocks: Blocks, least: int = -220) -> list[Any]:
    """Compute each block's share of the proposals from the definition, at 400 bits: no recurrences.

    Blocks that weigh less than 2^least of the first are left out. Exponentials are flint's, which
    tests/privacy/test_balls.py compares with mpmath's.
    """
    with mp.workprec(400), working_precision(480):
        width = mp.ldexp(1, blocks.shift)
        weights = [] if blocks.rounded else [1 / (2 * width)]
        j = 0
        while not weights or j < 2 or weights[-1] > mp.ldexp(weights[0], least):
            left = Fraction(2) ** blocks.shift * j + (0 if blocks.rounded else 1)
            mantissa, exponent = (-ball(blocks.rate * left**blocks.power)).exp().mid().man_exp()
            weights.append(mp.mpf((int(mantissa), int(exponent))))
            j += 1
        total = mp.fsum(weights)
        return [weight / total for weight in weights]


def true_thresholds(blocks: Blocks, word_bits: int) -> list[int]:
    """2^W - ceil(2^W P(beyond j)), until the ceiling is 1."""
    with mp.workprec(400):
        beyond, tails = mp.mpf(0), []
        for mass in reversed(masses(blocks)):
            tails.append(beyond)
            beyond += mass
        ceilings = [max(1, int(mp.ceil(mp.ldexp(tail, word_bits)))) for tail in reversed(tails)]
        kept = ceilings.index(1) + 1
        return [2**word_bits - ceiling for ceiling in ceilings[:kept]]


def check_thresholds(bounds: Sequence[int], blocks: Blocks, word_bits: int) -> int:
    expected = true_thresholds(blocks, word_bits)
    assert len(bounds) == len(expected)
    assert sum(a != b for a, b in zip(bounds, expected, strict=True)) == 0
    return len(bounds)


@pytest.mark.parametrize("law", LAWS)
def test_thresholds_are_those_of_another_computation(law: str) -> None:
    compared = 0
    for scale in (*SCALES, *UGLY):
        blocks = LAWS[law](scale)
        compared += check_thresholds(thresholds(blocks, 64), blocks, 64)
    assert compared > {"discrete Laplace": 13_000}.get(law, 5_000)


@pytest.mark.parametrize("word_bits", [4, 12, 64, 128])
def test_thresholds_for_words_of_other_sizes(word_bits: int) -> None:
    blocks = gaussian_blocks(Fraction(40, 3))
    check_thresholds(thresholds(blocks, word_bits), blocks, word_bits)


@pytest.mark.parametrize("change", [1, -1])
def test_a_threshold_off_by_one_is_found(change: int) -> None:
    blocks = laplace_blocks(Fraction(1000))
    wrong = list(thresholds(blocks, 64))
    wrong[1234] += change
    with pytest.raises(AssertionError):
        check_thresholds(wrong, blocks, 64)


def test_thresholds_at_a_coarse_precision_are_none_rather_than_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = gaussian_blocks(Fraction(77))
    expected = thresholds(blocks, 64)
    tried = []
    tails = Blocks.tails

    def counted(self: Blocks, precision: int) -> list[Any]:
        tried.append(precision)
        return tails(self, precision)

    with monkeypatch.context() as patched:
        patched.setattr(Blocks, "tails", counted)
        patched.setattr(shipped, "LEAST_PRECISION", 20)
        assert thresholds.__wrapped__(blocks, 64) == expected
        assert len(tried) > 2
        patched.setattr(shipped, "_LARGEST_PRECISION", 30)
        with pytest.raises(ArithmeticError, match="could not be enclosed"):
            thresholds.__wrapped__(blocks, 64)


def true_integer(blocks: Blocks, block: int, place: Fraction) -> int:
    """Return the integer of the number at this place (of [0, 1), from the left end) of a block."""
    if blocks.rounded:
        return int(blocks.width * (block + place) + Fraction(1, 2))
    return int(blocks.left(block)) + int(place * blocks.width) if block else 0


def check_rows(lookup: Table) -> int:
    """Check every cell: one in which no threshold lies has the rows of the block that begins
    after as many thresholds as are below it, and any other cell has none."""
    bounds, cells = thresholds(lookup.blocks, lookup.word_bits), 1 << lookup.cell_bits
    rest = lookup.word_bits - lookup.cell_bits
    inside = np.bincount([bound >> rest for bound in bounds], minlength=cells)
    below, decided = np.cumsum(inside) - inside, inside == 0
    rows = np.where(decided, [2 * below, 2 * below + 1], 2 * len(bounds))
    assert lookup.rows.shape == (2 * cells,)
    assert (lookup.rows.reshape(cells, 2) == rows.T).all()
    return int(decided.sum())


def check_limits(lookup: Table) -> None:
    """Check that no word below the limit belongs to a U' above exp(-excess), and few above it do
    not."""
    blocks, bits = lookup.blocks, lookup.acceptance_bits
    assert lookup.limits[-1] == 0
    for row, limit in enumerate(lookup.limits[:-1].tolist()):
        whole, rest = divmod(limit, 1 << blocks.offset_bits)
        if row % 2 == 0:  # a block's two rows have the same
            excess = blocks.largest_excess(row // 2)
        assert rest == 0
        assert 0 <= excess <= Fraction(1, 2)
        assert Fraction(whole, 1 << bits) <= 1 - excess
        zero = row < 2 and not blocks.rounded and blocks.shift > 0
        assert limit == 0 if zero else Fraction(whole + 1, 1 << bits) > 1 - excess


def check_bases(lookup: Table) -> None:
    """Check both ends and the middle of every block under both signs."""
    blocks, size = lookup.blocks, 1 << lookup.blocks.offset_bits
    for block in range(len(lookup.thresholds)):
        for offset in {0, size // 2, size - 1}:
            if not block and not blocks.rounded and offset:
                continue  # the number 0 has no offset
            positive, negative = (
                (base + offset) >> lookup.halved
                for base in lookup.bases[2 * block : 2 * block + 2].tolist()
            )
            middle = Fraction(2 * offset + 1, 2 * size)
            assert positive == true_integer(blocks, block, middle)
            assert negative == -true_integer(blocks, block, 1 - middle)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_every_entry_of_the_tables(law: str, scale: Fraction) -> None:
    lookup = table(LAWS[law](scale))
    assert lookup.acceptance_bits >= 6
    assert check_rows(lookup) > 0.97 * 2**16
    check_limits(lookup)
    check_bases(lookup)


def with_rows(lookup: Table, change: int) -> Table:
    rows = lookup.rows.copy()
    rows[40_000] += change
    return replace(lookup, rows=rows)


@pytest.mark.parametrize("law", LAWS)
def test_a_wrong_entry_is_found(law: str) -> None:
    lookup = table(LAWS[law](Fraction(1000)))
    always = np.full_like(lookup.limits, (1 << lookup.low_bits) - 1)
    twins: list[tuple[Callable[[Table], object], Table]] = [
        (check_rows, with_rows(lookup, 2)),
        (check_rows, with_rows(lookup, 1)),
        (check_limits, replace(lookup, limits=always)),
        (check_limits, replace(lookup, limits=lookup.limits + np.uint64(1 << lookup.low_bits - 8))),
        (check_bases, replace(lookup, bases=np.abs(lookup.bases))),
        (check_bases, replace(lookup, bases=lookup.bases + 1)),
        (check_bases, replace(lookup, bases=lookup.bases & ~1)),
    ]
    for check, twin in twins:
        with pytest.raises(AssertionError):
            check(twin)


def test_a_word_too_short_for_its_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="1 more"):
        table(gaussian_blocks(Fraction(2**20)), 31, 16)


def test_blocks_too_wide_for_the_polynomial_are_refused() -> None:
    with pytest.raises(ArithmeticError, match="excess"):
        table(Blocks(Fraction(1, 2), 2, 0, True))


def test_the_left_ends_and_excesses_of_small_blocks() -> None:
    """Compute by hand: integers in blocks of 4, and real numbers in blocks of 4 and 1/4."""
    whole = Blocks(Fraction(1, 200), 2, 2, False)
    assert [whole.left(j) for j in range(4)] == [0, 1, 5, 9]
    assert whole.excess(2, Fraction(3)) == Fraction(64 - 25, 200)
    assert whole.largest_excess(2) == Fraction(64 - 25, 200)
    assert [whole.integer(2, r) for r in range(4)] == [5, 6, 7, 8]
    assert whole.integer(0, 3) == whole.largest_excess(0) == 0
    real = Blocks(Fraction(1, 200), 2, 2, True)
    assert [real.left(j) for j in range(3)] == [0, 4, 8]
    assert real.largest_excess(1) == Fraction(64 - 16, 200)
    assert [real.integer(1, t) for t in range(8)] == [4, 5, 5, 6, 6, 7, 7, 8]
    fine = Blocks(Fraction(1, 2), 2, -2, True)
    assert [fine.integer(j, 0) for j in range(8)] == [0, 0, 1, 1, 1, 1, 2, 2]


def test_a_block_is_named_only_when_it_is_sure() -> None:
    blocks = laplace_blocks(Fraction(1))
    with mp.workprec(400):
        edge = Fraction(int(mp.ldexp(mp.fsum(masses(blocks)[3:]), 300)), 2**300)
    step = Fraction(1, 2**200)
    assert block_between(blocks, edge + step, edge + 2 * step, 200) == 2
    assert block_between(blocks, edge - 2 * step, edge - step, 200) == 3
    assert block_between(blocks, edge - step, edge + step, 200) is None
    assert block_between(blocks, Fraction(0), step, 200) is None
    assert block_between(blocks, 1 - step, Fraction(1), 200) == 0


def test_exponentials_are_enclosed() -> None:
    low, high = exponential_between(Fraction(1, 3), Fraction(1, 2), 100)
    with mp.workprec(400):
        assert low <= Fraction(int(mp.ldexp(mp.exp(mp.mpf(-1) / 2), 300)) + 1, 2**300)
        assert high >= Fraction(int(mp.ldexp(mp.exp(mp.mpf(-1) / 3), 300)), 2**300)
    assert set(exponential_between(Fraction(0), Fraction(0), 100)) == {1}
    same = exponential_between(Fraction(1, 3), Fraction(1, 3), 100)
    assert 0 < same[1] - same[0] < Fraction(1, 2**95)
