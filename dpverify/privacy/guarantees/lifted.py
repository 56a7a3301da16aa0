"""The guarantee that remains when a random filter precedes a guarantee for friendly neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose, hull
from dpverify.privacy.guarantees.base import (
    Guarantee,
    group_size,
    positive,
    profile_argument,
    tradeoff_argument,
)
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.numbers import Exact, settle
from dpverify.privacy.sources import Source, SourceStatus, states

_ZERO, _ONE = Fraction(0), Fraction(1)
_MOST = Fraction(1 << 14)
_BITS = 64
_SLIGHTLY_LESS = Fraction(99, 100)


@states(
    Source("OURS", "filter composition of a whole profile, inverted in closed form"),
    Source(
        "TCKMS22", "Theorem 4.11, paradigm for friendly differential privacy",
        SourceStatus.CHANGED_CONSTANTS, "smaller and tight delta",
    ),
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Lifted(Guarantee):
    """A guarantee under which ``base`` holds for friendly neighbors, after a filter.

    The filter's keep-probabilities move by at most ``moved`` in all
    (see ``rules.friendly_lift``). If the base is (e, d)-DP, the whole is (a moved, d
    (e^(a moved) - 1) / a)-DP with a = e^e - 1, for every e: delta(epsilon) = d(e)
    (e^epsilon - 1) moved / epsilon at e = ln(1 + epsilon / moved).
    """

    base: Guarantee
    moved: Fraction

    def __post_init__(self) -> None:
        if isinstance(self.base, (Lifted, Group)):
            raise TypeError(f"{self.base} is no guarantee of one mechanism for friendly neighbors.")
        settle(self, moved=positive(self.moved, "moved"))

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Return about the least of the values up to ``epsilon``.

        They are compared at 0 and before the turning point. Values may rise at first, for
        (e^epsilon - 1) / epsilon does, and then fall; unless the base has a largest loss they
        rise again in the end.
        """
        at = min(profile_argument(epsilon), _MOST)
        there, first = self.value_at(at), self.value_at(_ZERO)
        if at and not self._falls(at, there):
            best = self._best
            there = there if best is None else self.value_at(min(at, best))
        return Enclosure(min(there.lower, first.lower), min(there.upper, first.upper))

    def _falls(self, epsilon: Fraction, here: Enclosure) -> bool:
        """Return whether values still fall before ``epsilon``, where the value is the one given."""
        return here.upper < self.value_at(epsilon * _SLIGHTLY_LESS).upper

    def value_at(self, epsilon: Fraction) -> Enclosure:
        """Return the value at this very epsilon, by an inner one at or below
        ln(1 + epsilon / moved).
        """
        inner = _inner(epsilon / self.moved)
        delta = self.base.delta_at(inner)
        growth = Enclosure(self.moved, self.moved)
        if inner:
            growth = enclose(lambda: _growth(inner, self.moved))
        return Enclosure(
            min(delta.lower * growth.lower, _ONE), min(delta.upper * growth.upper, _ONE)
        )

    def at_most(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the profile is at most ``delta``, by the value at this very epsilon first.

        A smaller epsilon can do better only where values rise.
        """
        at = min(epsilon, _MOST)
        here = self.value_at(at)
        if here.upper <= delta:
            return True
        return not self._falls(at, here) and self.delta_at(at).upper <= delta

    def rough_delta(self, epsilon: Fraction) -> Fraction:
        """Return the value at this very epsilon, roughly."""
        inner = _inner(epsilon / self.moved)
        growth = enclose(lambda: _growth(inner, self.moved)).upper if inner else self.moved
        return self.base.rough_delta(inner) * growth

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """Return the best of the lines 1 - delta(epsilon) - e^epsilon alpha and their mirrors."""
        at = tradeoff_argument(alpha)
        if at in (0, 1):
            value = (1 - at) * (1 - self.delta_floor)
            return Enclosure(value, value)
        lines = [self._line(epsilon, at) for epsilon in _steepest(self, at)]
        lower = max(line.lower for line in lines)
        return Enclosure(lower, min(max(line.upper for line in lines), 1 - at))

    def _line(self, epsilon: Fraction, alpha: Fraction) -> Enclosure:
        delta, growth = self.delta_at(epsilon), enclose(lambda: ball(epsilon).exp())
        low = max(
            1 - delta.upper - growth.upper * alpha, (1 - delta.upper - alpha) / growth.upper, _ZERO
        )
        high = max(
            1 - delta.lower - growth.lower * alpha, (1 - delta.lower - alpha) / growth.lower, _ZERO
        )
        return Enclosure(low, high)

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return ``delta_at`` as a ball."""
        return hull(self.delta_at(epsilon))

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return ``tradeoff_at`` as a ball."""
        return hull(self.tradeoff_at(alpha))

    def for_group(self, size: int) -> Guarantee:
        """Return the group's own guarantee: see ``Group``."""
        return Group(self, size) if group_size(size) > 1 else self

    @property
    def delta_floor(self) -> Fraction:
        """Floor of the profile: about its least value, 0 where it falls for ever."""
        return _ZERO if self._best is None else self.delta_at(self._best).upper

    @property
    def largest_loss(self) -> Fraction | None:
        """Largest privacy loss: moved (e^loss - 1) for a base of bounded loss."""
        loss = self.base.largest_loss
        if loss is None or loss > 64:
            return None
        return enclose(lambda: ball(self.moved) * ball(loss).expm1()).upper if loss else _ZERO

    @property
    def _best(self) -> Fraction | None:
        """Epsilon at which the value is about least; None if values fall for ever, where the
        base has a largest loss.
        """
        return None if self.base.largest_loss is not None else _turning_point(self)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown is a stronger lift, or the base itself.

        A stronger lift has a stronger base and a filter that moves no more. A lift only weakens
        the base.
        """
        if isinstance(shown, Lifted):
            return shown.moved <= self.moved and shown.base.implies(self.base)
        return self.moved >= 1 and shown.implies(self.base)

    def __str__(self) -> str:
        return f"lifted({self.moved}, {self.base})"


def _growth(inner: Fraction, moved: Fraction) -> arb:
    a = ball(inner).expm1()
    return (ball(moved) * a).expm1() / a


def _inner(ratio: Fraction) -> Fraction:
    """Return ln(1 + ratio), or a number of 64 bits after the point just below it."""
    if not ratio:
        return _ZERO
    lower = enclose(lambda: ball(ratio).log1p()).lower
    return Fraction(lower.numerator * (1 << _BITS) // lower.denominator, 1 << _BITS)


@lru_cache(maxsize=256)
def _turning_point(lifted: Lifted) -> Fraction:
    """Return an epsilon near which the value is least; any would be sound."""
    low, high = _ZERO, Fraction(64)
    for _ in range(60):
        third = (high - low) / 3
        if lifted.rough_delta(low + third) < lifted.rough_delta(high - third):
            high = _short(high - third)
        else:
            low = _short(low + third)
    return high


def _steepest(lifted: Lifted, alpha: Fraction) -> tuple[Fraction, ...]:
    """Return an epsilon at which the line is about highest; any would be sound."""
    low, high = _ZERO, Fraction(64)
    for _ in range(40):
        third = (high - low) / 3
        if lifted._line(low + third, alpha).lower >= lifted._line(high - third, alpha).lower:
            high = _short(high - third)
        else:
            low = _short(low + third)
    return (_ZERO, low)


def _short(value: Fraction) -> Fraction:
    return Fraction(round(value * (1 << 40)), 1 << 40)
