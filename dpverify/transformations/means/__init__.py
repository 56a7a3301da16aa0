"""The mean of the records that a filter keeps, as a plan: how a budget is shared, from public numbers."""

from dpverify.transformations.means.basic import BasicCoreMean
from dpverify.transformations.means.gaussian import GaussianCoreMean

CoreMean = BasicCoreMean | GaussianCoreMean

__all__ = ["BasicCoreMean", "CoreMean", "GaussianCoreMean"]
