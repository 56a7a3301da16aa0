"""Refinement at short words: every word is enumerated, and what it decides is counted.

The stages of ``inversion`` take the size of a word as a parameter. With few bits each stage
leaves more open, but what it does decide must be right; so, with no statistics and no tolerance,
the decided words bracket the true probability of every block, acceptance and integer, and
nothing else is open than a word that equals a threshold or the boundary of acceptance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify.privacy.numbers import Floats
from dpverify.randomness import inversion
from dpverify.randomness.bits import SeededBits
from dpverify.randomness.blocks import Blocks, thresholds
from dpverify.randomness.inversion import (
    FEW,
    Buffers,
    Words,
    at_once,
    blocks_of,
    draw,
    one_by_one,
    second_stage,
)
from dpverify.randomness.tables import Table, table
from tests.randomness.test_blocks import LAWS, SCALES, masses

WORD_SIZES = (4, 6, 8, 12)
MORE_SCALES = [
    Fraction(text)
    for text in ["3/2", "2", "7", "12", "22", "33", "55", "90", "100", "250/3", "700", "4096/5"]
]


def every(bits: int) -> Words:
    return np.arange(1 << bits, dtype=np.uint64)


def check_blocks(bounds: tuple[int, ...], blocks: Blocks, word_bits: int) -> int:
    """F(k) - F(k - 1) is in [c / 2^W, (c + 2) / 2^W], c the words that decide on block k."""
    limits = np.array(bounds, dtype=np.uint64)
    block, open_ = blocks_of(limits, every(word_bits))
    assert set(every(word_bits)[open_].tolist()) == set(bounds)
    counts = np.bincount(block[~open_], minlength=len(bounds)).tolist()
    with mp.workprec(400):
        for count, mass in zip(counts, masses(blocks, -80), strict=False):
            assert count <= mp.ldexp(mass, word_bits) <= count + 2
    return len(counts)


def test_the_words_of_every_block_bracket_its_probability() -> None:
    pairs = 0
    for make in LAWS.values():
        for scale in (*SCALES, *MORE_SCALES):
            blocks = make(scale)
            for bits in WORD_SIZES:
                pairs += check_blocks(thresholds(blocks, bits), blocks, bits)
    assert pairs > 50_000


@pytest.mark.parametrize("change", [2, -2])
def test_a_wrong_threshold_is_found_by_counting(change: int) -> None:
    """Off by one is within the bracket of two words; ``test_blocks`` finds it."""
    blocks = LAWS["discrete Gaussian"](Fraction(7))
    wrong = list(thresholds(blocks, 8))
    wrong[3] += change
    with pytest.raises(AssertionError):
        check_blocks(tuple(wrong), blocks, 8)


def check_acceptance(word_bits: int, excess: float) -> int:
    """exp(-g) for g and all that is at most 2^-W above is bracketed; at most 3 words are open."""
    g = np.full(1 << word_bits, excess)
    accepted, open_ = inversion.compared(inversion.as_floats(every(word_bits)), word_bits, g)
    assert not (accepted & open_).any()
    yes, unknown = int(accepted.sum()), int(open_.sum())
    assert accepted[:yes].all()
    assert unknown <= 3
    with mp.workprec(400):
        most = mp.ldexp(mp.exp(-mp.mpf(excess)), word_bits)
        least = mp.ldexp(mp.exp(-mp.mpf(excess) - mp.ldexp(1, -word_bits)), word_bits)
        assert yes <= least
        assert most <= yes + unknown
    return 1


def test_the_accepted_words_bracket_the_exponential() -> None:
    exponents = [*np.linspace(0, 0.5, 401).tolist(), 2.0**-60, 2.0**-30, 0.1, 1 / 3]
    assert sum(check_acceptance(bits, g) for bits in WORD_SIZES for g in exponents) == 1620


def at_most_one_minus(excess: Floats) -> Floats:
    return 1 - excess / 2


@pytest.mark.parametrize("twin", [np.ones_like, at_most_one_minus, lambda g: 1 - g])
def test_a_wrong_exponential_is_found(
    twin: Callable[[Floats], Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inversion, "exponential", twin)
    with pytest.raises(AssertionError):
        check_acceptance(12, 0.25)


def true_masses(blocks: Blocks, largest: int) -> dict[int, Any]:
    """P(an attempt is accepted, with this integer), from the law alone: its mass over a
    constant."""
    with mp.workprec(200):
        rate = mp.mpf(blocks.rate.numerator) / blocks.rate.denominator
        # On the integers 0 is proposed with mass(0), and accepted; so exp(-h) has the factor
        # mass(0). On the line the density at 0 is mass(0) / m, half of it for either sign.
        if blocks.rounded:
            scale = masses(blocks)[0] / (2 * mp.ldexp(1, blocks.shift))
            root = mp.sqrt(rate)

            def below(x: Any) -> Any:
                return mp.sqrt(mp.pi) / (2 * root) * mp.erf(root * x)

            half = mp.mpf(1) / 2
            return {
                x: scale * (below(x + half) - below(x - half)) for x in range(-largest, largest + 1)
            }
        return {
            x: masses(blocks)[0] * mp.exp(-rate * abs(x) ** blocks.power)
            for x in range(-largest, largest + 1)
        }


def check_integers(values: Any, accepted: Any, open_: Any, blocks: Blocks) -> int:
    """Check that each integer's accepted words are no more than its mass, and with the open ones
    no less."""
    largest = int(np.abs(values).max())
    size, unknown = len(values), int(open_.sum())
    sure = accepted & ~open_
    counts = np.bincount(values[sure] + largest, minlength=2 * largest + 1)
    for x, mass in true_masses(blocks, largest).items():
        count = int(counts[x + largest])
        assert count <= mass * size, f"{x}: {count} words"
        assert mass * size <= count + unknown, f"{x}: {count} words"
    return len(counts)


def small(law: str, scale: str, word_bits: int, cell_bits: int, shift: int | None = None) -> Table:
    """shift: wider blocks than shipped ones, so that few bits decide more."""
    blocks = LAWS[law](Fraction(scale))
    blocks = blocks if shift is None else replace(blocks, shift=shift)
    return table(blocks, word_bits, cell_bits)


def first_stage(lookup: Table, words: Words | None = None) -> tuple[Any, Any, Any]:
    words = every(lookup.word_bits) if words is None else words
    values = np.empty(len(words), dtype=np.int64)
    accepted = at_once(lookup, words, values, Buffers.of(len(words)))
    return values, accepted, ~accepted


FIRST = [
    ("discrete Laplace", "1/2", 12, 8),
    ("discrete Laplace", "3", 14, 11),
    ("discrete Laplace", "100", 18, 12),
    ("discrete Laplace", "300", 19, 12),
    ("discrete Gaussian", "1/3", 12, 8),
    ("discrete Gaussian", "5/2", 16, 12),
    ("discrete Gaussian", "150", 18, 12),
    ("discrete Gaussian", "1000/3", 19, 12),
    ("rounded Gaussian", "1/3", 17, 12),
    ("rounded Gaussian", "5/2", 18, 12),
    ("rounded Gaussian", "20", 19, 12),
    ("rounded Gaussian", "70", 19, 12),
    ("rounded Gaussian", "150", 20, 12),
]


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_every_word_of_the_first_stage(case: tuple[str, str, int, int]) -> None:
    lookup = small(*case)
    values, accepted, open_ = first_stage(lookup)
    assert check_integers(values, accepted, open_, lookup.blocks) >= 3
    # What is accepted is uniform in its block and of either sign: its integers have as many words.
    signs = np.bincount(np.sign(values[accepted]) + 1, minlength=3)
    assert signs[0] == signs[2]
    if not lookup.blocks.rounded and lookup.blocks.shift:
        _, counts = np.unique(np.abs(values[accepted]) - 1, return_counts=True)
        blocks = counts.reshape(-1, 1 << lookup.blocks.shift)
        assert (blocks == blocks[:, :1]).all()
        assert len(blocks) > 50


def tampered(name: str, lookup: Table) -> tuple[Any, Any, Any]:
    """Return the first stage with a fault planted."""
    if name == "sign dropped":
        values, accepted, open_ = first_stage(lookup)
        return np.abs(values), accepted, open_
    if name == "offset biased":
        return first_stage(lookup, every(lookup.word_bits) | np.uint64(1))
    if name == "rounding dropped":
        row = np.arange(len(lookup.bases))
        return first_stage(
            replace(lookup, bases=(1 - 2 * (row % 2)) * (row // 2 >> -lookup.blocks.shift))
        )
    if name == "rejections ignored":
        always = np.full_like(lookup.limits, 1 << lookup.low_bits)
        always[-1] = 0
        values, accepted, open_ = first_stage(replace(lookup, limits=always))
        return values, accepted, open_
    rows = lookup.rows.copy()  # "a row further"
    rows[rows < len(lookup.limits) - 3] += 2
    return first_stage(replace(lookup, rows=rows))


FAULTS: dict[str, tuple[str, str, int, int, int | None]] = {
    "sign dropped": ("discrete Laplace", "3", 14, 11, None),
    "offset biased": ("discrete Gaussian", "150", 18, 12, None),
    "rounding dropped": ("rounded Gaussian", "5/2", 18, 12, None),
    "rejections ignored": ("rounded Gaussian", "16", 21, 14, 0),
    "a row further": ("rounded Gaussian", "16", 21, 14, 0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_first_stage_is_found(name: str) -> None:
    lookup = small(*FAULTS[name])
    check_integers(*first_stage(lookup), lookup.blocks)
    with pytest.raises(AssertionError, match="words"):
        check_integers(*tampered(name, lookup), lookup.blocks)


def second(lookup: Table) -> tuple[Any, Any, Any]:
    """Return all combinations of a draw's words: two for the integers, with U', and one more for
    t."""
    size = lookup.word_bits
    count = 4 if lookup.blocks.rounded else 3
    combined = every(count * size)
    words = [(combined >> np.uint64(size * i)) & np.uint64((1 << size) - 1) for i in range(count)]
    words += [np.zeros_like(combined)] * (4 - count)
    stage = second_stage(lookup, words[0], np.array(words[1:]))
    return stage.values, stage.accepted, stage.open


SECOND = [
    ("discrete Laplace", "1/2", 5, 2, 0),
    ("discrete Laplace", "3", 6, 3, 0),
    ("discrete Laplace", "16", 6, 2, 1),
    ("discrete Laplace", "70", 7, 3, 1),
    ("discrete Gaussian", "2/3", 6, 2, 0),
    ("discrete Gaussian", "4", 6, 3, 0),
    ("discrete Gaussian", "16", 6, 2, 1),
    ("discrete Gaussian", "65/2", 7, 2, 2),
    ("rounded Gaussian", "1/3", 5, 2, -5),
    ("rounded Gaussian", "1", 5, 2, -3),
    ("rounded Gaussian", "4", 5, 2, -1),
    ("rounded Gaussian", "17/2", 5, 2, 0),
]


@pytest.mark.parametrize("case", SECOND, ids=str)
def test_every_word_of_the_second_stage(case: tuple[str, str, int, int, int]) -> None:
    lookup = small(*case)
    values, accepted, open_ = second(lookup)
    assert check_integers(values, accepted, open_, lookup.blocks) >= 3
    assert open_.mean() < 0.8


@pytest.mark.parametrize("case", SECOND, ids=str)
def test_one_draw_is_decided_as_many_are(
    case: tuple[str, str, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field, for words of every value of each and a thousand others."""
    lookup = small(*case)
    size = lookup.word_bits
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << size, (4, 1000), dtype=np.uint64)
    words[0, : 1 << size] = every(size)
    words[1, : 1 << size] = every(size)[::-1]
    words[:, -2], words[:, -1] = 0, (1 << size) - 1
    assert 0 < assert_same(lookup, words) < 1000
    monkeypatch.setattr(inversion, "MARGIN", 2.0)  # now everything is open, and has every field
    assert assert_same(lookup, words) == 1000


def assert_same(lookup: Table, words: Words) -> int:
    """Check that the second stages agree; return how many are open."""
    together = second_stage(lookup, words[0], words[1:])
    values, accepted, opened = one_by_one(lookup, words.ravel().tolist())
    assert together.values.tolist() == values
    assert together.accepted.tolist() == accepted
    assert np.flatnonzero(together.open).tolist() == [one.place for one in opened]
    for name in ("negative", "u", "u2", "t"):
        column = getattr(together, name)[together.open]
        assert column.tolist() == [getattr(one, name) for one in opened], name
    return len(opened)


@pytest.mark.parametrize("law", LAWS)
def test_the_stages_agree_in_whole_words(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table is made once: one draw is decided as many are, and the first stage as the
    second."""
    rng = np.random.default_rng(4)
    for scale in (*SCALES, *MORE_SCALES):
        lookup = table(LAWS[law](scale))
        check_one_draw(lookup, rng, monkeypatch)
        check_first_two(lookup, rng)


def check_one_draw(
    lookup: Table, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats too: by the last bit, or an acceptance would differ. Thresholds and their neighbors
    among them."""
    words = rng.integers(0, 2**64, (4, 500), dtype=np.uint64)
    edges = np.resize(lookup.thresholds, 60)
    cell = np.uint64(64 - lookup.cell_bits)
    words[0, :60] = (edges >> cell << cell) | (words[0, :60] & np.uint64((1 << int(cell)) - 1))
    words[1, :60] = (edges << np.uint64(lookup.cell_bits)) + np.resize(
        np.array([0, 2**64 - 2**16, 2**16], np.uint64), 60
    )
    words[:, 60], words[:, 61] = 0, 2**64 - 1
    assert 0 < assert_same(lookup, words) <= 62
    with monkeypatch.context() as patched:
        patched.setattr(inversion, "MARGIN", 2.0)
        assert assert_same(lookup, words) == 500


def check_first_two(lookup: Table, rng: np.random.Generator) -> None:
    """They compute the integer in two ways; what the first accepts, the second accepts."""
    words = rng.integers(0, 2**64, 4000, dtype=np.uint64)
    values, accepted, _ = first_stage(lookup, words)
    more = rng.integers(0, 2**64, (3, 4000), dtype=np.uint64)
    stage = second_stage(lookup, words, more)
    assert accepted.mean() > 0.9
    assert not stage.open.any()  # false alarm: 288,000 draws of 2^-43 each over all laws
    assert stage.accepted[accepted].all()
    assert (stage.values == values)[accepted].all()


@pytest.mark.parametrize("size", [0, 1, FEW, FEW + 1, 200])
def test_few_draws_are_those_of_many(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words give the same integers, of the same type, and as many are read."""
    for make in LAWS.values():
        drawn = []
        for few in (0, size):
            monkeypatch.setattr(inversion, "FEW", few)
            bits = SeededBits(1)
            values = draw(table(make(SCALES[0])), bits, size)
            drawn.append((values.tolist(), values.dtype, bits.words(1).tolist()))
        assert drawn[0] == drawn[1]


def test_a_fault_in_the_second_stage_is_found() -> None:
    lookup = small("discrete Gaussian", "2/3", 6, 2, 0)
    values, accepted, open_ = second(lookup)
    with pytest.raises(AssertionError):
        check_integers(np.abs(values), accepted, open_, lookup.blocks)
    with pytest.raises(AssertionError):
        check_integers(values + 1, accepted, open_, lookup.blocks)
    with pytest.raises(AssertionError):
        check_integers(values, accepted & (values > 0), open_, lookup.blocks)
