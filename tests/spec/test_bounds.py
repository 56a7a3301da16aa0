"""Lower bounds: below the best that any mechanism does, found by other means than their proofs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom

from dpverify import Abstained, Adjacency, BoundedMean, PureDP, SeededBits
from spec import bounded_mean, moment_matrix, noisy_count, randomized_response
from spec.theory.lower_bounds import local_two_point, two_point
from spec.theory.packing import most_success

_SEED = 20250104
Floats = NDArray[np.float64]

# --- central: second moments between public bounds -----------------------------------------------


def _moments_of(adjacency: Adjacency, d: int, radius: float | None, multiplier: str) -> Any:
    given = {"adjacency": adjacency, "noise_multiplier": Fraction(multiplier), "radius": radius}
    box = {"lower": (-1.0,) * d, "upper": (1.0,) * d, "targets": 0, "noise": "gaussian"}
    return given | box


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("d", "radius"), [(1, None), (3, None), (4, 1.0), (2, 0.5)])
@pytest.mark.parametrize(("multiplier", "n"), [("1", 1), ("1", 2), ("7", 5), ("7", 1000)])
def test_the_bound_of_second_moments_is_the_sum_over_their_flips(
    adjacency: Adjacency, d: int, radius: float | None, multiplier: str, n: int
) -> None:
    """Each flip of k records moves one moment by ``gap``; half of that is the least error of a
    wrong guess. A release of all diagonal entries with Gaussian noise has more error."""
    mu = (2 if adjacency is Adjacency.ADD_REMOVE else 1) / Fraction(multiplier)
    u = 1.0 if radius is None else min(1.0, radius**2 / d)
    squares = []
    for k in range(1, min(n, 200) + 1):
        gap, wrong = u * k / n, 0.5 * math.erfc(k * float(mu) / 2 / math.sqrt(2))
        squares.append(d * (gap / 2) ** 2 * wrong)
    bound = float(moment_matrix.lower_bound(_moments_of(adjacency, d, radius, multiplier), n))
    assert bound == pytest.approx(math.sqrt(max(squares)), rel=1e-9)
    sensitivity = u * math.sqrt(d) / n  # of the squares of the records above, by one replacement
    assert bound < math.sqrt(d) * sensitivity / float(mu)


# --- central: a count that neighbors move by one ------------------------------------------------

_EPSILONS = [Fraction(text) for text in ("1/20", "1/5", "1/2", "1", "2", "5")]
_MOST = 9


@cache
def _least_worst_error(epsilon: Fraction) -> float:
    """min over epsilon-DP mechanisms of the largest E|output - value| over values 0..9.

    A linear program in P(output | value). Integer outputs lose nothing: an output between two
    integers may be rounded to one of them at random, keeping its mean, and |output - value| is
    linear there; one outside may be moved to the end.
    """
    size = _MOST + 1
    variables = size * size + 1  # P(output | value), value by value; then the worst error
    factor = math.exp(epsilon)
    rows, limits = list[Floats](), list[float]()
    for value in range(size):
        row = np.zeros(variables)
        row[value * size : (value + 1) * size] = [abs(out - value) for out in range(size)]
        row[-1] = -1
        rows.append(row)
        limits.append(0.0)
    for a, b in pairwise(range(size)):
        for here, there in ((a, b), (b, a)):
            for out in range(size):
                row = np.zeros(variables)
                row[here * size + out], row[there * size + out] = 1, -factor
                rows.append(row)
                limits.append(0.0)
    sums = np.zeros((size, variables))
    for value in range(size):
        sums[value, value * size : (value + 1) * size] = 1
    goal = np.zeros(variables)
    goal[-1] = 1
    solved = linprog(goal, np.array(rows), limits, sums, np.ones(size), bounds=(0, None))
    assert solved.status == 0
    assert solved.fun is not None
    return float(solved.fun)


Bound = Callable[[Fraction, Fraction, int], Any]


def _is_below_every_mechanism(bound: Bound) -> bool:
    """The solver is right to about 1e-9; the bounds below are at least 1e-3."""
    return all(
        bound(epsilon, Fraction(1), _MOST) <= _least_worst_error(epsilon) + 1e-7
        for epsilon in _EPSILONS
    )


def test_no_mechanism_beats_the_two_point_bound() -> None:
    assert _is_below_every_mechanism(two_point)


def _at_one_dataset_for_sure(epsilon: Fraction, step: Fraction, most: int) -> Any:
    """Return the proof without its b: as if the estimate were wrong with certainty."""
    return max(k * step / 2 for k in range(1, most + 1))


def _privacy_forgotten_for_distance(epsilon: Fraction, step: Fraction, most: int) -> Any:
    """Pay for all k neighbors with a single epsilon."""
    return most * float(step) / 2 / (1 + math.exp(epsilon))


def _four_times(epsilon: Fraction, step: Fraction, most: int) -> Any:
    return 4 * two_point(epsilon, step, most)


@pytest.mark.parametrize(
    "twin", [_at_one_dataset_for_sure, _privacy_forgotten_for_distance, _four_times]
)
def test_false_lower_bounds_are_caught(twin: Bound) -> None:
    assert not _is_below_every_mechanism(twin)


def test_the_shipped_count_is_between_the_best_and_eight_times_the_bound() -> None:
    for epsilon in _EPSILONS:
        w = math.exp(-epsilon)
        error = sum(2 * z * (1 - w) / (1 + w) * w**z for z in range(1, 4000))
        # Clipped to 0..9 the count does no worse than on all integers, and the program is the best.
        assert _least_worst_error(epsilon) <= error
        assert noisy_count.lower_bound(epsilon) <= error <= 8 * noisy_count.lower_bound(epsilon)


def test_the_two_point_bound_is_the_largest_over_distances() -> None:
    for epsilon in _EPSILONS:
        for most in (1, 2, 7, 1000):
            expected = max(k * 1.5 / (1 + mp.exp(k * float(epsilon))) for k in range(1, most + 1))
            assert abs(two_point(epsilon, Fraction(3), most) - expected) < 1e-12


def test_a_statistic_that_cannot_move_has_no_lower_bound() -> None:
    assert two_point(Fraction(1), Fraction(1), 0) == 0
    assert two_point(Fraction(1), Fraction(0), 5) == 0


def test_the_mean_s_bound_is_the_two_point_bound_of_its_step() -> None:
    parameters = {"lower": 120.0, "upper": 200.0}
    for n in (1, 5, 50):
        expected = two_point(Fraction(1, 2), Fraction(80, n), n)
        assert expected == bounded_mean.lower_bound(parameters, Fraction(1, 2), n)
    # With one record the two bounds themselves are neighbors: 40 wrong with chance 1 / (1 + e^.5).
    one = bounded_mean.lower_bound(parameters, Fraction(1, 2), 1)
    assert abs(one - 40 / (1 + math.exp(0.5))) < 1e-12


# --- local: n answers through channels ----------------------------------------------------------


def _divergences(m: Floats, other: Floats) -> float:
    return float(np.sum((m - other) * np.log(m / other)))


def _channels() -> list[tuple[Floats, float]]:
    """Return random channels Q[x, y] with the epsilon they have; some are nearly one-sided or
    symmetric."""
    rng, channels = np.random.default_rng(_SEED), list[tuple[Floats, float]]()
    for _ in range(2000):
        inputs, outputs = rng.integers(2, 5), rng.integers(2, 6)
        spread = rng.choice([0.01, 0.3, 1.0, 3.0])
        weights = rng.dirichlet(np.full(outputs, rng.choice([0.2, 1.0, 20.0])))
        tilt = np.exp(spread * rng.uniform(-1, 1, (inputs, outputs)))
        channel = np.maximum(weights, 1e-6) * tilt
        channel /= channel.sum(axis=1, keepdims=True)
        channels.append((channel, float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())))
    for epsilon in (0.01, 0.1, 1.0):
        keep = 1 / (1 + math.exp(-epsilon))
        channels.append((np.array([[keep, 1 - keep], [1 - keep, keep]]), epsilon))
    return channels


def _inequality_holds(limit: Callable[[float, float], float]) -> bool:
    """KL + KL' of the outputs is at most ``limit(t, epsilon)``, t the inputs' total variation.

    Sums of at most five terms in float64: right to 1e-12 of their size, hence the factor.
    """
    rng = np.random.default_rng(_SEED + 1)
    for channel, epsilon in _channels():
        inputs = len(channel)
        even = np.full(inputs, 1 / inputs)
        tilted = even + 0.2 / inputs * np.where(np.arange(inputs) == 0, 1, -1 / (inputs - 1))
        laws = [rng.dirichlet(np.ones(inputs)) for _ in range(2)]
        for one, two in ((laws[0], laws[1]), (even, tilted), (np.eye(inputs)[0], laws[1])):
            t = float(np.abs(one - two).sum() / 2)
            if _divergences(one @ channel, two @ channel) > limit(t, epsilon) * (1 + 1e-9) + 1e-15:
                return False
    return True


def test_outputs_diverge_at_most_as_the_proof_says() -> None:
    assert _inequality_holds(lambda t, epsilon: t**2 * math.expm1(epsilon) ** 2)


@pytest.mark.parametrize(
    "limit",
    [
        lambda t, epsilon: t**2 * math.expm1(epsilon) ** 2 / 2,
        lambda t, epsilon: t**2 * math.expm1(epsilon) ** 2 * 0.95,
        lambda t, epsilon: t**2 * (1 - math.exp(-epsilon)) ** 2 / 2,
        lambda t, epsilon: t**4 * math.expm1(epsilon) ** 2,
        lambda t, epsilon: t**2 * math.expm1(epsilon) ** 3,
    ],
    ids=["half", "5% less", "contracted", "t too often", "epsilon too often"],
)
def test_a_smaller_divergence_is_caught(limit: Callable[[float, float], float]) -> None:
    assert not _inequality_holds(limit)


def _response_masses(frequency: float, epsilon: float, n: int) -> Floats:
    """Return the law of how many of n randomized answers are 1, for answers 1 with this
    frequency."""
    keep = 1 / (1 + math.exp(-epsilon))
    reported = frequency * keep + (1 - frequency) * (1 - keep)
    masses: Floats = binom.pmf(np.arange(n + 1), n, reported)
    return masses


_LOCAL = [(n, Fraction(e)) for n in (1, 4, 30, 400) for e in ("1/10", "1/2", "1", "3")]


def _variation_after_response(t: float, epsilon: float, n: int) -> float:
    middle = [_response_masses(0.5 + side * t / 2, epsilon, n) for side in (-1, 1)]
    return float(np.abs(middle[0] - middle[1]).sum() / 2)


@pytest.mark.parametrize(("n", "epsilon"), _LOCAL)
def test_randomized_answers_are_no_further_apart_than_the_proof_says(
    n: int, epsilon: Fraction
) -> None:
    strength = math.expm1(epsilon)
    for t in (0.01, 0.1, 0.5, 1.0, min(1.0, 1 / (strength * math.sqrt(n)))):
        apart = _variation_after_response(t, float(epsilon), n)
        assert apart <= t * strength * math.sqrt(n) / 2 + 1e-12


def _best_at_two_points(n: int, epsilon: Fraction) -> float:
    """Le Cam with the exact variation: no estimate from these answers has a smaller worst error.

    For every estimate, the errors at f and f + t add up to t at least; so do the two expectations
    on the common part of the laws, 1 - variation; half of that is below the larger.
    """
    ts = np.linspace(0.001, 1, 300)
    exact = [t / 2 * (1 - _variation_after_response(t, float(epsilon), n)) for t in ts]
    return float(max(exact))


def _worst_error_of_response(n: int, epsilon: Fraction, *, clipped: bool) -> float:
    keep = 1 / (1 + math.exp(-epsilon))
    estimates = (np.arange(n + 1) / n - (1 - keep)) / (2 * keep - 1)
    if clipped:
        estimates = np.clip(estimates, 0, 1)
    errors = [
        float(np.abs(estimates - f) @ _response_masses(f, float(epsilon), n))
        for f in np.linspace(0, 1, 21)
    ]
    return max(errors)


def _local_bound_holds(bound: Callable[[Fraction, int], Any]) -> bool:
    return all(
        float(bound(epsilon, n)) <= _best_at_two_points(n, epsilon)
        and float(bound(epsilon, n)) <= _worst_error_of_response(n, epsilon, clipped=True)
        and float(bound(epsilon, n)) <= _worst_error_of_response(n, epsilon, clipped=False)
        for n, epsilon in _LOCAL
    )


def test_the_local_bound_is_below_what_answers_can_tell_and_the_mechanism_does() -> None:
    assert _local_bound_holds(local_two_point)
    assert _local_bound_holds(randomized_response.lower_bound)


@pytest.mark.parametrize(
    "twin",
    [
        lambda epsilon, n: 8 * local_two_point(epsilon, n),
        lambda epsilon, n: 1 / (float(epsilon) * math.sqrt(n)),
        lambda epsilon, n: 0.25 + 0 * local_two_point(epsilon, n),
    ],
    ids=["eight times", "without constants", "without n"],
)
def test_false_local_bounds_are_caught(twin: Callable[[Fraction, int], Any]) -> None:
    assert not _local_bound_holds(twin)


def test_the_local_bound_takes_the_best_separation() -> None:
    rng = random.Random(_SEED)
    for _ in range(50):
        n, epsilon = rng.randint(1, 1000), Fraction(rng.randint(1, 300), 100)
        s = math.expm1(epsilon) * math.sqrt(n)
        best = max(t / 4 * max(0.0, 1 - t * s / 2) for t in np.linspace(0, 1, 20001))
        assert best - 1e-12 <= float(local_two_point(epsilon, n)) <= best * (1 + 1e-4) + 1e-6


# --- a packing: a shipped mean ------------------------------------------------------------------

_PLACES = [k / 8 for k in range(9)]
_DRAWS = 1000


def _success(noise_multiplier: Fraction, n: int) -> float:
    """Return how often a mean of n equal records lies within 1/16 of them, on average over nine
    places."""
    mechanism = BoundedMean(
        adjacency=Adjacency.REPLACE, lower=0, upper=1, noise_multiplier=noise_multiplier
    )
    hits = 0
    for place in _PLACES:
        batch = mechanism.law([place] * n).sample(SeededBits(_SEED, n), _DRAWS)
        estimates = (mechanism.estimate(batch[i]) for i in range(_DRAWS))
        hits += sum(
            not isinstance(m, Abstained) and abs(m.value - place) < 1 / 16 for m in estimates
        )
    return hits / (_DRAWS * len(_PLACES))


@pytest.mark.parametrize("n", [2, 3])
def test_a_shipped_mean_succeeds_no_more_often_than_a_packing_allows(n: int) -> None:
    """Two thirds of what is allowed, or less; with an eighth of the noise it succeeds too often
    to be as private. Of 9000 draws a share has a standard deviation below 0.0053; margins are 9
    of them."""
    epsilon = Fraction(1, 2)
    private = BoundedMean.for_budget(
        PureDP(epsilon), adjacency=Adjacency.REPLACE, lower=0, upper=1
    ).noise_multiplier
    most = float(most_success(epsilon, n, len(_PLACES), Adjacency.REPLACE))
    assert _success(private, n) < most - 0.05
    assert _success(private / 8, n) > most + 0.05
