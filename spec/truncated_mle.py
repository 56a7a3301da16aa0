"""Spec of ``truncated_mle``: a search for the median, then the mean of a statistic in steps of an
interval about it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import centered, families, family_scores, interval_scores, stepped
from .theory.caches import cache
from .theory.coordinates import missed, side_counts
from .theory.families import LARGEST
from .theory.family_frames import (
    at_least,
    by_gradients,
    cell_of,
    errors,
    family,
    frame_of,
    in_steps,
    law_in,
    scale,
    search_steps,
    share_inside,
    size_of,
    step_scale,
    theta_after,
    weight,
)
from .theory.family_scores import SCORES
from .theory.gaussian_laws import UNIT
from .theory.gradient_steps import cut_number, list_size, middle_of
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.listed_laws import ListedLaw
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.stepped import CELLS, counts, shares
from .theory.vectors import Record
from .theory.whitening import octave

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "ZZ25, Algorithm 3.1 (gradient steps on truncated data)",
        "by default one release of the mean of the statistic, whose moment is matched; or all "
        "records in each step",
        "data enter the gradient through that mean alone, so steps add noise and nothing else; "
        "sampled gradients as published add more than twenty times the noise",
    ),
    Departure(
        "ZZ25, Corollary B.4 (the result that is near to most others)",
        "the median of the runs' results",
        "in one dimension it is within a wherever more than half are, not within 3 a, and needs "
        "no a",
    ),
    Departure(
        "ZZ25, Algorithms B.1 and B.2 (warm start, bounding box by histograms)",
        "a noisy binary search for the parameter whose law has the records' median",
        "exactly Gaussian DP, without delta; in one dimension a searched median is near enough "
        "for the last release",
    ),
    Departure(
        "ZZ25, survival sets of constant mass",
        "an interval of the length with the least predicted error; by default records outside "
        "are clipped, not dropped",
        "a clipped record says more than a dropped one; a law that was truncated before needs "
        "the mask",
    ),
)
_ZZ25 = Source(
    "ZZ25",
    "Theorem 3.1, exponential families by truncation",
    SourceStatus.CHANGED_CONSTANTS,
    note="one parameter; Gaussian DP",
)
_OURS = Source("OURS", "clipped and masked moments of exponential families in one release")
_GAUSSIAN = Source("DRS22", "composition of GDP", note="adaptive")


def list_after(
    parameters: Parameters, values: Sequence[Fraction], reached: Sequence[int], number: Fraction
) -> tuple[int, ...]:
    """Return the cells of the records inside the interval, in their order, as many as a list
    takes; filled up with that of the searched median.
    """
    known, theta = family(parameters), theta_after(parameters, reached)
    quarter = octave(_known_number(parameters, number))
    frame = frame_of(parameters, theta, quarter)
    if counts(parameters):
        number = Fraction(
            cut_number(number - min(2 * scale(parameters, 0), 2 * Fraction(10) ** 17))
        )
    size = size_of(parameters, reached, quarter, number)
    t = min(max(known.middle(theta), frame.first), frame.last)
    pad = min(math.floor((t - frame.low) / frame.length * CELLS + 0.5), CELLS)
    cells = of_each(lambda x: cell_of(parameters, frame, x), values)
    kept = [z for z in cells if z is not None][:size]
    return (*kept, *[pad] * (size - len(kept)))


def descent(parameters: Parameters, listed: Sequence[int]) -> list[tuple[str, IntegerLaw]]:
    """Return the sums of each chunk of a list of cells, in this order."""
    runs, steps = int(parameters["runs"]), int(parameters["steps"])
    stages: list[tuple[str, IntegerLaw]] = []
    for k in range(runs):
        path = f"descent/chunk/{k}/" if runs > 1 else "descent/"
        total = sum(2 * z - CELLS for z in listed[k::runs])
        one = centered.noisy((total,), step_scale(parameters))
        stages += [(f"{path}step {t + 1}", one) for t in range(steps)]
    return stages


def _known_number(parameters: Parameters, number: Fraction) -> Fraction:
    return min(max(number, Fraction(at_least(parameters))), Fraction(10**18))


@states(_OURS, _ZZ25, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction | Record]) -> TranscriptLaw | ListedLaw:
    """Return the law of the number; parameter 1, parameter 2, ...; the statistics, or the
    gradients' sums: of chunks of a list in a random order.
    """
    values = [r[0] if isinstance(r, tuple) else r for r in records]
    rows, n = of_each(lambda x: (x,), values), len(values)
    unit = scale(parameters, 0) / UNIT if counts(parameters) else Fraction(1)
    known, searched = family(parameters), search_steps(parameters)

    def number() -> IntegerLaw:
        if counts(parameters):
            return centered.noisy((n,), scale(parameters, 0))
        return PointLaw((n,))

    def reached(prefix: Prefix) -> list[int]:
        return [o[0] for o in prefix[1 : searched + 1]]

    def side(prefix: Prefix) -> IntegerLaw:
        t = known.middle(theta_after(parameters, reached(prefix)))
        x = min(max(known.record(t), -LARGEST), LARGEST)
        return centered.noisy(side_counts(rows, [Fraction(x)]), scale(parameters, 1))

    def statistics(prefix: Prefix) -> IntegerLaw:
        quarter = octave(_known_number(parameters, prefix[0][0] * unit))
        frame = frame_of(parameters, theta_after(parameters, reached(prefix)), quarter)
        return centered.noisy(in_steps(parameters, values, frame), scale(parameters, 2))

    def listed(prefix: Prefix) -> tuple[int, ...]:
        return list_after(parameters, values, reached(prefix), prefix[0][0] * unit)

    first_stages: tuple[Any, ...] = (
        ("count", lambda prefix: number()),
        *[(f"parameter {k + 1}", side) for k in range(searched)],
    )
    first = (n,) if not counts(parameters) else (round(n / unit),)
    example = (first, *[(0,)] * searched)
    if not by_gradients(parameters):
        return TranscriptLaw((*first_stages, ("statistics", statistics)), example)
    named = [name for name, _ in descent(parameters, ())]
    whole = (*example, *[(0,)] * (len(named) - 1))
    if int(parameters["runs"]) > 1:
        return ListedLaw(first_stages, listed, lambda one: descent(parameters, one), whole)
    steps = [(name, lambda prefix: descent(parameters, listed(prefix))[0][1]) for name in named]
    return TranscriptLaw((*first_stages, *steps), whole)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit; of a list's sums for lists that
    differ by a replacement.
    """
    scales = tuple(scale(parameters, k) if shares(parameters)[k] else Fraction(1) for k in range(3))
    by_stage = stepped.sensitivities(
        parameters, weight(parameters), search_steps(parameters), "parameter", scales
    )
    if by_gradients(parameters):
        del by_stage["statistics"]
        one = centered.unit_sensitivity(4 * CELLS**2, step_scale(parameters), 1)
        by_stage |= {name: one for name, _ in descent(parameters, ())}
    return by_stage


# --- errors -------------------------------------------------------------------------------------


@states(_OURS)
def noise_error(parameters: Parameters, n: int, parameter: float) -> Any:
    """Return the error of theta by noise, for n records of this parameter, to first order."""
    theta = family(parameters).natural(parameter)
    frame = frame_of(parameters, theta, octave(Fraction(n)))
    if not by_gradients(parameters):
        return mp.mpf(errors(parameters, frame, theta, n)[0])
    runs = int(parameters["runs"])
    size = list_size(Fraction(n), share_inside(parameters, frame, theta), runs)
    own = law_in(parameters, frame, theta).inside
    return errors(parameters, frame, theta, size / runs / own)[0] * middle_of(runs)


@states(_OURS, _ZZ25)
def expected_error(parameters: Parameters, n: int, parameter: float) -> Any:
    """Return the error of theta by noise and sampling."""
    theta = family(parameters).natural(parameter)
    frame = frame_of(parameters, theta, octave(Fraction(n)))
    return mp.hypot(*errors(parameters, frame, theta, n))


@states(_OURS)
def noise_quantile(parameters: Parameters, n: int, parameter: float, log_inverse_beta: Any) -> Any:
    """Return the number that the noise's part of theta exceeds with probability
    exp(-log_inverse_beta), to first order: that of a normal number.
    """
    level = -mp.expm1(-mp.mpf(log_inverse_beta))
    return noise_error(parameters, n, parameter) * mp.sqrt(2) * mp.erfinv(level)


@states(_OURS)
def error_bound(parameters: Parameters, n: int, parameter: float, beta: Fraction) -> Any:
    """Return a bound on the noise's part in theta, to first order, which fails with probability at
    most beta.
    """
    return noise_error(parameters, n, parameter) * mp.sqrt(2 * mp.log(2 / real(beta)))


def chance_of_missing(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the search leaves a median that all n records share:
    a union over its steps.
    """
    r = n / real(scale(parameters, 1))
    return min(mp.mpf(1), search_steps(parameters) * missed(r))


@states(SCORES, interval_scores.INTERVALS)
def lower_bound(parameters: Parameters, n: int, parameter: float) -> Any:
    """Return a lower bound on the root mean squared error, at some theta within R of that of
    ``parameter``, of every estimate of this privacy.

    It is ``family_scores.least_error`` or ``interval_scores.least_error``, whichever is larger,
    with the best R of eight inside of the public range; s is taken at the interval's ends and
    three places between. Replacing is removing and adding: under add-remove, it is for 2 mu.
    """
    known, theta = family(parameters), family(parameters).natural(parameter)
    mu = (2 if counts(parameters) else 1) / real(Fraction(parameters["noise_multiplier"]))
    most = min(abs(known.natural(parameters[end]) - theta) for end in ("lowest", "highest"))

    def least(reach: float) -> Any:
        places = (theta + reach * k / 2 for k in range(-2, 3))
        spread = math.sqrt(max(families.whole(known, one).variance for one in places))
        own = interval_scores.least_error(n, interval_scores.leak(spread, mu=mu), [reach])
        return max(own, family_scores.least_error(mu, n, spread, mp.mpf(reach)))

    return max(least(most / 4**k) for k in range(8)) if most else mp.mpf(0)


# --- obligations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Poisson:
    """Stand-in for the family of this name."""


@dataclass(frozen=True)
class Weibull:
    """Stand-in for the family of this name."""

    power: float


@dataclass(frozen=True)
class Normal:
    """Stand-in for the family of this name."""

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
        "method": "statistic",
        "steps": 10,
        "runs": 1,
    }
    return base | changes


_WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"outside": "mask"},
    {"family": Normal(1.5), "lowest": -3.0, "highest": 3.0},
    {"family": Poisson(), "outside": "mask", "kept": (0.0, 3.0)},
    {"outside": "mask", "kept": (0.2, 3.0001), "method": "gradient", "steps": 2, "runs": 2},
)


@states(_OURS, _GAUSSIAN)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that every stage's mu^2 is at most the stated one, on all neighbors of at most 2
    records along the example transcript.

    It reaches the stated one to within a thousandth, that of the statistics and of sums over
    chunks of a list to within a third. The stated ones, of chunks once, add up to
    (claimed / multiplier)^2, up to the grid's 2^-16.
    """
    slack = 1 + Fraction(1, 2**16)
    worlds = [_parameters(adjacency, **changes) for adjacency in Adjacency for changes in _WORLDS]
    for parameters in worlds:
        stated = sensitivities(parameters)
        total = sum(square for name, square in stated.items() if _paid_as(name) == name) / UNIT**2
        square = (claimed / parameters["noise_multiplier"]) ** 2
        case = f"{parameters}: mu^2 = {float(total)}, not {float(square)}"
        require(total <= square * slack and square <= total * slack, case)
    return sum(_stages_move(parameters, sensitivities(parameters)) for parameters in worlds)


def _paid_as(name: str) -> str:
    """Return the stage whose share of mu^2 pays for this one: of a list's chunks the first, for a
    record is in one of them.
    """
    return re.sub("/chunk/[0-9]+/", "/chunk/0/", name)


def _stages_move(parameters: Parameters, stated: Mapping[str, int]) -> int:
    """Compare the largest move of every stage with the stated one."""
    largest, cases = dict.fromkeys(map(_paid_as, stated), Fraction(0)), 0
    along = _along(parameters)
    for pair in neighbors(_UNIVERSE, 2, parameters["adjacency"]):
        moved: dict[str, Fraction] = {}
        for (name, ours), (_, theirs) in along(*map(tuple, pair)):
            if isinstance(ours, PointLaw):
                require(ours == theirs, f"{name} is public and differs: {ours}, {theirs}")
            else:
                moved[_paid_as(name)] = moved.get(_paid_as(name), 0) + ours.mu_squared(theirs)
        largest = {name: max(far, moved.get(name, Fraction(0))) for name, far in largest.items()}
        cases += 1
    for name, square in largest.items():
        most = stated[name] / UNIT**2
        near = Fraction(1001, 1000) if name.startswith(("count", "parameter")) else 3
        case = f"{name}, {parameters}: mu^2 = {float(square)}, {float(most)} stated"
        require(square <= most <= square * near, case)
    return cases


def _along(parameters: Parameters) -> Any:
    """Return the stages' laws of two neighbors along an example: for lists in orders that are
    drawn together.
    """

    @cache
    def known(records: tuple[Any, ...]) -> tuple[Any, Any]:
        one = law(parameters, records)
        if isinstance(one, ListedLaw):
            return replace(one, listed=cache(one.listed)), None
        return one, one.stage_laws()

    def both(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Any:
        (left, own), (right, other) = known(ours), known(theirs)
        if isinstance(left, ListedLaw):
            own, other = (one.stage_laws() for one in left.aligned(right))
        return zip(own, other, strict=True)

    return both


@states(SCORES)
def obligation_lower_bound_is_below_error(within: int = 16) -> int:
    """Check that the noise alone is above the lower bound and at most 16 times it."""
    cases = 0
    for adjacency, changes in product(Adjacency, _WORLDS[:3]):
        for n, multiplier in ((1000, Fraction(4)), (10**5, Fraction(100))):
            parameters = _parameters(adjacency, noise_multiplier=multiplier, **changes)
            bound, error = lower_bound(parameters, n, 2.0), noise_error(parameters, n, 2.0)
            require(bound <= error <= within * bound, f"{parameters}, {n}: {bound}, {error}")
            cases += 1
    return cases
