"""Counts of events in fresh draws of two neighbors, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.confidence_regions import Counted
from dpverify.audit.independence import EventWatch, Watch, require_even_batches
from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import AuditedLaw, CallableDraws, both_drawn, called_singly
from dpverify.audit.witnesses.choosing import Witness
from dpverify.audit.witnesses.guesses import Guess
from dpverify.privacy.numbers import Floats
from dpverify.randomness import SeededBits

EITHER_SIDE = 2
"""Number that stands in place of a side for guesses at both."""
_CHUNK = 1 << 22  # numbers drawn at a time
_LARGEST_BATCH = 10_000  # before it is known how wide outputs are
_BATCHES = 16  # batches of a function that gives many outputs at once, compared with each other


@dataclass(slots=True)
class Seen:
    """Counts from fresh draws. hits: for an event, how often it happens on each side; for a
    guess, how often each of its two events does.

    sizes: how many draws of either side. watches: for each event, the test of whether it comes
    in runs. watch: the evidence of shared noise, from all draws so far.
    """

    hits: list[NDArray[np.int64]]
    sizes: tuple[int, int]
    watches: list[EventWatch]
    watch: Watch

    def counted(self, k: int, side: int) -> Counted:
        """Return the counts of event ``k`` on its own side and on the other; for a guess, right
        ones and wrong ones.
        """
        hits = self.hits[k]
        if side == EITHER_SIDE:
            own, other = (int(hits[i, 0] + hits[1 - i, 1]) for i in (0, 1))
            return Counted(own, sum(self.sizes), other, sum(self.sizes))
        return Counted(
            int(hits[side, 0]), self.sizes[side], int(hits[1 - side, 0]), self.sizes[1 - side]
        )


def hits_of(
    laws: tuple[AuditedLaw, AuditedLaw],
    witnesses: Sequence[Witness | Guess],
    chunks: Iterable[Sequence[Draws]],
    watch: Watch,
) -> Seen:
    """Count each event in these draws of both sides; raises InvalidRun where draws share noise.

    chunks: as from ``in_chunks`` or ``divided``. watch: the evidence of shared noise so far, to
    which these draws are added.
    """
    batches: list[NDArray[np.int64]] = []  # each of shape (events, sides, 2)
    sizes: list[list[int]] = []
    events = [EventWatch(laws, str(witness)) for witness in witnesses]
    for chunk in chunks:
        hits = np.zeros((len(witnesses), 2, 2), dtype=np.int64)
        watch.take(chunk)
        for side, draws in enumerate(chunk):
            if not len(draws):
                continue
            scores: dict[int, Floats] = {}
            for k, witness in enumerate(witnesses):
                happened = witness.happenings(draws, scores)
                events[k].take(happened)
                hits[k, side] = [np.count_nonzero(one) for one in happened]
        batches.append(hits)
        sizes.append([len(draws) for draws in chunk])
    watch.require_fresh()
    counts, drawn = np.array(batches), np.array(sizes)
    one_by_one = called_singly(laws)
    for k, witness in () if one_by_one else enumerate(witnesses):  # single calls may drift together
        for side in (0, 1):
            there = drawn[:, side] > 0
            require_even_batches(counts[there, k, side, 0], drawn[there, side], str(witness))
    total = drawn.sum(axis=0).tolist()
    return Seen(list(counts.sum(axis=0)), (total[0], total[1]), events, watch)


def in_chunks(
    laws: tuple[AuditedLaw, AuditedLaw], address: tuple[int, ...], size: int, phase: int
) -> Iterator[list[Draws]]:
    """Yield a million draws at a time, fewer where outputs are wide; for a function of a size,
    in several batches.
    """
    batches = _BATCHES if isinstance(laws[0], CallableDraws) and laws[0].vectorized else 1
    most = max(1, -(-size // batches))
    done, part, chunk = 0, 0, min(most, _LARGEST_BATCH)
    while done < size:
        chunk = min(chunk, size - done)
        addresses = [(*address, side, phase, part) for side in (0, 1)]
        drawn = both_drawn(laws, addresses, chunk)
        yield drawn
        done, part = done + chunk, part + 1
        chunk = min(most, _largest(drawn))


@dataclass(frozen=True, slots=True)
class Division:
    """Draws of both sides in equal batches: in each group one of the side that gets fewer.

    fewer: that side. parts: batches of a group. groups: how many. size: draws of a batch.
    """

    fewer: int
    parts: int
    groups: int
    size: int

    @classmethod
    def of(cls, draws: int, own: float, side: int) -> Division:
        """Divide so many draws, or a few less, if this part of them is best for one side."""
        parts = max(round(1 / min(own, 1 - own)), 2)
        groups = max(round(4 * _BATCHES / parts), -(-draws // (parts * _LARGEST_BATCH)))
        return cls(side if own < 0.5 else 1 - side, parts, groups, draws // (parts * groups))

    @property
    def sizes(self) -> tuple[int, int]:
        """Draws of either side."""
        few, all_draws = self.groups * self.size, self.groups * self.size * self.parts
        return (all_draws - few, few) if self.fewer else (few, all_draws - few)


def divided(
    laws: tuple[AuditedLaw, AuditedLaw], address: tuple[int, ...], division: Division, phase: int
) -> Iterator[list[Draws]]:
    """Yield batches of one side at a time, with no draws of the other.

    All are as large, so that size does not tell the side, and neither does the place of an output
    in its batch. Which batch of a group is that of the side with fewer is random, so at every time
    a side has its part of the whole, whatever drifts with the calls.
    """
    rng = np.random.default_rng((*address, phase))
    for group in range(division.groups):
        chosen = rng.integers(division.parts)
        for k in range(division.parts):
            side = division.fewer if k == chosen else 1 - division.fewer
            bits = SeededBits(*address, side, phase, group * division.parts + k)
            one = laws[side].draw(bits, division.size)
            none = one.select(slice(0))
            yield [none, one] if side else [one, none]


def _largest(drawn: Sequence[Draws]) -> int:
    """Return how many draws as wide as these are taken at a time."""
    widest = max(int(draws.numbers.shape[1]) for draws in drawn)
    return max(1000, _CHUNK // max(4, widest))
