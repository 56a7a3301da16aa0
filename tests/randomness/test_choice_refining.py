"""The exact draw of one of many candidates, inside: its enclosures against mpmath, and U bit by
bit."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, product

import numpy as np
import pytest

from dpverify.randomness import SeededBits, weights
from dpverify.randomness.choice import Choice, weighted_choice
from dpverify.randomness.weights import Sums
from tests.randomness.helpers import ScriptedBits
from tests.randomness.test_choice import SMALL, Case, Enclosing, real_exponential, real_masses


def enclose(enclosing: Enclosing, gaps: list[int], rate: Fraction, precision: int) -> bool:
    """Return whether the integers closely enclose 2^precision exp(-rate g)."""
    lower, slack = enclosing(gaps, rate, precision)
    truth = [real_exponential(rate * gap, 60) * 2**precision for gap in gaps]
    tiny = Fraction(1, 10**20)  # of the comparison, whose numbers are below 10^31
    return slack <= 2 and all(
        0 <= low <= true + tiny and true - tiny <= low + slack
        for low, true in zip(lower, truth, strict=True)
    )


GAPS = [0, 1, 2, 3, 10, 66, 67, 100, 10**9, 10**30, 10**300]


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 10**9), Fraction(355, 113)], ids=str)
@pytest.mark.parametrize("precision", [1, 40, 96, 100])
def test_weights_are_enclosed(rate: Fraction, precision: int) -> None:
    assert enclose(weights._weights, GAPS, rate, precision)


@pytest.mark.parametrize("off", [-2, 2])
def test_weights_off_by_a_little_are_noticed(off: int) -> None:
    def shifted(gaps: list[int], rate: Fraction, precision: int) -> tuple[list[int], int]:
        lower, slack = weights._weights(gaps, rate, precision)
        return [max(0, weight + off) for weight in lower], slack

    assert not enclose(shifted, GAPS, Fraction(1), 96)


def test_a_weight_rounded_to_nothing_is_noticed() -> None:
    def without_slack(gaps: list[int], rate: Fraction, precision: int) -> tuple[list[int], int]:
        return weights._weights(gaps, rate, precision)[0], 0

    assert not enclose(without_slack, [0, 68], Fraction(1), 96)


LARGE: list[Case] = [
    (list(range(0, 400, 7)), [1] * 58),
    ([5, 1, 5, 90, 2], [2**60, 1, 2**62, 2**200, 3]),
    ([0, 10**9, 1, -1], [1, 2**62, 1, 1]),
]


@pytest.mark.parametrize("known_bits", [3, 64, 128])
@pytest.mark.parametrize("case", SMALL + LARGE, ids=lambda case: str(case)[:30])
def test_stretches_are_inside_the_true_ones_and_close(case: Case, known_bits: int) -> None:
    rate = Fraction(1, 3)
    starts, ends = zip(*Choice(case[0], rate, case[1])._sums(known_bits).stretches(), strict=True)
    possible = [p for i, p in real_masses(case, rate).items() if case[1][i]]
    tiny, edge = Fraction(1, 10**15), Fraction(0)  # scaled by 2^128, from masses to 58 digits
    assert list(starts) == sorted(starts)
    for p, start, end in zip(possible, starts, ends, strict=True):
        assert edge * 2**known_bits - tiny <= start < edge * 2**known_bits + 1 + tiny * 10**6
        edge += p
        assert edge * 2**known_bits - 1 - tiny * 10**6 < end <= edge * 2**known_bits + tiny


def sums_of(least: list[int], slack: int, counts: list[int]) -> Sums:
    """Sum weights from least[i] to least[i] + slack, for 5 bits."""
    times = np.array(counts, dtype=object)
    limbs = np.cumsum(np.array([least], dtype=object) * times, axis=1)
    return Sums(limbs, np.cumsum(times), 0, slack, 5)


def sound(sums: Sums, least: list[int], slack: int, counts: list[int]) -> bool:
    """Return whether what 5 bits decide is right for all weights from least[i] to least[i] + slack.

    The corners are the worst, for all that is compared is linear in each.
    """
    for corner in product((0, slack), repeat=len(least)):
        scaled = [(w + s) * m for w, s, m in zip(least, corner, counts, strict=True)]
        edges = [0, *accumulate(scaled)]
        for u in range(32):
            place = sums.decide(u)
            if place is not None and not (
                edges[place] * 32 <= u * edges[-1] and (u + 1) * edges[-1] <= edges[place + 1] * 32
            ):
                return False
    return True


BOXES = [([40, 9, 0, 23], 2, [1, 5, 3, 2]), ([8, 8], 0, [1, 1]), ([5, 4, 3], 1, [7, 1, 9])]


@pytest.mark.parametrize(("least", "slack", "counts"), BOXES)
def test_sums_are_right_for_all_weights_within_the_slack(
    least: list[int], slack: int, counts: list[int]
) -> None:
    sums = sums_of(least, slack, counts)
    assert sound(sums, least, slack, counts)
    assert any(sums.decide(u) is not None for u in range(32))


@pytest.mark.parametrize(("least", "slack", "counts"), [BOXES[0], BOXES[2]])
def test_a_slack_that_is_not_multiplied_is_noticed(
    least: list[int], slack: int, counts: list[int]
) -> None:
    multiplied = [w * m for w, m in zip(least, counts, strict=True)]
    assert not sound(sums_of(multiplied, slack, [1] * len(counts)), least, slack, counts)
    assert not sound(sums_of(least, 0, counts), least, slack, counts)


@pytest.mark.parametrize("case", SMALL + LARGE, ids=lambda case: str(case)[:30])
def test_the_table_decides_what_the_sums_decide(case: Case) -> None:
    made = Choice(case[0], Fraction(1, 3), case[1])
    possible = made._candidates.indices
    if len(possible) == 1:
        return
    sums = made._sums(64)
    edges = [e + d for ends in sums.stretches() for e in ends for d in (-2, -1, 0, 1)]
    words = [w for w in edges if 0 <= w < 2**64]
    drawn, decided = made._table_of(64).look_up(np.array(words, dtype=np.uint64))
    for word, index, known in zip(words, drawn.tolist(), decided.tolist(), strict=True):
        place = sums.decide(word)
        assert known is (place is not None)
        assert place is None or possible[place] == index
    assert not all(decided) or case == SMALL[3]


@pytest.mark.parametrize(
    ("words", "index"), [([0], 0), ([1, 2**63, 0, 0], 0), ([2**64 - 1], 1), ([2**62 + 1], 0)]
)
def test_words_are_used_in_order(words: list[int], index: int) -> None:
    bits = ScriptedBits(words)
    assert weighted_choice(bits, [0, 0], Fraction(1), 1).tolist() == [index]


def near_a_third(last: int) -> list[int]:
    """Return the bits of 1/3, 256 of them, but for the last word."""
    return [0x5555555555555555] * 3 + [last]


@pytest.mark.parametrize(("last", "index"), [(0x5555555555555554, 0), (0x5555555555555556, 1)])
def test_a_draw_at_a_boundary_takes_as_many_bits_as_it_needs(last: int, index: int) -> None:
    bits = ScriptedBits(near_a_third(last))
    assert weighted_choice(bits, [4, 4], Fraction(1), 1, [1, 2]).tolist() == [index]
    with pytest.raises(IndexError):  # all four words were used
        bits.words(1)


def test_only_open_draws_take_more_words() -> None:
    first, *more = near_a_third(0)
    words = [0, first, 2**64 - 1, first, *more, 2**64 - 1]
    bits = ScriptedBits(words)
    assert weighted_choice(bits, [4, 4], Fraction(1), 4, [1, 2]).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("offset", range(-1, 2))
@pytest.mark.parametrize("case", LARGE, ids=lambda case: str(case)[:30])
def test_refined_draws_are_where_u_is(case: Case, offset: int) -> None:
    """U of 256 bits beside every boundary, against cumulative masses of mpmath."""
    rate = Fraction(1, 3)
    edges = [Fraction(0), *accumulate(real_masses(case, rate).values())]
    for edge in edges[1:-1]:
        u = int(edge * 2**128) + offset * 2**20
        if not 0 <= u < 2**128:
            continue
        bits = ScriptedBits([u >> 64, u & (2**64 - 1), 2**63, 0])
        (drawn,) = weighted_choice(bits, case[0], rate, 1, case[1]).tolist()
        place, tiny = Fraction(2 * u + 1, 2**129), Fraction(1, 10**50)
        assert edges[drawn] - tiny <= place <= edges[drawn + 1] + tiny


def test_a_weight_below_every_precision_so_far_is_possible() -> None:
    # exp(-100) is about 2^-144: the first 144 bits of U must be 0, and then it is drawn.
    assert weighted_choice(ScriptedBits([0] * 4), [100, 0], Fraction(1), 1).tolist() == [0]
    assert weighted_choice(ScriptedBits([0, 0, 1, 0]), [100, 0], Fraction(1), 1).tolist() == [0]
    assert weighted_choice(ScriptedBits([0, 2, 0, 0]), [100, 0], Fraction(1), 1).tolist() == [1]
    ones = [2**64 - 1] * 4
    assert weighted_choice(ScriptedBits(ones), [0, 100], Fraction(1), 1).tolist() == [1]


@pytest.mark.parametrize("far", [10**9, 10**30, 10**300])
def test_extreme_exponents_neither_hang_nor_are_chosen(far: int) -> None:
    # Anything but index 1 has probability below 3 exp(-10^8).
    exponents = [far, -far, far, 0]
    drawn = weighted_choice(SeededBits(30), exponents, Fraction(1, 3), 10_000)
    assert set(drawn.tolist()) == {1}
    assert weighted_choice(ScriptedBits([0, 9]), exponents, Fraction(1, 3), 1).tolist() == [1]
    end = ScriptedBits([2**64 - 1, 9])
    assert weighted_choice(end, exponents, Fraction(1, 3), 1).tolist() == [1]
