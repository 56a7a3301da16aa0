"""Types whose contents nobody could look at, noted while outputs are taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NAMED = 8  # types that a remark names
_NOTED: ContextVar[set[str] | None] = ContextVar("_NOTED", default=None)


def note(kind: str) -> None:
    """Note that an output holds something of this kind, if anyone asks for it."""
    noted = _NOTED.get()
    if noted is not None:
        noted.add(kind)


@contextmanager
def noted() -> Iterator[set[str]]:
    """Collect what is noted, for as long as the block runs."""
    kinds: set[str] = set()
    token = _NOTED.set(kinds)
    try:
        yield kinds
    finally:
        _NOTED.reset(token)


def remarks_on(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the report's remark on what was noted."""
    names = sorted(kinds)
    if not names:
        return ()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"outputs hold objects whose contents nobody looked at: {', '.join(names[:_NAMED])}{more}. "
        "What these hold could tell the datasets apart unseen; return what matters of them as "
        "numbers, texts or bytes",
    )
