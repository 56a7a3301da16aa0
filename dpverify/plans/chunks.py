"""Records in chunks: where they come from, and what is asked of each chunk, in one pass over
all of them.

What goes wrong while chunks are read is a ``SourceFailed``. It repeats no message of other
people's code, for such a message may show a record, and it holds no such exception: it is
raised where none is being handled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike, stat
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from dpverify.grid.chunked import Sums
from dpverify.plans.taken import REMEDY, is_taken, take
from dpverify.plans.tallying import (
    NUMBERS,
    Reading,
    Readings,
    Refused,
    Tally,
    Then,
    merged,
    tallied,
)


class SourceFailed(RuntimeError):
    """Records that could not all be read: nothing was released of them.

    No bit was drawn for a mechanism that reads once. What other people's code raised is not
    repeated, for records may have decided it.
    """


class Source(ABC):
    """Source of chunks. once: whether they can be read a single time.

    opened: the stamp that the source must have whenever it is read; None: any. seen: how many
    rows it had when it was first read.
    """

    once: bool = False
    opened: Hashable = None
    seen: int | None = None

    @property
    def spent(self) -> bool:
        """True if the chunks can be read only once, and have been."""
        return False

    def rows(self) -> int | None:
        """Return the number of all records where that needs no pass over them, as in the
        footers of files; else None.
        """
        return None

    @abstractmethod
    def tally(self, ask: Callable[[Any], Tally | Refused]) -> Tally | Refused | None:
        """Ask every chunk and merge the answers; None for no chunks. May raise anything."""

    def stamp(self) -> Hashable:
        """Describe where chunks come from, so that the description differs if that has changed;
        never describe the records.
        """
        return None


class LocalChunks(Source):
    """Chunks that this process reads, one after the other.

    fresh: returns the chunks from the beginning. files: paths whose sizes or times of change
    show that the chunks have changed.
    """

    _last: Any = None

    def __init__(
        self,
        fresh: Callable[[], Iterable[Any]],
        *,
        once: bool = False,
        files: Sequence[str | PathLike[str]] = (),
        rows: Callable[[], int] | None = None,
    ) -> None:
        self._fresh, self.once, self._files, self._rows = fresh, once, tuple(files), rows

    @property
    def spent(self) -> bool:
        """True if an iterator has been read: by these chunks, or by others that were made of it."""
        return self.once and is_taken(self._fresh())

    def rows(self) -> int | None:
        """Return the number of records, by the function given for that."""
        return None if self._rows is None else self._rows()

    def tally(self, ask: Callable[[Any], Tally | Refused]) -> Tally | Refused | None:
        """Ask one chunk after the other, until one is refused."""
        total: Tally | Refused | None = None
        given = self._fresh()
        chunks = iter(given)
        if is_taken(chunks) or chunks is self._last:
            return Refused(REMEDY)
        self._last = chunks
        if chunks is given:
            take(chunks)
        for place, chunk in enumerate(chunks):
            answer = ask(chunk)
            if isinstance(answer, Refused):
                before = total.rows if isinstance(total, Tally) else 0
                more = f", before which {before} records are" if answer.numbered else ""
                answer = answer.within(f"chunk {place}{more}")
            total = answer if total is None else merged(total, answer)
            if isinstance(total, Refused):
                break
        return total

    def stamp(self) -> Hashable:
        """Return the files' sizes, times and identities. Only the system sets the second time,
        so it shows a file that was rewritten in place and given its old time.
        """
        shown = map(stat, self._files)
        return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in shown)


class Chunks:
    """Records that are read chunk by chunk, for data larger than memory.

    data: an array or a memory map (cut into slices), an iterable of arrays or data frames, a
    function that gives a fresh iterator of them, a Parquet file or dataset opened by pyarrow,
    or a Dask array or data frame, whose partial sums are computed by its workers. columns:
    names to select, in this order, from chunks that have names. files: paths that must not
    change between passes; those of a memory map and of an opened dataset are known.

    ``release`` and ``law`` of every mechanism whose queries add up take it
    (docs/how_to/large_data.md has the table), and give bit for bit what they give for all
    records in one array, whatever the chunks and their order. An iterator can be read once, so
    mechanisms that read several times refuse it. Raises TypeError for anything else.
    """

    __slots__ = ("source", "then")

    def __init__(
        self,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        files: Sequence[str | PathLike[str]] = (),
    ) -> None:
        if isinstance(columns, (str, bytes)):
            raise TypeError(f"columns = {columns!r}; give a list of names, columns=[{columns!r}].")
        if isinstance(files, (str, bytes, PathLike)):
            raise TypeError(f"files = {files!r}; give a list of paths, files=[{str(files)!r}].")
        self.source = data if isinstance(data, Source) else _source_of(data, columns, files)
        named = columns is not None and not isinstance(data, Source)
        self.then: Then = (partial(_selected, tuple(columns or ())),) if named else ()

    def __repr__(self) -> str:
        return "<chunks of private data>"

    def mapped(self, function: Callable[[Any], Any]) -> Chunks:
        """Return the chunks after a function that maps each record by itself; one pass serves
        all that share a source.
        """
        made = Chunks(self.source)
        made.then = (*self.then, function)
        return made


Data = ArrayLike | Chunks | Iterator[Any]
"""Data that ``law`` and ``release`` take: records in memory, or chunks that are read one by one."""


def _selected(columns: tuple[str, ...], chunk: Any) -> Any:
    if hasattr(chunk, "schema") and hasattr(chunk, "to_pylist"):  # a batch or table of pyarrow
        return chunk.select(list(columns))
    if hasattr(chunk, "iloc") and tuple(chunk.columns) == columns:
        return chunk  # pandas would copy it
    return chunk[list(columns)]


def _source_of(data: Any, columns: Any, files: Sequence[str | PathLike[str]]) -> Source:
    if is_dask(data):
        from dpverify.plans.dask_chunks import DaskChunks

        return DaskChunks(data)
    if isinstance(data, np.ndarray):
        return _slices_of(data, files)
    if type(data).__module__.startswith("pyarrow."):
        files = (*files, *_files_of(data))
        only = {} if columns is None else {"columns": list(columns)}
        for method in ("iter_batches", "to_batches"):
            if hasattr(data, method) and not hasattr(data, "to_pylist"):
                return LocalChunks(partial(getattr(data, method), **only), files=files)
    kind = type(data)  # ask the class, because a lazy frame would warn, or compute its columns
    in_memory = isinstance(data, (str, bytes, Mapping)) or hasattr(kind, "columns")
    if in_memory or hasattr(data, "to_numpy") or hasattr(data, "to_pylist"):
        raise TypeError(
            f"A {kind.__name__} is no source of chunks; give what is in memory as it is, a file by "
            "Table.read_parquet(path, in_memory=False), or an iterable of arrays or data frames."
        )
    if isinstance(data, Iterator):
        return LocalChunks(lambda: data, once=True, files=files)
    if callable(data):
        return LocalChunks(data, files=files)
    if isinstance(data, Iterable):
        return LocalChunks(lambda: data, files=files)
    raise TypeError(
        f"A {type(data).__name__} is no source of chunks; give an iterable of arrays or data "
        "frames, or a function that returns an iterator."
    )


def _slices_of(array: Any, files: Sequence[str | PathLike[str]]) -> Source:
    if not array.ndim:
        raise TypeError("An array without dimensions has no records to be read in chunks.")
    named = getattr(array, "filename", None)  # of a memory map
    if named is not None and Path(named).exists():
        files = (*files, named)
    step = max(1, NUMBERS // max(1, array[:1].size))
    starts = range(0, len(array), step)
    return LocalChunks(lambda: (array[start : start + step] for start in starts), files=files)


def _files_of(dataset: Any) -> list[str]:
    """List the local files of a dataset opened by pyarrow, and of its parts."""
    parts = [path for one in getattr(dataset, "children", ()) for path in _files_of(one)]
    local = getattr(getattr(dataset, "filesystem", None), "type_name", None) == "local"
    return [*parts, *(dataset.files if local else ())]


def is_dask(data: Any) -> bool:
    """Return whether this is a collection of Dask."""
    return callable(getattr(type(data), "__dask_graph__", None))


def chunks_in(data: Any) -> Chunks | None:
    """Return data that are read chunk by chunk as ``Chunks``; None for data in memory."""
    if isinstance(data, Chunks):
        return data
    opened = type(data).__module__.startswith("pyarrow.") and not hasattr(data, "to_pylist")
    return Chunks(data) if isinstance(data, Iterator) or is_dask(data) or opened else None


def known_rows(source: Source) -> int | None:
    """Return the number of all records where that needs no pass over them; else None. Raises
    SourceFailed, also where a file has changed since it was opened.
    """
    require_unchanged(source)
    rows, failed = None, False
    try:
        rows = source.rows()
    except Exception:
        failed = True
    if failed:
        _fail("")
    return rows


def require_unchanged(source: Source) -> None:
    """Refuse files that are gone or have changed since they were opened, without reading them.

    Raises SourceFailed.
    """
    try:
        changed = source.opened is not None and source.stamp() != source.opened
    except Exception:
        changed = None
    if changed is None:
        _fail("")
    if changed:
        _fail(_NOT_AS_OPENED)


def tally(source: Source, readings: Sequence[Reading]) -> list[Sums]:
    """Read all chunks once, and return the sum of each reading. Raises SourceFailed."""
    asked = tuple(readings)
    answer, stamps = _attempted(source, partial(tallied, Readings.of(asked)))
    if isinstance(answer, Refused):
        _fail(answer.why)
    if stamps[0] != stamps[1]:
        _fail("A file changed while it was read.")
    if source.opened is not None and stamps[0] != source.opened:
        _fail(_NOT_AS_OPENED)
    nobody = Tally(tuple(one.of_nobody() for one in asked))
    total = nobody if answer is None else merged(nobody, answer)
    assert isinstance(total, Tally)
    if source.seen not in (None, total.rows):
        _fail(
            "The records changed: there is another number of them than when they were first read."
        )
    source.seen = total.rows
    return list(total.sums)


def _attempted(
    source: Source, ask: Callable[[Any], Tally | Refused]
) -> tuple[Tally | Refused | None, tuple[Hashable, Hashable]]:
    """Ask every chunk, and repeat nothing of what is raised. An interrupt of the process is
    passed on, as an exception that contains nothing of what a source said.
    """
    stopped: BaseException | None = None
    try:
        before = source.stamp()
        answer = source.tally(ask)
        return answer, (before, source.stamp())
    except KeyboardInterrupt:
        stopped = KeyboardInterrupt()
    except SystemExit:
        stopped = SystemExit(1)
    except BaseException:  # an exception class of a user, or GeneratorExit
        pass
    if stopped is not None:
        raise stopped
    return Refused(), (None, None)


def _fail(why: str) -> NoReturn:
    raise SourceFailed(f"{why or _UNSAID} Nothing was released.")


_NOT_AS_OPENED = "A file is not what it was when it was opened."
_UNSAID = (
    "A chunk could not be read, or its records not counted. What went wrong is not repeated here, "
    "for it may show a record: read the chunks by yourself to see it."
)
