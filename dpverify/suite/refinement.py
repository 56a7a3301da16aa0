"""Refinement: comparison of the shipped code's law with the spec's, fraction for fraction.

``refine`` runs the shipped sampler over every coin outcome of a small instance.
``compare_facts`` compares the real configurations with the spec: same sensitivities, same
centers, same noise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, cast

import numpy as np

from dpverify.audit import SmallInstance
from dpverify.audit.friendly_core import filtered_of
from dpverify.plans import (
    Filtered,
    Law,
    Mechanism,
    NoNoise,
    RoundedGaussian,
    ThresholdedGaussian,
    ThresholdedLaplace,
    stages_of,
)
from dpverify.plans.walking import is_filtered, lists_of
from dpverify.privacy import Domain
from dpverify.privacy.adjacency import Dataset
from dpverify.randomness import Bits, SeededBits, discrete_laplace_by_coins, enumerate_law
from dpverify.randomness.bits import IntArray
from dpverify.suite.stand_ins import ROOTS, StandIns, Undecidable, each_of
from dpverify.suite.watched import watched

LEAST_EXACT_MASS = Fraction(99, 100)
LEAST_FOLLOWED = Fraction(9, 10)


class RefinementFailed(Exception):
    """Disagreement of shipped code and spec; the message shows where."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Extent of an exact comparison of laws."""

    outcomes: int
    paths: int
    exact_mass: Fraction


def refine(spec: ModuleType, instance: SmallInstance) -> Refinement:
    """Enumerate every coin of the shipped sampler; every outcome must have the spec's mass.

    Outcomes to which no cut path leads have equal fractions, and make up at least 99% of the
    mass; the others are bracketed by the undecided mass. This holds for each of the stand-ins,
    and outcomes and paths count for each. Where the instance says so, drawn transcripts are
    followed instead. Raises RefinementFailed.
    """
    if instance.followed:
        return _followed(spec, instance)
    try:
        done = [_enumerated(spec, instance, ROOTS)]
    except Undecidable:  # the cut of a tail depends on the root
        try:
            done = [_enumerated(spec, instance, (root,)) for root in ROOTS]
        except Undecidable as failure:
            raise RefinementFailed(f"{instance.name}: {failure}") from failure
    return Refinement(
        sum(one.outcomes for one in done),
        sum(one.paths for one in done),
        min(one.exact_mass for one in done),
    )


class _Recorded(SeededBits):
    """Seeded bits that record the noise that they give."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kept: list[IntArray] = []

    def noise(self, law: Any, size: int) -> IntArray:
        """Draw noise, and record it."""
        drawn = super().noise(law, size)
        self.kept.append(drawn)
        return drawn


def _followed(spec: ModuleType, instance: SmallInstance) -> Refinement:
    """Compare every released value less its noise with the spec's center after the same prefix,
    exactly.

    For a histogram the counts are the code's own; with the noise that was drawn they must be
    the released ones.
    """
    mechanism, compared = instance.mechanism, 0
    law = mechanism.law(list(instance.data))
    specified = spec.law(mechanism.parameters, exact_records(instance.data, mechanism.domain))
    for seed in range(instance.followed):
        bits = _Recorded(seed)
        released = tuple(law.sample(bits, 1)[0].released.values())
        noise = iter(bits.kept)
        stages = zip(stages_of(mechanism.fixed_plan), specified.stages, released, strict=False)
        for i, (stage, (name, expected), value) in enumerate(stages):
            built, counted = law.built_after(stage, released[:i])
            own = built.noise
            if isinstance(own, (ThresholdedLaplace, ThresholdedGaussian)):
                center = counted
                noisy = counted[:, 1] + (next(noise) if len(counted) else 0)
                pairs = zip(counted[:, 0].tolist(), noisy.tolist(), strict=True)
                agrees = value == tuple(v for p in pairs if p[1] >= own.threshold for v in p)
            else:
                quiet = isinstance(own, NoNoise)
                drawn = np.zeros(len(value), np.int64) if quiet else next(noise)
                center = np.array([int(v) - int(z) for v, z in zip(value, drawn, strict=True)])
                agrees = True
            shipped, stated = _facts(own, center), expected(released[:i]).facts()
            if (name, stated) != (stage.name, shipped) or not agrees:
                raise RefinementFailed(
                    f"{instance.name}, transcript {seed}, {stage.name}: {shipped} in the code, "
                    f"{stated} in the spec"
                )
            compared += 1
        stopped = specified.stages[len(released) :]
        if stopped and stopped[0][1](released) is not None:
            raise RefinementFailed(
                f"{instance.name}, transcript {seed}: the code stops before {stopped[0][0]}, the "
                "spec does not"
            )
    return Refinement(compared, instance.followed, Fraction(1))


def refine_loops() -> Refinement:
    """Compare the shipped rejection loop itself, on batches of two, with products of exact
    masses.

    Elsewhere a rejected path's mass is shared out instead of followed; here every retry runs, so
    the masses are brackets of width ``undecided``.
    """
    w = Fraction(1, 3)
    cases: list[tuple[str, Callable[[Bits], Any], Callable[[int], Fraction], dict[str, Any]]] = [
        (
            "below(3) on words of 2 bits",
            lambda bits: bits.below(3, 2),
            lambda x: Fraction(1, 3),
            {"word_bits": 2, "max_choices": 9},
        ),
        (
            "discrete_laplace_by_coins of scale 1",
            lambda bits: discrete_laplace_by_coins(bits, Fraction(1), 2),
            lambda x: (1 - w) / (1 + w) * w ** abs(x),
            {"exponential": lambda g: w**g.numerator, "max_choices": 16},
        ),
    ]
    outcomes, paths, least = 0, 0, Fraction(1)
    for name, draw, mass, options in cases:
        law = enumerate_law(_pair_of(draw), follow_retries=True, **options)
        for outcome, probability in law.masses.items():
            first, second = cast(tuple[int, int], outcome)
            expected = mass(first) * mass(second)
            if not probability <= expected <= probability + law.undecided:
                raise RefinementFailed(f"{name}: {outcome} has mass {probability}, not {expected}")
        outcomes, paths = outcomes + len(law.masses), paths + law.paths
        least = min(least, 1 - law.undecided)
    if least < LEAST_FOLLOWED:
        raise RefinementFailed(f"only {float(least):.3f} of the mass was followed to its end")
    return Refinement(outcomes, paths, least)


def _pair_of(draw: Callable[[Bits], Any]) -> Callable[[Bits], tuple[int, ...]]:
    return lambda bits: tuple(int(value) for value in draw(bits))


def _enumerated(
    spec: ModuleType, instance: SmallInstance, roots: tuple[Fraction, ...]
) -> Refinement:
    mechanism = instance.mechanism
    law, kept = watched(mechanism, list(instance.data))
    latent = is_filtered(mechanism.fixed_plan)

    def run(bits: Bits) -> tuple[tuple[int, ...] | None, tuple[tuple[int, ...], ...]]:
        kept[:] = [None]
        released = tuple(law.sample(bits, 1)[0].released.values())
        return kept[0], released

    formal = _formal_numbers(mechanism, roots)
    shipped = enumerate_law(run, max_choices=instance.max_choices, exponential=formal)
    specified = spec.law(mechanism.parameters, exact_records(instance.data, mechanism.domain))
    count, exact = len(roots), [Fraction(0)] * len(roots)
    undecided = each_of(shipped.undecided, count)
    for outcome, mass in shipped.masses.items():
        core, released = cast(tuple[Any, tuple[tuple[int, ...], ...]], outcome)
        if latent:
            expected = specified.by_core(released, formal).get(core, Fraction(0))
        else:
            expected = specified.probability(released, formal)
        compared = zip(each_of(mass, count), each_of(expected, count), undecided, strict=True)
        for i, (own, stated, open_) in enumerate(compared):
            if not own <= stated <= own + open_:
                raise RefinementFailed(
                    f"{instance.name}: outcome {outcome} has mass {own} (+ {open_} "
                    f"undecided) in the shipped code and {stated} in the spec"
                )
            exact[i] += own if own == stated else 0
    if min(exact) < LEAST_EXACT_MASS:
        raise RefinementFailed(
            f"{instance.name}: only {float(min(exact)):.4f} of the mass was compared exactly; "
            "raise max_choices or take a smaller instance"
        )
    return Refinement(count * len(shipped.masses), count * shipped.paths, min(exact))


def _formal_numbers(mechanism: Mechanism[Any], roots: tuple[Fraction, ...]) -> StandIns:
    """Build stand-ins for exponentials. ``unit`` is a common multiple of the scales'
    numerators: every exponent becomes whole.
    """
    scales = [
        Fraction(getattr(stage.noise, "scale", 1))
        for stage in stages_of(mechanism.fixed_plan)
        if not isinstance(stage.noise, (RoundedGaussian, ThresholdedGaussian))
    ]
    return StandIns(roots, math.lcm(*(scale.numerator for scale in scales)))


def compare_facts(spec: ModuleType, mechanism: Mechanism[Any], datasets: Sequence[Dataset]) -> int:
    """Compare sensitivities, and on each dataset every stage's center and noise, with the
    spec's.

    Returns the number of comparisons. Raises RefinementFailed.
    """
    stages, checked = stages_of(mechanism.fixed_plan), 0
    stated, within = spec.sensitivities(mechanism.parameters), lists_of(mechanism.fixed_plan)
    shuffled = {name for name, part in within.items() if part.is_latent}
    filtered = filtered_of(mechanism.fixed_plan) if is_filtered(mechanism.fixed_plan) else None
    friendly = [] if filtered is None else [stage.name for stage in stages_of(filtered.inner)]
    for stage in stages:
        about: Any = mechanism.adjacency
        listed = within.get(stage.name)
        if listed is not None and listed.on is not None:
            about = listed.on.within
        if filtered is not None and stage.name in friendly:
            about = filtered.filter.friendly
        lemma = stage.query.sensitivity(about, mechanism.domain).conclusion
        if stated[stage.name] != lemma.value:
            raise RefinementFailed(
                f"{stage.name}: sensitivity {lemma.value} in the code, {stated[stage.name]} in spec"
            )
        checked += 1
    for data in datasets:
        law = mechanism.law(data)
        specified = spec.law(mechanism.parameters, exact_records(data, mechanism.domain))
        reached = specified.stage_laws()
        if filtered is not None:  # without records nothing is asked after their number
            stages_here = stages if len(data) else stages[: len(reached)]
            checked += _compare_filters(filtered, law, specified)
        else:
            stages_here = stages
        for i, ((name, expected), stage) in enumerate(zip(reached, stages_here, strict=True)):
            # such noise has no one center: whole laws of small instances are compared
            if stage.name in shuffled:
                continue
            built, center = law.built_after(stage, specified.example[:i])
            shipped = _facts(built.noise, center)
            if (name, expected.facts()) != (stage.name, shipped):
                raise RefinementFailed(f"{stage.name}: {shipped} in the code, {expected} in spec")
            checked += 1
    return checked


_SAID_OF_FILTERS = ("strangers_share", "most_rows", "sigma", "threshold", "missed", "budget")


def _compare_filters(filtered: Filtered, law: Law, specified: Any) -> int:
    """Compare the kind of filter, the numbers of friends that it is given, and its parameters."""
    told = law.degrees_for(filtered.filter)
    own = [
        getattr(filtered.filter, name)
        for name in _SAID_OF_FILTERS
        if hasattr(filtered.filter, name)
    ]
    shipped = (type(filtered.filter).__name__, told, *own)
    if shipped != specified.filter:
        raise RefinementFailed(f"{shipped} in the code, {specified.filter} in the spec")
    return len(shipped)


def _facts(noise: Any, center: Any) -> tuple[Any, ...]:
    parameters = (getattr(noise, field.name) for field in dataclasses.fields(noise))
    return (type(noise).__name__, tuple(int(c) for c in np.ravel(center)), *parameters)


def exact_records(data: Dataset, domain: Domain) -> list[Any]:
    """Return the records as exact rationals, non-finite ones replaced as the domain says.

    They are rationals for one column, tuples of rationals for several. Equal rows are the same
    object, so that specs can compute once what they make of it.
    """
    rows = np.array(data, dtype=np.float64).reshape(-1, domain.columns)
    rows[~np.isfinite(rows).all(axis=1)] = domain.replacement
    listed = [tuple(row) for row in rows.tolist()]
    known = {row: tuple(Fraction(x) for x in row) for row in set(listed)}
    if domain.columns == 1:
        return [known[row][0] for row in listed]
    return [known[row] for row in listed]
