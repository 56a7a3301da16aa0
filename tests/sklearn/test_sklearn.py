"""Private estimators in scikit-learn's shapes: its own checks, and what is said of privacy."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from dpverify import Adjacency, GaussianDP, MomentMatrix, PureDP, SeededBits
from dpverify.sklearn import (
    FORBIDDEN_CHECKS,
    PCA,
    LinearRegression,
    NoRelease,
    Ridge,
    SecondRelease,
    StandardScaler,
)
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
CHEAP: dict[str, Any] = {"budget": GaussianDP(20), "adjacency": ADD}
OF: dict[str, dict[str, Any]] = {
    "LinearRegression": {"feature_bounds": (-4, 4), "target_bounds": (-300, 300)},
    "Ridge": {"feature_bounds": (-4, 4), "target_bounds": (-300, 300)},
    "PCA": {"bounds": (-4, 4)},
    "StandardScaler": {"bounds": (-4, 4)},
}
KINDS: dict[str, Any] = {k.__name__: k for k in (LinearRegression, Ridge, PCA, StandardScaler)}


def made(name: str, **given: Any) -> Any:
    return KINDS[name](**CHEAP | OF[name] | given)


def people(n: int = 2000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(8)
    x = rng.uniform(-2, 3, (n, 3))
    return x, x @ [1.0, -2.0, 0.5] + 3 + rng.normal(0, 0.5, n)


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one seeded source for all releases, so that what noise makes fail always fails."""
    right, bits = MomentMatrix.release, SeededBits(31)

    def release(self: MomentMatrix, data: Any, given: Any = None) -> Any:
        return right(self, data, bits if given is None else given)

    monkeypatch.setattr(MomentMatrix, "release", release)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("name", KINDS)
def test_scikit_learns_checks_pass_but_for_those_that_privacy_forbids(name: str) -> None:
    """Each forbidden one fails, every other passes: the list is neither too short nor too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # second releases among others
        checks = check_estimator(made(name), on_fail=None, on_skip=None)
    failed = {one["check_name"] for one in checks if one["status"] == "failed"}
    passed = {one["check_name"] for one in checks if one["status"] == "passed"}
    skipped = {one["check_name"] for one in checks if one["status"] == "skipped"}
    assert failed == set(FORBIDDEN_CHECKS[name])
    assert skipped <= {"check_array_api_input"}
    assert len(passed) >= 35
    assert not passed & failed


def test_under_replace_no_records_are_refused_as_scikit_learn_wants() -> None:
    for name in ("PCA", "StandardScaler"):
        with pytest.raises(ValueError, match="record"):
            made(name, adjacency=REPLACE).fit(np.empty((0, 3)))
    with pytest.raises(ValueError, match="record"):
        made("LinearRegression", adjacency=REPLACE).fit(np.empty((0, 3)), [])


def test_nobody_at_all_is_fitted_and_there_is_no_model() -> None:
    """The number of records is private: an abstention says so when the model is asked."""
    model = made("LinearRegression", at_least=50)
    assert model.fit(np.empty((0, 3)), np.empty(0), bits=SeededBits(1)) is model
    assert model.claim_.guarantee == GaussianDP(20)
    asked: tuple[Callable[[], Any], ...] = (lambda: model.predict(np.eye(3)), lambda: model.coef_)
    for ask in asked:
        with pytest.raises(NoRelease, match="fewer than 50 records, by the released count"):
            ask()
    axes = made("PCA", at_least=50).fit(np.zeros((1, 3)), bits=SeededBits(1))
    scaler = made("StandardScaler", at_least=50).fit(np.zeros((1, 3)), bits=SeededBits(1))
    for one in (axes, scaler):
        with pytest.raises(NoRelease, match="is spent"):
            one.transform(np.zeros((2, 3)))


def test_what_is_not_fitted_says_so() -> None:
    for name in KINDS:
        with pytest.raises(NotFittedError):
            _ = made(name).claim_


def test_a_linear_model_is_the_mechanisms() -> None:
    x, y = people()
    model = made("LinearRegression", target_bounds=(-10, 15)).fit(x, y, bits=SeededBits(4))
    assert model.coef_ == pytest.approx([1.0, -2.0, 0.5], abs=0.05)
    assert model.intercept_ == pytest.approx(3, abs=0.1)
    assert model.score(x, y) > 0.9
    mechanism = MomentMatrix.for_budget(
        GaussianDP(20), adjacency=ADD, lower=(-4,) * 3 + (-10,), upper=(4,) * 3 + (15,)
    )
    same = mechanism.release(np.column_stack([x, y]), SeededBits(4))
    assert model.estimate_ == same
    assert model.derivation_.conclusion == mechanism.claim
    low, high = model.regression_.interval(0.999999, sampling=True)
    assert ((low <= [1, -2, 0.5]) & (high >= [1, -2, 0.5])).all()
    assert np.abs(model.predict([[1e300, 0.0, 0.0]])).max() <= 15


def test_for_a_single_feature_the_targets_squares_are_not_released() -> None:
    x, y = people()
    own: dict[str, Any] = {"target_bounds": (-10, 15), "budget": PureDP(1)}
    model = made("LinearRegression", **own).fit(x[:, :1], y, bits=SeededBits(4))
    whole = MomentMatrix.for_budget(
        PureDP(1), adjacency=ADD, lower=(-4, -10), upper=(4, 15), noise="laplace"
    )
    assert model.mechanism_ == MomentMatrix.for_budget(
        PureDP(1), adjacency=ADD, lower=(-4, -10), upper=(4, 15), noise="laplace", targets=1
    )
    moments: Any = whole.release(np.column_stack([x[:, 0], y]), SeededBits(4))
    full = moments.regression(1)
    assert model.regression_.standard_deviation < 0.8 * full.standard_deviation
    assert model.regression_.residual_deviation > full.residual_deviation
    gaussian = made("LinearRegression", adjacency=REPLACE, target_bounds=(-10, 15))
    assert gaussian.fit(x[:, :1], y, bits=SeededBits(1)).mechanism_.targets == 0
    several = made("LinearRegression", target_bounds=([-10, -3], [15, 3]))
    several.fit(x[:, :1], np.column_stack([y, x[:, 0]]), bits=SeededBits(1))
    assert several.mechanism_.targets == 2
    assert several.coef_ == pytest.approx(np.array([[1.0], [1.0]]), abs=0.1)


def test_a_penalty_means_what_it_means_in_scikit_learn() -> None:
    from sklearn.linear_model import Ridge as Exact

    x, y = people(400)
    exact = Exact(alpha=200).fit(x, y)
    own: dict[str, Any] = {"budget": GaussianDP(10**6), "target_bounds": (-10, 15)}
    model = made("Ridge", alpha=200, **own).fit(x, y, bits=SeededBits(4))
    assert model.coef_ == pytest.approx(exact.coef_, rel=1e-3)
    assert model.intercept_ == pytest.approx(exact.intercept_, rel=1e-3)


def test_several_targets_and_frames() -> None:
    x, y = people()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = made("LinearRegression", target_bounds=([-10, -3], [15, 3]))
    model.fit(frame, np.column_stack([y, x[:, 0]]), bits=SeededBits(1))
    assert model.coef_.shape == (2, 3)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.predict(frame).shape == (2000, 2)


@pytest.mark.parametrize(
    "given", [[(0, 1), (5, 10)], ((0, 1), (5, 10)), [[0, 1], [5, 10]], np.array([[0, 1], [5, 10]])]
)
def test_bounds_of_two_columns_that_can_be_read_in_two_ways_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="all lower and then all upper bounds"):
        made("PCA", bounds=given).fit(np.zeros((9, 2)), bits=NoBits())
    for clear in (([0, 5], [1, 10]), (np.array([0, 5]), np.array([1, 10])), ([0, 5], 10)):
        fitted = made("PCA", bounds=clear).fit(np.zeros((9, 2)), bits=SeededBits(1))
        assert fitted.mechanism_.lower == (0.0, 5.0)


def test_components_and_scaling_are_those_of_numpy_with_little_noise() -> None:
    x, _ = people()
    little: dict[str, Any] = {"budget": GaussianDP(10**5)}
    axes = made("PCA", n_components=2, **little).fit(x, bits=SeededBits(1))
    values = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1]
    assert axes.explained_variance_ == pytest.approx(values[:2], rel=1e-2)
    assert axes.explained_variance_ratio_ == pytest.approx(values[:2] / values.sum(), rel=1e-2)
    whole = made("PCA", **little).fit(x, bits=SeededBits(1))
    assert np.allclose(whole.inverse_transform(whole.transform(x)), x, atol=1e-6)
    scaler = made("StandardScaler", **little).fit(x, bits=SeededBits(1))
    scaled = scaler.transform(x)
    assert scaled.mean(axis=0) == pytest.approx([0] * 3, abs=1e-3)
    assert scaled.std(axis=0) == pytest.approx([1] * 3, abs=1e-3)
    assert np.allclose(scaler.inverse_transform(scaled), x)
    assert list(scaler.get_feature_names_out(["a", "b", "c"])) == ["a", "b", "c"]


def test_a_pure_budget_takes_laplace_noise() -> None:
    x, y = people(200)
    model = made("LinearRegression", budget=PureDP(3)).fit(x, y, bits=SeededBits(1))
    assert model.claim_.guarantee == PureDP(3)
    assert model.estimate_.noise == model.regression_.noise == "laplace"


def test_a_second_fit_is_a_second_release_and_says_so() -> None:
    x, y = people(200)
    model = made("LinearRegression").fit(x, y, bits=SeededBits(1))
    with pytest.warns(SecondRelease, match="called once before"):
        model.fit(x, y, bits=SeededBits(2))
    assert len(model.derivations_) == 2
    assert len(clone(model).fit(x, y, bits=SeededBits(3)).derivations_) == 1
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(x) == model.predict(x)).all()


def test_models_are_parts_of_scikit_learns_tools() -> None:
    x, y = people()
    line = make_pipeline(
        made("StandardScaler"), made("LinearRegression", feature_bounds=(-3, 3))
    ).fit(x, y)
    assert line.predict(x).shape == (2000,)
    scores = cross_val_score(made("LinearRegression", target_bounds=(-10, 15)), x, y, cv=3)
    assert scores.min() > 0.8
    assert "budget" in made("PCA").get_params()
    assert clone(made("PCA", n_components=2)).n_components == 2


def with_odd(thing: Any) -> Any:
    """Return records of which one holds something odd."""
    x = np.ones((5, 3), object)
    x[2, 1] = thing
    return x


ODD: dict[str, tuple[Any, Any, str]] = {
    "records in one dimension": (np.full(5, 4.125), np.ones(5), "Reshape your data"),
    "complex numbers": (np.full((5, 3), 4.125j), np.ones(5), "Complex data not supported"),
    "a text": (with_odd("somebody of 4.125"), np.ones(5), "X: argument must be"),
    "an integer beyond floats": (with_odd(4125 * 10**400), np.ones(5), "X: argument must be"),
    "something else": (with_odd({"of": 4.125}), np.ones(5), "X: argument must be"),
    "a text as a target": (np.ones((5, 3)), with_odd("4.125 of somebody"), "y: argument must be"),
    "a single target": (np.ones((1, 3)), 4.125, "y is a single number"),
}


@pytest.mark.parametrize(("x", "y", "message"), ODD.values(), ids=ODD.keys())
def test_what_is_refused_shows_no_record(x: Any, y: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        made("LinearRegression").fit(x, y, bits=NoBits())
    assert "4.125" not in str(caught.value)
    assert "4125" not in str(caught.value)
    assert caught.value.__context__ is None
    if np.ndim(y) == 1:
        with pytest.raises((TypeError, ValueError), match=message):
            made("PCA").fit(x, bits=NoBits())


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_no_imputer_that_learns_from_records_is_recommended(odd: float) -> None:
    x, y = people(20)
    for records, targets in ((np.where(x == x[3, 1], odd, x), y), (x, np.where(y == y[3], odd, y))):
        with pytest.raises(ValueError, match=r"contains .* looks at each record alone") as caught:
            made("LinearRegression").fit(records, targets, bits=NoBits())
        assert "pipeline" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_texts_that_spell_numbers_are_these_numbers() -> None:
    x, y = people(50)
    fits = [
        made("LinearRegression").fit(records, y, bits=SeededBits(1)).coef_
        for records in (x, x.astype(str))
    ]
    assert (fits[0] == fits[1]).all()


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(TypeError, match=r"'feature_bounds'; .*bounds.* Write PCA\(budget="):
        PCA(**CHEAP, feature_bounds=(0, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'bounds'; .*Write Ridge\(.* feature_bounds=\(0, 1\)"):
        Ridge(**CHEAP, bounds=(0, 1))  # type: ignore[call-arg]


def test_numbers_of_numpy_are_parameters_too() -> None:
    x, _ = people(100)
    axes = made("PCA", n_components=np.arange(1, 3)[1]).fit(x, bits=SeededBits(1))
    assert axes.components_.shape == (2, 3)


BAD: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("PCA", {"budget": None}, ValueError, "budget is missing"),
    ("PCA", {"adjacency": None}, ValueError, "adjacency is missing"),
    ("PCA", {"bounds": None}, ValueError, "bounds is missing"),
    ("PCA", {"bounds": 3}, TypeError, r"give a pair \(low, high\)"),
    ("PCA", {"bounds": ([0, 0], 1)}, ValueError, "for 3 columns"),
    ("PCA", {"bounds": (1, 0)}, ValueError, "reversed"),
    ("PCA", {"bounds": [(0, 1), (5, 10), (2, 3)]}, TypeError, "a list with one for each column"),
    ("PCA", {"bounds": ("low", 0)}, TypeError, "bounds: 'low' is no number"),
    ("PCA", {"n_components": 0}, ValueError, "n_components = 0"),
    ("Ridge", {"alpha": -1.0}, ValueError, "alpha = -1.0 is negative"),
    ("LinearRegression", {"feature_bounds": None}, ValueError, "feature_bounds is missing"),
    ("LinearRegression", {"target_bounds": None}, ValueError, "target_bounds is missing"),
]


@pytest.mark.parametrize(("name", "change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_parameters_that_make_no_sense_are_refused_before_a_bit_is_drawn(
    name: str, change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    x, y = people(10)
    with pytest.raises(kind, match=message):
        made(name, **change).fit(x, y, bits=NoBits())
