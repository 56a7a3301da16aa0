"""Noisy binary search for many numbers at once: one stage a step, each built from those before it.

A step asks of every coordinate on which side of a public threshold its records lie, and adds
Gaussian noise. Which way a coordinate goes is decided by what was released, so it is
post-processing; the next thresholds follow from that. What was decided so far is a node for
each coordinate: 1 at the start, and from node v on to 2 v (below the threshold) or 2 v + 1
(above).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.grid import Query, Released, Transcripts
from dpverify.grid.masks import Row
from dpverify.grid.transcripts import joined
from dpverify.plans.gaussian import UNIT, RoundedGaussian
from dpverify.plans.plan import Adaptive, Built
from dpverify.plans.stages import Stage
from dpverify.privacy.numbers import whole
from dpverify.randomness.bits import IntArray

Nodes = NDArray[np.int64]
MOST_STEPS = 50  # nodes and positions are exact floats
_DECISIVE = 2 * int(UNIT)  # two standard deviations of one value
_TRIES = 3
_FEW = 32  # below so many numbers a loop takes less time than arrays do


@dataclass(frozen=True, slots=True)
class Search:
    """Search of ``steps`` steps for ``width`` coordinates. The stages are called "name 1",
    "name 2", ...

    A coordinate goes on from a threshold when the values released there add up to two standard
    deviations of one of them, or at the third value, to the side of their sum; so a far median
    is missed with a probability of about Phi(-2 - r), r = records / standard deviation, and a
    median at the threshold costs two more steps. Sums of zero decide nothing.
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
        """Return the name of a step's stage, from 0 on."""
        return f"{self.name} {step + 1}"

    def nodes(self, steps: int) -> Released[Nodes]:
        """Return what the first ``steps`` released values decide, shape (size, width); before
        the first they are all 1.
        """
        names = tuple(map(self.stage, range(steps)))
        return Released(names, lambda before: self._decided(before, steps))

    def _decided(self, before: Transcripts, steps: int) -> Nodes:
        nodes = np.ones((len(before), self.width), np.int64)
        if nodes.size <= _FEW and steps:
            released = [before[self.stage(step)].ravel().tolist() for step in range(steps)]
            one_by_one = list(map(_node, zip(*released, strict=True)))
            return np.array(one_by_one, np.int64).reshape(nodes.shape)
        total: IntArray = np.zeros(nodes.shape, np.int64)
        tries = np.zeros(nodes.shape, np.int64)
        for step in range(steps):
            total = total + before[self.stage(step)]
            tries += 1
            goes = np.asarray(np.abs(total) >= _DECISIVE, np.bool_)
            if step + 1 >= _TRIES:
                goes |= (tries >= _TRIES) & np.asarray(total != 0, np.bool_)
            nodes <<= goes
            nodes += goes & np.asarray(total > 0, np.bool_)
            total, tries = total * ~goes, tries * ~goes
        return nodes

    def middles(self, nodes: Sequence[int]) -> list[int]:
        """Return the thresholds of a row of nodes, as integers between -2^steps and 2^steps.

        The root's interval is that whole range, and a node's interval is half of its parent's.
        """
        if len(nodes) > _FEW:
            many = np.array(nodes, np.int64)
            steps = np.frexp(many)[1].astype(np.int64) - 1  # nodes are exact floats
            within = 2 * (many - (1 << steps)) + 1
            ends: list[int] = ((within << self.steps - steps) - (1 << self.steps)).tolist()
            return ends
        middles = []
        for node in nodes:
            depth = node.bit_length() - 1
            half = 1 << (self.steps - depth)
            middles.append((2 * (node - (1 << depth)) + 1) * half - (1 << self.steps))
        return middles

    def elements(
        self,
        query: Callable[[Row], Query],
        noise: RoundedGaussian,
        before: Prefix | None = None,
    ) -> tuple[Built | Adaptive, ...]:
        """Build one element a step. ``query`` is of the numbers before the search and its
        nodes, in a row.
        """
        earlier = Prefix() if before is None else before

        def element(step: int) -> Built | Adaptive:
            return earlier.then(self, step).part(
                lambda row: Stage(self.stage(step), query(row), noise)
            )

        return tuple(element(step) for step in range(self.steps))


def _node(released: Iterable[int]) -> int:
    """Return the node of one coordinate after these values; ``_decided`` does the same for many
    at once.
    """
    node, total, tries = 1, 0, 0
    for value in released:
        total, tries = total + value, tries + 1
        if abs(total) >= _DECISIVE or (tries >= _TRIES and total):
            node, total, tries = 2 * node + (total > 0), 0, 0
    return node


@dataclass(frozen=True, slots=True)
class Prefix:
    """Integers that follow from a transcript, in a row, from which stages and parts are built.

    start: the row before anything is released. Where nothing is read, nothing is adaptive.
    """

    numbers: tuple[Released[IntArray], ...] = ()
    start: Row = ()

    def then(self, search: Search, steps: int) -> Prefix:
        """Return the prefix with the nodes of a search after so many steps."""
        return self.also(search.nodes(steps), (1,) * search.width)

    def also(self, numbers: Released[IntArray], start: Sequence[int]) -> Prefix:
        """Return the prefix with more integers, as many as ``start`` has."""
        return Prefix((*self.numbers, numbers), (*self.start, *start))

    def row(self, before: Transcripts) -> Row:
        """Return the row of one transcript."""
        return tuple(map(int, joined(*self.numbers)(before)[0])) if self.numbers else ()

    def part(self, build: Callable[[Row], Built]) -> Built | Adaptive:
        """Build an element from the prefix: declared as for the start; plain where the numbers
        cannot change.
        """
        if not any(part.reads for part in self.numbers):
            return build(self.start)
        return Adaptive(build(self.start), joined(*self.numbers), build)
