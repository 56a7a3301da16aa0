"""Promise of an event: what it would show of a claim, from how often it was seen, in epsilon or
in standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dpverify.audit.certificates import Point
from dpverify.audit.confidence_regions import LEAST_PART, Counts
from dpverify.privacy.numbers import Floats

POWER = 1.3  # choose for a refutation that nine runs of ten would repeat
OPTIMISM = 2.0  # the best of many looks better than it is, by about two standard errors
# factors by which noise is too small; a close look is for the first
_DEFICITS = 1.05, 1.2, 1.5, 2, 4, 10, 30, 100, 1000
_PLAIN = 3.0  # standard errors by which a larger one shows
_EVIDENT = 2.5  # standard errors above the claim: hardly by chance, even of many events
_PLAINLY = 3.5  # standard errors, counted so that few hits have theirs: more is rarely chance
_COMMON = 150  # hits; there are so many rarer events that some are evident by chance
_A_STANDARD_ERROR = 0.005  # in epsilon, when promises are compared
_HOPED = 0.5  # share of a bound that is expected and not promised, when promises are compared
_PARTS = LEAST_PART, 1 - LEAST_PART
_BEYOND = 300.0
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Task:
    """Task that a witness is chosen for.

    points: those of the claim. alpha, draws: those of the certificate to come. refute: for one
    (epsilon, delta), look first for what may refute it, and second for a large bound. divides:
    whether the draws of both sides, twice as many, are divided as the event asks for.
    """

    points: Sequence[Point]
    alpha: float
    draws: int
    refute: bool = False
    divides: bool = False


def above_claimed(
    hits: Counts | Floats,
    draws: int,
    other_hits: Counts | Floats,
    other_draws: int,
    task: Task,
    *,
    power: float = POWER,
    optimism: float = OPTIMISM,
) -> Floats:
    """Return, for one (epsilon, delta), the epsilon to be certified at delta, less the claimed
    one.
    """
    cautious = (power - float(scipy.special.ndtri(task.alpha))) * np.sqrt(
        draws / task.draws
    ) + optimism
    p, p_low = estimate(hits, draws, -cautious)
    q, q_high = estimate(other_hits, other_draws, cautious)
    ((epsilon, delta),) = task.points
    both = divided_error if task.divides else np.hypot
    with np.errstate(divide="ignore", invalid="ignore"):
        error = both(np.log((p - delta) / (p_low - delta)), np.log(q_high / q))
        odds = np.log((p - delta) / q)
        spread = both(np.sqrt(p * (1 - p)) / (p - delta), np.sqrt((1 - q) / q))
        spread /= math.sqrt(draws)
        # A bound below 0 says as little as any other: then the event that is furthest from 0
        # may show more than is promised, and one that is as common on both sides never does. Of
        # an event and its complement, which are as far from 0, the one that is expected to show
        # more. Of many rare events some are far likelier on one side by chance; so what is seen is
        # believed as far as it is certain, and no more than the claim allows.
        doubt = optimism * spread / np.maximum(odds, TINY)
        certain = np.maximum(1 - doubt**2, 0.0)
        expected = (
            np.minimum(certain * odds, epsilon)
            + float(scipy.special.ndtri(task.alpha)) * np.sqrt(draws / task.draws) * spread
        )
        hardly = _A_STANDARD_ERROR * (odds / spread - cautious) + _HOPED * np.maximum(expected, 0.0)
        hardly = np.minimum(hardly, _A_STANDARD_ERROR * np.maximum(expected, 0.0))  # few ties
        above = np.where(odds > error, odds - error, hardly) - epsilon
        if task.refute:
            # Bounds of rare events are noisy, so the largest prefers them, or shuns them
            # altogether; in standard errors all events are as noisy.
            excess = (odds - epsilon) / spread
            short = _A_STANDARD_ERROR * np.minimum(excess - cautious, 0.0)
            evident = (excess > _EVIDENT) & (np.asarray(hits) >= _COMMON)
            above = np.where(evident, np.maximum(above, short), above)
        # For what is plainly there a bound says too little, since it is most cautious for rare
        # events.
        root = signed_root(
            np.asarray(hits, dtype=np.float64) - delta * draws,
            other_hits,
            draws / other_draws,
            epsilon,
        )
        above = np.where(p_low > delta, above, -np.inf)  # else no number
        plainly = np.maximum(above, _A_STANDARD_ERROR * (root - cautious))
        above = np.where(root > _PLAINLY, plainly, above)
    return np.asarray(above)[None, :]


def divided_error(own: Floats, other: Floats) -> Floats:
    """Return the error of both sides together where their draws are divided in proportion to
    these errors for equal draws, as far as either side may have fewer; with equal draws it is the
    root of the sum of squares.
    """
    there = np.isfinite(own + other) & (own + other > 0)
    part = np.clip(np.divide(own, own + other, where=there, out=np.full_like(own, 0.5)), *_PARTS)
    return np.where(there, np.sqrt((own**2 / part + other**2 / (1 - part)) / 2), own + other)


def signed_root(hits: Floats, other: Counts | Floats, ratio: float, epsilon: float) -> Floats:
    """Return how many standard errors the hits are above e^epsilon times the others': the
    signed root of twice the logarithm of the likelihood ratio, given their sum, which holds for
    few hits too.
    """
    own, other = np.maximum(hits, 0.0), np.asarray(other, dtype=np.float64)
    share = 1 / (1 + math.exp(-min(epsilon, _BEYOND)) / ratio)
    both = np.maximum(own + other, TINY)
    twice = 2 * (
        scipy.special.xlogy(own, own / both / share)
        + scipy.special.xlogy(other, other / both / (1 - share))
    )
    root: Floats = np.sign(own / both - share) * np.sqrt(np.maximum(twice, 0.0))
    return root


def standard_errors(
    hits: Counts | Floats,
    draws: int,
    other_hits: Counts | Floats,
    other_draws: int,
    task: Task,
    doubt: float = 1.0,
) -> Floats:
    """Return, for a whole profile, by how many standard errors the claim is to be refuted, less
    those needed.

    Most points of a profile are too noisy to compare on a few draws, and the best of many noisy
    ones is noise. So what is seen is averaged with what a deficit of noise would show at the
    best threshold, as if that were known to its own size (``_expected``). doubt: how many times
    as noisy what is seen is taken to be.
    """
    p, _ = estimate(hits, draws, 0.0)
    q, _ = estimate(other_hits, other_draws, 0.0)
    epsilon, delta = np.array(task.points).T[:, :, None]
    factor = np.exp(np.minimum(epsilon, _BEYOND))
    variance = p * (1 - p) / draws + factor**2 * q * (1 - q) / other_draws
    seen = p - factor * q - delta
    plain = (seen - _PLAIN * np.sqrt(variance)).max(axis=1)
    expected = _expected(epsilon[:, 0], delta[:, 0], plain)[:, None]
    believed = expected**2 / (expected**2 + doubt**2 * variance)
    beforehand = expected - (seen.max(axis=1, keepdims=True) - seen)
    fresh = np.sqrt(variance * draws / task.draws)
    needed = -float(scipy.special.ndtri(task.alpha))
    promised: Floats = (believed * seen + (1 - believed) * beforehand) / fresh - needed
    if promised.max() > -needed:
        return promised
    shares: Floats = (seen + delta - needed * fresh) / np.maximum(delta, TINY)
    return np.minimum(shares - 1, 0.0) - needed  # nothing to refute: show most of what is claimed


def _expected(epsilon: Floats, delta: Floats, plain: Floats) -> Floats:
    """Return what a deficit of noise shows at each point: 5%, or the largest that is plainly there.

    With f times less noise this is about f delta(epsilon / f) - delta(epsilon). Under a claim
    much smaller than the truth, what 5% would show is nothing beside what is seen. plain: for
    each point, the largest excess that is hardly chance.
    """
    shown = np.array([f * np.interp(epsilon / f, epsilon, delta) - delta for f in _DEFICITS])
    at = int(np.argmax(plain))
    seen = np.flatnonzero(shown[:, at] <= plain[at])
    expected: Floats = shown[seen[-1] if len(seen) else 0]
    return expected


def estimate(hits: Counts | Floats, draws: int, errors: float) -> tuple[Floats, Floats]:
    """Return the probability, and where it is that many standard errors away; good for few hits
    too.
    """
    middle = (hits + 0.5) / (draws + 1)
    shift = errors**2 / 2 / draws
    spread = errors * np.sqrt(middle * (1 - middle) / draws + (errors / 2 / draws) ** 2)
    end = (middle + shift + spread) / (1 + 2 * shift)
    return middle, np.clip(end, 0.0, 1.0)
