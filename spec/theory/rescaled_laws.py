"""The law of a mean of records that agree, by weights or behind a filter, from public
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import soft_weights
from .caches import cache
from .core_means import Basic, Gaussian, Setting, Soft, Weights
from .filtered_laws import Core, FilteredLaw
from .filters import (
    Image,
    basic_probability,
    exact_mean,
    gaussian_probability,
    in_noise,
    kept_sets,
    mean_noise,
)
from .gaussian_laws import UNIT, RoundedGaussianLaw
from .laws import DiscreteLaplaceLaw, Exponential, Outcome, PointLaw, TranscriptLaw
from .queries import of_each
from .rescaling import Rescaling, rescaling

Parameters = Mapping[str, Any]
REPLACE = Adjacency.REPLACE
WEIGHTS = Source("OURS", "the mean by degree weights")
ALGORITHM = Source(
    "DJYZZ24",
    "Algorithm 1, PrivateRescaledAveraging",
    SourceStatus.CHANGED_CONSTANTS,
    "weights in place of coins; shares and shifts",
)


def public_map(parameters: Parameters) -> Rescaling:
    """Return the map of records to integers."""
    return rescaling(parameters["matrix"], parameters["radius"])


def shares(parameters: Parameters) -> Weights | Basic | Gaussian:
    """Return the noise scales and shifts."""
    own = Fraction(parameters["noise_multiplier"]), parameters["n_max"], parameters["tail"]
    width = len(parameters["matrix"])
    if parameters["filter"] == "basic":
        return Basic(*own)
    kind = Weights if parameters["filter"] == "weights" else Gaussian
    return kind(parameters["adjacency"], *own, width)


@states(WEIGHTS, ALGORITHM)
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw | FilteredLaw:
    """Return the law of the agreement and the mean; or that of the filter, whose coins are
    hidden.
    """
    public, plan = public_map(parameters), shares(parameters)
    images = of_each(public.image, records)
    degrees = public.degrees(images)
    if isinstance(plan, Weights):
        return _weighted(plan, public, images, degrees)
    if isinstance(plan, Basic):
        return _by_coins(plan, public, images, degrees)
    return _by_scores(plan, public, images, degrees)


# --- weights ------------------------------------------------------------------------------------


@states(WEIGHTS)
def agreement(degrees: Sequence[int]) -> int:
    """Return floor(2 K / n) - n, K the sum of max(0, 2 degree - n); 0 for an empty dataset."""
    n = len(degrees)
    return 2 * sum(max(0, 2 * degree - n) for degree in degrees) // n - n if n else 0


@states(WEIGHTS)
def weighted_mean(images: Sequence[Image], degrees: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the sum of max(0, 2 degree - n) images / K, in cells; () without weights."""
    n = len(images)
    return averaged(images, [max(0, 2 * degree - n) for degree in degrees])


def averaged(images: Sequence[Image], weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the mean by these weights, in cells; () without weights."""
    total = sum(weights)
    if not total:
        return ()
    return tuple(
        Fraction(sum(w * y for w, y in zip(weights, column, strict=True)), total)
        for column in zip(*images, strict=True)
    )


@states(WEIGHTS, ALGORITHM)
def _weighted(
    plan: Weights, public: Rescaling, images: Sequence[Image], degrees: Sequence[int]
) -> TranscriptLaw:
    if isinstance(plan, Soft):
        center = soft_weights.agreement(degrees, plan.full) - plan.shift
        mean = averaged(images, soft_weights.weights(degrees, plan.full))
    else:
        center, mean = agreement(degrees) - plan.shift, weighted_mean(images, degrees)
    mean = mean or (Fraction(0),) * public.width
    unit = UNIT / plan.noise(public.radius, 1)
    once = [unit * m for m in mean]

    def after(prefix: tuple[Outcome, ...]) -> RoundedGaussianLaw | None:
        ((released,),) = prefix
        if released < plan.least:
            return None
        return RoundedGaussianLaw(tuple(round(released * m) for m in once), UNIT)

    noisy = RoundedGaussianLaw((center,), plan.scale)
    stages = (("agreement", lambda prefix: noisy), ("mean", after))
    return TranscriptLaw(stages, ((max(plan.least, center),),))


# --- filters ------------------------------------------------------------------------------------

Mean = Callable[[int, Sequence[Fraction]], RoundedGaussianLaw]
"""The law of the noisy mean, after the released number and for the exact mean."""
Number = Callable[[int], Any]


def _behind(number: Number, mean: Mean, kept: Sequence[Image]) -> TranscriptLaw:
    """Return the law of the noisy number of kept records and, where it is positive and there are
    any, of their mean.
    """
    exact = cache(partial(exact_mean, kept))  # for every released number

    def after(prefix: tuple[Outcome, ...]) -> RoundedGaussianLaw | None:
        ((released,),) = prefix
        return mean(released, exact()) if released >= 1 and kept else None

    law_of_number = number(len(kept))
    return TranscriptLaw((("kept", lambda prefix: law_of_number), ("mean", after)), ((1,),))


def _cores(
    chances: Sequence[Any], images: Sequence[Image], number: Number, mean: Mean
) -> Iterator[Core]:
    for kept, share in kept_sets(chances):
        yield kept, share, _behind(number, mean, [images[i] for i in kept])


@states(ALGORITHM)
def _by_coins(
    plan: Basic, public: Rescaling, images: Sequence[Image], degrees: Sequence[int]
) -> FilteredLaw:
    n = len(images)

    def number(kept: int) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(kept - plan.shift, plan.scale)

    def mean(released: int, exact: Sequence[Fraction]) -> RoundedGaussianLaw:
        noise = mean_noise(public.radius, plan.multiplier, released)
        return RoundedGaussianLaw(in_noise(exact, noise), UNIT)

    def cores(prefix: tuple[Outcome, ...], e: Exponential) -> Any:
        chances = [basic_probability(degree, n) for degree in degrees]
        return _cores(chances, images, number, mean)

    everything = _behind(number, mean, images)
    return FilteredLaw((), cores, everything, ("BasicFilter", tuple(degrees)))


@states(ALGORITHM)
def _by_scores(
    plan: Gaussian, public: Rescaling, images: Sequence[Image], degrees: Sequence[int]
) -> FilteredLaw:
    n, first = len(images), setting_of(plan, plan.fewest)

    def number(kept: int) -> RoundedGaussianLaw:
        return RoundedGaussianLaw((kept - plan.shifts[0],), plan.counts[0])

    def mean_in(setting: Setting) -> Mean:
        def mean(released: int, exact: Sequence[Fraction]) -> RoundedGaussianLaw:
            noise = mean_noise(public.radius, setting.spread, released, setting.strangers)
            return RoundedGaussianLaw(in_noise(exact, noise), UNIT)

        return mean

    def cores(prefix: tuple[Outcome, ...], e: Exponential) -> Any:
        ((released,),) = prefix
        if released < plan.gate:
            return None
        setting = setting_of(plan, plan.assumed(released))
        p, q = setting.weights
        scores = (q * degree - (q - p) * n for degree in degrees)
        known = [gaussian_probability(s, setting.sigma, setting.threshold, e) for s in scores]
        return _cores(known, images, number, mean_in(setting))

    def rows(prefix: tuple[Outcome, ...]) -> PointLaw | RoundedGaussianLaw:
        public_number = plan.adjacency is REPLACE
        return PointLaw((n,)) if public_number else RoundedGaussianLaw((n,), plan.counts[1])

    mean = mean_in(first)
    everything = _behind(number, mean, images)
    share = Fraction(*first.weights)
    facts = (share, first.rows, first.sigma, first.threshold, plan.tail, plan.block)
    return FilteredLaw(
        (("rows", rows),), cores, everything, ("GaussianFilter", tuple(degrees), *facts)
    )


def setting_of(plan: Gaussian, rows: int) -> Setting:
    """Return the setting for an assumed number of rows. Raises ValueError where there is no room
    for a filter.
    """
    setting = plan.setting(rows)
    if setting is None:
        raise ValueError(f"there is no room for a filter of {rows} rows")
    return setting
