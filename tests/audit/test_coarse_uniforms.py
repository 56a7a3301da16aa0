"""Noise of few random bits is told by the integers it was made of; anything else is left alone.

Seeds are fixed. Measured on other seeds by tests/benchmarks/coarse_uniforms.py.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.audit import Verdict, added, audit
from dpverify.audit.outputs.draws import PLAIN, Draws, Labels
from dpverify.audit.witnesses.coarse_uniforms import inverted
from dpverify.privacy import PureDP
from dpverify.randomness import SeededBits, discrete_laplace

PAIR = added("one enters", [0.0, 1.0], 1.0)


def _of(numbers: Any) -> Draws:
    rows = np.asarray(numbers, np.float64).reshape(len(numbers), 1)
    return Draws(Labels.constant(PLAIN, len(rows)), rows)


def _laplace(seed: int, center: float, scale: float, bits: int = 32, size: int = 5000) -> Any:
    uniform = np.random.default_rng(seed).integers(1, 1 << bits, size) / 2.0**bits - 0.5
    return center - scale * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


@pytest.mark.parametrize("bits", [24, 32])
@pytest.mark.parametrize(("center", "scale"), [(3, 1), (0.5, 10), (-1200.5, 1 / 0.3), (0, 0.125)])
def test_closeness_is_plain_about_the_own_center_alone(
    center: float, scale: float, bits: int
) -> None:
    """Compare the best score: all own draws are above any of 10,000 others, but for a share of
    1e-3 (of uniform gaps, 5000 are all above 2^-20 with probability 0.99)."""
    own, other = _of(_laplace(0, center, scale, bits)), _of(_laplace(1, center + 1, scale, bits))
    features = list(inverted([0], own, other))
    assert features
    fresh = _of(_laplace(2, center, scale, bits)), _of(_laplace(3, center + 1, scale, bits))
    shares = []
    for feature in features:
        ours, theirs = (feature.score(side) for side in fresh)
        assert np.isfinite(ours).all()
        shares.append(float((ours > np.quantile(theirs, 0.999)).mean()))
    assert max(shares) > 0.999


@pytest.mark.parametrize("kind", ["normal", "laplace", "exponential", "standard_cauchy"])
def test_nothing_is_found_in_other_noise(kind: str) -> None:
    """Find nothing, but by chance with probability below 1e-13 a feature."""
    random = np.random.default_rng(5)
    sides = [_of(shift + getattr(random, kind)(size=5000)) for shift in (0, 1)]
    assert not list(inverted([0], *sides))


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [0.0] * 500,
        [k * 1e305 for k in range(-900, 900)],
        [k * 5e-324 for k in range(900)],
        [1e300 + k * 1e285 for k in range(900)],
        [k**3 * 1e200 for k in range(-900, 900)],
    ],
    ids=["none", "equal", "huge", "subnormal", "far", "squares beyond floats"],
)
def test_odd_numbers_are_no_trouble(numbers: list[float]) -> None:
    features = list(inverted([0], _of(numbers), _of(numbers)))
    for feature in features:
        assert np.isfinite(feature.score(_of(numbers))).all()


def test_an_audit_certifies_it_and_leaves_exact_noise_alone() -> None:
    """The bound: e^-8 of 100,000 draws are 34, and fewer than 4 are expected. The alarm: alpha
    is 1e-4."""

    def broken(data: Any, size: int) -> Any:
        return _laplace(11, len(data), 1.0, size=size)

    result = audit(broken, claim=PureDP(1), pairs=[PAIR], trials=100_000, seed=1, vectorized=True)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon >= 8

    bits = SeededBits(3)

    def exact(data: Any, size: int) -> Any:
        return len(data) + discrete_laplace(bits, Fraction(1 << 16), size) / (1 << 16)

    result = audit(
        exact, claim=PureDP(1), pairs=[PAIR], trials=50_000, alpha=1e-4, seed=1, vectorized=True
    )
    assert result.verdict is not Verdict.VIOLATED
