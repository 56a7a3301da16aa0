"""``partitioned_product``: rounds on disjoint blocks, which bits each settles, what it costs,
and that it is never the better one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify import (
    Adjacency,
    GaussianDP,
    PartitionedProduct,
    ProductDistribution,
    ProductEstimate,
    SeededBits,
    result_from,
)
from dpverify.grid.transcripts import transcript
from dpverify.plans import Transcripts
from dpverify.suite.refinement import compare_facts
from spec import partitioned_product as spec
from tests.mechanisms.test_product_distribution import DECAYING, entropy
from tests.randomness.helpers import NoBits

REPLACE = Adjacency.REPLACE


def rounds(d: int = 3, **parameters: Any) -> PartitionedProduct:
    base: dict[str, Any] = {"adjacency": REPLACE, "noise_multiplier": 1, "d": d}
    return PartitionedProduct(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": Adjacency.ADD_REMOVE}, ValueError, "or ProductDistribution, which has both"),
    ({"d": 0}, ValueError, "d = 0; give an integer from 1"),
    ({"failure": 1}, ValueError, r"outside \(0, 1\)"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
    ({"noise_multiplier": 0}, ValueError, "noise_multiplier = 0 is not positive"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        rounds(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    mechanism = rounds(d=20, at_least=1)
    assert (mechanism.rounds, mechanism.blocks, mechanism.least()) == (4, 6, 6)
    with pytest.raises(ValueError, match="have 5 records; this mechanism needs at least 6"):
        mechanism.release(np.zeros((5, 20)), NoBits())
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        rounds().release([(0, 0, 1), (1.0, np.nan, 0)], NoBits())
    with pytest.raises(ValueError, match="2 columns"):
        rounds().release([(1.0, 2.0)], NoBits())


WORLDS: list[dict[str, Any]] = [
    {"at_least": 1},
    {"d": 1, "at_least": 1},
    {"d": 2, "at_least": 1, "failure": "999/1000"},
    {"d": 33, "at_least": 1, "noise_multiplier": "1/100"},
    {"at_least": 1, "noise_multiplier": "1e-900"},
    {"at_least": 1, "failure": "1e-900"},
    {"at_least": 1, "noise_multiplier": "1e900"},
]


@pytest.mark.parametrize("parameters", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(parameters: dict[str, Any]) -> None:
    mechanism = rounds(**parameters)
    d = mechanism.d
    edge = [0.0, -0.0, 0.5, 0.5000001, 5e-324, 1e308, -1e308]
    rng = np.random.default_rng(0)
    datasets = [rng.choice(edge, (n, d)) for n in (3, 7, 30)]
    datasets += [np.zeros((400, d)), np.ones((400, d)), (rng.random((2000, d)) < 0.01) * 1.0]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    if 1e-100 < mechanism.noise_multiplier < 1e100:
        assert compare_facts(spec, mechanism, datasets) > 3
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            estimate = mechanism.release(data, SeededBits(seed))
        assert isinstance(estimate, ProductEstimate)
        assert result_from(estimate.to_dict()) == estimate
        assert ((estimate.value > 0) & (estimate.value < 1)).all()
        assert np.isfinite(estimate.log_odds).all()


def released(mechanism: PartitionedProduct, n: int, rng: np.random.Generator) -> Transcripts:
    """Return numbers of the size of what blocks release, about all thresholds."""
    values: dict[str, tuple[int, ...]] = {"count": (n,)}
    for k in range(mechanism.blocks):
        top = n / mechanism.blocks * 2**20 * 2.0 ** -rng.integers(1, 9, mechanism.d)
        sums = top * rng.choice([-1, 1, 1], mechanism.d) / float(mechanism._scale()) * 2.0**40
        values[f"blocks/{k}/sums"] = tuple(int(v) for v in sums)
    return transcript(values)


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_weights_and_what_is_settled_are_the_spec_s(d: int) -> None:
    mechanism, rng = rounds(d=d, noise_multiplier="1/2"), np.random.default_rng(d)
    parameters = {"d": d, "failure": Fraction(1, 10), "noise_multiplier": Fraction(1, 2)}
    settled = 0
    for _ in range(30):
        n = int(rng.integers(mechanism.blocks, 9000))
        drawn = released(mechanism, n, rng)
        outcomes = [drawn.numbers(f"blocks/{k}/sums") for k in range(mechanism.blocks)]
        for k in range(mechanism.blocks):
            rows, which = mechanism.weights(drawn, k)
            assert tuple(rows[which[0]].tolist()) == spec.weights_after(parameters, outcomes[:k], n)
            settled += (rows[which[0]] == 0).sum() if k else 0
        estimate = mechanism.estimate(drawn)
        assert isinstance(estimate, ProductEstimate)
        left = spec.left_after(parameters, outcomes, mechanism.rounds, n)
        last = mechanism.blocks - 1
        if any(left):
            per = spec.scale(parameters) / spec.weight(parameters, last, sum(left), n)
            shown = float(per / spec.size(parameters, last, n))
            assert estimate.standard_deviation[list(left)] == pytest.approx(shown)
    assert settled > 0


def test_a_batch_is_its_draws() -> None:
    mechanism, rng = rounds(d=9), np.random.default_rng(9)
    drawn = [released(mechanism, 700, rng) for _ in range(20)]
    together = Transcripts(
        {name: np.concatenate([one[name] for one in drawn]) for name in drawn[0].values},
        np.concatenate([one.reached for one in drawn]),
        np.concatenate([one.stopped_by for one in drawn]),
    )
    for k in range(mechanism.blocks):
        rows, which = mechanism.weights(together, k)
        for i, one in enumerate(drawn):
            alone, where = mechanism.weights(one, k)
            assert np.array_equal(rows[which[i]], alone[where[0]])


def test_one_block_is_paid_for_and_all_are_used() -> None:
    """mu is that of one sum; what a record of any block becomes is in that block alone."""
    mechanism = rounds(d=8, at_least=1)
    assert mechanism.claim.guarantee.implies(GaussianDP("1.0001"))
    rng = np.random.default_rng(2)
    data = (rng.random((40, 8)) < 0.5) * 1.0
    base = mechanism.law(data).sample(SeededBits(4), 1)
    for k in range(mechanism.blocks):
        other = data.copy()
        other[k] = 1 - other[k]
        drawn = mechanism.law(other).sample(SeededBits(4), 1)
        same = [
            np.array_equal(base[f"blocks/{j}/sums"], drawn[f"blocks/{j}/sums"]) for j in range(k)
        ]
        assert all(same)
        assert not np.array_equal(base[f"blocks/{k}/sums"], drawn[f"blocks/{k}/sums"])


def test_even_bits_are_settled_in_the_first_round() -> None:
    """The length of the noise is ``noise_error``: chi-square of 8 * 100 degrees."""
    mechanism = rounds(d=8, noise_multiplier=1)
    data = (np.random.default_rng(3).random((8000, 8)) < 0.5) * 1.0
    share = data[1 :: mechanism.blocks].mean(axis=0)
    squares = 0.0
    batch = mechanism.law(data).sample(SeededBits(0), 100)
    for i in range(100):
        estimate = mechanism.estimate(batch[i])
        assert isinstance(estimate, ProductEstimate)
        squares += float(((estimate.value - share) ** 2).sum())
    parameters = {"d": 8, "failure": Fraction(1, 10), "noise_multiplier": Fraction(1)}
    whole = squares / float(spec.noise_error(parameters, 8000)) ** 2 * 8
    assert mechanism.expected_error(8000) == pytest.approx(
        spec.noise_error(parameters, 8000), rel=1e-4
    )
    assert mechanism.expected_error(mechanism.least() - 1) == np.inf
    assert stats.chi2.ppf(5e-7, 800) < whole < stats.chi2.ppf(1 - 5e-7, 800)


def test_two_stages_on_all_records_are_better() -> None:
    """Why ``ProductDistribution`` is what to take: medians of 5 at d = 400, n = 8000, mu = 1 are
    .15 and 4.7, and no run of one comes near any of the other."""
    rng = np.random.default_rng(7)
    data = (rng.random((8000, 400)) < DECAYING) * 1.0
    errors: dict[Any, list[float]] = {PartitionedProduct: [], ProductDistribution: []}
    for kind, entropies in errors.items():
        mechanism = kind.for_budget(GaussianDP(1), adjacency=REPLACE, d=400)
        for seed in range(5):
            entropies.append(entropy(DECAYING, mechanism.release(data, SeededBits(seed)).value))
    assert 5 * max(errors[ProductDistribution]) < min(errors[PartitionedProduct])
