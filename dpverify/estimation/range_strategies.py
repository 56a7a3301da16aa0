"""Public matrices that answer ranges of bins best: from the number of bins and the kind of
noise alone.

The aim is the mean variance over all ranges of neighboring bins, each counted once, for noise of
the sensitivity. Two kinds are offered for an axis with an order.

"circulant", for Gaussian noise: the circulant matrix C with the least mean variance. With
eigenvalues l_k of C^T C, and g_k those of the circulant whose diagonals are the sums of G's,
G_ij the number of ranges that hold bins i and j, the squared sensitivity is (sum l_k) / n and
the variances add up to (sum g_k / l_k) / n; the product is least for l_k in proportion to
sqrt(g_k). Rounded to 15 bits it loses less than 1e-5 of the variance up to 2^16 bins. Of k axes
each is rounded to 30 / k bits at most, so that the noise of their product is one that is drawn:
of three axes it loses less than 1e-3, of four 3%.

"tree": levels of sums of 2^(k l) bins, all of weight 1, with the branching 2^k and the height
for which the mean variance of the least-squares answers is least. Under Laplace noise that is
no tree up to 42 bins, but the counts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from dpverify.estimation.answers import NoiseLaw
from dpverify.grid.bin_counts import Axis, bins_of
from dpverify.grid.strategies import Circulant, Levels, Strategy
from dpverify.privacy.numbers import Floats

Kind = Literal["identity", "tree", "circulant"]
MOST_CIRCULANT = 6  # largest number of circulant axes
_BITS, _BITS_TOGETHER = 15, 30  # bits of a kernel's largest entry, and of the product of several
_CLOSE = 1e-9  # share of an error; floats are off by less


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
    # of bins s apart: how many ranges hold both, added up
    both = sides * (sides + 1) * (sides + 2) / 6
    diagonals = both[bins - np.arange(bins)]
    diagonals[1:] += both[1:bins]
    spectrum = np.fft.rfft(diagonals).real
    kernel = np.fft.irfft(spectrum**0.25, bins)
    return tuple(np.rint(kernel / kernel[0] * (1 << bits)).astype(int).tolist())


@lru_cache(maxsize=32)
def tree_weights(bins: int, noise: NoiseLaw) -> tuple[int, ...]:
    """Choose the levels of the tree: 1 for those that are released, from single bins on.

    Of the trees of 2^step branches and any height, choose the one of least mean variance over
    all ranges of so many bins; a later one has to be better than the first by more than the
    error of floats.
    """
    height = (bins - 1).bit_length()
    best: tuple[int, ...] = (1,)
    least = tree_error(bins, best, noise)
    for step in range(1, height + 1):
        for top in range(0, height + 1, step):
            weights = tuple(int(level % step == 0) for level in range(top + 1))
            error = tree_error(bins, weights, noise)
            if error < least * (1 - _CLOSE):
                best, least = weights, error
    return best


def tree_error(bins: int, weights: Sequence[int], noise: NoiseLaw) -> float:
    """Compute the variances of all ranges, added up, in units of (noise multiplier)^2 (twice it for
    Laplace).

    For A^T A of the sums below a node, and its inverse's row sums u: ``sums`` adds up u_i,
    ``before`` (i + 1) u_i and ``ranges`` u_i u_j times the number of ranges that hold bins i
    and j. A node that is released takes u u^T / (1 + sum u) from the inverse of what is below
    it (Sherman and Morrison).
    """
    places = np.arange(1, bins + 1, dtype=np.float64)
    sums, before, ranges = np.ones(bins), places, places * (bins + 1 - places)
    total = float(ranges.sum())
    for weight in weights[1:]:
        (left, right), (first, last), (own, other) = map(_halves, (sums, before, ranges))
        sums, before = left + right, first + last
        ranges = own + other + 2 * first * ((bins + 1) * right - last)
        if weight:
            taken = 1 / (1 + sums)
            total -= float((taken * ranges).sum())
            sums, before, ranges = taken * sums, taken * before, taken**2 * ranges
    cost = sum(weights)
    return total * (cost**2 if noise == "laplace" else cost)


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Return the left and the right one of neighbors: at the end of an odd number nothing is
    right.
    """
    even = np.append(numbers, 0.0) if len(numbers) % 2 else numbers
    return even[::2], even[1::2]
