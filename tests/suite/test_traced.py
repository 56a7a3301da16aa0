"""Audits by tracing: what they attack, and that a mechanism without noise is refuted by them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.audit import Gaussians, audit_tracing
from dpverify.suite import judges
from dpverify.suite.events import Outcome
from dpverify.suite.judges import Options, Unit, certified_units, run_unit, traced_keys
from dpverify.suite.runner import audit_units, selectable
from dpverify.suite.trees import load

_MANY = Gaussians(4000, np.ones(200))
NAME = "clipped_mean:replace:ball:traced"


_MEANS = ("VectorMeanEstimate", "RobustMeanEstimate", "ProductEstimate")


def test_every_mean_of_vectors_and_every_product_is_traced() -> None:
    """Find them by what ``estimate`` says that it returns; with as many columns that the bare
    mean is refuted, which each unit checks."""
    suite, expected = load(), set()
    for key, one in suite.configurations.items():
        returned = str(type(one.mechanism).estimate.__annotations__["return"])
        if returned.startswith(_MEANS):
            expected.add(key.partition(":")[0])
        if one.traced is not None:
            assert returned.startswith(_MEANS), key
            assert type(one.traced.mechanism) is type(one.mechanism), key
            assert one.traced.mechanism.adjacency is one.mechanism.adjacency, key
    assert expected >= {"clipped_mean", "product_distribution", "unknown_covariance_mean"}
    assert {key.partition(":")[0] for key in traced_keys(suite)} == expected


def test_it_is_a_unit_with_a_share_of_the_false_alarms() -> None:
    suite = load()
    assert NAME in traced_keys(suite)
    assert NAME in selectable(suite)
    assert audit_units(suite, [NAME]) == [Unit("tracing", NAME)]
    assert certified_units(suite) == len(audit_units(suite, []))
    done = run_unit(Unit("tracing", NAME), Options(seed=3))
    assert done.outcome is Outcome.HELD
    assert done.replay == f"dpverify audit {NAME} --seed 3 --quick"


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [({"noise_multiplier": Fraction(1, 1000)}, Outcome.REFUTED), ({}, Outcome.POWERLESS)],
)
def test_too_little_noise_is_refuted_and_too_many_records_show_nothing(
    changed: dict[str, Any], outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is fixed; a false alarm has probability 1e-6 over the whole suite."""
    suite = load()
    one = suite.configuration(NAME.removesuffix(judges.TRACED))
    assert one.traced is not None
    traced = one.traced if changed else replace(one.traced, instance=_MANY, runs=20)
    if changed:  # what it claims is of the budget that it has no noise for
        claim = traced.mechanism.claim.guarantee
        loud = replace(traced.mechanism, budget=None, **changed)
        right = audit_tracing
        monkeypatch.setattr(
            judges,
            "audit_tracing",
            lambda subject, **given: right(
                lambda data: loud.release(data), claim=claim, adjacency=loud.adjacency, **given
            ),
        )
    kind: type[Any] = type(suite)
    monkeypatch.setattr(kind, "configuration", lambda *_: replace(one, traced=traced))
    done = run_unit(Unit("tracing", NAME), Options(seed=3))
    assert done.outcome is outcome
