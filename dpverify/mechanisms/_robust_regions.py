"""What of a robust mean's regions follows from public and released numbers: bins, balls, the map to cells."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpverify.grid.nearness import Nearness, by_column
from dpverify.mechanisms.clipped_mean import Numbers
from dpverify.mechanisms.refined_mean import _ball
from dpverify.plans import UNIT, Transcript, Transcripts
from dpverify.transformations.means import WeightedCoreMean

MOST_BINS = 256
"""Of each direction; sums over them fit a word."""
_MOST_KNOWN = 1 << 16


def bins_for(record_radius: Fraction) -> int:
    """Bins of at most 4/3 deviations, 24 at least; with a center's noise of half a ball's radius they are narrower
    than the narrowest slab still."""
    return int(min(max(24, 2 * math.ceil(record_radius * Fraction(3, 4))), MOST_BINS))


@lru_cache(maxsize=64)
def nearness_of(deviations: Numbers, radius: Fraction) -> Nearness:
    return by_column(tuple(1 / s for s in deviations), radius)


def balls(core: WeightedCoreMean, share: Fraction, agreed: list[int]) -> list[tuple[Fraction, int]]:
    """The center's unit in cells and the ball's radius after each of these released numbers, computed once."""
    known = _known_balls(core, share)
    if len(known) > _MOST_KNOWN:
        known.clear()
    for one in agreed:
        if one not in known:
            noise, radius = _ball(core, share, (("agreement", one),))
            known[one] = noise / UNIT, radius
    return [known[one] for one in agreed]


@lru_cache(maxsize=16)
def _known_balls(core: WeightedCoreMean, share: Fraction) -> dict[int, tuple[Fraction, int]]:
    return {}


def batch_of(transcript: Transcript) -> Transcripts:
    values = {k: np.array([v], object) for k, v in transcript.released.items()}
    return Transcripts(values, np.array([len(values)], np.intp), np.array([-1], np.intp), ())
