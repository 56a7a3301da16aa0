"""Filters that keep friendly records, on small graphs: what ``friendly_lift`` is tried on.

A dataset is a graph: its records are the vertices, its edges the friends, and every record is a
friend of itself. The filter keeps record i, independently, with probability 2 deg_i / n - 1, cut to
[0, 1]. Of two neighboring datasets only the *moves* matter: the keep-probabilities of each record
in both, 0 where it is absent.

A *test* is the chance g(C) that a mechanism's output on the kept set C lies in some event. Friendly
(e, d)-DP says g(C) <= e^e g(C') + d, and the same of 1 - g, for sets C, C' one record apart that
are friendly. The sets that one dataset may keep are friendly. A mix of both may be or not, so two
readings are tried: ``mixed`` constrains all sets of both datasets' records, otherwise only the sets
within one dataset's are. The truth lies between, whatever the universe of records.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import combinations, product
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_matrix

from dpverify.privacy import Adjacency
from dpverify.privacy.balls import ball, enclose
from spec.theory.laws import real

Moves = tuple[tuple[Fraction, Fraction], ...]
Edges = Collection[frozenset[int]]
_ZERO, _ONE = Fraction(0), Fraction(1)
CHAINS = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
"""Adjacencies that ``chain`` is about, by the number of records that are ahead."""


def friends(edges: Edges, i: int, j: int) -> bool:
    return i == j or frozenset((i, j)) in edges


def common_friend(edges: Edges, i: int, j: int, among: Iterable[int]) -> bool:
    return any(friends(edges, i, k) and friends(edges, j, k) for k in among)


def keep(edges: Edges, records: Sequence[int]) -> dict[int, Fraction]:
    """Return the filter's keep-probabilities on this dataset."""
    n = len(records)
    degrees = {i: sum(friends(edges, i, j) for j in records) for i in records}
    return {i: min(max(Fraction(2 * degrees[i], n) - 1, _ZERO), _ONE) for i in records}


def neighbors(adjacency: Adjacency, n: int) -> tuple[list[int], list[int]]:
    """n records; without the last one, or with another one, n, in its place."""
    rest = list(range(n - 1))
    return [*rest, n - 1], [*rest, n] if adjacency is Adjacency.REPLACE else rest


def moves_of(edges: Edges, left: Sequence[int], right: Sequence[int]) -> Moves:
    """Return the keep-probabilities that are not 0 on both sides, sorted."""
    before, after = keep(edges, left), keep(edges, right)
    moves = ((before.get(i, _ZERO), after.get(i, _ZERO)) for i in {*left, *right})
    return tuple(sorted(move for move in moves if any(move)))


def graphs(n: int) -> Iterator[Edges]:
    """Yield every labelled graph on n vertices."""
    pairs = [frozenset(pair) for pair in combinations(range(n), 2)]
    for chosen in product((False, True), repeat=len(pairs)):
        yield {pair for pair, taken in zip(pairs, chosen, strict=True) if taken}


@cache
def all_moves(adjacency: Adjacency, n: int) -> tuple[Moves, ...]:
    """Return those of every labelled graph of n records and all its neighbors, each once, both
    ways."""
    left, right = neighbors(adjacency, n)
    move_sets = {moves_of(edges, left, right) for edges in graphs(len({*left, *right}))}
    move_sets |= {mirrored(moves) for moves in move_sets}
    return tuple(sorted(move_sets))


def random_moves(rng: random.Random, adjacency: Adjacency, n: int) -> Moves:
    left, right = neighbors(adjacency, n)
    density = rng.choice((0.5, 0.7, 0.9, 0.97))
    pairs = combinations(range(len({*left, *right})), 2)
    edges = {frozenset(pair) for pair in pairs if rng.random() < density}
    moves = moves_of(edges, left, right)
    return moves if rng.random() < 0.5 else mirrored(moves)


@cache
def every() -> tuple[tuple[Adjacency, int, Moves], ...]:
    """Return those of every graph of up to four records, and of random ones of five to twelve."""
    rng = random.Random(20250110)
    small = [(a, n, moves) for a in Adjacency for n in range(1, 5) for moves in all_moves(a, n)]
    sizes = [(rng.choice(list(Adjacency)), rng.randint(5, 12)) for _ in range(600)]
    return (*small, *((a, n, random_moves(rng, a, n)) for a, n in sizes))


@cache
def small() -> tuple[Moves, ...]:
    """Return those of every graph of up to four records, each once."""
    return tuple(sorted({moves for _, n, moves in every() if n <= 4}))


def mirrored(moves: Moves) -> Moves:
    return tuple(sorted((after, before) for before, after in moves))


def distance(moves: Moves) -> Fraction:
    """Return how far the keep-probabilities move in all."""
    return sum((abs(before - after) for before, after in moves), _ZERO)


def growth(moves: Sequence[tuple[Any, Any]], a: Any) -> Any:
    """R with F(S) <= R F'(S) + d (R - 1) / a for the laws F, F' of filter and mechanism."""
    factors = [
        (1 + p * a) / (1 + q * a) if p > q else (1 + (1 - p) * a) / (1 + (1 - q) * a)
        for p, q in moves
    ]
    return reduce(lambda x, y: x * y, factors, 1 + 0 * a)


def bound(moves: Moves, factor: Fraction, d: Fraction, x: Fraction) -> Fraction:
    """Return the most that F(S) can be when F'(S) = x."""
    grown: Fraction = growth(moves, factor - 1)
    return min(grown * x + d * (grown - 1) / (factor - 1), _ONE)


def flips(moves: Moves, *, mixed: bool) -> list[tuple[int, int]]:
    """Pairs of sets (as bits) one record apart, each way, that the mechanism treats alike."""
    sides = [sum(1 << i for i, move in enumerate(moves) if move[side]) for side in (0, 1)]
    return [
        (kept, kept ^ (1 << i))
        for kept in range(1 << len(moves))
        for i in range(len(moves))
        if mixed or any((kept | 1 << i) & ~side == 0 for side in sides)
    ]


def masses(moves: Moves, side: int) -> list[Fraction]:
    """Return the probability of each set of kept records."""
    law = [_ONE]
    for move in moves:
        law = [m * (1 - move[side]) for m in law] + [m * move[side] for m in law]
    return law


def average(test: Sequence[Fraction], moves: Moves, side: int) -> Fraction:
    """Return the chance of the event: F = E g(kept)."""
    return sum((m * g for m, g in zip(masses(moves, side), test, strict=True)), _ZERO)


def step(g: Any, factor: Any, d: Any) -> Any:
    """Return the most that a test may give one record away from where it gives g: both
    constraints."""
    return min(factor * g + d, (factor + d - 1 + g) / factor)


def random_test(
    rng: random.Random, moves: Moves, factor: Fraction, d: Fraction
) -> tuple[Fraction, ...]:
    """Return a test of the least constrained mechanisms: the largest one below random numbers."""
    g = [Fraction(rng.choice((0, 1, 3, 100, 1000)), 1000) for _ in range(1 << len(moves))]
    near, changed = flips(moves, mixed=False), True
    while changed:
        changed = False
        for kept, other in near:
            most = step(g[other], factor, d)
            if most < g[kept]:
                g[kept], changed = most, True
    return tuple(g)


@cache
def _constraints(moves: Moves, factor: float, mixed: bool) -> NDArray[np.float64]:
    """Return rows of g(C) - e^e g(C'), of the same for 1 - g up to a constant, and F'."""
    near = flips(moves, mixed=mixed)
    rows = np.zeros((2 * len(near) + 1, 1 << len(moves)))
    for i, (kept, other) in enumerate(near):
        rows[2 * i, [kept, other]] = 1, -factor
        rows[2 * i + 1, [kept, other]] = -1, factor
    rows[-1] = [float(m) for m in masses(moves, 1)]
    return rows


def most_likely(cases: Sequence[tuple[Moves, float, float, float]], *, mixed: bool) -> list[float]:
    """Return for each case, of moves, e^e, d and x, the largest F(S) over all tests with
    F'(S) <= x, by one linear program whose blocks share nothing.
    """
    rows = [_constraints(moves, factor, mixed) for moves, factor, _, _ in cases]
    limits = [
        [*[d, factor - 1 + d] * (len(block) // 2), x]
        for block, (_, factor, d, x) in zip(rows, cases, strict=True)
    ]
    goals = [np.array([float(m) for m in masses(moves, 0)]) for moves, *_ in cases]
    together: Any = block_diag([csr_matrix(block) for block in rows], format="csr")
    optimum = linprog(
        -np.concatenate(goals), A_ub=together, b_ub=np.concatenate(limits), bounds=(0, 1)
    )
    assert optimum.x is not None, optimum.message
    ends = np.cumsum([len(goal) for goal in goals])
    tests = np.split(optimum.x, ends[:-1])
    return [float(goal @ test) for goal, test in zip(goals, tests, strict=True)]


def worst_test(
    moves: Moves, factor: Fraction, d: Fraction, x: Fraction
) -> tuple[Fraction, ...] | None:
    """Return the attained test: F'(S) = x and F(S) = R x + d (R - 1) / a; None where it is no test.

    g + d/a gains a factor e^e for each kept record that the left side keeps more often, and for
    each dropped one that it keeps less often.
    """
    weights = [Fraction(1)]
    for p, q in moves:
        dropped, kept = (factor if p < q else 1), (factor if p > q else 1)
        weights = [w * dropped for w in weights] + [w * kept for w in weights]
    shift = d / (factor - 1)
    scale = (x + shift) / average(weights, moves, 1)
    test = tuple(scale * weight - shift for weight in weights)
    alike = flips(moves, mixed=True)
    keeps = all(test[kept] <= step(test[other], factor, d) for kept, other in alike)
    return test if keeps and min(test) >= 0 and max(test) <= 1 else None


def chain(n: int, factor: Any, d: Any, x: Any, *, ahead: int) -> Any:
    """F(S) with F'(S) = x, when n - 1 records that the right side always keeps are dropped with
    probability 2 / n each on the left, and ``ahead`` more records are dropped for certain.

    So it is when a clique of n - 1 records meets one record without friends (ahead = 0), or when
    such a record replaces one of a clique of n (ahead = 1). The test gives all that it may.
    """
    for _ in range(ahead):
        x = step(x, factor, d)
    total, share = mp.mpf(0), mp.mpf(2) / n
    mass = (1 - share) ** (n - 1)
    for dropped in range(n):
        total += mass * x
        x = step(x, factor, d)
        mass *= share / (1 - share) * (n - 1 - dropped) / (dropped + 1)
    return total


@cache
def tried() -> list[tuple[Moves, Fraction, Fraction, Fraction, Fraction]]:
    """Moves, e^e, d, F(S) and F'(S), exactly, of the worst tests and of random ones."""
    rng, cases = random.Random(20250111), []
    for moves in small():
        factor, d = (
            Fraction(rng.choice(("1.1", "1.5", "3"))),
            Fraction(rng.choice((0, 1, 10)), 10**4),
        )
        tests = [worst_test(moves, factor, d, Fraction(1, 100))]
        tests += [random_test(rng, moves, factor, d) for _ in range(3)]
        for test in tests:
            if test is not None:
                cases.append((moves, factor, d, average(test, moves, 0), average(test, moves, 1)))
    return cases


class Mechanism(NamedTuple):
    """An event of the filter and a friendly (epsilon, d)-DP mechanism: F(S) and F'(S)."""

    adjacency: Adjacency
    epsilon: Fraction
    d: Fraction
    left: Any
    right: Any


@cache
def mechanisms(most: int = 2000) -> list[Mechanism]:
    """Real ones, on at most so many records, at mpmath's working precision."""
    cases: list[Mechanism] = []
    for factor in (Fraction(11, 10), Fraction(3, 2), Fraction(3)):
        epsilon = enclose(partial(_logarithm, factor)).upper
        for d, x in ((_ZERO, Fraction(1, 100)), (Fraction(1, 1000), Fraction(1, 50))):
            for about, n, moves in every():
                if n <= min(most, 4) and worst_test(moves, factor, d, x):
                    left = real(bound(moves, factor, d, x))
                    cases.append(Mechanism(about, epsilon, d, left, real(x)))
        for n, (ahead, about) in product((20, 2000), enumerate(CHAINS)):
            for d, x in ((_ZERO, Fraction(1, 10**9)), (Fraction(1, 10**9), Fraction(1, 10**15))):
                if n <= most:
                    left = chain(n, real(factor), real(d), real(x), ahead=ahead)
                    cases.append(Mechanism(about, epsilon, d, left, real(x)))
    return cases


def _logarithm(factor: Fraction) -> arb:
    return ball(factor).log()
