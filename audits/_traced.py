"""Tracing attacks on estimators of means and products: configurations with a second,
high-dimensional estimate.

A record's score in a bare mean is sqrt(columns / n) on average, and 0 in a mean without it. So
each mechanism here gets about as few records as it has an answer for, and three to five times as
many columns: then 20 runs refute the bare mean of the same records, the planted fault, for all
seeds that were tried (12 to 100 of each size).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpverify.audit import Bits, Configuration, Gaussians, Traced
from dpverify.plans import Mechanism

RUNS = 20


def traced(
    configuration: Configuration,
    mechanism: Mechanism[Any],
    *,
    n: int,
    columns: int,
    spread: float = 1.0,
) -> Configuration:
    """Add tracing of this mechanism, of the same kind and adjacency, on n records of N(p, I), p
    ~ N(0, spread^2 I)."""
    law = Gaussians(n, np.ones(columns), spread)
    return replace(configuration, traced=Traced(mechanism=mechanism, instance=law, runs=RUNS))


def traced_bits(
    configuration: Configuration, mechanism: Mechanism[Any], *, n: int, columns: int
) -> Configuration:
    """Add tracing of this mechanism on n records of independent bits."""
    law = Bits(n, columns)
    return replace(configuration, traced=Traced(mechanism=mechanism, instance=law, runs=RUNS))
