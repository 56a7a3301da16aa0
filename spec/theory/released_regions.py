"""The region that the released numbers of ``robust_mean`` show: ball, directions, slabs, box; and
the slices of its rounds.

Both are functions of public parameters and of a prefix of the transcript.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from . import (
    drawn_normals,
    farthest_columns,
    inner_cuts,
    long_axes,
    regions,
    slabs,
    sliced_means,
    transcript_sums,
)
from .caches import cache, lru_cache
from .core_means import Weights
from .gaussian_laws import UNIT
from .laws import Outcome, real
from .region_noise import (
    bins_noise,
    first_stage,
    inner_noise,
    inner_reach,
    last_multiplier,
    sides_noise,
    votes_noise,
)
from .regions import Region
from .released_balls import ball_radius, center, center_noise
from .rescaling import Rescaling

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
Ball = tuple[tuple[int, ...], int]
"""A center and a radius, in cells."""

_directions, _slab = lru_cache(maxsize=64)(slabs.directions), lru_cache(maxsize=64)(slabs.slab)
_seen = lru_cache(maxsize=64)(long_axes.seen_deviation)
_inner_slabs = lru_cache(maxsize=64)(inner_cuts.slabs)


def region_of(parameters: Parameters, public: Rescaling, prefix: Prefix) -> Region:
    """Return the ball about the released mean; then, as far as they are released, directions,
    slabs and a box.
    """
    return regions_of(parameters, public)(prefix)


def regions_of(parameters: Parameters, public: Rescaling) -> Callable[[Prefix], Region]:
    """Return ``region_of`` for many prefixes: the same function for the same parameters, so that
    either side of a pair, and every later stage, asks for what is computed already.
    """
    return _regions_of(tuple(parameters.items()), public)


@lru_cache(maxsize=8)
def _regions_of(
    named: tuple[tuple[str, Any], ...], public: Rescaling
) -> Callable[[Prefix], Region]:
    parameters = dict(named)
    first = first_stage(parameters)
    of_bins = bins_noise(parameters)
    ball = cache(partial(_ball, parameters, public, first))

    @cache  # of all stages after the mean
    def about(agreed: int, mean: Outcome) -> Ball:
        noise, radius = ball(agreed)
        return center(mean, noise), radius

    @lru_cache(maxsize=64)
    def after(precision: int, prefix: Prefix) -> Region:
        return _region(parameters, public, prefix, about(prefix[0][0], prefix[1]), of_bins)

    return lambda prefix: after(mp.mp.prec, prefix)


def _ball(
    parameters: Parameters, public: Rescaling, first: Weights, agreed: int
) -> tuple[Fraction, int]:
    """Return the noise on the mean after this agreement, and the radius about it."""
    noise = center_noise(first, public.radius, (agreed,))
    return noise, ball_radius(parameters, public, noise)


def _region(
    parameters: Parameters,
    public: Rescaling,
    prefix: Prefix,
    ball: Ball,
    of_bins: Fraction,
) -> Region:
    _, _, *rest = prefix
    middle, radius = ball
    bins, count = parameters["bins"], parameters["directions"]
    part = regions.part_of(radius, bins)
    along: tuple[Any, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()
    if rest and parameters["inner"]:
        along = _directions(rest[0], public.width, parameters["inner"])
    elif rest and count:
        along = _directions(rest[0], public.width, count)
    box: tuple[int, ...] = ()
    if parameters["votes"] and len(rest) > 2 * bool(count):
        box = _box(parameters, public, rest[2 * bool(count)])
    drawn = Fraction(parameters["drawn"])
    if len(rest) > 1 and parameters["inner"]:
        sliced = side_of(parameters, public, prefix) != 0
        drawn = min(drawn, sliced_means.DRAWN_TO) if sliced and drawn < 1 else drawn
        along, cut, radius, part = _by_inner(parameters, public, along, rest[1], radius, sliced)
    elif len(rest) > 1 and count:
        deviation = min(math.floor(regions.LENGTH / public.cell / part), 2**30)
        gamma, rows = Fraction(parameters["gamma"]), range(0, count * bins, bins)
        counts = [rest[1][i : i + bins] for i in rows]
        cut = tuple(_slab(own, _seen(own, deviation, of_bins, gamma), of_bins) for own in counts)
    return Region(middle, radius, along, cut, part, box, drawn)


def _box(parameters: Parameters, public: Rescaling, votes: Outcome) -> tuple[int, ...]:
    """Return the half widths of the columns, by the votes."""
    half, gamma = farthest_columns.half_width(public.cell), Fraction(parameters["gamma"])
    return farthest_columns.box(votes, votes_noise(parameters), gamma, half)


def _by_moments(
    parameters: Parameters, public: Rescaling, first: Any, moments: Any
) -> inner_cuts.Slabs:
    """Return the slabs that inner moments along the directions ``first`` show."""
    unit = inner_noise(parameters) / UNIT * public.cell**2
    own = min(math.floor(1 / unit), 2**60), regions.constant_of(inner_reach(parameters))
    slabs_: inner_cuts.Slabs = _inner_slabs(first, tuple(moments), parameters["directions"], *own)
    return slabs_


def side_of(parameters: Parameters, public: Rescaling, prefix: Prefix) -> int:
    """Return 0 where rounds are not in slices; else on which side of the inner moments' first
    direction outliers are: it is alone, no column is cut, and the signed count tells a side."""
    made = 4 + bool(parameters["votes"])
    if parameters["rounds"] == 1 or len(prefix) <= made:
        return 0
    first = _directions(prefix[2], public.width, parameters["inner"])
    *_, alone, records = _by_moments(parameters, public, first, prefix[3])
    if parameters["votes"]:
        alone &= min(_box(parameters, public, prefix[4])) >= farthest_columns.OPEN
    (count,) = prefix[made]
    return sliced_means.side(count, sides_noise(parameters), records) if alone else 0


def _by_inner(
    parameters: Parameters,
    public: Rescaling,
    first: Any,
    moments: Any,
    radius: int,
    sliced: bool,
) -> tuple[Any, Any, int, int]:
    """Return directions and slabs that inner moments show, none wider than all bins, the radius
    that is left and the parts in which these slabs are measured.
    """
    bins = parameters["bins"]
    along, middles, number, *_ = _by_moments(parameters, public, first, moments)
    if sliced:
        middles, number = (None,) * len(middles), 0
    if number >= 2:
        radius = max(1, math.floor(inner_cuts.SHORTER * radius))
    part, edge = regions.part_of(radius, bins), bins * regions.PARTS // 2
    deviation = min(math.floor(regions.LENGTH / public.cell / part), 2**30)
    half = min(math.floor(inner_cuts.HALF_WIDTH * deviation), 2 * edge)
    cut = tuple(
        (0, 2 * edge) if at is None else (min(max(at // part, -edge), edge), half) for at in middles
    )
    return along, cut, radius, part


def places(public: Rescaling, deviations: Fraction) -> int:
    """Return so many deviations in cells times LENGTH, rounded down, at most 2^60."""
    return min(max(math.floor(deviations * regions.LENGTH / public.cell), -(2**60)), 2**60)


def lead(parameters: Parameters, public: Rescaling, prefix: Prefix) -> tuple[Any, int]:
    """Return the inner moments' first direction, and the mean along it."""
    first, most = (
        _directions(prefix[2], public.width, parameters["inner"]),
        parameters["directions"],
    )
    along, middles, *_ = _by_moments(parameters, public, first, prefix[3])
    leading = [s for s in product((-1, 0, 1), repeat=most) if next((x for x in s if x), 0) > 0]
    place = leading.index((1,) + (0,) * (most - 1))
    return along[place], middles[place] or 0


def slices_of(
    parameters: Parameters, public: Rescaling, prefix: Prefix
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the direction of the next round's slices, 2^12 long, and their edge: where outliers
    are not on one side of one direction, no record is beyond it.

    The first direction is that of the inner moments, with outliers on its upper side; the next ones
    are those of the fit to all rounds before, rounded.
    """
    return _slices_of(tuple(parameters.items()), public, prefix)


@lru_cache(maxsize=256)
def _slices_of(
    named: tuple[tuple[str, Any], ...], public: Rescaling, prefix: Prefix
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    parameters = dict(named)
    sign, share = side_of(parameters, public, prefix), Fraction(parameters["gamma"])
    if not sign:
        return (0,) * public.width, (2**60,)
    made = len(prefix) - 5 - bool(parameters["votes"])
    if not made:
        along, middle = lead(parameters, public, prefix)
        edge = places(public, sliced_means.EDGE - sliced_means.TURNED * share)
        return tuple(sign * x for x in along), (sign * middle + edge,)
    rounds, noise = _released_rounds(parameters, public, prefix, made)
    fitted = sliced_means.fit(rounds, rounds[0].along, float(share), noise)
    axis = tuple(round(regions.LENGTH * x) for x in fitted.along)
    edge_ = sliced_means.next_edge(fitted, tuple(x / regions.LENGTH for x in axis))
    cells = edge_ * regions.LENGTH / float(public.cell)
    return axis, (round(min(max(cells, -(2.0**60)), 2.0**60)),)


def _released_rounds(
    parameters: Parameters, public: Rescaling, prefix: Prefix, made: int
) -> tuple[list[sliced_means.Round], float]:
    """Return the rounds that were released, in deviations, and the deviation of their noise on
    sums; sums are over the response of records that are drawn in.
    """
    region, ball = (region_of(parameters, public, prefix[:k]) for k in (len(prefix), 2))
    cell, d = float(public.cell), public.width
    unit = transcript_sums.noise(region.reach, parameters["adjacency"], last_multiplier(parameters))
    follows = mp.mpf(1)
    if region.drawn < 1:
        own = Fraction(parameters["record_radius"])
        off = mp.sqrt(real(max((ball.radius * public.cell) ** 2 - own**2, Fraction(0))))
        length, reach = real(region.radius * public.cell), real(region.reach * public.cell)
        follows = drawn_normals.response(d, length, reach, off)
    noise = float(unit) * cell / float(follows)
    of_number = float(unit) / transcript_sums.weight(region.reach)
    rounds = []
    for i in range(made):
        released = prefix[len(prefix) - made + i]
        axis, (edge,) = slices_of(parameters, public, prefix[: len(prefix) - made + i])
        rows = [released[k : k + d + 1] for k in range(0, len(released), d + 1)]
        rounds.append(
            sliced_means.Round(
                tuple(x / regions.LENGTH for x in axis),
                edge / regions.LENGTH * cell,
                (_scaled(rows[0][:-1], noise), _scaled(rows[1][:-1], noise)),
                tuple(row[-1] / 2.0**40 * of_number for row in rows),
            )
        )
    return rounds, noise


def _scaled(row: Sequence[int], noise: float) -> tuple[float, ...]:
    return tuple(x / 2.0**40 * noise for x in row)
