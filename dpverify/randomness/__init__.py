"""Sources of bits, exact coins and samplers, and their enumeration."""

from dpverify.randomness.bits import Bits, SeededBits, SystemBits
from dpverify.randomness.choice import Choice, weighted_choice
from dpverify.randomness.cipher import CipherBits
from dpverify.randomness.enumeration import EnumeratedBits, EnumeratedLaw, enumerate_law
from dpverify.randomness.rounded import RoundedLaplace, rounded_laplace
from dpverify.randomness.samplers import (
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_by_coins,
    randomized_response,
    rounded_gaussian,
)

__all__ = [
    "Bits",
    "Choice",
    "CipherBits",
    "EnumeratedBits",
    "EnumeratedLaw",
    "RoundedLaplace",
    "SeededBits",
    "SystemBits",
    "discrete_gaussian",
    "discrete_laplace",
    "discrete_laplace_by_coins",
    "enumerate_law",
    "randomized_response",
    "rounded_gaussian",
    "rounded_laplace",
    "weighted_choice",
]
