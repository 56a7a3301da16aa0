"""Numbers of releases at a point: few where a claim leaves much room, more where they leave
something open.

A point is looked at several times, each time with the root of two times as many releases, and
alpha is divided among the looks. The first look has an eighth of the claim's releases, and the last
one four times as many, so that a claim that holds is left open only where four times its releases
are too few. A look shows something by intervals of 97%, and the last one by those of 95%. The looks
share their releases, so the measured errors at all looks move together, as far as they are normal
as a Brownian motion does. An error at the edge of the claim is then shown at one of the looks with
probability less than 10%.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpverify.rates.claims import RateClaim
from dpverify.rates.judging import Finding, Row, compare
from dpverify.rates.measuring import SHOWN_ALPHA

_STEP = math.sqrt(2)
"""Factor between the numbers of releases of two looks."""
_BEFORE, _LEAST, _AFTER = 6, 1.2, 4
"""Number of looks with fewer releases than the claim's, at most; the least factor between the first
two; and the number of looks with more.
"""
_SHOWN = 0.03
"""Alpha of the intervals by which a look shows something. The last look takes SHOWN_ALPHA."""
_SURE, _SURER = 5.5, 6.5
"""Standard errors of a slope that fit within its tolerance: 1.96 for its interval, the others
for chance. The larger number is for the looks with fewer releases than half.
"""
_UNKNOWN = 1 / 3
"""Share of the tolerance that a slope may be off where its curve is not known beforehand."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look at a point: its number of releases, and its share of the alpha that refutes.

    shown: alpha of the interval by which it shows something. sure: standard errors of a slope
    that fit within its tolerance, for the point to be precise.
    """

    repeats: int
    share: float
    shown: float
    sure: float


def looks(repeats: int, fewest: int) -> Iterator[Look]:
    """Yield the looks at a point of a claim with so many releases, each with more of them and
    none with fewer than ``fewest``.
    """
    sizes = [round(repeats * _STEP**more) for more in range(_AFTER + 1)]
    for fewer in range(1, _BEFORE + 1):
        if sizes[0] >= _LEAST * fewest:
            sizes.insert(0, max(fewest, round(repeats / _STEP**fewer)))
    for size in sizes:
        shown = _SHOWN if size < sizes[-1] else SHOWN_ALPHA
        yield Look(size, 1 / len(sizes), shown, _SURER if 2 * size < repeats - 1 else _SURE)


def enough(
    claim: RateClaim,
    index: int,
    row: Row,
    slope: float | None,
    *,
    surer: Row | None = None,
    sure: float = _SURE,
) -> bool:
    """Return whether a point needs no more releases.

    slope: of the claim's curve from end to end of its regime; None where that is not known
    beforehand. The closer it is to an end of what is claimed, the more releases the points of the
    regime need. surer: the row with the interval that shows something, if it is another one than
    95%. sure: as for ``Look``.
    """
    shown = compare(claim, row if surer is None else surer)
    findings = [comparison.finding for comparison in shown]
    if Finding.REFUTED in findings:
        return True
    return Finding.OPEN not in findings and _precise(claim, index, row, slope, sure)


def _precise(claim: RateClaim, index: int, row: Row, slope: float | None, sure: float) -> bool:
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
    return sure * error <= claimed.tolerance - off
