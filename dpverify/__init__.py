"""dpverify: differentially private estimators whose every privacy claim is derived, specified and
attacked.

The trusted core is dpverify.privacy, .randomness, .grid, .plans and .mechanisms; the auditor is
dpverify.audit, imported on its own.
"""

from dpverify.mechanisms.bounded_mean import BoundedMean, MeanEstimate
from dpverify.mechanisms.noisy_count import CountEstimate, NoisyCount
from dpverify.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
from dpverify.plans import Abstained
from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
)
from dpverify.privacy.rules import compose, conjecture
from dpverify.randomness import SeededBits, SystemBits

__version__ = "0.1.0"

__all__ = [
    "Abstained",
    "Adjacency",
    "ApproxDP",
    "ApproximateGaussianDP",
    "BoundedMean",
    "CountEstimate",
    "FrequencyEstimate",
    "GaussianDP",
    "MeanEstimate",
    "NoisyCount",
    "PerfectPrivacy",
    "Profile",
    "PureDP",
    "RandomizedResponse",
    "SeededBits",
    "SystemBits",
    "ZeroConcentratedDP",
    "calibrate",
    "compose",
    "conjecture",
]
