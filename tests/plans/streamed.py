"""Mechanisms that read chunks, records for these, and bits that must not be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpverify import Adjacency, ClippedMean, IterativeMean, NoisyCount, SeededBits
from dpverify.plans import Mechanism
from dpverify.randomness import Bits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
PLANE = ClippedMean(
    center=(0.0, 1.0), radius=2.0, adjacency=ADD, noise_multiplier=1, nonfinite="replace"
)
COUNT = NoisyCount(adjacency=ADD, noise_multiplier=1)
TWICE = IterativeMean(
    center=(0.0,), radius=50, adjacency=ADD, noise_multiplier=1, steps=2, nonfinite="replace"
)


RNG = np.random.default_rng(11)
ROWS = RNG.normal(1.0, 1.0, (1000, 2))


class NoBits(Bits):
    """Bits of which none may be drawn."""

    def words(self, count: int) -> Any:
        raise AssertionError("a bit was drawn")


def released(mechanism: Mechanism[Any], data: Any) -> Any:
    return mechanism.release(data, SeededBits(7))


def frames() -> list[Any]:
    return [pa.table({"a": part[:, 0], "b": part[:, 1]}) for part in np.split(ROWS, [3, 3, 700])]
