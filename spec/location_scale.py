"""Spec of ``location_scale``: two searches, then moments of a step and its square about the
searched law, and again about the fitted one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered, shrinking, steps
from .theory import location_scale as laws
from .theory.caches import cache, parameters_cache
from .theory.coordinates import middle, side_counts, side_counts_sensitivity
from .theory.gaussian_laws import UNIT
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.location_scale import LARGEST, Interval, Known, Moments, Pair
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.vectors import Record
from .theory.whitening import count_of, octave

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
CELLS = 2**12
WARM, LAST = 2, 3
"""Places of the moments among the shares."""

DEPARTURES = (
    Departure(
        "ZZ25, Algorithm 3.1 (gradient steps on truncated data)",
        "one release of the mean of (s, s^2), then the law that has it, truncated",
        "data enter the gradient of a normal law's likelihood through these alone, so steps add "
        "noise and nothing else",
    ),
    Departure(
        "ZZ25, Algorithms B.1 and B.2 (warm start, bounding box by histograms)",
        "noisy binary searches for the median and for the median distance from it, then one "
        "warm release",
        "exactly Gaussian DP, without delta",
    ),
    Departure(
        "ZZ25, exponential families",
        "any location-scale family by the first two moments, clipped by default; for laws that "
        "are not normal this is not the likelihood",
        "a clipped record says more than a dropped one; two moments have one sensitivity, "
        "whatever the family",
    ),
)
_ZZ25 = Source(
    "ZZ25",
    "Theorem 3.1, exponential families by truncation",
    SourceStatus.CHANGED_CONSTANTS,
    note="two parameters; Gaussian DP",
)
_OURS = Source("OURS", "location-scale families by two clipped or truncated moments")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


# --- the parts ----------------------------------------------------------------------------------


def counts(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def shape(parameters: Parameters) -> steps.Shape:
    """Return the contribution to the moments, of s / cells: clip(s, +-turn) A, (s^2 - b) B, w A.

    Clipped, replace: turn 5/8, B = 5/4 A; add-remove: 3/4, B = 3/2 A, b = 1/2, w = 5/8. Masked:
    turn 1, B = 2 A, w = 1, b = 1/4 or 1/2.
    """
    table = {
        ("clip", False): (Fraction(5, 8), 4, 5, Fraction(0), Fraction(0)),
        ("clip", True): (Fraction(3, 4), 2, 3, Fraction(1, 2), Fraction(5, 8)),
        ("mask", False): (Fraction(1), 1, 2, Fraction(1, 4), Fraction(1)),
        ("mask", True): (Fraction(1), 1, 2, Fraction(1, 2), Fraction(1)),
    }
    turn, a, b, off, w = table[parameters["outside"], counts(parameters)]
    weight = w * a * CELLS**2
    return steps.Shape(int(turn * CELLS), a * CELLS, b, int(off * CELLS**2), int(weight))


def moved(parameters: Parameters) -> int:
    """Return the squared sensitivity of the moments."""
    return _moved(shape(parameters), parameters["outside"], parameters["adjacency"])


@cache
def _moved(one: steps.Shape, outside: str, adjacency: Adjacency) -> int:
    return steps.moments_moved_squared(CELLS, *one, outside, adjacency)


def scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of the moments, in their unit."""
    root = shrinking.root_up(moved(parameters) / Fraction(parameters["shares"][place]))
    return Fraction(parameters["noise_multiplier"]) * root


def family(parameters: Parameters) -> Known:
    """Return the family, as stated anew in ``laws``."""
    return laws.known(parameters["family"])


def ends(parameters: Parameters) -> tuple[float, float, float, float]:
    """Return the ends of the ranges of medians, and of logarithms of scales."""
    return _ends(family(parameters), parameters["ranges"])


@cache
def _ends(known: Known, ranges: Any) -> tuple[float, float, float, float]:
    corners = [known.standard(*one) for one in product(*ranges)]
    places, scales = [one[0] for one in corners], [one[1] for one in corners]
    own = laws.constants(known).median
    medians = [
        place + s * own
        for place, s in product((min(places), max(places)), (min(scales), max(scales)))
    ]
    return min(medians), max(medians), math.log(min(scales)), math.log(max(scales))


def search_steps(parameters: Parameters) -> tuple[int, int]:
    """Return the steps of both searches.

    The first is halved down to half of the distance that the smallest scale has, and 3 more;
    the second down to a quarter octave of scales, and 1 more.
    """
    low, high, least, most = ends(parameters)
    fine = math.exp(least) * laws.constants(family(parameters)).distance / 2
    sides = max(1, math.ceil(math.log2((high - low) / fine)))
    return sides + 3, max(1, math.ceil(math.log2((most - least) / math.log(2) * 4))) + 1


def step_scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of a step of a search, in records."""
    square = side_counts_sensitivity(1, parameters["adjacency"])
    root = shrinking.root_up(
        square * search_steps(parameters)[place] / Fraction(parameters["shares"][place])
    )
    return Fraction(parameters["noise_multiplier"]) * root


def median_after(parameters: Parameters, values: Sequence[int]) -> float:
    """Return the t that the first search examines after these values."""
    low, high, *_ = ends(parameters)
    return low + (high - low) * float((middle(values) + 1) / 2)


def scale_after(parameters: Parameters, values: Sequence[int]) -> float:
    """Return the scale that the second search examines after these values."""
    *_, least, most = ends(parameters)
    return math.exp(least + (most - least) * float((middle(values) + 1) / 2))


def edge(parameters: Parameters, t: float) -> Fraction:
    """Return the record with this t, as a float."""
    return Fraction(min(max(family(parameters).record(t), -LARGEST), LARGEST))


# --- intervals ----------------------------------------------------------------------------------


def support(parameters: Parameters) -> Pair:
    """Return the range of t of records that were kept."""
    if parameters["kept"] is None:
        return -math.inf, math.inf
    known = family(parameters)
    low, high = (known.statistic(end) if math.isfinite(end) else end for end in parameters["kept"])
    return low, high


def about(parameters: Parameters, law: Pair, far: float) -> Interval:
    """Return the interval within so many deviations of the law's mean, where records were kept."""
    own, (least, most) = laws.constants(family(parameters)), support(parameters)
    center, reach = law[0] + law[1] * own.mean, far * law[1] * own.deviation
    low, high = max(center - reach, least), min(center + reach, most)
    if low >= high:
        low, high = (least, min(most, least + reach))
        if center >= least:
            low, high = max(least, most - reach), most
    if high - low < shortest(low, high, law[1]):
        low = min(low, LARGEST)
        high = low + shortest(low, high, law[1])
    return Interval(low, high, shape(parameters).turn / CELLS, parameters["outside"])


def shortest(low: float, high: float, scale: float) -> float:
    """Return the length that no interval is shorter than: 2^-48 of the scale, or of an end."""
    return 2.0**-48 * max(scale, *(min(abs(end), LARGEST) for end in (low, high)))


def covariances(
    parameters: Parameters, law: Pair, where: Interval, inside: float
) -> tuple[Any, Any] | None:
    """Return the covariances of the location in scales and of ln(scale), to first order.

    They are J^-1 K J^-T, K that of the noise, and of the moments of ``inside`` records.
    """
    known, one = family(parameters), shape(parameters)
    at = laws.moments(known, *law, where)
    matrix = mp.matrix(laws.slopes(known, *law, where))
    if not inside > 0 or not abs(mp.det(matrix)) > 1e-12:
        return None
    sigma = real(scale(parameters, LAST)) / inside
    noise = mp.diag([(sigma / (one.linear * CELLS)) ** 2, (sigma / (one.square * CELLS**2)) ** 2])
    if one.weight:
        along = mp.matrix([at.first, at.second - mp.mpf(one.offset) / CELLS**2])
        noise += along * along.T * (sigma / one.weight) ** 2
    a, b, c = at.variances
    drawn = mp.matrix([[a, c], [c, b]]) / inside
    back = mp.inverse(matrix)
    return back * noise * back.T, back * drawn * back.T


def counted(parameters: Parameters, law: Pair, at: Moments) -> float:
    """Return the share of the records, of those kept if some are, that count."""
    if parameters["outside"] == "clip":
        return 1.0
    known, (low, high) = family(parameters), support(parameters)
    first, last = (law[0] + law[1] * y for y in known.window)
    low, high = max(low, first), min(high, last)
    if high - low < shortest(low, high, law[1]):
        return 0.0
    whole = laws.moments(known, *law, Interval(low, high, 1.0, "mask")).inside
    return at.inside / whole if whole > 0 else 0.0


@parameters_cache
def best(parameters: Parameters, law: Pair, quarter: int) -> Interval:
    """Return, of the intervals of half lengths 2^(k / 4) deviations, k from 4 to 12, the one with
    the least determinant of the whole covariance for 2^(quarter / 4) records.
    """
    n, known = float(count_of(quarter)), family(parameters)

    def error(where: Interval) -> Any:
        inside = n * counted(parameters, law, laws.moments(known, *law, where))
        both = covariances(parameters, law, where, inside)
        return mp.inf if both is None else mp.det(both[0] + both[1])

    return min((about(parameters, law, 2.0 ** (k / 4)) for k in range(4, 13)), key=error)


def searched(parameters: Parameters, prefix: Prefix) -> Pair:
    """Return the law after both searches; ``prefix`` without the public number."""
    sides, spreads = search_steps(parameters)
    values = [outcome[0] for outcome in prefix[: sides + spreads]]
    spread = scale_after(parameters, values[sides:])
    own = laws.constants(family(parameters)).median
    return median_after(parameters, values[:sides]) - spread * own, spread


def after_warm(
    parameters: Parameters, start: Pair, outcome: Outcome, n: int | None
) -> tuple[Pair, int]:
    """Return the law with the warm moments, to 1/16 of the scale and of an octave, and the quarter
    octave of the number.

    Both moments are to the nearest 1/64 and in their range. It is the law before where none
    near has these moments, or for fewer than half of the least number.
    """
    one, unit = shape(parameters), scale(parameters, WARM) / UNIT
    number = outcome[2] * unit / one.weight if one.weight else Fraction(n or 0)
    quarter = octave(min(max(number, Fraction(at_least(parameters))), Fraction(10**18)))
    if number <= 0 or 2 * number < at_least(parameters):
        return start, quarter
    first = round(outcome[0] * unit * 64 / (one.linear * CELLS * number))
    second = round(
        (outcome[1] * unit / number + one.square * one.offset) * 64 / (one.square * CELLS**2)
    )
    turn = one.turn * 64 // CELLS
    means = min(max(first, -turn), turn) / 64, min(max(second, 0), 64) / 64
    box = (2.0, 4.0) if parameters["outside"] == "clip" else (8.0, 8.0)
    where = about(parameters, start, 3.0)
    law = laws.fitted(family(parameters), means, where, start, box)
    if law is None:
        return start, quarter
    by = round(16 * (law[0] - start[0]) / start[1])
    octaves = round(16 * math.log2(law[1] / start[1]))
    return (start[0] + start[1] * by / 16, start[1] * 2.0 ** (octaves / 16)), quarter


# --- the law ------------------------------------------------------------------------------------


def moments(parameters: Parameters, values: Sequence[Fraction], where: Interval) -> tuple[int, ...]:
    """Return the sums of s = 2 z - CELLS, z the nearest of CELLS cells from the low end; an end of
    the kept range is that record itself.
    """
    one, cell, known = shape(parameters), (where.high - where.low) / CELLS, family(parameters)
    kept, (low, high) = parameters["kept"], support(parameters)

    def counted(x: Fraction) -> tuple[int, ...] | None:
        t = known.statistic(float(x))
        inside = where.low <= t < where.high
        if kept is not None:
            above = x >= kept[0] if where.low == low else t >= where.low
            inside = above and (x < kept[1] if where.high == high else t < where.high)
        if where.outside == "mask" and not inside:
            return None
        z = math.floor(min(max((t - where.low) / cell, 0.0), CELLS) + 0.5)
        return one.of(2 * min(z, CELLS) - CELLS)

    seen = [v for v in of_each(counted, values) if v is not None]
    return tuple(sum(v[j] for v in seen) for j in range(2 + bool(one.weight)))


@states(_OURS, _ZZ25, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of the number if it is public; side 1, side 2, ...; spread 1, ...; warm
    moments; moments.
    """
    values = [r[0] if isinstance(r, tuple) else r for r in records]
    rows, public = of_each(lambda x: (x,), values), not counts(parameters)
    sides, spreads = search_steps(parameters)
    n = len(values) if public else None

    def side(prefix: Prefix) -> IntegerLaw:
        at = edge(parameters, median_after(parameters, [o[0] for o in prefix[public:]]))
        return centered.noisy(side_counts(rows, [at]), step_scale(parameters, 0))

    def spread(prefix: Prefix) -> IntegerLaw:
        seen = [o[0] for o in prefix[public:]]
        center = median_after(parameters, seen[:sides])
        far = scale_after(parameters, seen[sides:])
        far *= laws.constants(family(parameters)).distance
        at = [edge(parameters, center + sign * far) for sign in (1, -1)]
        return centered.noisy(side_counts(rows, at[:1], at[1:]), step_scale(parameters, 1))

    def warm(prefix: Prefix) -> IntegerLaw:
        where = about(parameters, searched(parameters, prefix[public:]), 3.0)
        return centered.noisy(moments(parameters, values, where), scale(parameters, WARM))

    def last(prefix: Prefix) -> IntegerLaw:
        start = searched(parameters, prefix[public:])
        pair, quarter = after_warm(parameters, start, prefix[-1], n)
        where = best(parameters, pair, quarter)
        return centered.noisy(moments(parameters, values, where), scale(parameters, LAST))

    stages: list[Any] = [("count", lambda prefix: PointLaw((len(values),)))] if public else []
    stages += [(f"side {k + 1}", side) for k in range(sides)]
    stages += [(f"spread {k + 1}", spread) for k in range(spreads)]
    stages += [("warm moments", warm), ("moments", last)]
    example = ((len(values),),) if public else ()
    width = 2 + bool(shape(parameters).weight)
    return TranscriptLaw(tuple(stages), (*example, *[(0,)] * (sides + spreads), (0,) * width))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit: the same for every interval."""
    stated = {} if counts(parameters) else {"count": 0}
    square = side_counts_sensitivity(1, parameters["adjacency"])
    for place, name in ((0, "side"), (1, "spread")):
        one = centered.unit_sensitivity(square, step_scale(parameters, place), 1)
        stated |= {f"{name} {k + 1}": one for k in range(search_steps(parameters)[place])}
    width = 2 + bool(shape(parameters).weight)
    for place, name in ((WARM, "warm moments"), (LAST, "moments")):
        stated[name] = centered.unit_sensitivity(moved(parameters), scale(parameters, place), width)
    return stated


# --- errors -------------------------------------------------------------------------------------


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: 200 multipliers under replace, 100 under add-remove;
    from 20 to 2^60.
    """
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    times = 100 if counts(parameters) else 200
    return min(max(20, math.ceil(times * Fraction(parameters["noise_multiplier"]))), 1 << 60)


def _errors(
    parameters: Parameters, n: int, law: Pair, *, noise: bool, sampling: bool
) -> tuple[Any, Any]:
    where = best(parameters, law, octave(Fraction(n)))
    inside = n * counted(parameters, law, laws.moments(family(parameters), *law, where))
    both = covariances(parameters, law, where, inside)
    require(both is not None, f"{law}, {n}: nothing counts")
    total: Any = sum(
        part for part, asked in zip(both or (), (noise, sampling), strict=True) if asked
    )
    return mp.sqrt(total[0, 0]), mp.sqrt(total[1, 1])


@states(_OURS)
def noise_errors(parameters: Parameters, n: int, location: float, scale: float) -> Any:
    """Return the errors of the location in scales and of ln(scale), together: the root of the sum
    of mean squares that are due to the last noise, for n records of the law, to first order.
    """
    return mp.hypot(*_errors(parameters, n, (location, scale), noise=True, sampling=False))


@states(_OURS, _ZZ25)
def expected_errors(parameters: Parameters, n: int, law: Pair) -> tuple[Any, Any]:
    """Return the root mean squared errors of the location in scales and of ln(scale), of n
    independent records, kept if some are.
    """
    return _errors(parameters, n, law, noise=True, sampling=True)


@states(_OURS, _ZZ25)
def error_bound(parameters: Parameters, n: int, law: Pair, beta: Fraction) -> tuple[Any, Any]:
    """Return bounds on the noise's part in the location in scales and in ln(scale), to first
    order; both hold except with probability beta at most.
    """
    tail = mp.sqrt(2 * mp.log(4 / real(beta)))
    first, second = _errors(parameters, n, law, noise=True, sampling=False)
    return first * tail, second * tail


@states(Source("OURS", "two parameters by a coupling, for GDP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the expected error, in scales and at one of two laws about any one,
    of every mu-GDP estimate of the location.

    Laws a shift of h scales apart have a total variation of at most h I / 2, I the integral of
    |f'|, twice the largest density of a unimodal f. Couple n records so that K differ, E K = n
    times that. K differing records are K steps (replace) or 2 K (add-remove), and m steps have
    a total variation of at most 2 Phi(m mu / 2) - 1 <= m mu / sqrt(2 pi). So that of the
    outputs is at most n h I mu c / (2 sqrt(2 pi)), c = 1 or 2, which is 1/2 for h =
    sqrt(2 pi) / (n I mu c); by Le Cam one of the errors is at least (h / 4) (1 - 1/2). QED
    """
    c = 2 if counts(parameters) else 1
    known = family(parameters)
    low, high = known.window
    places = [low + (high - low) * k / 4096 for k in range(4097)]
    density = [math.exp(known.log(y)) for y in places]
    largest = max(density) / (math.fsum(density) * (high - low) / 4096)
    multiplier = real(Fraction(parameters["noise_multiplier"]))
    return mp.sqrt(2 * mp.pi) * multiplier / (8 * n * 2 * largest * c)


# --- obligations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormalFamily:
    """Stand-in for the family of this name."""


@dataclass(frozen=True)
class WeibullFamily:
    """Stand-in for the family of this name."""


_FAR = Fraction(10) ** 30
_UNIVERSE = tuple(
    (Fraction(x),) for x in ("1/5", 1, "-3/5", "19/10", "47/20", "29/10", -7, _FAR, -_FAR)
)


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "family": NormalFamily(),
        "ranges": ((-4.0, 4.0), (0.25, 4.0)),
        "outside": "clip",
        "kept": None,
        "shares": tuple(Fraction(percent, 100) for percent in (8, 10, 12, 70)),
        "at_least": 1,
    }
    return base | changes


_WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"outside": "mask"},
    {"outside": "mask", "kept": (-7.0, 2.0)},
    {"family": WeibullFamily(), "ranges": ((0.5, 4.0), (0.5, 4.0))},
)


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    Searches reach it, and the moments to within a third. The stated ones add up to
    (claimed / multiplier)^2, up to the grid's 2^-16.
    """
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
    """Compare the largest move of every stage with the stated one."""
    known: Any = cache(lambda records: law(parameters, records).stage_laws())
    largest, cases = dict.fromkeys(stated, Fraction(0)), 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        for (name, ours), (_, theirs) in zip(*(known(tuple(one)) for one in pair), strict=True):
            if isinstance(ours, PointLaw):
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
            else:
                largest[name] = max(largest[name], ours.mu_squared(theirs))
        cases += 1
    for name, square in largest.items():
        most = stated[name] / UNIT**2
        near = Fraction(3, 2) if "moments" in name else Fraction(1001, 1000)
        case = f"{name}, {parameters}: mu^2 = {float(square)}, {float(most)} stated"
        require(square <= most <= square * near, case)
    return cases


@states(Source("OURS", "two parameters by a coupling, for GDP"))
def obligation_lower_bound_is_below_error(within: int = 60) -> int:
    """Check that the noise alone is above the lower bound and at most 60 times it."""
    cases = 0
    for adjacency, changes in product(Adjacency, (_WORLDS[0], _WORLDS[1], _WORLDS[3])):
        for n, multiplier in ((2000, Fraction(4)), (10**5, Fraction(100))):
            parameters = _parameters(adjacency, noise_multiplier=multiplier, **changes)
            error = _errors(parameters, n, (0.0, 1.0), noise=True, sampling=False)[0]
            bound = lower_bound(parameters, n)
            require(bound <= error <= within * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
