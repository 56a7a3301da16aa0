"""Refusals as a newcomer reads them: what was given, why it is refused, what to write instead.

Each case is a wrong call of a public name, and fragments of its message. Mistakes in sessions are
in tests/session/test_mistakes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpverify.audit as attack
from dpverify import (
    Account,
    Adjacency,
    ApproxDP,
    BoundedMean,
    BoundedSum,
    Category,
    Chunks,
    ClippedMean,
    CountEstimate,
    GaussianDP,
    Integer,
    NoisyCount,
    Number,
    PerfectPrivacy,
    PrivateQuantiles,
    PureDP,
    RefinedMean,
    RescaledMean,
    RobustMean,
    SeededBits,
    Session,
    StabilityHistogram,
    Table,
    calibrate,
)
from dpverify.families import Eigenvalues, NormalPrecision, Poisson, check_family
from dpverify.grid import Count
from dpverify.plans import Stage
from dpverify.privacy import Profile, parse_guarantee
from dpverify.sklearn import LinearRegression

HERE: Any = Adjacency.ADD_REMOVE
BUDGET = ApproxDP(1, "1e-6")
ROWS = [[20 + k % 50, "north" if k % 3 else "south"] for k in range(60)]
TYPES = {"age": Integer(0, 120), "place": Category("north", "south")}
PAIRS = [attack.added("one more", [0.0, 1.0], 1.0)]
THREE: Any = 3
PART: Any = 1.5
TEXT: Any = "x"
LISTED: Any = ["a", "b"]
CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: _count().interval(95), ValueError, "level = 95 .*, 0.95 for 95%"),
    (
        lambda: attack.audit(len, claim=PureDP(1), pairs=PAIRS, faults=[len]),
        ValueError,
        "the audited function itself",
    ),
    (lambda: _count().interval("95%"), ValueError, "level = '95%' .*; write 95% as '0.95'"),
    (lambda: _made(BoundedMean, PureDP(1)), TypeError, "BoundedMean needs lower and upper, which"),
    (
        lambda: _made(NoisyCount, PureDP(1), bounds=3),
        TypeError,
        "NoisyCount has no parameter 'bounds'; its own parameters are .*within",
    ),
    (lambda: _made(BoundedSum, PureDP(1), lower=0, upper=1, cell=2), ValueError, "a smaller cell"),
    (lambda: _made(NoisyCount, PerfectPrivacy()), ValueError, "no least noise.*another budget"),
    (
        lambda: _made(StabilityHistogram, BUDGET, width=1, delta="1e-5"),
        ValueError,
        "Give a smaller delta or another budget",
    ),
    (lambda: _made(RescaledMean, BUDGET), TypeError, "n_max is missing; give about how many"),
    (
        lambda: _made(RefinedMean, BUDGET, n_max=9),
        TypeError,
        "matrix and radius .* give covariance",
    ),
    (lambda: _made(RefinedMean, BUDGET, n_max=9, trace=1.0), TypeError, "columns and largest is"),
    (
        lambda: _made(RefinedMean, BUDGET, n_max=9, matrix=(1.0,), radius=1.0),
        TypeError,
        "record_radius cannot be chosen without a covariance",
    ),
    (lambda: _made(RobustMean, BUDGET), TypeError, "RobustMean needs deviations, .* and n_max"),
    (lambda: _made(ClippedMean, BUDGET, center=[[0, 0]], radius=1), TypeError, "center has rows"),
    (
        lambda: _made(ClippedMean, BUDGET, center=Number(0, 1), radius=1),
        TypeError,
        "center = a Number; give a sequence of numbers",
    ),
    (lambda: _counter().expected_error("x"), TypeError, "n = 'x' is a str; give an integer"),
    (lambda: _counter().expected_error(-1), ValueError, "n = -1; give a number of records"),
    (lambda: _counter().records_for("x"), ValueError, "error = 'x'; give the largest error"),
    (lambda: _counter().release([1], accept_status=3), TypeError, "accept_status = 3.*give a text"),
    (lambda: _counter().release([1], progress=3), TypeError, "progress = 3; .*leave them out"),
    (lambda: _counter().release(_table()), TypeError, "a Table, not records.*a Session asks"),
    (lambda: _counter().release(None), TypeError, "The data are a NoneType, not records"),
    (lambda: SeededBits(TEXT), TypeError, r"seed = \('x',\); give one or more integers"),
    (lambda: SeededBits(PART), TypeError, r"seed = \(1.5,\); give one or more integers"),
    (lambda: Category(LISTED), TypeError, r"a list; .* one after the other: Category\('a', "),
    (lambda: _table(names="ab"), TypeError, "names = 'ab'; give a list of the columns' names"),
    (
        lambda: Table.read_csv("x.csv", columns=TYPES, sep=";"),  # type: ignore[call-arg]
        TypeError,
        r"'sep'; the parameters are path, columns, names, delimiter,.* Write Table\.read_csv\(",
    ),
    (
        lambda: attack.Box(0, 1),  # type: ignore[call-arg]
        TypeError,
        r"too many positional .* low, high, .* Write Box\(low=0, high=1\)",
    ),
    (
        lambda: PrivateQuantiles(adjacency=HERE, lower=0, upper=1, quantiles=["1/2"]),  # type: ignore[call-arg]
        TypeError,
        "PrivateQuantiles has no parameter 'quantiles'; did you mean levels",
    ),
    (
        lambda: _made(PrivateQuantiles, PureDP(1), lower=0, uper=1, levels=["1/2"]),
        TypeError,
        "no parameter 'uper'; did you mean upper",
    ),
    (
        lambda: BoundedMean.for_budget(
            PureDP(1), adjacency=Adjacency.REPLACE, lower=0, upper=1, at_least=5
        ).release([0.5]),
        ValueError,
        "The data have 1 record; this mechanism needs at least 5",
    ),
    (
        lambda: Table.read_csv(THREE, columns=TYPES),
        TypeError,
        "path = a int; give the path of a CSV",
    ),
    (lambda: _table().select(3), TypeError, "column = 3; give the name of one column"),
    (lambda: Chunks(np.zeros((3, 1)), files="a"), TypeError, r"files = 'a'; .*files=\['a'\]"),
    (lambda: Session.resume(THREE, _table()), TypeError, "account = 3; give the path of a file"),
    (
        lambda: Session.resume("/nowhere/a", _table()),
        Exception,
        "no such folder.*Give the path of a file that a session wrote",
    ),
    (
        lambda: Session(_table(), budget=PerfectPrivacy(), adjacency=HERE),
        ValueError,
        "budget = perfect does not say how .* give an ApproxDP",
    ),
    (
        lambda: Account(BUDGET, adjacency=HERE).spend(THREE, "x"),
        TypeError,
        "guarantee = 3; write what is spent",
    ),
    (lambda: _asked(where={"place": ["west"]}), ValueError, "'west' is not.*; give one of these"),
    (lambda: _told("top", "place"), TypeError, r"'k'. Write top\(column, k, share='1/3'\)"),
    (lambda: _call(ApproxDP, 1), TypeError, r"ApproxDP: .*'delta'. Write ApproxDP\(1, '1e-6'\)"),
    (lambda: _call(PureDP, 1, 2), TypeError, "PureDP: too many .*; the parameters are epsilon. Wr"),
    (
        lambda: _call(Table, ROWS),
        TypeError,
        r"Table: .*'columns'. Write Table\(data, columns=...\)",
    ),
    (lambda: _call(Account, BUDGET), TypeError, "Account: .* adjacency=Adjacency.ADD_REMOVE"),
    (lambda: _call(Session), TypeError, r"Session: .* Write Session\(table, budget=ApproxDP\(1"),
    (
        lambda: _call(ClippedMean.for_budget),
        TypeError,
        r"for_budget: .*'budget'. Write BoundedMean.for_budget\(PureDP\(1\), adjacency=",
    ),
    (
        lambda: _call(ClippedMean, center=[0]),
        TypeError,
        r"ClippedMean: .* Write ClippedMean.for_budget\(.*, adjacency=.*, center=..., radius=...\)",
    ),
    (lambda: _counter().release([1], 2026), TypeError, r"bits = 2026 is no .* SeededBits\(2026\)"),
    (lambda: _counter().law([1]).sample(TEXT, 1), TypeError, "bits = a str is no source of random"),
    (lambda: _told("robust_mean", "age", deviations=[1, 2]), ValueError, "has 2 .* one for each"),
    (
        lambda: _told("principal_components", "age", k=5),
        ValueError,
        "k = 5 components of one column",
    ),
    (lambda: calibrate(THREE, BUDGET), TypeError, "family = 3; give a function such as GaussianDP"),
    (lambda: Profile(THREE), TypeError, r"parts = 3; give a list of guarantees"),
    (lambda: _audit(faults=3), TypeError, "faults = 3; give a list of broken functions"),
    (lambda: _audit(seconds=1), ValueError, "seconds = 1; give a time above 0, and sequential"),
    (lambda: _audit(rounded=0), ValueError, "rounded = 0; give a step above 0 and far below"),
    (
        lambda: attack.audit(THREE, pairs=PAIRS, claim=PureDP(1)),
        TypeError,
        "3 is neither .* give a mec",
    ),
    (lambda: attack.added("x", THREE, 1.0), TypeError, "base = 3; give a list of records"),
    (lambda: attack.moved("x", PART, [2.0]), TypeError, "answers = 1.5; give a list with a number"),
    (
        lambda: attack.scaled_faults(_noisy, factors=THREE),
        TypeError,
        r"factors = 3; .*factors=\[0.5\]",
    ),
    (lambda: attack.scaled_faults(_noisy, factors=[TEXT]), TypeError, "give a list of numbers"),
    (lambda: attack.generic_faults(THREE), TypeError, "3 is no mechanism; .*scaled_faults"),
    (lambda: attack.witness_of(THREE), TypeError, r"result = 3; give what audit\(...\) returned"),
    (
        lambda: attack.search(_noisy, claim=PureDP(1), domain=attack.Box(low=0, high=1)),
        TypeError,
        "adjacency is missing: it says which datasets",
    ),
    (lambda: check_family(THREE, 0, 1), TypeError, "family = 3; give a Family, for example"),
    (lambda: check_family(Poisson(), TEXT, 1), TypeError, "lowest = 'x' is no number"),
    (lambda: NormalPrecision(TEXT), TypeError, "d = 'x' is a str; give an integer"),
    (lambda: Eigenvalues(TEXT, 1), TypeError, r"'x' is no number; give Eigenvalues\(0.1, 10\)"),
    (lambda: Count(THREE), TypeError, r"within = 3; give a pair of bounds, \(0.0, 1.0\)"),
    (lambda: Stage("a", Count(), THREE), TypeError, "3 is no noise; write DiscreteLaplace"),
    (lambda: parse_guarantee(THREE), TypeError, r"3 is no text; write 'pure\(1\)'"),
    (lambda: _fit(np.zeros((7, 1)), np.zeros(5)), ValueError, "one row of X and one of y for each"),
    (lambda: _fit("x", np.zeros(5)), ValueError, "Give a numeric array or data frame"),
]


def _noisy(data: Any, scale: float = 1.0) -> float:
    return float(scale * len(data))


def _made(kind: Any, budget: Any, **given: Any) -> Any:
    return kind.for_budget(budget, adjacency=HERE, **given)


def _call(function: Any, *given: Any, **named: Any) -> Any:
    return function(*given, **named)


def _counter() -> Any:
    return _made(NoisyCount, PureDP(1))


def _count() -> Any:
    return CountEstimate(value=3, standard_deviation=1.0)


def _table(names: Any = ("age", "place")) -> Any:
    return Table(ROWS, names=names, columns=TYPES)


def _session() -> Any:
    return Session(_table(), budget=BUDGET, adjacency=HERE, bits=SeededBits(1))


def _asked(**given: Any) -> Any:
    return _session().count(share="1/2", **given)


def _told(*asked: Any, **given: Any) -> Any:
    return _session().expected_error(*asked, share="1/2", n=9, **given)


def _audit(**given: Any) -> Any:
    return attack.audit(_noisy, pairs=PAIRS, claim=PureDP(1), trials=100, **given)


def _fit(records: Any, targets: Any) -> Any:
    bounds: Any = {"feature_bounds": (0, 1), "target_bounds": (0, 1)}
    return LinearRegression(budget=GaussianDP(1), adjacency=HERE, **bounds).fit(records, targets)


@pytest.mark.parametrize(("call", "kind", "fragment"), CASES)
def test_a_refusal_says_what_was_given_and_what_to_write(
    call: Callable[[], Any], kind: type[Exception], fragment: str
) -> None:
    with pytest.raises(kind, match=fragment) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_refusal_of_records_and_targets_does_not_say_how_many_there_are() -> None:
    with pytest.raises(ValueError, match="inconsistent numbers") as caught:
        _fit(np.zeros((7, 1)), np.zeros(5))
    assert not {"7", "5"} & set(str(caught.value))


def test_a_budget_that_is_exceeded_is_named_in_the_users_terms() -> None:
    session = _session()
    session.count(share="3/4")
    message = (
        r"'count, where place is \['north'\]' asks for 1/2 of the budget, and 1/4 is left, of "
        r"approx\(1, 1e-6\) in all. Ask for share='1/4' or less"
    )
    with pytest.raises(Exception, match=message):
        session.count(share="1/2", where={"place": ["north"]})
    with pytest.raises(Exception, match=r"asks for 44[0-9] times the budget, and 1/4 is left"):
        session.count(budget=ApproxDP(5, "1e-6"))
    robust: Any = {"columns": "age", "deviations": [10.0]}
    with pytest.raises(Exception, match="asks for 1/2 of the budget"):
        session.robust_mean(share="1/2", **robust)
    session.count(share="1/4")  # what the message said is possible
    with pytest.raises(Exception, match=r"nothing is left, .* Nothing more can be asked for it"):
        session.count(share="1/9")
