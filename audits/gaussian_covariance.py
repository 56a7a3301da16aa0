"""Attacks on ``gaussian_covariance``.

Each configuration gives most of mu^2 to few stages, which its generic faults attack; the rounds
of signs are attacked where ``sign_covariance`` is. Many equal records make the stages that are
not attacked nearly certain, so that few transcripts lead to different maps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, GaussianCovariance
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.normal_fits import fitted
from dpverify.estimation.sign_rounds import RADIUS, START_BITS, start
from dpverify.estimation.whitened import FINE
from dpverify.estimation.whitening import FARTHEST, octave_of
from dpverify.grid import OneUnit, Records, Released, View
from dpverify.grid.linear import Integers, squared_norms
from dpverify.grid.outer_products import LengthSides, SecondMoments
from dpverify.grid.vectors import to_cells
from dpverify.plans import NoNoise, Stage
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from ._faulty_vectors import Faulty

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Planted = Callable[[GaussianCovariance], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _changed(name: str, change: Callable[[Any], Any], *, planted: str) -> Planted:
    """Plant another query at one stage."""

    def fault(mechanism: GaussianCovariance) -> Fault:
        def changed(stage: Stage) -> Stage:
            if stage.name != name:
                return stage
            assert isinstance(stage.query, OneUnit)
            query = dataclasses.replace(stage.query, query=change(stage.query.query))
            return dataclasses.replace(stage, query=query)

        return plan_fault(planted, mechanism, with_stages(mechanism.fixed_plan, changed))

    return fault


def _scaled(name: str, factor: Fraction, *, planted: str) -> Planted:
    """Multiply the noise of one stage by ``factor``."""

    def fault(mechanism: GaussianCovariance) -> Fault:
        def changed(stage: Stage) -> Stage:
            return rescaled_stage(stage, factor) if stage.name == name else stage

        return plan_fault(planted, mechanism, with_stages(mechanism.fixed_plan, changed))

    return fault


def _after(query: Any, records: Records, number: int) -> list[int]:
    """Evaluate the query after the first map, with this reach or threshold."""
    rows = np.array([[*start(query.rows), number]])
    public = Released((), lambda before: (rows, np.zeros(1, np.intp)))
    own = dataclasses.replace(query, maps=public, moved=False)
    values: list[int] = own.evaluate(View(records)).tolist()
    return values


def _lengths(query: Any, records: Records) -> list[int]:
    """Sort the squared lengths of the images under the first map, limited to the farthest reach."""
    cells: Integers = to_cells(records, query.exponent, query.center)
    squares = squared_norms(cells).tolist()
    return sorted(min(int(one) << (2 * START_BITS), FARTHEST**2) for one in squares)


def _exact_scale(query: SecondMoments) -> Faulty:
    """Clip to twice the exact median length, which one more record may move to another length."""

    def value(records: Records) -> list[int]:
        squares = _lengths(query, records)
        middle = squares[(len(squares) - 1) // 2] if squares else 1
        return _after(query, records, max(1, 2 * round(middle**0.5)))

    return Faulty(query, value)


def _exact_moments(query: LengthSides) -> Faulty:
    """Choose the ellipsoid by the exact moments, which one outlier makes larger than all equal
    records."""

    def value(records: Records) -> list[int]:
        squares = _lengths(query, records)
        mean = sum(min(one, 16 * squares[0]) for one in squares) / max(len(squares), 1)
        return _after(query, records, round(mean**0.5))

    return Faulty(query, value)


def _exact_number(mechanism: GaussianCovariance) -> Fault:
    """Compare the exact number of records with the least, so that abstaining reveals it."""
    value = Faulty(_sides(mechanism), lambda records: [len(records) >= mechanism.least()])
    plan = (Stage("exact", value, NoNoise()), *mechanism.fixed_plan)
    return plan_fault("compares with the exact number", mechanism, plan)


def _sides(mechanism: GaussianCovariance) -> LengthSides:
    """Return a query with one value."""
    stage = mechanism.fixed_plan[-1]
    assert isinstance(stage, Stage)
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, LengthSides)
    return stage.query.query


_FREE_NUMBER = _changed(
    "moments",
    lambda query: dataclasses.replace(query, weight=RADIUS**2),
    planted="does not pay for the number",
)
_EXACT_SCALE = _changed("moments", _exact_scale, planted="clips to the exact median")
_EXACT_MOMENTS = _changed("beyond", _exact_moments, planted="counts beyond the exact moments")
_ONE_OUTER_PRODUCT = _scaled("moments", Fraction(70, 99), planted="pays for one outer product")
_LESS_FOR_THE_COUNT = [
    _scaled("count", Fraction(7, 10), planted="count: scale x 0.7"),
    _scaled("count", Fraction(1, 1000), planted="count: hardly any noise"),
]  # generic ones are not all visible: of all records, half in even places are half
_ONE_END = _scaled("mean", Fraction(1, 2), planted="pays for one end of the ball")

# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_EQUAL = [(64.0, 0.0), (0.0, 64.0)] * 550
_LINE = [(64.0, 64.0), (512.0, 512.0)] * 550


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs about (0, 0): a far record on an axis moves every stage as far as any record
    can."""
    return (
        added("a record on an axis", _EQUAL, (_FAR, 0.0)),
        added("across a line, farther than half of all", _LINE, (_FAR, -_FAR)),
        added("around the least number", _EQUAL[:949], (0.0, _FAR), at=949),
    )


_AROUND = [(1.0 + x, -3.0 + y) for x, y in [(64, 0), (-64, 0), (0, 64), (0, -64)]] * 275
_OUT = [(_FAR, -3.0), *_AROUND]


def _opposite() -> tuple[NeighboringPair, ...]:
    """List pairs about (1, -3) that move a mean most."""
    return (
        replaced("the opposite record", _OUT, (-_FAR, -3.0)),
        replaced("an outlier by the center", _OUT, (1.0, -3.0)),
        replaced("a NaN", _AROUND, (_NAN, 0.0), at=4),
    )


def _orthogonal() -> tuple[NeighboringPair, ...]:
    """List pairs about (1, -3) that move second moments most."""
    return (
        replaced("one axis for another", _OUT, (1.0, _FAR)),
        replaced("a NaN", _OUT, (_NAN, 0.0)),
        replaced("within a cell", [(-0.0, -3.0), *_AROUND], (_TINY, -3.0 + 2.0**-40)),
    )


def _masked(mechanism: GaussianCovariance) -> tuple[NeighboringPair, ...]:
    """List pairs at the ball's edge: a record there counts as much as any; one beyond it is left
    out of the moments."""
    edge = 64.0 * mechanism.whitened().bound(octave_of(1101)) ** 0.5
    inside = float(int(edge))
    return (
        added("a record at the edge", _EQUAL, (inside, 0.0)),
        added("a record beyond it", _EQUAL, (0.0, inside + 1)),
        added("nobody against somebody", np.zeros((0, 2)), (inside, 0.0)),
        added("around the least number", _EQUAL[:949], (0.0, -inside)),
    )


def _made(adjacency: Adjacency, **parameters: Any) -> GaussianCovariance:
    """Build the mechanism for two columns, a cell of 1, one step, and matrices to a quarter of
    their trace."""
    coarse: dict[str, Any] = {"cell": 1, "rounds": 1, "precision": 2, "scale_steps": 1}
    return GaussianCovariance(
        adjacency=adjacency,
        noise_multiplier=Fraction(1, 2),
        nonfinite="replace",
        at_least=950,
        **{"center": (0.0, 0.0), **coarse, **parameters},
    )


def _attacked(
    name: str,
    mechanism: GaussianCovariance,
    which: Sequence[str],
    pairs: Sequence[NeighboringPair],
    *faults: Planted,
) -> Configuration:
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset(which),
        quick_trials=12_000,
    )


_SHARE = Fraction(1, 50)
_KNOWN = _made(ADD, rounds_share=_SHARE, scale_share="8/25", check_share="8/25")
_MEAN = _made(
    REPLACE,
    center=(1.0, -3.0),
    scale=64,
    rounds_share=_SHARE,
    scale_share=_SHARE,
    check_share=_SHARE,
    mean_share="9/10",
)
_MOMENTS = dataclasses.replace(_MEAN, mean_share=_SHARE)
_MASK = _made(
    ADD, rounds=0, largest=64, outside="mask", scale_share=Fraction(12, 25), check_share=_SHARE
)
_ROUNDS = _made(
    REPLACE,
    center=(1.0, -3.0),
    method="spectral",
    kappa=100,
    largest=64,
    rounds_share="9/10",
    scale_share=_SHARE,
    check_share=_SHARE,
)

CONFIGURATIONS = (
    _attacked(
        "known-center",
        _KNOWN,
        ("length 1", "moments", "beyond"),
        _added(),
        _FREE_NUMBER,
        _EXACT_SCALE,
        _EXACT_MOMENTS,
        _exact_number,
    ),
    _attacked("mean", _MEAN, ("mean",), _opposite(), _ONE_END),
    _attacked("mask", _MASK, ("moments",), _masked(_MASK), _FREE_NUMBER, *_LESS_FOR_THE_COUNT),
    _attacked("second-moments", _ROUNDS, ("round 1",), _orthogonal()),
    _attacked("unknown-center", _MOMENTS, ("moments",), _orthogonal(), _ONE_OUTER_PRODUCT),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, **parameters: Any) -> GaussianCovariance:
    own: dict[str, Any] = {"center": (0.0, 0.0), "cell": 2**-6, "rounds": 1, "scale_steps": 1}
    return GaussianCovariance(
        adjacency=adjacency,
        noise_multiplier=Fraction(multiplier),
        at_least=1,
        **own | parameters,
    )


_PLANE: Any = ((0.3, 0.5), (100.0, -7.0), (0.0, 0.0))

# Of few numbers: every one of them has three outcomes here.
SMALL = (
    SmallInstance(
        name="no rounds, replace", mechanism=_small(REPLACE, "1/100", rounds=0), data=_PLANE
    ),
    SmallInstance(
        name="mask and largest",
        mechanism=_small(ADD, "1/100", rounds=0, largest=1, outside="mask"),
        data=_PLANE,
    ),
    SmallInstance(
        name="one column, nobody",
        mechanism=_small(ADD, "3/2", center=(0.0,)),
        data=(),
    ),
    *(
        SmallInstance(
            name=f"{adjacency}, an unknown center, followed",
            mechanism=_small(
                adjacency, "1/20", scale=1, center=(0.25, -1.0), mean_share="1/10", rounds=2
            ),
            data=[(0.3 * (k % 5), 100.0 - 7 * (k % 9)) for k in range(40)],
            followed=6,
        )
        for adjacency in Adjacency
    ),
    *(
        SmallInstance(
            name=f"{method}, {adjacency}, followed",
            mechanism=_small(
                adjacency, "1/20", rounds=3, method=method, kappa=400, largest=32.0, scale_steps=2
            ),
            data=[(0.3 * (k % 5) - 0.5, 10.0 - 7 * (k % 4)) for k in range(400)],
            followed=4,
        )
        for method in ("spectral", "recursive")
        for adjacency in Adjacency
    ),
    SmallInstance(
        name="a known center and a certificate, followed",
        mechanism=_small(ADD, "1/20", certify="1/10", rounds=2, scale_steps=6),
        data=[(0.3 * (k % 5) - 0.5, 10.0 - 7 * (k % 4)) for k in range(40)],
        followed=6,
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _normal(setting: Mapping[str, Any]) -> GaussianCovariance:
    """Build the mechanism: with a public deviation if there are no rounds, and without one
    otherwise."""
    rounds = setting["rounds"]
    return GaussianCovariance(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * setting["d"],
        cell=2**-8,
        rounds=rounds,
        largest=None if rounds else 1.0,
        scale_steps=8,
    )


def _apart(estimate: Any, truth: Any) -> float:
    """Measure the Frobenius norm of the error after mapping the truth to the identity."""
    return float(np.linalg.norm(np.linalg.solve(truth, estimate.value) - np.eye(len(truth))))


def _without_noise(mechanism: Any, data: Any) -> Any:
    """Fit the normal law to the exact moments of records clipped where the mechanism clips them."""
    d, square = mechanism.columns(), mechanism.whitened().bound(octave_of(len(data)))
    kept = data / np.maximum(1, np.linalg.norm(data, axis=1, keepdims=True) / square**0.5)
    moments = kept.T @ kept / (len(data) * square)
    entries = np.ldexp(np.r_[np.diag(moments), moments[np.triu_indices(d, 1)]], FINE)
    fit = fitted(tuple(np.rint(entries).astype(int).tolist()), d, FINE, 0.0, "clip")
    return square * fit.factor @ fit.factor.T if fit else np.eye(d)


def _rate(
    name: str, variable: str, values: tuple[Any, ...], curve: str, **claimed: Any
) -> RateClaim:
    """Claim the error for standard normal records about a public center."""
    return RateClaim(
        name=name,
        mechanism=_normal,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 0.0, "deviation": 1.0}),
        error=_apart,
        curve=Curve(function=curve, arguments=("parameters", "n")),
        source="OURS, private signs in rounds, then clipped moments; BDKU20",
        fewest=50,  # lengths of 3 to 36 nearly normal numbers
        **claimed,
    )


_IDENTITY = Population(lambda mechanism, setting: np.eye(setting["d"]))
_LOWER = Curve(function="lower_bound", arguments=("parameters", "n"))

# The ball grows with n, so noise falls a little more slowly than 1 / n.
RATES = (
    _rate(
        "noise-against-n",
        "n",
        (2000, 8000, 32_000),
        "noise_error",
        target=Empirical(_without_noise),
        setting={"d": 3, "noise_multiplier": 3, "adjacency": ADD, "rounds": 0},
        exponent=Exponent(value=-0.94, tolerance=0.1),
        repeats=300,
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        (2, 4, 8),
        "expected_error",
        target=_IDENTITY,
        setting={"d": 8, "n": 3000, "adjacency": REPLACE, "rounds": 1},
        lower=_LOWER,
        repeats=200,
    ),
    _rate(
        "error-against-d",
        "d",
        (2, 4, 8),
        "expected_error",
        target=_IDENTITY,
        setting={"n": 2000, "noise_multiplier": 6, "adjacency": REPLACE, "rounds": 0},
        lower=_LOWER,
        repeats=200,
    ),
)
