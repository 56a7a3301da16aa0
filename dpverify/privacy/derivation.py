"""Claims and their proof trees. Only the rules make them (dpverify/privacy/rules.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass
from enum import Enum
from fractions import Fraction
from typing import Generic, TypeVar

from dpverify.privacy.adjacency import AnyAdjacency, Domain
from dpverify.privacy.guarantees import Guarantee
from dpverify.privacy.numbers import render
from dpverify.privacy.sources import Source

RULES_KEY = object()
"""Held by the rules. Python cannot stop a forger; this stops a mistake."""


class Status(Enum):
    """How far a statement is to be trusted. A conclusion is as weak as its weakest premise."""

    PROVED = "proved"
    CONJECTURED = "conjectured"
    REFUTED = "refuted"

    def __str__(self) -> str:
        return self.value


_WEAKNESS = {Status.PROVED: 0, Status.CONJECTURED: 1, Status.REFUTED: 2}


def weakest(*statuses: Status) -> Status:
    """The status of a conclusion that rests on all of these."""
    return max(statuses, key=_WEAKNESS.__getitem__, default=Status.PROVED)


class Norm(Enum):
    """How the distance between two query values is measured.

    SQUARED_L2 is the square of the Euclidean distance, which is rational where that is not. RANGE is
    the largest change of a coordinate minus the smallest. ONE_WAY is the largest change of a coordinate,
    where none moves against another. KEYS: one record touches at most so many
    keys of a histogram and adds one to each. MOVED: the histogram counts a public number of things, of which
    so many go to other keys. KEEP: the sum over records of the changes of their
    keep-probabilities; when those that fall are lowered first and the others raised then, every set
    of kept records on the way is friendly. SMOOTH: numbers, each with a
    scale of its own; a number moves by at most the smaller of its scales on the two sides, and the scale
    changes by at most this factor.
    """

    L1 = "L1"
    SQUARED_L2 = "squared L2"
    L_INFINITY = "L-infinity"
    RANGE = "range"
    ONE_WAY = "one-way L-infinity"
    HAMMING = "Hamming"
    KEYS = "keys a record"
    MOVED = "things moved"
    KEEP = "keep-probability"
    SMOOTH = "smooth"

    def __str__(self) -> str:
        return self.value


def _made_by_a_rule(key: object, what: str) -> None:
    if key is not RULES_KEY:
        raise TypeError(
            f"A {what} is made only by the rules in dpverify.privacy.rules, so that it cannot say "
            "more than its proof; for a claim you cannot prove write rules.conjecture(...)."
        )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far a query's integer value can move between neighboring datasets of the domain.

    ``predicate``: of a filter's keep-probabilities, the predicate that makes records friends.
    """

    query: str
    norm: Norm
    value: Fraction
    adjacency: AnyAdjacency
    domain: Domain
    predicate: str = ""
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "Sensitivity")

    def __str__(self) -> str:
        what = f"{self.query} (friends by {self.predicate})" if self.predicate else self.query
        if self.norm is Norm.SMOOTH:
            change = f"which changes by a factor of at most {render(self.value)}"
            return f"{what} moves by at most its own scale, {change}"
        return f"{what} moves by at most {render(self.value)} in {self.norm} distance"


@dataclass(frozen=True, slots=True)
class EventBound:
    """An event has at most this probability under every dataset of the domain.

    ``in_output``: whether what is released (the transcript, with everything it could show) decides
    the event, so that it is the same set of outputs for both neighbors.
    """

    event: str
    probability: Fraction
    in_output: bool
    adjacency: AnyAdjacency
    domain: Domain
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "EventBound")

    def __str__(self) -> str:
        where = "seen in the output" if self.in_output else "hidden in the coins"
        return f"{self.event} ({where}) has probability at most {render(self.probability)}"


@dataclass(frozen=True, slots=True)
class PrivacyClaim:
    """A guarantee for every neighboring pair of datasets of a domain."""

    guarantee: Guarantee
    adjacency: AnyAdjacency
    domain: Domain
    status: Status
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "PrivacyClaim")

    def __str__(self) -> str:
        return f"{self.guarantee} under {self.adjacency}, for {self.domain} [{self.status}]"


Statement = TypeVar("Statement", Sensitivity, EventBound, PrivacyClaim, covariant=True)


@dataclass(frozen=True, slots=True)
class Derivation(Generic[Statement]):
    """A statement with the rule that gave it and the derivations of its premises.

    ``str()`` is the proof tree. ``obligation`` is set on lemmas: the function in spec/ that shows
    the statement, as "path:function".
    """

    conclusion: Statement
    rule: str
    premises: tuple[AnyDerivation, ...]
    source: Source
    status: Status
    obligation: str = ""
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "Derivation")

    def nodes(self) -> Iterator[AnyDerivation]:
        """This node and everything below it, each once per use."""
        yield self
        for premise in self.premises:
            yield from premise.nodes()

    @property
    def lemmas(self) -> tuple[AnyDerivation, ...]:
        """The leaves that no rule proves; each names its obligation. In order of first use."""
        found = {
            (node.conclusion, node.obligation): node for node in self.nodes() if node.obligation
        }
        return tuple(found.values())

    def __str__(self) -> str:
        return self.tree()

    def tree(self, note: Callable[[AnyDerivation], str] | None = None) -> str:
        """The proof tree; ``note`` may add a line to each node."""
        return "\n".join(self._lines(note))

    def _lines(self, note: Callable[[AnyDerivation], str] | None) -> list[str]:
        where = f"; shown by spec/{self.obligation}" if self.obligation else ""
        lines = [str(self.conclusion), f"   by {self.rule} ({self.source}{where})"]
        if note is not None and (more := note(self)):
            lines.append(f"   {more}")
        for i, premise in enumerate(self.premises):
            last = i == len(self.premises) - 1
            first, *rest = premise._lines(note)
            lines.append(f"   {'└─' if last else '├─'} {first}")
            lines.extend(f"   {'  ' if last else '│ '} {line}" for line in rest)
        return lines


AnyDerivation = Derivation[Sensitivity] | Derivation[EventBound] | Derivation[PrivacyClaim]
