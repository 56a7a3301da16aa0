"""Addition, multiplication and division of budgets.

They say what guarantees compose to, and into how many parts they divide.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TypeVar, cast

from dpverify.privacy.balls import shortened
from dpverify.privacy.guarantees.approximate import ApproxDP, PerfectPrivacy, PureDP
from dpverify.privacy.guarantees.base import Guarantee, group_size
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import ApproximateGaussianDP, GaussianDP
from dpverify.privacy.guarantees.noise import BoundedRange
from dpverify.privacy.guarantees.profile import Profile
from dpverify.privacy.numbers import render, whole

AnyGuarantee = TypeVar("AnyGuarantee", bound=Guarantee)


def added(guarantees: Iterable[Guarantee]) -> Guarantee | None:
    """Add up the parameters of guarantees of one kind, of adaptive stages; None for other kinds.

    Epsilons and deltas; rho; mu^2, delta and tv. None for guarantees of several kinds, too.
    Raises ValueError where the sums promise nothing.
    """
    kinds = [g for g in guarantees if not isinstance(g, PerfectPrivacy)]
    if all(isinstance(g, (PureDP, ApproxDP)) for g in kinds):
        return _basic(kinds)
    if all(isinstance(g, ZeroConcentratedDP) for g in kinds):
        rho = sum((g.rho for g in kinds if isinstance(g, ZeroConcentratedDP)), Fraction(0))
        return ZeroConcentratedDP(shortened(rho))
    if all(isinstance(g, (GaussianDP, ApproximateGaussianDP)) for g in kinds):
        return _gaussian(kinds)
    return None


def composed(one: Guarantee, other: Guarantee) -> Guarantee:
    """Compose two guarantees, where the second release is chosen after the first.

    The result has parameters that add up, or is a Profile.
    """
    for given in (one, other):
        if not isinstance(given, Guarantee):
            raise TypeError(f"{given!r} is not a guarantee; write ApproxDP(1, '1e-6').")
    if isinstance(other, PerfectPrivacy):
        return one
    if isinstance(one, PerfectPrivacy) and not isinstance(other, BoundedRange):
        return other  # intervals differ where coins choose the range
    return added([one, other]) or Profile([one, other])


def multiplied(guarantee: Guarantee, times: object) -> Guarantee:
    """Compose so many releases of one guarantee."""
    count = _count(times, "times")
    if count == 1 or isinstance(guarantee, PerfectPrivacy):
        return guarantee
    return _scaled(guarantee, Fraction(count)) or Profile([(guarantee, count)])


def divided(guarantee: AnyGuarantee, parts: object) -> AnyGuarantee:
    """Return the guarantee so many of which compose to this one.

    Raises ValueError where parameters do not add up.
    """
    count = _count(parts, "parts")
    if count == 1 or isinstance(guarantee, PerfectPrivacy):
        return guarantee
    share = _scaled(guarantee, Fraction(1, count))
    if share is None:
        raise ValueError(
            f"{guarantee} has no part 1 / {count}: its kind does not add up under composition. "
            "Divide a budget of PureDP, ApproxDP, ZeroConcentratedDP or GaussianDP."
        )
    return cast(AnyGuarantee, share)


def _count(given: object, name: str) -> int:
    """Read a number of releases, at least 1."""
    try:
        return group_size(whole(given, name))
    except TypeError:
        raise TypeError(
            f"{name} = {given!r}: a budget is multiplied and divided by a whole number of "
            "releases; for a third write budget / 3, for two thirds 2 * budget / 3."
        ) from None
    except ValueError:
        raise ValueError(f"{name} = {given}; give a number of releases, at least 1.") from None


def _scaled(guarantee: Guarantee, factor: Fraction) -> Guarantee | None:
    """Multiply the parameters that add up; None for a kind that has none."""
    if isinstance(guarantee, PureDP):
        return PureDP(factor * guarantee.epsilon)
    if isinstance(guarantee, ZeroConcentratedDP):
        return ZeroConcentratedDP(factor * guarantee.rho)
    if isinstance(guarantee, GaussianDP):
        return GaussianDP.of_square(factor * guarantee.mu_squared)
    if isinstance(guarantee, ApproxDP):
        _refuse_nothing(factor * guarantee.delta, Fraction(0))
        return ApproxDP(factor * guarantee.epsilon, factor * guarantee.delta)
    if isinstance(guarantee, ApproximateGaussianDP):
        delta, tv = factor * guarantee.delta, factor * guarantee.tv
        _refuse_nothing(delta, tv)
        return ApproximateGaussianDP.of_square(factor * guarantee.mu_squared, delta, tv)
    return None


def _basic(guarantees: list[Guarantee]) -> Guarantee:
    epsilon, delta = Fraction(0), Fraction(0)
    for guarantee in guarantees:
        if isinstance(guarantee, (PureDP, ApproxDP)):
            epsilon, delta = epsilon + guarantee.epsilon, delta + guarantee.delta
    if epsilon == 0:
        return PerfectPrivacy()
    epsilon, delta = shortened(epsilon), shortened(delta)
    _refuse_nothing(delta, Fraction(0))
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _gaussian(guarantees: list[Guarantee]) -> Guarantee:
    square = delta = tv = Fraction(0)
    for guarantee in guarantees:
        part = guarantee.gaussian
        assert part is not None
        square, delta, tv = square + part.mu_squared, delta + part.delta, tv + part.tv
    square, delta, tv = shortened(square), shortened(delta), shortened(tv)
    _refuse_nothing(delta, tv)
    if delta or tv:
        return ApproximateGaussianDP.of_square(square, delta, tv)
    return GaussianDP.of_square(square)


def _refuse_nothing(delta: Fraction, tv: Fraction) -> None:
    if max(delta, tv) >= 1:
        changes = f", the changes of the law to {render(tv)}" if tv else ""
        raise ValueError(
            f"the deltas add up to {render(delta)}{changes}: together they promise nothing."
        )
