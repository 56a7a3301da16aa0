"""Suspicions that cannot be refuted yet: suspects, their share of alpha, the line in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.audit import added, audit
from dpverify.audit.attack import FixedAttack
from dpverify.audit.certificates import Aim, Certificate, certify
from dpverify.audit.confidence_regions import Counted, confidence_region
from dpverify.audit.subjects import target_of
from dpverify.audit.unsettled import draws_to_decide, shown, unsettled
from dpverify.privacy import ApproxDP, PureDP

PAIR = added("one enters", [], 1.0)
FIVE = ApproxDP(5, "3e-7")


def secret(share: float, seed: int) -> Callable[[Any, int], Any]:
    """7 with this probability where the record is, among numbers of two decimals."""
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        told = (rng.random(size) < share) & (len(data) == 1)
        return np.where(told, 7.0, rng.normal(size=size).round(2))

    return function


def counted(hits: int, others: int, draws: int = 600_000) -> Certificate:
    where = ("pair", "left over right", "number 0 is 7")
    return certify(where, Counted(hits, draws, others, draws), Aim((5.0, 3e-7), 54), 1e-8, FIVE)


@pytest.mark.parametrize(
    ("hits", "others", "stands_out"),
    [(24, 0, 1), (10, 0, 1), (9, 0, 0), (600, 1, 1), (200, 1, 0), (3000, 21, 0), (0, 30, 0)],
)
def test_what_stands_out(hits: int, others: int, stands_out: int) -> None:
    """Exact. On one side alone 10 times; or three standard errors above e^5 times the others."""
    assert bool(unsettled([counted(hits, others)])) == bool(stands_out)


def test_the_draws_that_would_decide_do() -> None:
    """Exact, by the region itself: so many refute the claim at some share of the sum, a tenth
    less at none."""
    seen = counted(24, 0)
    assert not seen.refuted
    needed = draws_to_decide(seen, FIVE, 1e-6)
    assert 2e7 < needed < 2e8

    def refuted(draws: float) -> bool:
        hits = Counted(round(24 * draws / 600_000), round(draws), 0, round(draws))
        shares = *range(1, 65), 61.5, 62.5, 63.5, 63.75, 63.9
        return any(confidence_region(hits, share, 1e-6).excess(5, 3e-7) > 0 for share in shares)

    assert refuted(needed)
    assert not refuted(0.9 * needed)
    (line,) = shown([seen], FIVE, 1e-6)
    assert "24/600000 against 0/600000" in line
    assert f"about {needed:,.0f} draws a side" in line


def test_a_rare_secret_under_a_large_claim_is_shown() -> None:
    """Probability 6e-4 under epsilon = 5, 46 sightings to be expected: no refutation in 10^5
    draws; it is in the report with the draws that would decide. Seeds are fixed; 10 sightings of
    46 to be expected are missed with probability 3e-11."""
    result = audit(
        secret(6e-4, 1), claim=FIVE, pairs=[PAIR], trials=100_000, seed=1, vectorized=True
    )
    assert not any(one.refuted for one in result.certificates)
    (seen,) = result.unsettled
    assert seen.other_hits == 0
    assert "unsettled  pair 'one enters', left over right" in str(result)
    assert "draws a side show that the claim is false" in str(result)
    assert result.to_dict()["unsettled"][0]["hits"] == seen.hits


def test_nothing_is_unsettled_where_nothing_is_wrong() -> None:
    """Laplace noise of epsilon 1 under PureDP(1): three standard errors above a claim that is
    attained have probability .0014 an event; six events here."""
    rng = np.random.default_rng(3)

    def count(data: Any, size: int) -> Any:
        return len(data) + np.round(rng.laplace(size=size) * 2**16) / 2**16

    result = audit(count, claim=PureDP(1), pairs=[PAIR], trials=20_000, seed=3, vectorized=True)
    assert result.unsettled == ()
    assert "unsettled" not in str(result)


def test_a_rare_secret_is_refuted_about_as_often_as_its_event_is() -> None:
    """Probability .002 under PureDP(1), 40,000 draws: the known event refutes with power .88 at
    alpha 1e-6. Of four seeds at least three (with power .9 fewer have probability .05; the seeds
    are fixed); of eight three before."""
    refuted = 0
    for seed in range(4):
        fixed = FixedAttack(PureDP(1), [PAIR], 40_000, 1e-6, seed)
        study = fixed.study(target_of(secret(0.002, seed), True), 0, 0)
        (shots,) = fixed.shots([study])
        assert sum(shot.alpha for shot in shots) <= 1e-6 * (1 + 1e-12)
        refuted += any(one.refuted for one in fixed.certify(0, study, shots))
    assert refuted >= 3
