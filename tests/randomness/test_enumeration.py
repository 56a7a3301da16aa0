"""The enumeration itself, on small programs whose law is known by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify.randomness import Bits, EnumeratedBits, enumerate_law
from dpverify.randomness.bits import BoolArray, IntArray

Attempted = tuple[IntArray, BoolArray]


def one(value: int) -> IntArray:
    return np.array([value])


def coin(bits: Bits, numerator: int, denominator: int) -> bool:
    return bool(bits.bernoulli(one(numerator), denominator)[0])


def below(bits: Bits, n: int) -> int:
    return int(bits.below(n, 1)[0])


def accepted_if(condition: bool) -> BoolArray:
    return np.array([condition])


def test_a_program_without_coins_has_one_outcome() -> None:
    law = enumerate_law(lambda bits: "only", max_choices=0)
    assert law.masses == {"only": Fraction(1)}
    assert law.undecided == 0
    assert law.paths == 1


def test_paths_of_unlike_length_have_their_own_masses() -> None:
    def run(bits: Bits) -> str:
        if coin(bits, 1, 3):
            return "early"
        return "late" if coin(bits, 1, 4) else f"later {below(bits, 2)}"

    law = enumerate_law(run, max_choices=3)
    assert law.masses == {
        "early": Fraction(1, 3),
        "late": Fraction(1, 6),
        "later 0": Fraction(1, 4),
        "later 1": Fraction(1, 4),
    }
    assert law.undecided == 0
    assert law.paths == 4


def test_outcomes_met_on_several_paths_add_up() -> None:
    law = enumerate_law(lambda bits: below(bits, 6) + below(bits, 6), max_choices=2)
    assert law.masses == {s: Fraction(6 - abs(5 - s), 36) for s in range(11)}


def test_sure_and_impossible_coins_are_no_choices() -> None:
    law = enumerate_law(lambda bits: (coin(bits, 3, 3), coin(bits, 0, 3)), max_choices=0)
    assert law.masses == {(True, False): Fraction(1)}


def test_a_rejection_is_renormalized_exactly() -> None:
    """A die thrown until it is not a 6, then until two throws differ."""

    def attempt(bits: Bits) -> Callable[[NDArray[np.intp]], Attempted]:
        def throw(pending: NDArray[np.intp]) -> Attempted:
            value = below(bits, 6)
            return one(value), accepted_if(value != 5)

        return throw

    law = enumerate_law(lambda bits: int(bits.until_accepted(1, attempt(bits))[0]), max_choices=1)
    assert law.masses == {value: Fraction(1, 5) for value in range(5)}
    assert law.undecided == 0
    assert law.paths == 6


def test_acceptance_weighs_the_outcomes() -> None:
    def run(bits: Bits) -> int:
        def attempt(pending: NDArray[np.intp]) -> Attempted:
            value = below(bits, 4)
            return one(value), accepted_if(coin(bits, value, 10))

        return int(bits.until_accepted(1, attempt)[0])

    law = enumerate_law(run, max_choices=2)
    assert law.masses == {value: Fraction(value, 6) for value in (1, 2, 3)}


def nested(bits: Bits) -> tuple[int, int]:
    """Outer: reject when the inner value is 0. Inner: below 3 until it is not 2."""

    def inner(pending: NDArray[np.intp]) -> Attempted:
        value = below(bits, 3)
        return one(value), accepted_if(value != 2)

    def outer(pending: NDArray[np.intp]) -> Attempted:
        value = int(bits.until_accepted(1, inner)[0])
        after = below(bits, 2)
        return one(2 * value + after), accepted_if(value == 1 or after == 1)

    before = below(bits, 2)
    return before, int(bits.until_accepted(1, outer)[0])


def test_a_rejection_inside_a_rejection() -> None:
    law = enumerate_law(nested, max_choices=3)
    # (value, after) uniform on 4 pairs, (0, 0) rejected; the coin before is untouched by both.
    assert law.masses == {
        (before, outcome): Fraction(1, 6) for before in (0, 1) for outcome in (1, 2, 3)
    }
    assert law.undecided == 0


def test_state_shared_by_the_values_of_a_batch_is_not_reweighted() -> None:
    """A first coin decides how often each of two values is rejected; its own law must not move."""

    def run(bits: Bits) -> tuple[int, ...]:
        shared = below(bits, 2)

        def attempt(pending: NDArray[np.intp]) -> Attempted:
            value = below(bits, 4)
            return one(value), accepted_if(value < 1 + 2 * shared)

        return (shared, *(int(v) for v in bits.until_accepted(2, attempt)))

    law = enumerate_law(run, max_choices=3)
    expected = {(0, 0, 0): Fraction(1, 2)}
    expected |= {(1, i, j): Fraction(1, 18) for i in range(3) for j in range(3)}
    assert law.masses == expected


def test_each_index_of_a_batch_is_told_which_it_is() -> None:
    def run(bits: Bits) -> tuple[int, ...]:
        def attempt(pending: NDArray[np.intp]) -> Attempted:
            value = below(bits, 3)
            return one(value), accepted_if(value != int(pending[0]))

        return tuple(int(v) for v in bits.until_accepted(3, attempt))

    law = enumerate_law(run, max_choices=3)
    expected = {(i, j, k) for i in (1, 2) for j in (0, 2) for k in (0, 1)}
    assert law.masses == dict.fromkeys(expected, Fraction(1, 8))


def geometric(bits: Bits) -> int:
    count = 0
    while coin(bits, 1, 3):
        count += 1
    return count


@pytest.mark.parametrize("max_choices", [0, 1, 2, 5, 9])
def test_decided_and_undecided_mass_make_up_one(max_choices: int) -> None:
    law = enumerate_law(geometric, max_choices=max_choices)
    assert law.undecided == Fraction(1, 3) ** max_choices
    assert sum(law.masses.values()) + law.undecided == 1
    assert law.masses == {k: Fraction(2, 3 ** (k + 1)) for k in range(max_choices)}


@pytest.mark.parametrize("max_choices", [1, 2, 3, 4, 6])
def test_masses_bracket_the_law_where_a_cut_path_could_be_rejected(max_choices: int) -> None:
    """Geometric values, odd ones rejected: the law is (8/9) 9^-j on 2j."""

    def run(bits: Bits) -> int:
        def attempt(pending: NDArray[np.intp]) -> Attempted:
            value = geometric(bits)
            return one(value), accepted_if(value % 2 == 0)

        return int(bits.until_accepted(1, attempt)[0])

    law = enumerate_law(run, max_choices=max_choices)
    assert sum(law.masses.values()) + law.undecided == 1
    for outcome, mass in law.masses.items():
        assert isinstance(outcome, int)
        true = Fraction(8, 9) * Fraction(1, 9) ** (outcome // 2)
        assert mass < true <= mass + law.undecided


def test_a_loop_that_always_rejects_is_reported() -> None:
    def run(bits: Bits) -> int:
        return int(
            bits.until_accepted(1, lambda pending: (one(below(bits, 2)), accepted_if(False)))[0]
        )

    with pytest.raises(RuntimeError, match="never ends"):
        enumerate_law(run, max_choices=3)


def test_a_loop_that_rejects_without_drawing_is_reported() -> None:
    def run(bits: Bits) -> int:
        return int(bits.until_accepted(1, lambda pending: (one(0), accepted_if(False)))[0])

    with pytest.raises(RuntimeError, match="never ends"):
        enumerate_law(run, max_choices=3)
    with pytest.raises(RuntimeError, match="never ends"):
        enumerate_law(lambda bits: coin(bits, 1, 2) and run(bits), max_choices=3)


def test_a_loop_that_hides_in_one_branch_is_reported() -> None:
    def run(bits: Bits) -> int:
        stuck = coin(bits, 1, 10)

        def attempt(pending: NDArray[np.intp]) -> Attempted:
            return one(below(bits, 3)), accepted_if(not stuck)

        return int(bits.until_accepted(1, attempt)[0])

    with pytest.raises(RuntimeError, match="never ends"):
        enumerate_law(run, max_choices=3)


def test_too_many_paths_are_refused() -> None:
    def run(bits: Bits) -> tuple[int, ...]:
        return tuple(int(v) for v in bits.below(10, 2))

    assert enumerate_law(run, max_choices=2, max_paths=100).paths == 100
    with pytest.raises(RuntimeError, match="more than 99 paths; enumerate a smaller instance"):
        enumerate_law(run, max_choices=2, max_paths=99)


def test_an_error_in_the_program_is_not_swallowed() -> None:
    def run(bits: Bits) -> int:
        return 1 // below(bits, 2)

    with pytest.raises(ZeroDivisionError):
        enumerate_law(run, max_choices=2)


def test_a_program_cannot_swallow_a_cut_or_a_rejection() -> None:
    """``except Exception`` in the program must not turn a cut or rejected path into an outcome."""

    def attempt(bits: Bits) -> Attempted:
        value = below(bits, 3)
        return one(value), accepted_if(value != 1)

    def swallow(run: Callable[[Bits], int]) -> Callable[[Bits], int]:
        def swallowing(bits: Bits) -> int:
            try:
                return run(bits)
            except Exception:
                return -1

        return swallowing

    cut = enumerate_law(swallow(geometric), max_choices=2)
    assert cut.masses == {0: Fraction(2, 3), 1: Fraction(2, 9)}
    rejected = enumerate_law(
        swallow(lambda bits: int(bits.until_accepted(1, lambda pending: attempt(bits))[0])),
        max_choices=1,
    )
    assert rejected.masses == {0: Fraction(1, 2), 2: Fraction(1, 2)}


def test_words_are_enumerated_only_on_request() -> None:
    with pytest.raises(TypeError, match="word_bits"):
        EnumeratedBits([], max_choices=1).words(1)
    law = enumerate_law(lambda bits: int(bits.words(1)[0]), max_choices=1, word_bits=4)
    assert law.masses == {word: Fraction(1, 16) for word in range(16)}


@pytest.mark.parametrize("stand_in", [Fraction(1, 2), Fraction(1, 7)])
def test_formal_exponentials_are_what_they_are_said_to_be(stand_in: Fraction) -> None:
    law = enumerate_law(
        lambda bits: tuple(bool(c) for c in bits.bernoulli_exp(np.array([1, 2, 0]), 2)),
        max_choices=2,
        exponential=lambda g: stand_in ** int(2 * g),
    )
    p, q = stand_in, stand_in**2
    assert law.masses == {
        (True, True, True): p * q,
        (True, False, True): p * (1 - q),
        (False, True, True): (1 - p) * q,
        (False, False, True): (1 - p) * (1 - q),
    }


def test_values_beyond_63_bits_survive_a_rejection_loop() -> None:
    def run(bits: Bits) -> int:
        def attempt(pending: NDArray[np.intp]) -> Attempted:
            value = 2**70 + below(bits, 2)
            return np.array([value], dtype=object), accepted_if(True)

        return int(bits.until_accepted(1, attempt)[0])

    law = enumerate_law(run, max_choices=1)
    assert law.masses == {2**70: Fraction(1, 2), 2**70 + 1: Fraction(1, 2)}
