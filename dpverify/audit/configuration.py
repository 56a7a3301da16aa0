"""What a file in audits/ exports: configurations of a mechanism, and false claims to refute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpverify.audit.faults import Fault
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, PrivacyClaim
from dpverify.randomness import Bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One configuration of a mechanism, with the pairs that attack it.

    name: unique in its file; with the mechanism's name and adjacency it is the ledger's key.
    pairs: crafted neighbors, the most dangerous first (a fault is attacked in this order).
    faults: the mechanism's own planted faults, beside the generic ones.
    friendly: of a mechanism with a filter, pairs that attack what runs behind it (``KeptPart``).
    opening: pairs that attack the first stage by itself (``Opening``), for a mechanism of which no pair
    shows a missing share of that stage's noise; such faults are planted there only.
    elsewhere: stages whose missing shares of noise another configuration, or another mechanism's, attacks.
    attacked: the stages whose generic faults are planted here, where several configurations share them;
    None: all of them.
    quick_trials: draws of the whole a side and pair under ``--quick``, where fewer than usual show every fault.
    """

    name: str
    mechanism: Mechanism[Any]
    pairs: Sequence[NeighboringPair]
    faults: Sequence[Fault] = ()
    friendly: Sequence[NeighboringPair] = ()
    opening: Sequence[NeighboringPair] = ()
    elsewhere: frozenset[str] = frozenset()
    attacked: frozenset[str] | None = None
    quick_trials: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallInstance:
    """A mechanism and a dataset small enough to enumerate every coin of the shipped sampler.

    followed: for a plan of too many numbers for that, in how many drawn transcripts each stage is held against the spec's,
    after what was released before it; of Gaussian noise only.
    """

    name: str
    mechanism: Mechanism[Any]
    data: Sequence[Any] = field(default=())
    max_choices: int = 12
    followed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A false claim: f(dataset, size, bits), what is claimed of it, and pairs that refute that.

    quick_trials: draws a side and pair under ``--quick``, where fewer than usual refute it.
    """

    name: str
    function: Callable[[Sequence[Any], int, Bits], Sequence[Any]]
    claim: Derivation[PrivacyClaim]
    pairs: Sequence[NeighboringPair]
    why: str
    quick_trials: int | None = None
