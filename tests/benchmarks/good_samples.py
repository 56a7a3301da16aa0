"""The share of samples of N(0, I) that are good (DH20, Definition 9.1), which its Lemma 9.1
claims for d / gamma^2 polylog records.

The lemma leaves a constant and a power of a logarithm open. Here are the shares of samples that
meet each condition: of one column all half-lines that begin at a record are looked at; of more
columns those along ten axes, the sample's mean, and its largest and smallest second moment, so
condition 2 may fail more often than is shown. C of condition 1 is 2, log is natural, tau = 1/10.
"n for 9 of 10": the least n = 2^(k/2) of which at least nine tenths of all samples meet all
four, and it over d / gamma^2. Then the sizes of the paper's experiments, with its gamma = 1/10
and 1 / n, tau = 1 / n.

    python -m tests.benchmarks.good_samples [--runs 60] [--dimensions 1 2 5 10 30]
    [--gammas 0.1 0.2]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

from tests.benchmarks.errors import Floats, seed_of
from tests.benchmarks.timing import header, table

FACTOR, TAU, ENOUGH, MOST = 2.0, 0.1, 0.9, 2.0e7
PAPER = tuple((n, d) for n in (100, 1000, 10_000) for d in (100, 400))
CONDITIONS = (1, 2, 3, 4)


def farthest(along: Floats) -> float:
    """Return the supremum over t, at records, of |share beyond t - its normal share| t^2, on
    either side.

    Between two records it can be larger by what t^2 times a normal share changes there, about
    1 / n.
    """
    supremum, n = 0.0, len(along)
    for side in (along, -along):
        t = np.sort(side[side > 0])
        if len(t):
            at_least, tails = np.arange(len(t), 0, -1) / n, ndtr(-t)
            gaps = np.maximum(np.abs(at_least - tails), np.abs(at_least - 1 / n - tails)) * t**2
            supremum = max(supremum, float(gaps.max()))
    return supremum


def met(rows: Floats, gamma: float, tau: float) -> set[int]:
    """Return the conditions that this sample of N(0, I) meets; condition 2 as far as it is
    checked."""
    n, d = rows.shape
    conditions = set[int]()
    if np.max(np.einsum("ij,ij->i", rows, rows)) <= FACTOR**2 * d * math.log(n / tau):
        conditions.add(1)
    center = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / n - np.eye(d))
    if float(np.linalg.norm(center)) <= gamma:
        conditions.add(3)
    if float(np.max(np.abs(values))) <= gamma:
        conditions.add(4)
    allowed = gamma / math.log(d * math.log(d / (gamma * tau)))
    if all(farthest(rows @ v) <= allowed for v in _directions(center, vectors)):
        conditions.add(2)
    return conditions


def _directions(center: Floats, vectors: Floats) -> Iterator[Floats]:
    d = len(center)
    yield from np.eye(d)[:10]
    if d > 1:
        yield center / np.linalg.norm(center)
        yield vectors[:, 0]
        yield vectors[:, -1]


def shares(n: int, d: int, gamma: float, tau: float, runs: int) -> list[float]:
    """Return the shares of samples that meet conditions 1, 2, 3, 4, and all."""
    counts = np.zeros(5)
    for run in range(runs):
        rng = np.random.default_rng(seed_of("good", n, d, run))
        own = met(rng.standard_normal((n, d)), gamma, tau)
        counts += [*(c in own for c in CONDITIONS), len(own) == len(CONDITIONS)]
    return list(map(float, counts / runs))


def enough(d: int, gamma: float, runs: int) -> int | None:
    """Return the least n on the grid for which nine tenths are good; None beyond the grid."""
    k = 2 * math.floor(math.log2(d / gamma**2))
    while (n := round(2 ** (k / 2))) * d <= MOST:
        if shares(n, d, gamma, TAU, max(10, runs // 4))[-1] >= ENOUGH and (
            shares(n, d, gamma, TAU, runs)[-1] >= ENOUGH
        ):
            return n
        k += 1
    return None


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="How many samples are good.")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 5, 10, 30])
    parser.add_argument("--gammas", type=float, nargs="+", default=[0.1, 0.2])
    given = parser.parse_args()
    header("good samples", " ".join(sys.argv[1:]))
    rows = list[list[str]]()
    for gamma in given.gammas:
        for d in given.dimensions:
            n = enough(d, gamma, given.runs)
            unit = d / gamma**2
            rows.append(
                [
                    f"{gamma:g}",
                    str(d),
                    "-" if n is None else str(n),
                    "-" if n is None else f"{n / unit:.0f}",
                ]
            )
    table(["gamma", "d", "n for 9 of 10", "over d / gamma^2"], rows)
    print()
    rows = []
    for n, d in PAPER:
        for gamma in (0.1, 1 / n):
            rates = shares(n, d, gamma, 1 / n, min(given.runs, 20))
            rows.append([str(n), str(d), f"{gamma:g}", *(f"{x:.2f}" for x in rates)])
    table(["n", "d", "gamma", *(f"condition {c}" for c in CONDITIONS), "good"], rows)


if __name__ == "__main__":
    main()
