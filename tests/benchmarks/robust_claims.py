"""The shift of a filtered mean by one record against its claimed sensitivity: exact and certified.

The claims of audits/exhibits/clean_mean, filtered_mean and their variants ((1, 1/n)-DP under the
noise of DH20), on neighbors of many kinds. shift: how far the mean moves; of random pairs the
median, and in how many of them it is more than the claimed Delta. delta: the least at
epsilon = 1 of the paper's Gaussian noise at the (largest) shift, to 50 digits below the table;
the shift is taken as the rational that its float is. certified: what an audit of the released
draws of that pair shows, at false-alarm probability 1%: a lower bound on delta at epsilon = 1,
and on epsilon at the claimed delta. Draws are of means and noise in cells of 2^-10, the noise
rounded up.

    python -m tests.benchmarks.robust_claims [--draws 100000] [--cases CASE...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

import mpmath as mp
import numpy as np

from audits.exhibits import _robust
from audits.exhibits._robust import Filter, Rows, as_coded, as_published
from dpverify import Adjacency, ApproxDP
from dpverify.audit import NeighboringPair, audit
from dpverify.randomness import SeededBits
from spec.theory import robust_claims
from tests.benchmarks.timing import header, table

DIGITS, ALPHA, EPSILON = 50, 0.01, Fraction(1)
Sides = tuple[Rows, Rows]


@dataclass(frozen=True)
class Case:
    """Neighbors by seed, for one algorithm of one filter."""

    name: str
    n: int
    d: int
    algorithm: int
    made: Callable[[int], Sides]
    filtered: Filter = as_coded
    pairs: int = 1
    adjacency: Adjacency = Adjacency.REPLACE

    def gamma(self, n: int) -> float:
        """Share of corrupt records: Algorithm 1 is told a tenth, Algorithm 2 one record."""
        return 0.1 if self.algorithm == 1 else 1 / n

    def shift(self, sides: Sides) -> float:
        """Return the distance between the filtered means."""
        left, right = (self.filtered(rows, self.gamma(len(rows)), 1 / len(rows)) for rows in sides)
        return float(np.linalg.norm(left - right))

    @property
    def claimed(self) -> float:
        """Return the claimed sensitivity."""
        return 2 * _robust.bound(self.gamma(self.n))

    def delta(self, shift: float) -> Any:
        """Return the least delta at EPSILON, to DIGITS digits."""
        with mp.workdps(DIGITS + 10):
            tau = Fraction(1, self.n)
            if self.algorithm == 1:
                scale = robust_claims.noise_scale(Fraction(1, 10), tau, EPSILON)
            else:
                scale = robust_claims.clean_noise_scale(self.n, tau, EPSILON)
            return +robust_claims.delta(shift, scale, EPSILON)

    def certified(self, sides: Sides, draws: int, exact: Any) -> tuple[float, float]:
        """Return lower bounds on delta at EPSILON and on epsilon at delta = 1 / n, together at
        ALPHA.

        Two audits are run, each of the claim for which an event for its bound is sought.
        """
        calls = count()

        def function(data: Rows, size: int) -> Any:
            bits = SeededBits(next(calls))
            return _robust.released(data, size, bits, self.filtered, self.gamma(len(data)))

        pair = NeighboringPair(
            name=self.name, left=sides[0], right=sides[1], adjacency=self.adjacency
        )
        own = Fraction(1, self.n)
        near = max(own, Fraction(float(exact)) * 98 / 100)
        audits = [
            audit(
                function, claim=ApproxDP(EPSILON, delta), pairs=[pair], trials=draws,
                alpha=ALPHA / 2, seed=1, vectorized=True,
            )
            for delta in (near, own)
        ]  # fmt: skip
        return audits[0].delta_at(float(EPSILON)), audits[1].epsilon


def _less(rest: slice, fewer: slice, seed: int) -> Sides:
    """Build neighbors: two clusters of 1001 records, and one record less."""
    rows = _robust.clusters(1001, 10, 1e4, seed)[0]
    return rows[rest], rows[fewer]


def cases() -> Iterator[Case]:
    """List all rows."""
    clusters = ((101, 208.0, 1), (1001, 1e6, 1), (1001, 11.2, 2), (10_001, 3.81, 2))
    for n, far, algorithm in clusters:
        made = partial(_robust.clusters, n, 10, far)
        yield Case(f"clusters {far:g} apart", n, 10, algorithm, made)
    for algorithm in (1, 2):
        made = partial(_robust.clusters, 1001, 10, 1e6)
        yield Case("clusters 1e+06 apart, as published", 1001, 10, algorithm, made, as_published)
    for algorithm in (1, 2):
        for n, rest, fewer in (
            (1001, slice(0, None), slice(1, None)),
            (1000, slice(1, None), slice(1, -1)),
        ):
            yield Case(
                "clusters, one record less", n, 10, algorithm, partial(_less, rest, fewer),
                adjacency=Adjacency.ADD_REMOVE,
            )  # fmt: skip
    for n, d in ((1000, 10), (10_000, 10), (100_000, 3)):
        yield Case("the stopping rule", n, d, 2, partial(_stopping, n, d, 1 / n))
    yield Case("the stopping rule", 1000, 10, 1, partial(_stopping, 1000, 10, 0.1))
    for algorithm, sizes in (
        (1, ((100, 10), (1000, 10), (10_000, 10))),
        (2, ((100, 10), (1000, 10), (1000, 100), (10_000, 10))),
    ):
        for n, d in sizes:
            yield Case(
                "a lone outlier", n, d, algorithm, partial(_robust.one_outlier, n, d, 1e6), pairs=20
            )
    again = ((2, 100, 10), (2, 100, 100), (2, 1000, 10), (2, 1000, 100), (2, 1000, 400))
    for algorithm, n, d in (*again, (1, 100, 100), (1, 1000, 100), (1, 1000, 400)):
        pairs = 8 if d == 400 else 40
        yield Case(
            "one record drawn again", n, d, algorithm, partial(_robust.resampled, n, d), pairs=pairs
        )


def _stopping(n: int, d: int, gamma: float, seed: int) -> Sides:
    """Build the pair, the same for every seed."""
    return _robust.at_the_stopping_rule(n, d, gamma)


def row(case: Case, draws: int) -> tuple[list[str], str]:
    """Return a row of the table, and the exact delta."""
    sides = [case.made(seed) for seed in range(case.pairs)]
    shifts = [case.shift(one) for one in sides]
    worst = int(np.argmax(shifts))
    exact = case.delta(shifts[worst])
    delta, epsilon = case.certified(sides[worst], draws, exact)
    beyond = sum(shift > case.claimed for shift in shifts)
    return [
        case.name, str(case.n), str(case.d), str(case.algorithm), f"{case.claimed:.4g}",
        f"{np.median(shifts):.4g}", f"{beyond}/{case.pairs}", f"{1 / case.n:.0e}",
        mp.nstr(exact, 6),
        f"{delta:.4g}", f"{epsilon:.3g}", "false" if delta > 1 / case.n else "-",
    ], mp.nstr(exact, DIGITS)  # fmt: skip


def main() -> None:
    """Print the table, then the digits."""
    parser = argparse.ArgumentParser(description="Shifts and deltas of filtered means.")
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--cases", nargs="*", help="words of names; default: all")
    given = parser.parse_args()
    chosen = [c for c in cases() if not given.cases or any(word in c.name for word in given.cases)]
    rows, digits = [], []
    for case in chosen:
        cells, exact = row(case, given.draws)
        print(*cells, flush=True)
        rows.append(cells)
        digits.append(f"{' '.join(cells[:4])}: {exact}")
    header("what one record does to a filtered mean", "python -m tests.benchmarks.robust_claims")
    print(f"\n{__doc__}")
    names = ["neighbors", "n", "d", "alg.", "claimed Delta", "shift", "beyond", "claimed delta"]
    table([*names, "delta at 1", "certified", "epsilon", "the claim is"], rows)
    print("\ndelta at epsilon = 1 (neighbors n d algorithm):", *digits, sep="\n")


if __name__ == "__main__":
    main()
