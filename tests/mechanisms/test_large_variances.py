"""``large_variances``: what it finds, its refusals, and that its numbers are the spec's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    LargeVariances,
    LargeVariancesEstimate,
    SeededBits,
)
from dpverify.grid import View
from dpverify.grid.groups import GroupBuckets, KthLargest, buckets_of
from dpverify.grid.levels import LevelCounts, bucket_table
from dpverify.grid.transcripts import transcript
from dpverify.plans import Adaptive, Stage, stages_of
from dpverify.privacy import Domain, Norm
from spec import large_variances as spec
from spec.theory import groups, levels
from tests.mechanisms.helpers import EDGE_DATA
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def made(**parameters: Any) -> LargeVariances:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "d": 3, "reports": 2}
    given = base | {"n_max": 400, "largest": 100} | parameters
    return LargeVariances(**{k: v for k, v in given.items() if v is not None})


def released(mechanism: LargeVariances, data: Any, seed: int) -> LargeVariancesEstimate:
    estimate = mechanism.release(data, SeededBits(seed))
    assert isinstance(estimate, LargeVariancesEstimate)
    return estimate


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("start", [{"largest": 4}, {"largest": None, "delta": "1e-2"}])
@pytest.mark.parametrize("cell", [Fraction(1), Fraction(2) ** -450, Fraction(2) ** 450])
def test_every_dataset_has_a_release(adjacency: Adjacency, start: Any, cell: Any) -> None:
    mechanism = made(adjacency=adjacency, cell=cell, **start)
    for data in EDGE_DATA:
        rows = np.repeat(np.array(data, np.float64).reshape(-1, 1), 3, axis=1)
        release = mechanism.release(rows, SeededBits(1))
        assert isinstance(release, (LargeVariancesEstimate, Abstained))
        assert str(release)


@pytest.mark.parametrize("seed", range(5))
def test_columns_are_found_wherever_their_means_are(seed: int) -> None:
    """Five releases, each wrong with probability at most 1e-6 by the bound."""
    deviations = 64.0 * np.array([1, 1 / 40, 1 / 5, 1 / 200])
    mechanism = made(d=4, reports=2, n_max=9000, largest=None, delta="1e-6")
    n = mechanism.minimum_n(beta="1e-6")
    data = np.random.default_rng(seed).normal(size=(n, 4)) * deviations - 3000.0
    estimate = released(mechanism, data, seed)
    assert list(estimate.variances) == [0, 2]
    for column, value in estimate.variances.items():
        assert 1 / 4 <= value / deviations[column] ** 2 <= 4
    assert deviations[1] ** 2 <= 2 * estimate.below
    shuffled = np.random.default_rng(6).permutation(data)
    assert released(mechanism, shuffled, seed) == estimate  # nothing depends on the order


def test_a_column_is_reported_once_and_the_list_has_an_end() -> None:
    data = np.random.default_rng(1).normal(size=(3000, 3)) * np.array([1.0, 8.0, 8.0])
    estimate = released(made(reports=3, n_max=3000, largest=64), data, 2)
    assert list(estimate.variances) == [1, 2, 0]
    short = released(made(reports=3, n_max=3000, largest=64, depth=2), data, 2)
    assert list(short.variances) == [1, 2]
    assert short.below == 16.0


@pytest.mark.parametrize("start", [{"largest": 4}, {"largest": None, "delta": "1e-3"}])
def test_the_minimum_n_is_the_spec_s(start: Any) -> None:
    """Compare: at minimum_n the bound is at most beta, a record less and it is above."""
    mechanism, beta = made(n_max=6000, d=2, reports=1, **start), "0.05"
    n = mechanism.minimum_n(beta=beta)
    assert spec.error_bound(mechanism.parameters, n) <= mp.mpf(beta)
    assert spec.error_bound(mechanism.parameters, n - 1) > mp.mpf(beta)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_plan_is_the_spec_s_for_every_prefix(adjacency: Adjacency) -> None:
    """Answers, threshold, noise and start of the second round, after each first report."""
    mechanism = made(adjacency=adjacency, d=2, n_max=60, cell=Fraction(1))
    data = np.random.default_rng(3).normal(size=(60, 2)) * np.array([9.0, 4.0])
    exact = [tuple(map(Fraction, row)) for row in data.tolist()]
    law, stated = mechanism.law(data), spec.law(mechanism.parameters, exact)
    second: Any = mechanism.fixed_plan[1]
    assert isinstance(second, Adaptive)
    for place in range(mechanism.ladder().asked + 1):
        stage = second.build((place,))
        assert isinstance(stage, Stage)
        noise: Any = stage.noise
        center = tuple(law.center(stage.query).tolist())
        shipped = (center, noise.threshold, noise.scale, noise.query_scale, noise.start, False)
        expected: Any = stated.stages[1][1](((place,),))
        assert expected.facts() == ("AboveThreshold", *shipped)


def test_the_table_is_the_spec_s() -> None:
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.normal(size=(40, 2)) * 99, np.full((3, 2), 1e308), [[0, 5e-324]]])
    grouping = GroupBuckets(KthLargest(1), 2, 7, -3)
    cells = [
        tuple(min(max(round(Fraction(x) * 8), -(2**40)), 2**40) for x in row)
        for row in rows.tolist()
    ]
    expected = levels.table(groups.members(cells, groups.Hash(7)), 2)
    assert bucket_table(grouping, View(rows)).tolist() == expected


def test_buckets_are_exact_at_their_edges() -> None:
    for divisor in (1, 2, 6, 26, 1 << 20):
        for b in (-2, 0, 1, 9, 20, 40):
            edge = Fraction(4) ** b * divisor
            sums = [-(-edge.numerator // edge.denominator) + i for i in (-1, 0, 1)]
            wide = np.array([s for s in sums if s > 0], object)[np.newaxis]
            expected = [groups.bucket(Fraction(int(s), divisor)) for s in wide[0]]
            divisors = np.array([divisor])
            assert buckets_of(wide, divisors).tolist() == [expected]
            if max(sums) < 1 << 61:
                assert buckets_of(wide.astype(np.int64), divisors).tolist() == [expected]
    assert buckets_of(np.array([[0, 4], [4, 0]]), np.array([2, 1])).tolist() == [
        [-1024, 0],
        [1, -1024],
    ]


def test_the_sensitivity_is_that_of_groups() -> None:
    query = LevelCounts(GroupBuckets(KthLargest(1), 2, 7, 0), (3, 1))
    for adjacency, value in ((ADD, 1), (REPLACE, 2)):
        shown = query.sensitivity(adjacency, Domain(2)).conclusion
        assert shown.norm is Norm.L_INFINITY
        assert shown.value == value


def test_without_a_bucket_it_abstains() -> None:
    mechanism = made(largest=None, delta="1e-6")
    silent = transcript({"largest": (), "report 1": (0,), "report 2": (1,)})
    assert isinstance(mechanism.estimate(silent), Abstained)


def test_an_estimate_reads_well() -> None:
    assert str(LargeVariancesEstimate({3: 2.0}, 0.25)) == "{3: 2}, others below 0.25"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"reports": 0}, r"reports = 0 is outside 1..3"),
        ({"reports": 4}, r"reports = 4 is outside 1..3"),
        ({"d": 0, "reports": 1}, r"d = 0"),
        ({"n_max": 1}, r"groups of two need 2 records"),
        ({"groups": 300}, r"400 records \(n_max\) make 1 to 200 groups"),
        ({"depth": 0}, r"depth = 0"),
        ({"cell": 3}, r"power of two"),
        ({"key": -1}, r"key = -1"),
        ({"largest": 0}, r"largest = 0 is not positive"),
        ({"delta": "1e-6"}, r"Give either largest"),
        ({"largest": None}, r"Give either largest"),
        ({"largest": None, "delta": 1}, r"delta = 1 is outside"),
    ],
)
def test_bad_parameters_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**parameters)


def test_too_few_groups_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="Raise n_max or the budget"):
        made(n_max=200, noise_multiplier=9).minimum_n()
    with pytest.raises(ValueError, match="beta = 2 is outside"):
        made().minimum_n(beta=2)
    with pytest.raises(ValueError, match="columns"):
        made().release(np.zeros((4, 2)), NoBits())


def test_a_budget_is_met() -> None:
    budget = ApproxDP(1, "1e-6")
    for adjacency in Adjacency:
        mechanism = LargeVariances.for_budget(
            budget, adjacency=adjacency, d=50, reports=9, n_max=10**5, delta="1e-7"
        )
        assert mechanism.claim.guarantee == budget
        assert len(stages_of(mechanism.fixed_plan)) == 10
