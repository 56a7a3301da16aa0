"""Exponential families with one parameter, and which assumptions of truncated estimation they keep."""

from dpverify.families.checking import FamilyReport, check_family
from dpverify.families.known import (
    ContinuousBernoulli,
    ContinuousPoisson,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)
from dpverify.families.one_parameter import Family, Limited

__all__ = [
    "ContinuousBernoulli",
    "ContinuousPoisson",
    "Family",
    "FamilyReport",
    "Limited",
    "LogNormal",
    "Normal",
    "Pareto",
    "Poisson",
    "Weibull",
    "check_family",
]
