"""Certificates of several disjoint events at once, each with a weight of its own.

One event counts all of its draws alike, whether the odds of the two sides there are barely above e^epsilon
or far above it. Weights use the difference. Let S_1, ..., S_m be disjoint events, and let each side be
drawn N times, N Poisson of one mean on either side. The hits X_k on the own side and Y_k on the other are
then independent Poisson numbers, with means in the ratio P(S_k) : Q(S_k). Given all sums X_k + Y_k,

    X_k ~ Binomial(X_k + Y_k, r_k),    r_k = P(S_k) / (P(S_k) + Q(S_k)) <= e^epsilon / (1 + e^epsilon)

under a pure epsilon, so for weights w_k >= 0 fixed beforehand the sum of w_k X_k is stochastically at most
that of w_k times independent binomials of the largest r: an exact test of epsilon, whatever P and Q are.
Its p-value rises with epsilon; the epsilons below which it is at most alpha are refuted together.

Where the odds follow a score, the best weights are (P(S_k) - e^epsilon Q(S_k)) / (P(S_k) + Q(S_k)), if
positive: the mean of a hit's worth under P and Q over its variance under the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

from dpverify.audit.outputs.draws import Floats

HEAVIEST = 5
"""Weights are integers from 1 to this."""
LEAST_ALPHA = 1e-8
"""Tails are computed by fast Fourier transforms: known to an absolute error, so not below this alpha."""
_ERROR = 1e-11  # of a tail: rounding, and masses that are left out
_NEGLIGIBLE = 120  # twice the negative logarithm of a mass that is left out
_OUTWARD = 1e-9
_LEAST, _MOST = -20.0, 40.0  # epsilons that are looked at
_FIRST_STEP, _FINEST = 2.0**-10, 2.0**-24
_SHORT = 4.0  # standard deviations by which the mean is below the number of draws that there are


@dataclass(frozen=True, slots=True)
class Level:
    """One event's weight, and how often it happened on its own side and on the other."""

    weight: int
    hits: int
    other_hits: int


def poisson_mean(draws: int) -> float:
    """Of the number that is used of so many draws: it is larger than these about once in 30,000 times."""
    return max(0.0, draws - _SHORT * math.sqrt(draws))


def used(draws: int, seed: Sequence[int]) -> tuple[int, int]:
    """How many draws count on either side, Poisson; where there are fewer the certificate says nothing."""
    own, other = np.random.default_rng(seed).poisson(poisson_mean(draws), 2)
    return int(own), int(other)


def epsilon_at_least(levels: Sequence[Level], alpha: float) -> float:
    """A lower bound on every pure epsilon that holds, wrong with probability at most alpha; or -inf.

    Raises ValueError for an alpha below ``LEAST_ALPHA``.
    """
    if alpha < LEAST_ALPHA:
        raise ValueError(f"alpha = {alpha} is below {LEAST_ALPHA}; certify a single event instead.")
    if not any(level.hits for level in levels):
        return -math.inf
    about = _normal(levels, alpha)
    step, low, high = _FIRST_STEP, about, about
    while not refuted(levels, low, alpha):
        low, step = low - step, 2 * step
        if low < _LEAST:
            return -math.inf
    step = _FIRST_STEP
    while high < _MOST and refuted(levels, high, alpha):
        low, high, step = high, high + step, 2 * step
    while high - low > _FINEST:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(levels, middle, alpha) else (low, middle)
    return low - _OUTWARD


def _normal(levels: Sequence[Level], alpha: float) -> float:
    """About where the bound will be: the normal approximation."""
    weights, hits, others = np.array([[v.weight, v.hits, v.other_hits] for v in levels], float).T
    needed, low, high = -float(ndtri(alpha)), _LEAST, _MOST
    while high - low > _FINEST:
        middle = (low + high) / 2
        share = float(expit(middle))
        surplus = float(weights @ (hits - share * (hits + others)))
        spread = math.sqrt(share * (1 - share) * float(weights**2 @ (hits + others)))
        low, high = (middle, high) if surplus > needed * spread else (low, middle)
    return low


def refuted(levels: Sequence[Level], epsilon: float, alpha: float) -> bool:
    """Whether the hits are too many for this pure epsilon: their p-value, rounded up, is at most alpha."""
    seen = sum(level.weight * level.hits for level in levels)
    start, masses = _distribution(levels, float(expit(epsilon)))
    tail = float(masses[max(0, seen - start) :].sum())
    return tail + _ERROR <= alpha


def _distribution(levels: Sequence[Level], share: float) -> tuple[int, Floats]:
    """The least value and the masses from there on of the weighted sum of binomials, but for ``_ERROR``."""
    parts, start = [], 0
    for level in levels:
        n = level.hits + level.other_hits
        # Bernstein: beyond this distance from the mean there is a mass of at most 2 e^-60
        far = 20 + math.sqrt(400 + _NEGLIGIBLE * n * share * (1 - share))
        low, high = max(0, math.floor(n * share - far)), min(n, math.ceil(n * share + far))
        part = np.zeros(level.weight * (high - low) + 1)
        part[:: level.weight] = binom.pmf(np.arange(low, high + 1), n, share)
        parts.append(part)
        start += level.weight * low
    size = sum(len(part) - 1 for part in parts) + 1
    length = 1 << (size - 1).bit_length()
    product = np.ones(length // 2 + 1, np.complex128)
    for part in parts:
        product *= np.fft.rfft(part, length)
    return start, np.fft.irfft(product, length)[:size]
