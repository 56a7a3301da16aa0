"""A session's account: a privacy filter whose limits are fixed before the first answer."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

from dpverify.privacy import (
    Adjacency,
    Derivation,
    Guarantee,
    PrivacyClaim,
    parse_guarantee,
    render,
    rules,
)
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Exact, brief, exact
from dpverify.session.accounting import (
    TINY,
    Cost,
    Unit,
    accounting_for,
    as_decimals,
    part_of,
    part_text,
    share_of,
)
from dpverify.session.journal import (
    AccountError,
    CorruptAccount,
    InMemory,
    Journal,
    Line,
    OnDisk,
)
from dpverify.session.questions import read_question

__all__ = ["Account", "AccountError", "BudgetExceeded", "CorruptAccount", "Spend"]

FORMAT = "dpverify account 1"
_LONG = 8000  # bits: sums of unlike fractions grow, and a guarantee's parameters must stay short


class BudgetExceeded(AccountError):
    """A request that costs more than is left; nothing was spent, and no record was read."""


@dataclass(frozen=True, slots=True)
class Spend:
    """A line of the account: the request, the guarantee of its answer, and the cost of that.

    number counts from 1. An answer may be missing: what was spent is never given back.
    """

    number: int
    guarantee: Guarantee
    cost: Cost
    what: str


class Account:
    """A budget, and every request that was paid from it.

    budget: the guarantee of all answers together, under ``adjacency``. Requests may be chosen
    after seeing answers.
    path: a file on a local POSIX file system. The file is made, or resumed if it holds this very
    account. Several processes may spend from it at once. Without a path the account lives in this
    process's memory alone.
    schema: a public text that describes the table; an account is resumed for the same schema
    only.
    accounting: "gaussian" adds up mu^2 and additive deltas, "epsilon" adds up epsilons and
    deltas; by default "epsilon" for a pure budget and "gaussian" for all others.
    additive_delta: the part of an ApproxDP budget's delta for requests that have a delta beside
    their Gaussian curve (thresholds, gates); a tenth unless it is given.

    The file holds public texts only: budgets, costs, requests. It holds no answer, and nothing of
    the data.
    """

    @fitting("Account")
    def __init__(
        self,
        budget: Guarantee,
        path: str | os.PathLike[str] | None = None,
        *,
        adjacency: Adjacency,
        schema: str = "",
        accounting: Unit | None = None,
        additive_delta: Exact | None = None,
    ) -> None:
        if not isinstance(adjacency, Adjacency):
            raise TypeError(
                f"adjacency = {adjacency!r}; write Adjacency.ADD_REMOVE (the number of rows is "
                "private) or Adjacency.REPLACE (it is public)."
            )
        unit = accounting_for(budget, accounting)
        additive = None if additive_delta is None else exact(additive_delta, "additive_delta")
        limit = unit.limit_of(budget, additive)
        header: Line = {
            "format": FORMAT,
            "budget": str(budget),
            "accounting": unit.unit,
            "amount": render(limit.amount),
            "delta": render(limit.delta),
            "adjacency": str(adjacency),
            "schema": schema,
            "name": secrets.token_hex(8),
        }
        self._set(InMemory(header) if path is None else OnDisk.start(path, header))
        for key in ("budget", "accounting", "delta", "adjacency", "schema"):
            if self._header[key] != header[key]:
                why = "A budget is fixed before the first answer; give what it was opened with"
                if key == "schema":
                    why = "An account belongs to one table; give that table"
                raise AccountError(
                    f"{path} was opened with {key} = {self._header[key]!r}, and now {key} = "
                    f"{header[key]!r} is given. {why}, or another path."
                )

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> Account:
        """Open an existing account, with the budget and all else that it was opened with."""
        made = cls.__new__(cls)
        made._set(OnDisk(path).named())
        return made

    @staticmethod
    def mend(path: str | os.PathLike[str]) -> str:
        """Finish or cut off a last line that a killed process left torn; say which, also in the
        file.
        """
        return OnDisk.mend(path)

    def _set(self, journal: Journal) -> None:
        self._journal = journal
        header = self._header = journal.lines()[0]
        if header.get("format") != FORMAT:
            raise CorruptAccount(
                f"This is no account that this version reads: format = {header.get('format')!r}."
            )
        self.budget = parse_guarantee(header["budget"])
        self.adjacency = Adjacency(header["adjacency"])
        self.schema = str(header["schema"])
        self._unit = accounting_for(self.budget, header["accounting"])
        self.limit = Cost(Fraction(header["amount"]), Fraction(header["delta"]))
        if not self._unit.guarantee_of(self.limit).implies(self.budget):
            raise CorruptAccount(
                f"The limits {self._unit.show(self.limit)} do not imply {self.budget}, which this "
                "account promises; nothing is spent from it."
            )
        self._derivations: dict[int, Derivation[PrivacyClaim]] = {}

    @property
    def unit(self) -> Unit:
        """Sums that the account keeps: "gaussian" or "epsilon"."""
        return self._unit.unit

    def cost_of(self, guarantee: Guarantee) -> Cost:
        """Compute the cost of a request with this guarantee. Raises ValueError where it has no
        cost in this unit.
        """
        if not isinstance(guarantee, Guarantee):
            raise TypeError(f"guarantee = {guarantee!r:.80}; write what is spent: PureDP('0.1').")
        return self._unit.cost_of(guarantee)

    def fraction(self, share: Exact, of_delta: Exact = 0) -> Guarantee:
        """Return the guarantee that costs this share of the whole budget and this share of its
        additive delta.
        """
        return self._unit.guarantee_of(share_of(self.limit, share, of_delta))

    def spend(
        self, guarantee: Guarantee, what: str, derivation: Derivation[PrivacyClaim] | None = None
    ) -> Spend:
        """Write down a request before it is answered; when this returns, the line is on disk.

        what: the request as a public text.
        derivation: a derivation of the claim that the answer has this guarantee; it is kept in
        memory, for ``derivation``.
        Raises BudgetExceeded if less is left, and AccountError if the line cannot be written;
        then nothing may be read from the data.
        """
        cost = self.cost_of(guarantee)
        if not isinstance(what, str):
            raise TypeError(f"what = a {type(what).__name__}; give the request as a text.")

        def decide(lines: list[Line]) -> Line:
            log = _spends(lines)
            paid = (guarantee, *(spend.guarantee for spend in log))
            self._refuse_more_than(self.limit.less(_sum(log)), cost, what, paid)
            return {
                "spend": len(log) + 1,
                "guarantee": str(guarantee),
                "amount": render(cost.amount),
                "delta": render(cost.delta),
                "what": what,
            }

        if derivation is not None:
            self._refuse_another(derivation, guarantee)
        spend = _spend_of(self._journal.add(decide))
        if derivation is not None:
            self._derivations[spend.number] = derivation
        return spend

    def attach(self, number: int, derivation: Derivation[PrivacyClaim]) -> None:
        """Put back the derivation of a request that another process spent, made again from its
        text.
        """
        spend = next((spend for spend in self.log if spend.number == number), None)
        if spend is None:
            raise ValueError(f"There is no spend number {number} in this account.")
        self._refuse_another(derivation, spend.guarantee)
        self._derivations[number] = derivation

    def spend_whole(self, what: str, derivation: Derivation[PrivacyClaim]) -> Spend:
        """Write down the first and only request, which gets the whole budget as it was given,
        before it is answered.

        The request was fixed before any answer, so its claim may be that of the budget itself,
        which is more than the limits of both sums together imply. Raises BudgetExceeded if
        anything was spent before; afterwards nothing is left.
        """
        self._refuse_another(derivation, self.budget)

        def decide(lines: list[Line]) -> Line:
            if _spends(lines):
                raise BudgetExceeded(
                    f"'{_short(what)}' takes the whole budget as the first and only request, and "
                    "there are requests before it. Take a share of the budget."
                )
            return {
                "spend": 1,
                "guarantee": str(self.budget),
                "amount": render(self.limit.amount),
                "delta": render(self.limit.delta),
                "what": what,
            }

        spend = _spend_of(self._journal.add(decide))
        self._derivations[spend.number] = derivation
        return spend

    @property
    def derived(self) -> frozenset[int]:
        """Numbers of the requests whose derivations are known here."""
        return frozenset(self._derivations)

    @property
    def derivation(self) -> Derivation[PrivacyClaim]:
        """Derivation of the budget from all requests so far, however little of it was spent.

        Raises AccountError where nothing was spent, and where other processes spent requests whose
        derivations were not given back by ``attach``.
        """
        log = self.log
        missing = [spend.number for spend in log if spend.number not in self._derivations]
        if not log:
            raise AccountError("Nothing was spent yet, so there is nothing to derive.")
        if missing:
            raise AccountError(
                f"Requests {missing} were spent by another process, which alone has their "
                "derivations. Make them again from the log's texts, and attach(number, derivation)."
            )
        if log[0].guarantee == self.budget and log[0].cost == self.limit:
            # Later requests cost nothing.
            every = [self._derivations[spend.number] for spend in log]
            return rules.convert(rules.compose(*every), self.budget)
        steps = [self._entering(self._derivations[spend.number], spend) for spend in log]
        limits = self._unit.guarantee_of(self.limit)
        return rules.convert(rules.privacy_filter(steps, budget=limits), self.budget)

    def _entering(self, shown: Derivation[PrivacyClaim], spend: Spend) -> Derivation[PrivacyClaim]:
        """Convert a claim to what was spent on it, in the unit that is added up."""
        spent = rules.convert(shown, spend.guarantee)
        return rules.convert(spent, self._unit.guarantee_of(spend.cost))

    @property
    def log(self) -> tuple[Spend, ...]:
        """All spends in their order, including those of other processes."""
        return _spends(self._journal.lines())

    @property
    def used(self) -> Cost:
        """Sum of the costs so far."""
        return _sum(self.log)

    @property
    def left(self) -> Guarantee | None:
        """Guarantee that would spend all that is left; None if nothing is left."""
        rest = Cost(*map(_shorter, self.limit.less(self.used)))
        return self._unit.guarantee_of(rest) if rest.amount > 0 else None

    def __str__(self) -> str:
        log = self.log
        lines = [f"{spend.number}. {_brief(spend)}: {self._unit.show(spend.cost)}" for spend in log]
        left = self._unit.show(self.limit.less(_sum(log)))
        head = f"{brief(str(self.budget))} under {self.adjacency}: {self._unit.show(self.limit)}"
        return "\n".join([head, *lines, f"left: {left}"])

    def __repr__(self) -> str:
        return f"<Account of {brief(str(self.budget))} under {self.adjacency}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An account is not copied or pickled; open it again by Account.resume(path)."
        )

    @property
    def share_left(self) -> Fraction:
        """Share of the whole budget that is left, as ``share=`` names it."""
        return self.limit.less(self.used).amount / self.limit.amount

    def _refuse_more_than(
        self, left: Cost, cost: Cost, what: str, paid: Iterable[Guarantee]
    ) -> None:
        """Refuse a cost that exceeds what is left; ``paid``: what was and is to be spent."""
        if cost.within(left):
            return
        whole, asked, rest = self.limit.amount, cost.amount, left.amount
        of, remedy = "the budget", "Ask for share={!r} or less"
        if asked <= rest:
            whole, asked, rest = self.limit.delta, cost.delta, left.delta
            of = "the part of delta that is kept for mechanisms with a delta of their own"
            remedy = "Ask such a question with share={!r} or less, or others"
        wants = part_of(asked / whole, of, up=True) if whole else f"more than nothing of {of}"
        part = part_text(rest / whole if whole else Fraction(0))
        more = (
            remedy.format(part) if rest * 10**9 >= whole > 0 else "Nothing more can be asked for it"
        )
        near = asked - rest <= whole * TINY
        raise BudgetExceeded(
            f"'{_short(what)}' asks for {wants}, and {'all' if part == '1' else part} is left, of "
            f"{brief(str(self.budget))} in all. {more}; what was spent is not given back."
            f"{as_decimals(self.budget, *paid) if near else ''}"
        )

    def _refuse_another(self, shown: Derivation[PrivacyClaim], guarantee: Guarantee) -> None:
        claim = shown.conclusion
        if claim.adjacency is not self.adjacency:
            raise ValueError(
                f"The claim is under {claim.adjacency}, and the account under {self.adjacency}."
            )
        for other in self._derivations.values():
            if other.conclusion.domain != claim.domain:
                raise ValueError(
                    f"The claim is for {claim.domain}, and an earlier one for "
                    f"{other.conclusion.domain}: claims about two tables do not add up."
                )
        if not claim.guarantee.implies(guarantee):
            raise ValueError(f"The claim {claim} does not imply {guarantee}, which is to be spent.")


def _short(what: str) -> str:
    """Write a request for people: a session's question in words, any other text as it is."""
    try:
        return str(read_question(what)[0])
    except (ValueError, KeyError, TypeError):
        return "plan" if what.startswith('{"plan"') else what


def _brief(spend: Spend) -> str:
    """Write a request as it was, but for long numbers of its guarantee."""
    paid = str(spend.guarantee)
    return spend.what.replace(paid, brief(paid))


def _spends(lines: list[Line]) -> tuple[Spend, ...]:
    """Read the spends; neither the header nor a line about mending is one."""
    return tuple(_spend_of(line) for line in lines if "spend" in line)


def _spend_of(line: Line) -> Spend:
    return _read(*(line[key] for key in ("spend", "guarantee", "amount", "delta", "what")))


@lru_cache(maxsize=1 << 12)
def _read(number: int, guarantee: str, amount: str, delta: str, what: str) -> Spend:
    return Spend(number, parse_guarantee(guarantee), Cost(Fraction(amount), Fraction(delta)), what)


def _sum(log: tuple[Spend, ...]) -> Cost:
    return Cost(
        sum((spend.cost.amount for spend in log), Fraction(0)),
        sum((spend.cost.delta for spend in log), Fraction(0)),
    )


def _shorter(value: Fraction) -> Fraction:
    """Round a long number that is at least 0 down to 200 significant bits; a short one stays as
    it is.
    """
    over, under = value.numerator.bit_length(), value.denominator.bit_length()
    if max(over, under) <= _LONG:
        return value
    scale = Fraction(2) ** (200 + under - over)
    return (value * scale).__floor__() / scale
