"""Slabs from second moments that were released within a few directions.

Nothing here bounds a privacy loss: it is post-processing. It is stated so that the law of later
stages is known, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import isqrt

from dpverify.privacy import Source, states

from .obligations import require
from .regions import LENGTH, OFF_DIAGONAL, dot
from .slabs import FILTER, directions
from .vectors import Vector

SLABS = Source("OURS", "slabs where inner moments are larger than noise and sampling explain")
HALF_WIDTH = Fraction(5, 2)
"""Half the width of a slab, in deviations."""
SHORTER = Fraction(15, 16)
"""Share of its radius that the ball keeps if two or more directions are cut."""
_LIMITS = (Fraction(4, 3), Fraction(9, 10))
_ALONE, _APART, _LESS = Fraction(3, 2), Fraction(6, 5), Fraction(3, 5)
_MOST = 2**60
Slabs = tuple[tuple[Vector, ...], tuple[int | None, ...], int, bool, int]
"""Directions of slabs; of each the middle in cells times LENGTH, or None where it is not cut; the
number of directions that show outliers; whether the first one is alone, with outliers that are not
far; the number of records."""


def _limited(x: int) -> int:
    return min(max(x, -_MOST), _MOST)


@states(FILTER, SLABS)
def slabs(
    first: Sequence[Vector], second: Sequence[int], most: int, square: int, constant: int
) -> Slabs:
    """Return the slabs that the moments along the directions ``first``, and of the constant after
    them, show.

    With T the last entry of the diagonal and b the column above it, moments about the mean are M -
    b b^T / T. (T of at most 2^43, eight deviations of noise, counts as 0: then nothing is told.)
    v_1 to v_most are the eigenvectors of the largest eigenvalues, and e_j how much v_j M v_j is
    above the mean of the rest. Normal noise of deviation 2^40 reaches 2^40 sqrt(2 k) for large k;
    the own moments of n records are off by 2 sqrt(k n) squared deviations, and T is n times the
    squared constant, (k + 1) / 16 squared deviations. With L the root of the sum of both squares,
    v_1 is cut if e_1 > 4/3 L, and each next one if those before are and e_j > 9/10 L. So are the
    directions between those: sums and differences, over the root of how many they are. v_1 is alone
    if e_1 > 3/2 L, at most n / 2 squared deviations, and e_2 <= 6/5 L or e_2 <= 3/5 e_1.
    """
    k = len(first)
    numbers = [_limited(x) for x in second]
    above = dict(zip(combinations(range(k + 1), 2), numbers[k + 1 :], strict=True))
    told = numbers[k] > 2**43
    total = numbers[k] if told else 0
    means = [above[i, k] if told else 0 for i in range(k)]
    # b_i was released as OFF_DIAGONAL b_i
    weight = OFF_DIAGONAL * (total or 1)
    own = [
        _limited(x - math.floor(Fraction(m * m) / OFF_DIAGONAL / weight))
        for x, m in zip(numbers[:k], means, strict=True)
    ]
    mixed = {
        (i, j): _limited(above[i, j] - math.floor(Fraction(means[i] * means[j]) / weight))
        for i, j in combinations(range(k), 2)
    }
    axes = directions((*own, *mixed.values()), k, most)
    number, alone = _number(own, mixed, axes, total, square) if told else (0, False)
    turned = [_rounded(tuple(dot(v, column) for column in zip(*first, strict=True))) for v in axes]
    along: list[Vector] = []
    middles: list[int | None] = []
    for signs in product((-1, 0, 1), repeat=most):
        if next((s for s in signs if s), 0) <= 0:
            continue
        used = [j for j, s in enumerate(signs) if s]
        scale = isqrt(LENGTH**2 // len(used))
        along.append(_rounded(tuple(scale * dot(signs, own) for own in zip(*turned, strict=True))))
        inner = _rounded(tuple(scale * dot(signs, own) for own in zip(*axes, strict=True)))
        off = math.floor(Fraction(constant * dot(inner, tuple(means))) / weight)
        middles.append(_limited(off) if used[-1] < number else None)
    records = min(16 * total // ((k + 1) * max(square, 1)), 2**55)
    return tuple(along), tuple(middles), number, alone, records


def _rounded(v: Vector) -> Vector:
    return tuple((x + LENGTH // 2) // LENGTH for x in v)


def _number(
    own: Sequence[int],
    mixed: dict[tuple[int, int], int],
    axes: Sequence[Vector],
    total: int,
    square: int,
) -> tuple[int, bool]:
    """Count the directions whose moments are larger than what is likely, and tell whether the first
    is alone.
    """
    k, sizes = len(own), []
    for v in axes:
        crossed = sum(Fraction(x * v[i] * v[j]) for (i, j), x in mixed.items()) / OFF_DIAGONAL
        squares = sum(x * a * a for x, a in zip(own, v, strict=True))
        sizes.append(math.floor((squares + 2 * crossed) / LENGTH**2))
    rest = (sum(own) - sum(sizes)) // (k - len(axes))
    likely = 2 * k * 2**80 + 64 * k * total * square // (k + 1)
    above = [max(size - rest, 0) ** 2 for size in sizes]
    number = 0
    while number < len(above) and above[number] > _LIMITS[number > 0] ** 2 * likely:
        number += 1
    most = max(_APART**2 * likely, _LESS**2 * above[0])
    close = (k + 1) * (sizes[0] - rest) <= 8 * total
    sure = close and above[0] > _ALONE**2 * likely
    return number, number > 0 and sure and all(one <= most for one in above[1:2])


# --- obligations --------------------------------------------------------------------------------


_DEVIATION = 2**10  # in cells
_COUNT, _UNIT = 10**3, 2**46  # of records, and of a squared deviation of all of them
_LEAST = Fraction(5, 4), Fraction(7, 5), Fraction(8, 5)


def _moments(variances: Sequence[Fraction], means: Vector, constant: int) -> list[int]:
    """Return the exact moments of records, in 2^-40 of a noise of a 64th of a squared deviation."""
    own = [v + Fraction(m, _DEVIATION) ** 2 for v, m in zip(variances, means, strict=True)]
    own.append(Fraction(constant, _DEVIATION) ** 2)
    center = [Fraction(m, _DEVIATION) for m in (*means, constant)]
    pairs = [OFF_DIAGONAL * a * b for a, b in combinations(center, 2)]
    return [round(_UNIT * x) for x in (*own, *pairs)]


@states(FILTER, SLABS)
def obligation_inner_slabs(claimed: Callable[..., Slabs] = slabs) -> int:
    """Check on exact moments that, wherever the mean is, directions are cut if their variance is
    above 1 by 7/5 of what noise and sampling explain, as many as there are, and not if it is by
    5/4; that each next direction is cut from 5/4 on; that one is alone if it is the only one and
    above 1 by 8/5 of that, but not if it is by 7/5, nor if it is above 1 by 3/5; and that the
    middles of slabs are the mean and the number of records is theirs, to a hundredth of a deviation
    and of all.
    """
    cases = 0
    for k, most, off in product((4, 8), (1, 2, 3), (0, 300, -700)):
        first = [tuple(LENGTH * (i == j) for j in range(k)) for i in range(k)]
        constant = isqrt(_DEVIATION**2 * (k + 1) // 16)
        means = tuple(off + 10 * i for i in range(k))
        square = Fraction(_UNIT, _COUNT)
        likely = isqrt(2 * k * 2**80 + math.floor(4 * k * _COUNT * square**2))
        for large, least in product(range(most + 1), _LEAST):
            above = [least, *(Fraction(126, 100) - Fraction(i, 100) for i in range(1, large))]
            own = [1 + Fraction(likely, _UNIT) * a for a in above[:large]]
            variances = [*own, *[Fraction(1)] * (k - large)]
            moments = _moments(variances, means, constant)
            seen = claimed(first, moments, most, round(square), constant)
            along, middles, number, alone, records = seen
            expected = large if least > Fraction(4, 3) else 0
            require(number == expected, f"{k}, {off}, {least}: {number} cut, not {expected}")
            only = number == 1 and least == _LEAST[-1]
            require(alone == only, f"{k}, {off}, {least}: {number} cut, {alone}")
            require(abs(records - _COUNT) <= _COUNT // 100, f"{k}, {off}: {records} records")
            far = _moments([Fraction(8, 5), *variances[1:]], means, constant)
            require(not claimed(first, far, most, round(square), constant)[3], f"{k}, {off}: far")
            known = [m for m in middles if m is not None]
            require(len(along) == (3**most - 1) // 2, f"{len(along)} slabs for {most}")
            require(len(known) == (3**number - 1) // 2, f"{len(known)} of {number} cut")
            for v, middle in zip(along, middles, strict=True):
                if middle is not None:
                    away = abs(middle - dot(v, means)) / (LENGTH * _DEVIATION)
                    require(away < 0.01, f"{k}, {v}: the middle is {away} deviations off")
            cases += 1
    return cases
