"""Bounds on coincidence: how many equal outputs in a row are none, from the release's own
repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.confidence_regions import at_most
from dpverify.audit.structure.result import attempt, describe
from dpverify.privacy.numbers import Floats

_RAISED = "raised "
PAIRS = 200
"""The fewest pairs of further outputs that are compared to see how often two outputs agree."""
_DIGITS = 9  # digits of differences: equal ones about different centers may differ by rounding


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Yardstick for how many equal outputs in a row are no coincidence.

    collision: two independent outputs agree with at most this probability (confidence
    1 - alpha/2, together with beside and differences). beside: the same for outputs without
    their clocks and counters; differences: the same for the differences of one output and the
    next. Equal outputs agree in all of these, so chance must explain none of them.
    """

    collision: float
    alpha: float
    beside: float = 0.0
    differences: float = 0.0

    def needed(self, comparisons: int) -> float:
        """Return the least length of a run of equal outputs that happens anywhere with
        probability <= alpha / 2.
        """
        if max(self.collision, self.beside, self.differences) >= 1:
            return math.inf
        rare = math.log(self.alpha / 2 / comparisons)
        looks = ((self.collision, 1), (self.beside, 1), (self.differences, 2))
        return max(size * math.ceil(rare / math.log(chance)) for chance, size in looks if chance)

    def problem(self, draws: int, comparisons: int) -> str:
        """Return what to say where ``draws`` outputs are too few; "" where they are enough."""
        needed = self.needed(comparisons)
        if needed <= draws:
            return ""
        more = "no number of draws is enough" if math.isinf(needed) else f"draws >= {needed} needed"
        often = max(self.collision, self.beside, self.differences)
        return f"two outputs agree too often to tell (up to {often:.1%} of pairs): {more}"


def sequence(release: Callable[[], Any], draws: int) -> list[str]:
    """Return the outputs as comparable texts, in order."""
    return [key(attempt(release)) for _ in range(draws)]


def measured(release: Callable[[], Any], draws: int, alpha: float) -> tuple[list[str], Yardstick]:
    """Return further outputs as comparable texts, and the yardstick that they give."""
    keys, rows = [], []
    for _ in range(2 * max(PAIRS, draws)):
        output = attempt(release)
        keys.append(key(output))
        rows.append(_numbers(output))
    widths = {None if row is None else row.shape for row in rows}
    alike = len(widths) == 1 and None not in widths
    return keys, yardstick(keys, alpha, np.array(rows) if alike else None)


def yardstick(keys: Sequence[str], alpha: float, numbers: Floats | None = None) -> Yardstick:
    """Make a yardstick from independent outputs, an even number: Clopper-Pearson over disjoint
    pairs.

    numbers: what the outputs consist of, shape (outputs, numbers), if that is numbers. Objects
    that were made alike may be at the same place of a clock or counter, or of a center that
    drifts with the calls, while neighboring outputs of one object never are.
    """
    looks: list[Sequence[Any]] = [keys]
    if numbers is not None and numbers.shape[1]:
        steps = np.diff(numbers, axis=0)
        both_ways = (steps < 0).any(axis=0) & (steps > 0).any(axis=0)
        kept = numbers[:, both_ways] if both_ways.any() else numbers
        apart = np.round(numbers[1::2] - numbers[::2], _DIGITS)
        looks += [[row.tobytes() for row in one] for one in (kept, apart + 0.0)]
    share = alpha / 2 / len(looks)
    collisions = [_collision(look, share) for look in looks]
    return Yardstick(collisions[0], alpha, *collisions[1:])


def _collision(look: Sequence[Any], alpha: float) -> float:
    even = len(look) // 2 * 2
    equal = sum(a == b for a, b in zip(look[:even:2], look[1:even:2], strict=True))
    return float(at_most(equal, even // 2, alpha))


def _numbers(output: Any) -> Floats | None:
    """Return the numbers that an output consists of; None where it is something else."""
    array = attempt(np.asarray, output)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        return None
    return array.astype(np.float64).ravel()


def in_common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many outputs the two sequences share from the start; calls that raised share
    nothing.
    """
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b or a.startswith(_RAISED):
            return index
    return min(len(left), len(right))


def key(output: Any) -> str:
    """Return a text that is equal exactly for outputs of equal content: the bits of numbers,
    else ``repr``.
    """
    if isinstance(output, BaseException):
        return raised(output)
    array = attempt(np.asarray, output)
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufc":
        return f"{array.dtype.str} {array.shape} {array.tobytes().hex()}"
    return repr(output)


def raised(error: BaseException) -> str:
    """Return the text that stands for an exception among outputs."""
    return f"{_RAISED}{describe(error)}"


def exceptions(keys: Sequence[str]) -> str:
    """Return how many of these stand for exceptions, and the first; "" if none does."""
    failed = [text for text in keys if text.startswith(_RAISED)]
    return f"{len(failed)} of {len(keys)} calls {failed[0]}" if failed else ""
