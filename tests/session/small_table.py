"""A table of 400 people with four columns, and sessions about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    ApproxDP,
    Boolean,
    Category,
    Integer,
    Number,
    SeededBits,
    Session,
    Table,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
N = 400


def rows(n: int = N) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "bmi": rng.normal(26, 4, n),
        "age": rng.integers(20, 80, n),
        "region": rng.choice(["north", "south"], n),
        "smoker": rng.random(n) < 0.3,
    }


COLUMNS: dict[str, Any] = {
    "bmi": Number(15, 45, missing=30),
    "age": Integer(0, 120, missing=60),
    "region": Category("north", "south", "east"),
    "smoker": Boolean(missing=False),
}
TABLE = Table(rows(), columns=COLUMNS)


def session(budget: Any = None, adjacency: Adjacency = ADD, **how: Any) -> Session:
    given = ApproxDP(8, "1e-6") if budget is None else budget
    return Session(TABLE, budget=given, adjacency=adjacency, bits=SeededBits(1), **how)


Ask = Callable[[Session], Any]
