"""The exact coins, by enumeration: every path of coin outcomes, no statistics."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify.randomness import Bits, EnumeratedLaw, SeededBits, enumerate_law
from dpverify.randomness.bits import BoolArray, IntArray
from tests.randomness.helpers import NoBits, ScriptedBits

Below = Callable[[Bits, int], int]
BernoulliExp = Callable[[Bits, int, int], bool]

SIZES = {
    4: (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 100, 255, 256, 257, 1000, 4095, 4096),
    5: (2, 3, 11, 31, 32, 33, 63, 64, 65, 500, 1023, 1024),
    6: (5, 63, 64, 65, 100, 4095),
    7: (6, 127, 128),
    8: (3, 10, 200, 255, 256),
}


def shipped_below(bits: Bits, n: int) -> int:
    return int(bits.below(n, 1)[0])


def check_uniform(below: Below, word_bits: int, n: int) -> None:
    """Check that every value of [0, n) has mass exactly 1/n; nothing else, nothing undecided."""
    law = enumerate_law(lambda bits: below(bits, n), max_choices=4, word_bits=word_bits)
    assert law.undecided == 0
    assert law.masses == {value: Fraction(1, n) for value in range(n)}


@pytest.mark.parametrize(("word_bits", "n"), [(w, n) for w, sizes in SIZES.items() for n in sizes])
def test_below_is_exactly_uniform(word_bits: int, n: int) -> None:
    check_uniform(shipped_below, word_bits, n)


def modulo(bits: Bits, n: int) -> int:
    """The classic bias: one value too likely unless n divides 2^W."""
    return int(bits.words(1)[0]) % n


def keeps_n_itself(bits: Bits, n: int) -> int:
    def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
        values = bits.words(len(pending)) >> np.uint64(bits.word_bits - (n - 1).bit_length())
        return values.astype(np.int64), np.asarray(values <= n)

    return int(bits.until_accepted(1, attempt)[0])


def never_the_last(bits: Bits, n: int) -> int:
    return int(bits.below(n - 1, 1)[0])


@pytest.mark.parametrize("twin", [modulo, keeps_n_itself, never_the_last])
def test_a_biased_below_is_rejected(twin: Below) -> None:
    with pytest.raises(AssertionError):
        check_uniform(twin, 4, 11)


def test_two_integers_are_independent() -> None:
    law = enumerate_law(
        lambda bits: tuple(int(v) for v in bits.below(5, 2)), max_choices=2, word_bits=4
    )
    assert law.masses == {(i, j): Fraction(1, 25) for i in range(5) for j in range(5)}


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_below_refuses_an_empty_range(n: int) -> None:
    with pytest.raises(ValueError, match="n >= 1"):
        NoBits().below(n, 1)


def test_below_one_draws_nothing() -> None:
    assert NoBits().below(1, 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("n", [1, 7, 2**62, 2**63, 2**64, 2**64 + 1, 2**200])
def test_below_of_no_values_is_empty(n: int) -> None:
    assert SeededBits(1).below(n, 0).shape == (0,)


@pytest.mark.parametrize("n", [2**200, 2**200 - 1, 3**100, 2**64 + 1])
def test_huge_integers_are_in_range_and_exact(n: int) -> None:
    drawn = SeededBits(7).below(n, 500)
    assert drawn.dtype == object
    assert all(type(value) is int and 0 <= value < n for value in drawn)
    # 500 draws all below 0.9 n would have probability 0.9^500 < 1e-22.
    assert max(drawn) > n * 9 // 10


@pytest.mark.parametrize(("n", "dtype"), [(2**63, np.int64), (2**63 + 1, object), (2**64, object)])
def test_the_dtype_changes_where_63_bits_end(n: int, dtype: type) -> None:
    largest = n - 1
    word = largest << (64 - largest.bit_length())
    drawn = ScriptedBits([word]).below(n, 1)
    assert drawn.dtype == dtype
    assert drawn.tolist() == [largest]


@pytest.mark.parametrize("n", [3, 1000, 2**40 + 1, 2**62 - 1, 2**63, 2**64, 2**64 - 5])
def test_words_of_8_bits_joined_give_what_words_of_64_bits_give(n: int) -> None:
    """The int64 path against the path of Python integers, on the same stream of bits."""
    bits = (n - 1).bit_length()
    whole_bytes = -(-bits // 8)
    for word in SeededBits(3).words(50).tolist():
        top = word >> (64 - bits)
        if top >= n:
            continue
        # 8-bit words: the first gives the high bits % 8 bits, the others 8 bits each.
        first = bits - 8 * (whole_bytes - 1)
        parts = [(top >> (8 * i)) & 255 for i in reversed(range(whole_bytes))]
        parts[0] <<= 8 - first
        small = ScriptedBits(parts, word_bits=8).below(n, 1)
        assert small.tolist() == ScriptedBits([word]).below(n, 1).tolist() == [top]


def test_values_of_both_dtypes_can_meet_in_one_rejection_loop() -> None:
    answers = iter(
        [
            (np.array([1, 2], dtype=np.int64), np.array([True, False])),
            (np.array([2**70], dtype=object), np.array([False])),
            (np.array([2**80], dtype=object), np.array([True])),
        ]
    )
    values = NoBits().until_accepted(2, lambda pending: next(answers))
    assert values.tolist() == [1, 2**80]


def shipped_bernoulli(bits: Bits, numerator: int, denominator: int) -> bool:
    return bool(bits.bernoulli(np.array([numerator]), denominator)[0])


def off_by_one(bits: Bits, numerator: int, denominator: int) -> bool:
    return int(bits.below(denominator, 1)[0]) <= numerator


def check_bernoulli(coin: BernoulliExp, numerator: int, denominator: int) -> None:
    p = Fraction(numerator, denominator)
    law = enumerate_law(lambda bits: coin(bits, numerator, denominator), max_choices=3, word_bits=4)
    expected = {True: p, False: 1 - p}
    assert law.undecided == 0
    assert law.masses == {outcome: mass for outcome, mass in expected.items() if mass}


@pytest.mark.parametrize("denominator", [1, 2, 3, 7, 16, 100])
def test_bernoulli_is_exact(denominator: int) -> None:
    for numerator in {0, 1, denominator // 2, denominator - 1, denominator}:
        check_bernoulli(shipped_bernoulli, numerator, denominator)


def test_a_coin_off_by_one_is_rejected() -> None:
    with pytest.raises(AssertionError):
        check_bernoulli(off_by_one, 3, 7)


EXPONENTS = [(0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (2, 5), (99, 100), (1, 1000), (3, 2**70)]


class Bytes(ScriptedBits):
    """Hands out each byte twice, in order, and remembers the coins of those that do not decide."""

    def __init__(self) -> None:
        super().__init__(np.arange(256).repeat(2).astype(np.uint8).view(np.uint64).tolist())
        self.tied: list[tuple[IntArray, int]] = []

    def bernoulli(self, numerators: IntArray, denominator: int) -> BoolArray:
        self.tied.append((numerators, denominator))
        return np.zeros(len(numerators), np.bool_)


Rows = Callable[[Bits, IntArray, int, int], BoolArray]


def shipped_rows(bits: Bits, numerators: IntArray, denominator: int, size: int) -> BoolArray:
    return bits.bernoulli_rows(numerators, denominator, size)


def check_rows(rows: Rows, numerators: tuple[int, int], denominator: int) -> None:
    """Add up the law of two coins over all first bytes: 1/256 for those that decide, and the
    chance of a coin of the rest of each that does not."""
    bits = Bytes()
    coins = rows(bits, np.array(numerators, np.int64), denominator, 256)
    masses = [Fraction(int(column.sum()), 256) for column in coins.T]
    ((rest, below),) = bits.tied
    assert len(rest) == 2  # each coin ties at one byte, the coin of the smaller one first
    firsts = [min(256 * numerator // denominator, 255) for numerator in numerators]
    for coin, numerator in zip(sorted((0, 1), key=firsts.__getitem__), rest.tolist(), strict=True):
        assert 0 <= numerator <= below
        masses[coin] += Fraction(numerator, 256 * below)
    assert masses == [Fraction(numerator, denominator) for numerator in numerators]


@pytest.mark.parametrize("denominator", [1, 2, 3, 7, 240, 255, 256, 257, 1000, 2**54 - 1])
def test_coins_in_rows_have_exactly_their_probabilities(denominator: int) -> None:
    for part in range(8):
        for other in (0, 1, denominator // 2, denominator - 1, denominator):
            check_rows(shipped_rows, (part * denominator // 7, other), denominator)


def test_wrong_coins_in_rows_are_rejected() -> None:
    def ties_fail(bits: Bits, numerators: IntArray, denominator: int, size: int) -> BoolArray:
        return bits.bernoulli_rows(256 * numerators // denominator, 256, size)

    def one_too_many(bits: Bits, numerators: IntArray, denominator: int, size: int) -> BoolArray:
        return bits.bernoulli_rows(numerators, denominator + 1, size)

    for twin in (ties_fail, one_too_many):
        with pytest.raises(AssertionError):
            check_rows(twin, (1, 5), 7)
    check_rows(shipped_rows, (1, 5), 7)


def test_coins_in_rows_are_drawn_in_blocks() -> None:
    """False alarm below 1e-9: of 3 coins and 3 pairs each count is within 7 deviations."""
    chances, size = np.array([1, 100, 240]), 200_000
    coins = SeededBits(6).bernoulli_rows(chances, 241, size)
    pairs = [coins[:, i] & coins[:, j] for i, j in ((0, 1), (0, 2), (1, 2))]
    after = coins[1:, 1] & coins[:-1, 1]
    p = chances / 241
    expected = [*p, p[0] * p[1], p[0] * p[2], p[1] * p[2], p[1] ** 2]
    for drawn, chance in zip((*coins.T, *pairs, after), expected, strict=True):
        assert abs(drawn.sum() - len(drawn) * chance) < 7 * (size * chance) ** 0.5
    assert SeededBits(6).bernoulli_rows(chances[:0], 241, 3).shape == (3, 0)
    assert SeededBits(6).bernoulli_rows(chances, 241, 0).shape == (0, 3)


def shipped_bernoulli_exp(bits: Bits, numerator: int, denominator: int) -> bool:
    return bool(bits.bernoulli_exp(np.array([numerator]), denominator)[0])


def brackets(law: EnumeratedLaw, outcome: Any, mass: Any) -> bool:
    """Return whether the real number lies between the decided and the decided plus undecided
    mass."""
    low = law.masses.get(outcome, Fraction(0))
    high = low + law.undecided
    return bool(mp.mpf(low.numerator) / low.denominator <= mass) and bool(
        mass <= mp.mpf(high.numerator) / high.denominator
    )


def check_bernoulli_exp(coin: BernoulliExp, numerator: int, denominator: int) -> None:
    law = enumerate_law(lambda bits: coin(bits, numerator, denominator), max_choices=14)
    assert law.undecided < Fraction(1, 10**9)
    with mp.workdps(400):  # the ends are rounded: far below g^14 / 14!, the width between them
        true = mp.exp(-mp.mpf(numerator) / denominator)
        assert brackets(law, True, true), f"exp(-{numerator}/{denominator})"
        assert brackets(law, False, 1 - true), f"1 - exp(-{numerator}/{denominator})"


@pytest.mark.parametrize(("numerator", "denominator"), EXPONENTS)
def test_bernoulli_exp_brackets_the_exponential(numerator: int, denominator: int) -> None:
    check_bernoulli_exp(shipped_bernoulli_exp, numerator, denominator)


def first_failure(bits: Bits, numerator: int, denominators: Callable[[int], int]) -> int:
    k = 1
    while bits.bernoulli(np.array([numerator]), denominators(k))[0]:
        k += 1
    return k


def parity_flipped(bits: Bits, numerator: int, denominator: int) -> bool:
    return first_failure(bits, numerator, lambda k: denominator * k) % 2 == 0


def never_divided(bits: Bits, numerator: int, denominator: int) -> bool:
    return first_failure(bits, numerator, lambda k: denominator) % 2 == 1


def divided_once_too_often(bits: Bits, numerator: int, denominator: int) -> bool:
    return first_failure(bits, numerator, lambda k: denominator * (k + 1)) % 2 == 1


def first_order(bits: Bits, numerator: int, denominator: int) -> bool:
    return not bits.bernoulli(np.array([numerator]), denominator)[0]


@pytest.mark.parametrize(
    "twin", [parity_flipped, never_divided, divided_once_too_often, first_order]
)
def test_a_wrong_exponential_coin_is_rejected(twin: BernoulliExp) -> None:
    with pytest.raises(AssertionError):
        check_bernoulli_exp(twin, 2, 5)


def test_each_coin_of_a_batch_has_its_own_exponent() -> None:
    """Independent coins of unlike exponents, tossed together as the shipped code does."""

    def run(bits: Bits) -> tuple[bool, ...]:
        return tuple(bool(coin) for coin in bits.bernoulli_exp(np.array([3, 1]), 3))

    law = enumerate_law(run, max_choices=18)
    assert law.undecided < Fraction(1, 10**6)
    with mp.workdps(60):
        first, second = mp.exp(-1), mp.exp(-mp.mpf(1) / 3)
        assert brackets(law, (True, True), first * second)
        assert brackets(law, (True, False), first * (1 - second))
        assert brackets(law, (False, True), (1 - first) * second)


@pytest.mark.parametrize("denominator", [7, 2**61, 2**63, 2**90])
def test_bernoulli_exp_works_beyond_64_bits(denominator: int) -> None:
    numerators: IntArray = np.array([0, 1, denominator], dtype=object)
    coins: BoolArray = SeededBits(5).bernoulli_exp(np.tile(numerators, 400), denominator)
    rates = coins.reshape(400, 3).mean(axis=0)
    assert coins.dtype == np.bool_
    assert rates[0] == 1.0
    # 400 coins of e^-1: sd 0.0241; beyond 5.5 sd with probability below 1e-7 (normal).
    assert abs(rates[2] - np.exp(-1)) < 5.5 * 0.0241
