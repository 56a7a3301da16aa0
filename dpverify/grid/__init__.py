"""The public integer grid: how records enter, and exact queries with proved sensitivities."""

from dpverify.grid.linear import (
    check_word_budget,
    column_sums,
    gram,
    matmul,
    second_moments,
    squared_distances,
    squared_norms,
)
from dpverify.grid.queries import Answers, ClampedSum, Count, Derived, Query, interval, quantize
from dpverify.grid.records import Records, ingest
from dpverify.grid.together import Together
from dpverify.grid.vector_queries import UNIT, MaskedSum, OneUnit, VectorQuery, VectorSum
from dpverify.grid.vectors import (
    OUTER_BOX,
    clip_to_ball,
    clip_to_box,
    clip_to_ellipsoid,
    inside_ball,
    to_cells,
)

__all__ = [
    "OUTER_BOX",
    "UNIT",
    "Answers",
    "ClampedSum",
    "Count",
    "Derived",
    "MaskedSum",
    "OneUnit",
    "Query",
    "Records",
    "Together",
    "VectorQuery",
    "VectorSum",
    "check_word_budget",
    "clip_to_ball",
    "clip_to_box",
    "clip_to_ellipsoid",
    "column_sums",
    "gram",
    "ingest",
    "inside_ball",
    "interval",
    "matmul",
    "quantize",
    "second_moments",
    "squared_distances",
    "squared_norms",
    "to_cells",
]
