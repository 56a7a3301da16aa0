"""Assertions of ``dpverify.testing`` in this process, with and without a test to belong to."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from dpverify import ApproxDP, PureDP, testing
from dpverify.audit import NotConsistent, added, scaled_faults
from dpverify.testing import assert_calibrated, assert_private


@pytest.mark.parametrize(
    ("kind", "options", "asked"),
    [
        ("audit", {"claim": PureDP(1)}, {"trials": 20_000}),
        ("audit", {"claim": PureDP(1), "trials": 500}, {"trials": 500}),
        ("audit", {"claim": PureDP(7)}, {"trials": 41_908}),  # fewer could not refute it
        ("audit", {"claim": "none"}, {}),  # for the audit to refuse
        ("sensitivity", {}, {"calls": 4000}),
        ("sensitivity", {"calls": 100}, {"calls": 100}),
    ],
)
def test_quick_draws(kind: testing.Kind, options: dict[str, Any], asked: dict[str, int]) -> None:
    given = {**options, "pairs": (added(name, [0.0], 1.0) for name in ("a", "b"))}
    testing._shorten(kind, (len,), given)
    assert {name: given[name] for name in ("trials", "calls") if name in given} == asked
    assert len([*given["pairs"]]) == 2


def test_a_result_is_no_truth_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "_dpverify_pytest", raising=False)
    with pytest.raises(TypeError, match="CalibrationResult is no truth value: "):
        assert assert_calibrated(5, ApproxDP(1, "1e-5"), 1)


def test_assertions_need_no_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound function is refuted with probability at most 1e-6; the seed is fixed."""
    monkeypatch.delitem(sys.modules, "_dpverify_pytest", raising=False)
    coins = random.Random(1)

    def flipped(data: Any, scale: float = 1.0) -> bool:
        return coins.random() < (0.5 + 0.25 / scale if len(data) else 0.5 - 0.25 / scale)

    given: dict[str, Any] = {
        "claim": PureDP(2),
        "pairs": [added("one enters", [], 1.0)],
        "trials": 400,
    }
    faults = scaled_faults(flipped, factors=[0.51])
    assert assert_private(flipped, faults=faults, seed=3, **given).is_consistent
    with pytest.raises(NotConsistent, match=r"(?m)^replay +the same call with seed=3$") as caught:
        assert_private(flipped, seed=3, **given)
    assert "POWERLESS" in str(caught.value)
    assert not caught.value.result.is_consistent
