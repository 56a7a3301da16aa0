"""Spec of ``gaussian_mean``: medians by a noisy search, a clipped sum about them, and another
about its result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import (
    centered,
    chi_square,
    clipped_response,
    known_covariance,
    normal_fits,
    public_sets,
)
from .theory.caches import cache, lru_cache
from .theory.centered import GRAIN, TYPICAL, Prefix, noisy, root
from .theory.coordinates import (
    Stretch,
    rows_of,
    scaled_masked_sum,
    scaled_masked_sum_sensitivity,
    scaled_sum,
    scaled_sum_sensitivity,
    side_counts_sensitivity,
    stretch_about,
)
from .theory.gaussian_laws import UNIT
from .theory.joint import normal_length, with_count_sensitivity
from .theory.laws import IntegerLaw, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.queries import largest_power, of_each
from .theory.tracing_bound import BOUND
from .theory.vectors import Record
from .theory.whitening import octave

Parameters = Mapping[str, Any]
Ball = tuple[Stretch, int]

DEPARTURES = (
    Departure(
        "ZZ25, Theorem 4.1",
        "records beyond the ball are clipped to it, and the mean is the one whose clipped "
        "records have the released mean; with outside='mask' they are left out, as in the paper",
        "clipped records tell as much with less error, by up to a third for few records or "
        "columns; a law that was truncated before needs the mask",
    ),
    Departure(
        "ZZ25, Algorithm 3.1",
        "one noisy sum in place of noisy gradient steps",
        "in an exponential family truncated to a fixed set the gradient depends on data through "
        "that sum alone",
    ),
    Departure(
        "ZZ25, Algorithm B.2",
        "the first center comes from a noisy binary search for all medians, not from histograms",
        "exactly Gaussian DP, without delta, and without a bin for every part of the line",
    ),
    Departure(
        "ZZ25, Section 3",
        "the ball's radius is the one of the least predicted error at the released or public "
        "number, not one of constant mass",
        "a radius of constant mass costs two to six times the error",
    ),
    Departure(
        "ZZ25, Remark 3.2",
        "the set in which records were kept is cut with the ball of the estimator, and the "
        "center of the last ball is the mean of what counted in the first, not of all records",
        "a half-space has no bound; the center may be anywhere near what is left, for the way back "
        "knows the set",
    ),
)
_OURS = Source("OURS", "the mean of normal records from that of clipped ones")
_WHITENED = Source("OURS", "whitening by a public covariance")
_MASKED = Source(
    "ZZ25", "Theorem 4.1, the mean of a Gaussian", note="by one release of truncated records"
)
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")


# --- whitened records ----------------------------------------------------------------------------


def whitened(parameters: Parameters) -> known_covariance.Whitening | None:
    """Return the map of records: for a covariance, and for unlike deviations where a public set is
    given.
    """
    center = parameters["center"]
    if parameters["covariance"] is not None:
        return known_covariance.whitening(parameters["covariance"], center)
    if parameters["kept"] is None or len(set(parameters["deviations"])) == 1:
        return None
    return known_covariance.whitening(known_covariance.diagonal(parameters["deviations"]), center)


def of_images(parameters: Parameters) -> Parameters:
    """Return the parameters for images, which have deviations of 1 about 0; the same where there
    is no map.
    """
    public = whitened(parameters)
    if public is None:
        return parameters
    given, ones = parameters["deviations"], (1.0,) * centered.width(parameters)
    own = Fraction(1) if given is None else min(map(Fraction, given))
    return {
        **parameters,
        "center": (0.0,) * len(ones),
        "deviations": ones,
        "covariance": None,
        "reach": Fraction(parameters["reach"]) / own,
        "kept": known_covariance.of_images(parameters["kept"], public),
    }


# --- shares, noise ------------------------------------------------------------------------------


def counts(parameters: Parameters) -> bool:
    """Return whether the number of records is private."""
    return parameters["adjacency"] is Adjacency.ADD_REMOVE


def masked(parameters: Parameters) -> bool:
    """Return whether records outside are left out."""
    return bool(parameters["outside"] == "mask")


def sum_share(parameters: Parameters) -> Fraction:
    """Return the share of mu^2 that the search and the first sum leave."""
    return 1 - Fraction(parameters["search_share"]) - Fraction(parameters["warm_share"])


def search_steps(parameters: Parameters) -> int:
    """Return the number of search steps: halvings of the reach down to the least deviation, and
    the extra ones.
    """
    return centered.halvings(parameters, min(map(Fraction, parameters["deviations"])))


def weight(parameters: Parameters) -> int:
    """Return the weight of a record's number beside a ball of one grain; under replace the largest
    that is free.
    """
    return GRAIN // 8 if counts(parameters) else math.isqrt(3 * GRAIN**2)


def moved(parameters: Parameters, radius: int) -> int:
    """Return the squared sensitivity of a sum in a ball of so many grains."""
    adjacency, w = parameters["adjacency"], radius * weight(parameters)
    if masked(parameters):
        return scaled_masked_sum_sensitivity(radius * GRAIN, w, adjacency)
    if counts(parameters):
        return with_count_sensitivity(radius * GRAIN, w, adjacency)
    return scaled_sum_sensitivity(radius * GRAIN, adjacency)


def scale(parameters: Parameters, share: Fraction) -> Fraction:
    """Return the noise of a sum in a ball of one grain."""
    return Fraction(parameters["noise_multiplier"]) * root(moved(parameters, 1) / share)


def at_least(parameters: Parameters) -> int:
    """Return 2.7 standard deviations of a search step's noise, from 1 to 2^60."""
    if parameters["at_least"] is not None:
        return int(parameters["at_least"])
    noise = centered.step_scale(parameters, search_steps(parameters))
    return min(max(1, math.ceil(Fraction(27, 10) * noise)), 1 << 60)


# --- units, balls -------------------------------------------------------------------------------


def stretch(parameters: Parameters, medians: Sequence[Fraction]) -> Stretch:
    """Return the map of columns in units of their deviations, about these points; the expected
    squared length is d.
    """
    squares = [Fraction(s) ** 2 for s in parameters["deviations"]]
    return stretch_about(medians, squares, Fraction(len(squares)), TYPICAL * GRAIN)


@lru_cache(maxsize=64)
def _deviation(deviations: tuple[Any, ...], units: Stretch) -> Any:
    own = [
        real(Fraction(s) * f / cell)
        for s, f, cell in zip(deviations, units.factors, units.cells, strict=True)
    ]
    return mp.sqrt(mp.fsum(a**2 for a in own) / len(own))


def deviation(parameters: Parameters) -> Any:
    """Return the root mean square of the columns' deviations in the image."""
    units = stretch(parameters, [Fraction(0)] * centered.width(parameters))
    return _deviation(tuple(parameters["deviations"]), units)


def center_steps(parameters: Parameters) -> list[Fraction]:
    """Return, for every column, the largest power of two up to a 16th of a deviation, or a cell."""
    units = stretch(parameters, [Fraction(0)] * centered.width(parameters))
    return [
        max(cell, largest_power(lambda p, s=Fraction(s): p <= s / 16))  # type: ignore[misc]
        for s, cell in zip(parameters["deviations"], units.cells, strict=True)
    ]


def best_length(parameters: Parameters, quarter: int) -> Any:
    """Return the last radius, in deviations, for 2^(quarter / 4) records."""
    mu = mp.sqrt(real(sum_share(parameters))) / real(Fraction(parameters["noise_multiplier"]))
    best = clipped_response.best_masked_bound if masked(parameters) else normal_fits.best_mean_bound
    n, moves = mp.mpf(2) ** (mp.mpf(quarter) / 4), 1 if counts(parameters) else 2
    return mp.sqrt(best(centered.width(parameters), n, mu, moves))


def first_length(parameters: Parameters) -> Any:
    """Return the first radius, in deviations."""
    return mp.sqrt((3 if masked(parameters) else 2) * centered.width(parameters))


def ball(parameters: Parameters, center: Stretch, length: Any) -> Ball:
    """Return the ball with this radius in deviations."""
    return center, max(1, int(mp.floor(length * deviation(parameters) / GRAIN)))


def kept(parameters: Parameters, about: Stretch) -> public_sets.Slab | public_sets.Round | None:
    """Return the public set in which records were kept, of images."""
    origin = stretch(parameters, [Fraction(c) for c in parameters["center"]]).center
    return public_sets.in_cells(parameters["kept"], about, origin, deviation(parameters))


def first_ball(parameters: Parameters, prefix: Prefix) -> Ball:
    """Return the ball about the medians."""
    medians = centered.medians(parameters, prefix, search_steps(parameters))
    return ball(parameters, stretch(parameters, medians), first_length(parameters))


def last_ball(parameters: Parameters, prefix: Prefix) -> Ball:
    """Return the ball about the mean that the first sum, over the number that counts in it, gives.

    Too small a number counts as the least one, of those inside as an eighth of it. For records
    that were kept in a public set the center is the mean of the records that count, in the
    first ball: it need not be the mean.
    """
    steps, d = search_steps(parameters), centered.width(parameters)
    first, radius = first_ball(parameters, prefix)
    values, least = prefix[steps], at_least(parameters)
    per = radius * scale(parameters, Fraction(parameters["warm_share"])) / UNIT
    joint = counts(parameters) or masked(parameters)
    own = values[-1] * per / (radius * weight(parameters)) if joint else Fraction(0)
    every = own if counts(parameters) else Fraction(prefix[steps + 1][0])
    known = min(max(every, Fraction(least)), Fraction(10**18))
    number = known
    if masked(parameters):
        number = min(max(own, Fraction(least, 8)), Fraction(10**18))
    offsets = [real(v * per / number) for v in values[:d]]
    length = mp.sqrt(mp.fsum(v**2 for v in offsets)) / deviation(parameters)
    limit = mp.mpf(radius) * GRAIN / deviation(parameters)
    ratio = mp.mpf(0)
    if parameters["kept"] is not None:
        ratio = min(mp.mpf(1), limit / length) if length else mp.mpf(1)
    elif length:
        ratio = clipped_response.offset_of(d, limit, length, parameters["outside"]) / length
    moved_to = []
    for j, step in enumerate(center_steps(parameters)):
        cells, most = int(step / first.cells[j]), math.floor(2**40 * first.cells[j] / step)
        point = (first.center[j] + offsets[j] * ratio / first.factors[j]) / cells
        moved_to.append(min(max(int(mp.nint(point)), -most), most) * cells)
    about = Stretch(tuple(moved_to), first.cells, first.factors)
    return ball(parameters, about, best_length(parameters, octave(known)))


def value(parameters: Parameters, rows: Sequence[Record], about: Ball) -> tuple[int, ...]:
    """Return the integers that a sum adds noise to, before they are divided by its scale."""
    public, radius = about
    w = radius * weight(parameters)
    if masked(parameters):
        return scaled_masked_sum(rows, public, radius * GRAIN, w, kept(parameters, public))
    total = scaled_sum(rows, public, radius * GRAIN)
    return (*total, w * len(rows)) if counts(parameters) else total


# --- the law ------------------------------------------------------------------------------------


@states(_OURS, _MASKED, _GAUSSIAN, _WHITENED)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw:
    """Return the law of side 1, side 2, ...; the first sum; the number where it is public; the
    last sum, with a number that is not.

    With a map, it is the law for the images.
    """
    public_map = whitened(parameters)
    if public_map is not None:
        images = of_each(public_map.map.image, rows_of(records))
        return law(of_images(parameters), images)
    rows, steps, d = rows_of(records), search_steps(parameters), centered.width(parameters)
    joint = counts(parameters) or masked(parameters)

    def limited(share: Fraction, about: Ball) -> IntegerLaw:
        return noisy(value(parameters, rows, about), about[1] * scale(parameters, share))

    @cache
    def warm(prefix: Prefix) -> IntegerLaw:
        return limited(Fraction(parameters["warm_share"]), first_ball(parameters, prefix))

    @cache
    def last(prefix: Prefix) -> IntegerLaw:
        return limited(sum_share(parameters), last_ball(parameters, prefix))

    public = [] if counts(parameters) else [("count", lambda prefix: PointLaw((len(rows),)))]
    stages: list[Any] = [
        *centered.side_stages(parameters, rows, steps, steps),
        ("warm sum", warm),
        *public,
        ("sum and count" if joint else "sum", last),
    ]
    example = [
        *((0,) * d for _ in range(steps)),
        (0,) * (d + joint),
        *((len(rows),) for _ in public),
    ]
    return TranscriptLaw(tuple(stages), tuple(example))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit: the same for every radius, to
    which noise is in proportion.
    """
    parameters = of_images(parameters)
    d, steps = centered.width(parameters), search_steps(parameters)
    joint = counts(parameters) or masked(parameters)
    side = side_counts_sensitivity(d, parameters["adjacency"])
    step = centered.unit_sensitivity(side, centered.step_scale(parameters, steps), d)

    def limited(share: Fraction) -> int:
        return centered.unit_sensitivity(moved(parameters, 1), scale(parameters, share), d + joint)

    return {
        **{f"side {k + 1}": step for k in range(steps)},
        "warm sum": limited(Fraction(parameters["warm_share"])),
        **({} if counts(parameters) else {"count": 0}),
        "sum and count" if joint else "sum": limited(sum_share(parameters)),
    }


# --- errors, in deviations ------------------------------------------------------------------------


def _last(parameters: Parameters, n: int) -> tuple[Any, clipped_response.Moment, Any]:
    """Return the last radius for n records, the moment of a mean at the center, and the noise of a
    coordinate of the sum.

    The effect of a public set on the records is left out.
    """
    d = centered.width(parameters)
    points = stretch(parameters, [Fraction(0)] * d)
    _, grains = ball(parameters, points, best_length(parameters, octave(Fraction(n))))
    unit = deviation(parameters)
    radius = mp.mpf(grains) * GRAIN / unit
    at = clipped_response.moment(d, radius, mp.mpf(0), parameters["outside"])
    noise = grains * real(scale(parameters, sum_share(parameters))) / unit
    return radius, at, noise


@states(_OURS, _MASKED)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared length of the noise's part, over deviations, about a center at
    the mean, for equal deviations.

    It is the noise of the sum over the number that counts, over the slope at which its mean
    follows that of the records.
    """
    _, at, noise = _last(of_images(parameters), n)
    number = n * at.inside if masked(parameters) else n
    return mp.sqrt(centered.width(parameters)) * noise / (number * at.slope)


@states(_OURS, _MASKED)
def noise_quantile(parameters: Parameters, n: int, log_inverse_beta: Any) -> Any:
    """Return the length that the noise's part exceeds with probability exp(-log_inverse_beta): a
    multiple of a normal vector's length.
    """
    d = centered.width(parameters)
    share = -mp.expm1(-mp.mpf(log_inverse_beta))
    return noise_error(parameters, n) * normal_fits.length_within(d, share) / mp.sqrt(d)


@states(_OURS, _MASKED)
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared distance of the estimate from the mean of the records' law,
    over deviations.

    A clipped record has E |z|^2 = E min(|y|^2, r^2), one inside the variance ``slope`` in every
    direction.
    """
    radius, at, _ = _last(of_images(parameters), n)
    d = centered.width(parameters)
    if masked(parameters):
        square = d / (n * at.inside * at.slope)
    else:
        bound = radius**2
        lengths = d * chi_square.below(d + 2, bound) + bound * (1 - chi_square.below(d, bound))
        square = lengths / (n * at.slope**2)
    return mp.sqrt(square + noise_error(parameters, n) ** 2)


@states(
    Source(
        "OURS", "strong monotonicity of a clipped mean", note="ZZ25, Theorem 3.1, by one release"
    )
)
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on |estimate - mean| over deviations, which fails with probability at most
    beta, for equal deviations and a fixed center within 1.

    The released center follows from the same records, by medians and a sum with noise: for such
    a center McDiarmid's step is no proof. The tests compare the bound with errors for released
    centers, which are far below it.
    Let g(m) be the mean of limited records. The estimate m' solves g(m') = v, and |v -
    g(m)| >= slope |m' - m| with the least slope of the Jacobian on a ball that contains both,
    which is the slope of g along m at its end (slopes fall: obligation_offset). So where |v -
    g(m)| <= slope at 2, m' is within 2 and |m' - m| <= |v - g(m)| / slope. v - g(m) consists of
    the following, each except with probability beta / 4: the noise over the number; the
    sampling error, at most E + r sqrt(2 ln(4 / beta) / N) by McDiarmid, E <= sqrt(E |z|^2 / N)
    with |z| at most r and E |z|^2 at most d + 1; and the number's noise over the number, times
    |g(m)| plus the sampling error. N >= n P - sqrt(n ln(4 / beta) / 2) records are inside
    (Hoeffding). Raises ValueError where n is too small for that.
    """
    radius, _, noise = _last(of_images(parameters), n)
    d, outside, level = centered.width(parameters), parameters["outside"], mp.log(4 / real(beta))
    edge, end = (clipped_response.moment(d, radius, mp.mpf(m), outside) for m in (1, 2))
    inside, wrong = mp.mpf(n), mp.mpf(0)
    if masked(parameters):
        inside = n * edge.inside - mp.sqrt(n * level / 2)
    if counts(parameters) or masked(parameters):
        counted = noise * GRAIN / (weight(parameters) * radius)
        wrong = counted * mp.sqrt(2 * mp.log(8 / real(beta)))
    if inside - wrong <= 0:
        raise ValueError(f"n = {n} is within the noise {mp.nstr(wrong, 3)} of the number")
    drawn = (min(radius, mp.sqrt(d + 1)) + radius * mp.sqrt(2 * level)) / mp.sqrt(inside)
    off = noise * normal_length(d, beta / 4) / (inside - wrong)
    off += drawn + (edge.length + drawn) * wrong / (inside - wrong)
    if off > end.slope:
        raise ValueError(f"n = {n}: the released mean may be off by {mp.nstr(off, 3)} deviations")
    return off / end.slope


def chance_of_missing(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the search leaves a median that all n records
    share.
    """
    parameters = of_images(parameters)
    steps = search_steps(parameters)
    return centered.chance_of_missing(parameters, n, steps, steps)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, over deviations, for all means of n
    such records, of every estimate of this privacy.
    """
    return centered.lower_bound(parameters, n, [mp.mpf(1)] * centered.width(parameters))


# --- obligations --------------------------------------------------------------------------------

_SURFACE = Fraction(999, 1000)


def _universe(parameters: Parameters) -> list[Record]:
    """Return records far on either side; just below the center of the search; just within both
    balls, on either side.
    """
    d = centered.width(parameters)
    example = law(parameters, ()).example
    records = [(Fraction(x),) * d for x in ("2/5", 10**30, -(10**30))]
    for public, radius in (first_ball(parameters, example), last_ball(parameters, example)):
        far = _SURFACE * radius * GRAIN * public.cells[0] / public.factors[0]
        middle = [c * cell for c, cell in zip(public.center, public.cells, strict=True)]
        records += [(middle[0] + side * far, *middle[1:]) for side in (-1, 1)]
    return records


def _settings(adjacency: Adjacency, d: int, **own: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center": (0.5,) * d,
        "reach": Fraction(2),
        "search_share": Fraction(13, 100),
        "warm_share": Fraction(6, 100),
        "extra_steps": 0,
        "at_least": 1,
        "deviations": (1.0,) * d,
        "outside": "clip",
        "covariance": None,
        "kept": None,
        **own,
    }


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    For some pair it is within 3/1000 of it. The stated ones add up to (claimed / multiplier)^2,
    up to the grid's 2^-18. A half-space through the center, on whose plane these records lie,
    is tried too.
    """
    cases, through = 0, known_covariance.HalfSpace((0.0, 1.0), 0.5)
    ways: list[dict[str, Any]] = [
        *({"d": d, "outside": outside} for d, outside in product((1, 2), ("clip", "mask"))),
        {"d": 2, "outside": "mask", "kept": through},
    ]
    for adjacency, way in product(Adjacency, ways):
        parameters = _settings(adjacency, **way)
        stated = sum(sensitivities(parameters).values()) / UNIT**2
        square, slack = (claimed / parameters["noise_multiplier"]) ** 2, 1 + Fraction(1, 2**18)
        case = f"{parameters}: mu^2 = {float(stated)}, not {float(square)}"
        require(stated <= square * slack and square <= stated * slack, case)
        cases += centered.stages_move(
            lambda records, p=parameters: law(p, records),  # type: ignore[misc]
            _universe(parameters),
            adjacency,
            sensitivities(parameters),
            Fraction(3, 1000),
        )
    return cases


@states(
    Source(
        "OURS", "strong monotonicity of a clipped mean", note="ZZ25, Theorem 3.1, by one release"
    )
)
def obligation_lower_bound_is_below_error(within: int = 10) -> int:
    """Check that the noise alone is above the lower bound and at most 10 times it; and that the
    bound that fails with probability 1/20 is above the expected error and at most 12 times it.
    """
    cases = 0
    for adjacency, d, outside in product(Adjacency, (5, 50), ("clip", "mask")):
        n = 4000 * d
        parameters = _settings(adjacency, d, noise_multiplier=Fraction(4), outside=outside)
        bound, error = lower_bound(parameters, n), noise_error(parameters, n)
        require(bound <= error <= within * bound, f"{parameters}, n = {n}: {bound}, {error}")
        most, error = error_bound(parameters, n, Fraction(1, 20)), expected_error(parameters, n)
        require(error <= most <= 12 * error, f"{parameters}, n = {n}: {most}, {error}")
        cases += 1
    return cases
