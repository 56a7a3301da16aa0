"""What is certified where no event promises much: of a sound mechanism, a small epsilon and few draws."""

from __future__ import annotations

import numpy as np

from audits.classical.noisy_max import RNM_1
from dpverify.audit import audit
from dpverify.audit.witnesses.promises import Task, above_claimed


def test_an_event_that_may_show_something_comes_before_one_that_never_does() -> None:
    """Of 20,000 draws a side: all of both; 19.5% against 18%, 4 standard errors apart; 0.1% against 0.08%, less than 1."""
    task = Task([(0.1, 0.0)], 1e-6, 75_000)
    hits, others = np.array([20_000, 3900, 20]), np.array([20_000, 3600, 16])
    (promised,) = above_claimed(hits, 20_000, others, 20_000, task)
    assert int(np.argmax(promised)) == 1
    assert promised[1] < -0.1  # a bound above 0 is not promised: it would take 5 standard errors
    assert promised[0] < promised[1]


def test_a_noisy_max_shows_a_part_of_its_epsilon_at_a_small_alpha() -> None:
    """Of the true .1; before, the event that always happens was certified in two of three runs. A bound above the
    truth has probability 1e-6 at most."""
    for seed in range(3):
        found = audit(
            RNM_1.subject(seed), claim=RNM_1.claim, pairs=RNM_1.pairs[:1], trials=100_000,
            alpha=1e-6, seed=seed, vectorized=True,
        )  # fmt: skip
        assert 0.005 < found.epsilon <= 0.1
