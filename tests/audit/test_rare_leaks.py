"""Events that happen on one side alone, and there rarely: seen with a few times the draws of an
oracle that knows them.

An oracle needs 1181, 5742 and 30,338 draws a side for probabilities of 0.05, 0.01 and 0.002,
with power 0.9 at alpha 1e-6 against PureDP(1). Seeds are fixed; before, none to two of eight
were seen with twice as many draws, so both of two with probability 1/16 at most, and all three
kinds of the rarest, for which one seed each is tried, with 1/64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.audit import Verdict, added, audit
from dpverify.audit.certificates import Aim
from dpverify.audit.witnesses.promises import Task, signed_root
from dpverify.audit.witnesses.thresholds import Chosen, at_its_value
from dpverify.privacy import PureDP

PAIR = added("one enters", [0.0, 1.0], 1.0)
NEEDED = {0.05: 1181, 0.01: 5742, 0.002: 30_338}
TIMES = {"number": 2, "not a number": 3, "text": 3}


def _leak(kind: str, share: float, seed: int) -> Callable[[Any, int], Any]:
    rng = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        leaks = (rng.random(size) < share) & (len(data) == 3)
        if kind == "number":
            return leaks.astype(int)
        if kind == "not a number":
            return np.where(leaks, np.nan, np.round(rng.normal(size=size), 2))
        return [
            "leak" if one else f"ok {k}"
            for one, k in zip(leaks, rng.integers(5, size=size), strict=True)
        ]

    return function


@pytest.mark.parametrize("share", NEEDED)
@pytest.mark.parametrize("kind", TIMES)
def test_rare_leaks_are_seen(kind: str, share: float) -> None:
    trials = TIMES[kind] * NEEDED[share]
    assert all(
        audit(
            _leak(kind, share, seed), claim=PureDP(1), pairs=[PAIR], trials=trials, alpha=1e-6,
            seed=seed, vectorized=True,
        ).verdict is Verdict.VIOLATED
        for seed in range(1 if share == min(NEEDED) else 2)
    )  # fmt: skip


def test_the_signed_root_counts_standard_errors() -> None:
    """Count own hits among all, of which e / (1 + e) are allowed: Wald's number where there are
    many, and what a binomial tail says where there are few."""
    many = signed_root(np.array([7400.0]), np.array([2600.0]), 1.0, 1.0)[0]
    allowed = 1 / (1 + np.exp(-1))
    assert abs(many - (7400 - 1e4 * allowed) / np.sqrt(1e4 * allowed * (1 - allowed))) < 0.02
    few = signed_root(np.array([69.0, 0.0, 10.0]), np.array([0.0, 5.0, 10.0]), 1.0, 1.0)
    assert abs(few[0] - np.sqrt(-2 * 69 * np.log(allowed))) < 1e-12
    assert few[1] < 0
    assert few[2] < 0
    assert signed_root(np.array([0.0]), np.array([0.0]), 1.0, 1.0)[0] == 0


def test_a_threshold_at_one_value_leaves_out_what_is_alone_by_chance() -> None:
    """Exact: of 13 hits 12 are one value, so the event is that value; of 13 numbers none is."""
    task = Task([(1.0, 0.0)], 0.05, 10_000)
    other = np.linspace(-3, 3, 5000)
    chosen = Chosen(3.4, Aim((1.0, 0.0), 32.0), 0.1)
    for hits, threshold in (([3.4, *[7.0] * 12], 7.0), (np.linspace(3.4, 7, 13).tolist(), 3.4)):
        own = np.append(other, hits)
        assert at_its_value(chosen, own, other, task).threshold == threshold
