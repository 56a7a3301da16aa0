"""dpverify: differentially private estimators whose every privacy claim is derived, specified and
attacked.

The trusted core is dpverify.privacy, .randomness, .grid, .plans and .mechanisms; the auditor is
dpverify.audit, imported on its own.
"""

from dpverify.mechanisms.bernoulli_mean import BernoulliMean, ShareEstimate
from dpverify.mechanisms.bounded_mean import BoundedMean, MeanEstimate
from dpverify.mechanisms.clipped_mean import ClippedMean, VectorMeanEstimate
from dpverify.mechanisms.iterative_mean import IterativeMean
from dpverify.mechanisms.noisy_count import CountEstimate, NoisyCount
from dpverify.mechanisms.private_quantile import PrivateQuantile, QuantileEstimate
from dpverify.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
from dpverify.mechanisms.stability_histogram import HistogramEstimate, StabilityHistogram
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
from dpverify.randomness import CipherBits, SeededBits, SystemBits

__version__ = "0.1.0"

__all__ = [
    "Abstained",
    "Adjacency",
    "ApproxDP",
    "ApproximateGaussianDP",
    "BernoulliMean",
    "BoundedMean",
    "CipherBits",
    "ClippedMean",
    "CountEstimate",
    "FrequencyEstimate",
    "GaussianDP",
    "HistogramEstimate",
    "IterativeMean",
    "MeanEstimate",
    "NoisyCount",
    "PerfectPrivacy",
    "PrivateQuantile",
    "Profile",
    "PureDP",
    "QuantileEstimate",
    "RandomizedResponse",
    "SeededBits",
    "ShareEstimate",
    "StabilityHistogram",
    "SystemBits",
    "VectorMeanEstimate",
    "ZeroConcentratedDP",
    "calibrate",
    "compose",
    "conjecture",
]
