"""Sums in boxes and scores of several columns: by the spec's arithmetic, with its sensitivities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpverify.grid import View
from dpverify.grid.coordinates import BoxSum, Stretch
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.privacy import Adjacency, Domain, Norm
from spec.theory import boxes, coordinates

_STRETCH = Stretch((3, -2), (-1, 2), (1, 40))
_MODEL = coordinates.Stretch((3, -2), (Fraction(1, 2), Fraction(4)), (1, 40))
_ROWS = np.array([(1.5, 0.0), (1e308, -1e308), (-7.0, 9.9), (5e-324, -8.0), (1.25, 6.0)])


@pytest.mark.parametrize("radius", [1, 7, 1 << 20, 1 << 40])
def test_a_box_sum_is_that_of_the_spec(radius: int) -> None:
    query = BoxSum(_STRETCH, radius)
    rows = [tuple(map(Fraction, row)) for row in _ROWS.tolist()]
    assert tuple(query.evaluate(View(_ROWS)).tolist()) == boxes.box_sum(rows, _MODEL, radius)
    assert np.abs(query.evaluate(View(_ROWS))).max() <= query.largest(len(_ROWS))
    assert query.evaluate(View(_ROWS[:0])).tolist() == [0, 0]


@pytest.mark.parametrize("norm", [Norm.L1, Norm.SQUARED_L2])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_box_sum_s_sensitivity_is_that_of_the_spec(norm: Norm, adjacency: Adjacency) -> None:
    shown = BoxSum(_STRETCH, 5, norm).sensitivity(adjacency, Domain(2)).conclusion
    assert shown.norm is norm
    assert shown.value == boxes.box_sensitivity(2, 5, norm, adjacency)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="give one coordinate a column"):
        BoxSum(_STRETCH, 5).sensitivity(Adjacency.REPLACE, Domain(3))
    with pytest.raises(ValueError, match="planting a fault"):
        BoxSum(_STRETCH, 5, clipped=False).sensitivity(Adjacency.REPLACE, Domain(2))
    with pytest.raises(ValueError, match="L1 or squared L2"):
        BoxSum(_STRETCH, 5, Norm.KEYS)
    with pytest.raises(ValueError, match="at least one quantile"):
        ColumnScores(())


def test_several_columns_are_scored_one_by_one() -> None:
    first, second = QuantileScores(-4, 4, 0, 1, 4), QuantileScores(0, 9, 1, 3, 4)
    query = ColumnScores(((0, first), (1, second), (1, first)))
    expected = [
        first.evaluate(View(_ROWS[:, :1])),
        second.evaluate(View(_ROWS[:, 1:])),
        first.evaluate(View(_ROWS[:, 1:])),
    ]
    assert query.evaluate(View(_ROWS)).tolist() == np.concatenate(expected).tolist()
    assert query.sensitivity(Adjacency.REPLACE, Domain(2)).conclusion.value == 4
    with pytest.raises(ValueError, match="column 2; give more columns"):
        query.sensitivity(Adjacency.REPLACE, Domain(1))
    with pytest.raises(ValueError, match="stated for replace"):
        query.sensitivity(Adjacency.ADD_REMOVE, Domain(2))
