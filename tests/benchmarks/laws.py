"""Draws per second of shipped laws as audits draw them, and of functions that return containers.

A law's row, for the first pair of a configuration: draws a second of processor time that are
sampled and encoded, and that are scored by the laws of both sides besides, as a certificate does
it; then the same in released numbers a second, of which a draw has as many as it is wide. Each is
the median of three batches, as large as some hundredths of a second allow. A function's row:
outputs a second that are called, kept as they are and encoded. Targets: 5 million released numbers
a second, 50,000 outputs a second of dicts.

python -m tests.benchmarks.laws [--seconds 0.03] [UNIT ...]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpverify.audit.outputs.laws import CallableDraws, TranscriptDraws, called, is_known
from dpverify.randomness import SeededBits
from dpverify.suite.judges import audit_target, audited_keys
from dpverify.suite.trees import Suite, load
from tests.benchmarks.timing import header, table

REPEATS = 3
_TRIED, _MOST = 1000, 1_000_000  # draws of a batch: in the first trial, and at most
_CALLS = 20_000


def rate(call: Callable[[int], object], number: int) -> float:
    """Return calls a second of processor time; the call takes the number of the repeat."""
    seconds = []
    for repeat in range(REPEATS):
        gc.collect()
        seconds.append(_seconds(lambda repeat=repeat: call(repeat)))  # type: ignore[misc]
    return number / statistics.median(seconds)


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def of_law(suite: Suite, key: str, seconds: float) -> list[str]:
    """Return a row: the width of an encoded draw, and the two rates, by draw and by number."""
    _, attacked = audit_target(suite, key)
    pair = attacked.pairs[0]
    left, right = (
        TranscriptDraws(attacked.mechanism.law(data)) for data in (pair.left, pair.right)
    )

    def drawn(size: int, repeat: int) -> Any:
        return left.draw(SeededBits(1, repeat), size)

    def scored(size: int, repeat: int) -> None:
        draws = drawn(size, repeat)
        left.log_likelihood(draws)
        right.log_likelihood(draws)

    width = drawn(2, 0).numbers.shape[1]
    rates = [_rate_of(one, seconds) for one in ((drawn, scored) if is_known(left) else (drawn,))]
    cells = [f"{each * by:14,.0f}" for by in (1, max(1, width)) for each in rates]
    return [key, str(width), *(cells if len(rates) == 2 else [cells[0], "latent", cells[1], ""])]


def _rate_of(batch: Callable[[int, int], object], seconds: float) -> float:
    """Return draws a second, in batches of about so many seconds: what a batch costs beside its
    draws, say a table for each different prefix, makes the first guesses of its size too low.
    """
    batch(_TRIED, 0)  # fills caches
    size, last = _TRIED, 0
    while 1.3 * last < size < _MOST:
        trial = max(_seconds(partial(batch, size, 1)), 1e-4)
        last, size = size, min(_MOST, max(size, int(size * seconds / trial)))
    batch(size, 0)  # takes the memory
    return rate(lambda repeat: batch(size, repeat), size)


def of_function(name: str, function: Callable[..., Any], size: int) -> list[str]:
    """Return a row: outputs a second of calls, one by one."""
    law = CallableDraws(function, [0.0, 1.0], False)
    order = np.zeros(size, np.intp)
    return [name, f"{rate(lambda repeat: called([law], order), size):14,.0f}"]


def functions() -> dict[str, Callable[..., Any]]:
    """List functions of a dataset that cost next to nothing by themselves."""
    source = iter(np.random.default_rng(3).normal(size=10_000_000).tolist())
    return {
        "a number": lambda data: next(source),
        "a dict of three numbers": lambda data: {"mean": next(source), "low": 0.5, "n": 7},
        "a dict with a list": lambda data: {"mean": [next(source), 1.0], "name": "it"},
        "a tuple of numbers": lambda data: (next(source), 1.5, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.03, help="of a batch")
    args = parser.parse_args()
    header("draws a second of shipped laws", "python -m tests.benchmarks.laws")
    suite = load()
    keys = args.units or audited_keys(suite)
    gc.freeze()  # looking through the suite before each of a thousand batches took most of the time
    table(
        ("law", "width", "drawn", "drawn and scored", "numbers drawn", "and scored"),
        [of_law(suite, key, args.seconds) for key in keys],
    )
    print()
    rows = [of_function(name, function, _CALLS) for name, function in functions().items()]
    table(("function", "called and encoded"), rows)


if __name__ == "__main__":
    main()
