"""Subjects of audits and the claims that are tested: our mechanisms, exhibits, any function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

from dpverify.audit.configuration import Exhibit
from dpverify.audit.faults import Fault, generic_faults
from dpverify.audit.first_stage import FirstStage
from dpverify.audit.friendly_core import FriendlyCore
from dpverify.audit.neighbors.pairs import Neighboring, NeighboringPair, Steps
from dpverify.audit.outputs.laws import AuditedLaw, CallableDraws, SeededDraws, TranscriptDraws
from dpverify.plans import Mechanism
from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    Derivation,
    Guarantee,
    PerfectPrivacy,
    PrivacyClaim,
    PureDP,
)

Target = Callable[[Any], AuditedLaw]
"""Function from a dataset to what is drawn from."""
_NO_NAMES = "<lambda>", "unnamed"
Counter = Callable[[int], object]
"""Function that is told how many more draws are done."""


def claimed_of(
    subject: Any, claim: Any, pairs: Sequence[NeighboringPair]
) -> tuple[Guarantee, Neighboring]:
    """Return what is tested, and the adjacency; TypeError or ValueError where the pairs do not
    fit.
    """
    stated, tested = _stated(subject, claim)
    if not pairs:
        raise ValueError("There are no pairs; give at least one NeighboringPair to compare.")
    for pair in pairs:
        if not isinstance(pair, NeighboringPair):
            raise TypeError(
                f"{pair!r:.80} is no pair. A pair carries its adjacency; write added(name, data, "
                "record), replaced(...), or NeighboringPair(name=..., left=..., right=..., "
                "adjacency=Adjacency.ADD_REMOVE)."
            )
    adjacency: Any = stated.adjacency if isinstance(stated, PrivacyClaim) else pairs[0].adjacency
    if not isinstance(adjacency, Neighboring):
        raise ValueError(f"The claim is under {adjacency}; audit one under an Adjacency.")
    if isinstance(subject, (Mechanism, FirstStage)) and not isinstance(stated, PrivacyClaim):
        _refuse_uncovered(subject, pairs)
    for pair in pairs:
        if pair.adjacency != adjacency:
            raise ValueError(
                f"The claim is under {adjacency}, but the pair {pair.name!r} is {pair.adjacency} "
                "neighbors; audit one adjacency at a time."
            )
        rows = max(len(pair.left), len(pair.right))
        most = stated.domain.most_rows if isinstance(stated, PrivacyClaim) else None
        if most is not None and rows > most:
            raise ValueError(
                f"The claim is for at most {most} rows, and the pair {pair.name!r} has {rows}; "
                "it says nothing about that pair."
            )
    return tested, adjacency


def _refuse_uncovered(
    mechanism: Mechanism[Any] | FirstStage, pairs: Sequence[NeighboringPair]
) -> None:
    """Raise ValueError for a pair under another adjacency than the mechanism's own, which is
    public: a bare guarantee is read as the mechanism's. A claim that names its adjacency is not.
    """
    own = mechanism.adjacency
    for pair in pairs:
        given = pair.adjacency.base if isinstance(pair.adjacency, Steps) else pair.adjacency
        if isinstance(given, Adjacency) and given is not own:
            maker = "added" if own is Adjacency.ADD_REMOVE else "replaced"
            raise ValueError(
                f"{name_of(mechanism)} promises something under {own}, but the pair {pair.name!r} "
                f"is {given} neighbors, of which it promises nothing. Give pairs of {maker}(...), "
                f"or make it with adjacency=Adjacency.{given.name}. To attack it on other pairs "
                "all the same, audit its release as a function: audit(mechanism.release, ...)."
            )


def _stated(subject: Any, claim: Any) -> tuple[PrivacyClaim | Guarantee, Guarantee]:
    """Return the claim and the guarantee that is tested: for one of ours, what its stages
    compose to.

    A whole profile can be tested where it is easiest to refute; the (epsilon, delta) that it was
    converted to can be out of reach of any number of draws.
    """
    composed: Guarantee | None = None
    if claim is None and isinstance(subject, FriendlyCore):
        claim = subject.claim.guarantee  # the pairs say what friendly neighbors are
    if claim is None and isinstance(subject, (Mechanism, Exhibit, FirstStage)):
        claim = subject.claim
        composed = subject.composed if isinstance(subject, Mechanism) else None
    if isinstance(claim, Derivation):
        claim = claim.conclusion
    if isinstance(claim, PrivacyClaim) and claim.hypotheses:
        raise ValueError(
            f"The claim is open: {claim}. Draws do not show where its hypotheses hold; audit a "
            "claim that pays for their failure."
        )
    if not isinstance(claim, (PrivacyClaim, Guarantee)):
        raise TypeError(f"claim = {claim!r}; say what is claimed, for example claim=PureDP(1).")
    guarantee = claim.guarantee if isinstance(claim, PrivacyClaim) else claim
    if composed is None or isinstance(composed, (PureDP, ApproxDP, PerfectPrivacy)):
        composed = guarantee
    return claim, composed


@dataclass(frozen=True, slots=True)
class Fresh:
    """A function that is made anew for each call, so that no call knows of another. make: its
    factory.
    """

    make: Callable[[], Callable[[Any], Any]]

    def __call__(self, data: Any) -> Any:
        """Return the output of a new function."""
        return self.make()(data)

    @property
    def name(self) -> str:
        """Name of the factory."""
        return getattr(self.make, "__name__", repr(self.make))


def subject_of(subject: Any, fresh: Any, vectorized: bool) -> Any:
    """Return what is audited: the subject, or what a factory makes. Raises TypeError unless one
    of them is given.
    """
    if fresh is None:
        if subject is None:
            raise TypeError("There is nothing to audit; give a function, or fresh=make.")
        return subject
    if subject is not None or vectorized or not callable(fresh):
        raise TypeError(
            "fresh is a factory of functions f(dataset), each of which is called once: write "
            "fresh=make, without a subject beside it and without vectorized=True."
        )
    return Fresh(fresh)


def planted_in(
    subject: Any,
    faults: Any,
    vectorized: bool,
    thorough: bool,
    step: float = 0.0,
    counted: Counter | None = None,
) -> list[tuple[str, Target]]:
    """Return the planted faults by name; by default the generic ones of ours. step, counted: as
    in ``target_of``.
    """
    if faults is None:
        faults = generic_faults(subject, thorough=thorough) if is_ours(subject) else []
    listed = list(faults)
    targets = [
        _faulty(fault, counted) if isinstance(fault, Fault) else target_of(fault, vectorized, step)
        for fault in listed
    ]
    return list(zip(_names_of(listed), targets, strict=True))


def _names_of(faults: Sequence[Any]) -> list[str]:
    """Return the names of faults; by their places where they have none, or one of several."""
    names = [
        fault.name if isinstance(fault, Fault) else getattr(fault, "__name__", "") or "unnamed"
        for fault in faults
    ]
    return [
        f"{name} (fault {i})" if name in _NO_NAMES or names.count(name) > 1 else name
        for i, name in enumerate(names, 1)
    ]


def _faulty(fault: Fault, counted: Counter | None) -> Target:
    return lambda data: TranscriptDraws(fault.law(data), counted)


def target_of(
    subject: Any, vectorized: bool, step: float = 0.0, counted: Counter | None = None
) -> Target:
    """Return how to draw from the subject. step: to which a function's floats are rounded, as
    in ``CallableDraws``. counted: told of the draws of a mechanism; a function's calls are
    counted where it is wrapped (``Meter``).

    Raises TypeError for what is neither ours nor a function.
    """
    if is_ours(subject):
        return lambda data: TranscriptDraws(subject.law(data), counted)
    if isinstance(subject, Exhibit):
        return lambda data: SeededDraws(subject.function, data)
    if not callable(subject):
        raise TypeError(
            f"{subject!r:.80} is neither a mechanism nor a function of a dataset; give a mechanism "
            "or a function that takes a list of records."
        )
    is_fresh = isinstance(unwrap(subject), Fresh)
    return lambda data: CallableDraws(subject, data, vectorized, is_fresh, step)


def name_of(subject: Any) -> str:
    """Return the subject's name for a report: its own name, a function's, or its class's."""
    own = getattr(subject, "name", None)
    if isinstance(own, str) and own:
        return own
    return str(getattr(subject, "__name__", type(subject).__name__))


def is_ours(subject: Any) -> bool:
    """Return whether the subject is one of our mechanisms, whose law is known."""
    return isinstance(subject, (Mechanism, FriendlyCore, FirstStage))
