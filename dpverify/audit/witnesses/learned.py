"""Candidate witnesses: scores that may tell two sides apart, learned on draws put aside for it.

Whoever asks chooses among them on other draws and certifies on yet others, so a bad candidate costs
power and never validity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.witnesses.bends import BENT_WIDTH, bent_lines
from dpverify.audit.witnesses.bits import low_bits
from dpverify.audit.witnesses.clocks import clocks_of, unclocked, without
from dpverify.audit.witnesses.coarse_uniforms import inverted
from dpverify.audit.witnesses.directions import (
    Moments,
    Scaling,
    diagonal_quadratic,
    distance,
    evident_steps,
    full_quadratic,
    linear,
    plain_linear,
    whitened,
)
from dpverify.audit.witnesses.events import (
    equals,
    event,
    fingerprints,
    is_print,
    kind_event,
    ratio_event,
    seen_before,
    somewhere,
    text_event,
)
from dpverify.audit.witnesses.features import (
    Candidate,
    Column,
    Feature,
    Score,
    atoms_of,
    calibrated,
    derived,
    number,
    separation,
    telling,
    text_ratio,
)
from dpverify.audit.witnesses.mixtures import Mixture, mixture
from dpverify.audit.witnesses.models import (
    MONOTONE_WIDTH,
    density,
    few_values,
    independent,
    logistic,
    monotone_trees,
    trees,
    within,
)
from dpverify.audit.witnesses.texts import KIND, label_numbers, texts_of
from dpverify.privacy.numbers import Floats

_FIRST = 4
_MANY_LABELS = 16
_NARROW = 64  # columns, for work on all of them together
_QUADRATIC_WIDTH = 40
_HARDLY = 0.5  # standard errors: less is not worth a candidate
_FEWEST_ROWS = 500


class Effort(Enum):
    """Effort of learning. QUICK: linear scores, in milliseconds. FULL: quadratic ones,
    regressions and trees as well.
    """

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class _Limits:
    """Limits on how much is looked at.

    rows: for texts and values. vector_rows: for directions. cells: numbers in all for what costs
    more. each: candidates of each kind. columns: the most telling ones. correlated: the width up to
    which correlations are estimated.
    """

    rows: int
    vector_rows: int
    cells: int
    each: int
    columns: int
    correlated: int


_LIMITS = {
    Effort.QUICK: _Limits(5000, 2000, 1 << 18, each=8, columns=8, correlated=100),
    Effort.FULL: _Limits(200_000, 20_000, 1 << 22, each=16, columns=_NARROW, correlated=2000),
}


def candidates(
    own: Draws,
    other: Draws,
    *,
    law_known: bool,
    difference: Floats | None,
    seed: int,
    effort: Effort,
    weak: bool = False,
) -> list[Candidate]:
    """Return scores that may be larger on ``own`` than on ``other``, learned on these draws.

    law_known: the exact log-likelihood ratio is at hand, so look only for what an implementation
    that does not follow its law would show.
    difference: shape (width,), a direction that the pair suggests; ignored for another width.
    weak: whether the sides hardly differ, so that many trees would learn the noise. seed: of
    the trees. The same draws and seed give the same scores. Every score takes draws of any
    width and label, and is finite. An infinite or NaN entry counts as the number 0 (a NaN as
    its payload) and is also a mark, with events of its own.
    """
    learned = partial(_candidates, difference=difference, seed=seed, effort=effort, weak=weak)
    clocks = [] if law_known else clocks_of(own, other)
    if not clocks:
        return learned(own, other, law_known=law_known)
    bare = learned(without(own, clocks), without(other, clocks), law_known=False)
    return [*unclocked(bare, clocks), *learned(own, other, law_known=True)]


def _candidates(
    own: Draws,
    other: Draws,
    *,
    law_known: bool,
    difference: Floats | None,
    seed: int,
    effort: Effort,
    weak: bool,
) -> list[Candidate]:
    limits = _LIMITS[effort]
    task = _Task(_first(own, limits.rows), _first(other, limits.rows), limits, seed)
    pool = [
        *task.kinds(),
        *task.texts(orders=not law_known),
        *task.values(),
        *task.columns(),
        *task.inverted(),
    ]
    pool += task.plain()
    if law_known or not len(own) or not len(other):
        return pool
    given, projections = list(task.given(difference)), list(task.projections(difference))

    def directions(scores: Iterable[tuple[str, Score]], fitted: bool) -> list[Candidate]:
        return [Candidate(f"{name} >= {{threshold}}", s, True, fitted) for name, s in scores]

    pool += [*task.derived(), *directions(given, fitted=False)]
    if effort is Effort.FULL:
        pool += [*task.mixtures(), *task.monotone()]
    pool += [*task.densities(), *directions(projections, fitted=True)]
    projections = [*given, *projections]
    return [*pool, *task.models(projections, weak)] if effort is Effort.FULL else pool


def _first(draws: Draws, rows: int) -> Draws:
    return draws.select(slice(rows)) if len(draws) > rows else draws


class _Task:
    """Two sides to tell apart, and what is known of their numbers."""

    def __init__(self, own: Draws, other: Draws, limits: _Limits, seed: int) -> None:
        self.own, self.other, self.limits, self.seed = own, other, limits, seed
        self.sizes = len(own), len(other)
        self.width = max(own.numbers.shape[1], other.numbers.shape[1])
        rows = max(_FEWEST_ROWS, limits.cells // max(1, self.width))
        most = min(limits.rows, max(limits.vector_rows, rows))
        self.raw = own.columns(self.width)[:most], other.columns(self.width)[:most]
        numbers = self.raw
        self.scaling = Scaling.of(numbers[0], numbers[1])
        self.scaled = self.scaling.apply(numbers[0]), self.scaling.apply(numbers[1])
        self.moments = Moments.of(*self.scaled) if min(self.sizes) else None
        self.chosen = self._chosen()
        few = slice(min(limits.rows, rows))
        self.few = own.select(few), other.select(few)

    def _chosen(self) -> list[int]:
        """Return the first columns, and those that differ most."""
        first = list(range(min(self.width, _FIRST)))
        if self.moments is None or self.width <= _FIRST:
            return first
        order = np.argsort(
            -np.maximum(np.abs(self.moments.t), np.abs(self.moments.t_variance)), kind="stable"
        )
        return list(dict.fromkeys([*first, *order[: self.limits.columns].tolist()]))

    def kinds(self) -> Iterator[Candidate]:
        """Yield exceptions, types and shapes, before all that is no more telling: often they
        are a wrapper's.
        """
        ours, theirs = self.own.kinds.counts(), self.other.kinds.counts()
        kinds = [kind for kind in dict.fromkeys([*ours, *theirs]) if kind not in ("True", "False")]
        if len({*ours, *theirs}) < 2:
            return
        hits = [ours.get(k, 0) for k in kinds], [theirs.get(k, 0) for k in kinds]
        z_scores = telling(*hits, *self.sizes)
        for i in np.argsort(-np.abs(z_scores), kind="stable")[: self.limits.each]:
            if abs(z_scores[i]) > _HARDLY:
                yield kind_event(str(kinds[i]), float(z_scores[i]))

    def texts(self, *, orders: bool) -> Iterator[Candidate]:
        """Yield labels, kinds, marks and orders: single ones, and all by their log-ratio."""
        events: list[tuple[float, Candidate]] = []
        for name, column in texts_of(self.own, self.other, orders=orders):
            ours, theirs = column(self.own).counts(), column(self.other).counts()
            texts = list(dict.fromkeys([*ours, *theirs]))
            hits = [ours.get(t, 0) for t in texts], [theirs.get(t, 0) for t in texts]
            z_scores = telling(*hits, *self.sizes)
            best = np.argsort(-np.abs(z_scores), kind="stable")[: self.limits.each]
            for i in best if name != KIND else ():
                if abs(z_scores[i]) > _HARDLY:
                    events.append(
                        (float(z_scores[i]), text_event(name, column, texts[i], z_scores[i]))
                    )
            if len(texts) > 2:
                score = text_ratio(column, self.own, self.other)
                yield ratio_event(name, texts, z_scores, score)
        events.sort(key=lambda event: -abs(event[0]))
        yield from (event for _, event in events[: 2 * self.limits.each])

    def values(self) -> Iterator[Candidate]:
        """Yield numbers that repeat: at one place, at any place, and whole outputs."""
        events: list[tuple[float, Candidate]] = []
        for j in self.chosen:
            sides = self.own.column(j), self.other.column(j)
            for value, z_score in atoms_of(*sides, self.limits.each):
                score = equals(j, value)
                events.append((z_score, event(f"number {j} is", repr(value), score, z_score)))
        if self.width > 1:
            events += self._anywhere()
        numeric = bool(self.own.numbers.any() or self.other.numbers.any())
        whole = numeric and 1 < self.width <= _NARROW
        if whole:
            prints = fingerprints(self.own), fingerprints(self.other)
            events += self._whole(*prints)
        events = [event for event in events if abs(event[0]) > _HARDLY]
        events.sort(key=lambda event: -abs(event[0]))
        yield from (event for _, event in events[: 2 * self.limits.each])
        if whole:
            ratio = calibrated(*prints)
            yield Candidate(
                "log-ratio of the exact output >= {threshold}",
                lambda draws: ratio(fingerprints(draws)),
            )

    def _anywhere(self) -> Iterator[tuple[float, Candidate]]:
        rows = max(1, self.limits.cells // (4 * self.width))
        flat = [side.numbers[:rows].ravel() for side in (self.own, self.other)]
        for value, _ in atoms_of(flat[0], flat[1], self.limits.each):
            score = somewhere(value, self.width)
            ours, theirs = (float(score(side).sum()) for side in (self.own, self.other))
            z_score = float(telling(ours, theirs, *self.sizes))
            yield z_score, event("some number is", repr(value), score, z_score)

    def _whole(
        self, ours: NDArray[np.uint64], theirs: NDArray[np.uint64]
    ) -> Iterator[tuple[float, Candidate]]:
        for value, z_score in atoms_of(ours, theirs, self.limits.each):
            side, prints = (self.own, ours) if z_score > 0 else (self.other, theirs)
            row = int(np.argmax(prints == value))
            shown = f"{side.coded.table[side.coded.codes[row]]} {side.numbers[row].tolist()}"
            yield z_score, event("output is exactly", shown, is_print(np.uint64(value)), z_score)

    def columns(self) -> Iterator[Candidate]:
        """Yield single numbers. Of many, those are taken that differ most on these draws."""
        picked = self.width > self.limits.columns
        for j in self.chosen[: _FIRST + self.limits.each]:
            yield Candidate(f"number {j} >= {{threshold}}", number(j), True, fitted=picked)

    def inverted(self) -> Iterator[Candidate]:
        """Yield scores of noise of few bits, where it is found."""
        for feature in inverted(self.chosen[:_FIRST], self.own, self.other):
            yield Candidate(f"{feature.name} >= {{threshold}}", feature.score, both_signs=True)

    def plain(self) -> Iterator[Candidate]:
        """Yield what is looked for everywhere, and is a candidate only where it is plainly
        there.
        """
        cells = self.limits.cells >> 6
        yield from low_bits(self.chosen, self.own, self.other, cells, self.limits.each)
        yield from seen_before(self.own, self.other)

    def mixtures(self) -> Iterator[Candidate]:
        """Yield the log-ratio of a mixture before scores of more numbers, which by chance look
        better more often.
        """
        if 1 < self.width <= _NARROW and min(map(len, self.few)) > 5 * self.width:
            yield self._mixed(mixture(self.scaling, *self.scaled))

    def monotone(self) -> Iterator[Candidate]:
        """Yield broken lines in few numbers, and trees that are monotone in them, before what
        follows single outputs more closely: rare ones are in a better order.
        """
        if self.moments is not None and 1 < self.width <= MONOTONE_WIDTH:
            if self.width <= BENT_WIDTH:
                yield self._smooth(_Task.bent)
            score = monotone_trees(self.moments, *self.few, self.seed)
            if score is not None:
                yield Candidate("monotone boosted trees >= {threshold}", score)

    def densities(self) -> Iterator[Candidate]:
        """Yield log-ratios of densities: of single numbers, and of all under independence."""
        for j in self.chosen[:_FIRST]:
            score = density(j, self.own, self.other)
            yield Candidate(f"log-ratio of number {j} >= {{threshold}}", score)
        evident = [] if self.moments is None else np.flatnonzero(self.moments.differ()).tolist()
        yield Candidate(
            "log-ratio of independent entries >= {threshold}",
            independent(self.chosen, self._independent_texts(), self.own, self.other, evident),
        )
        labels = within(lambda draws: draws.coded, self.own, self.other)
        if labels is not None:
            yield Candidate("log-ratio of label and number >= {threshold}", labels)
        for j in self.chosen[:_FIRST] if self.width > 1 else ():
            column = few_values(j, self.own, self.other)
            mixed = None if column is None else within(column, self.own, self.other, besides=j)
            if mixed is not None:
                yield Candidate(
                    f"log-ratio of number {j} and of others at it >= {{threshold}}", mixed
                )

    def _independent_texts(self) -> list[Column]:
        """Return the marks with the kind; the label has them all at once."""
        texts = texts_of(self.own, self.other, orders=False)
        return [column for _, column in (texts[1:] if len(texts) > 2 else texts)]

    def derived(self) -> Iterator[Candidate]:
        """Yield the most telling numbers made of the numbers, and of texts where nearly all
        differ.
        """
        ranked = []
        for feature in self._derived():
            gap = separation(feature.score(self.few[0]), feature.score(self.few[1]))
            ranked.append((gap, feature))
        ranked.sort(key=lambda one: -one[0])
        picked = len(ranked) > self.limits.each
        for _, feature in ranked[: self.limits.each]:
            yield Candidate(f"{feature.name} >= {{threshold}}", feature.score, True, fitted=picked)

    def _derived(self) -> list[Feature]:
        many = len(self.own.coded.table) + len(self.other.coded.table) > _MANY_LABELS
        return [*derived(self.width), *(label_numbers() if many else [])]

    def given(self, difference: Floats | None) -> Iterator[tuple[str, Score]]:
        """Yield, for vectors, the direction that the pair suggests."""
        if difference is not None and 1 < self.width == len(difference):
            weights = np.asarray(difference, dtype=np.float64)
            yield "projection on the pair's difference", plain_linear(weights)

    def projections(self, difference: Floats | None) -> Iterator[tuple[str, Score]]:
        """Yield, for vectors, directions in which the sides may differ, as far as these draws
        show them.
        """
        if self.moments is None or self.width < 2:
            return
        moments, variance = self.moments, self.moments.variance
        if difference is not None and len(difference) == self.width:
            with np.errstate(all="ignore"):
                weights = np.nan_to_num(np.asarray(difference) / self.scaling.scale) / variance
            yield (
                "projection on the pair's difference over variances",
                linear(self.scaling, weights),
            )
        plain = moments.means[0] - moments.means[1]
        yield "projection on the difference of means", linear(self.scaling, plain / variance)
        kept = moments.kept()
        if np.any(kept):
            yield "projection on the evident differences", linear(self.scaling, kept / variance)
        running = evident_steps(*self.raw) if 2 < self.width <= _NARROW else None
        if running is not None:
            yield "projection on the evident steps", running
        if self.width <= self.limits.correlated:
            weights = whitened(*self.scaled, plain)
            yield "projection on the whitened difference of means", linear(self.scaling, weights)

    def models(self, projections: Sequence[tuple[str, Score]], weak: bool) -> Iterator[Candidate]:
        """Yield quadratic scores, logistic regression, trees."""
        own, other = self.few
        for name, score in projections:
            away = distance(score, own, other)
            yield Candidate(f"distance of the {name} from its mean >= {{threshold}}", away, True)
        if self.width and self.moments is not None:
            yield self._smooth(_Task.diagonal)
        if 1 < self.width <= _QUADRATIC_WIDTH and min(len(own), len(other)) > 5 * self.width:
            yield self._smooth(_Task.quadratic)
        plain = [Feature(f"number {j}", number(j)) for j in self.chosen]
        plain += self._text_ratios(orders=False)
        made = [Feature(name, score) for name, score in projections]
        made += [*self._text_ratios(orders=True), *self._derived()]
        few = _first(own, self.limits.vector_rows), _first(other, self.limits.vector_rows)
        yield Candidate("logistic regression >= {threshold}", logistic(plain + made, own, other))
        if not weak:
            yield Candidate("boosted trees >= {threshold}", trees(plain + made, *few, self.seed))
        large = trees(plain, own, other, self.seed, few=True)
        yield Candidate("a few boosted trees >= {threshold}", large)

    def _smooth(self, part: Callable[[_Task], Candidate]) -> Candidate:
        """Return a score of few numbers, which may be learned again on more draws."""
        learned = part(self)
        if self.width > _NARROW:
            return learned

        def again(own: Draws, other: Draws) -> Candidate:
            return part(_Task(own, other, self.limits, self.seed))

        return replace(learned, again=again)

    def bent(self) -> Candidate:
        """Return the score along broken lines."""
        return Candidate("broken lines >= {threshold}", bent_lines(*self.few))

    def diagonal(self) -> Candidate:
        """Return the log-ratio of Gaussians of independent columns."""
        assert self.moments is not None
        score = diagonal_quadratic(self.scaling, self.moments)
        return Candidate("log-ratio of independent Gaussians >= {threshold}", score)

    def quadratic(self) -> Candidate:
        """Return the log-ratio of Gaussians with covariances of their own."""
        score = full_quadratic(self.scaling, *self.scaled)
        return Candidate("log-ratio of Gaussians >= {threshold}", score)

    def _mixed(self, fitted: Mixture) -> Candidate:
        """Return the log-ratio of a mixture."""

        def again(own: Draws, other: Draws) -> Candidate:
            rows = own.columns(self.width), other.columns(self.width)
            return self._mixed(fitted.refitted(*rows))

        return Candidate(f"{fitted} >= {{threshold}}", fitted.score, again=again)

    def _text_ratios(self, *, orders: bool) -> list[Feature]:
        """Return the ratios of orders alone, or of all other texts."""
        own, other = self.few
        texts = texts_of(own, other, orders=orders)
        texts = texts[len(texts_of(own, other, orders=False)) :] if orders else texts[: 2 * _NARROW]
        return [Feature(name, text_ratio(column, own, other)) for name, column in texts]


__all__ = ["Candidate", "Effort", "candidates"]
