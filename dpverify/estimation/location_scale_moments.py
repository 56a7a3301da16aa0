"""Two moments of a record from released sums of them: exact, whatever was released."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.location_scale_frames import PARTS
from dpverify.estimation.whitening import octaves
from dpverify.grid.linear import Integers
from dpverify.grid.rounding import rounded_quotients
from dpverify.grid.step_moments import StepMoments
from dpverify.privacy.numbers import Floats, to_float

_FARTHEST = Fraction(10**6)
_MOST = 1e18  # largest number of records


def rounded_moments(
    query: StepMoments, per: Fraction, values: Integers, public: Integers | None, least: int
) -> list[Integers]:
    """Compute both moments of each row to the nearest 1/64, in the range that they can have, and
    the quarter octave of the number of records; -128 for fewer than half of ``least`` of these.

    per: the unit of a released value, in the query's unit. public: the numbers of records,
    where they are not released.
    """
    numbers = values[:, 2] if public is None else public
    known = in_units(numbers, per / query.weight if public is None else Fraction(1))
    numbers, sums = numbers.astype(object), values.astype(object)
    top, base = (query.weight, 1) if public is None else (per.numerator, per.denominator)
    good = np.asarray(numbers > 0, np.bool_) & (2 * known >= least)
    below = np.where(good, numbers, 1) * base
    first = rounded_quotients(sums[:, 0] * (top * PARTS), below * (query.linear * query.cells))
    own = sums[:, 1] * (top * PARTS) + below * (query.square * query.offset * PARTS)
    second = rounded_quotients(own, below * (query.square * query.cells**2))
    turn = query.turn * PARTS // query.cells
    both = np.stack([np.clip(first, -turn, turn), np.clip(second, 0, PARTS)])
    both[:, ~good] = -2 * PARTS
    return [*both.astype(np.int64), octaves(np.clip(known, least, _MOST))]


def moments_of(
    query: StepMoments, sums: list[Fraction], public: int | None
) -> tuple[Floats, float]:
    """Compute both moments of a record, and the number of records that count, from sums in the
    query's unit.
    """
    count = sums[2] / query.weight if public is None else Fraction(public)
    if count <= 0:
        return np.zeros(2), to_float(count)
    first = sums[0] / (query.linear * query.cells * count)
    second = (sums[1] / count + query.square * query.offset) / (query.square * query.cells**2)
    means = [to_float(min(max(one, -_FARTHEST), _FARTHEST)) for one in (first, second)]
    return np.array(means), to_float(count)
