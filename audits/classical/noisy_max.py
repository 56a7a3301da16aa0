"""Report noisy max on five queries, all of which may move by 1.

The noise added to each answer has scale 2 / epsilon = 20: Laplace in the first and third mechanism,
exponential in the second and fourth. The first two report who wins, which is private; the other two
report the largest noisy value, which is not.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpverify.audit.neighbors.pairs import moved
from dpverify.privacy.adjacency import Dataset

from .exact import (
    Floats,
    exponential_cdf,
    laplace_cdf,
    under_exponential,
    under_laplace,
)
from .record import STEPS, Classical, Function, Outputs, rounded, several

Noise = Literal["laplace", "exponential"]
SCALE = 20.0
QUERIES = 5
_CDF = {"laplace": laplace_cdf, "exponential": exponential_cdf}
_UNDER = {"laplace": under_laplace, "exponential": under_exponential}
_SOURCE = "Ding, Wang, Wang, Zhang, Kifer 2018"


def _noisy(data: Dataset, size: int, generator: np.random.Generator, kind: Noise) -> Floats:
    draw = generator.laplace if kind == "laplace" else generator.exponential
    return np.asarray(data, dtype=np.float64) + draw(scale=SCALE, size=(size, len(data)))


def _winner(kind: Noise) -> Function:
    def report(data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
        """Return who wins, from 0, shape (size,)."""
        winners: Outputs = _noisy(data, size, generator, kind).argmax(axis=1)
        return winners

    return report


def _largest(kind: Noise) -> Function:
    def report(data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
        """Return the largest noisy value, shape (size,)."""
        return rounded(_noisy(data, size, generator, kind).max(axis=1))

    return report


def wins(data: Dataset, who: int, kind: Noise) -> float:
    """Return P(``who`` wins), exactly: over its noise x, the product of
    P(q_i + noise <= q_who + x)."""
    others = [answer - data[who] for i, answer in enumerate(data) if i != who]

    def given(x: Floats) -> Floats:
        product: Floats = np.prod([_CDF[kind](x - other, SCALE) for other in others], axis=0)
        return product

    return _UNDER[kind](SCALE, others, given)


def largest_at_most(data: Dataset, value: ArrayLike, kind: Noise) -> Floats:
    """Return P(the largest noisy value is at most ``value``), exactly: a product."""
    factors = [_CDF[kind](np.subtract(value, answer), SCALE) for answer in data]
    product: Floats = np.prod(factors, axis=0)
    return product


_NOBODY_AHEAD = [0.0] * QUERIES
_ONE_DOWN = [-1.0] + [1.0] * (QUERIES - 1)
_BEHIND = [-100.0] + [0.0] * (QUERIES - 1)

# The first is overtaken: its noise has to make up for 2 more, which costs exp(2 / scale) where
# the noise's tail is exponential. It always is beyond the other answers. Laplace noise reaches
# the same in the limit of an answer far behind, where it is rare that it wins.
RNM_1 = Classical(
    name="RNM1",
    function=_winner("laplace"),
    pairs=(
        moved("the first is overtaken", _NOBODY_AHEAD, _ONE_DOWN),
        moved("the first is far behind", _BEHIND, _ONE_DOWN),
    ),
    truth=0.099999998382,
    supremum=0.1,
    published=0.0925,
    source=_SOURCE,
)

RNM_2 = Classical(
    name="RNM2",
    function=_winner("exponential"),
    pairs=(moved("the first is overtaken", _NOBODY_AHEAD, _ONE_DOWN),),
    truth=0.1,
    supremum=0.1,
    published=0.0979,
    source=_SOURCE,
)

# Each factor of P(largest <= x) falls by exp(1 / scale) for x below all answers: 5 / 20 in all a
# step, on the event {largest <= 0}, of probability 1/32.
RNM_3 = Classical(
    name="RNM3",
    function=_largest("laplace"),
    pairs=(several("all move up", _NOBODY_AHEAD, [1] * QUERIES),),
    steps=STEPS,
    truth=0.25,
    supremum=0.25,
    published=0.2488,
    reach=0.23,
    source=_SOURCE,
)

# Nothing comes out below the largest answer: values between the old one and the new one are
# impossible afterwards. They are likely where no other answer is near: (1 - e^-1/20)
# (1 - e^-1)^4 = .0078 on the first pair, 1 - e^-1/20 = .0488 on the second.
RNM_4 = Classical(
    name="RNM4",
    function=_largest("exponential"),
    pairs=(
        moved("the largest of [-10, 10]^5", [9.0] + [-10.0] * 4, [1.0] + [0.0] * 4),
        moved("alone at the top", [9.0] + [-1000.0] * 4, [1.0] + [0.0] * 4),
    ),
    truth=float("inf"),
    supremum=float("inf"),
    published=0.353,
    reach=7.0,
    source=_SOURCE,
)
