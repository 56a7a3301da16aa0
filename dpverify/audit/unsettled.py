"""Counts that refute nothing and are beyond the claim all the same: shown, with the draws that
would decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpverify.audit.certificates import Certificate, refutes
from dpverify.audit.confidence_regions import PARTS, Counted, confidence_region
from dpverify.audit.reach import MOST_DRAWS
from dpverify.privacy import Guarantee

# Sightings on one side alone: if both sides had the event alike, one chance in 2^10 an event. Draws
# that chose the event are not counted, and nothing but a line in the report depends on it.
_SIGHTINGS = 10
_ERRORS = 3.0  # standard errors above the claim
_SHARES = *range(PARTS // 8, PARTS, PARTS // 8), 61.0, 63.0, 63.75, float(PARTS)
_LARGEST = 700.0


def unsettled(certificates: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """Return the events that would break the claim if probabilities were as they were counted,
    and hardly are so by chance: seen often on one side and never on the other, or more often
    than the claim allows by three standard errors.
    """
    return tuple(one for one in certificates if not one.refuted and _stands_out(one))


def _stands_out(seen: Certificate) -> bool:
    if seen.method == "betting" or not seen.hits:
        return False
    factor = math.exp(min(seen.claimed, _LARGEST))
    ratio = seen.draws / seen.other_draws
    expected = seen.delta * seen.draws + factor * seen.other_hits * ratio
    if not seen.other_hits:
        return seen.hits >= _SIGHTINGS and seen.hits > expected
    spread = math.sqrt(seen.hits + factor**2 * seen.other_hits * ratio**2)
    return seen.hits > expected + _ERRORS * spread


def draws_to_decide(seen: Certificate, guarantee: Guarantee, alpha: float) -> float:
    """Estimate how many draws per side refute the claim at this level if the event stays as
    common on both sides as it was; infinite where more than ``MOST_DRAWS`` would be needed.
    """

    def decided(draws: int) -> bool:
        hits, others = (
            round(k * draws / n)
            for k, n in ((seen.hits, seen.draws), (seen.other_hits, seen.other_draws))
        )
        counted = Counted(hits, draws, others, draws)
        return any(
            refutes(confidence_region(counted, share, alpha), guarantee) for share in _SHARES
        )

    low, high = 1, max(2, seen.draws)
    while not decided(high):
        low, high = high, 2 * high
        if high > MOST_DRAWS:
            return math.inf
    while high > low * 1.05:
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def shown(certificates: Sequence[Certificate], guarantee: Guarantee, alpha: float) -> Iterator[str]:
    """Yield a line for each of them, the most striking first."""
    order = sorted(unsettled(certificates), key=lambda one: (one.other_hits, -one.hits))
    for one in order:
        needed = draws_to_decide(one, guarantee, alpha)
        many = f"about {needed:,.0f} draws a side"
        if math.isinf(needed):
            many = "more than 10^9 draws a side"
        yield f"{one} decides nothing yet; if so it is, {many} show that the claim is false"


__all__ = ["draws_to_decide", "shown", "unsettled"]
