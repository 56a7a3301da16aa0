"""Tests of this suite: the mechanism's answers, a false twin of its obligation, and the ledger."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpverify import Adjacency, PureDP, SeededBits
from dpverify.cli import main
from dpverify.suite.trees import load

ROOT = Path(__file__).parents[1]
ENTRY = load(ROOT).entries["count_above"]


def test_the_count_is_near_the_truth() -> None:
    mechanism = ENTRY.mechanism.calibrated_for(
        PureDP(1), adjacency=Adjacency.ADD_REMOVE, threshold=18.0
    )
    ages = [3.0, 17.9, 18.0, 44.0, 1e308]
    released = mechanism.release(ages, SeededBits(1))
    assert isinstance(released, int)
    # The noise exceeds 60 with probability below 2 exp(-60); the seed fixes it besides.
    assert abs(released - 3) <= 60


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "18", None, True])
def test_a_threshold_that_is_no_number_is_refused(threshold: object) -> None:
    with pytest.raises(ValueError, match="give a finite number"):
        ENTRY.mechanism.calibrated_for(
            PureDP(1), adjacency=Adjacency.ADD_REMOVE, threshold=threshold
        )


def test_the_obligation_fails_for_a_false_claim() -> None:
    with pytest.raises(AssertionError, match="the largest loss is"):
        ENTRY.spec.obligation_loss(Fraction(9, 10))


def test_the_code_promises_what_the_ledger_says() -> None:
    assert main(["claims", "--check", "--suite", str(ROOT)]) == 0
