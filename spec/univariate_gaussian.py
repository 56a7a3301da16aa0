"""Spec of ``univariate_gaussian``: two searches, and clipped moments about their results, twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered, shrinking
from .theory import clipped_scalars as clipped
from .theory.caches import cache
from .theory.clipped_scalars import BOX, GRAIN, LEVELS, MOST_LEVEL, Grid, Shape, unit_of
from .theory.coordinates import middle, missed, side_counts, side_counts_sensitivity
from .theory.gaussian_laws import UNIT
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.queries import of_each
from .theory.tracing_bound import BOUND
from .theory.vectors import Record, Vector

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "KV18, Algorithms 1 and 2 (scale, then location, by histograms)",
        "location first, by a noisy binary search on the grid; then the scale, by one for the "
        "median distance from it",
        "pairs by index are for replace only, and histograms without a list of bins cost a "
        "delta; a search has neither, and its range enters by a root of a logarithm",
    ),
    Departure(
        "KV18, Algorithm 3 (mean), Algorithm 4 (variance)",
        "records are clipped at 1.5 and 1.9 deviations and both parameters solved for, in one "
        "release after a warm one; not clipped where none is expected and averaged",
        "noise is in proportion to where records are clipped; what clipping does to a normal "
        "law is known",
    ),
    Departure(
        "KV18, intervals",
        "intervals to first order in the noise",
        "theirs are valid for every n, at several times the width",
    ),
)
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")
_OURS = Source("OURS", "a normal law by clipped moments about released frames")
_KV18 = Source(
    "KV18",
    "a normal law's mean and variance without bounds on either",
    SourceStatus.CHANGED_CONSTANTS,
    note="Gaussian DP on a bounded grid; another algorithm",
)
_HALF_NORMAL = Fraction(6745, 10000)
WARM, LAST = 2, 3
"""Places of the moments among the shares."""
_CLIPS = {WARM: (3, 3), LAST: (mp.mpf(3) / 2, mp.mpf(1945) / GRAIN)}
_BOXES = {WARM: (2, 4), LAST: (1, 2)}


# --- the parts ----------------------------------------------------------------------------------


def counts(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def shape(parameters: Parameters, place: int) -> Shape:
    """Return the shape of both moments in one unit: A / 1024 = 20 or 25 for a deviation, B = 11 or
    18 for a squared one.

    So w = B / 20 = 0.55, T = C = 3, b = 3 and weight 1, then B / 25 = 0.72, T = 1.5, C = 1.9,
    b = 1.4 and weight 1/2; under replace b and the weight are 0.
    """
    if place == WARM:
        linear, square, turn, edge = 20, 11, 3 * GRAIN, 3 * GRAIN
        offset, weight = 3 * GRAIN**2, 20 * GRAIN**2
    else:
        linear, square, turn, edge = 25, 18, 3 * GRAIN // 2, 19 * GRAIN // 10
        offset, weight = 14 * GRAIN**2 // 10, 25 * GRAIN**2 // 2
    if not counts(parameters):
        offset = weight = 0
    return Shape(turn, edge, linear * GRAIN, square, offset, weight)


def moved(parameters: Parameters, place: int) -> int:
    """Return the squared sensitivity of the moments."""
    s = shape(parameters, place)
    one = (s.turn, s.edge, s.linear, s.square, s.offset, s.weight)
    return clipped.moved_squared(*one, parameters["adjacency"])


def scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of the moments, in their unit."""
    root = shrinking.root_up(moved(parameters, place) / Fraction(parameters["shares"][place]))
    return Fraction(parameters["noise_multiplier"]) * root


def cell(parameters: Parameters) -> Fraction:
    """Return the largest power of two not above ``cell``."""
    value, power = Fraction(parameters["cell"]), Fraction(1)
    while power > value:
        power /= 2
    while 2 * power <= value:
        power *= 2
    return power


def grid(parameters: Parameters) -> Grid:
    """Return the cells, and the center in cells."""
    own = cell(parameters)
    return Grid(own, round(Fraction(parameters["center"]) / own))


def reach_bits(parameters: Parameters) -> int:
    """Return the least r from 2 on such that 2^r cells are the reach or more; 40 without one."""
    reach, r = parameters["reach"], 2
    if reach is None:
        return 40
    while Fraction(reach) > 2**r * cell(parameters):
        r += 1
    return r


def side_steps(parameters: Parameters) -> int:
    """Return the number of steps from 2^r cells to 2, and 3 more."""
    return reach_bits(parameters) - 1 + 3


def spread_steps(parameters: Parameters) -> int:
    """Return the steps of the second search: down to a quarter octave from the least power of two
    of octaves above r + 1, and 1 more.
    """
    k = 0
    while 2**k <= reach_bits(parameters) + 1:
        k += 1
    return k + 3


def step_scale(parameters: Parameters, place: int) -> Fraction:
    """Return the noise of a step of the search at this place among the shares, in records."""
    steps = (side_steps, spread_steps)[place](parameters)
    square = side_counts_sensitivity(1, parameters["adjacency"])
    root = shrinking.root_up(square * steps / Fraction(parameters["shares"][place]))
    return Fraction(parameters["noise_multiplier"]) * root


def threshold(parameters: Parameters, values: Sequence[int]) -> Fraction:
    """Return the place that the first search examines after these values, in cells from the
    center.
    """
    far = Fraction(2) ** reach_bits(parameters)
    return middle(values) * far


def level(parameters: Parameters, values: Sequence[int]) -> int:
    """Return the level that the second search examines: from 0 on, at most 41 octaves."""
    octave = (middle(values) + 1) * 2 ** spread_steps(parameters)
    require(octave.denominator == 1, f"level {octave}")
    return min(int(octave), MOST_LEVEL)


def searched(parameters: Parameters, prefix: Prefix) -> tuple[int, int]:
    """Return the frame after both searches; ``prefix`` without the public number."""
    sides, spreads = side_steps(parameters), spread_steps(parameters)
    values = [outcome[0] for outcome in prefix[: sides + spreads]]
    return math.floor(threshold(parameters, values[:sides])), level(parameters, values[sides:])


def ratios(
    parameters: Parameters, place: int, outcome: Outcome, n: int | None
) -> tuple[Fraction, Fraction] | None:
    """Return the released moments of a record, in units of the frame; None where their number is
    not positive.
    """
    s, unit = shape(parameters, place), scale(parameters, place) / UNIT
    number = Fraction(n) if n is not None else outcome[2] * unit / s.weight
    if number <= 0:
        return None
    first = outcome[0] * unit / (s.linear * GRAIN * number)
    second = (outcome[1] * unit / (s.square * number) + s.offset) / GRAIN**2
    return first, second


def after_warm(
    parameters: Parameters, frame: tuple[int, int], outcome: Outcome, n: int | None
) -> tuple[int, int]:
    """Return the frame of the last moments: the law that has both warm moments, its mean to 1/16
    of the unit and its deviation to 1/16 of an octave.

    Both moments are to 1/64 and at most as large as clipped ones. Where no law in the box has
    them, mean and deviation are those of the moments themselves.
    """
    moments = ratios(parameters, WARM, outcome, n)
    if moments is None:
        return frame
    first = Fraction(min(max(round(moments[0] * 64), -192), 192), 64)
    second = Fraction(min(max(round(moments[1] * 64), 0), 576), 64)
    law = clipped.fit(real(first), real(second), _CLIPS[WARM], _BOXES[WARM])
    if law is None:
        mean = min(max(first, Fraction(-2)), Fraction(2))
        variance = min(max(second - first**2, Fraction(1, 16)), Fraction(16))
        law = real(mean), mp.sqrt(real(variance))
    center, j = frame
    # The unit is a multiple of a sixteenth of a cell.
    center += math.floor(int(mp.nint(16 * law[0])) * unit_of(j) * 16 / 256)
    j += int(mp.nint(LEVELS * mp.log(law[1], 2)))
    return min(max(center, -BOX), BOX), min(max(j, 0), MOST_LEVEL)


# --- the law ------------------------------------------------------------------------------------


@states(_OURS, _KV18, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of the number if it is public; side 1, side 2, ...; spread 1, ...; warm
    moments; moments.
    """
    rows = of_each(lambda r: r if isinstance(r, tuple) else (r,), records)
    sides, spreads = side_steps(parameters), spread_steps(parameters)
    public, own = not counts(parameters), grid(parameters)
    n = len(rows) if public else None

    def place(cells: Fraction) -> Fraction:
        return centered.as_floats([(own.center + cells) * own.cell])[0]

    def side(prefix: Prefix) -> IntegerLaw:
        values = [outcome[0] for outcome in prefix]
        counted = side_counts(rows, [place(threshold(parameters, values))])
        return centered.noisy(counted, step_scale(parameters, 0))

    def spread(prefix: Prefix) -> IntegerLaw:
        center, j = searched(parameters, prefix)
        half = _HALF_NORMAL * unit_of(j)
        counted = side_counts(rows, [place(center + half)], [place(center - half)])
        return centered.noisy(counted, step_scale(parameters, 1))

    @cache
    def moments(which: int, frame: tuple[int, int]) -> IntegerLaw:
        exact = [row[0] for row in rows]
        value: Vector = clipped.clipped_moments(exact, own, frame, shape(parameters, which))
        return centered.noisy(value, scale(parameters, which))

    def last(prefix: Prefix) -> IntegerLaw:
        frame = searched(parameters, prefix)
        return moments(LAST, after_warm(parameters, frame, prefix[-1], n))

    def hidden(stage: Callable[[Prefix], IntegerLaw]) -> Callable[[Prefix], IntegerLaw]:
        return lambda prefix: stage(prefix[public:])

    stages: list[Any] = [("count", lambda prefix: PointLaw((len(rows),)))] if public else []
    stages += [(f"side {k + 1}", hidden(side)) for k in range(sides)]
    stages += [(f"spread {k + 1}", hidden(spread)) for k in range(spreads)]
    warm = hidden(lambda prefix: moments(WARM, searched(parameters, prefix)))
    stages += [("warm moments", warm), ("moments", hidden(last))]
    example = ((len(rows),),) if public else ()
    return TranscriptLaw(
        tuple(stages), (*example, *[(0,)] * (sides + spreads), (0,) * (2 + counts(parameters)))
    )


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit: the same for every frame."""
    stated = {} if counts(parameters) else {"count": 0}
    square = side_counts_sensitivity(1, parameters["adjacency"])
    for place, name, steps in ((0, "side", side_steps), (1, "spread", spread_steps)):
        one = centered.unit_sensitivity(square, step_scale(parameters, place), 1)
        stated |= {f"{name} {k + 1}": one for k in range(steps(parameters))}
    for place, name in ((WARM, "warm moments"), (LAST, "moments")):
        stated[name] = centered.unit_sensitivity(
            moved(parameters, place), scale(parameters, place), 2 + counts(parameters)
        )
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


def _errors(parameters: Parameters, n: int, *, noise: bool, sampling: bool) -> tuple[Any, Any]:
    """Return the errors of the mean in deviations, and of ln s, to first order, where the frame is
    the law's own.

    J (mean, ln s) = moments, so their covariance is J^-1 K J^-T; K is that of a record's
    clipped moments over n, and of the noise: (s_1 / n)^2, (s_2 / n)^2, and with a private
    number (moments - (0, b))(...)^T (s_3 / n)^2.
    """
    clips, s = _CLIPS[LAST], shape(parameters, LAST)
    total = mp.zeros(2)
    if sampling:
        total += clipped.covariance(0, 1, *clips) / n
    if noise:
        sigma = real(scale(parameters, LAST))
        total[0, 0] += (sigma / (s.linear * GRAIN) / n) ** 2
        total[1, 1] += (sigma / (s.square * GRAIN**2) / n) ** 2
        if counts(parameters):
            _, second = clipped.moments(0, 1, *clips)
            total[1, 1] += (
                (second - real(Fraction(s.offset, GRAIN**2))) * sigma / s.weight / n
            ) ** 2
    back = mp.inverse(clipped.slopes(mp.mpf(0), mp.mpf(1), *clips))
    covariance = back * total * back.T
    return mp.sqrt(covariance[0, 0]), mp.sqrt(covariance[1, 1])


@states(_OURS)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared error of the mean that is due to the last noise, in
    deviations.
    """
    return _errors(parameters, n, noise=True, sampling=False)[0]


@states(_OURS)
def noise_deviation_error(parameters: Parameters, n: int) -> Any:
    """Return the error of the deviation that is due to the last noise, as a share of it."""
    return _errors(parameters, n, noise=True, sampling=False)[1]


@states(_OURS)
def noise_errors(parameters: Parameters, n: int) -> Any:
    """Return the errors of mean and deviation by noise together, the root of the sum of their
    squares.
    """
    return mp.hypot(*_errors(parameters, n, noise=True, sampling=False))


@states(_OURS, _KV18)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared error of the mean of n independent normal records, in
    deviations.
    """
    return _errors(parameters, n, noise=True, sampling=True)[0]


@states(_OURS, _KV18)
def expected_deviation_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared error of the deviation, as a share of it."""
    return _errors(parameters, n, noise=True, sampling=True)[1]


@states(Source("OURS", "noisy binary search that repeats what is not decisive"))
def chance_of_missing(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that either search leaves a threshold, on one side of
    which all n records lie, to the wrong side.
    """
    steps = (side_steps(parameters), spread_steps(parameters))
    each = [k * missed(n / real(step_scale(parameters, p))) for p, k in enumerate(steps)]
    return min(mp.mpf(1), mp.fsum(each))


@states(Source("OURS", "error of noisy moments, normal tails"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the distance of each of the last moments from that of the records, which
    fails with probability at most beta.

    It is in units of the frame and of its square: for a public number, by a union bound over
    the two.
    """
    require(not counts(parameters), "a bound is stated where the number is public")
    s = shape(parameters, LAST)
    tail = mp.sqrt(2) * mp.erfinv(1 - real(beta) / 2)
    sigma = real(scale(parameters, LAST)) * (tail + 1 / real(UNIT)) / n
    return sigma / (s.linear * GRAIN), sigma / (s.square * GRAIN**2)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, in deviations, for all means of n
    normal records, of every estimate of this privacy.
    """
    return centered.lower_bound(parameters, n, [mp.mpf(1)])


# --- obligations --------------------------------------------------------------------------------

_FAR = Fraction(10) ** 30
_UNIVERSE = tuple((Fraction(x),) for x in ("1/5", "-1/5", -7, _FAR, -_FAR))
"""Records near the first threshold, within the first frame, and beyond all."""


def _parameters(adjacency: Adjacency, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "cell": Fraction(1, 4),
        "center": Fraction(0),
        "reach": Fraction(4),
        "shares": tuple(Fraction(percent, 100) for percent in (8, 10, 12, 70)),
        "at_least": 1,
    }
    return base | changes


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    Searches reach it, and the moments to within a tenth. The stated ones add up to
    (claimed / multiplier)^2, up to the grid's 2^-18.
    """
    cases, slack = 0, 1 + Fraction(1, 2**18)
    for adjacency in Adjacency:
        for changes in ({}, {"center": Fraction(1, 3), "reach": Fraction(1)}):
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
    from .theory.obligations import neighbors

    known: dict[Any, list[tuple[str, IntegerLaw]]] = {}
    largest = dict.fromkeys(stated, Fraction(0))
    cases = 0
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        for records in pair:
            if records not in known:
                known[records] = law(parameters, records).stage_laws()
        for (name, ours), (_, theirs) in zip(*(known[records] for records in pair), strict=True):
            if isinstance(ours, PointLaw):
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
            else:
                largest[name] = max(largest[name], ours.mu_squared(theirs))
        cases += 1
    for name, square in largest.items():
        most = stated[name] / UNIT**2
        near = Fraction(10, 9) if "moments" in name else 1 + Fraction(1, 2**18)
        case = f"{name}, {parameters['adjacency']}: mu^2 = {float(square)}, {float(most)} stated"
        require(square <= most <= square * near, case)
    return cases


@states(_KV18)
def obligation_searches_find(claimed: int = 200) -> int:
    """Check that with ``claimed`` noise multipliers of records (half as many under add-remove) the
    searches of all 2^40 cells miss with probability below 1e-4 under the default shares; with a
    third of them the bound is larger.
    """
    cases = 0
    for adjacency in Adjacency:
        for multiplier in map(Fraction, ("1/2", "4", "100")):
            parameters = _parameters(adjacency, noise_multiplier=multiplier, reach=None)
            times = claimed // 2 if counts(parameters) else claimed
            enough = math.ceil(times * multiplier)
            most, few = (chance_of_missing(parameters, n) for n in (enough, enough // 3))
            require(most < mp.mpf("1e-4"), f"{adjacency}, {multiplier}: {most}")
            require(few > mp.mpf("1e-4"), f"{adjacency}, {multiplier}: {few} with a third of them")
            cases += 1
    return cases


def obligation_lower_bound_is_below_error(within: int = 8) -> int:
    """Check that the noise alone is above the lower bound and at most 8 times it."""
    cases = 0
    for adjacency in Adjacency:
        for n, multiplier in ((1000, Fraction(4)), (10**5, Fraction(100))):
            parameters = _parameters(adjacency, noise_multiplier=multiplier)
            bound, error = lower_bound(parameters, n), noise_error(parameters, n)
            require(bound <= error <= within * bound, f"{adjacency}, {n}: {bound}, {error}")
            cases += 1
    return cases
