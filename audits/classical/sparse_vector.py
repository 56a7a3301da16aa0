"""The sparse vector technique, six times: ten queries, all of which may move by 1.

An answer is TRUE when query plus noise reaches a noisy threshold. One noise rho is for the
threshold, a fresh noise nu for each query; the first, second, third and fourth variant stop
after the first TRUE (c = 1) and answer ABORT from then on. Scales are for epsilon = .1.

Given rho the answers are independent, so the probability of a sequence is one integral over rho.
A FALSE loses at most exp(1 / scale of nu) when its query moves up by 1, a TRUE as much when it
moves down. Where the threshold's noise is shifted along by 1 (which costs 1 / scale of rho), a
FALSE loses nothing and a TRUE twice as much: this is what a sound variant pays, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.neighbors.pairs import NeighboringPair, moved
from dpverify.privacy.adjacency import Dataset

from .exact import Floats, laplace_cdf, under_laplace
from .record import STEPS, Classical, Outputs, rounded, several

FALSE, TRUE, ABORT = 0, 1, -1
QUERIES = 10


@dataclass(frozen=True, slots=True)
class SparseVector:
    """A variant of the technique: its threshold and scales; ``nu`` = 0 for queries without
    noise."""

    threshold: float
    rho: float
    nu: float
    stops: bool = True

    def __call__(self, data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
        """Draw sequences of FALSE, TRUE and ABORT, shape (size, queries)."""
        above = self._above(self._noisy(data, size, generator), size, generator)
        answers = above.astype(np.int8)
        if self.stops:
            passed = np.logical_or.accumulate(above, axis=1)[:, :-1]
            answers[:, 1:][passed] = ABORT
        return answers

    def probability(self, data: Dataset, answers: Sequence[int]) -> float:
        """Return P(the answers), exactly; ABORT at the end may be left out."""
        known = [(q, a) for q, a in zip(data, answers, strict=False) if a != ABORT]

        def given(rho: Floats) -> Floats:
            result = np.ones_like(rho)
            for query, answer in known:
                result = result * self._agrees(self.threshold + rho - query, answer)
            return result

        return under_laplace(self.rho, [query - self.threshold for query, _ in known], given)

    def _agrees(self, gap: Floats, answer: int) -> Floats:
        below = laplace_cdf(gap, self.nu) if self.nu else (gap > 0).astype(np.float64)
        return 1 - below if answer == TRUE else below

    def _noisy(self, data: Dataset, size: int, generator: np.random.Generator) -> Floats:
        queries = np.broadcast_to(np.asarray(data, dtype=np.float64), (size, len(data)))
        return (
            queries + generator.laplace(scale=self.nu, size=queries.shape) if self.nu else queries
        )

    def _above(self, noisy: Floats, size: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        thresholds = self.threshold + generator.laplace(scale=self.rho, size=(size, 1))
        return np.asarray(noisy >= thresholds, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class ValueInstead(SparseVector):
    """A variant that reports the noisy query itself where it should say TRUE."""

    def __call__(self, data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
        """Draw the number of FALSE, then the value (0 if there is none), shape (size, 2).

        This encodes the sequence FALSE ... FALSE, value, ABORT ... ABORT.
        """
        noisy = self._noisy(data, size, generator)
        above = self._above(noisy, size, generator)
        crossed = above.any(axis=1)
        first = np.where(crossed, above.argmax(axis=1), len(data))
        last = np.minimum(first, len(data) - 1)
        values = rounded(noisy[np.arange(size), last])
        return np.stack([first, np.where(crossed, values, 0.0)], axis=1)

    def value_at_most(self, data: Dataset, first: int, value: float) -> float:
        """Return P(exactly ``first`` answers are FALSE, then a value of at most ``value``),
        exactly."""
        query = data[first]

        def given(rho: Floats) -> Floats:
            before: Floats = np.prod(
                [self._agrees(self.threshold + rho - q, FALSE) for q in data[:first]], axis=0
            )
            between = laplace_cdf(value - query, self.nu) - laplace_cdf(
                self.threshold + rho - query, self.nu
            )
            mass: Floats = before * np.maximum(between, 0.0)
            return mass

        kinks = [*(q - self.threshold for q in data[: first + 1]), value - self.threshold]
        return under_laplace(self.rho, kinks, given)


def _queries(*parts: tuple[int, float]) -> list[float]:
    return [value for number, value in parts for _ in range(number)]


# Nine FALSE, then TRUE: the queries move up where the answer is FALSE, the last one down.
_NINE_THEN_ONE = moved(
    "nine go up, the last down", _queries((10, 0.0)), _queries((9, 1.0), (1, -1.0))
)
_FIVE_AND_FIVE = moved("five go up, five down", _queries((10, 0.0)), _queries((5, 1.0), (5, -1.0)))


def _crossing(up: int, start: float) -> NeighboringPair:
    """Move the first ``up`` queries from ``start`` below the threshold to above it, the others
    back."""
    down = QUERIES - up
    name = f"{up} cross the threshold, {down} the other way"
    return several(name, _queries((up, -start), (down, start)), [1] * up + [-1] * down)


SVT_1 = Classical(
    name="SVT1",
    function=SparseVector(threshold=0.5, rho=20.0, nu=40.0),
    pairs=(_NINE_THEN_ONE, _FIVE_AND_FIVE),
    truth=0.098304849621,
    supremum=0.1,
    published=0.0858,
    source="Lyu, Su, Li 2017, algorithm 1",
)

# It draws the threshold's noise anew after each TRUE; with c = 1 there is no answer after it.
SVT_2 = Classical(
    name="SVT2",
    function=SparseVector(threshold=1.0, rho=20.0, nu=40.0),
    pairs=(_NINE_THEN_ONE, _FIVE_AND_FIVE),
    truth=0.098181227602,
    supremum=0.1,
    published=0.0859,
    source="Lyu, Su, Li 2017, algorithm 2",
)

# A value shows that the threshold lies below it. Below all queries every FALSE before it loses
# exp(1 / 20) a step when its query goes up, and the value's own density when its query goes
# down: at most 10 / 20. Between neighbors such events are rare and hard to find; of probability
# 10^-3 they lose .32.
SVT_3 = Classical(
    name="SVT3",
    function=ValueInstead(threshold=0.0, rho=20.0, nu=20.0),
    pairs=(_crossing(9, 4.0),),
    steps=STEPS,
    truth=0.45,
    supremum=0.5,
    published=0.182,
    source="Lyu, Su, Li 2017, algorithm 3",
)

# The threshold's shift costs 1 / 40, the TRUE 2 * 3 / 40: 7 / 40. After nine FALSE and a TRUE
# nearly all of that is lost at every step.
SVT_4 = Classical(
    name="SVT4",
    function=SparseVector(threshold=0.0, rho=40.0, nu=40.0 / 3.0),
    pairs=(_crossing(9, 4.0),),
    steps=STEPS,
    truth=0.17438400704,
    supremum=0.175,
    published=0.170,
    reach=0.14,
    source="Lyu, Su, Li 2017, algorithm 4",
)

# Without noise of their own the answers compare the queries with one threshold: of two queries
# at most the larger one reaches it. Two queries 2 apart that meet exclude the answer that the
# threshold lies between them: .0487. A ladder of such pairs, every other step of which closes,
# excludes .22 in all.
SVT_5 = Classical(
    name="SVT5",
    function=SparseVector(threshold=0.0, rho=20.0, nu=0.0, stops=False),
    pairs=(
        moved(
            "a ladder of pairs that meet",
            [-5.0, -3.0, -3.0, -1.0, -1.0, 1.0, 1.0, 3.0, 3.0, 5.0],
            [1.0, -1.0] * 5,
        ),
        moved("two that meet", _queries((5, -1.0), (5, 1.0)), _queries((5, 1.0), (5, -1.0))),
    ),
    truth=float("inf"),
    supremum=float("inf"),
    published=1.76,
    reach=8.0,
    source="Lyu, Su, Li 2017, algorithm 5",
)

# Every answer loses exp(1 / 20) a step, and none is followed by ABORT: 10 / 20 in the limit of
# queries that are far apart. Near each other the most telling answers are likelier.
SVT_6 = Classical(
    name="SVT6",
    function=SparseVector(threshold=0.0, rho=20.0, nu=20.0, stops=False),
    pairs=(_crossing(5, 2.0),),
    steps=STEPS,
    truth=0.429548118899,
    supremum=0.5,
    published=0.272,
    reach=0.30,
    source="Lyu, Su, Li 2017, algorithm 6",
)
