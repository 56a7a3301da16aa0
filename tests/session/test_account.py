"""An account refuses what is not left, remembers everything, and resumes nothing else."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from dpverify import (
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
)
from dpverify.privacy import Derivation, Domain, Guarantee, PrivacyClaim, rules
from dpverify.session.account import (
    FORMAT,
    Account,
    AccountError,
    BudgetExceeded,
    CorruptAccount,
)
from dpverify.session.accounting import Cost
from dpverify.session.journal import OnDisk

BUDGET = ApproxDP(1, "1e-6")
ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


@pytest.fixture(params=["memory", "file"])
def account(request: pytest.FixtureRequest, tmp_path: Path) -> Account:
    path = tmp_path / "account.jsonl" if request.param == "file" else None
    return Account(BUDGET, path, adjacency=ADD_REMOVE, schema="two columns")


def test_three_thirds_are_everything_and_not_a_bit_more_is_left(account: Account) -> None:
    third = account.fraction("1/3")
    for number in (1, 2, 3):
        assert account.spend(third, "a mean").number == number
    assert account.left is None
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        account.spend(GaussianDP("1e-300"), "one more")
    assert len(account.log) == 3
    assert account.used == Cost(account.limit.amount, Fraction(0))


def test_the_delta_has_a_limit_of_its_own(account: Account) -> None:
    account.spend(account.fraction("1/4", 1), "a histogram")
    with pytest.raises(BudgetExceeded, match="another"):
        account.spend(account.fraction("1/4", "1e-9"), "another")
    assert account.left == GaussianDP.of_square(account.limit.amount * Fraction(3, 4))


def test_what_is_left_can_be_spent(account: Account) -> None:
    for prime in (2**89 - 1, 2**107 - 1, 2**127 - 1):
        account.spend(account.fraction(Fraction(1, prime)), "a little")
    left = account.left
    assert left is not None
    account.spend(left, "the rest")
    assert account.left is None


def test_left_is_rounded_down_where_sums_become_long() -> None:
    account = Account(GaussianDP(1), adjacency=REPLACE)
    for power in range(1, 12):
        account.spend(account.fraction(Fraction(1, 10**40 + 2 * 3 ** (200 * power))), "a little")
    left, used = account.left, account.used
    assert left is not None
    assert left.gaussian is not None
    assert used.amount.denominator.bit_length() > 8000
    gap = 1 - used.amount - left.gaussian.mu_squared
    assert 0 < gap < Fraction(1, 2**190)


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (GaussianDP(2), Cost(Fraction(4), Fraction(0))),
        (ApproximateGaussianDP(1, "1e-7"), Cost(Fraction(1), Fraction("1e-7"))),
        (ZeroConcentratedDP("1/2"), Cost(Fraction(1), Fraction(0))),
        (PureDP(3), Cost(Fraction(3), Fraction(0))),
    ],
)
def test_a_budget_is_its_own_limit(budget: Guarantee, limit: Cost) -> None:
    assert Account(budget, adjacency=REPLACE).limit == limit


def test_the_limits_imply_the_budget_and_hardly_more_would() -> None:
    """Check that the split of an ApproxDP budget is on the safe side, and within 2^-40 of its
    edge."""
    for additive in (None, 0, "5e-7"):
        account = Account(BUDGET, adjacency=REPLACE, additive_delta=additive)
        assert account.limit.delta == Fraction("1e-7" if additive is None else additive)
        square, delta = account.limit
        assert ApproximateGaussianDP.of_square(square, delta).implies(BUDGET)
        more = square * (1 + Fraction(1, 2**40))
        assert not ApproximateGaussianDP.of_square(more, delta).implies(BUDGET)


def test_epsilons_add_up_where_that_is_asked() -> None:
    account = Account(BUDGET, adjacency=REPLACE, accounting="epsilon")
    account.spend(account.fraction("1/2", 1), "a histogram")
    account.spend(PureDP("1/4"), "a count")
    assert account.left == PureDP("1/4")
    with pytest.raises(ValueError, match="convert"):
        account.spend(GaussianDP("1/100"), "a mean")


def test_what_is_free_costs_nothing(account: Account) -> None:
    account.spend(PerfectPrivacy(), "the number of columns")
    assert account.used == Cost(Fraction(0), Fraction(0))


@pytest.mark.parametrize("account", ["file"], indirect=True)
def test_an_account_is_resumed_with_all_that_was_spent(account: Account, tmp_path: Path) -> None:
    path = tmp_path / "account.jsonl"
    account.spend(account.fraction("1/3", "1/2"), "a mean of 'bmi' \n \N{SNOWMAN}")
    again = Account(BUDGET, path, adjacency=ADD_REMOVE, schema="two columns")
    assert again.log == Account.resume(path).log == account.log
    again.spend(again.fraction("1/3"), "another")
    assert account.used == again.used == Cost(account.limit.amount * 2 / 3, Fraction("5e-8"))
    assert str(Account.resume(path)) == str(account)


@pytest.mark.parametrize("account", ["file"], indirect=True)
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"budget": ApproxDP(2, "1e-6")}, "budget"),
        ({"adjacency": REPLACE}, "adjacency"),
        ({"schema": "three columns"}, "schema"),
        ({"accounting": "epsilon"}, "accounting"),
        ({"additive_delta": 0}, "delta"),
    ],
)
def test_another_account_is_not_resumed(
    account: Account, tmp_path: Path, changed: dict[str, object], named: str
) -> None:
    given = {"budget": BUDGET, "adjacency": ADD_REMOVE, "schema": "two columns", **changed}
    budget = given.pop("budget")
    with pytest.raises(AccountError, match=f"was opened with {named} ="):
        Account(budget, tmp_path / "account.jsonl", **given)  # type: ignore[arg-type]


def test_limits_that_do_not_imply_the_budget_are_refused(tmp_path: Path) -> None:
    """Forge a header: a file of limits that some other version, or somebody, wrote."""
    path = tmp_path / "account.jsonl"
    header = {
        "format": FORMAT, "budget": str(BUDGET), "accounting": "gaussian", "amount": "1/10",
        "delta": "1e-7", "adjacency": "replace", "schema": "", "name": "forged",
    }  # fmt: skip
    OnDisk.start(path, header)
    with pytest.raises(CorruptAccount, match="do not imply"):
        Account.resume(path)


def test_an_account_is_not_copied(account: Account) -> None:
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            copied(account)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"budget": 1}, TypeError, "is not a guarantee"),
        ({"budget": PerfectPrivacy()}, ValueError, "perfect"),
        ({"adjacency": "replace"}, TypeError, "write Adjacency"),
        ({"budget": PureDP(1), "accounting": "gaussian"}, ValueError, "accounting='epsilon'"),
        ({"accounting": "zcdp"}, ValueError, "'gaussian' or 'epsilon'"),
        ({"additive_delta": "2e-6"}, ValueError, "outside"),
        ({"additive_delta": "1e-6"}, ValueError, "No parameter solves"),
        ({"additive_delta": -1}, ValueError, "outside"),
    ],
)
def test_what_makes_no_account_is_refused(
    arguments: dict[str, object], error: type[Exception], said: str
) -> None:
    given = {"budget": BUDGET, "adjacency": REPLACE, **arguments}
    with pytest.raises(error, match=said):
        Account(given.pop("budget"), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "of_delta"), [(0, 0), ("4/3", 0), (-1, 0), (1, 2), (1, -1)])
def test_shares_lie_between_nothing_and_everything(
    account: Account, share: object, of_delta: object
) -> None:
    with pytest.raises(ValueError, match="share ="):
        account.fraction(share, of_delta)  # type: ignore[arg-type]


# --- one derivation of all ----------------------------------------------------------------------


def _shown(guarantee: Guarantee, columns: int = 1) -> Derivation[PrivacyClaim]:
    return rules.conjecture(guarantee, adjacency=ADD_REMOVE, domain=Domain(columns))


def test_all_requests_are_one_derivation_of_the_budget(account: Account) -> None:
    third = account.fraction("1/3", "1/2")
    small = GaussianDP("1/100")
    account.spend(third, "a histogram", _shown(third))
    account.spend(small, "a mean", _shown(GaussianDP("1/200")))
    account.spend(PureDP("1/10"), "a count", _shown(PureDP("1/10")))
    told = Profile([], delta="1e-8")
    account.spend(told, "rarely all, else nothing", _shown(told))
    shown = account.derivation
    assert shown.conclusion.guarantee == BUDGET
    filtered = shown.premises[0]
    assert filtered.rule == "privacy filter"
    assert [str(step.conclusion) for step in filtered.premises] == [
        str(_shown(account._unit.guarantee_of(spend.cost)).conclusion) for spend in account.log
    ]


@pytest.mark.parametrize("account", ["file"], indirect=True)
def test_derivations_of_another_process_are_given_back(account: Account, tmp_path: Path) -> None:
    third = account.fraction("1/3")
    account.spend(third, "a mean", _shown(third))
    again = Account.resume(tmp_path / "account.jsonl")
    again.spend(third, "another", _shown(third))
    for one, missing in ((account, 2), (again, 1)):
        with pytest.raises(AccountError, match=rf"Requests \[{missing}\] were spent by another"):
            _ = one.derivation
        one.attach(missing, _shown(third))
    assert str(account.derivation) == str(again.derivation)


def test_a_derivation_of_something_else_is_refused_before_anything_is_spent(
    account: Account,
) -> None:
    with pytest.raises(AccountError, match="Nothing was spent"):
        _ = account.derivation
    third = account.fraction("1/3")
    account.spend(third, "a mean", _shown(third))
    replaced = rules.conjecture(third, adjacency=REPLACE, domain=Domain(1))
    refused = [
        (_shown(GaussianDP(1)), "does not imply"),
        (replaced, "is under replace"),
        (_shown(third, columns=2), "two tables"),
    ]
    for shown, said in refused:
        with pytest.raises(ValueError, match=said):
            account.spend(third, "another", shown)
        with pytest.raises(ValueError, match=said):
            account.attach(1, shown)
    with pytest.raises(ValueError, match="no spend number 2"):
        account.attach(2, _shown(third))
    assert len(account.log) == 1
