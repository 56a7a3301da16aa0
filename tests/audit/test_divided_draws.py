"""Draws that certify, divided between the two sides as the event asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpverify.audit import replaced
from dpverify.audit.attack import FixedAttack
from dpverify.audit.confidence_regions import (
    LEAST_PART,
    OF_ODDS,
    PARTS,
    Counted,
    confidence_region,
    own_part_of,
    share_for_parts,
    share_of,
)
from dpverify.audit.counting import Division, divided, hits_of
from dpverify.audit.independence import Watch
from dpverify.audit.outputs.draws import together
from dpverify.audit.studies import Study
from dpverify.audit.subjects import target_of
from dpverify.privacy import PureDP

TRIALS = 60_000
PAIR = replaced("one moves", [0.0], 1.0)
RATES = 0.3, 0.01


def rare_on_one_side(seed: int, sizes: list[tuple[float, int]] | None = None) -> Any:
    """A bit that is far likelier for one record, and numbers that tell nothing; ``sizes`` gets the
    record and the size of every call."""
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        if sizes is not None:
            sizes.append((float(data[0]), size))
        return rng.random(size) < RATES[int(data[0])]

    return function


def study_of(function: Any, *, vectorized: bool = True, planted: bool = False) -> Study:
    fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, 1e-6, 0, planted=planted)
    return fixed.study(target_of(function, vectorized), 0, 0)


def test_the_rarer_side_gets_more_and_no_draw_is_added() -> None:
    """Exact: n and m are as the relative deviations, which for rates .3 and .01 are as 1.5 to 10,
    nearly; and all calls are those of equal draws."""
    sizes: list[tuple[float, int]] = []
    function = rare_on_one_side(0, sizes)
    fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, 1e-6, 0)
    study = fixed.study(target_of(function, True), 0, 0)
    before = len(sizes)
    (shots,) = fixed.shots([study])
    main = max(fixed.certify(0, study, shots), key=lambda one: one.alpha)
    deviations = [math.sqrt((1 - p) / p) for p in RATES]
    part = deviations[0] / sum(deviations)
    assert main.direction == "left over right"
    assert main.refuted
    assert main.draws / (2 * study.draws) == pytest.approx(part, abs=0.02)
    assert 0 <= 2 * study.draws - (main.draws + main.other_draws) < 64
    drawn = [sum(size for record, size in sizes[before:] if record == side) for side in (0.0, 1.0)]
    assert drawn == [main.draws, main.other_draws]
    assert 0 <= 2 * TRIALS - sum(size for _, size in sizes) < 64


def test_what_looks_for_shared_noise_sees_each_side_by_itself() -> None:
    """Batches of one side come with none of the other."""
    target = target_of(lambda data, size: np.full(size, data[0]), True)
    laws = tuple_of(target)
    division = Division.of(5300, 1 / 8, 0)
    watch = hits_of(laws, [], divided(laws, (0,), division, 0), Watch(laws)).watch
    for side, size in enumerate((656, 4592)):
        seen = together(watch.seen[side]).numbers
        assert len(seen) == size
        assert (seen == side).all()


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("own", [1 / 8, 0.3, 0.81])
def test_neither_size_nor_time_of_a_batch_tells_the_side(own: float, side: int) -> None:
    """Exact: all batches are as large, and each group has one batch of the side with fewer; another
    seed puts it elsewhere. The first batch is that side's as often as its part says (100 seeds,
    five standard deviations)."""
    sizes: list[tuple[float, int]] = []
    study, orders = study_of(rare_on_one_side(0, sizes)), []
    division = Division.of(80_000, own, side)
    assert division.sizes[side] / sum(division.sizes) == pytest.approx(own, abs=0.05)
    assert 0 <= 80_000 - sum(division.sizes) < 64 + division.parts
    for seed in range(100):
        sizes.clear()
        one = replace(division, size=1) if seed else division
        batches = list(divided(study.laws, (seed, 0, 0), one, 2))
        assert {size for _, size in sizes} == {one.size}
        assert tuple(sum(len(batch[at]) for batch in batches) for at in (0, 1)) == one.sizes
        order = np.array([record for record, _ in sizes]) == division.fewer
        assert (order.reshape(-1, division.parts).sum(axis=1) == 1).all()
        orders.append(order)
    part, first = 1 / division.parts, np.mean([order[0] for order in orders])
    assert abs(first - part) < 5 * math.sqrt(part * (1 - part) / 100)


def test_what_starts_every_call_is_as_common_on_both_sides() -> None:
    """Exact: outputs that are 1 only among the first 110 of a call are it as often on both
    sides."""

    def starting(data: Any, size: int) -> Any:
        return (np.arange(size) < 110).astype(float)

    laws = tuple_of(target_of(starting, True))
    for own in (0.13, 0.141, 0.3, 0.6, 0.85):
        division = Division.of(150_000, own, 0)
        batches = divided(laws, (0,), division, 0)
        ones = np.sum([[side.numbers.sum() for side in batch] for batch in batches], axis=0)
        assert ones[0] * division.sizes[1] == ones[1] * division.sizes[0] > 0


def tuple_of(target: Any) -> Any:
    return target(PAIR.left), target(PAIR.right)


def test_single_calls_and_planted_faults_get_equal_draws() -> None:
    assert (
        study_of(rare_on_one_side(0), planted=True).sizes[0]
        == study_of(rare_on_one_side(0), planted=True).draws
    )

    rng = np.random.default_rng(0)

    def one_by_one(data: Any) -> bool:
        return bool(rng.random() < RATES[int(data[0])])

    study = study_of(one_by_one, vectorized=False)
    assert study.sizes == (study.draws, study.draws)


def redrawn(after: int, seed: int) -> Any:
    """The same function, whose draws depend on ``seed`` only after so many outputs."""
    rngs, done = [np.random.default_rng(0), np.random.default_rng([1, seed])], [0]

    def function(data: Any, size: int) -> Any:
        rng = rngs[done[0] >= after]
        done[0] += size
        return rng.random(size) < RATES[int(data[0])]

    return function


def test_sizes_are_fixed_before_the_draws_that_certify() -> None:
    """Exact: whatever these are, how many there are of either side stays, and the counts differ."""
    used = 2 * TRIALS - 2 * study_of(rare_on_one_side(0)).draws
    sizes, hits = set(), set()
    for seed in range(3):
        fixed = FixedAttack(PureDP(1), [PAIR], TRIALS, 1e-6, 0)
        study = fixed.study(target_of(redrawn(used, seed), True), 0, 0)
        (shots,) = fixed.shots([study])
        main = max(fixed.certify(0, study, shots), key=lambda one: one.alpha)
        sizes.add((study.sizes, main.draws, main.other_draws))
        hits.add((main.hits, main.other_hits))
    assert len(sizes) == 1
    assert len(hits) == 3


ALPHA, FIRST = 0.3, 12
SIZES = (12, 12), (24, 12), (12, 24), (24, 24), (36, 24), (36, 36)


def _misses(p: float, q: float, sizes: Sequence[tuple[int, int]]) -> float:
    """Return the chance, exactly, that the region misses the truth, where for every outcome of the
    first draws of either side, which count as well, the worst of these sizes is taken."""
    missed = {
        (n, m): np.array(
            [[_is_missed(p, q, k, n, j, m) for j in range(m + 1)] for k in range(n + 1)]
        )
        for n, m in sizes
    }

    def after(x: int, y: int, n: int, m: int) -> float:
        own, other = n - FIRST, m - FIRST
        masses = (binom.pmf(np.arange(k + 1), k, at) for k, at in ((own, p), (other, q)))
        bad = missed[n, m][x : x + own + 1, y : y + other + 1]
        return float(next(masses) @ bad.astype(np.float64) @ next(masses))

    return sum(
        float(binom.pmf(x, FIRST, p) * binom.pmf(y, FIRST, q))
        * max(after(x, y, n, m) for n, m in sizes)
        for x, y in product(range(FIRST + 1), repeat=2)
    )


@cache  # the same of sizes that are fixed and of sizes that draws decide
def _is_missed(p: float, q: float, hits: int, n: int, others: int, m: int) -> bool:
    one = confidence_region(Counted(hits, n, others, m), 32, ALPHA)
    return not bool(np.any((one.lower <= p) & (q <= one.upper)))


def test_sizes_that_follow_the_draws_that_certify_would_break_alpha() -> None:
    """Exact, by enumeration: sizes that are fixed keep alpha, however unequal; sizes that draws
    which count decide do not."""
    assert all(_misses(0.5, 0.5, [one]) <= ALPHA for one in SIZES)
    assert _misses(0.5, 0.5, SIZES) > ALPHA


@pytest.mark.parametrize("share", [1.0, 20.0, 32.0, 52.0, 63.0])
def test_the_part_is_the_best_and_shares_go_with_it(share: float) -> None:
    """Exact: no other part in a hundred has less variance; equal parts give the share back."""
    parts = np.linspace(LEAST_PART, 1 - LEAST_PART, 101)
    variances = (PARTS - share) / parts + share / (1 - parts)
    part = own_part_of(share)
    variance = (PARTS - share) / part + share / (1 - part)
    assert variance <= variances.min() * (1 + 1e-12)
    goes = share_of(math.sqrt((PARTS - share) / part), math.sqrt(share / (1 - part)))
    assert share_for_parts(share, 0.5, part) == goes
    assert share_for_parts(goes, part) == pytest.approx(share, abs=0.1)
    assert share_for_parts(OF_ODDS, part) == OF_ODDS
    assert share_for_parts(PARTS, part) == PARTS
