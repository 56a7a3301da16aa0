"""Errors of a Gaussian filter: the probability that records without enough friends are kept at
all.

The bad events of the theorem in filtered_means.py, on all small graphs and on the worst larger
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from typing import Any

from dpverify.privacy import Adjacency, states

from . import graphs
from .core_means import Gaussian, gaussian_shift, laplace_shift
from .filtered_means import THEOREM
from .filters import gaussian_probability, least_shift, noise_scale, threshold
from .laws import DiscreteLaplaceLaw, real, real_exponential
from .obligations import require

Threshold = Callable[[Adjacency, int, Fraction, Fraction], int]
_NOISE = tuple(
    (Fraction(mu), Fraction(rare))
    for mu, rare in (("1/3", "1e-6"), ("1/2", "1e-3"), ("1", "1/20"), ("2", "1e-9"), ("5", "1e-4"))
)


@states(THEOREM)
def obligation_bad_events(
    claimed: Threshold = threshold, shift_of: Callable[[Fraction, Fraction], int] = least_shift
) -> int:
    """Check that each group of bad events has probability at most ``rare``, on every graph of at
    most 4 records and on larger ones where all margins are the worst there are, for three good
    sizes, on either side.

    Within a group the probabilities are added up.
    """
    cases = 0
    for mu, rare in _NOISE:
        for group, mass in _size_and_number(mu, rare, shift_of):
            require(mass <= real(rare), f"{group}, mu = {mu}: probability {mass} beyond {rare}")
            cases += 1
        for adjacency in Adjacency:
            for n, kinds in {(pair.larger, _bad(pair)) for pair in _graphs(adjacency)}:
                sizes = (n,) if adjacency is Adjacency.REPLACE else (max(n - 1, 1), n, n + 7)
                for size in sizes:
                    scale = noise_scale(adjacency, size, mu)
                    least = claimed(adjacency, size, scale, rare)
                    mass = _added_up(kinds, scale, least)
                    case = f"{adjacency}, n = {n}, size {size}, mu = {mu}, {kinds}: {mass} > {rare}"
                    require(mass <= real(rare), case)
                    cases += 1
    return cases


def _size_and_number(
    mu: Fraction, rare: Fraction, shift_of: Callable[[Fraction, Fraction], int]
) -> Iterator[tuple[str, Any]]:
    """Yield too small a size; a number beyond one more than the others that are kept; and a number
    out of nothing.
    """
    scale = 1 / mu
    shift = shift_of(rare, scale)

    def above(x: int) -> Any:
        return gaussian_probability(0, scale, x)

    for one_more in (0, 1):
        yield f"size of n - 1 + {one_more}, below n - 1", above(shift + one_more)
        yield f"number of K + {one_more}, above K + 1", above(shift + 2 - one_more)
    yield "number of 1 out of no others, above 0", above(shift)


Kinds = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Margins, for each side, of the records that are bad to keep there, and those of the coin."""


def _bad(pair: graphs.Pair) -> Kinds:
    sides = [side for side in (pair.left, pair.right) if side.bit_count() == pair.larger]
    low = [
        i
        for i in graphs.members(pair.both)
        if min(graphs.margin(pair.rows, i, side) for side in sides) <= 0
    ]
    most = 0 if pair.both in (pair.left, pair.right) else 1
    own = [graphs.margin(pair.rows, i, side) for i, side in graphs.replaced(pair)]
    coins = tuple(sorted(margin for margin in own if margin <= most))
    return tuple(
        (tuple(sorted(graphs.margin(pair.rows, i, side) for i in low)), coins)
        for side in (pair.left, pair.right)
    )


def _added_up(kinds: Kinds, scale: Fraction, least: int) -> Any:
    known = {
        margin: gaussian_probability(margin, scale, least)
        for low, coins in kinds
        for margin in {*low, *coins}
    }
    return max(
        sum(known[margin] for margin in low) + max((known[margin] for margin in coins), default=0)
        for low, coins in kinds
    )


def _graphs(adjacency: Adjacency) -> Iterator[graphs.Pair]:
    small = (graphs.pairs(adjacency, n) for n in range(1, 5))
    yield from chain(*small, (graphs.ring(adjacency, n) for n in (6, 10, 50, 198)))


# --- released numbers that miss the true one ----------------------------------------------------

Above = Callable[[Fraction, int], Any]
"""Function P(noise > x), for noise of this scale."""


def _gaussian_above(scale: Fraction, x: int) -> Any:
    return gaussian_probability(0, scale, x)


def _laplace_above(scale: Fraction, x: int) -> Any:
    return DiscreteLaplaceLaw(0, scale).at_most(-x - 1, real_exponential)


Shifts = Callable[[str, Fraction, Fraction], int]


def least_shifts(kind: str, scale: Fraction, rare: Fraction) -> int:
    """Return t with P(noise >= t) <= rare, at least 1."""
    return (gaussian_shift if kind == "gaussian" else laplace_shift)(scale, rare)


@states(THEOREM)
def obligation_overcount(claimed: Shifts = least_shifts) -> int:
    """Check that N kept records, or N - 1, release N or more with probability at most ``rare`` on
    either side, as number - t + noise, for Gaussian and for discrete Laplace noise; with t - 1
    more often, unless t is 1.

    So where the mean is released, at most N - 1 is, and the mean's reach is as shown there.
    """
    cases = 0
    kinds: dict[str, Above] = {"gaussian": _gaussian_above, "laplace": _laplace_above}
    for kind, above in kinds.items():
        for scale in map(Fraction, ("1/4", "1", "7/2", "40")):
            for rare in map(Fraction, ("1/11", "1e-3", "1e-7", "1e-30")):
                t = claimed(kind, scale, rare)
                case = f"{kind} noise of scale {scale}, rare = {rare}, t = {t}"
                for one_less in (0, 1):  # N - one_less - t + noise >= N
                    mass = above(scale, t + one_less - 1)
                    require(mass <= real(rare), f"{case}: {mass}")
                require(t == 1 or above(scale, t - 2) > real(rare), f"{case} is too large")
                cases += 1
    return cases


@states(THEOREM)
def obligation_undercount(claimed: Callable[[Gaussian, int], int] = Gaussian.assumed) -> int:
    """Check that the number of rows assumed after a released one is below that of the larger
    neighbor with probability at most ``tail`` on either side, for numbers near the fewest and
    far from them.
    """
    cases = 0
    for multiplier, n_max in (("1/2", 100), ("3/4", 2000), ("6/5", 300)):
        for tail in map(Fraction, ("1e-2", "1e-7")):
            plan = Gaussian(Adjacency.ADD_REMOVE, Fraction(multiplier), n_max, tail, 1)
            for n in (plan.fewest - 1, plan.fewest, plan.fewest + 7, 1000, 10**6 + 1):
                # the released numbers that lead to fewer than n are those up to some number
                last = next(
                    x for x in range(n, n - 10**6, -1) if claimed(plan, x) < n or x < plan.gate
                )
                for rows in (n - 1, n):
                    below = gaussian_probability(0, plan.counts[1], rows - last - 1)
                    small = below if claimed(plan, max(last, plan.gate)) < n else 0
                    require(small <= real(tail), f"{plan}, {rows} of {n} rows: {small}")
                    cases += 1
    return cases
