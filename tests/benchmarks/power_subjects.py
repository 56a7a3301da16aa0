"""Functions whose law the auditor does not know, each with its best score.

Every subject moves by its record: the pairs are no record against one. Noise is rounded to
multiples of 2^-16 before anything is added to it. Groups: ``built`` (settings of the auditor were
chosen with these, on other seeds), ``fresh`` (mixtures that were written down before, and not
looked at), ``unseen`` (likewise, written after mixtures were fitted by likelihood), ``noise``
(likewise, written after the law of noise was learned), ``plain`` (where nothing may be lost).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from dpverify.audit.outputs.draws import Draws
from dpverify.privacy import ApproxDP, Guarantee, PureDP
from dpverify.privacy.numbers import Floats

GRID = 2.0**16
Rng = np.random.Generator
Draw = Callable[[Rng, int, int], Any]
"""rng, size, number of records (0 or 1) to outputs."""
Score = Callable[[Draws], Floats]


@dataclass(frozen=True)
class Subject:
    """One row. best: the logarithm of the density with the record over that without."""

    group: str
    draw: Draw
    claim: Guarantee
    best: Score
    trials: int = 100_000
    alpha: float = 0.05

    def function(self, seed: int) -> Callable[[Any, int], Any]:
        """Return the subject as f(dataset, size), on a generator from ``seed``."""
        rng = np.random.default_rng([seed, 77])
        return lambda data, size: self.draw(rng, size, len(data))


def on_grid(values: Floats) -> Floats:
    """Round to the grid."""
    return np.asarray(np.rint(values * GRID) / GRID)


def shifted(variance: float, width: int = 1) -> Score:
    """Score Gaussian noise where the given number of entries move by 1."""
    return lambda draws: (draws.columns(width).sum(axis=1) - width / 2) / variance


def two_sided(scale: float) -> Score:
    """Score two-sided exponential noise where the first entry moves by 1."""
    return lambda draws: (np.abs(draws.column(0)) - np.abs(draws.column(0) - 1)) / scale


def told(truth: float) -> Score:
    """Score a first bit that is right with this probability."""
    return lambda draws: (2 * draws.column(0) - 1) * math.log(truth / (1 - truth))


def sampled(share: float, score: Score) -> Score:
    """Score a record that a coin keeps, from the score of a record that is always kept."""
    return lambda draws: np.logaddexp(math.log1p(-share), math.log(share) + score(draws))


# --- mixtures -----------------------------------------------------------------------------------


def subsampled(kind: str, share: float, scale: float) -> Draw:
    """Sum the records that a coin keeps, with this noise."""

    def draw(rng: Rng, size: int, records: int) -> Any:
        kept = (rng.random(size) < share) * records
        return on_grid(getattr(rng, kind)(0.0, scale, size)) + kept

    return draw


STEPS, WIDTH, SHARE, SIGMA = 10, 5, 0.2, 1.0
_TOWARD = np.array([3.0, -1.0, 2.0, 0.0, 1.0]) / math.sqrt(15.0)


def noisy_sgd(whole: bool) -> Draw:
    """Run ten steps in five dimensions; the record's gradient, if sampled, is a fixed unit
    vector."""

    def draw(rng: Rng, size: int, records: int) -> Any:
        kept = (rng.random((size, STEPS, 1)) < SHARE) * records
        steps = on_grid(rng.normal(0, SIGMA, (size, STEPS, WIDTH))) + kept * on_grid(_TOWARD)
        iterates = np.cumsum(steps, axis=1)
        return iterates.reshape(size, -1) if whole else iterates[:, -1]

    return draw


def _of_transcript(draws: Draws) -> Floats:
    iterates = draws.numbers.reshape(len(draws), STEPS, WIDTH)
    along = np.diff(iterates, axis=1, prepend=0.0) @ _TOWARD
    kept = math.log(SHARE) + (along - 0.5) / SIGMA**2
    return np.asarray(np.logaddexp(math.log1p(-SHARE), kept).sum(axis=1))


def _of_last(draws: Draws) -> Floats:
    along = draws.numbers @ _TOWARD
    times = np.arange(STEPS + 1)
    each = (np.outer(along, times) - times**2 / 2) / (STEPS * SIGMA**2)
    return np.asarray(logsumexp(each + binom.logpmf(times, STEPS, SHARE), axis=1))


def two_scales(rng: Rng, size: int, records: int) -> Any:
    """Add Gaussian noise, three times as large in a tenth of the draws."""
    wide = rng.random(size) < 0.1
    return on_grid(rng.normal(0, 1, size) * np.where(wide, 3.0, 1.0)) + records


def _of_two_scales(draws: Draws) -> Floats:
    def density(x: Floats) -> Floats:
        return 0.9 * np.exp(-(x**2) / 2) + 0.1 / 3 * np.exp(-(x**2) / 18)

    x = draws.column(0)
    return np.asarray(np.log(density(x - 1)) - np.log(density(x)))


def atom_or_gaussian(rng: Rng, size: int, records: int) -> Any:
    """Return 0 with probability .3 or .5, else a number about -1 or 1."""
    silent = rng.random(size) < (0.3 if records else 0.5)
    return np.where(silent, 0.0, on_grid(rng.normal(0, 1.5, size)) + 0.5 * records)


def _of_atom(draws: Draws) -> Floats:
    x = draws.column(0)
    spread = math.log(0.7 / 0.5) + (0.5 * x - 0.125) / 1.5**2
    return np.where(x == 0, math.log(0.3 / 0.5), spread)


def two_looks(rng: Rng, size: int, records: int) -> Any:
    """Sample the same record twice, independently, with noise of two scales."""
    kept = (rng.random((size, 2)) < [0.3, 0.1]) * records
    return on_grid(rng.normal(0, [1.2, 0.8], (size, 2))) + kept


def _of_two_looks(draws: Draws) -> Floats:
    shares, variances = np.array([0.3, 0.1]), np.array([1.44, 0.64])
    kept = np.log(shares) + (draws.columns(2) - 0.5) / variances
    return np.asarray(np.logaddexp(np.log1p(-shares), kept).sum(axis=1))


def several_looks(kind: str, shares: Floats, scales: Floats) -> Draw:
    """Sample the record once for every number, independently."""

    def draw(rng: Rng, size: int, records: int) -> Any:
        kept = (rng.random((size, len(shares))) < shares) * records
        return on_grid(getattr(rng, kind)(0.0, scales, (size, len(shares)))) + kept

    return draw


def _of_looks(shares: Floats, score: Callable[[Floats], Floats]) -> Score:
    def of(draws: Draws) -> Floats:
        kept = np.log(shares) + score(draws.columns(len(shares)))
        return np.asarray(np.logaddexp(np.log1p(-shares), kept).sum(axis=1))

    return of


_LOOKS, _SCALES = np.array([0.15, 0.3, 0.05]), np.array([0.7, 1.0, 0.5])
_FOUR = np.full(4, 0.05)
_PAIR, _PAIRED = np.array([0.25, 0.1]), np.array([0.4, 0.3])
_SIX, _NOISES = np.full(6, 0.1), np.full(6, 0.6)
_MOVE, _ROOT = np.array([1.0, 0.5, -1.0]), np.array([[1.0, 0, 0], [0.6, 0.8, 0], [0.2, 0.3, 0.7]])


def _logistic(x: Floats) -> Floats:
    """Score logistic noise where every number moves by 1."""
    log_densities = (-np.abs(y) / _PAIRED - 2 * np.log1p(np.exp(-np.abs(y) / _PAIRED))
                     for y in (x - 1, x))  # fmt: skip
    moved, still = log_densities
    return np.asarray(moved - still)


def correlated(rng: Rng, size: int, records: int) -> Any:
    """Add correlated Gaussian noise to a vector that a coin keeps."""
    kept = (rng.random((size, 1)) < 0.1) * records
    return on_grid(rng.normal(0, 1, (size, 3)) @ _ROOT.T) + kept * _MOVE


def _of_correlated(draws: Draws) -> Floats:
    precise = np.linalg.inv(_ROOT @ _ROOT.T) @ _MOVE
    along = draws.columns(3) @ precise - _MOVE @ precise / 2
    return np.asarray(np.logaddexp(math.log(0.9), math.log(0.1) + along))


def either_place(rng: Rng, size: int, records: int) -> Any:
    """Add the record at one of two places, as a coin says, under Gaussian noise."""
    places = np.arange(2) == rng.integers(2, size=(size, 1))
    return on_grid(rng.normal(0, 0.8, (size, 2))) + places * records


def _of_either(draws: Draws) -> Floats:
    kept = (draws.columns(2) - 0.5) / 0.64
    return np.asarray(np.logaddexp(kept[:, 0], kept[:, 1]) - math.log(2))


# --- secrets, independent entries, plain things ---------------------------------------------------


def rare_secret(rng: Rng, size: int, records: int) -> Any:
    """Return 7 with probability .002 where the record is, among numbers of two decimals."""
    told = (rng.random(size) < 0.002) & (records == 1)
    return np.where(told, 7.0, rng.normal(0, 1, size).round(2))


def entries(width: int, noise: Callable[[Rng, tuple[int, int]], Floats], places: int = 1) -> Draw:
    """Add independent noise in every entry; the first entries move by the record."""

    def draw(rng: Rng, size: int, records: int) -> Any:
        values = noise(rng, (size, width))
        values[:, :places] += records
        return values

    return draw


def bits(width: int, truth: float) -> Draw:
    """Flip bits by chance; the first of them is the record's."""

    def draw(rng: Rng, size: int, records: int) -> Any:
        flipped = rng.random((size, width)) >= truth
        flipped[:, 0] ^= bool(records)
        return flipped.astype(np.int64)

    return draw


def _laplace(scale: float) -> Callable[[Rng, tuple[int, int]], Floats]:
    return lambda rng, shape: on_grid(rng.laplace(0, scale, shape))


def _normal(scale: float) -> Callable[[Rng, tuple[int, int]], Floats]:
    return lambda rng, shape: on_grid(rng.normal(0, scale, shape))


def _geometric(rng: Rng, shape: tuple[int, int]) -> Floats:
    share = 1 - math.exp(-1)
    return np.asarray(rng.geometric(share, shape) - rng.geometric(share, shape), dtype=np.float64)


def _of_secret(draws: Draws) -> Floats:
    return np.where(draws.column(0) == 7.0, math.inf, math.log(0.998))


_SMALL = ApproxDP(1, "1e-5")
_NOISE = 3.73
_SAMPLED = subsampled("normal", 0.2, 1.0), sampled(0.2, shifted(1.0))
_TRUE = ApproxDP("2.45", "1e-5")


def _subject(
    group: str,
    draw: Draw,
    best: Score,
    claim: Guarantee,
    *,
    trials: int = 100_000,
    alpha: float = 0.05,
) -> Subject:
    return Subject(group, draw, claim, best, trials, alpha)


SUBJECTS: dict[str, Subject] = {
    "subsampled Gaussian": _subject("built", *_SAMPLED, _TRUE),
    "subsampled Gaussian, 10^6 draws": _subject("built", *_SAMPLED, _TRUE, trials=10**6),
    "subsampled Gaussian, claimed (1, 1e-5)": _subject("built", *_SAMPLED, _SMALL),
    "noisy SGD, transcript": _subject(
        "built", noisy_sgd(whole=True), _of_transcript, ApproxDP(10, "1e-5")
    ),
    "noisy SGD, last iterate": _subject(
        "built", noisy_sgd(whole=False), _of_last, ApproxDP(10, "1e-5")
    ),
    "Gaussian of two scales": _subject("fresh", two_scales, _of_two_scales, ApproxDP(5, "1e-5")),
    "subsampled Laplace": _subject(
        "fresh", subsampled("laplace", 0.1, 0.4), sampled(0.1, two_sided(0.4)), PureDP("0.8")
    ),
    "an atom or a Gaussian": _subject("fresh", atom_or_gaussian, _of_atom, ApproxDP(3, "1e-5")),
    "sampled twice": _subject("fresh", two_looks, _of_two_looks, ApproxDP(6, "1e-5")),
    "Laplace, sampled three times": _subject(
        "unseen",
        several_looks("laplace", _LOOKS, _SCALES),
        _of_looks(_LOOKS, lambda x: (np.abs(x) - np.abs(x - 1)) / _SCALES),
        PureDP(5),
    ),
    "Gaussian, sampled four times": _subject(
        "unseen",
        several_looks("normal", _FOUR, np.full(4, 0.7)),
        _of_looks(_FOUR, lambda x: (x - 0.5) / 0.49),
        ApproxDP(7, "1e-5"),
    ),
    "correlated Gaussian, sampled": _subject(
        "unseen", correlated, _of_correlated, ApproxDP(8, "1e-5")
    ),
    "one of two places": _subject("unseen", either_place, _of_either, ApproxDP(7, "1e-5")),
    "logistic noise, sampled twice": _subject(
        "noise", several_looks("logistic", _PAIR, _PAIRED), _of_looks(_PAIR, _logistic), PureDP(6)
    ),
    "Laplace, sampled six times alike": _subject(
        "noise",
        several_looks("laplace", _SIX, _NOISES),
        _of_looks(_SIX, lambda x: (np.abs(x) - np.abs(x - 1)) / _NOISES),
        PureDP(5),
    ),
    "rare secret, 40,000 draws": _subject(
        "secret", rare_secret, _of_secret, PureDP(1), trials=40_000, alpha=1e-6
    ),
    "20 Laplace counts, one moves": _subject(
        "entries", entries(20, _laplace(1.0)), two_sided(1.0), PureDP(1)
    ),
    "20 bits, one moves": _subject("entries", bits(20, 0.645), told(0.645), PureDP("0.6")),
    "40 Gaussian entries, one moves": _subject(
        "entries", entries(40, _normal(_NOISE)), shifted(_NOISE**2), _SMALL
    ),
    "10 Gaussian entries, all move": _subject(
        "entries",
        entries(10, _normal(_NOISE * math.sqrt(10)), 10),
        shifted(10 * _NOISE**2, 10),
        _SMALL,
    ),
    "Laplace": _subject("plain", entries(1, _laplace(1.0)), two_sided(1.0), PureDP(1)),
    "Laplace, 10^4 draws": _subject(
        "plain", entries(1, _laplace(1.0)), two_sided(1.0), PureDP(1), trials=10_000
    ),
    "Laplace, epsilon .2": _subject(
        "plain", entries(1, _laplace(5.0)), two_sided(5.0), PureDP("0.2")
    ),
    "Laplace, claimed half": _subject(
        "plain", entries(1, _laplace(0.5)), two_sided(0.5), PureDP(1)
    ),
    "Gaussian": _subject("plain", entries(1, _normal(_NOISE)), shifted(_NOISE**2), _SMALL),
    "Gaussian, 10^4 draws": _subject(
        "plain", entries(1, _normal(_NOISE)), shifted(_NOISE**2), _SMALL, trials=10_000
    ),
    "Gaussian of deviation 1": _subject(
        "plain", entries(1, _normal(1.0)), shifted(1.0), ApproxDP(5, "1e-5")
    ),
    "two-sided geometric": _subject("plain", entries(1, _geometric), two_sided(1.0), PureDP(1)),
    "randomized response": _subject("plain", bits(1, 0.731), told(0.731), PureDP(1)),
}
