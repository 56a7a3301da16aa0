"""``robust_mean`` in rounds: sums in slices across the direction that inner moments show, and the
fit that sharpens it."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, RobustMean, SeededBits
from dpverify import RobustMeanEstimate as Estimate
from dpverify.estimation import sliced_means
from dpverify.estimation.robust_regions import SIDES
from dpverify.grid import Released, Transcripts, View
from dpverify.grid.inner_moments import constant_of
from dpverify.grid.nearness import Nearness
from dpverify.grid.slice_sums import SignedCount, SliceSum
from spec.theory import region_noise, regions, released_regions, transcript_sums
from spec.theory import sliced_means as theory
from tests.mechanisms.test_robust_mean import robust

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Floats = NDArray[np.float64]
_N, _D = 10_000, 50


def _made(**own: Any) -> RobustMean:
    given: dict[str, Any] = {"deviations": (1.0,) * _D, "n_max": _N, **own}
    return RobustMean.for_budget(ApproxDP(1, "1e-6"), adjacency=REPLACE, **given)


def _slab(seed: int, sides: int = 1) -> Floats:
    """Return normal records about 1, a tenth of them 3/2 to 3 deviations away along a random
    direction, on one side or on both."""
    rng = np.random.default_rng([23, seed])
    rows: Floats = rng.normal(1.0, 1.0, (_N, _D))
    axis, outliers = rng.normal(size=_D), rows[: _N // 10]
    axis /= np.linalg.norm(axis)
    away = rng.uniform(1.5, 3, len(outliers)) * (rng.choice((-1, 1), len(outliers)) ** (sides - 1))
    outliers += (away - (outliers - 1) @ axis)[:, np.newaxis] * axis
    return rows


def _errors(mechanism: RobustMean, sides: int, seeds: range) -> list[float]:
    errors = []
    for seed in seeds:
        one = mechanism.release(_slab(seed, sides), SeededBits(seed))
        assert isinstance(one, Estimate)
        errors.append(float(np.linalg.norm(one.value - 1)))
    return errors


def test_most_of_a_slab_of_outliers_is_told_apart() -> None:
    """Five releases, fixed seeds: the mean of all records is 0.24 off, as is the one with slabs.
    Over many seeds the median is 0.12; half of the outliers on either side are cut as without."""
    assert np.median(_errors(_made(rounds=3), 1, range(5))) < 0.13
    assert np.median(_errors(_made(), 1, range(2))) > 0.2
    assert np.median(_errors(_made(rounds=3), 2, range(4))) < 0.12


@pytest.mark.parametrize("noise", [20.0, 40.0])
def test_reported_deviations_are_those_from_the_mean_of_all_inliers(noise: float) -> None:
    """Fit 100 times two rounds of 3000 records of 20 columns, with fixed seeds: across v, the mean
    square of errors over deviations is near 1. Of 1900 squares it has a deviation of 0.033 if they
    are independent."""
    rng, d, n, v, squares = np.random.default_rng(5), 20, 3000, np.eye(20)[0], []
    for _ in range(100):
        rows = rng.normal(0, 1, (n, d))
        rows[: n // 10, 0] = rng.normal(2.25, 0.5, n // 10)
        first = 0.8 * v + np.append(0, rng.normal(0, 0.6 / math.sqrt(d - 1), d - 1))
        axes, edges, sums, numbers = [first / np.linalg.norm(first)], [0.925], [], []
        for round_ in range(2):
            beyond = rows @ axes[round_] > edges[round_]
            own = np.array([rows[~beyond].sum(axis=0), rows[beyond].sum(axis=0)])
            sums.append(own + rng.normal(0, noise, own.shape))
            numbers.append([n - beyond.sum(), beyond.sum()])
            made = sliced_means.Rounds(
                np.array([axes]),
                np.array([edges]),
                np.array([sums]),
                np.array([numbers], np.float64),
                np.array([noise]),
            )
            fitted = sliced_means.fit(made, made.along[:, 0], 0.1)
            axes.append(fitted.along[0])
            edges.append(float(sliced_means.next_edges(fitted, fitted.along)[0]))
        off = fitted.mean[0] - rows[n // 10 :].mean(axis=0)
        squares.append(np.square(off / fitted.deviations()[0])[1:])
    assert 0.85 < np.mean(squares) < 1.15


def test_rounds_are_taken_where_they_are_asked_for() -> None:
    assert (_made().rounds, _made(rounds=2).rounds, _made(rounds=2).inner) == (1, 2, 10)
    assert _made(rounds=3).claim.guarantee == ApproxDP(1, "1e-6")
    assert len(_made(rounds=3).shares) == len(_made().shares) + 1


def test_rounds_are_pickled_and_their_plans_are_equal() -> None:
    made = robust(inner=2, rounds=3, shares=(Fraction(1, 5),) * 5)
    assert made.plan() == made.plan()
    assert pickle.loads(pickle.dumps(made)) == made
    assert len(pickle.loads(pickle.dumps(made.plan()))) == len(made.plan())


@pytest.mark.parametrize("own", [{"rounds": 2}, {"rounds": 0}, {"rounds": 9, "inner": 2}])
def test_rounds_without_inner_moments_or_too_many_are_refused(own: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rounds"):
        robust(**own)


@pytest.mark.parametrize("rounds", ["4", None, [4], 0])
def test_rounds_that_are_no_number_are_refused_alike(rounds: Any) -> None:
    messages = []
    for make in (_made, robust):
        with pytest.raises((TypeError, ValueError), match="give an integer") as refused:
            make(rounds=rounds)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("radius", [1e308, 1.0, 1e-200])
def test_radii_at_the_ends_of_the_floats_give_a_number(radius: float) -> None:
    own: dict[str, Any] = {"radius": radius, "record_radius": radius, "inner": 2, "rounds": 2}
    own["shares"] = (Fraction(1, 5),) * 5
    one = robust(adjacency=REPLACE, **own).release(np.zeros((300, 2)), SeededBits(1))
    assert isinstance(one, Estimate)
    assert np.isfinite(one.value).all()


@pytest.mark.parametrize(
    ("radius", "multiplier"), [(1.7e308, Fraction(1)), (1.7e308, Fraction(1, 1000)), (1e300, 10**6)]
)
def test_slices_at_the_largest_radii_give_numbers(radius: float, multiplier: Any) -> None:
    """Show outliers on one side, then rounds of small, of large and of no numbers: directions have
    at most their length, edges are within 2^60, and the estimate is a number."""
    own: dict[str, Any] = {"radius": radius, "record_radius": radius}
    own |= {"noise_multiplier": multiplier, "inner": 2, "rounds": 3, "n_max": 10_000}
    own |= {"full": Fraction(9, 10), "directions": 1}
    made = robust(adjacency=REPLACE, gamma="0.1", shares=(Fraction(1, 5),) * 5, **own)
    rng, sliced = np.random.default_rng(3), 0
    for scale in (0.0, 2.0**40, 2.0**60):
        unit = made._inner_moments().unit() / 2**40
        total = 9000 * Fraction(constant_of(made._inner_reach())) ** 2 / unit
        seen = math.floor(min(max(total, Fraction(2**46)), Fraction(2**60)))
        values = {
            "agreement": [[9000]],
            "mean": rng.integers(-(2**30), 2**30, (1, 2)),
            "moments": rng.integers(-(2**44), 2**44, (1, 3)),
            "inner moments": [[seen // 2, 0, seen, 0, 0, 0]],
            "sides": [[2**29]],
        }
        for i in range(3):
            rows = np.rint(rng.choice((-1, 1), (1, 6)) * scale)
            values[f"round {i + 1}"] = rows.astype(np.int64)
        known = {name: np.array(one, np.int64) for name, one in values.items()}
        batch = Transcripts(known, np.array([20]), np.array([-1]))
        sliced += bool(made._side(batch)[0])
        for i in range(3):
            axes, edges = made._slices(batch, i)
            assert abs(axes).max() <= 4097
            assert -(2**60) <= edges.min() <= edges.max() <= 2**60
        one = made.estimate(batch)
        assert isinstance(one, Estimate)
        assert np.isfinite([one.value, one.standard_deviation]).all()
    assert sliced == 3


def test_equal_moments_of_two_directions_give_numbers() -> None:
    """Where two eigenvalues are equal, one direction is an axis, and not orthogonal to the others:
    directions of rounds that follow from it are longer than 1."""
    made = robust(
        adjacency=REPLACE, deviations=(1.0,) * 3, radius=7, record_radius=5, n_max=600,
        full=Fraction(3, 4), directions=1, inner=2, rounds=3, gamma="0.05",
        shares=(Fraction(1, 5),) * 5,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 3))
    rows[:60] = rows[:60] * 0.3 + [2.2, 0, 0]
    batch = made.law(rows).sample(SeededBits(3), 40)
    signs = np.where(rng.random((40, 6)) < 0.5, -1, 1)
    signs[:8] = [-1, -1, -1, 1, 1, 1]
    changed = {**batch.values, "moments": signs * 10**9}
    for i in range(40):
        one = {name: column[i : i + 1] for name, column in changed.items()}
        reached, stopped = batch.reached[i : i + 1], batch.stopped_by[i : i + 1]
        estimate = made.estimate(Transcripts(one, reached, stopped, batch.reasons))
        if isinstance(estimate, Estimate):
            assert np.isfinite([estimate.value, estimate.standard_deviation]).all()


# --- the spec's -----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_sums_in_slices_and_signed_counts_are_the_spec_s(d: int) -> None:
    """Compare in cells of 1/4, about several points, across directions of any length, drawn in to
    any length."""
    rng, spread = np.random.default_rng(9), Fraction(10**6 + 1, 3)
    near = Nearness(40, -2, (1.0,) * d)
    data = np.vstack([rng.integers(-12, 12, (300, d)) / 4, np.full((2, d), 1e308)])
    images = Counter(tuple(row) for row in View(data).images(near).images.tolist())
    points, radii = rng.integers(-9, 9, (12, d)), rng.integers(1, 60, 12)
    axes, lengths = rng.integers(-5000, 5000, (12, d)), rng.integers(1, 1 + radii)
    edges = np.sort(rng.integers(-(2**17), 2**17, (12, 3)))
    before = Transcripts({}, np.zeros(12, np.intp), np.full(12, -1))

    def always(*values: Any) -> Released[Any]:
        return Released((), lambda batch: values if len(values) > 1 else values[0])

    shared: dict[str, Any] = {
        "nearness": near,
        "spread": spread,
        "place": always(points, radii),
        "bins": 4,
        "along": always(np.zeros((12, 0, d), np.int64)),
        "slabs": always(*(np.zeros((12, 0), np.int64),) * 2),
    }
    signed = SignedCount(near, shared["place"], always(axes, edges)).evaluate(View(data), before)
    one_edge = always(axes, edges[:, 1:2])
    for adjacency in (ADD, REPLACE):
        own = {**shared, "adjacency": adjacency, "across": one_edge}
        query = SliceSum(**own, lengths=always(lengths))
        values, used = query.evaluate(View(data), before), set[int]()
        for i, row in enumerate(values.tolist()):
            share = Fraction(int(lengths[i]), int(radii[i]))
            region = regions.Region(tuple(points[i].tolist()), int(radii[i]), drawn=share)
            assert region.reach == lengths[i]
            axis, all_edges = tuple(axes[i].tolist()), edges[i].tolist()
            exact = regions.slice_sum(images, region, axis, all_edges[1:2])
            noise = transcript_sums.noise(region.reach, adjacency, spread)
            assert row == list(transcript_sums.in_unit(exact, noise))
            assert signed[i, 0] == regions.signed_count(images, region, axis, all_edges)[0]
            used |= {k for k in range(2) if row[k * (d + 1) + d]}
        assert used == {0, 1}
        for wrong in ({"across": always(axes, edges)}, {"lengths": always(0 * lengths)}):
            given = {**own, "lengths": always(lengths), **wrong}
            with pytest.raises(ValueError, match="lengths"):
                SliceSum(**given).evaluate(View(data), before)


def test_what_rounds_show_is_the_spec_s() -> None:
    """Compare lengths, directions and edges after released numbers of which most show outliers on
    one side of one direction, some on none or along several; and the region, which has slabs in
    the latter alone."""
    made = robust(
        adjacency=REPLACE,
        inner=2,
        rounds=3,
        n_max=4000,
        gamma=Fraction(1, 10),
        votes=True,
        drawn=Fraction(3, 4),
        shares=(Fraction(1, 6),) * 6,
    )
    rng, size = np.random.default_rng(3), 24
    public = region_noise.public_map(made.parameters)
    values = {
        "agreement": np.full((size, 1), 3000),
        "mean": rng.integers(-(2**30), 2**30, (size, 2)),
        "moments": rng.integers(-(2**50), 2**50, (size, 3)),
        "inner moments": rng.integers(-(2**45), 2**45, (size, 6)),
        "votes": np.full((size, 2), 10_000),
        "sides": rng.integers(-4000, 4000, (size, 1)),
    }
    values["votes"][::5, 0] += 1500  # a column is cut there
    values["inner moments"][:, 2] = 2**52
    values["inner moments"][:20, 0] += 2**50
    values["inner moments"][18, 0] += 2**54  # farther than slices are for
    for i in range(3):
        sums = rng.normal(0, 2.0**45, (size, 2, 3))
        sums[..., 2] = abs(sums[..., 2]) * (300, 20)
        values[f"round {i + 1}"] = np.rint(sums).astype(np.int64).reshape(size, -1)
    batch = Transcripts(values, np.full(size, 10), np.full(size, -1))
    sides, lengths, turned = made._side(batch), made._lengths(batch), 0
    assert (sides > 0).sum() > 2 < (sides < 0).sum()
    assert (sides != 0).sum() < made._looked(batch).single.sum() < 20
    for i in range(3):
        axes, edges = made._slices(batch, i)
        for row in range(size):
            names: tuple[str, ...] = ("agreement", "mean", "moments", "inner moments", "votes")
            names += ("sides", *(f"round {k + 1}" for k in range(i)))
            prefix = tuple(tuple(values[name][row].tolist()) for name in names)
            axis, places = released_regions.slices_of(made.parameters, public, prefix)
            assert list(axis) == axes[row].tolist()
            assert list(places) == edges[row].tolist()
            region = released_regions.region_of(made.parameters, public, prefix)
            assert (region.reach, bool(sides[row])) == (lengths[row], any(axis))
            if sides[row]:
                assert all(slab == (0, made.bins * 256) for slab in region.slabs)
                turned += i > 0 and list(axis) != made._slices(batch, 0)[0][row].tolist()
    assert turned > 2


def test_a_fit_follows_exact_sums() -> None:
    """Fit what the spec states, for outliers and for none."""
    named = ("EDGE", "TURNED", "DRAWN_TO")
    assert all(getattr(theory, name) == getattr(sliced_means, name) for name in named)
    assert theory.SIDES == SIDES

    def fit(rounds: Any, first: Any, share: float, noise: float) -> theory.Fit:
        given = sliced_means.Rounds(
            np.array([[r.along for r in rounds]]),
            np.array([[r.edge for r in rounds]]),
            np.array([[r.sums for r in rounds]]),
            np.array([[r.numbers for r in rounds]]),
            np.array([noise]),
        )
        one = sliced_means.fit(given, np.array([first]), share)
        return theory.Fit(tuple(one.mean[0].tolist()), tuple(one.along[0].tolist()))

    assert theory.obligation_slices(fit) == 14


def test_a_fit_to_any_numbers_is_finite_and_has_a_deviation() -> None:
    """300 times sums, numbers, edges and noise of any size, without a floating-point error. The
    last step may move a fit to where more outliers are expected than there were records."""
    rng = np.random.default_rng(6)
    sizes = (0.0, 1e-320, 1e-160, 1e-3, 1.0, 1e3, 1e20, 1e60, 1e100)
    for _ in range(300):
        d, rounds, noise = (
            int(rng.integers(1, 7)),
            int(rng.integers(1, 4)),
            float(rng.choice(sizes)),
        )
        along = rng.normal(size=(1, rounds, d))
        along /= np.linalg.norm(along, axis=2, keepdims=True)
        sums = rng.normal(size=(1, rounds, 2, d)) * noise * 10.0 ** rng.uniform(0, 30)
        numbers = rng.normal(size=(1, rounds, 2)) * 10.0 ** rng.uniform(-3, 30)
        edges = rng.normal(size=(1, rounds)) * 10.0 ** rng.choice((-2, 0, 20, 300))
        with np.errstate(all="raise", under="ignore"):
            made = sliced_means.Rounds(along, edges, sums, numbers, np.array([noise]))
            fitted = sliced_means.fit(made, along[:, 0], 0.1)
            own = fitted.mean, fitted.along, fitted.spread, fitted.deviations()
        assert all(np.isfinite(one).all() for one in own)
