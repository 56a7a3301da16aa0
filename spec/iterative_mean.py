"""Spec of ``iterative_mean``: noisy clipped sums, each about the mean that the one before it gave."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import clipped_mean
from .theory import joint, shrinking, vectors
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]

DEPARTURES = (
    Departure(
        "BDKU20, the authors' code",
        "the clip radius is sqrt(d + r^2 + 2 sqrt((d + 2 r^2) L) + 2 L), L = ln(1 / beta), not "
        "min(sqrt(r^2 + 6 r + gamma^2), r + gamma)",
        "one tail of the whole length: a record is clipped with probability beta at most, where the "
        "code's 3 for sqrt(2 ln(2 / beta)) has no stated one; at beta = 1/100 the two differ by 1%",
    ),
    Departure(
        "BDKU20, MVM",
        "beta is for one record and step, not for all records",
        "as in the authors' code: clipping one record in 100 costs less than a wider ball",
    ),
    Departure(
        "BDKU20, MVM",
        "Gaussian DP: mu^2 adds up; under add-remove each sum comes with a noisy count",
        "exact, and the number of records stays private; the paper's zCDP is for replace",
    ),
    Departure(
        "BDKU20, MVM",
        "centers are multiples of a power of two, radii have 4 significant bits, and a ball stays as "
        "it is where the next were not smaller",
        "records are clipped in integers about integers; the rounding is added to the clip radius",
    ),
)
_STEPS = Source("BDKU20", "MVMRec: steps that shrink the ball", note="exact Gaussian DP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


@dataclass(frozen=True, slots=True)
class Ball:
    """Of one step. radius: in deviations. multiples: the center, in steps of the grid of centers."""

    radius: Fraction
    multiples: tuple[int, ...]


def multiplier(parameters: Parameters, t: int) -> Fraction:
    """noise_multiplier / sqrt(share of step t), t from 0; the root is rounded up to 2^-40."""
    steps, shares = parameters["steps"], parameters["shares"]
    if shares is None:
        early = [Fraction(1, 4 * (steps - 1))] * (steps - 1) if steps > 1 else []
        shares = [*early, 1 - sum(early)]
    return Fraction(parameters["noise_multiplier"]) * shrinking.root_up(1 / Fraction(shares[t]))


def weight(parameters: Parameters, t: int) -> int | None:
    """Of one record in the released number, in 16ths of the clip radius; None where it is public.

    joint.default_weight's (4 d)^(-1/4) in the first step, half of it later.
    """
    if parameters["adjacency"] is Adjacency.REPLACE:
        return None
    share = (4 * mp.mpf(len(parameters["center"]))) ** (-mp.mpf(1) / 4) * (8 if t else 16)
    return max(1, int(mp.nint(share)))


def moves(parameters: Parameters, t: int) -> Fraction:
    """The sensitivity in 16ths of the clip radius: sqrt(16^2 + weight^2) rounded up, or 2 * 16."""
    w = weight(parameters, t)
    return Fraction(32) if w is None else shrinking.root_up(Fraction(16**2 + w**2))


def count_noise(parameters: Parameters, t: int) -> Fraction:
    """The standard deviation of the released number of records, whatever the ball."""
    w = weight(parameters, t)
    return Fraction(0) if w is None else multiplier(parameters, t) * moves(parameters, t) / w


def deviation(parameters: Parameters) -> Fraction:
    """What lengths are multiples of."""
    return Fraction(parameters["deviation"])


def clip_radius(parameters: Parameters, radius: Fraction) -> Fraction:
    """In deviations: theory's, rounded up to 2^-20, and what rounding may move the center by."""
    d = len(parameters["center"])
    far = shrinking.clip_radius(real(radius), d, Fraction(parameters["beta"]))
    return Fraction(int(mp.ceil(far * 2**20)), 2**20) + Fraction(parameters["coarseness"])


def public_map(parameters: Parameters, radius: Fraction, center: Sequence[Any]) -> vectors.Map:
    """``clipped_mean``'s cells and matrix, 2^-15 wider and cut to a multiple of 16 cells."""
    wide = clip_radius(parameters, radius) * deviation(parameters) * (1 + Fraction(1, 2**15))
    given = {"radius": wide, "center": center, "matrix": parameters["matrix"]}
    found = clipped_mean.public_map(given)
    return replace(found, radius=found.radius // 16 * 16)


def grid_step(parameters: Parameters) -> Fraction:
    """The largest power of two s with F sqrt(d) s / 2 <= coarseness, in the data's unit, F the
    matrix's Frobenius norm (1 without): rounding to multiples of s moves C x by no more."""
    rows = parameters["matrix"] or ((1,),)
    square = sum(Fraction(e) ** 2 for row in rows for e in row) * len(parameters["center"])
    most = (2 * Fraction(parameters["coarseness"]) * deviation(parameters)) ** 2
    return joint.largest_power(lambda s: s**2 * square <= most)


def most_multiples(parameters: Parameters) -> int:
    """Centers are at most 2^40 cells of the smallest ball from zero."""
    d = len(parameters["center"])
    smallest = public_map(parameters, Fraction(0), (0,) * d).cell
    return math.floor(2**40 * smallest / grid_step(parameters))


def first_ball(parameters: Parameters) -> Ball:
    """The public one, its center rounded."""
    step, most = grid_step(parameters), most_multiples(parameters)
    nearest = (round(Fraction(c) / step) for c in parameters["center"])
    multiples = tuple(min(max(k, -most), most) for k in nearest)
    return Ball(Fraction(parameters["radius"]) / deviation(parameters), multiples)


def map_of(parameters: Parameters, ball: Ball) -> vectors.Map:
    """Cells, center and clip radius in a ball."""
    step = grid_step(parameters)
    return public_map(parameters, ball.radius, [k * step for k in ball.multiples])


def scale(parameters: Parameters, t: int, ball: Ball) -> Fraction:
    """The noise's standard deviation in cells."""
    parts = map_of(parameters, ball).radius // 16
    return multiplier(parameters, t) * moves(parameters, t) * parts


def per_deviation(parameters: Parameters, public: vectors.Map) -> Fraction:
    """Cells, after the matrix, to a deviation."""
    return clipped_mean.matrix_unit(parameters) / public.cell * deviation(parameters)


def noise_of(parameters: Parameters, t: int, radius: Fraction) -> Any:
    """The standard deviation of step t's noise in deviations, in a ball of this radius."""
    ball = Ball(radius, (0,) * len(parameters["center"]))
    unit = per_deviation(parameters, map_of(parameters, ball))
    return real(scale(parameters, t, ball) / unit)


def next_rung(parameters: Parameters, t: int, radius: Fraction, number: Any) -> Fraction:
    """The next radius after step t with so many records, in deviations; the same if not smaller."""
    if number < parameters["at_least"]:
        return radius
    noise, wrong = noise_of(parameters, t, radius), real(count_noise(parameters, t))
    d, beta = len(parameters["center"]), Fraction(parameters["beta"])
    found = shrinking.next_radius(number, noise, wrong, real(radius), d, beta)
    rung = shrinking.rung_above(found + real(Fraction(parameters["coarseness"])))
    return min(rung, radius)


def next_ball(parameters: Parameters, t: int, ball: Ball, outcome: Outcome, n: int) -> Ball:
    """After step t: about the noisy mean, if its ball is smaller; n counts where it is public.

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


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """By stage, squared, in one unit: the same for every ball."""
    stated: dict[str, int] = {}
    public = map_of(parameters, first_ball(parameters))
    for t in range(parameters["steps"]):
        w, adjacency = weight(parameters, t), parameters["adjacency"]
        if w is None:
            stated["count"] = 0
            moved = vectors.vector_sum_sensitivity(public.radius, adjacency)
        else:
            parts = w * public.radius // 16
            moved = joint.with_count_sensitivity(public.radius, parts, adjacency)
        width = vectors.width_of(public) + (w is not None)
        noise = scale(parameters, t, first_ball(parameters))
        stated[f"step {t + 1}"] = vectors.one_unit_sensitivity(moved, noise, width, int(UNIT))
    return stated


def value(parameters: Parameters, t: int, ball: Ball, records: Sequence[Record]) -> vectors.Vector:
    """The exact integers that step t adds noise to, before they are divided by its scale."""
    rows = [record if isinstance(record, tuple) else (record,) for record in records]
    public, w = map_of(parameters, ball), weight(parameters, t)
    if w is None:
        return vectors.vector_sum(rows, public)
    return joint.sum_with_count(rows, public, w * public.radius // 16)


@states(_STEPS, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """The number if it is public, then each sum plus noise, in the ball that the transcript leads to."""
    public, n = parameters["adjacency"] is Adjacency.REPLACE, len(records)

    @cache
    def ball_after(prefix: tuple[Outcome, ...]) -> Ball:
        if len(prefix) == public:
            return first_ball(parameters)
        t, before = len(prefix) - 1 - public, ball_after(prefix[:-1])
        return next_ball(parameters, t, before, prefix[-1], prefix[0][0])

    @cache
    def step(t: int, prefix: tuple[Outcome, ...]) -> IntegerLaw:
        ball = ball_after(prefix)
        noise = scale(parameters, t, ball)
        return RoundedGaussianLaw(one_unit(value(parameters, t, ball, records), noise), UNIT)

    stages: list[Any] = [("count", lambda prefix: PointLaw((n,)))] if public else []
    stages += [
        (f"step {t + 1}", lambda prefix, t=t: step(t, prefix)) for t in range(parameters["steps"])
    ]
    width = len(parameters["center"]) + (not public)
    nothing: list[Outcome] = (
        [(0,)] if public else []
    )  # no records, so that every ball stays the first one
    nothing += [(0,) * width] * (parameters["steps"] - 1)
    return TranscriptLaw(tuple(stages), tuple(nothing))


# --- error --------------------------------------------------------------------------------------


def radii(parameters: Parameters, numbers: Sequence[Any]) -> list[Fraction]:
    """Of the balls of all steps, in deviations, if the steps release these numbers of records."""
    found = [Fraction(parameters["radius"]) / deviation(parameters)]
    for t in range(parameters["steps"] - 1):
        found.append(next_rung(parameters, t, found[-1], numbers[t]))
    return found


@states(_STEPS, Source("OURS", "error of the last noisy mean", note="shrinking.next_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """A bound on |A (estimate - mean)| for n records of the model, a mean in the public ball.

    It fails with probability at most beta + steps (2n + 2) parameters["beta"]: but for the second part
    nothing is clipped and every ball holds the mean. A is the rounded matrix. But for beta / 2 every
    step's number is off by at most a t of its own; radii fall as numbers grow; so the last noise is at
    most what numbers of n - t lead to, and the error is bounded as in next_radius. Records are rounded to cells: F sqrt(d)
    cells, F the integer matrix's Frobenius norm. Raises ValueError for an n within the count's noise.
    """
    steps, d = parameters["steps"], len(parameters["center"])
    level = mp.sqrt(2 * mp.log(2 * steps / real(beta)))
    off = [level * real(count_noise(parameters, s)) for s in range(steps)]
    t, last = off[-1], radii(parameters, [n - one for one in off])[-1]
    if n - t < parameters["at_least"]:
        raise ValueError(f"n = {n} is within the count's noise {mp.nstr(t, 3)} of at_least")
    noise = noise_of(parameters, steps - 1, last)
    width = mp.sqrt(n + noise**2) / (n - t)
    public = public_map(parameters, last, (0,) * d)
    square = sum(e * e for row in public.matrix or ((1,),) for e in row)
    rounding = mp.sqrt(square * d) / real(per_deviation(parameters, public))
    found = shrinking.clip_radius(0, d, beta / 2) * width + t / (n - t) * real(last) + rounding
    return found * real(deviation(parameters))


def noise_error(parameters: Parameters, n: int) -> Any:
    """The root mean squared length of the last step's noise after A, to first order in 1 / n."""
    steps = parameters["steps"]
    noise = noise_of(parameters, steps - 1, radii(parameters, [mp.mpf(n)] * steps)[-1])
    return mp.sqrt(len(parameters["center"])) * noise / n * real(deviation(parameters))


def expected_error(parameters: Parameters, n: int) -> Any:
    """The root mean squared |A (estimate - mean)| for n records of covariance deviation^2 after A, to
    first order: that of sampling and that of the last noise."""
    sampling = mp.sqrt(mp.mpf(len(parameters["center"])) / n) * real(deviation(parameters))
    return mp.hypot(sampling, noise_error(parameters, n))


@states(Source("GL95", "van Trees inequality, product of cosine-squared priors"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """No estimate, private or not, has a smaller root mean squared error for all means in the ball.

    For normal records and independent coordinates of the mean with density cos^2(pi x / 2a) / a on
    [-a, a], a = r / sqrt(d), which has information (pi / a)^2: each costs 1 / (n + (pi / a)^2) at least.
    """
    d = len(parameters["center"])
    radius = real(Fraction(parameters["radius"]) / deviation(parameters))
    return mp.sqrt(d / (n + mp.pi**2 * d / radius**2)) * real(deviation(parameters))


# --- obligations --------------------------------------------------------------------------------

_STRETCHED = ((2.0, 1.0), (0.0, 0.5))
_UNIVERSES: dict[int, tuple[tuple[Fraction, ...], ...]] = {
    1: tuple((Fraction(x),) for x in (0, 30, -(10**30), 10**30)),
    2: tuple((Fraction(x), Fraction(y)) for x, y in ((0, 0), (3, -4), (10**30, 0), (-(10**30), 0))),
}


def _parameters(adjacency: Adjacency, d: int, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.25,) * d,
        "radius": 100.0,
        "deviation": 1.0,
        "matrix": None,
        "steps": 2,
        "shares": None,
        "beta": Fraction(1, 100),
        "coarseness": Fraction(1, 16),
        "at_least": 1,
        **changes,
    }


def _prefixes(parameters: Parameters) -> Iterator[tuple[Outcome, ...]]:
    """Steps that found nothing; 200 records at the center; 200 far from it, out of the first ball."""
    d, steps = len(parameters["center"]), parameters["steps"]
    for n, far in ((0, 0), (200, 0), (200, 2**42)):
        outcomes = []
        for t in range(steps - 1):
            noise = count_noise(parameters, t)
            counted = (round(n * UNIT / noise),) if noise else ()
            outcomes.append((*(far * (-1) ** i for i in range(d)), *counted))
        yield (*([] if count_noise(parameters, 0) else [(n,)]), *outcomes)


@states(_STEPS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """On all neighbors of at most 2 records, wherever the first steps lead, the squares of the exact mu
    of all steps sum to at most (claimed / multiplier)^2, but for the grid's 2^-18, and to at most the
    code's sensitivities in one unit; and for some pair to within 2^-18 of it."""
    cases, slack = 0, 1 + Fraction(1, 2**18)
    for adjacency, (d, matrix), steps in product(
        Adjacency, ((1, None), (2, None), (2, _STRETCHED)), (1, 3)
    ):
        parameters = _parameters(adjacency, d, matrix=matrix, steps=steps)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        for prefix in _prefixes(parameters):
            largest, count = _largest_square(parameters, prefix)
            case = f"{parameters} after {prefix}: mu^2 = {float(largest)}, stated {float(stated)}"
            require(largest <= stated <= square * slack, case)
            require(largest * slack >= square, case)
            cases += count
    return cases


def _largest_square(parameters: Parameters, prefix: tuple[Outcome, ...]) -> tuple[Fraction, int]:
    """The largest sum of squares over all those pairs after a prefix, and how many they are."""
    public = parameters["adjacency"] is Adjacency.REPLACE
    known: dict[Any, list[Any]] = {}
    largest, count = Fraction(0), 0
    for pair in neighbors(_UNIVERSES[len(parameters["center"])], 2, parameters["adjacency"]):
        for records in pair:
            if records not in known:
                stages = law(parameters, records).stages[public:]
                known[records] = [
                    stage(prefix[: t + public]) for t, (_, stage) in enumerate(stages)
                ]
        ours, theirs = (known[records] for records in pair)
        both = zip(ours, theirs, strict=True)
        largest, count = (
            max(largest, sum((a.mu_squared(b) for a, b in both), Fraction(0))),
            count + 1,
        )
    return largest, count


def obligation_lower_bound_is_below_error(within: Fraction = Fraction(3)) -> int:
    """The expected error is above the lower bound, and within 3 times where n is large; and the bound
    that fails with probability 1/20 is above it, and within 4 times (a normal error is within 2 of its
    root mean squares with probability 19/20)."""
    cases = 0
    for adjacency, (d, n) in product(Adjacency, ((1, 2000), (5, 5000), (50, 20_000))):
        parameters = _parameters(adjacency, d, steps=3)
        least, error = lower_bound(parameters, n), expected_error(parameters, n)
        most = error_bound(parameters, n, Fraction(1, 20))
        case = f"{parameters}, {n}: {least}, {error}, {most}"
        require(least <= error <= real(within) * least, case)
        require(error <= most <= 4 * error, case)
        cases += 1
    return cases
