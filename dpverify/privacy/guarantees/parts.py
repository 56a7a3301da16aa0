"""Compositions taken apart: parts without events, each with how often it occurs."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dpverify.privacy.balls import shortened
from dpverify.privacy.guarantees.approximate import ApproxDP, PerfectPrivacy, PureDP
from dpverify.privacy.guarantees.base import Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import ApproximateGaussianDP, GaussianDP
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.smooth import SmoothLaplace

Parts = tuple[tuple[Guarantee, int], ...]
"""Guarantees whose losses are composed, with how often each occurs."""

_SIMPLE = (
    PureDP,
    ZeroConcentratedDP,
    GaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    SmoothLaplace,
)
_ZERO = Fraction(0)


def collect(
    part: Guarantee, times: int, counts: dict[Guarantee, int], extra: list[Fraction]
) -> None:
    """Take a guarantee apart into parts without events, and the events' probabilities."""
    if isinstance(part, ApproximateGaussianDP):
        extra[0] += times * part.delta
        extra[1] += times * part.tv
        collect(GaussianDP.of_square(part.mu_squared), times, counts, extra)
    elif isinstance(part, ApproxDP):
        extra[0] += times * part.delta
        collect(PureDP(part.epsilon), times, counts, extra)
    elif isinstance(part, _SIMPLE):
        counts[part] = counts.get(part, 0) + times
    elif not isinstance(part, PerfectPrivacy):
        if not isinstance(part, Guarantee):
            raise TypeError(f"{part!r} is not a guarantee; write PureDP(1).")
        hint = "; compose first, then take the group" if isinstance(part, Group) else ""
        hint = hint or "; convert it to (epsilon, delta) first"
        raise TypeError(f"{part} has no composition rule{hint}.")


def merged(counts: dict[Guarantee, int]) -> dict[Guarantee, int]:
    """Merge Gaussian parts into one, and concentrated parts into one: their parameters add up
    exactly.
    """
    squares = sum((g.mu_squared * n for g, n in counts.items() if isinstance(g, GaussianDP)), _ZERO)
    rho = sum((g.rho * n for g, n in counts.items() if isinstance(g, ZeroConcentratedDP)), _ZERO)
    kept = {g: n for g, n in counts.items() if not isinstance(g, (GaussianDP, ZeroConcentratedDP))}
    if squares:
        kept[GaussianDP.of_square(shortened(squares))] = 1
    if rho:
        kept[ZeroConcentratedDP(shortened(rho))] = 1
    return kept


def total_of(parts: Parts, name: Literal["concentrated", "largest_loss"]) -> Fraction | None:
    """Return the sum of a property over the parts; None if one has none."""
    total = _ZERO
    for part, times in parts:
        value: Fraction | None = getattr(part, name)
        if value is None:
            return None
        total += times * value
    return total


def concentrated_ranges(parts: Parts) -> Parts:
    """Return the parts with bounded ranges as zCDP, merged, when there are several.

    That is better in the tails. A range's profile is the worst over its intervals, a different
    one at each epsilon; composed as if one pair attained it all, it costs more than the moments
    do. Near epsilon = 0 it costs less.
    """
    ranges = [(part.epsilon, n) for part, n in parts if isinstance(part, BoundedRange)]
    if sum(n for _, n in ranges) < 2:
        return parts
    rest = [(p, n) for p, n in parts if not isinstance(p, (BoundedRange, ZeroConcentratedDP))]
    rho = sum((epsilon**2 * n / 8 for epsilon, n in ranges), Fraction(0))
    rho += sum((p.rho * n for p, n in parts if isinstance(p, ZeroConcentratedDP)), Fraction(0))
    return (*rest, (ZeroConcentratedDP(shortened(rho)), 1))
