"""The record of one mechanism in the classical benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import PureDP
from dpverify.audit import NeighboringPair
from dpverify.audit.neighbors.pairs import QueryMoves, moved
from dpverify.privacy import Exact
from dpverify.privacy.adjacency import Dataset

Outputs = NDArray[Any]
Function = Callable[[Dataset, int, np.random.Generator], Outputs]
Subject = Callable[[Dataset, int], Outputs]
_CELL = 2.0**-20
CLAIMED = "0.1"
"""Epsilon that all of them claim, but for RAPPOR."""
STEPS = 8
"""Steps between far pairs. More make the other side's hits rare, fewer divide errors by less: 6
to 10 are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classical:
    """A mechanism of the literature with numpy's noise: an exhibit, never to be released with.

    function: f(data, size, generator), ``size`` outputs along the first axis.
    epsilon: the pure guarantee that it claims.
    steps: how many steps, each to a neighbor, lead from one side of a pair to the other.
    pairs: crafted, the worst first; of one step they are neighbors, and their adjacency is the
    claim's.
    truth: the largest epsilon of any event on these pairs, per step, exactly; inf for an
    impossible event.
    supremum: the same over all neighbors.
    published: the best certified lower bound in print: 2 * 10^8 draws a side, wrong with
    probability .1 at most (Bichsel, Steffen, Bogunovic, Vechev 2021).
    reach: what our bound should be from 2 * 10^6 calls in all, wrong with probability .05 at
    most; None where it is enough to be right about the claim.
    """

    name: str
    function: Function
    pairs: tuple[NeighboringPair, ...]
    truth: float
    supremum: float
    source: str
    epsilon: Exact = CLAIMED
    steps: int = 1
    published: float | None = None
    reach: float | None = None

    @property
    def claim(self) -> PureDP:
        """The guarantee that is tested: what the claimed one implies for ``steps`` steps.

        A bound on its epsilon, divided by the steps, holds for at least one neighboring pair
        between the sides. The errors of an estimate are divided as well, so that as many draws
        show more.
        """
        return PureDP(self.epsilon).for_group(self.steps)

    @property
    def correct(self) -> bool:
        """True if the claim is true; a supremum is rounded by a float's last bits at most."""
        return self.supremum <= float(PureDP(self.epsilon).epsilon) * (1 + 1e-12)

    def subject(self, seed: int) -> Subject:
        """Return the mechanism as f(data, size), on a generator of its own from ``seed``."""
        generator = np.random.default_rng(seed)
        return lambda data, size: self.function(data, size, generator)


def several(name: str, left: Sequence[float], moves: Sequence[int]) -> NeighboringPair:
    """Return query answers ``STEPS`` steps apart, in each of which an answer moves by 1, 0 or
    -1."""
    far = [STEPS * move for move in moves]
    return moved(name, left, far, QueryMoves(by=STEPS))


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to multiples of 2^-20: the lower bits of answer + noise reveal the answer, and an
    audit sees it."""
    result: NDArray[np.float64] = np.round(values / _CELL) * _CELL
    return result
