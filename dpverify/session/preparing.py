"""Preparation of an answer, without reading a record: mechanisms, disjoint selections, one
derivation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.mechanisms.noisy_count import NoisyCount
from dpverify.mechanisms.private_quantile import QuantileEstimate
from dpverify.plans import Abstained, Chunks, Law, Mechanism
from dpverify.plans.streaming import streaming
from dpverify.privacy import (
    Adjacency,
    Derivation,
    GaussianDP,
    Guarantee,
    PrivacyClaim,
    PureDP,
    Status,
    ZeroConcentratedDP,
    rules,
)
from dpverify.randomness import Bits
from dpverify.session.account import Account
from dpverify.session.accounting import Unit
from dpverify.session.answers import ColumnMean, Quantiles
from dpverify.session.calibrating import additive_part, calibrated, wholes_of
from dpverify.session.choices import Choice, bounds_of, choose
from dpverify.session.moments import Deviation, Moments
from dpverify.session.questions import Question
from dpverify.session.tallies import Tally, tally_of
from dpverify.tables import Selection, Table


@dataclass(frozen=True, slots=True)
class Piece:
    """One release: its group and its selection."""

    group: Any
    selection: Selection


@dataclass(frozen=True, slots=True)
class Together:
    """Releases of one mechanism on disjoint selections, or on a single one."""

    mechanism: Mechanism[Any]
    pieces: tuple[Piece, ...]
    disjoint: bool

    def derivation(self, adjacency: Adjacency) -> Derivation[PrivacyClaim]:
        """Derive the joint claim of the releases about the table: the dearest one's claim, paid
        once.
        """
        own = self.mechanism.derivation
        if not self.disjoint:
            return self.pieces[0].selection.carry(own, adjacency)
        each = [piece.selection.carry(own, Adjacency.ADD_REMOVE) for piece in self.pieces]
        return rules.parallel(each, by="value", adjacency=adjacency)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question with its calibrated mechanisms and the claim of its answer. Nothing was read or
    released.
    """

    question: Question
    together: tuple[Together, ...]
    why: str
    derivation: Derivation[PrivacyClaim]
    tally: Tally | None = None

    @property
    def mechanism(self) -> Mechanism[Any]:
        """The mechanism, or the first of several that differ in one parameter."""
        return self.together[0].mechanism

    @property
    def selects(self) -> bool:
        """Tell whether a record can be left out of an answer: then the number that count is
        private under replace too.
        """
        return self.together[0].disjoint or self.together[0].pieces[0].selection.conditions != ()

    def expected_error(self, n: int) -> float:
        """Predict the root mean square of the noise, as the mechanism does; for counts that of
        one count, for a covariance with the mean in the middle of the bounds.
        """
        each = [one.mechanism.expected_error(n) for one in self.together]
        error = math.hypot(*each) / math.sqrt(len(each))  # for a single mechanism its own
        if self.tally is not None:
            return error / math.sqrt(self.tally.bins)
        if self.question.kind == "standard_deviation":
            raise ValueError(
                "The error of a standard deviation depends on how large it is, about the "
                "variance's over twice of it; ask for that of 'variance'."
            )
        if self.question.kind not in _OF_SPREAD:
            return error
        half = np.array([b / 2 - a / 2 for a, b in self._bounds()])
        return error / len(half) * float(half @ half)

    def chunks(self) -> list[tuple[Mechanism[Any], Chunks]]:
        """Return each mechanism with what it reads chunk by chunk; nothing for a table in
        memory.
        """
        pairs = [(one, piece) for one in self.together for piece in one.pieces]
        if not pairs or pairs[0][1].selection.table.chunks is None:
            return []
        return [(one.mechanism, piece.selection.records) for one, piece in pairs]

    def release(self, bits: Bits | None, laws: Iterator[Law]) -> dict[Any, Any]:
        """Draw all releases, and return the result of each group. Records are read, so only after
        the spend.

        laws: the laws of what is read chunk by chunk, in the order of ``chunks``, by one pass for
        all.
        """
        releases: dict[Any, list[Any]] = {}
        for together in self.together:
            for piece in together.pieces:
                law = next(laws, None)
                taken = piece.selection.records if law is None else law
                released = together.mechanism.release(taken, bits)
                releases.setdefault(piece.group, []).append(released)
        if self.tally is not None:
            return self.tally.results(releases[None][0])
        return {group: self._result(released) for group, released in releases.items()}

    def _result(self, released: list[Any]) -> Any:
        if len(released) == 1:
            return self._scalar(released[0])
        stopped = next((one for one in released if isinstance(one, Abstained)), None)
        if stopped is not None:
            return stopped
        return Quantiles(tuple(map(_value, released)))

    def _bounds(self) -> list[tuple[float, float]]:
        """Return the declared bounds of the question's columns."""
        types = self.together[0].pieces[0].selection.types
        return [bounds_of(name, kind, self.question.kind) for name, kind in types.items()]

    def _scalar(self, released: Any) -> Any:
        """Return the mean of a single column as a number, and what follows from moments."""
        if isinstance(released, MomentMatrixEstimate):
            return self._of_moments(released)
        if self.question.kind != "mean" or not isinstance(released, VectorMeanEstimate):
            return released
        if len(released.value) > 1:
            return released
        ((low, high),) = self._bounds()
        return ColumnMean.of(released, low, high)

    def _of_moments(self, released: MomentMatrixEstimate) -> Any:
        """Return what follows from released moments, by the question's kind."""
        kind, given = self.question.kind, self.question.given
        if kind in _OF_SPREAD:
            moments = Moments(released)
            return Deviation(moments) if kind == "standard_deviation" else moments
        if kind == "principal_components":
            return released.principal_components(given["k"])
        if kind != "regression":
            return released
        names, target = list(self.question.columns), given["target"]
        places = names.index(target) if isinstance(target, str) else list(map(names.index, target))
        return released.regression(places, ridge=given.get("ridge"))


_OF_SPREAD = ("variance", "standard_deviation", "covariance")


def prepare(
    question: Question,
    table: Table,
    account: Account,
    share: Fraction | None,
    budget: Guarantee | None,
) -> Prepared:
    """Choose mechanisms for a question, calibrate them to its part of the budget, and derive the
    answer's claim.

    Raises TypeError or ValueError, from public facts alone: declared types, the adjacency, the
    account.
    """
    unit = _unit_of(budget) or account.unit
    tally = tally_of(question, table, unit)
    if tally is not None:
        pieces: tuple[Piece, ...] = (Piece(None, tally.selection),)
        chosen: Sequence[Choice] = [tally.choice]
    else:
        groups = question.groups(table)
        types = next(iter(groups.values())).types
        pieces = tuple(Piece(group, selection) for group, selection in groups.items())
        under = _needed(pieces, account.adjacency)
        chosen = choose(question, types, unit, additive_part(account, share), under)
    adjacency, disjoint = account.adjacency, len(pieces) > 1
    if adjacency is Adjacency.REPLACE and not disjoint:
        if chosen[0].kind is NoisyCount and not pieces[0].selection.leaves_out:
            raise ValueError(
                "count: under replace the number of records is public, so it costs nothing; "
                "count those that where={...} keeps, or use Adjacency.ADD_REMOVE."
            )
        pieces, chosen = _masked(pieces[0], chosen)
    needed = _needed(pieces, adjacency)
    steps = 2 if needed is not adjacency else 1
    wholes = wholes_of(account, share, budget, len(chosen))
    made = [calibrated(choice, wholes, steps, needed) for choice in chosen]
    for mechanism in made:
        mechanism.require_drawable()
    together = tuple(Together(mechanism, pieces, disjoint) for mechanism in made)
    if table.chunks is not None:
        _refuse_all_at_once(question, made)
    if needed is Adjacency.REPLACE:
        _refuse_too_few(question, made, table.private_number_of_rows)
    shown = rules.compose(*(one.derivation(adjacency) for one in together))
    if shown.conclusion.status is not Status.PROVED:
        raise ValueError(
            f"{question}: the claim of {type(made[0]).__name__} is {shown.conclusion.status}, and "
            "a session answers with proved "
            "claims alone. Nothing was spent."
        )
    return Prepared(question, together, chosen[0].why, shown, tally)


def _needed(pieces: Sequence[Piece], adjacency: Adjacency) -> Adjacency:
    """Return the adjacency that the mechanism needs: add-remove where a record can change its
    group.
    """
    if len(pieces) > 1:
        return Adjacency.ADD_REMOVE
    return pieces[0].selection.adjacency_needed(adjacency)


def _unit_of(budget: Guarantee | None) -> Unit | None:
    """Return the unit whose noise suits a budget of its own; None for budgets that either suits."""
    if isinstance(budget, PureDP):
        return "epsilon"
    return "gaussian" if isinstance(budget, (GaussianDP, ZeroConcentratedDP)) else None


def _masked(piece: Piece, chosen: Sequence[Choice]) -> tuple[tuple[Piece, ...], Sequence[Choice]]:
    """Let records that are left out under replace count as a value of no weight, where the
    mechanism has one.
    """
    masking = chosen[0].masking
    if masking is None or not piece.selection.leaves_out:
        return (piece,), chosen
    filled = replace(piece, selection=piece.selection.filled(masking[0]))
    return (filled,), [choice.masked() for choice in chosen]


def _refuse_too_few(question: Question, made: Sequence[Mechanism[Any]], rows: int) -> None:
    """Refuse too few records under replace, where the number of rows is public, before anything
    is spent.
    """
    fewest = max(mechanism.fewest_records() for mechanism in made)
    if rows < fewest:
        raise ValueError(
            f"{question}: the table has {rows} rows, and {type(made[0]).__name__} needs at least "
            f"{fewest}. (Under replace the "
            "number of rows is public.) Nothing was spent."
        )


def _refuse_all_at_once(question: Question, made: Sequence[Mechanism[Any]]) -> None:
    """Refuse a mechanism that does not add up over the chunks of a table, before anything is
    spent.
    """
    for mechanism in made:
        try:
            streaming(mechanism.fixed_plan).check(type(mechanism).__name__)
        except TypeError as error:
            raise ValueError(f"{question}: {error} Nothing was spent.") from None


def _value(released: Any) -> float:
    assert isinstance(released, QuantileEstimate)
    return released.value
