"""Attacks on ``noisy_count``."""

from __future__ import annotations

from fractions import Fraction

from dpverify import Adjacency, NoisyCount, PureDP
from dpverify.audit import Configuration, SmallInstance, added, replaced

_TALL = (180.0, 1e308)
_ALTERNATING = [190.0, 150.0] * 10

CONFIGURATIONS = (
    Configuration(
        name="all",
        mechanism=NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE),
        pairs=(
            added("nobody against somebody", [], 170.0),
            added("one more of the same", [170.0] * 7, 170.0),
            added("an extreme record", [170.0] * 7, -1e308, at=3),
        ),
    ),
    Configuration(
        name="within",
        mechanism=NoisyCount.for_budget(
            PureDP("0.5"), adjacency=Adjacency.ADD_REMOVE, within=_TALL
        ),
        pairs=(
            added("one more inside", [170.0] * 7, 190.0),
            added("exactly on the bound", [170.0] * 7, 180.0, at=7),
            added("everything shifts by a place", _ALTERNATING, 190.0),
            added("everything shifts, the other way", _ALTERNATING, 150.0),
            added("nobody against somebody", [], 190.0),
        ),
    ),
    Configuration(
        name="within",
        mechanism=NoisyCount.for_budget(PureDP(2), adjacency=Adjacency.REPLACE, within=_TALL),
        pairs=(
            replaced("one comes in", [170.0] * 7, 190.0),
            replaced("by the smallest step", [170.0] * 6 + [179.99999999999997], 180.0, at=6),
        ),
    ),
)


def _small(scale: Fraction) -> NoisyCount:
    return NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=scale, within=(0.0, 1.0))


SMALL = (
    SmallInstance(
        name="scale 1",
        mechanism=_small(Fraction(1)),
        data=(0.5, -0.0, 2.0),
        max_choices=20,
    ),
    SmallInstance(
        name="scale 3/2",
        mechanism=_small(Fraction(3, 2)),
        data=(),
        max_choices=20,
    ),
    SmallInstance(
        name="scale 4/3",
        mechanism=_small(Fraction(4, 3)),
        data=(1.0, 5e-324),
        max_choices=20,
    ),
)
