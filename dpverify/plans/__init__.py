"""Shape that mechanisms share: plans of stages, their laws, and the one implementation."""

from dpverify.grid.retained import KeptCount, KeptMean
from dpverify.grid.transcripts import Handle, Released, Transcripts
from dpverify.plans.above_threshold import AboveThreshold
from dpverify.plans.block_choices import BlockChoices
from dpverify.plans.chunks import Chunks, SourceFailed
from dpverify.plans.filtering import Filter
from dpverify.plans.gaussian import UNIT, RoundedGaussian
from dpverify.plans.law import Law
from dpverify.plans.mechanism import Abstained, Mechanism, laws_on
from dpverify.plans.noise import DiscreteLaplace, KaryResponse, Noise, NoNoise
from dpverify.plans.plan import Adaptive, Blocks, Filtered, Part, Plan, stages_of
from dpverify.plans.selection import QuantileChoice, QuantileChoices
from dpverify.plans.smooth import SmoothNoise
from dpverify.plans.stages import Gate, Stage, Unless
from dpverify.plans.thresholds import (
    LaplaceTest,
    ThresholdedGaussian,
    ThresholdedLaplace,
    least_threshold,
    rarely_surfacing,
)

__all__ = [
    "UNIT",
    "AboveThreshold",
    "Abstained",
    "Adaptive",
    "BlockChoices",
    "Blocks",
    "Chunks",
    "DiscreteLaplace",
    "Filter",
    "Filtered",
    "Gate",
    "Handle",
    "KaryResponse",
    "KeptCount",
    "KeptMean",
    "LaplaceTest",
    "Law",
    "Mechanism",
    "NoNoise",
    "Noise",
    "Part",
    "Plan",
    "QuantileChoice",
    "QuantileChoices",
    "Released",
    "RoundedGaussian",
    "SmoothNoise",
    "SourceFailed",
    "Stage",
    "ThresholdedGaussian",
    "ThresholdedLaplace",
    "Transcripts",
    "Unless",
    "laws_on",
    "least_threshold",
    "rarely_surfacing",
    "stages_of",
]
