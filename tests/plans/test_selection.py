"""The choice of a cell: its probabilities are the spec's, for whatever records and grids."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from time import perf_counter

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpverify import SeededBits
from dpverify.grid import Count, View
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.plans import QuantileChoice, QuantileChoices, Stage
from dpverify.privacy import Adjacency, BoundedRange, Domain, GaussianDP
from dpverify.randomness import Bits, enumerate_law
from dpverify.randomness.bits import IntArray
from spec.theory.laws import real, real_exponential
from spec.theory.obligations import datasets
from spec.theory.quantiles import QuantileLaw
from tests.randomness.helpers import STAND_INS, formal_exponential

FALSE_ALARM = 1e-7
EPSILONS = [Fraction(text) for text in ("0", "1/5", "1/2", "1", "3")]
QUANTILES = [(0, 1), (1, 2), (3, 4), (1, 1)]


@pytest.fixture(autouse=True)
def _forty_digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def center(cells: tuple[int, ...]) -> IntArray:
    return np.array([sorted(cells)], dtype=np.int64)


def pair_of(
    cells: tuple[int, ...], upper: int, p: int, q: int, scale: Fraction
) -> tuple[QuantileChoice, QuantileLaw]:
    law = QuantileLaw(tuple(sorted(cells)), 0, upper, p, q, scale)
    return QuantileChoice(0, upper, p, q, scale), law


def _one(noise: QuantileChoice, around: IntArray, bits: Bits) -> int:
    return int(noise.sample(bits, around, 1)[0, 0])


@pytest.mark.parametrize("root", STAND_INS)
@pytest.mark.parametrize(("p", "q"), QUANTILES)
def test_the_law_is_the_specs_fraction_for_fraction(p: int, q: int, root: Fraction) -> None:
    """All datasets of at most 3 records on 4 cells, with empty stretches and ties."""
    formal = formal_exponential(root, 3)
    for cells in datasets(range(4), 3):
        noise, law = pair_of(cells, 3, p, q, Fraction(3, 2))
        enumeration = enumerate_law(
            partial(_one, noise, center(cells)), max_choices=3, exponential=formal
        )
        assert enumeration.undecided == 0
        assert enumeration.masses == {t: law.probability((t,), formal) for t in range(4)}


@pytest.mark.parametrize("scale", [Fraction(1, 50), Fraction(1), Fraction(10**6)])
def test_log_probabilities_are_those_of_the_spec(scale: Fraction) -> None:
    for cells, (p, q) in product(((), (5,), (0, 0, 9, 10), (10,) * 4), QUANTILES):
        noise, law = pair_of(cells, 10, p, q, scale)
        outputs = np.arange(-1, 12)[:, np.newaxis]
        log_masses = noise.log_probability(outputs, center(cells))
        assert log_masses[0] == log_masses[-1] == -np.inf
        for t in range(11):
            true = mp.log(law.probability((t,), real_exponential))
            assert abs(log_masses[t + 1] - true) < 1e-12 * (1 + abs(true))


@pytest.mark.parametrize("scale", [Fraction(1, 10**320), Fraction(10**320)])
def test_extreme_scales_are_certain_or_uniform(scale: Fraction) -> None:
    noise, cells = QuantileChoice(0, 9, 1, 2, scale), center((2, 5))
    log_masses = noise.log_probability(np.arange(10)[:, np.newaxis], cells)
    drawn = set(noise.sample(SeededBits(1), cells, 1000)[:, 0].tolist())
    if scale < 1:
        assert drawn == {2, 3, 4, 5}
        assert np.allclose(log_masses[2:6], -np.log(4))
        assert log_masses[[1, 6]].max() < -1e299
    else:  # one of ten cells is missed with probability 10 * 0.9^1000 < 1e-44
        assert drawn == set(range(10))
        assert np.allclose(log_masses, -np.log(10))


def test_draws_are_as_frequent_as_the_spec_says() -> None:
    """Chi-square on 12 cells and 10^5 draws, at most 1e-7; the law of another scale is refused."""
    cells = (2, 2, 7, 11)
    noise, law = pair_of(cells, 11, 1, 2, Fraction(2))
    drawn = np.bincount(noise.sample(SeededBits(2), center(cells), 10**5)[:, 0], minlength=12)
    for model, fits in ((law, True), (pair_of(cells, 11, 1, 2, Fraction(5, 2))[1], False)):
        masses = np.array([float(model.probability((t,), real_exponential)) for t in range(12)])
        statistic = float(((drawn - masses * 10**5) ** 2 / (masses * 10**5)).sum())
        assert bool(stats.chi2.sf(statistic, 11) > FALSE_ALARM) is fits


def test_losses_and_profiles_are_sums_over_cells() -> None:
    for left, right in (((), (3,)), ((0, 9), (0, 4, 9)), ((1, 5, 5), (5, 5, 9)), ((9, 9), (9,))):
        p, q = (pair_of(cells, 9, 1, 2, Fraction(3, 2))[1] for cells in (left, right))
        for own, other in ((p, q), (q, p)):
            masses = [
                [law.probability((t,), real_exponential) for t in range(10)] for law in (own, other)
            ]
            ratios = [mp.log(a / b) for a, b in zip(*masses, strict=True)]
            assert abs(own.largest_loss(other) - max(ratios)) < mp.mpf(10) ** -35
            for epsilon in EPSILONS:
                gaps = [a - mp.exp(real(epsilon)) * b for a, b in zip(*masses, strict=True)]
                expected = sum(max(gap, mp.mpf(0)) for gap in gaps)
                assert abs(own.profile(other, epsilon) - expected) < mp.mpf(10) ** -35


def test_laws_of_other_grids_are_not_compared() -> None:
    p, q = (pair_of((1,), upper, 1, 2, Fraction(1))[1] for upper in (8, 9))
    for attempt in (p.largest_loss, lambda other: p.profile(other, Fraction(1))):
        with pytest.raises(ValueError, match="must be the same on neighbors"):
            attempt(q)
    assert p.largest_loss(p) == 0


@pytest.mark.parametrize("bits", [20, 40, 49])
def test_the_cost_follows_the_records_not_the_cells(bits: int) -> None:
    """Half of 1000 draws lie in the half of the grid that holds the median: all do, but for
    e^-50."""
    upper, n = 1 << bits, 10**5
    cells = np.linspace(0, upper // 4, n // 2, dtype=np.int64)
    noise = QuantileChoice(0, upper, 1, 2, Fraction(4))
    start = perf_counter()
    drawn = noise.sample(SeededBits(3), np.sort(np.append(cells, upper - cells))[np.newaxis], 1000)
    assert (
        perf_counter() - start < 20
    )  # seconds: one for 10^5 records, with room for a busy machine
    assert (
        upper // 4 - upper // 1000
        <= drawn.min()
        <= drawn.max()
        <= upper - upper // 4 + upper // 1000
    )


def test_faults_are_planted_by_scale() -> None:
    noise = QuantileChoice(0, 9, 1, 2, 3)
    assert noise.rescaled(Fraction(1, 2)) == QuantileChoice(0, 9, 1, 2, "1.5")
    assert set(noise.dropped().sample(SeededBits(4), center((2, 5)), 100)[:, 0]) <= {2, 3, 4, 5}


def test_a_choice_goes_with_the_scores_of_its_own_grid_and_quantile() -> None:
    scores = QuantileScores(0, 15, 0, 1, 2)
    Stage("cell", scores, QuantileChoice(0, 15, 1, 2, 8))
    for other in (QuantileChoice(0, 15, 0, 1000, 8), QuantileChoice(0, 10, 1, 2, 8)):
        with pytest.raises(ValueError, match="needs the QuantileScores of just these"):
            Stage("cell", scores, other)
    with pytest.raises(ValueError, match="not Count"):
        Stage("cell", Count(), QuantileChoice(0, 15, 1, 2, 8))


def test_several_choices_are_independent_and_cost_what_each_costs() -> None:
    """Masses are products, and add up to 1; ranges add up as ranges or, Gaussian, in squares."""
    scores = tuple((j, QuantileScores(0, 3, 0, p, 4)) for j in (0, 1) for p in (1, 3))
    grids = ((0, 3, 1, 4), (0, 3, 3, 4)) * 2
    query, data = ColumnScores(scores), np.array([(0.2, 3.0), (2.0, 1e308), (1.0, -5.0)])
    noise = QuantileChoices(grids, 6, "gaussian")
    middle = query.evaluate(View(data))
    every = np.array(list(product(range(4), repeat=4)))
    masses = np.exp(noise.log_probability(every, middle))
    each = [
        np.exp(QuantileChoice(*g, 6).log_probability(every[:, [k]], middle[[k]]))
        for k, g in enumerate(grids)
    ]
    assert np.allclose(masses, np.prod(each, axis=0), rtol=1e-12)
    assert abs(masses.sum() - 1) < 1e-12
    assert noise.log_probability(np.array([[0, 0, 0, 4]]), middle)[0] == -np.inf
    drawn = noise.sample(SeededBits(5), middle, 3)
    assert drawn.shape == (3, 4)
    sensitivity = query.sensitivity(Adjacency.REPLACE, Domain(2))
    square = BoundedRange(Fraction(4, 3)).gaussian.mu_squared
    assert noise.claim(sensitivity).conclusion.guarantee == GaussianDP.of_square(4 * square)
    apart = QuantileChoices(grids, 6, "range").claim(sensitivity).conclusion.guarantee
    assert apart.largest_loss == 4 * Fraction(4, 3)
    assert noise.rescaled(Fraction(1, 2)) == QuantileChoices(grids, 3, "gaussian")
    with pytest.raises(ValueError, match="need as many ColumnScores"):
        Stage("quantiles", ColumnScores(scores[:2]), noise)
    with pytest.raises(ValueError, match="QuantileScores of just these"):
        Stage("quantiles", ColumnScores(scores[::-1]), noise)
