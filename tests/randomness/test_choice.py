"""The exact draw of one of many candidates: its law, by enumeration and by statistics."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.randomness import Bits, EnumeratedLaw, SeededBits, choice, enumerate_law, weights
from dpverify.randomness.choice import Choice, weighted_choice
from dpverify.randomness.weights import Weights
from tests.randomness.helpers import STAND_INS, NoBits, formal_exponential
from tests.randomness.test_no_floats import functions, inexact

Enclosing = Callable[[list[int], Fraction, int], tuple[list[int], int]]
Case = tuple[list[int], list[int]]

SMALL: list[Case] = [
    ([0, 1], [1, 1]),
    ([3, 2, 3, 5, 2], [1, 1, 1, 1, 1]),
    ([7, -7, 0], [4, 1, 2]),
    ([0, 0, 0], [1, 1, 1]),
    ([-(10**9), 5, 4, 6], [0, 2, 3, 2**60]),
    ([1, 0, 2, 0], [0, 1, 5, 0]),
    ([10**9, 0, 1], [1, 1, 1]),
]
"""Exponents and multiplicities."""


def masses_of(case: Case, exponential: Callable[[int], Fraction]) -> dict[int, Fraction]:
    """P(i), by the definition; ``exponential`` stands for g -> exp(-rate g)."""
    exponents, multiplicities = case
    least = min(e for e, m in zip(exponents, multiplicities, strict=True) if m)
    weights = [
        m * exponential(e - least) if m else Fraction(0)
        for e, m in zip(exponents, multiplicities, strict=True)
    ]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


def real_masses(case: Case, rate: Fraction) -> dict[int, Fraction]:
    """P(i) for exp itself, to about 58 digits."""
    return masses_of(case, lambda gap: real_exponential(rate * gap, 60))


def real_exponential(exponent: Fraction, digits: int) -> Fraction:
    """exp(-exponent) to so many digits, from mpmath; 0 below 10^-1000."""
    with mp.workdps(digits + 20):
        value = mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator)
        if value < mp.mpf(10) ** -1000:
            return Fraction(0)
        mantissa, exponent_of_two = mp.frexp(value)
        return Fraction(int(mantissa * 2**300)) * Fraction(2) ** (int(exponent_of_two) - 300)


def formal_weights(root: Fraction) -> Enclosing:
    """Enclosures of powers of a rational in place of those of exp; 0 is as close as any."""

    def enclosed(gaps: list[int], rate: Fraction, precision: int) -> tuple[list[int], int]:
        return [int(power(root, gap) * 2**precision) for gap in gaps], 1

    return enclosed


def power(root: Fraction, gap: int) -> Fraction:
    return root**gap if gap < 10**6 else Fraction(0)  # too small to make a difference below


def law_of(case: Case, rate: Fraction, word_bits: int, words: int) -> EnumeratedLaw:
    """Enumerate one draw; the law is set up once for all words, as for many draws."""
    made = Choice(case[0], rate, case[1])

    def run(bits: Bits) -> int:
        return int(made.draw(bits, 1)[0])

    return enumerate_law(run, max_choices=words, word_bits=word_bits)


def agrees(law: EnumeratedLaw, truth: dict[int, Fraction]) -> bool:
    """Return whether the decided and the undecided mass bracket every probability, up to 10^-50."""
    tiny = Fraction(1, 10**50)
    return all(
        law.masses.get(i, Fraction(0)) <= p + tiny
        and p <= law.masses.get(i, Fraction(0)) + law.undecided + tiny
        for i, p in truth.items()
    ) and set(law.masses) <= {i for i, p in truth.items() if p or law.undecided}


@pytest.mark.parametrize(("word_bits", "words"), [(1, 16), (2, 8), (3, 4), (5, 2), (8, 2)])
@pytest.mark.parametrize("root", STAND_INS, ids=str)
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_law_is_exact_for_stand_ins_of_exp(
    case: Case, root: Fraction, word_bits: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_weights", formal_weights(root))
    law = law_of(case, Fraction(1), word_bits, words)
    assert agrees(law, masses_of(case, lambda gap: power(root, gap)))
    # Each boundary between two candidates leaves at most two of the last words open.
    assert law.undecided <= Fraction(2 * len(case[0]), 2 ** (word_bits * words))


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 7), Fraction(22, 3)], ids=str)
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_law_is_exact_for_exp_itself(case: Case, rate: Fraction) -> None:
    for word_bits, words in ((2, 8), (4, 4), (8, 2)):
        law = law_of(case, rate, word_bits, words)
        assert agrees(law, real_masses(case, rate))
        assert law.undecided <= Fraction(2 * len(case[0]), 2**16)


def test_a_law_of_halves_and_quarters_is_decided_outright() -> None:
    law = law_of(([5, 5, 5], [2**60, 2**61, 2**60]), Fraction(9), 2, 1)
    assert law.masses == {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    assert law.undecided == 0


def test_two_draws_are_independent() -> None:
    case, rate = ([0, 2], [1, 1]), Fraction(1, 2)
    law = enumerate_law(
        lambda bits: tuple(weighted_choice(bits, case[0], rate, 2).tolist()),
        max_choices=4,
        word_bits=4,
    )
    p = real_masses(case, rate)
    for i in (0, 1):
        for j in (0, 1):
            assert law.masses[i, j] <= p[i] * p[j] <= law.masses[i, j] + law.undecided
    assert law.undecided < Fraction(1, 50)


def test_at_rate_zero_multiplicities_alone_count() -> None:
    law = law_of(([10**30, 0, -5], [1, 2, 5]), Fraction(0), 3, 1)
    assert law.masses == {0: Fraction(1, 8), 1: Fraction(1, 4), 2: Fraction(5, 8)}


def test_atoms_are_the_law_under_a_stand_in() -> None:
    for case in SMALL[:4]:
        for root in STAND_INS:
            made = Choice(case[0], Fraction(3, 2), case[1])
            atoms = made.atoms(formal_exponential(root, 2))
            truth = masses_of(case, lambda gap, root=root: root ** (3 * gap))  # type: ignore[misc]
            assert dict(atoms) == {i: p for i, p in truth.items() if case[1][i]}


# --- how it is computed -------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in SMALL if len(c[0]) > 1], ids=str)
def test_a_table_decides_what_single_words_do(case: Case) -> None:
    made = Choice(case[0], Fraction(1, 7), case[1])
    words = np.arange(256, dtype=np.uint64)
    drawn, decided = made._table_of(8).look_up(words)
    places = [made._sums(8).decide(word) for word in range(256)]
    assert [place is not None for place in places] == decided.tolist()
    known = [int(made._candidates.indices[place]) for place in places if place is not None]
    assert known == drawn[decided].tolist()
    few, many = (made.draw(SeededBits(35), size)[: choice._FEW] for size in (choice._FEW, 1000))
    assert few.tolist() == many.tolist()


@pytest.mark.parametrize("most", [3, 2**40, 2**53, 2**54, 2**70])
@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 10**6), Fraction(1, 3), Fraction(10**6)])
def test_weights_are_enclosed_and_cut_into_limbs_without_loss(rate: Fraction, most: int) -> None:
    gaps = [0, 1, 2, 3, 50, 51, 1000, 10**6, 10**6 + 1]
    made = Weights.of([(gaps, [most] * len(gaps))], rate)
    limbs = made.limbs.astype(object)
    integers = sum(limb << (k * made.limb_bits) for k, limb in enumerate(limbs)).tolist()
    bits = made.known_bits + weights._GUARD_BITS + (most * len(gaps)).bit_length()
    assert (integers, made.slack) == weights._weights(gaps, rate, bits)
    assert made.slack <= 2
    for gap, weight in zip(gaps, integers, strict=True):
        true = real_exponential(rate * gap, 80) * 2**bits
        assert weight - Fraction(1, 2**20) <= true <= weight + made.slack + Fraction(1, 2**20)
    assert (made.limbs.dtype == object) is (most >= 2**53)
    if made.limbs.dtype != object:  # no sum of limbs can leave its 62 bits
        assert int(made.limbs.max()) * most * len(gaps) < 2**62


def test_laws_share_weights_and_draw_the_same() -> None:
    laws = [([abs(4 * i - k) for i in range(50)], [i % 3 for i in range(50)]) for k in (30, 80, 7)]
    shared = Weights.of(laws, Fraction(1, 9))
    for k, (exponents, counts) in enumerate(laws):
        apart = Choice(exponents, Fraction(1, 9), counts).draw(SeededBits(36, k), 300)
        together = Choice(exponents, Fraction(1, 9), counts, shared)
        assert together.draw(SeededBits(36, k), 300).tolist() == apart.tolist()
        assert together.draw(SeededBits(36, k), 20).tolist() == apart[:20].tolist()


@pytest.mark.parametrize(
    ("exponents", "rate", "multiplicities"),
    [([0, 1, 5], 2, None), ([0, 2, 4], 1, None), ([0, 2, 5], 1, [1, 1, 3]), ([0, 9], 1, None)],
)
def test_weights_of_other_laws_are_refused(
    exponents: list[int], rate: int, multiplicities: list[int] | None
) -> None:
    shared = Weights.of([([0, 2, 5], [1, 1, 2])], Fraction(1))
    assert Choice([5, 3], Fraction(1), None, shared).draw(SeededBits(37), 9).max() == 1
    with pytest.raises(ValueError, match="not those of the law"):
        Choice(exponents, Fraction(rate), multiplicities, shared).draw(SeededBits(37), 9)


# --- planted faults -----------------------------------------------------------------------------


def test_a_flipped_sign_is_noticed() -> None:
    case, rate = SMALL[1], Fraction(1, 7)
    assert not agrees(law_of(([-e for e in case[0]], case[1]), rate, 4, 4), real_masses(case, rate))


def test_an_ignored_multiplicity_is_noticed() -> None:
    case, rate = SMALL[2], Fraction(1, 7)
    assert not agrees(law_of((case[0], [1, 1, 1]), rate, 4, 4), real_masses(case, rate))


def test_a_rate_off_by_a_thousandth_is_noticed() -> None:
    case, rate = SMALL[1], Fraction(1, 7)
    assert not agrees(law_of(case, rate * Fraction(1001, 1000), 4, 4), real_masses(case, rate))


@pytest.mark.parametrize("slack_counts", [True, False])
def test_at_tiny_precision_the_slack_decides_whether_the_law_is_right(
    slack_counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are known worse than U: with the slack nothing is wrong, only undecided."""
    shipped = weights._weights

    def without_slack(gaps: list[int], rate: Fraction, precision: int) -> tuple[list[int], int]:
        return shipped(gaps, rate, precision)[0], 0

    monkeypatch.setattr(weights, "_GUARD_BITS", -2)
    if not slack_counts:
        monkeypatch.setattr(weights, "_weights", without_slack)
    case = ([1, 0, 1, 2, 3], [1, 1, 1, 1, 1])
    assert agrees(law_of(case, Fraction(1), 4, 4), real_masses(case, Fraction(1))) is slack_counts


# --- statistics, and what is refused ------------------------------------------------------------


def fits(drawn: Sequence[int], masses: dict[int, Fraction]) -> bool:
    """Run a chi-square test; false alarm 1e-6 over the choice of the seed, 20 draws or more a
    cell."""
    expected = np.array([float(p) for p in masses.values()]) * len(drawn)
    assert expected.min() >= 20
    observed = np.bincount(drawn, minlength=len(masses))
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return bool(statistic < stats.chi2.isf(1e-6, len(masses) - 1))


def test_draws_pass_chi_square() -> None:
    # False alarm 1e-6; the same test rejects a rate that is 5% too large.
    case: Case = ([abs(i - 20) for i in range(60)], [1 + i % 3 for i in range(60)])
    rate = Fraction(1, 9)
    truth = real_masses(case, rate)
    made = Choice(case[0], rate, case[1])
    wrong = Choice(case[0], rate * Fraction(21, 20), case[1])
    assert fits(made.draw(SeededBits(31), 200_000).tolist(), truth)
    assert not fits(wrong.draw(SeededBits(31), 200_000).tolist(), truth)


def test_many_candidates_are_all_drawn() -> None:
    # A candidate of 10^4 is missed by 10^6 draws with probability below 10^4 exp(-99) < 1e-38.
    made = Choice([0] * 10_000, Fraction(1))
    drawn = made.draw(SeededBits(32), 1_000_000)
    assert len(np.unique(drawn)) == 10_000


def test_one_candidate_needs_no_bits() -> None:
    assert weighted_choice(NoBits(), [5], Fraction(1), 3).tolist() == [0, 0, 0]
    drawn = weighted_choice(NoBits(), [5, 0, 7], Fraction(1), 2, [0, 0, 2**70])
    assert drawn.tolist() == [2, 2]
    assert drawn.dtype == np.intp


def test_arrays_and_lists_of_any_width_give_the_same_law() -> None:
    exponents, multiplicities = [3, 0, 5], [1, 2, 2**62]
    made = [
        Choice(exponents, Fraction(1), multiplicities),
        Choice(np.array(exponents), Fraction(1), np.array(multiplicities)),
        Choice(np.array(exponents, dtype=object), Fraction(1), tuple(multiplicities)),
    ]
    assert made[0] == made[1] == made[2]
    drawn = [one.draw(SeededBits(33), 500).tolist() for one in made]
    assert drawn[0] == drawn[1] == drawn[2]
    assert made[0].draw(SeededBits(33), 0).tolist() == []
    assert drawn[0] == SeededBits(33).noise(made[0], 500).tolist()


def test_a_law_cannot_be_changed() -> None:
    given = [0, 1]
    made = Choice(given, Fraction(1))
    given[0] = 7
    assert made.exponents == (0, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rate = Fraction(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("exponents", "rate", "multiplicities", "message"),
    [
        ([], 1, None, "nothing to choose from"),
        ([1, 2], 1, [0, 0], "nothing to choose from"),
        ([1, 2], 1, [1], "2 exponents, 1 multiplicities"),
        ([1, 2], 1, [1, -1], "negative"),
        ([1, 2], -1, None, "negative"),
    ],
)
def test_what_is_no_law_is_refused(
    exponents: list[int], rate: int, multiplicities: list[int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        weighted_choice(NoBits(), exponents, Fraction(rate), 1, multiplicities)


@pytest.mark.parametrize("exponents", [[0.5, 1], np.array([0.0, 1.0]), ["1", "2"]], ids=str)
def test_what_is_no_integer_is_refused(exponents: list[int]) -> None:
    with pytest.raises(TypeError, match="integer"):
        Choice(exponents, Fraction(1))


def test_no_float_decides() -> None:
    read = functions(inspect.getsource(choice)) + functions(inspect.getsource(weights))
    deciding = {"draw", "decide", "stretches", "look_up", "_refine", "sums", "_weights", "_floor"}
    assert deciding <= {f.name for f in read}
    problems = [line.split(": ", 1)[1] for f in read for line in inexact(f)]
    # Arrays and a search, all of integers; the one division is of rationals, for enumeration.
    assert problems.count("a true division") == 1
    assert {name for name in problems if "flatnonzero" not in name} <= {
        "a true division",
        "np.concatenate",
        "np.cumsum",
        "np.minimum",
        "np.sort",
    }
