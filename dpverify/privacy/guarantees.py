"""What can be promised: guarantees with exact rational parameters.

A guarantee is a statement about a pair of laws P, Q of neighboring datasets, in both directions.
Its *privacy profile* delta(epsilon) is the largest value of sup_S P(S) - e^epsilon Q(S) that the
guarantee still allows. ``a.implies(b)`` says that every mechanism with guarantee a has b.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from dpverify.privacy.balls import Enclosure, ball, enclose
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.sources import Source, states

_ZERO = Enclosure(Fraction(0), Fraction(0))


class Guarantee(ABC):
    """A privacy guarantee; the subclasses are the whole list."""

    __slots__ = ()

    @abstractmethod
    def delta_at(self, epsilon: Exact) -> Enclosure:
        """The privacy profile at ``epsilon`` >= 0, enclosed."""

    @abstractmethod
    def __str__(self) -> str:
        """The ledger's spelling; ``parse_guarantee`` reads it back."""

    def implies(self, other: Guarantee) -> bool:
        """Whether every mechanism with this guarantee has ``other`` as well (never wrongly yes)."""
        if not isinstance(other, Guarantee):
            raise TypeError(f"{other!r} is not a guarantee; write PureDP(1).")
        if isinstance(other, (PureDP, ApproxDP)):
            return self.delta_at(other.epsilon).upper <= other.delta
        return isinstance(self, PerfectPrivacy)


@dataclass(frozen=True, slots=True)
class PerfectPrivacy(Guarantee):
    """The output has the same law on neighboring datasets: it reads public facts only."""

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Zero everywhere."""
        _profile_argument(epsilon)
        return _ZERO

    def __str__(self) -> str:
        return "perfect"


@states(Source("DMNS06", "Definition of epsilon-indistinguishability"))
@dataclass(frozen=True, slots=True, init=False)
class PureDP(Guarantee):
    """epsilon-differential privacy: P(S) <= e^epsilon Q(S) for every event S.

    Source: Dwork, McSherry, Nissim, Smith 2006.
    """

    epsilon: Fraction

    def __init__(self, epsilon: Exact) -> None:
        object.__setattr__(self, "epsilon", _positive_epsilon(epsilon))

    @property
    def delta(self) -> Fraction:
        """Zero: pure DP is approximate DP without a failure probability."""
        return Fraction(0)

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """(e^eps0 - e^epsilon) / (1 + e^eps0) below eps0, zero from eps0 on (tight)."""
        return _approximate_profile(self.epsilon, Fraction(0), _profile_argument(epsilon))

    def __str__(self) -> str:
        return f"pure({render(self.epsilon)})"


@states(Source("DKMMN06", "Definition of (epsilon, delta)-indistinguishability"))
@dataclass(frozen=True, slots=True, init=False)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy: P(S) <= e^epsilon Q(S) + delta for every event S.

    Source: Dwork, Kenthapadi, McSherry, Mironov, Naor 2006.
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Exact, delta: Exact) -> None:
        object.__setattr__(self, "epsilon", _positive_epsilon(epsilon))
        value = exact(delta, "delta")
        if not 0 <= value < 1:
            raise ValueError(
                f"delta = {delta} is outside [0, 1); give a small probability, say '1e-6'."
            )
        object.__setattr__(self, "delta", value)

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """delta + (1 - delta) (e^eps0 - e^epsilon) / (1 + e^eps0) below eps0, delta from eps0 on.

        Source: Kairouz, Oh, Viswanath 2015, Section 3 (the dominating pair of this guarantee).
        """
        return _approximate_profile(self.epsilon, self.delta, _profile_argument(epsilon))

    def __str__(self) -> str:
        return f"approx({render(self.epsilon)}, {render(self.delta)})"


def parse_guarantee(text: str) -> Guarantee:
    """Read the ledger's spelling, for example "approx(1, 1e-6)"; raises ValueError."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name = match[1] if match else ""
    arguments = [part.strip() for part in match[2].split(",")] if match and match[2] else []
    if name == "perfect" and not arguments:
        return PerfectPrivacy()
    if name == "pure" and len(arguments) == 1:
        return PureDP(arguments[0])
    if name == "approx" and len(arguments) == 2:
        return ApproxDP(arguments[0], arguments[1])
    raise ValueError(
        f"{text!r} is not a guarantee; write 'pure(1)', 'approx(1, 1e-6)' or 'perfect'."
    )


def _positive_epsilon(epsilon: Exact) -> Fraction:
    value = exact(epsilon, "epsilon")
    if value <= 0:
        raise ValueError(f"epsilon = {epsilon} is not positive; give a number above 0, say 1.")
    return value


def _profile_argument(epsilon: Exact) -> Fraction:
    value = exact(epsilon, "epsilon")
    if value < 0:
        raise ValueError(f"epsilon = {epsilon}; a privacy profile is asked for at epsilon >= 0.")
    return value


def _approximate_profile(claimed: Fraction, delta: Fraction, epsilon: Fraction) -> Enclosure:
    if epsilon >= claimed:
        return Enclosure(delta, delta)
    # expm1 keeps the relative precision when the two epsilons are close.
    share = enclose(lambda: -(ball(epsilon - claimed).expm1()) / (1 + ball(-claimed).exp()))
    return Enclosure(delta + (1 - delta) * share.lower, delta + (1 - delta) * share.upper)
