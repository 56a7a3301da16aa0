"""Spec of ``robust_mean``: weights by agreement, second moments, histograms or inner moments,
votes, a sum between slabs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import rescaled_mean
from .refined_mean import ball_radius, center, center_noise
from .theory import (
    drawn_normals,
    farthest_columns,
    inner_cuts,
    joint,
    long_axes,
    outliers,
    queries,
    regions,
    slabs,
    sliced_means,
    transcript_sums,
)
from .theory.caches import cache, lru_cache
from .theory.core_means import Soft, Weights, gaussian_shift
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw
from .theory.laws import Outcome, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.queries import of_each
from .theory.regions import Region
from .theory.rescaled_laws import _weighted
from .theory.rescaling import Rescaling
from .theory.shrinking import root_up
from .theory.tracing_bound import BOUND

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
Ball = tuple[tuple[int, ...], int]
"""A center and a radius, in cells."""

DEPARTURES = (
    Departure(
        "DH20, Algorithms 1 and 2",
        "noise is added to sums about released points, whose sensitivity holds for all data",
        "the papers' is an error bound on good samples; no translation-equivariant estimator "
        "has one",
    ),
    Departure(
        "DKKLMS19, the filter",
        "one round, along directions and with tails that were released with noise",
        "what was released may be used at will; a filter of the data themselves has no sensitivity",
    ),
    Departure(
        "BHS23, the stable mean",
        "weights 2 degree - n in one released agreement, known spreads, a second sum about the "
        "mean",
        "a few hundred records suffice, where the paper's constants ask for 10^5",
    ),
)
_MEAN = Source("OURS", "a robust mean by released regions")
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


# --- public numbers -----------------------------------------------------------------------------


def public_map(parameters: Parameters) -> Rescaling:
    """Return the map of columns in deviations; a cell is the largest power of two that is at most
    2^-20 radii.
    """
    given = Fraction(parameters["radius"])
    cell = queries.largest_power(lambda c: c * 2**20 <= given)
    scales = tuple(1 / float(s) for s in parameters["deviations"])
    return Rescaling(math.floor(given / cell), cell, scales)


def multiplier(parameters: Parameters, part: int) -> Fraction:
    """Return noise_multiplier / sqrt(share), the root rounded up to 2^-40."""
    share = Fraction(parameters["shares"][part])
    return Fraction(parameters["noise_multiplier"]) * root_up(1 / share)


def last_multiplier(parameters: Parameters) -> Fraction:
    """Return noise_multiplier / sqrt(share / rounds) of the sum's share, the root rounded up to
    2^-40.
    """
    square = parameters["rounds"] / Fraction(parameters["shares"][-1])
    return Fraction(parameters["noise_multiplier"]) * root_up(square)


def round_names(parameters: Parameters) -> list[str]:
    """List the stages that release sums."""
    count = parameters["rounds"]
    return [f"round {i + 1}" for i in range(count)] if count > 1 else ["sum and count"]


def first_stage(parameters: Parameters) -> Weights:
    """Return the center's noise scales, for the records that are sure to agree."""
    gamma, full = Fraction(parameters["gamma"]), parameters["full"]
    weight = 1 - 2 * gamma
    if full is not None:
        weight = min(weight / (2 * full - 1), Fraction(1))
    sure = max(1, math.floor(parameters["n_max"] * (2 * (1 - gamma) * weight - 1)))
    width = len(parameters["deviations"])
    own = parameters["adjacency"], multiplier(parameters, 0), sure, Fraction(parameters["tail"])
    return Weights(*own, width) if full is None else Soft(*own, width, full)


def histogram_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation in a bin, at least a sixteenth."""
    moves = regions.histogram_moves(parameters["directions"], parameters["adjacency"])
    return max(Fraction(1, 16), multiplier(parameters, 2) * root_up(Fraction(moves)))


def votes_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of a column's votes, at least a sixteenth."""
    moves = Fraction(farthest_columns.votes_moves(parameters["adjacency"]))
    part = multiplier(parameters, 3 if parameters["directions"] else 1)
    return max(Fraction(1, 16), part * root_up(moves))


def sides_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of the signed count, at least a sixteenth."""
    moves = Fraction(regions.signed_moves(parameters["adjacency"]))
    return max(Fraction(1, 16), multiplier(parameters, -2) * root_up(moves))


def inner_reach(parameters: Parameters) -> int:
    """Return the length that is counted along directions: sqrt(inner + 1) deviations, rounded down,
    in cells; at least 1 and at most the radius.
    """
    public = public_map(parameters)
    square = math.floor((parameters["inner"] + 1) / public.cell**2)
    return max(1, min(math.isqrt(square), public.radius))


def inner_noise(parameters: Parameters) -> Fraction:
    """Return the standard deviation of the noise on inner moments, in squared cells."""
    own = parameters["adjacency"], multiplier(parameters, 2)
    return regions.moments_noise(inner_reach(parameters), *own)


def _inner_moments(
    parameters: Parameters, counts: Mapping[Any, int], region: Region
) -> tuple[Outcome, Fraction]:
    unit = UNIT / inner_noise(parameters)
    own = regions.inner_moments(counts, region, inner_reach(parameters))
    return tuple(round(unit * v) for v in own), UNIT


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage; that of the agreement in L1, all others squared."""
    first, d = first_stage(parameters), len(parameters["deviations"])
    by_stage = {
        "agreement": first.moves,
        "mean": transcript_sums.unit_sensitivity(first.spread, d),
    }
    if parameters["directions"]:
        width = d * (d + 1) // 2
        by_stage["moments"] = transcript_sums.unit_sensitivity(multiplier(parameters, 1), width)
        inner = parameters["inner"]
        if inner:
            width = (inner + 1) * (inner + 2) // 2
            own = transcript_sums.unit_sensitivity(multiplier(parameters, 2), width)
            by_stage["inner moments"] = own
        else:
            moves = regions.histogram_moves(parameters["directions"], parameters["adjacency"])
            by_stage["histogram"] = moves
    if parameters["votes"]:
        by_stage["votes"] = farthest_columns.votes_moves(parameters["adjacency"])
    if parameters["rounds"] > 1:
        by_stage["sides"] = regions.signed_moves(parameters["adjacency"])
    width = (d + 1) * (2 if parameters["rounds"] > 1 else 1)
    own = transcript_sums.unit_sensitivity(last_multiplier(parameters), width)
    return by_stage | dict.fromkeys(round_names(parameters), own)


_directions, _slab = lru_cache(maxsize=64)(slabs.directions), lru_cache(maxsize=64)(slabs.slab)
_seen = lru_cache(maxsize=64)(long_axes.seen_deviation)
_inner_slabs = lru_cache(maxsize=64)(inner_cuts.slabs)


def _of_bins(parameters: Parameters) -> Fraction:
    """Return the noise in a bin, 0 where there are no histograms."""
    histograms = parameters["directions"] and not parameters["inner"]
    return histogram_noise(parameters) if histograms else Fraction(0)


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
    of_bins = _of_bins(parameters)
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
        sliced = _side(parameters, public, prefix) != 0
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


def _side(parameters: Parameters, public: Rescaling, prefix: Prefix) -> int:
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


def _places(public: Rescaling, deviations: Fraction) -> int:
    """Return so many deviations in cells times LENGTH, rounded down, at most 2^60."""
    return min(max(math.floor(deviations * regions.LENGTH / public.cell), -(2**60)), 2**60)


def _lead(parameters: Parameters, public: Rescaling, prefix: Prefix) -> tuple[Any, int]:
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
    sign, share = _side(parameters, public, prefix), Fraction(parameters["gamma"])
    if not sign:
        return (0,) * public.width, (2**60,)
    made = len(prefix) - 5 - bool(parameters["votes"])
    if not made:
        along, middle = _lead(parameters, public, prefix)
        edge = _places(public, sliced_means.EDGE - sliced_means.TURNED * share)
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


# --- the law ------------------------------------------------------------------------------------


@states(_MEAN, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the law: agreement and mean; moments in the ball about it; histograms along the
    moments' directions, or inner moments; votes for the farthest column; sum and number between
    the slabs and in the box that these show, or in slices across a direction, in rounds.
    """
    public, first = public_map(parameters), first_stage(parameters)
    images = of_each(public.image, records)
    counts, adjacency = Counter(images), parameters["adjacency"]
    region_after = regions_of(parameters, public)
    spreads = [multiplier(parameters, 1), last_multiplier(parameters)]
    of_bins = _of_bins(parameters)
    moments_unit = cache(lambda reach: UNIT / regions.moments_noise(reach, adjacency, spreads[0]))
    noise = cache(lambda reach: transcript_sums.noise(reach, adjacency, spreads[1]))
    before = _weighted(first, public, images, public.degrees(images))

    def about(value: Callable[[Region], tuple[Outcome, Fraction]]) -> Any:
        @cache
        def stage(prefix: Prefix) -> RoundedGaussianLaw:
            return RoundedGaussianLaw(*value(region_after(prefix)))

        return stage

    def moments(region: Region) -> tuple[Outcome, Fraction]:
        unit = moments_unit(region.reach)
        return tuple(round(unit * v) for v in regions.moments(counts, region)), UNIT

    def histogram(region: Region) -> tuple[Outcome, Fraction]:
        outcome = regions.histogram(counts, region, parameters["bins"])
        return outcome, of_bins

    def named(prefix: Prefix) -> RoundedGaussianLaw:
        center, radius = region_after(prefix[:2]).center, region_after(prefix[:2]).radius
        named_ = farthest_columns.votes(counts, Region(center, radius))
        return RoundedGaussianLaw(named_, votes_noise(parameters))

    def total(region: Region) -> tuple[Outcome, Fraction]:
        return transcript_sums.in_unit(regions.slab_sum(counts, region), noise(region.reach)), UNIT

    stages = [*before.stages]
    if parameters["directions"]:
        inner = partial(_inner_moments, parameters, counts)
        second: dict[str, Any] = (
            {"inner moments": inner} if parameters["inner"] else {"histogram": histogram}
        )
        stages += [(name, about(of)) for name, of in {"moments": moments, **second}.items()]
    if parameters["votes"]:
        stages.append(("votes", cache(named)))
    stages += _last_stages(parameters, public, counts, about(total))
    example = before.example
    for _, stage in stages[1:-1]:
        likely: Any = stage(example)
        example = (*example, likely.center)
    return TranscriptLaw(tuple(stages), example)


def _sides_law(
    parameters: Parameters, public: Rescaling, counts: Mapping[Any, int], prefix: Prefix
) -> RoundedGaussianLaw:
    """Return the law of the signed count: of the ball's records in slices up to 3/2 deviations
    below the mean along the inner moments' first direction, up to that, up to 3/2 above, beyond."""
    ball = regions_of(parameters, public)(prefix[:2])
    along, middle = _lead(parameters, public, prefix)
    off = _places(public, sliced_means.SIDES)
    edges = middle - off, middle, middle + off
    told = regions.signed_count(counts, Region(ball.center, ball.radius), along, edges)
    return RoundedGaussianLaw(told, sides_noise(parameters))


def _last_stages(
    parameters: Parameters, public: Rescaling, counts: Mapping[Any, int], total: Any
) -> list[tuple[str, Any]]:
    """Return the last stages: the sum between slabs, or the signed count and rounds in slices."""
    region_after, adjacency = regions_of(parameters, public), parameters["adjacency"]

    @cache
    def in_slices(prefix: Prefix) -> RoundedGaussianLaw:
        region = region_after(prefix)
        noise = transcript_sums.noise(region.reach, adjacency, last_multiplier(parameters))
        sums = regions.slice_sum(counts, region, *slices_of(parameters, public, prefix))
        return RoundedGaussianLaw(transcript_sums.in_unit(sums, noise), UNIT)

    if parameters["rounds"] == 1:
        return [(name, total) for name in round_names(parameters)]
    sides = cache(partial(_sides_law, parameters, public, counts))
    return [("sides", sides), *((name, in_slices) for name in round_names(parameters))]


# --- errors -------------------------------------------------------------------------------------


def _ratio(parameters: Parameters, agreed: int, most: int | None = None) -> joint.Ratio:
    """Return the ratio of the last stage after this agreement; |sum / number| is at most the
    radius, or ``most`` cells.
    """
    public = public_map(parameters)
    noise = center_noise(first_stage(parameters), public.radius, (agreed,))
    radius = ball_radius(parameters, public, noise)
    reach = Region((), radius, drawn=Fraction(parameters["drawn"])).reach
    own = transcript_sums.noise(reach, parameters["adjacency"], multiplier(parameters, -1))
    return joint.Ratio(
        own, radius if most is None else most, public.width, transcript_sums.weight(reach)
    )


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def expected_error(parameters: Parameters, n: int, inliers: float | None = None) -> Any:
    """Return the root mean squared |estimate - mean| to first order, in deviations, of n records
    that are all friends and all inside, of which no slab cuts any.

    inliers: the number of records of which this is so; the others are friends of fewer than
    half of the records, and outside. Then the agreement is ``outliers.sure_agreement``, and the
    mean is that of the inliers.
    """
    first, public = first_stage(parameters), public_map(parameters)
    inside = n if inliers is None else int(inliers)
    agreed = -first.shift
    agreed += n if inside == n else outliers.sure_agreement(n, inside, parameters["full"])
    noise = center_noise(first, public.radius, (agreed,))
    off, follows = real(noise) * mp.sqrt(public.width), mp.mpf(1)
    drawn = Fraction(parameters["drawn"])
    if drawn < 1:
        ball = Region((), ball_radius(parameters, public, noise), drawn=drawn)
        cell = real(public.cell)
        follows = drawn_normals.response(
            public.width, ball.radius * cell, ball.reach * cell, off * cell
        )
    error = joint.expected_error(_ratio(parameters, agreed), inside, off * follows)
    return error / follows * real(public.cell)


@states(Source("OURS", "error of a robust mean, for any outliers"))
def error_bound(parameters: Parameters, n: int, beta: Fraction, within: Fraction) -> Any:
    """Return a bound in deviations on the distance of the estimate from the inliers' mean, for any
    floor(gamma n) outliers among the n records; it fails with probability at most beta. Without
    directions.

    The inliers are all friends, and within ``within`` of their mean. Each of four parts of the
    proof fails with probability at most beta / 4. The agreement is at least a =
    ``outliers.sure_agreement``, so at least r = a - shift - t is released. The center is then
    off by at most ``outliers.center_bias`` and c deviations of its noise. All inliers are
    inside if ``within`` and that distance add up to at most the radius R. Outliers inside are
    within R of the center, so the mean of all records inside is off by at most a share gamma of
    R and the center's error; the error by noise is as in theory/joint.py for the fewest inside.
    Raises ValueError where that does not hold.

    A bound for the least agreement holds for larger ones. Let x be the center's noise, which
    falls as the agreement grows. R^2 is a constant plus d x^2, and the center is L x off
    besides its bias, where L >= sqrt(d) is a length that normal vectors rarely have. R, L x and
    all noise fall with x, and R - L x rises, as its slope in x is d x / R - L < sqrt(d) -
    L <= 0.
    """
    first, public = first_stage(parameters), public_map(parameters)
    inliers = n - math.floor(Fraction(parameters["gamma"]) * n)
    sure = outliers.sure_agreement(n, inliers, parameters["full"])
    agreed = sure - first.shift - gaussian_shift(first.scale, beta / 4) + 1
    if parameters["directions"] or parameters["drawn"] != 1 or agreed < first.least:
        raise ValueError(f"n = {n}: {agreed} may be released, or records cut or drawn in")
    off, cells = center_noise(first, public.radius, (agreed,)), within / public.cell
    own = cells, Fraction(public.radius), parameters["full"]
    bias = outliers.center_bias(n, inliers, *own)
    away = real(bias) + real(off) * joint.normal_length(public.width, beta / 4)
    away += 4 * mp.sqrt(public.width)  # roundings of records and center to cells
    ratio = _ratio(parameters, agreed)
    if real(cells) + away > ratio.radius:
        raise ValueError(f"inliers at {within} may be outside the ball of {ratio.radius} cells")
    share = real(Fraction(n - inliers, n)) * (ratio.radius + away)
    noise = joint.error_bound(ratio, inliers, beta / 2, -(-n // 4))
    return (share + noise) * real(public.cell)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return the lower bound of a rescaled mean with all of the budget, without outliers, in the
    data's units.
    """
    matrix = tuple(float(s) ** 2 for s in parameters["deviations"])
    return rescaled_mean.lower_bound({**parameters, "matrix": matrix, "filter": "weights"}, n)


# --- obligations --------------------------------------------------------------------------------


def _parameters(adjacency: Adjacency, d: int, **changes: Any) -> dict[str, Any]:
    quarter = (Fraction(1, 4),) * 4
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(1, 4),
        "deviations": (1.0,) * d,
        "radius": 2,
        "record_radius": 2,
        "n_max": 60,
        "tail": Fraction(1, 1000),
        "gamma": Fraction(0),
        "full": None,
        "directions": 1,
        "bins": 4,
        "votes": False,
        "drawn": Fraction(1),
        "inner": 0,
        "rounds": 1,
        "shares": quarter,
        "budget": None,
        "nonfinite": "refuse",
        **changes,
    }


def _crowds(parameters: Parameters) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield sixty records at 0 and one more, or another one: on the rim of the released ball where
    it is no friend, inside, outside, far away.
    """
    d, public = len(parameters["deviations"]), public_map(parameters)
    crowd: list[Any] = [Fraction(0) if d == 1 else (Fraction(0),) * d] * 60
    lonely = law(parameters, [*crowd, Fraction(9) if d == 1 else (Fraction(9),) * d])
    rim = region_of(parameters, public, lonely.example).radius * public.cell
    ends = [rim, -rim, Fraction(1, 2), rim + public.cell, Fraction(10**30)]
    records: list[Any] = [x if d == 1 else (x, Fraction(0)) for x in ends]
    if d == 2:
        records.append((Fraction(0), rim))
    for record in records:
        if parameters["adjacency"] is Adjacency.ADD_REMOVE:
            yield [*crowd, record], crowd
        else:
            yield from (([*crowd, record], [*crowd, other]) for other in records)


@states(_MEAN, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check, after the same released numbers, that no stage's exact mu is above what the code's
    sensitivity says; that of moments and votes (in a plane), histogram or inner moments, and sum is
    within 1% of ``claimed`` times it for some pair.
    """
    cases, soft = 0, Fraction(9, 10)
    worlds = (
        (1, None, 0, 1),
        (1, soft, 0, 1),
        (2, None, 0, 1),
        (2, soft, 0, 1),
        (2, None, 2, 1),
        (2, None, 2, 2),
    )
    for adjacency, (d, full, inner, rounds) in product(Adjacency, worlds):
        if full is not None and adjacency is not Adjacency.REPLACE:
            continue
        number = 5 + (rounds > 1)
        equal = {"votes": True, "shares": (Fraction(1, number),) * number}
        parameters = _parameters(adjacency, d, full=full, inner=inner, rounds=rounds, **equal)
        stated, first = sensitivities(parameters), first_stage(parameters)
        scales = {"agreement": first.scale, "votes": votes_noise(parameters)}
        scales["sides"] = sides_noise(parameters)
        if not inner:
            scales["histogram"] = histogram_noise(parameters)
        largest: dict[str, Fraction] = {}
        for left, right in _crowds(parameters):
            laws = [law(parameters, records) for records in (left, right)]
            for prefixes in (laws[0].example, laws[1].example):
                for i, (name, stage) in enumerate(laws[0].stages):
                    one, other = stage(prefixes[:i]), laws[1].stages[i][1](prefixes[:i])
                    if not isinstance(one, RoundedGaussianLaw) or not isinstance(
                        other, RoundedGaussianLaw
                    ):
                        continue
                    loss = one.mu_squared(other)
                    own = Fraction(stated[name]) ** (2 if name == "agreement" else 1)
                    most = own / scales.get(name, UNIT) ** 2
                    require(loss <= most * claimed**2, f"{name}, {left[-1]}, {right[-1]}: {loss}")
                    share = loss / most
                    largest[name] = max(largest.get(name, Fraction(0)), share)
                    cases += 1
        for name in list(stated)[2:]:
            if name in ("moments", "votes") and d == 1 and adjacency is Adjacency.REPLACE:
                # On a line y^2 is at least 0, and there is one count: at most half is attained.
                continue
            near = largest[name] >= claimed**2 * Fraction(98, 100)
            require(near, f"{name}, {adjacency}, d = {d}: {float(largest[name])} of what is stated")
    return cases


@states(Source("OURS", "error of a robust mean, for any outliers"))
def obligation_bounds_are_in_order(within: int = 40) -> int:
    """Check without outliers that the expected error is between the lower bound and ``within``
    times it, and below the bound that fails with probability 1 / 100; with outliers the latter
    is larger.
    """
    cases = 0
    for adjacency, d, n in product(Adjacency, (1, 10), (2000, 10**5)):
        radius = Fraction(3 + 2 * math.isqrt(d))
        own = {"radius": 2 * radius, "record_radius": 2 * radius, "n_max": n, "directions": 0}
        shares = (Fraction(1, 4), Fraction(3, 4))
        parameters = _parameters(adjacency, d, **own, shares=shares, noise_multiplier=Fraction(2))
        error, beta = expected_error(parameters, n), Fraction(1, 100)
        lower, upper = lower_bound(parameters, n), error_bound(parameters, n, beta, radius)
        shown = f"{adjacency}, d = {d}, n = {n}: {lower}, {error}, {upper}"
        require(lower <= error <= within * lower and error <= upper, shown)
        robust = {**parameters, "gamma": Fraction(1, 20)}
        worse = error_bound(robust, n, beta, radius / 2)
        require(worse >= real(Fraction(1, 20) * radius), f"{shown}; with outliers {worse}")
        cases += 1
    return cases
