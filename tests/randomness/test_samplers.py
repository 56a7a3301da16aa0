"""The laws of the samplers that toss coins, fraction for fraction: every outcome, exponentials
formal.

A law that is a rational function of w = exp(-1 / a) and agrees at three stand-ins for w is not
proof for all w, but the shipped code would have to be wrong in a way that three unlike numbers
hide.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify.randomness import (
    Bits,
    EnumeratedLaw,
    SeededBits,
    enumerate_law,
    randomized_response,
)
from dpverify.randomness import samplers as shipped
from dpverify.randomness.bits import BoolArray, IntArray
from dpverify.randomness.samplers import (
    discrete_laplace,
    discrete_laplace_by_coins,
)
from tests.randomness.helpers import STAND_INS, NoBits, formal_exponential

SCALES = [Fraction(s) for s in ("1", "2", "3/2", "4/3", "1/3", "5/2", "7/5", "1/7")]
Laplace = Callable[[Bits, Fraction, int], IntArray]
Response = Callable[[Bits, IntArray, int, Fraction, int], IntArray]


def exactly_equal_mass(law: EnumeratedLaw, expected: Callable[[int], Fraction]) -> Fraction:
    """Return the mass on which the laws are equal as fractions; elsewhere the brackets must
    hold."""
    equal = Fraction(0)
    for outcome, mass in law.masses.items():
        assert isinstance(outcome, int)
        true = expected(outcome)
        assert mass <= true <= mass + law.undecided, f"mass of {outcome}"
        equal += mass if mass == true else 0
    return equal


def check_laplace(sampler: Laplace, scale: Fraction, root: Fraction, unit: int) -> None:
    e = formal_exponential(root, unit)
    q = e(1 / scale)
    law = enumerate_law(lambda bits: int(sampler(bits, scale, 1)[0]), max_choices=16, exponential=e)
    equal = exactly_equal_mass(law, lambda x: (1 - q) / (1 + q) * q ** abs(x))
    assert equal >= Fraction(99, 100)


@pytest.mark.parametrize("root", STAND_INS, ids=str)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_discrete_laplace_by_coins_has_its_law_fraction_for_fraction(
    scale: Fraction, root: Fraction
) -> None:
    check_laplace(discrete_laplace_by_coins, scale, root, scale.numerator)


def laplace_with(
    *, shift: int = 0, keep_minus_zero: bool = False, wrong_remainder: bool = False
) -> Laplace:
    """Return the shipped algorithm written again, with a fault to plant."""

    def sampler(bits: Bits, scale: Fraction, size: int) -> IntArray:
        a, b = scale.numerator, scale.denominator

        def remainder(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
            u = bits.below(a, len(pending))
            accepted = bits.bernoulli_exp(u, a)
            return u, accepted | wrong_remainder

        def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
            u = bits.until_accepted(len(pending), remainder)
            v = 0
            while bits.bernoulli_exp(np.ones(1, dtype=np.int64), 1)[0]:
                v += 1
            magnitude = (u + a * v + shift) // b
            negative = bits.below(2, len(pending)) == 1
            minus_zero = negative & (magnitude == 0)
            kept = np.asarray(~minus_zero | keep_minus_zero)
            return np.where(negative, -magnitude, magnitude), kept

        return bits.until_accepted(size, attempt)

    return sampler


def inverted(bits: Bits, scale: Fraction, size: int) -> IntArray:
    return discrete_laplace_by_coins(bits, 1 / scale, size)


def one_sided(bits: Bits, scale: Fraction, size: int) -> IntArray:
    return np.abs(discrete_laplace_by_coins(bits, scale, size))


TWINS: dict[str, Laplace] = {
    "one more": laplace_with(shift=1),
    "one less": laplace_with(shift=-1),
    "minus zero": laplace_with(keep_minus_zero=True),
    "uniform remainder": laplace_with(wrong_remainder=True),
    "inverted": inverted,
    "one-sided": one_sided,
}


@pytest.mark.parametrize("name", TWINS)
def test_a_wrong_laplace_is_rejected(name: str) -> None:
    # In units of 1/6 the exponentials of every twin are powers of the root.
    scale, root = Fraction(3, 2), Fraction(4, 5)
    with pytest.raises(AssertionError):
        check_laplace(TWINS[name], scale, root, 6)
    check_laplace(discrete_laplace_by_coins, scale, root, 6)
    check_laplace(laplace_with(), scale, root, 6)


def test_two_draws_of_a_batch_are_independent() -> None:
    e = formal_exponential(Fraction(1, 5), 1)
    q, scale = e(Fraction(1)), Fraction(1)
    law = enumerate_law(
        lambda bits: tuple(int(z) for z in discrete_laplace_by_coins(bits, scale, 2)),
        max_choices=20,
        exponential=e,
    )
    near = list(product(range(-2, 3), repeat=2))
    for x, y in near:
        true = ((1 - q) / (1 + q)) ** 2 * q ** (abs(x) + abs(y))
        assert law.masses[x, y] <= true <= law.masses[x, y] + law.undecided
    # Cut paths lead to the outcomes far away alone, so the near ones have their exact mass.
    total = sum(law.masses[outcome] for outcome in near)
    one = sum((1 - q) / (1 + q) * q ** abs(x) for x in range(-2, 3))
    assert total == one**2


ANSWERS = [((0,), 2), ((1,), 2), ((2,), 3), ((0, 1), 2), ((2, 0), 3), ((1, 3), 4)]
RESPONSE_SCALES = [Fraction(s) for s in ("1", "2", "1/2", "2/3", "3/2", "1/3", "2/5")]


def check_response(
    sampler: Response, answers: tuple[int, ...], categories: int, scale: Fraction, root: Fraction
) -> None:
    e = formal_exponential(root, scale.numerator)
    w = e(1 / scale)

    def run(bits: Bits) -> tuple[int, ...]:
        row = sampler(bits, np.array(answers), categories, scale, 1)
        assert row.shape == (1, len(answers))
        return tuple(int(v) for v in row[0])

    law = enumerate_law(run, max_choices=20, exponential=e)
    assert law.undecided == 0
    expected = {}
    for outcome in product(range(categories), repeat=len(answers)):
        changed = sum(a != b for a, b in zip(answers, outcome, strict=True))
        expected[outcome] = w**changed / (1 + (categories - 1) * w) ** len(answers)
    assert law.masses == expected


@pytest.mark.parametrize(("answers", "categories"), ANSWERS)
@pytest.mark.parametrize("scale", RESPONSE_SCALES, ids=str)
def test_randomized_response_has_its_law_fraction_for_fraction(
    answers: tuple[int, ...], categories: int, scale: Fraction
) -> None:
    """Exponents 1 / scale above and below 1: the whole and the fractional coins both count."""
    check_response(randomized_response, answers, categories, scale, STAND_INS[1])


def always_keeps(
    bits: Bits, answers: IntArray, categories: int, scale: Fraction, size: int
) -> IntArray:
    return np.tile(answers, (size, 1))


def proposes_others_only(
    bits: Bits, answers: IntArray, categories: int, scale: Fraction, size: int
) -> IntArray:
    """Keeps with exp(-1 / scale), else another category: the weights are not 1 to w."""
    keep = bits.bernoulli_exp(np.ones(len(answers), dtype=np.int64), 1)
    other = (answers + 1 + bits.below(categories - 1, len(answers))) % categories
    return np.where(keep, answers, other).reshape(1, -1)


def forgets_the_whole_part(
    bits: Bits, answers: IntArray, categories: int, scale: Fraction, size: int
) -> IntArray:
    return randomized_response(bits, answers, categories, 1 / (1 / scale % 1), size)


def half_the_scale(
    bits: Bits, answers: IntArray, categories: int, scale: Fraction, size: int
) -> IntArray:
    return randomized_response(bits, answers, categories, scale / 2, size)


@pytest.mark.parametrize(
    "twin", [always_keeps, proposes_others_only, forgets_the_whole_part, half_the_scale]
)
def test_a_wrong_response_is_rejected(twin: Response) -> None:
    scale = Fraction(2, 3)
    with pytest.raises(AssertionError):
        check_response(twin, (1,), 3, scale, Fraction(1, 4))
    check_response(randomized_response, (1,), 3, scale, Fraction(1, 4))


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1, 2)])
def test_a_scale_that_is_not_positive_is_refused(scale: Fraction) -> None:
    with pytest.raises(ValueError, match="not positive"):
        discrete_laplace(NoBits(), scale, 1)


def test_int64_and_python_integers_give_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for scale in (Fraction(1), Fraction(10**9, 7), Fraction(1, 3), Fraction(2**61 + 1, 3)):
        machine = discrete_laplace_by_coins(SeededBits(2), scale, 300)
        with monkeypatch.context() as patched:
            patched.setattr(shipped, "_WORD_LIMIT", 1)
            python = discrete_laplace_by_coins(SeededBits(2), scale, 300)
        assert python.dtype == object
        assert python.tolist() == machine.tolist()


@pytest.mark.parametrize("size", [0, 1, 5])
def test_sizes_and_dtypes(size: int) -> None:
    noise = discrete_laplace(SeededBits(1), Fraction(3), size)
    rows = randomized_response(SeededBits(1), np.array([0, 2]), 3, Fraction(1), size)
    nobody = randomized_response(SeededBits(1), np.zeros(0, dtype=np.int64), 3, Fraction(1), size)
    assert noise.dtype == rows.dtype == np.int64
    assert (noise.shape, rows.shape, nobody.shape) == ((size,), (size, 2), (size, 0))
