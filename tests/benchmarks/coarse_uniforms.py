"""Certified bounds on noise made by inversion of 32 random bits, and by an exact sampler.

Run by hand: python -m tests.benchmarks.coarse_uniforms [--seeds 100]

Functions that add noise to the number of records, of which the auditor knows nothing; claimed
1-DP, 100,000 draws a side. Certified bounds are medians over the seeds; seconds are the longest
of one audit, of the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpverify.audit import Verdict
from dpverify.privacy import PureDP
from dpverify.randomness import SeededBits, discrete_laplace
from tests.benchmarks.certified_bounds import audited
from tests.benchmarks.timing import header, table

TRIALS = 100_000
TARGET, SECONDS = 8, 5
CELLS = 1 << 16
Subject = Callable[[Any, int], Any]


def from_bits(seed: int, *, bits: int = 32, scale: float = 1.0, normal: bool = False) -> Subject:
    """Return f(dataset, size): Laplace or normal noise from an integer of so many bits."""
    random = np.random.default_rng(seed)

    def function(data: Any, size: int) -> Any:
        uniform = random.integers(1, 1 << bits, size) / 2.0**bits
        if normal:
            return len(data) + scale * ndtri(uniform)
        away = np.log1p(-2 * np.abs(uniform - 0.5))
        return len(data) - scale * np.sign(uniform - 0.5) * away

    return function


def exactly(seed: int) -> Subject:
    """Return f(dataset, size): discrete Laplace noise on a grid of 2^-16; exactly 1-DP."""
    random = SeededBits(seed)

    def function(data: Any, size: int) -> Any:
        return len(data) + discrete_laplace(random, Fraction(CELLS), size) / CELLS

    return function


SUBJECTS: dict[str, tuple[Callable[[int], Subject], bool]] = {
    "Laplace, 32 bits": (from_bits, True),
    "Laplace of scale 10, 32 bits": (lambda seed: from_bits(seed, scale=10.0), False),
    "Laplace of scale 1 / 0.3, 32 bits": (lambda seed: from_bits(seed, scale=1 / 0.3), False),
    "Laplace, 24 bits": (lambda seed: from_bits(seed, bits=24), False),
    "normal, 32 bits": (lambda seed: from_bits(seed, normal=True), False),
    "discrete Laplace, exact": (exactly, False),
}


def line(name: str, seeds: int) -> list[str]:
    """Return a row's cells."""
    make, aimed = SUBJECTS[name]
    bounds, flagged, longest = [], 0, 0.0
    for seed in range(seeds):
        start = time.process_time()
        result = audited(seed, make(seed), PureDP(1), TRIALS)
        longest = max(longest, time.process_time() - start)
        bounds.append(result.epsilon)
        flagged += result.verdict is Verdict.VIOLATED
    middle = float(np.median(bounds))
    met = middle >= TARGET and longest <= SECONDS
    cells = [f"{middle:.3f}", f"{min(bounds):.3f}", f"{flagged} of {seeds}", f"{longest:.1f}"]
    target = (
        f">= {TARGET}, <= {SECONDS} s" if aimed else "never flagged" if make is exactly else "-"
    )
    verdict = ("met" if met else "MISSED") if aimed else ""
    if make is exactly:
        verdict = "met" if not flagged else "MISSED"
    return [name, target, *cells, verdict]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    header("Inversion", f"python -m tests.benchmarks.coarse_uniforms --seeds {seeds}")
    print(f"\n{__doc__}")
    columns = ["what", "target", "median", "least", "flagged", "longest s", ""]
    table(columns, (line(name, seeds) for name in SUBJECTS))


if __name__ == "__main__":
    main()
