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
from .theory import (
    drawn_normals,
    farthest_columns,
    joint,
    outliers,
    regions,
    sliced_means,
    transcript_sums,
)
from .theory.caches import cache
from .theory.core_means import gaussian_shift
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw
from .theory.laws import Outcome, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.queries import of_each
from .theory.region_noise import (
    bins_noise,
    first_stage,
    histogram_noise,
    inner_noise,
    inner_reach,
    last_multiplier,
    multiplier,
    public_map,
    round_names,
    sensitivities,
    sides_noise,
    votes_noise,
)
from .theory.regions import Region
from .theory.released_balls import ball_radius, center_noise
from .theory.released_regions import lead, places, region_of, regions_of, slices_of
from .theory.rescaled_laws import _weighted
from .theory.rescaling import Rescaling
from .theory.tracing_bound import BOUND

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

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
    of_bins = bins_noise(parameters)
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


def _inner_moments(
    parameters: Parameters, counts: Mapping[Any, int], region: Region
) -> tuple[Outcome, Fraction]:
    unit = UNIT / inner_noise(parameters)
    own = regions.inner_moments(counts, region, inner_reach(parameters))
    return tuple(round(unit * v) for v in own), UNIT


def _sides_law(
    parameters: Parameters, public: Rescaling, counts: Mapping[Any, int], prefix: Prefix
) -> RoundedGaussianLaw:
    """Return the law of the signed count: of the ball's records in slices up to 3/2 deviations
    below the mean along the inner moments' first direction, up to that, up to 3/2 above, beyond."""
    ball = regions_of(parameters, public)(prefix[:2])
    along, middle = lead(parameters, public, prefix)
    off = places(public, sliced_means.SIDES)
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
