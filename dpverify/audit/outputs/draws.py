"""A batch of outputs as an auditor sees it: what kind each is, its label, its marks, its
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.privacy.numbers import Floats

Codes = NDArray[np.integer[Any]]
Rows = NDArray[np.integer[Any]] | slice
PLAIN = ""
"""The mark of an ordinary number, and of a place that an output does not have."""


class Labels:
    """A column of texts. codes: shape (size,), where in ``table`` (distinct texts) each one is."""

    __slots__ = ("codes", "table")

    def __init__(self, codes: Codes, table: tuple[Any, ...]) -> None:
        self.codes = codes
        self.table = table

    @classmethod
    def constant(cls, label: str, size: int) -> Labels:
        """Return the same text everywhere; it costs no memory."""
        return cls(np.broadcast_to(np.intp(0), size), (label,))

    @classmethod
    def of(cls, values: Any) -> Labels:
        """Return the labels of any sequence of hashable values."""
        values = values.tolist() if isinstance(values, np.ndarray) else values
        places: dict[Any, int] = {}
        codes = [places.setdefault(value, len(places)) for value in values]
        return cls(np.array(codes, dtype=np.intp), tuple(places))

    def __len__(self) -> int:
        return len(self.codes)

    def array(self) -> NDArray[Any]:
        """Return the texts, shape (size,), dtype object."""
        table = np.empty(len(self.table), dtype=object)
        table[:] = self.table
        return np.asarray(table[self.codes]) if len(table) else np.empty(len(self), dtype=object)

    def select(self, rows: Rows) -> Labels:
        """Return the same column with only these rows."""
        return Labels(self.codes[rows], self.table)

    def counts(self) -> dict[Any, int]:
        """Count how often each text occurs."""
        counts = np.bincount(self.codes, minlength=len(self.table)).tolist()
        return {label: n for label, n in zip(self.table, counts, strict=True) if n}

    def are(self, label: Any) -> NDArray[np.bool_]:
        """Return where the text is this one."""
        if label not in self.table:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray(self.codes == self.table.index(label))

    def weighted(self, weights: Mapping[Any, float], unknown: float = 0.0) -> Floats:
        """Return the weight of each text; ``unknown`` for one without."""
        return np.array([weights.get(label, unknown) for label in self.table] or [unknown])[
            self.codes
        ]


class Draws:
    """A batch of ``size`` outputs.

    kinds: what each output is: its type, structure and shape.
    labels: its kind and everything in it that is not an ordinary number.
    numbers: shape (size, width), finite; 0 where an output has fewer, or something else there.
    marks: by column, what stands there instead of an ordinary number; columns without are left out.
    raw: what a law needs to find the log-likelihood.
    made: derived numbers by name and width, so that scores which share them compute them once.
    turns: increasing numbers, shape (size,), which put outputs of both sides in the order in which
    they were made; None where each is not a call of its own.
    """

    __slots__ = ("coded", "kinds", "made", "marks", "numbers", "raw", "turns")

    def __init__(
        self,
        labels: Labels | NDArray[Any],
        numbers: Floats,
        raw: Any = None,
        *,
        kinds: Labels | None = None,
        marks: Mapping[int, Labels] | None = None,
        turns: NDArray[np.int64] | None = None,
    ) -> None:
        self.coded = labels if isinstance(labels, Labels) else Labels.of(labels)
        self.kinds = self.coded if kinds is None else kinds
        self.marks = marks or {}
        self.numbers = numbers
        self.raw = raw
        self.made: dict[tuple[str, int], NDArray[Any]] = {}
        self.turns = turns

    def __len__(self) -> int:
        return len(self.coded)

    def __repr__(self) -> str:
        return f"<{len(self)} draws of width {self.numbers.shape[1]}>"

    @property
    def labels(self) -> NDArray[Any]:
        """The labels themselves, shape (size,), dtype object. ``coded`` holds them as codes."""
        return self.coded.array()

    def select(self, rows: Rows) -> Draws:
        """Return the same batch with only these rows, without ``raw``."""
        marks = {column: labels.select(rows) for column, labels in self.marks.items()}
        kinds, turns = self.kinds.select(rows), None if self.turns is None else self.turns[rows]
        return Draws(
            self.coded.select(rows), self.numbers[rows], kinds=kinds, marks=marks, turns=turns
        )

    def column(self, j: int) -> Floats:
        """Return the numbers at one place, shape (size,); 0 where this batch is not that wide."""
        return self.numbers[:, j] if j < self.numbers.shape[1] else np.zeros(len(self))

    def columns(self, width: int) -> Floats:
        """Return the numbers with shape (size, width): cut, or filled up with 0."""
        columns = self.numbers[:, :width]
        missing = width - columns.shape[1]
        return np.pad(columns, ((0, 0), (0, missing))) if missing else columns

    def marked(self, j: int) -> Labels:
        """Return the marks at one place."""
        return self.marks[j] if j in self.marks else Labels.constant(PLAIN, len(self))


def together(batches: Sequence[Draws]) -> Draws:
    """Join at least one batch to a single one, as wide as the widest, without ``raw``."""
    width = max(batch.numbers.shape[1] for batch in batches)
    columns = sorted({column for batch in batches for column in batch.marks})
    turns = [batch.turns for batch in batches if batch.turns is not None]
    return Draws(
        _stacked([batch.coded for batch in batches]),
        np.concatenate([batch.columns(width) for batch in batches]),
        kinds=_stacked([batch.kinds for batch in batches]),
        marks={j: _stacked([batch.marked(j) for batch in batches]) for j in columns},
        turns=np.concatenate(turns) if len(turns) == len(batches) else None,
    )


def _stacked(columns: Sequence[Labels]) -> Labels:
    table = {text: k for k, text in enumerate(dict.fromkeys(t for c in columns for t in c.table))}
    codes = [
        np.array([table[text] for text in column.table] or [0], dtype=np.intp)[column.codes]
        for column in columns
    ]
    return Labels(np.concatenate(codes), tuple(table))
