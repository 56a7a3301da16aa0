"""Numerics of composed guarantees: a profile, the epsilon of a delta, a trade-off curve.

Everything that computes with privacy losses is behind these functions; each answer is an
enclosure.
"""

from dpverify.privacy.numerics.composing import delta, is_at_most
from dpverify.privacy.numerics.searching import epsilon, tradeoff

__all__ = ["delta", "epsilon", "is_at_most", "tradeoff"]
