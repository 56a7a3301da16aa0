"""Public hashes of records, each of a record's cells alone; they look random, and no claim
rests on that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.records import Records
from dpverify.grid.vectors import OUTER_BOX

GOLDEN = 0x9E3779B97F4A7C15
_BLOCK = 1 << 20  # numbers that are mapped at a time
Words = NDArray[np.uint64]


def fingerprints(records: Records, exponent: int, key: int) -> Words:
    """Return a 64-bit hash of each record's cells, a public function of them alone, shape (n,)."""
    return mixed(sums_of_words(records, exponent, key))


def sums_of_words(records: Records, exponent: int, key: int) -> Words:
    """Return the sum over columns of an odd number times the cell, modulo 2^64, shape (n,)."""
    columns = records.shape[1]
    factors, sums = multipliers(columns, key), np.zeros(len(records), np.uint64)
    for some in blocks_of(len(records), columns):
        cells = cells_of(records[some], exponent).view(np.uint64)
        np.einsum("ij,j->i", cells, factors, out=sums[some])
    return sums


def cells_of(records: Records, exponent: int) -> NDArray[np.int64]:
    """Return the records in cells of 2^exponent, clamped to the outer box."""
    return quantize(records, -OUTER_BOX, OUTER_BOX, exponent)


def blocks_of(rows: int, columns: int) -> Iterator[slice]:
    """Yield rows that are looked at together: about 2^20 numbers, of which as many squares fit
    a word.
    """
    step = max(1, _BLOCK // columns)
    return (slice(start, start + step) for start in range(0, rows, step))


def multipliers(columns: int, key: int) -> Words:
    """Return an odd number for each column, by the key."""
    counters = np.arange(1, columns + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mixed(counters + mixed(np.array([key], np.uint64))) | np.uint64(1)


def mixed(words: Words) -> Words:
    """Apply the finalizer of SplitMix64, a bijection of 64-bit words.

    Source: G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number
    generators, OOPSLA 2014.
    """
    hashed = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))
