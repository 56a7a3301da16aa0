"""A ladder of public radii: pairs of records count by the least one at which they are friends, and
a noisy rung is chosen.

Proof of the sensitivity. Under replace a public order of the places in the list is cut into
pairs, and one record is in one pair. Under add-remove a record's group is a public hash of it
and of its index among equal ones, so one record more or less changes one group's members
(spec/theory/groups.py), and a group's pair is its first two members. So one pair changes,
appears or vanishes: at most two numbers move, by one each. QED.
The rung is computed from released values and is public from then on; a mean with that radius is
a part whose claim is the same on every rung, for its noise is in proportion to the radius: the
composition is adaptive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from . import groups
from .caches import cache
from .gaussian_laws import RoundedGaussianLaw
from .laws import Outcome, TranscriptLaw
from .obligations import neighbors, require
from .rescaled_laws import public_map

Parameters = Mapping[str, Any]
Image = tuple[int, ...]
Prefix = tuple[Outcome, ...]
Pairs = list[tuple[Image, Image]]

_OURS = Source("OURS", "a radius from a ladder by votes of pairs")
RUNGS = range(-4, 7)
"""Rungs: the radius on rung k is 2^k times the stated one."""
MOVED = 2
"""Squared sensitivity of the votes: for one record more or less, and for one replaced."""
ROOT = Fraction(1414213563, 10**9)
"""Rational that is at least the square root of 2."""


# --- the votes ----------------------------------------------------------------------------------


def pairs_by_hash(images: Sequence[Image], by: Any) -> Pairs:
    """Return the first two records of each group that has two."""
    return [(group[0], group[1]) for group in groups.members(images, by) if len(group) > 1]


def pairs_by_index(images: Sequence[Image]) -> Pairs:
    """Return consecutive pairs in the order of a hash of the records' places, which are counted
    from 1.
    """
    places = sorted(range(len(images)), key=lambda i: groups.mixed((i + 1) * groups.GOLDEN % 2**64))
    order = [images[i] for i in places]
    return list(zip(order[::2], order[1::2], strict=False))


def counted(pairs: Pairs, radius: int, rungs: range = RUNGS) -> Outcome:
    """Return how many pairs are friends on each rung and on none below it; at last, on none at
    all.
    """
    numbers = [0] * (len(rungs) + 1)
    for one, two in pairs:
        square = sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
        friends = [square <= Fraction(4) ** k * radius**2 for k in rungs]
        numbers[friends.index(True) if any(friends) else len(rungs)] += 1
    return tuple(numbers)


def votes(parameters: Parameters, images: Sequence[Image], radius: int) -> Outcome:
    """Return the counts on the rungs, with pairs by a hash of places under replace, and by a hash
    of records into five groups for nine expected records under add-remove.
    """
    if parameters["adjacency"] is Adjacency.REPLACE:
        return counted(pairs_by_index(images), radius)
    many = min(2**20, ceil(Fraction(5 * parameters["n_max"], 9)))
    return counted(pairs_by_hash(images, groups.Hash(many)), radius)


# --- the rung -----------------------------------------------------------------------------------


def chosen(released: Outcome, scale: Fraction) -> int:
    """Return the rung k of least 2^k / (7/8 - 4 p), p the share of pairs that are friends on
    higher rungs only.

    From rung 0 on, a number is considered if it is at least four deviations of the noise; below
    rung 0 if it is positive. The stated radius stays where it is if another promises no quarter
    less noise, or if all numbers together are less than ten deviations. With less than twenty
    no lower one is taken, nor one beyond which four deviations or more were counted on the
    rungs up to 0, together with what counts above.
    """
    total = sum(released)
    if total < ceil(10 * scale):
        return 0
    costs: dict[int, Fraction] = {}
    for k in RUNGS if total >= ceil(20 * scale) else RUNGS[-RUNGS[0] :]:
        least = ceil(4 * scale) if k >= 0 else 1
        higher = [n for j, n in zip((*RUNGS, RUNGS[-1] + 1), released, strict=True) if j > k]
        share = Fraction(sum(n for n in higher if n >= least), total)
        if k < 0 and _beyond(released, k, scale) > ceil(4 * scale):
            continue
        if Fraction(7, 8) > 4 * share:
            costs[k] = Fraction(2) ** k / (Fraction(7, 8) - 4 * share)
    if not costs:
        return RUNGS[-1]
    best = min(costs, key=lambda k: costs[k])
    return best if 0 not in costs or costs[best] <= Fraction(3, 4) * costs[0] else 0


def _beyond(released: Outcome, k: int, scale: Fraction) -> int:
    """Count the pairs that need more than rung k < 0, of those above the stated one what is no
    noise."""
    stated = -RUNGS[0]
    above = sum(n for n in released[stated + 1 :] if n >= ceil(4 * scale))
    return above + sum(released[k + stated + 1 : stated + 1])


# --- the law ------------------------------------------------------------------------------------


def on_rung(parameters: Parameters, k: int) -> dict[str, Any]:
    """Return the parameters without a ladder, the radii times 2^k."""
    radii = [name for name in ("radius", "record_radius") if name in parameters]
    scaled = {name: Fraction(parameters[name]) * Fraction(2) ** k for name in radii}
    return {**parameters, "ladder_multiplier": None, "budget": None, **scaled}


def has_ladder(parameters: Parameters) -> bool:
    """Return whether there is a ladder."""
    return parameters.get("ladder_multiplier") is not None


@states(_OURS)
def law(
    parameters: Parameters,
    records: Sequence[Any],
    mean: Callable[[Parameters, Sequence[Any]], TranscriptLaw],
) -> TranscriptLaw:
    """Return the law of the noisy votes, and then of the mean on the rung that they decide."""
    public = public_map(parameters)
    images = [public.image(record) for record in records]
    scale = ROOT * Fraction(parameters["ladder_multiplier"])
    noisy = RoundedGaussianLaw(votes(parameters, images, public.radius), scale)
    known: dict[int, TranscriptLaw] = {}

    def here(k: int) -> TranscriptLaw:
        if k not in known:
            known[k] = mean(on_rung(parameters, k), records)
        return known[k]

    def inner(i: int) -> Callable[[Prefix], Any]:
        return lambda prefix: here(chosen(prefix[0], scale)).stages[i][1](prefix[1:])

    declared = here(0)
    parts = tuple((f"on rung/{name}", inner(i)) for i, (name, _) in enumerate(declared.stages))
    nothing = (0,) * (len(RUNGS) + 1)
    return TranscriptLaw((("rungs", lambda prefix: noisy), *parts), (nothing, *declared.example))


def sensitivities(mean: Mapping[str, int]) -> dict[str, int]:
    """Return the squared sensitivity of the votes, and of the mean's stages as parts."""
    return {"rungs": MOVED, **{f"on rung/{name}": moved for name, moved in mean.items()}}


# --- obligations --------------------------------------------------------------------------------


def moved_squared(pairs: str, adjacency: Adjacency) -> int | None:
    """Return the squared sensitivity of the votes, or None if the pairs were chosen for the other
    adjacency.

    One pair's number is less by one, another's is more by one.
    """
    return MOVED if pairs == str(adjacency) else None


_SMALL = (
    *(groups.Hash(many, key) for many in (1, 2, 5) for key in (0, 7)),
    groups.Hash(3, 0, (0,)),
)


@states(_OURS)
@shows("PairRungs", Norm.SQUARED_L2, value=of_query(moved_squared, "pairs"))
def obligation_pair_rungs(
    claimed: Callable[[str, Adjacency], int | None] = moved_squared,
) -> int:
    """Check that the numbers of all neighbors of at most 4 records, with duplicates, differ by at
    most ``claimed`` squared, and by that much somewhere.

    Pairs are by places under replace, and by each of several hashes under add-remove, one of
    which puts all records into one place.
    """
    cases = 0
    for adjacency in Adjacency:
        most, looked_at = _largest_square(adjacency)
        require(
            most == claimed(str(adjacency), adjacency), f"{adjacency}: moved by {most}, squared"
        )
        cases += looked_at
    return cases


def _largest_square(adjacency: Adjacency) -> tuple[int, int]:
    """Return the largest squared move of those numbers, and the number of pairs."""
    most, cases, hashes = 0, 0, _SMALL if adjacency is Adjacency.ADD_REMOVE else (None,)
    universe = ((0,), (1,), (40,)) if adjacency is Adjacency.ADD_REMOVE else ((0,), (3,), (40,))

    @cache
    def numbers(by: Any, side: Any) -> tuple[int, ...]:
        return counted(pairs_by_index(side) if by is None else pairs_by_hash(side, by), 2)

    for by, sides in product(hashes, neighbors(universe, 4, adjacency)):
        left, right = (numbers(by, side) for side in sides)
        most = max(most, sum((a - b) ** 2 for a, b in zip(left, right, strict=True)))
        cases += 1
    return most, cases


@states(_OURS)
def obligation_chosen_rung(claimed: Callable[[Outcome, Fraction], int] = chosen) -> int:
    """Check that a rung that all of 1000 pairs have is chosen, also if a 50th of the pairs are one
    rung higher.

    However many pairs there are, four deviations of them on a higher rung keep a lower one from
    being taken. Less than four deviations on the rungs above the stated one are noise, and
    where little was counted the stated one stays.
    """
    scale, cases = Fraction(26), 0
    for k in RUNGS:
        for higher in (0, 20):
            row = [0] * (len(RUNGS) + 1)
            row[RUNGS.index(k)] += 1000 - higher
            row[RUNGS.index(k) + 1] += higher
            require(
                claimed(tuple(row), scale) == k, f"{row}: {claimed(tuple(row), scale)}, not {k}"
            )
            cases += 1
    for k, many in product(RUNGS[:4], (1000, 10**6)):
        row = [0] * (len(RUNGS) + 1)
        row[RUNGS.index(k)], row[RUNGS.index(k) + 1] = many - 105, 105
        require(claimed(tuple(row), scale) == k + 1, f"{row}: {claimed(tuple(row), scale)}")
        cases += 1
    stated = RUNGS.index(0)
    for j in range(stated + 1, len(RUNGS) + 1):
        row = [0] * (len(RUNGS) + 1)
        row[stated], row[j] = 300, 103
        require(claimed(tuple(row), scale) == 0, f"{row}: {claimed(tuple(row), scale)}")
        row[stated], row[j] = 0, 300
        require(claimed(tuple(row), scale) == min(j - stated, RUNGS[-1]), f"{row}")
        cases += 2
    for row in ([0] * 12, [-5] * 12, [259, *[0] * 11], [-900, *[0] * 10, 800]):
        require(claimed(tuple(row), scale) == 0, f"{row}: {claimed(tuple(row), scale)}")
        cases += 1
    return cases
