"""False twins of the obligations about counts in bins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify.privacy import Adjacency, Norm
from spec import histogram
from spec.theory import bin_counts

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def _moves(matrices: Any, other: int, norm: Norm, adjacency: Adjacency) -> int:
    return bin_counts.bin_counts_sensitivity(matrices, other, norm, adjacency) or 0


def _nothing_in_common(matrices: Any, other: int, norm: Norm, adjacency: Adjacency) -> int:
    """Replace as twice the one record, whatever ancestors two bins share."""
    return _moves(matrices, other, norm, ADD) * (2 if adjacency is REPLACE else 1)


def _half_open(axis: Any, value: Fraction) -> int | None:
    """Count in the last bin without its upper edge."""
    return (
        None if not isinstance(axis, int) and value == axis[-1] else bin_counts.place(axis, value)
    )


def _closed(axis: Any, value: Fraction) -> int | None:
    """Count an inner edge in the bin below it."""
    inner = not isinstance(axis, int) and value in axis[1:-1]
    return axis.index(value) - 1 if inner else bin_counts.place(axis, value)


def _too_small(bins: int, weights: Sequence[int], noise: str) -> Fraction:
    """Use the leaves alone, as if sums taught nothing."""
    return histogram.tree_error(bins, (1, *(0 for _ in weights[1:])), noise)


def _padded(bins: int, weights: Sequence[int], noise: str) -> Fraction:
    """Count as if there were a power of two of bins."""
    return histogram.tree_error(1 << (bins - 1).bit_length(), tuple(weights), noise)


TWINS: dict[str, dict[str, Any]] = {
    "theory.bin_counts:obligation_bin_counts": {
        "one record, whatever the adjacency": lambda m, other, norm, near: _moves(
            m, other, norm, ADD
        ),
        "nothing in common": _nothing_in_common,
        "two steps": lambda m, other, norm, near: (
            _moves(m, other, norm, ADD) * (4 if near is REPLACE else 1)
        ),
        "outside for nothing": lambda m, other, norm, near: _moves(m, 0, norm, near),
        "one more": lambda *given: _moves(*given) + 1,
    },
    "theory.bin_counts:obligation_places": {
        "no last edge": _half_open,
        "edges below": _closed,
        "rounded categories": lambda axis, value: (
            bin_counts.place(axis, Fraction(round(value)))
            if isinstance(axis, int)
            else bin_counts.place(axis, value)
        ),
    },
    "histogram:obligation_loss": {
        "half": Fraction(1, 2),
        "double": Fraction(2),
        "a hair less": 1 - Fraction(1, 10**6),
        "a hair more": 1 + Fraction(1, 10**6),
    },
    "histogram:obligation_kernel": {
        "the counts": lambda bins: (1,) + (0,) * (bins - 1),
        "flat": lambda bins: (3,) + (1,) * (bins - 1),
        "coarse": lambda bins: tuple(round(entry / 2048) for entry in histogram.kernel(bins)),
    },
    "histogram:obligation_tree": {
        "leaves": _too_small,
        "padded": _padded,
        "no level is paid for": lambda h, w, noise: (
            histogram.tree_error(h, w, noise) / max(1, sum(w))
        ),
        "paid once": lambda h, w, noise: histogram.tree_error(h, w, "gaussian"),
    },
}
