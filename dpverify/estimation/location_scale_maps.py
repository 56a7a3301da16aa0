"""Checked calls of a location-scale family's code: its records and parameters as floats,
whatever that code returns.
"""

from __future__ import annotations

import math

import numpy as np

from dpverify.families import LocationScaleFamily
from dpverify.privacy.numbers import Floats

LARGEST = 1.7e308
"""Largest absolute value of an edge."""
_PLACES = 1 << 12  # places of the range at which records are computed
_FINEST = 2.0**-48


def records_at(family: LocationScaleFamily, t: Floats) -> Floats:
    """Compute the records at these t as plain floats, at most 1.7e308; NaN becomes 0.

    Comparing records with objects, or with an array of another kind, would run the family's
    code.
    """
    records = np.array(family.record(t), np.float64)
    return np.clip(np.nan_to_num(records), -LARGEST, LARGEST)


def check_law(family: LocationScaleFamily) -> None:
    """Refuse, with ValueError, a family whose standard law has no deviation or median distance."""
    try:
        own = family.constants()
        good = all(map(math.isfinite, own)) and min(own.deviation, own.distance) > 0
    except (ValueError, OverflowError, ZeroDivisionError):
        good = False
    if not good:
        raise ValueError(
            f"family = {family!r}: its log_density has no finite mean, deviation and median over "
            "its window, or a deviation or median distance that is 0 to the nearest 2^-10. Give a "
            "window that holds the standard law closely, and a density of about 1 there."
        )


def check_records(family: LocationScaleFamily, low: float, high: float) -> None:
    """Refuse, with ValueError, a family whose records between are not an array of as many
    numbers.
    """
    t = np.linspace(low, high, _PLACES)
    records = np.array(family.record(t), np.float64)
    if records.shape != t.shape or np.isnan(records).any():
        raise ValueError(
            f"family = {family!r}: record(t) of {len(t)} numbers in the public ranges has shape "
            f"{records.shape} and {int(np.isnan(records).sum())} NaN; give one number for each."
        )


def textbook_of(
    family: LocationScaleFamily, location: float, scale: float
) -> tuple[tuple[float, float], Floats]:
    """Compute the two parameters and their derivatives by the location, in scales, and by the
    logarithm of the scale, by central differences, shape (2, 2); infinite beyond the floats.
    """
    step = 1e-6

    def at(across: float, along: float) -> tuple[float, float]:
        first, second = family.textbook(location + across * scale, scale * math.exp(along))
        return float(first), float(second)

    try:
        value = at(0.0, 0.0)
        pairs = [(at(step, 0.0), at(-step, 0.0)), (at(0.0, step), at(0.0, -step))]
    except (ValueError, OverflowError, ZeroDivisionError):
        return (math.inf, math.inf), np.full((2, 2), math.inf)
    columns = [(np.array(up) - np.array(down)) / (2 * step) for up, down in pairs]
    return value, np.stack(columns, axis=1)


def shortest(low: float, high: float, scale: float) -> float:
    """Return the least length of an interval for which its cells and its moments are numbers."""
    ends = (min(abs(end), LARGEST) for end in (low, high))
    return _FINEST * max(scale, *ends)
