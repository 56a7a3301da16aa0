"""Spec of ``refined_mean``: a rescaled mean as center, then a sum and a number in a ball about
it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import rescaled_mean
from .theory import joint, rescaled_laws, scale_ladder, transcript_sums, two_balls
from .theory.core_means import Gaussian, Weights, gaussian_shift
from .theory.filtered_laws import FilteredLaw
from .theory.filters import Image
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw
from .theory.laws import Exponential, Outcome, TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.queries import of_each
from .theory.released_balls import ball_radius, center, center_noise
from .theory.rescaling import spectrum
from .theory.tracing_bound import BOUND

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 1",
        "its noisy mean is a center only; the estimate is a second, masked sum about it",
        "a record moves that sum by the ball's radius, not by the reach of friends, and a mean "
        "that leans to where skewed data are dense does not show",
    ),
    Departure(
        "ZZ25, Lemma 2.1, trim, pad and shuffle",
        "records outside the ball are left out and one noise is added to the sum and their number",
        "the noise needs no bound on how many are left out, no shift, and no friends",
    ),
    Departure(
        "DRS22, the Gaussian mechanism",
        "center and radius are rounded to whole cells, exactly, from what was released",
        "which records are inside is then decided in integers, and is the same in every batch",
    ),
)
_MEAN = Source("OURS", "a masked sum about a released point")


def first_stage(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of the rescaled mean that takes 1 / center_multiplier^2 of mu^2, on
    the stated radius.
    """
    own = {"noise_multiplier": Fraction(parameters["center_multiplier"]), "ladder_multiplier": None}
    return {**parameters, **own}


def inner_ratio(parameters: Parameters) -> Fraction | None:
    """Return the inner radius over the outer one; None for one ball."""
    given = parameters.get("inner_ratio")
    return None if given is None else Fraction(given)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage; those of mean and sum squared, in one unit."""
    if scale_ladder.has_ladder(parameters):
        return scale_ladder.sensitivities(sensitivities(scale_ladder.on_rung(parameters, 0)))
    d = rescaled_laws.public_map(parameters).width
    width = d + 1 if inner_ratio(parameters) is None else 2 * d + 1
    square = transcript_sums.unit_sensitivity(Fraction(parameters["noise_multiplier"]), width)
    return {**rescaled_mean.sensitivities(first_stage(parameters)), "sum and count": square}


@states(_MEAN, Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw | FilteredLaw:
    """Return the law of the rescaled mean, with a sum and a number about it where it is released;
    on the rung of a ladder, where there is one.
    """
    if scale_ladder.has_ladder(parameters):
        mean: Any = law
        return scale_ladder.law(parameters, records, mean)
    public = rescaled_laws.public_map(parameters)
    images = of_each(public.image, records)
    first = rescaled_laws.law(first_stage(parameters), records)
    if isinstance(first, TranscriptLaw):
        return _followed(first, parameters, images, ())
    rows = _declared_rows(parameters) if first.first_stages else ()
    everything = _followed(first.everything, parameters, images, rows)

    def cores(
        prefix: Prefix, e: Exponential
    ) -> Iterator[tuple[Outcome, Any, TranscriptLaw]] | None:
        parts = first.cores(prefix, e)
        if parts is None:
            return None
        return ((kept, p, _followed(then, parameters, images, prefix)) for kept, p, then in parts)

    return replace(first, cores=cores, everything=everything)


def _followed(
    before: TranscriptLaw, parameters: Parameters, images: Sequence[Image], first_stages: Prefix
) -> TranscriptLaw:
    """Return the law followed by the sum and number; ``first_stages`` was released before the law
    began.
    """
    first = rescaled_laws.shares(first_stage(parameters))
    public, counts = rescaled_laws.public_map(parameters), Counter(images)
    adjacency, multiplier = parameters["adjacency"], Fraction(parameters["noise_multiplier"])
    ratio = inner_ratio(parameters)

    def last(prefix: Prefix) -> RoundedGaussianLaw:
        *numbers, mean = (*first_stages, *prefix)
        noise = center_noise(first, public.radius, tuple(number for (number,) in numbers))
        radius = ball_radius(parameters, public, noise)
        if ratio is not None:
            sums = two_balls.two_ball_sums(counts, center(mean, noise), radius, ratio)
            small = two_balls.inside(radius, ratio)
            own = two_balls.noise(small, radius, public.width, adjacency, multiplier)
            return RoundedGaussianLaw(two_balls.in_unit(sums, small, radius, own), UNIT)
        total = transcript_sums.drawn_in_sum(counts, center(mean, noise), radius)
        deviation = transcript_sums.noise(radius, adjacency, multiplier)
        return RoundedGaussianLaw(transcript_sums.in_unit(total, deviation), UNIT)

    likely: Any = before.stages[-1][1](before.example)
    example = (*before.example, *(() if likely is None else (likely.center,)))
    return TranscriptLaw((*before.stages, ("sum and count", last)), example)


def _declared_rows(parameters: Parameters) -> Prefix:
    """Return a released number of rows with which the filter is the one that is declared before
    any data.
    """
    first = rescaled_laws.shares(first_stage(parameters))
    assert isinstance(first, Gaussian)
    return ((first.gate,),)


# --- errors -------------------------------------------------------------------------------------


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def expected_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean squared |estimate - mean| to first order, of n records that are all
    inside and all friends, in the data's units.

    It is sqrt(tr M^(1/2)) (s / n) sqrt(1 + (c / w)^2): s is the noise of the sum in cells, w
    the number's weight, and c the center's noise, along which that of the number counts. With
    two balls the records are normal with covariance M. Then s^2 is a^2 + (b^2 - a^2) times
    ``left_of_noise``, a and b the noise of the inner and of the outer ball alone, and a^2 less
    its regression, 2 a^2 / (1 + a / b), counts for the number.
    """
    first, public = (
        rescaled_laws.shares(first_stage(parameters)),
        rescaled_laws.public_map(parameters),
    )
    if not isinstance(first, Weights):
        raise ValueError("no closed form of the error after a random filter")
    off = center_noise(first, public.radius, (n - first.shift,))
    radius = ball_radius(parameters, public, off)
    noise, ratio = real(_noise(parameters, radius)), real(inner_ratio(parameters) or Fraction(1))
    roots, left = [mp.sqrt(value) for value in spectrum(parameters["matrix"])], mp.mpf(1)
    small = radius
    if ratio < 1:
        cell, multiplier = real(public.cell), real(Fraction(parameters["noise_multiplier"]))
        small = two_balls.inside(radius, Fraction(parameters["inner_ratio"]))
        sides = multiplier * (2 if parameters["adjacency"] is Adjacency.REPLACE else 1)
        signal = two_balls.signal(roots, n, small * cell, radius * cell, real(off) * cell, sides)
        left = two_balls.left_of_noise(roots, signal)
    count = 2 / (1 + ratio) * (ratio * real(off / transcript_sums.weight(small))) ** 2
    whole = mp.sqrt(ratio**2 + (1 - ratio**2) * left + count)
    return noise * real(public.cell) / n * whole * mp.sqrt(mp.fsum(roots))


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def error_bound(parameters: Parameters, n: int, beta: Fraction, within: Fraction) -> Any:
    """Return a bound on |M^(-1/4) (estimate - mean)| that fails with probability at most beta, for
    n records that are all friends, the map's image of each at most ``within`` from that of
    their mean.

    Each of four parts fails with probability at most beta / 4. The agreement is n, so at least
    r = n - shift - t is released. The center's noise is then at most c = sqrt(d) +
    sqrt(2 ln(4 / beta)) deviations long. All records are inside if ``within`` + c deviations is
    at most the ball's radius, which is tightest for r (since c > sqrt(d)). Sum and number have
    noise as in theory/joint.py, the other two parts. Raises ValueError where that does not
    hold.
    """
    plan, public = (
        rescaled_laws.shares(first_stage(parameters)),
        rescaled_laws.public_map(parameters),
    )
    if not isinstance(plan, Weights):
        raise ValueError("no bound on the error after a random filter")
    if inner_ratio(parameters) is not None:
        raise ValueError("no bound on the error of a shrunk sum")
    released = n - plan.shift - gaussian_shift(plan.scale, beta / 4) + 1
    if released < plan.least:
        raise ValueError(f"n = {n}: {released} may be released, less than {plan.least}")
    off = center_noise(plan, public.radius, (released,))
    radius = ball_radius(parameters, public, off)
    away = real(off) * joint.normal_length(public.width, beta / 4) + 2 * mp.sqrt(public.width)
    if real(within / public.cell) + away > radius:
        raise ValueError(f"records at {within} may be outside the ball of {radius} cells")
    # |sum / n| is the center's error
    noise, most = _noise(parameters, radius), int(mp.ceil(away))
    ratio = joint.Ratio(noise, most, public.width, transcript_sums.weight(radius))
    return joint.error_bound(ratio, n, beta / 2, -(-n // 4)) * real(public.cell)


def _noise(parameters: Parameters, radius: int) -> Fraction:
    multiplier = Fraction(parameters["noise_multiplier"])
    return transcript_sums.noise(radius, parameters["adjacency"], multiplier)


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return the lower bound of a rescaled mean with all of the budget, 1 / center_multiplier^2 +
    1 / noise_multiplier^2 (and the ladder's).
    """
    names = ["center_multiplier", "noise_multiplier"]
    names += ["ladder_multiplier"] if scale_ladder.has_ladder(parameters) else []
    square = sum(1 / Fraction(parameters[name]) ** 2 for name in names)
    whole = Fraction(math.isqrt(math.floor(4**40 / square)), 2**40)
    own = {"noise_multiplier": whole, "ladder_multiplier": None}
    return rescaled_mean.lower_bound({**parameters, **own}, n)


# --- obligations --------------------------------------------------------------------------------


def _parameters(adjacency: Adjacency, d: int, **changes: Any) -> dict[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(3, 2),
        "center_multiplier": Fraction(1, 4),
        "center_epsilon": None,
        "matrix": (1.0,) * d,
        "radius": 1,
        "record_radius": 1,
        "n_max": 40,
        "tail": Fraction(1, 1000),
        "filter": "weights",
        "budget": None,
        **changes,
    }


def _crowds(d: int, adjacency: Adjacency) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield forty records at 0 and one more, or another one; friends, strangers in the ball,
    outliers.
    """
    ends = [Fraction(x) for x in ("1", "-1", "1/2", "1000001/1000000", "-2", "1e30")]
    records: list[Any] = [x if d == 1 else (x, Fraction(0)) for x in ends]
    crowd: list[Any] = [Fraction(0) if d == 1 else (Fraction(0),) * d] * 40
    for record in records:
        if adjacency is Adjacency.ADD_REMOVE:
            yield [*crowd, record], crowd
        else:
            yield from (([*crowd, record], [*crowd, other]) for other in records)


@states(_MEAN, Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check about several released points that the sum's exact mu is at most claimed / multiplier,
    up to the grid's 2^-18, and for some pair within 1% of it; and no stage's is above the
    code's sensitivity.
    """
    cases = 0
    for adjacency, d, ratio in product(Adjacency, (1, 2), (None, Fraction(1, 2))):
        parameters, largest = _parameters(adjacency, d, inner_ratio=ratio), Fraction(0)
        first, stated = rescaled_laws.shares(first_stage(parameters)), sensitivities(parameters)
        assert isinstance(first, Weights)
        for left, right in _crowds(d, adjacency):
            laws: list[Any] = [law(parameters, records) for records in (left, right)]
            low = min(law.example[0][0] for law in laws)
            for shift in (0, 2**39, -(2**41), 2**45):
                point = tuple(v + shift for v in laws[0].example[1])
                agreed, mean, total = (
                    laws[0].stages[i][1](prefix).mu_squared(laws[1].stages[i][1](prefix))
                    for i, prefix in enumerate(((), ((low,),), ((low,), point)))
                )
                case = f"{adjacency}, d = {d}, {ratio}, {left[-1]} or {right[-1]} + {shift}"
                require(agreed <= (stated["agreement"] / first.scale) ** 2, f"{case}: {agreed}")
                require(mean <= stated["mean"] / UNIT**2, f"{case}: mean {float(mean)}")
                require(total <= stated["sum and count"] / UNIT**2, f"{case}: {float(total)}")
                largest, cases = max(largest, total), cases + 1
        square = (claimed / parameters["noise_multiplier"]) ** 2
        case = f"{adjacency}, d = {d}: mu^2 = {float(largest)}, {float(square)} is claimed"
        require(largest <= square * (1 + Fraction(1, 2**18)), case)
        require(largest >= square * Fraction(99, 100), case)
    return cases


@states(BOUND)
def obligation_lower_bound_is_below_error(within: int = 40) -> int:
    """Check that the root mean squared error is above the lower bound and at most 40 times it."""
    cases = 0
    for adjacency, d, n in product(Adjacency, (1, 3, 50), (1000, 10**5)):
        own = {"noise_multiplier": Fraction(9, 2), "center_multiplier": Fraction(15), "n_max": n}
        radius = Fraction(6 + 2 * math.isqrt(d))
        parameters = _parameters(adjacency, d, radius=radius, record_radius=radius, **own)
        if adjacency is Adjacency.REPLACE and n == 1000:
            parameters["center_multiplier"] = Fraction(6)
        bound, error = lower_bound(parameters, n), expected_error(parameters, n)
        require(bound <= error <= within * bound, f"{adjacency}, {d}, {n}: {bound}, {error}")
        cases += 1
    return cases
