"""Parts of encoded outputs: columns of numbers, integers and texts, and how parts make a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import PLAIN, Codes, Labels
from dpverify.privacy.numbers import Floats

Wrap = Callable[[Sequence[str]], str]
"""The label of an output from the labels of its parts."""
UNORDERED = 64
"""Number of parts beyond which a label says how many of each there are, and not where."""
_ODD = (PLAIN, "nan", "inf", "-inf", "-0.0", "-nan")
_PAYLOAD = (1 << 51) - 1  # bits of a NaN that do not decide its kind
_EXACT = 1 << 53  # every smaller integer is a float
_HUGE = 10**300
_PRIME = 2**31 - 1
_WORD, _WORDS = 32, 4  # bits of a word, and how many words of a large integer are columns
_LAST = (1 << _WORD) - 1
_MOST_NUMBERS = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Encoded values, in the words of ``Draws``; widths: shape (size,), the columns each value
    has.
    """

    kinds: Labels
    labels: Labels
    numbers: Floats
    widths: Codes
    marks: dict[int, Labels]

    def select(self, rows: Codes) -> Part:
        """Return only these rows."""
        marks = {column: labels.select(rows) for column, labels in self.marks.items()}
        kinds, labels = self.kinds.select(rows), self.labels.select(rows)
        return Part(kinds, labels, self.numbers[rows], self.widths[rows], marks)


@dataclass(frozen=True, slots=True)
class Kept:
    """One output, taken apart when it was made: what it shows later may be another one."""

    kind: str
    label: str
    numbers: Floats
    marks: Mapping[int, str]


def restored(values: Sequence[Kept]) -> Part:
    """Combine outputs that were taken apart one by one."""
    widths = np.array([len(value.numbers) for value in values], dtype=np.intp)
    numbers = np.zeros((len(values), int(widths.max(initial=0))))
    for i, value in enumerate(values):
        numbers[i, : len(value.numbers)] = value.numbers
    marks = {
        j: Labels.of([value.marks.get(j, PLAIN) for value in values])
        for j in sorted({column for value in values for column in value.marks})
    }
    kinds = Labels.of([value.kind for value in values])
    labels = Labels.of([value.label for value in values])
    return Part(kinds, labels, numbers, widths, marks)


def alone(texts: Sequence[str]) -> str:
    """Return the label of a value by itself."""
    return texts[0]


def text_part(kinds: Labels, labels: Labels, inside: bool) -> Part:
    """Encode values that are told apart by their text alone. inside: of a container, so they
    have a place in it.
    """
    size, width = len(labels), int(inside)
    marks = {0: labels} if inside else {}
    return Part(kinds, labels, np.zeros((size, width)), np.full(size, width, np.intp), marks)


def float_part(rows: Floats, name: str, wrap: Wrap) -> Part:
    """Encode rows of floats, shape (size, width). Marked where NaN, infinite or minus zero.

    At a mark the number is 0; for a NaN it is the payload, which is 0 except where made by
    hand.
    """
    size, width = rows.shape
    kinds = Labels.constant(wrap([name] * width), size)
    widths = np.broadcast_to(np.intp(width), size)
    odd = np.asarray(~np.isfinite(rows) | ((rows == 0) & np.signbit(rows)))
    columns = np.flatnonzero(odd.any(axis=0))
    if not len(columns):
        return Part(kinds, kinds, rows, widths, {})
    codes = _odd_codes(rows[:, columns])
    numbers = np.where(odd, 0.0, rows)
    strange = np.isnan(rows)
    numbers[strange] = rows[strange].view(np.int64) & _PAYLOAD
    marks = {int(j): Labels(codes[:, k], _ODD) for k, j in enumerate(columns)}
    labels = _patterns(codes, columns, _ODD, [name] * width, wrap)
    return Part(kinds, labels, numbers, widths, marks)


def floats(rows: NDArray[Any]) -> Floats:
    """Convert any real dtype to float64; for one longer than 64 bits the rounding errors follow
    as further columns.
    """
    if rows.dtype.itemsize <= 8:
        return rows.astype(np.float64)
    with np.errstate(all="ignore"):  # what is beyond the floats is infinite, with no rest
        near = rows.astype(np.float64)
        rest = (rows - near).astype(np.float64)
    return np.hstack([near, np.where(np.isfinite(rest), rest, 0.0)])


def _odd_codes(values: Floats) -> NDArray[np.uint8]:
    """Return the position of each value in ``_ODD``."""
    codes = np.zeros(values.shape, dtype=np.uint8)
    codes[np.isnan(values)] = 1
    codes[values == np.inf] = 2
    codes[values == -np.inf] = 3
    codes[(values == 0) & np.signbit(values)] = 4
    codes[np.isnan(values) & np.signbit(values)] = 5
    return codes


def integer_part(rows: NDArray[Any], name: str, wrap: Wrap) -> Part:
    """Encode rows of integers of any size, shape (size, width).

    A row with an integer beyond 2^53, where floats have gaps, is marked with the number of bits
    there and has also a residue of every entry, which tells neighbors apart, and words of it,
    which have its bits.
    """
    size, width = rows.shape
    kinds = Labels.constant(wrap([name] * width), size)
    beyond = np.asarray((rows >= _EXACT) | (rows <= -_EXACT), dtype=np.bool_)
    columns = np.flatnonzero(beyond.any(axis=0))
    numbers = floats_of(rows)
    if not len(columns):
        return Part(kinds, kinds, numbers, np.broadcast_to(np.intp(width), size), {})
    wide = np.asarray(beyond.any(axis=1))
    bits = np.where(beyond, _bits(rows, numbers), 0)
    further = np.hstack([residues(rows), *words(rows)])
    counts = np.where(wide, 1 + np.clip(-(-bits.max(axis=1) // _WORD), 2, _WORDS), 0)
    there = np.repeat(np.arange(1 + _WORDS), width) < counts[:, np.newaxis]
    further = np.where(there, further, 0.0)[:, : width * int(counts.max())]
    numbers = np.hstack([numbers, further])
    bits = bits[:, columns]
    lengths, codes = np.unique(np.append(bits.ravel(), 0), return_inverse=True)
    table = tuple(f"{name} of {k} bits" if k else PLAIN for k in lengths.tolist())
    codes = codes[:-1].reshape(bits.shape)
    marks = {int(j): Labels(codes[:, k], table) for k, j in enumerate(columns)}
    labels = _patterns(codes, columns, table, [name] * width, wrap)
    return Part(kinds, labels, numbers, width + width * counts, marks)


def floats_of(integers: NDArray[Any]) -> Floats:
    """Return the nearest floats; what is astronomic stops at 10^300."""
    if integers.dtype == object:
        integers = np.clip(integers, -_HUGE, _HUGE)
    return integers.astype(np.float64, copy=False)


def residues(integers: NDArray[Any]) -> Floats:
    """Reduce modulo a prime below 2^31."""
    prime = integers.dtype.type(_PRIME) if integers.dtype.itemsize >= 8 else np.int64(_PRIME)
    if integers.dtype == object:
        return (integers % _PRIME).astype(np.float64)
    return (integers % prime).astype(np.float64)


def words(integers: NDArray[Any]) -> list[Floats]:
    """Return the lowest words of 32 bits each, in two's complement."""
    if integers.dtype != object:
        own = integers.dtype.type
        limbs = [(integers >> own(_WORD * k)) & own(_LAST) for k in range(2)]
        limbs += [np.zeros_like(integers)] * (_WORDS - 2)
    else:
        limbs = [(integers >> (_WORD * k)) & _LAST for k in range(_WORDS)]
    return [word.astype(np.float64) for word in limbs]


def _bits(integers: NDArray[Any], floats: Floats) -> NDArray[np.int64]:
    """Return how many bits the nearest float has; where the integer is astronomic, its own."""
    bits = np.frexp(floats)[1].astype(np.int64)
    for place in np.argwhere(np.abs(floats) >= float(_HUGE)):
        bits[tuple(place)] = int(integers[tuple(place)]).bit_length()
    return bits


def _patterns(
    codes: NDArray[Any], columns: Codes, table: tuple[str, ...], ordinary: list[str], wrap: Wrap
) -> Labels:
    """Return the label of each row from what stands at some columns; elsewhere all is ordinary."""
    if len(ordinary) > UNORDERED:
        codes = np.sort(codes, axis=1)
    which, first = _distinct_rows(codes)
    texts = []
    for i in first:
        cells = list(ordinary)
        for k in np.flatnonzero([table[c] != PLAIN for c in codes[i]]):
            cells[columns[k]] = table[codes[i, k]]
        texts.append(wrap(cells))
    return merged(which, texts)


def _distinct_rows(codes: NDArray[Any]) -> tuple[Codes, Codes]:
    """Return, for each row, which distinct row it equals, and where each distinct row comes
    first.
    """
    if codes.shape[1] == 1:
        keys: NDArray[Any] = codes[:, 0]
    else:
        small = codes.astype(np.uint8 if codes.max(initial=0) < 256 else np.int32)
        keys = np.ascontiguousarray(small).view(f"S{small.itemsize * small.shape[1]}").ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return which, first


def merged(which: Codes, texts: Sequence[str]) -> Labels:
    """Return a column of labels from places in a list of texts that may repeat."""
    distinct = Labels.of(texts)
    return Labels(distinct.codes[which], distinct.table)


def joined(parts: Sequence[Part], wrap: Wrap, size: int) -> Part:
    """Join the parts of each output side by side, each as wide as it is in that output."""
    kinds = _joined_labels([part.kinds for part in parts], wrap, size)
    labels = _joined_labels([part.labels for part in parts], wrap, size)
    widths = np.array([part.widths for part in parts], dtype=np.intp).reshape(-1, size).T
    if size and np.any(widths != widths[0]):
        which, first = _distinct_rows(widths)
        groups = []
        for one in range(len(first)):
            rows = np.flatnonzero(which == one)
            groups.append((rows, joined([part.select(rows) for part in parts], wrap, len(rows))))
        return scattered(groups, size)
    numbers, marks, start = [np.zeros((size, 0))], {}, 0
    for k, part in enumerate(parts):
        width = int(widths[0, k]) if size else 0
        numbers.append(part.numbers[:, :width])
        marks.update({start + j: mark for j, mark in part.marks.items() if j < width})
        start += width
    return Part(kinds, labels, np.hstack(numbers), np.full(size, start, np.intp), marks)


def _joined_labels(columns: Sequence[Labels], wrap: Wrap, size: int) -> Labels:
    varying = [column.codes for column in columns if len(column.table) > 1]
    if not varying:
        return Labels.constant(wrap([column.table[0] for column in columns if column.table]), size)
    which, first = _distinct_rows(np.stack(varying, axis=1))
    texts = [wrap([column.table[column.codes[i]] for column in columns]) for i in first]
    return merged(which, texts)


def refuse_many(size: int, width: int) -> None:
    """Raise ValueError where so many rows of this width are more than memory is meant for."""
    if size * width > _MOST_NUMBERS:
        raise ValueError(
            f"The longest of {size:,} outputs has {width:,} numbers, so all of them as rows of "
            f"one length would have {size * width:,}, more than {_MOST_NUMBERS:,} (8 GiB). "
            "Return less of a long output (its length and a hash of it tell any two apart), or "
            "ask for fewer trials."
        )


def scattered(parts: Sequence[tuple[Codes, Part]], size: int) -> Part:
    """Combine parts of a batch, each with the rows it stands for, into one."""
    width = max((part.numbers.shape[1] for _, part in parts), default=0)
    refuse_many(size, width)
    numbers, widths = np.zeros((size, width)), np.zeros(size, np.intp)
    for rows, part in parts:
        numbers[rows, : part.numbers.shape[1]] = part.numbers
        widths[rows] = part.widths
    kinds = _scattered_labels([(rows, part.kinds) for rows, part in parts], size)
    labels = _scattered_labels([(rows, part.labels) for rows, part in parts], size)
    marks = {}
    for j in sorted({column for _, part in parts for column in part.marks}):
        marks[j] = _scattered_labels(
            [(rows, part.marks[j]) for rows, part in parts if j in part.marks], size
        )
    return Part(kinds, labels, numbers, widths, marks)


def _scattered_labels(parts: Sequence[tuple[Codes, Labels]], size: int) -> Labels:
    """Combine labels; rows of no part have no mark."""
    texts = [PLAIN]
    codes = np.zeros(size, dtype=np.intp)
    for rows, labels in parts:
        codes[rows] = np.add(labels.codes, len(texts), dtype=np.intp)
        texts.extend(labels.table)
    used, places = np.unique(codes, return_inverse=True)
    return merged(places, [texts[k] for k in used])
