"""The k most frequent of m categories: all counts with noise, as shipped, or k choices one by one.

    python -m tests.benchmarks.most_frequent

A figure is a gap in records: k categories have so many more records than the m - k others, which
are alike, and with probability .9 exactly these k are named. Smaller is better.

"counts": one ``Histogram``, Laplace or Gaussian noise, whichever has the smaller gap; its counts
are released with it. "choices": the exponential mechanism k times (with Gumbel noise at once,
which has the same law), each of bounded range e. "flips": permute-and-flip k times, which has no
bounded range and is paid for as pure DP. e is the largest with which k of them keep the budget,
by the library's own composition. "choices and counts": half of the budget (as a share) for k
choices, and the other half for noise on the k chosen counts, which is what counts release for
nothing more.

The laws of noise are continuous here, 20,000 draws a figure, so that a figure is within 2%.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpverify import Adjacency, ApproxDP, GaussianDP, Histogram, PureDP
from dpverify.privacy import Guarantee, calibrate
from dpverify.privacy.guarantees import BoundedRange
from dpverify.privacy.numbers import Floats
from tests.benchmarks.timing import header, table

DRAWS, SUCCESS = 20_000, 0.9
Tail = Callable[[Floats], Floats]
"""Map from the probability of more to the value."""


def laplace(p: Floats) -> Floats:
    """Return the number that Laplace noise of scale 1 exceeds with probability p."""
    below = np.log(2 * np.maximum(1 - p, 1e-300))
    return np.asarray(np.where(p < 0.5, -np.log(2 * np.minimum(p, 0.5)), below))


def gumbel(p: Floats) -> Floats:
    """Return the number that Gumbel noise exceeds with probability p."""
    return np.asarray(-np.log(-np.log1p(-np.minimum(p, 1 - 1e-16))))


NOISES: dict[str, Tail] = {
    "laplace": laplace,
    "gaussian": lambda p: np.asarray(-ndtri(p)),
    "gumbel": gumbel,
    "exponential": lambda p: np.asarray(-np.log(p)),
}


def largest(tail: Tail, number: int, rng: np.random.Generator) -> Floats:
    """Draw the largest of so many independent noises, many times."""
    return tail(np.asarray(-np.expm1(np.log(rng.random(DRAWS)) / number)))


def gap_of_counts(tail: Tail, m: int, k: int, rng: np.random.Generator) -> float:
    """Compute the gap, in units of the noise, where noise is drawn once for every category."""
    least = np.min([tail(rng.random(DRAWS)) for _ in range(k)], axis=0)
    return float(np.quantile(largest(tail, m - k, rng) - least, SUCCESS))


def gap_of_rounds(tail: Tail, m: int, k: int, rng: np.random.Generator) -> float:
    """Compute the gap where each round draws new noise, among the categories that are left."""
    rounds = [largest(tail, m - k, rng) - largest(tail, left, rng) for left in range(k, 0, -1)]
    return float(np.quantile(np.max(rounds, axis=0), SUCCESS))


def counts(budget: Guarantee, adjacency: Adjacency, m: int, k: int) -> float:
    """Measure noisy counts, with the better of two kinds of noise."""
    gaps = []
    for noise in ("laplace", "gaussian"):
        if noise == "gaussian" and isinstance(budget, PureDP):
            continue
        given: Any = {"axes": (m,), "noise": noise}
        made = Histogram.for_budget(budget, adjacency=adjacency, **given)
        scale = float(made.fixed_plan[0].noise.scale)  # type: ignore[union-attr]
        gaps.append(scale * gap_of_counts(NOISES[noise], m, k, np.random.default_rng(1)))
    return min(gaps)


def rounds(
    kind: type[BoundedRange] | type[PureDP],
    budget: Guarantee,
    adjacency: Adjacency,
    m: int,
    k: int,
) -> float:
    """Measure k choices: exponential mechanisms for bounded ranges, permute-and-flip for pure
    DP."""
    noise = "gumbel" if kind is BoundedRange else "exponential"
    moves = 2 if adjacency is Adjacency.REPLACE else 1
    each = largest_part(kind, budget, k)
    return moves / each * gap_of_rounds(NOISES[noise], m, k, np.random.default_rng(2))


@lru_cache
def largest_part(kind: type[BoundedRange] | type[PureDP], budget: Guarantee, k: int) -> float:
    """Compute the largest epsilon with which k choices keep the budget."""
    if isinstance(budget, PureDP):
        return float(budget.epsilon / k)
    guarantee: Any = calibrate(lambda e: kind(e) * k, budget)
    return float(guarantee.largest_loss) / k


def rows() -> Iterator[tuple[str, ...]]:
    """Make a row for each budget, adjacency, number of categories and k."""
    for budget in (PureDP(1), ApproxDP(1, "1e-6"), GaussianDP("1/4")):
        for adjacency in Adjacency:
            for m in (100, 10_000, 100_000):
                for k in (1, 2, 3, 10):
                    given = (adjacency, m, k)
                    shipped = counts(budget, *given)
                    choices = rounds(BoundedRange, budget, *given)
                    flips = rounds(PureDP, budget, *given)
                    halves = rounds(BoundedRange, budget / 2, *given)
                    best = min(choices, flips)
                    told = (shipped, choices, flips, halves, best / shipped)
                    yield (str(budget), str(adjacency), str(m), str(k), *(f"{x:.3g}" for x in told))


HEAD = (
    "budget",
    "adjacency",
    "m",
    "k",
    "counts",
    "choices",
    "flips",
    "choices and counts",
    "best ratio",
)


def main() -> None:
    """Measure all of it and print it."""
    header("The k most frequent categories", "python -m tests.benchmarks.most_frequent")
    print(f"\n{__doc__}")
    table(HEAD, rows())


if __name__ == "__main__":
    main()
