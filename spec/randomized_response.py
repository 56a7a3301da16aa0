"""Spec of ``randomized_response``: every answer is randomized independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import lower_bounds, queries
from .theory.laws import KaryResponseLaw, TranscriptLaw, closed, real, real_exponential
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "W65",
        "the chance to keep an answer is 1 / (1 + (k - 1) e^-epsilon), never a rounded decimal",
        "then the claim is epsilon itself, a rational, with no rounding on either side",
    ),
)


@states(
    Source("KBR16", "Section 3, k-ary randomized response"), Source("W65", "randomized response")
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of the answers, which are rounded and clamped, then randomized at scale
    ``noise_multiplier``.
    """
    k = parameters["categories"]
    answers = queries.answers(records, k)
    return closed("answers", KaryResponseLaw(answers, k, parameters["noise_multiplier"]))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the answers, in Hamming distance."""
    return {"answers": 1}


@states(Source("KBR16", "Section 3, k-ary randomized response"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records, over all outputs, that the loss is at most
    claimed / multiplier, and for some pair exactly that.
    """
    cases = 0
    for k in (2, 3):
        parameters = {"categories": k, "noise_multiplier": Fraction(3, 2)}
        universe, largest = tuple(map(Fraction, range(k))), mp.mpf(0)
        for left, right in neighbors(universe, 2, Adjacency.REPLACE):
            p, q = law(parameters, left), law(parameters, right)
            for output in product(range(k), repeat=len(left)):
                mass = p.probability((output,), real_exponential)
                ratio = mass / q.probability((output,), real_exponential)
                largest = max(largest, mp.log(ratio) * real(Fraction(3, 2)))
                cases += 1
        gap = abs(largest - real(claimed))
        require(gap < mp.mpf(10) ** -12, f"k = {k}: the largest loss is {largest}, not {claimed}")
    return cases


def obligation_mass() -> int:
    """Check that the outputs' masses add up to 1, fraction for fraction, for a formal
    e^(-1/scale).
    """
    cases = 0
    for k, n in product((2, 3, 4), (0, 1, 3)):
        model = KaryResponseLaw((0,) * n, k, Fraction(1))
        masses = [
            model.probability(output, lambda exponent: Fraction(1, 3) ** int(exponent))
            for output in product(range(k), repeat=n)
        ]
        require(sum(masses) == 1, f"k = {k}, n = {n}: {sum(masses)}")
        cases += len(masses)
    return cases


@states(Source("KBR16", "Section 3, error of the unbiased estimate"))
def expected_error(parameters: Parameters, n: int, frequency: float) -> Any:
    """Return the root mean squared error of one category's estimate, given its frequency in the
    data.

    n f answers are reported truly with chance p, n (1 - f) falsely as this one with chance q;
    the estimate divides their count by n (p - q).
    """
    k, w = parameters["categories"], real_exponential(1 / parameters["noise_multiplier"])
    p = 1 / (1 + (k - 1) * w)
    q = w * p
    variance = frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)
    return mp.sqrt(variance / n) / (p - q)


@states(Source("OURS", "Hoeffding's inequality for n independent reports"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return t with P(|estimate - frequency| >= t) <= beta for one category: 2 e^(-2 n t^2
    (p-q)^2).
    """
    k, w = parameters["categories"], real_exponential(1 / parameters["noise_multiplier"])
    p = 1 / (1 + (k - 1) * w)
    return mp.sqrt(mp.log(2 / real(beta)) / (2 * n)) / (p - w * p)


@states(Source("OURS", "local two-point bound"))
def lower_bound(epsilon: Fraction, n: int) -> Any:
    """Return a lower bound on the expected error of a population frequency from n epsilon-local
    channels that are fixed beforehand.
    """
    return lower_bounds.local_two_point(epsilon, n)


def obligation_lower_bound_is_below_error() -> int:
    """Check for two categories and epsilon <= 1 that the error is above the bound and at most 16
    times it.

    The error is taken given the data, the bound over the population: the population adds to it.
    """
    cases = 0
    for n, epsilon in product((100, 10**4), (Fraction(1, 10), Fraction(1))):
        parameters = {"categories": 2, "noise_multiplier": 1 / epsilon}
        bound, error = lower_bound(epsilon, n), expected_error(parameters, n, 0.5)
        require(bound <= error <= 16 * bound, f"n = {n}: bound {bound}, error {error}")
        cases += 1
    return cases
