"""Noise that calls share: every call is private, all of them together say nothing, and this is
said."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import PureDP
from dpverify.audit import InvalidRun, Verdict, added, audit
from dpverify.audit.independence import EventWatch, Score, Watch, log_chance_of_runs
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.outputs.laws import CallableDraws

PAIRS = [added("a row enters", [0.0] * 3, 0.0)]
GRID = 2.0**16
Function = Callable[[Any], Any]


def _noise(rng: np.random.Generator) -> float:
    return float(np.rint(rng.laplace() * GRID) / GRID)


def memoized(seed: int) -> Function:
    noise = _noise(np.random.default_rng(seed))
    return lambda data: len(data) + noise


def kept(seed: int) -> Function:
    """Drawn anew with probability 1%."""
    rng, noise = np.random.default_rng(seed), [0.0]

    def answer(data: Any) -> float:
        if rng.random() < 0.01 or not noise[0]:
            noise[0] = _noise(rng)
        return len(data) + noise[0]

    return answer


def refreshed(seed: int, every: int = 20) -> Function:
    rng, calls, noise = np.random.default_rng(seed), itertools.count(), [0.0]

    def answer(data: Any) -> float:
        if next(calls) % every == 0:
            noise[0] = _noise(rng)
        return len(data) + noise[0]

    return answer


def numbered(seed: int) -> Function:
    """Return the same beside a serial number, so that no two outputs are equal."""
    answer, calls = refreshed(seed), itertools.count()
    return lambda data: (answer(data), next(calls))


def answered(seed: int) -> Function:
    """Randomized response whose coin is thrown for 20 calls at a time."""
    rng, calls, coin = np.random.default_rng(seed), itertools.count(), [False]

    def answer(data: Any) -> int:
        if next(calls) % 20 == 0:
            coin[0] = bool(rng.random() < math.e / (1 + math.e))
        return int(coin[0] == (len(data) > 3))

    return answer


SHARED = [memoized, kept, refreshed, numbered, answered]


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("make", SHARED)
def test_shared_noise_is_no_leak(make: Callable[[int], Function], sequential: bool) -> None:
    """Each was called VIOLATED at alpha = 1e-6."""
    with pytest.raises(InvalidRun, match="noise"):
        audit(
            make(0), claim=PureDP(1), pairs=PAIRS, trials=1500 if sequential else 6000, seed=0,
            sequential=sequential,
        )  # fmt: skip


def test_noise_refreshed_every_thousand_calls() -> None:
    with pytest.raises(InvalidRun, match="come in runs"):
        audit(refreshed(0, 1000), claim=PureDP(1), pairs=PAIRS, trials=6000, seed=0)


def test_batches_whose_neighbors_share_noise() -> None:
    rng = np.random.default_rng(0)

    def shares(data: Any, size: int) -> Any:
        noise = np.rint(rng.laplace(size=-(-size // 20)) * GRID) / GRID
        return len(data) + np.repeat(noise, 20)[:size]

    with pytest.raises(InvalidRun, match="shares shares noise"):
        audit(shares, claim=PureDP(1), pairs=PAIRS, trials=6000, seed=0, vectorized=True)


def test_a_factory_gives_each_call_noise_of_its_own() -> None:
    """Audit through a factory: what looked memoized is private (claim 1), or is not (claim 1/2)."""
    seeds = itertools.count()
    for claim, verdict in ((1, Verdict.POWERLESS), ("1/2", Verdict.VIOLATED)):
        result = audit(
            fresh=lambda: memoized(next(seeds)),
            claim=PureDP(claim),
            pairs=PAIRS,
            trials=6000,
            seed=0,
        )
        assert result.verdict is verdict


def test_a_function_without_noise_is_refuted_where_it_surely_remembers_nothing() -> None:
    offset = 3.0
    with pytest.raises(InvalidRun, match="on the left of the pair 'a row enters' gave float 7"):
        audit(lambda data: len(data) + offset, claim=PureDP(1), pairs=PAIRS, trials=1000, seed=0)
    for result in (
        audit(lambda data: len(data) + 3.0, claim=PureDP(1), pairs=PAIRS, trials=1000, seed=0),
        audit(
            fresh=lambda: lambda data: len(data) + offset,
            claim=PureDP(1), pairs=PAIRS, trials=1000, seed=0,
        ),
    ):  # fmt: skip
        assert result.verdict is Verdict.VIOLATED


def test_a_planted_fault_may_draw_no_noise_at_all() -> None:
    rng, offset = np.random.default_rng(0), 3.0
    result = audit(
        lambda data: len(data) + _noise(rng), faults=[lambda data: len(data) + offset],
        claim=PureDP(1), pairs=PAIRS, trials=3000, seed=0,
    )  # fmt: skip
    assert result.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(
    "given",
    [
        {"subject": len, "fresh": lambda: len},
        {"fresh": lambda: len, "vectorized": True},
        {"fresh": 3},
        {},
    ],
)
def test_a_factory_stands_instead_of_a_subject(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="fresh"):
        audit(claim=PureDP(1), pairs=PAIRS, trials=1000, seed=0, **given)


# --- the tests themselves -----------------------------------------------------------------------


def _watch(values: Any) -> Watch:
    law = CallableDraws(len, [])
    watch = Watch((law, law))
    draws = encode(np.asarray(values, dtype=float))
    watch.take([draws, draws.select(slice(0))])
    return watch


@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.75, 0.25), (0.98, 0.02), (0.3, 0.3, 0.4)])
def test_independent_outputs_pass_whatever_their_law(masses: tuple[float, ...]) -> None:
    """False alarms have probability 1e-12 each; the laws drift every 300 outputs of a side, too."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = rng.choice(len(masses), p=masses, size=7200)
        _watch(values).require_fresh()
        if max(masses) < 0.9:
            _watch(values + np.arange(7200) // 300).require_fresh()


def test_a_clock_and_a_counter_are_not_looked_at() -> None:
    rng = np.random.default_rng(0)
    clock = np.arange(7200) // 30
    _watch(np.stack([rng.normal(size=7200), clock], axis=1)).require_fresh()
    with pytest.raises(InvalidRun, match="number 1 of the output"):
        _watch(np.stack([rng.normal(size=7200), clock % 50], axis=1)).require_fresh()


def test_equal_neighbors_are_independent_of_each_other() -> None:
    """Exact: of independent outputs P(x = y, x != z) = sum p^2 (1 - p) <= 1/4, with equality for
    a fair coin."""
    for p in np.linspace(0, 1, 101):
        assert p**2 * (1 - p) + (1 - p) ** 2 * p <= 0.25
    assert Score(0.25, 40, 100).is_chance
    assert not Score(0.25, 90, 100).is_chance
    assert Score(0.25).is_chance


def test_few_runs_are_unlikely_only_where_values_stay() -> None:
    """40 equal values, then 40 others: 2 of 80! / (40! 40!) orders have two runs; the bound
    counts 160 of them."""
    orders = math.comb(80, 40)
    assert log_chance_of_runs(np.repeat([0, 1], 40)) == pytest.approx(math.log(160 / orders))
    assert log_chance_of_runs(np.arange(50)) == log_chance_of_runs(np.zeros(50)) == 0.0


def test_few_runs_against_all_orders() -> None:
    """The bound's sum counts at least the orders of small multisets that have so few runs: by
    enumeration."""
    for values in ((0, 0, 0, 1, 1), (0, 0, 1, 1, 2), (0, 0, 0, 0, 1, 2)):
        orders = set(itertools.permutations(values))
        n, m = len(values), len(set(values))
        for most in range(m, n + 1):
            few = sum(1 + np.count_nonzero(np.diff(order)) <= most for order in orders)
            counted = sum(
                math.comb(n - 1, j - 1) * m * (m - 1) ** (j - 1) for j in range(1, most + 1)
            )
            assert few <= counted


def test_an_event_in_runs_is_seen_whatever_else_is_in_the_output() -> None:
    rng = np.random.default_rng(0)
    law = CallableDraws(len, [])
    for runs, shared in ((1, False), (10, True)):
        watch = EventWatch((law, law), "an event")
        happened = np.repeat(rng.random(20_000 // runs) < 0.1, runs)
        watch.take([happened, np.zeros(20_000, dtype=np.bool_)])
        if shared:
            with pytest.raises(InvalidRun, match="an event comes in runs"):
                watch.require_fresh()
        else:
            watch.require_fresh()
