"""The public integer grid: how records enter, and exact queries with proved sensitivities."""

from dpverify.grid.queries import Answers, ClampedSum, Count, Query, interval, quantize
from dpverify.grid.records import Records, ingest

__all__ = [
    "Answers",
    "ClampedSum",
    "Count",
    "Query",
    "Records",
    "ingest",
    "interval",
    "quantize",
]
