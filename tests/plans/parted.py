"""Records, and plans that tests put into other plans."""

from __future__ import annotations

from fractions import Fraction

from dpverify.grid import Transcripts
from dpverify.grid.nearness import Nearness
from dpverify.plans import Part
from dpverify.randomness.bits import IntArray
from dpverify.transformations.means import WeightedCoreMean
from tests.plans.nested import ADD, twice

DATA = [0.5, 3.0, 1.0, -9.0]
NEAR = Nearness(4, 0, (1.0,))


def asked(row: tuple[int, ...]) -> Part:
    """Return a part whose noise doubles after a 1."""
    return Part("p", twice(1 + row[0], reason="p"))


def side(before: Transcripts) -> IntArray:
    return before["side"]


CORE = WeightedCoreMean(ADD, NEAR, Fraction(1), 2000, Fraction(1, 10**6))
