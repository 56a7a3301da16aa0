"""Memory of a batch of draws of its own sampling, for the code that scores them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.audit.faults import generic_faults
from dpverify.grid import Released, Transcripts
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import UNIT, RoundedGaussian
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity
from dpverify.randomness import SeededBits
from dpverify.suite.trees import load

SUITE = load()
KEYS = (
    "coordinatewise_mean:replace:plane",  # a search: stages built from many prefixes
    "iterative_mean:add-remove:line",  # queries that read a center, built balls
    "robust_mean:add-remove:line",  # a gate: some draws stop
    "large_variances:add-remove:one-report",  # quantities that another stage released
    "partitioned_product:replace:three-records",  # blocks of records
)


@pytest.mark.parametrize("key", KEYS)
def test_likelihoods_are_those_of_draws_that_remember_nothing(key: str) -> None:
    configuration = SUITE.configuration(key)
    mechanism, pair = configuration.mechanism, configuration.pairs[0]
    broken = generic_faults(mechanism)[0]
    for law_of in (mechanism.law, broken.law):
        own, other = law_of(pair.left), law_of(pair.right)
        batch = own.sample(SeededBits(5), 300)
        assert batch.known is not None
        bare = dataclasses.replace(batch, known=None)
        for law in (own, other, own):
            remembered = law.log_likelihood(batch)
            assert remembered.tobytes() == law.log_likelihood(bare).tobytes()
        assert bare.known is None


def test_a_single_release_remembers_nothing() -> None:
    configuration = SUITE.configuration(KEYS[0])
    law = configuration.mechanism.law(configuration.pairs[0].left)
    assert law.sample(SeededBits(5), 1).known is None


@pytest.mark.parametrize("key", KEYS)
def test_what_is_remembered_leaves_the_process_with_no_copy(key: str) -> None:
    """Exact centers of the records are remembered. Planted: pickles and copies took them along, by
    keys that are addresses of objects, which another process gives to others."""
    configuration = SUITE.configuration(key)
    law = configuration.mechanism.law(configuration.pairs[0].left)
    batch = law.sample(SeededBits(5), 300)
    wanted = law.log_likelihood(batch)
    assert batch.known is not None
    batch.known["exact center"] = [((), np.arange(300), 0.25)]
    bare = dataclasses.replace(batch, known=None)
    assert pickle.dumps(batch) == pickle.dumps(bare)
    for same in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert same.known is None
        assert same.reasons == batch.reasons
        assert law.log_likelihood(same).tobytes() == wanted.tobytes()


class _Alike:
    """Something that says of itself that it is a sensitivity that was derived."""

    def __init__(self, made: Derivation[Sensitivity]) -> None:
        self.conclusion = made.conclusion
        self._made = made

    def __eq__(self, other: object) -> bool:
        return self._made == other

    def __hash__(self) -> int:
        return hash(self._made)


def test_an_equal_look_alike_gets_no_claim_that_was_derived_before() -> None:
    query = OneUnit(SideCounts((0.5,)), Fraction(3))
    made = query.sensitivity(Adjacency.REPLACE, Domain(1))
    noise: Any = RoundedGaussian(UNIT)
    noise.claim(made)
    assert _Alike(made) == made
    with pytest.raises(TypeError, match="not a derivation"):
        noise.claim(_Alike(made))


def _batch() -> Transcripts:
    column = np.arange(6).reshape(3, 2)
    reached, stopped = np.full(3, 1), np.full(3, -1)
    return Transcripts({"one": column}, reached, stopped, (), {})


def test_an_answer_is_of_these_draws_and_of_this_question() -> None:
    batch, calls = _batch(), list[tuple[int, ...]]()
    asked = (batch,)

    def once(rows: list[int], about: str, asked: tuple[object, ...] = asked) -> int:
        def compute() -> int:
            calls.append(tuple(rows))
            return len(calls)

        return batch.once(asked, about, np.array(rows), compute)

    assert [once([0, 1, 2], "a"), once([0, 1, 2], "a")] == [1, 1]
    assert once([0, 2], "a") == 2
    assert once([0, 1, 2], "b") == 3
    assert once([0, 0, 2], "a") == 4  # as long, with the same ends
    assert once([0, 1, 2], "a", (calls,)) == 5


def test_what_is_shared_cannot_be_changed_and_the_draws_still_can() -> None:
    batch = _batch()
    doubled = Released(("one",), lambda before: before["one"])(batch.seen(np.arange(3), ""))
    with pytest.raises(ValueError, match="read-only"):
        doubled[0, 0] = 7
    batch["one"][0, 0] = 7
    assert batch["one"][0, 0] == 7
