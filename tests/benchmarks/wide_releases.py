"""Releases of ``UnknownCovarianceMean`` as ``for_budget`` builds it, in many columns: 16 of
deviation 1, the rest 1 / sqrt(d).

(1, 1e-6) under add-remove, n_max = n. noise: the distance from the records' own mean, one
release; predicted: what ``expected_error`` says of the deviations; a released level may be one
off, which is a factor of 2. Seconds of one core, for law and release together.

    python -m tests.benchmarks.wide_releases [--n 10000] [--dimensions 512 2048 8192]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from dpverify import Abstained, Adjacency, ApproxDP, SeededBits, UnknownCovarianceMean
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

LARGE = 16


def measured(d: int, n: int) -> list[str]:
    """Return one row."""
    mechanism = UnknownCovarianceMean.for_budget(
        ApproxDP(1, "1e-6"), adjacency=Adjacency.ADD_REMOVE, d=d, n_max=n
    )
    deviations = np.full(d, d**-0.5)
    deviations[:LARGE] = 1
    rng = np.random.default_rng(seed_of("wide", d, n))
    records = rng.standard_normal((n, d))
    records *= deviations
    records += 3
    start = time.process_time()
    noisy = mechanism.release(records, bits=SeededBits(seed_of("release", d, n)))
    seconds = time.process_time() - start
    mean = records.mean(axis=0)
    noise = (
        "abstains" if isinstance(noisy, Abstained) else f"{np.linalg.norm(noisy.value - mean):.3g}"
    )
    predicted = mechanism.expected_error(n, deviations=tuple(deviations.tolist()))
    return [str(d), str(mechanism.reports), noise, f"{predicted:.3g}", f"{seconds:.1f}"]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Releases in many columns.")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[512, 2048, 8192])
    given = parser.parse_args()
    header("wide releases", " ".join(sys.argv[1:]))
    table(
        ["d", "reports", "noise", "predicted", "seconds"],
        (measured(d, given.n) for d in given.dimensions),
    )


if __name__ == "__main__":
    main()
