"""Shares of a budget: parts of mu squared, roots for the multipliers, and tails of delta for
rare events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from dpverify.plans.parameters import Rational
from dpverify.privacy import Adjacency, ApproxDP, Guarantee
from dpverify.privacy.numbers import approximately, as_written, exact, to_float

ROOT_BITS = 40
"""Number of bits after the point to which roots of shares, which multiply noise, are rounded."""


def _tail(value: Any, name: str) -> Fraction:
    """Read the probability of a rare event."""
    tail = exact(value, name)
    if not Fraction(1, 10**300) < tail < Fraction(1, 10):
        shown = approximately(tail)
        raise ValueError(f"{name} = {shown} is outside (1e-300, 1/10); give a share of your delta.")
    return tail


Tail = Annotated[Rational, _tail]
"""Probability that each of the rare events may have that together make a claim's delta."""


def checked_shares(shares: Any, steps: int) -> tuple[Fraction, ...]:
    """Read one positive share a step, of sum 1, as rationals; raises TypeError or ValueError
    for anything else.
    """
    if not isinstance(shares, (list, tuple)):
        raise TypeError(f"shares = {shares!r}; give a tuple of {steps} numbers, one for each step.")
    parts = tuple(as_written(share, "shares") for share in shares)
    if len(parts) != steps or min(parts, default=0) <= 0 or sum(parts) != 1:
        raise ValueError(
            f"shares = {tuple(map(str, parts))}; give {steps} positive numbers, one for each step, "
            "whose sum is 1, as exact ones: ('1/4', '3/4')."
        )
    return parts


def shares_of(shares: Sequence[Fraction] | None, steps: int) -> tuple[Fraction, ...]:
    """Return the shares of so many steps: the given ones; by default 3/4 for the last, the rest
    in equal parts.
    """
    if shares is not None:
        return tuple(shares)
    if steps == 1:
        return (Fraction(1),)
    return (Fraction(1, 4 * (steps - 1)),) * (steps - 1) + (Fraction(3, 4),)


def default_tail(budget: Guarantee, adjacency: Adjacency, filter_: str) -> Fraction:
    """Choose the probability of a rare event: a tenth of the budget's delta.

    For the basic filter it is a tenth of what the friendly lift leaves of delta. Raises
    ValueError for a budget other than (epsilon, delta).
    """
    if not isinstance(budget, ApproxDP):
        raise ValueError(f"budget = {budget}: say which ``tail`` of it rare events may take.")
    share = budget.delta / 10
    if filter_ == "basic":
        moved = 2 if adjacency is Adjacency.ADD_REMOVE else 3
        share *= Fraction(
            to_float(budget.epsilon) / moved / math.expm1(min(to_float(budget.epsilon), 700))
        )
    return share.limit_denominator(10**40) if share > Fraction(1, 10**30) else share


def require_room(tail: Fraction, budget: ApproxDP, adjacency: Adjacency, filter_: str) -> None:
    """Refuse, with ValueError, a tail whose rare events alone take all of delta: no noise would
    meet that budget.
    """
    rows = 1 if adjacency is Adjacency.ADD_REMOVE else 0
    times = 2 + rows if filter_ == "gaussian" else 1
    if times * tail >= 10 * default_tail(budget, adjacency, filter_):
        raise ValueError(
            f"tail = {approximately(tail)} leaves nothing of delta in {budget}; leave it out for a "
            "tenth of what there is."
        )
