"""AboveThreshold's noise: its draws, its exact masses and its logarithms, against independent
sums."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify.plans import AboveThreshold, DiscreteLaplace
from dpverify.plans.above_threshold import Round, first_above, log_sides
from dpverify.randomness import Bits, SeededBits, enumerate_law
from dpverify.randomness.bits import IntArray
from spec.theory.above_threshold import AboveThresholdLaw
from spec.theory.laws import real_exponential

GAPS: list[tuple[int, ...]] = [
    (),
    (0,),
    (2, -1, 0),
    (-4, -4, 3, 9),
    (7,) * 5 + (-20,),
    (-30, 30),
]
SCALES = [(Fraction(1, 2), Fraction(1)), (Fraction(2), Fraction(4)), (Fraction(3), Fraction(3))]


def _spec(gaps: tuple[int, ...], scale: Fraction, own: Fraction) -> list[Any]:
    law = AboveThresholdLaw(tuple(5 - gap for gap in gaps), 5, scale, own, 0, False)
    return law.masses(real_exponential)


def _round(gaps: tuple[int, ...], scale: Fraction, own: Fraction) -> Round:
    return Round(gaps, DiscreteLaplace(scale), DiscreteLaplace(own))


class _Finite:
    """Noise on a few values, with rational masses."""

    def __init__(self, masses: dict[int, Fraction]) -> None:
        self.masses = masses

    def draw(self, bits: Bits, size: int) -> IntArray:
        raise AssertionError("it is enumerated")

    def atoms(self, formal: Any) -> list[tuple[int, Fraction]]:
        return list(self.masses.items())


_COMMON = {-1: Fraction(1, 6), 0: Fraction(1, 2), 2: Fraction(1, 3)}
_OWN = {-2: Fraction(1, 5), 0: Fraction(3, 10), 1: Fraction(1, 2)}


def _first_above(gaps: tuple[int, ...], level: int, noise: tuple[int, ...]) -> int:
    return next((i for i, y in enumerate(noise) if y >= gaps[i] + level), len(gaps))


@pytest.mark.parametrize(("rows", "columns"), [(3, 7), (600, 7), (9000, 120)])
@pytest.mark.parametrize("kind", [np.int64, object])
def test_the_first_place_above_is_that_of_each_row_alone(
    rows: int, columns: int, kind: type
) -> None:
    rng = np.random.default_rng(rows)
    noise: IntArray = rng.integers(-4, 5, (rows, columns)).astype(kind)
    gaps, levels = rng.integers(2, 9, columns).tolist(), rng.integers(-4, 5, rows).tolist()
    expected = [
        _first_above(gaps, level, row) for level, row in zip(levels, noise.tolist(), strict=True)
    ]
    places = first_above(noise, np.array(gaps, kind), np.array(levels, kind))
    assert places.tolist() == expected
    assert rows < 100 or 0 < expected.count(columns) < rows


@pytest.mark.parametrize("gaps", [(0,), (1, -1), (0, 0, 3), (2, 1, 0)])
def test_a_draw_is_the_first_that_is_above_with_every_coin_enumerated(
    gaps: tuple[int, ...],
) -> None:
    """The shipped comparisons under finite noise, fraction for fraction."""
    model: Any = Round(gaps, _Finite(_COMMON), _Finite(_OWN))  # type: ignore[arg-type]
    enumeration = enumerate_law(
        lambda bits: int(model.draw(bits, 1)[0]),
        max_choices=9,
        exponential=lambda g: Fraction(1, 2),
    )
    expected: dict[int, Fraction] = {}
    for (z, mass), *own in product(_COMMON.items(), *(_OWN.items() for _ in gaps)):
        place = _first_above(gaps, z, tuple(y for y, _ in own))
        expected[place] = expected.get(place, Fraction(0)) + mass * math.prod(m for _, m in own)
    assert enumeration.undecided == 0
    assert enumeration.masses == {k: m for k, m in expected.items() if m}


@pytest.mark.parametrize(("scale", "own"), SCALES)
@pytest.mark.parametrize("gaps", GAPS, ids=range(len(GAPS)))
def test_masses_are_the_spec_s(gaps: tuple[int, ...], scale: Fraction, own: Fraction) -> None:
    model = _round(gaps, scale, own)
    with mp.workdps(30):
        expected = [mp.log(mass) for mass in _spec(gaps, scale, own)]
        assert np.allclose(model.log_masses(), [float(x) for x in expected], rtol=1e-11, atol=1e-11)

    def formal(exponent: Fraction) -> Fraction:
        root = exponent * 12
        assert root.denominator == 1
        return Fraction(3, 4) ** root.numerator

    law = AboveThresholdLaw(tuple(-gap for gap in gaps), 0, scale, own, 0, False)
    assert [mass for _, mass in model.atoms(formal)] == law.masses(formal)  # type: ignore[arg-type]


@pytest.mark.parametrize(("scale", "own"), SCALES)
@pytest.mark.parametrize("gaps", GAPS[1:], ids=range(1, len(GAPS)))
def test_draws_have_these_masses(gaps: tuple[int, ...], scale: Fraction, own: Fraction) -> None:
    """40,000 draws; each frequency within the binomial's 1e-10 tails: false alarm below 1e-8 in
    all."""
    masses = np.array([float(mass) for mass in _spec(gaps, scale, own)])
    size = 40_000
    counts = np.bincount(
        _round(gaps, scale, own).draw(SeededBits(7, 3), size), minlength=len(masses)
    )
    assert counts.sum() == size
    assert (counts <= stats.binom.isf(1e-10, size, masses)).all()
    assert (counts >= stats.binom.ppf(1e-10, size, masses)).all()
    # noise of 0.8 times the scales is noticed somewhere
    if gaps == (2, -1, 0):
        less = _round(gaps, scale * Fraction(4, 5), own * Fraction(4, 5)).draw(
            SeededBits(7, 4), size
        )
        counts = np.bincount(less, minlength=len(masses))
        low, high = (f(1e-10, size, masses) for f in (stats.binom.ppf, stats.binom.isf))
        assert (counts > high).any() or (counts < low).any()


def test_blocks_of_queries_change_nothing_but_the_order_of_the_draws() -> None:
    """200 queries, for one draw at once and for many in blocks; false alarm below 1e-9."""
    gaps = tuple(6 - (i % 7 == 0) for i in range(200))
    masses = np.exp(_round(gaps, Fraction(2), Fraction(2)).log_masses())
    model = _round(gaps, Fraction(2), Fraction(2))
    single = np.array([int(model.draw(SeededBits(8, i), 1)[0]) for i in range(1500)])
    many = model.draw(SeededBits(9), 20_000)
    for drawn in (single, many):
        for place in (0, 20, 100, 199):
            share = masses[: place + 1].sum()
            hits = int((drawn <= place).sum())
            assert stats.binom.ppf(1e-10, len(drawn), share) <= hits
            assert hits <= stats.binom.isf(1e-10, len(drawn), share)


def test_huge_and_tiny_numbers_are_compared_exactly() -> None:
    tiny = Fraction(1, 2**10)  # P(noise is not 0) < e^-1000
    huge = 1 << 62
    for gaps, place in (((huge, huge, -huge), 2), ((huge,), 1), ((0,), 0), ((1,), 1), ((1, -1), 1)):
        drawn = _round(gaps, tiny, tiny).draw(SeededBits(1), 50)
        assert (drawn == place).all()
    noise = Fraction(10)
    for gap in (2**63 - 1, 2**64):  # many rows of few columns, as batches have them
        assert _round((gap,), noise, noise).draw(SeededBits(1), 200).tolist() == [1] * 200
    wide = _round((huge, 0), Fraction(2**45), Fraction(2**46)).draw(SeededBits(1), 2000)
    assert {*wide.tolist()} == {1, 2}


def test_an_index_that_cannot_be_has_no_probability() -> None:
    noise = AboveThreshold(0, Fraction(2), Fraction(4), 1)
    center = np.array([3, -1, 1])
    log_masses = noise.log_probability(np.array([[0], [1], [2], [3], [4], [-1]]), center)
    assert np.isneginf(log_masses[[0, 4, 5]]).all()
    assert math.isclose(float(np.exp(log_masses[1:4]).sum()), 1.0, rel_tol=1e-12)
    after_all = AboveThreshold(0, Fraction(2), Fraction(4), 3)
    assert (after_all.sample(SeededBits(1), center, 4) == 3).all()
    assert after_all.log_probability(np.array([[3]]), center)[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rate", [1e-3, 0.5, 30.0, 1e7])
def test_the_two_sides_of_a_distance_add_up(rate: float) -> None:
    distance = np.array([-1000.0, -1.0, 0.0, 1.0, 2.0, 1000.0])
    below, above = log_sides(distance, rate)
    assert np.allclose(np.exp(below) + np.exp(above), 1, rtol=1e-12)
    assert (np.diff(below) >= 0).all()


def test_large_scales_are_seen_roughly() -> None:
    scale = Fraction(10**6)
    masses = np.exp(_round((10**6, -(10**6)), scale, 2 * scale).log_masses())
    with mp.workdps(30):
        expected = [float(mass) for mass in _spec((10**6, -(10**6)), scale, 2 * scale)]
    assert np.allclose(masses, expected, atol=2e-3)


def test_noise_is_rescaled_whole_and_dropped_to_exact_answers() -> None:
    noise = AboveThreshold(4, Fraction(2), Fraction(4))
    half: Any = noise.rescaled(Fraction(1, 2))
    assert (half.scale, half.query_scale, half.threshold) == (1, 2, 4)
    dropped = noise.dropped().sample(SeededBits(1), np.array([3, 3, 4, 9]), 200)
    assert (dropped == 2).all()
    assert not noise.is_added
    for bad in (0, -1):
        with pytest.raises(ValueError, match="is not positive"):
            AboveThreshold(0, Fraction(bad), Fraction(1))
