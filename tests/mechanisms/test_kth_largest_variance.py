"""``kth_largest_variance``, and what it shares with ``sum_of_variances``: votes, scales,
refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammainc, gammaincc

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    KthLargestVariance,
    SeededBits,
    SumOfVariances,
    VarianceEstimate,
)
from dpverify.grid.transcripts import transcript
from spec import kth_largest_variance as kth
from spec import sum_of_variances as total
from spec.theory import group_votes
from spec.theory.laws import real
from tests.mechanisms.helpers import EDGE_DATA, fails_at_most
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
KINDS: list[Any] = [KthLargestVariance, SumOfVariances]
NOISES = ["laplace", "gaussian"]
each = pytest.mark.parametrize("kind", KINDS)


def variance(kind: Any = KthLargestVariance, **parameters: Any) -> Any:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "d": 1, "delta": "1e-3"}
    return kind(**base | parameters)


@each
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("cell", [Fraction(1), Fraction(2) ** -450, Fraction(2) ** 450])
def test_every_dataset_has_a_release(
    kind: Any, noise: str, adjacency: Adjacency, cell: Any
) -> None:
    made = variance(kind, noise=noise, adjacency=adjacency, cell=cell)
    wide = variance(kind, noise=noise, adjacency=adjacency, cell=cell, d=3)
    for data in EDGE_DATA:
        released = made.release(data, SeededBits(1))
        assert isinstance(released, (VarianceEstimate, Abstained))
        assert str(released)
        rows = np.repeat(np.array(data).reshape(-1, 1), 3, axis=1)
        assert isinstance(wide.release(rows, SeededBits(1)), (VarianceEstimate, Abstained))


@each
def test_nobody_and_equal_records_have_no_variance(kind: Any) -> None:
    for data in (np.zeros((0, 4)), np.ones((1, 4)), np.full((500, 4), 1e308)):
        estimate = variance(kind, d=4).release(data, SeededBits(1))
        assert estimate.value == 0.0
        assert list(estimate.votes) == [0.0]


@each
@pytest.mark.parametrize("scale", [2.0**-12, 1.0, 3.7, 2.0**8])
def test_normal_records_are_found_wherever_they_are(kind: Any, scale: float) -> None:
    """One release each; missed with probability at most 1e-6 by the bound."""
    made = variance(kind, d=3, groups=400)
    n = made.minimum_n(beta="1e-6")
    data = np.random.default_rng(5).normal(size=(n, 3)) * np.array([1, 10, 100]) * scale + 777.0
    truth = scale**2 * (10101 if kind is SumOfVariances else 10**4)
    estimate = made.release(data, SeededBits(3))
    assert 1 / 4 <= estimate.value / truth <= 4
    shuffled = np.random.default_rng(6).permutation(data)
    assert made.release(shuffled, SeededBits(3)) == estimate  # nothing depends on the order


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_k_th_is_the_k_th(k: int) -> None:
    """Missed with probability at most 1e-6."""
    made = variance(d=3, k=k, groups=400)
    n = made.minimum_n(beta="1e-6")
    data = np.random.default_rng(6).normal(size=(n, 3)) * np.array([1, 100, 10])
    assert 1 / 4 <= made.release(data, SeededBits(1)).value / 100.0 ** (3 - k) <= 4


@each
@pytest.mark.parametrize("noise", NOISES)
def test_the_minimum_n_is_the_spec_s(kind: Any, noise: str) -> None:
    """Compare: at minimum_n the bound is at most beta, a record less and it is 1: sizes have too
    large a tail."""
    made = variance(kind, d=2, noise=noise, groups=120, delta="1e-2", noise_multiplier="1/4")
    spec, beta = (kth if kind is KthLargestVariance else total), "0.05"
    n = made.minimum_n(beta=beta)
    assert spec.error_bound(made.parameters, n) <= mp.mpf(beta)
    assert spec.error_bound(made.parameters, n - 1) == 1


@each
def test_no_more_misses_than_the_bound(kind: Any) -> None:
    """150 datasets of minimum_n records, at beta = 5%; false alarm below 1e-6. A sum of another
    scale, 16 times the variance, is missed always."""
    made = variance(kind, groups=120, delta="1e-2", noise_multiplier="1/4")
    n, rng = made.minimum_n(beta="0.05"), np.random.default_rng(7)
    values = []
    for i in range(150):
        release = made.release(rng.normal(size=n), SeededBits(8, i))
        values.append(release.value if isinstance(release, VarianceEstimate) else 1e9)
    for truth, right in ((1.0, True), (16.0, False)):
        misses = [float(not 1 / 4 <= value / truth <= 4) for value in values]
        assert fails_at_most(misses, 0.5, 0.05) is right


@each
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("multiplier", ["1/20", "1", "10/3", "300"])
@pytest.mark.parametrize("delta", ["0.3", "1e-3", "1e-9"])
def test_the_threshold_and_the_groups_are_the_spec_s(
    kind: Any, noise: str, adjacency: Adjacency, multiplier: str, delta: str
) -> None:
    made = variance(
        kind, noise=noise, adjacency=adjacency, noise_multiplier=multiplier, delta=delta
    )
    estimate = made.estimate(transcript({"votes": (0, 10**6)}))
    assert estimate.threshold == group_votes.threshold_of(made.parameters)
    assert made.group_count == group_votes.groups_of(made.parameters)
    with mp.workdps(60):
        surfaces = group_votes.surfaces(made.parameters, estimate.threshold)
        assert 0 <= real(made.claim.guarantee.delta_floor) / surfaces - 1 < mp.mpf(10) ** -12


def test_an_estimate_reads_well() -> None:
    made = variance(groups=90, noise_multiplier=3)
    estimate = made.estimate(transcript({"votes": (-1024, 30, 3, 41, 20, 41)}))
    unit = 2.0**-40
    assert estimate.votes == {0.0: 30, 128 * unit: 41, 2.0**41 * unit: 41}
    assert estimate.value == 128 * unit  # of two that are as full, the lower
    assert str(estimate) == "1.16415e-10, within a factor of 4 (41 of 90 groups)"
    nothing = made.estimate(transcript({"votes": ()}))
    assert str(nothing).startswith("abstained: no bucket has")


def test_the_chance_that_a_group_is_off_is_that_of_chi_square() -> None:
    """Compare with SciPy and the spec; for a sum with Chernoff's bound."""
    made = variance(d=7, k=3)
    for pairs in (1, 10, 40):
        exact = 3 * gammainc(pairs / 2, pairs / 4) + 5 * gammaincc(pairs / 2, pairs)
        assert made.off(pairs) == pytest.approx(exact)
        assert made.off(pairs) == pytest.approx(float(group_votes.exactly_off(3, 7, pairs)))
        least = variance(SumOfVariances).off(pairs)
        assert least == pytest.approx(float(group_votes.off_by_two(pairs)))


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"k": 0}, ValueError, r"k = 0 is outside 1\.\.2"),
    ({"k": 3}, ValueError, r"k = 3 is outside 1\.\.2"),
    ({"d": 0}, ValueError, "at least one number"),
    ({"d": 1.5}, TypeError, "d = 1.5"),
    ({"groups": 0}, ValueError, "from 1 to 2.20"),
    ({"groups": 10, "records": 19}, ValueError, "groups of two need at least 20"),
    ({"records": 1}, ValueError, "groups of two need at least 2"),
    ({"cell": "0.3"}, ValueError, "not a power of two"),
    ({"cell": Fraction(2) ** -451}, ValueError, "take another unit"),
    ({"key": -1}, ValueError, "outside 0"),
    ({"delta": 0}, ValueError, r"outside \(0, 1\)"),
    ({"noise": "Laplace"}, ValueError, "write 'laplace' or 'gaussian'"),
    ({"noise_multiplier": 0}, ValueError, "use for_budget"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(change: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        variance(**{"d": 2} | change)


@each
def test_what_can_show_nothing_is_refused_before_a_draw(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"together are below the threshold.*Give at least"):
        variance(kind, groups=3).release([1.0, 2.0], NoBits())
    with pytest.raises(
        ValueError, match=r"more than the 2\^20 groups there may be; take a larger budget"
    ):
        variance(kind, noise_multiplier=10**7).release([1.0, 2.0], NoBits())
    with pytest.raises(ValueError, match=r"from 2\^-10 to 2\^45"):
        variance(kind, noise="gaussian", noise_multiplier=Fraction(1, 2**12)).release([], NoBits())
    for data, message in (([[1.0, 2.0]], r"shape \(n, 1\)"), ([np.nan], "is not finite")):
        with pytest.raises(ValueError, match=message):
            variance(kind).release(data, NoBits())
    with pytest.raises(ValueError, match="Give more groups"):
        variance(kind, groups=30).minimum_n()
    with pytest.raises(ValueError, match="beta = 2 is outside"):
        variance(kind).minimum_n(beta=2)


def test_a_nonfinite_record_counts_as_the_origin_when_replaced() -> None:
    made = variance(nonfinite="replace", d=2)
    estimate = made.release([[np.nan, 5.0], [0.0, np.inf], [0.0, 0.0]] * 40, SeededBits(1))
    assert estimate.value == 0.0


@each
def test_no_more_groups_than_there_are_pairs_of_records(kind: Any) -> None:
    made = variance(kind, records=101)
    assert made.group_count == group_votes.groups_of(made.parameters) == 50
    assert variance(kind, records=10**6).group_count == variance(kind).group_count


@each
@pytest.mark.parametrize("adjacency", Adjacency)
def test_claims_are_those_of_the_rules(kind: Any, adjacency: Adjacency) -> None:
    one, two = (
        variance(kind, adjacency=adjacency, noise=noise, noise_multiplier=2) for noise in NOISES
    )
    assert isinstance(one.claim.guarantee, ApproxDP)
    assert one.claim.guarantee.epsilon == Fraction(1, 2)
    assert isinstance(two.claim.guarantee, ApproximateGaussianDP)
    assert 0 <= 1 - 4 * two.claim.guarantee.mu_squared < Fraction(1, 10**8)


@each
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_budget_is_met_and_hardly_more(kind: Any, adjacency: Adjacency) -> None:
    budget = ApproxDP(1, "1e-6")
    for noise in NOISES:
        made = kind.for_budget(
            budget,
            adjacency=adjacency,
            d=4,
            delta=Fraction(1, 2 * 10**6),
            noise=noise,
            records=10**5,
        )
        assert made.claim.guarantee == budget
        less = made.noise_multiplier * Fraction(9999, 10**4)
        assert not replace(made, budget=None, noise_multiplier=less).composed.implies(budget)


@each
def test_nothing_depends_on_the_floating_point_environment(kind: Any) -> None:
    data = np.array([[1e308], [-5e-324], [3.0], [1.0]] * 50)
    made = variance(kind)
    expected = made.release(data, SeededBits(6))
    with np.errstate(all="raise"):
        assert made.release(data, SeededBits(6)) == expected
