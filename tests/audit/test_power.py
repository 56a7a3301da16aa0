"""The auditor's power: frequencies with intervals, deficits, pairs, the oracle."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpverify import Adjacency, NoisyCount, PureDP
from dpverify.audit import Fault, added
from dpverify.audit.audit_targets import AuditTarget
from dpverify.audit.faults import deficit
from dpverify.audit.oracle import Oracle, draws_needed, hidden, oracle
from dpverify.audit.outputs.laws import TranscriptDraws
from dpverify.audit.power import (
    DEFICITS,
    Effort,
    Frequency,
    Setting,
    Survey,
    best_pair,
    frequency,
    smallest_deficit,
)
from dpverify.audit.subjects import Target, target_of
from dpverify.plans import DiscreteLaplace, Stage

COUNT = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), within=(0.0, 10.0))
OUTSIDE = added("outside, so nothing changes", [1.0], 50.0)
INSIDE = added("inside", [1.0], 2.0)


def _less(share: str) -> Target:
    fault = deficit(COUNT, Fraction(share))
    return lambda data: TranscriptDraws(fault.law(data))


# --- frequencies --------------------------------------------------------------------------------


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    caught = Frequency(18, 20)
    low, high = caught.interval
    assert binom.sf(17, 20, low) == pytest.approx(0.025, rel=1e-6)
    assert binom.cdf(18, 20, high) == pytest.approx(0.025, rel=1e-6)
    assert binom.cdf(2, 20, caught.miss_at_most()) == pytest.approx(0.05, rel=1e-6)
    assert Frequency(29, 29).miss_at_most() < 0.1 < Frequency(28, 28).miss_at_most()


@pytest.mark.parametrize("miss", [0.1, 0.3, 0.7])
def test_upper_ends_hold_when_it_stops_early(miss: float) -> None:
    """Exactly, over every way to end: too low an end has probability 0.05 at most."""
    repeats, allowed = 10, 1
    wrong = 0.0
    for tried in range(2, repeats + 1):  # the second miss comes at this try
        chance = (tried - 1) * miss**2 * (1 - miss) ** (tried - 2)
        caught = Frequency(tried - 2, tried, stopped=True)
        wrong += chance * (caught.miss_at_most() < miss)
    for missed in range(allowed + 1):
        caught = Frequency(repeats - missed, repeats)
        wrong += float(binom.pmf(missed, repeats, miss)) * (caught.miss_at_most() < miss)
    assert wrong <= 0.05 + 1e-9


def test_it_stops_on_the_miss_that_is_too_many() -> None:
    assert frequency(lambda seed: False, 20, 0, least=0.9) == Frequency(0, 3, stopped=True)
    assert frequency(lambda seed: False, 20, 0) == Frequency(0, 20)
    assert frequency(lambda seed: True, 20, 0, least=0.9) == Frequency(20, 20)
    seeds = set[int]()

    def see(seed: int) -> bool:
        seeds.add(seed)
        return True

    frequency(see, 5, 7)
    assert len(seeds) == 5


@pytest.mark.parametrize("threshold", [*DEFICITS, Fraction(1)])
def test_the_smallest_deficit_is_found_by_bisection(threshold: Fraction) -> None:
    least, measured = smallest_deficit(lambda share, seed: share >= threshold, 10, 0)
    assert least == (threshold if threshold in DEFICITS else None)
    assert all((caught.rate == 1) == (share >= threshold) for share, caught in measured.items())
    assert len(measured) <= 4


# --- attacks ------------------------------------------------------------------------------------


def test_a_deficit_is_of_every_scale() -> None:
    law = deficit(COUNT, Fraction(1, 4)).law([1.0])
    (stage,) = law._plan
    assert isinstance(stage, Stage)
    assert stage.noise == DiscreteLaplace(Fraction(3, 4))


def test_the_pair_that_shows_it_is_found() -> None:
    pairs = [OUTSIDE, INSIDE]
    assert best_pair(PureDP(1), pairs, _less("1/2"), 1e-6, 3, look=2000) is INSIDE
    assert best_pair(PureDP(1), [OUTSIDE], _less("1/2"), 1e-6, 3) is OUTSIDE


def test_half_the_noise_is_seen_and_all_of_it_is_not() -> None:
    """A false alarm has probability 1e-6 each."""
    setting = Setting(PureDP(1), INSIDE, 5000, 1e-6)
    assert frequency(lambda seed: setting.sees(_less("1/2"), seed), 5, 1).rate == 1
    assert frequency(lambda seed: setting.catches("half", _less("1/2"), seed), 5, 1).rate == 1
    assert frequency(lambda seed: setting.sees(target_of(COUNT, False), seed), 5, 1).rate == 0


def test_what_cannot_be_seen_is_missed() -> None:
    harmless = Fault("changes nothing", COUNT.law)
    attacked = AuditTarget(mechanism=COUNT, pairs=[OUTSIDE, INSIDE], own=[harmless])
    effort = Effort(few=3000, many=6000, deficits=2, faults=3, again=2)
    survey = Survey(attacked, PureDP(1), 1e-6, effort, 1)
    faults = {fault.name: fault for fault in survey.faults()}
    assert {name for name, fault in faults.items() if fault.missed} >= {"changes nothing"}
    assert faults["count: scale x 0.5"].caught == {3000: Frequency(3, 3)}
    assert faults["count: scale x 0.5"].pair == "inside"
    assert set(faults["changes nothing"].caught) == {3000, 6000}  # missed by few, so tried by many
    assert set(faults["count: scale x 0.95"].caught) == {6000}  # not planted for few
    least, _ = survey.deficits(INSIDE)
    assert least is not None


# --- the oracle ---------------------------------------------------------------------------------


def _count_oracle(share: str) -> Oracle:
    target = _less(share)
    laws = target(INSIDE.left), target(INSIDE.right)
    ideal = oracle(PureDP(1), laws, alpha=1e-4, seed=1, sample=50_000)
    assert ideal is not None
    return ideal


def test_the_oracle_knows_the_best_event() -> None:
    """Discrete Laplace noise of scale 9/10: beside the centers the ratio is e^(10/9), or its
    inverse."""
    ideal, epsilon = _count_oracle("1/10"), 10 / 9
    p = 1 / (1 + math.exp(-epsilon))
    # Four standard errors of 100,000 draws: 6e-5 each.
    error = 4 * math.sqrt(p * (1 - p) / 1e5)
    assert ideal.own == pytest.approx(p, abs=error)
    assert ideal.other == pytest.approx(1 - p, abs=error)
    assert ideal.point == (1.0, 0.0)
    spread = math.sqrt(p * (1 - p) * (1 + math.e**2))
    excess = p - math.e * (1 - p)
    normal = ((norm.isf(1e-4) + norm.ppf(0.9)) * spread / excess) ** 2
    assert normal <= ideal.draws <= 1.2 * normal  # exact tests of few draws are a little weaker


def test_nothing_to_see_has_no_oracle() -> None:
    target = target_of(COUNT, False)
    laws = target(OUTSIDE.left), target(OUTSIDE.right)
    assert oracle(PureDP(1), laws, alpha=1e-4, seed=1, sample=5000) is None


def test_ours_needs_little_more_than_the_oracle() -> None:
    """Attack at a deficit of 30%, with 10 attacks of each size."""
    best = _count_oracle("3/10")
    target = _less("3/10")

    def sees(trials: int, seed: int) -> bool:
        return Setting(PureDP(1), INSIDE, trials, 1e-4).sees(target, seed)

    factor, draws = draws_needed(sees, best.draws, 10, 1)
    assert factor is not None
    assert factor <= 3
    assert draws == math.ceil(factor * best.draws)


def test_draws_are_looked_for_until_there_are_enough() -> None:
    assert draws_needed(lambda trials, seed: trials >= 240, 100, 5, 0) == (2.5, 250)
    assert draws_needed(lambda trials, seed: False, 100, 5, 0) == (None, 1000)
    rng = np.random.default_rng(0)
    assert draws_needed(lambda trials, seed: bool(rng.random() < 0.5), 100, 20, 0)[0] is None


def test_what_an_oracle_needs_too_many_draws_for_is_known_beforehand() -> None:
    """The 5% deficit: about as many draws as the oracle's own search finds for it."""
    attacked, less = AuditTarget(mechanism=COUNT, pairs=[OUTSIDE, INSIDE]), "count: scale x 0.95"
    few, many = (
        hidden(attacked, PureDP(1), alpha=1e-6, draws=draws, seed=1) for draws in (10**4, 10**6)
    )
    assert set(few) == {less}  # faults of a quick audit are planted in any case
    assert not many
    target = _less("1/20")
    laws = target(INSIDE.left), target(INSIDE.right)
    alpha = 1e-6 / len(attacked.planted(thorough=True)) / 2
    ideal = oracle(PureDP(1), laws, alpha=alpha, seed=1, sample=100_000)
    assert ideal is not None
    assert few[less] == pytest.approx(ideal.draws, rel=0.25)
    nothing = AuditTarget(mechanism=COUNT, pairs=[OUTSIDE])
    assert hidden(nothing, PureDP(1), alpha=1e-6, draws=10**9, seed=1) == {less: math.inf}
