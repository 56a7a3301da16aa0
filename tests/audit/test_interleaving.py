"""Functions that change with their calls: what drifts on both sides alike is no leak, and hides
none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import PureDP
from dpverify.audit import Verdict, added, audit
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.outputs.laws import CallableDraws, both_drawn
from dpverify.audit.witnesses.clocks import clocks_of, without

PAIRS = [added("a row enters", [0.0] * 3, 0.0)]
TRIALS = 20_000


def counting(epsilon: float, seed: int, also: Callable[[int, int], Any]) -> Callable[[Any], Any]:
    """Return a count with geometric noise, and what ``also`` makes of the call's number and of
    the answer."""
    rng, calls = np.random.default_rng(seed), itertools.count()

    def answer(data: Any) -> Any:
        up, down = rng.geometric(1 - math.exp(-epsilon), size=2)
        return also(next(calls), len(data) + int(up - down))

    return answer


def numbered(call: int, answer: int) -> Any:
    return answer, call


def drifting(call: int, answer: int) -> Any:
    return answer + call // 1000


def in_waves(call: int, answer: int) -> Any:
    return answer + 10 * (call // 500 % 2)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_serial_number_hides_no_leak(seed: int, sequential: bool) -> None:
    """Epsilon is 2.5, the claim 1. Before sides were mixed, the number told them apart, and
    nothing else was looked at."""
    leak = counting(2.5, seed, numbered)
    result = audit(
        leak, claim=PureDP(1), pairs=PAIRS, trials=TRIALS // 2, seed=seed, sequential=sequential
    )
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("drift", [numbered, drifting, in_waves])
def test_what_drifts_with_the_calls_is_no_leak(
    drift: Callable[[int, int], Any], sequential: bool
) -> None:
    """False alarms of probability 1e-6 each."""
    trials = TRIALS // 8 if sequential else TRIALS // 2
    result = audit(
        counting(1, 0, drift), claim=PureDP(1), pairs=PAIRS, trials=trials, seed=0,
        sequential=sequential,
    )  # fmt: skip
    assert result.verdict is Verdict.POWERLESS  # nothing was planted


def test_the_side_of_each_call_is_a_fair_coin() -> None:
    """Count sides: within six standard deviations, 24.5 each. Seed fixed."""
    sides: list[int] = []

    def told(data: Any) -> int:
        sides.append(len(data))
        return len(data)

    laws = CallableDraws(told, [0.0]), CallableDraws(told, [0.0, 0.0])
    left, right = both_drawn(laws, [(0, side) for side in (0, 1)], 1200)
    assert (left.numbers == 1).all()
    assert (right.numbers == 2).all()
    assert (len(left), len(right)) == (sides.count(1), sides.count(2))
    assert len(sides) == 2400
    assert abs(len(left) - 1200) < 6 * 25
    changes = np.count_nonzero(np.diff(sides))
    assert abs(changes - 1200) < 6 * 25


def test_batches_come_in_the_order_of_a_coin() -> None:
    """Toss 64 coins: all are alike with probability 2^-63."""
    sides: list[int] = []

    def told(data: Any, size: int) -> Any:
        sides.append(len(data))
        return np.arange(size)

    left, right = (CallableDraws(told, [0.0] * n, vectorized=True) for n in (1, 2))
    laws = left, right
    for part in range(64):
        drawn = both_drawn(laws, [(part, side) for side in (0, 1)], 10)
        assert [len(values) for values in drawn] == [10, 10]
    assert set(sides[::2]) == {1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_beside_a_leak_is_in_no_score(seed: int) -> None:
    """Scores that mix a clock in drift away from their thresholds: one of three such leaks was
    CONSISTENT."""
    answer = counting(2.5, seed, lambda call, answer: answer)
    rng, now = np.random.default_rng(seed), [1.7e9]

    def clocked(data: Any) -> Any:
        now[0] += 1e-6 * rng.exponential()
        return float(answer(data)), now[0]

    result = audit(clocked, claim=PureDP(1), pairs=PAIRS, trials=TRIALS // 4, seed=seed)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon > 2


def test_clocks_are_columns_that_move_on_with_the_calls() -> None:
    rng = np.random.default_rng(0)
    rising = np.cumsum(rng.exponential(size=200))
    column = rng.normal(size=200)
    own, other = (encode(np.stack([column, rising, -rising, rising > 9], axis=1)) for _ in "ab")
    assert clocks_of(own, other) == [1, 2]
    assert clocks_of(encode(rising), encode(rising)) == []
    assert not without(own, [1, 2]).numbers[:, [1, 2]].any()
