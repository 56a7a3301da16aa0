"""False twins of the obligation about requests that are chosen after seeing answers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from spec.theory import adaptive
from spec.theory.adaptive import Filter, Taken
from spec.theory.laws import real
from spec.theory.profiles import gaussian_profile


def _one_more(taken: Taken) -> bool:
    """Stop after the limit was exceeded, and not before."""
    rests = [taken[:i] + taken[i + 1 :] for i in range(len(taken))]
    return any(not rest or adaptive.within_the_limit(rest) for rest in rests)


def _less(units: int) -> Any:
    epsilon = Fraction(units, 10)
    return gaussian_profile(adaptive.LIMIT[0] / 2, epsilon) + real(adaptive.LIMIT[1])


def _without_delta(units: int) -> Any:
    return gaussian_profile(adaptive.LIMIT[0], Fraction(units, 10))


def _at_one(units: int) -> Any:
    return adaptive.fixed(adaptive.MENU[:2], 10) if units == 10 else mp.mpf(1)


TWINS: dict[str, dict[str, Any]] = {
    "theory.adaptive:obligation_filter": {
        "a profile at one epsilon": Filter(adaptive.at_one_epsilon, _at_one),
        "one request more than the limit": Filter(_one_more, adaptive.promised),
        "half of mu^2": Filter(adaptive.within_the_limit, _less),
        "without the delta": Filter(adaptive.within_the_limit, _without_delta),
    },
}
