"""Attacks on ``number_of_reports``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpverify import Adjacency, ApproxDP, NumberOfReports
from dpverify.audit import Configuration, SmallInstance

from ._group_votes import Crafted, configuration, rates

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

CONFIGURATIONS: Sequence[Configuration] = (
    configuration(
        "one-or-two",
        NumberOfReports.for_budget(
            ApproxDP(1, "0.031"), adjacency=_ADD, delta="0.031", d=3, groups=40
        ),
    ),
)

_CROWDS = NumberOfReports(
    adjacency=_ADD, noise_multiplier=Fraction(1, 2), d=3, delta=Fraction(3, 10), groups=25
)
_FIVE = NumberOfReports(
    adjacency=_REPLACE, noise_multiplier=Fraction(1, 4), d=4, delta=Fraction(3, 10), groups=5,
    noise="gaussian", cell=Fraction(1),
)  # fmt: skip

SMALL = (
    SmallInstance(
        name="12 and 13 groups, laplace", mechanism=_CROWDS, data=Crafted(_CROWDS).groups(12, 13)
    ),
    SmallInstance(
        name="five groups, gaussian, replace",
        mechanism=_FIVE,
        data=(
            (0.0, 3.0, 0.0, 1.0), (500.0, 9.0, 0.0, 1.0), (1.5, 1e308, 2.0, 0.0),
            (-1e308, 5e-324, 2.0, 9.0), (0.5, 9.0, 9.0, 9.0), (40.0, 1.0, 0.0, 0.0),
        ) * 2,
    ),
)  # fmt: skip

RATES = rates(NumberOfReports, 1.0)
