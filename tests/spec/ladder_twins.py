"""False twins and planted faults of the obligations about a ladder of radii."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from spec.theory import scale_ladder

Plant = Callable[[pytest.MonkeyPatch], None]


def _overlapping(images: Sequence[Any], by: Any = None) -> list[Any]:
    """Let every record vote twice."""
    return list(pairwise(images))


def _by_position(images: Sequence[Any], by: Any) -> list[Any]:
    """One record less moves all later ones to other partners."""
    return list(zip(images[::2], images[1::2], strict=False))


def _put(name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(scale_ladder, name, value)


TWINS: dict[str, dict[str, Any]] = {
    "theory.scale_ladder:obligation_pair_rungs": {
        "one": lambda pairs, adjacency: 1,
        "four": lambda pairs, adjacency: 4,
        "none": lambda pairs, adjacency: 0,
    },
    "theory.scale_ladder:obligation_chosen_rung": {
        "the stated one": lambda released, scale: 0,
        "as if there were no noise": lambda released, scale: scale_ladder.chosen(
            released, Fraction(0)
        ),
        "one higher": lambda released, scale: min(6, scale_ladder.chosen(released, scale) + 1),
        "the fullest": lambda released, scale: min(6, released.index(max(released)) - 4),
    },
}
FAULTS: dict[str, list[Plant]] = {
    "theory.scale_ladder:obligation_chosen_rung": [_put("_beyond", lambda *given: 0)],
    "theory.scale_ladder:obligation_pair_rungs": [
        _put("pairs_by_index", _overlapping),
        _put("pairs_by_hash", _overlapping),
        _put("pairs_by_hash", _by_position),
    ],
}
