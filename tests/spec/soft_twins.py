"""False twins of the obligations about a soft core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from spec import soft_core
from spec.theory import soft_weights
from spec.theory.soft_weights import Terms


def _reach(times: str) -> Callable[[Fraction, Fraction], Fraction]:
    """Multiply the stated reach."""
    return lambda full, least: Fraction(times) * soft_weights.reach(full, least)


def _without(**parts: Any) -> Callable[..., Fraction]:
    """Costs that forget a part."""

    def cost(n: int, least: Fraction, one: Terms, full: Fraction) -> Fraction:
        return soft_weights.cost(n, least, replace(one, **parts), full)

    return cost


TWINS: dict[str, dict[str, Any]] = {
    "soft_core:obligation_agreement": {
        "one less": lambda full: soft_weights.moves(full) - 1,
        "one more": lambda full: soft_weights.moves(full) + 1,
        "as by degree": lambda full: 6,
    },
    "soft_core:obligation_reach": {
        "four fifths": _reach("4/5"),
        "double": _reach("2"),
        "as by degree": lambda full, least: Fraction(17, 8) / least,
        "by N in place of S": lambda full, least: soft_weights.reach(full, 2 * least),
    },
    "soft_core:obligation_bad_event": {
        "no tail": lambda plan: plan.moves,
        "no moves": lambda plan: plan.shift - plan.moves,
        "the agreement itself": lambda plan: 0,
        "twice as much": lambda plan: 2 * soft_core.taken_off(plan),
    },
    "theory.soft_weights:obligation_steps": {
        "nobody moves": _without(movers=0),
        "the new record does not count": _without(own=Fraction(0)),
        "no strangers": _without(strangers=0),
        "double": lambda *given: 2 * soft_weights.cost(*given),
    },
    "theory.soft_weights:obligation_target": {
        "nine tenths": _reach("9/10"),
        "double": _reach("2"),
    },
}
