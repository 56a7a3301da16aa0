"""Filters and weights of records by their friends, and lists of a public size.

Their stability enters as lemmas.
"""

from dpverify.transformations.basic_filter import BasicFilter
from dpverify.transformations.degree_weights import Agreement, WeightedMean
from dpverify.transformations.gaussian_filter import GaussianFilter
from dpverify.transformations.soft_core import SoftAgreement, SoftMean
from dpverify.transformations.truncation import Truncation

__all__ = [
    "Agreement",
    "BasicFilter",
    "GaussianFilter",
    "SoftAgreement",
    "SoftMean",
    "Truncation",
    "WeightedMean",
]
