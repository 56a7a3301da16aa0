"""Numbers of draws that choose an event: fewer where few tell enough, at no certificate's cost."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpverify.audit import replaced, scouting
from dpverify.audit.attack import FixedAttack
from dpverify.audit.confidence_regions import PARTS, Counted, confidence_region
from dpverify.audit.looks import is_settled
from dpverify.audit.outputs.laws import encode
from dpverify.audit.scouting import study_sizes
from dpverify.audit.subjects import target_of
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.privacy import PureDP
from dpverify.privacy.numbers import Floats

TRIALS = 6000
PAIR = replaced("one moves", [0.0], 1.0)
LEARNING, CHOOSING = study_sizes(TRIALS, law_known=False)


@pytest.fixture(autouse=True)
def of_few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scouting, "_ENOUGH", TRIALS)


def leak(own: float, other: float, sizes: list[int]) -> Any:
    """Return 1 with one of two probabilities, beside noise; ``sizes`` gets the size of every
    call."""
    rng = np.random.default_rng(0)

    def function(data: Any, size: int) -> Any:
        sizes.append(size)
        happens = rng.random(size) < (other if data[0] else own)
        return np.stack([happens, rng.normal(size=size)], axis=1)

    return function


@pytest.mark.parametrize(
    ("own", "other", "planted", "evident"),
    [
        (0.5, 0.0, False, True),
        (0.5, 0.05, False, False),
        (0.01, 0.0, False, False),
        (0.5, 0.0, True, False),
    ],
)
def test_an_evident_event_needs_no_draws_that_choose(
    own: float, other: float, planted: bool, evident: bool
) -> None:
    """Exact: all other draws certify then, and none is of two uses. What is rare, what the other
    side has too, and what was planted, are chosen as ever."""
    sizes: list[int] = []
    fixed = FixedAttack(PureDP(3), [PAIR], TRIALS, 1e-6, 0, planted=planted)
    study = fixed.study(target_of(leak(own, other, sizes), True), 0, 0)
    certificates = fixed.certify(0, study, fixed.shots([study])[0])
    assert (study.draws == TRIALS - LEARNING) == evident
    assert study.draws <= TRIALS - LEARNING - CHOOSING or evident
    assert 0 <= 2 * TRIALS - sum(sizes) < 64  # batches are as large
    assert any(one.refuted for one in certificates) == (own == 0.5 and not other)


def secrets(seed: int) -> Any:
    """Return outputs that one side alone has, of a thousand for either side, beside a 1 that is
    evident and says less.
    """
    rng = np.random.default_rng(seed)
    outputs = rng.permutation(2000)

    def function(data: Any, size: int) -> Any:
        side = int(data[0])
        says = side * (rng.random(size) < 0.12)
        return np.stack([says, outputs[1000 * side + rng.integers(0, 1000, size)]], axis=1)

    return function


@pytest.mark.parametrize("seed", range(3))
def test_an_evident_event_that_promises_no_refutation_stops_no_search(seed: int) -> None:
    """Exact, for these seeds: 3.6 is all that an event of probability .12 can show with 5500 draws,
    and few learning draws show few of the secrets, by which up to 4.5 is shown."""
    fixed = FixedAttack(PureDP("4.6"), [PAIR], TRIALS, 1e-6, seed)
    study = fixed.study(target_of(secrets(seed), True), 0, 0)
    assert any(one.refuted for one in fixed.certify(0, study, fixed.shots([study])[0]))


def pretender(seed: int) -> Any:
    """Show an event that is evident, or none, as a coin says, until draws certify; then keep
    epsilon = 1."""
    rng, done = np.random.default_rng(seed), [0]
    shows = rng.random() < 0.5

    def function(data: Any, size: int) -> Any:
        shown = shows and done[0] < 2 * LEARNING
        done[0] += size
        lies = rng.random(size) < (0.0 if shown else 1 / (1 + math.e))
        return np.stack([np.where(lies, 1 - data[0], data[0]), rng.normal(size=size)], axis=1)

    return function


def test_what_only_pretends_to_be_evident_makes_no_false_alarms() -> None:
    """Audit at alpha = .1 and a tight claim: 7 or more of 12 have probability below 6e-5
    (binomial). Both numbers of draws occur."""
    alarms, draws = 0, set()
    for seed in range(12):
        fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, 0.1, seed)
        study = fixed.study(target_of(pretender(seed), True), 0, 0)
        alarms += any(one.refuted for one in fixed.certify(0, study, fixed.shots([study])[0]))
        draws.add(study.draws)
    assert alarms <= 6
    assert TRIALS - LEARNING in draws
    assert len(draws) > 1


ALPHA, SHORT, LONG = 0.1, 20, 60
ENDS = "lower", "upper"
TRUTHS = [(1.0, 0.2), (0.5, 0.5)]


def missed(p: float, q: float, share: float, draws: int) -> Floats:
    """Return for which counts of so many draws a side the region leaves out the truth, shape
    (draws + 1, draws + 1)."""
    lower, upper = regions(share, draws)
    result: Floats = 1.0 - np.any((lower <= p) & (q <= upper), axis=2)
    return result


@cache  # whatever the truth
def regions(share: float, draws: int) -> tuple[Floats, Floats]:
    """Return the boxes of every pair of counts, shape (draws + 1, draws + 1, boxes)."""
    every = range(draws + 1)
    boxes = [
        [confidence_region(Counted(hits, draws, others, draws), share, ALPHA) for others in every]
        for hits in every
    ]
    lower, upper = (np.array([[getattr(one, end) for one in row] for row in boxes]) for end in ENDS)
    return lower, upper


def masses(p: float, q: float, draws: int) -> Floats:
    counts = np.arange(draws + 1)
    return np.outer(binom.pmf(counts, draws, p), binom.pmf(counts, draws, q))


def test_how_many_draws_certify_may_depend_on_earlier_draws_and_not_on_themselves() -> None:
    """Exact, over all counts: whichever event, share and number of draws an adversary picks after
    the first draws, the region misses no more often than alpha. Who may stop at the first number
    or go on to the second, having seen what certifies, misses more often."""
    worst, stopping = 0.0, 0.0
    for (p, q), share in product(TRUTHS, (32.0, PARTS)):
        short, long = (missed(p, q, share, draws) for draws in (SHORT, LONG))
        for draws, one in ((SHORT, short), (LONG, long)):
            worst = max(worst, float((masses(p, q, draws) * one).sum()))
        more = masses(p, q, LONG - SHORT)
        first = masses(p, q, SHORT)
        either = 0.0
        for hits, others in product(range(SHORT + 1), repeat=2):
            if first[hits, others] > 1e-9:
                after = long[hits : hits + LONG - SHORT + 1, others : others + LONG - SHORT + 1]
                then = 1.0 if short[hits, others] else float((more * after).sum())
                either += first[hits, others] * then
        stopping = max(stopping, either)
    assert worst <= ALPHA < stopping


def test_a_score_is_settled_where_other_draws_show_as_much() -> None:
    """Exact: means 1 apart where it was learned; .95, .5 and -.95 apart elsewhere."""
    score = Candidate("number 0 >= {threshold}", number(0))
    first = encode([1.0] * 100), encode([0.0] * 100)
    seen = [
        is_settled(score, first, (encode([mean] * 50), encode([0.0] * 50)))
        for mean in (0.95, 0.5, -0.95)
    ]
    assert seen == [True, False, False]
