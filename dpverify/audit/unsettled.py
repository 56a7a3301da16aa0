"""Counts that refute nothing and are beyond the claim all the same: shown, with the trials that
would decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpverify.audit.certificates import EITHER, Certificate, refutes, refutes_by_guesses
from dpverify.audit.confidence_regions import PARTS, Counted, confidence_region
from dpverify.audit.reach import MOST_DRAWS
from dpverify.audit.scouting import trials_to_certify
from dpverify.privacy import Guarantee

# Sightings on one side alone: if both sides had the event alike, one chance in 2^10 an event. Draws
# that chose the event are not counted, and nothing but a line in the report depends on it.
_SIGHTINGS = 10
_ERRORS = 3.0  # standard errors above the claim
_SHARES = *range(PARTS // 8, PARTS, PARTS // 8), 61.0, 63.0, 63.75, float(PARTS)
_LARGEST = 700.0
_SPARE = 1.3  # standard errors by which fewer hits still decide: power .9
_MORE = 1.1  # times as many as were asked for before: the least that is worth another audit


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


def draws_to_decide(seen: Certificate, guarantee: Guarantee) -> float:
    """Estimate how many draws per side, on average, refute the claim with power .9 at this
    certificate's alpha, if the event is as common on both sides as it was counted; more than were
    counted, and infinite where more than ``MOST_DRAWS`` would be needed.

    An audit of more draws gives the event no less of its alpha: it is then the suspicious one.
    """
    drawn = (seen.draws + seen.other_draws) / (4 if seen.direction == EITHER else 2)

    def decided(times: float) -> bool:
        hits, others = times * seen.hits, times * seen.other_hits
        ratio = seen.draws / seen.other_draws
        spread = math.sqrt(hits + math.exp(2 * min(seen.claimed, _LARGEST / 2)) * others * ratio**2)
        sizes = round(times * seen.draws), round(times * seen.other_draws)
        least = max(0, math.floor(hits - _SPARE * spread))
        return _refuted(seen, Counted(least, sizes[0], round(others), sizes[1]), guarantee)

    low, high = 1.0, 2.0
    while not decided(high):
        low, high = high, 2 * high
        if high * drawn > MOST_DRAWS:
            return math.inf
    while high > low * 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high * drawn


def _refuted(seen: Certificate, counted: Counted, guarantee: Guarantee) -> bool:
    """Return whether these counts in place of a certificate's would refute the claim."""
    if seen.method == "guesses":
        return refutes_by_guesses(counted, seen.claimed, seen.alpha)
    return any(
        refutes(confidence_region(counted, share, seen.alpha), guarantee) for share in _SHARES
    )


def trials_to_decide(seen: Certificate, guarantee: Guarantee, trials: int) -> float:
    """Return the ``trials=`` of an audit that would refute the claim by this event, rounded up to
    two digits; more than ``trials``, those of the audit that has seen it.
    """
    needed = draws_to_decide(seen, guarantee)
    if math.isinf(needed):
        return needed
    return two_digits(max(trials_to_certify(needed), _MORE * trials))


def two_digits(number: float) -> int:
    """Return the number, rounded up to two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / unit) * unit


def shown(
    certificates: Sequence[Certificate], guarantee: Guarantee, trials: int
) -> Iterator[tuple[str, float]]:
    """Yield a line for each unsettled event, and the trials that would decide it; those that take
    fewest come first.
    """
    needed = [(trials_to_decide(one, guarantee, trials), one) for one in unsettled(certificates)]
    for many, one in sorted(needed, key=lambda it: (it[0], it[1].other_hits, -it[1].hits)):
        more = f"trials={many:_} would show it"
        if math.isinf(many):
            more = "to show it takes more than 10^9 draws a side"
        doubt = "decides nothing yet. If these frequencies are right, the claim is false"
        yield f"{one} {doubt}; {more}", many


__all__ = ["draws_to_decide", "shown", "trials_to_decide", "two_digits", "unsettled"]
