"""Obligations: functions that show a statement, or raise.

An obligation returns the number of cases it went through. It takes its statement as a default
argument where that helps, so that a test can hand it a false twin and see it fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from dpverify.privacy import Adjacency

Record = TypeVar("Record")


class ObligationFailed(AssertionError):
    """Raised when a statement is false; the message shows the case."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Deliberate difference from a source, with its reason."""

    source: str
    what: str
    why: str


def require(condition: bool, case: str) -> None:
    """Raise ObligationFailed unless the condition holds (also under ``python -O``)."""
    if not condition:
        raise ObligationFailed(case)


def datasets(universe: Sequence[Record], most: int) -> Iterator[tuple[Record, ...]]:
    """Yield every dataset of at most ``most`` records from a small universe."""
    for n in range(most + 1):
        yield from product(universe, repeat=n)


def neighbors(
    universe: Sequence[Record], most: int, adjacency: Adjacency
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Yield every ordered pair of neighbors among those datasets."""
    for left in datasets(universe, most):
        if adjacency is Adjacency.REPLACE:
            for i, record in product(range(len(left)), universe):
                yield left, (*left[:i], record, *left[i + 1 :])
        else:
            for i in range(len(left)):
                shorter = (*left[:i], *left[i + 1 :])
                yield left, shorter
                yield shorter, left
