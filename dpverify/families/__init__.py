"""Exponential families with one parameter or several, and location-scale families.

Checks tell which assumptions of truncated estimation an exponential family keeps.
"""

from dpverify.families.checking import FamilyReport, check_family
from dpverify.families.checking_locations import LocationScaleReport, check_location_scale
from dpverify.families.checking_priors import PriorReport, check_prior
from dpverify.families.gaussian import MultivariateNormal, NormalPrecision
from dpverify.families.known import (
    ContinuousBernoulli,
    ContinuousPoisson,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)
from dpverify.families.known_scales import (
    LogisticFamily,
    LogLogisticFamily,
    LogNormalFamily,
    NormalFamily,
    WeibullFamily,
)
from dpverify.families.location_scale import LocationScaleFamily
from dpverify.families.matching import (
    NotMonotone,
    clipped_match,
    least_curvature,
    truncated_mle,
)
from dpverify.families.newton import Solved, Unsolved
from dpverify.families.normal_mean import NormalMean
from dpverify.families.one_parameter import Family, Limited
from dpverify.families.sets import Ball, Box, Eigenvalues, Shell
from dpverify.families.several_parameters import Clipped, Curvature, ExponentialFamily, Truncated

__all__ = [
    "Ball",
    "Box",
    "Clipped",
    "ContinuousBernoulli",
    "ContinuousPoisson",
    "Curvature",
    "Eigenvalues",
    "ExponentialFamily",
    "Family",
    "FamilyReport",
    "Limited",
    "LocationScaleFamily",
    "LocationScaleReport",
    "LogLogisticFamily",
    "LogNormal",
    "LogNormalFamily",
    "LogisticFamily",
    "MultivariateNormal",
    "Normal",
    "NormalFamily",
    "NormalMean",
    "NormalPrecision",
    "NotMonotone",
    "Pareto",
    "Poisson",
    "PriorReport",
    "Shell",
    "Solved",
    "Truncated",
    "Unsolved",
    "Weibull",
    "WeibullFamily",
    "check_family",
    "check_location_scale",
    "check_prior",
    "clipped_match",
    "least_curvature",
    "truncated_mle",
]
