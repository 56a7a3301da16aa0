"""``private_quantile``: on every dataset and grid, within its rank error, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dpverify import Adjacency, ApproxDP, PrivateQuantile, PureDP, QuantileEstimate, SeededBits
from dpverify.grid.transcripts import transcript
from dpverify.privacy import BoundedRange
from spec import private_quantile as spec
from tests.mechanisms.helpers import (
    EDGE_DATA,
    EDGE_RECORDS,
    estimates,
    fails_at_most,
    largest_loss_found,
)
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def quantile(**parameters: Any) -> PrivateQuantile:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": 0.0, "upper": 100.0}
    return PrivateQuantile(**base | parameters)


BOUNDS = [(-1.0, 3.0), (0.0, 5e-324), (-1.7e308, 1.7e308), (0, 1e7), (-2e-308, 1.0), (1e6, 1e6 + 1)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("data", EDGE_DATA, ids=range(len(EDGE_DATA)))
def test_every_dataset_has_a_release_between_the_bounds(
    data: list[float], adjacency: Adjacency, lower: float, upper: float
) -> None:
    for p in (0, "1/2", 1):
        mechanism = quantile(adjacency=adjacency, lower=lower, upper=upper, quantile=p)
        released = mechanism.release(data, SeededBits(1))
        assert isinstance(released, QuantileEstimate)
        assert lower <= released.value <= upper


def test_every_cell_is_possible_for_both_neighbors() -> None:
    """Check that no output tells for certain which of two datasets it came from."""
    mechanism = quantile(lower=0.0, upper=15.0, cell=1)
    cells = np.arange(16)[:, np.newaxis]
    stage = mechanism.plan()[0]
    for data in ([], [3.3], [3.3, 3.3], [3.3, 1e308, 5e-324, 7.7, -1e308]):
        law = mechanism.law(data)
        log_masses = stage.noise.log_probability(cells, law.center(stage.query))  # type: ignore[union-attr]
        assert np.isfinite(log_masses).all()
        assert abs(np.exp(log_masses).sum() - 1) < 1e-12


def test_nobody_is_uniform() -> None:
    values = [point.value for point in estimates(quantile(), [], 1, 4000)]
    # Kolmogorov: a distance beyond 0.05 for 4000 draws has probability below 2 exp(-20) < 1e-8.
    distances = np.abs(np.sort(values) / 100 - np.arange(1, 4001) / 4000)
    assert distances.max() < 0.05


@pytest.mark.parametrize(("p", "where"), [(0, (0, 24)), ("1/2", (46, 54)), (1, (76, 100))])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_ends_and_the_middle_are_where_they_should_be(
    p: Any, where: tuple[float, float], adjacency: Adjacency
) -> None:
    """Records at 20.5, 21.5, ..., 79.5; by the error bound a rank is off by more than 3 with
    probability below 1e-6. At the ends every cell beyond the records is as good."""
    mechanism = quantile(adjacency=adjacency, quantile=p, noise_multiplier="1/20")
    assert spec.error_bound(mechanism.parameters, Fraction(1, 10**6)) < 3
    for point in estimates(mechanism, np.arange(20.5, 80.0), 2, 40):
        assert where[0] <= point.value <= where[1]


def rank_errors(mechanism: PrivateQuantile, data: np.ndarray, seed: int, size: int) -> list[float]:
    """Return rank errors of released values, in records, for records no two of which share a
    cell."""
    ordered, p = np.sort(data), float(mechanism.quantile)
    values = [point.value for point in estimates(mechanism, data, seed, size)]
    return [abs(float(np.searchsorted(ordered, value)) - p * len(data)) for value in values]


CASES: list[dict[str, Any]] = [
    {},
    {"adjacency": REPLACE},
    {"quantile": "9/10", "noise_multiplier": 5},
    {"lower": -1e6, "upper": 1e6, "cell": Fraction(1, 2**19)},
]


@pytest.mark.parametrize("parameters", CASES, ids=range(len(CASES)))
def test_the_rank_error_is_within_its_bound(parameters: dict[str, Any]) -> None:
    mechanism, beta = quantile(**parameters), Fraction(1, 20)
    data = np.linspace(0.05, 99.95, 1000)
    bound = float(spec.error_bound(mechanism.parameters, beta)) + 0.5
    assert bound < 500
    assert fails_at_most(rank_errors(mechanism, data, 3, 400), bound, float(beta))
    # The bound is for the worst data, ln(cells) above the error of these: hence the 20.
    noisy = replace(mechanism, noise_multiplier=20 * mechanism.noise_multiplier)
    assert not fails_at_most(rank_errors(noisy, data, 4, 400), bound, float(beta))


@pytest.mark.parametrize("n", [1, 2, 10**5])
@pytest.mark.parametrize("bits", [20, 30, 40])
def test_all_sizes_of_data_and_grids(n: int, bits: int) -> None:
    mechanism = quantile(cell=Fraction(1, 2 ** (bits - 7)), noise_multiplier="1/4")
    data = np.linspace(30.0, 70.0, n)
    values = [point.value for point in estimates(mechanism, data, 5, 40)]
    assert all(0 <= value <= 100 for value in values)
    if n > 2:  # by the error bound, at most 24 + 0.5 of 10^5 ranks but for 1e-6
        bound = float(spec.error_bound(mechanism.parameters, Fraction(1, 40 * 10**6)))
        assert bound < 100
        assert max(abs(value - 50) for value in values) < 41 * (bound + 1) / n


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("p", "n"), [("1/2", 160), ("1/4", 320), ("9/10", 800)])
def test_ties_give_the_tied_value(p: str, n: int, adjacency: Adjacency) -> None:
    """Release with ties: where n records share a cell, every other cell is n min(p, 1 - p) ranks
    from the quantile, less one at most for two more records. By the error bound one of 400 draws
    is there with probability 400e-9; of a hundredth of the records nearly all draws are, for
    there are 10^6 other cells."""
    mechanism, share = quantile(adjacency=adjacency, quantile=p), min(Fraction(p), 1 - Fraction(p))
    assert spec.error_bound(mechanism.parameters, Fraction(1, 10**9)) < n * share - 1
    for data in ([50.0] * n, [3.0, *[50.0] * n, 99.0]):
        assert {point.value for point in estimates(mechanism, data, 6, 400)} == {50.0}
    assert 50.0 not in {point.value for point in estimates(mechanism, [50.0] * (n // 100), 6, 400)}


BAD_PARAMETERS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lower": 100.0}, ValueError, "equal; give the smaller one first"),
    ({"lower": 101.0}, ValueError, "reversed; give the smaller one first"),
    ({"lower": float("nan")}, ValueError, "give a finite public bound"),
    ({"upper": float("inf")}, ValueError, "give a finite public bound"),
    ({"upper": "100"}, TypeError, "a bound is a number"),
    ({"quantile": "-1/10"}, ValueError, r"outside \[0, 1\]; give the share"),
    ({"quantile": "1.1"}, ValueError, r"outside \[0, 1\]; give the share"),
    ({"quantile": 50}, ValueError, r"outside \[0, 1\]; give the share"),
    (
        {"quantile": 1 / 3},
        ValueError,
        r"beyond 2\^20; write a simpler fraction, for example '9/10'",
    ),
    ({"quantile": None}, TypeError, "give an int, Fraction"),
    ({"quantile": float("nan")}, ValueError, "give a finite number"),
    ({"cell": "1/3"}, ValueError, "not a power of two"),
    ({"cell": 0}, ValueError, "not a power of two"),
    ({"cell": 256}, ValueError, "leave no room between them; give a smaller cell"),
    ({"cell": Fraction(1, 2**50)}, ValueError, "give a larger cell"),
    ({"lower": 1.0, "upper": 1.0000000000000002}, ValueError, "Subtract a public constant"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
    ({"adjacency": "replace"}, TypeError, "write Adjacency"),
]


@pytest.mark.parametrize(
    ("change", "kind", "message"), BAD_PARAMETERS, ids=range(len(BAD_PARAMETERS))
)
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        quantile(**change)


BAD_DATA: list[tuple[Any, type[Exception], str]] = [
    ([1.0, np.inf], ValueError, "Record 1 is not finite.*nonfinite='replace'"),
    ([[1.0, 2.0]], ValueError, "2 columns.*Select the columns"),
    (1.0, ValueError, "0 dimensions"),
    (["1"], TypeError, "strings, not real numbers"),
    ([1j], TypeError, "complex numbers"),
]


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("data", "kind", "message"), BAD_DATA, ids=range(len(BAD_DATA)))
def test_no_bit_is_drawn_for_refused_data(
    data: Any, kind: type[Exception], message: str, adjacency: Adjacency
) -> None:
    with pytest.raises(kind, match=message):
        quantile(adjacency=adjacency).release(data, NoBits())


def test_all_kinds_of_columns_and_orders_are_one() -> None:
    mechanism = quantile()
    data = [7.0, 3.0, 50.0, 80.0, 12.0]
    expected = mechanism.release(data, SeededBits(7))
    columns: Sequence[Any] = (
        data[::-1],
        tuple(data),
        np.array(data, dtype=np.float32),
        np.array(data, dtype=np.uint8),
        np.array(data).reshape(-1, 1),
    )
    for column in columns:
        assert mechanism.release(column, SeededBits(7)) == expected


def test_a_nonfinite_record_counts_as_the_middle_when_replaced() -> None:
    mechanism = quantile(nonfinite="replace")
    expected = mechanism.release([50.0, 50.0, 50.0, 9.0], SeededBits(8))
    missing: Any = [np.nan, -np.inf, None, 9.0]
    assert mechanism.release(missing, SeededBits(8)) == expected


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_nothing_depends_on_the_floating_point_environment(lower: float, upper: float) -> None:
    mechanism = quantile(lower=lower, upper=upper)
    expected = mechanism.release(EDGE_RECORDS, SeededBits(9))
    with np.errstate(all="raise"):
        assert mechanism.release(EDGE_RECORDS, SeededBits(9)) == expected


def test_releases_are_as_their_seeds() -> None:
    data = [7.0, 3.0, 50.0]
    same = {quantile().release(data, SeededBits(10)) for _ in range(3)}
    others = {quantile().release(data, SeededBits(seed)) for seed in range(10)}
    assert (len(same), len(others)) == (1, 10)  # two of ten in one of 10^6 cells: below 1e-3, fixed


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("p", ["0", "1/2", "9/10"])
def test_a_budget_is_met_and_hardly_more(adjacency: Adjacency, p: str) -> None:
    made = PrivateQuantile.for_budget(
        PureDP("1/3"), adjacency=adjacency, lower=0, upper=1, quantile=p
    )
    assert made.noise_multiplier == 3
    assert made.composed == BoundedRange("1/3")
    assert made.claim.guarantee == PureDP("1/3")
    loose = PrivateQuantile.for_budget(
        ApproxDP("1/3", "1e-3"), adjacency=adjacency, lower=0, upper=1, quantile=p
    )
    assert loose.composed.implies(ApproxDP("1/3", "1e-3"))
    less = replace(
        loose, budget=None, noise_multiplier=loose.noise_multiplier * Fraction(9999, 10**4)
    )
    assert not less.composed.implies(ApproxDP("1/3", "1e-3"))
    assert loose.noise_multiplier < made.noise_multiplier


def test_a_cell_is_its_value() -> None:
    mechanism = quantile(lower=-1.0, upper=0.3, cell="1/8")  # the grid's ends are -8 and 2
    values = [mechanism.estimate(transcript({"cell": (cell,)})) for cell in (-8, -3, 0, 2)]
    assert values == [QuantileEstimate(value) for value in (-1.0, -0.375, 0.0, 0.25)]
    assert str(values[1]) == "QuantileEstimate(value=-0.375)"
    coarse = quantile(
        lower=0.1, upper=3.9, cell=1
    )  # the grid's ends, 0 and 4, lie beyond the bounds
    ends = [coarse.estimate(transcript({"cell": (cell,)})) for cell in (0, 4)]
    assert ends == [QuantileEstimate(0.1), QuantileEstimate(3.9)]


# Numbers that most of the interval's cells lie on one side of, and with one record more, or
# another one, on the other.
CRAFTED = {
    Adjacency.ADD_REMOVE: [([1.0, 0.5, 0.5], [1.0, 0.5, 0.5, 99.99999])],
    Adjacency.REPLACE: [([100.0, 0.5, 99.99999, 0.5], [0.0, 0.5, 99.99999, 0.5])],
}
RECORDS = st.one_of(
    st.sampled_from([*EDGE_RECORDS, 100.0, 50.0, 99.99999]),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-10, max_value=110),
)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("p", "share"), [("1/2", 0.8), ("3/4", 0.6)])
def test_no_neighbors_lose_more_than_claimed(adjacency: Adjacency, p: str, share: float) -> None:
    mechanism = quantile(adjacency=adjacency, quantile=p, noise_multiplier="1/3")
    assert mechanism.composed == BoundedRange(3)
    # What is tried comes near the claim, so a claim smaller by a fifth would be refuted by it.
    loss = largest_loss_found(mechanism, RECORDS, crafted=CRAFTED[adjacency])
    assert share * 3 < loss <= 3 * (1 + 1e-9)
