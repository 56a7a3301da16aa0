"""Tracing of covariances: records leave traces in second moments, and in private covariances as
much as their noise lets them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, GaussianCovariance
from dpverify.audit import Covariances, TracingResult, Verdict, audit_tracing
from dpverify.audit.instances import Drawn
from dpverify.audit.traces import SCORES
from dpverify.privacy.numbers import Floats

STRICT = ApproxDP(1, "1e-6")
WIDE = Covariances(60, 16)


def _moments(records: Floats) -> Floats:
    return np.asarray(records.T @ records / len(records))


def _trace(subject: Any, claim: Any, **changes: Any) -> TracingResult:
    given: dict[str, Any] = {
        "claim": claim,
        "adjacency": Adjacency.REPLACE,
        "instance": WIDE,
        "runs": 60,
        "seed": 3,
    }
    return audit_tracing(subject, **{**given, **changes})


def _covariance(mu: int, **changes: Any) -> GaussianCovariance:
    given: dict[str, Any] = {"center": (0.0,) * 16, "cell": 2**-8, "rounds": 1}
    return GaussianCovariance(
        adjacency=Adjacency.REPLACE, noise_multiplier=Fraction(1, mu), **given | changes
    )


@pytest.mark.parametrize("adjacency", Adjacency)
def test_second_moments_without_noise_are_caught(adjacency: Adjacency) -> None:
    result = _trace(_moments, STRICT, adjacency=adjacency)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon == pytest.approx(result.fault, abs=0.5)  # their fresh draws differ
    assert result.estimate > 0.8


def test_hardly_any_noise_is_caught_and_enough_is_not() -> None:
    """Trace both: epsilon of 4-GDP is 13 at delta = 1/1000, and the bound is above it with
    probability 1e-6."""
    result = _trace(_covariance(30, at_least=10), STRICT, runs=20)
    assert result.verdict is Verdict.VIOLATED
    own = _covariance(4)
    near = Covariances(own.minimum_n(), 16)
    result = _trace(own, ApproxDP(3, "1e-3"), instance=near, runs=30)
    assert result.abstained == 0
    assert 0 < result.epsilon < 13
    whole = audit_tracing(own, instance=near, runs=20, seed=3)
    assert whole.verdict is not Verdict.VIOLATED


def test_what_abstains_or_is_concentrated_is_no_estimate() -> None:
    """Sixty records of sixteen columns are too few for its noise."""
    result = _trace(_covariance(1, at_least=60), STRICT, runs=20)
    assert result.abstained > 0
    assert result.epsilon == 0


@pytest.mark.parametrize("columns", [1, 2, 9])
def test_scores_of_what_was_run_without_the_record_are_standard_normal(columns: int) -> None:
    """Average scores of matrices of either sign and of rank one: the average of every score over
    20,000 records is within 6 standard deviations of its expectation, which fails by chance with
    probability 14 * 3 * 3 * 2e-9 < 1e-6 in all. (Records of a run share their fresh ones, so 200
    runs count as such: the deviation is that of their averages.)"""
    instance, rng = Covariances(100, columns), np.random.default_rng(columns)
    line = rng.standard_normal(columns)
    mixed = np.diag(np.where(np.arange(columns) % 2, -1.0, 2.0))
    for off in (np.eye(columns), np.outer(line, line), mixed):
        rows = []
        for _ in range(200):
            run = instance.drawn(rng)
            scores = instance.scores(off, run, rng)
            rows.append([score.of(scores) for score in SCORES])
        averages = np.array(rows)
        deviation = averages.std(axis=0) / np.sqrt(len(rows)) + 1e-4
        expected = np.array([0.0 if s.kind == "signed" else s.expected for s in SCORES])
        assert (np.abs(averages.mean(axis=0) - expected) < 6 * deviation).all()


def test_the_records_are_of_the_covariance_that_was_drawn() -> None:
    """20,000 records: entries are off by their deviation of at most 1.5 sqrt(2 / 20000) = .015;
    five of it for 6 entries fails by chance with probability 4e-6."""
    run = Covariances(20_000, 3, 0.9).drawn(np.random.default_rng(0))
    assert isinstance(run, Drawn)
    assert np.linalg.eigvalsh(run.truth).min() > 0.1
    assert np.abs(_moments(run.records) - run.truth).max() < 0.075
    assert (Covariances(3, 2, 0).drawn(np.random.default_rng(0)).truth == np.eye(2)).all()


def test_an_estimate_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"this instance needs one of shape \(16, 16\)"):
        _trace(lambda records: records.mean(axis=0), STRICT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n = 0; tracing needs a record"),
        ({"columns": 0}, "columns = 0; give a dimension"),
        ({"spread": 1}, "spread = 1; give one of at least 0 and below 1"),
        ({"spread": -0.5}, "below 1"),
        ({"spread": float("nan")}, "below 1"),
    ],
)
def test_bad_instances_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Covariances(**{"n": 3, "columns": 2, **changes})
