"""Datasets, texts and numbers as JSON that stays small: what is too large is told by a digest."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sized
from itertools import islice
from typing import Any

import numpy as np

from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.privacy.adjacency import Dataset

_SHORT = 150  # bytes of names
_MOST_VALUES = 100_000  # numbers of datasets up to which writing them out is tried
_DIFFERING = 3  # records that are shown of datasets that are too large
_MOST_BITS = 13_000  # Python reads integers of up to 4300 digits


def datasets_as_json(pair: NeighboringPair, room: int) -> dict[str, Any]:
    """Return the datasets, where they fit; otherwise digests and the records that differ."""
    left, right = _rows(pair.left), _rows(pair.right)
    kinds = [_kind(left), _kind(right)]
    if _values(left) + _values(right) <= _MOST_VALUES:
        both = [_plain(left), _plain(right)]
        packed = base64.b64encode(zlib.compress(compact(both).encode(), 9)).decode()
        for data in (both, packed):
            if size_of(data) <= room:
                return {"kinds": kinds, "data": data}
    digests = [_digest(left), _digest(right)]
    differing: list[Any] = []
    for at, *records in _differing(left, right)[:_DIFFERING]:
        written = [at, *([_record(one, room // 6) for one in record] for record in records)]
        if size_of([*differing, written]) <= room:
            differing.append(written)
    return {"kinds": kinds, "data": None, "digests": digests, "differing": differing}


def tells(written: Mapping[str, Any], pair: NeighboringPair) -> bool:
    """Return whether ``datasets_as_json`` wrote these datasets: record by record, or by their
    digests.
    """
    left, right = _rows(pair.left), _rows(pair.right)
    data = written["data"]
    if data is None:
        return bool(written["digests"] == [_digest(left), _digest(right)])
    if isinstance(data, str):
        data = json.loads(zlib.decompress(base64.b64decode(data)))
    return bool(data == json.loads(compact([_plain(left), _plain(right)])))


def _rows(data: Dataset) -> Any:
    """Return a list or an array of rows."""
    return data.to_numpy() if hasattr(data, "to_numpy") else data


def _kind(rows: Any) -> str:
    if isinstance(rows, np.ndarray):
        return f"{rows.dtype} array of shape {rows.shape}"[:_SHORT]
    return f"{type(rows).__name__} of {len(rows)}"[:_SHORT]


def _values(rows: Any) -> int:
    if isinstance(rows, np.ndarray):
        return rows.size
    return sum(len(row) if isinstance(row, Sized) else 1 for row in rows)


def _differing(left: Any, right: Any) -> list[tuple[int, list[Any], list[Any]]]:
    """Return the first positions whose records differ; for unequal sizes, the additional record."""
    shared = min(len(left), len(right))
    apart = (at for at in range(shared) if not _same(left[at], right[at]))
    if len(left) != len(right):
        at = next(apart, shared)
        return [(at, [left[at]], []) if len(left) > shared else (at, [], [right[at]])]
    return [(at, [left[at]], [right[at]]) for at in islice(apart, _DIFFERING)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind in "biuf":
        return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
    return bool(_plain(one) == _plain(other))


def _record(given: Any, room: int) -> Any:
    text = compact(_plain(given))
    if len(text) <= room:
        return _plain(given)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "start": shortened(text, room)}


def _digest(rows: Any) -> str:
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "biufc":
        return hashlib.sha256(rows.astype(rows.dtype.newbyteorder("<")).tobytes()).hexdigest()
    digest = hashlib.sha256()
    for row in rows:
        digest.update(compact(_plain(row)).encode())
    return digest.hexdigest()


def _plain(given: Any) -> Any:
    """Convert a value to what JSON holds, as the module's docstring describes."""
    value = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if value is None or type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, str):
        return {"text": str(value)}
    if not hasattr(value, "as_integer_ratio"):
        return {"repr": repr(value)}
    try:
        over, under = (int(part) for part in value.as_integer_ratio())
    except (ValueError, OverflowError):  # a NaN, an infinity
        return str(float(value))
    if max(over.bit_length(), under.bit_length()) > _MOST_BITS:
        return {"repr": f"{over:#x}/{under:#x}"}
    if isinstance(value, float):
        return float(value)
    if under == 1:
        return over
    near = over / under if abs(over) < under << 1000 else math.inf
    exactly = math.isfinite(near) and near.as_integer_ratio() == (over, under)
    return near if exactly else f"{over}/{under}"  # 1/2 is 0.5 for the kernel, and so it is here


def shortened(text: str, most: int) -> str:
    """Shorten a text to at most so many bytes of JSON; a longer one ends with a digest of all
    of it.
    """
    if size_of(text) <= most:
        return text
    end = f"... sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    kept = text[:most]
    while kept and size_of(kept + end) > most:
        kept = kept[: len(kept) * 9 // 10]
    return kept + end


def plain_floats(given: Any) -> Any:
    """Return the same dictionaries, lists and numbers, with strings for numbers that are not
    finite, for JSON has no such numbers.
    """
    if isinstance(given, Mapping):
        return {key: plain_floats(value) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return [plain_floats(value) for value in given]
    if isinstance(given, np.generic):
        given = given.item()
    return str(given) if isinstance(given, float) and not math.isfinite(given) else given


def read_floats(given: Any) -> Any:
    """Read a number that ``plain_floats`` made a string of (for a NaN, math.nan itself); return
    anything else as it is.
    """
    number = float(given) if isinstance(given, str) else given
    return math.nan if number != number else number


def compact(given: Any) -> str:
    """Write JSON without spaces; raises ValueError for a NaN or an infinity."""
    return json.dumps(given, separators=(",", ":"), allow_nan=False)


def size_of(given: Any) -> int:
    """Return the bytes of compact JSON, which is ASCII."""
    return len(compact(given))
