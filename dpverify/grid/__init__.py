"""The public integer grid: how records enter, and exact queries with proved sensitivities."""

from dpverify.grid.cells import interval, quantize
from dpverify.grid.linear import (
    check_word_budget,
    column_sums,
    gram,
    matmul,
    second_moments,
    squared_distances,
    squared_norms,
)
from dpverify.grid.queries import Answers, ClampedSum, Count, Query
from dpverify.grid.records import Records, ingest
from dpverify.grid.stacked import Stacked
from dpverify.grid.transcripts import NOTHING, Handle, Released, Transcripts
from dpverify.grid.vector_queries import (
    UNIT,
    MaskedSum,
    OneUnit,
    ReleasedSum,
    VectorQuery,
    VectorSum,
)
from dpverify.grid.vectors import (
    OUTER_BOX,
    IntegerMap,
    clip_to_ball,
    clip_to_box,
    clip_to_ellipsoid,
    inside_ball,
    to_cells,
)
from dpverify.grid.views import View

__all__ = [
    "NOTHING",
    "OUTER_BOX",
    "UNIT",
    "Answers",
    "ClampedSum",
    "Count",
    "Handle",
    "IntegerMap",
    "MaskedSum",
    "OneUnit",
    "Query",
    "Records",
    "Released",
    "ReleasedSum",
    "Stacked",
    "Transcripts",
    "VectorQuery",
    "VectorSum",
    "View",
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
