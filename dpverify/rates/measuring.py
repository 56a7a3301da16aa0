"""Measurement: many releases at one value of the variable, their errors, the metric with
intervals.
"""

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
from dpverify.rates.metrics import alpha_of_few

SHOWN_ALPHA = 0.05
"""Alpha of the intervals that are shown, and by which a claim is said to hold."""
_BATCH = 1 << 20
"""Numbers of the data, over all releases, up to which more releases are drawn at a time."""
_TOGETHER = 256
"""Fewest releases that are drawn at a time. They share what a law computes once for all draws."""


@dataclass(frozen=True, slots=True)
class Point:
    """Result at one value of the variable: the metric of ``repeats`` errors.

    low, high: its 95% interval. surely_low, surely_high: its interval of level 1 - alpha, of
    which refutations are made, its upper end at ``alpha_of_few``. n, d: records and columns.
    facts: what curves are computed from.
    abstained: the number of releases that abstained; their error is infinite.
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
        """Return the point as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Point:
        """Read a point from ``to_json``, also where infinities became text."""
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
    """Measure the metric at value number ``index``, by ``repeats`` independent releases.

    Under an Empirical target the data are the instance's own and the releases are draws from
    one law; under a Population target each release is from fresh data. A planted ``fault``
    changes the law or the estimate. The same arguments give the same point, in any process.
    """
    return Releases(claim, index, seed=seed, fault=fault).point(repeats, alpha)


class Releases:
    """Independent releases at one value of the variable, of the mechanism or of a planted fault.

    A larger number of releases continues a smaller one, so that nothing is released twice.
    """

    def __init__(
        self, claim: RateClaim, index: int, *, seed: int, fault: RateFault | None = None
    ) -> None:
        self._claim, self._index, self._seed = claim, index, seed
        self._setting = claim.at(index)
        mechanism = claim.mechanism(self._setting)
        self._subject = _Subject(mechanism, claim.values[index], fault)
        self._stream = (seed, index, *words("" if fault is None else fault.name))
        self._bits = SeededBits(*self._stream)
        self._errors = list[Any]()
        self._data: Floats | None = None
        self._law: Law | None = None
        if isinstance(claim.target, Empirical):
            self._data = claim.instance.data(self._setting)
            self._truth = claim.target.statistic(mechanism, self._data)
            self._law = self._subject.law(self._data)
        else:
            self._truth = claim.target.value(mechanism, self._setting)
        facts = {} if claim.facts is None else claim.facts(self._setting, self._data, self._truth)
        self._facts = {name: float(fact) for name, fact in facts.items()}

    def point(self, repeats: int, alpha: float, shown_alpha: float = SHOWN_ALPHA) -> Point:
        """Return the metric of the first ``repeats`` releases, with intervals of level 1 -
        alpha, and of 1 - shown_alpha.
        """
        claim, setting = self._claim, self._setting
        errors = self._of(repeats)
        metric = claim.metric.at(setting)
        shown = metric.measure(errors, shown_alpha)
        surely = metric.measure(errors, alpha)
        surely_high = metric.measure(errors, alpha_of_few(alpha, len(errors))).high
        return Point(
            float(claim.values[self._index]),
            int(setting["n"]),
            int(setting.get("d", 1)),
            shown.value,
            shown.low,
            shown.high,
            surely.low,
            surely_high,
            alpha,
            repeats,
            self._seed,
            int(np.isinf(errors).sum()),
            self._facts,
        )

    def _of(self, repeats: int) -> Floats:
        claim, data = self._claim, self._data
        columns = data.shape[1] if data is not None and claim.by_column else 1
        many = -(-repeats // columns)
        self._go_on_to(many)
        kept = self._errors[:many]
        shape = (columns,) if data is not None and claim.by_column else ()
        if any(np.shape(e) not in (shape, ()) for e in kept):
            raise ValueError(
                f"{claim.name}: an error has not the shape {shape}; give a number, or with "
                "by_column=True one for each column."
            )
        errors = np.concatenate([np.atleast_1d(e) for e in kept]).astype(np.float64)
        if np.isnan(errors).any() or (errors < 0).any():
            raise ValueError(f"{claim.name}: an error is negative or NaN; errors are distances.")
        return errors

    def _go_on_to(self, many: int) -> None:
        subject, error, truth = self._subject, self._claim.error, self._truth
        if self._law is None:
            for repeat in range(len(self._errors), many):
                law = subject.law(self._claim.instance.data(self._setting, *self._stream, repeat))
                self._errors += subject.errors(law, self._bits, 1, error, truth)
            return
        size = max(_TOGETHER, _BATCH // max(1, np.asarray(self._data).size))
        for start in range(len(self._errors), many, size):
            step = min(size, many - start)
            self._errors += subject.errors(self._law, self._bits, step, error, truth)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The mechanism, or the faulty mechanism of a planted fault."""

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
    """Return a name as numbers for a seed; none for an empty name."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]),) if text else ()
