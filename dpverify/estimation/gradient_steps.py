"""Maximum likelihood of records inside an interval by noisy gradient steps, once or on several
disjoint chunks of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.stepped import CELLS
from dpverify.families import Limited
from dpverify.grid.linear import Integers
from dpverify.grid.splits import ByIndex
from dpverify.grid.steps import StepSums
from dpverify.grid.transcripts import Released, Transcripts
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import UNIT, Blocks, Part, Plan, RoundedGaussian, Stage
from dpverify.privacy.numbers import Floats
from dpverify.transformations.truncation import MOST_LISTED, Truncation

DESCENT = "descent"
_CHUNK = "chunk"
_SPARE = 3  # deviations of the number of records inside, by which a list is shorter than expected
_KEPT_BITS = 6  # significant bits of a released number, after the first
_ANY = (-1.0, *np.zeros(CELLS).tolist(), 1.0)


@dataclass(frozen=True, slots=True)
class Descent:
    """Plan of ``steps`` noisy sums of the statistic over a list of records inside an interval,
    or over each of ``runs`` chunks of it.

    A step's gradient is the mean of the statistic under its parameter, which is public, less
    the records' mean. So a step releases the sum of the statistics, with noise of its own,
    whatever its parameter is. scale: of a sum's noise, in cells.
    """

    steps: int
    runs: int
    scale: Fraction

    def declared(self) -> Part:
        """Build the part for a list of any records: its claim is that of every other list."""
        return self.part(_ANY, 0.0, self.runs)

    def part(self, edges: Sequence[float], pad: float, size: int) -> Part:
        """Build the part for ``size`` records from the first edge to below the last, between
        which ``CELLS`` edges divide the cells.
        """
        inner = np.array([edges[1:-1]])
        fixed: Released[tuple[Floats, Integers]] = Released(
            (), lambda before: (inner, np.zeros(len(before), np.intp))
        )
        query = OneUnit(StepSums(cells=CELLS, edges=fixed), self.scale)
        steps = (Stage(f"step {t + 1}", query, RoundedGaussian(UNIT)) for t in range(self.steps))
        plan: Plan = tuple(steps)
        if self.runs > 1:
            plan = (Blocks(_CHUNK, ByIndex(self.runs), (plan,) * self.runs),)
        low, high = edges[0], max(math.nextafter(edges[-1], -math.inf), edges[0])
        inside = min(max(pad, low), high)
        listed = Truncation(low=(low,), high=(high,), size=size, pad=(inside,))
        return Part(DESCENT, plan, on=listed)

    def stages(self) -> list[list[str]]:
        """Name each run's steps, as they are read from outside."""
        paths = [f"{DESCENT}/"]
        if self.runs > 1:
            paths = [f"{DESCENT}/{_CHUNK}/{k}/" for k in range(self.runs)]
        return [[f"{path}step {t + 1}" for t in range(self.steps)] for path in paths]

    def shares(self, transcript: Transcripts, size: int) -> Floats:
        """Compute where in the interval each step measured the mean of its records, from 0 to
        1, shape (runs, steps).
        """
        rows = [[transcript[name][0, :1] for name in run] for run in self.stages()]
        sums = in_units(np.array(rows)[:, :, 0], self.scale / UNIT)
        return (1 + sums / (size // self.runs) / CELLS) / 2


def list_size(number: float, share: float, runs: int) -> int:
    """Choose how many of ``number`` records to list, if this share of them is inside: hardly
    ever more than there are; a multiple of ``runs``.
    """
    mean = number * min(max(share, 0.0), 1.0)
    sure = mean - _SPARE * math.sqrt(mean * max(1 - share, 0.0))
    return min(max(math.floor(sure / runs), 1), MOST_LISTED // runs) * runs


def cut_number(numbers: Floats) -> Integers:
    """Round numbers from 1 to 10^18 down to seven significant bits, so that few plans are built
    for many draws.
    """
    part, exponent = np.frexp(np.clip(numbers, 1.0, 1e18))
    kept = np.floor(np.ldexp(part, _KEPT_BITS + 1))
    return np.asarray(np.floor(np.ldexp(kept, exponent - _KEPT_BITS - 1)), np.int64)


def descend(
    law: Callable[[float], Limited], means: Sequence[float], start: float, ends: tuple[float, float]
) -> float | None:
    """Take a gradient step for each noisy mean, and average the parameters.

    law: computes the moments of the statistic inside for a natural parameter; ends: of the
    parameters, to which each step is projected. Step t from 0 on goes 2 / ((t + 2) slope) times
    the gradient, the slope being that of the mean at the parameter it starts from; the
    parameter after t steps weighs t + 1. None where the law is flat. Source: ZZ25, Algorithm
    3.1, with all records in each step and this slope in place of the least one.
    """
    theta, total = start, 0.0
    for t, mean in enumerate(means):
        at = law(theta)
        if not at.slope > 0:
            return None
        theta -= 2 / (t + 2) * (at.mean - mean) / at.slope
        theta = min(max(theta, ends[0]), ends[1])
        total += (t + 2) * theta
    return total / (len(means) * (len(means) + 3) / 2)


def widening(steps: int) -> float:
    """Compute the noise of the descent's result over that of the mean of all its sums, on a
    straight line.

    There parameter t + 1 is t / (t + 2) of parameter t and 2 / (t + 2) of sum t.
    """
    own, total = np.zeros(steps), np.zeros(steps)
    for t in range(steps):
        own *= t / (t + 2)
        own[t] = 2 / (t + 2)
        total += (t + 2) * own
    return float(np.linalg.norm(total / total.sum()) * math.sqrt(steps))


def middle_of(runs: int) -> float:
    """Compute the deviation of the median of so many normal numbers, in deviations of one of them.

    The result is exact to one percent for odd numbers. For even ones it is too large by up to
    11 percent (for two), which is on the safe side.
    """
    return math.sqrt(math.pi / (2 * (runs - 1) + math.pi))
