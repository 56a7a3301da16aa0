"""Planted faults whose law is known, and parts that are attacked by themselves. Everything is
seeded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, BoundedMean, PureDP
from dpverify.audit import Configuration, added
from dpverify.audit.attack import FixedAttack
from dpverify.audit.audit_targets import FIRST_STAGE, WHOLE, audit_targets
from dpverify.audit.faults import generic_faults
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import TranscriptDraws
from dpverify.audit.outputs.transcripts import parted
from dpverify.audit.subjects import Target
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.learned import candidates
from dpverify.grid import Transcripts
from dpverify.plans import Law
from dpverify.plans.noise import LogProbabilities
from dpverify.randomness import Bits, SeededBits

MEAN = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, lower=0, upper=1)
HALVES = [0.0] * 20
PAIRS = [added("one more", HALVES, 1.0)]


@dataclass(frozen=True)
class Silent:
    """A law that says the same of every draw."""

    law: Law
    latent: bool = False

    def sample(self, bits: Bits, size: int) -> Transcripts:
        """Draw as the law does."""
        return self.law.sample(bits, size)

    def log_likelihood(self, batch: Transcripts) -> LogProbabilities:
        """Return zeros, which tell nothing."""
        return np.zeros(len(batch))


def attack(target: Target, planted: bool) -> tuple[bool, str]:
    """Return whether the claim is refuted, and by which event."""
    fixed = FixedAttack(PureDP(1), PAIRS, 4000, 1e-6, seed=3, planted=planted)
    tried = fixed.attempt(target, 1, [0]).tried
    return tried[-1].refuted, tried[-1].event


def dropped(data: Any) -> Law:
    """Return the law without its noise."""
    (fault,) = (one for one in generic_faults(MEAN) if "sum: noise dropped" in one.name)
    law: Law = fault.law(data)
    return law


def test_a_fault_that_its_likelihood_does_not_see_is_learned() -> None:
    """The outputs are apart with certainty, so no draw misses it."""
    refuted, event = attack(lambda data: TranscriptDraws(Silent(dropped(data))), True)
    assert refuted
    assert "likelihood" not in event


def test_where_the_likelihood_shows_a_fault_nothing_else_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Learn everything of the subject, though: its implementation may not follow its law."""
    learned = list[int]()

    def counted(own: Draws, *others: Any, **options: Any) -> list[Candidate]:
        learned.append(len(own))
        return candidates(own, *others, **options)

    def target(data: Any) -> TranscriptDraws:
        return TranscriptDraws(dropped(data))

    monkeypatch.setattr("dpverify.audit.scouting.candidates", counted)
    refuted, event = attack(target, True)
    assert refuted
    assert event.startswith("log-likelihood ratio")
    assert not learned
    assert attack(target, False)[0]
    assert learned


def test_one_batch_chooses_the_event_of_a_fault_whose_law_is_known() -> None:
    """The subject's own law is drawn from for each purpose apart: those draws teach."""
    for planted, batches in ((True, 1), (False, 2)):
        sizes = list[int]()

        def target(data: Any, sizes: list[int] = sizes) -> TranscriptDraws:
            return TranscriptDraws(dropped(data), sizes.append)

        fixed = FixedAttack(PureDP(1), PAIRS, 4000, 1e-6, seed=3, planted=planted)
        study = fixed.study(target, 1, 0)
        assert len(sizes) == 2 * batches  # of both sides
        assert sum(sizes) == 2 * (4000 - study.draws)


def scored(law: TranscriptDraws, draws: Draws) -> list[float]:
    scores = law.log_likelihood(draws)
    assert scores is not None
    return list(map(float, scores))


def test_parts_of_a_batch_are_scored_as_the_whole_is() -> None:
    laws = [TranscriptDraws(MEAN.law(data)) for data in (HALVES, [*HALVES, 1.0])]
    draws = [law.draw(SeededBits(7, side), 50) for side, law in enumerate(laws)]
    first, second = parted(draws, 20)
    for side, whole in enumerate(draws):
        assert [len(first[side]), len(second[side])] == [20, 30]
        for law in laws:
            parts = scored(law, first[side]) + scored(law, second[side])
            assert parts == scored(law, whole)


def test_fewer_quick_draws_are_for_the_whole_and_not_for_its_parts() -> None:
    configuration = Configuration(
        name="one", mechanism=MEAN, pairs=PAIRS, first_stage=PAIRS, quick_trials=5000
    )
    by_part = audit_targets(configuration)
    assert {part: one.quick_trials for part, one in by_part.items()} == {
        WHOLE: 5000,
        FIRST_STAGE: None,
    }
