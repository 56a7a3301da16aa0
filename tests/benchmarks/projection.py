"""Exact integer linear algebra through float64 BLAS, against NumPy's own int64 arithmetic.

Projection: 20,000 records of 300 integers, times a public 300 x 300 matrix. Then Gram matrix and
squared distances of 2,000 of them, and second moments in a ball. Entries of 20 bits: one word.
26 bits: two words on a side, int64 results. 41 bits, the outer box, for 2,000 records: Python
integers, where NumPy wraps around; it is timed all the same, and agrees modulo 2^64.

Ours and NumPy's take turns, and a time is the median of PROCESSOR time, for other jobs run
beside. One BLAS thread (OPENBLAS_NUM_THREADS=1), as NumPy's integers have one. ratio: NumPy's
time over ours.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpverify.grid import clip_to_ball, gram, matmul, second_moments, squared_distances
from tests.benchmarks.timing import header, milliseconds, table

ROWS, FEWER, COLUMNS = 20_000, 2_000, 300
REPEATS = 5
TARGET = 10
Call = Callable[[], Any]


def interleaved(calls: tuple[Call, Call]) -> tuple[list[Any], list[float]]:
    """Return the last results, and the median seconds of calls that take turns."""
    seconds: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        results = []
        for call, times in zip(calls, seconds, strict=True):
            start = time.process_time()
            results.append(call())
            times.append(time.process_time() - start)
    return results, [statistics.median(times) for times in seconds]


def modulo(x: Any) -> Any:
    """Reduce modulo 2^64."""
    if x.dtype == object:
        return (x & (2**64 - 1)).astype(np.uint64)
    return x.view(np.uint64)


def distances(x: Any) -> Any:
    """Return squared distances, in NumPy's int64."""
    norms = (x * x).sum(axis=1)
    return norms[:, np.newaxis] + norms - 2 * (x @ x.T)


def cases(bits: int) -> list[tuple[str, Call, Call]]:
    """List the timed pairs: ours, and NumPy's."""
    rng = np.random.default_rng(bits)
    x = rng.integers(-(2**bits), 2**bits, (ROWS, COLUMNS), endpoint=True)
    c = rng.integers(-(2**bits), 2**bits, (COLUMNS, COLUMNS), endpoint=True)
    few, inside = x[:FEWER], clip_to_ball(x, 2**17)
    projected = few if bits == 41 else x
    named: list[tuple[str, Call, Call]] = [
        ("projection", lambda: matmul(projected, c), lambda: projected @ c),
        ("Gram matrix", lambda: gram(few), lambda: few @ few.T),
        ("distances", lambda: squared_distances(few), lambda: distances(few)),
    ]
    if bits == 20:
        moments = "second moments in a ball of 2^17"
        named.append((moments, lambda: second_moments(inside), lambda: inside.T @ inside))
    return [(f"{name}, {bits} bits", ours, theirs) for name, ours, theirs in named]


def main() -> None:
    """Print times, ratios, and differing entries (none)."""
    header("Exact linear algebra", "OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.projection")
    print(f"# here: the median of {REPEATS} for every call, ours and NumPy's in turn")
    print(f"# BLAS threads: {os.environ.get('OPENBLAS_NUM_THREADS', 'as many as it likes')}\n")
    print(__doc__)
    print(f"target: the projection of 20 bits at least {TARGET} times as fast")
    rows = []
    for bits in (20, 26, 41):
        for name, ours, theirs in cases(bits):
            (product, other), (mine, numpys) = interleaved((ours, theirs))
            differing = int((modulo(product) != modulo(other)).sum())
            ratio = numpys / mine
            times = (milliseconds(mine), milliseconds(numpys), f"{ratio:.1f}")
            target = "-" if name != "projection, 20 bits" else "ok" if ratio >= TARGET else "miss"
            rows.append((name, *times, target, str(product.dtype), str(differing)))
    table(("", "ours ms", "NumPy ms", "ratio", "target", "dtype", "differing"), rows)


if __name__ == "__main__":
    main()
