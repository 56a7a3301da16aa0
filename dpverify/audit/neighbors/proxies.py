"""Cheap scores for a search: how much epsilon a pair seems to give away, from a few draws per
side.

No certificate: the best of many events on the draws that chose it. It ranks pairs, whose best
one is then audited on fresh draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.laws import AuditedLaw, Draws
from dpverify.privacy.numbers import Floats

Point = tuple[float, float]
"""An epsilon and the delta that is claimed there."""
_Counts = tuple[Floats, Floats, int, int]
"""Hits of several events on their own side and on the other, and the numbers of draws."""
_COLUMNS = 12
_ATOMS = 16
_THRESHOLDS = 200
_WIDEST = 64


def promise(
    left: Draws,
    right: Draws,
    laws: tuple[AuditedLaw, AuditedLaw],
    points: Sequence[Point],
    errors: float,
) -> float:
    """Estimate how far the best event's ln((P - delta) / Q) exceeds a claimed epsilon.

    Either side may be the likelier one. With known laws the event is a threshold of their
    ratio; otherwise a threshold or a value of one number, of the smallest, largest or sum of
    them all, of a projection, or a set of whole outputs that half of the draws suggest and the
    other half confirm.
    errors: how many standard errors are taken off: few draw attention to rare events, many to
    sure ones.
    """
    events: list[_Counts] = []
    for one, other in _scores(left, right, laws):
        for own, opposite in ((one, other), (-one, -other)):
            hits, other_hits = _above(own, opposite)
            sizes = len(own), len(opposite)
            events.append((hits, other_hits, *sizes))
            # Complements, with sides exchanged: what is rarely above on one side is often not
            # on the other.
            events.append((sizes[1] - other_hits, sizes[0] - hits, sizes[1], sizes[0]))
    return _excess(events, points, errors) if events else -np.inf


def _above(own: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Count how many draws of either side reach each of some thresholds."""
    own, other = np.sort(own), np.sort(other)
    thresholds = own[np.append(own[:-1] != own[1:], True)] if len(own) else own
    if len(thresholds) > _THRESHOLDS:  # evenly spaced ranks, and finely in the upper tail
        even = np.linspace(0, len(own) - 1, _THRESHOLDS // 2)
        tail = len(own) - np.geomspace(1, len(own), _THRESHOLDS // 2)
        thresholds = np.unique(own[np.concatenate([even, tail]).astype(np.intp)])
    hits = len(own) - np.searchsorted(own, thresholds, side="left")
    other_hits = len(other) - np.searchsorted(other, thresholds, side="left")
    return hits.astype(np.float64), other_hits.astype(np.float64)


def _excess(events: Sequence[_Counts], points: Sequence[Point], errors: float) -> float:
    """Return the excess of the best of some events at any point of the claim, less some
    standard errors.
    """
    hits, other_hits = (np.concatenate([event[k] for event in events]) for k in (0, 1))
    numbers = [len(event[0]) for event in events]
    size, other_size = (np.repeat([event[k] for event in events], numbers) for k in (2, 3))
    p, q = (hits + 0.5) / (size + 1), (other_hits + 0.5) / (other_size + 1)
    best = -np.inf
    for epsilon, delta in points:
        surplus = np.maximum(p - delta, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt((1 - p) * p / size / surplus**2 + (1 - q) / q / other_size)
            value = np.log(surplus / q) - errors * error - epsilon
        best = max(best, float(np.max(np.where(surplus > 0, value, -np.inf), initial=-np.inf)))
    return best


def _scores(
    left: Draws, right: Draws, laws: tuple[AuditedLaw, AuditedLaw]
) -> Iterator[tuple[Floats, Floats]]:
    """Yield one number for each draw of either side, in several ways."""
    ratios = _log_ratio(left, laws), _log_ratio(right, laws)
    if ratios[0] is not None and ratios[1] is not None:
        yield ratios[0], ratios[1]
        return
    codes = _coded(left.labels, right.labels)
    yield from _indicators(*codes)
    a, b = left.numbers, right.numbers
    width = min(a.shape[1], b.shape[1])
    a, b = a[:, :width], b[:, :width]
    for column in _telling_columns(a, b):
        yield a[:, column], b[:, column]
        yield from _indicators(a[:, column], b[:, column])
    if width > 1:
        for summary in (np.min, np.max, np.sum):
            yield summary(a, axis=1), summary(b, axis=1)
        half = len(a) // 2
        direction = a[:half].mean(axis=0) - b[:half].mean(axis=0)
        yield a[half:] @ direction, b[half:] @ direction
    if width and width <= _WIDEST:
        yield from _whole_outputs(np.column_stack([codes[0], a]), np.column_stack([codes[1], b]))


def _log_ratio(draws: Draws, laws: tuple[AuditedLaw, AuditedLaw]) -> Floats | None:
    own, other = (law.log_likelihood(draws) for law in laws)
    if own is None or other is None:
        return None
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(own - other, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _coded(left: NDArray[np.object_], right: NDArray[np.object_]) -> tuple[Floats, Floats]:
    """Replace labels by numbers."""
    places: dict[object, float] = {}
    for label in (*left.tolist(), *right.tolist()):
        places.setdefault(label, float(len(places)))
    a, b = (np.array([places[label] for label in side.tolist()]) for side in (left, right))
    return a, b


def _indicators(a: Floats, b: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for each of the most frequent numbers, whether a draw equals it."""
    values, counts = np.unique(np.concatenate([a, b]), return_counts=True)
    if len(values) == 1:
        return
    for value in values[np.argsort(-counts, kind="stable")[:_ATOMS]]:
        is_it, other = (a == value).astype(np.float64), (b == value).astype(np.float64)
        if is_it.sum() + other.sum() > 1:
            yield is_it, other


def _telling_columns(a: Floats, b: Floats) -> list[int]:
    """Return the columns whose means or spreads differ most, where there are many; otherwise
    all.
    """
    if a.shape[1] <= _COLUMNS:
        return list(range(a.shape[1]))
    spread = a.std(axis=0) + b.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        differing = np.abs(a.mean(axis=0) - b.mean(axis=0)) / spread
    order = np.argsort(-np.nan_to_num(differing, nan=0.0), kind="stable")
    return [int(column) for column in order[:_COLUMNS]]


def _whole_outputs(a: Floats, b: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for outputs that recur, the logarithm of how much more often one half of the draws
    has each.
    """
    half = len(a) // 2
    together = np.ascontiguousarray(np.concatenate([a, b]))
    as_one = together.view([("", together.dtype)] * together.shape[1]).ravel()
    kinds, index = np.unique(as_one, return_inverse=True)
    if not 1 < len(kinds) <= len(together) // 4:
        return
    own, other = index[: len(a)], index[len(a) :]
    counts = [np.bincount(side[:half], minlength=len(kinds)) for side in (own, other)]
    ratio = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
    yield ratio[own[half:]], ratio[other[half:]]
