"""``partitioned_product``: the probabilities of independent bits in rounds on disjoint blocks, as
published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.fullest_bins import log_ratio
from dpverify.estimation.handles import COUNT
from dpverify.estimation.products import ProductEstimate
from dpverify.grid.linear import Integers
from dpverify.grid.masks import rows_once
from dpverify.grid.orthants import BitSums, sign_of
from dpverify.grid.queries import Count
from dpverify.grid.splits import ByIndex
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    Abstained,
    Blocks,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import MOST_LEAST, FewestReleased, Share, whole_from
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, root_up, to_float

RADIUS = 1 << 20
_FIRST_THRESHOLD = Fraction(3, 16)
_SUMS = Handle("sums")
_BLOCKS = "blocks"
_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedProduct(Mechanism[ProductEstimate]):
    """The probabilities of d independent bits, in rounds on disjoint blocks: KLSU19's estimator,
    for comparison.

    Block 0 tells roughly which bits are likelier than their opposites; these are turned. Round r
    takes a block of its own, clips the remaining bits of its records to a ball for probabilities
    up to 2^-r, and settles the bits that are seen at least 3 / 2^(r + 3) of the time; the last
    block is for the others. There are log2(d / 2) rounds; each block has a part of the records
    and the whole budget. ``ProductDistribution`` has smaller errors at every n and d that were
    tried: at d = 400, 8000 records, mu = 1 and p_j = min(1/2, 1/j) the root of half the
    divergence is .15, and here 4.8.

    Data: shape (n, d), numbers above 1/2 are ones and all others zeros; d up to 10^5. Output:
    ``ProductEstimate``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for all data; replace
    alone, since records belong to blocks by index. The order of the records should say nothing
    about them; shuffle them first if it may.
    failure: beta of the radii sqrt(6 2^-r s ln(m rounds / beta)), with s bits left and m records
    in a block.
    at_least: fewer records are refused; by default one for each block, and enough for block 0 to
    know probabilities to 1/4.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: KLSU19 (PPDE); sqrt(2) radii for vectors of an orthant, in place of two, are OURS.
    """

    d: Annotated[int, whole_from(1, most=10**5)]
    failure: Share = Fraction(1, 10)
    at_least: FewestReleased = None

    def check_parameters(self) -> None:
        """Check that the adjacency is replace."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: blocks go by index, and when a record is removed "
                "all later ones change theirs. Use Adjacency.REPLACE, or ProductDistribution, "
                "which has both."
            )

    def columns(self) -> int:
        """Return the number of columns."""
        return self.d

    @property
    def rounds(self) -> int:
        """Number of rounds: log2(d / 2), rounded up, and at least 1."""
        return max(1, (self.d - 1).bit_length() - 1)

    @property
    def blocks(self) -> int:
        """Number of blocks: one to turn bits by, one a round, one for what is left."""
        return self.rounds + 2

    def plan(self) -> Plan:
        """Release the public number, then the blocks, each after the earlier ones."""
        stages = tuple((self._stage_of(k),) for k in range(self.blocks))
        return (
            Stage(COUNT, Count(), NoNoise()),
            Blocks(_BLOCKS, ByIndex(self.blocks), stages, chained=True),
        )

    def estimate(self, transcript: Transcripts) -> ProductEstimate | Abstained:
        """Return each bit's share of ones in the block that settled it."""
        n = transcript.number(COUNT)
        shares, noise = np.zeros(self.d), np.ones(self.d)
        left = np.ones(self.d, np.bool_)
        for k in range(1, self.blocks):
            later = self._left(transcript, k)[0] if k < self.rounds + 1 else ~left
            settled = left & ~later
            weight = self._weight(k, int(left.sum()), n)
            if settled.any():
                per = self._scale() / (UNIT * weight * self.size(k, n))
                values = in_units(transcript[block_sums(k)][0], per)
                shares[settled] = np.clip(values[settled], -2, 3)
                noise[settled] = min(to_float(per * UNIT), 1e150)
            left = later
        turned = self._turned(transcript)[0]
        return ProductEstimate.of(
            np.where(turned, 1 - shares, shares), noise, float(n), "in rounds on disjoint blocks"
        )

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise where the first round settles all
        bits, as it does for shares near 1/2.

        Infinite below ``least`` records.
        """
        if n < self.least():
            return math.inf
        weight = self._weight(1, self.d, n)
        if not weight:  # a single column is left to the last block
            weight = self._weight(self.blocks - 1, self.d, n)
        return math.sqrt(self.d) * to_float(self._scale() / weight / self.size(1, n))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return ``least()``, since this mechanism never abstains."""
        return self.least()

    def fewest_records(self) -> int:
        """Return ``least()``: fewer records, a public number under replace, are refused."""
        return self.least()

    def least(self) -> int:
        """Return ``at_least``, or its default; never fewer records than blocks."""
        if self.at_least is not None:
            return max(self.blocks, self.at_least)
        one = Fraction(RADIUS, 2 * sign_of(RADIUS, self.d, self.adjacency))
        enough = math.ceil(4 * one * self._scale() / RADIUS)
        return min(self.blocks * max(1, enough), MOST_LEAST)

    def size(self, block: int, n: int) -> int:
        """Return how many of n records are in a block."""
        return -(-(n - block) // self.blocks)

    # --- the stages -----------------------------------------------------------------------------

    def _scale(self) -> Fraction:
        """Return the noise scale of a sum."""
        return self.noise_multiplier * root_up(Fraction(2), ROOT_BITS) * RADIUS

    def _stage_of(self, block: int) -> Stage:
        reads = (COUNT, *map(block_sums, range(block))) if block else ()
        query = BitSums(
            columns=self.d,
            radius=RADIUS,
            adjacency=Adjacency.REPLACE,
            weights=Released(reads, lambda before: self.weights(before, block)),
        )
        return Stage(_SUMS, OneUnit(query, self._scale()), RoundedGaussian(UNIT))

    def weights(self, before: Transcripts, block: int) -> tuple[Integers, Integers]:
        """Return the rows of weights of a block, and which one each draw has; zeros (signs) for
        block 0 and where nothing is left to ask.
        """
        if not block:
            return np.zeros((1, self.d), np.int64), np.zeros(len(before), np.intp)
        left, turned = self._left(before, block - 1), self._turned(before)
        rows, which = rows_once(np.where(left, np.where(turned, -1, 1), 0))
        n = int(before[COUNT][0, 0])
        own = [self._weight(block, int(np.count_nonzero(row)), n) for row in rows]
        return rows.astype(np.int64) * np.array(own, np.int64)[:, np.newaxis], which

    def _turned(self, before: Transcripts) -> _Mask:
        """Mark the bits that are likelier than their opposites, shape (size, d)."""
        return np.asarray(before[block_sums(0)] > 0, np.bool_)

    def _left(self, before: Transcripts, rounds: int) -> _Mask:
        """Mark the bits that this number of rounds has not settled, shape (size, d)."""
        left: _Mask = np.ones((len(before), self.d), np.bool_)
        n = int(before[COUNT][0, 0])
        for k in range(1, rounds + 1):
            sizes, which = np.unique(left.sum(axis=1), return_inverse=True)
            least = np.array([self._threshold(k, int(s), n) for s in sizes], object)
            values = before[block_sums(k)]
            if values.dtype != object:  # then a threshold beyond 2^63 is beyond all values
                least = np.minimum(least, (1 << 63) - 1).astype(np.int64)
            left &= ~np.asarray(values >= least[which.reshape(-1), np.newaxis], np.bool_)
        return left

    def _weight(self, block: int, left: int, n: int) -> int:
        """Return the weight of a bit; 0 where a round has less than one bit to expect."""
        if not left or (block <= self.rounds and left < 1 << block):
            return 0
        return _weight_of(self, block, left, self.size(block, n))

    def _threshold(self, block: int, left: int, n: int) -> int:
        """Return the least sum that settles a bit; a number beyond all sums for a round that asks
        nothing.
        """
        weight = self._weight(block, left, n)
        if not weight:
            return MOST_LEAST << 60
        share = _FIRST_THRESHOLD / (1 << (block - 1))
        return math.ceil(share * weight * self.size(block, n) * UNIT / self._scale())


def block_sums(block: int) -> Handle:
    """Name a block's sums."""
    return _SUMS.under(f"{_BLOCKS}/{block}")


@lru_cache(maxsize=1 << 10)
def _weight_of(mechanism: PartitionedProduct, block: int, left: int, size: int) -> int:
    """Return the ball's integer radius over the published radius, which is at least one
    bit long.
    """
    rounds, failure = mechanism.rounds, mechanism.failure
    if block <= rounds:
        square = 6 * left / 2**block * log_ratio(size * rounds, failure)
    else:
        square = 6 * log_ratio(size, failure)
    return math.floor(RADIUS / math.sqrt(max(1.0, square)))
