"""A table, a budget, and answers that are paid for from an account."""

from dpverify.session.account import Account, AccountError, BudgetExceeded, CorruptAccount, Spend
from dpverify.session.answers import Answer, Answers, GroupedAnswer, NoAnswer, Quantiles
from dpverify.session.histograms import Histogram, Top
from dpverify.session.plan import Plan
from dpverify.session.releasing import ReleaseFailed
from dpverify.session.session import Session

__all__ = [
    "Account",
    "AccountError",
    "Answer",
    "Answers",
    "BudgetExceeded",
    "CorruptAccount",
    "GroupedAnswer",
    "Histogram",
    "NoAnswer",
    "Plan",
    "Quantiles",
    "ReleaseFailed",
    "Session",
    "Spend",
    "Top",
]
