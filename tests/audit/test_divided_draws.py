"""Draws that certify, divided between the two sides as the event asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from dpverify.audit.counting import divided, hits_of
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
    assert main.draws + main.other_draws == 2 * study.draws
    drawn = [sum(size for record, size in sizes[before:] if record == side) for side in (0.0, 1.0)]
    assert drawn == [main.draws, main.other_draws]
    assert sum(size for _, size in sizes) == 2 * TRIALS


def test_what_looks_for_shared_noise_sees_each_side_by_itself() -> None:
    """Batches of one side come with none of the other."""
    target = target_of(lambda data, size: np.full(size, data[0]), True)
    laws = target(PAIR.left), target(PAIR.right)
    watch = hits_of(laws, [], divided(laws, (0,), (300, 5000), 0), Watch(laws)).watch
    for side, size in enumerate((300, 5000)):
        seen = together(watch.seen[side]).numbers
        assert len(seen) == size
        assert (seen == side).all()


def test_batches_are_as_large_and_each_comes_in_its_part_of_the_whole() -> None:
    """Exact: of 64 batches the k-th of either side comes when k - 1 to k of its parts are over, but
    for one batch; and another seed orders them otherwise."""
    sizes: list[tuple[float, int]] = []
    study, orders = study_of(rare_on_one_side(0, sizes)), []
    for seed in (0, 1):
        sizes.clear()
        batches = list(divided(study.laws, (seed, 0, 0), (16_000, 64_000), 2))
        assert {size for _, size in sizes} == {1250, 16_000 % 1250, 64_000 % 1250} - {0}
        assert [sum(len(batch[at]) for batch in batches) for at in (0, 1)] == [16_000, 64_000]
        order = [record for record, _ in sizes]
        for side, parts in ((0.0, 16_000 / 1250), (1.0, 64_000 / 1250)):
            places = np.flatnonzero(np.array(order) == side) / len(order)
            whole = np.arange(len(places)) / parts
            assert (places > whole - 3 / len(order)).all()
            assert (places < whole + 1 / parts + 3 / len(order)).all()
        orders.append(order)
    assert orders[0] != orders[1]


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
