"""Witnesses of counts and of bets, as files, for the tests of their checker."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from typing import Any

import numpy as np
import pytest

from dpverify import ApproxDP, GaussianDP, PureDP
from dpverify.audit import AuditResult, NeighboringPair, Verdict, added, audit, replaced
from dpverify.audit.certificates import Aim, Point, certify
from dpverify.audit.confidence_regions import Counted
from dpverify.audit.evidence import witness_of
from dpverify.audit.neighbors.pairs import QueryMoves
from dpverify.privacy import ApproximateGaussianDP, Guarantee, Profile
from spec.theory.check_witness import check

ADDED = added("one enters", [0.0, 0.0], 1.0)
CHANGED = replaced("one changes", [0.0, 0.0, 5.0], 1.0, at=1)
MOVED = NeighboringPair(
    name="one moves",
    left=[3.0, 0.25, -1.0],
    right=[3.0, 0.75, -1.0],
    adjacency=QueryMoves("1/2", 1),
)
SHIFTED = NeighboringPair(
    name="all move", left=[3, 0, float("inf")], right=[2.5, 1, float("inf")], adjacency=QueryMoves()
)
COUNTS_AT = ("certificate", "counts")
AGAUSSIAN = ApproximateGaussianDP("0.8", "1e-7", "1e-5")
PROFILE = Profile([(PureDP("0.1"), 2), (GaussianDP("0.5"), 1)], 0, 0)


def counted(guarantee: Guarantee, pair: NeighboringPair, point: Point = (1.0, 0.0)) -> AuditResult:
    """8000 against 1500 hits of 16000, an epsilon of 1.58 or so at delta = 0, as a result."""
    counts = Counted(8000, 16_000, 1500, 16_000)
    where = (pair.name, "left over right", "number 0 >= 1")
    certificate = certify(where, counts, Aim(point, 40), 7.5e-7, guarantee)
    assert certificate.refuted
    adjacency: Any = pair.adjacency
    return AuditResult(
        Verdict.VIOLATED,
        guarantee,
        adjacency,
        (certificate,),
        (),
        1e-6,
        20_000,
        7,
        40_000,
        (),
        (pair,),
    )


def made_of(
    guarantee: Guarantee, pair: NeighboringPair, point: Point = (1.0, 0.0)
) -> dict[str, Any]:
    """Build a witness as read from a file."""
    result = counted(guarantee, pair, point)
    made: dict[str, Any] = json.loads(json.dumps(witness_of(result, subject="s")))
    return made


def sealed(witness: dict[str, Any]) -> dict[str, Any]:
    """Seal with a new checksum, as a forger would."""
    text = json.dumps({**witness, "sha256": ""}, sort_keys=True)
    return {**witness, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def refusal(witness: dict[str, Any]) -> str:
    """Why it is refused; fails if it is not."""
    with pytest.raises((ValueError, KeyError, IndexError, TypeError)) as caught:
        check(witness)
    return str(caught.value)


@functools.cache
def witness_of_counts() -> dict[str, Any]:
    return made_of(ApproxDP(1, "1e-5"), ADDED, (1.0, 1e-5))


@functools.cache
def witness_of_bets() -> dict[str, Any]:
    # Noise of half the scale in multiples of 2^-20: refuted but with a chance below 1e-9.
    rng = np.random.default_rng(5)

    def noisy_sum(data: Any, size: int) -> Any:
        return np.round((sum(data) + rng.normal(scale=0.5, size=size)) * 2**20)

    result = audit(
        noisy_sum,
        claim=GaussianDP(1),
        pairs=[ADDED],
        trials=5000,
        seed=3,
        vectorized=True,
        sequential=True,
    )
    made: dict[str, Any] = json.loads(json.dumps(witness_of(result, subject="s")))
    return made


def forged(witness: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return one field of it changed, and sealed again."""
    made = copy.deepcopy(witness)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return sealed(made)
