"""Hypotheses: conditions on a pair of neighbors and on what was released to them.

A statement under hypotheses speaks of those outcomes only at which all of them hold. A rule
about one pair of neighbors hands them on; only a rule that pays for their failure, or sees that
they cannot fail, takes them away; a rule that changes the pair refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from dpverify.privacy.numbers import render, whole
from dpverify.privacy.sealed import sealed

Parameter = int | str | Fraction | bool | None | tuple["Parameter", ...]


@sealed
@dataclass(frozen=True, slots=True)
class Quantity:
    """An integer function of a dataset, as data: its ``kind``, its parameters, and words for it."""

    words: str
    kind: str = ""
    parameters: tuple[tuple[str, Parameter], ...] = ()

    @classmethod
    def of(cls, words: str, kind: str, **parameters: Parameter) -> Quantity:
        """Return the quantity of this kind, with its parameters by name."""
        for name, value in parameters.items():
            _require_parameter(name, value)
        return cls(words, kind, tuple(sorted(parameters.items())))

    def __str__(self) -> str:
        return self.words

    def __getitem__(self, name: str) -> Parameter:
        """Return the parameter of this name; KeyError where there is none."""
        return dict(self.parameters)[name]

    def without(self, *names: str) -> Quantity:
        """Return the quantity with fewer parameters: one for all values of those left out."""
        kept = tuple((name, value) for name, value in self.parameters if name not in names)
        return Quantity(self.words, self.kind, kept)


class Side(Enum):
    """The side of a pair of neighbors: which of the two values of a quantity is meant."""

    SMALLER = "smaller"
    LARGER = "larger"

    def __str__(self) -> str:
        return self.value


class Relation(Enum):
    """The order between a released number and a quantity."""

    AT_MOST = "at most"
    AT_LEAST = "at least"

    def __str__(self) -> str:
        return self.value


class Seen(Enum):
    """Part of a run that decides an event for a fixed pair of neighbors.

    OUTPUT: what is released, so that the event is the same set of outputs for both neighbors.
    LATENT: the records that a filter keeps, with the coins of the record that only one of the
    neighbors has.
    COINS: any coins.
    """

    OUTPUT = "seen in the output"
    LATENT = "seen in what is kept"
    COINS = "hidden in the coins"

    def __str__(self) -> str:
        return self.value


@sealed
@dataclass(frozen=True, slots=True)
class Compared:
    """The hypothesis that a released number is at most (at least) a quantity, less ``slack``.

    stage: the stage that released the number.
    quantity: a function of the dataset, taken at one of the two neighbors.
    side: that neighbor, where the quantity is smaller, or larger.
    value: only of a stage that was built from a transcript: the number that it was built from,
    which stands for the released one.
    """

    stage: str
    relation: Relation
    side: Side
    quantity: Quantity
    slack: int = 0
    value: int | None = None

    def __post_init__(self) -> None:
        whole(self.slack, "slack")
        if self.value is not None:
            whole(self.value, "value")

    def __str__(self) -> str:
        released = f"the released {self.stage!r}"
        what = released if self.value is None else f"{self.value}, for {released},"
        return f"{what} is {self.relation} {self._bound}"

    @property
    def negation(self) -> str:
        """The event that the hypothesis fails, in words."""
        worse = "above" if self.relation is Relation.AT_MOST else "below"
        return f"the released {self.stage!r} is {worse} {self._bound}"

    @property
    def _bound(self) -> str:
        off = (
            "" if not self.slack else f", {'less' if self.slack > 0 else 'plus'} {abs(self.slack)}"
        )
        return f"the {self.side} of the neighbors' values of {self.quantity}{off}"

    @property
    def is_instance(self) -> bool:
        """True if a number stands for the released one."""
        return self.value is not None

    def covers(self, instance: Compared) -> bool:
        """Return whether the instance is about the same released number and quantity."""
        same = (self.stage, self.relation, self.side, self.quantity)
        return (
            not self.is_instance
            and instance.is_instance
            and same == (instance.stage, instance.relation, instance.side, instance.quantity)
        )

    def gives(self, instance: Compared, released: int) -> bool:
        """Return whether the instance follows from this hypothesis where ``released`` was released.

        released <= q - slack gives value <= q - its slack if value + its slack <= released +
        slack.
        """
        if not self.covers(instance) or instance.value is None:
            return False
        own, other = released + self.slack, instance.value + instance.slack
        return other <= own if self.relation is Relation.AT_MOST else other >= own


@sealed
@dataclass(frozen=True, slots=True)
class Passed:
    """The hypothesis that the number which ``stage`` released is at least a public one.

    A gate ensures this.
    """

    stage: str
    at_least: int

    def __post_init__(self) -> None:
        whole(self.at_least, "at_least")

    def __str__(self) -> str:
        return f"the released {self.stage!r} is at least {self.at_least}"


@sealed
@dataclass(frozen=True, slots=True)
class Absent:
    """The hypothesis that an event does not happen.

    seen: the part of a run that decides the event.
    about: what it is an event of, as data.
    """

    event: str
    seen: Seen
    about: Quantity | None = None

    def __str__(self) -> str:
        return f"not: {self.event}"

    @property
    def negation(self) -> str:
        """The event, in words."""
        return self.event


Hypothesis = Compared | Passed | Absent
Hypotheses = frozenset[Hypothesis]
NONE: Hypotheses = frozenset()


def seen(hypothesis: Compared | Absent) -> Seen:
    """Return what decides, for a fixed pair, whether the hypothesis fails.

    The output decides it if it is about a released number.
    """
    return hypothesis.seen if isinstance(hypothesis, Absent) else Seen.OUTPUT


def checked(hypotheses: Iterable[Hypothesis]) -> Hypotheses:
    """Return the set of these hypotheses. Raises TypeError for what is none."""
    made = frozenset(hypotheses)
    for one in made:
        if type(one) not in (Compared, Passed, Absent):
            raise TypeError(f"{one!r} is not a hypothesis; give Compared(...), Passed or Absent.")
    return made


def of_block(hypothesis: Hypothesis, block: int) -> Hypothesis:
    """Return a hypothesis about one block of the records as one about all of them.

    Its stage and its quantity are those of the block: nothing that is known of all records pays
    for it.
    """
    where = f"block {block}"
    if isinstance(hypothesis, Absent):
        return replace(hypothesis, event=f"{hypothesis.event}, in {where}")
    stage = f"{hypothesis.stage} of {where}"
    if isinstance(hypothesis, Passed):
        return replace(hypothesis, stage=stage)
    whole_one = hypothesis.quantity
    words = f"{whole_one.words}, in {where}"
    quantity = Quantity.of(words, whole_one.kind, block=block, of=whole_one.parameters)
    return replace(hypothesis, stage=stage, quantity=quantity)


def listed(hypotheses: Hypotheses) -> str:
    """Return all hypotheses in words, in one order."""
    return " and ".join(sorted(map(str, hypotheses)))


def _require_parameter(name: str, value: object) -> None:
    if isinstance(value, tuple):
        for part in value:
            _require_parameter(name, part)
    elif not (value is None or type(value) in (int, str, bool, Fraction)):
        raise TypeError(
            f"parameter {name} = {value!r} of a quantity; give exact numbers and words, so that "
            "equal statements are equal."
        )


def described(parameters: Mapping[str, Parameter]) -> str:
    """Return the parameters in words, for messages."""
    shown = (
        f"{name} = {render(value) if isinstance(value, Fraction) else value}"
        for name, value in sorted(parameters.items())
    )
    return ", ".join(shown)
