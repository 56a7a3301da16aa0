"""Plans: questions that are fixed before any of them is answered share a budget under their joint
profile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction

from dpverify.plans.calibrating import least_multiplier
from dpverify.privacy import (
    ApproxDP,
    BoundedRange,
    Derivation,
    GaussianDP,
    Guarantee,
    PrivacyClaim,
    Profile,
    PureDP,
    rules,
)
from dpverify.privacy.calibration import Unreachable
from dpverify.privacy.numbers import ROOT_OF_TWO, Exact, as_written
from dpverify.randomness import Bits
from dpverify.session.account import Account, Spend
from dpverify.session.accounting import Unit
from dpverify.session.answers import Answers
from dpverify.session.asking import Asking
from dpverify.session.calibrating import share_of
from dpverify.session.preparing import Prepared, prepare
from dpverify.session.questions import Question, read_question
from dpverify.session.releasing import answered, released
from dpverify.tables import Table


class Plan(Asking[str]):
    """Several questions that are answered together, by ``answer``.

    Until then nothing is spent, and nothing is read except the number of rows of a table of
    chunks under replace.

    The methods are a session's; ``share`` is a weight here, 1 by default: a question of weight 2
    has half the noise of one of weight 1 (in epsilon or in mu). The number of questions is known
    before the first answer, so the noise is chosen by it: Laplace or Gaussian, whichever has the
    smaller deviation, calibrated to the joint profile of all questions. A plan that is the first
    and only request of an account gets its whole budget as it was given, delta included.
    """

    __slots__ = ("_account", "_asked", "_bits", "_table")

    def __init__(self, table: Table, account: Account, bits: Bits | None) -> None:
        self._table, self._account, self._bits = table, account, bits
        self._asked: list[tuple[Question, Fraction]] = []

    def _ask(self, question: Question, share: Exact | None, budget: Guarantee | None) -> str:
        """Keep a question, and return the name that its answer will have."""
        if budget is not None:
            raise ValueError(
                "A question of a plan has a weight, share=2 for half the noise, and no budget."
            )
        weight = as_written(1 if share is None else share, "share")
        if weight <= 0:
            raise ValueError(f"share = {share} is not positive; give a weight, say 1.")
        if str(question) in [str(one) for one, _ in self._asked]:
            raise ValueError(f"{question} is in the plan already; ask it once, with more weight.")
        # Refuses the question now if it cannot be answered.
        prepare(question, self._table, self._account, Fraction(1), None)
        self._asked.append((question, weight))
        return str(question)

    def answer(self, *, share: Exact = 1) -> Answers:
        """Answer all questions: the budget's ``share`` is spent, on disk, before a record is read.

        Returns the answers by question, as the methods named them. Raises as a session does,
        BudgetExceeded among others.
        """
        if not self._asked:
            raise ValueError("The plan has no questions; ask plan.mean('age'), for example.")
        part = share_of(share) or Fraction(1)
        first = part == 1 and not self._account.log
        whole, made, shown = self._made(part, first)
        weights = [[json.loads(q.text(None, None)), str(weight)] for q, weight in self._asked]
        text = json.dumps({"plan": weights, "share": str(part)})
        self._table.require_unchanged()
        spend = (
            self._account.spend_whole(text, shown)
            if first
            else self._account.spend(whole, text, shown)
        )
        results = released(made, self._bits)
        answers = {
            str(one.question): answered(one, spend, result)
            for one, result in zip(made, results, strict=True)
        }
        return Answers(spend, shown, answers)

    def derivation_of(self, spend: Spend) -> Derivation[PrivacyClaim]:
        """Derive again what an earlier process answered, from the account's text, which replaces
        the questions asked here.

        Raises ValueError for a text that is no plan's.
        """
        said = json.loads(spend.what)
        if "plan" not in said:
            raise ValueError("This line of the account is no plan.")
        self._asked = [
            (read_question(json.dumps(asked))[0], Fraction(weight))
            for asked, weight in said["plan"]
        ]
        return self._made(Fraction(said["share"]), spend.guarantee == self._account.budget)[2]

    def _made(
        self, part: Fraction, first: bool
    ) -> tuple[Guarantee, list[Prepared], Derivation[PrivacyClaim]]:
        """Calibrate to the whole budget, or to a share of it, with a share of its delta only
        where that is needed.
        """
        if first:
            return (self._account.budget, *self._calibrated(self._account.budget))
        try:
            alone = self._account.fraction(part)
            return (alone, *self._calibrated(alone))
        except ValueError:
            beside = self._account.fraction(part, of_delta=part)
            return (beside, *self._calibrated(beside))

    def _calibrated(self, whole: Guarantee) -> tuple[list[Prepared], Derivation[PrivacyClaim]]:
        """Calibrate all questions with the noise of smaller deviation, and derive ``whole`` for
        all of them together.

        Where quantiles stand beside Gaussian noise: their choices have a bounded range, which is
        worth a mu of half of it in a profile with others, and less alone. So they get a range of
        2 mu where that can be.
        """
        refusal: ValueError | None = None
        for unit, ranges in self._ways(whole):
            try:
                parts = [_part(unit, q, ranges) for q, _ in self._asked]
                scale = _least(whole, parts, [weight for _, weight in self._asked])
                made = [
                    prepare(q, self._table, self._account, None, part(weight / scale))
                    for part, (q, weight) in zip(parts, self._asked, strict=True)
                ]
                shown = rules.compose(*(one.derivation for one in made))
                return made, rules.convert(shown, whole)
            except ValueError as error:  # the mechanism has no such noise or no such claim
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def _ways(self, whole: Guarantee) -> list[tuple[Unit, bool]]:
        """Order the ways to make noise, best first, by the standard deviation of a count; Laplace
        noise has sqrt(2) times its scale.
        """
        if not isinstance(whole, (PureDP, ApproxDP)):
            return [("gaussian", False)]  # a range enters a Gaussian guarantee as a mu
        weights = [weight for _, weight in self._asked]
        deviations: dict[Unit, Fraction] = {}
        for unit, deviation in _DEVIATIONS.items():
            with suppress(ValueError):
                parts = [_part(unit, q, ranges=False) for q, _ in self._asked]
                deviations[unit] = _least(whole, parts, weights) * deviation
        ways: list[tuple[Unit, bool]] = []
        for unit in sorted(deviations, key=deviations.__getitem__):
            of_ranges = unit == "gaussian" and any(q.kind in _CHOICES for q, _ in self._asked)
            ways += [(unit, True)] * of_ranges + [(unit, False)]
        return ways or [("gaussian", False)]


_DEVIATIONS: dict[Unit, Fraction] = {"epsilon": ROOT_OF_TWO, "gaussian": Fraction(1)}
_CHOICES = ("median", "quantile")
_Part = Callable[[Fraction], Guarantee]


def _part(unit: Unit, question: Question, ranges: bool) -> _Part:
    """Return the guarantee of a question's part of the budget, from its amount."""
    if unit == "epsilon":
        return PureDP
    if ranges and question.kind in _CHOICES and not isinstance(question.given.get("at"), list):
        return lambda amount: BoundedRange(2 * amount)
    return GaussianDP


def _least(whole: Guarantee, parts: Sequence[_Part], weights: Sequence[Fraction]) -> Fraction:
    """Compute the least scale of noise for which the parts, of amounts weight / scale, together
    are at most ``whole``.
    """

    def made(scale: Fraction) -> Guarantee:
        each = [part(weight / scale) for part, weight in zip(parts, weights, strict=True)]
        if all(isinstance(one, PureDP) for one in each):
            return PureDP(sum(weights) / scale)
        if all(isinstance(one, GaussianDP) for one in each):
            return GaussianDP.of_square(sum(w * w for w in weights) / scale**2)
        return Profile(each)

    try:
        return least_multiplier(made, whole)
    except Unreachable:
        raise ValueError(
            f"No such noise meets {whole}; give an ApproxDP budget, or questions of another kind."
        ) from None
