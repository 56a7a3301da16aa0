"""Votes of records for the column in which each is farthest from a point that the transcript
decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.region_queries import histogram_moves, in_balls
from dpverify.grid.transcript_queries import Place, placed
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import sensitivity_lemma

WITHIN = 2
"""Number of radii around a ball's center within which records vote."""


@dataclass(frozen=True, slots=True)
class FarthestColumns(Query):
    """Counts of the records that are farther from the center in each column than in any other.

    Each record within two radii of the center of a ball, which was released, votes once: for the
    first of the columns in which |y| is largest, y from the center.
    """

    adds_up = True
    nearness: Nearness
    place: Place

    @property
    def width(self) -> int:
        """Number of released integers: a count for each column."""
        return self.nearness.width

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls follow from."""
        return self.place.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the votes, shape (size, width)."""
        points, radii = placed(self.place, self.nearness, before)
        votes = np.zeros((len(points), self.width), np.int64)
        for rows, moved, often in in_balls(view.images(self.nearness), points, WITHIN * radii):
            chosen = np.abs(moved).argmax(axis=2) + self.width * np.arange(len(moved))[:, None]
            numbers = np.bincount(chosen.ravel(), often.ravel(), self.width * len(moved))
            votes[rows] = numbers.astype(np.int64).reshape(-1, self.width)  # exact: below 2^53
        return votes

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: one under add-remove, two under replace; squared L2."""
        if not isinstance(adjacency, Adjacency):
            raise ValueError(f"votes about a point have no bound under {adjacency}.")
        return sensitivity_lemma(
            Quantity.of(
                "the numbers of records by the column in which they are farthest", "FarthestColumns"
            ),
            norm=Norm.SQUARED_L2,
            value=histogram_moves(1, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/farthest_columns.py:obligation_votes",
            source=Source("OURS", "each record names one column"),
        )
