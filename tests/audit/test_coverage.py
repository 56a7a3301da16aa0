"""The auditor's measure of its own false alarms: the truths it compares with, and broken
auditors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpverify.audit import attack, certificates, scouting
from dpverify.audit.attack import FixedAttack
from dpverify.audit.betting import Wealth
from dpverify.audit.cases import cases
from dpverify.audit.certificates import Certificate
from dpverify.audit.confidence_regions import ConfidenceRegion, Counted, confidence_region
from dpverify.audit.coverage import (
    Coverage,
    chance_of_failing,
    limit_of,
    measure,
    mistakes,
    repeats_of,
)
from dpverify.audit.independence import EventWatch, Watch
from dpverify.audit.outputs import laws
from dpverify.audit.truths import Finite, Gaussian, Laplace, Truth
from dpverify.audit.witnesses import choosing
from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    DiscreteLaplaceShift,
    GaussianDP,
    PureDP,
)
from dpverify.randomness import SeededBits

# --- truths -------------------------------------------------------------------------------------


def _binned(distribution: Any, shift: float) -> tuple[float, ...]:
    ends = distribution(np.linspace(-9, 10, 3801) - shift)
    return tuple(np.diff(np.concatenate([[0.0], ends, [1.0]])))


def _laplace(x: Any) -> Any:
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))


@pytest.mark.parametrize(
    ("truth", "distribution"), [(Gaussian(1.0), ndtr), (Laplace(1.0), _laplace)]
)
def test_continuous_truths_agree_with_fine_bins(truth: Truth, distribution: Any) -> None:
    """Binning is post-processing: it shows a little less, and not more."""
    masses = [_binned(distribution, shift) for shift in (1.0, 0.0)]
    own, other = (tuple(max(m, 1e-300) for m in side) for side in masses)
    binned = Finite(own, other)
    for epsilon in (0.0, 0.3, 0.9):
        shown = binned.delta_at(epsilon)
        assert shown - 1e-12 <= truth.delta_at(epsilon) <= shown * (1 + 1e-3)
    # The 3802 bins need no points between them.
    q, p = np.cumsum(np.array(other)[::-1]), np.cumsum(np.array(own)[::-1])
    inside = (q > 1e-9) & (p < 1 - 1e-9)
    steepest = np.max(ndtri(p[inside]) - ndtri(q[inside]))
    assert steepest <= truth.mu + 1e-6
    assert steepest >= truth.mu * (1 - 1e-3)
    assert truth.epsilon_at(0.1) == pytest.approx(binned.epsilon_at(0.1), rel=1e-3)
    keep = (np.array(own) > 1e-12) & (np.array(other) > 1e-12)
    within = Finite(tuple(np.array(own)[keep]), tuple(np.array(other)[keep]))
    assert within.rho == pytest.approx(truth.rho, rel=2e-3)


def test_truths_agree_with_the_kernel() -> None:
    p = math.e / (1 + math.e)
    response = Finite((p, 1 - p), (1 - p, p))
    for epsilon in (0, Fraction(1, 4), Fraction(3, 4), 2):
        at = float(epsilon)
        for truth, guarantee in (
            (response, PureDP(1)),
            (response, DiscreteLaplaceShift(1, 1)),
            (Gaussian(1.0), GaussianDP(1)),
        ):
            assert truth.delta_at(at) == pytest.approx(float(guarantee.delta_at(epsilon).upper))
    assert response.epsilon_at(0.0) == pytest.approx(1.0)
    assert response.mu == pytest.approx(2 * ndtri(p))
    assert response.rho == pytest.approx(2 * p - 1, rel=1e-6)  # its divergence of order 1
    assert response.everywhere == 0.0
    expected = float(GaussianDP(1).epsilon_at("1e-3").upper)
    assert Gaussian(1.0).epsilon_at(1e-3) == pytest.approx(expected)


def test_what_is_impossible_has_no_bound() -> None:
    truth = Finite((0.1, 0.9), (0.0, 1.0))
    assert truth.everywhere == 0.1
    assert truth.epsilon_at(0.05) == truth.mu == truth.rho == math.inf
    assert truth.epsilon_at(0.1) == 0.0
    assert truth.delta_at(50.0) == 0.1


# --- cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(cases()))
def test_claims_are_true_and_tight(name: str) -> None:
    """True at every point that is tested; of a small epsilon that is claimed of nothing, 0.001
    is left."""
    case = cases()[name]
    for epsilon, delta in certificates.tested_points(case.claim):
        shown = case.truth.delta_at(epsilon)
        assert shown <= delta + 1e-12
        if isinstance(case.claim, (PureDP, ApproxDP)):
            assert case.truth.epsilon_at(delta) <= epsilon + 1e-12
            assert delta > 0 or case.truth.epsilon_at(0.0) >= epsilon - 1.1e-3
        if not isinstance(case.claim, ApproximateGaussianDP):
            assert shown == pytest.approx(delta, abs=1e-9)
    assert case.truth.everywhere == pytest.approx(float(case.claim.delta_floor), abs=1e-9) or (
        isinstance(case.truth, Gaussian)
    )


def test_limits() -> None:
    assert limit_of(2000, 0.05) == binom.ppf(0.999, 2000, 0.05)
    assert chance_of_failing(2000, 0.05) <= 1e-3
    coverage = Coverage("a case", 0.05, 2000, 100, limit_of(2000, 0.05) + 1, {})
    assert not coverage.passed
    low, high = coverage.interval
    assert low < coverage.alarms / 2000 < high
    assert {repeats_of(case, quick=False) for case in cases().values()} == {2000, 20_000}


# --- measuring ----------------------------------------------------------------------------------

_REPEATS = 100
"""Limit 13 at alpha 0.05, for an auditor that is wrong in every fifth run."""
_FEW = 40
"""Number of runs of broken auditors that are wrong most of the time, and of a sound one: the limit
is 7, or 5 of 20. A sound auditor fails a case with probability 1e-3 at most (seeds are fixed)."""
_KEPT = "Laplace, noise kept for 20 calls, one by one"
_SEQUENTIAL = "randomized response, sequential"
_SHARED = ("Gaussian, ours", "three answers, ours", "an impossible event, ours", "a rare event")


def _measured(name: str, *, certified: int = 20, repeats: int = _FEW) -> Coverage:
    """Measure coverage with choices that certificates share, to be fast; 1: every audit is a
    whole one."""
    case = dataclasses.replace(cases()[name], certified=certified)
    return measure(case, repeats=repeats, seed=1)


@pytest.mark.parametrize("name", _SHARED)
def test_the_auditor_passes(name: str) -> None:
    coverage = _measured(name)
    assert coverage.passed, coverage
    assert (coverage.repeats, coverage.choices) == (_FEW, _FEW / 20)


@pytest.mark.parametrize("name", ["Gaussian, ours", _SEQUENTIAL])
def test_whole_audits_pass(name: str) -> None:
    repeats = _FEW // 2 if name == _SEQUENTIAL else _FEW
    assert _measured(name, certified=1, repeats=repeats).passed


@pytest.mark.parametrize("name", ["Gaussian, ours", "an impossible event"])
def test_an_auditor_that_forgets_alpha_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(counted: Counted, share: int, alpha: float) -> ConfidenceRegion:
        return confidence_region(counted, share, 0.5)

    monkeypatch.setattr(certificates, "confidence_region", careless)
    coverage = _measured(name)
    assert not coverage.passed, coverage


def test_choosing_and_certifying_on_the_same_draws_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose thresholds by counting; those of a fitted curve hardly bend to their draws (2
    alarms of 100)."""

    def of_the_side(seed: int, stream: int, index: int, side: int, *purpose: int) -> SeededBits:
        return SeededBits(seed, stream, index, side)

    monkeypatch.setattr(laws, "SeededBits", of_the_side)
    monkeypatch.setattr(scouting, "study_sizes", lambda trials, *_: (0, trials // 2))
    monkeypatch.setattr(choosing, "moved", lambda chosen, *_: (chosen, chosen.promise))
    coverage = _measured("Gaussian, ours", certified=1, repeats=_REPEATS)
    assert not coverage.passed, coverage


def test_the_best_of_several_unadjusted_bounds_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    certify = FixedAttack.certify

    def best_of_many(self: FixedAttack, stream: int, study: Any, shots: Any) -> Any:
        attempts = [certify(self, 1000 * stream + i, study, shots) for i in range(10)]
        return [max(tried, key=lambda one: one.epsilon) for tried in zip(*attempts, strict=True)]

    monkeypatch.setattr(FixedAttack, "certify", best_of_many)
    coverage = _measured("three answers, ours")
    assert not coverage.passed, coverage


def test_a_betting_auditor_that_forgets_alpha_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Wealth.bound
    monkeypatch.setattr(Wealth, "bound", lambda self, alpha: bound(self, 0.7))
    coverage = _measured(_SEQUENTIAL, certified=1, repeats=_FEW // 2)
    assert not coverage.passed, coverage


def test_every_bound_above_the_truth_is_a_mistake() -> None:
    def certificate(**more: Any) -> Certificate:
        known: dict[str, Any] = {"delta": 0.0, "epsilon": 0.5, "claimed": 1.0, "alpha": 0.05}
        return Certificate("", "", "", 50, 100, 40, 100, 32, **{**known, **more})

    truth = Gaussian(1.0)
    assert list(mistakes([certificate()], truth)) == []
    for wrong, kind in (
        ({"refuted": True}, "verdict"),
        ({"delta": 0.2, "epsilon": 0.8}, "epsilon"),
        ({"mu": 1.01}, "mu"),
        ({"rho": 0.51}, "rho"),
        ({"everywhere": 0.01}, "everywhere"),
    ):
        kinds: Sequence[str] = list(mistakes([certificate(**wrong)], truth))
        assert kind in kinds


# --- single calls -------------------------------------------------------------------------------


def test_single_calls_pass() -> None:
    assert _measured("randomized response in phases, one by one", repeats=_REPEATS).passed
    assert _measured(_KEPT, certified=1, repeats=_FEW // 2).alarms == 0


def test_an_auditor_that_calls_one_side_before_the_other_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_blocks(functions: Any, order: Any) -> Any:
        return called(functions, np.sort(order))

    called = laws.called
    monkeypatch.setattr(laws, "called", in_blocks)
    monkeypatch.setattr(attack, "refuse_kept", lambda watch: None)
    coverage = _measured("randomized response in phases, one by one", repeats=_REPEATS)
    assert not coverage.passed, coverage


def test_an_auditor_that_does_not_look_for_shared_noise_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Watch, "require_fresh", lambda self: None)
    monkeypatch.setattr(EventWatch, "require_fresh", lambda self: None)
    monkeypatch.setattr(attack, "refuse_kept", lambda watch: None)
    coverage = _measured(_KEPT, certified=1, repeats=_FEW // 2)
    assert not coverage.passed, coverage
