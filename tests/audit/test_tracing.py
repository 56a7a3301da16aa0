"""Tracing: bare means are caught, true claims never, and the bets are fair."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpverify import Adjacency, ApproxDP, PureDP, RescaledMean
from dpverify.audit import Gaussians, TracingResult, Verdict, audit_tracing, traces
from dpverify.audit.traces import SCORES, Score, Trace, best_stakes
from dpverify.plans import Abstained
from dpverify.privacy import GaussianDP
from dpverify.privacy.numbers import Floats

Release = Callable[[Floats], Any]
WIDE = Gaussians(20, np.ones(200))


def _bare(records: Floats) -> Floats:
    return np.asarray(records.mean(axis=0))


def _trace(subject: Any, claim: Any, **changes: Any) -> TracingResult:
    given: dict[str, Any] = {
        "claim": claim,
        "adjacency": Adjacency.REPLACE,
        "instance": WIDE,
        "runs": 40,
        "seed": 7,
    }
    return audit_tracing(subject, **{**given, **changes})


# --- what must be caught ------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_mean_without_noise_is_caught(adjacency: Adjacency) -> None:
    result = _trace(_bare, ApproxDP(1, "1e-6"), adjacency=adjacency)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon == result.fault > 5
    assert result.estimate > 1.5


def _noised(radius: float, deviation: float, seed: int) -> Release:
    """Return the mean of records moved into a ball about 0, with Gaussian noise: 2
    radius / n / deviation-GDP."""
    rng = np.random.default_rng(seed)

    def release(records: Floats) -> Floats:
        lengths = np.linalg.norm(records, axis=1, keepdims=True)
        inside = records * np.minimum(1, radius / lengths)
        noise = deviation * rng.standard_normal(records.shape[1])
        return np.asarray(inside.mean(axis=0) + noise)

    return release


NEAR = Gaussians(20, np.ones(200), 0.1)
RADIUS = 15.0


def _epsilon(mu: float, delta: float) -> float:
    """Return the exact epsilon at delta of Gaussian noise, a hair above."""
    low, high = 0.0, 200.0
    for _ in range(40):
        middle = (low + high) / 2
        exact = GaussianDP(Fraction(mu)).delta_at(Fraction(middle)).upper
        low, high = (low, middle) if exact <= delta else (middle, high)
    return high


@pytest.mark.parametrize("mu", [1.0, 4.0, 12.0])
def test_a_noised_mean_is_never_certified_above_its_truth(mu: float) -> None:
    """5 audits at alpha = 1e-4: one is wrong by chance with probability 5e-4, 1.5e-3 in all
    three."""
    truth, delta = _epsilon(mu, 0.01), "0.01"
    deviation = 2 * RADIUS / NEAR.n / mu
    epsilons = [
        _trace(
            _noised(RADIUS, deviation, k), ApproxDP(1, delta), alpha=1e-4, instance=NEAR, seed=k
        ).epsilon
        for k in range(5)
    ]
    assert max(epsilons) <= truth
    if mu == 12:  # and something is seen where there is something to be seen
        assert min(epsilons) > 1


def test_a_tenth_of_the_noise_is_caught() -> None:
    deviation = 2 * RADIUS / NEAR.n / 1.0
    claim = ApproxDP(Fraction(_epsilon(1.0, 0.01)), "0.01")
    assert _trace(_noised(RADIUS, deviation / 10, 0), claim, instance=NEAR).verdict is (
        Verdict.VIOLATED
    )
    result = _trace(_noised(RADIUS, deviation, 0), claim, instance=NEAR)
    assert result.verdict is Verdict.CONSISTENT
    assert result.fault > 4 > result.epsilon


def _randomized_sign(epsilon: float, seed: int) -> Release:
    rng = np.random.default_rng(seed)
    kept = 1 / (1 + math.exp(-epsilon))

    def release(records: Floats) -> Floats:
        return np.asarray(np.sign(records[0]) * (1 if rng.random() < kept else -1))

    return release


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_randomized_sign_is_seen_and_never_above_its_epsilon(epsilon: float) -> None:
    """The scores imply asinh(tanh(epsilon / 2)) = 0.24, 0.45, 0.70 and, where they are large, more.

    Certified above the truth with probability 1e-3 at most; the estimate has a standard error of
    0.025 at most, so it is off by 0.12 with probability below 2e-6.
    """
    alone = Gaussians(1, [1.0], 0.0)
    result = _trace(
        _randomized_sign(epsilon, 3), PureDP(epsilon), instance=alone, runs=1500, alpha=1e-3
    )
    assert epsilon / 10 < result.epsilon <= epsilon
    assert abs(result.estimate - math.asinh(math.tanh(epsilon / 2))) < 0.12


def test_what_delta_allows_is_not_held_against_a_claim() -> None:
    """The bare mean with probability 1/5: (0, 1/5)-DP, and nothing with a smaller delta.

    Each false alarm has probability 1e-4, 1e-3 over the seeds."""

    def sometimes(seed: int) -> Release:
        rng = np.random.default_rng(seed)
        return lambda records: _bare(records) if rng.random() < 0.2 else None

    for seed in range(10):
        result = _trace(sometimes(seed), ApproxDP("0.01", "1/5"), alpha=1e-4, seed=seed)
        assert result.epsilon == 0
        assert result.verdict is Verdict.CONSISTENT
    caught = _trace(sometimes(0), ApproxDP("0.01", "1/50"), alpha=1e-4, runs=120)
    assert caught.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_rescaled_mean_is_not_caught(adjacency: Adjacency) -> None:
    """False alarms of probability 1e-6. The bare mean of the same records is caught."""
    mechanism = RescaledMean.for_budget(
        ApproxDP(3, "1e-3"), adjacency=adjacency, covariance=np.ones(600), n_max=120
    )
    assert mechanism.minimum_n() <= 120
    result = audit_tracing(mechanism, instance=Gaussians(120, np.ones(600)), runs=20, seed=1)
    assert result.verdict is Verdict.CONSISTENT
    assert result.abstained == 0
    assert result.epsilon < 3 < result.fault
    again = audit_tracing(mechanism, instance=Gaussians(120, np.ones(600)), runs=20, seed=1)
    assert str(again) == str(result)


# --- the bets -----------------------------------------------------------------------------------


def _value(score: Score, z: float) -> float:
    return score.of(np.array([z]))


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_what_is_expected_without_the_record_is_right_and_rounded_up(score: Score) -> None:
    def mass(z: float) -> float:
        return float(abs(_value(score, z)) * norm.pdf(z))

    edges = sorted({-9.0, -score.at, 0.0, score.at, 9.0})
    true = sum(quad(mass, a, b, epsabs=1e-14)[0] for a, b in pairwise(edges))
    assert true <= score.expected <= true * (1 + 1e-6)
    assert all(-1 <= _value(score, z) <= 1 for z in (-1e9, -1.0, 0.0, 1.0, 1e9))
    assert _value(score, 0.0) == 0
    assert score.kind == "signed" or _value(score, -3.0) == 0


@cache
def _on_the_grid(score: Score) -> Floats:
    """Return the score of 4000 normal numbers, each as likely."""
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)
    return np.array([_value(score, x) for x in z])


@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.01), (1.0, 1e-6), (3.0, 0.2)])
def test_no_private_law_of_scores_is_above_what_is_allowed(
    score: Score, epsilon: float, delta: float
) -> None:
    """The laws that privacy just allows, on a fine grid of normal scores: best at the top, least
    below."""
    values = _on_the_grid(score)
    q = np.full(4000, 1 / 4000)
    signed = score.kind == "signed"
    gain = np.exp(epsilon) * (q @ np.maximum(values, 0)) + delta
    loss = np.exp(-epsilon) * max(q @ np.maximum(-values, 0) - delta, -delta if signed else 0.0)
    allowed = float(score.allowed(np.array([epsilon]), delta)[0])
    # the grid's own average is off by less than a cell; a tenth of e^epsilon or delta would be seen
    assert gain - loss <= allowed + 2e-3 * math.exp(epsilon)
    assert allowed <= gain - loss + (delta if signed else 0) + 2e-3 * math.exp(epsilon) + 1e-9


def _pure_noise(seed: int) -> Trace:
    rng, trace = np.random.default_rng(seed), Trace()
    for _ in range(300):
        trace.add(rng.standard_normal(5), 1.0)
    return trace


def test_an_estimate_of_nothing_is_certified_of_nothing() -> None:
    """10 audits at alpha = 1e-3 whose scores are exactly fair at epsilon = 0: wrong with
    probability 1e-2 by chance, with fixed seeds."""
    assert all(_pure_noise(k).bet([(1.0, 0.0)], 1e-3).epsilon == -math.inf for k in range(10))


def test_too_small_an_expectation_would_certify_it(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Score.expected.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Score, "expected", property(lambda score: right(score) * 0.7))
    assert any(_pure_noise(k).bet([(1.0, 0.0)], 1e-3).epsilon >= 0 for k in range(5))


def _on_the_edge(epsilon: float, delta: float, seed: int, more: float = 1.0) -> Trace:
    """Draw every score 1 as often as (epsilon, delta)-DP allows, or ``more`` times that, all
    together."""
    rng, trace = np.random.default_rng(seed), Trace()
    most = [more * float(score.allowed(np.array([epsilon]), delta)[0]) for score in SCORES]
    trace.rows = [(rng.random() < np.array(most)).astype(np.float64) for _ in range(100)]
    return trace


def test_bounds_are_above_the_truth_as_rarely_as_said() -> None:
    """alpha = 1/5, 60 audits on the edge of (1/2, 1/50): 27 or more are wrong with probability
    1e-5."""
    epsilons = [_on_the_edge(0.5, 0.02, k).bet([(1.0, 0.02)], 0.2).epsilon for k in range(60)]
    assert sum(epsilon >= 0.5 for epsilon in epsilons) < 27
    assert sum(epsilon > 0 for epsilon in epsilons) > 0
    beyond = [_on_the_edge(0.5, 0.02, k, 1.5).bet([(1.0, 0.02)], 0.2).epsilon for k in range(20)]
    assert sum(epsilon >= 0.5 for epsilon in beyond) >= 15


def test_a_run_is_bet_on_before_it_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []

    def seen(payoffs: Floats, least: Floats) -> Floats:
        learned.append(len(payoffs))
        return best_stakes(payoffs, least)

    monkeypatch.setattr(traces, "best_stakes", seen)
    _on_the_edge(0.5, 0.0, 0).bet([(1.0, 0.0)], 0.2)
    expected, so_far = list[int](), 4  # the first four runs only teach; a batch is a fifth
    while so_far < 100:
        expected += [so_far, so_far]  # the score, then the stakes
        so_far += max(1, so_far // 5)
    assert learned == expected


def test_alpha_is_divided_over_the_points_of_a_claim() -> None:
    trace = _on_the_edge(0.5, 0.0, 1, 1.5)
    point = (0.3, 0.0)
    one, ten = trace.bet([point], 0.03), trace.bet([point] * 10, 0.3)
    assert one == ten
    assert trace.bet([point], 0.3).epsilon > one.epsilon


def test_the_stakes_are_the_best_ones() -> None:
    rng = np.random.default_rng(5)
    payoffs = rng.uniform(-0.3, 1.0, (50, 4)) - np.array([0.0, 0.2, 0.35, 0.6])
    least = np.full(4, -0.9)
    stakes = best_stakes(payoffs, least)
    seen = np.concatenate([payoffs, least[None]])
    options = np.linspace(0, 0.95 / 0.9, 4001)
    grown = np.log1p(options[:, None, None] * seen).sum(axis=1)
    assert np.allclose(stakes, options[grown.argmax(axis=0)], atol=1e-3)
    assert stakes[0] > 0
    assert stakes[3] == 0
    assert (1 + stakes * least > 0.049).all()


# --- instances, estimates, refusals -------------------------------------------------------------


def test_a_matrix_is_traced_like_its_rotation() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]
    variances = 1 / np.arange(1.0, 31.0)
    matrix = turn * variances @ turn.T
    root = Gaussians(3, (matrix + matrix.T) / 2).root()
    assert np.allclose(root @ root, matrix)
    assert np.allclose(Gaussians(3, variances).root() ** 2, variances)
    result = _trace(_bare, PureDP(1), instance=Gaussians(3, (matrix + matrix.T) / 2))
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    "nothing",
    [None, Abstained("too few"), np.full(200, np.nan), np.full(200, np.inf)],
    ids=["None", "abstained", "nan", "infinite"],
)
def test_runs_without_an_estimate_show_nothing(nothing: Any) -> None:
    result = _trace(lambda records: nothing, ApproxDP(1, "1e-6"))
    assert (result.epsilon, result.abstained, result.estimate) == (0, 40, 0)
    assert result.verdict is Verdict.CONSISTENT


def test_an_estimate_that_is_the_mean_itself_has_no_scores() -> None:
    fixed = Gaussians(20, np.ones(200), 0.0)
    result = _trace(lambda records: np.zeros(200), ApproxDP(1, "1e-6"), instance=fixed)
    assert result.epsilon == 0


def test_where_the_bare_mean_is_not_caught_silence_shows_nothing() -> None:
    result = _trace(lambda r: np.zeros(2), PureDP(3), instance=Gaussians(500, np.ones(2)))
    assert result.verdict is Verdict.POWERLESS


def test_a_function_that_alters_its_records_changes_no_score() -> None:
    def altering(records: Floats) -> Floats:
        mean = _bare(records)
        records[:] = 0
        return mean

    assert _trace(altering, PureDP(1)).epsilon == _trace(_bare, PureDP(1)).epsilon


def test_the_result_says_what_was_found_and_how_to_find_it_again() -> None:
    result = _trace(_bare, ApproxDP(1, "1e-6"))
    text = str(result)
    assert text.startswith("VIOLATED: ")
    assert "certified  epsilon >= " in text
    assert "(not a bound)" in text
    assert "seed=7" in result.replay
    assert str(_trace(_bare, ApproxDP(1, "1e-6"))) == text
    assert _trace(_bare, ApproxDP(1, "1e-6"), seed=8).estimate != result.estimate
    assert _trace(_bare, PureDP(1), seed=None).seed >= 0


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"runs": 5}, ValueError, "at least 20"),
        ({"alpha": 0.0}, ValueError, "outside"),
        ({"seed": -1}, ValueError, "at least 0"),
        ({"claim": None}, TypeError, "say what is claimed"),
        ({"adjacency": None}, ValueError, "ADD_REMOVE or"),
        ({"instance": 3}, TypeError, "Gaussians"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_drawn(
    changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    def never(records: Floats) -> Floats:
        raise AssertionError("it was called")

    given: dict[str, Any] = {"claim": PureDP(1), **changes}
    with pytest.raises(error, match=said):
        _trace(never, given.pop("claim"), **given)


def test_what_is_no_subject_is_refused() -> None:
    for subject in (RescaledMean, 3.0):
        with pytest.raises(TypeError, match="neither a mechanism nor"):
            _trace(subject, PureDP(1))
    with pytest.raises(ValueError, match="shape"):
        _trace(lambda records: 1.0, PureDP(1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": 0}, "needs a record"),
        ({"spread": math.inf}, "spread"),
        ({"covariance": np.ones((2, 3))}, "shape"),
        ({"covariance": [[1.0, 2.0], [0.0, 1.0]]}, "symmetric"),
        ({"covariance": [1.0, -1.0]}, "negative"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "negative eigenvalue"),
        ({"covariance": [math.nan]}, "finite"),
    ],
)
def test_bad_instances_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Gaussians(**{"n": 3, "covariance": [1.0], **changes})
