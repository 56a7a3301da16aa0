"""Uses that type checkers must accept or reject; mypy reads this file with all others, and
pytest runs the refusals.

A line with ``type: ignore[...]`` is a planted mistake: where a type checker no longer sees it,
mypy reports the comment as unused, which fails CI as any error does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

from dpverify import (
    Adjacency,
    ApproxDP,
    BoundedMean,
    PrivateQuantile,
    PureDP,
    RescaledMean,
    RobustMean,
    StabilityHistogram,
)
from dpverify.plans import Mechanism
from dpverify.privacy import Guarantee

ADD = Adjacency.ADD_REMOVE
ONE = PureDP(1)
LITTLE = ApproxDP(1, "1e-6")


def accepted() -> list[Mechanism[Any]]:
    """Make mechanisms as users do: numbers in any exact form, and without what is chosen."""
    mean = BoundedMean.for_budget(ONE, adjacency=ADD, lower=15, upper=45, count_share="1/3")
    assert_type(mean, BoundedMean)
    median = PrivateQuantile.for_budget(ONE, adjacency=ADD, lower=0, upper=1.5, quantile=0.5)
    assert_type(median, PrivateQuantile)
    bins = StabilityHistogram.for_budget(LITTLE, adjacency=ADD, width=1, noise="gaussian")
    vector = RescaledMean.for_budget(LITTLE, adjacency=ADD, covariance=(1.0, 1.0), n_max=10**4)
    robust = RobustMean.for_budget(LITTLE, adjacency=ADD, deviations=(1.0, 1.0), n_max=10**5)
    assert_type(bins, StabilityHistogram)
    assert_type(vector, RescaledMean)
    assert_type(robust, RobustMean)
    kind: type[Mechanism[Any]] = BoundedMean
    return [mean, median, bins, vector, kind.calibrated_for(ONE, adjacency=ADD, lower=0, upper=1)]


def accepted_budgets() -> None:
    """Compute with budgets: a part is of the same kind, a sum may be of another."""
    assert_type(LITTLE / 3, ApproxDP)
    assert_type(2 * ONE, Guarantee)
    assert_type(ONE + LITTLE, Guarantee)


REFUSED: dict[str, Callable[[], object]] = {
    "a name that is not there": lambda: BoundedMean.for_budget(
        ONE,
        adjacency=ADD,
        lowr=15,  # type: ignore[call-arg]
        upper=45,
    ),
    "no adjacency": lambda: BoundedMean.for_budget(ONE, lower=15, upper=45),  # type: ignore[call-arg]
    "an adjacency in words": lambda: BoundedMean.for_budget(
        ONE,
        adjacency="add-remove",  # type: ignore[arg-type]
        lower=15,
        upper=45,
    ),
    "no bound": lambda: BoundedMean.for_budget(ONE, adjacency=ADD, lower=15),  # type: ignore[call-arg]
    "a bound in words": lambda: BoundedMean.for_budget(
        ONE,
        adjacency=ADD,
        lower="low",  # type: ignore[arg-type]
        upper=45,
    ),
    "a parameter by its place": lambda: BoundedMean.for_budget(
        ONE,
        ADD,  # type: ignore[call-arg]
        lower=15,
        upper=45,
    ),
    "a budget that is a number": lambda: BoundedMean.for_budget(
        1,  # type: ignore[arg-type]
        adjacency=ADD,
        lower=15,
        upper=45,
    ),
    "another noise": lambda: StabilityHistogram.for_budget(
        LITTLE,
        adjacency=ADD,
        width=1,
        noise="cauchy",  # type: ignore[arg-type]
    ),
    "a name that is not there, of a class that chooses": lambda: RobustMean.for_budget(
        LITTLE,
        adjacency=ADD,
        deviation=(1.0,),  # type: ignore[call-arg]
        n_max=10**4,
    ),
    "no number of records": lambda: RescaledMean.for_budget(  # type: ignore[call-arg]
        LITTLE, adjacency=ADD, covariance=(1.0, 1.0)
    ),
    "half a release": lambda: ONE * 0.5,  # type: ignore[operator]
    "a part of a release": lambda: ONE / 0.5,  # type: ignore[operator]
    "a budget and a number": lambda: ONE + 1,  # type: ignore[operator]
}
