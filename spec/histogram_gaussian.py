"""Spec of ``histogram_gaussian``: octaves of differences, bins of a width computed from them, a
clamped mean, squares about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, pairwise, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import univariate_gaussian
from .theory import pairs
from .theory.caches import cache
from .theory.laws import DiscreteLaplaceLaw, IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.laws import real_exponential as e
from .theory.obligations import Departure, neighbors, require
from .theory.queries import of_each
from .theory.tables import ThresholdedLaplaceLaw, bin_of, keyed_counts
from .theory.tracing_bound import BOUND, least_error

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]
WIDTH = 2**12
"""Cells of a bin in the last two stages."""
BOX, FARTHEST_CELL, FARTHEST_BIN = 2**40, 2**60, 2**27
OCTAVES, BINS, MEAN, SQUARES = 1, 2, 3, 4
"""Places in the transcript."""
DEPARTURES = (
    Departure(
        "KV18, Algorithms 1 and 2, histograms",
        "thresholds are the least for integer noise; ties are a key of their own; bins are of "
        "records on a grid",
        "see stability_histogram; the logarithm of no difference is no number",
    ),
    Departure(
        "KV18, bounds on mean and deviation",
        "none, at the price of delta; records 2^27 widths away abstain",
        "this is their case of no bounds; the grid's cells are integers of a bounded size",
    ),
    Departure(
        "KV18, the variance",
        "kept above half the deviation of its noise, in place of above 0",
        "a normal law has a deviation",
    ),
)
_KV18 = Source(
    "KV18",
    "a normal law's mean and variance without bounds on either",
    SourceStatus.CHANGED_CONSTANTS,
    note="thresholds from the predicate",
)
_BASIC = Source("DR14", "Theorem 3.16, adaptive stages", note="epsilons and deltas add up")


def share(parameters: Parameters, place: int) -> Fraction:
    """Return the share of epsilon for a place in the transcript."""
    return Fraction(parameters["shares"][place - 1])


def cell(parameters: Parameters) -> Fraction:
    """Return the largest power of two not above ``cell``."""
    return univariate_gaussian.cell(parameters)


def scale(parameters: Parameters, place: int, moved: int = 2) -> Fraction:
    """Return the noise of a stage whose value moves by so much; a histogram's by one in each of
    two counts.
    """
    return moved * Fraction(parameters["noise_multiplier"]) / share(parameters, place)


def threshold(parameters: Parameters, place: int) -> int:
    """Return the least T >= 2 with P(1 + Z >= T) <= delta / 2."""
    return _threshold(scale(parameters, place), Fraction(parameters["delta"]) / 2)


@cache
def _threshold(noise: Fraction, delta: Fraction) -> int:
    def surfaces(t: int) -> Any:
        return ThresholdedLaplaceLaw((), noise, t).below(2 - t, e)

    low, high = 1, 2
    while surfaces(high) > real(delta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if surfaces(middle) <= real(delta) else (middle, high)
    return high


def half(parameters: Parameters, n: int) -> int:
    """Return the clamp's reach, in cells of 2^-12 of a width: 4 sqrt(ln(n / failure)) widths."""
    ratio = mp.log(mp.mpf(n) / real(Fraction(parameters["failure"])))
    return int(mp.ceil(4 * WIDTH * mp.sqrt(ratio)))


def bounds(parameters: Parameters, n: int, key: int) -> tuple[int, int]:
    """Return the clamp's bounds about the middle of a bin."""
    middle = min(max(key, -FARTHEST_BIN), FARTHEST_BIN) * WIDTH
    return middle - half(parameters, n), middle + half(parameters, n)


def fullest(shown: Outcome) -> int:
    """Return the key of the largest shown count, the first of several; 0 where none is shown."""
    counts = shown[1::2]
    return shown[2 * counts.index(max(counts))] if counts else 0


def width(parameters: Parameters, octave: int) -> Fraction:
    """Return four times the lower end of the octave; for ties, that of the first octave."""
    return cell(parameters) * Fraction(2) ** (max(octave, 0) + 2)


def histogram(
    parameters: Parameters, records: Sequence[Fraction], place: int, octave: int = 0
) -> ThresholdedLaplaceLaw:
    """Return the law of octaves, or of bins."""
    if place == OCTAVES:
        counts = pairs.pair_octaves(records, cell(parameters), BOX)
    else:
        own = width(parameters, octave) / 2
        counts = keyed_counts(of_each(lambda x: bin_of(x, 2, -1, own, FARTHEST_CELL), records))
    return ThresholdedLaplaceLaw(counts, scale(parameters, place), threshold(parameters, place))


def clamped(
    parameters: Parameters, records: Sequence[Fraction], octave: int, key: int
) -> DiscreteLaplaceLaw:
    """Return the law of the sum about a bin's middle."""
    n, own = len(records), width(parameters, octave) / WIDTH
    lower, upper = bounds(parameters, n, key)
    total = sum(min(max(round(x / own), lower), upper) - (lower + upper) // 2 for x in records)
    return DiscreteLaplaceLaw(total, scale(parameters, MEAN, upper - lower))


def center(parameters: Parameters, n: int, key: int, released: int) -> int:
    """Return the released mean to the nearest cell (halves to even), within its bounds."""
    lower, upper = bounds(parameters, n, key)
    mean = round(Fraction(released, n)) + (lower + upper) // 2
    return min(max(mean, lower), upper)


def squares(
    parameters: Parameters, records: Sequence[Fraction], octave: int, key: int, released: int
) -> DiscreteLaplaceLaw:
    """Return the law of the sum of squares about it."""
    n, own = len(records), width(parameters, octave) / WIDTH
    lower, upper = bounds(parameters, n, key)
    about = center(parameters, n, key, released)
    total = pairs.clamped_squares(records, own, lower, upper, about)
    return DiscreteLaplaceLaw(total, scale(parameters, SQUARES, (upper - lower) ** 2))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage; for the last two with 2 records and no octave, as they
    are declared before any data.
    """
    wide = 2 * half(parameters, 2)
    return {"count": 0, "octaves": 1, "bins": 1, "mean": wide, "squares": wide**2}


@states(_KV18, _BASIC)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of the public number; octaves; if one surfaced, bins; if one surfaced, the
    sum and the squares.
    """
    n = len(records)

    def gated(shown: Outcome) -> bool:
        return bool(shown)

    def bins(prefix: Prefix) -> IntegerLaw | None:
        shown = prefix[OCTAVES]
        return histogram(parameters, records, BINS, fullest(shown)) if gated(shown) else None

    def mean(prefix: Prefix) -> IntegerLaw | None:
        if not gated(prefix[BINS]):
            return None
        return clamped(parameters, records, fullest(prefix[OCTAVES]), fullest(prefix[BINS]))

    def about(prefix: Prefix) -> IntegerLaw:
        octave, key = fullest(prefix[OCTAVES]), fullest(prefix[BINS])
        return squares(parameters, records, octave, key, prefix[MEAN][0])

    stages = (
        ("count", lambda prefix: PointLaw((n,))),
        ("octaves", lambda prefix: histogram(parameters, records, OCTAVES)),
        ("bins", bins),
        ("mean", mean),
        ("squares", about),
    )
    return TranscriptLaw(stages, ((n,), (0, 10**6), (0, 10**6), (0,)))


# --- error --------------------------------------------------------------------------------------

_SHARES = (mp.mpf("0.29"), mp.mpf("0.151")), (mp.mpf("0.34"), mp.mpf("0.137"))
_WRONG = (43, 25)


def masses(log: Any) -> dict[int, Any]:
    """Return the masses of octaves of differences of normal records of deviation 2^log: by octave,
    from -20 to 6.
    """
    root = mp.sqrt(2) * mp.mpf(2) ** log
    return {
        j: mp.erf(mp.mpf(2) ** (j + 1) / root / mp.sqrt(2))
        - mp.erf(mp.mpf(2) ** j / root / mp.sqrt(2))
        for j in range(-20, 7)
    }


def bin_masses(wide: Any, offset: Any, at: Any = mp) -> dict[int, Any]:
    """Return the masses of bins of so many deviations, with the mean so many widths from the
    middle of bin 0, at mpmath's precision or in floats, ``mp.fp``.
    """
    edges = [at.ncdf((k - 0.5 - offset) * wide) for k in range(-9, 11)]
    return {k - 9: b - a for k, (a, b) in enumerate(pairwise(edges))}


@states(
    _KV18,
    Source(
        "OURS",
        "the fullest bin's noisy count is the largest",
        note="by moments; KV18 by a union of tails",
    ),
)
def lost(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the estimate from n normal records is missing or
    based on a wrong bin.

    That is: there is no estimate, a width is outside 1 to 8 deviations, or the bin's middle is
    further than 1.5 widths from the mean. The bound is a union over the 43 octaves, and over
    the 25 bins within 12 deviations.
    """
    chance = n * mp.erfc(12 / mp.sqrt(2))
    for place, things in ((OCTAVES, n // 2), (BINS, n)):
        (p, q), s = _SHARES[place - 1], scale(parameters, place)
        chance += _WRONG[place - 1] * pairs.overtakes(things, p, q, real(s))
        chance += pairs.sinks(things, p, threshold(parameters, place), real(s))
    return min(chance, mp.mpf(1))


@states(_KV18)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean square of the mean's noise, in widths: sqrt(2) scales, up to the
    grid.
    """
    wide = mp.mpf(2 * half(parameters, n)) / WIDTH
    return mp.sqrt(2) * wide * real(scale(parameters, MEAN, 1)) / n


@states(_KV18)
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on that noise, in widths, which fails with probability at most beta; with
    half a cell of rounding.
    """
    wide = mp.mpf(2 * half(parameters, n)) / WIDTH
    return wide * real(scale(parameters, MEAN, 1)) / n * mp.log(1 / real(beta)) + mp.mpf(1) / WIDTH


@states(BOUND)
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, in deviations, for all means of n
    normal records, of every estimate of this privacy.
    """
    epsilon = 1 / Fraction(parameters["noise_multiplier"])
    delta = Fraction(parameters["delta"])
    return least_error(epsilon=epsilon, delta=delta, variances=[1], n=n)


# --- obligations --------------------------------------------------------------------------------

_UNIVERSE = tuple(map(Fraction, (0, 1, -3, 10**30, -(10**30))))
_CROWD = _UNIVERSE[:2] * 60 + (_UNIVERSE[0], _UNIVERSE[2]) * 60


def _parameters(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "adjacency": Adjacency.REPLACE,
        "noise_multiplier": Fraction(3, 2),
        "cell": Fraction(1),
        "delta": Fraction(1, 20),
        "failure": Fraction(1, 20),
        "shares": (Fraction(1, 4), Fraction(1, 8), Fraction(1, 8), Fraction(1, 2)),
        "at_least": 2,
    }
    return base | changes


@states(_KV18, _BASIC)
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check the losses on all neighbors of at most 4 records beside a crowd in two octaves and
    three bins, whatever was released before.

    Either histogram has at most delta / 2 at its share of epsilon = claimed / multiplier, and
    where no key is new some pair has that loss. The sums lose at most their shares, and some as
    much.
    """
    parameters = _parameters()
    epsilon, delta = claimed / parameters["noise_multiplier"], real(parameters["delta"]) / 2
    # by places in the universe, which are looked up faster than fractions
    own: Any = cache(
        lambda which, place, octave: histogram(parameters, _CROWD + _records(which), place, octave)
    )
    sums: Any = cache(lambda which, octave: clamped(parameters, _records(which), octave, 0))
    about: Any = cache(lambda which, far: squares(parameters, _records(which), 0, 0, far))
    ratio = cache(_ratio)
    known, neighboring = set[Any](), list(neighbors(range(len(_UNIVERSE)), 4, Adjacency.REPLACE))

    def reached(place: int, octave: int) -> Iterator[Any]:
        spent = epsilon * parameters["shares"][place - 1]
        for pair in neighboring:
            ours, theirs = (own(one, place, octave) for one in pair)
            moved = tuple(ours.differing(theirs))
            if (place, moved) not in known:
                known.add((place, moved))
                exact = ours.profile(theirs, spent)
                require(exact <= delta, f"{pair}, stage {place}: delta {exact}")
                yield ours.largest_loss(theirs) or 0

    def summed(law_of: Any, given: int) -> Iterator[Any]:
        for pair in neighboring:
            ours, theirs = (law_of(one, given) for one in pair)
            yield ratio(abs(ours.center - theirs.center), ours.scale)

    stages: dict[int, list[Iterator[Any]]] = {
        OCTAVES: [reached(OCTAVES, 0)],
        BINS: [reached(BINS, octave) for octave in (0, 3, pairs.TIE)],
        MEAN: [summed(sums, octave) for octave in (pairs.TIE, 2)],
        SQUARES: [summed(about, far) for far in (-(10**9), 0, 10**9)],
    }
    for place, losses in stages.items():
        most = max(chain([mp.mpf(0)], *losses))
        stated = real(epsilon * parameters["shares"][place - 1])
        require(mp.almosteq(most, stated), f"stage {place}: {most}, not {stated}")
    return len(neighboring)


def _records(which: tuple[int, ...]) -> tuple[Fraction, ...]:
    return tuple(_UNIVERSE[i] for i in which)


def _ratio(moved: int, scale: Fraction) -> Any:
    """Return the largest loss between discrete Laplace laws whose centers are so far apart."""
    return real(moved / scale)


@states(_KV18)
def obligation_fullest(claimed: Callable[[int], tuple[Any, Any]] = lambda k: _SHARES[k]) -> int:
    """Check for normal records of any deviation that the fullest octave, and for widths of 1 to 8
    deviations the fullest bin, has at least the first share.

    Octaves that lead to other widths, and bins more than 1.5 widths from the mean, have at most
    the second share. The shares are tight to a twentieth.
    """
    cases = 0
    for k, shares_of in enumerate((_of_octaves, _of_bins)):
        rows = [(mp.mpf(1), mp.mpf(0)), *shares_of()]
        least, most = min(row[0] for row in rows), max(row[1] for row in rows)
        share, other = claimed(k)
        case = f"{k}: shares from {mp.nstr(least, 5)}, up to {mp.nstr(most, 5)}"
        require(share <= least <= share * 1.05 and other >= most >= other * 0.95, case)
        cases += len(rows)
    return cases


def _of_octaves() -> Iterator[tuple[Any, Any]]:
    """Yield the largest share of an octave, and of one that leads to another width."""
    for step in range(101):
        log = mp.mpf(step) / 100
        own = masses(log)
        wrong = [m for j, m in own.items() if not 0 <= j + 2 - log <= 3]
        yield max(own.values()), max(wrong)


def _of_bins() -> Iterator[tuple[Any, Any]]:
    """Yield the largest share of a bin, and of one that is far from the mean."""
    for wide, offset in product(range(10, 81, 2), range(0, 51, 2)):
        by_bin = bin_masses(wide / 10, offset / 100, mp.fp)
        far = [m for k, m in by_bin.items() if abs(100 * k - offset) > 150]
        yield max(by_bin.values()), max(far)


@states(BOUND)
def obligation_lower_bound_is_below_error(within: int = 1000) -> int:
    """Check that the noise of the mean alone, for a width of 2.6 deviations, is above the lower
    bound and at most 1000 times it.
    """
    cases = 0
    for n, multiplier in ((1000, Fraction(1)), (10**4, Fraction(1)), (10**5, Fraction(10))):
        parameters = _parameters(noise_multiplier=multiplier, delta=Fraction(1, 10**7))
        bound, error = lower_bound(parameters, n), 2.6 * noise_error(parameters, n)
        require(bound <= error <= within * bound, f"{n}: {bound}, {error}")
        cases += 1
    return cases
