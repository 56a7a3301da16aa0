"""``private_quantiles``: on every dataset and grid, within its rank error, ties and all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    GaussianDP,
    PrivateQuantile,
    PrivateQuantiles,
    PureDP,
    QuantilesEstimate,
    SeededBits,
)
from dpverify.grid import View, ingest
from dpverify.grid.quantile_blocks import BlockScores
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.plans import BlockChoices, Stage
from dpverify.privacy import BoundedRange, Domain, Profile
from spec import private_quantiles as spec
from spec.theory import quantile_blocks
from tests.mechanisms.helpers import EDGE_DATA, EDGE_RECORDS, estimates, fails_at_most
from tests.mechanisms.test_private_quantile import BAD_DATA, BOUNDS
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
QUARTILES = ("1/4", "1/2", "3/4")


def quantiles(**parameters: Any) -> PrivateQuantiles:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": 0.0, "upper": 100.0}
    return PrivateQuantiles(**base | {"levels": QUARTILES} | parameters)


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_a_release_in_order_between_the_bounds(
    data: list[float], adjacency: Adjacency, lower: float, upper: float
) -> None:
    mechanism = quantiles(adjacency=adjacency, lower=lower, upper=upper, levels=(0, "1/3", 1))
    with np.errstate(all="raise"):
        released = mechanism.release(data, SeededBits(1))
    assert isinstance(released, QuantilesEstimate)
    assert list(released.value) == sorted(released.value)
    assert lower <= released.value[0] <= released.value[-1] <= upper
    assert released == mechanism.release(data[::-1], SeededBits(1))


@pytest.mark.parametrize("count", [1, 2, 3, 6, 31])
def test_the_rounds_are_those_of_the_spec(count: int) -> None:
    levels = tuple(Fraction(k, count + 1) for k in range(1, count + 1))
    mechanism = quantiles(levels=levels)
    asked = [stage.query for stage in mechanism.fixed_plan if isinstance(stage, Stage)]
    assert [query.blocks for query in asked] == spec.blocks(levels)  # type: ignore[attr-defined]
    assert len(asked) == count.bit_length()
    rounds = Profile([BoundedRange(1)] * len(asked))
    assert mechanism.composed == (rounds if len(asked) > 1 else BoundedRange(1))


@pytest.mark.parametrize("parts", [1, 2, 8, 1 << 16])
def test_equal_records_are_spread_as_in_the_spec(parts: int) -> None:
    query = BlockScores(0, 9, 0, parts, ((0, 1, 2),))
    values = [3.0] * 9 + [4.2, 9.9, 1e308, -1e308, 0.4, 3.49]
    spread = query.evaluate(View(ingest(values, Domain(1))))
    cells = sorted([3] * 10 + [4, 9, 9, 0, 0])
    assert tuple(spread[0].tolist()) == quantile_blocks.spread(cells, parts)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_many_equal_records_are_quantiles_and_so_are_those_beside_them(
    adjacency: Adjacency,
) -> None:
    """Release levels of 100 ages of 50 records each: they are on the edges between two or within
    one: ranks are off by the bound at most, so with probability 1 - 1e-6 ages by at most one for
    each 50 ranks."""
    mechanism = quantiles(
        adjacency=adjacency, noise_multiplier="1/20", cell=1, levels=("1/8", "3/8", "7/8")
    )
    data = np.repeat(np.arange(100.0), 50)
    off = mechanism.rank_error(beta="1e-6") / 50 + 1
    assert off < 3
    for estimate in estimates(mechanism, data, 2, 40):
        assert np.abs(np.array(estimate.value) - [12.0, 37.0, 87.0]).max() <= off
    (same,) = estimates(mechanism, [7.0] * 200 + [9.0] * 200, 3, 1)
    assert same.value == (7.0, 7.0, 9.0)


def test_what_a_view_remembers_is_told_apart_from_other_queries_cells() -> None:
    """A grid of one column, lower end 1, and one of blocks, upper end 1: the same four numbers."""
    records = np.array([[0.0], [3.0], [40.0], [70.0]])
    blocks = BlockScores(lower=0, upper=1, exponent=5, parts=1, blocks=((0, 1, 2),))
    column = ColumnScores(((0, QuantileScores(1, 5, 1, 1, 2)),))
    shared = View(records)
    for query in (column, blocks):
        assert query.evaluate(shared).tolist() == query.evaluate(View(records)).tolist()


def rank_errors(estimate: Any, data: np.ndarray) -> float:
    """Return the largest of one release, in records, for records of different cells."""
    ranks = np.searchsorted(np.sort(data), estimate.value, side="right")
    return float(np.abs(ranks - np.array(estimate.levels) * len(data)).max())


@pytest.mark.parametrize("adjacency", Adjacency)
def test_all_rank_errors_are_within_their_bound(adjacency: Adjacency) -> None:
    mechanism, data = quantiles(adjacency=adjacency, cell=1, parts=1), np.linspace(0.0, 100.0, 101)
    mechanism = replace(mechanism, noise_multiplier=Fraction(1, 2))
    bound = mechanism.rank_error(beta="1/20")
    exact = float(spec.error_bound(mechanism.parameters, Fraction(1, 20)))
    assert abs(bound - exact) < 1e-9 * exact
    for beta in (0, 1, 2, -1):
        with pytest.raises(ValueError, match="beta"):
            mechanism.rank_error(beta=beta)
    assert bound < mechanism.rank_error(beta="1e-400") < 100 * bound
    errors = [rank_errors(estimate, data) for estimate in estimates(mechanism, data, 4, 400)]
    assert fails_at_most(errors, bound, 0.05)
    noisy = replace(mechanism, noise_multiplier=Fraction(40))
    errors = [rank_errors(estimate, data) for estimate in estimates(noisy, data, 5, 400)]
    assert not fails_at_most(errors, bound, 0.05)


def test_one_quantile_is_as_good_as_by_itself() -> None:
    alone = PrivateQuantile(adjacency=ADD, noise_multiplier=3, lower=0.0, upper=100.0)
    one = quantiles(noise_multiplier=3, levels=("1/2",))
    assert one.expected_error(1000) == alone.expected_error(1000)
    assert one.composed == alone.composed


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("count", [3, 9, 31])
def test_together_they_are_nearer_than_apart(adjacency: Adjacency, count: int) -> None:
    """Compare at one PureDP guarantee, of which each quantile by itself has its part."""
    levels = tuple(Fraction(k, count + 1) for k in range(1, count + 1))
    both: dict[str, Any] = {"adjacency": adjacency, "lower": 0.0, "upper": 1.0}
    together = PrivateQuantiles.for_budget(PureDP(1), levels=levels, **both)
    apart = [
        PrivateQuantile.for_budget(PureDP(Fraction(1, count)), quantile=level, **both)
        for level in levels
    ]
    square = sum(one.expected_error(1000) ** 2 for one in apart) / count
    assert together.expected_error(1000) < 0.75 * square**0.5


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"levels": "1/2"}, TypeError, r"give a list of quantiles, \['1/4'"),
    ({"levels": 3}, TypeError, "give a list of quantiles"),
    ({"levels": ()}, ValueError, "lists 0 quantiles; give from 1 to 1000"),
    ({"levels": ("1/2", "1/4")}, ValueError, "increasing order, no two alike"),
    ({"levels": ("1/2", "2/4")}, ValueError, "increasing order, no two alike"),
    ({"levels": ("1/2", "3/2")}, ValueError, "from 0 to 1"),
    ({"levels": (1 / 3, 2 / 3)}, ValueError, r"beyond 2\^20; write simpler fractions"),
    ({"parts": 3}, ValueError, "no power of two; write for example 65536"),
    ({"parts": 0}, ValueError, "from 1 to 1048576"),
    ({"lower": 100.0}, ValueError, "equal; give the smaller one first"),
    ({"cell": "1/3"}, ValueError, "not a power of two"),
    ({"cell": 256}, ValueError, "leave no room between them; give a smaller cell"),
    ({"cell": Fraction(1, 2**40)}, ValueError, "give a larger cell"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        quantiles(**change)


@pytest.mark.parametrize(("data", "kind", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        quantiles().release(data, NoBits())


def test_what_does_not_fit_together_is_refused() -> None:
    first = BlockScores(0, 9, 0, 2, ((0, 1, 2),))
    second = BlockScores(0, 9, 0, 2, ((0, 1, 2), (1, 1, 2)), ("round 1",), 1)
    with pytest.raises(ValueError, match="needs their BlockScores"):
        Stage("round 1", first, BlockChoices.of(second, 4))
    for wrong, message in (
        ({"blocks": ()}, "at least one, in order"),
        ({"blocks": ((1, 1, 2),)}, "from 0 to 0"),
        ({"blocks": ((0, 3, 2),)}, "0 <= p <= q"),
        ({"edges": 1}, "both or neither"),
        ({"parts": 6}, "a power of two"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(first, **wrong)


def test_every_choice_is_possible_for_both_neighbors() -> None:
    """Check that no output tells for certain which of two datasets it came from."""
    mechanism = quantiles(lower=0.0, upper=3.0, cell=1, parts=2)
    batch = mechanism.law([]).sample(SeededBits(6), 4000)
    for data in (EDGE_RECORDS, [3.3], [3.3, 3.3, 3.3]):
        assert np.isfinite(mechanism.law(data).log_likelihood(batch)).all()


def test_a_gaussian_budget_is_met_to_a_64th() -> None:
    budget = GaussianDP("1/5")
    made = PrivateQuantiles.for_budget(
        budget, adjacency=ADD, lower=0.0, upper=1.0, levels=QUARTILES
    )
    assert made.composed.implies(budget)
    assert made.claim.guarantee == budget
    fewer = replace(made, budget=None, noise_multiplier=made.noise_multiplier * Fraction(31, 32))
    assert not fewer.composed.implies(budget)
