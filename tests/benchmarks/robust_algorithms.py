"""DH20's two algorithms, run by our own code, beside the recorded medians of the paper's files.

The cells of ``robust_mean:dh20`` under the paper's corruption: excess error of 20 runs, median
and 95% interval, with a vector of noise; recorded are 5, 3 and 1 runs on other samples. "0": the
excess of the answer 0, which is private for nothing.

    python -m tests.benchmarks.robust_algorithms [--seed 20261126] [--sizes 100 1000 10000]
"""

from __future__ import annotations

import argparse
import sys

from audits._corruption import DH20, SIZES
from dpverify.rates import measure_cell
from tests.benchmarks.timing import header, table


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="DH20's algorithms beside what was recorded.")
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    given = parser.parse_args()
    header("DH20's algorithms", " ".join(sys.argv[1:]))
    rows = []
    for n in given.sizes:
        panel = f"mixed, n = {n}"
        for index, d in enumerate(DH20.values):
            row = [str(n), str(d)]
            for algorithm in (1, 2):
                cell = measure_cell(
                    DH20, panel, index, f"algorithm {algorithm}", seed=given.seed
                ).median
                known = DH20.references[f"paper {algorithm}"].numbers[panel].get(d)
                row += [f"{cell.value:.4g} [{cell.low:.4g}, {cell.high:.4g}]"]
                row += ["-" if known is None else f"{known:.4g}"]
            zero = measure_cell(DH20, panel, index, "zero", seed=given.seed).median
            rows.append([*row, f"{zero.value:.3g}"])
    table(["n", "d", "algorithm 1", "recorded", "algorithm 2", "recorded", "0"], rows)


if __name__ == "__main__":
    main()
