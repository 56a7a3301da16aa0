"""The Gaussian curve below which a claim lies: never too small, never far too large, composable."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import scipy.optimize

from dpverify.privacy import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Lifted,
    PerfectPrivacy,
    Profile,
    PureDP,
    SmoothLaplace,
    ZeroConcentratedDP,
)
from dpverify.privacy.guarantees import curves
from dpverify.privacy.guarantees.curves import gaussian_share
from spec.theory.adaptive import gaussian_share as least_at
from spec.theory.laws import real
from spec.theory.profiles import gaussian_profile

from .finite import Law, Pair, random_pair

ZERO, LITTLE, MUCH = Fraction(0), Fraction("1e-6"), Fraction("1e-2")
CASES: list[tuple[Guarantee, Fraction]] = [
    (PureDP(1), ZERO),
    (PureDP("1e-9"), ZERO),
    (ApproxDP(1, "1e-6"), LITTLE),
    (DiscreteLaplaceShift(1, 1), ZERO),
    (DiscreteLaplaceShift(1 << 40, 1 << 36), ZERO),
    (BoundedRange(2), ZERO),
    (ZeroConcentratedDP("1/2"), LITTLE),
    (ZeroConcentratedDP("1/50"), MUCH),
    (SmoothLaplace("1/2", "1.1"), LITTLE),
    (Lifted(PureDP("1/4"), Fraction(2)), ZERO),
    (Profile([(DiscreteLaplaceShift(100, 1000), 4)]), ZERO),
    (Profile([PureDP("1/4"), GaussianDP("1/2")]), LITTLE),
]
_DIGITS = 60
MESH = [i / 16 for i in range(48)]


def _epsilons(shown: Guarantee, count: int = 6) -> list[Fraction]:
    """List points from 0 to where the profile ends or is small, denser near 0; random, so on no
    mesh of the search."""
    loss = shown.largest_loss
    top = loss if loss is not None else shown.epsilon_at("2e-6").upper
    rng = random.Random(20261126)
    return [ZERO, *(top * Fraction(rng.randrange(10**9), 10**9) ** 2 for _ in range(count))]


def _exceeds(shown: Guarantee, square: Fraction, delta: Fraction) -> bool:
    """Tell whether the profile is above the Gaussian one and delta, by the spec's formula."""
    with mp.workdps(_DIGITS):
        return any(
            real(shown.delta_at(e).lower) > gaussian_profile(square, e) + real(delta)
            for e in _epsilons(shown)
        )


@pytest.mark.parametrize(("shown", "delta"), CASES, ids=str)
def test_a_share_is_above_the_profile_everywhere_and_about_the_least(
    shown: Guarantee, delta: Fraction
) -> None:
    square = gaussian_share(shown, delta)
    assert shown.implies(ApproximateGaussianDP.of_square(square, delta))
    assert not _exceeds(shown, square, delta)
    # some epsilon needs nearly as much: enclosures of families are apart from the least, too
    with mp.workdps(_DIGITS):
        needed = max(
            least_at(lambda e: shown.delta_at(e).upper, delta, e) for e in _epsilons(shown)
        )
    assert needed > square * Fraction(99, 100)


def test_gaussian_guarantees_cost_what_they_say() -> None:
    assert gaussian_share(GaussianDP("1/3")) == Fraction(1, 9)
    assert gaussian_share(ApproximateGaussianDP("1/3", LITTLE), LITTLE) == Fraction(1, 9)
    assert gaussian_share(PerfectPrivacy()) == 0
    assert gaussian_share(PureDP(1)) == PureDP(1).gaussian.mu_squared
    assert gaussian_share(PureDP("1e-9"), LITTLE) == 0  # delta alone covers it
    assert gaussian_share(Profile([], delta=LITTLE), LITTLE) == 0


@pytest.mark.parametrize(
    ("shown", "delta"),
    [
        (ApproxDP(1, "1e-6"), Fraction("1e-7")),
        (ZeroConcentratedDP(1), ZERO),
        (SmoothLaplace("1/2", "1.1"), ZERO),
        (ApproximateGaussianDP(1, LITTLE), ZERO),
    ],
    ids=str,
)
def test_what_lies_below_no_curve_is_refused(shown: Guarantee, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="larger delta"):
        gaussian_share(shown, delta)


HEAVY = SmoothLaplace("1/10", "1.3")  # its tail decides, and not what it is at 0


@pytest.mark.parametrize("fault", ["between the points", "the tail"])
def test_a_comparison_that_leaves_something_out_is_caught(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant a fault, and see a share that it lets through be too small somewhere."""
    assert not _exceeds(HEAVY, gaussian_share(HEAVY, LITTLE), LITTLE)
    if fault == "between the points":
        monkeypatch.setattr(curves, "_holds_between", lambda *given: True)
        monkeypatch.setattr(curves, "_FIRST_CELLS", 1)
    else:
        right = curves._end
        monkeypatch.setattr(curves, "_end", lambda *given: (right(*given) or ZERO) / 8)
    assert _exceeds(HEAVY, gaussian_share(HEAVY, LITTLE), LITTLE)


def _least_of_two_responses() -> mp.mpf:
    """Compute the mu^2 whose curve the line p^2 - g q^2 touches, with p = e / (1 + e),
    q = 1 - p."""
    q = 1 / (1 + mp.e)

    def over(mu: mp.mpf) -> mp.mpf:
        at = -mu * (mp.sqrt(2) * mp.erfinv(2 * q * q - 1) + mu / 2)  # where the slope is -q^2
        a, b = at / mu - mu / 2, at / mu + mu / 2
        return mp.ncdf(-a) - mp.exp(at) * mp.ncdf(-b) - (1 - q) ** 2 + mp.exp(at) * q * q

    return mp.findroot(over, mp.mpf("1.545")) ** 2


def test_what_decides_between_two_points_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile of two randomized responses is a line from 0 to 2, and touches the Gaussian
    one at 1.0601, which is no multiple of 1/4; who compares at these alone takes a mu^2 .15% too
    small."""
    two = Profile([(PureDP(1), 2)])
    with mp.workdps(30):
        least = _least_of_two_responses()
        assert least <= real(gaussian_share(two)) <= least * (1 + mp.mpf(2) ** -20)
        monkeypatch.setattr(curves, "_holds_between", lambda *given: True)
        assert real(gaussian_share(two)) < least * (1 - mp.mpf("1e-3"))


# --- what the shares are for --------------------------------------------------------------------


def _gaussian(square: float, epsilon: float) -> float:
    mu = square**0.5
    near, far = ((epsilon / mu + side * mu / 2) / 2**0.5 for side in (-1, 1))
    return (math.erfc(near) - math.exp(epsilon) * math.erfc(far)) / 2


def _needed(pair: Pair, delta: float) -> float:
    """Compute the least mu^2 whose curve and delta are above both profiles of a pair, on a fine
    mesh."""

    def suffices(square: float) -> bool:
        return all(_stick(pair, e) <= _gaussian(square, e) + delta for e in MESH)

    low, high = 1e-6, 100.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _stick(pair: Pair, epsilon: float) -> float:
    """Compute the larger of the two directions' deltas."""
    factor = math.exp(epsilon)
    return max(
        sum(max(0.0, float(p.get(o, ZERO)) - factor * float(q.get(o, ZERO))) for o in {*p, *q})
        for p, q in (pair, pair[::-1])
    )


def _both(first: Pair, second: Pair) -> Pair:
    """Give the laws of both outputs."""

    def law(one: Law, other: Law) -> Law:
        return {(a, b): m * n for (a, m), (b, n) in product(one.items(), other.items())}

    return law(first[0], second[0]), law(first[1], second[1])


def test_pairs_below_gaussian_curves_compose_as_their_sums_say() -> None:
    """Compare two outputs with the sums of what each needs: mu^2 and delta, split anyhow."""
    rng, tight = random.Random(11), 0.0
    for _ in range(25):
        pairs = [random_pair(rng), random_pair(rng)]
        deltas = [rng.choice((0.0, 0.02, 0.1)) for _ in pairs]
        needs = [_needed(pair, delta) for pair, delta in zip(pairs, deltas, strict=True)]
        both = _both(*pairs)
        for epsilon in MESH:
            most, has = _gaussian(sum(needs), epsilon) + sum(deltas), _stick(both, epsilon)
            assert has <= most + 1e-4  # the mesh of _needed leaves out less than that
            tight = max(tight, has / most)
    assert tight > 0.9


def _least_lack(pair: Pair, square: float) -> float:
    """Find measures P0 <= P and Q0 <= Q below the Gaussian curve, that lack the least mass: a
    linear program.

    P0(S) - g Q0(S) and Q0(S) - g P0(S) are at most delta_mu(g), for all events S and for g from
    1/20 to 20.
    """
    outcomes = sorted({*pair[0], *pair[1]}, key=str)
    size = len(outcomes)
    p, q = (np.array([float(law.get(o, ZERO)) for o in outcomes]) for law in pair)
    rows, most = [], []
    for events in product((0.0, 1.0), repeat=size):
        event = np.array(events)
        for e in (*MESH, *(-e for e in MESH[1:])):
            limit = (
                _gaussian(square, e) if e >= 0 else 1 - math.exp(e) * (1 - _gaussian(square, -e))
            )
            for one, other in ((event, -math.exp(e) * event), (-math.exp(e) * event, event)):
                rows.append([*one, *other, 0.0])
                most.append(limit)
    for side in ([-1.0] * size + [0.0] * size, [0.0] * size + [-1.0] * size):
        rows.append([*side, -1.0])  # 1 - P0(all) is at most what is lacking
        most.append(-1.0)
    bounds = [(0.0, m) for m in (*p, *q)] + [(0.0, 1.0)]
    optimum = scipy.optimize.linprog([0.0] * 2 * size + [1.0], rows, most, bounds=bounds)
    assert optimum.status == 0
    assert optimum.fun is not None
    return float(optimum.fun)


def test_the_measures_that_the_proof_makes_are_there() -> None:
    """Find them for random pairs, at about the least mu^2 for a delta; for a hundredth less of
    delta there are mostly none."""
    rng, lacks = random.Random(5), list[float]()
    for _ in range(25):
        pair, delta = random_pair(rng, far=True), 0.1
        if _stick(pair, 0.0) > 2 * delta:
            lacks.append(_least_lack(pair, _needed(pair, delta)) / delta)
    assert max(lacks) < 1 + 1e-3  # of the mesh
    assert len(lacks) > 10
    assert sum(lack > 0.99 for lack in lacks) > len(lacks) // 2


def test_what_is_needed_at_one_epsilon_alone_does_not_compose() -> None:
    """Catch the false twin: at epsilon = ln 2 this pair needs nothing, and two outputs do."""
    third = Fraction(1, 3)
    pair: Pair = ({0: 2 * third, 1: third}, {0: third, 1: 2 * third})
    assert _stick(pair, math.log(2)) < 1e-12
    assert _stick(_both(pair, pair), math.log(2)) > 0.2
