"""Stages that are built from a released number: whole mechanisms on small graphs of datasets.

The number of records is released with noise, less a shift; where it is at least 1, a multiple of
the records' mean by that number. The multiple moves little only if the released number is at
most the true ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import pytest

from dpverify.privacy import Adjacency, Guarantee, Norm, rules
from dpverify.privacy.balls import rational, round_up
from dpverify.privacy.tails import Tail

from . import laws, premises
from .graph import Judged, Law, Mechanism, edges, judge, moved

ADD_REMOVE = Adjacency.ADD_REMOVE
PAIRS = edges(ADD_REMOVE, (0, 1), 3)
SCALE, WIDE = Fraction(1), Fraction(10)
SHIFT = 4
UNIT, NOWHERE = 6, 200
"""Of a mean of 1; and where the mean of no record lies."""
LAST = 6
"""The largest released number: larger ones are released as this."""
EPSILONS = [Fraction(e) for e in (0, 1, 2, 4, 9)]


def times(released: int, data: Sequence[int]) -> int:
    """Multiply the mean by the released number."""
    return released * (UNIT * sum(data) // len(data)) if data else NOWHERE


@cache
def mean_moves() -> int:
    """Measure how far the multiple moves at released numbers from 1 to the smaller number."""
    return max(
        abs(times(r, one) - times(r, other))
        for one, other in PAIRS
        for r in range(1, min(len(one), len(other)) + 1)
    )


def mechanism(shift: int = SHIFT, *, gate: int = 1, more: int = 0) -> Mechanism:
    """Release the number, then from ``gate`` on what is built from it, or from ``more`` than it."""

    @cache
    def of(data: tuple[int, ...]) -> Law:
        masses: dict[tuple[int, object], object] = {}
        for released in range(-shift - 1, LAST + 1):
            mass = laws.laplace(len(data) - shift, SCALE, -shift - 1, LAST)[released]
            second = laws.point(None)
            if released >= gate:
                center = times(max(1, released) + more, data)
                second = laws.laplace(center, WIDE, 0, NOWHERE)
            masses |= {(released, value): mass * share for value, share in second.items()}
        return masses  # type: ignore[return-value]

    return lambda data: of(tuple(data))


def missed(shift: int = SHIFT) -> Fraction:
    """Bound how likely a release is above the smaller number, on the worst node of a pair."""
    return round_up(rational(Tail.DISCRETE_LAPLACE.at_least(shift, SCALE).upper()))


def concluded(shift: int, probability: Fraction, *, paid: bool = True) -> Guarantee:
    """Conclude by all rules that such a mechanism needs; or all but the one that pays."""
    count = moved(lambda data: (len(data),), PAIRS, Norm.L1)
    lowered = premises.lowered_number(count, shift)
    built = premises.built_at(1, mean_moves(), WIDE)
    mean = premises.passed_gate(premises.for_each_release(built))
    released = rules.discrete_laplace(lowered, SCALE)
    whole = rules.adaptive_compose([released, mean])
    rare = premises.released_event(released, probability)
    whole = premises.assume(whole)
    return (rules.add_delta_event(whole, rare) if paid else whole).conclusion.guarantee


def judged(law: Mechanism, *, paid: bool = True) -> Judged:
    """Compare a mechanism with the claim of the sound one."""
    return judge(law, PAIRS, concluded(SHIFT, missed(), paid=paid), EPSILONS)


def _holds_tightly(law: Mechanism) -> None:
    verdict = judged(law)
    assert verdict.holds
    assert verdict.share > 0.99


def test_released_event() -> None:
    """Enumerate number and mean; a release above the smaller number is attained and told."""
    _holds_tightly(mechanism())


def test_assume() -> None:
    """Enumerate the same under the assumption, which the event then pays for."""
    _holds_tightly(mechanism())


def test_for_each_release() -> None:
    """Enumerate the same, with a stage for each released number; and with smaller multiples."""
    _holds_tightly(mechanism())
    assert judged(mechanism(more=-1)).holds


def test_passed_gate() -> None:
    """Enumerate the same, with a gate at 1; and with higher gates."""
    _holds_tightly(mechanism())
    for gate in (2, 4):
        assert judged(mechanism(gate=gate)).holds


def test_released_event_twin_small_shift() -> None:
    """Catch a number that is lowered by one less than is paid for."""
    assert judged(mechanism(SHIFT - 1)).surely > 0.01
    with pytest.raises(ValueError, match="give a larger shift"):
        concluded(SHIFT - 1, missed())


def test_assume_twin_forgotten() -> None:
    """Catch the claim without the probability of the event."""
    assert judged(mechanism(), paid=False).surely > 0.9 * float(missed())


def test_for_each_release_twin_larger_number() -> None:
    """Catch a stage that is built from a larger number than was released."""
    assert judged(mechanism(more=20)).surely > 0.001


def test_passed_gate_twin_no_gate() -> None:
    """Catch a mean that is released whatever the number is."""
    assert judged(mechanism(gate=-SHIFT)).surely > 0.5
