"""The lift of noisy numbers of friends: the rule against the spec's numbers, and what it
refuses."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import privacy as dp
from dpverify.privacy import Adjacency, Domain, Norm, Status, rules
from dpverify.privacy.adjacency import Friendly, Groups
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.hypotheses import Absent, Quantity, Seen
from spec.theory import rules as spec_rules

from .makers import COLUMN, fractions, lemma
from .noise_laws import OVERFLOW, event

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR: Any = Friendly("distance at most 1")
EXCHANGED: Any = Friendly("distance at most 1", exchange=True)
SOURCE = dp.Source("OURS", "a test's premise")
MU = Fraction(1, 2)


def few(sigma: Any = 10, **scores: Any) -> Absent:
    about = Quantity.of("noisy scores", "NoisyScores", sigma=Fraction(sigma), **scores)
    return Absent("a record is kept that has too few friends", Seen.LATENT, about)


FEW = few()


def friendly(guarantee: dp.Guarantee | None = None, about: Any = NEAR, domain: Any = COLUMN) -> Any:
    promised = ApproximateGaussianDP(MU, "1e-6", 0) if guarantee is None else guarantee
    return rules.conjecture(promised, adjacency=about, domain=domain)


def moved(value: Any, adjacency: Any = ADD_REMOVE, **changes: Any) -> Any:
    keeps = EXCHANGED if adjacency is REPLACE else NEAR
    kept = {"norm": Norm.SQUARED_L2, "adjacency": adjacency, "keeps": keeps, "hypotheses": (FEW,)}
    kept.update(changes)
    return lemma(value, query="the scores", **kept)


def missed(
    probability: Any = "1e-7",
    adjacency: Any = ADD_REMOVE,
    domain: Any = COLUMN,
    absent: Absent = FEW,
) -> Any:
    return rules.event_lemma(
        absent,
        probability=probability,
        adjacency=adjacency,
        domain=domain,
        obligation="gaussian_filter.py:obligation_missed",
        source=SOURCE,
    )


def lifted(
    inside: Any = 4, outside: Any = 9, sigma: Any = 10, budget: Any = 1, **parts: Any
) -> Any:
    adjacency = parts.pop("adjacency", ADD_REMOVE)
    inner = parts.pop("inner", friendly(about=EXCHANGED if adjacency is REPLACE else NEAR))
    absent = few(sigma)
    rare = parts.pop("event", missed(adjacency=adjacency, absent=absent))
    under = {"hypotheses": (absent,)}
    return rules.noisy_degree_lift(
        inner,
        inside if not isinstance(inside, (int, Fraction)) else moved(inside, adjacency, **under),
        outside if not isinstance(outside, (int, Fraction)) else moved(outside, adjacency, **under),
        rare,
        budget=budget,
    )


numbers = fractions("1/100", 100)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(numbers, numbers, numbers, numbers, st.sampled_from(Adjacency), fractions(0, "1/1000"))
def test_what_is_spent_is_the_spec_s_number(
    inside: Fraction,
    outside: Fraction,
    sigma: Fraction,
    mu_squared: Fraction,
    adjacency: Adjacency,
    delta: Fraction,
) -> None:
    """The least budget that the rule takes, and the claim at it; any smaller one is refused."""
    part = (mu_squared, delta)
    spent, total = spec_rules.noisy_degree_lift(part, inside, outside, sigma, Fraction("1e-7"))
    inner = friendly(
        ApproximateGaussianDP.of_square(mu_squared, delta, 0),
        EXCHANGED if adjacency is REPLACE else NEAR,
    )
    claim = lifted(inside, outside, sigma, spent, inner=inner, adjacency=adjacency).conclusion
    assert claim.guarantee == ApproximateGaussianDP.of_square(spent, total)
    assert claim.adjacency is adjacency
    assert claim.domain == COLUMN
    smaller = spent * (1 - Fraction(1, 10**30))
    with pytest.raises(ValueError, match="more than the budget"):
        lifted(inside, outside, sigma, smaller, inner=inner, adjacency=adjacency)


def test_the_budget_is_what_is_claimed_though_less_is_spent() -> None:
    """Claim the budget, so that a plan's claim is one number, whatever the noisy number of rows."""
    assert lifted(budget=7).conclusion.guarantee.mu_squared == 7
    assert lifted(budget=7).conclusion.guarantee.delta == Fraction("1e-6") + Fraction("1e-7")


@pytest.mark.parametrize(
    "guarantee", [dp.PureDP("0.3"), dp.ApproxDP("0.3", "1e-9"), dp.GaussianDP(MU)]
)
def test_whatever_is_gaussian_may_come_behind_it(guarantee: dp.Guarantee) -> None:
    part = guarantee.gaussian
    assert part is not None
    conclusion = lifted(inner=friendly(guarantee)).conclusion.guarantee
    assert conclusion.delta == part.delta + Fraction("1e-7")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": "0.28"}, "mu^2 = 0.29 is more than the budget of 0.28"),
        ({"outside": 200}, "mu^2 = 2 is more than the budget of 1"),
        ({"inner": rules.conjecture(dp.GaussianDP(1), adjacency=ADD_REMOVE, domain=COLUMN)},
         "needs a claim for friendly neighbors"),
        ({"inner": friendly(dp.ZeroConcentratedDP(1))}, "zcdp(1) is no Gaussian guarantee"),
        ({"inner": friendly(ApproximateGaussianDP(MU, 0, "1e-9"))}, "is no Gaussian guarantee"),
        ({"inner": friendly(domain=Domain(2))}, "of 2 columns"),
        ({"inside": lemma(4)}, "needs a sensitivity in squared L2 distance"),
        ({"outside": lemma(4)}, "needs a sensitivity in squared L2 distance"),
        ({"outside": moved(9, REPLACE)}, "do not compose"),
        ({"event": missed(adjacency=REPLACE)}, "do not compose"),
        ({"event": missed(domain=Domain(2))}, "do not compose"),
        ({"inside": moved(4, NEAR), "outside": moved(9, NEAR), "event": missed(adjacency=NEAR)},
         "prove it for inputs"),
        ({"inside": moved(4, Groups(REPLACE, 2)), "outside": moved(9, Groups(REPLACE, 2)),
          "event": missed(adjacency=Groups(REPLACE, 2))}, "prove it for inputs"),
        ({"adjacency": REPLACE, "inner": friendly()}, "prove both for the same neighbors"),
        ({"adjacency": REPLACE, "inner": friendly(),
          "inside": moved(4, REPLACE, keeps=NEAR)}, "a record may be exchanged"),
        ({"inner": friendly(about=Friendly("distance at most 1", strangers=3))},
         "prove both for the same neighbors"),
        ({"inside": moved(4, keeps=Friendly("kin"))}, "prove both for the same neighbors"),
        ({"inside": moved(4, keeps=None)}, "what the filter keeps is not said to be friendly"),
        ({"inside": moved(4, hypotheses=())}, "give the bound of that one"),
        ({"event": event("1e-7")}, "give the bound of that one"),
        ({"inner": rules.conjecture(dp.GaussianDP(1), adjacency=NEAR, domain=COLUMN,
          hypotheses=(OVERFLOW,))}, "needs a statement without hypotheses"),
        ({"event": missed(absent=few(9))}, "give the bound of that one"),
        ({"event": missed(absent=few(records=40)),
            "inside": moved(4, hypotheses=(few(records=40),))},
         "give statements about the same scores"),
        ({"event": missed("0.9999995")}, "delta"),
    ],
)  # fmt: skip
def test_what_the_lift_is_not_about_is_refused(changes: dict[str, Any], message: str) -> None:
    assert lifted().conclusion.status is Status.CONJECTURED  # without the change it is accepted
    with pytest.raises(ValueError, match=re.escape(message)):
        lifted(**changes)


def test_the_conclusion_is_as_weak_as_its_premises_and_names_all_of_them() -> None:
    proved = rules.rounded_gaussian(moved(1, NEAR, hypotheses=()), 4)
    for inner, status in (
        (proved, Status.PROVED),
        (rules.refuted(proved, "a pair"), Status.REFUTED),
    ):
        derivation = lifted(inner=inner)
        assert derivation.status is derivation.conclusion.status is status
        assert not derivation.conclusion.hypotheses
        assert [premise.rule for premise in derivation.premises[1:]] == ["lemma"] * 3
    assert "gaussian_filter.py:obligation_missed" in {leaf.obligation for leaf in derivation.lemmas}
