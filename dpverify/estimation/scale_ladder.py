"""Private choice of a radius, on a ladder of public radii about the stated one, by votes of
pairs of records.

Pairs vote for the rung from which on they are friends. Their noisy numbers are released, and
the rung follows from these. The mean of records that agree then runs as a part with that rung's
radius, which is a public number by then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dpverify.grid.groups import MOST_GROUPS
from dpverify.grid.linear import Integers, largest
from dpverify.grid.nearness import Nearness
from dpverify.grid.pair_rungs import PairRungs
from dpverify.grid.shapes import shape_of
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
from dpverify.plans.parameters import Rational, positive
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import ROOT_OF_TWO, exact, root_down
from dpverify.randomness.bits import IntArray

VOTES = Handle("rungs")
ON_RUNG = "on rung"
BELOW, ABOVE = 4, 6
"""Numbers of rungs below and above the stated radius; each is half or twice the one before it."""
_SHARE = Fraction(1, 20)
_GROUPS_PER_RECORD = Fraction(5, 9)
_VOTES_PER_RECORD = {Adjacency.ADD_REMOVE: Fraction(29, 100), Adjacency.REPLACE: Fraction(1, 2)}
_PLAIN = 4
"""Standard deviations from which on a number is taken for more than noise."""
_LEAST, _SURE, _ENOUGH = 10, 20, 16
"""Standard deviations of noise: all votes together need the first to decide anything, and the
second to make the radius smaller; their expected number needs the third for a ladder to be
useful.
"""

_WORD = 1 << 40
"""Bound on numbers of votes: below it sums and multiples fit words of 64 bits."""

LadderMultiplier = Annotated[Rational, positive()] | None
"""Noise multiplier of the votes; None for no ladder: the stated radius is used."""


def ladder_plan(mechanism: Any, nearness: Nearness, multiplier: Fraction) -> Plan:
    """Build the votes' stage, and as a part the same mechanism on the rung that they decide."""

    def part(k: int) -> Part:
        return Part(ON_RUNG, on_rung(mechanism, k).fixed_plan)

    groups = min(MOST_GROUPS, math.ceil(_GROUPS_PER_RECORD * mechanism.n_max))
    query = PairRungs(nearness, BELOW, ABOVE, mechanism.adjacency, groups)
    scale = ROOT_OF_TWO * multiplier
    votes = Stage(VOTES, query, RoundedGaussian(scale))
    rungs = Released((VOTES,), lambda before: chosen_rungs(before[VOTES], scale)[:, np.newaxis])
    _check_rung(mechanism, -BELOW)
    stated = part(0)  # what does not depend on radii is refused here
    _check_rung(mechanism, ABOVE)
    return votes, Adaptive(stated, rungs, lambda row: part(row[0]))


@lru_cache(maxsize=64)
def on_rung(mechanism: Any, k: int) -> Any:
    """Build the same mechanism without a ladder, with its radii times 2^k."""
    return replace(mechanism, ladder_multiplier=None, budget=None, **_radii(mechanism, k))


def _radii(mechanism: Any, k: int) -> dict[str, Fraction]:
    """Return the mechanism's radii times 2^k, by name."""
    names = [name for name in ("radius", "record_radius") if hasattr(mechanism, name)]
    return {name: exact(getattr(mechanism, name), name) * Fraction(2) ** k for name in names}


def _check_rung(mechanism: Any, k: int) -> None:
    """Refuse, before any data, a rung that no grid serves.

    This makes all that a mechanism checks of its radii, without the mechanism: every search for
    noise would build one for each of its steps. Raises ValueError.
    """
    radii = {name: exact(radius, name) for name, radius in _radii(mechanism, k).items()}
    shape_of(mechanism.matrix, mechanism.origin)[1].nearness(radii["radius"])


def rung_of(transcript: Transcripts, multiplier: Fraction) -> int:
    """Read from one transcript the rung that its votes decided."""
    return int(chosen_rungs(transcript[VOTES], ROOT_OF_TWO * multiplier)[0])


def chosen_rungs(votes: Integers, scale: Fraction) -> IntArray:
    """Choose for each row of released votes the rung of about the least noise, shape (size,).

    The choice is 0, the stated radius, where there are few votes, and unless another rung is
    plainly better. The noise on rung k is in proportion to 2^k / (1 - 4 p), with p the share of
    pairs that are not friends there, less an eighth for the agreement's shift. Above the stated
    radius numbers count from ``_PLAIN`` standard deviations on, so that noise alone moves
    nothing; below it every positive number does, so that noise alone makes no radius too small.
    No radius below the stated one is chosen where some pairs plainly need a larger one:
    otherwise skewed records far from the bulk would be lost, however many records there are.
    """
    rows = votes.astype(np.int64 if largest(votes) < _WORD else object)
    total, plain = rows.sum(axis=1), math.ceil(_PLAIN * scale)
    above = rows[:, BELOW + 1 :]
    surely = np.where(above >= plain, above, 0).sum(axis=1)
    left, few = {}, {}
    for k in range(-BELOW, ABOVE + 1):
        beyond = rows[:, k + BELOW + 1 :]
        least = plain if k >= 0 else 1
        left[k] = 7 * total - 32 * np.where(beyond >= least, beyond, 0).sum(axis=1)
        few[k] = surely + rows[:, k + BELOW + 1 : BELOW + 1].sum(axis=1) <= plain
    none = np.zeros(len(rows), np.int64)
    # cost: the factor 2^k; room: what is left
    chosen, cost, room = none + ABOVE, none, none.astype(rows.dtype)
    sure = total >= math.ceil(_SURE * scale)
    for k, room_here in left.items():
        here = room_here if k >= 0 else np.where(sure & few[k], room_here, 0)
        weight = 1 << (k + BELOW)
        better = (here > 0) & ((room <= 0) | (weight * room < cost * here))
        chosen, cost = np.where(better, k, chosen), np.where(better, weight, cost)
        room = np.where(better, here, room)
    # without a quarter less noise the stated radius stays
    stays = (left[0] > 0) & (4 * cost * left[0] > 3 * room * (1 << BELOW))
    return np.asarray(np.where(stays | (total < math.ceil(_LEAST * scale)), 0, chosen), np.int64)


def default_ladder(
    mu_squared: Fraction, adjacency: Adjacency, n_max: int
) -> tuple[Fraction | None, Fraction]:
    """Choose the votes' multiplier, and return it with what it leaves of mu^2; None where so
    many records have too few pairs.

    The votes get a 20th of mu^2, however many records there are, because the share of records
    lost on a lower rung is in proportion to the noise.
    """
    pairs = _VOTES_PER_RECORD[adjacency] * n_max
    multiplier = root_down(1 / (mu_squared * _SHARE), 30) + Fraction(1, 1 << 30)
    if pairs < _ENOUGH * ROOT_OF_TWO * multiplier:
        return None, mu_squared
    return multiplier, mu_squared - 1 / multiplier**2
