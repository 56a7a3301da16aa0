"""Tracing of product distributions: records leave traces in shares of ones, equal scores or not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, ApproxDP, ProductDistribution
from dpverify.audit import Bits, TracingResult, Verdict, audit_tracing
from dpverify.audit.instances import placed
from dpverify.audit.traces import SCORES
from dpverify.privacy.numbers import Floats

STRICT = ApproxDP(1, "1e-6")
WIDE = Bits(50, 250)


def _shares(records: Floats) -> Floats:
    return np.asarray(records.mean(axis=0))


def _product(multiplier: str) -> ProductDistribution:
    return ProductDistribution(
        adjacency=Adjacency.REPLACE, noise_multiplier=Fraction(multiplier), d=250, at_least=1
    )


def _trace(subject: Any, **changes: Any) -> TracingResult:
    given: dict[str, Any] = {
        "claim": STRICT,
        "adjacency": Adjacency.REPLACE,
        "instance": WIDE,
        "runs": 20,
        "seed": 3,
    }
    return audit_tracing(subject, **{**given, **changes})


@pytest.mark.parametrize("adjacency", Adjacency)
def test_shares_without_noise_are_caught(adjacency: Adjacency) -> None:
    result = _trace(_shares, adjacency=adjacency)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon > 1.5


def test_hardly_any_noise_is_caught_and_enough_is_not() -> None:
    """Trace both; the second bound is above the truth with probability 1e-6."""
    assert _trace(_product("1/100")).verdict is Verdict.VIOLATED
    enough = audit_tracing(_product("4"), instance=WIDE, runs=20, seed=3)
    assert enough.verdict is Verdict.CONSISTENT
    assert enough.abstained == 0


@pytest.mark.parametrize("columns", [1, 2, 10])
def test_scores_of_what_was_run_without_the_record_are_standard_normal(columns: int) -> None:
    """Average scores; for one and two columns most are equal. The average of every score over
    150 runs of 100 records is within 6 standard deviations of its expectation, which fails by
    chance with probability 14 * 3 * 2e-9 < 1e-6."""
    instance, rng = Bits(100, columns), np.random.default_rng(columns)
    rows = []
    for _ in range(150):
        run = instance.drawn(rng)
        off = np.where(np.arange(columns) % 2, -1.0, 0.5)
        scores = instance.scores(off, run, rng)
        rows.append([score.of(scores) for score in SCORES])
    averages = np.array(rows)
    deviation = averages.std(axis=0) / np.sqrt(len(rows)) + 1e-4
    expected = np.array([0.0 if s.kind == "signed" else s.expected for s in SCORES])
    assert (np.abs(averages.mean(axis=0) - expected) < 6 * deviation).all()


def test_places_are_between_their_neighbors_and_equal_ones_anywhere_among_them() -> None:
    rng = np.random.default_rng(0)
    fresh = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    places = placed(np.repeat([-1.0, 0.5, 1.0, 3.0], 2000), fresh, rng).reshape(4, -1)
    ends = np.array([[-9.0, -0.967], [-0.968, -0.430], [-0.968, 0.968], [0.967, 9.0]])
    assert (places >= ends[:, :1]).all()
    assert (places <= ends[:, 1:]).all()
    assert abs(places[2].mean()) < 0.1  # 8 standard deviations


def test_the_probabilities_are_fresh_and_within_their_range() -> None:
    run = Bits(20_000, 3, 0.25).drawn(np.random.default_rng(1))
    assert ((run.truth >= 0.25) & (run.truth <= 0.75)).all()
    assert np.abs(_shares(run.records) - run.truth).max() < 0.02  # 5.6 standard deviations
    assert (Bits(3, 2, 0.5).drawn(np.random.default_rng(0)).truth == 0.5).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n = 0; tracing needs a record"),
        ({"columns": 0}, "columns = 0; give a dimension"),
        ({"low": 0.6}, r"low = 0\.6; probabilities lie between"),
        ({"low": float("nan")}, "low = nan; probabilities lie between"),
    ],
)
def test_bad_instances_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bits(**{"n": 3, "columns": 2, **changes})
