"""Plans for the mean of records that agree: how a budget is shared, from public numbers."""

from dpverify.transformations.means.basic import BasicCoreMean
from dpverify.transformations.means.gaussian import GaussianCoreMean
from dpverify.transformations.means.shared import MEAN
from dpverify.transformations.means.soft import SoftCoreMean
from dpverify.transformations.means.weights import WeightedCoreMean

CoreMean = BasicCoreMean | GaussianCoreMean | WeightedCoreMean

__all__ = [
    "MEAN",
    "BasicCoreMean",
    "CoreMean",
    "GaussianCoreMean",
    "SoftCoreMean",
    "WeightedCoreMean",
]
