"""The questions about a table, one method each: for a session, which answers at once, and for a
plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

import numpy as np

from dpverify.plans import Mechanism
from dpverify.privacy import Guarantee
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Exact
from dpverify.session.questions import Question, nearest_question

Where = Mapping[str, Any] | None
"""From a column to a list of declared values, or to a pair (low, high) of public numbers."""

Reply = TypeVar("Reply", covariant=True)


class Asking(ABC, Generic[Reply]):
    """The questions, one method each. The class that answers them says what ``share`` and
    ``budget`` mean, and what is returned.
    """

    __slots__ = ()

    @abstractmethod
    def _ask(self, question: Question, share: Exact | None, budget: Guarantee | None) -> Reply:
        """Answer the question, or keep it for later."""

    if not TYPE_CHECKING:  # a type checker would take every name for a question

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse what is no question, and name the nearest one."""
            kind = type(self).__name__
            if name.startswith("_"):
                raise AttributeError(f"{kind!r} object has no attribute {name!r}")
            raise AttributeError(f"{kind} has no {name!r}; {nearest_question(name, QUESTIONS)}")

    def count(
        self,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Count the records, or those that ``where`` keeps: an unbiased integer, which may be
        negative."""
        return self._ask(question_of("count", (), where, by), share, budget)

    def sum(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Add up a column between its declared bounds."""
        return self._ask(question_of("sum", column, where, by), share, budget)

    def mean(
        self,
        columns: str | Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Estimate the mean of one column, or of several at once, between declared bounds.

        given: further parameters of the chosen mechanism, ``BoundedMean`` or ``ClippedMean``, as
        at_least=20.
        """
        return self._ask(question_of("mean", columns, where, by, given), share, budget)

    def variance(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find the variance of a column between its declared bounds; its ``result.deviation`` is
        the root."""
        return self._ask(question_of("variance", column, where, by), share, budget)

    def standard_deviation(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find the standard deviation of a column between its declared bounds, from a released
        variance. It is 0 where noise made the variance negative, with an interval that says how
        large it may be.
        """
        return self._ask(question_of("standard_deviation", column, where, by), share, budget)

    def covariance(
        self,
        columns: Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find the covariance matrix of columns between their declared bounds, whatever their law
        is."""
        return self._ask(question_of("covariance", columns, where, by), share, budget)

    def median(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find the median of a column between its declared bounds."""
        return self._ask(question_of("median", column, where, by), share, budget)

    def quantile(
        self,
        column: str,
        at: Exact | Sequence[Exact],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find a quantile of a column, at="9/10", or several, at=["1/4", "1/2", "3/4"], which share
        the cost and come in order."""
        given = {"at": _plain(at)}
        return self._ask(question_of("quantile", column, where, by, given), share, budget)

    def quantiles(
        self,
        column: str,
        levels: int | Sequence[Exact],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find many quantiles of a column at once, in order: levels=["1/4", "1/2", "3/4"], or a
        number of them, 9 for deciles."""
        at = levels_of(levels)
        return self.quantile(column, at, share=share, budget=budget, where=where, by=by)

    def histogram(
        self,
        columns: str | Sequence[str],
        bins: int | Sequence[float] | Mapping[str, int | Sequence[float]] | None = None,
        *,
        ranges: bool = False,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Count the records in disjoint public bins, for the price of one count under add-remove.

        columns: one column, or several for each combination of their bins.
        bins: a number of equal bins between the declared bounds, or all edges; a Category's bins
        are its values. For several columns also by name, bins={"age": 10, "pay": [0, 500, 8000]}.
        ranges: release what gives ranges of many bins with little noise (``result.range``).
        Single bins then have more noise: for one column up to 1.8 times as much under Gaussian
        noise, and 2.9 times under Laplace noise.
        """
        if not isinstance(ranges, (bool, np.bool_)):
            raise TypeError(f"ranges = {ranges!r:.60}; give True or False.")
        if isinstance(bins, Mapping):
            bins = {column: _plain(own) for column, own in bins.items()}
        given: dict[str, Any] = {} if bins is None else {"bins": _plain(bins)}
        given |= {"ranges": True} if ranges else {}
        return self._ask(question_of("histogram", columns, where, by, given), share, budget)

    def top(
        self,
        column: str,
        k: int,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Reply:
        """Find the k most frequent values of a Category, with their counts, at the cost of one
        histogram whatever k is."""
        return self._ask(question_of("top", column, where, by, {"k": k}), share, budget)

    def gaussian(
        self,
        columns: str | Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Fit a normal law: mean and deviation of a column, or mean and covariance of several.

        given: further parameters of ``UnivariateGaussian`` or ``Gaussian``.
        """
        return self._ask(question_of("gaussian", columns, where, by, given), share, budget)

    def moments(
        self,
        columns: Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Release number, means and covariances of columns between their declared bounds at once.

        The ``result`` is a ``MomentMatrixEstimate``: its ``regression`` of any columns on others,
        by their places in ``columns``, and its ``principal_components`` cost nothing more. given:
        further parameters of ``MomentMatrix``.
        """
        return self._ask(question_of("moments", columns, where, by, given), share, budget)

    def regression(
        self,
        target: str | Sequence[str],
        on: str | Sequence[str],
        *,
        ridge: Exact | None = None,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Fit a column, or several, linearly on others with an intercept: coefficients in the order
        of ``on``. On one column, the targets' squares are not released where that is less noise.

        ridge: by default chosen from the noise, see ``MomentMatrixEstimate.regression``. given:
        further parameters of ``MomentMatrix``.
        """
        targets, features = ([one] if isinstance(one, str) else list(one) for one in (target, on))
        both = [name for name in features if name in targets]
        if both or not targets or not features:
            raise ValueError(
                f"regression of {targets} on {features}: give at least one column on each side, "
                "and none on both."
            )
        own: dict[str, Any] = {"target": target if isinstance(target, str) else targets}
        own |= {} if ridge is None else {"ridge": ridge}
        return self._ask(
            question_of("regression", [*features, *targets], where, by, own | given), share, budget
        )

    def principal_components(
        self,
        columns: Sequence[str],
        k: int = 2,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Find the k directions in which columns between declared bounds vary most, in the data's
        units.

        given: further parameters of ``MomentMatrix``.
        """
        own = {"k": k} | given
        return self._ask(
            question_of("principal_components", columns, where, by, own), share, budget
        )

    def robust_mean(
        self,
        columns: str | Sequence[str],
        *,
        deviations: Sequence[float],
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Reply:
        """Estimate the means of columns where a share of the records may be anything (a tenth, or
        ``gamma``).

        deviations: a public standard deviation of each column's typical records.
        given: further parameters of ``RobustMean``.
        """
        given = {"deviations": _plain(deviations)} | given
        return self._ask(question_of("robust_mean", columns, where, by, given), share, budget)

    def release(
        self,
        mechanism: type[Mechanism[Any]],
        columns: str | Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **parameters: Any,
    ) -> Reply:
        """Ask any mechanism of the library, by its class and its public parameters, about columns
        of the table."""
        given = {"mechanism": mechanism, "parameters": parameters}
        return self._ask(question_of("release", columns, where, by, given), share, budget)


def _with_a_share(example: str) -> str:
    """Add a share to an example of a question, and say how several columns are given."""
    comma = "" if example.endswith("()") else ", "
    listed = ", with several columns in one list" if "columns" in example else ""
    return f"{example[:-1]}{comma}share='1/3'){listed}"


QUESTIONS = tuple(name for name in vars(Asking) if not name.startswith("_"))
"""Names of the questions, which are the methods that ask them."""
for _name in QUESTIONS:
    setattr(Asking, _name, fitting(_name, _with_a_share)(vars(Asking)[_name]))


class Asked(Asking[Question]):
    """The questions as data: each method returns its question, and nothing is answered."""

    __slots__ = ()

    def _ask(self, question: Question, share: Exact | None, budget: Guarantee | None) -> Question:
        return question


def named_question(
    kind: str, columns: str | Sequence[str], where: Where, by: str | None, given: dict[str, Any]
) -> Question:
    """Make the question of the method that is named ``kind``. Raises TypeError or ValueError as
    the method does.
    """
    method = getattr(Asked(), kind, None) if isinstance(kind, str) and kind[:1] != "_" else None
    if method is None:
        raise ValueError(f"{kind!r} is no question; {nearest_question(str(kind), QUESTIONS)}")
    if kind == "count":
        return cast(Question, method(where=where, by=by, **given))
    named = [given.pop("mechanism", None)] if kind == "release" else []
    return cast(Question, method(*named, columns, where=where, by=by, **given))


def question_of(
    kind: str,
    columns: str | Sequence[str],
    where: Where,
    by: str | None,
    given: Mapping[str, Any] | None = None,
) -> Question:
    """Make a question of a method's arguments. Raises TypeError for columns that are no names, for
    a ``by`` that is no name, for a ``where`` that is no mapping, and for parameters of a budget
    among ``given``.
    """
    if not isinstance(columns, Iterable):
        raise TypeError(f"{kind} of {columns!r}: give the name of a column, or a list of names.")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if by is not None and not isinstance(by, str):
        raise TypeError(
            f"by = a {type(by).__name__}; give the name of one column, a Category or a Boolean. "
            "For each combination of several ask for their histogram."
        )
    if where is not None and not isinstance(where, Mapping):
        # A mask may have been computed from the data, so only a text is shown.
        shown = repr(where) if isinstance(where, str) else f"a {type(where).__name__}"
        raise TypeError(
            f"where = {shown:.60} is no mapping; give for each column its declared values in a "
            "list, or a pair (low, high): write where={'region': ['north'], 'age': (18, 65)}."
        )
    costs = [name for name in ("epsilon", "eps", "delta", "mu", "rho") if name in (given or {})]
    if costs:
        raise TypeError(
            f"{kind} has no parameter {costs[0]!r}: say what the answer may cost by share='1/3' of "
            "the session's budget, or by budget=PureDP('0.1')."
        )
    return Question(kind, names, dict(where or {}), by, dict(given or {}))


def levels_of(levels: Any) -> list[Any]:
    """List the quantiles that ``levels`` stands for: the given ones, or this many evenly spaced
    ones. Raises TypeError for anything else.
    """
    listed = _plain(levels)
    if isinstance(listed, int) and not isinstance(listed, bool) and listed >= 1:
        return [f"{k}/{listed + 1}" for k in range(1, listed + 1)]
    if not isinstance(listed, list):
        raise TypeError(
            f"levels = {levels!r}; give a list of quantiles, ['1/4', '1/2', '3/4'], or how many "
            "evenly spaced ones, 9 for deciles."
        )
    return listed


def _plain(value: Any) -> Any:
    """Convert public numbers, also numpy's and pandas', to a list; a single one, or a text, stays
    as it is.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    single = isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
    return value if single else list(value)
