"""Neighboring pairs: the datasets that an audit compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpverify.privacy import Adjacency
from dpverify.privacy.adjacency import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighboringPair:
    """Two datasets (sequences of records, or arrays of rows) that are neighbors.

    Raises ValueError, naming the record, when they are not.
    """

    name: str
    left: Dataset
    right: Dataset
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise TypeError(
                f"adjacency = {self.adjacency!r}; write Adjacency.ADD_REMOVE or Adjacency.REPLACE."
            )
        reason = self.adjacency.why_not_neighbors(self.left, self.right)
        if reason is not None:
            raise ValueError(f"The pair {self.name!r} is not {self.adjacency} neighbors: {reason}.")


def added(name: str, base: Dataset, record: Any, *, at: int = 0) -> NeighboringPair:
    """``base`` with ``record`` inserted before position ``at``, against ``base`` (add-remove)."""
    left = [*base[:at], record, *base[at:]]
    return NeighboringPair(name=name, left=left, right=list(base), adjacency=Adjacency.ADD_REMOVE)


def replaced(name: str, base: Dataset, record: Any, *, at: int = 0) -> NeighboringPair:
    """``base`` against ``base`` with the record at ``at`` replaced by ``record`` (replace)."""
    right = [*base[:at], record, *base[at + 1 :]]
    return NeighboringPair(name=name, left=list(base), right=right, adjacency=Adjacency.REPLACE)
