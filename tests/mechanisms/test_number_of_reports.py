"""``number_of_reports``: what it names; votes, scales and refusals are in
test_kth_largest_variance.py."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    NumberOfReports,
    SeededBits,
    UnknownCovarianceMean,
    compose,
)
from dpverify.grid.groups import ReportsWorth
from spec import number_of_reports as spec
from spec.theory.groups import reports_cost

ADD = Adjacency.ADD_REMOVE


def _made(d: int, **parameters: Any) -> NumberOfReports:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "delta": "1e-6", "groups": 300}
    return NumberOfReports(d=d, **base | parameters)


@pytest.mark.parametrize(
    ("variances", "numbers"),
    [
        ([1.0] * 64, {1}),
        ([4.0**-i for i in range(64)], {4, 8}),
        ([100.0] * 8 + [0.01] * 56, {8}),
        ([1.0], {1}),
    ],
)
def test_it_names_what_the_variances_suggest(variances: list[float], numbers: set[int]) -> None:
    """The fullest of 300 votes is another one with probability below 1e-6: nine of ten are
    alike."""
    d, rng = len(variances), np.random.default_rng(8)
    data = 1e6 + rng.normal(size=(300 * 60, d)) * np.sqrt(variances)
    estimate: Any = _made(d).release(data, SeededBits(4))
    assert estimate.reports in numbers
    assert str(estimate).startswith(f"{estimate.reports} (")


def test_numbers_are_exact_powers_of_4_and_those_of_the_spec() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 3, 8, 33):
        sums = (rng.pareto(0.7, d) * 2.0**40).astype(np.int64)
        named = ReportsWorth().of(sums)
        costs = {
            k: reports_cost([Fraction(int(v)) for v in sums], k)
            for k in (1, 2, 4, 8, 16, 32)
            if k <= d
        }
        assert 8 * costs[round(named**0.5)] <= 9.0001 * min(costs.values())
        assert ReportsWorth().of(sums.astype(object) * 2**70) == named
    assert ReportsWorth().of(np.zeros(5, np.int64)) == 1


def test_it_abstains_as_rarely_as_is_said_on_any_data() -> None:
    """60 releases of no records at all: all votes are for one; the bound for four numbers is
    1e-3."""
    made = _made(8)
    assert float(spec.error_bound({**_parameters(made)}, 0)) < 1e-3
    drawn = made.law(np.zeros((0, 8))).sample(SeededBits(2), 60)
    assert not any(isinstance(made.estimate(drawn[i]), Abstained) for i in range(60))
    with pytest.raises(ValueError, match="no number surfaces"):
        _made(64, groups=40).minimum_n()
    assert _made(64).minimum_n() > 300 * 2


def _parameters(made: NumberOfReports) -> dict[str, Any]:
    names = ("adjacency", "noise", "delta", "noise_multiplier", "groups", "records", "d")
    return {name: getattr(made, name) for name in names}


def test_a_mean_takes_its_number_and_both_are_paid_for() -> None:
    number = NumberOfReports.for_budget(ApproxDP("0.2", "1e-7"), adjacency=ADD, d=6, delta="1e-7")
    mean = UnknownCovarianceMean.for_budget(
        ApproxDP("0.8", "9e-7"), adjacency=ADD, d=6, n_max=100_000, reports=2
    )
    assert compose(number.derivation, mean.derivation).conclusion.guarantee.implies(
        ApproxDP(1, "1e-6")
    )
