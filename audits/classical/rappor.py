"""RAPPOR: one report on one person's value, through a Bloom filter of 20 bits and 4 hashes.

Each bit is kept with probability 1 - f and is otherwise a fair coin, f = .75: it stays what it
is with probability 1 - f / 2 = .625. A bit that is now set is reported as 1 with probability
.55, another one with probability .45. A bit of the filter that is set is thus reported with
probability

    .625 * .55 + .375 * .45 = .5125,

one that is not with .4875. Either report of a bit in which two filters differ loses at most
ln(.5125 / .4875) = ln(41 / 39). Two values set at most 4 bits each, so their filters differ in
at most 8: epsilon = 8 ln(41 / 39) = .40008, attained by the most likely report of a value
against another whose four bits are all different.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from dpverify.audit import replaced
from dpverify.privacy.adjacency import Dataset

from .exact import Floats
from .record import Classical, Outputs

BITS, HASHES = 20, 4
KEPT = 0.625
REPORTED = 0.55


def bloom_filter(value: float) -> NDArray[np.bool_]:
    """Return the bits that a value sets, shape (20,): one for each hash."""
    bits = np.zeros(BITS, dtype=np.bool_)
    for number in range(HASHES):
        digest = hashlib.sha256(f"{number}:{value!r}".encode()).digest()
        bits[int.from_bytes(digest[:8], "big") % BITS] = True
    return bits


def rappor(data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
    """Draw reports of one value's bits, 0 or 1, shape (size, 20)."""
    truth = bloom_filter(data[0])
    permanent = truth ^ (generator.random((size, BITS)) >= KEPT)
    reported = permanent ^ (generator.random((size, BITS)) >= REPORTED)
    return reported.astype(np.int8)


def set_probabilities(value: float) -> Floats:
    """Return the probability that each bit is 1 in a report."""
    high = KEPT * REPORTED + (1 - KEPT) * (1 - REPORTED)
    return np.where(bloom_filter(value), high, 1 - high)


def _disjoint() -> tuple[float, float]:
    """Find two values that set four bits each, none of them shared."""
    filters = {float(value): bloom_filter(float(value)) for value in range(200)}
    full = [value for value, bits in filters.items() if bits.sum() == HASHES]
    other = next(value for value in full if not (filters[full[0]] & filters[value]).any())
    return full[0], other


_VALUE, _OTHER = _disjoint()

RAPPOR = Classical(
    name="RAPPOR",
    function=rappor,
    epsilon="0.4001",
    pairs=(replaced("eight bits differ", [_VALUE], _OTHER),),
    truth=8 * math.log(41 / 39),
    supremum=8 * math.log(41 / 39),
    source="Erlingsson, Pihur, Korolova 2014",
)
