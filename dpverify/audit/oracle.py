"""Benchmark for the auditor: what an attack that knew the best event beforehand could reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dpverify.audit.audit_targets import AuditTarget
from dpverify.audit.certificates import Point, tested_points
from dpverify.audit.confidence_regions import Counted, confidence_region, share_of
from dpverify.audit.faults import Fault
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.laws import AuditedLaw, TranscriptDraws
from dpverify.audit.power import ENOUGH, frequency
from dpverify.privacy import Guarantee
from dpverify.privacy.numbers import Floats
from dpverify.randomness import SeededBits

FACTORS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
"""The budgets that are tried, in units of what an oracle needs."""
WITHIN = 1.5
"""Ratio of an attack's draws to an oracle's where these are many, as ``audit --power`` measures
it.
"""
_SAMPLE = 400_000  # draws per side to find the oracle's event
_LOOK = 100_000  # draws per side to see about how many it needs
_SIMULATED = 400  # pairs of binomials to find the oracle's power
_STEP = 1.05  # factor up to which the oracle's draws are found
_EPSILONS = 60
_MOST_DRAWS = 10**9


@dataclass(frozen=True, slots=True)
class Oracle:
    """The best event against a claim, which is not known beforehand.

    own, other: its probabilities. point: the point of the claim that it breaks most clearly.
    draws: number of draws per side with which it refutes the claim with power ENOUGH at
    ``alpha``.
    """

    own: float
    other: float
    point: Point
    alpha: float
    draws: int


def oracle(
    guarantee: Guarantee,
    laws: tuple[AuditedLaw, AuditedLaw],
    *,
    alpha: float,
    seed: int,
    sample: int = _SAMPLE,
) -> Oracle | None:
    """Find the event {likelihood ratio >= t} and the point of the claim with the largest
    standardized excess.

    Both laws must be known. The event is found on a large sample by importance weights, so that
    the excess, a small difference, has a small relative error; then the least number of draws
    by simulating the test. None where no event breaks the claim, or none does with 10^9 draws.
    """
    standardized, p, q, point = _best(guarantee, laws, seed, sample)
    if standardized <= 0:
        return None
    needed = _needed(guarantee, p, q, point, alpha, seed)
    return None if needed is None else Oracle(p, q, point, alpha, needed)


def hidden(
    attacked: AuditTarget,
    guarantee: Guarantee,
    *,
    alpha: float,
    draws: int,
    seed: int,
    sample: int = _LOOK,
) -> dict[str, float]:
    """Return the faults that a thorough audit does not plant: small shares of noise that it
    need not see in so many draws.

    The result says, by the fault's name, about how many draws per side an oracle needs for
    power ENOUGH, on the pair where it needs the fewest: so many that WITHIN times as many are
    more than ``draws``. An audit still sees some of these faults, if less often. The number is
    infinite where no event breaks the claim.
    alpha: that of the audit, which shares it among faults and pairs.
    """
    early = {fault.name for fault in attacked.planted()}
    planted = attacked.planted(thorough=True)
    each = alpha / max(1, len(planted)) / max(1, len(attacked.pairs))
    unseen = {}
    for fault in planted:
        if fault.name in early:
            continue
        least = min(_about(guarantee, fault, pair, each, seed, sample) for pair in attacked.pairs)
        if WITHIN * least > draws:
            unseen[fault.name] = least
    return unseen


def _about(
    guarantee: Guarantee,
    fault: Fault,
    pair: NeighboringPair,
    alpha: float,
    seed: int,
    sample: int,
) -> float:
    """Estimate an oracle's draws, as if counts were normal."""
    left, right = (TranscriptDraws(fault.law(data)) for data in (pair.left, pair.right))
    standardized, *_ = _best(guarantee, (left, right), seed, sample)
    if standardized <= 0:
        return math.inf
    return float(((scipy.special.ndtri(ENOUGH) - scipy.special.ndtri(alpha)) / standardized) ** 2)


def _best(
    guarantee: Guarantee, laws: tuple[AuditedLaw, AuditedLaw], seed: int, sample: int
) -> tuple[float, float, float, Point]:
    """Return ``_best_event`` in the better direction, from so many draws per side."""
    drawn = [law.draw(SeededBits(seed, 0, side), sample) for side, law in enumerate(laws)]
    ratios = []
    for batch in drawn:
        own, other = (law.log_likelihood(batch) for law in laws)
        assert own is not None
        assert other is not None
        ratios.append(own - other)
    pooled = np.sort(np.concatenate(ratios))
    return max(
        (_best_event(guarantee, losses) for losses in (pooled, -pooled[::-1])),
        key=lambda scored: scored[0],
    )


def _best_event(guarantee: Guarantee, losses: Floats) -> tuple[float, float, float, Point]:
    """Return (standardized excess of one draw a side, P(S), Q(S), point). losses: sorted, of
    (P + Q) / 2.
    """
    own, other = (
        2 * scipy.special.expit(losses),
        2 * scipy.special.expit(-losses),
    )  # dP and dQ over (dP + dQ) / 2
    thresholds = np.unique(
        np.concatenate(
            [np.linspace(0, len(losses) - 1, 400), np.geomspace(1, len(losses) - 1, 200)]
        ).astype(np.intp)
    )
    # Events are {loss >= losses[i]}, equal losses included.
    thresholds = np.unique(np.searchsorted(losses, losses[thresholds], side="left"))
    p = np.cumsum(own[::-1])[::-1][thresholds] / len(losses)
    q = np.cumsum(other[::-1])[::-1][thresholds] / len(losses)
    best = (-math.inf, 0.0, 0.0, (0.0, 0.0))
    for epsilon, delta in _all_points(guarantee):
        factor = math.exp(epsilon)
        variance = p * (1 - p) + factor**2 * q * (1 - q)
        with np.errstate(divide="ignore", invalid="ignore"):
            standardized = (p - factor * q - delta) / np.sqrt(np.maximum(variance, 1e-12))
        at = int(np.argmax(standardized))
        excess = float(standardized[at])
        if excess > best[0]:
            best = excess, min(1.0, float(p[at])), min(1.0, float(q[at])), (epsilon, delta)
    return best


def _all_points(guarantee: Guarantee) -> Iterator[Point]:
    """Yield more points of the profile than an audit tests."""
    tested = tested_points(guarantee)
    yield from tested
    if len(tested) > 1:
        for epsilon in np.linspace(tested[0][0], tested[-1][0], _EPSILONS):
            yield float(epsilon), float(guarantee.delta_at(Fraction(float(epsilon))).upper)


def _needed(
    guarantee: Guarantee, p: float, q: float, point: Point, alpha: float, seed: int
) -> int | None:
    """Return the draws per side with which the joint test of one event with these probabilities
    has power ENOUGH.
    """
    epsilon, delta = point
    surplus = max(p - delta, 1e-12)
    share = share_of(math.sqrt(p * (1 - p)) / surplus, math.sqrt((1 - q) / max(q, 1e-12)))
    rng = np.random.default_rng(seed)

    def refutes(draws: int, a: int, b: int) -> bool:
        region = confidence_region(Counted(a, draws, b, draws), share, alpha)
        return region.excess(epsilon, delta) > 0

    def enough(draws: int) -> bool:
        hits = rng.binomial(draws, p, size=_SIMULATED).tolist()
        other_hits = rng.binomial(draws, q, size=_SIMULATED).tolist()
        missed, refuting = 0, _Monotone()
        for a, b in zip(hits, other_hits, strict=True):
            missed += not refuting.at(a, -b, partial(refutes, draws, a, b))
            if _SIMULATED - missed < ENOUGH * _SIMULATED:
                return False  # whatever the others show
        return True

    spread = math.sqrt(p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q))
    excess = p - math.exp(epsilon) * q - delta
    errors = float(scipy.special.ndtri(ENOUGH) - scipy.special.ndtri(alpha))
    low = max(1, int((errors * spread / excess) ** 2 / 2))
    while low > 1 and enough(low):
        low //= 2
    high = 2 * low
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_DRAWS:
            return None
    while high > _STEP * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class _Monotone:
    """Statement about two numbers, true of larger ones where it is true: most are settled by
    others.
    """

    def __init__(self) -> None:
        self._true: list[tuple[int, int]] = []
        self._false: list[tuple[int, int]] = []

    def at(self, a: int, b: int, decide: Callable[[], bool]) -> bool:
        """Return whether it is true of these numbers; decide only where no others settle it."""
        if any(x <= a and y <= b for x, y in self._true):
            return True
        if any(x >= a and y >= b for x, y in self._false):
            return False
        true = decide()
        (self._true if true else self._false).append((a, b))
        return true


def draws_needed(
    sees: Callable[[int, int], bool], start: int, repeats: int, seed: int
) -> tuple[float | None, int]:
    """Return the least of FACTORS times ``start`` with which an attack has power ENOUGH, and
    the draws spent.

    The attack is ``sees(trials, seed)``. Returns (None, the largest number tried) where none of
    them is enough.
    """
    trials = start
    for factor in FACTORS:
        trials = math.ceil(factor * start)
        power = frequency(partial(sees, trials), repeats, seed, least=ENOUGH)
        if power.rate >= ENOUGH:
            return factor, trials
    return None, trials
