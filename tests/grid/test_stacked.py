"""Several queries as one: their answers, and which way these move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify.grid import Answers, ClampedSum, Count, Stacked, VectorSum, View
from dpverify.grid.tables import KeyedCounts
from dpverify.privacy import Adjacency, Domain, Norm
from spec.theory.above_threshold import moves_of_counts

COUNTS = (Count(within=(0.0, 1.0)), Count(within=(0.5, 2.0)), Count())
SUM = ClampedSum(-3, 2, 0, 0)


def test_answers_stand_side_by_side() -> None:
    records = np.array([[0.25], [0.75], [1.5], [-9.0]])
    answers = Stacked((*COUNTS, SUM)).evaluate(View(records))
    assert answers.tolist() == [2, 2, 4, 0 + 1 + 2 - 3]
    assert Stacked(COUNTS).evaluate(View(records[:0])).tolist() == [0, 0, 0]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_counts_move_one_way_under_add_remove_only(adjacency: Adjacency) -> None:
    shown = Stacked(COUNTS).sensitivity(adjacency, Domain(1))
    value, one_way = moves_of_counts(adjacency)
    assert shown.conclusion.value == value
    assert (shown.conclusion.norm is Norm.ONE_WAY) == one_way
    assert {lemma.obligation.split(":")[1] for lemma in shown.lemmas} == {
        "obligation_stacked",
        "obligation_count",
    }


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_sum_may_move_either_way_and_further(adjacency: Adjacency) -> None:
    shown = Stacked((*COUNTS, SUM)).sensitivity(adjacency, Domain(1)).conclusion
    assert shown.norm is Norm.L_INFINITY
    assert shown.value == (5 if adjacency is Adjacency.REPLACE else 3)


def test_bad_queries_are_refused() -> None:
    bad: Any = (Count(), "count")
    with pytest.raises(ValueError, match="There is no query"):
        Stacked(())
    with pytest.raises(TypeError, match="'count' is not a query"):
        Stacked(bad)
    for many in (Answers(2), KeyedCounts(1, 0, 0), VectorSum((0, 0), 5, 0)):
        with pytest.raises(ValueError, match="does not answer with one number"):
            Stacked((Count(), many))
    with pytest.raises(ValueError, match="moves in squared L2 distance"):
        Stacked((VectorSum((0,), 5, 0),)).sensitivity(Adjacency.REPLACE, Domain(1))
