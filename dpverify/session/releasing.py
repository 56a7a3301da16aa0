"""Releases after a spend, and the answers that they make."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dpverify.randomness import Bits
from dpverify.session.account import Spend
from dpverify.session.answers import Answer, GroupedAnswer
from dpverify.session.preparing import Prepared


class ReleaseFailed(RuntimeError):
    """A release that stopped after its budget was spent; which error it was is not said, for
    records may have decided it."""


def released(prepared: Prepared, bits: Bits | None) -> dict[Any, Any]:
    """Release after the spend. Raises ReleaseFailed, with no trace of the records, for whatever
    error there was."""
    with suppress(Exception):
        return prepared.release(bits)
    raise ReleaseFailed(
        f"{prepared.question}: the release failed after its budget was spent, which stays spent. "
        "Why is not said here, for "
        "records may have decided it; the data's owner can run answer's mechanism on the "
        "selection's records to see."
    )


def answered(prepared: Prepared, spend: Spend, found: Mapping[Any, Any]) -> Answer:
    """Make an answer of released results: of one, or of one for each group."""

    def one(question: str, result: Any, kind: type[Answer] = Answer) -> Answer:
        return kind(question, prepared.mechanism, prepared.why, spend, prepared.derivation, result)

    asked = str(prepared.question)
    if prepared.question.by is None:
        return one(asked, found[None])
    each = {group: one(f"{asked} = {group!r}", result) for group, result in found.items()}
    return one(asked, each, GroupedAnswer)
