"""Guarantees of compositions of different guarantees, through privacy loss distributions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy import numerics
from dpverify.privacy.balls import Enclosure, ball, enclose, hull
from dpverify.privacy.guarantees.base import (
    FAR,
    GaussianPart,
    Guarantee,
    group_size,
    probability,
    profile_argument,
    tradeoff_argument,
)
from dpverify.privacy.guarantees.gaussian import ApproximateGaussianDP, GaussianDP
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.guarantees.lifted import Lifted
from dpverify.privacy.guarantees.parts import (
    Parts,
    collect,
    merged,
    total_of,
)
from dpverify.privacy.numbers import Exact, exact, render, settle, whole
from dpverify.privacy.sources import Source, states

_FAR_FOR_TV = Fraction(1 << 14)  # e^-16384 is less than any tv of at most 4000 digits
_ZERO, _ONE = Fraction(0), Fraction(1)


@states(
    Source("DRV10", "privacy loss"),
    Source("SMM19", "composition by convolving privacy loss distributions"),
    Source("ZDW22", "dominating pairs compose adaptively"),
    Source("DGKKM22", "Section 3, connecting the dots", note="and a lower bound of the same order"),
)
@dataclass(frozen=True, slots=True, init=False)
class Profile(Guarantee):
    """A guarantee that all of ``parts`` hold together, adaptively.

    They hold up to an event of probability ``delta`` and a change of the law by ``tv``
    (as in ApproximateGaussianDP).

    parts: guarantees with how often each occurs, in a canonical order. Gaussian parts and
    concentrated parts are merged (their parameters add up); the rest is composed through
    privacy losses, bounded from both sides: from above for every mechanism with these
    guarantees, from below by mechanisms with these guarantees (for zCDP Gaussian noise, for a
    bounded range randomized response of half the length; there the two sides stay apart).
    """

    parts: Parts
    delta: Fraction
    tv: Fraction

    def __init__(
        self,
        parts: Iterable[Guarantee | tuple[Guarantee, int]],
        delta: Exact = 0,
        tv: Exact = 0,
    ) -> None:
        if not isinstance(parts, Iterable):
            raise TypeError(f"parts = {parts!r:.80}; give a list of guarantees, [PureDP(1)].")
        counts: dict[Guarantee, int] = {}
        extra = [probability(delta, "delta"), probability(tv, "tv")]
        for given in parts:
            part, times = given if isinstance(given, tuple) else (given, 1)
            count = group_size(whole(times, "times"))
            if isinstance(part, Profile):
                extra = [extra[0] + count * part.delta, extra[1] + count * part.tv]
                for inner, n in part.parts:
                    counts[inner] = counts.get(inner, 0) + n * count
            else:
                collect(part, count, counts, extra)
        if max(extra) >= 1:
            raise ValueError(
                f"the deltas add up to {render(extra[0])}, the changes of the law to "
                f"{render(extra[1])}: together they promise nothing."
            )
        ordered = sorted(merged(counts).items(), key=lambda item: str(item[0]))
        settle(self, parts=tuple(ordered))
        settle(self, delta=extra[0])
        settle(self, tv=extra[1])

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Return delta(epsilon) of the parts + delta + (1 + e^epsilon) tv, at most 1."""
        at = profile_argument(epsilon)
        if self._closed is not None:
            return self._closed.delta_at(at)
        delta = self.with_events(at)
        if self.tv:  # a smaller epsilon may do better, and what holds there holds here
            turn = _turning_point(self)
            delta = min(delta, self.with_events(min(turn, at)), key=lambda e: e.upper)
        return Enclosure(min(delta.lower, _ONE), min(delta.upper, _ONE))

    def at_most(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the profile is at most ``delta``; without a tv, from coarse bounds first.

        Mostly the coarse bounds decide, either way.
        """
        if self.tv or self._single:
            return self.delta_at(epsilon).upper <= delta
        return delta >= self.delta and numerics.is_at_most(self.parts, epsilon, delta - self.delta)

    def rough_delta(self, epsilon: Fraction) -> Fraction:
        """Return the profile from coarse tables, for searches that prove nothing."""
        return self.with_events(epsilon, rough=True).upper

    def with_events(self, at: Fraction, *, rough: bool = False) -> Enclosure:
        """Return the sum at this very epsilon, which need not be the least one."""
        if self.tv and at >= _FAR_FOR_TV:
            return Enclosure(_ONE, _ONE)
        of_parts = numerics.delta(self.parts, at, rough=rough)
        factor = enclose(lambda: 1 + ball(at).exp()) if self.tv else Enclosure(_ZERO, _ZERO)
        return Enclosure(
            of_parts.lower + self.delta + factor.lower * self.tv,
            of_parts.upper + self.delta + factor.upper * self.tv,
        )

    @property
    def _closed(self) -> Guarantee | None:
        """The same guarantee in closed form, if there is one."""
        if not self._single:
            return None
        part = self.parts[0][0]
        if isinstance(part, GaussianDP):
            return ApproximateGaussianDP.of_square(part.mu_squared, self.delta, self.tv)
        return None if self.delta or self.tv else part

    @property
    def _single(self) -> bool:
        return len(self.parts) == 1 and self.parts[0][1] == 1

    def epsilon_at(self, delta: Exact) -> Enclosure:
        """Return the least epsilon whose delta is at most ``delta``.

        Without a tv, it is that of the parts at the delta that is left for them.
        """
        goal = exact(delta, "delta") - self.delta
        epsilon = None
        if 0 < goal < 1 - self.delta and not (self.tv or self._single):
            epsilon = numerics.epsilon(self.parts, goal)
        return epsilon or Guarantee.epsilon_at(self, delta)

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """Return max(T(alpha + tv) - delta - tv, T(alpha + delta + tv) - tv, 0).

        T is the curve of the parts alone. A line of epsilon >= 0 is 1 - delta(epsilon) -
        delta - (1 + e^epsilon) tv - e^epsilon alpha: a line of T at alpha + tv, less delta +
        tv. A mirror image is that divided by e^epsilon, with e^epsilon and alpha exchanged: a
        line of T at alpha + delta + tv, less tv. The other lines at either place promise less.
        """
        at = tradeoff_argument(alpha)
        if self._closed is not None:
            return self._closed.tradeoff_at(at)
        first = self._curve(at + self.tv, self.delta + self.tv)
        if not self.delta:
            return first
        second = self._curve(at + self.delta + self.tv, self.tv)
        return Enclosure(max(first.lower, second.lower), max(first.upper, second.upper))

    def _curve(self, alpha: Fraction, less: Fraction) -> Enclosure:
        """Return the curve of the parts less the given amount, at least 0."""
        if alpha >= 1 or not self.parts:
            ends = (max(1 - alpha, _ZERO),) * 2
        elif not alpha:
            ends = (_ONE, _ONE)
        else:
            tradeoff = numerics.tradeoff(self.parts, alpha)
            ends = (tradeoff.lower, tradeoff.upper)
        return Enclosure(max(ends[0] - less, _ZERO), max(ends[1] - less, _ZERO))

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
        """Floor of the profile: delta; with tv, the least of the sum."""
        return self.delta_at(FAR).upper if self.tv else self.delta

    @property
    def concentrated(self) -> Fraction | None:
        """Implied rho of zCDP: the sum over the parts; None beside events."""
        return None if self.delta or self.tv else total_of(self.parts, "concentrated")

    @property
    def largest_loss(self) -> Fraction | None:
        """Largest privacy loss: the sum over the parts; None beside events."""
        return None if self.delta or self.tv else total_of(self.parts, "largest_loss")

    @property
    def gaussian(self) -> GaussianPart | None:
        """Gaussian part: the sum over the parts, if each has a Gaussian that is no more private."""
        total = _ZERO
        for part, times in self.parts:
            gaussian = part.gaussian
            if gaussian is None:
                return None
            total += times * gaussian.mu_squared
        return GaussianPart(total, self.delta, self.tv)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether each part shown implies one of these, and none of these is used twice."""
        if isinstance(shown, (Group, Lifted)):
            return False
        have = Profile([shown])
        if have.delta > self.delta or have.tv > self.tv:
            return False
        left = dict(self.parts)
        for part, times in have.parts:
            for mine in sorted(left, key=lambda g: (g != part, str(g))):
                used = min(times, left[mine]) if part.implies(mine) else 0
                left[mine] -= used
                times -= used
            if times:
                return False
        return True

    def __str__(self) -> str:
        terms = [f"{n} * {part}" if n > 1 else str(part) for part, n in self.parts]
        if self.delta or self.tv:
            terms.append(f"delta {render(self.delta)}")
        if self.tv:
            terms.append(f"tv {render(self.tv)}")
        return f"profile({', '.join(terms)})"


@lru_cache(maxsize=256)
def _turning_point(profile: Profile) -> Fraction:
    """Return an epsilon near which the sum with the tv term is least; any would be sound.

    The sum is convex in e^epsilon, so it falls and then rises.
    """

    def sum_at(epsilon: Fraction) -> Fraction:
        return profile.rough_delta(epsilon)

    high = Fraction(1)
    while sum_at(2 * high) < sum_at(high) and high < FAR:
        high *= 2
    low, high = _ZERO, 2 * high
    for _ in range(30):
        third = (high - low) / 3
        if sum_at(low + third) <= sum_at(high - third):
            high -= third
        else:
            low += third
    loss = total_of(profile.parts, "largest_loss")
    return min([low, high] if loss is None else [low, high, loss], key=sum_at)
