"""The classical mechanisms: samplers against exact laws, exact truths, and what an audit says of
them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from audits.classical import CLASSICAL, Classical
from audits.classical.counts import LAPLACE, NOISY_HIST_1, NOISY_HIST_2
from audits.classical.exact import (
    Floats,
    exponential_cdf,
    laplace_cdf,
    under_exponential,
    under_laplace,
)
from audits.classical.noisy_max import RNM_1, RNM_2, RNM_3, RNM_4, largest_at_most, wins
from audits.classical.rappor import RAPPOR, bloom_filter, set_probabilities
from audits.classical.sparse_vector import (
    ABORT,
    FALSE,
    SVT_1,
    SVT_2,
    SVT_3,
    SVT_4,
    SVT_5,
    SVT_6,
    TRUE,
    SparseVector,
    ValueInstead,
)
from dpverify.audit import Verdict
from dpverify.audit.neighbors.search import search
from dpverify.privacy.adjacency import Dataset

DRAWS = 20_000
SUSPICION = 1e-6
"""A p-value that no right sampler is expected to fall below: about 250 tests, with fixed seeds."""
STOPPING, ENDLESS = (SVT_1, SVT_2, SVT_4), (SVT_5, SVT_6)
Event = tuple[str, Any, float]
"""Name of an event, the draws in which it happened, its exact probability."""


def _sides(mechanism: Classical) -> Iterator[tuple[Dataset, Any]]:
    for number, pair in enumerate(mechanism.pairs):
        for side in (pair.left, pair.right):
            yield side, mechanism.subject(number)(side, DRAWS)


def _agree(events: Iterator[Event]) -> None:
    for name, happened, probability in events:
        assert 0 <= probability <= 1 + 1e-12, name
        p_value = binomtest(int(np.count_nonzero(happened)), DRAWS, min(1.0, probability)).pvalue
        assert p_value > SUSPICION, (name, np.mean(happened), probability)


def _vectors(mechanism: SparseVector, data: Dataset, outputs: Any) -> Iterator[Event]:
    """Yield all sequences of a variant that stops; of another one, some."""
    if mechanism.stops:
        for k in range(len(data) + 1):
            stopped = ([FALSE] * k + [TRUE] + [ABORT] * len(data))[: len(data)]
            yield str(k), (outputs == stopped).all(axis=1), mechanism.probability(data, stopped)
        return
    for answers in itertools.islice(
        itertools.product((FALSE, TRUE), repeat=len(data)), 0, 1024, 31
    ):
        happened = (outputs == np.array(answers)).all(axis=1)
        yield str(answers), happened, mechanism.probability(data, answers)
    for known in ((TRUE,), (FALSE, FALSE, FALSE), (FALSE, TRUE, TRUE)):
        happened = (outputs[:, : len(known)] == known).all(axis=1)
        yield str(known), happened, mechanism.probability(data, known)


@pytest.mark.parametrize("mechanism", [*STOPPING, *ENDLESS], ids=lambda one: one.name)
def test_sparse_vectors_have_their_exact_law(mechanism: Classical) -> None:
    assert isinstance(mechanism.function, SparseVector)
    for data, outputs in _sides(mechanism):
        assert outputs.shape == (DRAWS, 10)
        _agree(_vectors(mechanism.function, data, outputs))


@pytest.mark.parametrize("mechanism", STOPPING, ids=lambda one: one.name)
def test_sequences_add_up_to_one(mechanism: Classical) -> None:
    assert isinstance(mechanism.function, SparseVector)
    for pair in mechanism.pairs:
        sequences = [[FALSE] * k + [TRUE] * (k < 10) for k in range(11)]
        total = sum(mechanism.function.probability(pair.left, answers) for answers in sequences)
        assert total == pytest.approx(1, abs=1e-12)


def test_values_instead_have_their_exact_law() -> None:
    function = SVT_3.function
    assert isinstance(function, ValueInstead)

    def events(data: Dataset, outputs: Any) -> Iterator[Event]:
        first, value = outputs.T
        for k, most in itertools.product((0, 1, 4, 9), (-30.0, -5.0, 0.0, 10.0, 60.0, 1e6)):
            happened = (first == k) & (value <= most)
            yield f"{k}, {most}", happened, function.value_at_most(data, k, most)
        yield "none", first == 10, function.probability(data, [FALSE] * 10)

    for data, outputs in _sides(SVT_3):
        _agree(events(data, outputs))
        assert (outputs[outputs[:, 0] == 10, 1] == 0).all()


@pytest.mark.parametrize("mechanism", [RNM_1, RNM_2], ids=lambda one: one.name)
def test_winners_have_their_exact_law(mechanism: Classical) -> None:
    kind = _kind(mechanism)
    for data, outputs in _sides(mechanism):
        chances = [wins(data, who, kind) for who in range(5)]
        assert sum(chances) == pytest.approx(1, abs=1e-12)
        _agree((f"{who}", outputs == who, chance) for who, chance in enumerate(chances))


def _kind(mechanism: Classical) -> Any:
    return "laplace" if mechanism in (RNM_1, RNM_3) else "exponential"


CONTINUOUS: list[tuple[Classical, Callable[[Dataset, int, Any], Any]]] = [
    (LAPLACE, lambda data, i, x: laplace_cdf(x - data[i], 10.0)),
    (NOISY_HIST_1, lambda data, i, x: laplace_cdf(x - data[i], 10.0)),
    (NOISY_HIST_2, lambda data, i, x: laplace_cdf(x - data[i], 0.1)),
    (RNM_3, lambda data, i, x: largest_at_most(data, x, "laplace")),
    (RNM_4, lambda data, i, x: largest_at_most(data, x, "exponential")),
]


def _distance(column: Any, cdf: Callable[[Any], Any]) -> float:
    """Return the p-value of Kolmogorov's and Smirnov's test."""
    return float(kstest(column, cdf).pvalue)


@pytest.mark.parametrize(("mechanism", "cdf"), CONTINUOUS, ids=lambda one: getattr(one, "name", ""))
def test_numbers_have_their_exact_law(mechanism: Classical, cdf: Callable[..., Any]) -> None:
    for data, outputs in _sides(mechanism):
        for i, column in enumerate(outputs.reshape(DRAWS, -1).T):
            assert _distance(column, partial(cdf, data, i)) > SUSPICION


def test_reports_have_their_exact_law() -> None:
    for data, outputs in _sides(RAPPOR):
        chances = set_probabilities(data[0])
        _agree((f"bit {i}", outputs[:, i], chance) for i, chance in enumerate(chances))
        both = [
            (i, j, outputs[:, i] & outputs[:, j]) for i, j in itertools.combinations(range(20), 2)
        ]
        _agree((f"{i}, {j}", joint, chances[i] * chances[j]) for i, j, joint in both)
    filters = [bloom_filter(side[0]) for pair in RAPPOR.pairs for side in (pair.left, pair.right)]
    assert [int(bits.sum()) for bits in filters] == [4, 4]
    assert not (filters[0] & filters[1]).any()


def test_a_wrong_sampler_is_noticed() -> None:
    data = SVT_1.pairs[0].left
    assert isinstance(SVT_1.function, SparseVector)
    with pytest.raises(AssertionError):
        _agree(_vectors(SVT_1.function, data, SVT_4.subject(0)(data, DRAWS)))
    column = LAPLACE.subject(0)([0.0], DRAWS)
    assert _distance(column, lambda x: laplace_cdf(x, 11.0)) < SUSPICION


def test_the_quadrature() -> None:
    """Against closed forms: moments, and P(L > L') = 1/2 + ... for two noises."""
    assert under_laplace(20.0, [], lambda r: r**2) == pytest.approx(2 * 20.0**2, rel=1e-9)
    assert under_exponential(20.0, [], lambda r: r) == pytest.approx(20.0, rel=1e-9)
    # P(L + L' <= 1) of two Laplace variables of scale b: 1 - e^(-1/b) (2 + 1/b) / 4
    chance = under_laplace(20.0, [1.0], lambda r: laplace_cdf(1 - r, 20.0))
    assert chance == pytest.approx(1 - math.exp(-0.05) * 2.05 / 4, rel=1e-12)
    assert exponential_cdf(-1.0, 20.0) == 0


def _ratio(one: float, other: float) -> float:
    return math.inf if 0 in (one, other) else abs(math.log(one / other))


def _winner_truth(mechanism: Classical) -> float:
    kind = _kind(mechanism)
    sides = [(pair.left, pair.right, who) for pair in mechanism.pairs for who in range(5)]
    return max(_ratio(wins(a, who, kind), wins(b, who, kind)) for a, b, who in sides)


def _sequence_truth(mechanism: Classical) -> float:
    """Over all sequences; of two kinds of queries only the number of TRUE in each kind matters."""
    function = mechanism.function
    assert isinstance(function, SparseVector)
    stopping = [[FALSE] * k + [TRUE] * (k < 10) for k in range(11)]
    endless = [
        [TRUE] * i + [FALSE] * (5 - i) + [TRUE] * j + [FALSE] * (5 - j)
        for i, j in itertools.product(range(6), repeat=2)
    ]
    return max(
        _ratio(function.probability(pair.left, answers), function.probability(pair.right, answers))
        for pair in mechanism.pairs
        for answers in (stopping if function.stops else endless)
    )


def _value_truth() -> float:
    """Return the densities' ratio of {k FALSE, then this value}: of values below the threshold
    there are none."""

    def density(data: Dataset, k: int, value: float) -> float:
        def given(rho: Floats) -> Floats:
            below = [laplace_cdf(rho - query, 20.0) for query in data[:k]]
            agree: Floats = np.prod(below, axis=0) * (rho <= value)
            return agree

        return under_laplace(20.0, [*data[:k], value], given) * math.exp(-abs(value - data[k]) / 20)

    (pair,) = SVT_3.pairs
    return max(
        _ratio(density(pair.left, k, v), density(pair.right, k, v))
        for k, v in itertools.product(range(1, 10), (-5.0, -1.0, 0.0, 1.0, 5.0))
    )


def _scale_truth(scale: float) -> float:
    return _ratio(float(laplace_cdf(0.0, scale)), float(laplace_cdf(-1.0, scale)))


def _bits_truth() -> float:
    pair = RAPPOR.pairs[0]
    left, right = set_probabilities(pair.left[0]), set_probabilities(pair.right[0])
    return float(np.abs(np.log(left / right)).sum())  # the odds of either report of a bit are alike


TRUTHS: dict[str, Callable[[], float]] = {
    "Laplace": lambda: _scale_truth(10.0),
    "NoisyHist1": lambda: _scale_truth(10.0),
    "NoisyHist2": lambda: _scale_truth(0.1),
    "RNM1": lambda: _winner_truth(RNM_1),
    "RNM2": lambda: _winner_truth(RNM_2),
    "RNM3": lambda: _ratio(
        float(largest_at_most(RNM_3.pairs[0].left, 0.0, "laplace")),
        float(largest_at_most(RNM_3.pairs[0].right, 0.0, "laplace")),
    ),
    "RNM4": lambda: _ratio(
        float(largest_at_most(RNM_4.pairs[0].left, 9.99, "exponential")),
        float(largest_at_most(RNM_4.pairs[0].right, 9.99, "exponential")),
    ),
    "SVT1": lambda: _sequence_truth(SVT_1),
    "SVT2": lambda: _sequence_truth(SVT_2),
    "SVT3": _value_truth,
    "SVT4": lambda: _sequence_truth(SVT_4),
    "SVT5": lambda: _sequence_truth(SVT_5),
    "SVT6": lambda: _sequence_truth(SVT_6),
    "RAPPOR": _bits_truth,
}


@pytest.mark.parametrize("mechanism", CLASSICAL, ids=lambda one: one.name)
def test_the_truths_are_exact(mechanism: Classical) -> None:
    epsilon = TRUTHS[mechanism.name]() / mechanism.steps
    assert epsilon == pytest.approx(mechanism.truth, rel=1e-9)
    assert mechanism.truth <= mechanism.supremum * (1 + 1e-12)


def test_the_published_truths_on_pattern_pairs() -> None:
    """Reproduce the published values for simple patterns: .0946, .1725, .42. (For the first two
    sparse vectors, .0885 and .0882: on all patterns of that kind we find .0879 and .0876, and
    .098 on our own pair.)"""
    overtaken = RNM_1.pairs[0]
    first = _ratio(*(wins(side, 0, "laplace") for side in (overtaken.left, overtaken.right)))
    assert first == pytest.approx(0.0946, abs=5e-5)
    for mechanism, answers, printed in (
        (SVT_4, [FALSE] * 5 + [TRUE], 0.1725),
        (SVT_6, [FALSE] * 5 + [TRUE] * 5, 0.42),
        (SVT_1, [FALSE] * 5 + [TRUE], 0.0879),
        (SVT_2, [FALSE] * 5 + [TRUE], 0.0876),
    ):
        assert isinstance(mechanism.function, SparseVector)
        pair = SVT_1.pairs[1]
        sides = (mechanism.function.probability(s, answers) for s in (pair.left, pair.right))
        assert _ratio(*sides) == pytest.approx(printed, abs=5e-5)


def test_impossible_events() -> None:
    """RNM4: .0078 and .0488. SVT5: .0488 for two that meet, .2212 for the ladder."""
    for pair, printed in zip(RNM_4.pairs, (0.00779, 0.04877), strict=True):
        assert largest_at_most(pair.right, 10.0, "exponential") == 0
        assert largest_at_most(pair.left, 10.0, "exponential") == pytest.approx(printed, abs=5e-6)
    function = SVT_5.function
    assert isinstance(function, SparseVector)
    for pair, printed in zip(SVT_5.pairs, (0.22120, 0.04877), strict=True):
        total = 0.0
        for answers in itertools.product((FALSE, TRUE), repeat=10):
            if function.probability(pair.right, answers) == 0:
                total += function.probability(pair.left, answers)
        assert total == pytest.approx(printed, abs=5e-6)


def test_which_are_broken() -> None:
    broken = [mechanism.name for mechanism in CLASSICAL if not mechanism.correct]
    assert broken == ["NoisyHist2", "RNM3", "RNM4", "SVT3", "SVT4", "SVT5", "SVT6"]


NEED_MORE = (SVT_3, SVT_4)
"""Broken in a way that 20,000 calls do not show; the benchmark audits them with a hundred times
as many."""


@pytest.mark.parametrize(
    "mechanism",
    [one for one in CLASSICAL if one not in NEED_MORE],
    ids=lambda one: one.name,
)
def test_the_broken_ones_are_flagged_and_no_other(mechanism: Classical) -> None:
    """Audit at alpha = .001 each; with fixed seeds, so nothing here comes and goes."""
    report = search(
        mechanism.subject(1), claim=mechanism.claim, pairs=mechanism.pairs,
        calls=20_000, alpha=1e-3, seed=2, vectorized=True,
    )  # fmt: skip
    assert report.result is not None
    assert (report.result.verdict is Verdict.VIOLATED) == (not mechanism.correct)
    assert report.epsilon / mechanism.steps <= mechanism.supremum
