"""Derivations to test with: small, named, and made by the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from hypothesis import strategies as st

from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    Derivation,
    Domain,
    Guarantee,
    Norm,
    PerfectPrivacy,
    PrivacyClaim,
    PureDP,
    Sensitivity,
    Source,
    rules,
)
from dpverify.privacy.adjacency import AnyAdjacency, Friendly
from dpverify.privacy.hypotheses import Hypothesis, Quantity
from dpverify.privacy.numbers import Exact

COLUMN = Domain(columns=1)
NEAR = Friendly("distance at most 1")
OBLIGATION = "theory/queries.py:obligation_count"


_KEPT: dict[Norm, Friendly | Adjacency] = {Norm.KEEP: NEAR, Norm.COUPLED: Adjacency.REPLACE}


_PARTS = 720_720**2  # whose divisors are the denominators of simple fractions


def fractions(
    least: Fraction | str | int, most: Fraction | str | int
) -> st.SearchStrategy[Fraction]:
    """Draw fractions of an interval, its ends and simple ones among them, from one integer each.

    Hypothesis's strategy of this name draws several and takes three times as long as many tests.
    """
    low, high = Fraction(least), Fraction(most)
    return st.integers(0, _PARTS).map(lambda place: low + (high - low) * Fraction(place, _PARTS))


def lemma(
    value: Exact = 1,
    *,
    query: str = "the count",
    norm: Norm = Norm.L1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    domain: Domain = COLUMN,
    obligation: str = OBLIGATION,
    keeps: Friendly | Adjacency | None = None,
    shift: int | None = None,
    hypotheses: Iterable[Hypothesis] = (),
) -> Derivation[Sensitivity]:
    """Return a sensitivity with everything but what matters filled in."""
    return rules.sensitivity_lemma(
        Quantity.of(query, "Tested", **({} if shift is None else {"shift": shift})),
        norm=norm,
        value=value,
        adjacency=adjacency,
        domain=domain,
        obligation=obligation,
        source=Source("OURS", "a test's premise"),
        keeps=_KEPT.get(norm) if keeps is None else keeps,
        hypotheses=hypotheses,
    )


def proved(
    epsilon: Exact = 1,
    *,
    delta: Exact = 0,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    domain: Domain = COLUMN,
) -> Derivation[PrivacyClaim]:
    """Return a proved claim of exactly this guarantee."""
    premise = lemma(epsilon, adjacency=adjacency, domain=domain)
    shown = rules.discrete_laplace(premise, Fraction(1))
    return rules.convert(shown, ApproxDP(epsilon, delta)) if delta else shown


def conjectured(
    guarantee: Guarantee | None = None,
    *,
    adjacency: AnyAdjacency = Adjacency.ADD_REMOVE,
    domain: Domain = COLUMN,
    hypotheses: Iterable[Hypothesis] = (),
) -> Derivation[PrivacyClaim]:
    """Return a claim on somebody's word; any guarantee can be had this way."""
    promised = guarantee if guarantee is not None else PureDP(1)
    return rules.conjecture(promised, adjacency=adjacency, domain=domain, hypotheses=hypotheses)


def guarantee_of(epsilon: Fraction, delta: Fraction) -> Guarantee:
    """Return the plainest guarantee with these parameters."""
    if epsilon == 0 and delta == 0:
        return PerfectPrivacy()
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def numbers_of(guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """Return the parameters of a guarantee; zeros for perfect privacy."""
    if isinstance(guarantee, (PureDP, ApproxDP)):
        return guarantee.epsilon, guarantee.delta
    return Fraction(0), Fraction(0)
