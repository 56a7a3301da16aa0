"""The noisy number of Algorithm 1 with its displayed constants: epsilon behind the filter,
epsilon claimed.

A record without friends and a clique: with it every other record is dropped with a small
probability of its own, without it none is. The number that is kept is a Poisson number short,
which epsilon-DP noise does not hide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, conjecture
from dpverify.audit import Exhibit, added
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits, discrete_laplace

_EPSILON, _LOG_DELTA = Fraction(1), math.log(1e6)
_LAMBDA = 1.0


def displayed_constants(data: Sequence[Any], size: int, bits: Bits) -> Sequence[int]:
    """Return |C| - ln(1 / delta) / epsilon, rounded, plus discrete Laplace noise of scale
    1 / epsilon.

    C is what BasicFilter keeps with the predicate |x - y| <= 1.
    """
    records = np.sort(np.asarray(data, dtype=np.float64).reshape(-1))
    n = len(records)
    high = np.searchsorted(records, records + _LAMBDA, side="right")
    degrees = high - np.searchsorted(records, records - _LAMBDA, side="left")
    chances = np.clip(2 * degrees - n, 0, n)
    kept = np.full(size, np.count_nonzero(chances == n), np.int64)
    for chance in chances[(chances > 0) & (chances < n)].tolist():
        kept += bits.bernoulli(np.full(size, chance, np.int64), n)
    shift = math.ceil(_LOG_DELTA / float(_EPSILON))
    noisy: list[int] = (kept - shift + discrete_laplace(bits, 1 / _EPSILON, size)).tolist()
    return noisy


EXHIBIT = Exhibit(
    name="displayed_constants",
    function=displayed_constants,
    claim=conjecture(
        ApproxDP(1, "1e-6"),
        adjacency=Adjacency.ADD_REMOVE,
        domain=Domain(columns=1),
        source=Source(
            "DJYZZ24",
            "Algorithm 1 with the displayed constants",
            SourceStatus.REFUTED,
            "epsilon behind the filter is (O(epsilon), O(delta)) in all",
        ),
    ),
    pairs=(added("a record without friends joins a clique", [0.0] * 399, 1e6),),
    why="with a record without friends each of the others is dropped with probability 2 / n, so "
    "two are missing on average; without it none is",
)
