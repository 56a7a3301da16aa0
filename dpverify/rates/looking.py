"""Numbers of releases at a point: few where a claim leaves much room, more where they leave
something open.

A point is looked at several times, each time with more releases, and alpha is divided among the
looks. An error at the edge of the claim is shown at one of the looks with probability at most
that many times 2.5%. Half of the claim's releases are enough where they show everything;
otherwise there are as many as the claim says, then twice and four times as many, so that a
claim that holds is left open only where four times its releases are too few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpverify.rates.claims import RateClaim
from dpverify.rates.judging import Finding, Row, compare
from dpverify.rates.metrics import FEWEST_REPEATS

_MORE = (1, 2, 4)
"""Numbers of releases, over the claim's, of the looks after the first one."""
_SURE = 5.5
"""Standard errors of a slope that fit within its tolerance: 1.96 for its interval, the others
for chance.
"""
_UNKNOWN = 1 / 3
"""Share of the tolerance that a slope may be off where its curve is not known beforehand."""


def looks(repeats: int) -> Iterator[tuple[int, float]]:
    """Yield the numbers of releases of the looks at a point, each with its share of alpha."""
    sizes = [repeats // 2] if repeats >= 2 * FEWEST_REPEATS else []
    sizes += [more * repeats for more in _MORE]
    yield from ((size, 1 / len(sizes)) for size in sizes)


def enough(claim: RateClaim, index: int, row: Row, slope: float | None) -> bool:
    """Return whether a point needs no more releases.

    slope: of the claim's curve from end to end of its regime; None where that is not known
    beforehand. The closer it is to an end of what is claimed, the more releases the points of the
    regime need.
    """
    findings = [comparison.finding for comparison in compare(claim, row)]
    if Finding.REFUTED in findings:
        return True
    return Finding.OPEN not in findings and _precise(claim, index, row, slope)


def _precise(claim: RateClaim, index: int, row: Row, slope: float | None) -> bool:
    """Return whether the point's interval is short enough for the slope, if the others' are
    too.

    A slope is the sum of w ln(measured) over its points, where w is a point's distance from the
    mean of the logarithms of the values, over the sum of their squares. Its variance is shared
    among the points in proportion to |w|, which takes the fewest releases in all. So the middle
    of three points needs no precision.
    """
    if claim.exponent is None or index not in claim.regime:
        return True
    low, high = row.point.low, row.point.high
    if not 0 < low <= high < math.inf:
        return False
    x = np.log([float(claim.values[i]) for i in claim.regime])
    weights = np.abs(x - x.mean()) / float(np.square(x - x.mean()).sum())
    share = math.sqrt(weights[claim.regime.index(index)] * weights.sum())
    claimed = claim.exponent
    off = _UNKNOWN * claimed.tolerance if slope is None else abs(slope - claimed.value)
    error = share * math.log(high / low) / (2 * 1.96)
    return _SURE * error <= claimed.tolerance - off
