"""Searches of functions that keep their noise, and of naive float libraries whose last bits
drown a leak.

Every search has a false-alarm probability of 1e-6; seeds are fixed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import Adjacency, PureDP
from dpverify.audit import InvalidRun, Verdict
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import added
from dpverify.audit.neighbors.search import SearchResult, search
from dpverify.privacy import Guarantee

ADD = Adjacency.ADD_REMOVE
DULL, TELLING = added("in bounds", [0.5, 0.25], 0.5), added("beyond", [0.5, 0.25], 3.0)


def _memoized(seeds: Any) -> Callable[[Any], float]:
    """Return a count with noise of scale 1 on a grid, drawn when the function is made."""
    noise = float(np.rint(np.random.default_rng(next(seeds)).laplace() * 1024) / 1024)
    return lambda data: len(data) + noise


def _of_factory(claim: Guarantee, **more: Any) -> SearchResult:
    seeds = itertools.count()
    return search(
        fresh=lambda: _memoized(seeds), claim=claim, domain=Box(rows=(0, 4)), adjacency=ADD,
        calls=20_000, seed=0, **more,
    )  # fmt: skip


def test_what_looks_memoized_is_private_where_each_call_has_a_function_of_its_own() -> None:
    function = _memoized(itertools.count())
    with pytest.raises(InvalidRun, match="noise"):
        search(function, claim=PureDP(1), domain=Box(), adjacency=ADD, calls=20_000, seed=0)
    report = _of_factory(PureDP(1))
    assert report.result is not None
    assert report.result.verdict is not Verdict.VIOLATED
    assert 0.5 < report.epsilon <= 1


def test_a_factory_whose_functions_leak_is_refuted() -> None:
    told: list[int] = []
    report = _of_factory(PureDP("0.3"), progress=lambda done, _: told.append(done))
    assert report.result is not None
    assert report.result.verdict is Verdict.VIOLATED
    assert report.calls <= 20_000
    assert told[-1] == report.calls


def test_a_factory_has_no_subject_beside_it() -> None:
    function = _memoized(itertools.count())
    for wrong in (
        {"subject": function, "fresh": lambda: function},
        {"vectorized": True},
        {"fresh": 3},
    ):
        given: dict[str, Any] = {"fresh": lambda: function, **wrong}
        with pytest.raises(TypeError, match="factory"):
            search(claim=PureDP(1), pairs=[DULL], **given)
    with pytest.raises(TypeError, match="nothing to audit"):
        search(claim=PureDP(1), pairs=[DULL])


def _naive(seed: int, clipped: bool) -> Callable[[Any, int], Any]:
    """Return a sum with numpy's Laplace noise of scale 1: its floats tell the sum, whatever the
    noise."""
    rng = np.random.default_rng(seed)

    def library(data: Any, size: int) -> Any:
        values = np.asarray(data, dtype=np.float64)
        total = float(np.clip(values, 0, 1).sum() if clipped else values.sum())
        return total + rng.laplace(size=size)

    return library


def _found(clipped: bool, **more: Any) -> SearchResult:
    return search(
        _naive(3, clipped), claim=PureDP(1), pairs=[DULL, TELLING], calls=60_000, seed=2,
        vectorized=True, **more,
    )  # fmt: skip


def test_bits_drown_a_forgotten_clip_which_rounding_shows() -> None:
    """Search with and without rounding: the bound by bits is more than the noise gives away on
    any pair; rounded, the record beyond the bounds is found, and what its 3 standard scales give
    away."""
    bare, rounded = _found(False), _found(False, rounded=1e-9)
    assert bare.result is not None
    assert rounded.result is not None
    assert bare.result.verdict is rounded.result.verdict is Verdict.VIOLATED
    assert bare.epsilon > 3.5
    assert rounded.best is TELLING
    assert 2 < rounded.epsilon <= 3
    assert "no event is about their last bits" in str(rounded)


def test_a_clip_that_is_not_forgotten_leaves_the_bits_alone() -> None:
    assert _found(True).epsilon > 3
    report = _found(True, rounded=1e-9)
    assert report.result is not None
    assert report.result.verdict is not Verdict.VIOLATED
    assert 0.4 < report.epsilon <= 1
    assert "their last bits leak too" in str(report)


def test_looking_at_bits_counts_as_calls() -> None:
    for calls in (30_000, 100_000):
        asked: list[int] = []
        library = _naive(1, True)

        def counted(data: Any, size: int, asked: Any = asked, library: Any = library) -> Any:
            asked.append(size)
            return library(data, size)

        report = search(
            counted, claim=PureDP(1), pairs=[DULL], calls=calls, seed=0, vectorized=True,
            rounded=1e-9,
        )  # fmt: skip
        assert sum(asked) == report.calls
        assert 0.99 * calls < report.calls <= calls


def test_too_few_calls_to_look_at_bits_as_well_are_refused() -> None:
    """Half of the calls may go to bits: what is enough without is refused, before anything is
    drawn."""
    calls = 12_000

    def never(data: Any, size: int) -> Any:
        raise AssertionError("drawn before the refusal")

    given: dict[str, Any] = {"pairs": [DULL], "vectorized": True, "seed": 0}
    claim = PureDP("4.9")
    with pytest.raises(ValueError, match="by no event whatever; give at least"):
        search(never, claim=claim, calls=calls, rounded=1e-9, **given)
    assert search(_naive(0, True), claim=claim, calls=calls, **given).result is not None
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="a step above 0"):
            search(never, claim=claim, rounded=wrong, **given)
