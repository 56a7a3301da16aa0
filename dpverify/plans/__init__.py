"""The shape that mechanisms share: plans of stages, their laws, and the one implementation."""

from dpverify.plans.above_threshold import AboveThreshold
from dpverify.plans.filtering import Core, CoreQuery, Filter
from dpverify.plans.gaussian import UNIT, RoundedGaussian
from dpverify.plans.kept import KeptCount, KeptMean
from dpverify.plans.law import Law
from dpverify.plans.mechanism import Abstained, Mechanism
from dpverify.plans.noise import DiscreteLaplace, KaryResponse, Noise, NoNoise
from dpverify.plans.plan import AdaptiveStage, Filtered, Gate, Plan, Stage, Unless, stages_of
from dpverify.plans.selection import QuantileChoice, QuantileChoices
from dpverify.plans.smooth import SmoothNoise
from dpverify.plans.thresholds import (
    ThresholdedGaussian,
    ThresholdedLaplace,
    least_threshold,
    rarely_surfacing,
)
from dpverify.plans.transcripts import Transcript, Transcripts

__all__ = [
    "UNIT",
    "AboveThreshold",
    "Abstained",
    "AdaptiveStage",
    "Core",
    "CoreQuery",
    "DiscreteLaplace",
    "Filter",
    "Filtered",
    "Gate",
    "KaryResponse",
    "KeptCount",
    "KeptMean",
    "Law",
    "Mechanism",
    "NoNoise",
    "Noise",
    "Plan",
    "QuantileChoice",
    "QuantileChoices",
    "RoundedGaussian",
    "SmoothNoise",
    "Stage",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "Transcript",
    "Transcripts",
    "Unless",
    "least_threshold",
    "rarely_surfacing",
    "stages_of",
]
