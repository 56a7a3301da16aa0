"""Small plans in plans, and their laws over every coin outcome against their own likelihoods."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import BoundedMean
from dpverify.grid import Answers, Query, Transcripts
from dpverify.plans import (
    Abstained,
    Gate,
    KaryResponse,
    Law,
    Mechanism,
    Plan,
    Stage,
)
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Domain
from dpverify.randomness import Bits, enumerate_law

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DOMAIN = Domain(columns=1)
Masses = dict[Any, Any]
Outcome = tuple[tuple[tuple[str, tuple[int, ...]], ...], str | None]


def real(exponent: Fraction) -> Fraction:
    """exp(-exponent), up to a float's precision."""
    return Fraction(math.exp(-exponent))


def outcome(drawn: Transcripts) -> Outcome:
    return tuple(drawn.released.items()), drawn.stopped


def enumerated(law: Law, choices: int = 24) -> tuple[Masses, dict[Any, Transcripts]]:
    """Return the mass of every outcome, and one draw that came to it."""
    draws: dict[Any, Transcripts] = {}

    def run(bits: Bits) -> Outcome:
        drawn = law.sample(bits, 1)
        observed = outcome(drawn)
        draws[observed] = drawn
        return observed

    enumeration = enumerate_law(run, max_choices=choices, exponential=real)
    assert enumeration.undecided < Fraction(1, 100)
    return dict(enumeration.masses), draws


def likelihoods_are_masses(law: Law, likelihood: Law | None = None, choices: int = 24) -> bool:
    """Check every outcome of the law, alone and in one batch of all outcomes that released as
    much."""
    masses, draws = enumerated(law, choices)
    other = law if likelihood is None else likelihood
    alone = {key: float(np.exp(other.log_likelihood(draw)[0])) for key, draw in draws.items()}
    for shape in {tuple(draw.values) for draw in draws.values()}:
        alike = [key for key, draw in draws.items() if tuple(draw.values) == shape]
        together = np.exp(other.log_likelihood(stacked([draws[key] for key in alike])))
        if not np.allclose(together, [alone[key] for key in alike], rtol=1e-12):
            return False
    return all(math.isclose(float(mass), alone[key], rel_tol=1e-9) for key, mass in masses.items())


def stacked(draws: list[Transcripts]) -> Transcripts:
    """Return one batch of single draws of one shape."""
    first = draws[0]
    return Transcripts(
        {name: np.concatenate([one[name] for one in draws]) for name in first.values},
        np.concatenate([one.reached for one in draws]),
        np.concatenate([one.stopped_by for one in draws]),
        first.reasons,
    )


def answers(name: str, scale: Fraction | int = 1, query: Query | None = None) -> Stage:
    return Stage(name, Answers(2) if query is None else query, KaryResponse(2, scale))


def twice(scale: Fraction | int = 1, at_least: int = 1, reason: str = "said no") -> Plan:
    """Return the first record's answer; it goes on after a 1."""
    return answers("first", scale), Gate("first", at_least, reason), answers("second", scale)


def law(plan: Plan, records: Any = (1.0,)) -> Law:
    """Build the law on a record of 1, unless others are given; the number of records is public."""
    derive(plan, REPLACE, DOMAIN)
    return Law(plan, np.array(records, np.float64).reshape(-1, 1), REPLACE, DOMAIN)


def stopping(first: Masses, second: Masses) -> Masses:
    """Return the law of a plan after another one, where a gate of the first stops both."""
    masses: Masses = {}
    for (released, stopped), mass in first.items():
        if stopped is not None:
            masses[released, stopped] = mass
            continue
        for (more, reason), share in second.items():
            masses[(*released, *more), reason] = mass * share
    return masses


def mean(**parameters: Any) -> BoundedMean:
    given: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "cell": Fraction(1)}
    return BoundedMean(**given | {"lower": -4.0, "upper": 4.0} | parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Mechanism[Any]):
    """Several mechanisms, each a part, one after the other."""

    parts: tuple[tuple[str, Mechanism[Any]], ...]
    noise_multiplier: Fraction = Fraction(1)

    def plan(self) -> Plan:
        return tuple(one.part(name) for name, one in self.parts)

    def estimate(self, transcript: Transcripts) -> Any:
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        return tuple(one.estimate(transcript.within(name)) for name, one in self.parts)
