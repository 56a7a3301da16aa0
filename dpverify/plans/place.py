"""Positions in a plan: which draws of a batch are where, and what they see from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpverify.grid import Transcripts, View
from dpverify.grid.masks import Row
from dpverify.grid.transcripts import Rows
from dpverify.grid.views import Retained
from dpverify.plans.plan import Adaptive, Plan
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.randomness.bits import IntArray


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a plan of some draws of a batch, and what is seen from there.

    path: of the parts around it, with a slash at its end, or "". chosen: adaptive stages of the
    plan by name, each with the rows it was built from and which of these each draw has. around:
    the path under which it reads, if it is another one.
    """

    plan: Plan
    path: str
    view: View
    adjacency: AnyAdjacency
    # in a filtered view: the draws whose retained records it has, in order
    draws: Rows | None = None
    chosen: dict[str, tuple[Adaptive, list[Row], IntArray]] = field(default_factory=dict)
    around: str | None = None

    def read(self, batch: Transcripts, draws: Rows, names: Sequence[str]) -> Transcripts:
        """Return what these draws released in these stages."""
        return batch.seen(draws, self.path if self.around is None else self.around, names)

    def seen_by(self, draws: Rows) -> View:
        """Return the records as these draws see them."""
        if self.draws is None or not isinstance(self.view, Retained):
            return self.view
        if len(draws) == len(self.draws):  # then all of them, in order
            return self.view
        return self.view.of(np.searchsorted(self.draws, draws))
