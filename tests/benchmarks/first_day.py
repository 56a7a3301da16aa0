"""The first day with a table: mean, count, quantile and histogram beside OpenDP and diffprivlib.

    python -m tests.benchmarks.first_day --peers-python PYTHON    (with opendp and diffprivlib)

Each question is asked alone of a ``Session`` whose budget is PureDP(1), and of the peers at epsilon
1 (what they are asked for exactly is in first_day_peers). Bounds are round numbers, chosen without
the data. Errors: of means and counts the distance from the same statistic of the clamped records,
of a histogram its mean over the bins, after negative counts of all three became 0, of a quantile by
how many ranks it misses, as a share of the records, where values within 1/5000 of the declared
range are the same (many diamonds have .70 carat, and a grid may not). Shown are means over the
runs, with their standard errors. "ratio" is ours over theirs, with its 99.9% interval by 10,000
resamples of both, so that a false MISSED somewhere has a probability of about 2%: many cells have
the same law of noise for all three. target: at most theirs, that is no interval above 1.

diamonds: 53,940 of plotnine (pip install 'dpverify[data]'). diabetes: 442 patients of scikit-learn,
unscaled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from dpverify import Adjacency, Category, Integer, Number, PureDP, SeededBits, Table
from dpverify.session import Session
from tests.benchmarks.real_data import diamonds_file
from tests.benchmarks.timing import header, table

Floats = NDArray[np.float64]
NEAR = 5000
RESAMPLES = 10_000
PEERS = Path(__file__).with_name("first_day_peers.py")
CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
COLUMNS: dict[str, dict[str, Any]] = {
    "diamonds": {
        "price": Integer(0, 20_000, missing=0),
        "carat": Number(0, 5, missing=0),
        "cut": Category(*CUTS, missing="Fair"),
    },
    "diabetes": {
        "bmi": Number(15, 45, missing=25),
        "age": Integer(0, 100, missing=50),
        "target": Integer(0, 400, missing=0),
    },
}


@dataclass(frozen=True)
class Asked:
    """A question: of which table and column, and what else it takes."""

    table: str
    kind: str
    column: str
    at: str = "1/2"
    bins: int = 10
    where: Any = None

    def __str__(self) -> str:
        which = {"quantile": f" {self.at}", "histogram": f", {self.bins} bins"}.get(self.kind, "")
        where = "" if self.where is None else f" in {self.where}"
        return f"{self.kind}{which} of {self.column}{where}"


QUESTIONS = (
    Asked("diamonds", "mean", "price"),
    Asked("diamonds", "mean", "carat"),
    Asked("diamonds", "count", "cut", where=["Ideal"]),
    Asked("diamonds", "quantile", "price"),
    Asked("diamonds", "quantile", "price", at="9/10"),
    Asked("diamonds", "quantile", "carat"),
    Asked("diamonds", "histogram", "price", bins=20),
    Asked("diamonds", "histogram", "cut", bins=5),
    Asked("diabetes", "mean", "bmi"),
    Asked("diabetes", "mean", "target"),
    Asked("diabetes", "count", "bmi", where=(30, 45)),
    Asked("diabetes", "quantile", "bmi"),
    Asked("diabetes", "quantile", "target", at="9/10"),
    Asked("diabetes", "histogram", "bmi", bins=10),
    Asked("diabetes", "histogram", "age", bins=10),
)


def tables() -> dict[str, Table]:
    """Read both tables as a user reads them. Raises SystemExit without plotnine."""
    path = diamonds_file()
    if path is None:
        raise SystemExit("needs plotnine: pip install 'dpverify[data]'")
    patients = load_diabetes(scaled=False)
    rows = np.column_stack([patients.data, patients.target])
    names = [*patients.feature_names, "target"]
    return {
        "diamonds": Table.read_csv(path, columns=COLUMNS["diamonds"]),
        "diabetes": Table(rows, columns=COLUMNS["diabetes"], names=names, name="diabetes"),
    }


def ask(asked: Asked, session: Session) -> Any:
    """Ask a session a question for its whole budget: a number, or the counts of all bins."""
    whole: dict[str, Any] = {"share": 1}
    if asked.kind == "mean":
        return session.mean(asked.column, **whole).value
    if asked.kind == "count":
        return session.count(where={asked.column: asked.where}, **whole).value
    if asked.kind == "quantile":
        return session.quantile(asked.column, asked.at, **whole).value
    bins = None if asked.column == "cut" else asked.bins
    return [float(value) for value in session.histogram(asked.column, bins, **whole).value.values()]


@dataclass(frozen=True)
class Known:
    """A question's column without privacy, and the records and bounds that a peer is given."""

    asked: Asked
    column: Floats

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared bounds; for a category, the bounds of its places."""
        kind = COLUMNS[self.asked.table][self.asked.column]
        return (0.0, len(CUTS) - 1.0) if isinstance(kind, Category) else (kind.low, kind.high)

    def flags(self) -> list[int]:
        """Flag each record that is counted."""
        where = self.asked.where
        if isinstance(where, tuple):
            held = (self.column >= where[0]) & (self.column <= where[1])
        else:
            held = np.isin(self.column, [CUTS.index(value) for value in where])
        return [int(one) for one in held]

    def binned(self) -> list[int]:
        """Return each record's bin."""
        if self.asked.column == "cut":
            return [int(place) for place in self.column]
        low, high = self.bounds
        edges = np.linspace(low, high, self.asked.bins + 1)[1:-1]
        return [int(bin_) for bin_ in np.searchsorted(edges, self.column, side="right")]

    def task(self, adjacency: Adjacency) -> dict[str, Any]:
        """Write down what a peer is asked."""
        given = {"count": self.flags, "histogram": self.binned}
        records = given.get(self.asked.kind, self.column.tolist)()
        numerator, denominator = map(int, self.asked.at.split("/"))
        at = numerator / denominator
        own = {"kind": self.asked.kind, "at": at, "bins": self.asked.bins, "bounds": self.bounds}
        return own | {"adjacency": str(adjacency), "records": records}

    def error(self, answer: Any) -> float:
        """Measure how far an answer is off."""
        if self.asked.kind == "mean":
            return float(abs(answer - self.column.mean()))
        if self.asked.kind == "count":
            return float(abs(answer - sum(self.flags())))
        if self.asked.kind == "histogram":
            truth = np.bincount(self.binned(), minlength=self.asked.bins)
            return float(np.abs(np.maximum(answer, 0) - truth).mean())
        p, q = map(int, self.asked.at.split("/"))
        low, high = self.bounds
        near = (high - low) / NEAR
        below = (self.column < answer - near).mean()
        up_to = (self.column <= answer + near).mean()
        return float(max(0.0, below - p / q, p / q - up_to))


def ratio(ours: Floats, theirs: Floats, rng: np.random.Generator) -> tuple[float, float, float]:
    """Divide our mean error by theirs, with the ends of its 99.9% interval by resampling."""

    def means(errors: Floats) -> Floats:
        drawn = errors[rng.integers(len(errors), size=(RESAMPLES, len(errors)))].mean(axis=1)
        return np.asarray(drawn + 1e-300)

    low, high = np.quantile(means(ours) / means(theirs), [0.0005, 0.9995])
    return float((ours.mean() + 1e-300) / (theirs.mean() + 1e-300)), float(low), float(high)


def asked_of_peers(python: str, task: dict[str, Any]) -> list[dict[str, list[Any]]]:
    """Get the peers' answers by a process in their environment."""
    done = subprocess.run(
        [python, PEERS], input=json.dumps(task), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, list[Any]]] = json.loads(done.stdout)
    return answers


def rows(runs: int, python: str) -> Iterator[tuple[str, ...]]:
    """Make a row for each question and adjacency."""
    data, rng = tables(), np.random.default_rng(7)
    for adjacency in Adjacency:
        known = [Known(asked, data[asked.table].numbers(asked.column)) for asked in QUESTIONS]
        tasks = [one.task(adjacency) for one in known]
        peers = asked_of_peers(python, {"epsilon": 1.0, "runs": runs, "questions": tasks})
        for one, others in zip(known, peers, strict=True):
            ours = _errors(one, [_released(one, data, adjacency, seed) for seed in range(runs)])
            shown = [_shown(ours)]
            for name in ("OpenDP", "diffprivlib"):
                if name not in others:
                    shown += ["-", "-"]
                    continue
                theirs = _errors(one, others[name])
                middle, low, high = ratio(ours, theirs, rng)
                missed = " MISSED" * (low > 1)
                ends = f"[{min(low, 99):.2f}, {min(high, 99):.2f}]"
                shown += [_shown(theirs), f"{min(middle, 99):.2f} {ends}{missed}"]
            yield (str(adjacency), one.asked.table, str(one.asked), *shown)


def _released(one: Known, data: dict[str, Table], adjacency: Adjacency, seed: int) -> Any:
    own = zlib.crc32(f"{adjacency} {one.asked}".encode())
    bits = SeededBits(own + seed)
    session = Session(data[one.asked.table], budget=PureDP(1), adjacency=adjacency, bits=bits)
    return ask(one.asked, session)


def _errors(one: Known, answers: list[Any]) -> Floats:
    error: Callable[[Any], float] = one.error
    return np.array([error(answer) for answer in answers])


def _shown(errors: Floats) -> str:
    return f"{errors.mean():.3g} +- {errors.std(ddof=1) / np.sqrt(len(errors)):.1g}"


HEAD = ("adjacency", "table", "question", "ours", "OpenDP", "ratio", "diffprivlib", "ratio")


def main() -> None:
    """Measure all of it and print it."""
    parser = argparse.ArgumentParser(description="The first day with a table.")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--peers-python", required=True)
    given = parser.parse_args()
    command = f"python -m tests.benchmarks.first_day --runs {given.runs} --peers-python PYTHON"
    header("The first day with a table", command)
    print(f"\n{__doc__}")
    table(HEAD, rows(given.runs, given.peers_python))


if __name__ == "__main__":
    main()
