"""Chunks that the workers of a Dask cluster read: only partial sums leave them.

A partial sum is as secret as its records. Noise is added once, by the process that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from dpverify.plans.chunks import Source
from dpverify.plans.tallying import Refused, Tally, merged

_FAN_IN = 16


class DaskChunks(Source):
    """Blocks of a Dask array, or partitions of a Dask data frame.

    They are computed by Dask's current scheduler. Its own logs may show what a worker raised.
    """

    def __init__(self, collection: Any) -> None:
        if not hasattr(type(collection), "to_delayed"):  # for example a Delayed
            raise TypeError(
                f"A {type(collection).__name__} of Dask has no blocks of records; give an array or "
                "a data frame, as dask.dataframe.from_delayed makes one."
            )
        if getattr(collection, "ndim", 2) == 2 and hasattr(collection, "rechunk"):
            collection = collection.rechunk({1: -1})  # every block then has whole records
        self._collection = collection

    def tally(self, ask: Callable[[Any], Tally | Refused]) -> Tally | Refused | None:
        """Ask every block where it is, and merge the answers, some at a time."""
        import dask

        blocks = self._collection.to_delayed()
        blocks = blocks.ravel().tolist() if hasattr(blocks, "ravel") else list(blocks)
        one = dask.delayed(_asked, pure=False, traverse=False)
        answers = [one(ask, place, block) for place, block in enumerate(blocks)]
        together = dask.delayed(_together, pure=False)
        while len(answers) > 1:
            groups = (answers[i : i + _FAN_IN] for i in range(0, len(answers), _FAN_IN))
            answers = [together(group) for group in groups]
        if not answers:
            return None
        (total,) = dask.compute(answers[0])
        known: Tally | Refused = total
        return known


def _asked(ask: Callable[[Any], Tally | Refused], place: int, block: Any) -> Tally | Refused:
    answer = ask(block)
    return answer.within(f"block {place}") if isinstance(answer, Refused) else answer


def _together(answers: Sequence[Tally | Refused]) -> Tally | Refused:
    return reduce(merged, answers)
