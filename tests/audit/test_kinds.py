"""Differences of kind: exceptions, types and shapes on one side; rounding that looks beyond
floats' last bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import NoisyCount, PureDP
from dpverify.audit import AuditResult, Verdict, added, audit, moved
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.outputs.rounding import rounded
from dpverify.audit.witnesses.events import is_about_kinds
from dpverify.privacy import Adjacency

PAIRS = [added("a row enters", [0.0] * 3, 0.0)]
HINT = "if this comes from your wrapper"


def _audited(function: Callable[[Any], Any], trials: int = 5000, **more: Any) -> AuditResult:
    return audit(function, claim=PureDP(1), pairs=PAIRS, trials=trials, seed=1, **more)


def _noise(seed: int) -> Callable[[], float]:
    rng = np.random.default_rng(seed)
    return lambda: round(float(rng.laplace()), 3)


def _raises(noise: float, there: bool) -> Any:
    if there:
        raise KeyError("x")
    return noise


KINDS: list[tuple[Callable[[float, bool], Any], str]] = [
    (_raises, "the call raises KeyError"),
    (lambda noise, there: np.float32(noise) if there else noise, "kind of output is float32"),
    (lambda noise, there: [noise] * (3 if there else 2), "kind of output is [float x "),
    (lambda noise, there: None if there else noise, "kind of output is None"),
    (
        lambda noise, there: np.full((2, 3), noise, order="F" if there else "C"),
        "float64 array (2, 3) in Fortran order",
    ),
]


def test_texts_of_a_log_ratio_are_named_where_they_tell() -> None:
    noise = _noise(0)

    def message(data: Any) -> Any:
        if noise() > 0:
            raise ValueError(f"{len(data)} records {{}}")
        return noise()

    result = _audited(message)
    assert "(exception ValueError: 4 records {} against exception ValueError: 3 records {}) >=" in (
        result.strongest.event
    )
    assert HINT in str(result)


@pytest.mark.parametrize(("make", "event"), KINDS)
def test_a_kind_on_one_side_is_named_before_what_tells_no_more(
    make: Callable[[float, bool], Any], event: str
) -> None:
    noise = _noise(0)
    result = _audited(lambda data: make(noise(), len(data) > 3), 2000)
    assert result.verdict is Verdict.VIOLATED
    assert event in result.strongest.event
    assert HINT in str(result)


def test_values_are_no_kinds() -> None:
    """Treat True and False as values, too; give no hint where nothing is refuted."""
    noise = _noise(0)
    result = _audited(lambda data: len(data) + noise() / 5 > 3.5)
    assert result.verdict is Verdict.VIOLATED
    assert HINT not in str(result)
    assert HINT not in str(_audited(lambda data: noise() if noise() > 0 else None))
    for text, about in (
        ("the call raises KeyError", True),
        ("left where number 0 >= 1, right where not (kind of output is float)", True),
        ("output is 'the call raises KeyError'", False),
    ):
        assert is_about_kinds(text) is about


def test_the_exceptions_before_an_exception_are_seen() -> None:
    """A traceback shows them; the messages of the last one are equal."""

    def fails(data: Any) -> float:
        try:
            raise ValueError(f"{len(data)} rows")
        except ValueError as error:
            raise RuntimeError("failed") from error

    result = _audited(fails)
    assert result.verdict is Verdict.VIOLATED
    assert "exception RuntimeError: failed (after ValueError: " in str(result)
    noted = RuntimeError("failed")
    noted.add_note("3 rows")
    assert encode([noted]).labels[0] == "exception RuntimeError: failed (3 rows)"
    hidden = RuntimeError("failed")
    hidden.__context__, hidden.__suppress_context__ = ValueError("3 rows"), True
    assert encode([hidden]).labels[0] == "exception RuntimeError: failed"


def test_both_sides_of_moved_answers_are_of_one_type() -> None:
    for answers, moves, kind in (([0, 0], [1, -1], int), ([0, 0.5], [1, -1], float)):
        pair = moved("apart", answers, moves)
        assert {type(one) for side in (pair.left, pair.right) for one in side} == {kind}
    assert moved("apart", [0, 2**60], [1, -1]).right == [1, 2**60 - 1]
    assert moved("apart", [0, 0], [0.5, -1]).right == [0.5, -1.0]


# --- rounding -----------------------------------------------------------------------------------


def _naive(scale: float) -> Callable[[Any], float]:
    rng = np.random.default_rng(5)
    return lambda data: len(data) + float(rng.laplace(scale=scale))


def test_rounding_looks_beyond_the_last_bits_and_says_so() -> None:
    assert _audited(_naive(1.0), 5000).verdict is Verdict.VIOLATED
    result = _audited(_naive(1.0), 20_000, rounded=1e-9)
    assert result.verdict is Verdict.POWERLESS  # nothing was planted
    assert 0.7 < result.epsilon <= 1
    (remark,) = (one for one in result.remarks if "rounded" in one)
    assert remark.startswith("floats were rounded to multiples of 1e-09")
    assert "their last bits leak too" in remark
    assert result.alpha == 1e-6


def test_a_leak_of_substance_is_told_without_its_bits() -> None:
    result = _audited(_naive(0.4), 10_000, rounded=1e-9)
    assert result.verdict is Verdict.VIOLATED
    assert "bit" not in result.strongest.event
    assert 2 < result.epsilon <= 2.5
    assert "no event is about their last bits" in str(result)


def test_bits_that_do_not_leak_are_not_said_to() -> None:
    naive = _naive(1.0)
    result = _audited(lambda data: round(naive(data), 3), rounded=1e-9, sequential=True)
    assert "did not refute the claim either" in str(result)


def test_what_is_rounded() -> None:
    third, step = 1 / 3, 0.25
    given = {"a": [third, 7], "b": (np.array([third, np.nan, -0.01, np.inf]), "text")}
    made = rounded(given, step)
    assert made["a"] == [0.25, 7]
    assert made["b"][1] == "text"
    np.testing.assert_array_equal(made["b"][0], [0.25, np.nan, 0.0, np.inf])
    assert not np.signbit(made["b"][0][2])
    assert rounded(np.float32(third), step).dtype == np.float32
    assert rounded(1j * third, step) == 0.25j
    assert rounded(1e300, step) == 1e300
    assert rounded(True, step) is True

    def thirds(data: Any, size: int) -> Any:
        return np.full(size, third + 1e-3 * len(data))

    vectorized = audit(
        thirds, claim=PureDP(1), pairs=PAIRS, trials=2000, vectorized=True, rounded=step, seed=0
    )
    assert vectorized.verdict is Verdict.POWERLESS


@pytest.mark.parametrize(
    ("step", "error"), [(0.0, ValueError), (float("inf"), ValueError), ("1", TypeError)]
)
def test_a_step_is_a_positive_number(step: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="rounded"):
        _audited(len, rounded=step)
    ours = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(ValueError, match="only for a function"):
        audit(ours, pairs=PAIRS, rounded=1e-9)
