"""Candidates for made-up leaks, and what they are worth on fresh draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.outputs.laws import encode
from dpverify.audit.witnesses.learned import Candidate, Effort, candidates
from dpverify.privacy.numbers import Floats

Maker = Callable[[np.random.Generator, int, int], Any]
"""rng, size, side to outputs."""
FRESH = 4000


def advantage(own: Floats, other: Floats) -> float:
    own, other = np.sort(own), np.sort(other)
    cuts = np.concatenate([own, other])
    below = np.searchsorted(own, cuts) / len(own), np.searchsorted(other, cuts) / len(other)
    return float(np.max(np.abs(below[0] - below[1])))


def upward(own: Floats, other: Floats) -> float:
    """max P(own score >= t) - P(other score >= t)."""
    own, other = np.sort(own), np.sort(other)
    below = np.searchsorted(own, own) / len(own), np.searchsorted(other, own) / len(other)
    return float(np.max(below[1] - below[0]))


def area(own: Floats, other: Floats) -> float:
    """P(score of own > score of other), a tie being one half."""
    below = np.searchsorted(np.sort(other), own), np.searchsorted(np.sort(other), own, "right")
    return float((below[0] + below[1]).mean() / (2 * len(other)))


def learn(
    make: Maker,
    size: int = 1000,
    effort: Effort = Effort.QUICK,
    difference: Floats | None = None,
    law_known: bool = False,
) -> tuple[list[Candidate], Draws, Draws]:
    """Candidates, and fresh draws of both sides."""
    (own, other), (fresh, other_fresh) = _drawn(make, size)
    pool = candidates(own, other, law_known=law_known, difference=difference, seed=0, effort=effort)
    return pool, fresh, other_fresh


@lru_cache(maxsize=8)
def _drawn(make: Maker, size: int) -> tuple[tuple[Draws, Draws], tuple[Draws, Draws]]:
    """Return draws of both sides to learn from, and as many fresh ones as areas need."""
    rng = np.random.default_rng(0)
    (own, other), (fresh, other_fresh) = (
        [encode(make(rng, number, side)) for side in (0, 1)] for number in (size, FRESH)
    )
    return (own, other), (fresh, other_fresh)


def worth(
    make: Maker,
    *,
    size: int = 1000,
    effort: Effort = Effort.QUICK,
    difference: Any = None,
    words: str = "",
) -> dict[str, float]:
    """Return the advantage of each candidate whose description has these words."""
    pool, own, other = learn(make, size, effort, difference)
    named = [one for one in pool if words in one.description]
    return {one.description: advantage(one.score(own), one.score(other)) for one in named}


def same_vectors(rng: Any, size: int, side: int) -> Any:
    return rng.normal(size=(size, 20)).round(1)
