"""Statements of obligations, as data, so that a lemma can be compared with its obligation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dpverify.privacy.adjacency import Adjacency, Friendly
from dpverify.privacy.derivation import Norm, Sensitivity
from dpverify.privacy.hypotheses import (
    Absent,
    Compared,
    Hypothesis,
    Parameter,
    Passed,
    Relation,
    Seen,
    Side,
)

_Obligation = TypeVar("_Obligation", bound=Callable[..., Any])
_ATTRIBUTE = "__dpverify_shows__"


@dataclass(frozen=True, slots=True)
class Assumed:
    """A hypothesis under which an obligation shows its statement.

    A released number is at most (at least) the quantity of this kind of one of the neighbors,
    less ``slack``.

    same: parameters in which the quantity equals the statement's query.
    fixed: parameters of the quantity, with their values.
    stage: name of the stage whose number the query reads, empty for any.
    built: the query was built from the number, which stands for the released one.
    bounds: the parameter of the query that stands for the released number, or for the most rows
    of the domain.
    """

    relation: Relation
    side: Side
    kind: str
    slack: int = 0
    same: tuple[str, ...] = ()
    fixed: tuple[tuple[str, Parameter], ...] = ()
    stage: str = ""
    built: bool = False
    bounds: str = ""

    def is_made(self, statement: Sensitivity) -> bool:
        """Return whether the statement rests on this assumption, or on a stronger one."""
        most, of_rows = statement.domain.most_rows, self.relation is Relation.AT_LEAST
        if self.bounds and of_rows and most is not None:
            enough: bool = most <= _number(statement.query[self.bounds])
            return enough or self._is_assumed(statement)
        return self._is_assumed(statement)

    def _is_assumed(self, statement: Sensitivity) -> bool:
        return any(self._follows(one, statement) for one in statement.hypotheses)

    def _follows(self, one: Hypothesis, statement: Sensitivity) -> bool:
        if not isinstance(one, Compared) or (one.relation, one.side) != (self.relation, self.side):
            return False
        asked = (*((name, statement.query[name]) for name in self.same), *self.fixed)
        alike = {*asked} <= {*one.quantity.parameters}
        if self.stage not in ("", one.stage):
            return False
        if self.bounds and one.value != statement.query[self.bounds]:
            return False
        if not self.bounds and one.is_instance is not self.built:
            return False
        at_most = self.relation is Relation.AT_MOST
        strong = one.slack >= self.slack if at_most else one.slack <= self.slack
        return one.quantity.kind == self.kind and alike and strong


@dataclass(frozen=True, slots=True)
class AssumedPassed:
    """The assumption that a number which another assumption is about is at least a public
    number.
    """

    at_least: int

    def is_made(self, statement: Sensitivity) -> bool:
        """Return whether the statement rests on a gate that asks for as much.

        A statement that was built from such a number rests on it, too.
        """
        gated = {
            h.stage
            for h in statement.hypotheses
            if isinstance(h, Passed) and h.at_least >= self.at_least
        }
        compared = [h for h in statement.hypotheses if isinstance(h, Compared)]
        return bool(compared) and all(
            h.stage in gated or (h.value is not None and h.value >= self.at_least) for h in compared
        )


@dataclass(frozen=True, slots=True)
class AssumedAbsent:
    """The assumption that an event of this kind does not happen.

    same: parameters in which the subject of the event equals the statement's query.
    """

    seen: Seen
    same: tuple[str, ...] = ()

    def is_made(self, statement: Sensitivity) -> bool:
        """Return whether the statement rests on the absence of such an event."""
        return any(self._is_absent(one, statement) for one in statement.hypotheses)

    def _is_absent(self, one: Hypothesis, statement: Sensitivity) -> bool:
        if not isinstance(one, Absent) or one.seen is not self.seen:
            return False
        own = {} if one.about is None else dict(one.about.parameters)
        return all(own.get(name) == statement.query[name] for name in self.same)


Assumption = Assumed | AssumedPassed | AssumedAbsent


@dataclass(frozen=True, slots=True)
class Premise:
    """A premise of a lemma, from which the lemma's parameters are taken.

    kind: the kind of the premise's query, or any.
    """

    norm: Norm
    value: Any
    kind: str = ""

    def is_given(self, premise: object) -> bool:
        """Return whether the premise says this, or more."""
        if not isinstance(premise, Sensitivity):
            return False
        known = self.kind in ("", premise.query.kind)
        return known and premise.norm is self.norm and bool(premise.value <= self.value)


@dataclass(frozen=True, slots=True)
class Shown:
    """The statement that an obligation shows, for all values of its parameters.

    kind: the kind of the query.
    norms: the norms that the query is measured in.
    value: a function from a sensitivity statement (its parameters and adjacency) to the least
    number for which it is shown, computed by the spec; None where nothing is shown.
    under: the hypotheses.
    keeps: a function from the statement to the friends that are kept (or the adjacency of
    coupled datasets); None where nothing is shown of that.
    premises: the premises that the lemma must have, in order.
    friendly: whether the statement is about friendly neighbors, else about those of an
    ``Adjacency``.
    """

    kind: str
    norms: tuple[Norm, ...]
    value: Callable[[Sensitivity], Any]
    under: Callable[[Sensitivity], tuple[Assumption, ...]]
    keeps: Callable[[Sensitivity], Friendly | Adjacency | None]
    premises: Callable[[Sensitivity], tuple[Premise, ...]]
    friendly: bool

    def why_not(self, statement: Sensitivity, premises: Sequence[object] = ()) -> str | None:
        """Return None if the statement follows from what is shown; otherwise how they differ."""
        if statement.query.kind != self.kind:
            return f"it is about {statement.query.kind!r}, what is shown about {self.kind!r}"
        if statement.norm not in self.norms:
            return f"it is in {statement.norm} distance, which is not what is shown"
        if not isinstance(statement.adjacency, Friendly if self.friendly else Adjacency):
            return f"nothing is shown under {statement.adjacency}"
        try:
            return (
                self._why_not_as_much(statement)
                or self._why_not_under(statement, premises)
                or self._why_not_kept(statement)
            )
        except KeyError as unknown:
            return f"it has no parameter {unknown}, on which what is shown depends"

    def _why_not_as_much(self, statement: Sensitivity) -> str | None:
        least = self.value(statement)
        if least is None:
            return f"nothing is shown under {statement.adjacency} with such parameters"
        if not least <= statement.value:
            return f"it says {statement.value}, and {least} is shown"
        return None

    def _why_not_under(self, statement: Sensitivity, premises: Sequence[object]) -> str | None:
        missing = [one for one in self.under(statement) if not one.is_made(statement)]
        if missing:
            return f"it does not assume {', '.join(map(str, missing))}"
        asked = self.premises(statement)
        if asked and len(asked) != len(premises):
            return f"it has {len(premises)} premises, and is shown of {len(asked)}"
        for wanted, premise in zip(asked, premises, strict=False):
            if not wanted.is_given(premise):
                return f"its premise is that {premise}, and what is shown needs {wanted}"
        return None

    def _why_not_kept(self, statement: Sensitivity) -> str | None:
        if statement.keeps is None:
            return None
        kept = self.keeps(statement)
        known = statement.keeps is kept
        if isinstance(statement.keeps, Friendly) and isinstance(kept, Friendly):
            known = statement.keeps.includes(kept)
        if not known:
            return (
                f"it says that {statement.keeps} are kept, and {kept or 'nothing of that'} is shown"
            )
        return None


def shows(
    kind: str,
    *norms: Norm,
    value: Callable[[Sensitivity], Any],
    under: Callable[[Sensitivity], tuple[Assumption, ...]] = lambda s: (),
    keeps: Callable[[Sensitivity], Friendly | Adjacency | None] = lambda s: None,
    premises: Callable[[Sensitivity], tuple[Premise, ...]] = lambda s: (),
    friendly: bool = False,
) -> Callable[[_Obligation], _Obligation]:
    """Mark an obligation as showing this statement; it may show several.

    The arguments are as in ``Shown``.
    """

    def mark(obligation: _Obligation) -> _Obligation:
        made = Shown(kind, norms, value, under, keeps, premises, friendly)
        setattr(obligation, _ATTRIBUTE, (made, *shown_by(obligation)))
        return obligation

    return mark


def of_query(function: Callable[..., Any], *names: str) -> Callable[[Sensitivity], Any]:
    """Return the spec's function of these parameters of a query, and then of the adjacency.

    Query and adjacency are those of the statement.
    """
    return lambda s: function(*(s.query[name] for name in names), s.adjacency)


def shown_by(obligation: object) -> tuple[Shown, ...]:
    """Return the statements that ``shows`` recorded on an obligation, none if it was not marked."""
    shown: tuple[Shown, ...] = getattr(obligation, "__dict__", {}).get(_ATTRIBUTE, ())
    return shown


def why_not_shown(
    statement: object, obligation: object, premises: Sequence[object] = ()
) -> str | None:
    """Return None if the obligation shows the lemma's statement; otherwise why not.

    The answer has a reason for each statement that the obligation shows.

    premises: the statements of the lemma's premises.
    """
    if not isinstance(statement, Sensitivity):
        return "only sensitivities are declared by obligations"
    reasons = [one.why_not(statement, premises) for one in shown_by(obligation)]
    if None in reasons:
        return None
    return (
        "; ".join(filter(None, reasons))
        or "the obligation declares no statement: write @shows(...)"
    )


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number of rows.")
    return value
