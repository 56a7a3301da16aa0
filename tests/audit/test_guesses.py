"""Guesses at the side of single calls: exact under drift, against adversaries by exact dynamic
programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpverify import ApproxDP, GaussianDP, PureDP
from dpverify.audit import Verdict, added, audit
from dpverify.audit.betting import Bet, Tally, expected_growth, payoffs_of, stakes_for
from dpverify.audit.certificates import (
    DIRECTIONS,
    EITHER,
    Aim,
    certify_guesses,
    guessed_epsilon,
    is_pure,
)
from dpverify.audit.confidence_regions import Counted
from dpverify.audit.evidence import witness_of
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.witnesses.choosing import Witness
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.audit.witnesses.guesses import Guess, guesses_of, said
from spec.theory.check_witness import check

CALLS, ALPHA = 60, 0.1
ODDS = 3.0  # e^epsilon
RIGHT = ODDS / (1 + ODDS)
LAWS = ((0.0, 0.0), (1.0, 1 / ODDS), (1 / ODDS, 1.0), (0.5, 0.5 / ODDS), (1.0, 1.0))
"""Chances of an output in S on the left and on the right, each within the claim."""


@cache
def _needed(guesses: int) -> int:
    """Return the fewest right ones of so many that refute the claim at ALPHA."""
    return next(
        k for k in range(guesses + 2) if k > guesses or binom.sf(k - 1, guesses, RIGHT) <= ALPHA
    )


def _most(calls: int, knows_sides: bool) -> float:
    """Return the largest chance of a false alarm, over all drifts that follow the past outputs,
    or the sides too.

    One that follows outputs alone knows how many guesses were made, and not how many were right.
    """

    @cache
    def with_sides(left: int, made: int, right: int) -> float:
        if not left:
            return float(right >= _needed(made))
        return max(
            p / 2 * with_sides(left - 1, made + 1, right + 1)
            + q / 2 * with_sides(left - 1, made + 1, right)
            + (1 - p / 2 - q / 2) * with_sides(left - 1, made, right)
            for p, q in LAWS
        )

    if knows_sides:
        return with_sides(calls, 0, 0)

    @cache
    def without(left: int, made: int, right: tuple[float, ...]) -> float:
        """right: the law of the number of right guesses, given the outputs."""
        if not left:
            return sum(right[_needed(made) :])
        values = []
        for p, q in LAWS:
            hit = (p + q) / 2
            share = p / (p + q) if hit else 0.0
            after = np.convolve(right, [1 - share, share])
            value = (1 - hit) * without(left - 1, made, right) if hit < 1 else 0.0
            values.append(value + hit * without(left - 1, made + 1, tuple(after)) if hit else value)
        return max(values)

    return without(calls, 0, (1.0,))


def test_counts_are_exact_under_any_drift_that_follows_outputs() -> None:
    assert _most(7, knows_sides=False) <= ALPHA
    assert _most(CALLS, knows_sides=True) > ALPHA  # who sees the sides can stop when it suits him


def test_bets_are_exact_whatever_the_function_remembers() -> None:
    """The largest chance that the wealth reaches 1 / ALPHA, over all drifts that follow sides
    and outputs."""
    payoffs = payoffs_of(np.array([math.log(ODDS)]), np.array([0.0]), 0.5)
    stake = 0.6 * stakes_for(payoffs, 0.9, 0.1, 0.5)
    own, other = (float(np.log1p(stake * payoffs[k])[0]) for k in (1, 2))

    @cache
    def most(left: int, rights: int, wrongs: int) -> float:
        if rights * own + wrongs * other >= -math.log(ALPHA):
            return 1.0
        if not left:
            return 0.0
        return max(
            p / 2 * most(left - 1, rights + 1, wrongs)
            + q / 2 * most(left - 1, rights, wrongs + 1)
            + (1 - p / 2 - q / 2) * most(left - 1, rights, wrongs)
            for p, q in LAWS
        )

    assert 0 < most(60, 0, 0) <= ALPHA


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.1), (2.0, 0.01)])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_no_guess_wins_on_average_under_the_claim(
    epsilon: float, delta: float, share: float
) -> None:
    """Guess for a law on the boundary of the claim; with less of delta to pay it would win."""
    odds = math.exp(epsilon)
    for q in (0.0, 0.1, 0.2):
        p = min(1.0, odds * q + delta)
        rates = np.array([0.0, p, q, 1 - p - q]) * share  # on either side, or on one
        rates[3] = 1 - rates[:3].sum()
        payoffs = payoffs_of(np.array([epsilon]), np.array([delta]), share)[:, 0]
        assert rates @ payoffs <= 1e-9
        if delta and p < 1:
            cheaper = payoffs_of(np.array([epsilon]), np.array([delta]), share * 0.9)[:, 0]
            assert rates @ cheaper > 0
        assert expected_growth(epsilon, delta, p, q, share) <= 1e-9
        if p < 0.9:
            assert expected_growth(epsilon, delta, p + 0.1, q, share) > 0


def _at_least(threshold: float, sign: int = 1) -> Witness:
    candidate = Candidate("number 0 >= {threshold}", number(0), both_signs=True)
    return Witness(candidate, sign, sign * threshold, Aim((1.0, 0.0), 32), 0.1)


def test_guesses_are_counted_on_both_sides() -> None:
    left, right = (
        encode(np.array([5.0, 5.0, 1.0, 3.0])),
        encode(np.array([5.0, 1.0, 1.0, 1.0, 2.0])),
    )
    for guess, direction, counts, draws in zip(
        guesses_of([_at_least(4.0), _at_least(2.0, -1)]),
        (*DIRECTIONS, EITHER),
        ((2, 1), (4, 1), (6, 2)),
        ((4, 5), (5, 4), (9, 9)),
        strict=True,
    ):
        assert guess.direction == direction
        assert guess.counts(left, right) == counts
        assert guess.draws(left, right) == draws
        assert guess.tally(left, right) == Tally(0, *counts, 9 - sum(counts))
        assert guess.share == (1.0 if direction == EITHER else 0.5)
    both = Guess((_at_least(2.0), _at_least(3.0, -1)))
    assert both.counts(encode(np.array([2.5, 9.0])), encode(np.array([2.5, 1.0]))) == (2, 0)
    assert str(both) == "left where number 0 >= 2, right where number 0 <= 3"


def test_bounds_of_guesses() -> None:
    """Clopper and Pearson's lower end: the chance of so many right ones is alpha there."""
    for right, wrong in ((50, 10), (5, 0), (900, 1000)):
        epsilon = guessed_epsilon(right, wrong, 0.01)
        share = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert binom.sf(right - 1, right + wrong, share) == pytest.approx(0.01, rel=1e-6)
    assert guessed_epsilon(0, 5, 0.01) == -math.inf
    for claim, refuted in ((PureDP("1/2"), True), (PureDP(2), False)):
        point = (float(claim.epsilon), 0.0)
        counted = Counted(80, 500, 20, 500)
        certified = certify_guesses(("p", DIRECTIONS[0], "e"), counted, Aim(point, 32), 0.01, claim)
        assert (certified.refuted, certified.method) == (refuted, "guesses")
        assert certified.region is not None
        either = certify_guesses(("p", EITHER, "e"), counted, Aim(point, 32), 0.01, claim)
        assert either.region is None
        assert either.epsilon == certified.epsilon
    assert is_pure([(1.0, 0.0)])
    assert not is_pure([(1.0, 0.1)])


# --- audits -------------------------------------------------------------------------------------

PAIRS = [added("a row enters", [0.0] * 3, 0.0)]


def _noisy_count(scale: float, seed: int, kind: str = "laplace") -> Callable[[Any], float]:
    rng = np.random.default_rng(seed)
    return lambda data: round(float(len(data) + getattr(rng, kind)(scale=scale)), 3)


def test_a_bet_on_single_calls_says_what_it_pays() -> None:
    tally = Tally(0, 40, 7, 200)
    half, whole = (Bet("p", "d", "e", 1.0, 0.1, 0.2, tally, share) for share in (0.5, 1.0))
    assert half.log_growth > whole.log_growth == Bet("p", "d", "e", 1.0, 0.1, 0.2, tally).log_growth


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize(
    ("claim", "kind"),
    [(PureDP(1), "laplace"), (ApproxDP(1, "0.05"), "laplace"), (GaussianDP(1), "normal")],
)
def test_leaks_of_single_calls_have_witnesses_that_the_checker_accepts(
    claim: Any, kind: str, sequential: bool
) -> None:
    subject = _noisy_count(0.4, 1, kind)
    result = audit(subject, claim=claim, pairs=PAIRS, trials=10_000, seed=2, sequential=sequential)
    assert result.verdict is Verdict.VIOLATED
    expected = "betting" if sequential else "guesses" if claim == PureDP(1) else "joint"
    assert result.strongest.method == expected
    assert all(bet.share for bet in result.bets)
    made = witness_of(result)
    assert any("refute" in line or line.startswith("bets won") for line in check(made))


def test_a_witness_of_guesses_is_refused_where_they_show_nothing() -> None:
    result = audit(_noisy_count(0.4, 1), claim=PureDP(1), pairs=PAIRS, trials=10_000, seed=2)
    made = witness_of(result)
    del made["sha256"]
    from tests.spec.witness_files import refusal, sealed

    right, wrong = made["certificate"]["counts"]
    for counts, why in (
        ([wrong, right], "do not refute"),
        ([right, -wrong], "impossible"),
        ([right + 10**6, wrong], "more guesses than draws"),
    ):
        proof = {**made["certificate"], "counts": counts}
        assert why in refusal(sealed({**made, "certificate": proof}))
    assert "do not refute" in refusal(
        sealed({**made, "points": [[1.0, 0.1]], "certificate": made["certificate"]})
    )


@pytest.mark.parametrize(
    ("description", "sign", "words"),
    [
        ("number 1 is not 3.0", -1, "number 1 is 3.0"),
        ("output is exactly not [1.0]", -1, "output is exactly [1.0]"),
        ("output is 'this is not it'", -1, "not (output is 'this is not it')"),
        ("number 1 is not 3.0", 1, "number 1 is not 3.0"),
        ("number 1 is 3.0", -1, "not (number 1 is 3.0)"),
        ("the call does not raise KeyError", -1, "the call raises KeyError"),
        ("number 0 >= {threshold}", -1, "number 0 <= -0.5"),
    ],
)
def test_nothing_is_negated_twice(description: str, sign: int, words: str) -> None:
    event = Witness(Candidate(description, number(0)), sign, 0.5, Aim((1.0, 0.0), 32), 0.0)
    assert said(event) == words
    assert str(Guess((event, event))) == f"left where {words}, right where {words}"
