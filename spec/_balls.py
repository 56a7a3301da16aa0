"""Public numbers of ``iterative_mean``: multipliers, balls, and the ball that follows each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency

from . import clipped_mean
from .theory import queries, shrinking, vectors
from .theory.gaussian_laws import UNIT
from .theory.laws import Outcome, real

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ball:
    """Ball of one step. radius: in deviations. multiples: the center, in steps of the grid of
    centers.
    """

    radius: Fraction
    multiples: tuple[int, ...]


def multiplier(parameters: Parameters, t: int) -> Fraction:
    """Return noise_multiplier / sqrt(share of step t), t from 0; the root is rounded up to
    2^-40.
    """
    steps, shares = parameters["steps"], parameters["shares"]
    if shares is None:
        early = [Fraction(1, 4 * (steps - 1))] * (steps - 1) if steps > 1 else []
        shares = [*early, 1 - sum(early)]
    return Fraction(parameters["noise_multiplier"]) * shrinking.root_up(1 / Fraction(shares[t]))


def weight(parameters: Parameters, t: int) -> int | None:
    """Return the weight of one record in the released number, in 16ths of the clip radius; None
    where it is public.

    By joint.default_weight it is (4 d)^(-1/4) in the first step, and half of that later.
    """
    if parameters["adjacency"] is Adjacency.REPLACE:
        return None
    share = (4 * mp.mpf(len(parameters["center"]))) ** (-mp.mpf(1) / 4) * (8 if t else 16)
    return max(1, int(mp.nint(share)))


def moves(parameters: Parameters, t: int) -> Fraction:
    """Return the sensitivity in 16ths of the clip radius: sqrt(16^2 + weight^2) rounded up, or 2 *
    16.
    """
    w = weight(parameters, t)
    return Fraction(32) if w is None else shrinking.root_up(Fraction(16**2 + w**2))


def count_noise(parameters: Parameters, t: int) -> Fraction:
    """Return the standard deviation of the released number of records, whatever the ball."""
    w = weight(parameters, t)
    return Fraction(0) if w is None else multiplier(parameters, t) * moves(parameters, t) / w


def deviation(parameters: Parameters) -> Fraction:
    """Return the unit of lengths."""
    return Fraction(parameters["deviation"])


def clip_radius(parameters: Parameters, radius: Fraction) -> Fraction:
    """Return the clip radius in deviations: that of the theory, rounded up to 2^-20, and the
    largest move of the center by rounding.
    """
    d = len(parameters["center"])
    far = shrinking.clip_radius(real(radius), d, Fraction(parameters["beta"]))
    return Fraction(int(mp.ceil(far * 2**20)), 2**20) + Fraction(parameters["coarseness"])


def public_map(parameters: Parameters, radius: Fraction, center: Sequence[Any]) -> vectors.Map:
    """Return the cells and matrix of ``clipped_mean``, 2^-12 wider and cut to a multiple of 16
    cells.
    """
    wide = clip_radius(parameters, radius) * deviation(parameters) * (1 + Fraction(1, 2**12))
    given = {"radius": wide, "center": center, "matrix": parameters["matrix"]}
    public = clipped_mean.public_map(given)
    return replace(public, radius=public.radius // 16 * 16)


def grid_step(parameters: Parameters) -> Fraction:
    """Return the largest power of two s with F sqrt(d) s / 2 <= coarseness, in the data's unit, F
    the matrix's Frobenius norm (1 without): rounding to multiples of s moves C x by no more.
    """
    rows = parameters["matrix"] or ((1,),)
    square = sum(Fraction(e) ** 2 for row in rows for e in row) * len(parameters["center"])
    most = (2 * Fraction(parameters["coarseness"]) * deviation(parameters)) ** 2
    return queries.largest_power(lambda s: s**2 * square <= most)


def most_multiples(parameters: Parameters) -> int:
    """Return the largest multiple of a center: at most 2^40 cells of the smallest ball from
    zero.
    """
    d = len(parameters["center"])
    smallest = public_map(parameters, Fraction(0), (0,) * d).cell
    return math.floor(2**40 * smallest / grid_step(parameters))


def first_ball(parameters: Parameters) -> Ball:
    """Return the public ball, its center rounded."""
    step, most = grid_step(parameters), most_multiples(parameters)
    nearest = (round(Fraction(c) / step) for c in parameters["center"])
    multiples = tuple(min(max(k, -most), most) for k in nearest)
    return Ball(Fraction(parameters["radius"]) / deviation(parameters), multiples)


def map_of(parameters: Parameters, ball: Ball) -> vectors.Map:
    """Return the map of a ball: cells, center and clip radius."""
    step = grid_step(parameters)
    return public_map(parameters, ball.radius, [k * step for k in ball.multiples])


def scale(parameters: Parameters, t: int, ball: Ball) -> Fraction:
    """Return the noise's standard deviation in cells."""
    parts = map_of(parameters, ball).radius // 16
    return multiplier(parameters, t) * moves(parameters, t) * parts


def per_deviation(parameters: Parameters, public: vectors.Map) -> Fraction:
    """Return the number of cells, after the matrix, to a deviation."""
    return clipped_mean.matrix_unit(parameters) / public.cell * deviation(parameters)


def noise_of(parameters: Parameters, t: int, radius: Fraction) -> Any:
    """Return the standard deviation of step t's noise in deviations, in a ball of this radius."""
    ball = Ball(radius, (0,) * len(parameters["center"]))
    unit = per_deviation(parameters, map_of(parameters, ball))
    return real(scale(parameters, t, ball) / unit)


def rounding(parameters: Parameters, radius: Fraction) -> Any:
    """Return a bound, in deviations, on the distance that rounding records and center to cells
    moves a mean.

    Each is off by 1/2 cell a coordinate, so F sqrt(d) cells together after the matrix, F the
    integer one's Frobenius norm; a cell is at most 2^-20 of the clip radius over F, up to F's
    own rounding.
    """
    public = public_map(parameters, radius, (0,) * len(parameters["center"]))
    clipped = real(public.radius / per_deviation(parameters, public))
    return mp.sqrt(len(parameters["center"])) * clipped / 2**19


def next_rung(parameters: Parameters, t: int, radius: Fraction, number: Any) -> Fraction:
    """Return the next radius after step t with so many records, in deviations; the same if not
    smaller.
    """
    if number < parameters["at_least"]:
        return radius
    noise, wrong = noise_of(parameters, t, radius), real(count_noise(parameters, t))
    d, beta = len(parameters["center"]), Fraction(parameters["beta"])
    bound = shrinking.next_radius(number, noise, wrong, real(radius), d, beta)
    bound += real(Fraction(parameters["coarseness"])) + rounding(parameters, radius)
    return min(shrinking.rung_above(bound), radius)


def next_ball(parameters: Parameters, t: int, ball: Ball, outcome: Outcome, n: int) -> Ball:
    """Return the ball after step t: about the noisy mean, if its ball is smaller; n counts where
    it is public.

    The mean is at most 2 clip radii from the center in every coordinate (after the matrix).
    """
    public, d, w = map_of(parameters, ball), len(ball.multiples), weight(parameters, t)
    number = Fraction(n) if w is None else outcome[-1] * count_noise(parameters, t) / UNIT
    radius = next_rung(parameters, t, ball.radius, real(number))
    if radius == ball.radius:
        return ball
    most, per = 2 * public.radius, scale(parameters, t, ball) / (UNIT * number)
    offset = tuple(min(max(s * per, Fraction(-most)), Fraction(most)) for s in outcome[:d])
    back = offset if public.matrix is None else shrinking.solve(public.matrix, offset)
    step, end = grid_step(parameters), most_multiples(parameters)
    moved = (round(k + b * public.cell / step) for k, b in zip(ball.multiples, back, strict=True))
    return Ball(radius, tuple(min(max(k, -end), end) for k in moved))


def radii(parameters: Parameters, numbers: Sequence[Any]) -> list[Fraction]:
    """Return the radii of the balls of all steps, in deviations, if the steps release these
    numbers of records.
    """
    rungs = [Fraction(parameters["radius"]) / deviation(parameters)]
    for t in range(parameters["steps"] - 1):
        rungs.append(next_rung(parameters, t, rungs[-1], numbers[t]))
    return rungs
