"""Queries on one chunk of records, and how the answers of all chunks are merged.

Nothing that is computed of a chunk raises: what goes wrong is a value, ``Refused``, for other
people's code, with a record in its message, may have raised it on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from dpverify.grid import NOTHING, Transcripts, View, ingest
from dpverify.grid.chunked import Ask, Sums, sums_of
from dpverify.grid.records import NUMBERED
from dpverify.privacy import Domain

NUMBERS = 1 << 17
"""Numbers that queries are asked about at a time: what is computed of them stays in a cache."""
_MOST = 1 << 19
"""Numbers that functions are applied to at a time: a column of ten stays in a cache."""
_KEPT = 31 << 20
"""Bytes, never written to, whose release tells glibc not to hand the memory of every chunk back
to the system.
"""
Then = tuple[Callable[[Any], Any], ...]
"""Functions of a chunk that map each record by itself, in the order in which they are applied."""


class Unfit(TypeError):
    """Refusal of a chunk for a public fact, which its text tells: raised by functions of a
    chunk.
    """


@dataclass(frozen=True, slots=True)
class Reading:
    """Queries on each chunk, and how its records are read."""

    then: Then
    domain: Domain
    asks: tuple[Ask, ...]
    before: Transcripts = NOTHING
    digested: bool = False

    @property
    def key(self) -> Hashable:
        """Key of what decides the records: readings with one key share them."""
        return self.then, self.domain, self.domain.replacement

    def of_nobody(self) -> Sums:
        """Compute the answer for no records, with which every sum begins."""
        nobody = View(np.zeros((0, self.domain.columns)))
        return sums_of(nobody, self.asks, self.before, self.digested)


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums of what readings give over some chunks of so many rows, and the names of their
    columns where they have names.
    """

    sums: tuple[Sums, ...]
    names: tuple[str, ...] | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Reason why a chunk was not counted, from public facts; without words where other people's
    code raised.

    placed: whether it is the mechanism that refuses the chunk, or a record by its place in the
    chunk.
    numbered: whether it is a record, so that its place among all may be told. Where a public fact
    about a chunk is the reason, the number of records before it stays private.
    """

    why: str = ""
    placed: bool = False
    numbered: bool = False

    def within(self, which: str) -> Refused:
        """Return the refusal with the name of the chunk, if it is about a place in the chunk."""
        return Refused(f"In {which}: {self.why}") if self.placed else self


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings with what they share: a function that several of them begin with is applied to a
    chunk once, and records that several of them ask are read once.

    steps: functions, each with the place of what it is applied to: 0 is the chunk, and what the
    first one gives is 1. views: places, with the domains by which they are read. asked: each
    reading with the number of its view.
    """

    steps: tuple[tuple[int, Callable[[Any], Any]], ...]
    views: tuple[tuple[int, Domain], ...]
    asked: tuple[tuple[int, Reading], ...]

    @classmethod
    def of(cls, readings: tuple[Reading, ...]) -> Readings:
        """Find what the readings share, once for all chunks."""
        places: dict[Then, int] = {(): 0}
        views: dict[Hashable, tuple[int, int, Domain]] = {}
        steps, asked = [], []
        for one in readings:
            for i, function in enumerate(one.then):
                if one.then[: i + 1] not in places:
                    places[one.then[: i + 1]] = len(places)
                    steps.append((places[one.then[:i]], function))
            number, *_ = views.setdefault(one.key, (len(views), places[one.then], one.domain))
            asked.append((number, one))
        read = tuple((place, domain) for _, place, domain in views.values())
        return cls(tuple(steps), read, tuple(asked))


def tallied(readings: Readings, chunk: Any) -> Tally | Refused:
    """Ask one chunk. Raises nothing that a chunk can decide: it runs on other machines, too."""
    np.empty(_KEPT, np.uint8)  # glibc keeps twice the largest such block that was ever freed
    try:
        parts = _pieces(chunk, _MOST)
        return reduce(merged, (_tallied(readings, start, part) for start, part in parts))
    except Unfit as refusal:
        return Refused(str(refusal))
    except Exception:  # its message and its traceback may show records
        return Refused()


def _pieces(chunk: Any, numbers: int) -> Iterator[tuple[int, Any]]:
    """Cut a chunk into pieces of about so many numbers, and yield each with the place of its
    first record. Anything but a chunk is left as it is, to be refused.
    """
    library = type(chunk).__module__.partition(".")[0]
    known = library in ("numpy", "pandas", "polars", "pyarrow")
    rows, *columns = (getattr(chunk, "shape", ()) if known else ()) or (0,)
    count = round(rows * max(1, *columns, 1) / numbers)
    if count <= 1:
        yield 0, chunk
        return
    step = -(-rows // count)
    for start in range(0, rows, step):
        if hasattr(chunk, "iloc"):
            yield start, chunk.iloc[start : start + step]
        elif library in ("numpy", "pandas"):
            yield start, chunk[start : start + step]
        else:
            yield start, chunk.slice(start, step)


def _tallied(readings: Readings, start: int, chunk: Any) -> Tally | Refused:
    made = [chunk]
    for place, function in readings.steps:
        made.append(function(made[place]))
    totals: dict[int, Sums] = {}
    for number, (place, domain) in enumerate(readings.views):
        unfit = _unfit(made[place], domain)
        if unfit is not None:
            return Refused(unfit)
        own = [(i, one) for i, (view, one) in enumerate(readings.asked) if view == number]
        for begins, piece in _pieces(made[place], NUMBERS):
            try:
                view = View(ingest(piece, domain, first=start + begins))
            except (TypeError, ValueError) as refusal:  # the text is ours, see ``ingest``
                why = str(refusal)
                return Refused(why, placed=True, numbered=why.startswith(NUMBERED))
            for i, one in own:
                sums = sums_of(view, one.asks, one.before, one.digested)
                totals[i] = totals[i] + sums if begins else sums
    return Tally(tuple(totals[i] for i in range(len(totals))), _names(chunk), len(chunk))


def _unfit(chunk: Any, domain: Domain) -> str | None:
    """Explain why this is no chunk: a list, or an array of one dimension, may be a single
    record.
    """
    if not (hasattr(chunk, "__array__") or hasattr(chunk, "to_numpy")):
        return (
            f"A chunk is a {type(chunk).__name__}; give arrays or data frames, for a list may be a "
            "single record."
        )
    dimensions = getattr(chunk, "ndim", 2)
    if dimensions == 1 and domain.columns > 1 and len(chunk):
        return (
            f"A chunk has 1 dimension, and a record has {domain.columns} columns; give chunks of "
            f"shape (n, {domain.columns}), not records one by one."
        )
    return None


def _names(chunk: Any) -> tuple[str, ...] | None:
    """Name the columns of a data frame, in order; None for an array."""
    named = getattr(chunk, "schema", None)
    names = getattr(named, "names", None) or getattr(chunk, "columns", None)
    if names is None or isinstance(chunk, np.ndarray):
        return None
    return tuple(map(str, names() if callable(names) else names))


def merged(one: Tally | Refused, two: Tally | Refused) -> Tally | Refused:
    """Add the sums of two sets of chunks. Columns of other names, or in another order, are
    refused.
    """
    if isinstance(one, Refused) or isinstance(two, Refused):
        refused = [each for each in (one, two) if isinstance(each, Refused)]
        return next((each for each in refused if each.why), refused[0])
    if one.names is not None and two.names is not None and one.names != two.names:
        return Refused(
            "The columns of a chunk have other names, or another order, than those before."
        )
    sums = tuple(a + b for a, b in zip(one.sums, two.sums, strict=True))
    return Tally(sums, two.names if one.names is None else one.names, one.rows + two.rows)
