"""Entry of data: arrays and lists of real numbers become float64 records of the domain.

What can decide an exception:
- under nonfinite="replace" public facts alone: the type of the container, the dtype of an
  array, and of an array its dimensions and its columns. Every entry of a list or of an array of
  dtype object is private, and so are its type and its length: whatever is no row of finite real
  numbers (None, pandas' NA and NaT, text, a date or a time difference in any unit, a complex
  number, a row of another length, what a mask hides, an object whose conversion fails) is
  missing. No warning depends on a record either. A dtype is public only if no record decides it:
  give a list, which is read record by record, and not ``np.array(rows)``, whose dtype follows the
  oddest entry.
- under nonfinite="refuse", in addition, each record: one that is missing is a caller error
which names it.
- where a domain has ``most_rows``, more rows than that.

An entry may be an object with code of its own, which runs when it is converted. An ``Exception``
that this code raises makes the entry missing. What Python keeps apart from these passes through:
KeyboardInterrupt, SystemExit and all that stops a program, since it cannot be told from your own
interrupt or time limit. So objects whose code stops the program, or never ends, are no records: an
attacker who can put these into the data can do more than decide an exception.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.privacy import Domain

Records = NDArray[np.float64]
"""Records: an array of shape (n, columns), finite, without -0.0."""


def ingest(data: ArrayLike, domain: Domain, *, first: int = 0) -> Records:
    """Convert data to records of shape (n, columns); one column may come as shape (n,).

    first: the number of the first record, by which a record that is refused is named.

    Raises TypeError for containers that are no arrays or lists of real numbers, ValueError for
    arrays with the wrong number of columns, for more rows than the domain has and, when it
    refuses them, TypeError or ValueError for missing and non-finite records. The module says
    which of these a record can decide.
    """
    # What a conversion does to one record (overflow, a signaling NaN) must stay silent.
    with np.errstate(all="ignore"):
        given = _entries_or_array(data)
        if isinstance(given, list):
            records = _from_entries(given, domain.columns)
        else:
            records = _real(_shaped(given, domain), domain)
        finite = np.isfinite(records)
    if not finite.all():
        bad = ~finite.all(axis=1)
        if domain.nonfinite == "refuse":
            raise _refusal(given, int(np.flatnonzero(bad)[0]), domain, first)
        records[bad] = domain.replacement
    check_rows(len(records), domain)
    return records


def check_rows(rows: int, domain: Domain) -> None:
    """Refuse more rows than the domain has. Raises ValueError."""
    if domain.most_rows is not None and rows > domain.most_rows:
        raise ValueError(_TOO_MANY.format(domain.most_rows))


_TOO_MANY = (
    "The data have more than {} rows, and this claim says nothing about so many. Refusing them "
    "reveals that there are more: take a sample by a rule that does not look at the data, or "
    "build the mechanism for more rows."
)
_NOT_REAL = (
    "The data hold {}, not real numbers; give a float64 array, made by a rule that looks at each "
    "record alone."
)
_NO_ARRAY = (
    "The data are a {}, not records: give a float64 array, a list of numbers or a data frame. Of a "
    "Table, table.select('age').records is such an array; a Session asks about the table itself."
)
_KINDS = {
    "c": "complex numbers",
    "U": "strings",
    "S": "bytes",
    "M": "dates",
    "m": "time differences",
    "V": "structured records",
}


def _entries_or_array(data: Any) -> list[Any] | NDArray[Any]:
    """Return the records of a list, and of an array of objects, one by one; any other array as
    a plain one.
    """
    try:
        foreign = hasattr(data, "__array__")
        if not foreign and hasattr(data, "to_numpy"):
            data = data.to_numpy()
        elif not foreign and isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
            return list(data)
        array = np.asanyarray(data)  # np.asarray would uncover what a mask hides
    except Exception:  # the container's own code raised it, and its message may show a record
        raise TypeError(
            f"A {type(data).__name__} does not become an array; give a float64 array."
        ) from None
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "The data are a masked array, whose hidden values would count; give a float64 array "
            "instead, for example data.filled(np.nan) with nonfinite='replace'."
        )
    array = np.asarray(array)
    return list(array) if array.dtype == object and array.ndim == 1 else array


def _shaped(array: NDArray[Any], domain: Domain) -> NDArray[Any]:
    """Return an array of shape (n, columns). It is refused for public reasons only."""
    kinds = "biufO" if domain.nonfinite == "refuse" else "biufcO"  # see ``_real``
    if array.dtype.kind not in kinds or (array.dtype == object and not array.ndim):
        if array.dtype == object:
            raise TypeError(_NO_ARRAY.format(type(array.item()).__name__))
        raise TypeError(_NOT_REAL.format(_KINDS.get(array.dtype.kind, "other things")))
    if array.ndim == 1 and (domain.columns == 1 or not array.size):  # no records are a dataset too
        array = array.reshape(-1, domain.columns)
    if array.ndim != 2:
        raise _wrong_shape(f"{array.ndim} dimensions", domain)
    if array.shape[1] != domain.columns:
        raise _wrong_shape(f"{array.shape[1]} columns", domain)
    return array


def _real(array: NDArray[Any], domain: Domain) -> Records:
    """Convert an array of any numbers, without -0.0. A number that is not real is missing."""
    if array.dtype == object:
        return _from_entries(array.tolist(), domain.columns)
    if array.dtype.kind != "c":
        return np.asarray(np.add(array, 0.0, dtype=np.float64), np.float64)
    # One complex number among real ones makes pandas call all of them complex.
    real = array.real.astype(np.float64) + 0.0
    real[array.imag != 0] = np.nan
    return real


_PLAIN = {float, int, bool, type(None), np.bool_, np.float64, np.float32, np.int64, np.int32}


def numbers_of(cells: list[Any]) -> NDArray[np.float64]:
    """Convert cells one by one to the nearest float64, without -0.0: NaN unless a cell is a
    finite real number.

    No cell decides an exception, a warning or another cell's number.
    """
    with np.errstate(all="ignore"):
        numbers = _from_entries(cells, 1)[:, 0]
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _from_entries(entries: list[Any], columns: int) -> Records:
    """Convert records one by one, each by itself, without -0.0. None of them raises or warns."""
    try:
        records = _at_once(entries, columns)
    except Exception:  # an integer beyond all floats, a class whose hash fails: see them one by one
        records = None
    if records is None:
        records = np.array([_row(entry, columns) for entry in entries], np.float64)
    return records.reshape(len(entries), columns) + 0.0


def _at_once(entries: list[Any], columns: int) -> Records | None:
    """Convert records as ``_row`` does, but faster; None unless all are plain numbers or arrays
    of them.
    """
    kinds = set(map(type, entries))
    if kinds == {np.ndarray}:
        rows = {(entry.shape, entry.dtype.kind in "biuf") for entry in entries}
        if rows == {((columns,), True)}:
            return np.array(entries, np.float64)
    flat = entries if columns == 1 else []
    if kinds <= {list, tuple} and set(map(len, entries)) <= {columns}:
        flat = list(chain.from_iterable(entries))
        kinds = set(map(type, flat))
    if kinds <= _PLAIN and len(flat) == len(entries) * columns:
        return np.array(flat, np.float64)
    return None


def _row(entry: Any, columns: int) -> list[float]:
    """Convert one record: ``columns`` numbers, all NaN unless there are as many.

    A record is code that is not ours even where it is only looked at: ``isinstance`` asks it
    for its class.
    """
    row = _foreign(lambda whole: [_number(cell) for cell in _cells(whole, columns)], entry)
    return row if row is not None and len(row) == columns else [np.nan] * columns


def _cells(entry: Any, columns: int) -> Sequence[Any]:
    """Return what a record consists of, unconverted; nothing where that is no row of
    ``columns``.
    """
    if isinstance(entry, (Real, Decimal, str, bytes)) or entry is None:
        return (entry,)
    if _length(entry) not in (None, columns):  # checked before a huge range is expanded
        return ()
    if isinstance(entry, (list, tuple)):
        return entry
    array = _foreign(np.asanyarray, entry)
    if array is not None and array.dtype.kind in "Mm":
        # Most units become dates of Python; others would become plain integers.
        return list(array) if array.ndim == 1 else (array[()],)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(object), np.nan)  # what a mask hides is missing
    if array is None or array.ndim > 1:
        return ()
    return array.tolist() if array.ndim == 1 else (array.item(),)


def _length(entry: Any) -> int | None:
    """Count the entries of a row; None for what is no row."""
    try:
        return len(entry)
    except Exception:  # any object's own code may raise
        return None


def _number(cell: Any) -> float:
    """Convert one entry to the nearest float64: NaN unless it is a real number."""
    if not isinstance(cell, (Real, Decimal)) and _length(cell) is None:
        inside = _cells(cell, 1)  # the number of an array without dimensions
        cell = inside[0] if len(inside) == 1 else None
    if not _is_number(cell):
        return np.nan
    number = _foreign(float, cell)
    return np.nan if number is None else number


def _is_number(cell: Any) -> bool:
    """Tell whether an entry is a real number. A time difference of numpy calls itself an
    integer.
    """
    return isinstance(cell, (Real, Decimal)) and not isinstance(cell, np.timedelta64)


def _foreign(convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert by code that is not ours: None if it raises, and without its warnings."""
    try:
        if type(value) in _PLAIN:  # these do not warn
            return convert(value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return convert(value)
    except Exception:  # an overflow, a signaling NaN, or anything else that shows the record
        return None


def _wrong_shape(described: str, domain: Domain) -> ValueError:
    wanted = f"(n, {domain.columns})" + (" or (n,)" if domain.columns == 1 else "")
    return ValueError(
        f"The data have {described}; this mechanism takes records of shape {wanted}. "
        "Select the columns, or reshape, before the call."
    )


def _refusal(given: list[Any] | NDArray[Any], index: int, domain: Domain, first: int) -> Exception:
    """Say what is wrong with a record that is missing, where that is a caller error."""
    number = first + index
    error: Exception | None = _foreign(lambda data: _described(data, index, domain, number), given)
    odd = TypeError(_NO_RECORD.format(number, "holds other things, not real numbers"))
    return odd if error is None else error


def _described(
    given: list[Any] | NDArray[Any], index: int, domain: Domain, number: int
) -> Exception:
    if not isinstance(given, list) and given.dtype != object:
        return ValueError(_NO_RECORD.format(number, "is not finite"))
    lengths = {None if isinstance(entry, (str, bytes)) else _length(entry) for entry in given}
    cells = _cells(given[index], domain.columns)
    if len(cells) != domain.columns:
        if len(lengths) > 1:
            return TypeError(
                "The data are ragged (rows of different lengths); give a rectangular array of "
                "numbers."
            )
        (length,) = lengths
        if length is not None or domain.columns > 1:
            return _wrong_shape("1 dimensions" if length is None else f"{length} columns", domain)
    odd = [cell for cell in cells if cell is not None and not _is_number(cell)]
    if odd or not cells:
        kinds = [_KINDS[k] for kind, k in _TYPES.items() if odd and isinstance(odd[0], kind)]
        held = f"holds {(kinds or ['other things'])[0]}, not real numbers"
        return TypeError(_NO_RECORD.format(number, held))
    return ValueError(_NO_RECORD.format(number, "is not finite"))


_TYPES = {str: "U", bytes: "S", complex: "c", np.datetime64: "M", np.timedelta64: "m"}
NUMBERED = "Record "
"""The first word of a refusal that names a record by its number."""
_NO_RECORD = (
    NUMBERED
    + "{} {}. Refusing it reveals that it is there: clean the data by a rule that looks at "
    "each record alone and give a float64 array, or build the mechanism with "
    "nonfinite='replace', which counts such a record as a fixed public one."
)
