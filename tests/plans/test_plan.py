"""Plans: what they derive, what they refuse, and stages that are built from what came before."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpverify import Adjacency, PerfectPrivacy, PureDP
from dpverify.grid import ClampedSum, Count, Query
from dpverify.plans import (
    Adaptive,
    DiscreteLaplace,
    Gate,
    KaryResponse,
    Law,
    NoNoise,
    Plan,
    Stage,
    stages_of,
)
from dpverify.plans.built_stages import check_built
from dpverify.plans.plan import derive
from dpverify.privacy import Derivation, Domain, Exact, PrivacyClaim, Sensitivity, Status, rules
from tests.plans import helpers
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=1)
ONE, TWO = DiscreteLaplace(1), DiscreteLaplace(2)
WITHIN = Count((0.0, 1.0))
DATA = [0.5, 3.0, 1.0]


def stage(name: str, query: Query = WITHIN, noise: DiscreteLaplace = ONE) -> Stage:
    return Stage(name, query, noise)


def adaptive(declared: Stage, built: Stage) -> Adaptive:
    return helpers.adaptive(
        declared, (), lambda batch: np.zeros(len(batch), np.int64), lambda key: built
    )


def test_the_claims_of_the_stages_add_up() -> None:
    plan: Plan = (
        stage("a"),
        Gate("a", 3, "few"),
        stage("b", ClampedSum(-1, 2, 0, 0), TWO),
        adaptive(stage("c", noise=DiscreteLaplace(4)), stage("c", noise=DiscreteLaplace(5))),
    )
    claim = derive(plan, ADD, DOMAIN).conclusion
    assert claim.guarantee == PureDP(1 + Fraction(2, 2) + Fraction(1, 4))
    assert claim.adjacency is ADD
    assert claim.status is Status.PROVED
    assert [s.name for s in stages_of(plan)] == ["a", "b", "c"]


def test_replace_costs_the_whole_width() -> None:
    claim = derive((stage("b", ClampedSum(-1, 2, 0, 0), TWO),), REPLACE, DOMAIN).conclusion
    assert claim.guarantee == PureDP(Fraction(3, 2))


def test_a_public_stage_costs_nothing() -> None:
    plan: Plan = (Stage("n", Count(), NoNoise()), stage("a"))
    assert derive(plan, REPLACE, DOMAIN).conclusion.guarantee == PureDP(1)
    assert derive(plan[:1], REPLACE, DOMAIN).conclusion.guarantee == PerfectPrivacy()
    with pytest.raises(ValueError, match="without noise"):
        derive(plan, ADD, DOMAIN)


REFUSED: list[tuple[Plan, str]] = [
    ((), "nothing to compose"),
    ((stage("a"), stage("a", Count())), "two stages are named 'a'"),
    ((stage("a"), adaptive(stage("a"), stage("a"))), "two stages are named 'a'"),
    ((adaptive(stage("a"), stage("a")), stage("a")), "two stages are named 'a'"),
    ((Gate("a", 1, "few"), stage("a")), "a gate reads 'a', which is not released before it"),
    ((stage("a"), Gate("b", 1, "few"), stage("b")), "a gate reads 'b'"),
    ((stage("a"), Gate("other", 1, "few")), "a gate reads 'other'"),
    ((Gate("a", 1, "few"),), "a gate reads 'a'"),
]


@pytest.mark.parametrize(("plan", "message"), REFUSED)
def test_plans_that_make_no_sense_are_refused(plan: Plan, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        derive(plan, ADD, DOMAIN)


def test_a_gate_may_read_an_adaptive_stage() -> None:
    plan: Plan = (adaptive(stage("a"), stage("a", noise=TWO)), Gate("a", 1, "few"), stage("b"))
    assert derive(plan, ADD, DOMAIN).conclusion.guarantee == PureDP(2)


def _declaring(declared: Stage) -> Adaptive:
    return adaptive(declared, declared)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(
    "built",
    [stage("a", WITHIN, TWO), stage("a", WITHIN, ONE), stage("a", Count((5.0, 6.0)), TWO)],
)
def test_a_stage_at_least_as_private_as_declared_is_accepted(
    built: Stage, adjacency: Adjacency
) -> None:
    check_built(_declaring(stage("a", WITHIN, ONE)), built, adjacency, DOMAIN)


LESS_PRIVATE = {
    "less noise": stage("a", WITHIN, DiscreteLaplace(Fraction(999_999, 1_000_000))),
    "larger sensitivity": stage("a", ClampedSum(-2, 1, 0, 0), ONE),
    "another name": stage("b", WITHIN, TWO),
}


@pytest.mark.parametrize("name", LESS_PRIVATE)
def test_a_stage_less_private_than_declared_is_refused(name: str) -> None:
    other_name = r"\(\[\('b', 1\)\], not \[\('a', 1\)\]\)"
    message = other_name if name == "another name" else "declare the largest loss it can have"
    with pytest.raises(ValueError, match=message):
        check_built(_declaring(stage("a", WITHIN, ONE)), LESS_PRIVATE[name], ADD, DOMAIN)


def test_a_stage_without_noise_is_refused_where_the_query_is_private() -> None:
    with pytest.raises(ValueError, match="without noise"):
        check_built(_declaring(stage("a")), Stage("a", WITHIN, NoNoise()), ADD, DOMAIN)


@dataclass(frozen=True, slots=True, init=False)
class Believed(DiscreteLaplace):
    """Noise that somebody says is enough."""

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        world = sensitivity.conclusion
        return rules.conjecture(PureDP(1), adjacency=world.adjacency, domain=world.domain)


def test_a_conjectured_stage_cannot_be_built_under_a_proved_declaration() -> None:
    """Else the mechanism says "proved" and releases by a stage that nobody has proved."""
    declared, believed = stage("a"), Stage("a", WITHIN, Believed(Fraction(1, 1000)))
    assert derive((declared,), ADD, DOMAIN).conclusion.status is Status.PROVED
    assert derive((believed,), ADD, DOMAIN).conclusion.status is Status.CONJECTURED
    with pytest.raises(ValueError, match=r"declare|proved"):
        check_built(_declaring(declared), believed, ADD, DOMAIN)


@pytest.mark.parametrize("scale", [0, -1, "0", Fraction(-1, 2)])
def test_noise_of_no_scale_is_refused(scale: Exact) -> None:
    with pytest.raises(ValueError, match="not positive"):
        DiscreteLaplace(scale)
    with pytest.raises(ValueError, match="not positive"):
        KaryResponse(2, scale)


def test_a_public_stage_draws_nothing() -> None:
    law = Law((Stage("n", Count(), NoNoise()),), np.zeros((4, 1)), REPLACE, DOMAIN)
    assert law.sample(NoBits(), 3).values["n"].tolist() == [[4]] * 3
