"""Draws per second of shipped laws as audits draw them, and of functions that return containers.

A law's row, for the first pair of a configuration: draws a second of processor time that are
sampled and encoded, and that are scored by the laws of both sides besides, as a certificate does
it; the median of five batches. A function's row: outputs a second that are called, kept as they
are and encoded. Targets: 5 million draws a second of laws of one number, 50,000 outputs a second
of dicts.

python -m tests.benchmarks.laws [--size 40000] [UNIT ...]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpverify.audit.outputs.laws import CallableDraws, TranscriptDraws, called, is_known
from dpverify.randomness import SeededBits
from dpverify.suite.judges import audit_target, audited_keys
from dpverify.suite.trees import Suite, load
from tests.benchmarks.timing import header, table

REPEATS = 5
_LARGE = 1_000_000  # draws at a time of laws of one number


def rate(call: Callable[[int], object], number: int) -> float:
    """Return calls a second of processor time; the call takes the number of the repeat."""
    seconds = []
    for repeat in range(REPEATS + 1):
        gc.collect()
        start = time.process_time()
        call(repeat)
        seconds.append(time.process_time() - start)
    return number / statistics.median(seconds[1:])  # the first one fills caches


def of_law(suite: Suite, key: str, size: int) -> list[str]:
    """Return a row: the width of an encoded draw, and the two rates."""
    _, attacked = audit_target(suite, key)
    pair = attacked.pairs[0]
    left, right = (
        TranscriptDraws(attacked.mechanism.law(data)) for data in (pair.left, pair.right)
    )
    width = left.draw(SeededBits(0), 2).numbers.shape[1]
    size = _LARGE if width == 1 else size

    def drawn(repeat: int) -> Any:
        return left.draw(SeededBits(1, repeat), size)

    def scored(repeat: int) -> None:
        draws = drawn(repeat)
        left.log_likelihood(draws)
        right.log_likelihood(draws)

    both = f"{rate(scored, size):14,.0f}" if is_known(left) else "latent"
    return [key, str(width), f"{rate(drawn, size):14,.0f}", both]


def of_function(name: str, function: Callable[..., Any], size: int) -> list[str]:
    """Return a row: outputs a second of calls, one by one."""
    law = CallableDraws(function, [0.0, 1.0], False)
    order = np.zeros(size, np.intp)
    return [name, "", f"{rate(lambda repeat: called([law], order), size):14,.0f}", ""]


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
    parser.add_argument("--size", type=int, default=40_000)
    args = parser.parse_args()
    header("draws a second of shipped laws", "python -m tests.benchmarks.laws")
    suite = load()
    keys = args.units or audited_keys(suite)
    table(
        ("law", "width", "drawn", "drawn and scored"),
        [of_law(suite, key, args.size) for key in keys],
    )
    print()
    rows = [of_function(name, function, args.size) for name, function in functions().items()]
    table(("function", "", "called and encoded", ""), rows)


if __name__ == "__main__":
    main()
