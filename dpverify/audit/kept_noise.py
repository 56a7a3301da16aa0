"""Tests of a refutation: whether what tells the sides apart is noise that is kept between calls.

``independence`` looks at whole outputs, and allows any drift that both sides share. Beside a clock
no two outputs are equal, and noise that is kept for thousands of calls looks like a drift. Here
every number (or text) of an output is looked at by itself, but only where the claim would be called
false. A function whose every call, given the calls before, keeps the claim gets there with the
audit's alpha at most, whatever drifts: no such function is refused more often. For one that leaks,
and whose calls are independent of one law a side, each test has a false alarm of probability 1e-12
at most, and there are no more than 90 a pair:

- runs: on one side, equal values come in fewer runs than orders of these values do by chance
  (``independence.log_chance_of_runs``). Of each of at most 17 columns, on two sides;
- halves: neighbors are on one side of the median of all, and outputs about 64 calls apart are
  not. Whether the second or the third of three outputs agrees with the first, where one of both
  does, is a fair coin: exchanging both changes neither the law nor the median. More than ``_BAR``
  of such coins are too many. Of each of at most 8 numbers;
- reversals: in some blocks of calls values above a quartile are rather the left side's, and in
  others the right side's. Each call's side is a coin, so given all outputs (as in
  ``witnesses.guesses``) a guess at the side that is likelier wrong is wrong with probability 1/2 at
  least; Fisher's sum over the blocks rejects this for both sides. That is exact under any drift
  that leaves the direction of a leak as it is. Of each of at most 8 numbers, for 3 quartiles and
  2 lengths of blocks.

Only columns that tell the sides apart are looked at: clocks, serial numbers, public centers and
flags that stand beside a leak do not, because the side of each call is a fair coin. A leak in a
number that also jumps with the calls, for both sides alike, cannot be told from kept noise, and is
refused as well. A column that never changes on either side is a leak without noise, or noise that
was drawn once, and one that changes slowly may be noise that is kept for long: where no test can
tell, ``doubts`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.independence import (
    ADVICE,
    NEVER,
    InvalidRun,
    Score,
    Watch,
    log_chance_of_runs,
    stays,
)
from dpverify.audit.outputs.draws import together
from dpverify.audit.outputs.laws import CallableDraws, name_of_function
from dpverify.audit.stateless import remembers_nothing

_BAR = 0.6
"""Allowed share of neighbors among the outputs that agree, where one of two does."""
_COLUMNS = 8
_BINS = 16
_BLOCKS = 100, 1000  # calls of both sides
_TELLS = 0.125  # distance in total variation of both sides' values, in bins: of clocks .07
_FEWEST = 30
_DRIFTS, _EXPECTED = 1e-6, 5


@dataclass(frozen=True, slots=True)
class _Column:
    """One number, or text, of the outputs of the left side and of the right, in order.

    order: what puts the values of both, one side after the other, in the order of calls; None where
    that is unknown.
    """

    name: str
    sides: tuple[NDArray[np.float64], NDArray[np.float64]]
    is_number: bool
    order: NDArray[np.intp] | None

    @property
    def stays(self) -> bool:
        """True if nine of ten values equal the next one, on both sides."""
        return all(map(stays, self.sides))

    @property
    def tells(self) -> bool:
        """True if the two sides' values differ by more than those of a clock do."""
        return self.distance > _TELLS

    @property
    def distance(self) -> float:
        """Distance in total variation of the two sides' values; of numbers, in 16 bins."""
        pooled = np.concatenate(self.sides)
        edges = np.unique(pooled)
        if self.is_number and len(edges) > _BINS:
            edges = np.unique(np.quantile(pooled, np.arange(1, _BINS) / _BINS))
        shares = [
            np.bincount(np.searchsorted(edges, side, "right"), minlength=len(edges) + 1) / len(side)
            for side in self.sides
        ]
        return float(np.abs(shares[0] - shares[1]).sum()) / 2

    def halves(self) -> list[NDArray[np.bool_]]:
        """Return which values are above the median of both sides, or not below it: whichever
        are nearer to half.
        """
        pooled = np.concatenate(self.sides)
        median = np.median(pooled)
        above, below = float(np.mean(pooled > median)), float(np.mean(pooled < median))
        if above >= below:
            return [side > median for side in self.sides]
        return [side >= median for side in self.sides]


def refuse_kept(watch: Watch) -> None:
    """Raise InvalidRun where a column that tells the sides apart shares noise between calls.

    Call it where the claim would be called false. The module states the false alarms.
    """
    for column in _columns(watch):
        if _log_reversal(column) < math.log(NEVER):
            _refuse(
                watch, f"{column.name} is larger on the left for some calls, and then on the right"
            )
        if not column.tells:
            continue
        if min(map(log_chance_of_runs, column.sides)) < math.log(NEVER):
            _refuse(watch, f"{column.name} comes in runs of equal values")
        coins = _coins(column)
        if not coins.is_chance:
            _refuse(
                watch,
                f"{column.name} is on the same side of its median in neighbors and not about 64 "
                f"calls apart {coins.happened} times, the other way round "
                f"{coins.tried - coins.happened} times",
            )


def stillness(watch: Watch) -> float:
    """Return how often neighbors are on the same side of the median of all, of the number in which
    most are, among those that tell the sides apart; 0 where there is none.

    1 where a text is the next one's nine of ten times. Much of it is what noise that is kept looks
    like after few calls; leaks that are plain on every call look like that as well.
    """
    columns = _columns(watch) if may_keep(watch) else ()
    return max((_agreement(one) for one in columns if one.distance > 2 * _TELLS), default=0.0)


def drifting(watch: Watch) -> str | None:
    """Return the name of a number that tells the sides apart and whose law is not the same all the
    time on one side; None if there is none.

    Of each number, three chi-square tests on either side, at level 1e-6 each: not to refuse an
    audit, but to draw more, or to say so.
    """
    for column in _columns(watch) if may_keep(watch) else ():
        if column.is_number and column.tells and _log_drift(column) < math.log(_DRIFTS):
            return column.name
    return None


def unchanging(watch: Watch) -> str | None:
    """Return the name of a number or text that never changed on either side, with its values, and
    is not the same on both; None if there is none, or the function surely remembers nothing.
    """
    for column in _columns(watch) if may_keep(watch) else ():
        first = [side[0] for side in column.sides]
        if first[0] != first[1] and all((side == side[0]).all() for side in column.sides):
            return column.name + (f" ({first[0]:.6g}, {first[1]:.6g})" if column.is_number else "")
    return None


def doubts(watch: Watch, pair: str, fewest: int = 0) -> list[str]:
    """Return remarks on a refutation, where it may come from noise that no test tells from a
    leak: a number never changes, or changes with the calls, or calls were fewer than ``fewest``.
    """
    still, moved = unchanging(watch), drifting(watch)
    if still is not None:
        seen = f"{still} never changed between calls, on either side of the pair {pair!r}"
        known = "If nothing in it is random, it is a leak"
    elif moved is not None:
        seen = f"{moved} changes with the calls, on the pair {pair!r}"
        known = "If all can know how, this verdict stands"
    elif (calls := min(sum(map(len, side)) for side in watch.seen)) < fewest and may_keep(watch):
        seen = f"So few calls ({calls} a side of the pair {pair!r}) do not show noise that is kept"
        known = "If each call draws its own noise, this verdict stands"
    else:
        return []
    return [
        f"{seen}. {known}. If it is noise that is kept between calls, every call may be private "
        "all the same: give fresh=make, where make() returns a new function, so that each is "
        "called once"
    ]


def may_keep(watch: Watch) -> bool:
    """Return whether calls may share noise: not where each is of a new function, or where the
    function surely remembers nothing.
    """
    return not any(
        isinstance(law, CallableDraws) and (law.is_fresh or remembers_nothing(law.function))
        for law in watch.laws
    )


def _columns(watch: Watch) -> Iterator[_Column]:
    """Yield the first numbers and texts of the outputs, and their kinds with all texts."""
    if not all(watch.seen):
        return
    left, right = (together(side) for side in watch.seen)
    if min(len(left), len(right)) < _FEWEST:
        return
    size, both = len(left), together([left, right])
    order = None if both.turns is None else np.argsort(both.turns)
    for j in range(min(both.numbers.shape[1], _COLUMNS)):
        numbers = both.numbers[:, j]
        yield _Column(f"number {j} of the output", (numbers[:size], numbers[size:]), True, order)
    for j in sorted(both.marks)[:_COLUMNS]:
        codes = both.marks[j].codes.astype(np.float64)
        yield _Column(f"text {j} of the output", (codes[:size], codes[size:]), False, order)
    codes = both.coded.codes.astype(np.float64)
    yield _Column("the kind of output", (codes[:size], codes[size:]), False, order)


def _agreement(column: _Column) -> float:
    if not column.is_number:
        return float(column.stays)
    same = [side[1:] == side[:-1] for side in column.halves()]
    return float(np.mean(np.concatenate(same)))


def _coins(column: _Column) -> Score:
    """Return how often the next output alone agrees in halves, of how often one of two does."""
    score = Score(_BAR)
    for side in column.halves() if column.is_number else ():
        score.add_agreements(side)
    return score


def _log_reversal(column: _Column) -> float:
    """Return the logarithm of the probability of the test of reversals: the larger one of both
    directions, the least of all quartiles and lengths of blocks.
    """
    if column.order is None or not column.is_number:
        return 0.0
    is_right = np.repeat([False, True], [len(side) for side in column.sides])[column.order]
    pooled = np.concatenate(column.sides)
    least = 0.0
    for cut in np.unique(np.quantile(pooled, (0.25, 0.5, 0.75))):
        wrong = (pooled > cut)[column.order] == is_right  # for the left side above
        for length in _BLOCKS:
            blocks = wrong[: len(wrong) // length * length].reshape(-1, length)
            many = np.count_nonzero(blocks, axis=1)
            both = (_log_fisher(many, length), _log_fisher(length - many, length))
            least = min(least, max(both))
    return least


def _log_fisher(heads: NDArray[np.intp], coins: int) -> float:
    """Bound the chance that fair coins, so many a block, show as many heads block by block;
    return its logarithm: Fisher's sum of the logarithms of the blocks' own probabilities.
    """
    chances = scipy.special.bdtrc(heads - 1.0, coins, 0.5)
    total = -float(np.log(np.where(heads > 0, chances, 1.0)).sum())
    return _log(float(scipy.special.gammaincc(len(heads), total))) if len(heads) else 0.0


def _log_drift(column: _Column) -> float:
    """Return the least logarithm of the probabilities of the chi-square tests, of whether values
    above a quartile are as common in each of 16 parts of a side's outputs.
    """
    least = 0.0
    for cut in np.unique(np.quantile(np.concatenate(column.sides), (0.25, 0.5, 0.75))):
        for side in column.sides:
            parts = np.array_split(side > cut, _BINS)
            sizes, hits = (np.array([f(part) for part in parts]) for f in (len, np.count_nonzero))
            expected = sizes * (hits.sum() / sizes.sum())
            spread = expected * (1 - hits.sum() / sizes.sum())
            if expected.min() >= _EXPECTED and (sizes - expected).min() >= _EXPECTED:
                misfit = float(((hits - expected) ** 2 / spread).sum())
                least = min(least, _log(float(scipy.special.chdtrc(_BINS - 1, misfit))))
    return least


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf


def _refuse(watch: Watch, seen: str) -> None:
    name = name_of_function(watch.laws[0])
    raise InvalidRun(f"{name} shares noise between outputs: {seen}. {ADVICE}")


__all__ = ["doubts", "drifting", "may_keep", "refuse_kept", "stillness", "unchanging"]
