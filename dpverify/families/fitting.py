"""Fits of a location-scale law to given moments in an interval, by Newton's method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpverify.families.location_scale import Interval, LocationScaleFamily
from dpverify.privacy.numbers import Floats

_STEPS = 60
_HALVINGS = 12
_LONGEST = 0.5  # longest step, in scales and in the logarithm of the scale
_SMALL = 1e-10
_FLAT = 1e-12


@dataclass(frozen=True, slots=True)
class Near:
    """Laws near one law: the location within ``far`` scales, the scale within a ``factor``."""

    location: float
    scale: float
    far: float
    factor: float

    def nearest(self, location: float, log: float) -> tuple[float, float]:
        """Clamp a location and the logarithm of a scale."""
        most, own = math.log(self.factor), math.log(self.scale)
        reach = self.far * self.scale
        return (
            min(max(location, self.location - reach), self.location + reach),
            min(max(log, own - most), own + most),
        )


def fitted(
    family: LocationScaleFamily, means: Floats, where: Interval, near: Near
) -> tuple[float, float] | None:
    """Compute the location and the scale of the law near one that has these two moments.

    None where Newton's method finds none. Steps are at most half a scale and half a natural
    unit of its logarithm, and are halved until the moments come nearer.
    """
    place, log = near.nearest(near.location, math.log(near.scale))
    at = family.moments(place, math.exp(log), where)
    for _ in range(_STEPS):
        off = means - at.means
        if not abs(np.linalg.det(at.slopes)) > _FLAT:
            return None
        step = np.linalg.solve(at.slopes, off)
        size = float(np.abs(step).max())
        if not math.isfinite(size):
            return None
        if size < _SMALL:
            return place, math.exp(log)
        share = min(1.0, _LONGEST / size)
        for _ in range(_HALVINGS):
            later = near.nearest(
                place + share * float(step[0]) * math.exp(log), log + share * float(step[1])
            )
            moved = family.moments(later[0], math.exp(later[1]), where)
            if np.linalg.norm(means - moved.means) < np.linalg.norm(off):
                break
            share /= 2
        else:  # the search has met the rounding of the integrals, or fails
            return (place, math.exp(log)) if size < math.sqrt(_SMALL) else None
        if later == (place, log):
            return None
        (place, log), at = later, moved
    return None
