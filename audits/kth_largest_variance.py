"""Attacks on ``kth_largest_variance``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, ApproxDP, KthLargestVariance
from dpverify.audit import Configuration, SmallInstance

from ._group_votes import Crafted, configuration, rates

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_SECOND: dict[str, Any] = {"d": 2, "k": 2, "groups": 40}

CONFIGURATIONS: Sequence[Configuration] = (
    configuration(
        "second-of-two",
        KthLargestVariance.for_budget(
            ApproxDP(1, "0.031"), adjacency=_ADD, delta="0.031", **_SECOND
        ),
    ),
    configuration(  # the worst new bucket has two votes, for e^(epsilon / 4) is above 2
        "second-of-two",
        KthLargestVariance.for_budget(
            ApproxDP(4, "0.05"), adjacency=_REPLACE, delta="0.05", **_SECOND
        ),
    ),
)

_CROWDS = KthLargestVariance(
    adjacency=_ADD, noise_multiplier=Fraction(1, 2), d=1, delta=Fraction(3, 10), groups=25
)
_TWO_KINDS = KthLargestVariance(
    adjacency=_REPLACE, noise_multiplier=Fraction(1, 4), d=2, delta=Fraction(3, 10), groups=5,
    noise="gaussian", cell=Fraction(1),
)  # fmt: skip

SMALL = (
    SmallInstance(
        name="12 and 13 groups, laplace", mechanism=_CROWDS, data=Crafted(_CROWDS).groups(12, 13)
    ),
    SmallInstance(
        name="five groups, gaussian, replace",
        mechanism=_TWO_KINDS,
        data=((0.0, 3.0), (0.5, 9.0), (1.5, 1e308), (-1e308, 5e-324), (0.5, 9.0), (40.0, 1.0)) * 2,
    ),
)

RATES = rates(KthLargestVariance, 2.0)
