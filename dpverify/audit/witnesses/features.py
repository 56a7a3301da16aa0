"""Features of outputs: one number a draw, in words. What is worth looking at is learned on draws.

No feature has a least probability: a text or value seen twice on one side and never on the other
counts. How telling an event is, is measured by the difference of the square roots of its two
frequencies, which for rare and common events alike has a standard deviation of about one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import Draws, Labels
from dpverify.privacy.numbers import Floats

Score = Callable[[Draws], Floats]
"""Function that gives one number for each draw, never NaN. The event is {score >= threshold}."""
Column = Callable[[Draws], Labels]
"""Function that gives one text for each draw."""
_LARGEST = 1e300
_CELLS = 1 << 22  # numbers that are worked on at once
_BINS = 64
_PER_BIN = 20
_NARROW = 64
_COMPARED = 256  # numbers that are compared with each other


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature of outputs: one number for every draw. name: what it is, in words that a
    comparison can follow.
    """

    name: str
    score: Score


@dataclass(frozen=True, slots=True)
class Candidate:
    """A score, and the event {score >= threshold} in words.

    description: with {threshold} where the threshold goes; events of a label or value have none.
    both_signs: whether {-score >= threshold} is worth trying as well.
    fitted: whether the draws it was learned on made the score. Others may be judged on those as
    well.
    again: learns the same kind of score, of few numbers, on other draws of both sides.
    """

    description: str
    score: Score
    both_signs: bool = False
    fitted: bool = True
    again: Callable[[Draws, Draws], Candidate] | None = None


def tame(values: Any) -> Floats:
    """Replace NaN by 0, and infinities by the largest numbers allowed here. Numbers that are
    finite come back as they are.
    """
    numbers: Floats = np.asarray(values, dtype=np.float64)
    if np.isfinite(numbers).all():
        return numbers
    return np.nan_to_num(numbers, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)


def by_rows(numbers: Floats, function: Callable[[Floats], Any]) -> Floats:
    """Apply a function of rows of numbers, some rows at a time. Overflow counts as large."""
    step = max(1, _CELLS // max(1, numbers.shape[1]))
    with np.errstate(all="ignore"):
        return np.concatenate(
            [tame(function(numbers[i : i + step])) for i in range(0, max(1, len(numbers)), step)]
        )


def telling(own: Any, other: Any, own_size: int, other_size: int) -> Any:
    """Return about how many standard deviations apart two frequencies are."""
    rate = np.sqrt(np.asarray(own) / max(1, own_size)) - np.sqrt(
        np.asarray(other) / max(1, other_size)
    )
    return 2 * rate / np.sqrt(1 / max(1, own_size) + 1 / max(1, other_size))


def separation(own: Floats, other: Floats) -> float:
    """Return how telling the best event {score >= t} or {score < t} is."""
    own, other = np.sort(own), np.sort(other)
    cuts = np.concatenate([own, other])
    below = np.searchsorted(own, cuts), np.searchsorted(other, cuts)
    above = len(own) - below[0], len(other) - below[1]
    sizes = len(own), len(other)
    best = [np.max(np.abs(telling(*hits, *sizes)), initial=0.0) for hits in (below, above)]
    return float(max(best))


def log_ratio(own: Any, other: Any, own_size: int, other_size: int) -> Floats:
    """Return the log-ratio of two frequencies; half a hit more on each side, so that it is
    finite.
    """
    return np.asarray(
        np.log((np.asarray(own) + 0.5) / (own_size + 1))
        - np.log((np.asarray(other) + 0.5) / (other_size + 1))
    )


def text_ratio(column: Column, own: Draws, other: Draws) -> Score:
    """Return the log-ratio of the frequencies of a draw's text; 0 for an unknown one."""
    ours, theirs = column(own).counts(), column(other).counts()
    texts = list(dict.fromkeys([*ours, *theirs]))
    ratios = log_ratio(
        [ours.get(t, 0) for t in texts], [theirs.get(t, 0) for t in texts], len(own), len(other)
    )
    weights = dict(zip(texts, ratios.tolist(), strict=True))
    return lambda draws: column(draws).weighted(weights)


def calibrated(own: NDArray[Any], other: NDArray[Any]) -> Callable[[NDArray[Any]], Floats]:
    """Return the log-ratio of the densities of a number: value by value where values repeat,
    else by bins.
    """
    atoms, ours, theirs = _repeated(own, other)
    table = log_ratio(ours, theirs, len(own), len(other))
    loose = [side[~np.isin(side, atoms)] if len(atoms) else side for side in (own, other)]
    bins = min(_BINS, (len(loose[0]) + len(loose[1])) // (2 * _PER_BIN))
    pooled = np.sort(np.concatenate(loose))
    cuts = np.linspace(0, max(0, len(pooled) - 1), bins + 1).astype(np.intp)[1:-1]
    edges = np.unique(pooled[cuts])
    places = [np.searchsorted(edges, side, side="right") for side in loose]
    ours, theirs = (np.bincount(place, minlength=len(edges) + 1) for place in places)
    smooth = log_ratio(ours, theirs, len(own), len(other))

    def score(values: NDArray[Any]) -> Floats:
        result = smooth[np.searchsorted(edges, values, side="right")]
        if len(atoms):
            place = np.minimum(np.searchsorted(atoms, values), len(atoms) - 1)
            result = np.where(atoms[place] == values, table[place], result)
        return result

    return score


def likeliest(own: Floats, other: Floats) -> Callable[[Floats], Floats]:
    """Return the log-ratio of the densities of a number by the law that makes the sides likeliest:
    one that tells nothing, odds that rise or fall with the number, or ``calibrated``.

    Every fitted number makes them likelier by a half by chance (Wilks 1938), which is taken off.
    """
    best: Callable[[Floats], Floats] = _nothing
    most = 0.0
    offset = math.log((len(own) + 0.5) / (len(other) + 0.5))
    ways = [calibrated(own, other), *(_monotone(own, other, rising) for rising in (True, False))]
    for ratio in ways:
        told = [ratio(side) for side in (own, other)]
        likely = [
            scipy.special.log_expit(told[0] + offset),
            scipy.special.log_expit(-told[1] - offset),
        ]
        nothing = len(own) * scipy.special.log_expit(offset) + len(other) * scipy.special.log_expit(
            -offset
        )
        gained = sum(float(side.sum()) for side in likely) - float(nothing)
        gained -= (len(np.unique(np.concatenate(told))) - 1) / 2
        if gained > most:
            best, most = ratio, gained
    return best


def _nothing(values: Floats) -> Floats:
    return np.zeros(len(values))


def _monotone(own: Floats, other: Floats, rising: bool) -> Callable[[Floats], Floats]:
    """Return the log-ratio of the densities of a number with which the odds rise, or fall."""
    values, which = np.unique(np.concatenate([own, other]), return_inverse=True)
    both = np.bincount(which)
    hits = np.bincount(which[: len(own)], minlength=len(values))
    fitted = scipy.optimize.isotonic_regression(hits / both, weights=both, increasing=rising)
    starts = fitted.blocks[:-1]
    ours, all_of_them = (np.add.reduceat(counts, starts) for counts in (hits, both))
    table = log_ratio(ours, all_of_them - ours, len(own), len(other))
    edges = values[starts[1:]]
    return lambda numbers: table[np.searchsorted(edges, numbers, side="right")]


def _repeated(own: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], Any, Any]:
    """Return the values that occur more than once, in order, and how often on each side."""
    values, which = np.unique(np.concatenate([own, other]), return_inverse=True)
    if len(values) == len(which):
        return values[:0], np.zeros(0), np.zeros(0)
    ours = np.bincount(which[: len(own)], minlength=len(values))
    theirs = np.bincount(which[len(own) :], minlength=len(values))
    often = ours + theirs > 1
    return values[often], ours[often], theirs[often]


def atoms_of(own: NDArray[Any], other: NDArray[Any], most: int) -> list[tuple[Any, float]]:
    """Return the values that repeat, with how telling each is; the most telling first."""
    values, ours, theirs = _repeated(own, other)
    z_scores = telling(ours, theirs, len(own), len(other))
    best = np.argsort(-np.abs(z_scores), kind="stable")[:most]
    return [(values[i].item(), float(z_scores[i])) for i in best if abs(z_scores[i]) > 0]


def number(j: int) -> Score:
    """Return the number at one place, as a score."""
    return lambda draws: draws.column(j)


def derived(width: int) -> list[Feature]:
    """Return numbers made of an output's numbers."""
    if not width:
        return []
    single = width == 1
    of = "number 0" if single else f"the first {min(width, _NARROW)} numbers"
    least = [
        (f"lowest set bit's exponent of {of}", lambda x: lowest_bit(x[:, :_NARROW]).min(axis=1)),
        (f"significant bits of {of}", lambda x: _significant_bits(x[:, :_NARROW]).max(axis=1)),
    ]
    parity = [
        ("parity of the sum", lambda x: np.abs(np.floor(x.sum(axis=1))) % 2),
        ("fractional part of the sum", lambda x: x.sum(axis=1) - np.floor(x.sum(axis=1))),
        ("L1 norm", lambda x: np.abs(x).sum(axis=1)),
    ]
    several = [
        ("sum", lambda x: x.sum(axis=1)),
        ("L2 norm", lambda x: np.sqrt(np.einsum("ij,ij->i", x, x))),
        ("largest absolute number", lambda x: np.abs(x).max(axis=1)),
        ("largest number", lambda x: x.max(axis=1)),
        ("smallest number", lambda x: x.min(axis=1)),
        ("count of zeros", lambda x: (x == 0).sum(axis=1)),
        ("count of negative numbers", lambda x: (x < 0).sum(axis=1)),
        ("largest step", lambda x: np.abs(np.diff(x, axis=1)).max(axis=1)),
        ("sum of absolute steps", lambda x: np.abs(np.diff(x, axis=1)).sum(axis=1)),
        ("count of rises", lambda x: (np.diff(x, axis=1) > 0).sum(axis=1)),
    ]
    features = [Feature(name, _rowwise(name, f, width)) for name, f in least + parity]
    if not single:
        features += [Feature(name, _rowwise(name, f, width)) for name, f in several]
    if 1 < width <= _COMPARED:
        name = "count of repeated numbers"
        features.append(Feature(name, _rowwise(name, _repeats, width)))
    return features


def _rowwise(name: str, function: Callable[[Floats], Any], width: int) -> Score:
    """Return a score of rows cut or filled up with 0 to the width that was learned.

    The width of the batch may not matter: the score of a draw must not depend on other draws.
    """

    def score(draws: Draws) -> Floats:
        if (name, width) not in draws.made:
            draws.made[name, width] = by_rows(draws.columns(width), function)
        return draws.made[name, width]

    return score


def _repeats(rows: Floats) -> Any:
    return (np.diff(np.sort(rows, axis=1), axis=1) == 0).sum(axis=1)


def lowest_bit(values: Floats) -> Floats:
    """Return e with x an odd multiple of 2^e; 2000 for zero."""
    mantissas, exponents = np.frexp(values)
    integers = (mantissas * 2.0**53).astype(np.int64)
    powers = (integers & -integers).astype(np.float64)
    lowest = (powers.view(np.int64) >> 52) - 1023  # the exponent's bits; the sign's are 0
    return np.where(values == 0, 2000.0, exponents + (lowest - 53.0))


def _significant_bits(values: Floats) -> Floats:
    return np.where(values == 0, 0.0, np.frexp(values)[1] - lowest_bit(values))


def matrix(features: Sequence[Feature], draws: Draws) -> Floats:
    """Return the features of all draws, shape (size, len(features))."""
    return np.column_stack([feature.score(draws) for feature in features])
