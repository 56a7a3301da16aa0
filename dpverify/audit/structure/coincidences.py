"""When are equal outputs no coincidence? A bound from the release's own repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.regions import at_most
from dpverify.audit.structure.result import attempt, describe

_RAISED = "raised "
PAIRS = 200
"""The fewest pairs of further outputs that are compared to see how often two outputs agree."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How many equal outputs in a row are no coincidence.

    collision: two independent outputs agree with at most this probability (confidence 1 - alpha/2).
    """

    collision: float
    alpha: float

    def needed(self, comparisons: int) -> float:
        """The fewest equal outputs in a row that happen anywhere with probability <= alpha / 2."""
        if self.collision >= 1:
            return math.inf
        return math.ceil(math.log(self.alpha / 2 / comparisons) / math.log(self.collision))

    def problem(self, draws: int, comparisons: int) -> str:
        """What to say where ``draws`` outputs are too few; "" where they are enough."""
        needed = self.needed(comparisons)
        if needed <= draws:
            return ""
        more = "no number of draws is enough" if math.isinf(needed) else f"draws >= {needed} needed"
        return f"two outputs agree too often to tell (up to {self.collision:.1%} of pairs): {more}"


def sequence(release: Callable[[], Any], draws: int) -> list[str]:
    """The outputs as comparable texts, in order."""
    return [key(attempt(release)) for _ in range(draws)]


def yardstick(keys: Sequence[str], alpha: float) -> Yardstick:
    """From independent outputs, an even number: Clopper-Pearson over disjoint pairs."""
    equal = sum(a == b for a, b in zip(keys[::2], keys[1::2], strict=True))
    return Yardstick(float(at_most(equal, len(keys) // 2, alpha / 2)), alpha)


def in_common(left: Sequence[str], right: Sequence[str]) -> int:
    """How many outputs the two sequences share from the start; calls that raised share nothing."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b or a.startswith(_RAISED):
            return index
    return min(len(left), len(right))


def key(output: Any) -> str:
    """Equal exactly for outputs of equal content: the bits of numbers, else ``repr``."""
    if isinstance(output, BaseException):
        return raised(output)
    array = attempt(np.asarray, output)
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufc":
        return f"{array.dtype.str} {array.shape} {array.tobytes().hex()}"
    return repr(output)


def raised(error: BaseException) -> str:
    """How an exception stands among outputs."""
    return f"{_RAISED}{describe(error)}"


def exceptions(keys: Sequence[str]) -> str:
    """How many of these stand for exceptions, and the first; "" if none does."""
    failed = [text for text in keys if text.startswith(_RAISED)]
    return f"{len(failed)} of {len(keys)} calls {failed[0]}" if failed else ""
