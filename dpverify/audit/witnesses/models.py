"""Scores learned by fitting models: products of densities, a label with its number, regressions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dpverify.audit.outputs.draws import PLAIN, Codes, Draws, Labels
from dpverify.audit.witnesses.directions import TELLING, Moments, Scaling, linear
from dpverify.audit.witnesses.events import equals
from dpverify.audit.witnesses.features import (
    Column,
    Feature,
    Score,
    atoms_of,
    calibrated,
    likeliest,
    matrix,
    number,
    text_ratio,
)
from dpverify.privacy.numbers import Floats

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_FEWEST, _LEAST = 80, 5  # draws of a group, and of each side among them
_RANGES, _PLAINLY = 16, 4.0
_MOST_GROUPS = 32
_MANY_TREES, _FEW_TREES = 100, 20
_LEAF, _LARGE_LEAF = 20, 200
_DEPTH = 4
_LARGEST_INPUT = 1e100
_MONOTONE_TREES = 50
MONOTONE_WIDTH = 4
"""Largest number of columns for which ``monotone_trees`` are worth their time."""


def density(j: int, own: Draws, other: Draws) -> Score:
    """Return the log-ratio of the densities of one number among the draws that have one there."""
    values = [side.column(j)[side.marked(j).are(PLAIN)] for side in (own, other)]
    ratio = calibrated(values[0], values[1])
    if j not in own.marks and j not in other.marks:
        return lambda draws: ratio(draws.column(j))
    return lambda draws: np.where(draws.marked(j).are(PLAIN), ratio(draws.column(j)), 0.0)


def independent(
    columns: Sequence[int],
    texts: Sequence[Column],
    own: Draws,
    other: Draws,
    evident: Collection[int] = (),
) -> Score:
    """Return the log-ratio of laws under which all numbers and texts are independent.

    Those that differ by no more than ``TELLING`` standard errors count zero: they would only add
    their noise.
    evident: columns of which it is known from their moments that they differ by more.
    """
    parts = [
        density(j, own, other)
        for j in columns
        if j in evident or _numbers_tell(own.column(j), other.column(j))
    ]
    for column in texts:
        both = Labels.of([*column(own).array(), *column(other).array()])
        if _tells(both.codes[: len(own)], both.codes[len(own) :]):
            parts.append(text_ratio(column, own, other))

    def score(draws: Draws) -> Floats:
        total = np.zeros(len(draws))
        for part in parts:
            total += part(draws)
        return total

    return score


def _numbers_tell(own: Floats, other: Floats) -> bool:
    """Return whether numbers tell the sides apart, by sixteen ranges that are as common, or by
    a single value that repeats.
    """
    pooled = np.sort(np.concatenate([own, other]))
    edges = np.unique(pooled[np.linspace(0, len(pooled) - 1, _RANGES + 1).astype(np.intp)[1:-1]])
    codes = [np.searchsorted(edges, side, side="right") for side in (own, other)]
    if _tells(codes[0], codes[1]):
        return True
    return any(abs(z_score) > _PLAINLY for _, z_score in atoms_of(own, other, 1))


def _tells(own: Codes, other: Codes) -> bool:
    """Return whether chi-square over the values is more than ``TELLING`` standard deviations
    above its mean.
    """
    both = np.bincount(np.concatenate([own, other]))
    hits, there, share = np.bincount(own, minlength=len(both)), both > 0, len(own) / both.sum()
    freedom = int(np.count_nonzero(there)) - 1
    if not freedom or not 0 < share < 1:
        return False
    wrong = (hits - share * both)[there] ** 2 / both[there]
    chi_square = float(wrong.sum()) / (share * (1 - share))
    return bool(chi_square > freedom + TELLING * math.sqrt(2 * freedom))


def within(column: Column, own: Draws, other: Draws, besides: int | None = None) -> Score | None:
    """Return the log-ratio of a text, and that of a number given the text; None for a single text.

    The number of a vector is the projection on the difference of means among draws of that text.
    besides: a place whose number the text already tells, as ``few_values`` does.
    """
    ours, theirs = column(own).counts(), column(other).counts()
    groups = {t: ours.get(t, 0) + theirs.get(t, 0) for t in dict.fromkeys([*ours, *theirs])}
    if len(groups) < 2:
        return None
    told = (min(ours.get(t, 0), theirs.get(t, 0)) >= _LEAST for t in groups)
    common = [t for t, both in zip(groups, told, strict=True) if both and groups[t] >= _FEWEST]
    common.sort(key=lambda t: -groups[t])
    ratios = {}
    for text in common[:_MOST_GROUPS]:
        sides = [side.select(np.flatnonzero(column(side).are(text))) for side in (own, other)]
        inside = _inside(sides[0], sides[1], besides)
        ratios[text] = inside, likeliest(inside(sides[0]), inside(sides[1]))
    texts = text_ratio(column, own, other)

    def score(draws: Draws) -> Floats:
        result, labels = texts(draws), column(draws)
        for text, (inside, ratio) in ratios.items():
            rows = np.flatnonzero(labels.are(text))
            if len(rows):
                result[rows] += ratio(inside(draws.select(rows)))
        return result

    return score


def few_values(j: int, own: Draws, other: Draws) -> Column | None:
    """Return the number at one place as a text, where it has few values there and another number
    has many; None elsewhere.
    """
    width = max(own.numbers.shape[1], other.numbers.shape[1])
    values = np.unique(np.concatenate([own.column(j), other.column(j)]))
    many = (
        len(np.unique(np.concatenate([own.column(k), other.column(k)]))) > _MOST_GROUPS
        for k in range(min(width, _MOST_GROUPS))
        if k != j
    )
    if not 1 < len(values) <= _MOST_GROUPS or not any(many):
        return None
    table = (*values.tolist(), None)

    def column(draws: Draws) -> Labels:
        numbers = draws.column(j)
        places = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
        return Labels(np.where(values[places] == numbers, places, len(values)), table)

    return column


def _inside(own: Draws, other: Draws, besides: int | None) -> Score:
    """Return the number of an output that is compared within a group; see ``within``."""
    width = min(own.numbers.shape[1], other.numbers.shape[1])
    places = [j for j in range(width) if j != besides]
    if len(places) < 2:
        return number(places[0] if places else 0)
    scaling = Scaling.of(own.columns(width), other.columns(width))
    scaled = scaling.apply(own.columns(width)), scaling.apply(other.columns(width))
    moments = Moments.of(*scaled)
    return linear(scaling, moments.kept() / moments.variance)


def logistic(features: Sequence[Feature], own: Draws, other: Draws) -> Score:
    """Fit a logistic regression on scaled features."""
    sides = matrix(features, own), matrix(features, other)
    scaling = Scaling.of(*sides)
    weights = regressed(*map(scaling.apply, sides))
    return lambda draws: scaling.apply(matrix(features, draws)) @ weights


def regressed(own: Floats, other: Floats) -> Floats:
    """Return the weights of a logistic regression on features of both sides, shape (size,
    features)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(solver="newton-cholesky", max_iter=20)
    targets = np.concatenate([np.ones(len(own)), np.zeros(len(other))])
    with warnings.catch_warnings(), _threads().limit(limits=1):  # one core for each audit
        warnings.simplefilter("ignore")  # a fit that has not converged is a score as well
        model.fit(np.concatenate([own, other]), targets)
    return np.asarray(model.coef_[0], dtype=np.float64)


def trees(
    features: Sequence[Feature], own: Draws, other: Draws, seed: int, *, few: bool = False
) -> Score:
    """Fit gradient-boosted trees (scikit-learn's, by histograms).

    few: a few trees with large leaves. Where two sides hardly differ, many small ones learn the
    noise.
    """
    number_of, leaf = (_FEW_TREES, _LARGE_LEAF) if few else (_MANY_TREES, _LEAF)
    return _boosted(features, own, other, seed, number_of, leaf, [0] * len(features))


def monotone_trees(moments: Moments, own: Draws, other: Draws, seed: int) -> Score | None:
    """Fit trees whose odds rise, or fall, with every number of which it is plain that it is larger
    on one side; None where no number is.

    Where the odds have this shape, rare outputs share the evidence of all that tell less, so that
    their order is known from few draws. A value that repeats among many others has odds of its
    own: often it stands for no number.
    """
    rising = np.where(np.abs(moments.t) > TELLING, np.sign(moments.t), 0).astype(int).tolist()
    if not any(rising):
        return None
    features = [Feature(f"number {j}", number(j)) for j in range(len(rising))]
    for j in range(len(rising)):
        sides = own.column(j), other.column(j)
        if len(np.unique(sides[0])) > _MOST_GROUPS:
            for value, z_score in atoms_of(*sides, 1):
                if abs(z_score) > TELLING:
                    features.append(Feature(f"number {j} is {value!r}", equals(j, value)))
                    rising.append(0)
    return _boosted(features, own, other, seed, _MONOTONE_TREES, _LEAF, rising)


def _boosted(
    features: Sequence[Feature],
    own: Draws,
    other: Draws,
    seed: int,
    number_of: int,
    leaf: int,
    rising: Sequence[int],
) -> Score:
    """Fit so many trees. rising: for every feature, whether the odds rise with it (1), fall (-1),
    or do either (0).
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = np.concatenate([matrix(features, own), matrix(features, other)])
    model = HistGradientBoostingClassifier(
        max_iter=number_of,
        min_samples_leaf=leaf,
        max_depth=_DEPTH,
        early_stopping=False,
        random_state=seed,
        monotonic_cst=rising if any(rising) else None,
    )
    with _threads().limit(limits=1):
        model.fit(_bounded(rows), _targets(own, other))

    def score(draws: Draws) -> Floats:
        if not len(draws):
            return np.zeros(0)
        with _threads().limit(limits=1):
            scores: Floats = model.decision_function(_bounded(matrix(features, draws)))
        return scores

    return score


@cache
def _threads() -> ThreadpoolController:
    """Return what limits scikit-learn's threads; call it when scikit-learn is loaded.

    The libraries with threads are looked up once in a process: that takes as long as a small
    fit.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _bounded(rows: Floats) -> Floats:
    return np.clip(rows, -_LARGEST_INPUT, _LARGEST_INPUT)


def _targets(own: Draws, other: Draws) -> Floats:
    return np.concatenate([np.ones(len(own)), np.zeros(len(other))])
