"""How data enter: any array of real numbers becomes float64 records of the domain.

What is refused here is refused from public facts (kind of numbers, dimensions, columns), with one
documented exception: under nonfinite="refuse" a NaN or infinite record is a caller error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.privacy import Domain

Records = NDArray[np.float64]
"""Shape (n, columns), finite, without -0.0."""


def ingest(data: ArrayLike, domain: Domain) -> Records:
    """Records of shape (n, columns); one column may come as shape (n,).

    Raises TypeError for anything but real numbers in a rectangular array, ValueError for the wrong
    number of columns, for more rows than the domain has and, when it refuses them, for non-finite records.
    """
    array = _as_real_array(data)
    if array.ndim == 1 and (domain.columns == 1 or not array.size):  # nobody is a dataset too
        array = array.reshape(-1, domain.columns)
    if array.ndim == 2 and array.shape[1] == domain.columns:
        # What the conversion does to one record (overflow, a signaling NaN) must stay silent.
        with np.errstate(all="ignore"):
            records = _without_nonfinite(array.astype(np.float64) + 0.0, domain)
        if domain.most_rows is not None and len(records) > domain.most_rows:
            raise ValueError(_TOO_MANY.format(domain.most_rows))
        return records
    wanted = f"(n, {domain.columns})" + (" or (n,)" if domain.columns == 1 else "")
    described = f"{array.ndim} dimensions" if array.ndim != 2 else f"{array.shape[1]} columns"
    raise ValueError(
        f"The data have {described}; this mechanism takes records of shape {wanted}. "
        "Select the columns, or reshape, before the call."
    )


_TOO_MANY = (
    "The data have more than {} rows, and this claim says nothing about so many. Refusing them reveals that "
    "there are more: take a sample by a rule that does not look at the data, or build the mechanism for more rows."
)


def _as_real_array(data: ArrayLike) -> NDArray[Any]:
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            "The data are a masked array, whose hidden values would count; give a float64 array "
            "instead, for example data.filled(np.nan) with nonfinite='replace'."
        )
    try:
        array = np.asarray(data)
    except ValueError:
        raise TypeError(
            "The data are ragged (rows of different lengths) or no numbers; give a rectangular "
            "array of numbers."
        ) from None
    if array.dtype == object and isinstance(data, (list, tuple)):
        array = _python_numbers(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"The data hold {_KINDS.get(array.dtype.kind, 'other things')}, not real numbers; give "
            "a float64 array, made by a rule that looks at each record alone."
        )
    return array


_KINDS = {
    "O": "Python objects (dtype object)",
    "c": "complex numbers",
    "U": "strings",
    "S": "bytes",
    "M": "dates",
    "m": "time differences",
    "V": "structured records",
}
_PLAIN = (int, float, np.integer, np.floating, np.bool_)


def _python_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """A list of plain numbers is one whatever their size: Python integers may exceed 64 bits.

    None counts as missing, like a NaN.
    """
    entries = list(array.flat)
    if not all(entry is None or isinstance(entry, _PLAIN) for entry in entries):
        return array
    return np.array([_to_float(entry) for entry in entries], np.float64).reshape(array.shape)


def _to_float(entry: Any) -> float:
    if entry is None:
        return np.nan
    try:
        return float(entry)
    except OverflowError:
        return np.inf if entry > 0 else -np.inf


def _without_nonfinite(records: Records, domain: Domain) -> Records:
    bad = ~np.isfinite(records).all(axis=1)
    if not bad.any():
        return records
    if domain.nonfinite == "replace":
        records[bad] = domain.replacement
        return records
    raise ValueError(
        f"Record {int(np.flatnonzero(bad)[0])} is not finite. Refusing it reveals that it is there: "
        "clean the data by a rule that looks at each record alone, or build the mechanism with "
        "nonfinite='replace', which counts such a record as a fixed public one."
    )
