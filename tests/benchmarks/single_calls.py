"""Functions called one by one: leaks beside a clock, drifting private ones, shared noise.

Run by hand: python -m tests.benchmarks.single_calls [--seeds 3] [--trials 20000]

Functions that add Laplace noise, on a grid of 2^-16, to the number of records; claimed 1-DP at
alpha = 1e-6. Verdicts over the seeds: V violated, C consistent (half the noise is planted and
must be caught), P powerless, I an invalid run. "in blocks": the same auditor, calling all of one
side before the other and not looking for shared noise, as auditors that draw two samples do. The
others: as it is, with a fixed number of calls and by bets. "as it should be": leaks are V,
private functions are never V, and noise that calls share is I, or in a fixed number of calls P.
Where noise is drawn once beside something that changes, no test can tell it from a leak: "V, told"
is a violation with a remark that names ``fresh=``. From the factory that makes such a function,
each call gets a new one.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from dpverify.audit import InvalidRun, added, audit
from dpverify.audit import attack as attack_module
from dpverify.audit.independence import EventWatch, Watch
from dpverify.audit.outputs import laws
from dpverify.privacy import PureDP
from tests.benchmarks.timing import header, table

ALPHA, LEAK = 1e-6, 2.5
PAIRS = [added("a row enters", [0.0] * 3, 0.0)]
Function = Callable[[Any], Any]


def _noise(rng: np.random.Generator, epsilon: float) -> float:
    return float(np.rint(rng.laplace(scale=1 / epsilon) * 2**16) / 2**16)


def counting(epsilon: float, seed: int) -> Function:
    """Return a function that counts the records with fresh noise."""
    rng = np.random.default_rng(seed)
    return lambda data: len(data) + _noise(rng, epsilon)


def beside(epsilon: float, seed: int, also: Callable[[], Any]) -> Function:
    """Return a function that gives the noisy count and something else that is public."""
    answer = counting(epsilon, seed)
    return lambda data: (answer(data), also())


def drifting(seed: int, center: Callable[[int], float]) -> Function:
    """Return a function of epsilon 1, around a center that follows the number of calls."""
    answer, calls = counting(1, seed), itertools.count()
    return lambda data: answer(data) + center(next(calls))


def keeping(
    seed: int,
    share: float,
    also: Callable[[], Any] | None,
    fresh: float = 0.0,
    common: bool = False,
) -> Function:
    """Return a function of epsilon 1, whose noise is drawn anew with probability ``share``: for
    each size of data, or for all; with normal noise of scale ``fresh``, and something else beside.
    """
    rng, noise = np.random.default_rng(seed), dict[int, float]()

    def answer(data: Any) -> Any:
        key = 0 if common else len(data)
        if key not in noise or rng.random() < share:
            noise[key] = _noise(rng, 1)
        value = round(len(data) + noise[key] + fresh * rng.normal(), 4)
        return value if also is None else (value, also())

    return answer


def sharing(seed: int, renewed: Callable[[int, np.random.Generator], bool]) -> Function:
    """Return a function of epsilon 1, whose noise is drawn at the first call and where
    ``renewed(call, rng)``."""
    rng, calls, noise = np.random.default_rng(seed), itertools.count(), [0.0]

    def answer(data: Any) -> float:
        call = next(calls)
        if call == 0 or renewed(call, rng):
            noise[0] = _noise(rng, 1)
        return len(data) + noise[0]

    return answer


def serial() -> Callable[[], int]:
    """Return a function that gives serial numbers."""
    calls = itertools.count()
    return lambda: next(calls)


ROWS: dict[str, tuple[str, Callable[[int], Function]]] = {
    "leak, true epsilon 2.5": ("V", lambda seed: counting(LEAK, seed)),
    "leak, beside a serial number": ("V", lambda seed: beside(LEAK, seed, serial())),
    "leak, beside time.time()": ("V", lambda seed: beside(LEAK, seed, time.time)),
    "private": ("not V", lambda seed: counting(1, seed)),
    "private, beside a serial number": ("not V", lambda seed: beside(1, seed, serial())),
    "private, beside time.time()": ("not V", lambda seed: beside(1, seed, time.time)),
    "private, center rises by 1 in 2000 calls": ("not V",
        lambda seed: drifting(seed, lambda t: t / 2000)),
    "private, center jumps by 10 every 500 calls": ("not V",
        lambda seed: drifting(seed, lambda t: 10 * (t // 500 % 2))),
    "private, center on a random walk": ("not V", lambda seed: drifting(seed, _walk(seed))),
    "noise drawn once (memoized)": ("I", lambda seed: sharing(seed, lambda t, rng: False)),
    "noise kept with probability .99": ("I",
        lambda seed: sharing(seed, lambda t, rng: rng.random() > 0.99)),
    "noise refreshed every 20 calls": ("I", lambda seed: sharing(seed, lambda t, rng: t % 20 == 0)),
    "noise refreshed every 1000 calls": ("I",
        lambda seed: sharing(seed, lambda t, rng: t % 1000 == 0)),
    "kept .99, beside time.time()": ("I", lambda seed: keeping(seed, 0.01, time.time)),
    "kept .99, beside a serial number": ("I", lambda seed: keeping(seed, 0.01, serial())),
    "kept .999, beside time.time()": ("I", lambda seed: keeping(seed, 0.001, time.time)),
    "kept .99, under noise of scale .01": ("I", lambda seed: keeping(seed, 0.01, None, 0.01)),
    "kept .99, under noise of scale .3": ("I", lambda seed: keeping(seed, 0.01, None, 0.3)),
    "kept .99, under noise of scale 1": ("I", lambda seed: keeping(seed, 0.01, None, 1.0)),
    "kept .999, under noise of scale .1": ("I", lambda seed: keeping(seed, 0.001, None, 0.1)),
    "kept .999, under noise of scale 1": ("I", lambda seed: keeping(seed, 0.001, None, 1.0)),
    "kept .999 on both sides, under .05": ("I",
        lambda seed: keeping(seed, 0.001, None, 0.05, common=True)),
    "drawn once, beside time.time()": ("V, told", lambda seed: keeping(seed, 0, time.time)),
    "drawn once, beside a serial number": ("V, told", lambda seed: keeping(seed, 0, serial())),
}  # fmt: skip


def _walk(seed: int) -> Callable[[int], float]:
    steps = np.cumsum(np.random.default_rng([seed, 1]).normal(scale=0.03, size=1 << 20))
    return lambda t: float(np.rint(steps[t % len(steps)] * 64) / 64)


@contextmanager
def in_blocks() -> Iterator[None]:
    """Remove the two defenses that this benchmark measures."""
    called = laws.called
    with (
        patch.object(laws, "called", lambda both, order: called(both, np.sort(order))),
        patch.object(Watch, "require_fresh", lambda self: None),
        patch.object(EventWatch, "require_fresh", lambda self: None),
        patch.object(attack_module, "refuse_constant", lambda *_: None),
        patch.object(attack_module, "refuse_kept", lambda _: None),
        patch.object(attack_module, "doubts", lambda *_: []),
    ):
        yield


def verdict(seed: int, trials: int, *, sequential: bool = False, **subject: Any) -> str:
    """Return a verdict's letter, and whether a remark names ``fresh=``."""
    try:
        result = audit(
            **subject, claim=PureDP(1), pairs=PAIRS, faults=[counting(2, seed + 1000)],
            trials=trials, alpha=ALPHA, seed=seed, sequential=sequential,
        )  # fmt: skip
    except InvalidRun:
        return "I"
    told = any("fresh=" in remark for remark in result.remarks)
    return str(result.verdict)[0] + (", told" if told else "")


def shown(letters: list[str]) -> str:
    """Format counts as "2 V; 1 P"."""
    return "; ".join(f"{n} {letter}" for letter, n in sorted(Counter(letters).items()))


def line(name: str, seeds: int, trials: int) -> list[str]:
    """Return a row's cells."""
    expected, make = ROWS[name]
    with in_blocks():
        before = [verdict(s, trials, subject=make(s)) for s in range(seeds)]
    after = [verdict(s, trials, subject=make(s)) for s in range(seeds)]
    betting = [verdict(s, trials, subject=make(s), sequential=True) for s in range(seeds)]
    both = [*after, *betting]
    if expected == "not V":
        met = not any(letter.startswith("V") for letter in both)
    else:
        met = set(both) <= ({expected, "P", "C"} if expected == "I" else {expected})
    fresh = "-"
    if expected in ("I", "V, told"):
        anew = itertools.count()
        fresh = shown(
            [verdict(s, trials // 4, fresh=lambda: make(next(anew))) for s in range(seeds)]
        )
    return [
        name,
        shown(before),
        shown(after),
        shown(betting),
        expected,
        "met" if met else "MISSED",
        fresh,
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=20_000)
    given = parser.parse_args()
    command = (
        f"python -m tests.benchmarks.single_calls --seeds {given.seeds} --trials {given.trials}"
    )
    header("Single calls", command)
    print(f"\n{__doc__}")
    columns = ["what", "in blocks", "fixed", "by bets", "as it should be", "", "from a factory"]
    table(columns, (line(name, given.seeds, given.trials) for name in ROWS))


if __name__ == "__main__":
    main()
