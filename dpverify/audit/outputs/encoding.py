"""Outputs of anything, as draws: what kind each is, and the numbers in it.

An output is taken apart into leaves, in the order of reading. A number is a column; a text, None, a
NaN, an infinity or minus zero is a mark at its place, and part of the output's label. What becomes
of an output depends on that output alone, never on the batch around it; the work is done type by
type and place by place, so that large batches are cheap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.columns import (
    UNORDERED,
    Kept,
    Part,
    Wrap,
    alone,
    float_part,
    floats,
    integer_part,
    joined,
    merged,
    restored,
    scattered,
    text_part,
)
from dpverify.audit.outputs.contents import (
    CARRIERS,
    DEEPEST,
    LEAVES,
    UNFINISHED,
    Held,
    carried,
    carries,
    contents,
)
from dpverify.audit.outputs.draws import Draws, Labels
from dpverify.audit.outputs.showing import EXCEPTION, kind_of, shortened, shown_of
from dpverify.audit.outputs.unseen import note
from dpverify.privacy.numbers import Floats, to_float


def encode(outputs: Sequence[Any] | NDArray[Any]) -> Draws:
    """Return kinds, labels, marks and numbers of arbitrary outputs. One odd output never breaks
    a batch.

    Raises ValueError for an iterator or a coroutine: what it would give cannot be seen.
    """
    if type(outputs) is np.ndarray and outputs.dtype.kind in "iuf":
        part = _stacked(outputs)
    else:
        part = _encoded(list(outputs), 0)
    return Draws(part.labels, part.numbers, kinds=part.kinds, marks=part.marks)


def kept(output: Any) -> Kept:
    """Take one output apart as it is now, whatever becomes of the object. Raises ValueError as
    ``encode`` does.
    """
    draws = encode([output])
    marks = {j: str(labels.table[labels.codes[0]]) for j, labels in draws.marks.items()}
    kinds, labels = draws.kinds, draws.coded
    return Kept(
        str(kinds.table[kinds.codes[0]]),
        str(labels.table[labels.codes[0]]),
        draws.numbers[0],
        marks,
    )


def _encoded(values: Sequence[Any], depth: int) -> Part:
    """Encode any values. depth: in how many containers they are."""
    return _grouped(values, type, lambda kind, group: _of_type(kind, group, depth))


def _grouped(
    values: Sequence[Any], key: Callable[[Any], Any], encoder: Callable[[Any, list[Any]], Part]
) -> Part:
    """Encode each group of values with one key together."""
    keys = list(map(key, values))
    distinct = list(dict.fromkeys(keys))
    if len(distinct) == 1:
        return encoder(distinct[0], list(values))
    rows: dict[Any, list[int]] = {one: [] for one in distinct}
    for i, one in enumerate(keys):
        rows[one].append(i)
    parts = [(np.array(r), encoder(one, [values[i] for i in r])) for one, r in rows.items()]
    return scattered(parts, len(values))


def _plain_integer(value: Any) -> int:
    """Convert to a plain integer, also from a subclass, whatever its own conversions do."""
    return int.__int__(value) if isinstance(value, int) else int(value)


def _of_type(kind: type, values: list[Any], depth: int) -> Part:
    """Encode values of one type."""
    _refuse_unfinished(kind)
    if kind is Kept:
        return restored(values)
    if kind.__dictoffset__ and issubclass(kind, CARRIERS) and any(map(carries, values)):
        return _grouped(values, carries, partial(_carriers, depth))
    return _of_kind(kind, values, depth)


def _carriers(depth: int, is_one: bool, values: list[Any]) -> Part:
    """Encode values of a subclass of a built-in type; is_one: that carry attributes beside."""
    if is_one and depth < DEEPEST:
        return _objects([carried(value, depth) for value in values], depth)
    return _of_kind(type(values[0]), values, depth)


def _of_kind(kind: type, values: list[Any], depth: int) -> Part:
    """Encode values of one type, by what it is."""
    if issubclass(kind, LEAVES):
        return _leaves(values, depth)
    if issubclass(kind, (float, np.floating)):
        kept = np.longdouble if issubclass(kind, np.longdouble) else np.float64
        rows = np.array(values, dtype=kept)
        return float_part(floats(rows.reshape(-1, 1)), _scalar_name(kind), alone)
    if issubclass(kind, (int, np.integer)):
        return integer_part(
            _integer_array([_plain_integer(v) for v in values]), _scalar_name(kind), alone
        )
    if issubclass(kind, (complex, np.complexfloating)):
        return float_part(_pairs(np.array(values)), "float", partial(_sequence, "complex"))
    return _of_compound(kind, values, depth)


def _refuse_unfinished(kind: type) -> None:
    """Raise ValueError for a type whose values come only when they are asked for."""
    if issubclass(kind, UNFINISHED):
        raise ValueError(
            f"An output is a {kind.__name__}, whose contents cannot be seen without using it up; "
            "return list(...) of it, or the value itself."
        )


def _of_compound(kind: type, values: list[Any], depth: int) -> Part:
    """Encode values of one type that hold others."""
    if depth >= DEEPEST:
        note(f"{kind.__name__} within {DEEPEST} other containers")
        return _leaves(values, depth)
    if kind is np.ndarray:
        return _grouped(values, _array_key, partial(_arrays, depth))
    if issubclass(kind, (list, tuple)):
        return _grouped(values, len, lambda _, group: _sequences(kind, group, depth))
    if issubclass(kind, Mapping) or issubclass(kind, (set, frozenset)):
        return _records(kind, values, _items, depth)
    if issubclass(kind, (Fraction, Decimal)):
        return _records(kind, values, _exactly, depth)
    return _objects(values, depth)


def _objects(values: list[Any], depth: int) -> Part:
    """Encode objects, by what they hold; those that hold nothing are leaves."""

    def encoder(names: tuple[str, ...] | None, group: list[Any]) -> Part:
        if names is None:
            return _leaves(group, depth)
        wrap = partial(_record_label, names[0], names[1:])
        return _places([list(one.fields.values()) for one in group], wrap, depth)

    def names_of(value: Any) -> tuple[str, ...] | None:
        return (value.name, *value.fields) if type(value) is Held else None

    held = [value if type(value) is Held else contents(value, depth) for value in values]
    return _grouped(held, names_of, encoder)


def _scalar_name(kind: type) -> str:
    """Return one name for Python's and numpy's usual types alike."""
    if kind in (float, np.float64):
        return "float"
    if kind is int or kind is np.int64:
        return "integer"
    name = np.dtype(kind).name if issubclass(kind, np.integer) else kind.__name__
    return "integer" if name == "int64" else name


def _integer_array(values: list[int]) -> NDArray[Any]:
    try:
        return np.array(values, dtype=np.int64).reshape(-1, 1)
    except OverflowError:
        return np.array(values, dtype=object).reshape(-1, 1)


def _stacked(array: NDArray[Any]) -> Part:
    """Encode real numbers: one output a row, a scalar where the array has one axis."""
    rows = array.reshape(len(array), -1)
    wrap: Wrap = (
        alone if array.ndim == 1 else partial(_array_label, array.dtype, f"{array.shape[1:]}")
    )
    if array.dtype.kind == "f":
        name = _scalar_name(array.dtype.type) if array.ndim == 1 else "float"
        return float_part(floats(rows), name, wrap)
    name = _scalar_name(array.dtype.type) if array.ndim == 1 else "integer"
    return integer_part(rows, name, wrap)


def _array_key(array: NDArray[Any]) -> tuple[np.dtype[Any], str]:
    """Return an array's type, and its shape with its order in memory where that is not the
    usual one: a file shows it.
    """
    flags = array.flags
    order = " in Fortran order" if flags.f_contiguous and not flags.c_contiguous else ""
    return array.dtype, f"{array.shape}{order}"


def _arrays(depth: int, key: tuple[np.dtype[Any], str], arrays: list[Any]) -> Part:
    """Encode arrays of one dtype, shape and order."""
    dtype, shape = key
    if dtype.names:
        columns = [[array[name] for name in dtype.names] for array in arrays]
        wrap = partial(_record_label, f"array {shape} of {dtype.type.__name__}", dtype.names)
        return _places(columns, wrap, depth)
    if dtype.kind in "iufb" and arrays:
        stacked = np.stack(arrays).reshape(len(arrays), -1)
        wrap = partial(_array_label, dtype, shape)
        if dtype.kind in "iu":
            return integer_part(stacked, "integer", wrap)
        return float_part(floats(stacked), "float", wrap)
    if dtype.kind == "c":
        return float_part(_pairs(np.stack(arrays)), "float", partial(_array_label, dtype, shape))
    rows = [array.ravel().tolist() for array in arrays]
    return _places(rows, partial(_sequence, f"{dtype.name} array {shape} "), depth)


def _pairs(rows: NDArray[Any]) -> Floats:
    """Return real and imaginary parts, shape (size, 2 * width), more where they are longer than
    64 bits.
    """
    longer = rows.dtype.itemsize > 16
    rows = rows.astype(rows.dtype if longer else np.complex128).reshape(len(rows), -1)
    return floats(rows.view(np.longdouble if longer else np.float64))


def _array_label(dtype: np.dtype[Any], shape: str, texts: Sequence[str]) -> str:
    name = f"{dtype.name} array {shape}"
    return name if set(texts) <= {"float", "integer"} else _sequence(name + " ", texts)


def _sequences(kind: type, values: list[Any], depth: int) -> Part:
    """Encode lists or tuples of one length."""
    name = "" if kind in (list, tuple) else kind.__name__
    wrap = partial(_sequence, name, brackets="[]" if kind is list else "()")
    if set(map(type, chain.from_iterable(values))) == {float}:
        return float_part(np.array(values, dtype=np.float64), "float", wrap)
    return _places([list(value) for value in values], wrap, depth)


def _places(rows: list[list[Any]], wrap: Wrap, depth: int) -> Part:
    """Encode rows of one length, place by place."""
    parts = [_encoded(column, depth + 1) for column in zip(*rows, strict=True)]
    return joined(parts, wrap, len(rows))


def _sequence(name: str, texts: Sequence[str], brackets: str = "()") -> str:
    """Label a sequence: equal neighbors together; of many parts only how often each occurs."""
    if len(texts) <= UNORDERED:
        runs = [(text, len(list(group))) for text, group in groupby(texts)]
    else:
        runs = sorted(Counter(texts).items())
    inside = ", ".join(text if times == 1 else f"{text} x {times}" for text, times in runs)
    return shortened(f"{name}{brackets[0]}{inside}{brackets[1]}")


def _records(
    kind: type, values: list[Any], fields: Callable[[Any], dict[str, Any] | None], depth: int
) -> Part:
    """Encode named values of one type; those without names are leaves."""
    named: list[dict[str, Any] | None] = []
    for value in values:
        try:
            named.append(fields(value))
        except MemoryError:
            raise
        except Exception:  # an object that cannot be taken apart is still an outcome
            named.append(None)
    rows = list(zip(values, named, strict=True))

    def encoder(names: tuple[str, ...] | None, group: list[Any]) -> Part:
        if names is None:
            return _leaves([value for value, _ in group], depth)
        wrap = partial(_record_label, kind.__name__, names)
        return _places([list(fields.values()) for _, fields in group], wrap, depth)

    return _grouped(rows, lambda row: None if row[1] is None else tuple(row[1]), encoder)


def _record_label(name: str, names: Sequence[str], texts: Sequence[str]) -> str:
    inside = [f"{field}={text}" for field, text in zip(names, texts, strict=True)]
    return shortened(f"{name}({', '.join(inside)})")


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {shown_of(key): value[key] for key in value}
    members = sorted(value, key=shown_of)
    if len(set(map(shown_of, members))) < len(members):
        with suppress(ValueError):  # what is unfinished is refused where it is encoded
            members.sort(key=lambda member: (shown_of(member), repr(kept(member))))
    return {f"{i}": member for i, member in enumerate(members)}


def _exactly(value: Fraction | Decimal) -> dict[str, Any]:
    """Return a float that is near enough, and what tells equal floats apart."""
    if isinstance(value, Decimal) and not value.is_finite():
        return {"value": str(value)}
    exact = Fraction(value)
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return {
        "value": to_float(exact),
        "numerator": exact.numerator,
        "denominator": exact.denominator,
        "exponent": exponent,
    }


def _leaves(values: Sequence[Any], depth: int) -> Part:
    """Encode values that are told apart by their text alone."""
    plain = issubclass(type(values[0]), (str, bytes))
    places = Labels.of(values if plain else map(id, values))  # equal ones are shown once
    shown = list(places.table) if plain else list({id(value): value for value in values}.values())
    kinds = merged(places.codes, [kind_of(value) for value in shown])
    return text_part(kinds, merged(places.codes, [shown_of(value) for value in shown]), depth > 0)


__all__ = ["EXCEPTION", "Floats", "encode", "kept"]
