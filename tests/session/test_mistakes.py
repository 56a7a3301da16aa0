"""The mistakes of a first day: one clear line each, before anything is spent, with no private value
in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    Boolean,
    Category,
    Integer,
    NoAnswer,
    Number,
    PureDP,
    SeededBits,
    Session,
    SmoothMedian,
    Table,
)
from dpverify.session import Account, BudgetExceeded

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
SECRET = 33.125
DATA: dict[str, Any] = {
    "bmi": [SECRET, 25.0, "n/a"],
    "age": [44, 45, None],
    "region": ["north", "south", "Atlantis"],
    "ok": [True, False, None],
}
COLUMNS: dict[str, Any] = {
    "bmi": Number(15, 45),
    "age": Integer(0, 120, missing=60),
    "region": Category("north", "south"),
    "ok": Boolean(),
    "income": Number(),
}
TABLE = Table(DATA | {"income": [1e4, 2e4, 3e4]}, columns=COLUMNS)


def session(adjacency: Any = ADD, budget: Any = None) -> Session:
    given = PureDP(1) if budget is None else budget
    return Session(TABLE, budget=given, adjacency=adjacency, bits=SeededBits(1))


def median_of_the_records_at_hand() -> Any:
    given: Any = {"adjacency": REPLACE, "accounting": "epsilon", "bits": SeededBits(1)}
    one = Session(TABLE, budget=ApproxDP(1, "1e-6"), **given)
    return one.release(SmoothMedian, "age", budget=one.left, lower=[0], upper=[120])


def read_twice() -> Any:
    rows = ((x, x) for x in [SECRET, 20.0])
    return Table(rows, columns={"bmi": Number(15, 45)})


Mistake = Callable[[], Any]
MISTAKES: dict[str, tuple[Mistake, type[Exception], str]] = {
    "a text column": (
        lambda: session().mean("region", share="1/3"),
        TypeError,
        r"mean of 'region': the column is declared as one of \('north', 'south'\).*ask for a "
        r"histogram",
    ),
    "no bounds": (
        lambda: session().mean("income", share="1/3"),
        ValueError,
        r"'income': the column has no declared bounds.*declare income=Number\(low, high\)",
    ),
    "NaN as a bound": (
        lambda: Number(float("nan"), 45),
        ValueError,
        "low and high.*give a finite public bound",
    ),
    "swapped bounds": (lambda: Number(45, 15), ValueError, "reversed; give the smaller one first"),
    "epsilon as text": (lambda: PureDP("one"), ValueError, "epsilon = 'one'"),
    "a budget as a number": (
        lambda: session(budget=1.0),
        TypeError,
        r"budget = 1\.0 is not a guarantee; write ApproxDP\(1, '1e-6'\)",
    ),
    "a negative epsilon": (lambda: PureDP(-1), ValueError, "epsilon = -1"),
    "a negative share": (
        lambda: session().count(share=-1),
        ValueError,
        r"share = -1 is outside \(0, 1\]: a share is a part of.*Write share='1/3'",
    ),
    "no price": (
        lambda: session().count(),
        ValueError,
        "Say what the answer may cost: share='1/3'",
    ),
    "adjacency as text": (
        lambda: session("replace"),
        TypeError,
        r"adjacency = 'replace'; write Adjacency\.ADD_REMOVE",
    ),
    "a count that is public": (
        lambda: session(REPLACE).count(share="1/3"),
        ValueError,
        r"under replace the number of records is public.*those that where=\{\.\.\.\} keeps",
    ),
    "a budget that is gone": (
        lambda: [s := session(), s.count(share=1), s.mean("age", share="1/9")],
        BudgetExceeded,
        "'mean of age' asks for 1/9 of the budget, and nothing is left, of .*Nothing more can be",
    ),
    "too few rows": (
        lambda: session(REPLACE).mean("age", share="1/3", at_least=20),
        ValueError,
        "the table has 3 rows, and BoundedMean needs at least 20.*Nothing was spent",
    ),
    "a column that is not there": (
        lambda: session().mean("bmj", share="1/3"),
        ValueError,
        "has no column 'bmj'; it was declared with bmi, age, region, ok, income",
    ),
    "groups that are private": (
        lambda: session().mean("bmi", by="age", share="1/3"),
        TypeError,
        "which values occur is private; declare it as Category",
    ),
    "groups of two columns": (
        lambda: session().count(by=["region", "ok"], share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "by = a list; give the name of one column, .* ask for their histogram",
    ),
    "more than the budget": (
        lambda: session().count(budget=PureDP(442)),
        BudgetExceeded,
        "'count' asks for 442 times the budget, and all is left",
    ),
    "the whole budget after a part of it": (
        lambda: [s := session(), s.count(share="1/2"), s.count(share=1)],
        BudgetExceeded,
        "'count' asks for all of the budget, and 1/2 is left",
    ),
    "ten floats of a tenth": (
        lambda: [s := session(), *(s.count(budget=PureDP(0.1)) for _ in range(10))],
        BudgetExceeded,
        r"\(0\.1 was given as a float: .* Write it as a text, '0\.1'\.\)",
    ),
    "a budget that is a float": (
        lambda: session(budget=PureDP(0.3)).count(budget=PureDP("0.3")),
        BudgetExceeded,
        r"of pure\(0\.300000\.\.\.\) in all.*Write it as a text, '0\.3'",
    ),
    "an interval of a median": (
        lambda: session().median("bmi", share="1/3").interval(0.95),
        NoAnswer,
        r"The median of bmi has no interval: how far .*\.expected_error\(n\)",
    ),
    "the deviation of quantiles": (
        lambda: session().quantiles("bmi", 3, share="1/3").standard_deviation,
        NoAnswer,
        "The quantile of bmi, .* has no standard deviation: how far in value",
    ),
    "an interval of two quantiles": (
        lambda: session().quantile("bmi", [0.1, 0.9], share="1/3").interval(),
        NoAnswer,
        "has no interval: how far in value a rank is off",
    ),
    "an interval that a mechanism does not give": (
        lambda: median_of_the_records_at_hand().interval(),
        NoAnswer,
        "has no interval: a MediansEstimate has none. See what answer.result has",
    ),
    "a level of a median": (
        lambda: session().median("bmi", share="1/3").interval(95),
        ValueError,
        "level = 95",
    ),
    "sampling of a count": (
        lambda: session().count(share="1/3").interval(0.95, sampling=True),
        TypeError,
        r"The count has no interval with sampling=: its interval takes a level alone\. .* "
        "regressions, of the mean of one column",
    ),
    "another word for sampling": (
        lambda: session(budget=PureDP(9)).mean("bmi", share=1).interval(population=True),
        TypeError,
        "has no interval with population=: its interval takes level and sampling",
    ),
    "a value nobody declared": (
        lambda: session().count(where={"region": ["Utopia"]}, share="1/3"),
        ValueError,
        r"'Utopia' is not among the declared values \('north', 'south'\)",
    ),
    "a condition on records that are no list": (
        lambda: session().count(where="region == 'north'", share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "where = \"region == 'north'\" is no mapping; .* write where={'region': ",
    ),
    "a condition on records that is a mask": (
        lambda: session().count(where=[SECRET > 30], share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "where = a list is no mapping; give for each column its declared values",
    ),
    "two columns one after the other": (
        lambda: session().mean("bmi", "age"),  # type: ignore[call-arg]
        TypeError,
        "mean: too many positional arguments; .* Write mean.*, with several columns in one list",
    ),
    "no column": (
        lambda: session().mean(epsilon=3),  # type: ignore[call-arg]
        TypeError,
        r"mean: missing a required argument: 'columns'. Write mean\(columns, share='1/3'\)",
    ),
    "an epsilon for one question": (
        lambda: session().mean("bmi", epsilon=3, share="1/3"),
        TypeError,
        "mean has no parameter 'epsilon': say what the answer may cost by share='1/3'",
    ),
    "a question by another library's word": (
        lambda: session().average("bmi", share="1/3"),  # type: ignore[attr-defined]
        AttributeError,
        "Session has no 'average'; did you mean mean",
    ),
    "the largest value": (
        lambda: session().plan().max("bmi"),  # type: ignore[attr-defined]
        AttributeError,
        "Plan has no 'max'; did you mean quantile, at='99/100'",
    ),
    "a misspelled question": (
        lambda: session().covarience(["bmi", "age"]),  # type: ignore[attr-defined]
        AttributeError,
        "did you mean covariance",
    ),
    "a question like no other": (
        lambda: session().plot("bmi"),  # type: ignore[attr-defined]
        AttributeError,
        "Session has no 'plot'; ask one of count, sum, mean",
    ),
    "a share in percent": (
        lambda: session().count(share="50%"),
        ValueError,
        "share = '50%' is not .*; write 50% as '0.5'",
    ),
    "a quantile in percent": (
        lambda: session().quantile("bmi", 95, share="1/3"),
        ValueError,
        r"quantile = 95 is outside \[0, 1\]; give the share .* below, 0.95 for 95%",
    ),
    "a seed for bits": (
        lambda: Session(TABLE, budget=PureDP(1), adjacency=ADD, bits=2026),  # type: ignore[arg-type]
        TypeError,
        r"bits = 2026 is no source of random bits; .* SeededBits\(2026\) in a test",
    ),
    "a generator, which can be read once": (
        read_twice,
        TypeError,
        "a generator can be read once; give a list of rows",
    ),
    "a frame in place of a table": (
        lambda: Session(DATA, budget=PureDP(1), adjacency=ADD),  # type: ignore[arg-type]
        TypeError,
        "declare its columns first",
    ),
    "bins that are not given": (
        lambda: session().histogram("bmi", share="1/3"),
        ValueError,
        "give bins, a number of equal ones between the declared bounds, or their edges",
    ),
    "bins that leave somebody out": (
        lambda: session().histogram("bmi", [20, 30, 45], share="1/3"),
        ValueError,
        "the first and the last edge are the declared bounds 15.0 and 45.0",
    ),
    "bins without room": (
        lambda: session().histogram("age", 200, share="1/3"),
        ValueError,
        r"bins of 'age': no whole number is from 1\.2 to 1\.8; give fewer bins, or whole edges",
    ),
    "bins of a column that is not asked about": (
        lambda: session().histogram(["bmi", "region"], {"age": 3}, share="1/3"),
        ValueError,
        r"bins of 'age': the histogram is of \['bmi', 'region'\]",
    ),
    "ranges of categories": (
        lambda: session().histogram("region", ranges=True, share="1/3"),
        ValueError,
        "categories have no order",
    ),
    "a histogram of nothing": (
        lambda: session().histogram([], share="1/3"),
        ValueError,
        "histogram: give the name of a column, or a list of names",
    ),
    "another adjacency for one question": (
        lambda: session().mean("bmi", share="1/3", adjacency=REPLACE),
        TypeError,
        "adjacency: the session gives its mechanisms these; leave them out",
    ),
    "a column by its number": (
        lambda: session().mean(3, share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "mean of 3: give the name of a column",
    ),
    "no quantile": (
        lambda: session().quantile("bmi", [], share="1/3"),
        ValueError,
        r"at=\[\] asks for none; write at='9/10'",
    ),
    "quantiles as a number": (
        lambda: session().quantiles("bmi", 0.5, share="1/3"),  # type: ignore[arg-type]
        TypeError,
        r"levels = 0.5; give a list of quantiles, \['1/4', '1/2', '3/4'\], or how many",
    ),
    "no number of quantiles": (
        lambda: session().quantiles("bmi", None, share="1/3"),  # type: ignore[arg-type]
        TypeError,
        r"levels = None; give a list of quantiles",
    ),
    "ranges by a word": (
        lambda: session().histogram("bmi", 4, ranges="no", share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "ranges = 'no'; give True or False",
    ),
    "the top of numbers": (
        lambda: session().top("bmi", 3, share="1/3"),
        TypeError,
        "top of bmi: it is about the declared values of one Category",
    ),
    "more values than there are": (
        lambda: session().top("region", 99, share="1/3"),
        ValueError,
        "k = 99: the column has .* values; give a number from 1 to",
    ),
    "no values": (
        lambda: session().top("region", 0, share="1/3"),
        ValueError,
        "k = 0: the column has .* values; give a number from 1 to",
    ),
    "half a value": (
        lambda: session().top("region", 0.5, share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "k",
    ),
    "bins by a word": (
        lambda: session().histogram("bmi", "auto", share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "bins = 'auto'; give a number of bins, or a list of edges",
    ),
    "values as a set": (
        lambda: session().count(where={"region": {"north"}}, share="1/3"),
        TypeError,
        r"where = \{'region': \{'north'\}\}; write declared values as a list",
    ),
    "values as a pair": (
        lambda: session().count(where={"region": ("north", "south")}, share="1/3"),
        TypeError,
        r"where = \{'region': \('north', 'south'\)\}; write declared values as a list",
    ),
    "a number of records that is none": (
        lambda: session().expected_error("mean", "bmi", share="1/3", n=-1),
        ValueError,
        "n = -1: give a public guess of a number of records, say n=1000",
    ),
    "another way to add up": (
        lambda: Session(
            TABLE,
            budget=PureDP(1),
            adjacency=ADD,
            account=Account(PureDP(1), adjacency=ADD, schema=str(TABLE.domain)),
            accounting="gaussian",
        ),
        ValueError,
        "The account is open and adds up epsilon; .* leave them out",
    ),
    "several columns for one": (
        lambda: session().median(["bmi", "age"], share="1/3"),  # type: ignore[arg-type]
        ValueError,
        "median is about one column",
    ),
    "a wide mean of a pure budget": (
        lambda: session().mean(["bmi", "age"], share="1/3"),
        ValueError,
        "no amount of Gaussian noise is pure DP|one column at a time",
    ),
    "a robust mean without deviations": (
        lambda: session(budget=ApproxDP(1, "1e-6")).expected_error(
            "robust_mean", "bmi", share=1, n=9
        ),
        TypeError,
        "robust_mean.*deviations",
    ),
    "a mechanism that is none": (
        lambda: session().release(np.mean, "bmi", share="1/3"),  # type: ignore[arg-type]
        TypeError,
        "give a mechanism's class, for example BoundedMean",
    ),
    "a question that is none": (
        lambda: session().expected_error("average", "bmi", share=1, n=9),
        ValueError,
        "'average' is no question; did you mean mean",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_one_clear_line(name: str) -> None:
    make, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message) as caught:
        make()
    said = str(caught.value)
    assert "\n" not in said
    for private in (
        "33.125",
        "25.0",
        "n/a",
        "10000",
        "Atlantis",
    ):
        assert private not in said
    assert caught.value.__cause__ is None


def test_refusals_cost_nothing() -> None:
    one = session()
    asked: tuple[Mistake, ...] = (
        lambda: one.mean("region", share="1/3"),
        lambda: one.mean("bmi", by="age", share="1/3"),
        lambda: one.histogram("bmi", share="1/3"),
        lambda: one.count(share=2),
    )
    for refused in asked:
        with pytest.raises((TypeError, ValueError)):
            refused()
    assert one.log == ()


@pytest.mark.parametrize("name", ["bmi", "age", "region", "ok"])
def test_no_record_decides_whether_a_question_is_answered(name: str) -> None:
    """Cells of the wrong type are missing, by the declared rule: the same outcome with and without
    them."""
    odd = {column: [None, float("inf"), "x" * 99] for column in DATA} | {"income": [1, 2, 3]}
    for data in (DATA | {"income": [1, 2, 3]}, odd):
        one = Session(Table(data, columns=COLUMNS), budget=ApproxDP(1, "1e-6"), adjacency=ADD)
        one.count(where={"region": ["north"]}, share="1/4")
        ask = (
            one.histogram(name, share="1/4")
            if name in ("region", "ok")
            else one.median(name, share="1/4")
        )
        assert ask.abstained is None
