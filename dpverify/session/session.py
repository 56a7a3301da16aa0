"""``Session``: one analyst, one table, one budget; questions chosen after seeing answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from dpverify.plans import Mechanism
from dpverify.privacy import Adjacency, Derivation, Guarantee, PrivacyClaim, parse_guarantee
from dpverify.privacy.numbers import Exact
from dpverify.randomness import Bits
from dpverify.session.account import Account, Spend
from dpverify.session.accounting import Unit
from dpverify.session.answers import Answer, Answers, short
from dpverify.session.calibrating import share_of
from dpverify.session.preparing import Prepared, prepare
from dpverify.session.questions import Question, read_question
from dpverify.tables import Table

Where = Mapping[str, Any] | None
"""From a column to a list of declared values, or to a pair (low, high) of public numbers."""


class ReleaseFailed(RuntimeError):
    """A release that stopped after its budget was spent; which error it was is not said, for records may have decided it."""


class Session:
    """Private answers about one table, paid for from one account.

    table: a ``Table``. budget: what all answers together may reveal; requests may be chosen after seeing answers.
    adjacency: ``Adjacency.ADD_REMOVE`` (the number of rows is private) or ``REPLACE`` (it is public).
    account: a file that every spend is written to before a record is read, or an open ``Account``; without it the account is
    in memory, and ends with the process. accounting: "gaussian" (mu^2 adds up, Gaussian noise: better for many or for
    wide questions) or "epsilon" (epsilon adds up, Laplace noise: better for a few); by default "epsilon" for
    PureDP budgets alone. additive_delta: see ``Account``. bits: a seeded source, in tests.

    Every question takes ``share`` ("1/3" of the whole budget as it was at the beginning) or ``budget`` (a guarantee), and
    ``where`` (from a column to a list of values, or to a pair (low, high)) and ``by`` (a Category or Boolean: an answer for
    each declared value, for the price of one under add-remove). Refusals come before the spend; a spend is never given back.
    Raises TypeError or ValueError for bad parameters, ``BudgetExceeded`` for what is not left, ``ReleaseFailed``.
    """

    __slots__ = ("_bits", "account", "table")

    def __init__(
        self,
        table: Table,
        *,
        budget: Guarantee,
        adjacency: Adjacency,
        account: Account | str | os.PathLike[str] | None = None,
        accounting: Unit | None = None,
        additive_delta: Exact | None = None,
        bits: Bits | None = None,
    ) -> None:
        if not isinstance(table, Table):
            raise TypeError(
                f"table = a {type(table).__name__}; declare its columns first: "
                "Table(data, columns={'age': Number(0, 120)})."
            )
        if isinstance(account, Account):
            _refuse_another(account, budget, adjacency)
            opened = account
        else:
            opened = Account(
                budget,
                account,
                adjacency=adjacency,
                schema=str(table.domain),
                accounting=accounting,
                additive_delta=additive_delta,
            )
        self._open(table, opened, bits)

    @classmethod
    def resume(
        cls, account: str | os.PathLike[str], table: Table, *, bits: Bits | None = None
    ) -> Session:
        """Go on with an account on disk: its budget, adjacency and all that was spent. Raises ValueError for another table."""
        made = cls.__new__(cls)
        made._open(table, Account.resume(account), bits)
        return made

    def _open(self, table: Table, account: Account, bits: Bits | None) -> None:
        if account.schema != str(table.domain):
            raise ValueError(
                f"The account is for {account.schema or 'no table'}, and this table is {table.domain}: claims about two tables "
                "do not add up. Open the table with the same columns and types, or another account."
            )
        if bits is not None and not isinstance(bits, Bits):
            raise TypeError(
                f"bits = {type(bits).__name__}; leave it out, or give SeededBits(seed) in a test."
            )
        self.table, self.account, self._bits = table, account, bits

    # --- questions --------------------------------------------------------------------------------

    def count(
        self,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Any:
        """Count the records, or those that ``where`` keeps: an unbiased integer, which may be negative."""
        return self._ask(_question("count", (), where, by), share, budget)

    def sum(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Any:
        """Add up a column between its declared bounds."""
        return self._ask(_question("sum", column, where, by), share, budget)

    def mean(
        self,
        columns: str | Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Any:
        """Average one column, or several at once, between declared bounds.

        given: further parameters of the mechanism that is chosen, ``BoundedMean`` or ``ClippedMean``, as at_least=20.
        """
        return self._ask(_question("mean", columns, where, by, given), share, budget)

    def median(
        self,
        column: str,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Any:
        """Find the median of a column between its declared bounds."""
        return self._ask(_question("median", column, where, by), share, budget)

    def quantile(
        self,
        column: str,
        at: Exact | Sequence[Exact],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Any:
        """Find a quantile of a column, at="9/10", or several, at=["1/4", "1/2", "3/4"], which share the cost and come in order."""
        given = {"at": at if isinstance(at, str) or not isinstance(at, Sequence) else list(at)}
        return self._ask(_question("quantile", column, where, by, given), share, budget)

    def histogram(
        self,
        column: str,
        bins: int | Sequence[float] | None = None,
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
    ) -> Any:
        """Count the records in disjoint public bins, for the price of one count under add-remove.

        bins: a number of equal ones between the declared bounds, or all edges; of a Category its values are the bins.
        """
        given = {} if bins is None else {"bins": bins if isinstance(bins, int) else list(bins)}
        return self._ask(_question("histogram", column, where, by, given), share, budget)

    def gaussian(
        self,
        columns: str | Sequence[str],
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> Any:
        """Fit a normal law: mean and deviation of a column, or mean and covariance of several.

        given: further parameters of ``UnivariateGaussian`` or ``Gaussian``.
        """
        return self._ask(_question("gaussian", columns, where, by, given), share, budget)

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
    ) -> Any:
        """Average columns of which a share of the records may be anything (a tenth, or ``gamma``).

        deviations: a public standard deviation of each column's typical records. given: further parameters of ``RobustMean``.
        """
        given = {"deviations": list(deviations)} | given
        return self._ask(_question("robust_mean", columns, where, by, given), share, budget)

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
    ) -> Any:
        """Ask any mechanism of the library, by its class and its public parameters, about columns of the table."""
        given = {"mechanism": mechanism, "parameters": parameters}
        return self._ask(_question("release", columns, where, by, given), share, budget)

    # --- before and after ---------------------------------------------------------------------------

    def expected_error(
        self,
        kind: str,
        columns: str | Sequence[str] = (),
        *,
        share: Exact | None = None,
        budget: Guarantee | None = None,
        n: int | None = None,
        where: Where = None,
        by: str | None = None,
        **given: Any,
    ) -> float:
        """Predict the root mean square of an answer's noise, from public numbers; nothing is spent or read.

        kind: the name of a question, as "mean"; given: what else the question takes. n: a public guess of the number of records that
        count; by default the number of rows under replace, where it is public. In the unit that the mechanism's
        ``expected_error`` names. Raises ValueError where nothing can be said without the data.
        """
        question = _question(kind, columns, where, by, given)
        prepared = self._prepared(question, share, budget)
        if n is None and kind in ("count", "sum", "histogram"):
            n = 0  # whatever it is, the noise is the same
        if n is None:
            if self.account.adjacency is not Adjacency.REPLACE or prepared.selects:
                raise ValueError(
                    "How many records count is private here; give n=, a public guess, say n=1000."
                )
            n = self.table.private_number_of_rows
        return prepared.mechanism.expected_error(n)

    @property
    def left(self) -> Guarantee | None:
        """The guarantee that would spend all that is left, or None."""
        return self.account.left

    @property
    def log(self) -> tuple[Spend, ...]:
        """All spends in their order: what was asked, the guarantee of its answer, and its cost. No answers."""
        return self.account.log

    @property
    def derivation(self) -> Derivation[PrivacyClaim]:
        """The whole session as one derivation: each answer's claim, under the filter that adds them up.

        Raises AccountError where nothing was spent, and for questions of earlier processes that named their mechanism
        (``release``), which the account's texts do not hold.
        """
        known = self.account.derived
        for spend in self.account.log:
            if spend.number not in known:
                with suppress(TypeError, ValueError):
                    self.account.attach(spend.number, self._again(spend).derivation)
        return self.account.derivation

    def _again(self, spend: Spend) -> Prepared:
        """Prepare what an earlier process asked, from the account's text."""
        question, share, budget = read_question(spend.what)
        given = None if budget is None else parse_guarantee(budget)
        return prepare(question, self.table, self.account, share, given)

    def _prepared(
        self, question: Question, share: Exact | None, budget: Guarantee | None
    ) -> Prepared:
        return prepare(question, self.table, self.account, share_of(share), budget)

    def _ask(self, question: Question, share: Exact | None, budget: Guarantee | None) -> Any:
        """Prepare, spend, release, in this order. A spend is on disk before a record is read."""
        prepared = self._prepared(question, share, budget)
        shown = prepared.derivation
        text = question.text(share_of(share), budget)
        spend = self.account.spend(shown.conclusion.guarantee, text, shown)
        return _answer(prepared, spend, released(prepared, self._bits))

    def __repr__(self) -> str:
        return (
            f"<Session about {self.table.name!r}: {self.account.budget} under {self.account.adjacency}, "
            f"{len(self.log)} questions, left {'nothing' if self.left is None else short(self.left)}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A session is not copied or pickled; Session.resume(path, table) goes on with its account."
        )


def released(prepared: Prepared, bits: Bits | None) -> dict[Any, Any]:
    """Release after the spend. Raises ReleaseFailed, with no trace of the records, for whatever error there was."""
    with suppress(Exception):
        return prepared.release(bits)
    raise ReleaseFailed(
        f"{prepared.question}: the release failed after its budget was spent, which stays spent. Why is not said here, for "
        "records may have decided it; the data's owner can run answer's mechanism on the selection's records to see."
    )


def _answer(prepared: Prepared, spend: Spend, found: Mapping[Any, Any]) -> Any:
    def one(question: str, result: Any) -> Answer:
        return Answer(
            question, prepared.mechanism, prepared.why, spend, prepared.derivation, result
        )

    asked = str(prepared.question)
    if prepared.question.by is None:
        return one(asked, found[None])
    each = {group: one(f"{asked} = {group!r}", result) for group, result in found.items()}
    return Answers(asked, spend, prepared.derivation, each)


def _question(
    kind: str,
    columns: str | Sequence[str],
    where: Where,
    by: str | None,
    given: Mapping[str, Any] | None = None,
) -> Question:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if where is not None and not isinstance(where, Mapping):
        raise TypeError(f"where = {where!r}; write where={{'region': ['north'], 'age': (18, 65)}}.")
    return Question(kind, names, dict(where or {}), by, dict(given or {}))


def _refuse_another(account: Account, budget: Guarantee, adjacency: Adjacency) -> None:
    if account.budget != budget or account.adjacency is not adjacency:
        raise ValueError(
            f"The account has {account.budget} under {account.adjacency}, and {budget} under {adjacency} is given; give the same, "
            "or Session.resume(path, table)."
        )
