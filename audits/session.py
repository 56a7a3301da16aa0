"""Attacks on whole sessions: an analyst chooses each question after seeing the answers so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    Answer,
    Category,
    GaussianDP,
    Number,
    SeededBits,
    Session,
    Table,
)
from dpverify.audit import BlackBox, added, replaced

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_COLUMNS = {"x": Number(0, 1, missing=0), "group": Category(0, 1)}
_FEW = 2.5
_BUDGET = GaussianDP(1)


def _table(data: Any) -> Table:
    rows = np.asarray(data, np.float64).reshape(-1, 2)
    return Table(rows, columns=_COLUMNS, name="people")


def _session(
    data: Any,
    rng: np.random.Generator,
    adjacency: Adjacency = _ADD,
    budget: GaussianDP = _BUDGET,
) -> Session:
    bits = SeededBits(int(rng.integers(2**62)))
    return Session(_table(data), budget=budget, adjacency=adjacency, bits=bits)


def _number(answer: Answer) -> float:
    return -1.0 if answer.abstained is not None else round(float(answer), 3)


def adaptive(data: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Count a group, then ask about the group or about everybody as its size suggests, until the
    budget is spent."""
    session = _session(data, rng)
    first = session.count(where={"group": [1]}, share="1/2").value
    if first > _FEW:
        return first, round(session.sum("x", where={"group": [1]}, share="1/2").value, 3)
    return first, _number(session.mean("x", share="1/2"))


def limits_that_are_not_held(data: Any, rng: np.random.Generator) -> float:
    """Answer one question at eight times mu: as much as 64 questions reveal that each spend the
    whole budget."""
    return float(_session(data, rng, budget=GaussianDP(8)).count(share=1).value)


def order_by_records(data: Any, rng: np.random.Generator) -> str:
    """Ask questions in an order that the records choose."""
    rows = np.asarray(data).reshape(-1, 2)
    session = _session(data, rng)
    asked = [session.count, session.histogram][:: 1 if len(rows) > _FEW else -1]
    return asked[0].__name__


def groups_that_occur(data: Any, rng: np.random.Generator) -> tuple[float, ...]:
    """Answer for each group that has a record, and so reveal which groups occur."""
    session, present = _session(data, rng), set(np.asarray(data).reshape(-1, 2)[:, 1])
    counts = session.count(by="group", share=1)
    return tuple(float(group) for group in counts if group in present)


def errors_that_tell(data: Any, rng: np.random.Generator) -> str:
    """Refuse depending on how many records a condition keeps."""
    kept = _table(data).select("x").where("group", among=[1])
    return "too few records" if len(kept.records) < 1 else "fine"


def masked(data: Any, rng: np.random.Generator) -> tuple[float, ...]:
    """Ask, under replace, for a mean and a sum of records that a condition keeps: a replaced
    record may enter or leave."""
    session = _session(data, rng, _REPLACE)
    mean = _number(session.mean("x", where={"group": [1]}, share="1/2"))
    return mean, round(session.sum("x", by="group", share="1/2")[1].value, 3)


def kept_for_one_step(data: Any, rng: np.random.Generator) -> float:
    """Count the kept records eight times, paying for one step where a replacement is two."""
    session = _session(data, rng, _ADD)
    count = session.count(where={"group": [1]}, share=1).value
    other = session.table.select("x").where("group", among=[1]).records
    return float(count + 8 * len(other))


def mean_of_a_public_number(data: Any, rng: np.random.Generator) -> float:
    """Divide the sum of the kept records by their exact number, as if it were public."""
    kept = _table(data).select("x").where("group", among=[1]).records
    noise = float(rng.normal())
    return round((float(kept.sum()) + noise) / max(1, len(kept)) + 100 * len(kept), 2)


_NOBODY = np.zeros((0, 2))
_SOME = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])

BLACK_BOXES = (
    BlackBox(
        name="adaptive",
        function=adaptive,
        claim=_BUDGET,
        pairs=(
            added("nobody against somebody", _NOBODY, (1.0, 1.0)),
            added("around the turn of the first answer", np.ones((2, 2)), (1.0, 1.0)),
        ),
        faults=(limits_that_are_not_held, order_by_records, groups_that_occur, errors_that_tell),
        seeded=True,
        quick_trials=200,
        source="the filter of approximate Gaussian differential privacy",
    ),
    BlackBox(
        name="kept",
        function=masked,
        claim=_BUDGET,
        pairs=(replaced("one leaves the group", _SOME, (1.0, 0.0), at=0),),
        faults=(kept_for_one_step, mean_of_a_public_number),
        seeded=True,
        quick_trials=200,
        source="the filter of approximate Gaussian differential privacy; records left out under "
        "replace",
    ),
)
