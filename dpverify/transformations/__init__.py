"""From dataset to dataset: filters, with their stability as lemmas. They claim nothing themselves."""

from dpverify.transformations.basic_filter import BasicFilter
from dpverify.transformations.gaussian_filter import GaussianFilter

__all__ = ["BasicFilter", "GaussianFilter"]
