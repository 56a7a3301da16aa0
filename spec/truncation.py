"""Spec of ``truncation``: a list of a public size, of the records inside a public box, in a random
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, SourceStatus, shows, states

from .theory.caches import cache
from .theory.couplings import uncoupled
from .theory.obligations import Departure, neighbors, require

DEPARTURES = (
    Departure(
        "ZZ25, Lemma 2.1 (lists of a constant share of the number of records)",
        "any public size, or one that follows from what was released before",
        "privacy holds for every size; under add-remove the number of records is private, so no "
        "share of it is a size",
    ),
)
_LIST = Source(
    "ZZ25",
    "Lemma 2.1, lists of a public size",
    SourceStatus.CHANGED_CONSTANTS,
    note="also under add-remove; by a coupling",
)
Law = dict[tuple[Any, ...], Fraction]


@states(_LIST)
def of_public_size(
    records: Sequence[Any], inside: Callable[[Any], bool], size: int, pad: Any
) -> tuple[Any, ...]:
    """Return the first ``size`` records inside, in their order; where there are fewer, filled up
    with a public record.

    Claim. One record more or less in ``records`` changes the result by one record at most, as a
    multiset, and so does a replacement. Proof. Let Y be the records inside, in order, and Y'
    those with one more. If |Y| >= size, both keep size of them, and differ by the new one
    against the one that it pushes out, or not at all; if |Y| < size, by the new one against a
    pad. A replacement inside is one exchange; from inside to outside (or back) it is a removal
    (or an addition). QED

    The places of all records may change.
    """
    kept = [x for x in records if inside(x)][:size]
    return (*kept, *[pad] * (size - len(kept)))


def law(records: Sequence[Any], inside: Callable[[Any], bool], size: int, pad: Any) -> Law:
    """Return the law of the list in every order, equally likely.

    Two such lists differ by one exchange at most. Put the two records that differ in one place,
    and all others as on the other side: a uniform order of one list is then a uniform order of
    the other, and the lists differ in that place alone. So they are coupled to be equal, or
    neighbors under replace. QED
    """
    return in_every_order(of_public_size(records, inside, size, pad))


def in_every_order(listed: tuple[Any, ...]) -> Law:
    """Return so many equally likely lists, equal ones together."""
    orders = Counter(permutations(listed))
    return {one: Fraction(times, orders.total()) for one, times in orders.items()}


@states(_LIST)
def obligation_of_public_size(claimed: Callable[..., tuple[Any, ...]] = of_public_size) -> int:
    """Check on all neighbors of at most 5 records of three letters, of which two are inside, that
    the results have the public size and differ by one exchange at most; for some pair they do;
    and there is a pair where every place differs.
    """
    cases = 0
    for adjacency, size in product(Adjacency, (1, 2, 3, 4)):
        farthest, moved = 0, 0
        for ours, theirs in neighbors("abc", 5, adjacency):
            left, right = (claimed(one, lambda x: x != "c", size, "a") for one in (ours, theirs))
            require(len(left) == len(right) == size, f"{ours}, {theirs}: {left}, {right}")
            gone = Counter(left) - Counter(right)
            farthest = max(farthest, sum(gone.values()))
            moved = max(moved, sum(a != b for a, b in zip(left, right, strict=True)))
            require(sum(gone.values()) <= 1, f"{adjacency}, {ours}, {theirs}: {left}, {right}")
            cases += 1
        require(farthest == 1 and moved == size, f"{adjacency}, {size}: {farthest}, {moved}")
    return cases


@shows("Truncation", Norm.COUPLED, value=lambda s: 1, keeps=lambda s: Adjacency.REPLACE)
@states(_LIST)
def obligation_coupling(claimed: Callable[..., Law] = law) -> int:
    """Check on all neighbors of at most 4 records of three letters, two of them inside, and sizes
    up to 3, that the two laws of lists have an exact coupling in which the lists differ in one
    place at most; for some pair no coupling has lists that are always equal.
    """
    cases = 0
    for adjacency, size in product(Adjacency, (1, 2, 3)):
        law_of = cache(lambda one, size=size: claimed(one, lambda x: x != "c", size, "a"))
        apart = False
        for ours, theirs in neighbors("abc", 4, adjacency):
            left, right = law_of(tuple(ours)), law_of(tuple(theirs))
            require(sum(left.values()) == sum(right.values()) == 1, f"{ours}: no law")
            missed = uncoupled(left, right, _one_place)
            require(missed == 0, f"{adjacency}, {ours}, {theirs}: {missed} of the mass is farther")
            apart |= left != right
            cases += 1
        require(apart, f"{adjacency}, {size}: nothing ever moves")
    return cases


def _one_place(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) <= 1
