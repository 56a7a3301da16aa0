"""``rescaled_mean``: what it promises, what it refuses, what it estimates."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    ApproximateGaussianDP,
    RescaledMean,
    SeededBits,
)
from dpverify import VectorMeanEstimate as Estimate
from dpverify.plans import stages_of
from dpverify.privacy import Status
from dpverify.suite.refinement import RefinementFailed, compare_facts
from dpverify.transformations.means.gaussian import GaussianCoreMean
from spec import rescaled_mean as spec
from spec.theory import rescaled_errors, rescaled_laws
from tests.mechanisms.helpers import fails_at_most

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(4, "1e-6")
SHEARED = ((2.0, 0.5), (0.5, 0.3))
FILTERS = ("weights", "gaussian", "basic")
Floats = NDArray[np.float64]


@cache
def made(adjacency: Adjacency = ADD, **own: Any) -> RescaledMean:
    given: dict[str, Any] = {"matrix": (1.0, 4.0), "radius": 2, "n_max": 300}
    parameters = {**given, "ladder_multiplier": None, **own}
    return RescaledMean.for_budget(BUDGET, adjacency=adjacency, **parameters)


def cloud(n: int, d: int = 2, seed: int = 0) -> Floats:
    """Within a quarter of a unit of 7 in every column: all friends."""
    return 7 + np.random.default_rng(seed).uniform(-0.25, 0.25, (n, d))


# --- claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "kind"), list(product(Adjacency, FILTERS)))
def test_the_claim_is_the_budget_and_the_noise_the_least(adjacency: Adjacency, kind: Any) -> None:
    mechanism = made(adjacency, filter=kind)
    assert mechanism.claim.guarantee == BUDGET
    assert mechanism.claim.status is Status.PROVED
    assert mechanism.composed.implies(BUDGET)
    tails = {"weights": 1, "gaussian": 3 if adjacency is ADD else 2}
    if kind in tails:  # mu = 1 / multiplier, and one tail for each rare event
        square = 1 / mechanism.noise_multiplier**2
        stated = mechanism.composed
        assert isinstance(stated, ApproximateGaussianDP)
        assert Fraction(999, 1000) * square <= stated.mu_squared <= square
        assert stated.delta == tails[kind] * mechanism.tail
    less = mechanism.noise_multiplier * Fraction(98, 100)
    parameters = {**mechanism.parameters, "noise_multiplier": less}
    with pytest.raises(ValueError, match=r"does not imply|not follow|imply"):
        RescaledMean(**parameters)


@pytest.mark.parametrize(("adjacency", "kind"), list(product(Adjacency, FILTERS)))
def test_the_facts_are_the_specs(adjacency: Adjacency, kind: Any) -> None:
    """Sensitivities, centers, noise and filters, on extreme data too; and not with another
    radius."""
    edge = [0.0, -0.0, 5e-324, 1e308, -1e308, 2.0**-1022, 7.3]
    rows = np.array([(x, y) for x in edge for y in edge])
    datasets: list[Any] = [rows[:n] for n in (0, 1, 2, 3)]
    datasets += [rows, np.vstack([cloud(40), rows]), cloud(90)]
    matrix, radius = ((1.0, 4.0), 2) if adjacency is ADD else (SHEARED, "0.3")
    mechanism = made(adjacency, filter=kind, matrix=matrix, radius=radius)
    with mp.workdps(50):
        assert compare_facts(spec, mechanism, datasets) > 2 * len(datasets)
    if kind != "weights":
        return

    class Twin:
        sensitivities = staticmethod(spec.sensitivities)

        @staticmethod
        def law(parameters: Any, records: Any) -> Any:
            return spec.law({**parameters, "radius": 1}, records)

    twin: Any = Twin
    with mp.workdps(50), pytest.raises(RefinementFailed):
        compare_facts(twin, mechanism, datasets)


def test_scores_have_room_for_every_number_of_rows() -> None:
    """Build stages: what is built from a released number never fails: no exception can depend on
    the data."""
    for adjacency, n_max, tail in product(Adjacency, (30,), ("1e-3", "1e-9")):
        mechanism = RescaledMean(
            adjacency=adjacency,
            noise_multiplier=Fraction(3, 4),
            matrix=(1.0,),
            radius=1,
            n_max=n_max,
            tail=Fraction(tail),
            filter="gaussian",
        )
        core = mechanism.core()
        assert isinstance(core, GaussianCoreMean)
        keys = {
            core._key(rows) for rows in (*range(1, 900, 90), *(2**k + 1 for k in range(11, 40, 4)))
        }
        for key in keys:
            built = core._filtered(key)
            assert built.derivation(adjacency, mechanism.domain).conclusion.guarantee.implies(
                core._filtered(core._least_rows)
                .derivation(adjacency, mechanism.domain)
                .conclusion.guarantee
            )


# --- refusals -----------------------------------------------------------------------------------

_REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"matrix": ((1.0, 2.0), (2.0, 1.0))}, ValueError, "not positive definite"),
    ({"matrix": ((1.0, 0.0), (0.0, 0.0))}, ValueError, "not positive definite"),
    ({"matrix": ((1.0, 0.5), (0.4, 1.0))}, ValueError, "not symmetric"),
    ({"matrix": ((1.0, 0.5),)}, ValueError, "shape"),
    ({"matrix": (1.0, -1.0)}, ValueError, "positive"),
    ({"matrix": ()}, ValueError, "positive"),
    ({"matrix": (1.0, float("nan"))}, ValueError, "finite"),
    ({"matrix": (1.0, 1e-30)}, ValueError, "eigenvalues"),
    ({"matrix": "identity"}, TypeError, "matrix"),
    ({"radius": 0}, ValueError, "radius"),
    ({"radius": -1}, ValueError, "radius"),
    ({"n_max": 0}, ValueError, "n_max"),
    ({"n_max": 1.5}, TypeError, "n_max"),
    ({"tail": 0}, ValueError, "tail"),
    ({"tail": "1/10"}, ValueError, "tail"),
    ({"filter": "friendly"}, ValueError, "filter"),
    (
        {"noise_multiplier": Fraction(10**300)},
        ValueError,
        "noise_multiplier is outside 1e-100 to 1e9",
    ),
]


@pytest.mark.parametrize(("own", "kind", "message"), _REFUSED, ids=range(len(_REFUSED)))
def test_bad_parameters_are_refused(own: Any, kind: type[Exception], message: str) -> None:
    parameters: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "matrix": (1.0, 4.0),
        "radius": 2,
        "n_max": 300,
        "tail": "1e-7",
    }
    with pytest.raises(kind, match=message):
        RescaledMean(**parameters | own)


@pytest.mark.parametrize("kind", ["weights", "gaussian"])
@pytest.mark.parametrize("multiplier", ["1e-100", "1e-9", "1e-3", "1e9"])
def test_extreme_multipliers_have_a_release(kind: Any, multiplier: str) -> None:
    mechanism = replace(made(filter=kind), noise_multiplier=Fraction(multiplier), budget=None)
    batch = mechanism.law(cloud(40)).sample(SeededBits(1), 2)
    assert all(isinstance(mechanism.estimate(batch[i]), Estimate | Abstained) for i in range(2))


def test_data_of_another_shape_are_refused() -> None:
    for data in ([1.0, 2.0, 3.0], np.zeros((4, 3)), [[1.0, float("nan")]]):
        with pytest.raises((ValueError, TypeError)):
            made().release(data, SeededBits(1))


def test_a_budget_without_a_delta_needs_a_tail() -> None:
    with pytest.raises(ValueError, match="tail"):
        RescaledMean.for_budget(
            ApproximateGaussianDP(1, "1e-6", 0), adjacency=ADD, matrix=(1.0,), radius=1, n_max=9
        )


# --- data of all kinds --------------------------------------------------------------------------

_EXTREME: tuple[Any, ...] = (
    [],
    [[0.5, 1.0]],
    [[0.5, 1.0], [0.5, 1.0]],
    [[1e308, -1e308]] * 3,
    [[5e-324, -5e-324]] * 400,
    [[1e308, 1e308]] * 200 + [[-1e308, 1e308]] * 200,
)


@pytest.mark.parametrize(("adjacency", "kind"), list(product(Adjacency, FILTERS)))
@pytest.mark.parametrize("matrix", [(1.0, 4.0), SHEARED])
def test_extreme_data_are_data(adjacency: Adjacency, kind: Any, matrix: Any) -> None:
    """Few records abstain (a release of them has probability below 1e-6 a case), none raises."""
    mechanism = made(adjacency, filter=kind, matrix=matrix)
    for seed, data in enumerate(_EXTREME):
        records = np.array(data, dtype=float).reshape(-1, 2)
        with np.errstate(all="raise"):
            release = mechanism.release(records, SeededBits(seed))
        if len(records) <= 3:
            assert str(release) == "abstained: too few records that agree"
        if isinstance(release, Estimate):
            assert np.isfinite(release.value).all()


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("matrix", [(1.0, 4.0), SHEARED])
def test_the_law_depends_on_the_records_only(kind: Any, matrix: Any) -> None:
    """Not on their order, type, memory or batch: every stage has the same center."""
    mechanism, rng = made(filter=kind, matrix=matrix), np.random.default_rng(1)
    rows = rng.integers(-3, 4, (50, 2)).astype(np.float64) / 2
    kinds: list[Any] = [rows.tolist(), rows[::-1], np.asfortranarray(rows), rows.astype("f4")]
    kinds += [rng.permutation(rows) for _ in range(3)]
    stages = stages_of(mechanism.fixed_plan)

    def centers(data: Any) -> list[list[int]]:
        law = mechanism.law(data)
        prefix = [(30,), (30,)]
        return [law.center_after(s, prefix[:i]).tolist() for i, s in enumerate(stages)]

    expected = centers(rows)
    assert all(centers(data) == expected for data in kinds)
    assert centers(rows[:-1]) != expected
    shape = mechanism.core().nearness
    apart = [shape.images(np.ascontiguousarray(rows[i : i + 1])) for i in range(len(rows))]
    assert np.array_equal(np.vstack(apart), shape.images(rows))


def test_a_release_is_a_draw_of_the_law() -> None:
    for kind in FILTERS:
        mechanism, data = made(filter=kind), cloud(400)
        one = mechanism.release(data, SeededBits(5))
        drawn = mechanism.estimate(mechanism.law(data).sample(SeededBits(5), 1)[0])
        assert isinstance(one, Estimate)
        assert repr(one) == repr(drawn)


# --- estimates ----------------------------------------------------------------------------------

RELEASES = 2000


def errors(mechanism: RescaledMean, data: Floats, seed: int) -> tuple[Floats, list[Estimate]]:
    """estimate - mean of 2000 releases, and the releases."""
    batch = mechanism.law(data).sample(SeededBits(71, seed), RELEASES)
    outcomes = [mechanism.estimate(batch[i]) for i in range(RELEASES)]
    released = [one for one in outcomes if isinstance(one, Estimate)]
    assert len(released) == RELEASES
    return np.array([one.value for one in released]) - data.mean(axis=0), released


@pytest.mark.parametrize("kind", ["weights", "basic"])
@pytest.mark.parametrize("matrix", [(1.0, 4.0), SHEARED])
def test_each_estimate_states_its_covariance(kind: Any, matrix: Any) -> None:
    """Whiten the errors: in the stated metric the 2000 errors have covariance 1: an entry has sd
    0.032 (0.022 off the diagonal), and 0.17 is 5.4 sd: false alarm below 1e-6 for four cases of
    three entries."""
    offsets, released = errors(made(filter=kind, matrix=matrix), cloud(400), 1)
    roots = [np.linalg.inv(np.linalg.cholesky(one.covariance)) for one in released]
    whitened = np.einsum("ijk,ik->ij", np.array(roots), offsets)
    assert np.abs(whitened.T @ whitened / RELEASES - np.eye(2)).max() < 0.17
    half = np.einsum("ijk,ik->ij", np.array(roots), offsets / math.sqrt(2))
    assert np.abs(half.T @ half / RELEASES - np.eye(2)).max() > 0.17


@pytest.mark.parametrize(("adjacency", "kind"), list(product(Adjacency, ("weights", "basic"))))
def test_the_error_is_the_predicted_one(adjacency: Adjacency, kind: Any) -> None:
    """The mean square of 2000 lengths: given r a chi-square of 2, so with a relative sd of 1,
    and 0.0224 in the mean (a little more for r); 14% are 5.5 sd: false alarm below 1e-6 for four
    cases. x 1.3 is 69%."""
    mechanism = made(adjacency, filter=kind)
    offsets, _ = errors(mechanism, cloud(600), 2)
    square = float(np.mean((offsets**2).sum(axis=1)))
    with mp.workdps(30):
        predicted = float(spec.expected_error(mechanism.parameters, 600))
        bound = float(spec.error_bound(mechanism.parameters, 600, Fraction(1, 40)))
    assert abs(square / predicted**2 - 1) < 0.14
    lengths = np.linalg.norm(offsets, axis=1).tolist()
    assert fails_at_most(lengths, bound, 0.05)
    assert not fails_at_most(lengths, bound / 3, 0.05)


def test_a_rotated_matrix_gives_the_rotated_law_of_the_error() -> None:
    """Mean squares along the axes agree with those of the diagonal: 2000 errors each, relative
    sd sqrt(2 / 2000) a side, 0.045 of their ratio; 30% are 5.8 sd in logarithms: below
    1e-6 in all."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    rotated = turn @ np.diag([1.0, 4.0]) @ turn.T
    full = made(matrix=tuple(map(tuple, ((rotated + rotated.T) / 2).tolist())))
    data = cloud(400)
    straight, _ = errors(made(), data, 3)
    turned, _ = errors(full, data @ turn.T, 4)
    axes = [(e**2).mean(axis=0) for e in (straight, turned @ turn)]
    assert np.abs(np.log(axes[0] / axes[1])).max() < math.log(1.3)
    assert axes[0][1] / axes[0][0] > 1.6  # M^(1/2) is (1, 2)


def test_of_data_on_a_line_in_the_plane_the_error_is_that_of_one_dimension() -> None:
    """M = 4 v v^T, v = (0.6, 0.8): the errors are along v, off the line everything is the origin's.

    As above a mean square of 2000 (relative sd 0.032) is within 20% of the predicted: below 1e-6.
    """
    v, origin = np.array([0.6, 0.8]), (7.0, 1.0)
    flat = 4 * np.outer(v, v)
    matrix = tuple(map(tuple, ((flat + flat.T) / 2).tolist()))
    mechanism = made(matrix=matrix, origin=origin)
    data = np.array(origin) + np.outer(np.random.default_rng(3).uniform(-1, 1, 600), v)
    offsets, _ = errors(mechanism, data, 5)
    across = offsets @ np.array([0.8, -0.6])
    assert np.abs(across).max() < 2.0**-15
    with mp.workdps(30):
        predicted = float(spec.expected_error(mechanism.parameters, 600))
    assert abs(float(np.mean((offsets @ v) ** 2)) / predicted**2 - 1) < 0.2


@pytest.mark.parametrize(("adjacency", "kind"), list(product(Adjacency, FILTERS)))
def test_minimum_n_abstains_as_rarely_as_stated(adjacency: Adjacency, kind: Any) -> None:
    """500 releases of the least n for beta = 1/20; of 20 records hardly any (4 standard
    deviations short)."""
    mechanism = made(adjacency, filter=kind)
    least = mechanism.minimum_n(beta="1/20")

    def stopped(n: int) -> list[float]:
        batch = mechanism.law(cloud(n)).sample(SeededBits(72), 500)
        return [float(stopped_by >= 0) for stopped_by in batch.stopped_by]

    assert fails_at_most(stopped(least), 1.0, 0.05)
    assert np.mean(stopped(20)) > 0.9


def test_records_that_do_not_agree_are_left_out() -> None:
    """One in ten is far away: the mean is that of the others, to 6 of the stated deviations."""
    data = cloud(600)
    far = np.vstack([data, np.full((60, 2), 1e9)])
    for kind in ("weights", "basic"):
        estimate = made(filter=kind).release(far, SeededBits(6))
        assert isinstance(estimate, Estimate)
        gap = np.abs(estimate.value - data.mean(axis=0))
        assert (gap < 6 * np.sqrt(np.diag(estimate.covariance))).all()


def test_two_equal_groups_abstain() -> None:
    data = np.vstack([cloud(300), cloud(300) + 1e6])
    for kind in FILTERS:
        assert isinstance(made(filter=kind).release(data, SeededBits(7)), Abstained)


# --- for_budget from a covariance ---------------------------------------------------------------


def test_the_covariance_gives_matrix_and_radius() -> None:
    covariance = (1.0, 0.25, 0.04)
    mechanism = RescaledMean.for_budget(BUDGET, adjacency=ADD, covariance=covariance, n_max=500)
    assert mechanism.matrix == covariance
    mapped = np.random.default_rng(3).normal(size=(200_000, 3)) * np.array(covariance) ** 0.25
    apart = np.linalg.norm(mapped[::2] - mapped[1::2], axis=1)
    share = float(np.mean(apart > mechanism.radius))
    assert share < 1 / 500  # by a Chernoff bound, so well below
    trace = sum(c**0.5 for c in covariance)  # the largest of M^(1/2) is 1
    assert mechanism.radius < math.sqrt(2 * trace) + 2 * math.sqrt(math.log(500))


def test_all_pairs_are_friends_where_that_is_asked_for() -> None:
    """Check 40 samples: in each all pairs are friends but with probability 1/100; four or more
    have a pair that is none with probability below 1e-3 (seeds are fixed). At the default radius
    every sample looked at has some."""
    covariance, n = (1.0, 0.25, 0.04), 2000

    def most_apart(seed: int) -> float:
        mapped = np.random.default_rng(seed).normal(size=(n, 3)) * np.array(covariance) ** 0.25
        return float(pdist(mapped).max())

    made = {
        strangers: RescaledMean.for_budget(
            BUDGET, adjacency=ADD, covariance=covariance, n_max=n, strangers=strangers
        )
        for strangers in (None, "1/100")
    }
    own, wide = made[None].radius, made["1/100"].radius
    apart = [most_apart(seed) for seed in range(40)]
    assert sum(far > wide for far in apart) < 4
    assert all(far > own for far in apart[:5])
    assert own < wide < 1.6 * own
    assert made["1/100"].ladder_multiplier is None
    parameters, beta = made["1/100"].parameters, Fraction(1, 90)
    with mp.workdps(30):
        assert rescaled_errors.pairs_apart(parameters, n, beta, covariance) == 0
        assert rescaled_errors.pairs_apart(made[None].parameters, n, beta, covariance) > 0


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"radius": 1, "covariance": (1.0,)}, "no radius"),
        ({"matrix": (1.0,), "radius": 1}, "give covariance"),
        ({"covariance": (1.0,), "strangers": 0}, "strangers"),
        ({"covariance": (1.0,), "strangers": "1e-200"}, "below 1e-100"),
    ],
)
def test_a_wrong_probability_of_strangers_is_refused(own: Any, message: str) -> None:
    given = {"strangers": "1/100", "n_max": 500, **own}
    with pytest.raises(ValueError, match=message):
        RescaledMean.for_budget(BUDGET, adjacency=ADD, **given)


def test_of_a_trace_alone_the_matrix_is_the_identity() -> None:
    mechanism = RescaledMean.for_budget(
        BUDGET, adjacency=ADD, columns=4, trace=2.0, largest=1.0, n_max=500
    )
    assert mechanism.matrix == (1.0,) * 4
    with pytest.raises(ValueError, match="belong to no covariance"):
        RescaledMean.for_budget(BUDGET, adjacency=ADD, columns=4, trace=9.0, largest=1.0, n_max=500)


def test_the_weighted_mean_of_few_records_by_hand() -> None:
    """A path of three: degrees 2, 3, 2 of n = 3, weights 1, 3, 1; agreement
    floor(10 / 3) - 3 = 0."""
    images = [(0,), (10,), (20,)]
    assert rescaled_laws.agreement([2, 3, 2]) == 0
    assert rescaled_laws.agreement([]) == 0
    assert rescaled_laws.weighted_mean(images, [2, 3, 2]) == (Fraction(10),)
    assert rescaled_laws.weighted_mean([(0,), (10,), (30,)], [2, 3, 2]) == (Fraction(12),)
    assert rescaled_laws.weighted_mean(images, [1, 1, 1]) == ()
