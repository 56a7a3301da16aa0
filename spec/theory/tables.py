"""Scores of cells, and histograms that show a key if its noisy count reaches a threshold.

The histograms' laws are exact objects like those of ``laws``; their losses and profiles are
numbers at mpmath's working precision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from math import ceil, floor
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, of_query, shows, states

from .laws import DiscreteLaplaceLaw, Exponential, Outcome, real, real_exponential
from .obligations import datasets, neighbors, require

Counts = tuple[tuple[int, int], ...]
"""(key, count) for the keys that occur, in increasing order."""
Atoms = list[tuple[Any, Any]]
"""Two probabilities of an event, under this law and under the other."""
_ALL = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
_STAND_INS_REACH = 64


# --- a cell by its score ------------------------------------------------------------------------


def score(cells: Sequence[int], t: int, p: int, q: int) -> int:
    """Return q times the distance of the rank p n / q from the ranks #{z < t}..#{z <= t} of cell
    t.
    """
    wanted = p * len(cells)
    below, up_to = sum(z < t for z in cells), sum(z <= t for z in cells)
    return max(0, q * below - wanted, wanted - q * up_to)


def score_sensitivity(p: int, q: int, adjacency: Adjacency) -> int:
    """Return the largest move of a cell's score between neighbors.

    A record that is added moves q #{z < t} - p n by q - p (if it lies below t) or by -p, and
    likewise q #{z <= t} - p n (if it lies at t or below); one that is replaced moves each by q,
    0 or -q. The score is the largest of 0, the first and minus the second, and the largest of
    some numbers moves no further than one of them does.
    """
    return q if adjacency is Adjacency.REPLACE else max(p, q - p)


def scores_sensitivity(quantiles: Sequence[tuple[int, int]], adjacency: Adjacency) -> int:
    """Return the largest move of any score of these quantiles p/q, one for each column: the
    largest of their sensitivities.
    """
    return max(score_sensitivity(p, q, adjacency) for p, q in quantiles)


@states(Source("S11", "private quantiles by the exponential mechanism"))
@shows(
    "QuantileScores", Norm.L_INFINITY, value=of_query(score_sensitivity, "numerator", "denominator")
)
@shows("ColumnScores", Norm.L_INFINITY, value=of_query(scores_sensitivity, "quantiles"))
def obligation_quantile_scores(claimed: Callable[..., int] = score_sensitivity) -> int:
    """Check that the largest move of a cell's score over all neighbors of at most 3 records is
    ``claimed``, and that of two columns' scores, over all neighbors of at most 2 records, the
    larger of theirs.
    """
    cases, cells = 0, range(4)
    for adjacency in _ALL:
        for p, q in ((0, 1), (1, 1), (1, 2), (1, 4), (9, 10)):
            moves = [
                abs(score(left, t, p, q) - score(right, t, p, q))
                for left, right in neighbors(cells, 3, adjacency)
                for t in cells
            ]
            cases, largest = cases + len(moves), claimed(p, q, adjacency)
            require(max(moves) == largest, f"{p}/{q}, {adjacency}: {max(moves)}, not {largest}")
    return cases + _two_columns()


def _two_columns() -> int:
    cases, universe = 0, tuple(product(range(3), repeat=2))
    for adjacency, quantiles in product(_ALL, (((1, 2), (1, 4)), ((0, 1), (9, 10)))):
        moves = [
            abs(score([x[j] for x in left], t, p, q) - score([x[j] for x in right], t, p, q))
            for left, right in neighbors(universe, 2, adjacency)
            for j, (p, q) in enumerate(quantiles)
            for t in range(3)
        ]
        cases, stated = cases + len(moves), scores_sensitivity(quantiles, adjacency)
        require(max(moves) == stated, f"{quantiles}, {adjacency}: {max(moves)}, not {stated}")
    return cases


# --- keyed counts -------------------------------------------------------------------------------


def bin_of(record: Fraction, width: int, origin: int, cell: Fraction, farthest: int) -> int:
    """Return floor((z - origin) / width) for the record's cell z = floor(record / cell),
    clamped.
    """
    z = min(max(floor(record / cell), -farthest), farthest)
    return floor(Fraction(z - origin, width))


def keyed_counts(bins: Sequence[int]) -> Counts:
    """Return the number of times that each bin occurs, sorted by bin."""
    return tuple(sorted(Counter(bins).items()))


KEYS_A_RECORD = 1
"""Number of keys to which a record adds one."""


@states(Source("KKMN09", "histograms over unknown keys"))
@shows("KeyedCounts", Norm.KEYS, value=lambda s: KEYS_A_RECORD)
def obligation_keyed_counts(claimed: int = KEYS_A_RECORD) -> int:
    """Check that a record has ``claimed`` keys: on all neighbors of at most 3 records that many
    counts move by one each, twice as many under replace; and every record lies between the
    edges of its bin.
    """
    cases, cell, width, origin = 0, Fraction(1, 2), 3, 1
    universe = tuple(Fraction(i, 4) for i in (-9, -4, -1, 0, 1, 2, 8, 99))
    for record in universe:
        key = bin_of(record, width, origin, cell, 20)
        edges = [(origin + (key + side) * width) * cell for side in (0, 1)]
        near = min(record, 20 * cell)
        require(edges[0] <= near < edges[1], f"{record} is not in bin {key}, {edges}")
    places = range(len(universe))  # which are looked up faster than fractions
    counts = {
        at: Counter(bin_of(universe[i], width, origin, cell, 20) for i in at)
        for at in datasets(places, 3)
    }
    for adjacency in _ALL:
        moved = []
        for left, right in neighbors(places, 3, adjacency):
            sides = [counts[left], counts[right]]
            moves = [abs(sides[0][key] - sides[1][key]) for key in {*sides[0], *sides[1]}]
            require(max(moves, default=0) <= 1, f"{left}, {right}: a count moves by {max(moves)}")
            moved.append(sum(moves))
        most = claimed * (2 if adjacency is Adjacency.REPLACE else 1)
        require(max(moved) == most, f"{adjacency}: {max(moved)} counts move, not {most}")
        cases += len(moved)
    return cases


@dataclass(frozen=True)
class ThresholdedLaw:
    """Law of (key, count + Z) for every key of ``counts`` with count + Z >= threshold, as one flat
    tuple.

    Each key is shown or withheld independently, so keys of equal counts have one law on both
    sides of a pair and cancel; a key that one side lacks (count 0) is withheld there for
    certain.
    """

    counts: Counts
    scale: Fraction
    threshold: int

    def mass(self, z: int, e: Any) -> Any:
        """Return P(Z = z)."""
        raise NotImplementedError

    def below(self, d: int, e: Any) -> Any:
        """Return P(Z < d)."""
        raise NotImplementedError

    def cuts(self, count: int, other: int) -> Iterable[int]:
        """Return values between which the loss is constant, or the mass is 0."""
        raise NotImplementedError

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the product over keys; 0 for what is no outcome (an unknown key, another
        order).
        """
        keys, values = outcome[::2], outcome[1::2]
        known = list(keys) == sorted({*keys} & set(dict(self.counts)))
        if len(keys) != len(values) or not known or min(values, default=mp.inf) < self.threshold:
            return Fraction(0)
        shown, result = dict(zip(keys, values, strict=True)), Fraction(1)
        for key, count in self.counts:
            withheld = key not in shown
            result *= (
                self.below(self.threshold - count, e)
                if withheld
                else self.mass(shown[key] - count, e)
            )
        return result

    def largest_loss(self, other: ThresholdedLaw) -> Any:
        """Return the sum of the keys' largest losses.

        None where a key is on this side only, or the loss is unbounded as the shown value
        grows.
        """
        losses = [self.loss_of_key(*pair) for pair in self.differing(other)]
        return None if None in losses else sum(losses, Fraction(0))

    def profile(self, other: ThresholdedLaw, epsilon: Fraction) -> Any:
        """Return sup over events of P - e^epsilon Q, over the product of the keys that differ."""
        atoms = [self._atoms(*pair) for pair in self.differing(other)]
        return hockey_stick_of_product(atoms, mp.exp(real(epsilon)))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, keys and counts in turn, scale and threshold."""
        flat = tuple(number for pair in self.counts for number in pair)
        return (type(self).__name__.removesuffix("Law"), flat, self.scale, self.threshold)

    def loss_of_key(self, count: int, other: int) -> Any:
        """Return the largest loss of one key, None if this side alone has it.

        Losses are monotone in the shown value, so its ends and the withheld key are examined.
        """
        if not other:
            return None
        withheld = self._above(count, None) / self._above(other, None)
        ends = (self.threshold, max(self.threshold, count, other)) if count else ()
        masses = [[self.mass(v - c, real_exponential) for c in (count, other)] for v in ends]
        return mp.log(max(withheld, *(own / theirs for own, theirs in masses), mp.mpf(0)))

    def differing(self, other: ThresholdedLaw) -> list[tuple[int, int]]:
        """Return both counts of every key whose counts differ."""
        if self.facts()[2:] != other.facts()[2:]:
            raise ValueError("the noise and the threshold must be the same on neighbors")
        own, theirs = dict(self.counts), dict(other.counts)
        pairs = ((own.get(key, 0), theirs.get(key, 0)) for key in {*own, *theirs})
        return sorted(pair for pair in pairs if pair[0] != pair[1])

    def _atoms(self, count: int, other: int) -> Atoms:
        """Return the masses on both sides: withheld; shown values between cuts; all values from
        the last cut on.
        """
        cuts = [v for v in self.cuts(count, other) if v > self.threshold] if count and other else []
        starts = [self.threshold, *cuts]
        shown = [
            tuple(self._range(a - c, b - c) for c in (count, other)) for a, b in pairwise(starts)
        ]
        ends = [tuple(self._above(c, at) for c in (count, other)) for at in (None, starts[-1])]
        return [*ends, *shown]

    def _above(self, count: int, at: int | None) -> Any:
        """Return P(shown value >= at), by symmetry, or P(withheld) for None; count 0 means that
        the key is absent.
        """
        if not count:
            return mp.mpf(at is None)
        return self.below(
            self.threshold - count if at is None else 1 + count - at, real_exponential
        )

    def _range(self, a: int, b: int) -> Any:
        """Return P(a <= Z < b), computed from the side where it does not cancel."""
        a, b = (1 - b, 1 - a) if a >= 0 else (a, b)
        if b == a + 1:
            return self.mass(a, real_exponential)
        return self.below(b, real_exponential) - self.below(a, real_exponential)


class ThresholdedLaplaceLaw(ThresholdedLaw):
    """Thresholded law with discrete Laplace Z."""

    def pure_part(self, other: ThresholdedLaplaceLaw) -> tuple[Any, Any]:
        """Return (the largest loss of the keys that the other side has too, the probability that
        another key surfaces).
        """
        pairs = self.differing(other)
        losses = (self.loss_of_key(*pair) for pair in pairs if pair[1])
        alone = (self._above(count, self.threshold) for count, theirs in pairs if not theirs)
        return sum(losses, mp.mpf(0)), sum(alone, mp.mpf(0))

    def mass(self, z: int, e: Any) -> Any:
        """Return P(Z = z), as in ``DiscreteLaplaceLaw``."""
        return DiscreteLaplaceLaw(0, self.scale).probability((z,), e)

    def below(self, d: int, e: Any) -> Any:
        """Return P(Z < d), as in ``DiscreteLaplaceLaw``."""
        return DiscreteLaplaceLaw(0, self.scale).at_most(d - 1, e)

    def cuts(self, count: int, other: int) -> Iterable[int]:
        """Return the cuts of a loss that changes between the two counts only."""
        return range(min(count, other) + 1, max(count, other) + 1)


class ThresholdedGaussianLaw(ThresholdedLaw):
    """Thresholded law with Z = round(scale N(0, 1))."""

    def mass(self, z: int, e: Any) -> Any:
        """Return P(Z = z), of the stand-in with finitely many values or of the true law."""
        return e.rounded_gaussian(z, self.scale)

    def below(self, d: int, e: Any) -> Any:
        """Return Phi((d - 1/2) / scale); for a stand-in, which has finitely many values, the sum
        of their masses.
        """
        if e is not real_exponential:
            return sum((self.mass(z, e) for z in range(-_STAND_INS_REACH, d)), Fraction(0))
        return mp.erfc(real((Fraction(1, 2) - d) / self.scale) / mp.sqrt(2)) / 2

    def gaussian_part(self, other: ThresholdedGaussianLaw) -> tuple[Fraction, Any]:
        """Return (mu^2 of the keys that both sides have, a bound on the probability that another
        key surfaces).

        Withholding is post-processing, and a key that one side lacks shows with the probability
        of surfacing.
        """
        counts, others = dict(self.counts), dict(other.counts)
        both = counts.keys() & others.keys()
        square = sum((Fraction(counts[k] - others[k]) ** 2 for k in both), Fraction(0))
        alone = [(counts | others)[k] for k in counts.keys() ^ others.keys()]
        rare = sum(1 - self.below(self.threshold - c, real_exponential) for c in alone)
        return square / self.scale**2, mp.mpf(rare)

    def cuts(self, count: int, other: int) -> Iterable[int]:
        """Return every value; the mass beyond is below the working precision."""
        reach = ceil(self.scale * int(mp.sqrt(2 * mp.log(10) * mp.mp.dps) + 2))
        return range(min(count, other) - reach, max(count, other) + reach)

    def loss_of_key(self, count: int, other: int) -> Any:
        """Return the largest loss of one key, None if this side's count is the larger: the loss is
        then unbounded as the shown value grows.
        """
        return None if count > other else super().loss_of_key(count, other)


def hockey_stick_of_product(parts: Sequence[Atoms], factor: Any) -> Any:
    """Sum of (P - factor Q)^+ over the product of independent parts, given by their atoms.

    The last part is sorted by P / Q and summed from the top, so only the others are multiplied out.
    """
    *others, last = parts or [[(mp.mpf(1), mp.mpf(1))]]
    last = sorted(last, key=lambda atom: -(atom[0] / atom[1] if atom[1] else mp.inf))
    tops = [(mp.mpf(0), mp.mpf(0))]
    for own, theirs in last:
        tops.append((tops[-1][0] + own, tops[-1][1] + theirs))
    excess = mp.mpf(0)
    for combination in product(*others):
        own = mp.fprod(atom[0] for atom in combination)
        theirs = factor * mp.fprod(atom[1] for atom in combination)
        count = bisect_left(last, True, key=partial(_loses, own, theirs))
        excess += own * tops[count][0] - theirs * tops[count][1]
    return excess


def _loses(own: Any, theirs: Any, atom: tuple[Any, Any]) -> bool:
    return bool(own * atom[0] <= theirs * atom[1])
