"""Claims behind a function of each record: which domain they are for, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dpverify.privacy import (
    Adjacency,
    Domain,
    GaussianDP,
    PureDP,
    TableDomain,
    parse_guarantee,
    rules,
)

from .makers import COLUMN, NEAR, conjectured, proved

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
PEOPLE = TableDomain("people", (("age", "a number"), ("city", "a word")))
OTHERS = [
    TableDomain("pupils", PEOPLE.columns),
    TableDomain("people", PEOPLE.columns[:1]),
    TableDomain("people", (("age", "a whole number"), ("city", "a word"))),
    TableDomain("people", PEOPLE.columns[::-1]),
    COLUMN,
]


def carried(domain: Any = PEOPLE) -> Any:
    return rules.of_each_record(proved(), domain=domain, by="the age")


def kept(adjacency: Any = ADD_REMOVE) -> Any:
    return rules.of_kept_records(proved(), domain=PEOPLE, adjacency=adjacency, by="the age")


def test_claims_about_columns_of_one_table_compose() -> None:
    two = Domain(2, "replace")
    both = rules.compose(carried(), carried(domain=PEOPLE), kept())
    assert both.conclusion.guarantee == PureDP(3)
    assert both.conclusion.domain == PEOPLE
    pair = rules.of_each_record(
        proved(domain=two), domain=PEOPLE, by="two columns, of which bad ones are replaced"
    )
    assert rules.compose(carried(), pair).conclusion.guarantee == PureDP(2)
    with pytest.raises(ValueError, match="do not compose: one is for finite float64 records"):
        rules.compose(proved(), proved(domain=two))


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_claims_about_two_tables_do_not(other: Any) -> None:
    with pytest.raises(ValueError, match="do not compose: one is for rows of the table 'people'"):
        rules.compose(carried(), carried(domain=other))


def test_leaving_out_is_paid_for_twice_under_replace_alone() -> None:
    assert kept().conclusion.guarantee == PureDP(1)
    assert kept(adjacency=REPLACE).conclusion.guarantee == PureDP(2)
    assert kept(adjacency=REPLACE).conclusion.adjacency is REPLACE
    one = conjectured(GaussianDP(1))
    two = rules.of_kept_records(one, domain=PEOPLE, adjacency=REPLACE, by="x").conclusion
    assert two.guarantee == GaussianDP(2)
    assert two.status is one.status
    with pytest.raises(ValueError, match="do not compose: one is under add-remove"):
        rules.compose(kept(), kept(adjacency=REPLACE))


KINDS = (
    "perfect", "pure(1)", "approx(1, 1e-6)", "zcdp(1/2)", "gaussian(1)", "agaussian(1, 1e-6, 1e-7)",
    "range(1)", "profile(pure(1), gaussian(1), delta 1e-6)",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_guarantee_is_kept_or_paid_for_as_two_steps(kind: str) -> None:
    """Two steps are what a change of adjacency costs, which is held against the spec elsewhere."""
    own = conjectured(parse_guarantee(kind))
    twice = rules.change_adjacency(own, to=REPLACE).conclusion.guarantee
    for adjacency, expected in ((ADD_REMOVE, own.conclusion.guarantee), (REPLACE, twice)):
        made = rules.of_kept_records(own, domain=PEOPLE, adjacency=adjacency, by="x")
        assert made.conclusion.guarantee == expected
        assert made.premises == (own,)
        each = conjectured(parse_guarantee(kind), adjacency=adjacency)
        same = rules.of_each_record(each, domain=PEOPLE, by="x").conclusion
        assert (same.guarantee, same.adjacency) == (own.conclusion.guarantee, adjacency)
    assert (twice == own.conclusion.guarantee) == (kind == "perfect")


def test_a_carried_claim_is_pickled_with_its_table() -> None:
    made = kept(adjacency=REPLACE)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_rests_on_the_number_of_records_is_refused() -> None:
    for adjacency in Adjacency:
        with pytest.raises(ValueError, match=r"Build the mechanism for add-remove; under replace"):
            rules.of_kept_records(
                proved(adjacency=REPLACE), domain=PEOPLE, adjacency=adjacency, by="x"
            )


_FEW = Domain(1, most_rows=9)


def test_a_claim_about_few_rows_is_for_few_rows() -> None:
    with pytest.raises(ValueError, match="has datasets of more rows"):
        rules.of_each_record(proved(domain=_FEW), domain=PEOPLE, by="x")
    with pytest.raises(ValueError, match="has datasets of more rows"):
        rules.of_kept_records(proved(domain=_FEW), domain=COLUMN, adjacency=REPLACE, by="x")
    with pytest.raises(ValueError, match="has datasets of more rows"):
        rules.of_each_record(proved(domain=_FEW), domain=Domain(1, most_rows=10), by="x")
    fewer = Domain(2, most_rows=8)
    made = rules.of_each_record(proved(domain=_FEW), domain=fewer, by="x")
    assert made.conclusion.domain == fewer


def test_what_is_no_map_of_records_to_a_mechanism_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is for rows of the table 'people'.* already"):
        rules.of_each_record(carried(), domain=PEOPLE, by="x")
    with pytest.raises(ValueError, match="is about records that are friends"):
        rules.of_each_record(conjectured(adjacency=NEAR), domain=PEOPLE, by="x")
    with pytest.raises(TypeError, match="domain = 'people'; give a Domain or a TableDomain"):
        rules.of_each_record(proved(), domain="people", by="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"adjacency = 'replace'; write Adjacency.ADD_REMOVE"):
        kept(adjacency="replace")


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ((), ValueError, "give at least one, and each name once"),
        ((("a", "x"), ("a", "y")), ValueError, "each name once"),
        (((1, "x"),), TypeError, "all texts"),
        ((("a", None),), TypeError, "all texts"),
        ([("a", "x")], TypeError, "all texts"),
        ((["a", "x"],), TypeError, "all texts"),
        ((("a", "x", "y"),), TypeError, "all texts"),
        (("ax",), TypeError, "all texts"),
    ],
)
def test_tables_that_make_no_sense_are_refused(columns: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        TableDomain("people", columns)


def test_a_table_s_domain_says_how_its_cells_are_read() -> None:
    assert str(PEOPLE) == "rows of the table 'people': age (a number), city (a word)"
    assert PEOPLE.most_rows is None
    assert len({PEOPLE, *OTHERS}) == 6
