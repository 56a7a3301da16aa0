"""Releases after a spend, and the answers that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dpverify.plans import SourceFailed, laws_on
from dpverify.randomness import Bits
from dpverify.session.account import Spend
from dpverify.session.answers import Answer, GroupedAnswer
from dpverify.session.preparing import Prepared


class ReleaseFailed(RuntimeError):
    """A release that stopped after its budget was spent. The error is not shown, since records
    may have decided it.
    """


def released(made: Sequence[Prepared], bits: Bits | None) -> list[dict[Any, Any]]:
    """Release after the spend; everything that is read chunk by chunk is read in one pass.

    Raises ReleaseFailed, with no trace of the records, whatever the error was.
    """
    results: list[dict[Any, Any]] = []
    why = _DECIDED
    with suppress(Exception):
        try:
            laws = iter(laws_on([pair for one in made for pair in one.chunks()]))
            results += (one.release(bits, laws) for one in made)
        except SourceFailed as failure:
            # Its text has public facts only, if the source is the same as at the first question.
            # Otherwise it may say that the number of rows changed, which no claim covers.
            why = str(failure)
    if len(results) == len(made):
        return results
    raise ReleaseFailed(
        f"{made[len(results)].question}: the release failed after its budget was spent, which "
        f"stays spent. {why}"
    )


_DECIDED = (
    "Why is not said here, for records may have decided it; the data's owner can run answer's "
    "mechanism on the selection's records to see."
)


def answered(prepared: Prepared, spend: Spend, results: Mapping[Any, Any]) -> Answer:
    """Make an answer of released results: of one result, or of one for each group."""

    def one(question: str, result: Any, kind: type[Answer] = Answer) -> Answer:
        return kind(question, prepared.mechanism, prepared.why, spend, prepared.derivation, result)

    asked = str(prepared.question)
    if prepared.question.by is None:
        return one(asked, results[None])
    each = {group: one(f"{asked} = {group!r}", result) for group, result in results.items()}
    return one(asked, each, GroupedAnswer)
