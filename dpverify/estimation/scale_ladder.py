"""A radius found privately, on a ladder of public radii about the stated one, by votes of pairs of records.

Pairs say from which rung on they are friends. What is released are their noisy numbers; which rung follows from these,
and the mean of records that agree runs as a part with that rung's radius, a public number by then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.grid.groups import MOST_GROUPS
from dpverify.grid.nearness import Nearness
from dpverify.grid.pair_rungs import PairRungs
from dpverify.plans import (
    Adaptive,
    Handle,
    Part,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import positive
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import ROOT_OF_TWO, exact, root_down, to_float
from dpverify.randomness.bits import IntArray

VOTES = Handle("rungs")
ON_RUNG = "on rung"
BELOW, ABOVE = 4, 4
"""Rungs under and over the stated radius, each half or twice the one before it."""
_SHARE = Fraction(1, 20)
_GROUPS_PER_RECORD = Fraction(5, 9)
_VOTES_PER_RECORD = {Adjacency.ADD_REMOVE: 0.29, Adjacency.REPLACE: 0.5}
_PLAIN = 4
"""Standard deviations from which on a number is taken for more than noise."""
_ENOUGH = 8
"""Standard deviations that the expected number of pairs needs, for a ladder to be of use."""

LadderMultiplier = Annotated[Fraction, positive()] | None
"""The noise multiplier of the votes; None for no ladder: the stated radius is used."""


def ladder_plan(mechanism: Any, nearness: Nearness, multiplier: Fraction) -> Plan:
    """Build the votes' stage, and as a part the same mechanism on the rung that they decide."""

    def part(k: int) -> Part:
        return on_rung(mechanism, k).part(ON_RUNG)

    groups = min(MOST_GROUPS, math.ceil(_GROUPS_PER_RECORD * mechanism.n_max))
    query = PairRungs(nearness, BELOW, ABOVE, mechanism.adjacency, groups)
    votes = Stage(VOTES, query, RoundedGaussian(ROOT_OF_TWO * multiplier))
    rungs = Released((VOTES,), lambda before: _rungs(before, votes.noise.scale))
    for k in (-BELOW, ABOVE):  # refuses what no grid serves, before any data
        part(k)
    return votes, Adaptive(part(0), rungs, lambda row: part(row[0]))


@lru_cache(maxsize=64)
def on_rung(mechanism: Any, k: int) -> Any:
    """Make the same mechanism without a ladder, with its radii times 2^k."""
    radii = [name for name in ("radius", "record_radius") if hasattr(mechanism, name)]
    scaled = {name: exact(getattr(mechanism, name), name) * Fraction(2) ** k for name in radii}
    return replace(mechanism, ladder_multiplier=None, budget=None, **scaled)


def rung_of(transcript: Transcripts, multiplier: Fraction) -> int:
    """Read from one transcript which rung its votes decided."""
    return int(_rungs(transcript, ROOT_OF_TWO * multiplier)[0, 0])


def _rungs(before: Transcripts, scale: Fraction) -> IntArray:
    rows = before[VOTES].tolist()
    return np.array([[chosen_rung(row, scale)] for row in rows], np.int64)


def chosen_rung(votes: list[int], scale: Fraction) -> int:
    """Choose the rung of about the least noise from released numbers of votes; 0, the stated one, unless another is plain.

    The noise on rung k is in proportion to 2^k / (1 - 4 p), p the share of pairs that are no friends there, less an eighth
    for the agreement's shift. Above the stated radius numbers count from ``_PLAIN`` standard deviations on, so that noise
    alone moves nothing; below it every positive number does, so that noise alone makes no radius too small.
    """
    total, plain = sum(votes), math.ceil(_PLAIN * scale)
    if total <= 0:
        return 0

    def left(k: int) -> int:
        beyond = votes[k + BELOW + 1 :]
        lost = sum(v for v in beyond if v >= (plain if k >= 0 else 1))
        return 7 * total - 32 * lost

    rungs = [k for k in range(-BELOW, ABOVE + 1) if left(k) > 0]
    if not rungs:
        return ABOVE
    best = min(rungs, key=lambda k: Fraction(2) ** k / left(k))
    # a quarter less noise, or the stated radius stays
    stays = left(0) > 0 and 4 * Fraction(2) ** best * left(0) > 3 * left(best)
    return 0 if stays else best


def default_ladder(
    mu_squared: Fraction, adjacency: Adjacency, n_max: int
) -> tuple[Fraction | None, Fraction]:
    """Give the votes a 20th of mu^2, and what is left of it; None where so many records have too few pairs for a vote."""
    multiplier = root_down(1 / (mu_squared * _SHARE), 30) + Fraction(1, 1 << 30)
    pairs = _VOTES_PER_RECORD[adjacency] * n_max
    if pairs < _ENOUGH * to_float(ROOT_OF_TWO * multiplier):
        return None, mu_squared
    return multiplier, mu_squared - 1 / multiplier**2
