"""A random filter in a plan: which records it keeps is never released, only what comes after."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from dpverify.grid import Query, Records
from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.hypotheses import Compared
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray


class CoreQuery(Query):
    """An integer query of the records that a filter keeps, as a multiset of integer vectors."""

    __slots__ = ()

    nearness: Nearness

    @property
    @abstractmethod
    def width(self) -> int:
        """How many integers a value has."""

    @abstractmethod
    def of_cores(self, images: Integers, kept: BoolArray) -> IntArray:
        """Its value for each row of ``kept``, shape (size, width); images: shape (n, nearness.width),
        kept: shape (size, n)."""

    def reached(self, stage: str, at_least: int) -> Compared:
        """What is sure where this stage released at least so much, though it stopped where nothing is kept.

        Raises ValueError for a query that tells nothing of whether anything is kept.
        """
        raise ValueError(
            f"A gate on {stage!r} behind a filter stops where nothing is kept, which is no function of what "
            f"{type(self).__name__} releases; put the gate on KeptCount."
        )

    def evaluate(self, records: Records) -> IntArray:
        """Its value where all records are kept."""
        everything = np.ones((1, len(records)), dtype=np.bool_)
        value: IntArray = self.of_cores(self.nearness.images(records), everything)[0]
        return value


class Filter:
    """Keeps each record with a probability of its own, which the number of its friends decides."""

    __slots__ = ()

    nearness: Nearness

    @property
    @abstractmethod
    def friendly(self) -> Friendly:
        """The neighbors that the claim of what runs on the kept records is about."""

    @abstractmethod
    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """``size`` independent rows, shape (size, n): which records are kept. No more than 2^26 at
        a time are asked for."""

    @abstractmethod
    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """The claim of filter and inner plan together, from the inner one for friendly neighbors."""


@dataclass(frozen=True, slots=True)
class Core:
    """What a filter kept in a batch: row i of ``kept`` belongs to transcript ``rows[i]``."""

    images: Integers
    kept: BoolArray
    rows: IntArray
    adjacency: Friendly

    def of(self, rows: IntArray) -> BoolArray:
        """The kept records of these transcripts, in their order."""
        found: BoolArray = self.kept[np.searchsorted(self.rows, rows)]
        return found
