"""``ScaleFamily`` without a prior, beside no privacy: relative errors of exponential scales.

Root mean squares over the runs, each with records and noise of its own; a second table is of
records that were cut off at 1.5 scales, where clipping is wrong. Targets are what was predicted
before any of this was built.

    python -m tests.benchmarks.scales [--runs 200]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, ScaleEstimate, ScaleFamily, SeededBits
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

REPLACE, ADD = Adjacency.REPLACE, Adjacency.ADD_REMOVE
STRICT = ApproxDP(1, "1e-6")
SCALE = 1 / 0.037
TARGETS = {
    (REPLACE, "clip"): {500: 0.058, 1000: 0.040, 2000: 0.026, 8000: 0.0118, 128_000: 0.0030},
    (REPLACE, "mask"): {1000: 0.050, 2000: 0.032, 8000: 0.0135, 128_000: 0.0032},
}


def released(mechanism: ScaleFamily, data: Any, run: int) -> float:
    """Return the relative error; infinite where there is no estimate."""
    release = mechanism.release(data, SeededBits(run))
    return release.value / SCALE - 1 if isinstance(release, ScaleEstimate) else math.inf


def whole(runs: int) -> Iterator[list[str]]:
    """Return the rows of the first table."""
    for adjacency in (REPLACE, ADD):
        for outside in ("clip", "mask"):
            mechanism = ScaleFamily.for_budget(
                STRICT, adjacency=adjacency, family="exponential", outside=outside
            )
            for n in (500, 1000, 2000, 8000, 128_000):
                off, plain = [], []
                for run in range(runs):
                    rng = np.random.default_rng(seed_of("scale", n, run))
                    data = rng.exponential(SCALE, n)
                    plain.append(data.mean() / SCALE - 1)
                    off.append(released(mechanism, data, run))
                kept = [e for e in off if math.isfinite(e)]
                error = math.sqrt(np.mean(np.square(kept)))
                target = TARGETS.get((adjacency, outside), {}).get(n)
                met = "" if target is None else "met" if error <= 1.1 * target else "MISSED"
                yield [
                    str(adjacency),
                    outside,
                    str(n),
                    f"{math.sqrt(np.mean(np.square(plain))):.4f}",
                    f"{error:.4f}",
                    "" if target is None else f"{target:.4f}",
                    met,
                    f"{runs - len(kept)}/{runs}",
                ]


def cut(runs: int) -> Iterator[list[str]]:
    """Return the rows of the second table, for the records below 1.5 scales."""
    methods: dict[str, dict[str, Any]] = {
        "mask, cap given": {"outside": "mask", "cap": 1.5 * SCALE},
        "clip": {"outside": "clip"},
    }
    for name, how in methods.items():
        mechanism = ScaleFamily.for_budget(STRICT, adjacency=REPLACE, family="exponential", **how)
        for n in (4000, 32_000):
            off = []
            for run in range(runs):
                rng = np.random.default_rng(seed_of("cut", n, run))
                data = rng.exponential(SCALE, n)
                off.append(released(mechanism, data[data < 1.5 * SCALE], run))
            kept = [e for e in off if math.isfinite(e)]
            bias, spread = np.mean(kept), np.std(kept)
            yield [name, str(n), f"{bias:+.4f}", f"{spread:.4f}", f"{runs - len(kept)}/{runs}"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Scales of exponential records.")
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    header("scales, without a prior", "python -m tests.benchmarks.scales", "No times.")
    print(f"\n{__doc__}", flush=True)
    for rows, names in (
        (
            whole(given.runs),
            ["adjacency", "outside", "n", "without", "private", "target", "", "lost"],
        ),
        (cut(given.runs), ["of cut records", "n before", "bias", "spread", "lost"]),
    ):
        lines = []
        for row in rows:
            print(*row, file=sys.stderr, flush=True)
            lines.append(row)
        table(names, lines)


if __name__ == "__main__":
    main()
