"""Searches for a location-scale law: over public ranges, by the records' median and by their
median distance from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpverify.families import LocationScaleFamily
from dpverify.plans.search import MOST_STEPS, Search

_FINEST = 2  # places of the first search in the distance that the smallest scale has
_PER_OCTAVE = 4  # places of the second search in an octave
_EXTRA_STEPS = 3  # steps for thresholds near the median in the first search; the second has 1
_MOST_SCALE, _FINE = 2.0**400, 2.0**-40


@dataclass(frozen=True, slots=True)
class Searched:
    """Ranges of the searches: the ends of medians and of logarithms of scales, and the standard
    law's median distance.
    """

    low: float
    high: float
    least: float
    most: float
    distance: float

    def searches(self) -> tuple[Search, Search]:
        """Build both searches: down to halves of the distance that the smallest scale has, and
        to quarter octaves of scales, with extra steps.
        """
        return _searches_of(self)

    def median(self, middle: int) -> float:
        """Return the t at which the first search looks."""
        share = middle / 2.0 ** (self.searches()[0].steps + 1) + 0.5
        return self.low + (self.high - self.low) * share

    def scale(self, middle: int) -> float:
        """Return the scale at which the second search looks."""
        share = middle / 2.0 ** (self.searches()[1].steps + 1) + 0.5
        return math.exp(self.least + (self.most - self.least) * share)


@lru_cache(maxsize=64)
def _searches_of(own: Searched) -> tuple[Search, Search]:
    fine = math.exp(own.least) * own.distance
    sides = max(1, math.ceil(math.log2(_FINEST * (own.high - own.low) / fine)))
    spreads = max(1, math.ceil(math.log2(_PER_OCTAVE * (own.most - own.least) / math.log(2))))
    return Search("side", 1, sides + _EXTRA_STEPS), Search("spread", 1, spreads + 1)


@lru_cache(maxsize=64)
def searched_of(
    family: LocationScaleFamily, ranges: tuple[tuple[float, float], tuple[float, float]]
) -> Searched | None:
    """Compute the ranges of the searches for public ranges of both parameters; None where the
    family lacks some of these, or for more places than a search has.
    """
    try:
        laws = [family.standard(first, second) for first in ranges[0] for second in ranges[1]]
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    places, scales = zip(*laws, strict=True)
    low, high, least, most = min(places), max(places), min(scales), max(scales)
    if not all(map(math.isfinite, (low, high, least, most))):
        return None
    fits = low < high and 1 / _MOST_SCALE <= least < most <= _MOST_SCALE
    if not fits or least < _FINE * max(abs(low), abs(high)):
        return None
    own = family.constants()
    ends = [place + scale * own.median for place in (low, high) for scale in (least, most)]
    searched = Searched(min(ends), max(ends), math.log(least), math.log(most), own.distance)
    places_of = math.log2((searched.high - searched.low) / (least * own.distance))
    if places_of + math.log2(_FINEST) + _EXTRA_STEPS > MOST_STEPS - 1:
        return None
    return searched
