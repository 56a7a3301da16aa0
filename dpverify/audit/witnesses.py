"""Witnesses: events that tell two neighbors apart, chosen on draws that are then put aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.certificates import Point, at_least, at_most, certified_epsilon
from dpverify.audit.outputs import AuditedLaw, Draws

Floats = NDArray[np.float64]
Score = Callable[[Draws], Floats]
_THRESHOLDS = 400
_ATOMS = 16
_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Witness:
    """The event {score >= threshold}; more likely on the side it was chosen for.

    point: the (epsilon, delta) of the claim that it is to refute.
    """

    description: str
    score: Score
    threshold: float
    point: Point

    def __str__(self) -> str:
        return self.description.format(threshold=f"{self.threshold:.6g}")

    def hits(self, draws: Draws) -> int:
        """In how many draws the event happens."""
        return int(np.count_nonzero(self.score(draws) >= self.threshold))


def choose(
    own: Draws,
    other: Draws,
    own_law: AuditedLaw,
    other_law: AuditedLaw,
    points: Sequence[Point],
    alpha: float,
) -> Witness:
    """The event, and the point of the claim, whose certified epsilon is most above the claimed one.

    With a known law the score is the exact log-likelihood ratio (the best there is, by Neyman and
    Pearson); the labels and numbers of the outputs are tried as well, for faults it cannot see.
    """
    best, best_value = Witness("everything", _everything, 0.0, points[0]), -np.inf
    for description, score in _candidates(own, other, own_law, other_law):
        threshold, point, value = _best_threshold(score(own), score(other), points, alpha)
        if value > best_value:
            best, best_value = Witness(description, score, threshold, point), value
    return best


def _candidates(
    own: Draws, other: Draws, own_law: AuditedLaw, other_law: AuditedLaw
) -> Iterator[tuple[str, Score]]:
    known = own_law.log_likelihood(own) is not None
    if known:
        yield "log-likelihood ratio >= {threshold}", _likelihood_ratio(own_law, other_law)
    for label in _telling_labels(own, other):
        yield f"output is {_plain(label)}", _has_label(label)
    columns = min(own.numbers.shape[1], other.numbers.shape[1])
    for column in range(min(columns, _COLUMNS)):
        yield f"number {column} >= {{threshold}}", _column(column, 1.0)
        yield f"minus number {column} >= {{threshold}}", _column(column, -1.0)
        for atom in [] if known else _frequent(own.numbers[:, column]):
            yield f"number {column} is {atom!r}", _equals(column, atom)
    if own.numbers.shape[1] == other.numbers.shape[1] > 1:
        direction = own.numbers.mean(axis=0) - other.numbers.mean(axis=0)
        yield "projection on the difference of means >= {threshold}", _projection(direction)


def _telling_labels(own: Draws, other: Draws) -> list[Hashable]:
    """The labels, unless all outputs of both sides have the same one."""
    found = _frequent(own.labels)
    return found if len(found) > 1 or found != _frequent(other.labels) else []


def _best_threshold(
    own: Floats, other: Floats, points: Sequence[Point], alpha: float
) -> tuple[float, Point, float]:
    """The threshold t and the point for which {score >= t} certifies most above the claimed epsilon."""
    own, other = np.sort(own), np.sort(other)
    ranks = np.arange(len(own))
    if len(own) > _THRESHOLDS:  # evenly spaced ranks, and finely in both tails: rare events
        tail = np.geomspace(1, len(own), _THRESHOLDS // 4).astype(np.intp) - 1
        even = np.linspace(0, len(own) - 1, _THRESHOLDS // 2).astype(np.intp)
        ranks = np.concatenate([tail, even, len(own) - 1 - tail])
    thresholds = np.unique(own[ranks])
    own_hits = len(own) - np.searchsorted(own, thresholds, side="left")
    other_hits = len(other) - np.searchsorted(other, thresholds, side="left")
    lower = at_least(own_hits, len(own), alpha / 2)
    upper = at_most(other_hits, len(other), alpha / 2)
    above = [certified_epsilon(lower, upper, delta) - epsilon for epsilon, delta in points]
    which, best = divmod(int(np.argmax(above)), len(thresholds))
    return float(thresholds[best]), points[which], float(above[which][best])


def _likelihood_ratio(own_law: AuditedLaw, other_law: AuditedLaw) -> Score:
    def score(draws: Draws) -> Floats:
        own, other = own_law.log_likelihood(draws), other_law.log_likelihood(draws)
        assert own is not None
        assert other is not None
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(own - other, nan=0.0, posinf=np.inf, neginf=-np.inf)

    return score


def _everything(draws: Draws) -> Floats:
    return np.zeros(len(draws))


def _has_label(label: Hashable) -> Score:
    return lambda draws: np.asarray(draws.labels == label, dtype=np.float64)


def _column(column: int, sign: float) -> Score:
    return lambda draws: sign * _numbers(draws, column)


def _equals(column: int, value: float) -> Score:
    return lambda draws: (_numbers(draws, column) == value).astype(np.float64)


def _projection(direction: Floats) -> Score:
    def score(draws: Draws) -> Floats:
        width = min(draws.numbers.shape[1], len(direction))
        return draws.numbers[:, :width] @ direction[:width]

    return score


def _numbers(draws: Draws, column: int) -> Floats:
    """The column; zeros where no output of this batch has that many numbers."""
    return draws.numbers[:, column] if column < draws.numbers.shape[1] else np.zeros(len(draws))


def _plain(text: Hashable) -> str:
    return str(text).replace("{", "{{").replace("}", "}}")


def _frequent(values: NDArray[Any]) -> list[Any]:
    """The values that occur more than once, most frequent first."""
    counts = Counter(values.tolist())
    return [value for value, count in counts.most_common(_ATOMS) if count > 1]
