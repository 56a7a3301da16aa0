"""Smooth sensitivity: noise whose scale follows the data, and the privacy that it costs.

A *smooth scale* S of a number m is a bound with |m - m'| <= S and S <= growth S' for all
neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Norm, Source, SourceStatus, of_query, shows, states

from .laws import Exponential, Outcome, real, real_exponential
from .obligations import neighbors, require

_SMOOTH = Source("NRS07", "smooth sensitivity of the median", note="on a public grid")
_NOISE = Source(
    "NRS07",
    "noise in proportion to a smooth bound on the local sensitivity",
    SourceStatus.CHANGED_CONSTANTS,
    "Laplace noise, with the exact profile of a shift and a dilation together",
)
_FAR = 45
"""Number of scales beyond which the mass is below 1e-19."""


# --- the scale ----------------------------------------------------------------------------------


def rank(n: int) -> int:
    """Return the rank of the median, counted from 1: ceil(n / 2)."""
    return -(-n // 2)


def weights(most: int, decay: Fraction) -> list[int]:
    """Return the integer weights W_0 = 2^q, W_(k+1) = ceil(decay W_k), as long as W_k
    ``most`` > 2^q.

    q is 3 plus the bits of most ceil(1 / (1 - decay)), so that they do fall below.
    """
    table = [2 ** ((most * -(-1 // (1 - decay))).bit_length() + 3)]
    while table[-1] * most > table[0]:
        table.append(-(-table[-1] * decay.numerator // decay.denominator))
    return table[:-1] or table


@states(_SMOOTH)
def smooth_scale(cells: Sequence[int], lower: int, upper: int, table: Sequence[int]) -> int:
    """Return max(W_0, max over k and t = 0..k+1 of W_k (z_(m+t) - z_(m+t-k-1))), in units of
    1 / W_0 of a cell.

    z: the cells in order, lower before them and upper after them; m the rank.

    Proof that it is smooth, with growth 1 / decay. Let A_k be the largest of the distances for
    k. One record is replaced: if it moves up, z_j <= z'_j <= z_(j+1) for all j, else
    z_(j-1) <= z'_j <= z_j. So m moves by at most A_0 (k = 0, t = 0 or 1) of either dataset. And
    A_k <= A'_(k+1): if it moves up, z_(m+t) <= z'_(m+t) and z_(m+t-k-1) >= z'_(m+t-k-2), which
    is a distance for k + 1 and the same t; else it is one for k + 1 and t + 1. With decay
    W_k <= W_(k+1), W_k A_k <= W_k A'_(k+1) <= W_(k+1) A'_(k+1) / decay <= S' / decay. After the
    table's last W the next one would be W with W (upper - lower) <= W_0: there W_k A_k <=
    W_0 / decay <= S' / decay; and W_0 <= S'. From k = n on all A_k are upper - lower, and W_n
    is the largest. QED.
    """
    m, largest = rank(len(cells)), table[0]

    def at(j: int) -> int:
        return lower if j < 1 else upper if j > len(cells) else cells[j - 1]

    for k, weight in enumerate(table[: len(cells) + 1]):
        distances = (at(m + t) - at(m + t - k - 1) for t in range(k + 2))
        largest = max(largest, weight * max(distances))
    return largest


Scale = Callable[[Sequence[int], int, int, Sequence[int]], int]
Profile = Callable[[Fraction, Fraction, Fraction], Any]


def smooth_median(
    cells: Sequence[int], lower: int, upper: int, decay: Fraction, scale: Scale = smooth_scale
) -> tuple[int, int]:
    """Return (the record of the median's rank, its scale in units of 1 / W_0)."""
    ordered = sorted(cells)
    return ordered[rank(len(ordered)) - 1], scale(
        ordered, lower, upper, weights(upper - lower, decay)
    )


def scale_growth(decay: Fraction) -> Fraction:
    """Return the largest factor between the scales of neighbors, when a record is replaced."""
    return 1 / decay


def _stated_growth(decay: Fraction, adjacency: Adjacency) -> Fraction | None:
    return scale_growth(decay) if adjacency is Adjacency.REPLACE and 0 < decay < 1 else None


@states(_SMOOTH)
@shows("SmoothMedians", Norm.SMOOTH, value=of_query(_stated_growth, "decay"))
def obligation_smooth(claimed: Scale = smooth_scale, growth: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of up to five records that the median moves by at most either scale,
    and scales change by a factor of at most ``growth`` / decay; each is attained on some pair,
    up to the rounding of the weights.
    """
    cases = 0
    grids = ((Fraction(1, 2), (0, 1, 2, 4), 4), (Fraction(3, 4), (0, 3, 4, 12), 4))
    for decay, universe, most in (*grids, (Fraction(9, 10), (0, 1, 50), 5)):
        upper, known = universe[-1], {}
        moved, ratio = Fraction(0), Fraction(0)
        unit = weights(upper, decay)[0]
        for pair in neighbors(universe, most, Adjacency.REPLACE):
            if not pair[0]:
                continue
            for records in pair:
                if records not in known:
                    known[records] = smooth_median(records, 0, upper, decay, claimed)
            (m, s), (other, t) = (known[records] for records in pair)
            case = f"{pair}, decay {decay}: {m}, {other} with scales {s}, {t} in 1/{unit}"
            require(abs(m - other) * unit <= min(s, t), case)
            require(s <= growth * scale_growth(decay) * t, case)
            moved = max(moved, Fraction(abs(m - other) * unit, min(s, t)))
            ratio, cases = max(ratio, Fraction(s, t)), cases + 1
        require(moved == 1, f"decay {decay}: a median moves by at most {moved} of its scale")
        least = growth * scale_growth(decay) * Fraction(99, 100)
        require(ratio >= least, f"decay {decay}: scales change by at most {float(ratio)}")
    return cases


# --- the noise ----------------------------------------------------------------------------------


def real_profile(own: tuple[Any, Any], theirs: tuple[Any, Any], epsilon: Any) -> Any:
    """Return sup over events of P - e^epsilon Q for real Laplace laws, each (center, scale), by
    pieces.

    Between the centers and beyond them the loss is linear, so the event is part of each piece.
    """
    (m, s), (other, t) = own, theirs
    ends = sorted((m, other))

    def loss(z: Any) -> Any:
        return mp.log(t / s) - abs(z - m) / s + abs(z - other) / t

    def below(z: Any, center: Any, scale: Any) -> Any:
        tail = mp.exp(-abs(z - center) / scale) / 2
        return tail if z < center else 1 - tail

    far = max(ends[1] - ends[0], s, t) * (200 + abs(epsilon)) / min(1, abs(1 / s - 1 / t) or 1)
    total = mp.mpf(0)
    for a, b in ((ends[0] - far, ends[0]), (ends[0], ends[1]), (ends[1], ends[1] + far)):
        left, right = loss(a) > epsilon, loss(b) > epsilon
        if not (left or right) or a == b:
            continue
        if left != right:
            turn = a + (b - a) * (epsilon - loss(a)) / (loss(b) - loss(a))
            a, b = (a, turn) if left else (turn, b)
        mass, others = (below(b, *law) - below(a, *law) for law in (own, theirs))
        total += mass - mp.exp(epsilon) * others
    return total


@states(_NOISE)
def profile(shift: Fraction, growth: Fraction, epsilon: Fraction) -> Any:
    """Return delta at epsilon of m + round(S Z / shift), Z standard Laplace, m an integer with a
    smooth scale S.

    Proof. Rounding is post-processing. In units of the smaller scale the pairs are Lap(0, r), r
    in [1, growth], against Lap(x, 1), |x| <= shift, either of them first. H is sup P - g Q, g =
    e^epsilon.
    (1) H rises with |x|: it is 1 minus the integral of min(p, g q), which is the integral over
    h of the length of {p > h} and {g q > h} together, intervals about 0 and x. So x = shift.
    (2) The longer scale first. Where epsilon + ln r >= x the loss -ln r - |z| / r + |z - x| is
    above epsilon just for z < -T and z > T', T = (epsilon + ln r - x) / (1 - 1/r), T' likewise
    with + x. As epsilon - T - x = -T / r - ln r, each tail gives (1 - 1/r) e^(-T / r) / 2,
    together (1 - 1/r) e^(-(epsilon + ln r)/(r - 1)) cosh(x / (r - 1)). The logarithm of a tail
    has the derivative (epsilon -+ x + ln r) / (r - 1)^2 >= 0 in r: r = growth is worst. Where
    epsilon + ln r < x the event is z < z0 as well, not z < -T. Its part, the largest over z0 in
    [0, x] of 1 - e^(-z0 / r) / 2 - e^(epsilon - x + z0) / 2, falls with r, so it is at most 1 -
    e^((epsilon - x) / 2); the other tail is as before. So the profile is at most the larger of
    these two sums.
    (3) The shorter scale first: q >= the density of Lap(0, 1) / r, so H is at most the profile
    of a shift x at epsilon - ln r, 1 - e^-max((x + ln r - epsilon) / 2, ln r - epsilon), or 0.
    (4) As all of this holds both ways, so does what (epsilon*, delta*)-DP at epsilon* = x + ln
    growth implies below it. From epsilon* on (3) is 0, so the formula of (2) is attained. QED
    """
    x, g, e = real(shift), real(growth), real(epsilon)
    logarithm = mp.log(g)

    def tails(at: Any) -> tuple[Any, Any]:
        first, second = (mp.exp(-(at + logarithm + side * x) / (g - 1)) for side in (-1, 1))
        return (1 - 1 / g) / 2 * first, (1 - 1 / g) / 2 * second

    end, (near, far) = x + logarithm, tails(e)
    if e >= end:
        return near + far
    longer = max(1 - mp.exp(-(x - e) / 2) if e < x else 0, near if e + logarithm >= x else 0) + far
    shorter = 1 - mp.exp(-max((end - e) / 2, logarithm - e))
    delta = sum(tails(end))
    implied = delta + (1 - delta) * (mp.exp(end) - mp.exp(e)) / (1 + mp.exp(end))
    return min(max(longer, shorter), implied)


_PAIRS = tuple(
    (Fraction(x), Fraction(g))
    for x, g in (
        ("1/2", "21/20"),
        ("1/20", "11/10"),
        ("2", "2"),
        ("1/100", "3/2"),
        ("1", "1001/1000"),
    )
)


@states(_NOISE)
def obligation_profile(claimed: Profile = profile) -> int:
    """Check that no pair of a grid of smaller shifts and growths is beyond the profile, in both
    directions; from shift + ln g on the largest pair attains it, and below it reaches a third
    of it.
    """
    with mp.workdps(30):
        return sum(_profile_cases(shift, growth, claimed) for shift, growth in _PAIRS)


def _profile_cases(shift: Fraction, growth: Fraction, claimed: Profile) -> int:
    cases, end = 0, Fraction(str(mp.nstr(real(shift) + mp.log(real(growth)), 20)))
    for share in map(Fraction, ("0", "1/10", "1/2", "9/10", "1001/1000", "11/10", "3/2")):
        epsilon, delta = share * end, mp.mpf(0)
        for i, j in product(range(5), repeat=2):
            x, r = real(shift) * i / 4, 1 + real(growth - 1) * j / 4
            wide, narrow = (mp.mpf(0), r), (x, mp.mpf(1))
            for pair in ((wide, narrow), (narrow, wide)):
                delta = max(delta, real_profile(*pair, real(epsilon)))
                cases += 1
        stated = claimed(shift, growth, epsilon)
        case = f"shift {shift}, growth {growth}, epsilon {epsilon}: {delta}, claimed {stated}"
        require(delta <= stated * (1 + mp.mpf(10) ** -12), case)
        attained = 1 - mp.mpf(10) ** -12 if share > 1 else mp.mpf(1) / 3
        require(delta >= attained * stated, case)
    return cases


def rounded_mass(z: int, scale: Fraction, e: Exponential) -> Any:
    """Return P(round(scale Z) = z), Z standard Laplace."""
    if z == 0:
        return 1 - e(1 / (2 * scale))
    return (e((abs(z) - Fraction(1, 2)) / scale) - e((abs(z) + Fraction(1, 2)) / scale)) / 2


@states(_NOISE)
@dataclass(frozen=True)
class SmoothLaw:
    """Law of number + round(scale S / unit Z), Z standard Laplace, independently for every
    (number, S).
    """

    numbers: tuple[tuple[int, int], ...]
    scale: Fraction
    unit: int

    def parts(self) -> list[tuple[int, Fraction]]:
        """Return (number, scale of its noise) for each released number."""
        return [(m, self.scale * Fraction(s, self.unit)) for m, s in self.numbers]

    def probability(self, outcome: Outcome, e: Exponential) -> Any:
        """Return the product over the numbers; 0 for an outcome of another length."""
        if len(outcome) != len(self.numbers):
            return Fraction(0)
        chance: Any = Fraction(1)
        for z, (m, s) in zip(outcome, self.parts(), strict=True):
            chance = chance * rounded_mass(z - m, s, e)
        return chance

    def largest_loss(self, other: SmoothLaw) -> Any:
        """Return the largest loss, or None where a scale is larger than the other's, for then
        tails are heavier.

        It is attained near one of the numbers, for elsewhere the loss is linear.
        """
        total: Any = Fraction(0)
        for own, theirs in zip(self.parts(), other.parts(), strict=True):
            if own == theirs:
                continue
            if own[1] > theirs[1]:
                return None
            near = {m + side for m, _ in (own, theirs) for side in (-1, 0, 1)}
            total += max(_loss(z, own, theirs) for z in near)
        return total

    def profile(self, other: SmoothLaw, epsilon: Fraction) -> Any:
        """Return sup over events of P - e^epsilon Q; for several numbers that differ, with all of
        the far tails of all but the last.
        """
        pairs = zip(self.parts(), other.parts(), strict=True)
        return _profile([pair for pair in pairs if pair[0] != pair[1]], real(epsilon))

    def facts(self) -> tuple[Any, ...]:
        """Return the name of the law, the numbers and scales, the amount of noise, and how many
        numbers there are.
        """
        told = tuple(value for row in self.numbers for value in row)
        return ("SmoothNoise", told, self.scale, self.unit, len(self.numbers))


Part = tuple[int, Fraction]


def _mass(z: int, part: Part) -> Any:
    return rounded_mass(z - part[0], part[1], real_exponential)


def _loss(z: int, own: Part, theirs: Part) -> Any:
    return mp.log(_mass(z, own) / _mass(z, theirs))


def _from(a: int, b: int, part: Part) -> Any:
    """Return P(a <= X <= b) for a <= b on one side of the number."""
    m, s = part
    if a == b == m:
        return _mass(m, part)
    near, far = sorted((abs(a - m), abs(b - m)))
    half = Fraction(1, 2)
    return (real_exponential((near - half) / s) - real_exponential((far + half) / s)) / 2


def _profile(pairs: Sequence[tuple[Part, Part]], epsilon: Any) -> Any:
    if not pairs:
        return max(mp.mpf(0), 1 - mp.exp(epsilon))
    own, theirs = pairs[0]
    reach = int(_FAR * max(own[1], theirs[1])) + 1
    low, high = sorted((own[0], theirs[0]))
    if len(pairs) > 1:
        span = range(low - reach, high + reach + 1)
        inside = [(_mass(z, own), _loss(z, own, theirs)) for z in span]
        rest = 1 - sum(mass for mass, _ in inside)
        return rest + sum(mass * _profile(pairs[1:], epsilon - loss) for mass, loss in inside)
    return sum(
        (
            _from(a, b, own) - mp.exp(epsilon) * _from(a, b, theirs)
            for a, b in _event(own, theirs, epsilon)
        ),
        mp.mpf(0),
    )


def _event(own: Part, theirs: Part, epsilon: Any) -> Iterator[tuple[int, int]]:
    """Yield the intervals on which the loss is above epsilon: on each piece without a number it is
    linear.
    """
    low, high = sorted((own[0], theirs[0]))
    change = abs(1 / own[1] - 1 / theirs[1])
    away = int((abs(epsilon) + 400) / real(change)) if change else 0
    far = max(away, int(400 * max(own[1], theirs[1]))) + 1
    pieces = [
        (low - far, low - 1),
        (low, low),
        (low + 1, high - 1),
        (high, high),
        (high + 1, high + far),
    ]
    for a, b in pieces if high > low else (pieces[0], pieces[1], pieces[-1]):
        if a > b:
            continue
        ends = [_loss(z, own, theirs) > epsilon for z in (a, b)]
        if all(ends):
            yield a, b
        elif any(ends):
            first, last = a, b
            while last - first > 1:
                middle = (first + last) // 2
                same = (_loss(middle, own, theirs) > epsilon) == ends[0]
                first, last = (middle, last) if same else (first, middle)
            yield (a, first) if ends[0] else (last, b)
