"""Planted faults in stages. Chance of a failing test: stated at each; everything is seeded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import Adjacency, PureDP
from dpverify.audit import AuditResult, NeighboringPair, Verdict, audit
from dpverify.audit.independence import InvalidRun
from dpverify.audit.staging import STAGES, StagedAttack, needs
from dpverify.audit.subjects import planted_in, target_of
from dpverify.audit.unsettled import two_digits

PAIRS = [
    NeighboringPair(name=name, left=[0.0], right=[1.0], adjacency=Adjacency.REPLACE)
    for name in ("first", "second")
]
CLAIM = PureDP(1)
BUDGET = 10_000
Batch = Callable[[Any, int], NDArray[np.int64]]


def answering(epsilon: float, seed: int) -> Batch:
    """Randomized response of this epsilon, with its own generator."""
    rng = np.random.default_rng(seed)

    def answer(data: Any, size: int) -> NDArray[np.int64]:
        lies = rng.random(size) < 1 / (1 + math.exp(epsilon))
        return np.where(lies, 1 - int(data[0]), int(data[0]))

    return answer


@cache
def audited(subject: float, *faults: float, trials: int = BUDGET, **options: Any) -> AuditResult:
    return audit(
        answering(subject, 100),
        claim=CLAIM,
        pairs=PAIRS,
        faults=[answering(fault, 2 + i) for i, fault in enumerate(faults)],
        trials=trials,
        seed=5,
        vectorized=True,
        **options,
    )


def test_a_coarse_fault_is_caught_with_the_fewest_draws() -> None:
    """Catch it in the first stage: its event is 15 standard errors above what is asked for."""
    result = audited(1.0, 8.0)
    (fault,) = result.faults
    assert fault.caught
    assert fault.trials == BUDGET / 16
    assert math.isnan(fault.needs)
    assert result.verdict is Verdict.CONSISTENT
    assert result.trials == BUDGET
    assert result.draws == 2 * BUDGET * len(PAIRS)


def test_what_a_fault_needed_the_subject_gets_too() -> None:
    """The fault takes more than 20,000 draws and less than 40,000, with 1.7 standard errors to
    spare either way."""
    result = audited(1.0, 1.075)
    (fault,) = result.faults
    assert fault.caught
    assert fault.trials == 4 * BUDGET
    assert result.verdict is Verdict.CONSISTENT
    assert result.trials == 4 * BUDGET
    assert result.draws == 2 * (1 + 4) * BUDGET * len(PAIRS)
    assert {c.draws > BUDGET for c in result.certificates} == {False, True}
    assert sum(c.alpha for c in result.certificates) <= result.alpha * (1 + 1e-9)


def test_the_second_attack_can_refute() -> None:
    """The subject leaks as much as the fault, which the budget does not show."""
    assert audited(1.075).verdict is Verdict.POWERLESS
    result = audited(1.075, 1.075)
    assert result.verdict is Verdict.VIOLATED
    assert result.strongest.draws > BUDGET


def test_a_missed_fault_says_how_many_draws_it_needs() -> None:
    result = audited(1.0, 1.02)
    (fault,) = result.missed
    assert result.verdict is Verdict.POWERLESS
    assert fault.trials == 4 * BUDGET
    assert 2 * fault.trials < fault.needs < 100 * fault.trials
    trials = two_digits(fault.needs / 4)  # a fault gets four times as many
    assert fault.needs <= 4 * trials < 1.2 * fault.needs
    assert f"in 40,000 draws a side; about trials={trials:_} would show it" in str(result)
    assert f"about trials={two_digits(fault.needs):_} would show" in needs(fault, sequential=True)
    many = dataclasses.replace(fault, needs=1e6)
    assert "about trials=250_000, without sequential=True, would" in needs(many, sequential=True)
    staged = StagedAttack(CLAIM, PAIRS[:1], math.ceil(1.5 * fault.needs), 1e-6, 7, beyond=False)
    law = target_of(answering(1.02, 8), vectorized=True)
    assert staged.fault("again", law, 0).caught


def test_what_is_no_fault_is_missed_at_every_stage() -> None:
    """A subject planted as its own fault: caught with probability 1e-6."""
    result = audited(1.0, 0.5)
    (fault,) = result.missed
    assert math.isinf(fault.needs)
    assert "in 40,000 draws a side no event tells it" in str(result)


@pytest.mark.parametrize("sequential", [False, True])
def test_a_fault_that_fails_is_named(sequential: bool) -> None:
    """0 or 1 at random keeps every claim: refuted, so that no fault is planted, with probability
    1e-6."""
    rng = np.random.default_rng(1)

    def fails(data: Any) -> Any:
        raise ZeroDivisionError

    said = "Of the planted fault 'fails', not of the audited function: Every call .* ZeroDivision"
    with pytest.raises(InvalidRun, match=said):
        audit(
            lambda data: int(rng.integers(2)), claim=CLAIM, pairs=PAIRS[:1], faults=[fails],
            trials=1000, seed=0, sequential=sequential,
        )  # fmt: skip


def test_faults_without_a_name_of_their_own_have_a_number() -> None:
    """Exact: no draw is taken."""
    half = answering(1.0, 1)
    faults = [lambda data, size: half(data, size), half, lambda data, size: half(data, size), half]
    names = [name for name, _ in planted_in(half, faults, vectorized=True, thorough=False)]
    assert names == [
        "<lambda> (fault 1)", "answer (fault 2)", "<lambda> (fault 3)", "answer (fault 4)",
    ]  # fmt: skip
    assert [name for name, _ in planted_in(half, [half], vectorized=True, thorough=False)] == [
        "answer"
    ]


def test_a_sequential_audit_gives_faults_no_more_than_its_budget() -> None:
    result = audited(1.0, 1.075, trials=1000, sequential=True)
    (fault,) = result.missed
    assert fault.trials == 1000


def test_stages_share_alpha_and_draw_anew() -> None:
    staged = StagedAttack(CLAIM, PAIRS, BUDGET, 1e-6, 0)
    assert list(staged.stages()) == [(i, math.ceil(BUDGET * s)) for i, s in enumerate(STAGES)]
    (fault,) = audited(1.0, 1.02).missed
    assert fault.strongest.alpha <= 1e-6 / len(STAGES) / len(PAIRS) / 2


@pytest.mark.parametrize(
    ("trials", "stages"), [(100, [2, 3]), (400, [1, 2, 3]), (2_000, [0, 1, 2, 3])]
)
def test_stages_that_could_show_nothing_are_left_out(trials: int, stages: list[int]) -> None:
    staged = StagedAttack(CLAIM, PAIRS, trials, 1e-6, 0)
    assert [stage for stage, _ in staged.stages()] == stages


def test_the_audits_own_number_of_draws_is_always_a_stage() -> None:
    assert [s for s, _ in StagedAttack(CLAIM, PAIRS, 100, 1e-6, 0, beyond=False).stages()] == [2]
