"""A sequential audit that goes on after the refutation, and how long audits say they take."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from dpverify import NoisyCount, PureDP
from dpverify.audit import AuditResult, Box, Verdict, added, audit, progress, search, witness_of
from dpverify.audit.progress import Meter, in_words, shown
from dpverify.privacy import Adjacency, GaussianDP, Guarantee
from spec.theory.check_witness import check

PAIR = added("one enters", [0.0, 0.0], 1.0)


def noisy(seed: int, kind: str = "laplace", scale: float = 0.5) -> Callable[[Any, int], Any]:
    """2-DP, or 2-Gaussian DP: in whole numbers of 2^-10."""
    rng = np.random.default_rng(seed)
    return lambda data, size: np.round(
        (sum(data) + getattr(rng, kind)(scale=scale, size=size)) * 1024
    )


def went(
    function: Callable[[Any, int], Any], claim: Guarantee, seed: int, *, go_on: bool
) -> AuditResult:
    return audit(
        function, claim=claim, pairs=[PAIR], trials=4000, seed=seed, vectorized=True,
        sequential=True, go_on=go_on,
    )  # fmt: skip


CLAIMS = {"laplace": PureDP(1), "normal": GaussianDP("0.5")}


@cache
def gone_on(kind: str) -> AuditResult:
    """Return what is said of twice the loss that is claimed, or more."""
    return went(noisy(1, kind), CLAIMS[kind], 0, go_on=True)


def test_it_goes_on_to_say_how_bad_it_is() -> None:
    """Go on at alpha = 1e-6: the bound exceeds the truth, 2, with that probability at most, at
    any time."""
    stopped, gone = went(noisy(1), PureDP(1), 0, go_on=False), gone_on("laplace")
    assert stopped.verdict is gone.verdict is Verdict.VIOLATED
    assert stopped.draws < 2000
    assert 8000 <= gone.draws < 12_000
    assert stopped.epsilon < 1.2
    assert stopped.epsilon + 0.3 < gone.epsilon <= 2.0


def test_bets_stop_at_the_refutation_so_there_is_a_witness() -> None:
    for kind in CLAIMS:
        gone = gone_on(kind)
        assert gone.verdict is Verdict.VIOLATED
        assert "bets won" in check(witness_of(gone))[-2]


def test_a_gaussian_bound_rises_as_well() -> None:
    assert 0.6 < gone_on("normal").mu <= 2.0


def test_a_sound_function_is_not_refuted_by_going_on() -> None:
    gone = went(noisy(4, scale=1.0), PureDP(1), 0, go_on=True)
    assert gone.verdict is Verdict.POWERLESS
    assert gone.epsilon <= 1.0


def test_going_on_is_for_sequential_audits() -> None:
    with pytest.raises(ValueError, match="go_on=True is for sequential=True"):
        audit(noisy(0), claim=PureDP(1), pairs=[PAIR], vectorized=True, go_on=True)


# --- how long it takes -----------------------------------------------------------------------


class Clock:
    """A clock that calls move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "perf_counter", made)
    return made


def slow(clock: Clock, seconds: float) -> Callable[[Any], float]:
    rng = np.random.default_rng(0)

    def slow_sum(data: Any) -> float:
        clock.now += seconds
        return round(float(sum(data)) + rng.laplace(), 2)

    return slow_sum


def timed(clock: Clock, seconds: float, **more: Any) -> AuditResult:
    return audit(
        slow(clock, seconds), claim=PureDP(1), pairs=[PAIR], trials=300, seed=0, alpha=0.05, **more
    )


def test_a_long_run_says_how_long_before_it_is_over(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    timed(clock, 0.5, progress=True)
    said = capsys.readouterr()
    assert "slow_sum: 500 ms a call, so 600 calls take about 5 min" in said.err
    assert "sequential=True stops as soon as the claim is refuted" in said.err
    assert said.out == ""


def test_a_sequential_run_says_how_to_end_it(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    timed(clock, 0.5, progress=True, sequential=True)
    assert "seconds= ends it earlier" in capsys.readouterr().err


def test_a_short_run_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    timed(clock, 0.01, progress=True)  # six seconds
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("told", [None, False])
def test_it_is_silent_where_there_is_no_terminal(
    clock: Clock, capsys: pytest.CaptureFixture[str], told: bool | None
) -> None:
    timed(clock, 0.5, progress=told)
    assert capsys.readouterr() == ("", "")


def test_a_function_is_told_of_every_phase() -> None:
    told: list[tuple[int, int]] = []
    result = audit(
        noisy(0, scale=1.0), claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0, vectorized=True,
        alpha=0.01, faults=[noisy(1, scale=0.01)],
        progress=lambda done, most: told.append((done, most)),
    )  # fmt: skip
    assert result.verdict is Verdict.CONSISTENT
    assert {most for _, most in told} > {2000}  # of the subject, and of the fault at most
    assert all(0 < done <= most for done, most in told)


def test_draws_of_a_mechanism_are_told_of_like_calls() -> None:
    def run(**more: Any) -> AuditResult:
        mechanism = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
        return audit(mechanism, pairs=[PAIR], trials=2000, seed=0, **more)

    told: list[tuple[int, int]] = []
    assert run() == run(progress=lambda done, most: told.append((done, most)))
    assert {most for _, most in told} > {
        4000
    }  # of the mechanism, and of each planted fault at most
    assert all(0 < done <= most for done, most in told)


class _Broke(Exception): ...


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("vectorized", [False, True])
def test_an_exception_of_a_progress_function_ends_the_audit(vectorized: bool, fails: bool) -> None:
    """It is no outcome of the audited function, which may fail as well."""
    calls = []

    def broken(done: int, most: int) -> None:
        raise _Broke("bar")

    def subject(*given: Any) -> Any:
        calls.append(given)
        if fails:
            raise RuntimeError("fails")
        return np.zeros(given[1]) if vectorized else 0.0

    with pytest.raises(_Broke, match="bar"):
        audit(
            subject, claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0, vectorized=vectorized,
            progress=broken,
        )  # fmt: skip
    assert len(calls) == 1


def test_nothing_changes_by_being_counted() -> None:
    def run(**more: Any) -> AuditResult:
        return audit(
            noisy(0), claim=PureDP(1), pairs=[PAIR], trials=1000, seed=0, vectorized=True, **more
        )

    assert run() == run(progress=lambda done, most: None)


def test_a_search_tells_its_calls() -> None:
    told: list[tuple[int, int]] = []
    report = search(
        noisy(0), claim=PureDP(1), domain=Box(low=0, high=1), adjacency=Adjacency.ADD_REMOVE,
        calls=10_000, seed=0, vectorized=True,
        progress=lambda done, most: told.append((done, most)),
    )  # fmt: skip
    assert told[-1] == (report.calls, 10_000)


def test_what_is_no_progress_is_refused() -> None:
    given: Any = "yes"
    said = "write True, False, None, or a function"
    with pytest.raises(TypeError, match=said), shown(given, "what", 1):
        pass


def test_exceptions_are_counted_and_passed_on(clock: Clock) -> None:
    told: list[int] = []
    meter = Meter(lambda what, done, most, seconds: told.append(done))

    def fails(data: Any) -> None:
        clock.now += 1
        raise KeyError("no")

    counted = meter.counted(fails)
    assert counted.__name__ == "fails"
    for _ in range(3):
        with pytest.raises(KeyError):
            counted([])
    assert told == [1, 2, 3]
    assert Meter().counted(fails) is fails


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2e-6, "2 us"), (0.0321, "32.1 ms"), (45, "45 s"), (600, "10 min"), (12_600, "3.5 h")],
)
def test_times_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_what_is_made_anew_for_each_call_stays_so_when_it_is_counted() -> None:
    made: list[int] = []

    def make() -> Callable[[Any], float]:
        made.append(1)
        rng = np.random.default_rng()
        return lambda data: round(float(sum(data)) + rng.laplace(), 2)

    told: list[int] = []
    result = audit(
        fresh=make, claim=PureDP(1), pairs=[PAIR], trials=300, seed=0, alpha=0.05,
        progress=lambda done, most: told.append(done),
    )  # fmt: skip
    assert len(made) == result.draws == 600
    assert told[-1] == 600


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_shown_on_a_terminal_without_being_asked_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=screen, force_terminal=terminal, width=80)
    )
    timed(clock, 0.5)
    assert ("calls take about 5 min" in screen.getvalue()) == terminal
    timed(clock, 0.5, progress=False)
    assert screen.getvalue().count("calls take about") == int(terminal)
