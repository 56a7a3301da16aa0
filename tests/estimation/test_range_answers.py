"""Least squares and variances of ranges, held against dense matrices; choices against all
others."""

from __future__ import annotations

import numpy as np
import pytest

from dpverify.estimation.answers import NoiseLaw
from dpverify.estimation.bin_estimates import _reach
from dpverify.estimation.range_answers import range_variances, solved
from dpverify.estimation.range_strategies import range_kernel, tree_error, tree_weights
from dpverify.grid.strategies import Circulant, Levels, Strategy
from dpverify.privacy import Norm
from spec import histogram as spec

STRATEGIES: list[Strategy] = [
    Levels(7, (1,)),
    Levels(7, (1, 2)),
    Levels(8, (2, 0, 3, 1)),
    Levels(11, (1, 1, 1, 1, 1)),
    Levels(5, (3, 1, 0, 0, 0, 2)),
    Levels(13, (1, 0, 1)),
    Levels(1, (1, 1)),
    Circulant((5, 1, 2, 0)),
    Circulant((3,)),
    Circulant(range_kernel(9)),
]


def dense(strategy: Strategy) -> np.ndarray:
    return strategy.of(np.eye(strategy.bins, dtype=np.int64)).astype(float).T


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_answers_are_those_of_least_squares(strategy: Strategy) -> None:
    matrix, n = dense(strategy), strategy.bins
    inverse = np.linalg.inv(matrix.T @ matrix)
    starts, ends = np.array([(a, b) for a in range(n) for b in range(a, n + 1)]).T
    inside = (np.arange(n) >= starts[:, None]) & (np.arange(n) < ends[:, None])
    expected = np.einsum("ij,jk,ik->i", inside, inverse, inside)
    assert np.allclose(range_variances(strategy, starts, ends), expected)
    released = np.random.default_rng(1).normal(size=(3, strategy.rows))
    assert np.allclose(solved(strategy, released), released @ matrix @ inverse)
    gram = matrix.T @ matrix
    assert set(gram.diagonal()) == {strategy.column(Norm.SQUARED_L2)}
    assert gram.min() == strategy.shared(Norm.SQUARED_L2)


def test_products_are_exact_beyond_words() -> None:
    counts = np.array([[2**61, 1, 0, 2**61]], object)
    kernel = (5, 1, 2, 0)
    answers = Circulant(kernel).of(counts).tolist()[0]
    expected = [sum(kernel[(i - j) % 4] * int(counts[0, j]) for j in range(4)) for i in range(4)]
    assert answers == expected
    assert Levels(4, (1, 1, 1)).of(counts).tolist() == [
        [2**61, 1, 0, 2**61, 2**61 + 1, 2**61, 2**62 + 1]
    ]


@pytest.mark.parametrize("bins", [1, 2, 3, 8, 9, 20, 33, 42, 43, 64])
def test_the_choices_are_those_of_the_spec(bins: int) -> None:
    assert range_kernel(bins) == spec.kernel(bins)
    for noise in ("laplace", "gaussian"):
        assert tree_weights(bins, noise) == spec.levels(bins, noise)


@pytest.mark.parametrize("bins", [1, 5, 33, 42, 43, 100, 257])
def test_no_tree_has_less_noise_in_all_ranges_than_the_one_that_is_chosen(bins: int) -> None:
    """Compare the variances of all ranges themselves, of so many bins and not of the next power
    of two."""
    starts, ends = np.triu_indices(bins)
    height = (bins - 1).bit_length()
    trees = {
        tuple(int(at % step == 0) for at in range(top + 1))
        for step in range(1, height + 1)
        for top in range(0, height + 1, step)
    } | {(1,)}
    powers: dict[NoiseLaw, int] = {"laplace": 2, "gaussian": 1}
    for noise, power in powers.items():
        errors = {}
        for tree in trees:
            each = range_variances(Levels(bins, tree), starts, ends + 1)
            errors[tree] = float(each.sum()) * sum(tree) ** power
            assert tree_error(bins, tree, noise) == pytest.approx(errors[tree], rel=1e-10)
        assert errors[tree_weights(bins, noise)] <= min(errors.values()) * (1 + 1e-8)


def test_a_kernel_of_many_bins_loses_nothing_by_rounding() -> None:
    kernel = np.array(range_kernel(1 << 16), np.float64)
    spectrum = np.abs(np.fft.rfft(kernel))
    assert kernel.min() >= 1
    assert spectrum.min() > 10**4
    # the condition of the inverse: answers of 2^53 records are exact to 1e-9 of them
    assert spectrum.max() / spectrum.min() < 500


@pytest.mark.parametrize("tail", [0.2, 0.1, 0.05, 0.01, 1e-4])
@pytest.mark.parametrize("scales", [(1.0,), (1.0, 1.0), (3.0, 1.0, 1.0), (1.0,) * 5, (1.0,) * 40])
def test_weighted_sums_of_laplace_noise_stay_within_the_stated_reach(
    tail: float, scales: tuple[float, ...]
) -> None:
    """Compute tails by the inverse transform of prod 1 / (1 + b^2 t^2): beyond the reach is at
    most 1.01 of the tail."""
    deviation = (2 * sum(b * b for b in scales)) ** 0.5
    reach = float(_reach("laplace", tail, deviation, 0.0))
    t = np.linspace(0, 300 / deviation, 30_001)
    transform = np.prod([1 / (1 + (b * t) ** 2) for b in scales], axis=0)
    inside = np.trapezoid(transform * np.sinc(reach * t / np.pi), t) * reach * 2 / np.pi
    assert 1 - inside <= 1.01 * tail + 1e-6
