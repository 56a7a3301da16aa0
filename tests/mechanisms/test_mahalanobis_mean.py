"""``RescaledMean`` for errors in the Mahalanobis norm of a known covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify import Abstained, Adjacency, ApproxDP, RescaledMean, SeededBits
from spec import rescaled_mean as spec

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
D, N = 16, 4000
VARIANCES = [1.0 / (j + 1) ** 2 for j in range(D)]


def made(covariance: Any, **own: Any) -> RescaledMean:
    given: dict[str, Any] = {"adjacency": REPLACE, "n_max": N, "metric": "mahalanobis"}
    return RescaledMean.for_budget(BUDGET, covariance=covariance, **given | own)


def lengths(mechanism: RescaledMean, data: Any, inverse: Any, size: int = 100) -> float:
    """Measure the root mean square of the noise in the Mahalanobis norm."""
    batch = mechanism.law(data).sample(SeededBits(7), size)
    squares = []
    for i in range(size):
        estimate = mechanism.estimate(batch[i])
        assert not isinstance(estimate, Abstained)
        off = estimate.value - data.mean(axis=0)
        squares.append(off @ inverse @ off)
    return float(np.sqrt(np.mean(squares)))


def test_noise_is_as_long_as_the_spec_says_and_half_of_that_for_the_euclidean_norm() -> None:
    """Within 15%: of 100 releases in 16 directions a root mean square has a deviation of 1.8%, so
    that is 8 of these.

    Some pairs are no friends, which raises it by 3%.
    """
    data = 3 + np.random.default_rng(1).normal(size=(N, D)) * np.sqrt(VARIANCES)
    inverse = np.diag(1 / np.array(VARIANCES))
    own, other = made(VARIANCES), made(VARIANCES, metric="euclidean")
    assert own.claim == other.claim
    assert own.matrix == tuple(v * v for v in VARIANCES)
    told = float(spec.mahalanobis_error(own.parameters, N))
    length = lengths(own, data, inverse)
    assert abs(length / told - 1) < 0.15
    assert 2 * length < 1.15 * lengths(other, data, inverse)
    rate = float(spec.adaptive_mean_rate(N, D, 1, BUDGET.delta))
    assert rate / 2 < length < float(spec.stable_mean_noise(N, D, 1, BUDGET.delta)) / 5


@pytest.mark.parametrize("kappa", [1.0, 1e3, 1e6])
def test_it_is_the_same_after_any_public_map(kappa: float) -> None:
    """Compare with the spec's length of a round one: of 100 releases in 5 directions the deviation
    is 3.2%."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    covariance = (turn * np.geomspace(1, kappa, 5)) @ turn.T
    covariance = (covariance + covariance.T) / 2
    own = made([[float(x) for x in row] for row in covariance], adjacency=ADD)
    records = rng.normal(size=(N, 5)) @ np.linalg.cholesky(covariance).T
    round_ = made([1.0] * 5, adjacency=ADD)
    told = float(spec.mahalanobis_error(round_.parameters, N))
    assert abs(float(spec.mahalanobis_error(own.parameters, N)) / told - 1) < 0.01
    assert abs(lengths(own, records, np.linalg.inv(covariance)) / told - 1) < 0.2


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"metric": "manhattan"}, "write 'euclidean' or 'mahalanobis'"),
    ({"covariance": None, "matrix": (1.0,), "radius": 1}, "about a known covariance"),
    ({"matrix": (1.0,) * D}, "neither matrix= nor trace="),
    ({"covariance": None, "trace": 3, "largest": 1, "columns": 4}, "neither matrix= nor trace="),
    ({"covariance": [1e200, 1.0]}, "in another unit"),
    ({"covariance": [1e-200, 1.0]}, "in another unit"),
    ({"covariance": [[1e200, 0.0], [0.0, 1.0]]}, "in another unit"),
]


@pytest.mark.parametrize(("own", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_square_is_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**{"covariance": VARIANCES} | own)
