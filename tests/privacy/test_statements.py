"""Statements that obligations declare, and statements that follow from them or do not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dpverify.privacy import Adjacency, Domain, Friendly, Norm, Relation, Side, Source, rules
from dpverify.privacy.derivation import Sensitivity
from dpverify.privacy.hypotheses import Compared, Passed, Quantity
from dpverify.privacy.statements import (
    Assumed,
    AssumedPassed,
    Premise,
    of_query,
    shown_by,
    shows,
    why_not_shown,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
TOTAL = Quantity.of("the total", "Total", unit=3)
BELOW = Compared("first", Relation.AT_MOST, Side.SMALLER, TOTAL)


def times(unit: int, adjacency: Adjacency) -> int | None:
    return 2 * unit if adjacency is REPLACE else None


@shows("Total", Norm.L1, value=of_query(times, "unit"))
@shows(
    "Mean",
    Norm.L1,
    Norm.SQUARED_L2,
    value=lambda s: 1,
    under=lambda s: (
        Assumed(Relation.AT_MOST, Side.SMALLER, "Total", same=("unit",), stage="first"),
        AssumedPassed(1),
    ),
)
@shows(
    "Twice",
    Norm.L1,
    value=lambda s: 4,
    premises=lambda s: (Premise(Norm.L1, 2, "Total"), Premise(Norm.L1, 2)),
)
@shows("Kept", Norm.L1, value=lambda s: 1, friendly=True)
def obligation_several() -> int:
    """Check nothing: an obligation for these tests."""
    return 1


def said(kind: str, value: Any, near: Any = REPLACE, norm: Norm = Norm.L1, **more: Any) -> Any:
    query = Quantity.of("words", kind, unit=more.pop("unit", 3))
    return rules.sensitivity_lemma(
        query,
        norm=norm,
        value=value,
        adjacency=near,
        domain=Domain(columns=1),
        obligation="here.py:obligation_several",
        source=Source("OURS", "a test"),
        **more,
    ).conclusion


def why_not(statement: Sensitivity, *premises: Sensitivity) -> str | None:
    return why_not_shown(statement, obligation_several, premises)


def test_an_obligation_may_show_several_statements_in_order() -> None:
    assert [one.kind for one in shown_by(obligation_several)] == ["Total", "Mean", "Twice", "Kept"]
    assert obligation_several() == 1
    assert shown_by(len) == shown_by(lambda: 1) == ()


def test_one_of_them_is_enough() -> None:
    assert why_not(said("Total", 6)) is None
    assert why_not(said("Total", 7)) is None
    assert why_not(said("Kept", 1, Friendly("distance at most 1"))) is None


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (said("Total", 5), "it says 5, and 6 is shown"),
        (said("Total", Fraction(6) - Fraction(1, 10**40)), "and 6 is shown"),
        (said("Total", 6, ADD), "nothing is shown under add-remove"),
        (said("Total", 6, norm=Norm.L_INFINITY), "it is in L-infinity distance"),
        (said("Sum", 6), "it is about 'Sum'"),
        (said("Kept", 1), "nothing is shown under replace"),
        (said("Total", 6, Friendly("distance at most 1")), "nothing is shown under friendly"),
        (said("Total", 6, keeps=Friendly("distance at most 1")), "nothing of that is shown"),
        (said("Mean", 1), "it does not assume"),
        (said("Mean", 1, hypotheses=[BELOW]), "it does not assume AssumedPassed"),
        (said("Mean", 1, hypotheses=[BELOW, Passed("second", 1)]), "AssumedPassed"),
        (said("Mean", 1, hypotheses=[Passed("first", 1)]), "it does not assume Assumed("),
        (said("Mean", 1, unit=4, hypotheses=[BELOW, Passed("first", 1)]), "Assumed("),
    ],
    ids=str,
)
def test_a_statement_that_does_not_follow_is_told_why(statement: Any, reason: str) -> None:
    assert reason in str(why_not(statement))


def test_what_is_assumed_may_be_more() -> None:
    for gate in (1, 5):
        hypotheses = [BELOW, Passed("first", gate), Passed("second", 3)]
        assert why_not(said("Mean", 1, hypotheses=hypotheses)) is None


def test_premises_must_say_what_the_lemma_takes_from_them() -> None:
    twice, two, one = said("Twice", 4), said("Total", 2), said("Sum", 1)
    assert why_not(twice, two, one) is None
    for premises in ((), (two,), (one, two), (two, said("Total", 3)), (two, one, one)):
        assert "premise" in str(why_not(twice, *premises))


def test_a_parameter_that_is_missing_is_named() -> None:
    query = Quantity.of("the total", "Total")
    statement = rules.sensitivity_lemma(
        query,
        norm=Norm.L1,
        value=100,
        adjacency=REPLACE,
        domain=Domain(columns=1),
        obligation="here.py:obligation_several",
        source=Source("OURS", "a test"),
    ).conclusion
    assert "it has no parameter 'unit'" in str(why_not(statement))


def test_an_obligation_that_is_not_marked_shows_nothing() -> None:
    assert "write @shows(...)" in str(why_not_shown(said("Total", 6), lambda: 1))
