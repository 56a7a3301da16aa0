"""Attacks on ``randomized_response``."""

from __future__ import annotations

from fractions import Fraction

from dpverify import Adjacency, PureDP, RandomizedResponse
from dpverify.audit import Configuration, SmallInstance, replaced

_REPLACE = Adjacency.REPLACE

CONFIGURATIONS = (
    Configuration(
        name="yes-no",
        mechanism=RandomizedResponse.for_budget(PureDP(1), adjacency=_REPLACE, categories=2),
        pairs=(
            replaced("one of three changes", [0, 0, 1], 1),
            replaced("the only answer", [1], 0),
            replaced("beyond the categories", [0, 1], 1e308),
        ),
    ),
    Configuration(
        name="five-categories",
        mechanism=RandomizedResponse.for_budget(PureDP(2), adjacency=_REPLACE, categories=5),
        pairs=(
            replaced("from the first to the last", [0, 1, 2], 4),
            replaced("to the nearest", [3, 3], 2.4),
        ),
    ),
)

SMALL = (
    SmallInstance(
        name="two answers of two",
        mechanism=RandomizedResponse(
            adjacency=_REPLACE, noise_multiplier=Fraction(1), categories=2
        ),
        data=(0.0, 9.0),
    ),
    SmallInstance(
        name="two answers of three",
        mechanism=RandomizedResponse(
            adjacency=_REPLACE, noise_multiplier=Fraction(2, 5), categories=3
        ),
        data=(1.5, 2.5),
    ),
)
