"""Other libraries' mechanisms, audited in five lines (optional extra: peers)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from dpverify import PureDP
from dpverify.audit import Verdict, added, audit

PAIRS = [added("a row enters", [0, 0], 1)]


@cache
def _opendp_count(scale: float) -> Any:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    return space >> dp.t.then_count() >> dp.m.then_laplace(scale=scale)


def test_opendp_in_five_lines() -> None:
    """False-alarm probability 1e-6; half the noise has epsilon 2 where 1 is claimed."""
    count, broken = _opendp_count(1.0), _opendp_count(0.5)
    result = audit(count, claim=PureDP(1), pairs=PAIRS, faults=[broken], trials=5000, seed=0)
    assert result.verdict is Verdict.CONSISTENT
    assert 0.7 < result.epsilon < 1
    result = audit(broken, claim=PureDP(1), pairs=PAIRS, trials=5000, seed=0, sequential=True)
    assert result.verdict is Verdict.VIOLATED
    assert result.draws < 5000
