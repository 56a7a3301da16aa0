"""Plans: what they derive, what they refuse, and stages that are built from what came before."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpverify import Adjacency, PerfectPrivacy, PureDP, SeededBits
from dpverify.grid import ClampedSum, Count, Query
from dpverify.plans import (
    AdaptiveStage,
    DiscreteLaplace,
    Gate,
    KaryResponse,
    Law,
    NoNoise,
    Plan,
    Stage,
    stages_of,
)
from dpverify.plans.plan import check_built, derive
from dpverify.privacy import Derivation, Domain, Exact, PrivacyClaim, Sensitivity, Status, rules
from dpverify.randomness import enumerate_law
from spec.theory.laws import (
    DiscreteLaplaceLaw,
    IntegerLaw,
    Outcome,
    TranscriptLaw,
    real_exponential,
)
from tests.plans.helpers import CountsTwice, Released, batch_of, released
from tests.randomness.helpers import NoBits, formal_exponential

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=1)
ONE, TWO = DiscreteLaplace(1), DiscreteLaplace(2)
WITHIN = Count((0.0, 1.0))
DATA = [0.5, 3.0, 1.0]


def stage(name: str, query: Query = WITHIN, noise: DiscreteLaplace = ONE) -> Stage:
    return Stage(name, query, noise)


def adaptive(declared: Stage, built: Stage) -> AdaptiveStage:
    return AdaptiveStage(declared, lambda batch: np.zeros(len(batch), np.int64), lambda key: built)


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


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize(
    "built",
    [stage("a", WITHIN, TWO), stage("a", WITHIN, ONE), stage("a", Count((5.0, 6.0)), TWO)],
)
def test_a_stage_at_least_as_private_as_declared_is_accepted(
    built: Stage, adjacency: Adjacency
) -> None:
    check_built(stage("a", WITHIN, ONE), built, adjacency, DOMAIN)


LESS_PRIVATE = {
    "less noise": stage("a", WITHIN, DiscreteLaplace(Fraction(999_999, 1_000_000))),
    "larger sensitivity": stage("a", ClampedSum(-2, 1, 0, 0), ONE),
    "another name": stage("b", WITHIN, TWO),
}


@pytest.mark.parametrize("name", LESS_PRIVATE)
def test_a_stage_less_private_than_declared_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="declare the largest loss it can have"):
        check_built(stage("a", WITHIN, ONE), LESS_PRIVATE[name], ADD, DOMAIN)


def test_a_stage_without_noise_is_refused_where_the_query_is_private() -> None:
    with pytest.raises(ValueError, match="without noise"):
        check_built(stage("a"), Stage("a", WITHIN, NoNoise()), ADD, DOMAIN)


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
        check_built(declared, believed, ADD, DOMAIN)


TWICE = CountsTwice(adjacency=ADD, noise_multiplier=Fraction(2))


def specified(scale: Fraction) -> TranscriptLaw:
    """3 records, 2 of them within [0, 1]; the second scale doubles after an odd count."""

    def first(prefix: tuple[Outcome, ...]) -> IntegerLaw:
        return DiscreteLaplaceLaw(3, scale)

    def second(prefix: tuple[Outcome, ...]) -> IntegerLaw:
        return DiscreteLaplaceLaw(2, scale * (1 + prefix[0][0] % 2))

    return TranscriptLaw((("count", first), ("again", second)))


def test_the_declared_claim_composes() -> None:
    assert TWICE.claim.guarantee == PureDP(1)
    assert dataclasses.replace(TWICE, factor=Fraction(7)).claim.guarantee == PureDP(1)
    budgeted = CountsTwice.for_budget(PureDP("0.3"), adjacency=ADD)
    assert budgeted.noise_multiplier == Fraction(20, 3)


def test_an_adaptive_law_is_the_law_computed_by_hand() -> None:
    e = formal_exponential(Fraction(1, 3), 4)
    law = TWICE.law(DATA)
    found = enumerate_law(
        lambda bits: released(law.sample(bits, 1)[0]), max_choices=16, exponential=e
    )

    def exact_mass(expected: TranscriptLaw) -> Fraction:
        """The mass on which the shipped and the expected law agree fraction for fraction."""
        masses = [(expected.probability(t, e), mass) for t, mass in found.masses.items()]  # type: ignore[arg-type]
        return sum((mass for true, mass in masses if mass == true), Fraction(0))

    right = specified(Fraction(2))
    unchanging = TranscriptLaw(
        (right.stages[0], ("again", lambda prefix: DiscreteLaplaceLaw(2, Fraction(2))))
    )
    assert exact_mass(right) >= Fraction(99, 100)
    assert exact_mass(unchanging) < Fraction(9, 10)  # planted: the second scale stays as it is


def test_adaptive_likelihoods_are_the_masses_and_sum_to_one() -> None:
    law, expected = TWICE.law(DATA), specified(Fraction(2))
    window: list[Released] = [((c,), (x,)) for c in range(-55, 61) for x in range(-110, 115)]
    likelihoods = law.log_likelihood(batch_of(("count", "again"), window, [-1] * len(window)))
    assert abs(np.exp(likelihoods).sum() - 1) < 1e-9  # the window leaves out less than 1e-10
    with mp.workdps(40):
        for transcript, likelihood in list(zip(window, likelihoods.tolist(), strict=True))[::301]:
            mass = expected.probability(transcript, real_exponential)
            assert abs(mp.log(mass) - likelihood) < 1e-11 * (1 - likelihood)


def test_rows_of_a_large_batch_take_their_own_stage() -> None:
    """In one batch of both parities: the spread of the second count follows the first."""
    batch = (
        CountsTwice(adjacency=ADD, noise_multiplier=Fraction(10))
        .law(DATA)
        .sample(SeededBits(41), 20_000)
    )
    odd = batch.values["count"][:, 0] % 2 == 1
    spread = [np.abs(batch.values["again"][rows, 0] - 2).mean() for rows in (~odd, odd)]
    # Mean |Z| is the scale to within 1%; over 9,000 rows and more its sd is 1.1% of it. A false
    # alarm at 7 sd has probability below 1e-9; equal scales would be 50% off.
    assert abs(spread[0] / 10 - 1) < 0.08
    assert abs(spread[1] / 20 - 1) < 0.08


@pytest.mark.parametrize(
    "faulty",
    [
        dataclasses.replace(TWICE, factor=Fraction(1, 3)),
        dataclasses.replace(TWICE, built_name="count"),
    ],
    ids=["too little noise", "another name"],
)
def test_a_broken_promise_is_refused_at_release_and_in_likelihoods(faulty: CountsTwice) -> None:
    assert faulty.claim.guarantee == PureDP(1)  # the declaration is all that the claim rests on
    with pytest.raises(ValueError, match="declared pure"):
        faulty.release(DATA, SeededBits(1))
    batch = batch_of(("count", "again"), [((3,), (2,))], [-1])
    with pytest.raises(ValueError, match="declared pure"):
        faulty.law(DATA).log_likelihood(batch)


def test_a_promise_broken_on_one_branch_is_refused_on_that_branch() -> None:
    """Half the noise: enough after an odd count, where it is doubled, too little after an even."""
    faulty = dataclasses.replace(TWICE, factor=Fraction(1, 2)).law(DATA)
    odd = batch_of(("count", "again"), [((3,), (2,))], [-1])
    even = batch_of(("count", "again"), [((4,), (2,))], [-1])
    assert np.isfinite(faulty.log_likelihood(odd)).all()
    with pytest.raises(ValueError, match="declared pure"):
        faulty.log_likelihood(even)


def test_a_stage_is_built_once_for_each_key() -> None:
    built: list[int] = []

    def build(key: int) -> Stage:
        built.append(key)
        return stage("b", noise=TWO)

    def key(batch: object) -> np.ndarray:
        return batch.values["a"][:, 0] % 3  # type: ignore[attr-defined, no-any-return]

    plan: Plan = (stage("a", noise=DiscreteLaplace(9)), AdaptiveStage(stage("b"), key, build))
    law = Law(plan, np.array([[0.5]]), ADD, DOMAIN)
    for seed in range(3):
        law.log_likelihood(law.sample(SeededBits(seed), 500))
    assert sorted(built) == [0, 1, 2]


@pytest.mark.parametrize("scale", [0, -1, "0", Fraction(-1, 2)])
def test_noise_of_no_scale_is_refused(scale: Exact) -> None:
    with pytest.raises(ValueError, match="not positive"):
        DiscreteLaplace(scale)
    with pytest.raises(ValueError, match="not positive"):
        KaryResponse(2, scale)


def test_a_public_stage_draws_nothing() -> None:
    law = Law((Stage("n", Count(), NoNoise()),), np.zeros((4, 1)), REPLACE, DOMAIN)
    assert law.sample(NoBits(), 3).values["n"].tolist() == [[4]] * 3
