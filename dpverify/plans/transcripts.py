"""What a plan releases: one transcript, or a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.bits import IntArray

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One draw: the released values by stage name, in order; ``stopped`` is a gate's reason."""

    released: dict[str, tuple[int, ...]]
    stopped: str | None = None

    def __getitem__(self, stage: str) -> int:
        """The released value of a stage of width 1."""
        (value,) = self.released[stage]
        return value


@dataclass(frozen=True, slots=True)
class Transcripts:
    """A batch of draws.

    values[name] has shape (size, width), or (size,) and tuples of varying length as entries; its row i
    means something only if stage ``name`` is among the first reached[i] stages. stopped_by[i] is the index of the gate that stopped draw i, or -1.
    """

    values: dict[str, IntArray]
    reached: NDArray[np.intp]
    stopped_by: NDArray[np.intp]
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.reached)

    def select(self, rows: Rows) -> Transcripts:
        """The same batch with only these rows."""
        values = {name: column[rows] for name, column in self.values.items()}
        return Transcripts(values, self.reached[rows], self.stopped_by[rows], self.reasons)

    def __getitem__(self, i: int) -> Transcript:
        names = list(self.values)[: int(self.reached[i])]
        released = {name: tuple(int(v) for v in self.values[name][i]) for name in names}
        gate = int(self.stopped_by[i])
        return Transcript(released, self.reasons[gate] if gate >= 0 else None)


def of_each_tuple(
    column: NDArray[Any], what: Callable[[tuple[int, ...]], int], kind: type
) -> NDArray[Any]:
    """``what`` of each entry of a column of tuples, as numbers of this kind, shape (size,).

    Equal draws of a batch share one tuple, which is looked at once.
    """
    alike = np.fromiter(map(id, column), np.int64, len(column))
    _, first, which = np.unique(alike, return_index=True, return_inverse=True)
    return np.array([what(column[i]) for i in first.tolist()], kind)[which]
