"""Spec of ``noisy_count``: a count plus discrete Laplace or rounded Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import lower_bounds, queries
from .theory.gaussian_laws import RoundedGaussianLaw
from .theory.laws import (
    DiscreteLaplaceLaw,
    TranscriptLaw,
    closed,
    least_tail,
    real,
    real_exponential,
)
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "DMNS06, Section 3",
        "discrete Laplace noise on the integers instead of real Laplace noise",
        "a count is an integer; real noise added in floats leaks through its low bits",
    ),
)

_INTERVALS = (None, (0.0, 1.0))


@states(
    Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"),
    Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of the count plus noise of scale ``noise_multiplier``
    (the sensitivity is 1).
    """
    counted, scale = _count(parameters, records), parameters["noise_multiplier"]
    if _is_gaussian(parameters):
        return closed("count", RoundedGaussianLaw((counted,), scale))
    return closed("count", DiscreteLaplaceLaw(counted, scale))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the count."""
    within = _within(parameters)
    return {"count": queries.count_sensitivity(within, parameters["adjacency"])}


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records that the loss is at most claimed / multiplier,
    and for some pair exactly that.
    """
    cases, largest = 0, mp.mpf(0)
    universe = (Fraction(0), Fraction(3))
    for adjacency in Adjacency:
        for within in _INTERVALS[adjacency is Adjacency.REPLACE :]:
            parameters = {
                "within": within,
                "adjacency": adjacency,
                "noise_multiplier": Fraction(3, 2),
            }
            for left, right in neighbors(universe, 2, adjacency):
                p, q = law(parameters, left), law(parameters, right)
                for x in range(-6, 9):
                    ratio = p.probability(((x,),), real_exponential)
                    ratio /= q.probability(((x,),), real_exponential)
                    largest = max(largest, mp.log(ratio) * real(Fraction(3, 2)))
                    cases += 1
    gap = abs(largest - real(claimed))
    require(gap < mp.mpf(10) ** -12, f"the largest loss is {largest}, not {claimed}")
    return cases


@states(Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
def obligation_gaussian(claimed: Fraction = Fraction(1)) -> int:
    """Check with Gaussian noise, on all neighbors of at most 2 records, that mu is at most
    claimed / multiplier, and for some pair exactly that.
    """
    cases, largest, multiplier = 0, Fraction(0), Fraction(3, 2)
    for adjacency in Adjacency:
        for within in _INTERVALS[adjacency is Adjacency.REPLACE :]:
            parameters = {
                "within": within,
                "adjacency": adjacency,
                "noise": "gaussian",
                "noise_multiplier": multiplier,
            }
            for left, right in neighbors((Fraction(0), Fraction(3)), 2, adjacency):
                one, other = (law(parameters, side).stages[0][1](()) for side in (left, right))
                assert isinstance(one, RoundedGaussianLaw)
                assert isinstance(other, RoundedGaussianLaw)
                largest = max(largest, one.mu_squared(other))
                cases += 1
    require(largest == (claimed / multiplier) ** 2, f"the largest mu^2 is {largest}, not {claimed}")
    return cases


def obligation_mass(most: int = 60) -> int:
    """Check that the masses up to ``most`` and the closed-form tail add up to 1, fraction for
    fraction.
    """
    w = Fraction(1, 3)

    def formal(exponent: Fraction) -> Fraction:
        return Fraction(w ** int(exponent * 2))

    noise = DiscreteLaplaceLaw(5, Fraction(2))
    inside = sum(noise.probability((x,), formal) for x in range(5 - most, 5 + most + 1))
    require(inside + noise.tail(most + 1, formal) == 1, "the law does not sum to 1")
    for x in range(-5, 16):
        mass = noise.at_most(x, formal) - noise.at_most(x - 1, formal)
        require(mass == noise.probability((x,), formal), f"the distribution function is off at {x}")
    return 2 * most + 1 + 21


@states(Source("GRS09", "geometric mechanism"))
def error_bound(parameters: Parameters, beta: Fraction) -> int:
    """Return t with P(|error| >= t) <= beta: 2 w^t / (1 + w) <= beta, w = e^(-1 / multiplier).

    For rounded Gaussian noise |z| >= t if scale |N| >= t - 1/2.
    """
    if _is_gaussian(parameters):
        scale = real(parameters["noise_multiplier"])
        far = scale * mp.sqrt(2) * mp.erfinv(1 - real(beta)) + mp.mpf(1) / 2
        return max(1, int(mp.ceil(far * (1 + mp.mpf(10) ** -20))))
    noise = DiscreteLaplaceLaw(0, parameters["noise_multiplier"])
    return least_tail(noise, beta)


def expected_error(parameters: Parameters) -> Any:
    """Return the root mean squared error: sqrt(2 w) / (1 - w), or that of Gaussian noise and its
    rounding.
    """
    if _is_gaussian(parameters):
        return mp.sqrt(real(parameters["noise_multiplier"]) ** 2 + mp.mpf(1) / 12)
    w = real_exponential(1 / parameters["noise_multiplier"])
    return mp.sqrt(2 * w) / (1 - w)


@states(Source("HT10", "packing argument", note="for two datasets at distance k"))
def lower_bound(epsilon: Fraction) -> Any:
    """Return a lower bound on the expected absolute error, on some dataset, of every epsilon-DP
    count.
    """
    return lower_bounds.two_point(epsilon, Fraction(1), 10**6)


def obligation_lower_bound_is_below_error() -> int:
    """Check that the mechanism's expected absolute error 2 w / (1 - w^2) is above the bound and at
    most 8 times it.
    """
    for epsilon in (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(3)):
        w = real_exponential(epsilon)
        error, bound = 2 * w / (1 - w**2), lower_bound(epsilon)
        require(bound <= error, f"at epsilon {epsilon} the lower bound {bound} exceeds {error}")
        require(error <= 8 * bound, f"at epsilon {epsilon} the bound {bound} is loose for {error}")
    return 4


def _is_gaussian(parameters: Parameters) -> bool:
    return bool(parameters.get("noise") == "gaussian")


def _within(parameters: Parameters) -> tuple[Fraction, Fraction] | None:
    within = parameters["within"]
    return None if within is None else (Fraction(within[0]), Fraction(within[1]))


def _count(parameters: Parameters, records: Sequence[Fraction]) -> int:
    return queries.count(records, _within(parameters))
