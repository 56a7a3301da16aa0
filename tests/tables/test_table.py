"""Tables and selections: snapshots of declared columns, and what leaving records out does to
claims."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    Boolean,
    BoundedMean,
    Category,
    Integer,
    NoisyCount,
    Number,
    PureDP,
    Table,
    compose,
)
from dpverify.tables import ColumnType

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COLUMNS = {
    "bmi": Number(15, 45),
    "age": Integer(0, 120, missing=40),
    "region": Category("north", "south"),
    "smokes": Boolean(missing=False),
}
PEOPLE: dict[str, list[Any]] = {
    "bmi": [20.5, None, 99.0, 15.0],
    "age": [30, 41.5, -7, None],
    "region": ["north", "south", "north", "elsewhere"],
    "smokes": [True, None, False, "TRUE"],
    "name": ["Ann", "Bob", "Cyd", "Dee"],
}


@pytest.fixture(scope="module")
def people() -> Table:
    return Table(PEOPLE, columns=COLUMNS, name="people")


def test_cells_are_read_by_their_declared_types(people: Table) -> None:
    expected = {
        "bmi": [20.5, np.nan, 45.0, 15.0],
        "age": [30.0, 40.0, 0.0, 40.0],
        "region": [0.0, 1.0, 0.0, np.nan],
        "smokes": [1.0, 0.0, 0.0, 1.0],
    }
    for column, numbers in expected.items():
        assert np.array_equal(people.numbers(column), numbers, equal_nan=True), column


def test_what_is_shown_is_public(people: Table) -> None:
    assert repr(people) == (
        "Table 'people', its rows private\n"
        "  bmi: number from 15.0 to 45.0, missing: left out\n"
        "  age: whole number from 0.0 to 120.0, missing: counts as 40.0\n"
        "  region: one of ('north', 'south'), missing: left out\n"
        "  smokes: truth value, missing: counts as False"
    )
    fewer = {name: cells[1:] for name, cells in PEOPLE.items()}
    assert repr(Table(fewer, columns=COLUMNS, name="people")) == repr(people)
    picked = people.select("bmi").where("region", among=["north"]).where("age", between=(18, 65))
    assert repr(picked) == (
        "Selection of 'people': bmi (number from 15.0 to 45.0, missing: left out); kept where "
        "region is among ('north',); kept where age is from 18.0 to 65.0"
    )
    with pytest.raises(TypeError, match="has no len"):
        len(people)  # type: ignore[arg-type]
    assert people.private_number_of_rows == 4


def test_a_table_is_a_snapshot() -> None:
    array = np.array([[1.0], [2.0]])
    cells: list[Any] = [3.0, 4.0]
    changes: list[tuple[Any, Any]] = [
        (array, lambda: array.fill(9.0)),
        ({"x": array[:, 0]}, lambda: array.fill(8.0)),
        ({"x": cells}, lambda: cells.append(7.0)),
    ]
    for data, change in changes:
        table = Table(data, columns={"x": Number()})
        before, digest = table.numbers("x").tolist(), table.fingerprint
        change()
        assert table.numbers("x").tolist() == before
        assert table.fingerprint == digest
        with pytest.raises(ValueError, match="read-only"):
            table.numbers("x")[0] = 5.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            table.numbers("x").setflags(write=True)
        records = table.select("x").records
        records[:] = 0.0
        assert table.numbers("x").tolist() == before
        with pytest.raises(TypeError):
            table.columns["x"] = Number(0, 1)  # type: ignore[index]


def test_a_table_and_its_types_are_made_once(people: Table) -> None:
    with pytest.raises(TypeError, match="is made already"):
        people.__init__({"x": [1.0]}, columns={"x": Number()})  # type: ignore[misc]
    for kind, given in (
        (Number(), (0, 1)),
        (Integer(), (0, 1)),
        (Category("a"), ("b",)),
        (Boolean(), ()),
    ):
        with pytest.raises(TypeError, match="is made already"):
            kind.__init__(*given)  # type: ignore[misc]


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_table_is_not_copied_to_where_it_is_no_secret(people: Table, leave: Any) -> None:
    with pytest.raises(TypeError, match="as secret as its data"):
        leave(people)


class OfAll(ColumnType):
    """A type of somebody else's: what a cell is depends on the others."""

    missing = 0.0

    def encode(self, cells: Any, out: Any = None) -> Any:
        return np.array([float(cell == max(cells)) for cell in cells])

    def number(self, value: Any, column: str) -> float:
        return float(value)


def test_records_are_the_kept_ones_in_order(people: Table) -> None:
    assert people.select("bmi").records.tolist() == [[20.5], [45.0], [15.0]]
    assert people.select("age", "bmi").records.tolist() == [[30.0, 20.5], [0.0, 45.0], [40.0, 15.0]]
    assert people.select("age").records.tolist() == [[30.0], [40.0], [0.0], [40.0]]
    assert people.select().records.tolist() == [[0.0]] * 4
    assert people.select().where("region", among=["south"]).records.tolist() == [[0.0]]
    assert people.select("age").where("bmi", between=(15, 45)).records.shape == (3, 1)
    assert people.select("age").where("age", among=[40]).records.tolist() == [[40.0], [40.0]]
    assert people.select("age").where("smokes", among=[True]).records.tolist() == [[30.0], [40.0]]


def test_groups_have_every_declared_value_and_share_no_record(people: Table) -> None:
    groups = people.select("age").by("region")
    assert {value: one.records.tolist() for value, one in groups.items()} == {
        "north": [[30.0], [0.0]],
        "south": [[40.0]],
    }
    assert all(one.leaves_out for one in groups.values())
    assert [*people.select().by("smokes")] == [False, True]
    for column in ("bmi", "age"):
        with pytest.raises(TypeError, match=f"by='{column}': the column is declared as .*Category"):
            people.select("age").by(column)


def test_records_may_count_as_a_public_one_instead_of_being_left_out(people: Table) -> None:
    north = people.select().where("region", among=["north"]).filled(1)
    assert north.records.tolist() == [[0.0], [1.0], [0.0], [1.0]]
    assert people.select("bmi").filled(-1.0).records.tolist() == [[20.5], [-1.0], [45.0], [15.0]]
    two = people.select("age", "bmi").where("region", among=["south", "north"]).filled(0.0)
    assert two.records.tolist() == [[30.0, 20.5], [0.0, 0.0], [0.0, 45.0], [0.0, 0.0]]
    assert not two.leaves_out
    assert two.adjacency_needed(REPLACE) is REPLACE
    assert two.steps(REPLACE) == 1
    assert (
        north.why
        == "each record as 0; kept where region is among ('north',); any other record as 1.0"
    )
    count = NoisyCount.for_budget(PureDP(1), adjacency=REPLACE, within=(-0.5, 0.5))
    assert north.carry(count.derivation, REPLACE).conclusion.guarantee == PureDP(1)
    with pytest.raises(ValueError, match="divide first"):
        two.by("smokes")
    for value in (float("nan"), "0"):
        with pytest.raises(TypeError, match=r"filled: .* is no finite number"):
            two.filled(value)  # type: ignore[arg-type]


def mean(adjacency: Adjacency) -> BoundedMean:
    one = Fraction(1)
    return BoundedMean(adjacency=adjacency, noise_multiplier=one, lower=0, upper=120)


def test_claims_are_carried_to_the_table(people: Table) -> None:
    whole, part = people.select("age"), people.select("age").where("region", among=["north"])
    assert (whole.leaves_out, part.leaves_out) == (False, True)
    for adjacency in Adjacency:
        assert whole.adjacency_needed(adjacency) is adjacency
        assert whole.steps(adjacency) == 1
        assert part.adjacency_needed(adjacency) is ADD_REMOVE
        assert part.steps(adjacency) == (2 if adjacency is REPLACE else 1)
        own = mean(adjacency).derivation
        carried = [
            whole.carry(own, adjacency),
            part.carry(mean(ADD_REMOVE).derivation, adjacency),
        ]
        for selection, made in zip((whole, part), carried, strict=True):
            assert made.conclusion.guarantee == PureDP(selection.steps(adjacency))
            assert made.conclusion.adjacency is adjacency
            assert made.conclusion.domain == people.domain
            assert selection.why in str(made)
        assert compose(*carried).conclusion.domain == people.domain
    assert people.select("bmi").leaves_out


def test_claims_that_do_not_fit_are_not_carried(people: Table) -> None:
    part = people.select("bmi")
    with pytest.raises(ValueError, match="takes the number of records to be public"):
        part.carry(mean(REPLACE).derivation, REPLACE)
    with pytest.raises(ValueError, match="takes records of 1 columns, and the selection has 2"):
        people.select("age", "smokes").carry(mean(REPLACE).derivation, REPLACE)
    with pytest.raises(ValueError, match="is under replace, and add-remove is asked for"):
        people.select("age").carry(mean(REPLACE).derivation, ADD_REMOVE)
    count = NoisyCount(adjacency=ADD_REMOVE, noise_multiplier=1)
    counted = people.select().carry(count.derivation, ADD_REMOVE)
    with pytest.raises(ValueError, match="already"):
        people.select().carry(counted, ADD_REMOVE)
    other = (
        Table(PEOPLE, columns=COLUMNS, name="others").select().carry(count.derivation, ADD_REMOVE)
    )
    with pytest.raises(ValueError, match="do not compose"):
        compose(counted, other)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda t: t.select("weight"), ValueError, "no column 'weight'; it was declared with bmi"),
        (lambda t: t.select("name"), ValueError, "no column 'name'"),
        (lambda t: t.select(["bmi"]), TypeError, "give the name of one column"),
        (lambda t: t.select("bmi", "bmi"), ValueError, "each column once"),
        (lambda t: t.select().where("bmi"), ValueError, "one of them"),
        (lambda t: t.select().where("bmi", among=[20.5]), TypeError, "give between"),
        (lambda t: t.select().where("bmi", between=(30, 20)), ValueError, "are reversed"),
        (lambda t: t.select().where("bmi", between=30), TypeError, "is no pair"),
        (lambda t: t.select().where("bmi", between=("a", 30)), TypeError, "a bound is a number"),
        (lambda t: t.select().where("region", between=(0, 1)), TypeError, "give among"),
        (lambda t: t.select().where("region", among="north"), TypeError, "no list of values"),
        (lambda t: t.select().where("region", among=[]), ValueError, "among is empty"),
        (
            lambda t: t.select().where("region", among=["west"]),
            ValueError,
            "not among the declared",
        ),
        (lambda t: t.select().where("smokes", among=[1]), ValueError, "neither True nor False"),
        (lambda t: t.select().where("age", among=[1.5]), ValueError, "is not whole"),
        (lambda t: t.select().where("age", among=[121]), ValueError, "outside"),
    ],
)
def test_what_makes_no_sense_is_refused_by_column_and_type(
    people: Table, call: Any, kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(people)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Number(5, 1), ValueError, "low and high: .* are reversed"),
        (
            lambda: Number("0", 1),  # type: ignore[arg-type]
            TypeError,
            "a bound is a number",
        ),
        (lambda: Number(0), ValueError, "give both bounds"),
        (lambda: Number(0, float("inf")), ValueError, "not finite"),
        (lambda: Number(0, 1, missing=2), ValueError, "missing: 2 is outside"),
        (
            lambda: Number(0, 1, missing="0"),  # type: ignore[arg-type]
            TypeError,
            "missing: '0' is no finite number",
        ),
        (lambda: Number(0, 1, missing=float("nan")), TypeError, "no finite number"),
        (lambda: Integer(0, 1.5), ValueError, "1.5 is not a whole number"),
        (lambda: Integer(0, 2**54), ValueError, "at most 2\\^53"),
        (lambda: Integer(0, 3, missing=1.5), ValueError, "is not whole"),
        (lambda: Category(), ValueError, "give at least one"),
        (lambda: Category("1", 1), ValueError, "the same value"),
        (lambda: Category(" a", "a"), ValueError, "each once"),
        (lambda: Category(True, False), TypeError, "Boolean"),
        (lambda: Category("True"), ValueError, "Boolean"),
        (
            lambda: Category(1.5),  # type: ignore[arg-type]
            TypeError,
            "texts or whole numbers",
        ),
        (lambda: Category(2**60), ValueError, "beyond 2\\^53"),
        (lambda: Category(""), ValueError, "an empty text is missing"),
        (lambda: Category("a", missing="b"), ValueError, "not among the declared"),
        (
            lambda: Boolean(missing=0),  # type: ignore[arg-type]
            ValueError,
            "neither True nor False",
        ),
        (lambda: Table({}, columns={}), TypeError, "columns declares the type"),
        (
            lambda: Table({}, columns={"a": float}),  # type: ignore[dict-item]
            TypeError,
            "Column 'a' is declared as",
        ),
        (lambda: Table({"a": []}, columns={"a": OfAll()}), TypeError, "Column 'a' is declared as"),
        (lambda: Table({}, columns={"a": Number()}), ValueError, "Column 'a' is not there"),
        (
            lambda: Table({1: []}, columns={1: Number()}),  # type: ignore[dict-item]
            TypeError,
            "no name of a column",
        ),
        (lambda: Table(5, columns={"a": Number()}), TypeError, "A int is no table"),
        (lambda: Table([], columns={"a": Number()}, name=""), TypeError, "give the table a name"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(make: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        make()
