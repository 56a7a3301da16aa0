"""Rates: dependence of a mechanism's error on the number of records, the dimension and the
budget.

A claim states the expected dependence; measuring, fitting and judging test it, each with stated
confidence. Theoretical predictions come from outside: nothing here reads a spec. An experiment
compares several methods at one guarantee, and says which of them has less error.
"""

from dpverify.rates.claims import (
    Curve,
    Empirical,
    Exponent,
    Population,
    RateClaim,
    RateFault,
)
from dpverify.rates.comparing import (
    Cell,
    Judged,
    check_methods,
    judge_order,
    measure_cell,
)
from dpverify.rates.experiments import (
    Constant,
    Drawn,
    Experiment,
    NotPrivate,
    Order,
    Quick,
    Reference,
    Refuted,
    is_private,
)
from dpverify.rates.faults import caught, faults_of, faulty_law, noise_times, rescaled, stages
from dpverify.rates.fitting import Slope, fit
from dpverify.rates.instances import KINDS, Instance
from dpverify.rates.judging import Comparison, Finding, Row, Table, compare, row_of, table_of
from dpverify.rates.looking import enough, looks
from dpverify.rates.measuring import Point, Releases, measure
from dpverify.rates.metrics import Distance, Interval, Metric

__all__ = [
    "KINDS",
    "Cell",
    "Comparison",
    "Constant",
    "Curve",
    "Distance",
    "Drawn",
    "Empirical",
    "Experiment",
    "Exponent",
    "Finding",
    "Instance",
    "Interval",
    "Judged",
    "Metric",
    "NotPrivate",
    "Order",
    "Point",
    "Population",
    "Quick",
    "RateClaim",
    "RateFault",
    "Reference",
    "Refuted",
    "Releases",
    "Row",
    "Slope",
    "Table",
    "caught",
    "check_methods",
    "compare",
    "enough",
    "faults_of",
    "faulty_law",
    "fit",
    "is_private",
    "judge_order",
    "looks",
    "measure",
    "measure_cell",
    "noise_times",
    "rescaled",
    "row_of",
    "stages",
    "table_of",
]
