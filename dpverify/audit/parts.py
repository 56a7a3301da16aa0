"""Audits in parts that run apart: the attack on the subject, and that on each planted fault.

Each has draws of its own and a share of alpha that was fixed beforehand, so it gives the same
result by itself. What follows from all of them, another attack on the subject with as many
draws as a fault needed, is done when they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Computed = TypeVar("Computed")
SUBJECT = 0
"""Number of the attack on the subject; that of a planted fault is its place among them, from 1."""


class Together:
    """Parts of an audit that are all done here, one after another."""

    def result(self, number: int, compute: Callable[[], Computed]) -> Computed:
        """Return the result of a part."""
        return compute()


class PartDone(Exception):
    """The one part that was asked for, with its result."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class OnePart(Together):
    """A single part, whose result is raised as PartDone; the others are passed over."""

    def __init__(self, number: int) -> None:
        self._number = number

    def result(self, number: int, compute: Callable[[], Any]) -> Any:
        """Compute the part if it is the one asked for; otherwise return no certificate of the
        subject, so that the faults come next.
        """
        if number == self._number:
            raise PartDone(compute())
        return () if number == SUBJECT else None


class Given(Together):
    """Parts that were done elsewhere; one that is missing is done here."""

    def __init__(self, results: Mapping[int, Any]) -> None:
        self._results = results

    def result(self, number: int, compute: Callable[[], Any]) -> Any:
        """Return the known result of a part, or compute it."""
        return self._results[number] if number in self._results else compute()
