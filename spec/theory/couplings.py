"""Couplings of two laws on finitely many outcomes, computed exactly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any

Law = Mapping[Any, Fraction]


def uncoupled(left: Law, right: Law, related: Callable[[Any, Any], bool]) -> Fraction:
    """Return the least probability, over all couplings, that draws from the two laws are not
    related.

    Mass is sent from outcomes of the left law to related ones of the right, along shortest
    paths on which some can be sent more or back (Edmonds and Karp). The mass sent at the end is
    that of the best coupling, so 0 shows that there is one with related draws only. No coupling
    has less than the rest, by Strassen's theorem.
    """
    rest, free = dict(left), dict(right)
    sent: dict[tuple[Any, Any], Fraction] = {}
    pairs = {a: [b for b in right if related(a, b)] for a in left}
    while path := _path(rest, free, pairs, sent):
        *_, last = path
        back = [sent[a, b] for b, a in zip(path[1:-1:2], path[2::2], strict=True)]
        amount = min([rest[path[0]], free[last], *back])
        for a, b in zip(path[::2], path[1::2], strict=True):
            sent[a, b] = sent.get((a, b), Fraction(0)) + amount
        for b, a in zip(path[1:-1:2], path[2::2], strict=True):
            sent[a, b] -= amount
        rest[path[0]] -= amount
        free[last] -= amount
    return sum(rest.values(), Fraction(0))


def _path(rest: Law, free: Law, pairs: Mapping[Any, list[Any]], sent: Law) -> list[Hashable]:
    """Return a path from an outcome of the left law with mass left to one of the right: left,
    right, left, ..., right; empty if there is none.
    """
    before: dict[Any, Any] = {}  # predecessor of each outcome on the right
    paths = [[a] for a, mass in rest.items() if mass]
    while paths:
        further = []
        for path in paths:
            for b in pairs[path[-1]]:
                if b in before:
                    continue
                before[b] = True
                if free[b]:
                    return [*path, b]
                further += [[*path, b, a] for a in rest if sent.get((a, b))]
        paths = further
    return []
