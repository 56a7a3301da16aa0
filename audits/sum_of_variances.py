"""Attacks on ``sum_of_variances``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, SumOfVariances
from dpverify.audit import Configuration, SmallInstance

from ._group_votes import Crafted, configuration, rates

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_ONE: dict[str, Any] = {"d": 2, "over": (1,), "delta": "0.05", "groups": 40}

CONFIGURATIONS: Sequence[Configuration] = (
    configuration(
        "gaussian",
        SumOfVariances(adjacency=_ADD, noise_multiplier=Fraction(1), noise="gaussian", **_ONE),
    ),
)

_CROWDS = SumOfVariances(
    adjacency=_ADD, noise_multiplier=Fraction(1, 2), d=2, delta=Fraction(3, 10), groups=25, key=5
)
_THREE = SumOfVariances(
    adjacency=_REPLACE, noise_multiplier=Fraction(1, 4), d=3, over=(0, 2), delta=Fraction(3, 10),
    groups=7, key=1, noise="gaussian", cell=Fraction(1, 4),
)  # fmt: skip

SMALL = (
    SmallInstance(
        name="12 and 13 groups, laplace", mechanism=_CROWDS, data=Crafted(_CROWDS).groups(12, 13)
    ),
    SmallInstance(
        name="seven groups, gaussian, replace",
        mechanism=_THREE,
        data=((0.0, 3.0, 1.0), (0.5, 9.0, 8.0), (1.5, 1e308, 0.125), (0.5, 9.0, 8.0)) * 3,
    ),
)

RATES = rates(SumOfVariances, 2.0, over=(0,))
