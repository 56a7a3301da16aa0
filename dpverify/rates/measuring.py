"""Measuring: many releases at one value of the variable, their errors, the metric with intervals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpverify.plans import Abstained, Law, Mechanism
from dpverify.privacy.numbers import Floats
from dpverify.randomness import SeededBits
from dpverify.rates.claims import Empirical, RateClaim, RateFault

SHOWN_ALPHA = 0.05
"""Of the intervals that are shown, and by which a claim is said to hold."""
_BATCH = 1 << 20  # numbers that are drawn at a time


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the variable: the metric of ``repeats`` errors.

    low, high: its 95% interval. surely_low, surely_high: its interval of level 1 - alpha, of which
    refutations are made. n, d: records and columns. facts: what curves are computed from.
    abstained: of the releases, how many; the error of one is infinite.
    """

    value: float
    n: int
    d: int
    measured: float
    low: float
    high: float
    surely_low: float
    surely_high: float
    alpha: float
    repeats: int
    seed: int
    abstained: int = 0
    facts: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Point:
        """From ``to_json``, also where infinities became text."""
        facts = {name: float(fact) for name, fact in plain["facts"].items()}
        numbers: dict[str, Any] = {
            name: float(value) if isinstance(value, str) else value
            for name, value in plain.items()
            if name != "facts"
        }
        return cls(facts=facts, **numbers)


def measure(
    claim: RateClaim,
    index: int,
    *,
    repeats: int,
    alpha: float,
    seed: int,
    fault: RateFault | None = None,
) -> Point:
    """The metric at value number ``index``, by ``repeats`` independent releases.

    Under an Empirical target the data are the instance's own and the releases are draws from one law;
    under a Population target each release is from fresh data. A planted ``fault`` changes the law or
    the estimate. The same arguments give the same point, in any process.
    """
    setting = claim.at(index)
    mechanism = claim.mechanism(setting)
    errors, facts = _errors(claim, mechanism, index, repeats, seed, fault)
    metric = claim.metric.at(setting)
    shown = metric.measure(errors, SHOWN_ALPHA)
    surely = metric.measure(errors, alpha)
    return Point(
        float(claim.values[index]),
        int(setting["n"]),
        int(setting.get("d", 1)),
        shown.value,
        shown.low,
        shown.high,
        surely.low,
        surely.high,
        alpha,
        repeats,
        seed,
        int(np.isinf(errors).sum()),
        facts,
    )


def _errors(
    claim: RateClaim,
    mechanism: Mechanism[Any],
    index: int,
    repeats: int,
    seed: int,
    fault: RateFault | None,
) -> tuple[Floats, dict[str, float]]:
    setting, value = claim.at(index), claim.values[index]
    stream = (seed, index, *words("" if fault is None else fault.name))
    subject = _Subject(mechanism, value, fault)
    bits = SeededBits(*stream)
    if isinstance(claim.target, Empirical):
        data = claim.instance.data(setting)
        truth = claim.target.statistic(mechanism, data)
        law = subject.law(data)
        size = max(1, _BATCH // max(1, data.size))
        many = -(-repeats // data.shape[1]) if claim.by_column else repeats
        steps = [min(size, many - start) for start in range(0, many, size)]
        found = [e for step in steps for e in subject.errors(law, bits, step, claim.error, truth)]
    else:
        data, truth, found = None, claim.target.value(mechanism, setting), []
        for repeat in range(repeats):
            law = subject.law(claim.instance.data(setting, *stream, repeat))
            found += subject.errors(law, bits, 1, claim.error, truth)
    shape = (data.shape[1],) if data is not None and claim.by_column else ()
    if any(np.shape(e) not in (shape, ()) for e in found):
        raise ValueError(
            f"{claim.name}: an error has not the shape {shape}; give a number, or with by_column=True one for each column."
        )
    errors = np.concatenate([np.atleast_1d(e) for e in found]).astype(np.float64)
    if np.isnan(errors).any() or (errors < 0).any():
        raise ValueError(f"{claim.name}: an error is negative or NaN; errors are distances.")
    facts = {} if claim.facts is None else claim.facts(setting, data, truth)
    return errors, {name: float(fact) for name, fact in facts.items()}


@dataclass(frozen=True, slots=True)
class _Subject:
    """The mechanism, or what a fault makes of it."""

    mechanism: Mechanism[Any]
    value: Any
    fault: RateFault | None

    def law(self, data: ArrayLike) -> Law:
        if self.fault is None or self.fault.law is None:
            return self.mechanism.law(data)
        return self.fault.law(self.mechanism, np.asarray(data), self.value)

    def errors(self, law: Law, bits: SeededBits, size: int, error: Any, truth: Any) -> list[Any]:
        batch = law.sample(bits, size)
        return [self._error(batch[i], error, truth) for i in range(size)]

    def _error(self, transcript: Any, error: Any, truth: Any) -> Any:
        other = None if self.fault is None else self.fault.estimate
        if other is None:
            estimate = self.mechanism.estimate(transcript)
        else:
            estimate = other(self.mechanism, transcript)
        return np.inf if isinstance(estimate, Abstained) else error(estimate, truth)


def words(text: str) -> tuple[int, ...]:
    """A name as numbers for a seed; none for none."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]),) if text else ()
