"""Claims and their proof trees, which only the rules (``dpverify.privacy.rules``) make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Generic, TypeVar

from dpverify.privacy.adjacency import Adjacency, AnyAdjacency, AnyDomain, Domain, Friendly
from dpverify.privacy.build import build
from dpverify.privacy.guarantees import Guarantee
from dpverify.privacy.hypotheses import (
    NONE,
    Absent,
    Compared,
    Hypotheses,
    Quantity,
    Seen,
    listed,
    seen,
)
from dpverify.privacy.numbers import render
from dpverify.privacy.sealed import sealed
from dpverify.privacy.sources import Source
from dpverify.privacy.tails import Tail

RULES_KEY = object()
"""Key held by the rules. Python cannot stop a forger; this stops a mistake."""


class Status(Enum):
    """Trust in a statement. A conclusion is as weak as its weakest premise."""

    PROVED = "proved"
    CONJECTURED = "conjectured"
    REFUTED = "refuted"

    def __str__(self) -> str:
        return self.value


_WEAKNESS = {Status.PROVED: 0, Status.CONJECTURED: 1, Status.REFUTED: 2}


def weakest(*statuses: Status) -> Status:
    """Return the status of a conclusion that rests on all of these."""
    return max(statuses, key=_WEAKNESS.__getitem__, default=Status.PROVED)


class Norm(Enum):
    """The measure of distance between two query values.

    SQUARED_L2: the square of the Euclidean distance, which is rational where that is not.
    RANGE: the largest change of a coordinate minus the smallest.
    ONE_WAY: the largest change of a coordinate, where none moves against another.
    KEYS: one record touches at most so many keys of a histogram and adds one to each.
    MOVED: the histogram counts a public number of things, of which so many go to other keys.
    KEEP: the sum over records of the changes of their keep-probabilities; when those that fall
    are lowered first and the others raised then, every set of kept records on the way is
    friendly.
    SMOOTH: numbers, each with a scale of its own; a number moves by at most the smaller of its
    scales on the two sides, and the scale changes by at most this factor.
    COUPLED: of a randomized map to datasets; its images of neighbors can be drawn together so
    that at most so many steps of an adjacency lead from one to the other, for certain.
    STABLE: so many values, each with its distance from the nearest dataset where it is another;
    between neighbors a value stays and its distance changes by at most 1, or it changes and
    both distances are 1.
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
    COUPLED = "coupled"
    STABLE = "stable values"

    def __str__(self) -> str:
        return self.value


def _made_by_a_rule(key: object, what: str) -> None:
    if key is not RULES_KEY:
        raise TypeError(
            f"A {what} is made only by the rules in dpverify.privacy.rules, so that it cannot say "
            "more than its proof; for a claim you cannot prove write rules.conjecture(...)."
        )


class Made:
    """A statement that only the rules make.

    It has no subclasses, and a copy from another build is refused.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if any(base is not Made and issubclass(base, Made) for base in cls.__bases__):
            raise TypeError(
                f"{cls.__name__} would look like what the rules have made without their having "
                "made it; what is no theorem is rules.conjecture(...)."
            )

    def __setstate__(self, state: object) -> None:
        raise TypeError(f"A {type(self).__name__} is made by the rules, and by nothing else.")

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]
        return _again, (type(self), build(), values)


def _again(cls: type[Any], made_by: str, values: tuple[Any, ...]) -> Any:
    """Restore a pickled statement. Raises ValueError if other code than this has made it."""
    if made_by != build():
        raise ValueError(
            f"This {cls.__name__} was made by another build of dpverify ({made_by[:12]}, and "
            f"this is {build()[:12]}), whose rules may differ; derive it again here."
        )
    return cls(*values, key=RULES_KEY)


@sealed
@dataclass(frozen=True, slots=True)
class Sensitivity(Made):
    """Bound on how far a query's integer value can move between neighboring datasets of the domain.

    keeps: the friends that a filter keeps, where the query is the scores or probabilities by
    which the filter decides: the kept records of neighbors are equal, or neighbors of this
    kind. For coupled datasets, the adjacency whose steps are counted.
    hypotheses: the conditions that the bound rests on.
    """

    query: Quantity
    norm: Norm
    value: Fraction
    adjacency: AnyAdjacency
    domain: Domain
    keeps: Friendly | Adjacency | None = None
    hypotheses: Hypotheses = NONE
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "Sensitivity")

    def __str__(self) -> str:
        friends = self.keeps.predicate if isinstance(self.keeps, Friendly) else ""
        what = f"{self.query} (friends by {friends})" if friends else self.query
        values, most = f"neighbors' values of {what}", render(self.value)
        if self.norm is Norm.SMOOTH:
            change = f"which changes by a factor of at most {most}"
            shown = f"{values} differ by at most its own scale, {change}"
        elif self.norm is Norm.COUPLED:
            steps = f"at most {most} {'step' if self.value == 1 else 'steps'} of {self.keeps}"
            shown = f"{values} can be drawn together so that {steps} lead from one to the other"
        elif self.norm is Norm.KEYS:
            shown = (
                f"one record has at most {most} {'key' if self.value == 1 else 'keys'} in {what}"
            )
        elif self.norm is Norm.MOVED:
            shown = f"{values} differ in the keys of at most {most} of the things that are counted"
        elif self.norm is Norm.KEEP:
            shown = f"{values} differ by at most {most}, added up over the records"
        elif self.norm is Norm.STABLE:
            shown = (
                f"each of {most} values in {what} is the same for neighbors, at distances from a "
                "change that differ by at most 1, or is another, at distance 1 in both"
            )
        else:
            shown = f"{values} differ by at most {most} in {self.norm} distance"
        return f"{shown}{_condition(self.hypotheses)}"


@sealed
@dataclass(frozen=True, slots=True)
class EventBound(Made):
    """Bound on the probability of a rare event: that ``fails`` does not hold.

    The bound holds for every pair of neighbors and under both of its datasets.
    """

    fails: Compared | Absent
    probability: Fraction
    adjacency: AnyAdjacency
    domain: Domain
    hypotheses: Hypotheses = NONE
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "EventBound")

    @property
    def seen(self) -> Seen:
        """Part of a run that decides the event for a fixed pair."""
        return seen(self.fails)

    def __str__(self) -> str:
        likely = f"an event of probability at most {render(self.probability)}"
        shown = f"{likely}: {self.fails.negation} ({self.seen})"
        return f"{shown}{_condition(self.hypotheses)}"


@sealed
@dataclass(frozen=True, slots=True)
class PrivacyClaim(Made):
    """A guarantee for every neighboring pair of datasets of a domain.

    hypotheses: the claim speaks of those outcomes only at which all of these hold. While there
    are any, the claim is open: it can be neither converted, recorded nor released.
    """

    guarantee: Guarantee
    adjacency: AnyAdjacency
    domain: AnyDomain
    status: Status
    hypotheses: Hypotheses = NONE
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "PrivacyClaim")

    def __str__(self) -> str:
        how = f"open{_condition(self.hypotheses)}" if self.hypotheses else self.status
        return f"{self.guarantee} under {self.adjacency}, for {self.domain} [{how}]"


def _condition(hypotheses: Hypotheses) -> str:
    return f", if {listed(hypotheses)}" if hypotheses else ""


Statement = TypeVar("Statement", Sensitivity, EventBound, PrivacyClaim, covariant=True)


@sealed
@dataclass(frozen=True, slots=True)
class Derivation(Made, Generic[Statement]):
    """A statement with the rule that gave it and the derivations of its premises.

    ``str()`` is the proof tree. ``obligation`` is set on lemmas: the function in spec/ that
    shows the statement, as "path:function". ``noise`` is set where noise of known tails was
    added to a query: the law of the noise and its scale.
    """

    conclusion: Statement
    rule: str
    premises: tuple[AnyDerivation, ...]
    source: Source
    status: Status
    obligation: str = ""
    noise: tuple[Tail, Fraction] | None = None
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        _made_by_a_rule(key, "Derivation")

    def nodes(self) -> Iterator[AnyDerivation]:
        """Yield this node and everything below it, each once per use."""
        yield self
        for premise in self.premises:
            yield from premise.nodes()

    @property
    def lemmas(self) -> tuple[AnyDerivation, ...]:
        """Leaves that no rule proves, in order of first use; each names its obligation."""
        leaves = {
            (node.conclusion, node.obligation): node for node in self.nodes() if node.obligation
        }
        return tuple(leaves.values())

    @property
    def events(self) -> tuple[AnyDerivation, ...]:
        """Rare events that the claim pays for, in order of first use."""
        events = {
            node.conclusion: node
            for node in self.nodes()
            if isinstance(node.conclusion, EventBound)
        }
        return tuple(events.values())

    def __str__(self) -> str:
        return self.tree()

    def tree(self, note: Callable[[AnyDerivation], str] | None = None) -> str:
        """Return the proof tree; ``note`` may add a line to each node."""
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
