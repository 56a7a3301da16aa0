"""The sequential attack: stops early where it can, and is right whenever it stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, NoisyCount, PureDP
from dpverify.audit import AuditResult, NeighboringPair, Verdict, added, audit
from dpverify.audit.independence import InvalidRun
from dpverify.audit.sequential import _float_below
from dpverify.privacy import GaussianDP, Guarantee, ZeroConcentratedDP

PAIR = added("one enters", [0.0, 0.0], 1.0)
FAR = added("a zero enters", [0.0], 0.0)
FAR_TOO = added("another zero enters", [0.0, 0.0], 0.0)
Release = Callable[[Any, int], Any]


def _noisy_sum(kind: str, scale: float, seed: int) -> Release:
    """Rounded to a grid: float noise itself betrays what it is added to, in its last bits."""
    rng = np.random.default_rng(seed)
    return lambda data, size: np.round(sum(data) + getattr(rng, kind)(scale=scale, size=size), 3)


def _sequential(
    release: Release,
    claim: Guarantee,
    trials: int,
    seed: int,
    *,
    alpha: float = 0.05,
    pairs: tuple[NeighboringPair, ...] = (PAIR,),
) -> AuditResult:
    options: dict[str, Any] = {"vectorized": True, "sequential": True}
    return audit(
        release, claim=claim, pairs=pairs, trials=trials, alpha=alpha, seed=seed, **options
    )


def test_a_gross_fault_is_refuted_within_a_thousand_draws() -> None:
    # True epsilon 2.2 against 1. Refuted within 1000 draws a side in at least 17 of 20 runs.
    runs = [_sequential(_noisy_sum("laplace", 1 / 2.2, k), PureDP(1), 1000, k) for k in range(20)]
    violations = [run for run in runs if run.verdict is Verdict.VIOLATED]
    assert len(violations) >= 17
    for run in violations:
        assert run.strongest.refuted
        assert run.strongest.method == "betting"
        assert run.strongest.region is None
        assert run.epsilon >= 1
        assert sum(bet.log_growth for bet in run.bets) >= math.log(1 / 0.05)


def test_it_stops_early_and_says_how_many_draws_it_took() -> None:
    result = _sequential(_noisy_sum("laplace", 0.4, 0), PureDP(1), 10**6, 0, alpha=1e-6)
    assert result.verdict is Verdict.VIOLATED
    assert result.draws < 20_000
    assert 2 * sum(bet.tally.total for bet in result.bets) <= result.draws
    assert (result.bets[0].epsilon, result.bets[0].delta) == (1.0, 0.0)


def test_a_true_tight_claim_is_rarely_refuted_however_long_one_looks() -> None:
    """12 audits of exact Laplace at alpha = .05, each looking after every batch up to 1000 draws.

    More than 4 alarms have probability below .001 if the rate is .05. Seeds are fixed.
    """
    alarms = sum(
        _sequential(_noisy_sum("laplace", 1.0, k), PureDP(1), 1000, k).verdict is Verdict.VIOLATED
        for k in range(12)
    )
    assert alarms <= 4


def test_a_profile_is_tested_at_all_its_points() -> None:
    """Noise 15% too small under a Gaussian claim: invisible in the tails, plain in the bulk."""
    result = _sequential(_noisy_sum("normal", 0.85, 1), GaussianDP(1), 200_000, 1)
    assert result.verdict is Verdict.VIOLATED
    # the certified mu is of the same false-alarm probability, and below the truth
    assert 0.999999 < result.mu < 1 / 0.85  # what is refuted is all of mu = 1, so every smaller mu
    assert 0 < result.rho < 0.5 / 0.85**2
    true = _sequential(_noisy_sum("normal", 1.0, 1), GaussianDP(1), 8000, 1)
    assert true.verdict is Verdict.POWERLESS
    assert true.mu <= 1


def test_of_a_concentrated_claim_too_what_is_refuted_is_certified() -> None:
    """True rho 1/2 against 1/5: bounds of rho are at least what was refuted, and true."""
    result = _sequential(
        _noisy_sum("normal", 1.0, 0), ZeroConcentratedDP("0.2"), 50_000, 0, alpha=1e-4
    )
    assert result.verdict is Verdict.VIOLATED
    assert 0.199999 < result.rho <= 0.5
    assert 0 <= result.mu <= 1


def test_the_budget_goes_to_the_pair_that_tells() -> None:
    release = _noisy_sum("laplace", 0.5, 3)
    result = _sequential(release, PureDP(1), 50_000, 3, alpha=1e-3, pairs=(FAR, PAIR, FAR_TOO))
    assert result.verdict is Verdict.VIOLATED
    assert result.strongest.pair == "one enters"
    assert result.draws < 20_000


def test_mechanisms_of_ours_and_their_faults() -> None:
    mechanism = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    result = audit(mechanism, pairs=[PAIR], trials=20_000, seed=0, sequential=True)
    assert result.verdict is Verdict.CONSISTENT
    assert all(fault.caught for fault in result.faults)
    assert result == audit(mechanism, pairs=[PAIR], trials=20_000, seed=0, sequential=True)


@pytest.mark.parametrize("trials", [100, 1000])
def test_no_more_calls_than_trials(trials: int) -> None:
    calls = []
    noise = np.random.default_rng(0)

    def release(data: Any) -> float:
        calls.append(data)
        return float(sum(data) + 20 * noise.laplace())

    result = audit(
        release, claim=PureDP(1), pairs=[PAIR], trials=trials, seed=0, sequential=True, alpha=0.1
    )
    assert result.verdict is Verdict.POWERLESS
    assert len(calls) == result.draws == 2 * trials


def test_a_function_that_only_fails_was_not_audited() -> None:
    def fails(data: Any) -> Any:
        raise RuntimeError("always")

    with pytest.raises(InvalidRun, match="nothing was audited"):
        audit(fails, claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0, sequential=True)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(
    "value",
    [Fraction(1, 3), Fraction(2), Fraction(1, 10**9), Fraction(10**700), Fraction(1, 10**700)],
)
def test_what_was_refuted_is_rounded_down(value: Fraction, power: int) -> None:
    root = Fraction(_float_below(value, power))
    assert root**power <= value
    if Fraction(1, 10**300) < value < 10**300:
        assert (root * (1 + Fraction(1, 10**15))) ** power > value
