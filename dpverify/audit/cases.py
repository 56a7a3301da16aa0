"""Sound subjects whose privacy is known in truth, under claims that they attain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any, cast

import numpy as np
import scipy

from dpverify.audit.neighbors.pairs import NeighboringPair, added, replaced
from dpverify.audit.truths import Finite, Gaussian, Laplace, Truth
from dpverify.mechanisms.clipped_mean import ClippedMean
from dpverify.mechanisms.noisy_count import NoisyCount
from dpverify.mechanisms.randomized_response import RandomizedResponse
from dpverify.mechanisms.stability_histogram import StabilityHistogram
from dpverify.plans import Mechanism, Stage, ThresholdedGaussian
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
_DRAWS = 300  # draws per side: few, since a sound auditor is sound at any number
_BETTING = 150

Subject = Mechanism[Any] | Callable[..., Any]
Maker = Callable[[int], Subject]
"""Function from a seed to a mechanism of ours (it takes the audit's seed), to f(dataset, size),
or to f(dataset).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sound subject whose privacy is known.

    subject: what is audited, for each audit's seed. claim: its claim, which the pairs attain.
    truth: the true privacy of every pair. trials: draws per side. curve: number of further
    events along the trade-off curve.
    single: whether a function is called one by one, as f(dataset).
    certified: how often each choice of an event is certified, on fresh draws. Given any choice,
    and all that came before, a certificate is wrong with probability alpha at most: so the
    alarms are stochastically at most binomial, as if every audit chose anew.
    """

    name: str
    subject: Maker
    claim: Guarantee
    truth: Truth
    pairs: tuple[NeighboringPair, ...]
    sequential: bool = False
    alpha: float = USUAL
    certified: int = 1
    trials: int = _DRAWS
    curve: int = 0
    single: bool = False


# --- subjects -----------------------------------------------------------------------------------

_ADDED = added("one enters", [], 1.0)
_SWAPPED = replaced("another answer", [0.0], 1.0)
_SWAPS = tuple(
    replaced(f"answer {i} or {j}", [float(i)], float(j)) for i, j in ((0, 1), (2, 0), (1, 2))
)
_ENDS = replaced("from end to end", [1.0], -1.0)
_DELTA = Fraction(1, 20)
_FEW = Finite((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4))
_RARE = Finite((0.02, 0.98), (0.02 / math.e, 1 - 0.02 / math.e))
_GRID = 2.0**16
_NOTHING = Finite((1.0,), (1.0,))


def _response(epsilon: float, values: int = 2) -> Finite:
    """Return randomized response: one value is more likely by e^epsilon on either side, the
    rest are equal.
    """
    total = math.exp(epsilon) + values - 1
    high, low = math.exp(epsilon) / total, 1 / total
    rest = (low,) * (values - 2)
    return Finite((high, low, *rest), (low, high, *rest))


def _leaking(epsilon: float, delta: float) -> Finite:
    """Return a law that reveals everything with probability delta, and is randomized response
    otherwise.
    """
    p, kept = 1 / (1 + math.exp(-epsilon)), 1 - delta
    return Finite((delta, 0.0, kept * p, kept * (1 - p)), (0.0, delta, kept * (1 - p), kept * p))


def _among(laws: Finite) -> Maker:
    """Return a function that draws 0, 1, ... with the masses ``own`` if there is a record, else
    ``other``.
    """
    ends = [np.cumsum(masses)[:-1] for masses in (laws.other, laws.own)]

    def make(seed: int) -> Subject:
        rng = np.random.default_rng(seed)
        return lambda data, size: np.searchsorted(ends[len(data)], rng.random(size), side="right")

    return make


def _told(laws: Finite) -> Maker:
    """Return a function that draws the same values inside texts that are nearly all different."""
    values = _among(laws)

    def make(seed: int) -> Subject:
        rng, draw = np.random.default_rng([seed, 1]), cast("Callable[..., Any]", values(seed))

        def told(data: Any, size: int) -> list[str]:
            said, numbers = draw(data, size).tolist(), rng.integers(2**32, size=size).tolist()
            return [f"{n:08x} says {value}" for n, value in zip(numbers, said, strict=True)]

        return told

    return make


def _in_phases(epsilon: float) -> Maker:
    """Return randomized response called one by one, which shows its phase and means the
    opposite in the other.

    The phase changes about every 50 calls: where one side is called before the other, it tells
    the sides.
    """
    likely = math.exp(epsilon) / (1 + math.exp(epsilon))

    def make(seed: int) -> Subject:
        rng, phase = np.random.default_rng(seed), [0]

        def answer(data: Any) -> int:
            phase[0] ^= int(rng.random() < 1 / 50)
            return 2 * phase[0] + int((rng.random() < likely) == (len(data) == phase[0]))

        return answer

    return make


def _called(numbered: bool, every: int = 1) -> Maker:
    """Return Laplace noise of scale 1 on a grid, around 1 if there is a record, called one by one.

    numbered: whether the call's number stands beside it. every: for how many calls noise is kept.
    """

    def make(seed: int) -> Subject:
        rng, calls, noise = np.random.default_rng(seed), count(), [0.0]

        def answer(data: Any) -> Any:
            call = next(calls)
            if call % every == 0:
                noise[0] = float(np.rint(rng.laplace() * _GRID) / _GRID)
            total = len(data) + noise[0]
            return (total, call) if numbered else total

        return answer

    return make


def _shifted(noise: str, shift: int) -> Maker:
    """Return noise of scale 1 around ``shift`` if there is a record, else around 0.

    Rounded to a grid before the shift is added: sums of floats would tell what was added.
    """

    def make(seed: int) -> Subject:
        draw = getattr(np.random.default_rng(seed), noise)
        return lambda data, size: np.rint(draw(size=size) * _GRID) / _GRID + shift * len(data)

    return make


def _four_halves(seed: int) -> Subject:
    """Return four numbers of Gaussian noise that move by a half each: together by 1. No single
    one tells as much as a projection that is fitted."""
    rng = np.random.default_rng(seed)

    def noisy(data: Any, size: int) -> Any:
        return np.rint(rng.standard_normal((size, 4)) * _GRID) / _GRID + len(data) / 2

    return noisy


@lru_cache
def _histogram() -> StabilityHistogram:
    return StabilityHistogram(
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=Fraction(1),
        width=1,
        delta=_DELTA,
        noise="gaussian",
    )


def _surfacing() -> Finite:
    """Return the histogram of one record: its bin reaches the threshold, or nothing is released."""
    (stage,) = _histogram().fixed_plan
    assert isinstance(stage, Stage)
    assert isinstance(stage.noise, ThresholdedGaussian)
    shown = float(
        scipy.special.ndtr(1.5 - stage.noise.threshold)
    )  # the count is 1 plus rounded noise
    return Finite((shown, 1 - shown), (0.0, 1.0))


def _ours(mechanism: Mechanism[Any]) -> Maker:
    return lambda seed: mechanism


# --- cases --------------------------------------------------------------------------------------


@lru_cache
def cases() -> dict[str, Case]:
    """Return all cases by name."""
    listed = [*_unknown_laws(), *_known_laws(), *_strict(), *_sequential(), *_single_calls()]
    return {case.name: case for case in listed}


def _case(name: str, subject: Maker, claim: Guarantee, truth: Truth, **more: Any) -> Case:
    return Case(
        name=name, subject=subject, claim=claim, truth=truth, **{"pairs": (_ADDED,), **more}
    )


def _learned(name: str, subject: Maker, claim: Guarantee, truth: Truth) -> Case:
    return _case(name, subject, claim, truth, certified=20)


def _unknown_laws() -> Iterator[Case]:
    """Yield functions, whose events are learned. That takes most of the time, so each is
    certified often.
    """
    noise, gaussian = _shifted("standard_normal", 0), _shifted("standard_normal", 1)
    yield _learned("identical noise, perfect privacy", noise, PerfectPrivacy(), _NOTHING)
    yield _learned("identical noise, tiny epsilon", noise, PureDP("1/1000"), _NOTHING)
    response = _response(1.0)
    yield _learned("randomized response", _among(response), PureDP(1), response)
    yield _learned("four values", _among(_FEW), PureDP(_above(math.log(4))), _FEW)
    rare = _learned("a rare event", _among(_RARE), PureDP(1), _RARE)
    yield dataclasses.replace(rare, trials=2000)
    leaking = _leaking(1.0, float(_DELTA))
    yield _learned("an impossible event", _among(leaking), ApproxDP(1, _DELTA), leaking)
    yield _learned("Laplace", _shifted("laplace", 1), PureDP(1), Laplace(1.0))
    truth = Gaussian(1.0)
    yield _learned("Gaussian, mu", gaussian, GaussianDP(1), truth)
    point = ApproxDP(1, GaussianDP(1).delta_at(1).upper)
    yield _learned("Gaussian, (epsilon, delta)", gaussian, point, truth)
    again = _learned("Gaussian, (epsilon, delta), a second look", gaussian, point, truth)
    again = dataclasses.replace(again, trials=50_000, certified=40)
    yield again
    name = "four Gaussian numbers, (epsilon, delta), a second look"
    yield dataclasses.replace(again, name=name, subject=_four_halves)
    yield _learned("texts", _told(response), PureDP(1), response)


def _known_laws() -> Iterator[Case]:
    """Yield mechanisms of ours, with the likelihood ratio."""
    one = Fraction(1)
    noisy = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=one)
    # Beside the two centers the ratio of the masses is constant, so two values tell everything.
    yield _case("discrete Laplace, ours", _ours(noisy), PureDP(1), _response(1.0))
    answers = RandomizedResponse(adjacency=Adjacency.REPLACE, noise_multiplier=one, categories=3)
    three = _response(1.0, 3)
    yield _case("three answers, ours", _ours(answers), PureDP(1), three, pairs=(_SWAPPED,))
    yield _case("three answers, three pairs, ours", _ours(answers), PureDP(1), three, pairs=_SWAPS)
    mean = ClippedMean(adjacency=Adjacency.REPLACE, noise_multiplier=one, center=(0.0,), radius=1)
    composed = mean.composed
    assert isinstance(composed, GaussianDP)
    gaussian = Gaussian(math.nextafter(math.sqrt(composed.mu_squared), math.inf))
    yield _case("Gaussian, ours", _ours(mean), composed, gaussian, pairs=(_ENDS,))
    along = "Gaussian, ours, with its curve"
    yield _case(along, _ours(mean), composed, gaussian, pairs=(_ENDS,), curve=8)
    histogram = _histogram()  # the histogram attains its claim where epsilon is large
    impossible = "an impossible event, ours"
    hidden = _case(impossible, _ours(histogram), histogram.composed, _surfacing())
    yield dataclasses.replace(hidden, trials=2000)


def _sequential() -> Iterator[Case]:
    """Yield some of the cases, audited by bets."""
    betting = {
        "identical noise, perfect privacy": _BETTING,
        "randomized response": _BETTING,
        "an impossible event": _BETTING,
        "Gaussian, mu": 100,
        "discrete Laplace, ours": _BETTING,
    }
    for case in (*_unknown_laws(), *_known_laws()):
        if case.name in betting:
            yield dataclasses.replace(
                case,
                name=f"{case.name}, sequential",
                sequential=True,
                trials=betting[case.name],
                certified=1,
            )


def _single_calls() -> Iterator[Case]:
    """Yield functions whose calls drift or share noise; audits of the latter all end as invalid."""
    phases = _learned(
        "randomized response in phases, one by one", _in_phases(1.0), PureDP(1), _response(1.0)
    )
    yield dataclasses.replace(phases, single=True)
    numbered = _case(
        "Laplace, numbered, one by one, sequential", _called(True), PureDP(1), Laplace(1.0)
    )
    yield dataclasses.replace(numbered, single=True, sequential=True, trials=_BETTING)
    kept = _case(
        "Laplace, noise kept for 20 calls, one by one", _called(False, 20), PureDP(1), Laplace(1.0)
    )
    yield dataclasses.replace(kept, single=True)


def _strict() -> Iterator[Case]:
    """Yield the case at the small alpha."""
    case = next(case for case in _known_laws() if case.name == "three answers, ours")
    name = f"{case.name}, small alpha"
    yield dataclasses.replace(case, name=name, alpha=STRICT, certified=200)


def _above(number: float) -> Fraction:
    """Return the next float, exactly, so that a claim is at least the number."""
    return Fraction(math.nextafter(number, math.inf))
