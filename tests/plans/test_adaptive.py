"""Stages that are built from what was released before: their law, and promises that are kept."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpverify import Abstained, Adjacency, PureDP, SeededBits
from dpverify.grid import Answers, Count
from dpverify.plans import (
    DiscreteLaplace,
    Gate,
    KaryResponse,
    Law,
    Mechanism,
    Plan,
    Stage,
    Transcripts,
)
from dpverify.privacy import Domain
from dpverify.randomness import enumerate_law
from dpverify.randomness.bits import IntArray
from spec.theory.laws import (
    DiscreteLaplaceLaw,
    IntegerLaw,
    Outcome,
    TranscriptLaw,
    real_exponential,
)
from tests.plans.helpers import CountsTwice, Released, adaptive, batch_of, parity, released
from tests.randomness.helpers import formal_exponential

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=1)
WITHIN = Count((0.0, 1.0))
DATA = [0.5, 3.0, 1.0]


def stage(name: str, scale: int = 1) -> Stage:
    return Stage(name, WITHIN, DiscreteLaplace(scale))


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
    enumeration = enumerate_law(
        lambda bits: released(law.sample(bits, 1)[0]), max_choices=16, exponential=e
    )

    def exact_mass(expected: TranscriptLaw) -> Fraction:
        """Return the mass on which the shipped and the expected law agree fraction for fraction."""
        masses = [(expected.probability(t, e), mass) for t, mass in enumeration.masses.items()]  # type: ignore[arg-type]
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
    """Draw in one batch of both parities: the spread of the second count follows the first."""
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
    ("faulty", "message"),
    [
        (dataclasses.replace(TWICE, factor=Fraction(1, 3)), "declared pure"),
        (dataclasses.replace(TWICE, built_name="count"), r"\('count', 1\)\], not \[\('again', 1\)"),
    ],
    ids=["too little noise", "another name"],
)
def test_a_broken_promise_is_refused_at_release_and_in_likelihoods(
    faulty: CountsTwice, message: str
) -> None:
    assert faulty.claim.guarantee == PureDP(1)  # the declaration is all that the claim rests on
    with pytest.raises(ValueError, match=message):
        faulty.release(DATA, SeededBits(1))
    batch = batch_of(("count", "again"), [((3,), (2,))], [-1])
    with pytest.raises(ValueError, match=message):
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
        return stage("b", 2)

    def key(batch: Transcripts) -> IntArray:
        residues: IntArray = batch.values["a"][:, 0] % 3
        return residues

    plan: Plan = (stage("a", 9), adaptive(stage("b"), ("a",), key, build))
    law = Law(plan, np.array([[0.5]]), ADD, DOMAIN)
    for seed in range(3):
        law.log_likelihood(law.sample(SeededBits(seed), 500))
    assert sorted(built) == [0, 1, 2]


@pytest.mark.parametrize("wide_key", [0, 1])
def test_stages_of_unlike_width_do_not_end_up_in_one_column(wide_key: int) -> None:
    """A row of one integer among rows of two must be refused, not repeated to fill its place."""
    wide = Stage("b", Answers(2), KaryResponse(2, 1))

    def build(odd: int) -> Stage:
        return wide if odd == wide_key else stage("b")

    plan: Plan = (stage("count"), adaptive(stage("b"), ("count",), parity, build))
    law = Law(plan, np.array([[0.5], [1.0]]), REPLACE, DOMAIN)
    with pytest.raises(ValueError, match=r"b|width|shape"):
        law.sample(SeededBits(1), 50)  # both parities: 50 of one kind have probability below 1e-14


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedOnAdaptive(Mechanism[int]):
    """The gate reads a stage that is built with 100 times the noise that was declared."""

    def plan(self) -> Plan:
        scale = self.noise_multiplier
        built = Stage("again", Count(), DiscreteLaplace(100 * scale))
        declared = Stage("again", Count(), DiscreteLaplace(scale))
        return (
            Stage("count", Count(), DiscreteLaplace(scale)),
            adaptive(declared, ("count",), parity, lambda odd: built),
            Gate("again", 1, "few"),
        )

    def estimate(self, transcript: Transcripts) -> int | Abstained:
        return Abstained(transcript.stopped) if transcript.stopped else transcript.number("again")


def test_minimum_n_does_not_trust_the_declared_noise_of_a_stage_built_later() -> None:
    """More noise than declared is more private, but it abstains more often: refuse, or count it."""
    mechanism = GatedOnAdaptive(adjacency=ADD, noise_multiplier=Fraction(1))
    least = minimum_or_none(mechanism)
    if least is not None:
        batch = mechanism.law([0.0] * least).sample(SeededBits(72), 2000)
        # 2000 coins of at most 0.01: more than 50 have probability below 1e-7.
        assert np.count_nonzero(batch.stopped_by >= 0) <= 50


def minimum_or_none(mechanism: GatedOnAdaptive) -> int | None:
    """None if it refuses to say."""
    try:
        return mechanism.minimum_n(beta="0.01")
    except ValueError:
        return None
