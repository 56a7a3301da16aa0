"""Planted faults: what an audit must be able to see before its silence means anything.

The generic ones apply to every stage of every plan. A faulty mechanism runs a changed plan under the
original claim.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.audit.kept import KeptPart
from dpverify.audit.opening import Opening
from dpverify.grid import Count, Query, Records, ingest
from dpverify.plans import (
    AdaptiveStage,
    Filtered,
    Gate,
    Mechanism,
    NoNoise,
    Plan,
    Stage,
    Transcripts,
)
from dpverify.plans.law import Law
from dpverify.plans.moving import MovingQuery
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.plan import Element, is_closed, rescaled_stage, stages_of, with_stages
from dpverify.plans.transcripts import Rows
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray

Subject = Mechanism[Any] | KeptPart | Opening
"""Whose plan is known."""
QUICK_FACTORS = (Fraction(7, 10), Fraction(1, 2))
THOROUGH_FACTORS = (Fraction(19, 20), *QUICK_FACTORS)
"""The 5% deficit is planted where the whole law is closed: there the best event is known."""
_VISIBLE = Fraction(19, 20)  # what is nearer to 1 no number of draws sees
_OTHER = "the other adjacency's sensitivity"
_SHARES_OF_NOISE = frozenset((*(f"scale x {float(f):g}" for f in THOROUGH_FACTORS), _OTHER))


@dataclass(frozen=True, slots=True)
class Fault:
    """A named defect; ``law(data)`` is what the defective mechanism would do."""

    name: str
    law: Callable[[ArrayLike], Any]


def generic_faults(
    mechanism: Subject, *, thorough: bool = False, elsewhere: Collection[str] = ()
) -> list[Fault]:
    """Every generic fault that applies to a stage or a gate of this mechanism's plan.

    What runs behind a filter is attacked apart, for friendly neighbors (``KeptPart``). elsewhere: stages
    whose missing shares of noise are planted apart (``Opening``).
    """
    plan = mechanism.fixed_plan
    in_the_open = tuple(e for e in plan if not _is_filtered(e))
    stages = stages_of(in_the_open)
    factors = THOROUGH_FACTORS if thorough and is_closed(plan) else QUICK_FACTORS
    found: list[Fault] = []
    for stage in stages:
        apart = stage.name in elsewhere
        for name, changed in _stage_faults(stage, mechanism, factors):
            if apart and name in _SHARES_OF_NOISE:
                continue
            swapped = _swap(plan, stage.name, changed)
            found.append(Fault(f"{stage.name}: {name}", _law_of(mechanism, swapped)))
        if stage in plan and _reusable(stage, stages[0], mechanism):
            source = stages[0].name
            reuse = _law_of(mechanism, plan, ReusedNoiseLaw, source=source, target=stage.name)
            if stage.name == source or type(stages[0].noise) is type(stage.noise):
                found.append(Fault(f"{stage.name}: noise reused from {source}", reuse))
    for gate in (element for element in in_the_open if isinstance(element, Gate)):
        if _noisy(next(stage for stage in stages if stage.name == gate.stage)):
            law = _law_of(mechanism, plan, ExactGateLaw)
            found.append(Fault(f"gate on {gate.stage}: reads the exact value", law))
    return found


def _is_filtered(element: Element) -> bool:
    shown = element.declared if isinstance(element, AdaptiveStage) else element
    return isinstance(shown, Filtered)


def _reusable(stage: Stage, first: Stage, mechanism: Subject) -> bool:
    return _noisy(stage) and (stage is not first or _width(stage.query, mechanism) > 1)


def deficit(mechanism: Subject, share: Fraction) -> Fault:
    """Every stage with this share of its noise missing: its scale times 1 - share."""
    plan = with_stages(mechanism.fixed_plan, _rescale(1 - share))
    return Fault(f"{float(share):.0%} less noise in every stage", _law_of(mechanism, plan))


def _stage_faults(
    stage: Stage, mechanism: Subject, factors: tuple[Fraction, ...]
) -> Iterator[tuple[str, Callable[[Stage], Stage]]]:
    for factor in factors:
        if stage.noise.rescaled(factor) is not None:
            yield f"scale x {float(factor):g}", _rescale(factor)
    if _noisy(stage):
        yield "noise dropped", lambda s: dataclasses.replace(s, noise=s.noise.dropped())
    if stage.query.unclipped() is not None:
        yield "clipping dropped", _unclip
    ratio = _other_sensitivity(stage, mechanism)
    if ratio is not None and 0 < ratio < _VISIBLE:
        yield _OTHER, _rescale(ratio)
    if mechanism.adjacency is Adjacency.ADD_REMOVE and _order_could_matter(stage.query, mechanism):
        yield "order dependence", lambda s: dataclasses.replace(s, query=Alternating(s.query))


def _rescale(factor: Fraction) -> Callable[[Stage], Stage]:
    return lambda stage: rescaled_stage(stage, factor)


def _unclip(stage: Stage) -> Stage:
    query = stage.query.unclipped()
    return stage if query is None else dataclasses.replace(stage, query=query)


def _other_sensitivity(stage: Stage, mechanism: Subject) -> Fraction | None:
    """The sensitivity under the other adjacency, relative to the right one; None if undefined."""
    if not isinstance(mechanism.adjacency, Adjacency):  # friendly neighbors: there is no other
        return None
    (other,) = set(Adjacency) - {mechanism.adjacency}
    own = stage.query.sensitivity(mechanism.adjacency, mechanism.domain).conclusion
    try:
        wrong = stage.query.sensitivity(other, mechanism.domain).conclusion.value
    except ValueError:
        return None
    if not own.value:
        return None
    ratio = wrong / own.value
    if own.norm is Norm.SQUARED_L2:
        ratio = Fraction(math.isqrt(math.floor(ratio * 4**30)), 2**30)
    return ratio


def _noisy(stage: Stage) -> bool:
    return not isinstance(stage.noise, NoNoise)


def _scale(stage: Stage) -> Fraction:
    return Fraction(getattr(stage.noise, "scale", 1))


def _width(query: Query, mechanism: Subject) -> int:
    """How many numbers it has for a dataset of three records."""
    if isinstance(query, MovingQuery):
        return query.width
    return len(query.evaluate(np.zeros((3, mechanism.columns()))))


def _order_could_matter(query: Query, mechanism: Subject) -> bool:
    """Not for a list of answers, one a record (there it does in any case), nor for a table; nor for what
    has a value after a transcript only."""
    if isinstance(query, MovingQuery):
        return False
    fewer = query.evaluate(np.zeros((2, mechanism.columns())))
    return fewer.ndim == 1 and _width(query, mechanism) == len(fewer) and query != Count()


def _swap(plan: Plan, name: str, change: Callable[[Stage], Stage]) -> Plan:
    """The plan with one stage changed, as declared and as built."""
    return with_stages(plan, lambda stage: change(stage) if stage.name == name else stage)


def _law_of(
    mechanism: Subject, plan: Plan, kind: type[Law] | None = None, **options: Any
) -> Callable[[ArrayLike], Law]:
    def law(data: ArrayLike) -> Law:
        records = ingest(data, mechanism.domain)
        return (kind or UncheckedLaw)(
            plan, records, mechanism.adjacency, mechanism.domain, **options
        )

    return law


@dataclass(frozen=True, slots=True)
class Alternating(Query):
    """A query that counts records in even places and discounts those in odd ones."""

    base: Query

    def evaluate(self, records: Records) -> NDArray[np.int64]:
        """base(records 0, 2, 4, ...) - base(records 1, 3, 5, ...)."""
        difference: NDArray[np.int64] = self.base.evaluate(records[::2]) - self.base.evaluate(
            records[1::2]
        )
        return difference

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """It has none: one record shifts all that follow."""
        return _no_sensitivity()


def _no_sensitivity() -> NoReturn:
    raise ValueError("an order-dependent query has no bounded sensitivity under add-remove")


class UncheckedLaw(Law):
    """Of a changed plan: a stage that is built need not keep what was promised."""

    def _check_built(self, declared: Any, built: Any, adjacency: Any) -> None:
        """Nothing: it is known to be faulty."""


class ExactGateLaw(UncheckedLaw):
    """Gates decide on the exact query value instead of the released one."""

    def passes(self, gate: Gate, batch: Transcripts, live: Rows) -> NDArray[np.bool_]:
        """All or none."""
        stage = next(s for s in stages_of(self._plan) if s.name == gate.stage)
        exact = np.atleast_2d(self._centers_of(stage, None, batch, live))[:, 0]
        return np.broadcast_to(np.asarray(exact >= gate.at_least, np.bool_), len(live)).copy()


class ReusedNoiseLaw(UncheckedLaw):
    """Stage ``target`` takes the noise that stage ``source`` drew, in proportion to their scales.

    For one stage of several numbers (source is target) all of them take the first one's noise.
    """

    def __init__(self, *world: Any, source: str, target: str) -> None:
        super().__init__(*world)
        self._source, self._target = self._named(source), self._named(target)

    def sample(self, bits: Bits, size: int) -> Transcripts:
        """The plan's transcripts with the target overwritten."""
        batch = super().sample(bits, size)
        if self._target.name in batch.values:
            rows = self._done(batch)
            batch.values[self._target.name][rows] = self._forced(batch, rows)
        return batch

    def log_likelihood(self, batch: Transcripts) -> LogProbabilities:
        """-inf where the target does not follow from the source's noise."""
        likelihood = super().log_likelihood(batch)
        if self._target.name not in batch.values:
            return likelihood
        done = self._done(batch)
        released = batch.values[self._target.name][done]
        center = self._centers_of(self._target, None, batch, done)
        likelihood[done] -= self._target.noise.log_probability(released, center)
        if self._source == self._target:
            first = self._target.noise.log_probability(released[:, :1], center[..., :1])
            likelihood[done] += first
        follows = (released == self._forced(batch, done)).all(axis=1)
        likelihood[done[~follows]] = -np.inf
        return likelihood

    def _done(self, batch: Transcripts) -> Rows:
        """Those that came to their end."""
        return np.flatnonzero(batch.reached == len(stages_of(self._plan)))

    def _forced(self, batch: Transcripts, rows: Rows) -> IntArray:
        drawn = batch.values[self._source.name][rows, :1]
        old = self._centers_of(self._source, None, batch, rows)[..., :1]
        new = self._centers_of(self._target, None, batch, rows)
        if self._source == self._target:
            return self._target.noise.move(np.repeat(drawn, new.shape[-1], axis=1), old, new)
        ratio = _scale(self._target) / _scale(self._source)
        scaled = np.rint((drawn - old) * float(ratio)).astype(np.int64)
        moved: IntArray = scaled + new
        return moved

    def _named(self, name: str) -> Stage:
        return next(stage for stage in stages_of(self._plan) if stage.name == name)
