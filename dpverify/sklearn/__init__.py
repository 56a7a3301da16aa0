"""Private estimators in the form of scikit-learn's: ``fit`` is one release; all else costs
nothing.

docs/how_to/sklearn.md says which of scikit-learn's checks privacy forbids, and why.
"""

from dpverify.sklearn.base import NoRelease, SecondRelease
from dpverify.sklearn.checks import FORBIDDEN_CHECKS
from dpverify.sklearn.linear import LinearRegression, Ridge
from dpverify.sklearn.spread import PCA, StandardScaler

__all__ = [
    "FORBIDDEN_CHECKS",
    "PCA",
    "LinearRegression",
    "NoRelease",
    "Ridge",
    "SecondRelease",
    "StandardScaler",
]
