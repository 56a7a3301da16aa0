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
    number of columns and, when the domain refuses them, for non-finite records.
    """
    array = _as_real_array(data)
    if array.ndim == 1 and domain.columns == 1:
        array = array[:, np.newaxis]
    if array.ndim == 2 and array.shape[1] == domain.columns:
        with np.errstate(over="ignore"):  # a wider float beyond 1.8e308 becomes infinite, as below
            return _without_nonfinite(array.astype(np.float64) + 0.0, domain)
    wanted = f"(n, {domain.columns})" + (" or (n,)" if domain.columns == 1 else "")
    described = f"{array.ndim} dimensions" if array.ndim != 2 else f"{array.shape[1]} columns"
    raise ValueError(
        f"The data have {described}; this mechanism takes records of shape {wanted}. "
        "Select the columns, or reshape, before the call."
    )


def _as_real_array(data: ArrayLike) -> NDArray[Any]:
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    try:
        array = np.asarray(data)
    except ValueError:
        raise TypeError(
            "The data are ragged (rows of different lengths); give a rectangular array of numbers."
        ) from None
    if array.dtype == object and isinstance(data, (list, tuple)):
        array = _python_numbers(array)
    if isinstance(array, np.ma.MaskedArray) or array.dtype.kind not in "biuf":
        raise TypeError(
            f"The data have dtype {array.dtype}, which is not a kind of real number; convert them "
            "to a float64 array first, for example np.asarray(data, dtype=float)."
        )
    return array


def _python_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """A list of plain numbers is one whatever their size: Python integers may exceed 64 bits."""
    entries = list(array.flat)
    if not all(isinstance(entry, (int, float)) for entry in entries):
        return array
    return np.array([_to_float(entry) for entry in entries]).reshape(array.shape)


def _to_float(entry: int | float) -> float:
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
