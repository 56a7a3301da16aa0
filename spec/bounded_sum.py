"""Spec of ``bounded_sum``: the sum of clamped records about zero, plus integer noise."""

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
        "integer noise on a public grid of cells instead of real noise on a real sum",
        "real noise added in floats leaks through its low bits; what rounding a record costs is "
        "below 2^-20 of the range",
    ),
)


def grid(parameters: Parameters) -> queries.Grid:
    """Return (lower, upper, cell): bounds in cells; the cell is the largest power of two that is
    at most 2^-20 of the width.
    """
    return queries.grid(parameters["lower"], parameters["upper"], 2**20, parameters["cell"])


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the sum: the largest magnitude of a summand, or under replace the
    largest difference of two.
    """
    lower, upper, _ = grid(parameters)
    adjacency = parameters["adjacency"]
    return {"sum": queries.clamped_sum_sensitivity(lower, upper, 0, adjacency)}


def scale(parameters: Parameters) -> Fraction:
    """Return multiplier x sensitivity, in cells."""
    return Fraction(parameters["noise_multiplier"]) * sensitivities(parameters)["sum"]


@states(
    Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"),
    Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of the sum in cells plus noise."""
    lower, upper, cell = grid(parameters)
    total = queries.clamped_sum(records, lower, upper, 0, cell)
    if parameters["noise"] == "gaussian":
        return closed("sum", RoundedGaussianLaw((total,), scale(parameters)))
    return closed("sum", DiscreteLaplaceLaw(total, scale(parameters)))


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 records that the loss of Laplace noise and the mu of
    Gaussian noise are at most claimed / multiplier, and for some pair exactly that.
    """
    cases, multiplier = 0, Fraction(3, 2)
    for adjacency in Adjacency:
        for low, high in ((-2.0, 1.0), (1.0, 2.0)):
            own = {"lower": low, "upper": high, "cell": Fraction(1), "noise_multiplier": multiplier}
            parameters: Parameters = own | {"adjacency": adjacency}
            pairs = [*neighbors((Fraction(-2), Fraction(1), Fraction(2)), 2, adjacency)]
            for name, loss in (("laplace", _laplace_loss), ("gaussian", _mu)):
                largest = max(loss({**parameters, "noise": name}, *pair) for pair in pairs)
                gap = abs(largest - real(claimed / multiplier))
                cases += len(pairs)
                require(
                    gap < mp.mpf(10) ** -12,
                    f"{name}, [{low}, {high}], {adjacency}: the largest is {largest}",
                )
    return cases


def _laplace_loss(
    parameters: Parameters, left: Sequence[Fraction], right: Sequence[Fraction]
) -> Any:
    p, q = law(parameters, left), law(parameters, right)
    ratios = [
        p.probability(((x,),), real_exponential) / q.probability(((x,),), real_exponential)
        for x in (-9, 0, 9)  # the loss is largest beyond both sums
    ]
    return max(mp.log(ratio) for ratio in ratios)


def _mu(parameters: Parameters, left: Sequence[Fraction], right: Sequence[Fraction]) -> Any:
    one, other = (law(parameters, side).stages[0][1](()) for side in (left, right))
    assert isinstance(one, RoundedGaussianLaw)
    assert isinstance(other, RoundedGaussianLaw)
    return mp.sqrt(real(one.mu_squared(other)))


@states(Source("GRS09", "geometric mechanism"))
def error_bound(parameters: Parameters, beta: Fraction) -> Any:
    """Return t with P(|noise| >= t) <= beta, in the data's unit.

    For rounded Gaussian noise |z| >= t if scale |N| >= t - 1/2.
    """
    _, _, cell = grid(parameters)
    own = scale(parameters)
    if parameters["noise"] == "gaussian":
        return (real(own) * mp.sqrt(2) * mp.erfinv(1 - real(beta)) + 1) * real(cell)
    return least_tail(DiscreteLaplaceLaw(0, own), beta) * real(cell)


def expected_error(parameters: Parameters) -> Any:
    """Return the root mean squared error, which is that of the noise (Gaussian noise with its
    rounding), in the data's unit.
    """
    _, _, cell = grid(parameters)
    own = scale(parameters)
    if parameters["noise"] == "gaussian":
        return mp.sqrt(real(own) ** 2 + mp.mpf(1) / 12) * real(cell)
    w = real_exponential(1 / own)
    return mp.sqrt(2 * w) / (1 - w) * real(cell)


@states(Source("HT10", "packing argument", note="for two datasets at distance k"))
def lower_bound(parameters: Parameters, epsilon: Fraction) -> Any:
    """Return a lower bound on the expected absolute error, on some dataset, of every epsilon-DP
    sum (add-remove).

    k records of the bound that is farther from zero move the sum by k times that bound.
    """
    farther = max(abs(Fraction(parameters["lower"])), abs(Fraction(parameters["upper"])))
    return lower_bounds.two_point(epsilon, farther, 10**6)
