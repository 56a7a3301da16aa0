"""Planted faults: what an audit must be able to see before its silence means anything.

The generic ones apply to every stage of every plan. A faulty mechanism runs a changed plan
under the original claim.
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

from dpverify.audit.first_stage import FirstStage
from dpverify.audit.friendly_core import FriendlyCore
from dpverify.grid import NOTHING, Count, OneUnit, Query, Transcripts, View, ingest
from dpverify.grid.steps import StepSums
from dpverify.grid.transcripts import Rows
from dpverify.plans import Gate, Mechanism, NoNoise, Plan, Stage
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.law import Law
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.place import Place
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import gates_of, is_closed, lists_of, rescaled_stage, with_stages
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray

Subject = Mechanism[Any] | FriendlyCore | FirstStage
"""Subject whose plan is known."""
QUICK_FACTORS = (Fraction(7, 10), Fraction(1, 2))
THOROUGH_FACTORS = (Fraction(19, 20), *QUICK_FACTORS)
"""The 5% deficit is planted where the whole law is closed: there the best event is known."""
_VISIBLE = Fraction(19, 20)  # a factor nearer to 1 is seen by no number of draws
_OTHER = "the other adjacency's sensitivity"
_BY_ORDER = "order dependence"
_SHARES_OF_NOISE = frozenset((*(f"scale x {float(f):g}" for f in THOROUGH_FACTORS), _OTHER))


@dataclass(frozen=True, slots=True)
class Fault:
    """A named defect; ``law(data)`` is what the defective mechanism would do."""

    name: str
    law: Callable[[ArrayLike], Any]


def generic_faults(
    mechanism: Subject,
    *,
    thorough: bool = False,
    elsewhere: Collection[str] = (),
    only: Collection[str] | None = None,
) -> list[Fault]:
    """Return every generic fault that applies to a stage or a gate of this mechanism's plan.

    What runs behind a filter is attacked apart, for friendly neighbors (``FriendlyCore``).
    elsewhere: stages whose missing shares of noise are planted apart (``FirstStage``). only: the
    stages looked at, if not all.
    """
    if not hasattr(mechanism, "fixed_plan"):
        raise TypeError(
            f"{mechanism!r:.80} is no mechanism; faults of a function are planted by "
            "scaled_faults(function)."
        )
    plan = mechanism.fixed_plan
    stages = stages_of(plan, filtered=False)
    factors = THOROUGH_FACTORS if thorough and is_closed(plan) else QUICK_FACTORS
    faults: list[Fault] = []
    seen = [stage for stage in stages if only is None or stage.name in only]
    shuffled = lists_of(plan)
    for stage in seen:
        apart = stage.name in elsewhere
        for name, changed in _stage_faults(stage, mechanism, factors):
            if apart and name in _SHARES_OF_NOISE:
                continue
            if stage.name in shuffled and name == _BY_ORDER:  # the order of its records is not seen
                continue
            swapped = _swap(plan, stage.name, changed)
            faults.append(Fault(f"{stage.name}: {name}", _law_of(mechanism, swapped)))
        if _reusable(stage, stages[0]):
            source = stages[0].name
            reuse = _law_of(mechanism, plan, ReusedNoiseLaw, source=source, target=stage.name)
            if stage.name == source or type(stages[0].noise) is type(stage.noise):
                faults.append(Fault(f"{stage.name}: noise reused from {source}", reuse))
    for gate in gates_of(plan, filtered=False):
        read = next(stage for stage in stages if stage.name == gate.stage)
        if read in seen and _noisy(read) and not read.query.is_table:
            law = _law_of(mechanism, plan, ExactGateLaw)
            faults.append(Fault(f"gate on {gate.stage}: reads the exact value", law))
    return faults


def _reusable(stage: Stage, first: Stage) -> bool:
    if first.query.is_table:  # what surfaced of a table is not noise that can be used again
        return False
    return stage.noise.is_added and _noisy(stage) and (stage != first or stage.query.width != 1)


def deficit(mechanism: Subject, share: Fraction) -> Fault:
    """Return a fault with this share of every stage's noise missing: each scale is multiplied
    by 1 - share.
    """
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
    if mechanism.adjacency is Adjacency.ADD_REMOVE and _order_could_matter(stage.query):
        yield _BY_ORDER, lambda s: dataclasses.replace(s, query=Alternating(s.query))


def _rescale(factor: Fraction) -> Callable[[Stage], Stage]:
    return lambda stage: rescaled_stage(stage, factor)


def _unclip(stage: Stage) -> Stage:
    query = stage.query.unclipped()
    return stage if query is None else dataclasses.replace(stage, query=query)


def _other_sensitivity(stage: Stage, mechanism: Subject) -> Fraction | None:
    """Return the sensitivity under the other adjacency, relative to the right one; None if
    undefined.
    """
    if not isinstance(mechanism.adjacency, Adjacency):  # friendly neighbors: there is no other
        return None
    (other,) = set(Adjacency) - {mechanism.adjacency}
    try:  # a stage of a block may have a bound for the blocks' neighbors alone
        own = stage.query.sensitivity(mechanism.adjacency, mechanism.domain).conclusion
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


def _order_could_matter(query: Query) -> bool:
    """Return whether the order of records could affect the query. It could not for a list of
    one answer per record (there it does in any case), for a table, for what counts all records
    alike, or for friends among all.
    """
    inner = query.query if isinstance(query, OneUnit) else query
    alike = query == Count() or (isinstance(inner, StepSums) and inner.alike)
    fixed = query.width is not None and not query.is_table and not query.reads
    return fixed and not alike and not hasattr(query, "nearness")


def _swap(plan: Plan, name: str, change: Callable[[Stage], Stage]) -> Plan:
    """Return the plan with one stage changed, as declared and as built."""
    return with_stages(plan, lambda stage: change(stage) if stage.name == name else stage)


def plan_fault(name: str, mechanism: Subject, plan: Plan) -> Fault:
    """Return the mechanism with another plan, which may have no claim at all."""
    return Fault(name, _law_of(mechanism, plan))


def _law_of(
    mechanism: Subject, plan: Plan, kind: type[Law] = FaultyLaw, **options: Any
) -> Callable[[ArrayLike], Law]:
    def law(data: ArrayLike) -> Law:
        records = ingest(data, mechanism.domain)
        return kind(plan, records, mechanism.adjacency, mechanism.domain, **options)

    return law


@dataclass(frozen=True, slots=True)
class Alternating(Query):
    """A query that counts records in even places and discounts those in odd ones."""

    base: Query

    @property
    def width(self) -> int | None:
        """Width of the query."""
        return self.base.width

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return base(records 0, 2, 4, ...) - base(records 1, 3, 5, ...)."""
        even, odd = (View(view.records[start::2]) for start in (0, 1))
        difference: NDArray[Any] = self.base.evaluate(even) - self.base.evaluate(odd)
        return difference

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Refuse: there is no sensitivity, because one record shifts all that follow."""
        return _no_sensitivity()


def _no_sensitivity() -> NoReturn:
    raise ValueError("an order-dependent query has no bounded sensitivity under add-remove")


class ExactGateLaw(FaultyLaw):
    """Law whose gates decide on the exact query value instead of the released one."""

    def passes(self, gate: Gate, place: Place, batch: Transcripts, live: Rows) -> NDArray[np.bool_]:
        """Decide by the exact value: all draws pass or none does."""
        path, _, name = gate.stage.rpartition("/")
        inner = self._place(place, f"{place.path}{path}/" if path else place.path)
        stage = next(s for s in stages_of(inner.plan) if s.name == name)
        if batch.values[place.path + gate.stage].ndim == 1:  # what surfaced of a histogram
            return super().passes(gate, place, batch, live)
        exact = np.atleast_2d(self._center(stage, inner, batch, live))[:, 0]
        return np.broadcast_to(np.asarray(exact >= gate.at_least, np.bool_), len(live)).copy()


class ReusedNoiseLaw(FaultyLaw):
    """Law in which stage ``target`` takes the noise of stage ``source``, in proportion to their
    scales.

    For one stage of several numbers (source is target) all of them take the first one's noise.
    """

    def __init__(self, *world: Any, source: str, target: str) -> None:
        super().__init__(*world)
        self._source = next(stage for stage in stages_of(self._plan) if stage.name == source)
        self._target = target

    def _drawn(
        self, stage: Stage, place: Place, batch: Transcripts, rows: Rows, bits: Bits
    ) -> IntArray:
        name = place.path + stage.name
        if name != self._target:
            return super()._drawn(stage, place, batch, rows, bits)
        center = self._center(stage, place, batch, rows)
        if name == self._source.name:
            return self._forced(stage, super()._drawn(stage, place, batch, rows, bits), center)
        return self._forced(stage, batch.values[self._source.name][rows], center)

    def _log_probability(
        self, stage: Stage, place: Place, batch: Transcripts, rows: Rows
    ) -> LogProbabilities:
        """Return the log probability, -inf where the target does not follow from the source's
        noise.
        """
        name = place.path + stage.name
        if name != self._target:
            return super()._log_probability(stage, place, batch, rows)
        center = self._center(stage, place, batch, rows)
        released, source = (batch.values[one][rows] for one in (name, self._source.name))
        follows = (released == self._forced(stage, source, center)).all(axis=1)
        own: LogProbabilities = np.zeros(len(rows))
        if name == self._source.name:
            own = stage.noise.log_probability(released[:, :1], center[..., :1])
        return np.where(follows, own, -np.inf)

    def _forced(self, stage: Stage, source: IntArray, new: IntArray) -> IntArray:
        drawn, old = source[:, :1], self._source_center(new)
        if self._target == self._source.name:
            return stage.noise.move(np.repeat(drawn, new.shape[-1], axis=1), old, new)
        ratio = _scale(stage) / _scale(self._source)
        moved: IntArray = np.rint((drawn - old) * float(ratio)).astype(np.int64) + new
        return moved

    def _source_center(self, new: IntArray) -> IntArray:
        """Return the first coordinate of the source's value: the first stage does not depend on
        transcripts.
        """
        return self.center_after(self._source, ())[:1]
