"""Sound subjects whose privacy is known in truth, under claims that they attain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify.audit.pairs import NeighboringPair, added, replaced
from dpverify.audit.truths import Finite, Gaussian, Laplace, Truth
from dpverify.mechanisms.clipped_mean import ClippedMean
from dpverify.mechanisms.noisy_count import NoisyCount
from dpverify.mechanisms.randomized_response import RandomizedResponse
from dpverify.mechanisms.stability_histogram import StabilityHistogram
from dpverify.plans import Mechanism, Stage, ThresholdedLaplace
from dpverify.privacy import (
    Adjacency,
    ApproxDP,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    PureDP,
)

USUAL, STRICT = 0.05, 0.001
"""The two alphas that are measured."""
_FIXED, _BETTING = 500, 150  # draws a side: few, since a sound auditor is sound at any number

Subject = Mechanism[Any] | Callable[..., Any]
Maker = Callable[[int], Subject]
"""From a seed to a mechanism of ours (it takes the audit's seed), or to f(dataset, size)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sound subject whose privacy is known.

    truth: of the pair.
    claim: what is audited; the pair attains it.
    """

    name: str
    subject: Maker
    claim: Guarantee
    truth: Truth
    pair: NeighboringPair
    sequential: bool = False
    alpha: float = USUAL

    @property
    def trials(self) -> int:
        """Draws a side, of each audit."""
        return _BETTING if self.sequential else _FIXED


# --- subjects -----------------------------------------------------------------------------------

_ADDED = added("one enters", [], 1.0)
_SWAPPED = replaced("another answer", [0.0], 1.0)
_ENDS = replaced("from end to end", [1.0], -1.0)
_DELTA = Fraction(1, 20)
_FEW = Finite((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4))
_RARE = Finite((0.02, 0.98), (0.02 * math.exp(-2), 1 - 0.02 * math.exp(-2)))
_NOTHING = Finite((1.0,), (1.0,))


def _response(epsilon: float, values: int = 2) -> Finite:
    """Randomized response: one value more likely by e^epsilon on either side, the rest equal."""
    total = math.exp(epsilon) + values - 1
    high, low = math.exp(epsilon) / total, 1 / total
    rest = (low,) * (values - 2)
    return Finite((high, low, *rest), (low, high, *rest))


def _leaking(epsilon: float, delta: float) -> Finite:
    """Tells everything with probability delta, else randomized response."""
    p, kept = 1 / (1 + math.exp(-epsilon)), 1 - delta
    return Finite((delta, 0.0, kept * p, kept * (1 - p)), (0.0, delta, kept * (1 - p), kept * p))


def _among(laws: Finite) -> Maker:
    """Values 0, 1, ... with the masses ``own`` if there is a record, else ``other``."""
    ends = [np.cumsum(masses)[:-1] for masses in (laws.other, laws.own)]

    def make(seed: int) -> Subject:
        rng = np.random.default_rng(seed)
        return lambda data, size: np.searchsorted(ends[len(data)], rng.random(size), side="right")

    return make


def _shifted(noise: str, shift: float) -> Maker:
    """Noise of scale 1 around ``shift`` if there is a record, else around 0."""

    def make(seed: int) -> Subject:
        draw = getattr(np.random.default_rng(seed), noise)
        return lambda data, size: draw(size=size) + shift * len(data)

    return make


@lru_cache
def _histogram() -> StabilityHistogram:
    return StabilityHistogram(
        adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1), width=1, delta=_DELTA
    )


def _surfacing() -> Finite:
    """The histogram of one record: its bin reaches the threshold, or nothing is shown."""
    (stage,) = _histogram().fixed_plan
    assert isinstance(stage, Stage)
    assert isinstance(stage.noise, ThresholdedLaplace)
    shown = math.exp(1 - stage.noise.threshold) / (1 + math.exp(-1))
    return Finite((shown, 1 - shown), (0.0, 1.0))


def _ours(mechanism: Mechanism[Any]) -> Maker:
    return lambda seed: mechanism


# --- cases --------------------------------------------------------------------------------------


@lru_cache
def cases() -> dict[str, Case]:
    """All of them, by name."""
    listed = [*_unknown_laws(), *_known_laws(), *_strict(), *_sequential()]
    return {case.name: case for case in listed}


def _case(name: str, subject: Maker, claim: Guarantee, truth: Truth, **more: Any) -> Case:
    return Case(name=name, subject=subject, claim=claim, truth=truth, **{"pair": _ADDED, **more})


def _unknown_laws() -> Iterator[Case]:
    """Functions, whose events are learned."""
    noise, gaussian = _shifted("standard_normal", 0.0), _shifted("standard_normal", 1.0)
    yield _case("identical noise, perfect privacy", noise, PerfectPrivacy(), _NOTHING)
    yield _case("identical noise, tiny epsilon", noise, PureDP("1/1000"), _NOTHING)
    response = _response(1.0)
    yield _case("randomized response", _among(response), PureDP(1), response)
    yield _case("four values", _among(_FEW), PureDP(_above(math.log(4))), _FEW)
    yield _case("a rare event", _among(_RARE), PureDP(2), _RARE)
    leaking = _leaking(1.0, float(_DELTA))
    yield _case("an impossible event", _among(leaking), ApproxDP(1, _DELTA), leaking)
    yield _case("Laplace", _shifted("laplace", 1.0), PureDP(1), Laplace(1.0))
    truth = Gaussian(1.0)
    yield _case("Gaussian, mu", gaussian, GaussianDP(1), truth)
    point = ApproxDP(1, GaussianDP(1).delta_at(1).upper)
    yield _case("Gaussian, (epsilon, delta)", gaussian, point, truth)


def _known_laws() -> Iterator[Case]:
    """Mechanisms of ours, with the likelihood ratio."""
    one = Fraction(1)
    count = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=one)
    # Beside the two centers the ratio of the masses is constant, so two values tell everything.
    yield _case("discrete Laplace, ours", _ours(count), PureDP(1), _response(1.0))
    answers = RandomizedResponse(adjacency=Adjacency.REPLACE, noise_multiplier=one, categories=3)
    yield _case("three answers, ours", _ours(answers), PureDP(1), _response(1.0, 3), pair=_SWAPPED)
    mean = ClippedMean(adjacency=Adjacency.REPLACE, noise_multiplier=one, center=(0.0,), radius=1)
    composed = mean.composed
    assert isinstance(composed, GaussianDP)
    gaussian = Gaussian(math.nextafter(math.sqrt(composed.mu_squared), math.inf))
    yield _case("Gaussian, ours", _ours(mean), composed, gaussian, pair=_ENDS)
    shown = _surfacing()
    claim = ApproxDP(1, _above(shown.own[0]))
    yield _case("an impossible event, ours", _ours(_histogram()), claim, shown)


def _sequential() -> Iterator[Case]:
    """The same, by bets."""
    for case in (*_unknown_laws(), *_known_laws()):
        yield dataclasses.replace(case, name=f"{case.name}, sequential", sequential=True)


def _strict() -> Iterator[Case]:
    """At the small alpha, where one audit is fast."""
    found = {case.name: case for case in (*_unknown_laws(), *_known_laws())}
    for name in ("randomized response", "three answers, ours"):
        yield dataclasses.replace(found[name], name=f"{name}, small alpha", alpha=STRICT)


def _above(number: float) -> Fraction:
    """The next float, exactly: what a claim is to be at least."""
    return Fraction(math.nextafter(number, math.inf))
