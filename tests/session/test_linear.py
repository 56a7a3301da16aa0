"""Regressions and principal components that a session answers from one release of moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    Boolean,
    Category,
    ComponentsEstimate,
    GaussianDP,
    MomentMatrixEstimate,
    Number,
    PureDP,
    RegressionEstimate,
    SeededBits,
    Session,
    Table,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (5000, 2))
COLUMNS: dict[str, Any] = {
    "x": Number(-1, 1, missing=0),
    "z": Number(-1, 1, missing=0),
    "y": Number(-3, 3, missing=0),
    "old": Boolean(missing=False),
    "region": Category("north", "south"),
}
TABLE = Table(
    {
        "x": X[:, 0],
        "z": X[:, 1],
        "y": X @ [1.0, -0.5] + 0.25 + RNG.normal(0, 0.2, 5000),
        "old": RNG.random(5000) < 0.3,
        "region": RNG.choice(["north", "south"], 5000),
    },
    columns=COLUMNS,
)


def session(adjacency: Adjacency = ADD, budget: Any = None) -> Session:
    given = ApproxDP(20, "1e-6") if budget is None else budget
    return Session(TABLE, budget=given, adjacency=adjacency, bits=SeededBits(2))


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_coefficients_come_in_the_order_of_the_features(adjacency: Adjacency) -> None:
    answer = session(adjacency).regression("y", ["z", "x"], share="1/2")
    assert isinstance(answer.result, RegressionEstimate)
    assert answer.value == pytest.approx([-0.5, 1.0], abs=0.05)
    assert answer.result.intercept == pytest.approx(0.25, abs=0.05)
    low, high = answer.interval(0.999)
    assert (low < answer.value).all()
    assert (answer.value < high).all()
    assert str(answer).startswith("regression of y on z, x: ")
    assert answer.result.predict([[1.0, 1.0]]) == pytest.approx([0.75], abs=0.1)


def test_several_targets_and_groups_come_from_one_release_each() -> None:
    one = session()
    answer = one.regression(["y", "old"], "x", by="region", share="1/2")
    assert {name: each.value.shape for name, each in answer.items()} == {
        "north": (2, 1),
        "south": (2, 1),
    }
    assert len(one.log) == 1
    assert answer.question == "regression of y, old on x, by region"
    assert answer["north"].value[0, 0] == pytest.approx(1.0, abs=0.1)


def test_a_regression_on_one_feature_releases_no_square_of_its_targets() -> None:
    for target, on, targets in (("y", "x", 1), (["y", "z"], "x", 2), ("y", ["x", "z"], 0)):
        answer = session().regression(target, on, share="1/3")
        assert getattr(answer.mechanism, "targets", None) == targets
        assert np.ravel(answer.value)[0] == pytest.approx(1.0, abs=0.1)
    for budget, targets in ((PureDP(20), 1), (GaussianDP(5), 0)):
        answer = session(REPLACE, budget).regression("y", "x", share="1/3")
        assert getattr(answer.mechanism, "targets", None) == targets
    answer = session().regression("y", "x", share="1/3", targets=0)
    assert getattr(answer.mechanism, "targets", None) == 0


def test_moments_answer_many_questions_for_one_price() -> None:
    one = session()
    moments = one.moments(["x", "z", "y"], share="1/3").result
    assert isinstance(moments, MomentMatrixEstimate)
    assert moments.regression(2).value == pytest.approx([1.0, -0.5], abs=0.1)
    assert moments.principal_components(3).variances.sum() == pytest.approx(
        np.trace(moments.covariance), rel=0.1
    )
    assert len(one.log) == 1


def test_components_are_those_of_the_columns() -> None:
    answer = session().principal_components(["x", "y"], 1, share="1/2")
    assert isinstance(answer.result, ComponentsEstimate)
    data = np.column_stack([X[:, 0], TABLE.numbers("y")])
    first = np.linalg.eigh(np.cov(data.T))[1][:, -1]
    assert abs(float(answer.value[0] @ first)) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda s: s.regression("y", ["y", "x"], share=1), ValueError, "none on both"),
        (lambda s: s.regression("y", [], share=1), ValueError, "at least one column"),
        (lambda s: s.regression("y", "region", share=1), TypeError, "region"),
        (lambda s: s.regression("y", "x", ridge=-1, share=1), ValueError, "ridge = -1"),
        (lambda s: s.regression("y", ["x", "z"], targets=2, share=1), ValueError, "leave it out"),
        (
            lambda s: s.principal_components(["x"], 1, targets=1, share=1),
            ValueError,
            "leave it out",
        ),
        (lambda s: s.principal_components(["x", "z"], 3, share=1), ValueError, "from 1 to 2"),
        (lambda s: s.principal_components(["x", "z"], True, share=1), ValueError, "from 1 to 2"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_spent(
    ask: Any, kind: type[Exception], message: str
) -> None:
    one = session()
    with pytest.raises(kind, match=message):
        ask(one)
    assert len(one.log) == 0


def test_the_noise_follows_from_what_the_account_adds_up() -> None:
    for budget, noise in ((PureDP(1), "laplace"), (GaussianDP(1), "gaussian")):
        answer = session(budget=budget).regression("y", "x", share=1)
        assert getattr(answer.mechanism, "noise", None) == noise
        assert answer.derivation.conclusion.guarantee.implies(budget)
