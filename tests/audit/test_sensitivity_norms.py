"""The named norms of query values, and the exactness of their comparison with a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpverify.audit.sensitivity import Mahalanobis, OutputNorm
from dpverify.audit.sensitivity.norms import compare, measure_of, root, rounded_down
from dpverify.audit.sensitivity.values import read
from dpverify.privacy import Norm
from tests.audit.sensitivity_subjects import ADD, ONE, TWO, UNIT, Array, attack, in_ball

L1, L2 = OutputNorm.L1, OutputNorm.L2


@pytest.mark.parametrize(
    ("norm", "value"),
    [(OutputNorm.FROBENIUS, 3), (OutputNorm.OPERATOR, 1)],
)
def test_the_identity_has_two_norms(norm: OutputNorm, value: int) -> None:
    def identity(x: Array) -> Array:
        return np.eye(9) * min(1, len(x))

    result = attack(identity, ADD, ONE, norm=norm, bound=value, calls=200)
    assert (result.violated, result.largest) == (False, value)
    slightly = value - Fraction(1, 10**20)
    assert attack(identity, ADD, ONE, norm=norm, bound=slightly, calls=200).violated


@pytest.mark.parametrize(
    ("norm", "of"),
    [
        (L1, lambda v: np.abs(v).sum()),
        (L2, np.linalg.norm),
        (OutputNorm.L_INFINITY, lambda v: np.abs(v).max()),
        (Mahalanobis([[2, 1, 0], [1, 2, 0], [0, 0, 5]]), None),
        (Norm.SQUARED_L2, lambda v: v @ v),
        (Norm.RANGE, np.ptp),
        (Norm.HAMMING, np.count_nonzero),
    ],
    ids=lambda given: str(given) if isinstance(given, (OutputNorm, Norm)) else "",
)
def test_vector_norms_agree_with_numpy(norm: Any, of: Any) -> None:
    if of is None:
        inverse = np.linalg.inv(np.array([[2, 1, 0], [1, 2, 0], [0, 0, 5]]))

        def of(v: Array) -> float:
            return math.sqrt(v @ inverse @ v)

    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-200, 1e200):
        left, right = (rng.normal(size=3) * scale for _ in range(2))
        right[0] = left[0]
        if norm is Norm.SQUARED_L2 and scale != 1.0:
            continue  # beyond float64
        for bound in (Fraction(0), Fraction(10) ** 300):
            for exactly in (False, True):
                gap = compare(measure_of(norm), read(left), read(right), bound, exactly=exactly)
                unit = 1.0 if norm is Norm.HAMMING else scale
                assert gap.estimate / unit == pytest.approx(of((left - right) / scale))
                assert gap.exceeds == (bound == 0)


def test_matrix_norms_agree_with_numpy() -> None:
    rng = np.random.default_rng(1)
    for shape in ((3, 3), (2, 5), (4, 1)):
        left, right = rng.normal(size=shape), rng.normal(size=shape)
        frobenius = compare(measure_of(OutputNorm.FROBENIUS), read(left), read(right), Fraction(0))
        assert frobenius.estimate == pytest.approx(np.linalg.norm(left - right, "fro"))
        operator = compare(measure_of(OutputNorm.OPERATOR), read(left), read(right), Fraction(0))
        assert operator.estimate == pytest.approx(np.linalg.norm(left - right, 2))


@pytest.mark.parametrize(
    "norm", [L1, L2, OutputNorm.L_INFINITY, Norm.RANGE, Mahalanobis(np.eye(4))]
)
def test_a_vector_norm_does_not_measure_a_matrix(norm: Any) -> None:
    with pytest.raises(ValueError, match=r"matrix of shape .2, 2.; write FROBENIUS or OPERATOR"):
        attack(lambda x: np.eye(2) * len(x), ADD, ONE, norm=norm, bound=1)


@pytest.mark.parametrize("norm", [OutputNorm.FROBENIUS, OutputNorm.OPERATOR])
def test_a_matrix_norm_does_not_measure_a_vector(norm: OutputNorm) -> None:
    with pytest.raises(ValueError, match=r"vector of shape .2,.; write L1, L2 or L_INFINITY"):
        attack(lambda x: np.ones(2) * len(x), ADD, ONE, norm=norm, bound=1)
    with pytest.raises(ValueError, match=r"number of shape .*; write L1"):
        attack(len, ADD, ONE, norm=norm, bound=1)


def test_a_norm_by_its_name_is_answered_with_the_names_and_where_they_are() -> None:
    word: Any = "l1"
    with pytest.raises(TypeError, match=r"'l1' .*OutputNorm\.L1, .*Norm\.\w+ of dpverify\.privacy"):
        attack(len, ADD, ONE, norm=word, bound=1)


def test_a_matrix_of_another_size_than_its_covariance() -> None:
    with pytest.raises(ValueError, match="covariance of 3 rows"):
        attack(lambda x: np.ones(2) * len(x), ADD, ONE, norm=Mahalanobis(np.eye(3)), bound=1)


@pytest.mark.parametrize("covariance", [np.eye(2) * UNIT**2, [[UNIT**2, 0], [0, 4 * UNIT**2]]])
def test_a_mahalanobis_claim(covariance: Any) -> None:
    def total(x: Array) -> Array:
        result: Array = in_ball(x).sum(axis=0)
        return result

    assert not attack(total, ADD, TWO, norm=Mahalanobis(covariance), bound=1, calls=400).violated
    smaller = np.array(covariance, dtype=object) - np.diag([1, 0])
    assert attack(total, ADD, TWO, norm=Mahalanobis(smaller), bound=1, calls=400).violated


@pytest.mark.parametrize(
    ("covariance", "said"),
    [
        ([1, 2], "square matrix"),
        ([[1, 2]], "square matrix"),
        ([[1, 2], [0, 1]], "not symmetric"),
        ([[1, 1], [1, 1]], "not positive definite"),
        ([[1, 0], [0, -1]], "not positive definite"),
        ([[math.nan]], "not finite"),
    ],
)
def test_matrices_that_are_no_covariances(covariance: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Mahalanobis(covariance)


# Exactness: no alarm and no silence by a rounding of our own.


def one_or_nothing(value: Any) -> Callable[[Array], Any]:
    """0 for nobody, ``value`` for anybody."""
    return lambda x: min(1, len(x)) * value


def test_a_bound_is_compared_exactly() -> None:
    for step in (Fraction(1, 3), 2**70 + 1, 0.1, Fraction(1, 10**30)):
        for sign in (-1, 0, 1):
            bound = Fraction(step) + sign * Fraction(1, 10**60)
            result = attack(one_or_nothing(step), ADD, ONE, norm=L1, bound=bound, calls=100)
            assert result.violated == (sign < 0)


def test_float_norms_would_raise_false_alarms_and_we_do_not() -> None:
    rng = np.random.default_rng(2)
    alarms = 0
    for _ in range(12):
        vector = rng.normal(size=5)
        query = one_or_nothing(vector)
        square = sum((Fraction(v) ** 2 for v in vector.tolist()), Fraction(0))
        bound = root(square, up=True)
        alarms += Fraction(float(np.linalg.norm(vector))) > bound
        assert not attack(query, ADD, ONE, norm=L2, bound=bound, calls=100).violated
        below = bound - Fraction(1, 10**30)
        result = attack(query, ADD, ONE, norm=L2, bound=below, calls=100)
        assert result.violated
        assert 0 < result.worst.excess <= 1e-30
    assert alarms > 2  # numpy's norm is above the bound for these


@given(st.fractions(min_value=0, max_value=10**40), st.integers(-1200, 1200))
def test_roots_and_floats_are_rounded_down(value: Fraction, exponent: int) -> None:
    value *= Fraction(2) ** exponent
    low, high = root(value), root(value, up=True)
    assert low**2 <= value <= high**2
    assert high - low <= high / 2**100
    assert Fraction(rounded_down(value)) <= value
