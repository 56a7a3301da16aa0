"""``robust_mean``: budgets, refusals, typed results on every dataset, outliers, slabs,
certificates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import Abstained, Adjacency, ApproxDP, RobustMean, SeededBits
from dpverify import RobustMeanEstimate as Estimate
from dpverify.estimation.contamination import chosen_full, sure_share
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.suite.refinement import compare_facts
from spec import robust_mean as spec
from tests.mechanisms.helpers import estimates, fails_at_most
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
QUARTERS, HALVES = (Fraction(1, 4),) * 4, (Fraction(1, 2),) * 2
Floats = NDArray[np.float64]


def robust(**changes: Any) -> RobustMean:
    """Little noise, so that a few hundred records are enough."""
    given: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": Fraction(1, 4),
        "deviations": (1.0, 0.5),
        "radius": 6,
        "record_radius": 4,
        "n_max": 300,
        "tail": Fraction(1, 10**7),
        "directions": 1,
        "bins": 16,
        "shares": QUARTERS,
        **changes,
    }
    return RobustMean(**given)


def contaminated(n: int, share: float, offset: Any, seed: int) -> Floats:
    """Return two normal columns of deviations 1 and 1/2 about (5, 5), the first records moved."""
    records: Floats = 5 + np.random.default_rng(seed).normal(size=(n, 2)) * (1.0, 0.5)
    records[: int(share * n)] += offset
    return records


# --- claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("n_max", [1500, 20_000])
def test_a_budget_is_met_by_all_stages_together(adjacency: Adjacency, n_max: int) -> None:
    made = RobustMean.for_budget(BUDGET, adjacency=adjacency, deviations=(1.0,) * 10, n_max=n_max)
    assert made.claim.guarantee == BUDGET
    assert made.directions == (2 if n_max == 20_000 else 0)
    composed = made.composed
    assert isinstance(composed, ApproximateGaussianDP)
    square = 1 / made.noise_multiplier**2  # roots and rounding cost less than 2^-30 of it
    assert abs(composed.mu_squared / square - 1) < Fraction(1, 2**30)
    assert made.minimum_n() <= n_max


def test_a_soft_core_is_taken_where_it_has_less_noise() -> None:
    """Compare reach / sure agreement: 17/8 / (1 - 6 gamma + 4 gamma^2) by degree."""
    shares = [chosen_full(REPLACE, Fraction(gamma)) for gamma in ("0", "0.05", "0.1", "0.15")]
    assert shares == [None, None, Fraction(9, 10), Fraction(5, 6)]
    assert chosen_full(ADD, Fraction(1, 10)) is None
    made = RobustMean.for_budget(BUDGET, adjacency=REPLACE, deviations=(1.0,) * 10, n_max=1500)
    by_degree = RobustMean.for_budget(
        BUDGET, adjacency=REPLACE, deviations=(1.0,) * 10, n_max=1500, full=None
    )
    assert made.full == Fraction(9, 10)
    sure = [math.floor(1500 * sure_share(one.gamma, one.full)) for one in (made, by_degree)]
    noises = [one.core().expected_noise(n) for one, n in zip((made, by_degree), sure, strict=True)]
    assert noises[0] < noises[1] * 0.8
    own = {"noise_multiplier": Fraction(1), "n_max": 1500, "gamma": "0.1", "adjacency": REPLACE}
    assert robust(full="9/10", **own).minimum_n() < robust(**own).minimum_n() * 0.8


@pytest.mark.parametrize(
    ("full", "gamma"), [("9/10", "0.1"), ("3/4", "0.1"), ("3/4", "0.3"), ("3/5", "0.4")]
)
def test_from_minimum_n_on_inliers_alone_are_enough(full: str, gamma: str) -> None:
    """Release as many records as are promised to be enough, a share of them far away: at most 3
    of 200 abstain, of which 0.2 are expected (1 in 1000, a false alarm of 6e-5); of three fifths
    as many at least a third of 60."""
    made = robust(adjacency=REPLACE, full=full, gamma=gamma, noise_multiplier=1)
    counts = []
    for n, draws in ((made.minimum_n(), 200), (made.minimum_n() * 3 // 5, 60)):
        data, far = np.zeros((n, 2)), math.floor(Fraction(gamma) * n)
        data[:far, 0] = 1e3 * np.arange(1, far + 1)
        batch = made.law(data).sample(SeededBits(61, 3), draws)  # a stopped one abstains, no other
        first = [isinstance(made.estimate(batch[i]), Abstained) for i in range(20)]
        assert first == (batch.stopped_by[:20] >= 0).tolist()
        counts.append(np.count_nonzero(batch.stopped_by >= 0))
    assert counts[0] <= 3
    assert counts[1] >= 20


# --- refusals -----------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"gamma": -1},
        ValueError,
        r"gamma = -1\.0: with degree weights give a share from 0 to 0\.1909",
    ),
    ({"deviations": (1.0, 0.0)}, ValueError, "deviations: give one positive number"),
    ({"deviations": (1.0, 5e-324)}, ValueError, "deviations: give one positive number"),
    ({"radius": 0}, ValueError, "radius = 0 is not positive"),
    ({"record_radius": -1}, ValueError, "record_radius = -1 is not positive"),
    ({"tail": 1}, ValueError, "outside"),
    ({"n_max": 0}, ValueError, "n_max = 0"),
    ({"directions": 3}, ValueError, "directions = 3; give an integer from 0 to 2"),
    ({"bins": 7}, ValueError, "bins = 7 is odd"),
    ({"bins": 258}, ValueError, "bins = 258; give an integer from 2 to 256"),
    ({"directions": 0}, ValueError, "give 2 positive numbers"),
    ({"full": "1/2", "adjacency": REPLACE}, ValueError, "give a rational above 1/2"),
    ({"full": "9/10"}, ValueError, "bounds for replace only"),
    ({"noise_multiplier": 0}, ValueError, "is not positive"),
    ({"noise_multiplier": Fraction(2) ** 2000}, ValueError, "outside 1e-100 to 1e9"),
    ({"noise_multiplier": Fraction(1, 2**2000)}, ValueError, "outside 1e-100 to 1e9"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        robust(**change)


def test_no_bit_is_drawn_for_refused_data() -> None:
    with pytest.raises(ValueError, match="Record 0 is not finite"):
        robust().release([(1.0, np.inf)], NoBits())
    made = robust(adjacency=REPLACE)
    with pytest.raises(
        ValueError,
        match=f"at least {made.fewest_records()} .and rarely abstains with {made.minimum_n()} ",
    ):
        made.release(np.zeros((made.fewest_records() - 1, 2)), NoBits())


def test_a_budget_without_public_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="needs deviations"):
        RobustMean.for_budget(BUDGET, adjacency=ADD, n_max=1000)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="leaves room for a center of n_max = 20 "):
        RobustMean.for_budget(BUDGET, adjacency=ADD, deviations=(1.0,), n_max=20)


def test_too_few_records_are_told_how_many_are_enough() -> None:
    given: dict[str, Any] = {"adjacency": REPLACE, "deviations": (1.0,) * 10}
    with pytest.raises(ValueError, match=r"at least \d+ of them") as refusal:
        RobustMean.for_budget(BUDGET, n_max=300, **given)
    least = int(str(refusal.value).split("at least ")[1].split(" ")[0])
    assert RobustMean.for_budget(BUDGET, n_max=least, **given).n_max == least
    with pytest.raises(ValueError, match=f"at least {least} of them"):
        RobustMean.for_budget(BUDGET, n_max=least - 1, **given)


def test_a_tail_that_takes_all_of_delta_is_named() -> None:
    with pytest.raises(ValueError, match=r"tail = 1e-06 leaves nothing of delta"):
        RobustMean.for_budget(BUDGET, adjacency=REPLACE, deviations=(1.0,), n_max=2000, tail="1e-6")


def test_as_many_records_as_were_said_are_enough_where_some_share_makes_them() -> None:
    given: dict[str, Any] = {"adjacency": REPLACE, "deviations": (1.0,) * 10}
    for n_max in (638, 640, 650, 700):
        assert RobustMean.for_budget(BUDGET, n_max=n_max, **given).minimum_n() <= n_max


def test_bins_are_narrower_than_the_narrowest_slab() -> None:
    """Divide the ball that the expected noise leaves; into 24 bins where that is enough."""
    given: dict[str, Any] = {"adjacency": REPLACE, "n_max": 20_000}
    for d, record_radius in (
        (1, None),
        (10, None),
        (100, None),
        (400, None),
        (1300, None),
        (10, 37),
    ):
        own: dict[str, Any] = {} if record_radius is None else {"record_radius": record_radius}
        made = RobustMean.for_budget(ApproxDP(8, "1e-6"), deviations=(1.0,) * d, **own, **given)
        core = made.core()
        noise = core.expected_noise(core.n_max) * made.radius * math.sqrt(d)
        assert 2 * math.hypot(made.record_radius, noise) / made.bins <= 1.5
        assert (made.bins == 24) is (d <= 100 and record_radius is None)


def test_a_tail_that_is_given_serves_every_budget() -> None:
    budget = ApproximateGaussianDP(1, Fraction(1, 10**7), 0)
    given: dict[str, Any] = {"deviations": (1.0,), "n_max": 2000, "tail": "1e-7", "directions": 0}
    made = RobustMean.for_budget(budget, adjacency=REPLACE, shares=HALVES, **given)
    assert made.claim.guarantee == budget
    assert made.tail == Fraction(1, 10**7)


# --- every dataset ------------------------------------------------------------------------------

DATA: list[Any] = [
    np.zeros((0, 2)),
    np.zeros((1, 2)),
    np.zeros((2, 2)),
    np.full((200, 2), 1e308),
    np.full((200, 2), 5e-324),
    np.repeat([[0.0, 0.0], [100.0, 0.0]], 100, axis=0),
    contaminated(200, 0.1, (2.5, 0.0), 1),
    contaminated(200, 0.1, 1e300, 2),
]
WORLDS: list[dict[str, Any]] = [
    {},
    {"directions": 2},
    {"adjacency": REPLACE},
    {"adjacency": REPLACE, "full": "9/10"},
    {"adjacency": REPLACE, "full": "3/4", "noise_multiplier": "1e6", "n_max": 10**9},
    {"directions": 0, "shares": HALVES},
    {"noise_multiplier": "1e-9"},
    {"noise_multiplier": "1e6", "n_max": 10**9},
    {"record_radius": 1e9},
    {"record_radius": "1e-9", "adjacency": REPLACE},
    {"inner": 2},
    {"inner": 2, "adjacency": REPLACE, "full": "9/10", "drawn": "1/2", "record_radius": 1e9},
    {"inner": 2, "noise_multiplier": "1e6", "n_max": 10**9, "radius": "1e-9", "record_radius": 4},
]


@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(world: dict[str, Any]) -> None:
    mechanism = robust(**world)
    data = [
        one for one in DATA if len(one) >= mechanism.fewest_records() or mechanism.adjacency is ADD
    ]
    for one in data:
        release = mechanism.release(one, SeededBits(1))
        assert isinstance(release, (Abstained, Estimate))
        if isinstance(release, Estimate):
            assert release.value.shape == (2,)
            assert not np.isnan(release.value).any()
    stages = 5 if mechanism.directions else 3
    assert compare_facts(spec, mechanism, data) == stages * (1 + len(data))


def test_data_without_a_majority_abstain() -> None:
    """A release needs noise of more than 20 standard deviations."""
    crowds = np.repeat([[0.0, 0.0], [1e6, 0.0]], 200, axis=0)
    assert all(isinstance(one, Abstained) for one in estimates(robust(), crowds, 3, 300))


def test_neither_batch_nor_order_matters() -> None:
    mechanism, rng = robust(directions=2), np.random.default_rng(4)
    data = contaminated(300, 0.1, (2.5, 0.5), 5)
    laws = [mechanism.law(data), mechanism.law(data[rng.permutation(300)])]
    batches = [law.sample(SeededBits(6), 40) for law in laws]
    for name, values in batches[0].values.items():
        assert np.array_equal(values, batches[1].values[name]), name
    one_by_one = [laws[0].log_likelihood(batches[0].select(np.array([i]))) for i in range(40)]
    assert np.array_equal(np.concatenate(one_by_one), laws[0].log_likelihood(batches[0]))


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("count", [0, 1])
def test_error_bars_cover(adjacency: Adjacency, count: int) -> None:
    """Measure 300 releases: the squares of errors about the mean of all, over the stated
    deviations, have mean 1 to within 6 sqrt(2 / 300) = 0.49 in each coordinate: a false alarm of
    1e-7, by the chi-square law."""
    own = {"directions": 0, "shares": HALVES} if not count else {}
    mechanism = robust(adjacency=adjacency, record_radius=7, radius=8, **own)
    data = 5 + 0.7 * (contaminated(300, 0.0, 0.0, 7) - 5)  # a slab, if any, leaves all inside
    releases = estimates(mechanism, data, 8, 300)
    ratios = [(one.value - data.mean(axis=0)) / one.standard_deviation for one in releases]
    assert np.abs(np.mean(np.square(ratios), axis=0) - 1).max() < 0.49
    lengths = [(one.value - data.mean(axis=0)) / mechanism.deviations for one in releases]
    expected = float(spec.expected_error(mechanism.parameters, 300))
    assert abs(np.mean(np.square(lengths)) * 2 / expected**2 - 1) < 0.49


@pytest.mark.parametrize(
    ("at", "own"),
    [(1e9, {}), (9.0, {}), (6.0, {}), (9.0, {"adjacency": REPLACE, "full": "9/10"})],
)
def test_the_error_bound_holds_for_any_outliers(at: float, own: dict[str, Any]) -> None:
    """Outliers far, just outside, or within reach: false alarm below 1e-6."""
    given = {"directions": 0, "shares": HALVES, "record_radius": 8, "radius": 6}
    mechanism = robust(gamma=Fraction(1, 20), noise_multiplier=Fraction(1, 16), **given, **own)
    rng = np.random.default_rng(9)
    inliers = rng.uniform(-2, 2, size=(570, 2)) * mechanism.deviations
    data = np.concatenate([inliers, np.full((30, 2), at) * (1.0, 0.0)])
    beta, within = Fraction(1, 20), Fraction(3)
    bound = float(spec.error_bound(mechanism.parameters, 600, beta, within))
    releases = estimates(mechanism, data, 10, 1000)
    assert all(isinstance(one, Estimate) for one in releases)
    errors = [
        float(np.linalg.norm((one.value - inliers.mean(axis=0)) / mechanism.deviations))
        for one in releases
    ]
    assert fails_at_most(errors, bound, float(beta))


@pytest.mark.parametrize("radius", [1e300, 1e-160, 1e-300])
def test_certificates_hold_at_the_ends_of_the_floats(radius: float) -> None:
    """A twentieth of the records half a radius away."""
    made = robust(
        deviations=(1.0, 1.0), radius=radius, record_radius=radius, gamma="0.1", n_max=800
    )
    data = np.zeros((800, 2))
    data[:40, 0] = radius / 2
    for one in estimates(made, data, 22, 5):
        assert one.certificate is not None
        assert one.certificate > radius / 40
