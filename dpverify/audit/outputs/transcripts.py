"""A mechanism's law as an audit sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.columns import floats_of, residues
from dpverify.audit.outputs.draws import Draws, Labels
from dpverify.grid.transcripts import each_tuple_once
from dpverify.plans import Transcripts
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits

_EXACT = 1 << 53
_MOST_ENTRIES = 32


@dataclass(frozen=True, slots=True)
class TranscriptDraws:
    """A mechanism's law, or a faulty one, seen by an audit. counted: called with the number of
    draws after each batch.
    """

    law: Any
    counted: Callable[[int], object] | None = None

    def draw(self, bits: Bits, size: int) -> Draws:
        """Draw transcripts; the label is the gate that stopped each, the numbers all released
        values.

        A stage that releases tuples of varying length gives the length, the sum and the first
        entries. Values beyond 2^53 also have a residue, after all numbers.
        """
        batch: Transcripts = self.law.sample(bits, size)
        if self.counted is not None:
            self.counted(size)
        table = ("released", *(f"stopped: {reason}" for reason in batch.reasons))
        labels = Labels(batch.stopped_by + 1, table)
        return Draws(labels, _numbers(list(batch.values.values()), size), batch)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Return the log-likelihood, exact up to float64, from the plan; None where coins of a
        filter matter.
        """
        if self.law.latent:
            return None
        result: Floats = self.law.log_likelihood(draws.raw)
        return result


def parted(draws: Sequence[Draws], size: int) -> tuple[list[Draws], list[Draws]]:
    """Divide the draws of both sides, of known laws, after the first ``size``. Either part can be
    scored.
    """
    first, second = slice(size), slice(size, None)
    return [_part(one, first) for one in draws], [_part(one, second) for one in draws]


def _part(draws: Draws, rows: slice) -> Draws:
    part = draws.select(rows)
    part.raw = replace(draws.raw.select(rows), known={})  # what its scores share is computed once
    return part


def _numbers(columns: list[NDArray[Any]], size: int) -> Floats:
    """Return the numbers of all stages side by side."""
    rows = [column if column.ndim > 1 else _of_tuples(column) for column in columns]
    if any(column.size and _beyond(column) for column in rows):
        rows += [np.where(_beyond_each(column), residues(column), 0) for column in rows]
    if len(rows) == 1:
        return floats_of(rows[0])
    return np.hstack([np.zeros((size, 0)), *map(floats_of, rows)])


def _beyond(column: NDArray[Any]) -> bool:
    return bool(column.max() >= _EXACT or column.min() <= -_EXACT)


def _beyond_each(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where integers are beyond exact floats. Elsewhere the residue is 0, as in a batch
    without such values.
    """
    return np.asarray((column >= _EXACT) | (column <= -_EXACT), dtype=np.bool_)


def _of_tuples(column: NDArray[Any]) -> NDArray[Any]:
    """Return shape (size, 34) in every batch: the length, the sum, the first entries or 0.

    A histogram is key, count, key, count, ...: a key that only one side shows is an entry of
    its own.
    """
    distinct, which = each_tuple_once(column)  # many draws are alike, and each is looked at once
    numbers = _of_distinct([row if isinstance(row, tuple) else () for row in distinct])
    if numbers.size and not _beyond(numbers):
        numbers = numbers.astype(np.float64)
    return numbers[which]


def _of_distinct(rows: list[tuple[int, ...]]) -> NDArray[Any]:
    """Compute ``_of_tuples`` one by one."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    longest = _MOST_ENTRIES
    numbers = np.zeros((len(rows), 2 + longest), dtype=object)
    numbers[:, 0], numbers[:, 1] = lengths, [sum(row) for row in rows]
    shown = np.minimum(lengths, longest)
    for length in np.unique(shown[shown > 0]).tolist():
        there = np.flatnonzero(shown == length)
        numbers[there, 2 : 2 + length] = [rows[i][:length] for i in there.tolist()]
    return numbers
