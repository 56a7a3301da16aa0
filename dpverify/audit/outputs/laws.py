"""Sources of draws: a mechanism's law, or any function of a dataset.

Every outcome is first-class: a number, an array, a string, None, an abstention, an exception. Two
draws with different labels are told apart by the label; within a label the numbers do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.columns import refuse_many
from dpverify.audit.outputs.draws import Draws, together
from dpverify.audit.outputs.encoding import encode, kept
from dpverify.audit.outputs.rounding import rounded
from dpverify.audit.outputs.showing import EXCEPTION
from dpverify.audit.outputs.transcripts import TranscriptDraws
from dpverify.audit.progress import CallbackFailed
from dpverify.privacy.adjacency import Dataset, comparable_rows
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits, SeededBits

_MANY_ALIKE = 30
_IMMUTABLE = frozenset(
    (float, int, str, bool, bytes, complex, type(None), Fraction, Decimal, *np.sctypeDict.values())
) - {np.void, np.object_}
_DEEP = 4
_NOT_PLAIN = object()
_BLOCK = 1000  # raw outputs at a time: what is kept of each may be far less


class AuditedLaw(Protocol):
    """Interface that an audit needs of one side of a pair."""

    def draw(self, bits: Bits, size: int) -> Draws:
        """Draw ``size`` independent outputs."""

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Return the log-probability of each draw under this law, if it is known."""


@dataclass(frozen=True, slots=True)
class CallableDraws:
    """Any function of a dataset. ``vectorized``: called once as f(dataset, size).

    is_fresh: whether each call is of a new function, which keeps nothing from the calls before.
    step: floats are rounded to multiples of it before anything is looked at; 0: as they are.
    """

    function: Callable[..., Any]
    data: Dataset
    vectorized: bool = False
    is_fresh: bool = False
    step: float = 0.0
    _shapes: set[tuple[int, ...]] = field(default_factory=set, repr=False, compare=False)
    _alike: set[tuple[str, bytes]] = field(default_factory=set, repr=False, compare=False)

    def draw(self, bits: Bits, size: int) -> Draws:
        """Call the function, which has its own randomness. Raises ValueError if it alters its
        input or, for a vectorized one, if its result is no batch of single outputs.
        """
        if not self.vectorized:
            return called([self], np.zeros(size, dtype=np.intp))[0]
        (given,) = givens = _copies([self])
        with _room_for([self]):
            draws = self._vector(given, size)
        _refuse_changed([self], givens)
        if size >= _MANY_ALIKE:
            self._refuse_one_draw(draws)
        return draws

    def _refuse_one_draw(self, draws: Draws) -> None:
        """Raise ValueError if each of two batches has one value alone, and not the same: for
        independent outputs that has a probability below 2^-60.
        """
        only = only_output(draws)
        if only is None:
            return
        self._alike.add(only)
        if len(self._alike) > 1:
            raise ValueError(
                f"{_name(self.function)} returned {len(draws)} equal outputs, and other equal "
                "ones before: outputs of a batch must be independent, each with noise of its "
                "own. Audit f(dataset), with vectorized=False."
            )

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Return None: the likelihood is unknown."""
        return None

    def one(self, given: Dataset) -> Any:
        """Return the output of one call, or the exception that it raised."""
        try:
            output = self.function(given)
        # these say nothing of the function
        except (KeyboardInterrupt, MemoryError, CallbackFailed):
            raise
        except (
            BaseException
        ) as error:  # an exception is an outcome, sys.exit too: it can leak like any other
            return kept(error)
        seen = as_it_is(output)
        return rounded(seen, self.step) if self.step else seen

    def _vector(self, given: Dataset, size: int) -> Draws:
        try:
            outputs: Sequence[Any] = self.function(given, size)
        except Exception as error:
            raise ValueError(
                f"{_name(self.function)} raised {type(error).__name__} ({error}) when asked for "
                f"{size} outputs, which says nothing of each; with vectorized=False it is called "
                "as f(dataset), and an exception is an outcome."
            ) from error
        outputs = _rows(outputs)
        _check_number(self.function, outputs, size)
        if isinstance(outputs, np.ndarray):
            self._shapes.add(outputs.shape[1:])
            if len(self._shapes) > 1:
                shapes = " and then ".join(map(str, sorted(self._shapes)))
                raise ValueError(
                    f"{_name(self.function)} returned rows of shape {shapes} for one dataset; "
                    "outputs of a batch that share what was drawn are not independent: audit "
                    "f(dataset)."
                )
        if self.step:
            seen = outputs if isinstance(outputs, np.ndarray) else list(outputs)
            outputs = rounded(seen, self.step)
        return _encoded(self.function, outputs, size)


@dataclass(frozen=True, slots=True)
class SeededDraws:
    """A function f(dataset, size, bits) that takes its randomness from ``bits``: reproducible."""

    function: Callable[[Any, int, Bits], Sequence[Any]]
    data: Dataset

    def draw(self, bits: Bits, size: int) -> Draws:
        """Draw ``size`` outputs. Raises ValueError for another number of them."""
        outputs = self.function(self.data, size, bits)
        _check_number(self.function, outputs, size)
        return _encoded(self.function, outputs, size)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Return None: the likelihood is unknown."""
        return None


def both_drawn(
    laws: tuple[AuditedLaw, AuditedLaw], addresses: Sequence[tuple[int, ...]], size: int
) -> list[Draws]:
    """Draw ``size`` outputs of either side; for single calls, 2 ``size`` in all.

    The side of each single call is a fair coin, so that what drifts with the calls (a clock, a
    serial number) does not look like the side. A function of a size is asked for both batches
    in the order of a coin. addresses: of the bits of either side; the first one seeds the
    coins.
    """
    left, right = laws
    if not (isinstance(left, CallableDraws) and isinstance(right, CallableDraws)):
        return [law.draw(SeededBits(*at), size) for law, at in zip(laws, addresses, strict=True)]
    rng = np.random.default_rng(addresses[0])
    if left.vectorized:
        drawn = {
            side: laws[side].draw(SeededBits(*addresses[side]), size)
            for side in rng.permutation(2).tolist()
        }
        return [drawn[0], drawn[1]]
    return called([left, right], rng.integers(2, size=2 * size))


def are_functions(laws: Sequence[AuditedLaw]) -> bool:
    """Return whether they are functions with randomness of their own, called one by one or for
    many outputs.
    """
    return all(isinstance(law, CallableDraws) for law in laws)


def called_singly(laws: tuple[AuditedLaw, AuditedLaw]) -> bool:
    """Return whether each output is one call of a function, whose side a coin decides."""
    return all(isinstance(law, CallableDraws) and not law.vectorized for law in laws)


def called(laws: Sequence[CallableDraws], order: NDArray[np.integer[Any]]) -> list[Draws]:
    """Draw outputs of each of these functions, called one by one in this order of their positions.

    Raises ValueError if one alters its input, or if memory runs out.
    """
    begun = perf_counter_ns()  # a call takes longer than a nanosecond, so turns only increase
    sizes = np.bincount(order, minlength=len(laws)).tolist()
    kept_now: list[list[Any]] = [[] for _ in laws]
    blocks: list[list[Draws]] = [[] for _ in laws]
    givens = _copies(laws)

    def put_away(k: int) -> None:
        blocks[k].append(encode(kept_now[k]))
        kept_now[k].clear()
        refuse_many(sizes[k], blocks[k][-1].numbers.shape[1])

    with _room_for(laws):
        for k in order.tolist():
            kept_now[k].append(laws[k].one(givens[k]))
            if len(kept_now[k]) == _BLOCK:
                put_away(k)
        for k in range(len(laws)):
            if kept_now[k] or not blocks[k]:
                put_away(k)
    _refuse_changed(laws, givens)
    drawn = [together(own) if len(own) > 1 else own[0] for own in blocks]
    for k, draws in enumerate(drawn):
        draws.turns = begun + np.flatnonzero(order == k)
    return drawn


def _copies(laws: Sequence[CallableDraws]) -> list[Dataset]:
    """Copy the datasets: a function that alters its input must not alter the caller's pair."""
    return [copy.deepcopy(law.data) for law in laws]


@contextmanager
def _room_for(laws: Sequence[CallableDraws]) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise ValueError(
            f"{_name(laws[0].function)}, or what is kept of its outputs, needs more memory than "
            "there is, which says nothing of its privacy. Return less of a long output (its "
            "length and a hash of it), or ask for fewer trials."
        ) from error


def _refuse_changed(laws: Sequence[CallableDraws], givens: Sequence[Dataset]) -> None:
    for law, given in zip(laws, givens, strict=True):
        before, after = comparable_rows(law.data, given)
        if before != after:
            raise ValueError(
                f"{_name(law.function)} changed the dataset it was given; audit a function that "
                "leaves its input alone (copy it first)."
            )


def as_it_is(output: Any) -> Any:
    """Return the output as it is now: a function may fill one buffer, or return one object, at
    every call.

    What is not plainly a copy is taken apart at once, which costs more: how an object shows
    itself may depend on what the function does later, and an exception holds the frames it came
    through.
    """
    copied = _copied(output, 0)
    return kept(output) if copied is _NOT_PLAIN else copied


def _copied(value: Any, depth: int) -> Any:
    """Copy lists, tuples and dicts of what never changes, and of arrays, in one pass; return
    _NOT_PLAIN for all else.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is np.ndarray:
        return _NOT_PLAIN if value.dtype.hasobject else value.copy(order="K")
    if depth == _DEEP or kind not in (list, tuple, dict):
        return _NOT_PLAIN
    if kind is dict and not _IMMUTABLE.issuperset(map(type, value)):
        return _NOT_PLAIN
    parts = [_copied(one, depth + 1) for one in (value.values() if kind is dict else value)]
    if any(part is _NOT_PLAIN for part in parts):
        return _NOT_PLAIN
    if kind is dict:
        return dict(zip(value, parts, strict=True))
    return parts if kind is list else tuple(parts)


def _check_number(function: Callable[..., Any], outputs: Any, size: int) -> None:
    """Raise ValueError unless there is one output for each that was asked for, in order."""
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
    """Return a table's rows (pandas, polars), since iterating over it gives the names of its
    columns; anything else unchanged.
    """
    return outputs.to_numpy() if hasattr(outputs, "to_numpy") else outputs


def _encoded(function: Callable[..., Any], outputs: Any, size: int) -> Draws:
    draws = encode(outputs)
    if len(draws) != size:
        raise ValueError(
            f"{_name(function)} returned {type(outputs).__name__} of length {size} with "
            f"{len(draws)} entries; return a list or an array with one entry (one row) for each."
        )
    return draws


def only_output(draws: Draws) -> tuple[str, bytes] | None:
    """Return the label and the numbers that all of these draws have; None if they differ."""
    codes, numbers = draws.coded.codes, draws.numbers
    if not len(draws) or not ((codes == codes[0]).all() and (numbers == numbers[0]).all()):
        return None
    return str(draws.coded.table[codes[0]]), (numbers[0] + 0.0).tobytes()


def is_known(law: AuditedLaw) -> bool:
    """Return whether a law's log-likelihood is at hand."""
    return isinstance(law, TranscriptDraws) and not law.law.latent


def name_of_function(law: AuditedLaw) -> str:
    """Return the name of the audited subject for messages."""
    return _name(law.function) if isinstance(law, CallableDraws) else "the mechanism"


def all_failed(draws: Draws) -> str | None:
    """Return the type of the exception, if every one of these outputs is one of the same type."""
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
    "are_functions",
    "as_it_is",
    "both_drawn",
    "called",
    "called_singly",
    "encode",
    "is_known",
    "name_of_function",
    "only_output",
]
