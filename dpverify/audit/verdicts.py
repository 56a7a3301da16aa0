"""Verdicts of audits, and how a test asks for one: by name, never as a truth value."""

from __future__ import annotations

from enum import StrEnum
from typing import Never


class Verdict(StrEnum):
    """Verdict of an audit, equal to its name as a text. Only VIOLATED is a proof (up to
    alpha).
    """

    CONSISTENT = "CONSISTENT"
    VIOLATED = "VIOLATED"
    POWERLESS = "POWERLESS"

    def __bool__(self) -> Never:
        """Raise TypeError: ``assert verdict`` would pass on VIOLATED."""
        raise TypeError(
            f"{self!r} is no truth value; ask the result for is_consistent or require_consistent()."
        )


NOTHING_SEEN = "no event violates the claim"
MEANING = {
    Verdict.CONSISTENT: f"{NOTHING_SEEN}, and every planted fault was caught by the same attempt; "
    "this is evidence, not a proof",
    Verdict.VIOLATED: "the claim is false: the event that is reported is too likely on one side, "
    "up to the stated chance of a false alarm",
    Verdict.POWERLESS: f"{NOTHING_SEEN}, but a planted fault was missed as well (or none was "
    "planted), so this silence shows nothing",
}


class NotConsistent(AssertionError):
    """A claim that did not come out consistent.

    result: what was found. text: the report to show; by default that of the result.
    """

    def __init__(self, result: Asked, text: str = "") -> None:
        super().__init__(result, text)
        self.result = result
        self._text = text

    def __str__(self) -> str:
        return self._text or str(self.result)


class Asked:
    """A result that says by ``is_consistent`` whether all is well, and is no truth value itself."""

    __slots__ = ()

    @property
    def is_consistent(self) -> bool:
        """True if nothing speaks against the claim, and this silence counts."""
        raise NotImplementedError

    def require_consistent(self) -> None:
        """Raise ``NotConsistent`` (an AssertionError), with the whole report, unless the result
        is consistent.
        """
        if not self.is_consistent:
            raise NotConsistent(self)

    def __bool__(self) -> Never:
        raise TypeError(
            f"{type(self).__name__} is no truth value: `assert result` would pass whatever was "
            "found. Write result.require_consistent(), or ask result.is_consistent."
        )


__all__ = ["MEANING", "NOTHING_SEEN", "Asked", "NotConsistent", "Verdict"]
