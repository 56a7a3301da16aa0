"""Smaller classifiers for tests that are not about what a classifier learns."""

from __future__ import annotations

import pytest

from dpverify.audit.witnesses import models

LEARNING = {
    "test_classical",
    "test_learned",
    "test_learned_nothing",
    "test_low_bits",
    "test_peers",
    "test_power",
    "test_rare_leaks",
}
"""Tests of what scores tell, by file: these fit as many trees as any audit."""


@pytest.fixture(autouse=True)
def _few_trees(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit a fifth of the trees: an event is certified by draws that it was not learned from, so
    whatever is fitted, false alarms, shares of alpha and stages have to be right."""
    if request.module.__name__.rpartition(".")[2] not in LEARNING:
        monkeypatch.setattr(models, "_MANY_TREES", models._FEW_TREES)
