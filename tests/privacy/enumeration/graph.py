"""Small graphs of datasets, and claims that are judged on all of their edges.

A node is a dataset of at most a few records from a small universe; an edge joins two neighbors. A
mechanism maps every node to a law, and a claim is compared with the hockey-stick divergence of the
two laws of every edge, in both directions, at several epsilons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from flint import arb

from dpverify.privacy import Adjacency, Guarantee, Norm
from dpverify.privacy.balls import ball
from spec.theory.obligations import neighbors

Law = Mapping[Hashable, arb]
"""Outcomes with enclosures of their masses. What is missing from 1 is a tail: outcomes left out."""
Mechanism = Callable[[Any], Law]
Pairs = Sequence[tuple[Any, Any]]
ROUNDING = 1e-30
"""Wider than the enclosures and their tails; every false twin is wrong by far more."""
_LEAST_CLAIMED = Fraction(1, 10**6)
_NOTHING = arb(0)


# --- nodes and edges ----------------------------------------------------------------------------


@cache
def edges(adjacency: Adjacency, universe: tuple[Any, ...], most: int) -> Pairs:
    """List every ordered pair of different neighbors of at most ``most`` records."""
    pairs = {pair for pair in neighbors(universe, most, adjacency) if pair[0] != pair[1]}
    assert all(adjacency.are_neighbors(*pair) for pair in pairs)
    return sorted(pairs, key=repr)


def steps(pairs: Pairs, size: int) -> Pairs:
    """List every pair of nodes that ``size`` edges lead between."""
    after: dict[Any, list[Any]] = {}
    for one, other in pairs:
        after.setdefault(one, []).append(other)
    walks = {(node, node) for node in after}
    for _ in range(size):
        walks = {(start, further) for start, end in walks for further in after[end]}
    return sorted(walks, key=repr)


# --- premises -----------------------------------------------------------------------------------


def _one_way(changes: Sequence[int]) -> int:
    assert min(changes) * max(changes) >= 0, f"{changes} move against each other"
    return max(map(abs, changes))


_NORMS: dict[Norm, Callable[[Sequence[int]], int]] = {
    Norm.L1: lambda changes: sum(map(abs, changes)),
    Norm.SQUARED_L2: lambda changes: sum(change**2 for change in changes),
    Norm.L_INFINITY: lambda changes: max(map(abs, changes)),
    Norm.RANGE: lambda changes: max(changes) - min(changes),
    Norm.ONE_WAY: _one_way,
    Norm.HAMMING: lambda changes: sum(map(bool, changes)),
}


def moved(query: Callable[[Any], Sequence[int]], pairs: Pairs, norm: Norm) -> int:
    """Measure how far the query's value moves on any edge."""
    values = {node: query(node) for pair in pairs for node in pair}
    changes = {tuple(x - y for x, y in zip(values[a], values[b], strict=True)) for a, b in pairs}
    return max(map(_NORMS[norm], changes))


# --- judgments ----------------------------------------------------------------------------------


class Judged(NamedTuple):
    """The worth of a claim on a graph.

    laws: how many different pairs of laws were compared. share: the largest part of a claimed delta
    that some pair reaches. surely: the most by which a delta surely exceeds the claim. perhaps: the
    same with all that was left out added.
    """

    laws: int
    share: float
    surely: float
    perhaps: float

    @property
    def holds(self) -> bool:
        """Tell whether no delta exceeds the claim."""
        return self.perhaps <= ROUNDING


class Edge:
    """Two laws, one beside the other: the masses of what both list, what P alone lists, and what
    either leaves out."""

    def __init__(self, p: Law, q: Law) -> None:
        self.masses = [(mass, q[outcome]) for outcome, mass in p.items() if outcome in q]
        self.alone = sum((mass for outcome, mass in p.items() if outcome not in q), _NOTHING)
        self.left_out = left_out(p), left_out(q)

    def stick(self, factor: arb) -> arb:
        """Sum max(0, P - factor Q) over the outcomes that both list."""
        total = _NOTHING
        for mass, other in self.masses:
            gap = mass - factor * other
            if gap > 0:
                total += gap
            elif not gap < 0:
                total += gap.max(_NOTHING)
        return total

    def divergence(self, factor: arb) -> tuple[arb, arb]:
        """Enclose sup over events S of P(S) - factor Q(S): what it surely is, and what it is at
        most.

        Of the outcomes that P alone lists, the other law may hide what it left out.
        """
        both, (own, other) = self.stick(factor), self.left_out
        return both + (self.alone - factor * other).max(_NOTHING), both + self.alone + own


def divergence(p: Law, q: Law, factor: arb) -> tuple[arb, arb]:
    """Enclose sup over events S of P(S) - factor Q(S), as ``Edge.divergence``."""
    return Edge(p, q).divergence(factor)


def left_out(law: Law) -> arb:
    """Bound the mass of the outcomes that are not listed."""
    rest = 1 - sum(law.values(), _NOTHING)
    assert rest > -ROUNDING, "a law has more mass than 1"
    return rest.max(_NOTHING)


def different(law: Mechanism, pairs: Pairs) -> list[tuple[Law, Law]]:
    """List the pairs of laws on the edges, each once where a mechanism remembers its laws."""
    distinct = {}
    for one, other in pairs:
        p, q = law(one), law(other)
        if p is not q:
            distinct[id(p), id(q)] = p, q
    return list(distinct.values())


def judge(
    law: Mechanism, pairs: Pairs, guarantee: Guarantee, epsilons: Iterable[Fraction]
) -> Judged:
    """Compare a claim with the deltas of all edges."""
    ends = [(ball(e).exp(), guarantee.delta_at(e).upper) for e in epsilons]
    claimed = [(factor, ball(most), most >= _LEAST_CLAIMED) for factor, most in ends]
    compared = different(law, pairs)
    share, surely, perhaps = 0.0, -1.0, -1.0
    for edge in (Edge(p, q) for p, q in compared):
        for factor, most, counts in claimed:
            least, largest = edge.divergence(factor)
            surely = max(surely, float((least - most).lower()))
            perhaps = max(perhaps, float((largest - most).upper()))
            if counts:
                share = max(share, float((least / most).lower()))
    return Judged(len(compared), share, surely, perhaps)


def losses(p: Law, q: Law) -> list[arb]:
    """List the privacy losses of the outcomes."""
    return [(mass / q[outcome]).log() for outcome, mass in p.items()]


def span(law: Mechanism, pairs: Pairs) -> float:
    """Measure the largest loss minus the smallest, on the worst edge."""
    return max(
        float(max(map(_upper, log_ratios)) - min(map(_lower, log_ratios)))
        for log_ratios in (losses(p, q) for p, q in different(law, pairs))
    )


def renyi(p: Law, q: Law) -> float:
    """Sum up the Renyi divergence of order 2, over the outcomes that both laws list."""
    moment = sum((mass**2 / q[outcome] for outcome, mass in p.items() if outcome in q), _NOTHING)
    return float(moment.log().mid())


def _upper(value: arb) -> float:
    return float(value.upper())


def _lower(value: arb) -> float:
    return float(value.lower())


def grid(top: Fraction | int, *more: Fraction | int | str) -> list[Fraction]:
    """List epsilons from 0 to beyond ``top``, and more."""
    return [
        *(Fraction(top) * i / 6 for i in (0, 1, 2, 3, 4, 5, 6, 8)),
        *(Fraction(one) for one in more),
    ]
