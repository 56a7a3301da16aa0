"""Queries whose sensitivities are attacked: wrong ones, and right ones beside them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit import Box
from dpverify.audit.sensitivity import SensitivityResult, audit_sensitivity
from dpverify.grid import clip_to_ball, second_moments, to_cells
from dpverify.privacy import Adjacency, Domain

Array = NDArray[Any]
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE, TWO, THREE = Domain(1), Domain(2), Domain(3)
CALLS = 600
UNIT = 1024
STRETCH = np.array([[1.0, 0.9], [0.0, 1.0]])
_NARROW = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]


def attack(
    query: Any,
    adjacency: Adjacency,
    domain: Domain,
    *,
    low: Any = None,
    high: Any = None,
    rows: tuple[int, int] | None = None,
    **more: Any,
) -> SensitivityResult:
    """Search with 600 calls and seed 1 unless given, in a box of the domain's records."""
    box = Box(low=low, high=high, rows=rows, columns=domain.columns, nonfinite=domain.nonfinite)
    return audit_sensitivity(
        query, adjacency=adjacency, domain=box, **{"calls": CALLS, "seed": 1, **more}
    )


def running_float32(x: Array) -> Any:
    """Return a float32 running sum of records clipped to [-1, 1]."""
    return np.cumsum(np.clip(x, -1, 1).astype(np.float32), dtype=np.float32)[-1] if len(x) else 0.0


def blocked_float32(x: Array) -> Any:
    return np.clip(x, -1, 1).astype(np.float32).sum(dtype=np.float32)


def float64_sum(x: Array) -> Any:
    return np.clip(x, -1, 1).sum()


def large_float64_sum(x: Array) -> Any:
    return np.clip(x, 0, 2.0**53).sum()


def grid_sum(x: Array) -> float:
    """Multiples of 2^-20, whose sum is exact."""
    return math.fsum((np.rint(np.clip(x, -1, 1) * 2**20) / 2**20).tolist())


def fraction_sum(x: Array) -> Fraction:
    return sum((Fraction(v) for v in np.clip(x, -1, 1).tolist()), Fraction(0))


def large_exact_sum(x: Array) -> Fraction:
    return sum((Fraction(v) for v in np.clip(x, 0, 2.0**53).tolist()), Fraction(0))


def in_ball(x: Array) -> Array:
    """Cells of 2^-10, clipped to the ball of radius 1, exactly."""
    return clip_to_ball(to_cells(x, -10, (0,) * x.shape[1]), UNIT)


def clip_then_stretch(x: Array) -> Any:
    return (in_ball(x) @ STRETCH).sum(axis=0)


def stretch_then_clip(x: Array) -> Any:
    small = np.clip(x, -1e6, 1e6) @ STRETCH
    return in_ball(small).sum(axis=0)


def clip_then_narrow(x: Array) -> Any:
    """Return a matrix that stretches one direction of four only, by 1.05."""
    x = np.clip(x, -1e6, 1e6)
    clipped = x / np.maximum(1, np.sqrt((x * x).sum(axis=1, keepdims=True)))
    return (clipped @ (_NARROW * np.array([1.05, 0.5, 0.4, 0.3]))).sum(axis=0)


def clip_about_the_mean(x: Array) -> int:
    cells = np.rint(np.clip(x, -5, 5) * UNIT).astype(np.int64)
    middle = int(cells.sum()) // max(1, len(cells))
    return int(np.clip(cells - middle, -UNIT, UNIT).sum())


def clip_about_zero(x: Array) -> int:
    cells = np.rint(np.clip(x, -5, 5) * UNIT).astype(np.int64)
    return int(np.clip(cells, -UNIT, UNIT).sum())


def int32_sum(x: Array) -> Any:
    return x.astype(np.int32).sum(dtype=np.int32)


def int64_sum(x: Array) -> Any:
    return x.astype(np.int64).sum()


def whole_sum(x: Array) -> int:
    return sum(map(int, x.tolist()))


def uint8_sum(x: Array) -> Any:
    return np.clip(x, 0, 100).astype(np.uint8).sum(dtype=np.uint8)


def small_sum(x: Array) -> int:
    return int(np.clip(x, 0, 100).astype(np.uint8).sum(dtype=np.int64))


def alternating(x: Array) -> int:
    signs = np.where(np.arange(len(x)) % 2, -1, 1)
    return int((np.clip(np.rint(x), -1, 1).astype(np.int64) * signs).sum())


def not_alternating(x: Array) -> int:
    return int(np.clip(np.rint(x), -1, 1).astype(np.int64).sum())


def by_position(x: Array) -> int:
    return int((np.clip(np.rint(x), 0, 1).astype(np.int64) * np.arange(len(x))).sum())


def moments(x: Array) -> Any:
    return second_moments(in_ball(x))


def naive_variance(x: Array) -> float:
    """Compute a variance that is at most 1/4 but for cancellation."""
    x = np.clip(x, 1e8, 1e8 + 1)
    return float((x * x).mean() - x.mean() ** 2) if len(x) else 0.0


def shifted_variance(x: Array) -> Fraction:
    cells = [int(v) for v in np.rint((np.clip(x, 1e8, 1e8 + 1) - 1e8) * UNIT).tolist()]
    n = max(1, len(cells))
    return (Fraction(sum(c * c for c in cells), n) - Fraction(sum(cells), n) ** 2) / UNIT**2


def doubled_beyond(x: Array) -> int:
    """Count records between two odd thresholds twice."""
    return 2 * int(((x > 41.37) & (x < 41.38)).sum())


def once_beyond(x: Array) -> int:
    return int(((x > 41.37) & (x < 41.38)).sum())
