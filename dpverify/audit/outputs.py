"""Outputs of anything, as features: a label and numbers for every draw.

Every outcome is first-class: a number, an array, a string, None, an abstention, an exception. Two
draws with different labels are told apart by the label; within a label the numbers do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.plans import Transcripts
from dpverify.randomness import Bits

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Draws:
    """A batch of outputs. numbers: shape (size, width), 0 where an output has fewer."""

    labels: NDArray[Any]
    numbers: Floats
    raw: Any = None

    def __len__(self) -> int:
        return len(self.labels)


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
        """Transcripts; the label is the gate that stopped each, the numbers all released values."""
        batch: Transcripts = self.law.sample(bits, size)
        columns = [column.astype(np.float64) for column in batch.values.values()]
        numbers = np.concatenate(columns, axis=1) if columns else np.zeros((size, 0))
        return Draws(batch.stopped_by, numbers, batch)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Exact up to float64, from the plan."""
        result: Floats = self.law.log_likelihood(draws.raw)
        return result


@dataclass(frozen=True, slots=True)
class CallableDraws:
    """Any function of a dataset. ``vectorized``: called once as f(dataset, size)."""

    function: Callable[..., Any]
    data: Sequence[Any]
    vectorized: bool = False

    def draw(self, bits: Bits, size: int) -> Draws:
        """Call the function; it has its own randomness. Raises ValueError if it alters its input."""
        pristine = copy.deepcopy(self.data)
        outputs = self._vector(size) if self.vectorized else [self._one() for _ in range(size)]
        if not _same(pristine, self.data):
            raise ValueError(
                f"{_name(self.function)} changed the dataset it was given; audit a function that "
                "leaves its input alone (copy it first)."
            )
        return encode(outputs)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Unknown."""
        return None

    def _one(self) -> Any:
        try:
            return self.function(self.data)
        except Exception as error:  # an exception is an outcome: it can leak like any other
            return error

    def _vector(self, size: int) -> Sequence[Any]:
        outputs: Sequence[Any] = self.function(self.data, size)
        if len(outputs) != size:
            raise ValueError(
                f"{_name(self.function)} returned {len(outputs)} outputs when asked for {size}."
            )
        return outputs


@dataclass(frozen=True, slots=True)
class SeededDraws:
    """A function f(dataset, size, bits) that takes its randomness from ``bits``: reproducible."""

    function: Callable[[Sequence[Any], int, Bits], Sequence[Any]]
    data: Sequence[Any]

    def draw(self, bits: Bits, size: int) -> Draws:
        """``size`` outputs."""
        return encode(self.function(self.data, size, bits))

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Unknown."""
        return None


def encode(outputs: Sequence[Any]) -> Draws:
    """Labels and numbers of arbitrary outputs."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        return _encode_array(outputs)
    if {type(output) for output in outputs} <= {float, int, np.float64, np.int64}:
        return _encode_array(np.array(outputs, dtype=np.float64))
    encoded = [_encode_one(output) for output in outputs]
    width = max((len(numbers) for _, numbers in encoded), default=0)
    numbers = np.zeros((len(encoded), width))
    labels = np.empty(len(encoded), dtype=object)
    for i, (label, values) in enumerate(encoded):
        labels[i] = label
        numbers[i, : len(values)] = values
    return Draws(labels, numbers)


def _encode_array(outputs: NDArray[Any]) -> Draws:
    flat = outputs.reshape(len(outputs), -1).astype(np.float64)
    odd = ~np.isfinite(flat)
    labels = np.full(len(flat), "number", dtype=object)
    for i in np.flatnonzero(odd.any(axis=1)):
        labels[i] = f"non-finite {flat[i][odd[i]].tolist()}"
    return Draws(labels, np.where(odd, 0.0, flat))


def _encode_one(output: Any) -> tuple[Hashable, list[float]]:
    if isinstance(output, Exception):
        return f"exception {type(output).__name__}", []
    if isinstance(output, (bool, str, bytes)) or output is None:
        return repr(output), []
    try:
        values = np.asarray(output)
        if values.dtype.kind not in "biuf":
            return repr(output), []
    except ValueError:
        return repr(output), []
    draws = _encode_array(values.reshape(1, -1))
    shape = f"{values.shape} " if values.ndim else ""
    return f"{shape}{draws.labels[0]}", draws.numbers[0].tolist()


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object)))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
