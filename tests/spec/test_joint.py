"""Sums with their number: false twins fail, and the bounds hold where they can be computed
exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from dpverify.privacy import Adjacency
from spec import bernoulli_mean, clipped_mean
from spec.theory import joint
from spec.theory.obligations import ObligationFailed

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


@pytest.mark.parametrize(
    "twin",
    [
        lambda r, w, a: r**2,
        lambda r, w, a: r**2 + w**2,
        lambda r, w, a: 4 * r**2,
        lambda r, w, a: 4 * r**2 if a is REPLACE else r**2,
        lambda r, w, a: 4 * r**2 if a is REPLACE else (r + w) ** 2,
        lambda r, w, a: 4 * r**2 + w**2 if a is REPLACE else r**2 + w**2,
        lambda r, w, a: 4 * r**2 if a is REPLACE else max(r, w) ** 2,
    ],
    ids=range(7),
)
def test_false_sensitivities_are_caught(twin: Callable[[int, int, Adjacency], int]) -> None:
    with pytest.raises(ObligationFailed):
        joint.obligation_with_count(twin)


@pytest.mark.parametrize(
    "twin",
    [
        lambda d, beta: joint.normal_length(d, beta) * 0.75,
        lambda d, beta: joint.normal_length(d, beta) * 3,
        lambda d, beta: mp.sqrt(d - 2 * mp.log(mp.mpf(beta.numerator) / beta.denominator)),
        lambda d, beta: joint.normal_length(1, beta),
    ],
    ids=range(4),
)
def test_false_lengths_are_caught(twin: Callable[[int, Fraction], Any]) -> None:
    with pytest.raises(ObligationFailed):
        joint.obligation_normal_length(twin)


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(9, 10), Fraction(11, 10), 2])
def test_other_default_weights_are_caught(factor: Fraction) -> None:
    with pytest.raises(ObligationFailed):
        joint.obligation_default_weight(lambda r, d: int(factor * joint.default_weight(r, d)))


@pytest.mark.parametrize("spec", [clipped_mean, bernoulli_mean], ids=["clipped", "bernoulli"])
@pytest.mark.parametrize("claimed", ["0.999", "1.001"])
def test_a_false_loss_is_caught(spec: Any, claimed: str) -> None:
    with pytest.raises(ObligationFailed):
        spec.obligation_loss(Fraction(claimed))


def test_other_false_statements_of_the_means_are_caught() -> None:
    with pytest.raises(ObligationFailed):
        clipped_mean.obligation_rounding(Fraction(1, 2**41))
    both: tuple[Any, ...] = (clipped_mean, bernoulli_mean)
    for spec in both:
        with pytest.raises(ObligationFailed):
            spec.obligation_lower_bound_is_below_error(2)
    for factor in (Fraction(1, 10), 6):
        with pytest.raises(ObligationFailed):
            bernoulli_mean.obligation_enough_records(
                lambda alpha, m, f=factor: max(1, int(f * bernoulli_mean.enough_records(alpha, m)))
            )


def test_a_public_number_that_differs_is_noticed() -> None:
    parameters = {"adjacency": REPLACE, "noise_multiplier": Fraction(1), "at_least": 1}
    one, two = (bernoulli_mean.law(parameters, [Fraction(1)] * n) for n in (1, 2))
    with pytest.raises(ObligationFailed, match="public numbers differ"):
        joint.mu_squared(one, two)


@pytest.mark.parametrize("weight", [1, 700_000, None])
def test_the_probability_of_abstaining_is_that_of_the_rounded_noise(weight: int | None) -> None:
    ratio = joint.Ratio(Fraction(3, 2) * 2**20, 2**20, 1, weight)
    for n, at_least in ((0, 1), (3, 1), (5, 5), (40, 20)):
        probability = float(joint.abstains(ratio, n, at_least))
        if weight is None:
            assert probability == float(n < at_least)
        else:
            deviation = float(ratio.count_scale)
            assert probability == pytest.approx(norm.cdf((at_least - n) / deviation), abs=1e-9)


# --- the lower bound ----------------------------------------------------------------------------


def _worst_error(estimate: Callable[[Any], Any], votes: Sequence[int], n: int, mu: float) -> float:
    """Return the largest root mean squared error over sums of n votes, of an estimate made from
    the sum plus normal noise of deviation 2 / mu: mu-GDP under replace. By quadrature over 30
    sd."""
    z = np.linspace(-15, 15, 3001)
    density = norm.pdf(z) * (z[1] - z[0])
    squares = [
        float(((estimate(total + 2 / mu * z) - total / n) ** 2 * density).sum()) for total in votes
    ]
    return float(max(squares) ** 0.5)


@pytest.mark.parametrize(("n", "mu"), [(1, 0.5), (2, 3.0), (10, 1.0), (100, 0.3), (100, 3.0)])
def test_no_mechanism_here_beats_the_lower_bound(n: int, mu: float) -> None:
    """Plain, clipped, shrunk and constant estimates of the same private sum."""
    bound, votes = float(joint.least_error(mp.mpf(mu), n, 1)), range(-n, n + 1, 2)
    kinds: list[Callable[[Any], Any]] = [
        lambda y: y / n,
        lambda y: np.clip(y / n, -1, 1),
        lambda y: y / n * (n**2 / (n**2 + (2 / mu) ** 2)),
        lambda y: np.tanh(y * mu**2 / 4),
        lambda y: 0 * y,
    ]
    errors = [_worst_error(kind, votes, n, mu) for kind in kinds]
    assert 0 < bound <= min(errors) <= 6 * bound


def test_the_lower_bound_looks_at_every_separation() -> None:
    for mu, n, d in ((0.01, 10**4, 1), (1.0, 300, 7), (5.0, 40, 3), (0.2, 50, 20), (1.0, 3, 5)):
        every = [k**2 * norm.cdf(-k * mu / 2) for k in range(1, n // d + 1)]
        best = (d * max(every, default=0.0)) ** 0.5 / n
        assert float(joint.least_error(mp.mpf(mu), n, d)) == pytest.approx(best)
