"""What is drawn from: a mechanism's law, or any function of a dataset.

Every outcome is first-class: a number, an array, a string, None, an abstention, an exception. Two
draws with different labels are told apart by the label; within a label the numbers do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.columns import floats_of, residues
from dpverify.audit.outputs.draws import Draws, Floats, Labels
from dpverify.audit.outputs.encoding import EXCEPTION, encode
from dpverify.plans import Transcripts
from dpverify.privacy.adjacency import Dataset, comparable_rows
from dpverify.randomness import Bits

_EXACT = 1 << 53
_MANY_ALIKE = 30
_MOST_ENTRIES = 32
_IMMUTABLE = frozenset((float, int, str, bool, bytes, complex, type(None), np.float64, np.int64))


class AuditedLaw(Protocol):
    """What an audit needs of one side of a pair."""

    def draw(self, bits: Bits, size: int) -> Draws:
        """``size`` independent outputs."""

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """The log-probability of each draw under this law, if it is known."""


@dataclass(frozen=True, slots=True)
class TranscriptDraws:
    """A mechanism's law, or a faulty one, seen by an audit."""

    law: Any

    def draw(self, bits: Bits, size: int) -> Draws:
        """Transcripts; the label is the gate that stopped each, the numbers all released values.

        Of a stage that releases tuples of varying length: the length, the sum, the first entries.
        Values beyond 2^53 have a residue besides, after all numbers.
        """
        batch: Transcripts = self.law.sample(bits, size)
        table = ("released", *(f"stopped: {reason}" for reason in batch.reasons))
        labels = Labels(batch.stopped_by + 1, table)
        return Draws(labels, _numbers(list(batch.values.values()), size), batch)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Exact up to float64, from the plan; unknown where coins of a filter matter."""
        if self.law.latent:
            return None
        result: Floats = self.law.log_likelihood(draws.raw)
        return result


def _numbers(columns: list[NDArray[Any]], size: int) -> Floats:
    """All stages side by side."""
    rows = [column if column.ndim > 1 else _of_tuples(column) for column in columns]
    if any(column.size and _beyond(column) for column in rows):
        rows += [np.where(_beyond_each(column), residues(column), 0) for column in rows]
    if len(rows) == 1:
        return floats_of(rows[0])
    return np.hstack([np.zeros((size, 0)), *map(floats_of, rows)])


def _beyond(column: NDArray[Any]) -> bool:
    return bool(column.max() >= _EXACT or column.min() <= -_EXACT)


def _beyond_each(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Elsewhere the residue is 0, as it is in a batch without such values."""
    return np.asarray((column >= _EXACT) | (column <= -_EXACT), dtype=np.bool_)


def _of_tuples(column: NDArray[Any]) -> NDArray[Any]:
    """Shape (size, 34) in every batch: the length, the sum, the first entries or 0.

    A histogram is key, count, key, count, ...: a key that only one side shows is an entry of its own.
    """
    rows = [row if isinstance(row, tuple) else () for row in column.tolist()]
    distinct = list(dict.fromkeys(rows))  # many draws are alike, and each is looked at once
    place = dict(zip(distinct, range(len(distinct)), strict=True))
    which = np.fromiter(map(place.__getitem__, rows), dtype=np.intp, count=len(rows))
    numbers = _of_distinct(distinct)
    if numbers.size and not _beyond(numbers):
        numbers = numbers.astype(np.int64)
    return numbers[which]


def _of_distinct(rows: list[tuple[int, ...]]) -> NDArray[Any]:
    """``_of_tuples``, one by one."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    longest = _MOST_ENTRIES
    numbers = np.zeros((len(rows), 2 + longest), dtype=object)
    numbers[:, 0], numbers[:, 1] = lengths, [sum(row) for row in rows]
    shown = np.minimum(lengths, longest)
    for length in np.unique(shown[shown > 0]).tolist():
        there = np.flatnonzero(shown == length)
        numbers[there, 2 : 2 + length] = [rows[i][:length] for i in there.tolist()]
    return numbers


@dataclass(frozen=True, slots=True)
class CallableDraws:
    """Any function of a dataset. ``vectorized``: called once as f(dataset, size)."""

    function: Callable[..., Any]
    data: Dataset
    vectorized: bool = False
    _shapes: set[tuple[int, ...]] = field(default_factory=set, repr=False, compare=False)
    _alike: set[tuple[str, bytes]] = field(default_factory=set, repr=False, compare=False)

    def draw(self, bits: Bits, size: int) -> Draws:
        """Call the function; it has its own randomness. Raises ValueError if it alters its input, and of a
        vectorized one for what is no batch of single outputs."""
        given = copy.deepcopy(
            self.data
        )  # a function that alters it must not alter the caller's pair
        if self.vectorized:
            outputs = self._vector(given, size)
        else:
            outputs = [self._one(given) for _ in range(size)]
        before, after = comparable_rows(self.data, given)
        if before != after:
            raise ValueError(
                f"{_name(self.function)} changed the dataset it was given; audit a function that "
                "leaves its input alone (copy it first)."
            )
        draws = _encoded(self.function, outputs, size)
        if self.vectorized and size >= _MANY_ALIKE:
            self._refuse_one_draw(draws)
        return draws

    def _refuse_one_draw(self, draws: Draws) -> None:
        """Raises ValueError if each of two batches has one value alone, and not the same: of independent outputs
        that has a probability below 2^-60."""
        only = _only(draws)
        if only is None:
            return
        self._alike.add(only)
        if len(self._alike) > 1:
            raise ValueError(
                f"{_name(self.function)} returned {len(draws)} equal outputs, and other equal ones before: outputs of "
                "a batch must be independent, each with noise of its own. Audit f(dataset), with vectorized=False."
            )

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Unknown."""
        return None

    def _one(self, given: Dataset) -> Any:
        try:
            output = self.function(given)
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # an exception is an outcome, sys.exit too: it can leak like any other
            return error
        return output if type(output) in _IMMUTABLE else _kept(output)

    def _vector(self, given: Dataset, size: int) -> Sequence[Any]:
        try:
            outputs: Sequence[Any] = self.function(given, size)
        except Exception as error:
            raise ValueError(
                f"{_name(self.function)} raised {type(error).__name__} ({error}) when asked for {size} outputs, "
                "which says nothing of each; with vectorized=False it is called as f(dataset), and an exception is an outcome."
            ) from error
        outputs = _rows(outputs)
        _check_number(self.function, outputs, size)
        if isinstance(outputs, np.ndarray):
            self._shapes.add(outputs.shape[1:])
            if len(self._shapes) > 1:
                shapes = " and then ".join(map(str, sorted(self._shapes)))
                raise ValueError(
                    f"{_name(self.function)} returned rows of shape {shapes} for one dataset; outputs of a "
                    "batch that share what was drawn are not independent: audit f(dataset)."
                )
        return outputs


@dataclass(frozen=True, slots=True)
class SeededDraws:
    """A function f(dataset, size, bits) that takes its randomness from ``bits``: reproducible."""

    function: Callable[[Any, int, Bits], Sequence[Any]]
    data: Dataset

    def draw(self, bits: Bits, size: int) -> Draws:
        """``size`` outputs. Raises ValueError for another number of them."""
        outputs = self.function(self.data, size, bits)
        _check_number(self.function, outputs, size)
        return _encoded(self.function, outputs, size)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Unknown."""
        return None


def _kept(output: Any) -> Any:
    """A copy, since a function may fill one buffer at every call; what cannot be copied as it is."""
    if type(output) is np.ndarray and not output.dtype.hasobject:
        return output.copy()
    if isinstance(output, memoryview):
        return output.tobytes()
    try:
        kept = copy.deepcopy(output)
        if isinstance(output, np.ndarray) and hasattr(output, "__dict__"):
            vars(kept).update(copy.deepcopy(vars(output)))  # numpy's own copy leaves these out
    except Exception:  # a copy may raise whatever it likes
        return output
    return kept


def _check_number(function: Callable[..., Any], outputs: Any, size: int) -> None:
    """Raises ValueError unless there is one output for each that was asked for, in order."""
    unordered = isinstance(outputs, (str, bytes, Mapping, Set))
    if unordered or not hasattr(outputs, "__len__") or getattr(outputs, "ndim", 1) == 0:
        raise ValueError(
            f"{_name(function)} returned {type(outputs).__name__}, not {size} outputs; return a "
            "list or an array with one entry (one row) for each."
        )
    if len(outputs) != size:
        raise ValueError(
            f"{_name(function)} returned {len(outputs)} outputs when asked for {size}; return one "
            "for each."
        )


def _rows(outputs: Any) -> Any:
    """Of a table (pandas, polars) its rows: iterated over it gives the names of its columns."""
    return outputs.to_numpy() if hasattr(outputs, "to_numpy") else outputs


def _encoded(function: Callable[..., Any], outputs: Any, size: int) -> Draws:
    draws = encode(outputs)
    if len(draws) != size:
        raise ValueError(
            f"{_name(function)} returned {type(outputs).__name__} of length {size} with {len(draws)} entries; return "
            "a list or an array with one entry (one row) for each."
        )
    return draws


def _only(draws: Draws) -> tuple[str, bytes] | None:
    """The label and the numbers that all of these have; None if they do not."""
    codes, numbers = draws.coded.codes, draws.numbers
    if not ((codes == codes[0]).all() and (numbers == numbers[0]).all()):
        return None
    return str(draws.coded.table[codes[0]]), (numbers[0] + 0.0).tobytes()


def is_known(law: AuditedLaw) -> bool:
    """Whether its log-likelihood is at hand."""
    return isinstance(law, TranscriptDraws) and not law.law.latent


def all_failed(draws: Draws) -> str | None:
    """The type of the exception, if every one of these outputs is one of the same type."""
    kinds = draws.kinds.counts()
    only = str(next(iter(kinds))) if len(kinds) == 1 else ""
    return only.removeprefix(EXCEPTION) if only.startswith(EXCEPTION) else None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


__all__ = [
    "AuditedLaw",
    "CallableDraws",
    "Draws",
    "Floats",
    "SeededDraws",
    "TranscriptDraws",
    "all_failed",
    "encode",
    "is_known",
]
