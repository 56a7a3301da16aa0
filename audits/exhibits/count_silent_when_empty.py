"""A count that skips its noise when there is nothing to count.

"There is nobody to protect": the special case that looks harmless and gives everything away. One
noisy answer that is not zero proves that somebody is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, PureDP, conjecture
from dpverify.audit import Exhibit, added
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits, discrete_laplace


def count_silent_when_empty(data: Sequence[Any], size: int, bits: Bits) -> Sequence[int]:
    """Return len(data) plus noise of scale 1, or plain 0 on empty data."""
    if len(data) == 0:
        return np.zeros(size, dtype=np.int64).tolist()
    noisy: list[int] = (len(data) + discrete_laplace(bits, Fraction(1), size)).tolist()
    return noisy


EXHIBIT = Exhibit(
    name="count_silent_when_empty",
    function=count_silent_when_empty,
    claim=conjecture(
        PureDP(1),
        adjacency=Adjacency.ADD_REMOVE,
        domain=Domain(columns=1),
        source=Source("OURS", "a count without noise on empty data", SourceStatus.REFUTED),
    ),
    pairs=(added("nobody against somebody", [], 170.0), added("one against two", [1.0], 2.0)),
    why="on empty data the answer is always 0; any other answer shows that somebody is there",
)
