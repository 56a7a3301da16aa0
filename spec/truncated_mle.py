"""Spec of ``truncated_mle``: a search for the median, then the mean of a statistic in steps of an interval about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered, families, stepped
from .theory.coordinates import middle, missed, side_counts
from .theory.families import LARGEST, Known, Limited
from .theory.gaussian_laws import UNIT
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require
from .theory.stepped import CELLS, at_least, counts, shares
from .theory.vectors import Record
from .theory.whitening import count_of, octave

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "ZZ25, Algorithm 3.1 (gradient steps on truncated data)",
        "one release of the mean of the statistic, then its moment is matched",
        "data enter the gradient through that mean alone, so steps add noise and nothing else",
    ),
    Departure(
        "ZZ25, Algorithms B.1 and B.2 (warm start, bounding box by histograms)",
        "a noisy binary search for the parameter whose law has the records' median",
        "exactly Gaussian DP, without delta; in one dimension a searched median is near enough for the last release",
    ),
    Departure(
        "ZZ25, survival sets of constant mass",
        "an interval of the length with the least predicted error; by default records outside are clipped, not dropped",
        "a clipped record says more than a dropped one; a law that was truncated before needs the mask",
    ),
)
_ZZ25 = Source(
    "ZZ25",
    "Theorem 3.1, exponential families by truncation",
    SourceStatus.CHANGED_CONSTANTS,
    note="one parameter; Gaussian DP",
)
_OURS = Source("OURS", "clipped and masked moments of exponential families in one release")
_SCORES = Source("OURS", "lower bound for exponential families by scores, for GDP")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


class Frame(NamedTuple):
    """Cells from ``low`` on, of ``length`` together; a mask counts the statistics from ``first`` to ``last``."""

    low: float
    length: float
    first: float
    last: float


def weight(parameters: Parameters) -> int:
    """Of the number beside the statistics."""
    if counts(parameters):
        return CELLS // 2
    return CELLS * 7 // 4 if parameters["outside"] == "mask" else 0


def scale(parameters: Parameters, place: int) -> Fraction:
    """The noise of the number, of a step of the search, of the statistics, in their units."""
    share = shares(parameters)[place]
    return stepped.scale(parameters, place, weight(parameters), search_steps(parameters), share)


# --- the search ---------------------------------------------------------------------------------


def family(parameters: Parameters) -> Known:
    """Told once more."""
    return families.known(parameters["family"])


def coordinates(parameters: Parameters) -> tuple[float, float]:
    """The ends of the search."""
    ends = [family(parameters).coordinate(parameters[name]) for name in ("lowest", "highest")]
    return min(ends), max(ends)


def search_steps(parameters: Parameters) -> int:
    """Halvings of the range down to a 16th of the largest deviation of T at nine places."""
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
    """The natural parameter where the search looks after these values."""
    low, high = coordinates(parameters)
    v = low + (high - low) * float((middle(values) + 1) / 2)
    return family(parameters).natural(family(parameters).back(v))


# --- frames -------------------------------------------------------------------------------------


def support(parameters: Parameters) -> tuple[float, float]:
    """Of the statistics of records that were kept."""
    low, high = family(parameters).support
    if parameters["kept"] is None:
        return low, high
    first, last = (
        family(parameters).statistic(end) if math.isfinite(end) else end
        for end in parameters["kept"]
    )
    return max(low, first), min(high, last)


def about(parameters: Parameters, mean: float, far: float) -> Frame:
    """The interval within ``far`` of a mean, where records can be; on a lattice a power of two long, so that cells hold whole numbers of counts."""
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
    """The moments of the statistic in a frame."""
    ends = (frame.first, frame.last)
    if parameters["outside"] == "clip":
        ends = (frame.low, frame.low + frame.length)
    return families.limited(family(parameters), theta, *ends, parameters["outside"])


def errors(parameters: Parameters, frame: Frame, theta: float, n: float) -> tuple[float, float]:
    """Of theta, to first order: by noise, and by sampling."""
    at = law_in(parameters, frame, theta)
    inside = n * at.inside if parameters["outside"] == "mask" else n
    if at.slope <= 0 or inside <= 0:
        return math.inf, math.inf
    mean = (at.mean - frame.low) / frame.length
    noise = float(stepped.sum_noise(scale(parameters, 2), weight(parameters), mean))
    return noise * frame.length / inside / at.slope, math.sqrt(at.variance / inside) / at.slope


def frame_of(parameters: Parameters, theta: float, quarter: int) -> Frame:
    """Of half lengths of 2^(k / 4) deviations, k from -4 to 16, the one of the least error for 2^(quarter / 4) records."""
    key = tuple(sorted((k, str(v)) for k, v in parameters.items())), theta, quarter
    if key not in _FRAMES:
        whole = families.whole(family(parameters), theta)
        n, spread = float(count_of(quarter)), math.sqrt(whole.variance)
        frames = [about(parameters, whole.mean, spread * 2.0 ** (k / 4)) for k in range(-4, 17)]
        _FRAMES[key] = min(frames, key=lambda one: math.hypot(*errors(parameters, one, theta, n)))
    return _FRAMES[key]


_FRAMES: dict[Any, Frame] = {}


# --- the law ------------------------------------------------------------------------------------


def in_steps(parameters: Parameters, values: Sequence[Fraction], frame: Frame) -> tuple[int, ...]:
    """The sum of 2 z - CELLS, z the nearest of CELLS cells from the low end; with their number if it is released."""
    w, total, seen = weight(parameters), 0, 0
    cell = frame.length / CELLS
    half = min(cell, 1.0) / 2 if family(parameters).lattice else 0.0
    for x in values:
        t = family(parameters).statistic(float(x))
        masked = parameters["outside"] == "mask"
        if masked and not frame.first - half <= t < frame.last + half:
            continue
        z = math.floor(min(max((t - frame.low) / cell, 0.0), CELLS) + 0.5)
        total, seen = total + 2 * min(z, CELLS) - CELLS, seen + 1
    return (total, *([w * seen] if w else []))


@states(_OURS, _ZZ25, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """The number; parameter 1, parameter 2, ...; the statistics."""
    values = [r[0] if isinstance(r, tuple) else r for r in records]
    rows, n = [(x,) for x in values], len(values)
    unit = scale(parameters, 0) / UNIT if counts(parameters) else Fraction(1)
    known = family(parameters)

    def number() -> IntegerLaw:
        if counts(parameters):
            return centered.noisy((n,), scale(parameters, 0))
        return PointLaw((n,))

    def side(prefix: Prefix) -> IntegerLaw:
        t = known.middle(theta_after(parameters, [o[0] for o in prefix[1:]]))
        x = min(max(known.record(t), -LARGEST), LARGEST)
        return centered.noisy(side_counts(rows, [Fraction(x)]), scale(parameters, 1))

    def statistics(prefix: Prefix) -> IntegerLaw:
        theta = theta_after(parameters, [o[0] for o in prefix[1:]])
        found = min(max(prefix[0][0] * unit, Fraction(at_least(parameters))), Fraction(10**18))
        frame = frame_of(parameters, theta, octave(found))
        return centered.noisy(in_steps(parameters, values, frame), scale(parameters, 2))

    steps = search_steps(parameters)
    stages: list[Any] = [("count", lambda prefix: number())]
    stages += [(f"parameter {k + 1}", side) for k in range(steps)]
    stages.append(("statistics", statistics))
    first = (n,) if not counts(parameters) else (round(n / unit),)
    return TranscriptLaw(tuple(stages), (first, *[(0,)] * steps))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """By stage, squared, in one unit."""
    scales = tuple(scale(parameters, k) if shares(parameters)[k] else Fraction(1) for k in range(3))
    return stepped.sensitivities(
        parameters, weight(parameters), search_steps(parameters), "parameter", scales
    )


# --- errors -------------------------------------------------------------------------------------


@states(_OURS)
def noise_error(parameters: Parameters, n: int, parameter: float) -> Any:
    """Of theta by noise, for n records of this parameter, to first order."""
    theta = family(parameters).natural(parameter)
    frame = frame_of(parameters, theta, octave(Fraction(n)))
    return mp.mpf(errors(parameters, frame, theta, n)[0])


@states(_OURS, _ZZ25)
def expected_error(parameters: Parameters, n: int, parameter: float) -> Any:
    """The same with the sampling error."""
    theta = family(parameters).natural(parameter)
    frame = frame_of(parameters, theta, octave(Fraction(n)))
    return mp.hypot(*errors(parameters, frame, theta, n))


@states(_OURS)
def noise_quantile(parameters: Parameters, n: int, parameter: float, log_inverse_beta: Any) -> Any:
    """What the noise's part of theta exceeds with probability exp(-log_inverse_beta), to first order: that of a normal number."""
    level = -mp.expm1(-mp.mpf(log_inverse_beta))
    return noise_error(parameters, n, parameter) * mp.sqrt(2) * mp.erfinv(level)


@states(_OURS)
def error_bound(parameters: Parameters, n: int, parameter: float, beta: Fraction) -> Any:
    """A bound on the noise's part in theta, to first order, which fails with probability at most beta."""
    return noise_error(parameters, n, parameter) * mp.sqrt(2 * mp.log(2 / real(beta)))


def chance_of_missing(parameters: Parameters, n: int) -> Any:
    """A bound on the probability that the search leaves a median that all n records share: a union over its steps."""
    r = n / real(scale(parameters, 1))
    return min(mp.mpf(1), search_steps(parameters) * missed(r))


@states(_SCORES)
def lower_bound(parameters: Parameters, n: int, parameter: float) -> Any:
    """No mu-GDP estimate of theta has a smaller root mean squared error at every theta near that of ``parameter``, within R of it.

    Draw theta within R with the density cos^2(pi x / (2 R)) / R, whose Fisher information is (pi / R)^2. M is the estimate, a^2 its mean square error on
    average, g(theta) = E M, and Z_i = (M - theta)(T_i - E T) the score of record i. Scores add up: T - E T is the derivative of the log-density,
    so E sum Z_i = g'(theta), on average 1 + E (theta - g) of the density's logarithmic derivative, at least 1 - a pi / R by Cauchy and Schwarz.
    One score is small: with the record drawn anew before M is run, it has the mean 0 and the mean square a^2 s^2, s the deviation of T; with it,
    its mean is at most sqrt(e^(mu^2) - 1) a s (``centered.least_error``). So n s sqrt(e^(mu^2) - 1) a >= 1 - a pi / R, with the largest s within R.
    QED Under add-remove a replacement is two steps: 2 mu. The best R of eight inside of the public range; s is read at its ends and three places between.
    """
    known, mu = family(parameters), 1 / real(Fraction(parameters["noise_multiplier"]))
    theta = known.natural(parameter)
    strength = n * mp.sqrt(mp.expm1(((2 if counts(parameters) else 1) * mu) ** 2))
    most = min(abs(known.natural(parameters[end]) - theta) for end in ("lowest", "highest"))

    def least(r: float) -> Any:
        places = (theta + r * k / 2 for k in range(-2, 3))
        spread = math.sqrt(max(families.whole(known, one).variance for one in places))
        return 1 / (strength * spread + mp.pi / r)

    return max((least(most / 4**k) for k in range(8)), default=mp.mpf(0)) if most else mp.mpf(0)


# --- obligations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Poisson:
    """Stands for the family of this name."""


@dataclass(frozen=True)
class Weibull:
    """Stands for the family of this name."""

    power: float


@dataclass(frozen=True)
class Normal:
    """Stands for the family of this name."""

    deviation: float


_FAR = Fraction(10) ** 30
_UNIVERSE = tuple((Fraction(x),) for x in ("1/5", "8/5", 3, -7, _FAR, -_FAR))


def _parameters(adjacency: Any, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "family": Weibull(1.0),
        "lowest": 0.5,
        "highest": 4.0,
        "outside": "clip",
        "kept": None,
        "search_share": Fraction(15, 100),
        "at_least": 1,
    }
    return base | changes


_WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"outside": "mask"},
    {"family": Normal(1.5), "lowest": -3.0, "highest": 3.0},
    {"family": Poisson(), "outside": "mask", "kept": (0.0, 3.0)},
)


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Along the example transcript, on all neighbors of at most 2 records, every stage's mu^2 is at most what is stated of it and reaches
    it to within a thousandth, of the statistics by a third; what is stated adds up to (claimed / multiplier)^2, but for the grid's 2^-16."""
    cases, slack = 0, 1 + Fraction(1, 2**16)
    for adjacency, changes in product(Adjacency, _WORLDS):
        parameters = _parameters(adjacency, **changes)
        stated = sensitivities(parameters)
        total = sum(stated.values()) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        case = f"{parameters}: mu^2 = {float(total)}, not {float(square)}"
        require(total <= square * slack and square <= total * slack, case)
        cases += _stages_move(parameters, stated)
    return cases


def _stages_move(parameters: Parameters, stated: Mapping[str, int]) -> int:
    """Compare what every stage moves by at most with what is stated of it."""
    known: Any = cache(lambda records: law(parameters, records).stage_laws())
    largest, cases = dict.fromkeys(stated, Fraction(0)), 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        for (name, ours), (_, theirs) in zip(*(known(tuple(one)) for one in pair), strict=True):
            if isinstance(ours, PointLaw):
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
            else:
                largest[name] = max(largest[name], ours.mu_squared(theirs))
        cases += 1
    for name, found in largest.items():
        most = stated[name] / UNIT**2
        near = Fraction(1001, 1000) if name != "statistics" else 3
        case = f"{name}, {parameters}: mu^2 = {float(found)}, {float(most)} stated"
        require(found <= most <= found * near, case)
    return cases


@states(_SCORES)
def obligation_lower_bound_is_below_error(within: int = 16) -> int:
    """The noise alone is above the lower bound, and within 16 times of it."""
    cases = 0
    for adjacency, changes in product(Adjacency, _WORLDS[:3]):
        for n, multiplier in ((1000, Fraction(4)), (10**5, Fraction(100))):
            parameters = _parameters(adjacency, noise_multiplier=multiplier, **changes)
            bound, error = lower_bound(parameters, n, 2.0), noise_error(parameters, n, 2.0)
            require(bound <= error <= within * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
