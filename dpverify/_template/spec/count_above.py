"""Spec of ``count_above``: its law, written without a line of the code that draws from it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import queries
from .theory.laws import DiscreteLaplaceLaw, TranscriptLaw, closed, real, real_exponential
from .theory.obligations import neighbors, require

Parameters = Mapping[str, Any]


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law: the count of records that reach the threshold, plus noise of scale
    ``noise_multiplier``."""
    count = queries.count(records, _above(parameters))
    return closed("count", DiscreteLaplaceLaw(count, parameters["noise_multiplier"]))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return, by stage, the most that one record changes the stage's value."""
    return {"count": queries.count_sensitivity(_above(parameters), parameters["adjacency"])}


def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Show that the loss is at most claimed / multiplier for neighbors, and for some exactly that.

    All datasets of at most 2 records of three values are enumerated.
    """
    cases, largest = 0, mp.mpf(0)
    for adjacency in Adjacency:
        parameters = {"threshold": 1.0, "adjacency": adjacency, "noise_multiplier": Fraction(3, 2)}
        for left, right in neighbors((Fraction(0), Fraction(1), Fraction(3)), 2, adjacency):
            p, q = law(parameters, left), law(parameters, right)
            for x in range(-4, 7):
                ratio = p.probability(((x,),), real_exponential)
                ratio /= q.probability(((x,),), real_exponential)
                largest = max(largest, mp.log(ratio) * real(Fraction(3, 2)))
                cases += 1
    gap = abs(largest - real(claimed))
    require(gap < mp.mpf(10) ** -12, f"the largest loss is {largest}, not {claimed}")
    return cases


def _above(parameters: Parameters) -> tuple[Fraction, Fraction]:
    return Fraction(parameters["threshold"]), Fraction(sys.float_info.max)
