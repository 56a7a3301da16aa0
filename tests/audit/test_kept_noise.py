"""Noise that is kept in one number of an output, beside others that change or under noise."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import PureDP
from dpverify.audit import InvalidRun, Verdict, added, attack, audit, kept_noise, sequential
from dpverify.audit.independence import Watch
from dpverify.audit.outputs.draws import Draws, together
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.outputs.laws import CallableDraws, both_drawn

PAIRS = [added("a row enters", [0.0], 1.0)]
RENEWED = 100
Function = Callable[[Any], Any]
Shape = Callable[[float, int], Any]


def keeping(
    seed: int, share: float, shape: Shape, *, fresh: float = 0.0, together: bool = False
) -> Function:
    """Return a sum with Laplace noise that is drawn anew with this probability, one for each size
    of data unless ``together``, and normal noise of scale ``fresh``."""
    rng, calls, noise = np.random.default_rng(seed), itertools.count(), dict[int, float]()

    def answer(data: Any) -> Any:
        key = 0 if together else len(data)
        if key not in noise or rng.random() < share:
            noise[key] = rng.laplace()
        return shape(round(sum(data) + noise[key] + fresh * rng.normal(), 4), next(calls))

    return answer


def alone(value: float, call: int) -> Any:
    return value


def beside_a_clock(value: float, call: int) -> Any:
    return value, time.time()


def numbered(value: float, call: int) -> Any:
    return {"answer": value, "number": call}


def as_text(value: float, call: int) -> Any:
    return str(value), call


KEPT: dict[str, tuple[Callable[[int], Function], bool, int]] = {
    "beside a clock": (lambda k: keeping(k, 0.01, beside_a_clock), True, 0),
    "for long, beside a clock": (lambda k: keeping(k, 0.001, beside_a_clock), False, 5),
    "beside a number": (lambda k: keeping(k, 0.01, numbered), True, 0),
    "in a text": (lambda k: keeping(k, 0.01, as_text), True, 0),
    "under little noise": (lambda k: keeping(k, 0.01, alone, fresh=0.01), True, 0),
    "under much noise": (lambda k: keeping(k, 0.01, alone, fresh=0.3), True, 0),
    "on both sides": (
        lambda k: keeping(k, 0.005, beside_a_clock, fresh=0.05, together=True), True, 0
    ),
    "for long, under noise": (lambda k: keeping(k, 0.001, alone, fresh=0.1), False, 0),
}  # fmt: skip


def _audited(function: Function, by_bets: bool, claim: float = 1) -> Any:
    return audit(
        function, claim=PureDP(claim), pairs=PAIRS, trials=20_000, seed=0, sequential=by_bets
    )


@pytest.mark.parametrize("name", KEPT)
def test_kept_noise_is_no_leak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without these tests each of them is called VIOLATED."""
    make, by_bets, seed = KEPT[name]
    with pytest.raises(InvalidRun, match=r"shares noise between outputs.*fresh=make"):
        _audited(make(seed), by_bets)
    monkeypatch.setattr(attack, "refuse_kept", lambda watch: None)
    monkeypatch.setattr(sequential, "refuse_kept", lambda watch: None)
    monkeypatch.setattr(sequential, "_wanted", lambda watch, most: 0)
    assert _audited(make(seed), by_bets).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("by_bets", [False, True])
def test_what_never_changes_is_called_a_leak_with_a_remark(by_bets: bool) -> None:
    """Noise that is drawn once looks like an exact count, whatever stands beside it."""
    rng = np.random.default_rng(0)
    for function in (
        keeping(0, 0.0, beside_a_clock),
        lambda data: (len(data), round(sum(data) + rng.laplace(), 4)),
    ):
        result = audit(
            function, claim=PureDP(1), pairs=PAIRS, trials=5000, seed=0, sequential=by_bets
        )
        assert result.verdict is Verdict.VIOLATED
        (remark,) = result.remarks
        assert remark.startswith("number 0 of the output")
        assert "never changed between calls, on either side" in remark
        assert "fresh=make" in remark


def _without_memory(data: Any) -> Any:
    return len(data), float(np.random.normal())  # noqa: NPY002


def test_no_remark_where_the_function_remembers_nothing() -> None:
    result = audit(_without_memory, claim=PureDP(1), pairs=PAIRS, trials=3000, seed=0)
    assert result.verdict is Verdict.VIOLATED
    assert result.remarks == ()


def test_noise_kept_for_very_long_is_remarked_upon() -> None:
    """Three values a side prove nothing, but the number changes with the calls."""
    calls, rng = itertools.count(), np.random.default_rng(0)

    def answer(data: Any) -> float:
        return float(round(sum(data) + 0.3 * (next(calls) // 4000) + 0.2 * rng.normal(), 4))

    result = _audited(answer, by_bets=False)
    assert result.verdict is Verdict.VIOLATED
    (remark,) = result.remarks
    assert remark.startswith("number 0 of the output changes with the calls")
    assert "fresh=make" in remark


def test_bets_wait_for_a_thousand_outputs_where_noise_may_be_kept() -> None:
    """A plain leak is refuted by few calls; that noise is not kept takes more."""
    rng = np.random.default_rng(0)

    def plain(data: Any) -> float:
        return float(sum(data) + rng.laplace(scale=0.1))

    waits = _audited(plain, by_bets=True)
    stands = audit(
        fresh=lambda: plain, claim=PureDP(1), pairs=PAIRS, trials=20_000, seed=0, sequential=True
    )
    assert waits.verdict is stands.verdict is Verdict.VIOLATED
    assert stands.draws < 1000
    assert waits.draws >= 2000


@pytest.mark.parametrize("by_bets", [False, True])
@pytest.mark.parametrize(
    "public",
    [
        lambda call, rng: 10 * (call // 500 % 2),
        lambda call, rng: (call % 50, 7, bool(rng.random() < 0.002)),
        lambda call, rng: 3 * math.sin(call / 160),
    ],
)
def test_a_leak_beside_what_is_public_stays_one(
    public: Callable[[int, Any], Any], by_bets: bool
) -> None:
    """Whatever drifts beside it, for both sides alike."""
    rng, calls = np.random.default_rng(0), itertools.count()
    result = audit(
        lambda data: (sum(data) + rng.laplace(scale=0.3), public(next(calls), rng)),
        claim=PureDP(1), pairs=PAIRS, trials=6000, seed=0, sequential=by_bets,
    )  # fmt: skip
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("center", [lambda t: t / 2000, lambda t: t % 1000 // 500, math.sqrt])
def test_private_functions_that_drift_are_never_refused(center: Callable[[int], float]) -> None:
    rng, calls = np.random.default_rng(0), itertools.count()
    for by_bets in (False, True):
        result = audit(
            lambda data: round(sum(data) + rng.laplace() + center(next(calls)), 3),
            claim=PureDP(1), pairs=PAIRS, trials=6000, seed=0, sequential=by_bets,
        )  # fmt: skip
        assert result.verdict is Verdict.POWERLESS


# --- the tests themselves -----------------------------------------------------------------------


def _watched(outputs: Callable[[int, int], Any], size: int = 20_000) -> Watch:
    """Return a watch over these calls. outputs: of a side and a number of the call."""
    calls = itertools.count()
    left, right = (
        CallableDraws(lambda data: outputs(len(data), next(calls)), [0.0] * side) for side in (0, 1)
    )
    watch = Watch((left, right))
    watch.take(both_drawn((left, right), [(0,), (1,)], size // 2))
    return watch


@pytest.mark.parametrize(
    "leak",
    [
        lambda side, rng: side + rng.laplace(scale=0.2),
        lambda side, rng: int(rng.random() < 0.9 + 0.09 * side),
        lambda side, rng: int(rng.choice(3, p=((0.5, 0, 0.5), (0.4, 0.4, 0.2))[side])),
        lambda side, rng: rng.normal(scale=1 + side),
        lambda side, rng: sorted([side, rng.normal(), rng.normal()]),
    ],
)
def test_leaks_of_independent_calls_pass(leak: Callable[[int, Any], Any]) -> None:
    """Each test has a false alarm of probability 1e-12 at most, whatever the two laws are."""
    rng = np.random.default_rng(3)
    watch = _watched(lambda side, call: leak(side, rng))
    kept_noise.refuse_kept(watch)
    assert kept_noise.drifting(watch) is None
    assert kept_noise.doubts(watch, "pair") == [] or isinstance(leak(0, rng), list)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_blocks_of_coins_by_enumeration(length: int) -> None:
    """Exact. Of all results of fair coins in three blocks, those that the sum rejects at a level
    have at most this probability."""
    counts = np.array(list(itertools.product(range(length + 1), repeat=3)))
    chances = [
        math.prod(math.comb(length, int(k)) for k in row) / 2 ** (3 * length) for row in counts
    ]
    bounds = np.array([kept_noise._log_fisher(row, length) for row in counts])
    for level in (0.5, 0.1, 0.01):
        rejected = sum(p for p, b in zip(chances, bounds, strict=True) if b <= math.log(level))
        assert rejected <= level * (1 + 1e-9)
    assert bounds.min() < 0


def test_reversals_are_exact_under_any_drift_that_both_sides_share() -> None:
    """A leak of 1 around a center that jumps far, walks or rises passes; noise of each side's own
    does not."""
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(scale=0.1, size=20_000))
    own = rng.laplace(size=(2, 20))
    centers: list[Callable[[int, int], float]] = [
        lambda side, call: 10.0 * (call // 300 % 2),
        lambda side, call: float(walk[call]),
        lambda side, call: call / 100,
    ]
    for center in centers:

        def around(side: int, call: int, at: Callable[[int, int], float] = center) -> float:
            return float(side + at(side, call) + rng.normal())

        watch = _watched(around)
        (column, *_) = kept_noise._columns(watch)
        assert kept_noise._log_reversal(column) > math.log(1e-6)
    watch = _watched(lambda side, call: side + float(own[side, call // 1000]) + rng.normal())
    with pytest.raises(InvalidRun, match="larger on the left for some calls"):
        kept_noise.refuse_kept(watch)


def test_turns_order_the_outputs_of_both_sides() -> None:
    watch = _watched(lambda side, call: call, 1000)
    left, right = (together(side) for side in watch.seen)
    both = together([left, right])
    assert both.turns is not None
    assert both.numbers[np.argsort(both.turns), 0].tolist() == list(range(len(both)))
    assert both.select(slice(3)).turns is not None
    assert together([both, encode([1.0])]).turns is None
    assert Draws(both.coded, both.numbers).turns is None
