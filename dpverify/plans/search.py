"""Noisy binary search for many numbers at once: one stage a step, each built from those before it.

A step asks of every coordinate on which side of a public threshold its records lie, and adds Gaussian
noise. Which way a coordinate goes is decided by what was released, so it is post-processing; the next
thresholds follow from that. What was decided so far is a node for each coordinate: 1 at the start, and
from node v on to 2 v (below the threshold) or 2 v + 1 (above).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query
from dpverify.plans.gaussian import UNIT, RoundedGaussian
from dpverify.plans.plan import AdaptiveStage, Stage
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy.numbers import whole
from dpverify.randomness.bits import IntArray

Released = Mapping[str, IntArray]
Nodes = NDArray[np.int64]
MOST_STEPS = 50  # nodes and positions are exact floats
_DECISIVE = 2 * int(UNIT)  # two standard deviations of one value
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Search:
    """``steps`` steps for ``width`` coordinates. The stages are called "name 1", "name 2", ...

    A coordinate goes on from a threshold when the values released there add up to two standard
    deviations of one of them, or at the third value, to the side of their sum; so a far median is
    missed with a probability of about Phi(-2 - r), r = records / standard deviation, and a median at
    the threshold costs two more steps. Sums of zero decide nothing.
    """

    name: str
    width: int
    steps: int

    def __post_init__(self) -> None:
        if not 1 <= whole(self.steps, "steps") <= MOST_STEPS:
            raise ValueError(
                f"{self.name}: {self.steps} steps; a search takes from 1 to {MOST_STEPS}. Narrow "
                "the range, or look less closely."
            )

    def stage(self, step: int) -> str:
        """The name of a step's stage, from 0 on."""
        return f"{self.name} {step + 1}"

    def start(self) -> Nodes:
        """Before anything is decided, and after values of zero, shape (width,)."""
        return np.ones(self.width, np.int64)

    def nodes(self, released: Released, size: int, steps: int) -> Nodes:
        """What the first ``steps`` released values decide, shape (size, width)."""
        nodes = np.ones((size, self.width), np.int64)
        total: IntArray = np.zeros((size, self.width), np.int64)
        tries = np.zeros((size, self.width), np.int64)
        for step in range(steps):
            total = total + released[self.stage(step)]
            tries += 1
            goes = np.asarray(np.abs(total) >= _DECISIVE, np.bool_)
            if step + 1 >= _TRIES:
                goes |= (tries >= _TRIES) & np.asarray(total != 0, np.bool_)
            nodes <<= goes
            nodes += goes & np.asarray(total > 0, np.bool_)
            total, tries = total * ~goes, tries * ~goes
        return nodes

    def middles(self, nodes: Nodes) -> list[int]:
        """The thresholds of a row of nodes, as integers between -2^steps and 2^steps.

        The root's interval is all of that, and a node's is half of its parent's.
        """
        found = []
        for node in nodes.tolist():
            depth = node.bit_length() - 1
            half = 1 << (self.steps - depth)
            found.append((2 * (node - (1 << depth)) + 1) * half - (1 << self.steps))
        return found

    def elements(
        self,
        query: Callable[[Nodes], Query],
        noise: RoundedGaussian,
        before: Prefix | None = None,
    ) -> tuple[Stage | AdaptiveStage, ...]:
        """One element a step. ``query`` is of the numbers before the search and its nodes, in a row."""
        earlier = Prefix(()) if before is None else before

        def element(step: int) -> Stage | AdaptiveStage:
            numbers = earlier.then(self, step)
            return numbers.stage(lambda row: Stage(self.stage(step), query(row), noise))

        return tuple(element(step) for step in range(self.steps))


@dataclass(frozen=True, slots=True)
class Prefix:
    """Integers that follow from a transcript, in a row; what adaptive stages are built from.

    parts: for each part the number of integers, a bound on the bits of one, and the integers as a
    function of what was released and the number of transcripts, shape (size, that many).
    start: the row before anything is released. Without parts nothing is adaptive.
    """

    parts: tuple[tuple[int, int, Callable[[Released, int], IntArray]], ...]
    start: tuple[int, ...] = ()

    def then(self, search: Search, steps: int) -> Prefix:
        """With the nodes of a search after so many steps; before the first they are all 1."""

        def nodes(released: Released, size: int) -> IntArray:
            return search.nodes(released, size, steps)

        return self.also(search.width, steps + 1, nodes, search.start().tolist())

    def also(
        self,
        count: int,
        bits: int,
        found: Callable[[Released, int], IntArray],
        start: Sequence[int],
    ) -> Prefix:
        """With ``count`` more integers, from 0 to 2^bits - 1."""
        return Prefix((*self.parts, (count, bits, found)), (*self.start, *start))

    def row(self, released: Released) -> Nodes:
        """For one transcript."""
        rows = [found(released, 1)[0] for _, _, found in self.parts]
        return np.concatenate(rows).astype(np.int64)

    @property
    def _bits(self) -> NDArray[np.int64]:
        return np.repeat([b for _, b, _ in self.parts], [count for count, _, _ in self.parts])

    def stage(self, build: Callable[[Nodes], Stage]) -> Stage | AdaptiveStage:
        """The stage built from them: declared as for the start; plain where they cannot change."""
        declared = build(np.array(self.start, np.int64))
        if not self.parts:
            return declared
        bits = self._bits
        if bits.max() <= 1:
            return declared
        return AdaptiveStage(declared, self._key, lambda number: build(_unpacked(number, bits)))

    def _key(self, batch: Transcripts) -> IntArray:
        """One integer for each transcript, the same for all stages that are built from this prefix."""
        rows = [found(batch.values, len(batch)) for _, _, found in self.parts]
        return _packed(np.concatenate(rows, axis=1), self._bits)


def _packed(rows: IntArray, bits: NDArray[np.int64]) -> IntArray:
    """Each row as one integer, number j shifted by bits[0] + ... + bits[j - 1]; shape (size,)."""
    shifts = np.cumsum(bits) - bits
    if bits.sum() <= 62:
        packed = np.zeros(len(rows), np.int64)
        for column, shift in zip(rows.T, shifts.tolist(), strict=True):
            packed += column << shift
        return packed
    keys = np.empty(len(rows), object)
    for i, row in enumerate(rows.tolist()):
        text = "".join(f"{number:0{b}b}" for number, b in zip(row[::-1], bits[::-1], strict=True))
        keys[i] = int(text, 2)
    return keys


def _unpacked(key: int, bits: NDArray[np.int64]) -> Nodes:
    """The row that was packed."""
    text, numbers, end = f"{key:0{bits.sum()}b}", [], int(bits.sum())
    for b in bits.tolist():
        numbers.append(int(text[end - b : end], 2))
        end -= b
    return np.array(numbers, np.int64)
