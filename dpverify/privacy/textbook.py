"""Costs of the stages of a derivation under several accountings, side by side.

For reading: the rows show what exact accounting buys. Every row is a valid epsilon at the same
delta, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy.balls import ball, enclose, shortened
from dpverify.privacy.derivation import AnyDerivation, Derivation, PrivacyClaim
from dpverify.privacy.guarantees import (
    ApproxDP,
    Guarantee,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import adaptive_compose, advanced_compose, convert

DELTA = Fraction(1, 10**6)
"""The delta at which the rows compare, when the claim itself has none."""
_TRANSPARENT = ("adaptive composition", "post-processing", "conversion")


@dataclass(frozen=True, slots=True)
class Cost:
    """An accounting, and the epsilon it gives at ``delta``; None where it does not apply."""

    accounting: str
    delta: Fraction
    epsilon: Fraction | None


def stages_of(derivation: AnyDerivation) -> tuple[Derivation[PrivacyClaim], ...]:
    """Return the claims that composition, post-processing and conversion put together, in order.

    A claim that another rule made (a group, a rare event, a lift) is one stage.
    """
    claims = [p for p in derivation.premises if isinstance(p.conclusion, PrivacyClaim)]
    if derivation.rule.startswith(_TRANSPARENT) and claims:
        return tuple(stage for premise in claims for stage in stages_of(premise))
    return (derivation,) if isinstance(derivation.conclusion, PrivacyClaim) else ()


def costs(derivation: Derivation[PrivacyClaim], delta: Fraction = DELTA) -> tuple[Cost, ...]:
    """Return the stages' total under each accounting, the finest first."""
    stages = stages_of(derivation)
    guarantees = [stage.conclusion.guarantee for stage in stages]
    rows: tuple[tuple[str, Callable[[], Fraction]], ...] = (
        ("privacy loss distributions", lambda: _by_profiles(guarantees, delta)),
        ("the rules used here", lambda: _used(stages, delta)),
        ("zCDP, best order", lambda: _by_concentration(guarantees, delta)),
        ("zCDP, rho + 2 sqrt(rho ln 1/delta)", lambda: _by_formula(guarantees, delta)),
        ("advanced composition", lambda: _advanced(stages, delta)),
        ("epsilons and deltas added", lambda: _added(guarantees, delta)),
    )
    accounts = []
    for name, compute in rows:
        try:
            accounts.append(Cost(name, delta, compute()))
        except (ValueError, TypeError):  # this accounting does not cover these stages
            accounts.append(Cost(name, delta, None))
    return tuple(accounts)


def numbers(node: AnyDerivation, delta: Fraction = DELTA) -> str:
    """Return the claim at a node in numbers, as one line for people; empty for other statements."""
    if not isinstance(node.conclusion, PrivacyClaim):
        return ""
    return _in_numbers(node.conclusion.guarantee, delta)


@lru_cache(maxsize=256)
def _in_numbers(guarantee: Guarantee, delta: Fraction) -> str:
    parts = [f"total variation <= {float(guarantee.delta_at(0).upper):.4g}"]
    if guarantee.concentrated:
        parts.append(f"rho <= {float(guarantee.concentrated):.4g}")
    if guarantee.delta_floor < delta:
        epsilon = _epsilon(guarantee, delta)
        parts.insert(0, f"epsilon <= {float(epsilon):.6g} at delta {render(delta)}")
    return "; ".join(parts)


@lru_cache(maxsize=256)
def _epsilon(guarantee: Guarantee, delta: Fraction) -> Fraction:
    """Return an upper bound of epsilon; equal stages, and equal rows of several mechanisms, are
    searched once.
    """
    return guarantee.epsilon_at(delta).upper


def _used(stages: Sequence[Derivation[PrivacyClaim]], delta: Fraction) -> Fraction:
    return _epsilon(adaptive_compose(stages).conclusion.guarantee, delta)


def _by_profiles(guarantees: Sequence[Guarantee], delta: Fraction) -> Fraction:
    return _epsilon(Profile(guarantees), delta)


def _rho(guarantees: Sequence[Guarantee]) -> Fraction:
    rhos = [guarantee.concentrated for guarantee in guarantees]
    if None in rhos or not sum(rho for rho in rhos if rho):
        raise ValueError("no zCDP parameter")
    return sum((rho for rho in rhos if rho is not None), Fraction(0))


def _by_concentration(guarantees: Sequence[Guarantee], delta: Fraction) -> Fraction:
    return _epsilon(ZeroConcentratedDP(shortened(_rho(guarantees))), delta)


def _by_formula(guarantees: Sequence[Guarantee], delta: Fraction) -> Fraction:
    rho = _rho(guarantees)

    def formula() -> arb:
        return ball(rho) + 2 * (ball(rho) * ball(1 / delta).log()).sqrt()

    return enclose(formula).upper


def _share(stage: Derivation[PrivacyClaim], delta: Fraction) -> Derivation[PrivacyClaim]:
    """Return the stage as (epsilon, delta)-DP: with its own delta, or at the given one."""
    guarantee = stage.conclusion.guarantee
    if isinstance(guarantee, (PureDP, ApproxDP, PerfectPrivacy)):
        return stage
    if guarantee.largest_loss is not None:
        return convert(stage, PureDP(guarantee.largest_loss))
    return convert(stage, ApproxDP(_epsilon(guarantee, delta), delta))


def _advanced(stages: Sequence[Derivation[PrivacyClaim]], delta: Fraction) -> Fraction:
    noisy = [s for s in stages if not isinstance(s.conclusion.guarantee, PerfectPrivacy)]
    parts = [_share(stage, delta / (2 * len(noisy))) for stage in noisy]
    return advanced_compose(parts, slack=delta / 2).conclusion.guarantee.epsilon_at(delta).upper


def _added(guarantees: Sequence[Guarantee], delta: Fraction) -> Fraction:
    own = [g.delta for g in guarantees if isinstance(g, ApproxDP)]
    needy = [
        g
        for g in guarantees
        if not isinstance(g, (PureDP, ApproxDP, PerfectPrivacy)) and g.largest_loss is None
    ]
    left = delta - sum(own)
    if left < 0 or (needy and left == 0):
        raise ValueError("the deltas alone are larger")
    total = Fraction(0)
    for guarantee in guarantees:
        if isinstance(guarantee, (PureDP, ApproxDP)):
            total += guarantee.epsilon
        elif guarantee.largest_loss is not None:
            total += guarantee.largest_loss
        else:
            total += _epsilon(guarantee, left / len(needy))
    return total
