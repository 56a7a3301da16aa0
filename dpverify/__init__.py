"""dpverify: differentially private estimators whose every privacy claim is derived, specified and
attacked.

The trusted core is dpverify.privacy, .randomness, .grid, .plans, .transformations, .estimation,
.mechanisms and .tables; the auditor is dpverify.audit, imported on its own.
"""

from dpverify import _loading
from dpverify.estimation.answers import Result, result_from
from dpverify.estimation.bin_estimates import BinsEstimate, RangeEstimate
from dpverify.estimation.covariances import CovarianceEstimate
from dpverify.estimation.family_estimates import FamilyEstimate, LocationScaleEstimate
from dpverify.estimation.kept_sets import HalfSpace, InsideBall, OutsideBall
from dpverify.estimation.linear_fits import ComponentsEstimate, RegressionEstimate
from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.estimation.normal_law import Degenerate, NormalEstimate
from dpverify.estimation.products import ProductEstimate
from dpverify.estimation.results import RobustMeanEstimate, VarianceEstimate, VectorMeanEstimate
from dpverify.estimation.scale_families import ScaleEstimate
from dpverify.estimation.shapes import Concentrated, PrincipalComponents, ShapeEstimate
from dpverify.mechanisms.bernoulli_mean import BernoulliMean, ShareEstimate
from dpverify.mechanisms.bounded_mean import BoundedMean, MeanEstimate
from dpverify.mechanisms.bounded_sum import BoundedSum, SumEstimate
from dpverify.mechanisms.clipped_mean import ClippedMean
from dpverify.mechanisms.coordinatewise_mean import CoordinatewiseMean
from dpverify.mechanisms.gaussian import Gaussian
from dpverify.mechanisms.gaussian_covariance import GaussianCovariance
from dpverify.mechanisms.gaussian_mean import GaussianMean
from dpverify.mechanisms.histogram import Histogram
from dpverify.mechanisms.histogram_gaussian import HistogramGaussian
from dpverify.mechanisms.interquartile_range import (
    InterquartileRange,
    InterquartileRangeEstimate,
)
from dpverify.mechanisms.iterative_mean import IterativeMean
from dpverify.mechanisms.kth_largest_variance import KthLargestVariance
from dpverify.mechanisms.large_variances import LargeVariances, LargeVariancesEstimate
from dpverify.mechanisms.location_scale import LocationScale
from dpverify.mechanisms.moment_matrix import MomentMatrix
from dpverify.mechanisms.noisy_count import CountEstimate, NoisyCount
from dpverify.mechanisms.number_of_reports import NumberOfReports, ReportsEstimate
from dpverify.mechanisms.partitioned_product import PartitionedProduct
from dpverify.mechanisms.private_quantile import PrivateQuantile, QuantileEstimate
from dpverify.mechanisms.private_quantiles import PrivateQuantiles, QuantilesEstimate
from dpverify.mechanisms.product_distribution import ProductDistribution
from dpverify.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
from dpverify.mechanisms.refined_mean import RefinedMean
from dpverify.mechanisms.rescaled_mean import RescaledMean
from dpverify.mechanisms.robust_mean import RobustMean
from dpverify.mechanisms.scale_family import ScaleFamily
from dpverify.mechanisms.sign_covariance import SignCovariance
from dpverify.mechanisms.smooth_median import MediansEstimate, SmoothMedian
from dpverify.mechanisms.sparse_vector import NextQuery, SparseEstimate, SparseVector
from dpverify.mechanisms.stability_histogram import HistogramEstimate, StabilityHistogram
from dpverify.mechanisms.sum_of_variances import SumOfVariances
from dpverify.mechanisms.truncated_mle import TruncatedMle
from dpverify.mechanisms.univariate_gaussian import UnivariateGaussian
from dpverify.mechanisms.unknown_covariance_mean import UnknownCovarianceMean
from dpverify.mechanisms.variance_aware_mean import VarianceAwareMean
from dpverify.mechanisms.winsorized_mean import WinsorizedMean
from dpverify.plans import Abstained, Chunks, SourceFailed
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
from dpverify.session import Account, Answer, BudgetExceeded, NoAnswer, Session
from dpverify.tables import Boolean, Category, Integer, Number, Table

_loading.ended()

__version__ = "0.1.0"

__all__ = [
    "Abstained",
    "Account",
    "Adjacency",
    "Answer",
    "ApproxDP",
    "ApproximateGaussianDP",
    "BernoulliMean",
    "BinsEstimate",
    "Boolean",
    "BoundedMean",
    "BoundedSum",
    "BudgetExceeded",
    "Category",
    "Chunks",
    "CipherBits",
    "ClippedMean",
    "ComponentsEstimate",
    "Concentrated",
    "CoordinatewiseMean",
    "CountEstimate",
    "CovarianceEstimate",
    "Degenerate",
    "FamilyEstimate",
    "FrequencyEstimate",
    "Gaussian",
    "GaussianCovariance",
    "GaussianDP",
    "GaussianMean",
    "HalfSpace",
    "Histogram",
    "HistogramEstimate",
    "HistogramGaussian",
    "InsideBall",
    "Integer",
    "InterquartileRange",
    "InterquartileRangeEstimate",
    "IterativeMean",
    "KthLargestVariance",
    "LargeVariances",
    "LargeVariancesEstimate",
    "LocationScale",
    "LocationScaleEstimate",
    "MeanEstimate",
    "MediansEstimate",
    "MomentMatrix",
    "MomentMatrixEstimate",
    "NextQuery",
    "NoAnswer",
    "NoisyCount",
    "NormalEstimate",
    "Number",
    "NumberOfReports",
    "OutsideBall",
    "PartitionedProduct",
    "PerfectPrivacy",
    "PrincipalComponents",
    "PrivateQuantile",
    "PrivateQuantiles",
    "ProductDistribution",
    "ProductEstimate",
    "Profile",
    "PureDP",
    "QuantileEstimate",
    "QuantilesEstimate",
    "RandomizedResponse",
    "RangeEstimate",
    "RefinedMean",
    "RegressionEstimate",
    "ReportsEstimate",
    "RescaledMean",
    "Result",
    "RobustMean",
    "RobustMeanEstimate",
    "ScaleEstimate",
    "ScaleFamily",
    "SeededBits",
    "Session",
    "ShapeEstimate",
    "ShareEstimate",
    "SignCovariance",
    "SmoothMedian",
    "SourceFailed",
    "SparseEstimate",
    "SparseVector",
    "StabilityHistogram",
    "SumEstimate",
    "SumOfVariances",
    "SystemBits",
    "Table",
    "TruncatedMle",
    "UnivariateGaussian",
    "UnknownCovarianceMean",
    "VarianceAwareMean",
    "VarianceEstimate",
    "VectorMeanEstimate",
    "WinsorizedMean",
    "ZeroConcentratedDP",
    "calibrate",
    "compose",
    "conjecture",
    "result_from",
]
