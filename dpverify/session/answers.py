"""Answers of a session: a mechanism's result, with the mechanism that gave it and its cost.

An answer that is used as a number while there is none raises ``NoAnswer``, which says why and
what to do: no None or NaN is passed on in silence. All that is computed here is post-processing
of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from dpverify.estimation.answers import Result, deviations, shown, tail_of
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.mechanisms.private_quantile import QuantileEstimate
from dpverify.mechanisms.private_quantiles import QuantilesEstimate
from dpverify.plans import Abstained, Mechanism
from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    Derivation,
    GaussianDP,
    Guarantee,
    PrivacyClaim,
    PureDP,
)
from dpverify.privacy.numbers import Exact, approximately
from dpverify.session.account import Spend
from dpverify.session.histograms import Histogram, Top


class NoAnswer(ValueError):
    """An answer without the number that is asked of it: the mechanism abstained, and the budget
    for it is spent; or its result has no such number.
    """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """One private answer of a session.

    ``question`` is the question, ``mechanism`` the mechanism that answered (its public
    parameters), ``why`` the public rule by which it was chosen, ``spend`` the cost, and
    ``derivation`` the proof of this cost, about the table. ``released`` is the mechanism's own
    result, or ``Abstained``. ``value``, ``result``, ``interval`` and ``standard_deviation`` raise
    ``NoAnswer`` after an abstention; the last two also where the result has none, as a median.
    """

    question: str
    mechanism: Mechanism[Any]
    why: str
    spend: Spend
    derivation: Derivation[PrivacyClaim]
    released: Any = field(repr=False)

    @property
    def abstained(self) -> str | None:
        """The public reason why there is no number, or None where there is one."""
        return self.released.reason if isinstance(self.released, Abstained) else None

    @property
    def result(self) -> Any:
        """The mechanism's own result, with all that it says beyond ``value``. Raises NoAnswer."""
        if self.abstained is not None:
            raise NoAnswer(
                f"The {self.question} has no answer: {self.abstained}. The budget for it is spent. "
                "Ask about more records, "
                "with a larger share or within wider groups; `answer.abstained` says beforehand "
                "whether there is a number."
            )
        return self.released

    @property
    def value(self) -> Any:
        """The number, or the array, that was asked for. Raises NoAnswer after an abstention."""
        return self.result.value

    @property
    def standard_deviation(self) -> Any:
        """Standard deviation of the noise in ``value``. Raises NoAnswer, also where the result
        has none."""
        if not hasattr(self.result, "standard_deviation"):
            raise NoAnswer(self._without("standard deviation"))
        return self.result.standard_deviation

    def interval(self, level: Exact = 0.95, **how: bool) -> Any:
        """Compute (low, high) that holds the value without noise at this level, as the
        mechanism's result does.

        how: options of the result's ``interval``, as ``sampling=True`` for a mean. Raises
        NoAnswer after an abstention and where the result has no interval, and TypeError for
        options that it does not have.
        """
        interval = self.result.interval
        options = [name for name in signature(interval).parameters if name != "level"]
        for name in how:
            if name not in options:
                raise TypeError(self._without_option(name, options))
        ends = interval(level, **how)
        if ends is None:
            raise NoAnswer(self._without("interval"))
        return ends

    def _without(self, what: str) -> str:
        """Say why the result has no interval or no standard deviation, and what there is."""
        if isinstance(self.released, (QuantileEstimate, QuantilesEstimate, Quantiles)):
            why = (
                "how far in value a rank is off depends on the private records. The error to "
                "expect in ranks, as a share of n records, is public: "
                "answer.mechanism.expected_error(n), or session.expected_error(...) beforehand."
            )
        else:
            why = (
                f"a {type(self.released).__name__} has none. See what answer.result has, and "
                "answer.mechanism.expected_error(n) for n records."
            )
        return f"The {self.question} has no {what}: {why}"

    def _without_option(self, name: str, options: list[str]) -> str:
        own = (
            f"its interval takes level and {', '.join(options)}"
            if options
            else "its interval takes a level alone"
        )
        more = ""
        if name == "sampling":
            more = (
                " Intervals for a population, sampling=True, are those of regressions, of the mean "
                "of one column, and of a normal law of one column."
            )
        return f"The {self.question} has no interval with {name}=: {own}.{more}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the value with its 95% interval, or the histogram, with matplotlib; return the
        axes."""
        from dpverify.session.pictures import draw

        return draw(self, axes)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer in plain JSON types: the question, the mechanism, the cost and the
        result.
        """
        return {
            "question": self.question,
            "mechanism": type(self.mechanism).__name__,
            "guarantee": str(self.derivation.conclusion.guarantee),
            "result": self.released.to_dict(),
        }

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, specification: str) -> str:
        return format(float(self), specification) if specification else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.value, dtype=dtype)

    def __getitem__(self, group: Any) -> Answer:
        raise self._alone()

    def __iter__(self) -> Iterator[Any]:
        raise self._alone()

    def _alone(self) -> TypeError:
        return TypeError(
            f"The {self.question} is one answer; ask with by='column' for one of each group."
        )

    def items(self) -> Iterable[tuple[Any, Answer]]:
        """Return each group's public value with its answer. Raises TypeError for an answer that
        is not of groups.
        """
        raise self._alone()

    def __bool__(self) -> bool:
        raise TypeError(
            "An answer is neither true nor false; write `answer.abstained is None`, or compare "
            "answer.value."
        )

    def __str__(self) -> str:
        by = f"{type(self.mechanism).__name__}, {short(self.derivation.conclusion.guarantee)}"
        if self.abstained is not None:
            return f"{self.question}: no answer, {self.abstained} ({by})"
        return f"{self.question}: {_shown(self)} ({by})"

    def __repr__(self) -> str:
        return f"<Answer {self}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupedAnswer(Answer):
    """An answer for each group of ``by=``: from the group's public value to its ``Answer``.

    A public value decides a record's group, so groups are disjoint, and all together cost what
    the dearest costs. Every declared value has an answer, whether it occurs or not. Any of them
    may be an abstention; ``value``, ``result`` and the like raise NoAnswer where one of them
    would.
    """

    @property
    def abstained(self) -> str | None:
        """The groups that have no number, with their reasons, or None where all have one."""
        said = [f"{name!r}: {one.abstained}" for name, one in self.items() if one.abstained]
        return "; ".join(said) or None

    @property
    def value(self) -> dict[Any, Any]:
        """The values by group. Raises NoAnswer where one of them has none."""
        return {name: one.value for name, one in self.items()}

    @property
    def standard_deviation(self) -> dict[Any, Any]:
        """The standard deviations by group. Raises NoAnswer where one of them has none."""
        return {name: one.standard_deviation for name, one in self.items()}

    @property
    def result(self) -> dict[Any, Any]:
        """The mechanism's results by group. Raises NoAnswer where one of them has none."""
        return {name: one.result for name, one in self.items()}

    def interval(self, level: Exact = 0.95, **how: bool) -> dict[Any, Any]:
        """Compute each group's interval, each at this level by itself."""
        return {name: one.interval(level, **how) for name, one in self.items()}

    def plot(self, axes: Any = None) -> Any:
        """Refuse: each group has a picture of its own."""
        raise TypeError("Draw a group by itself: answer['north'].plot().")

    def to_dict(self) -> dict[str, Any]:
        """Return all groups in plain JSON types."""
        return {
            "question": self.question,
            "groups": [[k, one.to_dict()] for k, one in self.items()],
        }

    def items(self) -> Iterable[tuple[Any, Answer]]:
        """Return each group's public value with its answer, in the declared order."""
        return tuple(self.released.items())

    def __getitem__(self, group: Any) -> Answer:
        return _named(self.released, group)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.released)

    def __len__(self) -> int:
        return len(self.released)

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.question}:", *(f"  {name!r}: {one}" for name, one in self.items())]
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answers(Mapping[str, Answer]):
    """The answers of a plan by question, with their joint cost and its derivation."""

    spend: Spend
    derivation: Derivation[PrivacyClaim]
    answers: Mapping[str, Answer] = field(repr=False)

    def __getitem__(self, question: str) -> Answer:
        return _named(self.answers, question)

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __str__(self) -> str:
        return "\n".join(map(str, self.answers.values()))

    def __repr__(self) -> str:
        return f"<Answers {self}>"


def _named(answers: Mapping[Any, Answer], name: Any) -> Answer:
    if name not in answers:
        raise KeyError(f"{name!r} is none of {', '.join(map(repr, answers))}.")
    return answers[name]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnMean(Result):
    """A private mean of one column under Gaussian noise, as a number between the declared bounds
    ``lower`` and ``upper``.

    ``standard_deviation`` counts the noise only; ``count`` is the (noisy or public) number of
    records. ``spread`` is the part of that deviation due to the sum's noise, ``along`` the part
    due to the count's noise, of ``count_deviation`` records.
    """

    value: float
    standard_deviation: float
    count: float
    spread: float = field(repr=False)
    along: float = field(repr=False)
    count_deviation: float = field(repr=False)
    lower: float = field(repr=False)
    upper: float = field(repr=False)

    @classmethod
    def of(cls, mean: VectorMeanEstimate, lower: float, upper: float) -> ColumnMean:
        """Take the mean of the only column."""
        own = float(mean.standard_deviation[0]), mean.count, float(mean.spread)
        return cls(
            float(mean.value[0]), *own, float(mean.along[0]), mean.count_deviation, lower, upper
        )

    def interval(self, level: Exact = 0.95, *, sampling: bool = False) -> tuple[float, float]:
        """Compute (low, high), between the bounds, that holds the mean of the clamped records.

        sampling: hold the mean of the population of clamped records instead, from which the
        records are independent draws, by Hoeffding's inequality. The allowed failure is divided
        among the noise, the sampling and the number of records.
        """
        tail = tail_of(level, 1 + sampling * (1 + (self.count_deviation > 0)))
        one = VectorMeanEstimate(
            np.array([self.value]),
            self.count,
            self.spread,
            np.array([self.along]),
            count_deviation=self.count_deviation,
        )
        low, high = (float(end[0]) for end in one.interval(1 - tail))
        if sampling:
            fewest = self.count - deviations("gaussian", tail) * self.count_deviation
            drawn = math.sqrt(math.log(2 / tail) / (2 * max(1.0, fewest)))
            low, high = (
                low - drawn * (self.upper - self.lower),
                high + drawn * (self.upper - self.lower),
            )
        return max(self.lower, low), min(self.upper, high)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantiles:
    """Several quantiles of one column, as the result of one question, in increasing order.

    ``value`` are the released quantiles, sorted. True quantiles are in order, so sorting moves no
    quantile farther from the truth than the farthest was before. ``released`` are the same in the
    order of their release.
    """

    released: tuple[float, ...]

    @property
    def value(self) -> tuple[float, ...]:
        """The quantiles in order."""
        return tuple(sorted(self.released))

    def interval(self, level: Exact = 0.95) -> None:
        """Return None, as a single quantile does: how far in value a rank is off depends on the
        private records. Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)

    def to_dict(self) -> dict[str, Any]:
        """Return the quantiles in plain JSON types."""
        return {"result": "Quantiles", "released": list(self.released)}

    def __repr__(self) -> str:
        return f"Quantiles(value={shown(self.value)})"


def _shown(answer: Answer) -> str:
    """Write the value, with its standard deviation where it has a single one."""
    result, value = answer.released, answer.released.value
    if isinstance(result, (Histogram, Top)):
        return str(result)
    deviation = getattr(result, "standard_deviation", None)
    if isinstance(value, (int, float)) and isinstance(deviation, (int, float)):
        return f"{value:.6g} +- {deviation:.2g}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return ", ".join(f"{one:.6g}" for one in value)
    return str(result)


def short(guarantee: Guarantee) -> str:
    """Write a guarantee to six digits."""
    part = guarantee.gaussian
    if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)) and part is not None:
        beside = f", delta = {approximately(part.delta)}" if part.delta else ""
        return f"mu = {math.sqrt(part.mu_squared):.6g}{beside}"
    if isinstance(guarantee, (PureDP, ApproxDP)):
        beside = f", delta = {approximately(guarantee.delta)}" if guarantee.delta else ""
        return f"epsilon = {approximately(guarantee.epsilon)}{beside}"
    return str(guarantee)
