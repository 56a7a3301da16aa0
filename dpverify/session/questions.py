"""Questions as plain public data: what is asked of which records, written into the account before
any is read."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify.plans import Mechanism
from dpverify.privacy import Guarantee
from dpverify.tables import Boolean, Category, Selection, Table

_SHOWN = 120  # characters of a parameter that the account's log shows


@dataclass(frozen=True, slots=True)
class Question:
    """A question: ``kind`` of ``columns``, of the records that ``where`` keeps, for each value of
    ``by``.

    where: from a column to a list of declared values, or to a pair (low, high), both ends of
    which belong to it.
    given: further public parameters. They may depend on the data through released answers only.
    """

    kind: str
    columns: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    def groups(self, table: Table) -> dict[Any, Selection]:
        """Select the records: one selection under None, or one for each declared value of
        ``by``."""
        chosen = self.kept(table, *self.columns)
        return {None: chosen} if self.by is None else dict(chosen.by(self.by))

    def kept(self, table: Table, *columns: str) -> Selection:
        """Select columns of the records that ``where`` keeps."""
        chosen = table.select(*columns)
        for column, condition in self.where.items():
            listed = isinstance(table.type_of(column), (Category, Boolean))
            if isinstance(condition, (set, frozenset)) or (listed and isinstance(condition, tuple)):
                raise TypeError(
                    f"where = {{{column!r}: {condition!r}}}; write declared values as a list, and "
                    "the ends of numbers as a pair (low, high)."
                )
            if isinstance(condition, tuple):
                chosen = chosen.where(column, between=condition)
            else:
                among = condition if isinstance(condition, list) else [condition]
                chosen = chosen.where(column, among=among)
        return chosen

    def text(self, share: Fraction | None, budget: Guarantee | None) -> str:
        """Write it as JSON for the account's log, with what was paid for it."""
        said: dict[str, Any] = {"ask": self.kind, "columns": list(self.columns)}
        if self.where:
            said["where"] = {
                k: {"between": v} if isinstance(v, tuple) else v for k, v in self.where.items()
            }
        said |= {} if self.by is None else {"by": self.by}
        said |= {"given": dict(self.given)} if self.given else {}
        said |= {} if share is None else {"share": str(share)}
        said |= {} if budget is None else {"budget": str(budget)}
        return json.dumps(said, default=_plain)

    def __str__(self) -> str:
        given = dict(self.given)
        of = f" of {', '.join(self.columns)}" if self.columns else ""
        if self.kind == "regression" and "target" in given:
            target = given.pop("target")
            targets = [target] if isinstance(target, str) else list(target)
            on = [name for name in self.columns if name not in targets]
            of = f" of {', '.join(targets)} on {', '.join(on)}"
        of += "".join(f", {name} = {_said(value)}" for name, value in given.items())
        where = "".join(f", where {column} is {value!r}" for column, value in self.where.items())
        by = "" if self.by is None else f", by {self.by}"
        return f"{self.kind}{of}{where}{by}"


def _said(value: Any) -> str:
    """Write a public parameter in a line, shortened where it is long."""
    return f"{json.dumps(value, default=_plain).replace(chr(34), ''):.{_SHOWN}}"


def read_question(text: str) -> tuple[Question, Fraction | None, str | None]:
    """Read what ``Question.text`` wrote: the question, its share and its budget's text. Raises
    ValueError for other texts."""
    said = json.loads(text)
    if not isinstance(said, dict) or "ask" not in said:
        raise ValueError("this line of the account is no question of a session.")
    where = {
        column: tuple(value["between"]) if isinstance(value, dict) else value
        for column, value in said.get("where", {}).items()
    }
    share = None if said.get("share") is None else Fraction(said["share"])
    question = Question(
        said["ask"], tuple(said["columns"]), where, said.get("by"), said.get("given", {})
    )
    return question, share, said.get("budget")


def nearest_question(name: str, questions: Sequence[str]) -> str:
    """Return the end of a message about a name that is no question: the nearest one, or all."""
    near = difflib.get_close_matches(name.lower(), questions, n=1)
    meant = _OTHER_WORDS.get(name.lower(), f"{near[0]}?" if near else "")
    return f"did you mean {meant}" if meant else f"ask one of {', '.join(questions)}."


_OTHER_WORDS = {
    "average": "mean?",
    "avg": "mean?",
    "cov": "covariance?",
    "len": "count?",
    "max": "quantile, at='99/100'? The largest value of all is that of one record.",
    "min": "quantile, at='1/100'? The smallest value of all is that of one record.",
    "mode": "top?",
    "pca": "principal_components?",
    "percentile": "quantile?",
    "size": "count?",
    "std": "standard_deviation?",
    "total": "sum?",
    "value_counts": "histogram?",
    "var": "variance?",
}
"""Questions that are meant by words of other libraries."""


def _plain(value: Any) -> Any:
    """Convert a public parameter to JSON's types, shortened where it is long."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type) and issubclass(value, Mechanism):
        return value.__name__
    return f"{value!s:.{_SHOWN}}"
