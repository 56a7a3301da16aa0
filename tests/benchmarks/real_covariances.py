"""Covariances of real data, private beside plain ones, and data on which one of them is useless.

diamonds: 53,940 stones, seven numbers over public rough scales, at (1, 1e-6). digits: 1797
images of 8 x 8 pixels, the sums of their six inner columns, at mu = 1. heavy: 20,000 records of
a law with Cauchy's tails and correlations of .8^|i - j|, at (1, 1e-6). ink: the sums of all
eight columns of the digits, of which the first is zero in most. bits: six pixels of the digits'
fifth row, one where they are above 8: no law with a covariance in the sense of a scatter.
Add-remove everywhere; one release each in the picture, the median over 20 in the table.

    python -m tests.benchmarks.real_covariances [--runs 20] [--picture docs/figures]

Needs dpverify[data] for the diamonds, dpverify[plots] for the picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import (
    Adjacency,
    ApproxDP,
    Concentrated,
    GaussianCovariance,
    GaussianDP,
    SeededBits,
    SignCovariance,
)
from dpverify.privacy import Guarantee
from tests.benchmarks.real_data import diamonds, digits
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
STRICT = ApproxDP(1, "1e-6")
_SEED = 2026


@dataclass(frozen=True)
class Case:
    """Records with their public facts.

    truth: the correlations that are estimated, if not the records' own.
    """

    name: str
    records: Floats
    budget: Guarantee
    center: float
    cell: float
    scale: float
    shape_only: bool = False
    truth: Floats | None = None

    def mechanism(self) -> SignCovariance | GaussianCovariance:
        """Build the mechanism with an unknown center."""
        kind: Any = SignCovariance if self.shape_only else GaussianCovariance
        made: SignCovariance | GaussianCovariance = kind.for_budget(
            self.budget,
            adjacency=Adjacency.ADD_REMOVE,
            center=(self.center,) * self.records.shape[1],
            cell=self.cell,
            scale=self.scale,
        )
        return made

    @property
    def correlation(self) -> Floats:
        """The correlations with which an estimate is compared, shape (d, d)."""
        return self.plain if self.truth is None else self.truth

    @property
    def plain(self) -> Floats:
        """The sample's correlations, shape (d, d)."""
        return np.asarray(np.corrcoef(self.records.T))


def heavy() -> tuple[Floats, Floats]:
    """Draw multivariate t records of one degree of freedom; return them and their correlations."""
    rng, places = np.random.default_rng(7), np.arange(8)
    truth = 0.8 ** np.abs(places - places[:, np.newaxis])
    normal = rng.normal(size=(20_000, 8)) @ np.linalg.cholesky(truth).T
    return normal / np.sqrt(rng.chisquare(1, size=(20_000, 1))), truth


def cases() -> list[Case]:
    """List the cases whose data are here."""
    images = digits()[0].reshape(-1, 8, 8)
    records, truth = heavy()
    all_cases = [
        Case("digits", images.sum(axis=1)[:, 1:7], GaussianDP(1), 40.0, 2**-4, 40.0),
        Case("heavy", records, STRICT, 0.0, 2**-10, 1.0, shape_only=True, truth=truth),
        Case("ink", images.sum(axis=1), GaussianDP(1), 40.0, 2**-4, 40.0),
        Case("bits", (images[:, 4, 1:7] > 8).astype(float), GaussianDP(1), 0.5, 2**-10, 1.0),
    ]
    stones = diamonds()
    if stones is not None:
        all_cases.insert(0, Case("diamonds", stones[0], STRICT, 0.0, 2**-10, 8.0))
    return all_cases


def off(estimate: Any, case: Case) -> float:
    """Return the largest error of a correlation."""
    return float(np.abs(estimate.correlation - case.correlation).max())


def row(case: Case, runs: int) -> list[str]:
    """Return a row of the table: medians over the runs."""
    mechanism = case.mechanism()
    released = [mechanism.release(case.records, SeededBits(_SEED, run)) for run in range(runs)]
    n, d = case.records.shape
    start = [case.name, type(mechanism).__name__, str(n), str(d), str(case.budget)]
    concentrated = [one for one in released if isinstance(one, Concentrated)]
    if concentrated:
        names = sorted({name for one in concentrated for name in one.columns})
        said = f"Concentrated {len(concentrated)}/{runs}, columns {names}"
        return [*start, said, "", "", "", ""]
    errors = [off(one, case) for one in released]
    mean: Callable[[Floats], float] = lambda values: float(np.linalg.eigvalsh(values)[-1] / d)  # noqa: E731
    shares = [mean(one.correlation) for one in released]  # type: ignore[union-attr]
    normal = [getattr(one, "looks_normal", None) for one in released]
    plain = float(np.abs(case.plain - case.correlation).max())
    return [
        *start,
        f"{np.median(errors):.4f}",
        f"{plain:.4f}" if case.truth is not None else "",
        f"{np.median(shares):.3f}",
        f"{mean(case.correlation):.3f}",
        {None: "", True: "normal", False: "not normal"}[normal[0]],
    ]


def draw(all_cases: list[Case], folder: Path, kind: str = "svg") -> Path:
    """Draw correlations against the plain ones (for "heavy", both against the truth), a panel
    for each case that has some."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    shown = [case for case in all_cases if case.name not in ("ink", "bits")]
    with mpl.rc_context({"svg.hashsalt": "dpverify", "font.size": 10}):
        figure = Figure(figsize=(4.1 * len(shown), 4.2), layout="constrained")
        for axes, case in zip(figure.subplots(1, len(shown)), shown, strict=True):
            _panel(axes, case)
        path = folder / f"covariances.{kind}"
        figure.savefig(path, metadata={"Date": None} if kind == "svg" else None)
    return path


def _panel(axes: Any, case: Case) -> None:
    released: Any = case.mechanism().release(case.records, SeededBits(_SEED))
    pairs = np.triu_indices(len(case.correlation), 1)
    at = case.correlation[pairs]
    axes.plot([-0.4, 1], [-0.4, 1], color="#bbbbbb", linewidth=1, zorder=0)
    if case.truth is not None:
        axes.plot(at, case.plain[pairs], "x", color="#888888", label="sample, not private")
    axes.errorbar(
        at,
        released.correlation[pairs],
        yerr=2 * released.correlation_deviation[pairs],
        fmt="o",
        color="#0072b2",
        markersize=4,
        capsize=2,
        label="private, two deviations of its noise",
    )
    of = "of the sample" if case.truth is None else "of the law"
    n, d = case.records.shape
    title = f"{case.name}: {n:,} records, {d} columns\n{case.budget}"
    axes.set(xlabel=f"correlation {of}", ylabel="estimate", title=title)
    axes.legend(loc="upper left", fontsize=8)


def main() -> None:
    """Print the table, and draw."""
    parser = argparse.ArgumentParser(description="Covariances of real data.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    all_cases = cases()
    command = "OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.real_covariances"
    header("covariances of real data", command, "No times.")
    print(f"\n{__doc__}", flush=True)
    names = ["data", "method", "n", "d", "budget", "largest error of a correlation"]
    names += ["without privacy", "largest eigenvalue", "plain or true", "its tails"]
    table(names, [row(case, given.runs) for case in all_cases])
    if given.picture:
        print(f"\n{draw(all_cases, given.picture)}")


if __name__ == "__main__":
    main()
