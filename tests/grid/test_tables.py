"""Tables: sorted cells and keyed counts are the spec's, on every dataset."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.grid import View, ingest
from dpverify.grid.tables import KeyedCounts, QuantileScores
from dpverify.privacy import Adjacency, Domain, Norm
from spec.theory import queries, tables

DOMAIN = Domain(columns=1)
RECORDS = st.one_of(
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, -2.2e-308, 0.5, -1.0, 1e308, -1e308, 2.0**60]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-40, 40).map(lambda i: i / 8),
)
COLUMNS = st.lists(RECORDS, max_size=8)
steady = settings(derandomize=True, deadline=None, max_examples=150)
GRIDS = [(0, 1, 0), (-5, 7, -2), (0, 1 << 20, -20), (-(1 << 50), 1 << 50, -1074), (-3, 3, 1000)]
BINS = [(1, 0, 0), (3, 1, -1), (1 << 30, 7, -30), (1 << 31, -(1 << 60), -1074), (5, 2, 960)]


@steady
@given(COLUMNS, st.sampled_from(GRIDS))
def test_cells_are_those_of_the_spec_in_order(data: list[float], where: tuple[int, ...]) -> None:
    lower, upper, exponent = where
    scores = QuantileScores(lower, upper, exponent, 1, 2).evaluate(View(ingest(data, DOMAIN)))
    cell = Fraction(2) ** exponent
    expected = sorted(queries.to_cells(Fraction(x), lower, upper, cell) for x in data)
    assert scores.tolist() == [expected]


@steady
@given(COLUMNS, st.sampled_from(BINS))
def test_bins_are_exact_floors(data: list[float], where: tuple[int, ...]) -> None:
    width, origin, exponent = where
    counts = KeyedCounts(width, origin, exponent).evaluate(View(ingest(data, DOMAIN)))
    cell = Fraction(2) ** exponent
    bins = [tables.bin_of(Fraction(x), width, origin, cell, 2**60) for x in data]
    assert [tuple(row) for row in counts.tolist()] == list(tables.keyed_counts(bins))


@pytest.mark.parametrize("exponent", [0, 900, 1000])
def test_a_negative_record_that_vanishes_is_below_zero_all_the_same(exponent: int) -> None:
    """Divided by 2^900 it is nearer to 0 than any float; its floor is -1."""
    query = KeyedCounts(1, 0, exponent)
    data = [-5e-324, 5e-324, 0.0, -0.0]
    with np.errstate(all="raise"):
        assert query.evaluate(View(ingest(data, DOMAIN))).tolist() == [[-1, 1], [0, 3]]


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (0, 0, "leave no room between them; give a smaller cell"),
        (3, -3, "leave no room"),
        (0, (1 << 50) + 1, r"beyond the 2\^50.*Subtract a public constant"),
        (-(1 << 60), 0, r"beyond the 2\^50"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(lower: int, upper: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantileScores(lower, upper, 0, 1, 2)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 2), (9, 10), (1, 1)])
def test_the_lemmas_have_the_numbers_of_the_spec(p: int, q: int, adjacency: Adjacency) -> None:
    lemma = QuantileScores(0, 9, 0, p, q).sensitivity(adjacency, DOMAIN)
    assert lemma.conclusion.value == tables.score_sensitivity(p, q, adjacency)
    assert lemma.conclusion.norm is Norm.L_INFINITY
    assert lemma.obligation == "theory/tables.py:obligation_quantile_scores"
    keys = KeyedCounts(5, 0, 0).sensitivity(adjacency, DOMAIN)
    assert keys.conclusion.value == 1
    assert keys.conclusion.norm is Norm.KEYS
    assert keys.obligation == "theory/tables.py:obligation_keyed_counts"


@steady
@given(COLUMNS, RECORDS, RECORDS, st.integers(0, 8), st.sampled_from([(0, 1), (1, 2), (9, 10)]))
def test_no_neighbors_are_found_beyond_the_sensitivities(
    rest: list[float], record: float, other: float, at: int, quantile: tuple[int, int]
) -> None:
    p, q = quantile
    pairs = {
        Adjacency.ADD_REMOVE: ([*rest[:at], record, *rest[at:]], rest),
        Adjacency.REPLACE: ([*rest[:at], record, *rest[at:]], [*rest[:at], other, *rest[at:]]),
    }
    scores, counts = QuantileScores(-5, 5, 0, p, q), KeyedCounts(2, 1, 0)
    for adjacency, pair in pairs.items():
        assert adjacency.are_neighbors(*pair)
        sides = [ingest(data, DOMAIN) for data in pair]
        cells = [scores.evaluate(View(records))[0].tolist() for records in sides]
        most = scores.sensitivity(adjacency, DOMAIN).conclusion.value
        for t in range(-5, 6):
            assert abs(tables.score(cells[0], t, p, q) - tables.score(cells[1], t, p, q)) <= most
        moved = [Counter(dict(counts.evaluate(View(records)).tolist())) for records in sides]
        gained, lost = moved[0] - moved[1], moved[1] - moved[0]
        assert gained.total() <= 1
        assert lost.total() <= (1 if adjacency is Adjacency.REPLACE else 0)


def test_nobody_is_a_dataset() -> None:
    nobody = ingest([], DOMAIN)
    assert QuantileScores(0, 9, 0, 1, 2).evaluate(View(nobody)).shape == (1, 0)
    assert KeyedCounts(5, 0, 0).evaluate(View(nobody)).shape == (0, 2)


def test_records_far_away_count_as_lying_at_the_end() -> None:
    far = KeyedCounts(1 << 30, 0, -30).evaluate(
        View(ingest([1e308, -1e308, math.ldexp(1, 40)], DOMAIN))
    )
    assert far.tolist() == [[-(1 << 30), 1], [1 << 30, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuantileScores(0, 8, 0, 0, -1), "give 0 <= p <= q"),
        (lambda: QuantileScores(0, 8, 0, 3, 2), "give 0 <= p <= q"),
        (lambda: QuantileScores(0, 8, 0, 0, 1 << 61), "q from 1 to"),
        (lambda: KeyedCounts(0, 0, 0), "a width of at least 1"),
        (lambda: KeyedCounts(1, 1 << 62, 0), "within 2"),
    ],
)
def test_tables_that_would_promise_too_much_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
