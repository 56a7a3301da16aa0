"""The search for a parameter by the median of its family, and intervals of the statistic about the
result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from . import families, gradient_steps, shrinking, stepped
from .caches import cache, parameters_cache
from .coordinates import middle
from .families import Known, Limited
from .laws import real
from .stepped import CELLS, counts, shares
from .whitening import count_of

Parameters = Mapping[str, Any]


def by_gradients(parameters: Parameters) -> bool:
    """Return whether several sums over a list are released, in place of one over all records."""
    return bool(parameters.get("method", "statistic") == "gradient")


def at_least(parameters: Parameters) -> int:
    """Return the least number of records; for gradients that of a public number, for each run."""
    if not by_gradients(parameters) or parameters["at_least"] is not None:
        return stepped.at_least(parameters)
    times = (2 if counts(parameters) else 1) * int(parameters["runs"])
    return min(times * stepped.at_least(parameters), 1 << 60)


class Frame(NamedTuple):
    """Interval of cells from ``low`` on, of ``length`` together; a mask counts the statistics from
    ``first`` to ``last``.
    """

    low: float
    length: float
    first: float
    last: float


def weight(parameters: Parameters) -> int:
    """Return the weight of the number beside the statistics."""
    if counts(parameters):
        return CELLS // 2
    return CELLS * 7 // 4 if parameters["outside"] == "mask" else 0


def scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of the number, of a step of the search, or of the statistics, in their
    units.
    """
    share = shares(parameters)[place]
    return stepped.scale(parameters, place, weight(parameters), search_steps(parameters), share)


# --- the search ---------------------------------------------------------------------------------


def family(parameters: Parameters) -> Known:
    """Return the family, as stated anew in ``families``."""
    return families.known(parameters["family"])


def coordinates(parameters: Parameters) -> tuple[float, float]:
    """Return the ends of the search."""
    ends = [family(parameters).coordinate(parameters[name]) for name in ("lowest", "highest")]
    return min(ends), max(ends)


def search_steps(parameters: Parameters) -> int:
    """Return the number of halvings of the range down to a 16th of the largest deviation of T at
    nine places.
    """
    return _steps(parameters["family"], *coordinates(parameters))


@cache
def _steps(given: Any, low: float, high: float) -> int:
    known, unit = families.known(given), (high - low) / 9
    most = 0.0
    for k in range(9):
        v = low + (k + 0.5) * unit
        up, down = (known.natural(known.back(v + s * unit / 64)) for s in (1, -1))
        spread = math.sqrt(families.whole(known, known.natural(known.back(v))).variance)
        most = max(most, spread * (up - down) / (unit / 32))
    return max(1, math.ceil(math.log2((high - low) * most * 16)))


def theta_after(parameters: Parameters, values: Sequence[int]) -> float:
    """Return the natural parameter that the search examines after these values."""
    low, high = coordinates(parameters)
    v = low + (high - low) * float((middle(values) + 1) / 2)
    return family(parameters).natural(family(parameters).back(v))


# --- frames -------------------------------------------------------------------------------------


def support(parameters: Parameters) -> tuple[float, float]:
    """Return the support of the statistics of records that were kept."""
    low, high = family(parameters).support
    if parameters["kept"] is None:
        return low, high
    first, last = (
        family(parameters).statistic(end) if math.isfinite(end) else end
        for end in parameters["kept"]
    )
    return max(low, first), min(high, last)


def about(parameters: Parameters, mean: float, far: float) -> Frame:
    """Return the interval within ``far`` of a mean, where records can be; on a lattice its length
    is a power of two, so that cells contain whole numbers of counts.
    """
    least, most = support(parameters)
    low, high = max(mean - far, least), min(mean + far, most)
    if low >= high:
        low, high = (least, min(most, least + far))
        if mean >= least:
            low, high = max(least, most - far), most
    if not family(parameters).lattice:
        return Frame(low, high - low, low, high)
    first = math.floor(low)
    if math.isfinite(least):
        first = max(first, math.ceil(least))
    length = 2
    while length < math.ceil(high) - first:
        length *= 2
    return Frame(first, length, first, min(first + length, math.floor(min(most, 2.0**60))))


def law_in(parameters: Parameters, frame: Frame, theta: float) -> Limited:
    """Return the moments of the statistic in a frame."""
    ends = (frame.first, frame.last)
    if parameters["outside"] == "clip":
        ends = (frame.low, frame.low + frame.length)
    return families.limited(family(parameters), theta, *ends, parameters["outside"])


def errors(parameters: Parameters, frame: Frame, theta: float, n: float) -> tuple[float, float]:
    """Return the errors of theta, to first order: by noise, and by sampling."""
    at = law_in(parameters, frame, theta)
    inside = n * at.inside if parameters["outside"] == "mask" else n
    if at.slope <= 0 or inside <= 0:
        return math.inf, math.inf
    mean = (at.mean - frame.low) / frame.length
    noise = float(sum_noise(parameters, mean))
    return noise * frame.length / inside / at.slope, math.sqrt(at.variance / inside) / at.slope


def sum_noise(parameters: Parameters, mean: Any) -> Any:
    """Return the deviation of the noise in the sum of statistics over the interval; by gradients
    that of the result of one run of them.
    """
    if not by_gradients(parameters):
        return stepped.sum_noise(scale(parameters, 2), weight(parameters), mean)
    steps = int(parameters["steps"])
    one = real(step_scale(parameters)) / CELLS / 2
    return one * gradient_steps.widening(steps) / math.sqrt(steps)


def step_scale(parameters: Parameters) -> Fraction:
    """Return the noise of a gradient's sum, in cells: a list's neighbors differ by a
    replacement.
    """
    square = Fraction(4 * CELLS**2 * int(parameters["steps"])) / shares(parameters)[2]
    return Fraction(parameters["noise_multiplier"]) * shrinking.root_up(square)


@parameters_cache
def frame_of(parameters: Parameters, theta: float, quarter: int) -> Frame:
    """Return, of the frames of half lengths 2^(k / 4) deviations, k from -4 to 16, the one with
    the least error for 2^(quarter / 4) records.
    """
    whole = families.whole(family(parameters), theta)
    n, spread = float(count_of(quarter)), math.sqrt(whole.variance)
    if by_gradients(parameters):
        n /= parameters["runs"]
    frames = [about(parameters, whole.mean, spread * 2.0 ** (k / 4)) for k in range(-4, 17)]
    return min(frames, key=lambda one: math.hypot(*errors(parameters, one, theta, n)))


def cell_of(parameters: Parameters, frame: Frame, x: Any) -> int | None:
    """Return the nearest of CELLS cells from the low end; None for a record that does not count."""
    cell = frame.length / CELLS
    half = min(cell, 1.0) / 2 if family(parameters).lattice else 0.0
    t = family(parameters).statistic(float(x))
    masked = parameters["outside"] == "mask"
    if masked and not frame.first - half <= t < frame.last + half:
        return None
    return min(math.floor(min(max((t - frame.low) / cell, 0.0), CELLS) + 0.5), CELLS)


def in_steps(parameters: Parameters, values: Sequence[Fraction], frame: Frame) -> tuple[int, ...]:
    """Return the sum of 2 z - CELLS, z the nearest of CELLS cells from the low end; with their
    number if it is released.
    """
    w, cells = weight(parameters), [cell_of(parameters, frame, x) for x in values]
    inside = [z for z in cells if z is not None]
    return (sum(2 * z - CELLS for z in inside), *([w * len(inside)] if w else []))


def unit_away(parameters: Parameters, values: Sequence[int], units: float) -> float:
    """Return the natural parameter so many units from the one that the search examines after these
    values, inside the range.
    """
    low, high = coordinates(parameters)
    unit = (high - low) * 16 / 2.0 ** search_steps(parameters) * 2
    v = low + (high - low) * float((middle(values) + 1) / 2) + units * unit
    return family(parameters).natural(family(parameters).back(min(max(v, low), high)))


def share_inside(parameters: Parameters, frame: Frame, theta: float) -> float:
    """Return the share, of the records that were kept, in the interval."""
    share = law_in(parameters, frame, theta).inside
    if parameters["kept"] is None:
        return share
    every = families.limited(family(parameters), theta, *support(parameters), "mask").inside
    return share / every if every > 0 else 0.0


def size_of(parameters: Parameters, values: Sequence[int], quarter: int, number: Fraction) -> int:
    """Return the number of records that are listed: by the least share inside for parameters
    within a quarter of a unit.
    """
    frame = frame_of(parameters, theta_after(parameters, values), quarter)
    near = [unit_away(parameters, values, k / 4) for k in (-1, 0, 1)]
    share = min(share_inside(parameters, frame, theta) for theta in near)
    return gradient_steps.list_size(number, share, int(parameters["runs"]))
