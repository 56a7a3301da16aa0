"""The search finds planted leaks from a domain alone, keeps its budget, and certifies on fresh
draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, NoisyCount, PureDP
from dpverify.audit import NotConsistent, Verdict, added
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import QueryMoves, moved, replaced
from dpverify.audit.neighbors.search import SearchResult
from dpverify.audit.neighbors.search import search as searched

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
VECTORS = Box(low=-10, high=10, columns=5)
FEW = 50_000
Vectorized = Callable[[Any, int], Any]


def search(subject: Any, **more: Any) -> SearchResult:
    """Search functions of a size, at 5% unless given."""
    return searched(subject, **{"vectorized": True, "alpha": 0.05, **more})


def _noisy(query: Callable[[Any], float], scale: float = 1.0, seed: int = 0) -> Vectorized:
    """Rounded to multiples of 2^-10: lower bits would be a leak of their own."""
    rng = np.random.default_rng(seed)

    def noisy(data: Any, size: int) -> Any:
        values = query(np.asarray(data)) + rng.laplace(scale=scale, size=size)
        return np.round(values * 1024) / 1024

    return noisy


def _sum(data: Any) -> float:
    return float(data.sum())


def _alternating(data: Any) -> float:
    """Return a sum that depends on the order: an insertion at the front turns all signs."""
    return float((data * (-1.0) ** np.arange(len(data))).sum())


def _second_moment(data: Any) -> float:
    return float((data**2).sum())


def _largest_of(seed: int) -> Vectorized:
    """Return the maximum of answers with exponential noise of mean 20: values between two maxima
    give it away."""
    rng = np.random.default_rng(seed)
    return lambda data, size: np.round(
        (np.asarray(data) + rng.exponential(20.0, (size, 5))).max(axis=1), 3
    )


def _tie(data: Any) -> float:
    """3 where the first two answers agree: seen only on a tie that breaks."""
    return 3.0 * float(data[0] == data[1])


CALLS = {"largest": 300_000}
LEAKS: list[tuple[str, Vectorized, PureDP, Any, Box, float]] = [
    ("order", _noisy(_alternating), PureDP(1), ADD, Box(low=0, high=1), 5.0),
    ("clip forgotten", _noisy(_sum), PureDP(1), ADD, Box(low=-1, high=6), 4.5),
    ("square", _noisy(_second_moment), PureDP(1), REPLACE, Box(low=-2, high=1), 3.0),
    ("tie", _noisy(_tie), PureDP("0.5"), QueryMoves(), VECTORS, 2.0),
    ("largest", _largest_of(0), PureDP("0.1"), QueryMoves(), VECTORS, 2.0),
]


@pytest.mark.parametrize(("name", "leak", "claim", "adjacency", "box", "least"), LEAKS)
def test_a_planted_leak_is_found(
    name: str, leak: Vectorized, claim: PureDP, adjacency: Any, box: Box, least: float
) -> None:
    calls = CALLS.get(name, FEW)
    report = search(
        leak, claim=claim, domain=box, adjacency=adjacency, calls=calls, alpha=1e-3, seed=1
    )
    assert report.result is not None
    assert report.result.verdict is Verdict.VIOLATED, name
    assert report.epsilon >= least
    assert report.calls <= calls


def test_a_sound_sum_is_not_flagged() -> None:
    """A false alarm has probability 1e-6."""
    box = Box(low=0, high=1)
    report = search(
        _noisy(_sum), claim=PureDP(1), domain=box, adjacency=ADD, calls=20_000, alpha=1e-6, seed=0
    )
    assert report.result is not None
    assert report.result.verdict is not Verdict.VIOLATED


def test_random_pairs_and_changes_find_what_no_template_has() -> None:
    """A first answer of exactly 0, which moves, beside a fourth above 4."""

    def hidden(data: Any) -> float:
        return 4.0 * float(data[0] == 0 and data[3] > 4)

    report = search(
        _noisy(hidden), claim=PureDP(1), domain=VECTORS, adjacency=QueryMoves(),
        calls=200_000, alpha=1e-3, seed=1,
    )  # fmt: skip
    assert report.epsilon >= 3.0
    assert "random" in report.best.name
    shown = [name for one in report.rounds for name, _ in one.best]
    assert any("changed" in name for name in shown)


def test_all_calls_count() -> None:
    asked = []

    def counted(data: Any, size: int) -> Any:
        asked.append(size)
        return np.zeros(size)

    report = search(
        counted, claim=PureDP(1), domain=VECTORS, adjacency=QueryMoves(), calls=20_000, seed=0
    )
    assert sum(asked) == report.calls <= 20_000
    assert report.calls > 19_000
    assert sum(one.calls for one in report.rounds) < 9000


def test_given_pairs_are_compared_cheaply() -> None:
    dull, telling = moved("dull", [0.0, 1.0], [0.0, 0.0]), moved("telling", [0.0, 0.0], [1.0, 0.0])
    report = search(
        _noisy(_sum, scale=0.2), claim=PureDP(1), pairs=[dull, telling], calls=20_000, seed=0
    )
    assert report.best is telling
    assert len(report.rounds) == 1
    assert report.rounds[0].calls < 0.07 * 20_000
    assert report.epsilon > 3.5
    alone = search(_noisy(_sum), claim=PureDP(1), pairs=[telling], calls=20_000, seed=0)
    assert (alone.rounds, alone.calls) == ((), 20_000)


def test_given_pairs_and_a_domain() -> None:
    given = replaced("the needle", [0.25], 0.75)
    report = search(
        _noisy(lambda data: 6.0 * float(data[0] == 0.25)), claim=PureDP(1), pairs=[given],
        domain=Box(low=0, high=1, rows=(1, 3)), calls=50_000, seed=0,
    )  # fmt: skip
    assert report.best.adjacency is REPLACE
    assert report.epsilon > 4


def test_our_mechanisms_are_searched_through_their_law() -> None:
    mechanism = NoisyCount.for_budget(PureDP(1), adjacency=ADD, within=(0.0, 10.0))
    first, again = (
        search(mechanism, domain=Box(), calls=30_000, alpha=1e-4, seed=3) for _ in range(2)
    )  # a false alarm has probability at most 1e-4
    assert first == again
    assert 0.5 < first.epsilon <= 1.0
    assert "certified  epsilon >=" in str(first)
    assert "left       [" in str(first)


def test_progress_and_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpverify.audit.progress._OFTEN", 0.0)  # at each call, however fast it is

    def run(**more: Any) -> SearchResult:
        return search(
            _largest_of(0), claim=PureDP("0.1"), domain=VECTORS, adjacency=QueryMoves(), calls=FEW,
            seed=0, **more,
        )  # fmt: skip

    whole = run()
    two = sum(one.calls for one in whole.rounds[:2])
    told: list[tuple[int, int]] = []

    def stops(done: int, most: int) -> None:
        told.append((done, most))
        if done > two + 1000:
            raise KeyboardInterrupt

    report = run(progress=stops)
    assert report.rounds == whole.rounds[: len(report.rounds)]
    assert 2 <= len(report.rounds) < len(whole.rounds)
    assert told == sorted(told)
    assert {most for _, most in told} == {FEW}
    assert (report.result, report.epsilon, report.delta) == (None, 0.0, 0.0)
    assert report.best.name == report.rounds[-1].best[0][0]
    assert "interrupted: nothing was certified" in str(report)
    assert "interrupted" in repr(report)
    with pytest.raises(NotConsistent, match="nothing was certified"):
        report.require_consistent()


def test_pairs_on_which_the_subject_fails_are_passed_over() -> None:
    def needs_two(data: Any, size: int) -> Any:
        if len(data) < 2:
            raise ZeroDivisionError("too few")
        return np.full(size, float(max(data) > 4))

    box = Box(low=0, high=5, rows=(0, 6))
    report = search(needs_two, claim=PureDP(1), domain=box, adjacency=ADD, calls=20_000, seed=0)
    assert report.rounds[0].failed
    assert report.epsilon > 4

    def never(data: Any, size: int) -> Any:
        raise ZeroDivisionError("always")

    with pytest.raises(ValueError, match=r"raised ZeroDivisionError \(always\)"):
        search(never, claim=PureDP(1), domain=box, adjacency=ADD, calls=20_000, seed=0)


def _never_called(data: Any, size: int) -> Any:
    raise AssertionError("drawn before the refusal")


PAIR = added("one enters", [0.0], 1.0)
BAD_CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"domain": None}, ValueError, "nothing to search"),
    ({"adjacency": None}, TypeError, "adjacency is missing"),
    ({"calls": 100}, ValueError, "at least 10000"),
    ({"calls": 1e6}, TypeError, "give an integer"),
    ({"alpha": 1.0}, ValueError, "outside"),
    ({"claim": None}, TypeError, "say what is claimed"),
    ({"claim": PureDP(12)}, ValueError, "by no event whatever; give at least"),
    ({"pairs": [PAIR] * 100, "domain": None}, ValueError, "for 100 pairs can refute"),
    ({"adjacency": QueryMoves()}, ValueError, "needs bounds"),
    ({"pairs": [PAIR], "adjacency": REPLACE}, ValueError, "one at a time"),
    ({"domain": Box(rows=(1, 1))}, ValueError, "allow more rows"),
    ({"seed": 0.5}, TypeError, "give an integer"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_CALLS)
def test_bad_calls_are_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"claim": PureDP(1), "domain": Box(), "adjacency": ADD, "calls": 20_000, **change}
    with pytest.raises(error, match=message):
        search(_never_called, **arguments)
