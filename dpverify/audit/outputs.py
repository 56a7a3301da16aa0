"""Outputs of anything, as features: a label and numbers for every draw.

Every outcome is first-class: a number, an array, a string, None, an abstention, an exception. Two
draws with different labels are told apart by the label; within a label the numbers do.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.plans import Transcripts
from dpverify.privacy.adjacency import Dataset, canonical_rows
from dpverify.privacy.numbers import to_float
from dpverify.randomness import Bits

Floats = NDArray[np.float64]
_EXCEPTION = "exception "
_HUGE = 10**300
_PRIME = 2**31 - 1


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
        columns = [_as_numbers(column) for column in batch.values.values()]
        numbers = np.concatenate(columns, axis=1) if columns else np.zeros((size, 0))
        return Draws(batch.stopped_by, numbers, batch)

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Exact up to float64, from the plan."""
        result: Floats = self.law.log_likelihood(draws.raw)
        return result


def _as_numbers(column: NDArray[Any]) -> Floats:
    """Of tuples of varying length: how long they are, and their sum."""
    if column.ndim == 1:
        rows = [(len(row), sum(row)) if isinstance(row, tuple) else (0, 0) for row in column]
        return np.array(rows, dtype=np.float64).reshape(-1, 2)
    return column.astype(np.float64)


@dataclass(frozen=True, slots=True)
class CallableDraws:
    """Any function of a dataset. ``vectorized``: called once as f(dataset, size)."""

    function: Callable[..., Any]
    data: Dataset
    vectorized: bool = False

    def draw(self, bits: Bits, size: int) -> Draws:
        """Call the function; it has its own randomness. Raises ValueError if it alters its input."""
        pristine = copy.deepcopy(self.data)
        outputs = self._vector(size) if self.vectorized else [self._one() for _ in range(size)]
        if canonical_rows(pristine) != canonical_rows(self.data):
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

    function: Callable[[Any, int, Bits], Sequence[Any]]
    data: Dataset

    def draw(self, bits: Bits, size: int) -> Draws:
        """``size`` outputs."""
        return encode(self.function(self.data, size, bits))

    def log_likelihood(self, draws: Draws) -> Floats | None:
        """Unknown."""
        return None


def encode(outputs: Sequence[Any]) -> Draws:
    """Labels and numbers of arbitrary outputs."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "bf":
        return _encode_floats(outputs.reshape(len(outputs), -1).astype(np.float64))
    if {type(output) for output in outputs} <= {float, np.float64}:
        return _encode_floats(np.array(outputs, dtype=np.float64).reshape(len(outputs), -1))
    encoded = [_encode_one(output) for output in outputs]
    width = max((len(numbers) for _, numbers in encoded), default=0)
    numbers = np.zeros((len(encoded), width))
    labels = np.empty(len(encoded), dtype=object)
    for i, (label, values) in enumerate(encoded):
        labels[i] = label
        numbers[i, : len(values)] = values
    return Draws(labels, numbers)


def _encode_floats(rows: Floats) -> Draws:
    """A row's label says where it is NaN, infinite or minus zero; its numbers say the rest."""
    odd = ~np.isfinite(rows) | ((rows == 0) & np.signbit(rows))
    labels = np.full(len(rows), "number", dtype=object)
    for i in np.flatnonzero(odd.any(axis=1)):
        labels[i] = "number, " + ", ".join(f"{rows[i, j]} at {j}" for j in np.flatnonzero(odd[i]))
    return Draws(labels, np.where(np.isfinite(rows), rows, 0.0))


def _encode_one(output: Any) -> tuple[Hashable, list[float]]:
    if isinstance(output, Exception):
        return f"{_EXCEPTION}{type(output).__name__}", []
    if isinstance(output, (int, np.integer)) and not isinstance(output, bool):
        return _encode_integer(int(output))
    if isinstance(output, (Fraction, Decimal)):
        output = to_float(Fraction(output)) if math.isfinite(output) else float(output)
    if isinstance(output, (bool, str, bytes)) or output is None:
        return repr(output), []
    try:
        values = np.asarray(output)
    except ValueError:
        return repr(output), []
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag])
    if values.dtype.kind not in "biuf":
        return repr(output), []
    draws = _encode_floats(values.astype(np.float64).reshape(1, -1))
    shape = f"{values.shape} " if values.ndim else ""
    return f"{shape}{draws.labels[0]}", draws.numbers[0].tolist()


def _encode_integer(value: int) -> tuple[str, list[float]]:
    """Floats hold 53 bits. Beyond them the label has the length, and a residue tells values apart."""
    if abs(value) < 1 << 53:
        return "number", [float(value)]
    size = float(min(max(value, -_HUGE), _HUGE))
    label = f"integer of {value.bit_length()} bits"
    return label, [size, float(value % (1 << 32)), float(value % _PRIME)]


def all_failed(draws: Draws) -> str | None:
    """The exception, if every one of these outputs is one and the same."""
    labels = set(draws.labels.tolist())
    only = str(next(iter(labels))) if len(labels) == 1 else ""
    return only.removeprefix(_EXCEPTION) if only.startswith(_EXCEPTION) else None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
