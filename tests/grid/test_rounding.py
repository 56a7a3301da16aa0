"""Quotients of integers times rationals, to the nearest integer: against fractions, at halves and
just beside them, small and beyond the floats; no statistics."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from dpverify.grid import rounding
from dpverify.grid.linear import WORD
from dpverify.grid.rounding import rounded_ratios

FACTORS = [Fraction(1), Fraction(1, 3), Fraction(7, 12), Fraction(2**70 + 1, 3), Fraction(1, 3**90)]
SHIFTS = [Fraction(0), Fraction(1, 2), Fraction(-5, 6), Fraction(2**61, 7)]


def _pairs(factor: Fraction, shift: Fraction) -> list[tuple[int, int]]:
    """Return numerators and denominators of any size, and some whose result is at a half or next
    to one."""
    rng, pairs = random.Random(3), []
    for _ in range(400):
        below = rng.randint(1, 1 << rng.randint(0, 60))
        at = (Fraction(2 * rng.randint(-300, 300) + 1, 2) - shift) / factor * below
        pairs.append((int(at) + rng.randint(-1, 1), below))
        pairs.append((rng.choice([-1, 1]) * rng.getrandbits(rng.randint(1, 61)), below))
    return [(above, below) for above, below in pairs if abs(above) < WORD]


def _agree(factor: Fraction, shift: Fraction, kind: type) -> bool:
    pairs = _pairs(factor, shift)
    expected = [round(Fraction(a, b) * factor + shift) for a, b in pairs]
    above, below = np.array(pairs, kind).T
    ratios: list[int] = rounded_ratios(above, below, factor, shift).tolist()
    return ratios == expected


@pytest.mark.parametrize("factor", FACTORS, ids=str)
@pytest.mark.parametrize("shift", SHIFTS, ids=str)
@pytest.mark.parametrize("kind", [np.int64, object])
def test_ratios_are_those_of_fractions(factor: Fraction, shift: Fraction, kind: type) -> None:
    assert _agree(factor, shift, kind)


def test_halves_that_floats_decide_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "_HALF", 0.6)
    assert not all(_agree(factor, Fraction(-5, 6), np.int64) for factor in FACTORS)
