"""A table, a budget, and answers that are paid for from an account."""

from dpverify.session.account import Account, AccountError, BudgetExceeded, CorruptAccount, Spend
from dpverify.session.answers import Answer, Answers, Histogram, NoAnswer, Quantiles
from dpverify.session.session import ReleaseFailed, Session

__all__ = [
    "Account",
    "AccountError",
    "Answer",
    "Answers",
    "BudgetExceeded",
    "CorruptAccount",
    "Histogram",
    "NoAnswer",
    "Quantiles",
    "ReleaseFailed",
    "Session",
    "Spend",
]
