"""Rates: how the error of a mechanism goes with the number of records, the dimension, the budget.

A claim says what is expected; measuring, fitting and judging say whether it is so, each with its
confidence. What theory predicts comes from outside: nothing here reads a spec.
"""

from dpverify.rates.claims import (
    Curve,
    Empirical,
    Exponent,
    Population,
    RateClaim,
    RateFault,
)
from dpverify.rates.faults import faults_of, faulty_law, rescaled
from dpverify.rates.fitting import Slope, fit
from dpverify.rates.instances import KINDS, Instance
from dpverify.rates.judging import Comparison, Finding, Row, Table, compare, row_of, table_of
from dpverify.rates.measuring import Point, measure
from dpverify.rates.metrics import Interval, Metric

__all__ = [
    "KINDS",
    "Comparison",
    "Curve",
    "Empirical",
    "Exponent",
    "Finding",
    "Instance",
    "Interval",
    "Metric",
    "Point",
    "Population",
    "RateClaim",
    "RateFault",
    "Row",
    "Slope",
    "Table",
    "compare",
    "faults_of",
    "faulty_law",
    "fit",
    "measure",
    "rescaled",
    "row_of",
    "table_of",
]
