"""The clock: a large planted effect is found; the test itself is checked on times made up here.

On a busy machine nothing is asserted about how little a sound sampler correlates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify.audit.structure import timing
from dpverify.audit.structure.timing import correlations, swap_test
from tests.audit.structure_subjects import COUNTED, geometric_loop, tabulated


def test_a_geometric_loop_is_found() -> None:
    finding = timing(geometric_loop(1), draws=4000)
    assert finding.detected
    assert "Pearson" in finding.evidence
    assert finding.false_alarm == 1e-6


def test_a_batch_is_found_as_well() -> None:
    assert timing(geometric_loop(2), draws=1000, batch=5).detected


def test_a_look_up_is_not_found() -> None:
    # false alarm at most 1e-6: the noise is drawn beforehand
    finding = timing(tabulated(3, 4000), draws=4000)
    assert not finding.detected
    assert finding.problem == ""


def test_ours_can_be_timed() -> None:
    # the outcome is for the by-hand script: the running time of our samplers follows their noise
    release, center = COUNTED.timed(4)
    finding = timing(release, center=center, draws=300)
    assert finding.problem == ""


def test_the_swap_test_holds_its_level_under_drift_and_interruptions() -> None:
    # 200 p-values of independent noise, below 0.05 with probability 0.05 each at most (Hoeffding's
    # bound is conservative); 26 or more of 200 have probability below 1e-5
    rng = np.random.default_rng(5)
    below = 0
    for _ in range(200):
        seconds = np.cumsum(rng.normal(size=1000)) + (rng.random(1000) < 0.01) * 1e4
        below += swap_test(seconds, np.abs(rng.laplace(size=1000))) <= 0.05
    assert below < 26


def test_the_swap_test_sees_a_small_effect_through_drift() -> None:
    rng = np.random.default_rng(6)
    noise = np.abs(rng.laplace(size=20_000))
    seconds = 0.2 * noise + rng.normal(size=20_000) + np.linspace(0, 500, 20_000)
    seconds[rng.random(20_000) < 0.005] += 1e5
    assert swap_test(seconds, noise) < 1e-20
    pearson, spearman = correlations(seconds, noise)
    assert pearson > 0.12
    assert spearman > 0.12


def test_constant_times_and_noises_show_nothing() -> None:
    ones, noise = np.ones(1000), np.abs(np.random.default_rng(7).laplace(size=1000))
    for seconds, sizes in ((ones, noise), (noise, ones), (ones, ones)):
        assert swap_test(seconds, sizes) == 1.0
        assert correlations(seconds, sizes) == (0.0, 0.0)


def test_what_raises_or_is_no_number_is_reported() -> None:
    def broken(size: int) -> Any:
        raise OSError("disk on fire")

    for release, problem in (
        (broken, "call 0 raised OSError: disk on fire"),
        (lambda size: ["text"], "no finite distance"),
        (lambda size: [float("nan")], "no finite distance"),
    ):
        finding = timing(release, draws=100)
        assert not finding.detected
        assert problem in finding.problem
        assert str(finding).startswith("INCOMPLETE")


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="draws"):
        timing(tabulated(0, 10), draws=10)
    with pytest.raises(ValueError, match="threshold"):
        timing(tabulated(0, 100), draws=100, threshold=0.0)
    with pytest.raises(ValueError, match="batch"):
        timing(tabulated(0, 100), draws=100, batch=0)
