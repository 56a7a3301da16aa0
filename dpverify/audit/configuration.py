"""Exports of a file in audits/: configurations, black boxes, and false claims to refute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpverify.audit.faults import Fault
from dpverify.audit.instances import Instance
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.plans import Mechanism
from dpverify.privacy import Derivation, Guarantee, PrivacyClaim
from dpverify.randomness import Bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One configuration of a mechanism, with the pairs that attack it.

    name: unique in its file; with the mechanism's name and adjacency it is the ledger's key.
    pairs: crafted neighbors, the most dangerous first (a fault is attacked in this order).
    faults: the mechanism's own planted faults, beside the generic ones.
    friendly: for a mechanism with a filter, pairs that attack what runs behind it
    (``FriendlyCore``).
    first_stage: pairs that attack the first stage by itself (``FirstStage``), for a mechanism of
    which no pair shows a missing share of that stage's noise; such faults are planted there only.
    elsewhere: stages whose missing shares of noise another configuration, or another
    mechanism's, attacks.
    target_stages: the stages whose generic faults are planted here, where several configurations
    share them; None: all of them.
    quick_trials: draws of the whole mechanism per side and pair under ``--quick``, where fewer
    than usual show every fault.
    traced: what tracing attacks in addition, a mechanism of the same kind and adjacency for
    many columns.
    """

    name: str
    mechanism: Mechanism[Any]
    pairs: Sequence[NeighboringPair]
    faults: Sequence[Fault] = ()
    friendly: Sequence[NeighboringPair] = ()
    first_stage: Sequence[NeighboringPair] = ()
    elsewhere: frozenset[str] = frozenset()
    target_stages: frozenset[str] | None = None
    quick_trials: int | None = None
    traced: Traced | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """An estimate whose records ``audit_tracing`` traces, with so many runs; its planted fault
    is the same without noise.
    """

    mechanism: Mechanism[Any]
    instance: Instance
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallInstance:
    """A mechanism and a dataset small enough to enumerate every coin of the shipped sampler.

    followed: for a plan of too many numbers to enumerate, the number of drawn transcripts in
    which each stage is compared with the spec's, given what was released before it; for
    Gaussian noise only.
    """

    name: str
    mechanism: Mechanism[Any]
    data: Sequence[Any] = field(default=())
    max_choices: int = 12
    followed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A false claim: f(dataset, size, bits), what is claimed of it, and pairs that refute that.

    quick_trials: draws per side and pair under ``--quick``, where fewer than usual refute it.
    """

    name: str
    function: Callable[[Sequence[Any], int, Bits], Sequence[Any]]
    claim: Derivation[PrivacyClaim]
    pairs: Sequence[NeighboringPair]
    why: str
    quick_trials: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackBox:
    """Any function with a privacy claim that nothing derives: audits attack it, no spec has its
    law.

    name: unique in its file; with the file's name and the pairs' adjacency it is the ledger's key.
    function: f(dataset); with ``vectorized=True`` f(dataset, size), which returns ``size``
    independent outputs.
    claim: the guarantee that is asserted of the function.
    pairs: crafted neighbors, all under one adjacency.
    faults: functions like it, each of its own name, that are known to break the claim; at least
    one.
    seeded: the function and its faults take a numpy.random.Generator as their last argument,
    from which all their randomness comes. Then a replay draws the same; otherwise it repeats
    the attack on fresh draws.
    rounded: a step, far below the noise, to which floats are rounded first, as in ``audit``.
    quick_trials: draws per side and pair under ``--quick``, for a function that is slow or
    needs fewer than usual; a run without ``--quick`` then takes five times as many.
    source: who asserts the claim, and where.
    """

    name: str
    function: Callable[..., Any]
    claim: Guarantee
    pairs: Sequence[NeighboringPair]
    faults: Sequence[Callable[..., Any]]
    vectorized: bool = False
    seeded: bool = False
    rounded: float | None = None
    quick_trials: int | None = None
    source: str = "the author of the function"
