"""Data a tenth of which are outliers: DH20's experiment, with ``robust_mean`` beside other methods.

Normal records of deviation 1 about (1, ..., 1), of which a tenth is replaced. "mixed" is DH20's
corruption: half of the outliers are uniform on {0, 1}^d, the other half are at (12, -2, 0, ...).
Two kinds are harder. "hidden": outliers moved by 0.9 sqrt(d) in one random direction. "far":
outliers moved by 1e4 in every column.

DH20 is A. Dhar and J. Huang, Designing Differentially Private Estimators in High Dimensions
(2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import (
    Adjacency,
    ApproxDP,
    IterativeMean,
    RefinedMean,
    RobustMean,
    WinsorizedMean,
)
from dpverify.plans import Mechanism
from dpverify.randomness import Bits
from dpverify.rates import (
    Constant,
    Drawn,
    Experiment,
    NotPrivate,
    Order,
    Quick,
    RateFault,
    Reference,
    Refuted,
    noise_times,
)

from .exhibits import _robust

Floats = NDArray[np.float64]
SHARE = 0.1
CORRUPTIONS = ("mixed", "hidden", "far")


def records(n: int, d: int, kind: str, rng: np.random.Generator, share: float = SHARE) -> Floats:
    """Draw normal records with outliers of this kind, shape (n, d); "clean" means no outliers."""
    return corrupted(rng.normal(1.0, 1.0, (n, d)), kind, rng, share)


def corrupted(clean: Floats, kind: str, rng: np.random.Generator, share: float = SHARE) -> Floats:
    """Return a copy of the records in which the first tenth (or ``share``) are outliers."""
    rows, (n, d) = clean.copy(), clean.shape
    k = round(share * n)
    if kind == "mixed":
        rows[: k // 2] = rng.integers(0, 2, (k // 2, d))
        rows[k // 2 : k] = [12, -2, *[0] * (d - 2)]
    elif kind == "hidden":
        along = rng.normal(size=d)
        rows[:k] += 0.9 * math.sqrt(d) * along / np.linalg.norm(along)
    elif kind == "far":
        rows[:k] += 1e4
    return rows


# --- the experiment -----------------------------------------------------------------------------

BUDGET, ADJACENCY, WIDEST = ApproxDP(1, "1e-6"), Adjacency.REPLACE, 100.0
SIZES, DIMENSIONS = (100, 1000, 10_000), (100, 200, 300, 400)
Setting = Mapping[str, Any]


def _panel(kind: str, n: int) -> str:
    return f"{kind}, n = {n}"


def _draw(setting: Setting, rng: np.random.Generator) -> Drawn:
    """Draw the data; the truth is the error of the mean of the records before corruption."""
    clean = rng.normal(1.0, 1.0, (setting["n"], setting["d"]))
    off = float(np.linalg.norm(clean.mean(axis=0) - 1))
    return Drawn(corrupted(clean, setting["kind"], rng), off)


def _excess(value: Any, clean: float) -> float:
    """Return how much farther the value is from (1, ..., 1) than the mean of the clean records."""
    return float(np.linalg.norm(np.asarray(value) - 1)) - clean


def _made(kind: type[Mechanism[Any]], own: Callable[[int, int], Mapping[str, Any]]) -> Any:
    """Build the mechanism's constructor for a setting; ``own`` maps n and d to its parameters."""

    def make(setting: Setting) -> Mechanism[Any]:
        given = own(setting["n"], setting["d"])
        return kind.calibrated_for(BUDGET, adjacency=ADJACENCY, **given)

    return make


def _filtered(gamma: Callable[[int], float]) -> Refuted:
    """Run the coded filter and add Gaussian noise, as the exhibits do: epsilon = 1, tau = 1 / n.

    ``gamma`` maps n to the corrupt share.
    """

    def value(setting: Setting, data: Floats, bits: Bits) -> Floats:
        cells = _robust.released(data, 1, bits, _robust.as_coded, gamma(len(data)))
        return np.asarray(cells[0] / _robust.CELL)

    return Refuted(value)


METHODS = {
    "mean": NotPrivate(lambda setting, data: data.mean(axis=0)),
    "zero": Constant(lambda setting: np.zeros(setting["d"])),
    "robust": _made(RobustMean, lambda n, d: {"deviations": (1.0,) * d, "n_max": n}),
    "refined": _made(RefinedMean, lambda n, d: {"covariance": (1.0,) * d, "n_max": n}),
    "winsorized": _made(
        WinsorizedMean,
        lambda n, d: {"lower": (-WIDEST,) * d, "upper": (WIDEST,) * d, "clipped": f"1/{n}"},
    ),
    "iterative": _made(
        IterativeMean, lambda n, d: {"center": (0.0,) * d, "radius": WIDEST * math.sqrt(d)}
    ),
    "algorithm 1": _filtered(lambda n: SHARE),
    "algorithm 2": _filtered(lambda n: 1 / n),
}
"""``RobustMean`` and ``RefinedMean`` are told the deviations, the two others that means are
within 100 of 0. The algorithms are DH20's."""

# (n, d): error of Algorithm 1, of Algorithm 2, of the mean of the records as they were.
_VECTORS = {
    (100, 100): (203, 34.3, 1.08),
    (100, 200): (305, 49.4, 1.487),
    (100, 400): (418, 70.6, 2.071),
    (1000, 100): (254, 13.3, 0.333),
    (1000, 200): (345.5, 17.7, 0.465),
    (1000, 400): (500, 25.0, 0.662),
    (10_000, 100): (308, 7.29, 0.102),
    (10_000, 200): (409, 8.85, 0.137),
    (10_000, 400): (556, 15.5, 0.207),
}
_PRINTED = {  # as the files print it: spectral norms, with a d x d matrix of noise
    (100, 100): (402.6, 84.8),
    (100, 200): (584.1, 135),
    (100, 400): (821.9, 254.5),
    (1000, 100): (491.9, 63.4),
    (1000, 200): (710.4, 134.4),
    (1000, 400): (1002, 204.7),
    (10_000, 100): (568.1, 65.5),
    (10_000, 200): (820.1, 95.2),
    (10_000, 400): (1145, 273.5),
}
_RUN = (
    "medians of 5 (n = 100), 3 (n = 1000) and 1 (n = 10000) runs of DH20's MATLAB files, "
    "unchanged, under GNU Octave 7.3, with eps = 1, tau = 1 / n and C = 0.5"
)


def _reference(algorithm: int, errors: Mapping[tuple[int, int], Any], how: str) -> Reference:
    """Give the published excess error in each panel of DH20's own corruption."""
    numbers = {
        _panel("mixed", n): {
            d: errors[n, d][algorithm - 1] - _VECTORS[n, d][2] for m, d in errors if m == n
        }
        for n in SIZES
    }
    return Reference(numbers, f"DH20, Algorithm {algorithm}, {how}: {_RUN}")


_VECTOR, _MATRIX = "with a vector of noise", "as printed: a matrix of noise, and spectral norms"
REFERENCES = {
    "paper 1": _reference(1, _VECTORS, _VECTOR),
    "paper 2": _reference(2, _VECTORS, _VECTOR),
    "printed 1": _reference(1, _PRINTED, _MATRIX),
    "printed 2": _reference(2, _PRINTED, _MATRIX),
}


def _order(better: str, worse: str, faulty: str, fault: RateFault, cells: Any) -> Order:
    """Claim which method is better; ``cells`` lists (kind, n, the dimensions)."""
    where = {_panel(kind, n): d for kind, n, d in cells}
    return Order(better=better, worse=worse, where=where, faulty=faulty, fault=fault)


_LARGE = tuple((kind, 10_000, DIMENSIONS) for kind in CORRUPTIONS)
_ALL = tuple((kind, 1000, DIMENSIONS) for kind in CORRUPTIONS) + _LARGE
_FEW = tuple((kind, 100, DIMENSIONS) for kind in CORRUPTIONS)
_PAPER = (100, 200, 400)
_MORE, _LESS = noise_times(Fraction(10)), noise_times(Fraction(1, 1000))
_ORDERS = (
    _order(
        "robust", "zero", "robust", _MORE,
        (("mixed", 1000, DIMENSIONS), ("hidden", 1000, (100, 200, 300)),
         ("far", 1000, (100, 200, 300)), *_LARGE),
    ),
    _order("robust", "iterative", "robust", _MORE, _ALL),
    _order("robust", "winsorized", "winsorized", _LESS, _ALL),
    _order(
        "robust", "refined", "robust", _MORE,
        (("far", 1000, DIMENSIONS), ("mixed", 10_000, (200, 300, 400))),
    ),
    _order("robust", "paper 2", "robust", _MORE, [("mixed", n, _PAPER) for n in (1000, 10_000)]),
    _order("robust", "algorithm 2", "robust", _MORE, (("mixed", 1000, DIMENSIONS), *_LARGE)),
    _order("zero", "iterative", "iterative", _LESS, _FEW),
    _order("zero", "winsorized", "winsorized", _LESS, _FEW),
)  # fmt: skip

DH20 = Experiment(
    name="dh20",
    methods=METHODS,
    panels={_panel(kind, n): {"n": n, "kind": kind} for n, kind in product(SIZES, CORRUPTIONS)},
    variable="d",
    values=DIMENSIONS,
    draw=_draw,
    error=_excess,
    guarantee=BUDGET,
    adjacency=ADJACENCY,
    references=REFERENCES,
    orders=_ORDERS,
    quick=Quick(
        panels=[_panel("mixed", 100), _panel("mixed", 1000)],
        values=(100, 200),
        methods=("mean", "zero", "robust", "iterative"),
    ),
    source="DH20, Figures 1 to 3: excess L2 error against the dimension",
)
