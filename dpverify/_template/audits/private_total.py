"""A black box: a function of your own, of which an audit sees nothing but what it returns.

Replace ``private_total`` by an import of your function. An audit needs nothing else from your code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpverify import PureDP
from dpverify.audit import BlackBox, added, scaled_faults

LARGEST = 10.0


def private_total(
    data: Sequence[float], size: int, rng: np.random.Generator, scale: float = LARGEST
) -> NDArray[np.float64]:
    """Release ``size`` independent noisy sums of the records, each clipped to [0, 10].

    scale: the scale of the Laplace noise. A record changes the sum by at most 10, so at 10 a sum
    is PureDP(1). Sums are rounded to thousandths, since the last bits of a float show the value
    below its noise.
    """
    total = float(np.clip(np.asarray(data, dtype=np.float64), 0, LARGEST).sum())
    return np.round(total + rng.laplace(scale=scale, size=size), 3)


def without_clipping(
    data: Sequence[float], size: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Break the claim on purpose: one record can change this sum by any amount."""
    return np.round(float(np.sum(data)) + rng.laplace(scale=LARGEST, size=size), 3)


BLACK_BOXES = (
    BlackBox(
        name="laplace",
        function=private_total,
        claim=PureDP(1),
        pairs=(
            added("a record at the clip", [1.0, 2.0, 3.0], LARGEST),
            added("a record far beyond the clip", [1.0, 2.0, 3.0], 1e9),
            added("nobody against somebody", [], LARGEST),
        ),
        faults=(*scaled_faults(private_total), without_clipping),
        vectorized=True,
        seeded=True,
        quick_trials=20_000,
    ),
)
