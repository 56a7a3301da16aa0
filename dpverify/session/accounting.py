"""Units in which an account adds up what requests cost: mu^2 and delta, or epsilon and delta.

Requests are chosen after seeing answers, so an account is a privacy filter
(``rules.privacy_filter``): both sums have a limit that is fixed before the first answer, and what
would exceed one is refused.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
)
from dpverify.privacy.guarantees.curves import gaussian_share
from dpverify.privacy.numbers import Exact, approximately, exact, render, to_float

Unit = Literal["gaussian", "epsilon"]
_TENTH = Fraction(1, 10)
_SHORT = 12  # characters of a decimal that somebody may have written


class Cost(NamedTuple):
    """Amounts that add up: mu^2 or epsilon (``amount``), and the additive delta beside it."""

    amount: Fraction
    delta: Fraction

    def less(self, other: Cost) -> Cost:
        """Subtract both amounts, exactly."""
        return Cost(self.amount - other.amount, self.delta - other.delta)

    def within(self, limit: Cost) -> bool:
        """Tell whether neither amount exceeds the limit's."""
        return self.amount <= limit.amount and self.delta <= limit.delta


class Accounting(ABC):
    """A family of guarantees whose two parameters add up under adaptive composition."""

    unit: Unit
    symbol: str

    @abstractmethod
    def limit_of(self, budget: Guarantee, additive_delta: Fraction | None) -> Cost:
        """Compute the limits of both sums that together imply the budget; ValueError if there are
        none."""

    @abstractmethod
    def cost_of(self, guarantee: Guarantee) -> Cost:
        """Compute the cost of a guarantee in this unit; ValueError if it has none."""

    @abstractmethod
    def guarantee_of(self, cost: Cost) -> Guarantee:
        """Return the guarantee that costs this much."""

    def show(self, cost: Cost) -> str:
        """Write a cost for people: both amounts, to six digits."""
        return (
            f"{self.symbol} = {approximately(cost.amount)} and delta = {approximately(cost.delta)}"
        )


class Gaussian(Accounting):
    """Sums of mu^2 and of additive delta: approximate Gaussian differential privacy."""

    unit = "gaussian"
    symbol = "mu^2"

    def limit_of(self, budget: Guarantee, additive_delta: Fraction | None) -> Cost:
        """Split an (epsilon, delta) budget between the Gaussian curve and the additive part;
        other budgets need no split.

        The additive part of ApproxDP(epsilon, delta) is a tenth of delta, unless it is given, and
        mu is the largest for which both together imply the budget.
        """
        if isinstance(budget, ZeroConcentratedDP) and not additive_delta:
            return Cost(2 * budget.rho, Fraction(0))
        own = budget.gaussian
        if isinstance(budget, (GaussianDP, ApproximateGaussianDP)) and own is not None:
            if additive_delta not in (None, own.delta):
                raise ValueError(
                    f"additive_delta = {additive_delta}, but the budget {budget} says itself how "
                    "much that is; leave it out."
                )
            return Cost(own.mu_squared, own.delta)
        if isinstance(budget, PureDP):
            raise ValueError(
                f"budget = {budget}: no sum of mu^2 is pure differential privacy. Write "
                "accounting='epsilon', or give an ApproxDP or GaussianDP budget."
            )
        delta = _TENTH * budget.delta_floor if additive_delta is None else additive_delta
        if not 0 <= delta <= budget.delta_floor:
            raise ValueError(
                f"additive_delta = {render(delta)} is outside [0, {render(budget.delta_floor)}], "
                f"where {budget} has its delta; a tenth of that is usual."
            )
        if not budget.delta_floor:
            raise ValueError(
                f"budget = {budget} does not say how answers use it up; give an ApproxDP, PureDP, "
                "GaussianDP or ZeroConcentratedDP budget."
            )
        return Cost(_largest_share(budget, delta), delta)

    def cost_of(self, guarantee: Guarantee) -> Cost:
        """Take mu^2 of about the least Gaussian curve above the guarantee, beside its own delta."""
        delta = guarantee.delta_floor
        try:
            return Cost(gaussian_share(guarantee, delta), delta)
        except ValueError:
            raise ValueError(
                f"{guarantee} lies below no Gaussian curve that is known; convert(...) its claim "
                "to an ApproximateGaussianDP, with some additive delta, and spend that."
            ) from None

    def guarantee_of(self, cost: Cost) -> Guarantee:
        """Return approximate GDP of these parameters, or GDP without a delta."""
        return _gaussian(*cost) if cost.amount else _event(cost.delta)


class Epsilon(Accounting):
    """Sums of epsilon and of delta: pure and approximate differential privacy."""

    unit = "epsilon"
    symbol = "epsilon"

    def limit_of(self, budget: Guarantee, additive_delta: Fraction | None) -> Cost:
        """Take the epsilon and the delta of the budget."""
        if not isinstance(budget, (PureDP, ApproxDP)) or additive_delta not in (None, budget.delta):
            raise ValueError(
                f"accounting='epsilon' adds up epsilon and delta, and budget = {budget}, "
                f"additive_delta = {additive_delta}; give PureDP(1) or ApproxDP(1, '1e-6') and no "
                "additive_delta."
            )
        return Cost(budget.epsilon, budget.delta)

    def cost_of(self, guarantee: Guarantee) -> Cost:
        """Take the guarantee's epsilon and delta."""
        if isinstance(guarantee, ApproxDP):
            return Cost(guarantee.epsilon, guarantee.delta)
        if guarantee.largest_loss is None:
            raise ValueError(
                f"{guarantee} is not an (epsilon, delta) guarantee; convert(...) its claim to one, "
                "and spend that."
            )
        return Cost(guarantee.largest_loss, Fraction(0))

    def guarantee_of(self, cost: Cost) -> Guarantee:
        """Return (epsilon, delta)-DP of these parameters, or pure DP without a delta."""
        if not cost.amount:
            return _event(cost.delta)
        return ApproxDP(*cost) if cost.delta else PureDP(cost.amount)


@lru_cache(maxsize=256)
def _largest_share(budget: Guarantee, delta: Fraction) -> Fraction:
    """Find the largest mu^2 that implies the budget together with an additive delta."""
    return calibrate(lambda mu: ApproximateGaussianDP(mu, delta), budget).gaussian.mu_squared


def _gaussian(mu_squared: Fraction, delta: Fraction) -> Guarantee:
    if delta:
        return ApproximateGaussianDP.of_square(mu_squared, delta)
    return GaussianDP.of_square(mu_squared)


def _event(delta: Fraction) -> Guarantee:
    """Return the guarantee of perfect privacy except for an event of this probability."""
    return Profile([], delta) if delta else PerfectPrivacy()


_ALL: dict[Unit, Accounting] = {one.unit: one for one in (Gaussian(), Epsilon())}


def accounting_for(budget: Guarantee, named: Unit | None) -> Accounting:
    """Choose the unit: the named one, else epsilon for pure budgets and Gaussian for all others."""
    if not isinstance(budget, Guarantee):
        raise TypeError(f"budget = {budget!r} is not a guarantee; write ApproxDP(1, '1e-6').")
    unit = named or ("epsilon" if isinstance(budget, PureDP) else "gaussian")
    if unit not in _ALL:
        raise ValueError(f"accounting = {named!r}; write 'gaussian' or 'epsilon', or leave it out.")
    return _ALL[unit]


TINY = Fraction(1, 10**9)
"""A share of the budget that is next to nothing."""
_FRACTION = re.compile(r"\d+/\d{9,}")


def part_text(share: Fraction, *, up: bool = False) -> str:
    """Write a share for people: exactly where that is short, else three digits, rounded down so
    that what is left suffices for it, or rounded up.
    """
    if share < TINY:
        return "less than 1e-9" if share else "nothing"
    if share.denominator <= 1000:
        return str(share)
    unit = Fraction(10) ** (math.floor(math.log10(share)) - 2)
    return f"{float((math.ceil(share / unit) if up else share // unit) * unit):.12g}"


def part_of(share: Fraction, of: str, *, up: bool = False) -> str:
    """Write a share of something for people, see ``part_text``: all of it, or more than once."""
    if share == 1:
        return f"all of {of}"
    return f"{part_text(share, up=up)}{' times' if share > 1 else ' of'} {of}"


def as_decimals(*guarantees: Guarantee) -> str:
    """Return a sentence about the first number of these guarantees that was a float near a short
    decimal, or nothing where there is none.
    """
    numbers = [Fraction(text) for one in guarantees for text in _FRACTION.findall(str(one))]
    decimal = next(filter(None, map(_decimal, numbers)), None)
    if decimal is None:
        return ""
    return (
        f" ({decimal} was given as a float: in a guarantee that is its exact binary value, a "
        f"little beside the decimal. Write it as a text, '{decimal}'.)"
    )


def _decimal(value: Fraction) -> str | None:
    """Return the short decimal that a float was written as, None for all other numbers."""
    nearest = to_float(value)
    if not math.isfinite(nearest) or Fraction(nearest) != value:
        return None
    decimal = render(Fraction(repr(nearest)))
    return decimal if len(decimal) <= _SHORT else None


def share_of(limit: Cost, share: Exact, of_delta: Exact) -> Cost:
    """Take a share of the limits: of the amount, and of the delta beside it. Raises ValueError
    outside (0, 1]."""
    part, rest = exact(share, "share"), exact(of_delta, "of_delta")
    if not 0 < part <= 1 or not 0 <= rest <= 1:
        raise ValueError(
            f"share = {share}, of_delta = {of_delta}: the first lies in (0, 1], the second in [0, "
            "1]; write '1/3'."
        )
    return Cost(part * limit.amount, rest * limit.delta)
