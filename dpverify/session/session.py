"""``Session``: one analyst, one table, one budget; questions chosen after seeing answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from dpverify.privacy import Adjacency, Derivation, Guarantee, PrivacyClaim, parse_guarantee
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Exact, brief, whole
from dpverify.randomness import Bits
from dpverify.randomness.bits import require_bits
from dpverify.session.account import Account, Spend
from dpverify.session.accounting import Unit, part_of
from dpverify.session.answers import Answer
from dpverify.session.asking import Asking, Where, named_question
from dpverify.session.calibrating import share_of
from dpverify.session.plan import Plan
from dpverify.session.preparing import Prepared, prepare
from dpverify.session.questions import Question, read_question
from dpverify.session.releasing import answered, released
from dpverify.tables import Table


class Session(Asking[Answer]):
    """Private answers about one table, paid for from one account.

    table: a ``Table``. budget: the guarantee of all answers together; requests may be chosen
    after seeing answers.
    adjacency: ``Adjacency.ADD_REMOVE`` (the number of rows is private) or ``REPLACE`` (it is
    public).
    account: a file that every spend is written to before a record is read, or an open
    ``Account``; without it the account is in memory, and ends with the process.
    accounting: "gaussian" (mu^2 adds up, Gaussian noise: better for many or for wide questions)
    or "epsilon" (epsilon adds up, Laplace noise: better for a few); by default "epsilon" for
    PureDP budgets alone.
    additive_delta: see ``Account``. bits: a seeded source, in tests.

    Every question takes ``share`` ("1/3" of the whole budget as it was at the beginning) or
    ``budget`` (a guarantee), ``where`` (from a column to a list of values, or to a pair (low,
    high)) and ``by`` (a Category or Boolean: an answer for each declared value, for the price of
    one under add-remove). Refusals come before the spend; a spend is never given back. Raises
    TypeError or ValueError for bad parameters, ``BudgetExceeded`` where too little is left,
    ``ReleaseFailed``.
    """

    __slots__ = ("_bits", "account", "table")

    @fitting("Session")
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
            if accounting not in (None, account.unit) or additive_delta is not None:
                raise ValueError(
                    f"The account is open and adds up {account.unit}; accounting and "
                    "additive_delta are given when it is opened, so leave them out."
                )
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
        """Resume an account on disk: its budget, adjacency and all that was spent. Raises
        ValueError for another table.
        """
        made = cls.__new__(cls)
        made._open(table, Account.resume(account), bits)
        return made

    def _open(self, table: Table, account: Account, bits: Bits | None) -> None:
        if account.schema != str(table.domain):
            raise ValueError(
                f"The account is for {account.schema or 'no table'}, and this table is "
                f"{table.domain}: claims about two tables "
                "do not add up. Open the table with the same columns and types, or another account."
            )
        if bits is not None:
            require_bits(bits)
        self.table, self.account, self._bits = table, account, bits

    # --- before and after -------------------------------------------------------------------------

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
        """Predict the root mean square of an answer's noise, from public numbers. Nothing is
        spent, and nothing is read except the number of rows of a table of chunks under replace.

        kind: the name of a question, as "mean". given: the question's other arguments.
        n: a public guess of the number of records that count; by default the number of rows under
        replace, where it is public.
        The result is in the unit that the mechanism's ``expected_error`` names. Raises ValueError
        where nothing can be said without the data.
        """
        question = named_question(kind, columns, where, by, given)
        prepared = self._prepared(question, share, budget)
        if n is None and kind in ("count", "sum", "histogram", "top"):
            n = 0  # whatever it is, the noise is the same
        if n is None:
            if self.account.adjacency is not Adjacency.REPLACE or prepared.selects:
                raise ValueError(
                    "How many records count is private here; give n=, a public guess, say n=1000."
                )
            n = self.table.private_number_of_rows
        if whole(n, "n") < 0:
            raise ValueError(f"n = {n}: give a public guess of a number of records, say n=1000.")
        return prepared.expected_error(n)

    def plan(self) -> Plan:
        """Begin a plan: several questions that are fixed before any of them is answered, for less
        noise in each.
        """
        return Plan(self.table, self.account, self._bits)

    @property
    def left(self) -> Guarantee | None:
        """The guarantee that would spend all that is left, or None."""
        return self.account.left

    @property
    def log(self) -> tuple[Spend, ...]:
        """All spends in their order: what was asked, the guarantee of its answer, and its cost. No
        answers."""
        return self.account.log

    @property
    def derivation(self) -> Derivation[PrivacyClaim]:
        """Derivation of the whole session: each answer's claim, under the filter that adds them
        up.

        Raises AccountError where nothing was spent, and for questions of earlier processes that
        named their mechanism (``release``), which the account's texts do not hold.
        """
        known = self.account.derived
        for spend in self.account.log:
            if spend.number not in known:
                with suppress(TypeError, ValueError):
                    self.account.attach(spend.number, self._again(spend))
        return self.account.derivation

    def _again(self, spend: Spend) -> Derivation[PrivacyClaim]:
        """Derive again what an earlier process answered, from the account's text."""
        with suppress(ValueError):
            return self.plan().derivation_of(spend)
        question, share, budget = read_question(spend.what)
        given = None if budget is None else parse_guarantee(budget)
        return prepare(question, self.table, self.account, share, given).derivation

    def _prepared(
        self, question: Question, share: Exact | None, budget: Guarantee | None
    ) -> Prepared:
        return prepare(question, self.table, self.account, share_of(share), budget)

    def _ask(self, question: Question, share: Exact | None, budget: Guarantee | None) -> Answer:
        """Prepare, spend, release, in this order. A spend is on disk before a record is read;
        changed files are refused before the spend.
        """
        prepared = self._prepared(question, share, budget)
        shown = prepared.derivation
        text = question.text(share_of(share), budget)
        self.table.require_unchanged()
        spend = self.account.spend(shown.conclusion.guarantee, text, shown)
        (result,) = released([prepared], self._bits)
        return answered(prepared, spend, result)

    def __repr__(self) -> str:
        asked = len(self.log)
        left = part_of(self.account.share_left, "the budget")
        return (
            f"<Session about {self.table.name!r}: {brief(str(self.account.budget))} under "
            f"{self.account.adjacency}, {asked} question{'s' * (asked != 1)}, {left} left>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A session is not copied or pickled; Session.resume(path, table) goes on with its "
            "account."
        )


def _refuse_another(account: Account, budget: Guarantee, adjacency: Adjacency) -> None:
    if account.budget != budget or account.adjacency is not adjacency:
        raise ValueError(
            f"The account has {account.budget} under {account.adjacency}, and {budget} under "
            f"{adjacency} is given; give the same, "
            "or Session.resume(path, table)."
        )
