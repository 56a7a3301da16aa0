"""``GaussianCovariance`` by its three ways to whiten, beside naive clipping and CoinPress.

Normal records about a known center of zero; covariances have the eigenvalues of a spectrum, from
1 to kappa, and random axes. Printed is the median of |S^(-1/2) V S^(-1/2) - I|_F, S the
covariance and V the estimate, over the runs, each with data, axes and noise of its own, the same
for all methods; "-" where most runs release no estimate. In brackets what the second moments
have without privacy.

* sign: 8 rounds of signs; no bounds. All others are given kappa and the largest deviation, both
  exact.
* spectral: 8 rounds. recursive: 1.7 ln(kappa) rounds, from 1 to 20. naive: no rounds, records
  clipped once.
* CoinPress: as it was published, in float64 (replace alone), with its own last step, 8 rounds,
  and the product of maps in the order U^(-1/2) A; with the constants of its program, and with
  those of the paper for beta = 1/10.

spectra: "log", eigenvalues evenly spaced in logarithms; "small", one of 1; "large", one of
kappa; "half", d / 2 of each; "pairs", as "log", each twice. target: what "sign" is to have,
within 10%.

    python -m tests.benchmarks.gaussian_covariances [--runs 40] [--methods sign,CoinPress]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import (
    Adjacency,
    ApproxDP,
    CovarianceEstimate,
    GaussianCovariance,
    GaussianDP,
    SeededBits,
)
from dpverify.privacy import Guarantee
from tests.benchmarks.errors import seed_of
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
OURS = ("sign", "spectral", "recursive", "naive")
PEERS = ("CoinPress", "its paper's")
ROUNDS, BETA = 8, 0.1
STRICT = ApproxDP(1, "1e-6")
MU = {"mu = 1": 1.0, "(1, 1e-6)": 0.2367}
BUDGETS: dict[str, Guarantee] = {"mu = 1": GaussianDP(1), "(1, 1e-6)": STRICT}
FEWER = {10: 1.0, 15: 0.5, 20: 0.5, 35: 0.4, 50: 0.4}  # of the runs, by number of columns


@dataclass(frozen=True)
class Cell:
    """A setting, and the error that "sign" is to have there."""

    budget: str
    adjacency: Adjacency
    d: int
    n: int
    spectrum: str
    kappa: float
    target: float | None = None

    @property
    def deviations(self) -> Floats:
        """Roots of the eigenvalues, shape (d,)."""
        values = np.ones(self.d)
        if self.spectrum == "log":
            values = np.logspace(0, math.log10(self.kappa), self.d)
        elif self.spectrum == "pairs":
            values = np.repeat(np.logspace(0, math.log10(self.kappa), (self.d + 1) // 2), 2)
            values = values[: self.d]
        else:
            values[{"small": 1, "large": self.d - 1, "half": self.d // 2}[self.spectrum] :] = (
                self.kappa
            )
        return np.sqrt(values)

    def data(self, run: int) -> tuple[Floats, Floats, Floats]:
        """Draw white records, axes and the records, shapes (n, d), (d, d) and (n, d).

        Constants were chosen on other records.
        """
        rng = np.random.default_rng(seed_of(self.d, self.n, self.spectrum, self.kappa, run))
        axes = np.linalg.qr(rng.normal(size=(self.d, self.d)))[0]
        white = rng.normal(size=(self.n, self.d))
        return white, axes, (white * self.deviations) @ axes.T


def cells() -> Iterator[Cell]:
    """List all settings; those for fewer methods or of larger sizes come last."""
    add, replace = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    spectra = [("log", 1e4), ("log", 1.0), ("log", 1e8)]
    spectra += [(kind, kappa) for kind in ("small", "large", "half") for kappa in (1e4, 1e8)]
    for spectrum, kappa in spectra:
        for n, target in ((1000, 0.40), (4000, 0.175), (16_000, 0.086)):
            yield Cell("mu = 1", replace, 10, n, spectrum, kappa, target)
    yield Cell("mu = 1", replace, 10, 16_000, "log", 1e16, 0.100)
    yield Cell("mu = 1", replace, 10, 4000, "small", 1e12)
    yield Cell("mu = 1", replace, 10, 4000, "pairs", 1e8)
    for d in (15, 35):
        yield Cell("mu = 1", replace, d, 16_000, "log", 1e8)
    for n, target in ((4000, 0.37), (16_000, 0.172)):
        yield Cell("mu = 1", replace, 20, n, "log", 1e4, target)
    yield Cell("mu = 1", replace, 50, 16_000, "log", 1e4, 0.45)
    for n, kinds in ((4000, (0.27, 0.22)), (16_000, (0.098, 0.090)), (64_000, (0.046, None))):
        for adjacency, goal in zip((replace, add), kinds, strict=True):
            yield Cell("(1, 1e-6)", adjacency, 10, n, "log", 1e4, goal)
    for n, target in ((16_000, 0.222), (64_000, 0.094)):
        yield Cell("(1, 1e-6)", replace, 20, n, "log", 1e4, target)


def mechanism(cell: Cell, method: str) -> GaussianCovariance:
    """Build one of our mechanisms, with the least noise for the budget."""
    given: dict[str, Any] = {"center": (0.0,) * cell.d, "cell": 2**-8}
    if method != "sign":
        given["largest"] = math.sqrt(cell.kappa)
    if method == "naive":
        given["rounds"] = 0
    elif method != "sign":
        few = min(max(round(1.7 * math.log(cell.kappa)), 1), 20)
        given |= {"method": method, "kappa": cell.kappa}
        given["rounds"] = few if method == "recursive" else ROUNDS
    return GaussianCovariance.for_budget(BUDGETS[cell.budget], adjacency=cell.adjacency, **given)


def coinpress(records: Floats, kappa: float, mu: float, paper: bool, rng: Any) -> Floats:
    """Return a factor of the estimate for records of shape (n, d).

    All rounds but the last have a quarter of the budget.
    """
    n, d = records.shape
    shaped = np.eye(d) / math.sqrt(kappa)
    for t in range(ROUNDS):
        last = t == ROUNDS - 1
        share = 0.75 if last else 0.25 / (ROUNDS - 1)
        failing = BETA / 4 if last else BETA / (4 * (ROUNDS - 1))
        level = math.log(n / failing) if paper else math.log(1 / 0.1)
        square = d + 2 * math.sqrt(d * level) + 2 * level
        noise = math.sqrt(2) * square / n / (mu * math.sqrt(share))
        images = records @ shaped.T
        lengths = np.linalg.norm(images, axis=1, keepdims=True)
        images *= np.minimum(1, math.sqrt(square) / lengths)
        above = np.triu(rng.normal(scale=noise, size=(d, d)))
        values, vectors = np.linalg.eigh(images.T @ images / n + above + np.triu(above, 1).T)
        if last:
            root = vectors * np.sqrt(np.maximum(values, 0))
            return np.asarray(np.linalg.solve(shaped, root))
        if paper:
            eta, nu = _paper_slack(n, d, square, mu * math.sqrt(share), failing)
            values = np.maximum(values + eta + nu, eta)
        else:
            values = np.maximum(values, 0) + 0.5 * (2 * math.sqrt(d / n) + d / n)
        shaped = (vectors / np.sqrt(values)) @ vectors.T @ shaped
    raise AssertionError("no last round")


def _paper_slack(n: int, d: int, square: float, mu: float, failing: float) -> tuple[float, float]:
    """Return eta and nu as in the paper; rho = mu^2 / 2."""
    root = math.sqrt(d / n) + math.sqrt(2 * math.log(2 / failing) / n)
    third = (math.log(d) / d) ** (1 / 3)
    norm = 2 * math.sqrt(d) + 2 * d ** (1 / 6) * math.log(d) ** (1 / 3)
    norm += 6 * (1 + third) * math.sqrt(math.log(d)) / math.sqrt(math.log(1 + third))
    norm += 2 * math.sqrt(2 * math.log(1 / failing))
    return 2 * root + root**2, square / (n * mu / math.sqrt(2)) * norm


def error(factor: Floats, axes: Floats, deviations: Floats) -> float:
    """Return the error of the estimate with this factor, where the covariance is the identity."""
    whitened = (axes.T @ factor) / deviations[:, np.newaxis]
    return float(np.linalg.norm(whitened @ whitened.T - np.eye(len(axes))))


def errors(cell: Cell, methods: tuple[str, ...], runs: int) -> dict[str, list[float]]:
    """Return the errors of every method, and without privacy, run by run; infinite without an
    estimate."""
    made = {name: mechanism(cell, name) for name in OURS if name in methods}
    peers = [p for p in PEERS if p in methods] if cell.adjacency is Adjacency.REPLACE else []
    results: dict[str, list[float]] = {"without": [], **{name: [] for name in (*made, *peers)}}
    for run in range(runs):
        white, axes, records = cell.data(run)
        off = white.T @ white / cell.n - np.eye(cell.d)
        results["without"].append(float(np.linalg.norm(off)))
        for name, one in made.items():
            results[name].append(_released(one, records, axes, cell.deviations, run))
        for name in peers:
            rng = np.random.default_rng([run, PEERS.index(name)])
            paper = name != PEERS[0]
            factor = coinpress(records, cell.kappa, MU[cell.budget], paper, rng)
            results[name].append(error(factor, axes, cell.deviations))
    return results


def _released(
    made: GaussianCovariance, records: Floats, axes: Floats, deviations: Floats, run: int
) -> float:
    """Return the error of one release; infinite where records are too few or there is no
    estimate."""
    if len(records) < made.fewest_records():
        return math.inf
    released = made.release(records, SeededBits(run))
    if not isinstance(released, CovarianceEstimate):
        return math.inf
    return error(released.factor, axes, deviations)


def row(cell: Cell, methods: tuple[str, ...], runs: int) -> list[str]:
    """Return medians as cells of a table."""
    runs = max(16, round(runs * FEWER[cell.d] * (0.5 if cell.n > 20_000 else 1)))
    start = time.process_time()
    results = errors(cell, methods, runs)
    names = [name for name in (*OURS, *PEERS) if name in methods]
    medians = {name: float(np.median(values)) for name, values in results.items()}
    shown = [_digits(medians.get(name, math.inf)) for name in names]
    verdict = "" if cell.target is None or "sign" not in medians else "MISSED"
    if verdict and medians["sign"] <= 1.1 * (cell.target or 0):
        verdict = "met"
    target = "" if cell.target is None else f"{cell.target:.3f}"
    setting = [cell.budget, str(cell.adjacency), str(cell.d), str(cell.n), cell.spectrum]
    seconds = f"{time.process_time() - start:.0f}"
    kappa = f"{cell.kappa:.0e}"
    line = [*setting, kappa, *shown, f"[{_digits(medians['without'])}]", target, verdict]
    line += [str(runs), seconds]
    print(*line, file=sys.stderr, flush=True)
    return line


def _digits(value: float) -> str:
    """Format with three digits; "-" where there is no estimate."""
    return "-" if math.isinf(value) else f"{value:.3f}" if value < 10 else f"{value:.2g}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Covariances of normal records.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--methods", default=",".join((*OURS, *PEERS)))
    given = parser.parse_args()
    methods = tuple(name for name in (*OURS, *PEERS) if name in given.methods.split(","))
    command = "OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.gaussian_covariances"
    header(
        "covariances of normal records, whitened in three ways",
        command,
        "Times: all runs of all methods of a row, once.",
    )
    print(f"\n{__doc__}", flush=True)
    names = [
        "budget",
        "neighbors",
        "d",
        "n",
        "spectrum",
        "kappa",
        *methods,
        "without",
        "target",
        "",
        "runs",
        "CPU s",
    ]
    table(names, [row(cell, methods, given.runs) for cell in cells()])


if __name__ == "__main__":
    main()
