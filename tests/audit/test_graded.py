"""Graded certificates: exact on small counts, wrong no more often than they say, better than one event."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, binomtest, poisson

from dpverify import PureDP
from dpverify.audit import AuditResult, NeighboringPair, audit
from dpverify.audit.certificates import Aim
from dpverify.audit.evidence import witness_of
from dpverify.audit.graded import Level, epsilon_at_least, poisson_mean, refuted, used
from dpverify.audit.neighbors.pairs import QueryMoves
from dpverify.audit.regions import share_of
from dpverify.audit.witnesses.choosing import Grade, Task, Witness
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.grading import graded
from spec.theory.check_witness import check
from tests.spec.witness_files import forged, refusal

SCORE = Candidate("score >= {threshold}", lambda draws: np.zeros(len(draws)), both_signs=True)


def p_value(levels: list[Level], share: Fraction) -> Fraction:
    """P(sum of weights times binomials >= what was seen), by going through all of their values."""
    seen = sum(level.weight * level.hits for level in levels)
    sizes = [level.hits + level.other_hits for level in levels]
    total = Fraction(0)
    for values in product(*(range(n + 1) for n in sizes)):
        if sum(level.weight * k for level, k in zip(levels, values, strict=True)) >= seen:
            mass = Fraction(1)
            for n, k in zip(sizes, values, strict=True):
                mass *= math.comb(n, k) * share**k * (1 - share) ** (n - k)
            total += mass
    return total


SMALL = (
    [Level(3, 5, 1), Level(1, 4, 2)],
    [Level(5, 6, 0), Level(2, 3, 3), Level(1, 0, 2)],
    [Level(2, 12, 3)],
    [Level(1, 0, 0), Level(4, 7, 1)],
)


@pytest.mark.parametrize("levels", SMALL)
def test_refuted_just_where_the_exact_tail_is_at_most_alpha(levels: list[Level]) -> None:
    for epsilon in np.linspace(-2, 3, 11):
        exact = float(p_value(levels, Fraction(float(expit(epsilon)))))
        assert refuted(levels, epsilon, exact * 1.001 + 1e-10)
        assert not refuted(levels, epsilon, exact * 0.999)


@pytest.mark.parametrize("levels", SMALL)
def test_the_bound_is_the_largest_refuted_epsilon(levels: list[Level]) -> None:
    for alpha in (0.3, 0.05, 1e-3):
        found = epsilon_at_least(levels, alpha)
        if found > -math.inf:
            exact = [p_value(levels, Fraction(float(expit(found + up)))) for up in (0.0, 1e-5)]
            assert exact[0] <= alpha < exact[1]


def test_one_level_is_the_conditional_test_of_two_rates() -> None:
    found = epsilon_at_least([Level(4, 700, 400)], 1e-4)
    low = binomtest(700, 1100, alternative="greater").proportion_ci(1 - 1e-4).low
    assert found == pytest.approx(math.log(low / (1 - low)), abs=1e-5)


def test_no_hits_show_nothing_and_tiny_levels_of_alpha_are_refused() -> None:
    assert epsilon_at_least([], 0.05) == epsilon_at_least([Level(5, 0, 90)], 0.05) == -math.inf
    with pytest.raises(ValueError, match="certify a single event instead"):
        epsilon_at_least([Level(1, 9, 1)], 1e-9)


def alarms(slip: float, fixed: bool = False) -> int:
    """Of 1500 runs with P(S_k) = e^epsilon Q(S_k) exactly, in how many epsilon - slip is refuted."""
    rng, count = np.random.default_rng(11), 0
    q, epsilon = np.array([0.004, 0.01, 0.03]), 0.4
    for _ in range(1500):
        own, other = (40_000, 40_000) if fixed else rng.poisson(40_000, 2)
        x, y = (
            rng.multinomial(own, [*q * math.exp(epsilon), 0])[:3],
            rng.multinomial(other, [*q, 0])[:3],
        )
        levels = [Level(w, int(a), int(b)) for w, a, b in zip((5, 2, 1), x, y, strict=True)]
        count += refuted(levels, epsilon - slip, 0.05)
    return count


def test_false_alarms_are_as_rare_as_stated_and_no_rarer() -> None:
    """A sound one has more with probability below 1e-6; a bound too high by 0.02 would be seen."""
    most, least = binom.ppf(1 - 5e-7, 1500, 0.05), binom.ppf(5e-7, 1500, 0.05)
    assert least <= alarms(0.0) <= most
    assert alarms(0.02) > most


def test_the_number_used_is_poisson_and_rarely_too_large() -> None:
    """Chi-square of 2000 numbers, and the mean, false alarm 1e-6 each."""
    draws = 10_000
    mean = poisson_mean(draws)
    assert poisson.sf(draws, mean) < 5e-5
    found = np.array([used(draws, (3, k)) for k in range(1000)]).ravel()
    assert abs(found.mean() - mean) < 4.9 * math.sqrt(mean / 2000)
    assert abs(found.var(ddof=1) / mean - 1) < 4.9 * math.sqrt(2 / 2000)


# --- the choice of weights ----------------------------------------------------------------------------


def chosen(draws: tuple[Any, Any], threshold: float, later: int = 800_000) -> Witness:
    """For a claim of 0.1 at alpha = 0.05."""
    happens = [float(np.mean(side >= threshold)) for side in draws]
    spreads = [math.sqrt((1 - p) / p) for p in happens]
    single = Witness(SCORE, 1, threshold, Aim((0.1, 0.0), share_of(*spreads)), 0.01)
    return graded(single, *draws, Task(((0.1, 0.0),), 0.05, later))


def votes(rng: np.random.Generator, size: int, shift: float) -> Any:
    """Of ten answers above a noisy threshold, how many of the first half more than of the second."""
    moved = np.repeat([shift, -shift], 5)
    above = moved + rng.laplace(scale=20, size=(size, 10)) >= rng.laplace(scale=20, size=(size, 1))
    return above[:, :5].sum(axis=1) - above[:, 5:].sum(axis=1) + 0.0


def test_weights_fall_with_the_odds_and_promise_more() -> None:
    rng = np.random.default_rng(2)
    found = chosen((votes(rng, 100_000, 0.5), votes(rng, 100_000, -0.5)), 3.0)
    weights = [grade.weight for grade in found.grades]
    thresholds = [grade.threshold for grade in found.grades]
    assert len(weights) > 1
    assert weights == sorted(weights, reverse=True)
    assert thresholds == sorted(thresholds, reverse=True)
    assert found.promise > 0.01
    assert str(found).startswith(f"weights of levels {weights[0]} x [score >= {thresholds[0]:g}]")


def test_one_event_stays_where_the_odds_are_the_same_in_all_of_it() -> None:
    """Two coins: whatever levels there are have the same odds."""
    rng = np.random.default_rng(4)
    coins = tuple(rng.random(50_000) < p for p in (0.6, 0.4))
    scores = tuple(np.where(coin, 1.0, 0.0) for coin in coins)
    assert chosen((scores[0], scores[1]), 1.0).grades == ()


def test_extreme_scores_are_taken() -> None:
    rng = np.random.default_rng(5)
    own, other = rng.normal(0.5, 1, 20_000), rng.normal(0, 1, 20_000)
    own[:50], other[:9000] = np.inf, -np.inf
    assert math.isfinite(chosen((own, other), 1.0).promise)
    assert chosen((other, own), -np.inf).grades == ()


def test_counts_are_of_each_level_alone() -> None:
    one = Witness(SCORE, -1, 0.0, Aim((0.1, 0.0), 32), 0.0, (Grade(2.0, 5), Grade(0.0, 1)))
    assert one.counts(np.array([-3.0, -2.0, -1.0, 0.0, 0.5])).tolist() == [2, 2]


# --- through the audit --------------------------------------------------------------------------------

PAIR = NeighboringPair(
    name="five up, five down",
    left=[0.5] * 5 + [-0.5] * 5,
    right=[-0.5] * 5 + [0.5] * 5,
    adjacency=QueryMoves(1),
)


def audited(seed: int, curve: int = 0) -> AuditResult:
    """All answers against one noisy threshold, without a stop: the sparse vector of Chen and Machanavajjhala."""
    rng = np.random.default_rng(seed)

    def above(answers: Any, size: int) -> Any:
        noisy = np.array(answers) + rng.laplace(scale=20, size=(size, 10))
        return (noisy >= rng.laplace(scale=20, size=(size, 1))).astype(float)

    return audit(
        above,
        claim=PureDP("0.1"),
        pairs=[PAIR],
        trials=300_000,
        alpha=0.05,
        seed=seed,
        vectorized=True,
        curve=curve,
    )


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return audited(1)


def test_an_audit_of_a_pure_claim_grades_its_event(result: AuditResult) -> None:
    best = result.strongest
    assert best.method == "graded"
    assert best.refuted
    assert best.region is None
    assert 0.1 < best.epsilon < 0.4319  # the largest epsilon of any event on this pair
    assert best.delta_at(0.1) == best.certified_delta == 0.0
    assert "weights of levels" in str(result)


def test_events_along_the_curve_are_single_ones() -> None:
    found = audited(1, curve=4).certificates
    assert any(certificate.levels for certificate in found[:2])
    assert len({certificate.event for certificate in found[2:]}) == len(found[2:]) > 1
    assert all(certificate.region is not None for certificate in found[2:])


def test_its_witness_is_verified_and_a_tampered_one_is_not(result: AuditResult) -> None:
    made = json.loads(json.dumps(witness_of(result, subject="above", pairs=[PAIR])))
    assert any("refute it at level" in line for line in check(made))
    levels = ("certificate", "levels")
    for value, why in (
        (lambda old: [[w, x * 9 // 10, y] for w, x, y in old], "do not refute"),
        (lambda old: [[w, y, x] for w, x, y in old], "do not refute"),
        (lambda old: [[w, x + 0.5, y] for w, x, y in old], "impossible counts"),
        (lambda old: [[0, x, y] for _, x, y in old], "impossible counts or weights"),
        (lambda old: [[w, x * 1000, y] for w, x, y in old], "too many hits"),
    ):
        assert why in refusal(forged(made, levels, value))
    higher = [[1.2 * made["certificate"]["certified"][0][0], 0.0]]
    assert "do not refute" in refusal(forged(made, ("certificate", "certified"), higher))
    assert "promised" in refusal(forged(made, ("points", 0), [0.05, 0.0]))
