"""The law that refinement enumerates is the shipped one, with each exact value computed once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dpverify.audit import SmallInstance
from dpverify.plans import Law
from dpverify.randomness import Bits, enumerate_law
from dpverify.suite.refinement import _formal_numbers
from dpverify.suite.trees import load
from dpverify.suite.watched import watched


def _masses(law: Law, instance: SmallInstance) -> dict[Any, Fraction]:
    def run(bits: Bits) -> tuple[Any, ...]:
        return tuple(law.sample(bits, 1)[0].released.values())

    formal = _formal_numbers(instance.mechanism, (Fraction(1, 2),))
    enumeration = enumerate_law(run, max_choices=instance.max_choices, exponential=formal)
    return dict(enumeration.masses)


@pytest.mark.parametrize(
    ("key", "number"),
    [("coordinatewise_mean", 0), ("variance_aware_mean", 1), ("rescaled_mean", 1)],
)
def test_the_watched_law_has_the_shipped_law_s_masses(
    key: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare masses of a search, of stages that are built from a transcript, behind a filter;
    with fewer evaluations."""
    counts, masses = list[int](), list[dict[Any, Fraction]]()
    instance = load().entries[key].small[number]
    watching = watched(instance.mechanism, list(instance.data))[0]
    right = Law._center

    def counted(law: Law, *given: Any) -> Any:
        counts[-1] += 1
        return right(law, *given)

    monkeypatch.setattr(Law, "_center", counted)
    for law in (instance.mechanism.law(list(instance.data)), watching):
        counts.append(0)
        masses.append(_masses(law, instance))
    assert masses[0] == masses[1]
    assert sum(masses[0].values()) > Fraction(99, 100)
    assert counts[1] < counts[0]
