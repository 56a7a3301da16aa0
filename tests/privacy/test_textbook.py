"""Additions of `explain` to a derivation: numbers at its nodes, and coarser accountings to
compare."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpverify.privacy import ApproxDP, Derivation, GaussianDP, PrivacyClaim, Profile, PureDP, rules
from dpverify.privacy.textbook import costs, numbers, stages_of
from spec.theory import profiles as spec_profiles
from spec.theory import rules as spec_rules

from .makers import conjectured, lemma, proved

_MILLIONTH = Fraction(1, 10**6)


def _tenfold() -> Derivation[PrivacyClaim]:
    shown = rules.adaptive_compose([proved("0.3") for _ in range(10)])
    return rules.convert(rules.post_process(shown, "an average"), ApproxDP(3, _MILLIONTH))


def _epsilons(derivation: Derivation[PrivacyClaim]) -> dict[str, float | None]:
    return {
        cost.accounting: None if cost.epsilon is None else float(cost.epsilon)
        for cost in costs(derivation, _MILLIONTH)
    }


def test_the_stages_are_the_claims_that_rest_on_no_claim() -> None:
    stages = stages_of(_tenfold())
    assert [stage.conclusion.guarantee for stage in stages] == [PureDP("0.3")] * 10
    assert stages_of(lemma()) == ()
    assert stages_of(conjectured()) == (conjectured(),)


def test_every_row_is_the_number_of_its_accounting() -> None:
    epsilons = _epsilons(_tenfold())
    rho = Fraction(10 * 9, 200)
    exact = Profile([(PureDP("0.3"), 10)]).epsilon_at(_MILLIONTH)
    advanced, _ = spec_rules.advanced_composition(Fraction(3, 10), Fraction(0), 10, _MILLIONTH / 2)
    assert epsilons["privacy loss distributions"] == float(exact.upper)
    # basic composition as (3, 0)-DP has its own, smaller epsilon at a millionth
    assert epsilons["the rules used here"] == pytest.approx(3 - 1.05e-6, abs=1e-8)
    assert epsilons["epsilons and deltas added"] == 3.0
    assert epsilons["zCDP, rho + 2 sqrt(rho ln 1/delta)"] == pytest.approx(
        float(rho) + 2 * math.sqrt(float(rho) * math.log(10**6)), rel=1e-12
    )
    best = epsilons["zCDP, best order"]
    assert best is not None
    conversion = spec_profiles.zcdp_profile(rho, Fraction(best))
    assert float(conversion) == pytest.approx(1e-6, rel=1e-9)
    assert epsilons["advanced composition"] == pytest.approx(float(advanced), rel=1e-4)


def test_what_an_accounting_does_not_cover_is_left_open() -> None:
    epsilons = _epsilons(rules.adaptive_compose([conjectured(ApproxDP(1, "0.1")), proved()]))
    assert epsilons == dict.fromkeys(epsilons, None)
    gaussian = conjectured(GaussianDP("0.1"))
    several = _epsilons(rules.adaptive_compose([gaussian] * 4))
    together = GaussianDP("0.2").epsilon_at(_MILLIONTH).upper
    assert several["the rules used here"] == several["privacy loss distributions"]
    assert several["the rules used here"] == float(together)
    assert all(value is not None and value >= float(together) for value in several.values())


def test_numbers_are_those_of_the_guarantee() -> None:
    line = numbers(proved(), _MILLIONTH)
    assert line == "epsilon <= 0.999999 at delta 1e-6; total variation <= 0.4621; rho <= 0.5"
    assert numbers(lemma(), _MILLIONTH) == ""
    assert numbers(proved(delta="1e-6"), _MILLIONTH) == "total variation <= 0.4621"


def test_notes_stand_in_the_tree_below_their_node() -> None:
    derivation = _tenfold()
    tree = derivation.tree(lambda node: f"# {node.rule}")
    assert tree.count("# ") == sum(1 for _ in derivation.nodes())
    assert "\n".join(line for line in tree.splitlines() if "# " not in line) == str(derivation)
