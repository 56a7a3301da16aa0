"""The distance of ``SignCovariance`` from the shape of an elliptical law, and its time.

Error: the Frobenius norm of L^-1 S L^-T - I, S the estimate and L a root of the truth, both
scaled to determinant 1; medians over runs of fresh data and noise, with order statistics that
hold the true median with probability 95% (infinite where there is no shape), beside the figures
to reach: "met" is a median of at most 1.1 times one. Seeds are none that a setting was chosen
on.

Data: turned by a random rotation, deviations from 1 to 10^4: "log" has eigenvalues at equal
steps of their logarithms, "one" a single small one, "half" as many small ones as large ones.
Cell: 1/128 of the smallest deviation. "known": the center is public. "far": the law lies about a
point 10^6 smallest deviations from 0, in a random direction; ``center`` is 0 and ``scale`` is
10^6, how far the center may be off. Normal records have mu^2 = 0.3 * 0.2367^2, 30% of what
(1, 1e-6) allows.

Beside it, on the same records and given the true center: Tyler's estimator without privacy, and
noisy second moments of the same mu, clipped to a ball whose radius is the true median length,
which nobody would know.

    python -m tests.benchmarks.covariances [--runs 40] [--wide 16] [--only far]
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, SeededBits, ShapeEstimate, SignCovariance
from dpverify.privacy.numbers import root_up
from tests.benchmarks.errors import seed_of, shown
from tests.benchmarks.timing import clocked, header, peer, table

Floats = NDArray[np.float64]
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
LARGEST, DISTANCE, CELL, SLACK = 1e4, 1e6, 2**-7, 1.1
PART = Fraction(3, 10) * Fraction(2367, 10_000) ** 2
NAMES = ["law", "d", "n", "adjacency", "mu", "error", "figure", "target", "no shape", "expected"]
NAMES += ["Tyler", "clipped"]


@dataclass(frozen=True)
class Setting:
    """A measured setting, and the figure to reach."""

    figure: float
    adjacency: Adjacency
    n: int
    d: int = 10
    kind: str = "log"
    freedom: float = math.inf

    @property
    def far(self) -> bool:
        """True if the center is unknown: it is for normal records."""
        return math.isinf(self.freedom)

    @property
    def mechanism(self) -> SignCovariance:
        """Build the mechanism as the figures have it."""
        mu_squared = PART if self.far else Fraction(1)
        return SignCovariance(
            adjacency=self.adjacency,
            noise_multiplier=root_up(1 / mu_squared, 40),
            center=(0.0,) * self.d,
            scale=DISTANCE if self.far else None,
            cell=CELL,
        )

    @property
    def name(self) -> str:
        """The law's name."""
        return f"{self.kind}, far" if self.far else f"{self.kind}, known, t{self.freedom:g}"


def settings() -> Iterator[Setting]:
    """List every figure to reach."""
    for freedom in (1.0, 3.0):
        yield Setting(0.10, REPLACE, 16_000, freedom=freedom)
    for n, add, replace in ((8000, 0.19, 0.40), (16_000, 0.115, 0.13), (32_000, 0.075, 0.085)):
        yield Setting(add, ADD, n)
        yield Setting(replace, REPLACE, n)
    for kind in ("one", "half"):
        yield Setting(0.12, ADD, 16_000, kind=kind)
        yield Setting(0.145, REPLACE, 16_000, kind=kind)
    yield Setting(0.165, ADD, 20_000, d=15)
    yield Setting(0.21, REPLACE, 20_000, d=15)


def eigenvalues(kind: str, d: int) -> Floats:
    """Return eigenvalues from 1 to the square of the largest deviation."""
    if kind == "log":
        return np.logspace(0, 2 * math.log10(LARGEST), d)
    small = 1 if kind == "one" else d // 2
    return np.where(np.arange(d) < small, 1.0, LARGEST**2)


def drawn(setting: Setting, run: int) -> tuple[Floats, Floats, Floats]:
    """Draw standard records, shape (n, d), a root of the scatter, and the center."""
    n, d = setting.n, setting.d
    rng = np.random.default_rng(seed_of("covariances", setting.name, n, d, run))
    root = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.sqrt(eigenvalues(setting.kind, d))
    standard = rng.normal(size=(n, d))
    if math.isfinite(setting.freedom):
        standard /= np.sqrt(rng.chisquare(setting.freedom, (n, 1)) / setting.freedom)
    center = rng.normal(size=d)
    return standard, root, center * (DISTANCE * setting.far / np.linalg.norm(center))


def apart(whitened: Floats) -> float:
    """Return the Frobenius distance of L^-1 S L^-T, scaled to determinant 1, from the identity."""
    sign, size = np.linalg.slogdet(whitened)
    if sign <= 0:
        return math.inf
    return float(np.linalg.norm(whitened * math.exp(-size / len(whitened)) - np.eye(len(whitened))))


def tyler(standard: Floats) -> float:
    """Return the error of Tyler's estimator about the true center; it does not depend on the
    scatter."""
    d = standard.shape[1]
    scatter = np.eye(d)
    for _ in range(30):
        lengths = np.einsum("ij,ij->i", standard @ np.linalg.inv(scatter), standard)
        scatter = (standard / lengths[:, np.newaxis]).T @ standard * (d / len(standard))
    return apart(scatter)


def clipped(setting: Setting, standard: Floats, root: Floats, run: int) -> float:
    """Return the error of noisy second moments of records clipped to their median length.

    Eigenvalues that are not positive become 10^-12 of the largest.
    """
    records, d = standard @ root.T, setting.d
    lengths = np.linalg.norm(records, axis=1)
    radius = np.median(lengths)
    records *= np.minimum(1, radius / lengths)[:, np.newaxis]
    deviation = radius**2 * float(setting.mechanism.noise_multiplier)
    deviation *= math.sqrt(2) if setting.adjacency is REPLACE else 1.0
    noise = np.random.default_rng([run, d]).normal(size=(d, d)) * deviation / math.sqrt(2)
    total = records.T @ records + np.triu(noise, 1) + np.triu(noise, 1).T
    total += np.diag(np.diag(noise)) * math.sqrt(2)
    values, axes = np.linalg.eigh(total)
    factor = axes * np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    own = np.linalg.solve(root, factor)
    return apart(own @ own.T)


def row(setting: Setting, runs: int) -> list[str]:
    """Return one setting's medians beside its figure."""
    made = setting.mechanism
    errors, tylers, clips = [], [], []
    for run in range(runs):
        standard, root, center = drawn(setting, run)
        estimate = made.release(standard @ root.T + center, SeededBits(run))
        own = math.inf
        if isinstance(estimate, ShapeEstimate):
            half = np.linalg.solve(root, estimate.factor)
            own = apart(half @ half.T)
        errors.append(own)
        tylers.append(tyler(standard))
        clips.append(clipped(setting, standard, root, run))
    d, k = setting.d, setting.d + setting.far
    sampling = (k + 2) / k * (d * (d + 1) - 2) / setting.n
    expected = math.hypot(made.expected_error(setting.n), math.sqrt(sampling))
    verdict = "met" if statistics.median(errors) <= SLACK * setting.figure else "MISSED"
    cells = [setting.name, str(d), str(setting.n), str(setting.adjacency)]
    cells += [
        f"{1 / float(made.noise_multiplier):.4f}",
        shown(errors),
        f"{setting.figure:g}",
        verdict,
    ]
    cells += [str(sum(map(math.isinf, errors))), f"{expected:.4f}"]
    return [*cells, f"{statistics.median(tylers):.4f}", f"{statistics.median(clips):.3g}"]


def times(d: int, n: int, most: float, repeats: int) -> list[str]:
    """Return the median and the longest time of a release with a known center, mu = 1, on one
    core."""
    setting = Setting(math.inf, REPLACE, n, d=d, freedom=3.0)
    standard, root, _ = drawn(setting, 0)
    records, made, pools = (
        standard @ root.T,
        setting.mechanism,
        peer("threadpoolctl", "threadpoolctl"),
    )
    seconds: list[Any] = []
    with pools.threadpool_limits(1):
        for run in range(repeats + 1):  # the first is for what is made once
            seconds.append(clocked(made.release, records, SeededBits(run))[1:])
    wall, processor = (statistics.median(column) for column in zip(*seconds[1:], strict=True))
    cells = [f"{seconds[0][1]:.2f}", f"{wall:.2f}", f"{processor:.2f}", f"{most:g}"]
    return [str(d), str(n), *cells, "met" if processor <= most else "MISSED"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Errors and times of a private shape.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--wide", type=int, default=16)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    command = f"python -m tests.benchmarks.covariances --runs {given.runs} --wide {given.wide}"
    header("private shapes of elliptical laws", command)
    print(f"\n{__doc__}")
    chosen = [one for one in settings() if given.only in one.name]
    table(NAMES, [row(one, given.runs if one.d <= 10 else given.wide) for one in chosen])
    print()
    names = ["d", "n", "first CPU s", "wall s", "CPU s", "figure", "target"]
    table(names, [times(10, 16_000, 1, 5), times(50, 64_000, 20, 5)])


if __name__ == "__main__":
    main()
