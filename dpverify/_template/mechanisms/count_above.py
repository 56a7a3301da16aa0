"""``count_above``: the number of records that reach a public threshold."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from dpverify.grid import Count
from dpverify.plans import DiscreteLaplace, Mechanism, Plan, Stage, Transcripts

COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAbove(Mechanism[int]):
    """The number of records that are at least ``threshold``, with discrete Laplace noise.

    Data: one column. Output: an integer. Claim: PureDP(1 / noise_multiplier), derived from the
    plan's only stage. Errors: TypeError or ValueError for parameters and for data that are no real
    column.
    """

    threshold: float

    def check_parameters(self) -> None:
        """Refuse a threshold that is no finite number."""
        threshold: Any = self.threshold
        if type(threshold) not in (int, float) or not abs(threshold) <= sys.float_info.max:
            raise ValueError(f"threshold = {threshold!r}; give a finite number, as threshold=30.0.")

    def plan(self) -> Plan:
        """Return the plan: one stage, the count, which one record changes by at most 1."""
        above = Count((float(self.threshold), sys.float_info.max))
        return (Stage(COUNT, above, DiscreteLaplace(self.noise_multiplier)),)

    def estimate(self, transcript: Transcripts) -> int:
        """Return the released integer: unbiased, and possibly negative."""
        return transcript.number(COUNT)
