"""Spec of ``gaussian_filter``: a record is kept if 2 deg - n plus Gaussian noise is above a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import filtered_means, graphs
from .theory.filtered_means import Release
from .theory.filters import (
    GAUSSIAN,
    Friends,
    Record,
    gaussian_probabilities,
    gaussian_probability,
    kept_sets,
    least_shift,
    noise_scale,
    threshold,
)
from .theory.laws import Exponential, real, real_exponential
from .theory.obligations import Departure, require
from .theory.profiles import gaussian_profile

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DEPARTURES = (
    Departure(
        "TCKMS22, the filter for zCDP",
        "the noise is rounded, and the threshold is read off its tail at a given probability",
        "no float noise; 2 deg - n is an integer, and rounding only makes the bad events rarer",
    ),
    Departure(
        "TCKMS22, the filter for zCDP",
        "the claim is about the filter and the noisy number and mean after it, as approximate Gaussian "
        "DP; under add-remove the noise and the threshold come from a noisy number of records",
        "the number of records is private; one mu serves every epsilon, and unlikely kept records add "
        "their probability to delta once, without a factor e^epsilon",
    ),
)
THEOREM = Source("OURS", "a Gaussian filter, then a noisy number and mean: approximate GDP")


@states(GAUSSIAN)
def law(
    records: Sequence[Record],
    are_friends: Friends[Record],
    *,
    adjacency: Adjacency,
    size: int,
    mu: Fraction,
    rare: Fraction,
    e: Exponential = real_exponential,
) -> dict[tuple[int, ...], Any]:
    """The probability of every set that may be kept, as increasing positions.

    ``size``: the released number of records, at least 1 (add-remove), or their number (replace).
    """
    scale = noise_scale(adjacency, size, mu)
    least = threshold(adjacency, size, scale, rare)
    found = gaussian_probabilities(records, are_friends, scale=scale, threshold=least, e=e)
    return dict(kept_sets(found))


@states(THEOREM)
def mu_squared(release: Release) -> Fraction:
    """mu^2 of noisy size (add-remove), filter, noisy number and noisy mean together.

    The mechanism. Add-remove: a size h = max(1, n + round(N / mu_c) + t), t = least_shift(rare, 1 / mu_c);
    under replace h = n. The filter, at noise_scale(h) and threshold(h). Of the kept records C: m =
    |C| + round(N / mu_c) - 1 - t; nothing if C is empty or m <= 0 (one outcome); else m and the mean of C
    plus noise of deviation s D / m, where records with a common friend are within D of each other. mu_F
    and s may depend on h as long as mu_F^2 + 1 / s^2 does not.

    Proof, add-remove. Record j goes. Let v tell which of the others are kept, K how many. Bad is: the
    size before the maximum is below n - 1; some i != j with 2 deg_i <= n is kept; x_j with 2 deg_j <= n is
    kept; m > K + 1; K = 0 and m > 0. These three groups have probability at most ``rare`` each under
    either dataset (obligation_bad_events). The kept x_j is a coin on top of equal laws, which may be
    thrown for the smaller dataset as well, so it is the same event on both sides. Stopped at the
    first bad step, the two laws are compositions: sizes differ by 1 (mu_c), margins of all i != j by 1
    each (mu_F), and given v the laws are equal where x_j is not kept; where it is, numbers differ by 1
    (mu_c), and means by at most D / (K + 1), x_j having a common friend with each of C: at most
    1 / s deviations since m <= K + 1. Mixing over x_j keeps the bound (joint convexity). So, S being an
    event, P(S) <= P(S, good) + 3 rare <= e^epsilon Q(S) + delta_mu(epsilon) + 3 rare.

    Replace. Margins move by 0 or 2. Bad: i kept with 2 deg_i <= n on either side, which has margin at
    most 2 on both; x_j (x'_j) kept with margin at most 1, again a coin, of the larger probability of the
    two; m > K + 1; K = 0 and m > 0. Given v let x_j and x'_j be kept independently. Both: each has
    2 deg >= n + 2, so at least n / 2 friends among the n - 1 others, hence a common one; the means differ
    by at most D / (K + 1), the numbers not at all. One: as above. QED.
    """
    sizes = release.mu_count**2 if release.adjacency is ADD_REMOVE else 0
    return sizes + release.mu_filter**2 + release.mu_count**2 + 1 / release.multiplier**2


@states(THEOREM)
def delta(release: Release) -> Fraction:
    """What the bad events add to the Gaussian profile: one ``rare`` for each group of them."""
    return (3 if release.adjacency is ADD_REMOVE else 2) * release.rare


# --- obligations --------------------------------------------------------------------------------

STEPS: Mapping[Adjacency, frozenset[int]] = {
    ADD_REMOVE: frozenset((-1, 1)),
    REPLACE: frozenset((-2, 0, 2)),
}
"""By how much 2 deg - n moves for a record that both neighbors have."""


@states(THEOREM)
def obligation_margins(claimed: Mapping[Adjacency, frozenset[int]] = STEPS) -> int:
    """On every graph of at most 5 records the margins move by these steps and no others, and the
    noise scale is at least their L2 sensitivity over mu, and within 2^-30 of it for some graph."""
    cases = 0
    for adjacency, n in product(Adjacency, range(2, 6)):
        found, largest = set(), 0
        for pair in graphs.pairs(adjacency, n):
            before, after = (
                [graphs.margin(pair.rows, i, side) for i in graphs.members(pair.both)]
                for side in (pair.left, pair.right)
            )
            steps = [a - b for a, b in zip(after, before, strict=True)]
            found |= {*steps}
            largest = max(largest, sum(step**2 for step in steps))
            cases += 1
        case = f"{adjacency}, n = {n}: steps {sorted(found)}, squares {largest}"
        require(found == claimed[adjacency], case)
        size = n - 1 if adjacency is ADD_REMOVE else n
        square = noise_scale(adjacency, size, Fraction(3, 7)) ** 2 * Fraction(9, 49)
        require(largest <= square <= largest * (1 + Fraction(1, 2**30)), case)
    return cases


@states(THEOREM)
def obligation_friendly(claimed: int = 2) -> int:
    """On every graph of at most 5 records those with margin above 0 are friendly; and two records
    that replace each other have a common friend among the others if both margins are at least ``claimed``.

    One of margin 1 each would not do: for odd n their friends can be two halves without a common one.
    """
    cases = 0
    for adjacency, n in product(Adjacency, range(1, 6)):
        for pair in graphs.pairs(adjacency, n):
            for side in (pair.left, pair.right):
                high = sum(
                    1 << i for i in graphs.members(side) if graphs.margin(pair.rows, i, side) > 0
                )
                require(graphs.are_friendly(pair.rows, high, side), f"{pair}: not friendly")
            if adjacency is REPLACE:
                both = [
                    (pair.rows[i], graphs.margin(pair.rows, i, side)) for i, side in _replaced(pair)
                ]
                common = both[0][0] & both[1][0] & pair.both
                far = min(margin for _, margin in both) >= claimed and not common
                require(not far, f"{pair}: margins {[m for _, m in both]} without a common friend")
            cases += 1
    return cases


def _replaced(pair: graphs.Pair) -> list[tuple[int, int]]:
    """The records that one side lacks, with their side."""
    return [
        (i, side) for side in (pair.left, pair.right) for i in graphs.members(side & ~pair.both)
    ]


Threshold = Callable[[Adjacency, int, Fraction, Fraction], int]
_NOISE = tuple(
    (Fraction(mu), Fraction(rare))
    for mu, rare in (("1/3", "1e-6"), ("1/2", "1e-3"), ("1", "1/20"), ("2", "1e-9"), ("5", "1e-4"))
)


@states(THEOREM)
def obligation_bad_events(
    claimed: Threshold = threshold, shift_of: Callable[[Fraction, Fraction], int] = least_shift
) -> int:
    """Each group of bad events has probability at most ``rare``, on every graph of at most 4 records and
    on larger ones where all margins are the worst there are, for three good sizes, on either side.

    Within a group the probabilities are added up.
    """
    cases = 0
    for mu, rare in _NOISE:
        for group, mass in _size_and_number(mu, rare, shift_of):
            require(mass <= real(rare), f"{group}, mu = {mu}: probability {mass} beyond {rare}")
            cases += 1
        for adjacency in Adjacency:
            for n, kinds in {(pair.larger, _bad(pair)) for pair in _graphs(adjacency)}:
                sizes = (n,) if adjacency is REPLACE else (max(n - 1, 1), n, n + 7)
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
    """Too small a size; a number beyond one more than the others that are kept; one out of nothing."""
    scale = 1 / mu
    shift = shift_of(rare, scale)

    def above(x: int) -> Any:
        return gaussian_probability(0, scale, x)

    for one_more in (0, 1):
        yield f"size of n - 1 + {one_more}, below n - 1", above(shift + one_more)
        yield f"number of K + {one_more}, above K + 1", above(shift + 2 - one_more)
    yield "number of 1 out of no others, above 0", above(shift)


Kinds = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""For each side: the margins of the records that are bad to keep there, and those of the coin."""


def _bad(pair: graphs.Pair) -> Kinds:
    sides = [side for side in (pair.left, pair.right) if side.bit_count() == pair.larger]
    low = [
        i
        for i in graphs.members(pair.both)
        if min(graphs.margin(pair.rows, i, side) for side in sides) <= 0
    ]
    most = 0 if pair.both in (pair.left, pair.right) else 1
    own = [graphs.margin(pair.rows, i, side) for i, side in _replaced(pair)]
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


def _points(*counts: int) -> filtered_means.Points:
    """So many records at 0, 1/2 and 1."""
    return tuple((Fraction(i, 2), count) for i, count in enumerate(counts) if count)


_NASTY: tuple[
    tuple[str, Adjacency, tuple[str, str, str], tuple[int, ...], tuple[int, ...]], ...
] = (
    # mu of counts, mu of the filter, multiplier of the mean; records at 0, 1/2 and 1 on both sides
    ("a clique", ADD_REMOVE, ("1", "3/4", "4"), (100,), (99,)),
    ("a far friend", ADD_REMOVE, ("1", "2", "1/8"), (20, 1), (20, 0)),
    ("a path of friends", ADD_REMOVE, ("1", "6", "1/6"), (8, 15, 1), (8, 15)),
    ("a clique and lonely ones", ADD_REMOVE, ("1", "4", "4"), (11, 0, 5), (11, 0, 4)),
    ("two equal cliques", ADD_REMOVE, ("1", "4", "1"), (8, 0, 8), (8, 0, 7)),
    ("one from end to end", REPLACE, ("1", "2", "1/4"), (1, 59, 0), (0, 59, 1)),
    ("a clique and lonely ones", REPLACE, ("1", "4", "4"), (18, 0, 6), (17, 0, 7)),
    ("two equal cliques", REPLACE, ("1", "4", "1"), (12, 0, 12), (11, 0, 13)),
    ("one leaves the clique", REPLACE, ("2", "1", "4"), (200,), (199, 0, 1)),
)


@states(THEOREM)
def obligation_composition(
    claimed: Callable[[Release], Fraction] = mu_squared, rare: Fraction = Fraction(1, 1000)
) -> int:
    """The exact hockey stick of size, number and mean, both ways and at several epsilon, is at most
    the profile of the claimed mu plus the bad events' share, for pairs in one dimension."""
    cases = 0
    for name, adjacency, noise, left, right in _NASTY:
        mu_count, mu_filter, multiplier = map(Fraction, noise)
        release = Release(
            adjacency=adjacency,
            mu_count=mu_count,
            mu_filter=mu_filter,
            multiplier=multiplier,
            rare=rare,
        )
        sides = filtered_means.laws(release, _points(*left), _points(*right))
        for p, q in (sides, sides[::-1]):
            for epsilon in (0, 1, 2, 4, 8, filtered_means.MOST):
                found = filtered_means.hockey_stick(p, q, epsilon)
                most = gaussian_profile(claimed(release), Fraction(epsilon)) + real(delta(release))
                case = f"{name}, {adjacency}, epsilon = {epsilon}: {found} > {mp.nstr(most, 8)}"
                require(found <= most + filtered_means.LOST, case)
                cases += 1
    return cases
