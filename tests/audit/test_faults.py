"""Planted faults: that they are faulty, and that their laws say what they draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    BoundedMean,
    GaussianDP,
    IterativeMean,
    NoisyCount,
    PureDP,
    RandomizedResponse,
    SeededBits,
)
from dpverify.audit import added, audit, generic_faults
from dpverify.grid import Query, Transcripts
from dpverify.grid.splits import ByInterval, Split
from dpverify.plans import Blocks, Gate, Law, Mechanism, Part, Plan
from dpverify.plans.plan import stages_of
from dpverify.suite.trees import load

SUITE = load()


def _names(mechanism: Mechanism[Any], *, thorough: bool = False) -> set[str]:
    return {fault.name for fault in generic_faults(mechanism, thorough=thorough)}


def test_which_faults_apply_to_a_closed_law() -> None:
    count = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    quick = {"count: scale x 0.7", "count: scale x 0.5", "count: noise dropped"}
    assert _names(count) == quick
    assert _names(count, thorough=True) == quick | {"count: scale x 0.95"}


def test_which_faults_apply_to_a_transcript() -> None:
    mean = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE, lower=0, upper=1)
    assert _names(mean, thorough=True) == {
        "count: scale x 0.7",
        "count: scale x 0.5",
        "count: noise dropped",
        "gate on count: reads the exact value",
        "sum: scale x 0.7",
        "sum: scale x 0.5",
        "sum: noise dropped",
        "sum: clipping dropped",
        "sum: order dependence",
        "sum: noise reused from count",
    }
    replaced = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, lower=0, upper=1)
    assert _names(replaced) == {
        "sum: scale x 0.7",
        "sum: scale x 0.5",
        "sum: noise dropped",
        "sum: clipping dropped",
        "sum: the other adjacency's sensitivity",
    }


def test_which_faults_apply_to_a_list_of_answers() -> None:
    survey = RandomizedResponse.for_budget(PureDP(1), adjacency=Adjacency.REPLACE, categories=3)
    assert _names(survey) == {
        "answers: scale x 0.7",
        "answers: scale x 0.5",
        "answers: noise dropped",
        "answers: noise reused from answers",
    }


def test_which_faults_apply_to_an_adaptive_stage() -> None:
    """Some have no claim at all, and run all the same."""
    mean = IterativeMean.for_budget(
        GaussianDP(1), adjacency=Adjacency.ADD_REMOVE, center=(0.0,), radius=9, steps=2
    )
    assert {name for name in _names(mean) if name.startswith("step 2")} == {
        "step 2: scale x 0.7",
        "step 2: scale x 0.5",
        "step 2: noise dropped",
        "step 2: clipping dropped",
        "step 2: order dependence",
        "step 2: noise reused from step 1",
    }
    (fault,) = (f for f in generic_faults(mean) if f.name == "step 2: noise dropped")
    batch = fault.law([0.5] * 100).sample(SeededBits(1), 50)
    assert set(batch.values["step 2"][:, -1]) == {fault.law([0.5] * 100).center(_last(mean))[-1]}


def _last(mechanism: Mechanism[Any]) -> Query:
    return stages_of(mechanism.fixed_plan)[-1].query


_SCALES = ("scale x 0.5", "scale x 0.95", "the other adjacency's sensitivity")
"""Ends of the names of faults that differ from another, "scale x 0.7", in a number."""


def _kinds(mechanism: Mechanism[Any]) -> tuple[tuple[object, ...], ...]:
    """Return the stages' names, and the types of their queries and noises."""
    stages = stages_of(mechanism.fixed_plan)
    return tuple((stage.name, type(stage.query), type(stage.noise)) for stage in stages)


@pytest.mark.parametrize("name", SUITE.entries)
def test_every_fault_can_produce_what_it_draws(name: str) -> None:
    """Draw from every fault of all configurations of a mechanism, but from one scale alone, and
    from one of the configurations whose stages are of the same kinds: they differ in numbers.

    What a fault can draw is never refused, so there is no false alarm. Where a tenth of its draws
    are said to be impossible, 50 draws miss that with probability 0.9^50 < 0.6%.

    By mechanism, since configurations have their names from files that take seconds to load.
    """
    configurations = SUITE.entries[name].keyed
    assert configurations
    drawn = set()
    for key, configuration in configurations.items():
        data, mechanism = configuration.pairs[0].left, configuration.mechanism
        kinds = (mechanism.adjacency, _kinds(mechanism))
        for fault in generic_faults(mechanism, thorough=True):
            scaled = fault.name.endswith(_SCALES)
            if scaled or (fault.name, kinds) in drawn:
                continue
            drawn.add((fault.name, kinds))
            law = fault.law(data)
            batch = law.sample(SeededBits(1), 50)
            if isinstance(law, Law) and law.latent:
                continue  # with the coins of a filter no likelihood is known
            assert np.all(np.isfinite(law.log_likelihood(batch))), (key, fault.name)


def test_reused_noise_follows_its_source() -> None:
    mean = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE, lower=0, upper=1)
    (fault,) = (f for f in generic_faults(mean) if "reused" in f.name)
    law = fault.law([1.0] * 50)
    batch = law.sample(SeededBits(2), 200)
    honest = mean.law([1.0] * 50).sample(SeededBits(3), 200)
    assert np.all(np.isneginf(law.log_likelihood(honest)))  # honest noise never lines up
    noise = batch.values["count"][:, 0] - 50
    assert np.ptp(batch.values["sum"][noise == noise[0], 0]) == 0


def test_an_exact_gate_goes_by_the_true_count() -> None:
    mean = BoundedMean.for_budget(
        PureDP(1), adjacency=Adjacency.ADD_REMOVE, lower=0, upper=1, at_least=3
    )
    (fault,) = (f for f in generic_faults(mean) if "gate" in f.name)
    assert set(fault.law([1.0] * 2).sample(SeededBits(0), 300).stopped_by) == {0}
    assert set(fault.law([1.0] * 3).sample(SeededBits(0), 300).stopped_by) == {-1}
    assert set(mean.law([1.0] * 3).sample(SeededBits(0), 300).stopped_by) == {0, -1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested(Mechanism[None]):
    """A mean in a part, or in each of two blocks, and an outer gate on what the first of these
    released."""

    split: Split | None = None

    def plan(self) -> Plan:
        one = BoundedMean(
            adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), lower=-1, upper=1
        ).fixed_plan
        if self.split is None:
            return (Part("p", one), Gate("p/count", 4, "outer"), one[0])
        return (Blocks("p", self.split, (one, one)), Gate("p/0/count", 4, "outer"), one[0])

    def estimate(self, transcript: Transcripts) -> None:
        return None


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("split", [None, ByInterval((0.0,))])
def test_faults_of_nested_plans_are_faulty_and_know_their_likelihood(
    adjacency: Adjacency, split: Split | None
) -> None:
    """Every stage has its own, by its full name, and an outer gate sees the records of the block
    that it reads. Planted: a fault that leaves the plan as it is."""
    mechanism = Nested(adjacency=adjacency, noise_multiplier=Fraction(1), split=split)
    data = [-1.0] * 7 + [1.0] * 2
    honest = mechanism.law(data).sample(SeededBits(4), 400)
    first = "p" if split is None else "p/0"
    every = {fault.name: fault for fault in generic_faults(mechanism)}
    parts = [first] if split is None else ["p/0", "p/1"]
    wanted = {
        f"{part}/{name}" for part in parts for name in ("count: noise dropped", "sum: scale x 0.5")
    }
    wanted |= {f"gate on {first}/count: reads the exact value", f"{first}/sum: clipping dropped"}
    assert wanted <= set(every)
    for name, fault in every.items():
        law = fault.law(data)
        batch = law.sample(SeededBits(4), 400)
        assert np.isfinite(law.log_likelihood(batch)).all(), name
        if "clipping" not in name:  # these data are within the bounds
            differs = any(
                honest[key].shape != column.shape or (honest[key] != column).any()
                for key, column in batch.values.items()
            )
            assert differs or (honest.stopped_by != batch.stopped_by).any(), name
    exact = every[f"gate on {first}/count: reads the exact value"].law
    for few in (3, 4):  # of the block, or of all
        kept = [-1.0] * few + [1.0] * (0 if split is None else 9)
        drawn = exact(kept).sample(SeededBits(1), 200)
        assert ("outer" in {drawn[i].stopped for i in range(200)}) is (few < 4)


def test_an_audit_without_the_right_pair_misses_the_fault() -> None:
    # Order dependence shows only where a record shifts unlike ones: the crafted pair matters.
    mean = BoundedMean.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE, lower=0, upper=1)
    fault = [f for f in generic_faults(mean) if f.name == "sum: order dependence"]
    blunt, sharp = [0.5] * 40, [1.0, 0.0] * 20
    missed = audit(mean, pairs=[added("alike", blunt, 0.5)], faults=fault, trials=5000, seed=0)
    caught = audit(mean, pairs=[added("shift", sharp, 0.0)], faults=fault, trials=5000, seed=0)
    assert [f.caught for f in (*missed.faults, *caught.faults)] == [False, True]
