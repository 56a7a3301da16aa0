"""Crafted neighbors for how sums, means and clippings go wrong in floats and machine integers.

They vary order, rounding of running and of blocked sums, wrap-around, cancellation, extremes,
and include the empty dataset.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpverify.audit.sensitivity.datasets import Candidate, Space
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Floats

_UNIT_ROUNDINGS = (2.0**-24, 2.0**-53, 2.0**-11)  # half a last place of 1 in float32, 64 and 16
_PRINCIPAL = 8


def crafted(space: Space, rng: np.random.Generator) -> Iterator[Candidate]:
    """Yield all families in turn, each from its simplest on; finite in number."""
    pool = space.pool(rng)
    families: list[Iterator[Candidate]] = [
        _nobody(space, pool),
        _equal(space, pool),
        _beside(space, pool),
        _clusters(space, pool),
        _offsets(space, pool),
        _in_order(space, pool, rng),
        _lengths(space, pool, rng),
        _crossings(space, pool),
        _outside_the_numbers(space, pool),
    ]
    while families:
        going = []
        for family in families:
            candidate = next(family, None)
            if candidate is not None:
                going.append(family)
                yield candidate
        families = going


def _nobody(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield one record against none, or against another one: its opposite, and all of the first
    ones.
    """
    empty = np.zeros((0, space.columns))
    for record in pool:
        yield from space.about(empty, record, (-record,), at=0)
    if space.adjacency is Adjacency.REPLACE:
        for i, record in enumerate(pool):
            others = pool[: i if i < 2 * _PRINCIPAL else _PRINCIPAL]
            yield from space.about(empty, record, others, at=0)


def _equal(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield records that are all alike, with one that may not be, first or last."""
    for record in pool[:_PRINCIPAL]:
        for other in pool[:_PRINCIPAL]:
            for number in (1, 2, 3, 7, 16, 100):
                base = np.repeat(record[np.newaxis], min(number, space.most - 1), axis=0)
                for at in (0, len(base)):
                    yield from space.about(base, other, (record, pool[0]), at=at)


def _beside(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield a large record with small ones, each a little more or less than half of its last
    place.
    """
    for number in (1, 2, 63, 1023):
        for unit in _UNIT_ROUNDINGS:
            for share in (1 + 2**-10, 1.0, 1 - 2**-10, -1 - 2**-10, 3.0):
                for large in pool[1 : 2 * _PRINCIPAL]:
                    small = large * (unit * share)
                    base = np.repeat(small[np.newaxis], min(number, space.most - 1), axis=0)
                    yield from space.about(base, large, (-large, small, pool[0]), at=0)


def _clusters(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield two clusters, where one record decides which is larger or where the middle is."""
    few = pool[:_PRINCIPAL]
    for number in (1, 2, 5, 20):
        for left in few:
            for right in few:
                if left is not right and 2 * number < space.most:
                    base = np.repeat(np.stack([left, right]), number, axis=0)
                    yield from space.about(base, right, (left,), at=2 * number)
                    yield from space.about(base, left, (right, pool[-1]), at=number)


def _offsets(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield records that differ little, far from zero, where differences cancel."""
    far = (2.0**24, 1e8, 2.0**31, 2.0**53, 1e16, 1e154, 1e300, *space.high[:1].tolist())
    for number in (1, 2, 4, 33):
        for offset in far:
            center = np.full(space.columns, offset)
            base = np.repeat(center[np.newaxis], min(number, space.most - 1), axis=0)
            for step in (1.0, -1.0, float(np.spacing(offset)), -offset / 3):
                yield from space.about(base, center + step, (center, pool[0]), at=number // 2)


def _in_order(space: Space, pool: list[Floats], rng: np.random.Generator) -> Iterator[Candidate]:
    """Yield rising, falling, alternating and shuffled records, with a change anywhere."""
    low, high = np.maximum(space.low, -1.0), np.minimum(space.high, 1.0)
    low, high = np.where(low < high, low, space.low), np.where(low < high, high, space.high)
    for number in (2, 3, 5, 9, 32, 257):
        number = min(number, space.most - 1)
        if not number:
            return
        rising = np.linspace(low, high, number)
        alternating = np.where(np.arange(number)[:, np.newaxis] % 2 == 0, low, high)
        shuffled = rng.permutation(rising)
        for base in (rising, rising[::-1], alternating, shuffled):
            for at in (0, number // 2, number):
                for record in pool[: _PRINCIPAL // 2]:
                    yield from space.about(base, record, pool[:2], at=at)


def _lengths(space: Space, pool: list[Floats], rng: np.random.Generator) -> Iterator[Candidate]:
    """Yield numbers of records around powers of two, where blocked sums change shape and
    integers end.
    """
    for power in range(3, space.most.bit_length()):
        for more in (-1, 0, 1):
            number = min((1 << power) + more, space.most) - 1
            drawn = rng.normal(size=(number, space.columns))
            equal = [np.repeat(row[np.newaxis], number, axis=0) for row in pool[1:4]]
            for base in (*equal, drawn):
                yield from space.about(base, base[-1], (pool[0], pool[2]), at=0)


def _crossings(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield a running sum beyond a power of two, where small records begin to count double.

    Half a last place and a little more is kept below that power and rounded up to a whole one above
    it; with one more large record the sum arrives there earlier.
    """
    for unit in _UNIT_ROUNDINGS[::2]:
        for power in range(2, 15):
            level = 1 << power
            number = int(min(1 / (level * unit), 1 << 20)) + 1
            if level + number > space.most:
                continue
            for large in (pool[1], *pool[3:_PRINCIPAL]):
                small = large * (level * unit * (1 + 2**-10))
                many = np.repeat(np.stack([large, small]), [level - 1, number], axis=0)
                yield from space.about(many, large, (-large, pool[0]), at=0)


def _outside_the_numbers(space: Space, pool: list[Floats]) -> Iterator[Candidate]:
    """Yield NaN and infinities, where records may hold them."""
    if not space.nonfinite:
        return
    for number in (0, 1, 3):
        base = np.repeat(pool[1][np.newaxis], min(number, space.most - 1), axis=0)
        for odd in (np.nan, np.inf, -np.inf):
            everywhere, once = np.full(space.columns, odd), pool[1].copy()
            once[-1] = odd
            for record in (everywhere, once):
                yield from space.about(base, record, (pool[0], pool[2]), at=0)
