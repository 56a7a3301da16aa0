"""All small graphs of friends and all their neighbors, and what a filter keeps of them.

A record is a vertex with a sign, and its own friend. A mechanism behind a filter sees the kept set
only. Where that set is not friendly nothing was promised of it, so it is told outright.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any, NamedTuple

from flint import arb

from dpverify.privacy import Adjacency, Guarantee
from spec.theory import graphs

from . import laws
from .graph import Judged, Law, Pairs, judge

Chances = Mapping[int, arb]
"""The probability to be kept, of every record of a dataset."""


class World(NamedTuple):
    """Two neighbors in a graph of friends: the vertices of each (bits), and the records' signs."""

    rows: tuple[int, ...]
    left: int
    right: int
    signs: tuple[int, ...]

    @property
    def sides(self) -> tuple[int, int]:
        """Return both datasets."""
        return self.left, self.right

    @property
    def both(self) -> int:
        """Return the records that no side lacks."""
        return self.left & self.right

    @property
    def everyone(self) -> int:
        """Return the records of either side."""
        return self.left | self.right

    def score(self, i: int, side: int) -> int:
        """Count friends less strangers."""
        return graphs.margin(self.rows, i, side)

    def friendly(self, kept: int) -> bool:
        """Tell whether any two of the kept records have a common friend among all records there
        are."""
        return _friendly(self.rows, self.everyone)[kept]

    def alone(self, side: int) -> list[int]:
        """List the record that only this side has, if any."""
        return graphs.members(side & ~self.both)

    def common_friend(self, pair: Sequence[int]) -> bool:
        """Tell whether two records have one among those that both sides have."""
        one, other = pair
        return bool(self.rows[one] & self.rows[other] & self.both)

    def value(self, kept: int) -> int:
        """Add up the signs."""
        return _values(self.signs)[kept]

    def stranger_pairs(self, kept: int) -> int:
        """Count the pairs of kept records that are no friends."""
        return sum(self.strangers(i, kept) for i in graphs.members(kept)) // 2

    def strangers(self, i: int, kept: int) -> int:
        """Count the kept records that are no friends of this one."""
        return (kept & ~self.rows[i]).bit_count()


@cache
def _friendly(rows: tuple[int, ...], everyone: int) -> tuple[bool, ...]:
    return tuple(graphs.are_friendly(rows, kept, everyone) for kept in range(everyone + 1))


@cache
def _values(signs: tuple[int, ...]) -> tuple[int, ...]:
    sets = range(1 << len(signs))
    return tuple(sum(signs[i] for i in graphs.members(kept)) for kept in sets)


@cache
def worlds(adjacency: Adjacency, most: int) -> tuple[World, ...]:
    """List all of at most so many records (the larger side), up to names of those that both have.

    The last record's sign is 1, for the opposite of all signs changes no divergence; and of two
    that take each other's place either may be the last one, for both directions are judged.
    """
    distinct: dict[World, None] = {}
    for n in range(1, most + 1):
        for pair in graphs.pairs(adjacency, n, loops=(-1,)):
            shared, vertices = pair.both.bit_count(), len(pair.rows)
            for signs in product((1, -1), repeat=vertices - 1):
                world = World(pair.rows, pair.left, pair.right, (*signs, 1))
                if not any(renamed in distinct for renamed in _renamed(world, shared)):
                    distinct[world] = None
    return tuple(distinct)


def _renamed(world: World, shared: int) -> Iterator[World]:
    """Give the first so many records all other names, and the rest theirs."""
    friends = [graphs.members(row) for row in world.rows]
    for first in permutations(range(shared)):
        for rest in permutations(range(shared, len(world.rows))):
            old = (*first, *rest)
            new = {k: i for i, k in enumerate(old)}
            rows = [sum(1 << new[k] for k in friends[i]) for i in old]
            turned = world.signs[old[-1]]
            signs = tuple(world.signs[i] * turned for i in old)
            yield world._replace(rows=tuple(rows), signs=signs)


def friendly_steps(
    world: World, *, strangers: int | None = None, exchange: bool = False
) -> Sequence[tuple[int, int]]:
    """List the friendly sets that differ by one record, or by one in place of another.

    strangers: how many of the others the record in question may not know. Those that take each
    other's place have a common friend. The signs play no part.
    """
    return _friendly_steps(world._replace(signs=()), strangers, exchange)


@cache
def _friendly_steps(
    world: World, strangers: int | None, exchange: bool
) -> Sequence[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    for kept in range(world.everyone + 1):
        absent = graphs.members(world.everyone & ~kept)
        known = [i for i in absent if strangers is None or world.strangers(i, kept) <= strangers]
        more = [kept | 1 << i for i in known if world.friendly(kept | 1 << i)]
        steps += [pair for larger in more for pair in ((kept, larger), (larger, kept))]
        if exchange:
            steps += [
                (one, other)
                for one, other in permutations(more, 2)
                if world.friendly((one | other) & ~kept)
            ]
    return steps


def behind(
    world: World, chances: Chances, answer: Callable[[int], Hashable]
) -> Mapping[Hashable, arb]:
    """Enclose how likely each answer about the kept set is; a set that is not friendly is told."""
    sets: list[tuple[int, arb]] = [(0, arb(1))]
    for i, chance in chances.items():
        out = [(kept, mass * (1 - chance)) for kept, mass in sets]
        into = [(kept | 1 << i, mass * chance) for kept, mass in sets]
        sets = out + into
    masses: dict[Hashable, arb] = {}
    for kept, mass in sets:
        if not mass.is_zero():
            said = answer(kept) if world.friendly(kept) else ("told", kept)
            masses[said] = masses.get(said, arb(0)) + mass
    return masses


def noisy(answers: Mapping[Hashable, arb], noise: Callable[[int], Law]) -> Law:
    """Add noise to the answers that are integers; leave what is told."""
    return laws.mixed(
        (mass, noise(said) if isinstance(said, int) else laws.point(said))
        for said, mass in answers.items()
    )


# --- judgments ----------------------------------------------------------------------------------

Answer = Callable[[World, int], int]
"""An integer about a kept set."""
Released = Callable[[World, int], Law]
"""The law of a dataset: one side of a world."""
SIGNS: Answer = World.value
STRANGERS: Answer = World.stranger_pairs


def steps_of(every: Sequence[World], answer: Answer, **known: Any) -> Pairs:
    """List what may be answered of two sets that are friendly neighbors."""
    pairs = {
        (answer(world, one), answer(world, other))
        for world in every
        for one, other in friendly_steps(world, **known)
    }
    return sorted(pairs)


def judged(
    every: Sequence[World], law: Released, claim: Guarantee, epsilons: Sequence[Fraction]
) -> Judged:
    """Judge a claim on all neighbors, in both directions."""
    known = {(world, side): law(world, side) for world in every for side in world.sides}
    pairs = [
        ((world, one), (world, other))
        for world in every
        for one, other in (world.sides, world.sides[::-1])
    ]
    return judge(known.__getitem__, pairs, claim, epsilons)


def few(top: int) -> list[Fraction]:
    """List five epsilons from 0 to beyond ``top``."""
    return [Fraction(top) * i / 3 for i in range(5)]
