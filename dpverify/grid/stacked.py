"""Several queries of one number each, as one query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.queries import Count, Query
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle
from dpverify.privacy.rules import sensitivity_lemma


@dataclass(frozen=True, slots=True)
class Stacked(Query):
    """The answers of several queries side by side, each an integer.

    Raises TypeError for what is no query, ValueError for none at all or one of several numbers.
    """

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        settle(self, queries=tuple(self.queries))
        if not self.queries:
            raise ValueError("There is no query to ask; give at least one, say Count().")
        for query in self.queries:
            if not isinstance(query, Query):
                raise TypeError(f"{query!r} is not a query; write Count(within=(0.0, 1.0)).")
            if query.width != 1 or query.reads:
                raise ValueError(
                    f"{query} does not answer with one number; give queries that do, say counts."
                )

    @property
    def width(self) -> int:
        """Number of released integers: one for each query."""
        return len(self.queries)

    @property
    def addends(self) -> tuple[Query, ...] | None:
        """Addends of all queries; None where one of them has none."""
        addends = [query.addends for query in self.queries]
        known = [some for some in addends if some is not None]
        return tuple(chain.from_iterable(known)) if len(known) == len(addends) else None

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the values, shape (number of queries,)."""
        return np.concatenate([view.value(query) for query in self.queries])

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the largest of their sensitivities; under add-remove counts all move the same way.

        Raises ValueError for a query whose sensitivity is not in L1 distance.
        """
        return _moves(self.queries, adjacency, domain, domain.replacement)


@lru_cache(maxsize=32)
def _moves(
    queries: tuple[Query, ...], adjacency: Adjacency, domain: Domain, replacement: object
) -> Derivation[Sensitivity]:
    """Return the lemma, made once for each list: a budget asks for it many times.

    replacement: that of the domain, which equal domains need not share.
    """
    moves = tuple(query.sensitivity(adjacency, domain) for query in queries)
    for query, moved in zip(queries, moves, strict=True):
        if moved.conclusion.norm is not Norm.L1:
            raise ValueError(
                f"{query} moves in {moved.conclusion.norm} distance, which says nothing of a "
                "single answer; give queries of one number, say counts."
            )
    counts = all(isinstance(query, Count) for query in queries)
    one_way = counts and adjacency is Adjacency.ADD_REMOVE
    return sensitivity_lemma(
        Quantity.of(
            f"every one of {len(moves)} answers",
            "Stacked",
            moved=tuple(moved.conclusion.value for moved in moves),
            counts=counts,
        ),
        norm=Norm.ONE_WAY if one_way else Norm.L_INFINITY,
        value=max(moved.conclusion.value for moved in moves),
        adjacency=adjacency,
        domain=domain,
        obligation="theory/above_threshold.py:obligation_stacked",
        source=Source("OURS", "several answers, and which way they move"),
        premises=moves,
    )
