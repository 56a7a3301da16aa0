"""Attacks on ``partitioned_product``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, GaussianDP, PartitionedProduct
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import OneUnit, Records
from dpverify.grid.orthants import BitSums
from dpverify.plans import Blocks, Plan, Stage
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._faulty_vectors import Faulty
from ._traced import traced_bits

REPLACE = Adjacency.REPLACE
_FIRST, _ROUND, _LAST = (f"blocks/{k}/sums" for k in range(3))

# --- planted faults -----------------------------------------------------------------------------


def _changed(mechanism: PartitionedProduct, change: Callable[[Stage], Stage], *names: str) -> Plan:
    return with_stages(mechanism.fixed_plan, lambda s: change(s) if s.name in names else s)


def _one_vector(mechanism: PartitionedProduct) -> Fault:
    """Add noise for R, where replacing one vector by another moves the sum by sqrt(2) R."""
    plan = _changed(mechanism, lambda s: rescaled_stage(s, Fraction(70, 99)), _FIRST, _ROUND, _LAST)
    return plan_fault("takes the length of one vector", mechanism, plan)


def _centered(mechanism: PartitionedProduct) -> Fault:
    """Count bits up or down by vectors as long as the radius, whose opposites are two radii
    apart, not sqrt(2)."""

    def change(stage: Stage) -> Stage:
        assert isinstance(stage.query, OneUnit)
        sums = stage.query.query
        assert isinstance(sums, BitSums)
        one = isqrt(sums.radius**2 // sums.columns)

        def value(records: Records) -> list[int]:
            ones = (records > 0.5).sum(axis=0)
            return [int(one * (2 * k - len(records))) for k in ones]

        wrong = dataclasses.replace(stage.query, query=Faulty(sums, value))
        return dataclasses.replace(stage, query=wrong)

    plan = _changed(mechanism, change, _LAST)
    return plan_fault("takes centered vectors for those of an orthant", mechanism, plan)


@dataclasses.dataclass(frozen=True, slots=True)
class _Overlapping:
    """Blocks by position, rotated if the first record's first bit is one: planted."""

    by: ClassVar[Literal["index"]] = "index"
    blocks: int

    def labels(self, records: Records) -> NDArray[np.int64]:
        """Label records by position and by the first record's first bit."""
        labels = np.arange(len(records)) % self.blocks
        if len(records) and records[0, 0] > 0.5:
            labels = (labels + 1) % self.blocks
        return np.asarray(labels, np.int64)


def _rotated(mechanism: PartitionedProduct) -> Fault:
    """Let the first record's first bit decide where the blocks begin, so that replacing it moves
    all of them."""

    def rotated(element: Any) -> Any:
        if not isinstance(element, Blocks):
            return element
        return dataclasses.replace(element, split=_Overlapping(element.split.blocks))

    plan = tuple(map(rotated, mechanism.fixed_plan))
    return plan_fault("takes blocks that a record decides", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_ZEROS, _ONES, _APART = (0.0, 0.0), (_FAR, 1.0), ((1.0, 0.0), (0.0, 1.0))


def _pairs() -> tuple[NeighboringPair, ...]:
    """List pairs of three records, one a block: for each block a pair that moves it by as much
    as two records can in half of all draws."""
    return (
        replaced("all bits, in the first block", [_ONES, _ZEROS, _ZEROS], _ZEROS),
        replaced("one bit for another in the round", [_ZEROS, _APART[0], _ZEROS], _APART[1], at=1),
        replaced("one bit for another at the end", [_ZEROS, _ZEROS, _APART[0]], _APART[1], at=2),
        replaced("all bits, at the end", [_ZEROS, _ZEROS, _ZEROS], _ONES, at=2),
        replaced("a first bit, the others apart", [_APART[0], _APART[1], _APART[0]], _ZEROS),
        replaced("a NaN", [(_NAN, 0.0), _ONES, _ONES], (1.0, 1.0)),
    )


# Published radii for such a failure and one record a block are one bit long, so that noise is no
# larger than it has to be.
_MECHANISM = PartitionedProduct.for_budget(
    GaussianDP("3/2"), adjacency=REPLACE, d=2, failure="999/1000", at_least=1, nonfinite="replace"
)

_TRACED = PartitionedProduct.for_budget(ApproxDP(1, "1e-6"), adjacency=REPLACE, d=250, at_least=1)

CONFIGURATIONS = (
    traced_bits(
        Configuration(
            name="three-records",
            mechanism=_MECHANISM,
            pairs=_pairs(),
            faults=[fault(_MECHANISM) for fault in (_one_vector, _centered, _rotated)],
            quick_trials=20_000,
        ),
        _TRACED,
        n=50,
        columns=250,
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(multiplier: str, **parameters: Any) -> PartitionedProduct:
    own: dict[str, Any] = {"d": 2, "at_least": 1}
    return PartitionedProduct(
        adjacency=REPLACE, noise_multiplier=Fraction(multiplier), **own | parameters
    )


_ROWS: Any = ((0.0, 1.0), (0.0, 0.5), (0.0, 1.0), (0.0, 0.75), (1e-9, -3.0))
_WIDE: Any = [[float((k * j) % 7 == 0) for j in range(1, 10)] for k in range(40)]

SMALL = (
    SmallInstance(name="five records", mechanism=_small("1/1000"), data=_ROWS),
    SmallInstance(
        name="nine columns, followed",
        mechanism=_small("1/20", d=9, failure="1/3"),
        data=_WIDE,
        followed=12,
    ),
    SmallInstance(
        name="one column, followed",
        mechanism=_small("1/2", d=1),
        data=((1.0,), (0.0,), (1.0,)),
        followed=12,
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _even(setting: Mapping[str, Any]) -> PartitionedProduct:
    return PartitionedProduct(
        adjacency=REPLACE,
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        d=setting["d"],
    )


def _of_round(mechanism: Any, data: Any) -> Any:
    """Return the shares in the block of the first round, which settles all bits that are about
    as likely as not."""
    return (data[1 :: mechanism.blocks] > 0.5).mean(axis=0)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error for bits of probability 1/2: signs of normal numbers about 1/2."""
    return RateClaim(
        name=name,
        mechanism=_even,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 0.5, "deviation": 1.0}),
        curve=Curve(function="noise_error", arguments=("parameters", "n")),
        target=Empirical(_of_round),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="KLSU19, private product distribution estimator",
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (4000, 8000, 16_000),
        setting={"d": 8, "noise_multiplier": 1},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=400,
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (1, 2, 4),
        setting={"n": 20_000, "d": 8},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=400,
    ),
)
