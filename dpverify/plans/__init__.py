"""The shape that mechanisms share: plans of stages, their laws, and the one implementation."""

from dpverify.plans.law import Law
from dpverify.plans.mechanism import Abstained, Mechanism
from dpverify.plans.noise import DiscreteLaplace, KaryResponse, Noise, NoNoise
from dpverify.plans.plan import AdaptiveStage, Gate, Plan, Stage, stages_of
from dpverify.plans.transcripts import Transcript, Transcripts

__all__ = [
    "Abstained",
    "AdaptiveStage",
    "DiscreteLaplace",
    "Gate",
    "KaryResponse",
    "Law",
    "Mechanism",
    "NoNoise",
    "Noise",
    "Plan",
    "Stage",
    "Transcript",
    "Transcripts",
    "stages_of",
]
