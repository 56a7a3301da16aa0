"""Which public matrix answers ranges of bins best: from the number of bins and the kind of noise
alone.

The aim is the mean variance over all ranges of neighboring bins, each counted once, for noise of
the sensitivity. Two kinds are offered for an axis with an order.

"circulant", for Gaussian noise: the circulant matrix C with the least mean variance. With
eigenvalues l_k of C^T C, and g_k those of the circulant whose diagonals are the sums of G's, G_ij
the number of ranges that hold bins i and j, the squared sensitivity is (sum l_k) / n and the
variances add up to (sum g_k / l_k) / n; the product is least for l_k in proportion to sqrt(g_k).
Rounded to 15 bits it loses less than 1e-5 of the variance up to 2^16 bins. Of k axes each is rounded
to 30 / k bits at most, so that the noise of their product is one that is drawn: of three axes it loses less than
1e-3, of four 3%.

"tree": levels of sums of 2^(k l) bins, all of weight 1, with the branching 2^k and the height for
which the mean variance of the least-squares answers is least, for bins padded to a power of two.
The matrix of a tree is diagonal on functions that are constant in blocks of one level and add up to
0 in those of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from dpverify.estimation.answers import NoiseLaw
from dpverify.grid.bin_counts import Axis, bins_of
from dpverify.grid.strategies import Circulant, Levels, Strategy

Kind = Literal["identity", "tree", "circulant"]
MOST_CIRCULANT = 6  # axes
_BITS, _BITS_TOGETHER = 15, 30  # of a kernel's largest entry, and of their product


def strategies_of(axes: Sequence[Axis], kind: Kind, noise: NoiseLaw) -> tuple[Strategy, ...]:
    """Choose a matrix for each axis: the counts themselves for categories, which have no order."""
    ordered = sum(not isinstance(axis, int) for axis in axes)
    bits = min(_BITS, _BITS_TOGETHER // max(1, ordered))
    return tuple(
        _strategy(bins_of(axis), "identity" if isinstance(axis, int) else kind, noise, bits)
        for axis in axes
    )


@lru_cache(maxsize=16)
def _strategy(bins: int, kind: Kind, noise: NoiseLaw, bits: int) -> Strategy:
    if kind == "identity":
        return Levels(bins, (1,))
    if kind == "tree":
        return Levels(bins, tree_weights(bins, noise))
    return Circulant(range_kernel(bins, bits))


@lru_cache(maxsize=8)
def range_kernel(bins: int, bits: int = _BITS) -> tuple[int, ...]:
    """Compute the first column of the best circulant matrix, in units of 2^-bits of its largest
    entry."""
    sides = np.arange(bins + 1, dtype=np.float64)
    both = (
        sides * (sides + 1) * (sides + 2) / 6
    )  # of bins s apart: how many ranges hold both, added up
    diagonals = both[bins - np.arange(bins)]
    diagonals[1:] += both[1:bins]
    spectrum = np.fft.rfft(diagonals).real
    kernel = np.fft.irfft(spectrum**0.25, bins)
    return tuple(np.rint(kernel / kernel[0] * (1 << bits)).astype(int).tolist())


@lru_cache(maxsize=32)
def tree_weights(bins: int, noise: NoiseLaw) -> tuple[int, ...]:
    """Choose the levels of the tree: 1 for those that are released, from single bins on."""
    height = (bins - 1).bit_length()
    held = _held(height)
    best: tuple[int, ...] = (1,)
    least: Fraction | None = None
    for step in range(1, height + 1):
        for top in range(0, height + 1, step):
            weights = tuple(int(level % step == 0) for level in range(top + 1))
            error = _error(weights, held, noise)
            if least is None or error < least:
                best, least = weights, error
    return best


def _error(weights: Sequence[int], held: Sequence[Fraction], noise: NoiseLaw) -> Fraction:
    """Compute the variances of all ranges, added up, in units of (noise multiplier)^2 (twice it for
    Laplace)."""
    total, own = Fraction(0), 0
    for level, part in enumerate(held):
        own += weights[level] << level if level < len(weights) else 0
        total += part / own
    cost = sum(weights)
    return total * (cost**2 if noise == "laplace" else cost)


def _held(height: int) -> list[Fraction]:
    """Compute for each level the part of all ranges' indicators, squared and added up, that is
    constant in its blocks and adds up to 0 in those of the next level."""
    means = [Fraction(_overlaps(height, level), 1 << level) for level in range(height + 1)]
    return [mean - above for mean, above in zip(means, [*means[1:], Fraction(0)], strict=True)]


def _overlaps(height: int, level: int) -> int:
    """Add up, over all ranges of 2^height bins and all blocks of 2^level, the squared number of
    bins that they have in common."""
    b, q = 1 << level, 1 << (height - level)
    # L_t = t b + 1 ranges' left ends are at a block's first bin or before, R_t = (q - 1 - t) b + 1 right ends
    # at its last bin or beyond.
    around = b * b * (b * b * (q * (q - 1) * (q - 2) // 6) + q * ((q - 1) * b + 1))
    squares = (b - 1) * b * (2 * b - 1) // 6  # 1 + 4 + ... + (b - 1)^2
    one_sided = q * ((q - 1) * b + 2) * squares
    return around + one_sided + q * _inner(b)


def _inner(b: int) -> int:
    """Compute the sum over s < b - 1 of (b - 1 - s) s^2: ranges within a block that touch neither
    end."""
    k = max(0, b - 2)
    squares, cubes = k * (k + 1) * (2 * k + 1) // 6, (k * (k + 1) // 2) ** 2
    return (b - 1) * squares - cubes
