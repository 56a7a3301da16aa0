"""Seeds, global state and forks.

False alarms: at most 1e-6 a call, by how often a release's own outputs agree.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import SeededBits
from dpverify.audit.structure import predictable_seeding, shared_state_after_fork
from dpverify.audit.structure.coincidences import Yardstick, in_common, key, yardstick
from tests.audit.structure_subjects import COUNT, OURS, PEOPLE, Ours

Release = Callable[[], Any]
GENERATOR = np.random.default_rng()
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork here")


def laplace(generator: Any) -> Any:
    """Return the model of all releases here."""
    return generator.laplace()


def fixed_by_default() -> Release:
    return np.random.default_rng(123456789).laplace


def small_seed() -> Release:
    return np.random.default_rng(random.SystemRandom().randrange(1000)).laplace


def legacy_small_seed() -> Release:
    return np.random.RandomState(random.SystemRandom().randrange(1000)).laplace


def clock() -> Release:
    return np.random.default_rng(int(time.time())).laplace


def milliseconds() -> Release:
    return np.random.default_rng(int(time.time() * 1000)).laplace


def legacy_global() -> Release:
    return lambda: np.random.laplace()  # noqa: NPY002  the planted fault


def python_global() -> Release:
    return lambda: random.gauss(0.0, 1.0)


def every_call_anew() -> Release:
    return lambda: np.random.default_rng(0).laplace()


def fresh() -> Release:
    return np.random.default_rng().laplace


@pytest.mark.parametrize(
    ("make", "evidence"),
    [
        (fixed_by_default, "two fresh objects"),
        (small_seed, "the noise is that of default_rng("),
        (legacy_small_seed, "the noise is that of RandomState("),
        (clock, "the noise is that of default_rng("),
        (milliseconds, "the noise is that of default_rng("),
        (legacy_global, "numpy's legacy global generator"),
        (python_global, "Python's global generator"),
        (every_call_anew, "one and the same"),
    ],
)
def test_planted_seeds_are_found(make: Callable[[], Release], evidence: str) -> None:
    before = random.getstate(), np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    finding = predictable_seeding(make, model=laplace)
    assert finding.detected
    assert evidence in finding.evidence
    assert 0 < finding.false_alarm <= 1e-6
    if make not in (legacy_global, python_global):  # the attack puts the global states back
        assert random.getstate() == before[0]
        assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], before[1])  # noqa: NPY002


def test_the_global_generators_are_told_apart() -> None:
    assert "Python" not in predictable_seeding(legacy_global).evidence
    assert "numpy" not in predictable_seeding(python_global).evidence
    assert "global" not in predictable_seeding(fixed_by_default).evidence


@pytest.mark.parametrize("ours", OURS, ids=lambda ours: ours.name)
def test_our_releases_are_not_predictable(ours: Ours) -> None:
    finding = predictable_seeding(
        lambda: lambda: ours.mechanism.release(ours.left), model=laplace, seeds=100
    )
    assert not finding.detected
    assert finding.problem == ""


def test_fresh_seeds_are_not_predictable() -> None:
    for _ in range(3):
        finding = predictable_seeding(fresh, model=laplace, seeds=200)
        assert not finding.detected
        assert finding.problem == ""


def test_fresh_processes() -> None:
    finding = predictable_seeding(fixed_by_default, processes=True)
    assert "two fresh processes give the same noise" in finding.evidence
    finding = predictable_seeding(lambda: GENERATOR.laplace, processes=True)
    assert not finding.detected
    assert "another object raised" in finding.problem  # a lambda cannot be sent to a process


def test_few_values_need_many_draws() -> None:
    def coin() -> Release:
        generator = np.random.default_rng(5)
        return lambda: generator.random() < 0.02

    finding = predictable_seeding(coin)
    assert not finding.detected  # the seed is constant, but a hundred such outputs prove nothing
    assert "draws >= " in finding.problem
    assert predictable_seeding(coin, draws=2000).detected


def test_makers_and_releases_that_raise_are_reported() -> None:
    def broken() -> Any:
        raise OSError("disk on fire")

    for make in (broken, lambda: broken):
        finding = predictable_seeding(make)
        assert not finding.detected
        assert "disk on fire" in finding.problem
    made = []

    def once() -> Release:
        made.append(1)
        return fresh() if len(made) == 1 else broken()

    assert "another object raised OSError" in predictable_seeding(once).problem
    finding = predictable_seeding(fresh, model=lambda generator: generator.nothing())
    assert "the model with" in finding.problem


@forks
def test_a_generator_shared_by_forks_is_found() -> None:
    finding = shared_state_after_fork(lambda: GENERATOR.normal(), children=2)
    assert finding.detected
    for pair in ("the parent and child 0", "the parent and child 1", "child 0 and child 1"):
        assert f"{pair} drew the same 100 outputs" in finding.evidence
    finding = shared_state_after_fork(lambda: int(GENERATOR.integers(2)), children=1)
    assert finding.detected  # a small range needs a long vector: 100 coins are enough


@forks
@pytest.mark.parametrize("ours", OURS, ids=lambda ours: ours.name)
def test_ours_survive_a_fork(ours: Ours) -> None:
    finding = shared_state_after_fork(lambda: ours.mechanism.release(ours.left))
    assert not finding.detected
    assert finding.problem == ""


@forks
def test_seeded_bits_refuse_in_a_child_and_that_is_reported() -> None:
    bits = SeededBits(1)
    finding = shared_state_after_fork(lambda: COUNT.release(PEOPLE, bits))
    assert not finding.detected
    assert "child 0: 100 of 100 calls raised RuntimeError" in finding.problem


@forks
def test_a_child_that_hangs_or_dies_is_reported() -> None:
    parent = os.getpid()

    def hang() -> float:
        if os.getpid() != parent:
            time.sleep(60)
        return float(GENERATOR.normal())

    finding = shared_state_after_fork(hang, children=1, seconds=0.2)
    assert "did not end within 0.2 seconds" in finding.problem

    def die() -> float:
        if os.getpid() != parent:
            os._exit(3)
        return float(GENERATOR.normal())

    finding = shared_state_after_fork(die, children=1)
    assert "ended without an answer" in finding.problem
    assert not finding.detected


def test_without_fork_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork", raising=False)
    finding = shared_state_after_fork(lambda: 1.0)
    assert not finding.detected
    assert "no os.fork" in finding.problem


def test_the_yardstick_counts_coincidences() -> None:
    half = Yardstick(0.5, 2e-3)
    assert half.needed(1) == 10  # 2^-10 <= 1e-3
    assert half.needed(1000) == 20
    assert Yardstick(1.0, 1e-6).needed(1) == float("inf")
    assert "no number of draws" in Yardstick(1.0, 1e-6).problem(100, 1)
    assert half.problem(10, 1) == ""
    assert yardstick(["a"] * 400, 1e-6).collision == 1.0
    assert yardstick([str(i) for i in range(400)], 1e-6).collision < 0.08


def test_keys_are_equal_for_equal_content_only() -> None:
    assert key(1.0) == key(np.float64(1.0)) != key(1)
    assert key(0.0) != key(-0.0)
    assert key(np.zeros(2)) != key(np.zeros((1, 2)))
    assert key("a") != key("b")
    assert in_common(["a", "b"], ["a", "c"]) == 1
    assert in_common([key(OSError("x"))], [key(OSError("x"))]) == 0


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        predictable_seeding(fresh, draws=1)
    with pytest.raises(ValueError, match="alpha"):
        shared_state_after_fork(fresh(), alpha=2.0)
    with pytest.raises(ValueError, match="children"):
        shared_state_after_fork(fresh(), children=0)
