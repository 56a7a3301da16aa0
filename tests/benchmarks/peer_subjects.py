"""Mechanisms on which auditors are compared: outputs, exact log-likelihood ratios, and truths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, xlogy

from audits.classical import CLASSICAL, Classical
from audits.classical.noisy_max import largest_at_most, wins
from audits.classical.rappor import set_probabilities
from audits.classical.sparse_vector import ABORT, FALSE, TRUE, SparseVector, ValueInstead
from dpverify.audit import NeighboringPair, added
from dpverify.audit.neighbors.pairs import QueryMoves, moved
from dpverify.privacy import ApproxDP, Guarantee, PureDP
from dpverify.privacy.numbers import Floats
from tests.benchmarks.certified_bounds import mu_of_budget
from tests.benchmarks.peer_scores import (
    Score,
    bits_score,
    difference,
    laplace_score,
    log,
    tabled,
    values_instead,
)

DRAWS = 100_000
"""A side; but for the rare secret."""
DELTA = 1e-5
GRID = 2.0**16
Function = Callable[[Any, int, np.random.Generator], Floats]


@dataclass(frozen=True)
class Subject:
    """A mechanism on two datasets. Outputs are numbers, shape (size, columns).

    score: log P(output | left) - log P(output | right), exactly. claim: what is audited; of
    pairs several steps apart for the group, and all bounds are divided by the steps. truth: the
    least epsilon at the claim's delta that holds on this pair, a step; NaN where it is not
    known. flags: values that stand for no number.
    """

    name: str
    function: Function
    pair: NeighboringPair
    claim: Guarantee
    score: Score
    truth: float
    delta: float = 0.0
    steps: int = 1
    flags: tuple[float, ...] = ()
    draws: int = DRAWS

    def outputs(self, data: Any, size: int, rng: np.random.Generator) -> Floats:
        """Draw outputs, shape (size, columns)."""
        drawn = np.asarray(self.function(data, size, rng), dtype=np.float64)
        return drawn.reshape(size, -1)


def on_grid(values: Floats) -> Floats:
    """Round to multiples of 2^-16: sums of floats would show what was added."""
    return np.rint(values * GRID) / GRID


# --- classical mechanisms -----------------------------------------------------------------------


def classical() -> list[Subject]:
    """List those of audits/classical, each on its worst pair."""
    return [
        Subject(
            one.name,
            one.function,
            one.pairs[0],
            one.claim,
            _classical_score(one),
            one.truth,
            steps=one.steps,
            flags=(float(ABORT),) if one.name.startswith("SVT") else (),
        )
        for one in CLASSICAL
    ]


def _classical_score(one: Classical) -> Score:
    left, right = one.pairs[0].left, one.pairs[0].right
    if isinstance(one.function, ValueInstead):
        return values_instead(one.function, left, right)
    if isinstance(one.function, SparseVector):
        return tabled(one.function.probability, left, right)
    if one.name in ("Laplace", "NoisyHist1", "NoisyHist2"):
        return laplace_score([*left], [*right], 0.1 if one.name == "NoisyHist2" else 10.0)
    if one.name == "RAPPOR":
        return bits_score(set_probabilities(left[0]), set_probabilities(right[0]))
    kind: Any = "exponential" if one.name in ("RNM2", "RNM4") else "laplace"
    if one.name in ("RNM1", "RNM2"):
        return tabled(lambda data, row: wins(data, int(row[0]), kind), left, right)

    def log_mass(data: Any, values: Floats) -> Floats:
        half = 2.0**-10
        ends = (np.array(largest_at_most(data, values + away, kind)) for away in (half, -half))
        return log(next(ends) - next(ends))

    return lambda outputs: difference(log_mass(left, outputs[:, 0]), log_mass(right, outputs[:, 0]))


# --- more of the literature ---------------------------------------------------------------------


def literature() -> list[Subject]:
    """List mechanisms of DP-Sniper's own benchmark that audits/classical lacks."""
    return [_prefix_sum(), _truncated_geometric(), _one_time_rappor(), _numerical_svt()]


def _prefix_sum() -> Subject:
    """Build the sums of the first answers, each plus noise: of ten, the fifth moves."""
    left, right = [0.0] * 10, [0.0] * 4 + [1.0] + [0.0] * 5
    pair = moved("the fifth", left, right, QueryMoves(by=1, at_once=1))

    def sums(data: Any, size: int, rng: np.random.Generator) -> Floats:
        noisy = np.asarray(data) + on_grid(rng.laplace(scale=10.0, size=(size, len(data))))
        return np.cumsum(noisy, axis=1)

    of_answers = laplace_score(left, right, 10.0)
    score: Score = lambda outputs: of_answers(np.diff(outputs, axis=1, prepend=0.0))  # noqa: E731
    return Subject("PrefixSum", sums, pair, PureDP("0.1"), score, 0.1)


def _truncated_geometric() -> Subject:
    """Build a count from 0 to 5 with two-sided geometric noise, clamped to the same range."""
    keep = math.exp(-0.1)

    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        noise = rng.geometric(1 - keep, size) - rng.geometric(1 - keep, size)
        return np.asarray(np.clip(data[0] + noise, 0, 5), np.float64)

    def probability(data: Any, row: Sequence[int]) -> float:
        (value,), count = row, data[0]
        inside = (1 - keep) if 0 < value < 5 else 1.0
        return float(inside * keep ** abs(value - count) / (1 + keep))

    pair = moved("one more", [2.0], [1.0])
    score = tabled(probability, [2.0], [3.0])
    return Subject("TruncatedGeometric", release, pair, PureDP("0.1"), score, 0.1)


def _one_time_rappor() -> Subject:
    """Build RAPPOR's permanent answer: 20 bits, each kept with probability .525."""
    pair = next(one for one in CLASSICAL if one.name == "RAPPOR").pairs[0]
    sides = [
        np.where(set_probabilities(data[0]) > 0.5, 0.525, 0.475) for data in (pair.left, pair.right)
    ]

    def report(data: Any, size: int, rng: np.random.Generator) -> Floats:
        high = np.where(set_probabilities(data[0]) > 0.5, 0.525, 0.475)
        return (rng.random((size, 20)) < high).astype(np.float64)

    truth = 8 * math.log(0.525 / 0.475)
    return Subject("OneTimeRAPPOR", report, pair, PureDP("0.801"), bits_score(*sides), truth)


def _numerical_svt() -> Subject:
    """Build the first answer above a noisy threshold, with fresh noise: number of FALSE, and the
    value."""
    vector = SparseVector(threshold=0.0, rho=30.0, nu=60.0)
    scale, left, right = 30.0, [0.0] * 10, [1.0] * 9 + [-1.0]

    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        answers = vector(data, size, rng)
        above = (answers == TRUE).any(axis=1)
        first = np.where(above, (answers == TRUE).argmax(axis=1), len(data))
        queries = np.append(np.asarray(data), 0.0)[first]
        values = np.where(above, on_grid(queries + rng.laplace(scale=scale, size=size)), 0.0)
        return np.stack([first, values], axis=1)

    def probability(data: Any, row: Sequence[int]) -> float:
        ends = [TRUE] if row[0] < len(data) else []
        return vector.probability(data, [FALSE] * row[0] + ends)

    of_first = tabled(probability, left, right)
    ours, theirs = (np.append(np.asarray(data), 0.0) for data in (left, right))

    def score(outputs: Floats) -> Floats:
        first, values = outputs[:, 0].astype(np.int64), outputs[:, 1]
        gaps = np.abs(values - theirs[first]) - np.abs(values - ours[first])
        return np.asarray(np.round(of_first(outputs[:, :1]) + gaps / scale, 9))

    last = [FALSE] * 9 + [TRUE]
    ratio = vector.probability(left, last) / vector.probability(right, last)
    truth = math.log(ratio) + 1 / scale
    pair = moved("nine go up, the last down", left, right)
    return Subject("NumericalSVT", release, pair, PureDP("0.1"), score, truth)


# --- Gaussian noise, subsampled, in steps; a rare secret ----------------------------------------

RATE, STEPS, COLUMNS = 0.2, 10, 5
"""Parameters of the subsampled Gaussian and of noisy gradients; noise of deviation 1, norms 1."""
_DIRECTION = np.array([2.0, -1.0, 1.0, 0.0, 2.0]) / math.sqrt(10)
ONE_MORE = added("one enters", [], 1.0)


def gaussian() -> list[Subject]:
    """List Laplace noise at epsilon 1, Gaussian noise for (1, 1e-5), mixtures, and a rare
    secret."""
    mu = float(mu_of_budget())

    def laplace(data: Any, size: int, rng: np.random.Generator) -> Floats:
        return len(data) + on_grid(rng.laplace(size=size))

    def normal(width: int) -> Function:
        def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
            shift = mu * len(data) / math.sqrt(width)
            return on_grid(shift + rng.normal(size=(size, width)))

        return release

    claim = ApproxDP(1, "1e-5")
    rows = [
        Subject(
            "Laplace, epsilon 1", laplace, ONE_MORE, PureDP(1), laplace_score([1], [0], 1.0), 1.0
        )
    ]
    for width in (1, 10):
        length = mu / math.sqrt(width)

        def score(outputs: Floats, length: float = length) -> Floats:
            return np.asarray(length * outputs.sum(axis=1) - mu**2 / 2)

        name = f"Gaussian, d = {width}"
        rows.append(Subject(name, normal(width), ONE_MORE, claim, score, 1.0, DELTA))
    return [*rows, _subsampled(), _transcript(), _last_iterate(), _rare_secret()]


def _subsampled() -> Subject:
    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        taken = (rng.random(size) < RATE) & (len(data) > 0)
        return on_grid(taken + rng.normal(size=size))

    def score(outputs: Floats) -> Floats:
        return np.log1p(RATE * np.expm1(outputs[:, 0] - 0.5))

    truth = _mixture_epsilon(np.array([1 - RATE, RATE]), 1.0)
    claim = ApproxDP("2.448", "1e-5")
    return Subject("subsampled Gaussian", release, ONE_MORE, claim, score, truth, DELTA)


def _gradients(others: bool) -> Callable[[Any, int, np.random.Generator], tuple[Floats, Floats]]:
    """Return noisy gradients of all steps, shape (size, STEPS, COLUMNS), and the iterates after
    them.

    The record's gradient is a constant vector of norm 1, used in a step with probability RATE;
    others: that of the other records pulls the iterate to a point.
    """

    def run(data: Any, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        iterate, gradients, iterates = np.zeros((size, COLUMNS)), [], []
        for _ in range(STEPS):
            taken = (rng.random((size, 1)) < RATE) & (len(data) > 0)
            noisy = pull(iterate) * others + taken * _DIRECTION + rng.normal(size=(size, COLUMNS))
            gradients.append(on_grid(noisy))
            iterate = iterate - gradients[-1] / 4
            iterates.append(iterate)
        return np.stack(gradients, axis=1), np.stack(iterates, axis=1)

    return run


def pull(iterate: Floats) -> Floats:
    """Return the other records' clipped gradient, which follows from the iterate."""
    away = 3 * iterate - 1.0
    return np.asarray(away / np.maximum(1.0, np.linalg.norm(away, axis=1, keepdims=True)))


def _transcript() -> Subject:
    run = _gradients(others=True)

    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        return run(data, size, rng)[0].reshape(size, -1)

    def score(outputs: Floats) -> Floats:
        gradients = outputs.reshape(len(outputs), STEPS, COLUMNS)
        iterate, scores = np.zeros((len(outputs), COLUMNS)), np.zeros(len(outputs))
        for t in range(STEPS):
            along = (gradients[:, t] - pull(iterate)) @ _DIRECTION
            scores += np.log1p(RATE * np.expm1(along - 0.5))
            iterate = iterate - gradients[:, t] / 4
        return scores

    claim, truth = ApproxDP("4.985", "1e-5"), 4.9842  # by the PLD accountant of dp-accounting 0.6
    return Subject("noisy SGD, transcript", release, ONE_MORE, claim, score, truth, DELTA)


def _last_iterate() -> Subject:
    """Build the last iterate of a linear loss: the sum of all gradients, a mixture of normal
    laws."""
    run = _gradients(others=False)
    number = np.arange(STEPS + 1)
    log_weights = (
        gammaln(STEPS + 1) - gammaln(number + 1) - gammaln(STEPS - number + 1)
        + xlogy(number, RATE) + xlogy(STEPS - number, 1 - RATE)
    )  # fmt: skip

    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        return run(data, size, rng)[1][:, -1]

    def score(outputs: Floats) -> Floats:
        along = -4 * outputs @ _DIRECTION
        exponents = (along[:, np.newaxis] * number - number**2 / 2) / STEPS
        return np.asarray(logsumexp(exponents + log_weights, axis=1), np.float64)

    truth = _mixture_epsilon(np.exp(log_weights), math.sqrt(STEPS))
    claim = ApproxDP("4.346", "1e-5")
    return Subject("noisy SGD, last iterate", release, ONE_MORE, claim, score, truth, DELTA)


def _mixture_epsilon(weights: Floats, deviation: float) -> float:
    """Compute epsilon at DELTA of a mixture of normal laws about 0, 1, ... against the one about 0.

    The best threshold in either direction gives it: the odds rise with the output, so no other
    event does better.
    """
    about = np.arange(len(weights))

    def told(cuts: Floats) -> Floats:
        epsilons = np.full(len(cuts), -math.inf)
        mixed = sum(w * ndtr((k - cuts) / deviation) for k, w in zip(about, weights, strict=True))
        below = sum(w * ndtr((cuts - k) / deviation) for k, w in zip(about, weights, strict=True))
        for own, other in ((mixed, ndtr(-cuts / deviation)), (ndtr(cuts / deviation), below)):
            seen = (own > DELTA) & (other > 0)
            epsilons[seen] = np.maximum(epsilons[seen], np.log((own[seen] - DELTA) / other[seen]))
        return epsilons

    cuts = np.linspace(-12, 30, 420_001) * deviation
    near = 200 * int(np.argmax(told(cuts[::200])))
    return float(told(cuts[max(near - 400, 0) : near + 401]).max())


def _rare_secret() -> Subject:
    """Build a noisy number; with probability .002, where the record is there, the record comes
    out."""
    secret = 64.0

    def release(data: Any, size: int, rng: np.random.Generator) -> Floats:
        leaks = (rng.random(size) < 0.002) & (len(data) > 0)
        return np.where(leaks, secret, on_grid(rng.normal(size=size)))

    def score(outputs: Floats) -> Floats:
        return np.where(outputs[:, 0] == secret, np.inf, math.log(0.998))

    return Subject("rare secret", release, ONE_MORE, PureDP(1), score, math.inf, draws=40_000)


def subjects() -> list[Subject]:
    """List all rows."""
    return [*classical(), *literature(), *gaussian()]


__all__ = ["DELTA", "Subject", "subjects"]
