"""A small plan behind a filter, and its law written by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dpverify.grid.nearness import Nearness
from dpverify.grid.retained import below_kept
from dpverify.plans import (
    UNIT,
    Filtered,
    Gate,
    KeptCount,
    KeptMean,
    Law,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
    Unless,
)
from dpverify.privacy import Adjacency, Domain
from dpverify.randomness import enumerate_law
from dpverify.randomness.bits import IntArray
from dpverify.transformations import BasicFilter
from tests.plans.helpers import adaptive, released

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=1)
NEAR = Nearness(1, 0, (1.0,))
FILTER = BasicFilter(NEAR)
FEW = Gate("kept", 1, "too few")
BELOW = below_kept("kept", NEAR)
PAID = Unless(BELOW, Fraction(9999, 10_000))  # numbers here are lowered too little: P(noise >= -9)
COUNT_NOISE = RoundedGaussian(3)
DATA = np.array([[0.0], [1.0], [1.0], [3.0], [-1.0]])
CHANCES = [Fraction(3, 5), Fraction(1, 5), Fraction(1, 5), Fraction(0), Fraction(0)]


class Formal:
    """Stand-ins for exp and for rounded Gaussian noise: other masses for other scales."""

    def __call__(self, exponent: Fraction) -> Fraction:
        raise AssertionError("no coin of exp here")

    def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
        masses = (2, 7, 1) if scale == UNIT else (1, 1, 3)
        return Fraction(masses[z + 1], sum(masses))


def mean(number: int, factor: int = 1) -> Stage:
    return Stage("mean", KeptMean(NEAR, Fraction(5 * factor), number), RoundedGaussian(UNIT))


def number(batch: Transcripts) -> IntArray:
    counts: IntArray = batch.values["kept"][:, 0]
    return counts


def inner(shift: int) -> Plan:
    kept = Stage("kept", KeptCount(NEAR, shift), COUNT_NOISE)
    return (kept, FEW, adaptive(mean(1), ("kept",), number, mean, (BELOW,)), PAID)


def plan(shift: int) -> Plan:
    return (Filtered("core", FILTER, inner(shift)),)


Law_ = dict[Hashable, Fraction]


def by_hand(shift: int, *, needs_some: bool = True) -> Law_:
    """Over all sets that may be kept: ((number,), (mean,)) or what a stopped draw has released."""
    masses: Law_ = defaultdict(Fraction)
    values = [0, 1, 1, 3, -1]
    for kept in product((False, True), repeat=5):
        mass = Fraction(1)
        for chosen, chance in zip(kept, CHANCES, strict=True):
            mass *= chance if chosen else 1 - chance
        core = [v for v, chosen in zip(values, kept, strict=True) if chosen]
        for z in (-1, 0, 1):
            shown = len(core) - shift + z
            here = mass * Formal().rounded_gaussian(z, Fraction(3))
            if shown < 1 or (needs_some and not core):
                masses[((shown,),), "too few"] += here
                continue
            noise = Fraction(2 * 1 * 5, shown)
            center = round(2**40 * Fraction(sum(core), max(1, len(core))) / noise)
            for y in (-1, 0, 1):
                outcome = ((shown,), (center + y,)), None
                masses[outcome] += here * Formal().rounded_gaussian(y, UNIT)
    return {outcome: mass for outcome, mass in masses.items() if mass}


def enumerated(law: Law) -> Law_:
    def run(bits: Any) -> Hashable:
        transcript = law.sample(bits, 1)[0]
        return released(transcript), transcript.stopped

    enumeration = enumerate_law(run, max_choices=20, exponential=Formal())
    assert enumeration.undecided == 0
    return enumeration.masses
