"""Lower bound by scores for an exponential family's parameter: a private estimate cannot be so
accurate that its records leave no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require

SCORES = Source("OURS", "lower bound for exponential families by scores, for GDP")


def information(reach: Any) -> Any:
    """Give (pi / R)^2: the Fisher information of the prior cos^2(pi x / (2 R)) / R on [-R, R]."""
    return (mp.pi / reach) ** 2


@states(SCORES)
def least_error(mu: Any, n: int, spread: Any, reach: Any) -> Any:
    """Bound from below, at some theta of an interval of half-length R, the root mean squared error
    of mu-GDP estimates (replace) of theta from n records: 1 / (n s sqrt(e^(mu^2) - 1) +
    pi / R), s the largest deviation of T there.

    Draw theta from the prior of ``information`` about the middle. M is the estimate, a^2 its
    mean square error on average, g(theta) = E M, and Z_i = (M - theta)(T_i - E T) the score of
    record i. Scores add up: T - E T is the derivative of the log-density, so E sum Z_i =
    g'(theta), on average 1 + E (theta - g) of the prior's logarithmic derivative (by parts), at
    least 1 - a pi / R by Cauchy and Schwarz. One score is small: with the record drawn anew
    before M is run, it has the mean 0 and a mean square of a^2 s^2 at most, so with it in the
    data its mean is at most sqrt(e^(mu^2) - 1) a s (``covariance_tracing.chi_square``). So n s
    sqrt(e^(mu^2) - 1) a >= 1 - a pi / R. QED
    """
    return 1 / (n * spread * mp.sqrt(mp.expm1(mu**2)) + mp.sqrt(information(reach)))


# --- obligations --------------------------------------------------------------------------------

Estimate = Callable[[Any], Any]
_ESTIMATES: tuple[Estimate, ...] = (
    lambda x: x,
    lambda x: x / 2,
    lambda x: mp.mpf(0),
    lambda x: mp.tanh(x),
    lambda x: -x,
)


@states(SCORES)
def obligation_scores_add_up(claimed: Callable[[Any], Any] = information) -> int:
    """Check for one normal record of mean theta and five estimates, by quadrature over both, that
    the average of (M - theta)(x - theta) is at least 1 - a times the root of ``claimed``; some
    estimate comes within .15.

    ``claimed`` is the integral of the squared derivative of the prior over the prior.
    """
    cases, nearest = 0, mp.mpf(0)
    with mp.workdps(12):
        for reach in map(mp.mpf, ("0.5", 2, 5)):
            wave = mp.pi / (2 * reach)

            def prior(t: Any, wave: Any = wave, reach: Any = reach) -> Any:
                return mp.cos(wave * t) ** 2 / reach

            def slope(t: Any, wave: Any = wave, reach: Any = reach) -> Any:
                return (2 * wave * mp.sin(wave * t)) ** 2 / reach

            integral = mp.quad(slope, mp.linspace(-reach, reach, 5))
            require(abs(integral / claimed(reach) - 1) < 1e-6, f"{reach}: {integral}")
            for estimate in _ESTIMATES:
                score, square = _averages(estimate, prior, reach)
                least = 1 - mp.sqrt(square * claimed(reach))
                require(score >= least - mp.mpf("1e-6"), f"{reach}: {score}, {least}")
                nearest, cases = max(nearest, 1 - abs(score - least)), cases + 1
    require(nearest > mp.mpf("0.85"), f"never near: {nearest}")
    return cases


def _averages(estimate: Estimate, prior: Any, reach: Any) -> tuple[Any, Any]:
    """Return the averages of (M - theta)(x - theta) and (M - theta)^2, by Simpson's rule over
    theta and x - theta.
    """
    score, square = mp.mpf(0), mp.mpf(0)
    thetas = [(-1 + mp.mpf(k) / 20) * reach for k in range(41)]
    noises = [mp.mpf(k) / 5 for k in range(-35, 36)]
    masses = [mp.npdf(z) / 5 for z in noises]
    for (k, theta), (z, mass) in product(enumerate(thetas), zip(noises, masses, strict=True)):
        weight = (1 if k in (0, 40) else 4 if k % 2 else 2) * reach / 60 * prior(theta) * mass
        off = estimate(theta + z) - theta
        score, square = score + weight * off * z, square + weight * off**2
    return score, square
