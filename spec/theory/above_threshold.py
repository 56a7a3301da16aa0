"""The first of many answers above a noisy threshold: its exact law, and the lemmas of its
privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Premise, Sensitivity, Source, shows, states

from .caches import lru_cache
from .laws import DiscreteLaplaceLaw, Exponential, Outcome, real, real_exponential
from .obligations import neighbors, require
from .queries import clamped_sum, clamped_sum_sensitivity, count, count_sensitivity

Terms = dict[Fraction, Any]
"""A sum of coefficients times e(exponent times z)."""


@states(Source("DR14", "Theorem 3.23, AboveThreshold"))
@dataclass(frozen=True)
class AboveThresholdLaw:
    """Law of the least i >= start with answers[i] + Y_i >= threshold + Z, or of the number of
    answers if there is none.

    Z is discrete Laplace of ``scale``, Y_i of ``query_scale``, all independent. ``by_range``
    says how it is claimed.
    """

    answers: tuple[int, ...]
    threshold: int
    scale: Fraction
    query_scale: Fraction
    start: int
    by_range: bool

    def masses(self, e: Exponential) -> list[Any]:
        """Return the masses of start, start + 1, ..., none: differences of
        P(none of the first k is above).
        """
        gaps = tuple(self.threshold - answer for answer in self.answers[self.start :])
        noise = self.scale, self.query_scale
        if e is real_exponential:
            survive = _remembered(gaps, *noise, mp.mp.dps)
        else:
            survive = _survivals(gaps, *noise, e)
        return [*(a - b for a, b in pairwise(survive)), survive[-1]]

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the mass of the outcome (i,)."""
        (i,) = outcome
        if not self.start <= i <= len(self.answers):
            return Fraction(0)
        return self.masses(e)[i - self.start]

    def most_outcomes(self) -> tuple[Iterable[Outcome], Any]:
        """Return all outcomes; nothing lies beyond."""
        return (((i,) for i in range(self.start, len(self.answers) + 1)), mp.mpf(0))

    def largest_loss(self, other: AboveThresholdLaw) -> Any:
        """Return the largest loss, a real number; 0 for the same law."""
        self._same_noise(other)
        if self.answers[self.start :] == other.answers[self.start :]:
            return Fraction(0)
        return max(mp.log(a / b) for a, b in self._pairs(other))

    def profile(self, other: AboveThresholdLaw, epsilon: Any) -> Any:
        """Sum over the outcomes of max(0, P - e^epsilon Q)."""
        self._same_noise(other)
        factor = mp.exp(real(epsilon))
        return mp.fsum(max(mp.mpf(0), a - factor * b) for a, b in self._pairs(other))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, the answers, and then the noise's parameters."""
        noise = (self.threshold, self.scale, self.query_scale, self.start, self.by_range)
        return ("AboveThreshold", self.answers, *noise)

    def _pairs(self, other: AboveThresholdLaw) -> list[tuple[Any, Any]]:
        own, theirs = (law.masses(real_exponential) for law in (self, other))
        return list(zip(own, theirs, strict=True))

    def _same_noise(self, other: AboveThresholdLaw) -> None:
        if self.facts()[2:] != other.facts()[2:] or len(self.answers) != len(other.answers):
            raise ValueError("the noise and the number of queries must be the same on neighbors")


@lru_cache(maxsize=4096)
def _remembered(
    gaps: tuple[int, ...], scale: Fraction, query_scale: Fraction, digits: int
) -> tuple[Any, ...]:
    """Return the survival probabilities, computed with twice the digits, for the sums cancel."""
    with mp.workdps(2 * digits + len(gaps)):
        return _survivals(gaps, scale, query_scale, real_exponential)


def _survivals(
    gaps: tuple[int, ...], scale: Fraction, query_scale: Fraction, e: Exponential
) -> tuple[Any, ...]:
    """Return P(Y_i < gaps[i] + Z for all i < k), for k = 0, 1, ..., by summing over Z exactly.

    Between two of the points 0 and -gaps[i] each factor is 1 - e((gap + z) / s) / (1 + w) or
    e((1 - gap - z) / s) / (1 + w), w = e(1 / s), so their product is a sum of exponentials of
    z: finite geometric series, and two infinite ones.
    """
    cuts = sorted({0, *(-gap for gap in gaps)})
    ends: list[tuple[int | None, int | None]] = [(None, cuts[0]), *pairwise(cuts), (cuts[-1], None)]
    inner, outer = 1 / query_scale, 1 / scale
    w, u = e(inner), e(outer)
    total: list[Any] = [Fraction(0)] * (len(gaps) + 1)
    for low, high in ends:  # low <= z < high
        upward = low is not None and low >= 0
        terms: Terms = {outer if upward else -outer: (1 - u) / (1 + u)}
        total[0] += _series(terms, low, high, e)
        for k, gap in enumerate(gaps):
            above = low is not None and low >= -gap
            step = inner if above else -inner
            near = e(gap * inner if above else (1 - gap) * inner) / (1 + w)
            grown: Terms = dict(terms) if above else {}
            for exponent, coefficient in terms.items():
                moved = coefficient * (-near if above else near)
                grown[exponent + step] = grown.get(exponent + step, Fraction(0)) + moved
            terms = grown
            total[k + 1] += _series(terms, low, high, e)
    return tuple(total)


def _series(terms: Terms, low: int | None, high: int | None, e: Exponential) -> Any:
    """Return the sum over low <= z < high; towards an end that is None the terms decay."""
    total: Any = Fraction(0)
    for exponent, coefficient in terms.items():
        if exponent == 0:
            assert low is not None
            assert high is not None
            total += coefficient * (high - low)
            continue
        first = e(exponent * low) if low is not None else 0
        after = e(exponent * high) if high is not None else 0
        total += coefficient * (first - after) / (1 - e(exponent))
    return total


# --- how answers move ---------------------------------------------------------------------------

_INTERVALS = (
    None,
    (Fraction(0), Fraction(1)),
    (Fraction(-1), Fraction(0)),
    (Fraction(2), Fraction(3)),
)
_UNIVERSE = (Fraction(-1), Fraction(0), Fraction(1), Fraction(3))


def moves_of_counts(adjacency: Adjacency) -> tuple[int, bool]:
    """Return the largest move of any count, and whether no count moves against another.

    An added record adds 0 or 1 to every count; a replaced one adds 0, 1 or -1, to some 1, to
    others -1.
    """
    return 1, adjacency is Adjacency.ADD_REMOVE


def moves_together(
    moved: Sequence[int], counts: bool, one_way: bool, adjacency: Adjacency
) -> int | None:
    """Return the largest move of any of several answers: that of the one that moves most, for it
    is one of them.

    ``counts`` says whether all are counts; no others are said to move in one direction.
    """
    if one_way and not (counts and moves_of_counts(adjacency)[1]):
        return None
    return max(moved)


def _stated(statement: Sensitivity) -> int | None:
    given: Any = statement.query
    near: Any = statement.adjacency
    one_way = statement.norm is Norm.ONE_WAY
    return moves_together(given["moved"], given["counts"], one_way, near)


def _premises(statement: Sensitivity) -> tuple[Premise, ...]:
    """Return the premises: each answer moves so far, and whether it is a count."""
    given: Any = statement.query
    return tuple(Premise(Norm.L1, m, "Count" if given["counts"] else "") for m in given["moved"])


@states(Source("OURS", "several answers, and which way they move"))
@shows("Stacked", Norm.L_INFINITY, Norm.ONE_WAY, value=_stated, premises=_premises)
def obligation_stacked(claimed: Callable[[Adjacency], tuple[int, bool]] = moves_of_counts) -> int:
    """Check on all neighbors of at most 3 records that the largest move of a count, and whether
    all moves of a pair are of one sign, are ``claimed``; and ``moves_together`` for a count
    with two sums.
    """
    cases = _mixed_together()
    for adjacency in Adjacency:
        largest, one_way = 0, True
        for left, right in neighbors(_UNIVERSE, 3, adjacency):
            moved = [count(left, within) - count(right, within) for within in _INTERVALS]
            largest = max(largest, *map(abs, moved))
            one_way = one_way and min(moved) * max(moved) >= 0
            cases += 1
        require((largest, one_way) == claimed(adjacency), f"{adjacency}: {largest}, {one_way}")
    return cases


_BOUNDS = ((-1, 1, 0), (0, 3, 1))


def _mixed_together() -> int:
    cases = 0
    for adjacency in Adjacency:
        moved = [count_sensitivity(None, adjacency)]
        moved += [clamped_sum_sensitivity(*bounds, adjacency) for bounds in _BOUNDS]
        largest, one_way = 0, True
        for pair in neighbors(_UNIVERSE, 3, adjacency):
            values = (
                [count(x, None), *(clamped_sum(x, *bounds, Fraction(1)) for bounds in _BOUNDS)]
                for x in pair
            )
            moves = [a - b for a, b in zip(*values, strict=True)]
            largest = max(largest, *map(abs, moves))
            one_way = one_way and min(moves) * max(moves) >= 0
            cases += 1
        stated = moves_together(moved, False, False, adjacency)
        require(largest == stated, f"{adjacency}: {largest}, not {stated}")
        require(not one_way or adjacency is Adjacency.REPLACE, "a sum and a count move one way")
    return cases


# --- how private one report is ------------------------------------------------------------------


def pairs_of_answers(moved: int, *, one_way: bool, most: int = 3) -> list[tuple[Outcome, Outcome]]:
    """Return every pair of up to ``most`` answers about a threshold 0 that may be neighbors."""
    changes = range(0 if one_way else -moved, moved + 1)
    pairs = []
    for k in range(1, most + 1):
        for answers in product((-3, 0, 2), repeat=k):
            for change in product({*changes} & {0, moved, -moved}, repeat=k):
                if any(change):
                    pairs.append(
                        (answers, tuple(a + c for a, c in zip(answers, change, strict=True)))
                    )
    return pairs


def laws_of(
    pair: tuple[Outcome, Outcome], scale: Fraction, query_scale: Fraction
) -> tuple[AboveThresholdLaw, AboveThresholdLaw]:
    """Return the laws for two neighbors' answers, about the threshold 0."""
    left, right = (AboveThresholdLaw(a, 0, scale, query_scale, 0, False) for a in pair)
    return left, right


def bound(moved: int, scale: Fraction, epsilon: Fraction) -> Any:
    """Return the claimed profile: that of one integer that moves by 2 ``moved`` under the
    threshold's noise.
    """
    own, other = (DiscreteLaplaceLaw(center, scale) for center in (0, 2 * moved))
    return own.profile(other, epsilon)


@states(Source("DR14", "Theorem 3.23, AboveThreshold"))
def obligation_profile(claimed: Callable[..., Any] = bound) -> int:
    """Check that no small pair, whichever way its answers move, has more than the profile
    ``claimed``, and that it is the profile of the threshold's shift with e^(moved / scale) for
    the query that is reported.
    """
    cases = 0
    for one_way, moved in product((False, True), (1, 2)):
        scale = Fraction(2 * moved, 3)
        pairs = pairs_of_answers(moved, one_way=one_way, most=3 if moved == 1 else 2)
        laws = [laws_of(pair, scale, scale if one_way else 2 * scale) for pair in pairs]
        for epsilon in map(Fraction, ("0", "1/2", "3/2", "5/2", "3")):
            allowed = claimed(moved, scale, epsilon)
            shift = DiscreteLaplaceLaw(0, scale), DiscreteLaplaceLaw(moved, scale)
            left = epsilon - Fraction(moved) / scale
            proved = _hockey_stick(*shift, left)
            case = f"one way: {one_way}, moved {moved}, epsilon {epsilon}"
            require(abs(proved - allowed) < mp.mpf(10) ** -12, f"{case}: {proved}, {allowed}")
            delta = max(max(p.profile(q, epsilon), q.profile(p, epsilon)) for p, q in laws)
            require(delta <= allowed + mp.mpf(10) ** -20, f"{case}: {delta} is above {allowed}")
            cases += 2 * len(laws)
    return cases


def _hockey_stick(own: DiscreteLaplaceLaw, other: DiscreteLaplaceLaw, epsilon: Fraction) -> Any:
    """Return sup of P(S) - e^epsilon Q(S) over half-lines, at any epsilon."""
    factor = mp.exp(real(epsilon))
    ends = range(-80, 81)
    below = (
        own.at_most(z, real_exponential) - factor * other.at_most(z, real_exponential) for z in ends
    )
    return max(*below, mp.mpf(0), 1 - factor)


@states(
    Source("DR14", "Theorem 3.23, AboveThreshold", note="and Lap(2 / epsilon) does not suffice")
)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that the largest loss is ``claimed`` times 2 / scale, up to 1%, where nine answers
    rise and the tenth falls; with the noise of one-way queries it is above 1.499 times that.
    """
    scale = Fraction(2)
    pair = (0,) * 9 + (-60,), (1,) * 9 + (-61,)
    for query_scale, least, most in (
        (2 * scale, Fraction(99, 100), Fraction(1)),
        (scale, Fraction(1499, 1000), Fraction(3, 2)),
    ):
        p, q = laws_of(pair, scale, query_scale)
        loss = p.largest_loss(q) * real(scale) / 2
        require(real(claimed * least) <= loss <= real(claimed * most), f"{query_scale}: {loss}")
    return 3


@states(Source("OURS", "AboveThreshold of queries that move one way has a bounded range"))
def obligation_range(claimed: Fraction = Fraction(1)) -> int:
    """Check that losses of queries that move in one direction lie between -claimed / query_scale
    and claimed (1 / scale + 1 / query_scale), for each unit moved; and that some pair comes
    within 2% of either end.
    """
    cases, highest, lowest = 0, mp.mpf(0), mp.mpf(0)
    for moved, scale, query_scale in ((1, Fraction(1), Fraction(1)), (2, Fraction(3), Fraction(2))):
        units = real(moved * (1 / scale + 1 / query_scale)), real(Fraction(moved) / query_scale)
        far = ((0,) * 9 + (-60,), (moved,) * 9 + (-60,)), ((-60,), (moved - 60,))
        for pair in (*pairs_of_answers(moved, one_way=True, most=2), *far):
            p, q = laws_of(pair, scale, query_scale)
            highest = max(highest, p.largest_loss(q) / units[0])
            lowest = max(lowest, q.largest_loss(p) / units[1])
            cases += 1
    for name, loss in (("highest", highest), ("lowest", lowest)):
        near = real(claimed) * mp.mpf("0.98") <= loss <= real(claimed) * (1 + mp.mpf(10) ** -20)
        require(near, f"{name}: {loss} of {claimed}")
    return cases


def obligation_mass() -> int:
    """Check that all outcomes' masses add up to 1, and that the series equal the sums that they
    replace.
    """
    cases = 0
    for gaps in ((), (0,), (2, -1), (-3, 0, 4), (5, 5, 5)):
        law = AboveThresholdLaw(tuple(-g for g in gaps), 0, Fraction(1, 2), Fraction(1), 0, False)
        masses = law.masses(_formal)
        require(sum(masses) == 1 and min(masses) > 0, f"{gaps}: {masses}")
        for i in range(len(gaps) + 1):
            exact = real(law.probability((i,), _formal))
            require(
                abs(exact - _by_levels(gaps, i)) < mp.mpf(10) ** (3 - mp.mp.dps),
                f"{gaps}, {i}: {exact}",
            )
            cases += 1
    return cases


def _formal(exponent: Fraction) -> Fraction:
    """Return a stand-in for e^-exponent, for whole exponents."""
    require(exponent.denominator == 1, f"{exponent} is not whole")
    return Fraction(1, 3) ** exponent.numerator


def _by_levels(gaps: Sequence[int], i: int) -> Any:
    """Return P(i) with scales 1/2 and 1 and e^-1 = 1/3: level by level, up to 200."""
    w, chance = mp.mpf(1) / 3, mp.mpf(0)

    def below(d: int) -> Any:
        return 1 - w**d / (1 + w) if d >= 1 else w ** (1 - d) / (1 + w)

    for z in range(-200, 201):
        mass = (1 - w**2) / (1 + w**2) * w ** (2 * abs(z))
        mass *= mp.fprod(below(gap + z) for gap in gaps[:i])
        chance += mass * (1 - below(gaps[i] + z)) if i < len(gaps) else mass
    return chance
