"""Elements of a plan that hold no other plan: stages, gates, and what is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from dpverify.grid import Query
from dpverify.plans.noise import Noise
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim, Sensitivity, rules
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.derivation import EventBound
from dpverify.privacy.hypotheses import Compared
from dpverify.privacy.sealed import sealed


@sealed
@dataclass(frozen=True, slots=True)
class Stage:
    """One release: an integer query plus noise, under a name that is unique in its plan."""

    name: str
    query: Query
    noise: Noise

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Noise):
            raise TypeError(f"{self.noise!r:.80} is no noise; write DiscreteLaplace(scale).")
        self.noise.check(self.query)

    def derivation(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[PrivacyClaim]:
        """Derive the claim of this stage alone."""
        return self.noise.claim(self.sensitivity(adjacency, domain))

    def sensitivity(self, adjacency: AnyAdjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Derive how far the query moves between neighbors."""
        if not isinstance(adjacency, Adjacency) and not self.query.of_retained:
            raise TypeError(
                f"{type(self.query).__name__} has a sensitivity for inputs, not under {adjacency}; "
                "take groups of the whole plan's claim."
            )
        about = cast(Adjacency, adjacency)  # queries of retained records know their friends
        return self.query.sensitivity(about, domain)


@sealed
@dataclass(frozen=True, slots=True)
class Gate:
    """Condition to go on: the released value of ``stage`` is at least ``at_least``; else the
    plan abstains.

    For a thresholded histogram, some shown count has to be. A gate reads what is released
    already, so it costs nothing.
    """

    stage: str
    at_least: int
    reason: str


@sealed
@dataclass(frozen=True, slots=True)
class Unless:
    """Assumption on a released number that fails with at most this probability, for which the
    plan pays.

    The bound is derived from the stage that releases the number: how far its query moves, by
    which shift it is lowered, and its noise. Without it the claim stays open, and a mechanism
    with an open claim is refused.
    """

    assumed: Compared
    probability: Fraction

    def event(
        self, stage: Stage, adjacency: AnyAdjacency, domain: Domain
    ) -> Derivation[EventBound]:
        """Derive the bound for this stage. Raises ValueError where the failure is likelier."""
        released = stage.derivation(adjacency, domain)
        return rules.released_event(self.assumed, released, probability=self.probability)
