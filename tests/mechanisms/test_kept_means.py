"""``gaussian_mean`` of records that were kept in a public set before, and of records of a known
covariance."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    GaussianMean,
    HalfSpace,
    InsideBall,
    OutsideBall,
    SeededBits,
    VectorMeanEstimate,
)
from dpverify.estimation.column_grids import GRAIN
from dpverify.estimation.known_covariance import whitening_of
from dpverify.grid.transcripts import transcript
from dpverify.plans import UNIT
from dpverify.plans.plan import stages_of
from spec import gaussian_mean as spec
from tests.mechanisms.centered import ADD, REPLACE, Floats
from tests.randomness.helpers import NoBits

TILTED = ((4.0, -5.4, 0.0), (-5.4, 9.0, 1.0), (0.0, 1.0, 100.0))


def made(d: int = 2, **parameters: Any) -> GaussianMean:
    """Masked, of deviations 1 unless there is a covariance."""
    base: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": 4,
        "center": (0.0,) * d,
        "deviations": None if "covariance" in parameters else (1.0,) * d,
        "reach": 16,
        "outside": "mask",
    }
    return GaussianMean(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"kept": InsideBall(2), "outside": "clip"}, ValueError, "Use outside='mask'"),
    ({"kept": 2.0}, TypeError, r"write InsideBall\(2.0\)"),
    ({"kept": "all"}, TypeError, "give two numbers"),
    ({"kept": "01"}, TypeError, "give two numbers"),
    ({"kept": (0, 1)}, ValueError, "is an interval, for 2 columns"),
    ({"kept": HalfSpace((1, 2, 3), 0)}, ValueError, "a normal of 3 numbers for 2 columns"),
    (
        {"kept": HalfSpace((1, 2, 3), 0), "covariance": ((1, 0), (0, 1))},
        ValueError,
        "a normal of 3",
    ),
    ({"kept": InsideBall(0.2)}, ValueError, "holds at most 0.02 of the records"),
    ({"kept": HalfSpace((1, 1), -40)}, ValueError, "a center and a reach that are nearer"),
    ({"kept": OutsideBall(30)}, ValueError, "a center and a reach that are nearer"),
    ({"deviations": None}, TypeError, "and not both"),
    ({"deviations": (1, 1), "covariance": ((1, 0), (0, 1))}, TypeError, "and not both"),
    ({"covariance": 3.0}, TypeError, "give d rows of d numbers"),
    ({"covariance": ((1, 0), (0,))}, ValueError, "rows of unlike lengths"),
    ({"covariance": ((1, 0.5), (0.4, 1))}, ValueError, "not symmetric"),
    ({"covariance": ((1, math.nan), (math.nan, 1))}, ValueError, "not a finite float"),
    ({"covariance": ((1, 1), (1, 1))}, ValueError, "not positive definite, or not by enough"),
    ({"covariance": ((1, 2), (2, 1))}, ValueError, "not positive definite, or not by enough"),
    ({"covariance": ((1, 0), (0, 0))}, ValueError, "not positive; leave out a column"),
    ({"covariance": TILTED}, ValueError, "3 columns for a center of 2"),
    ({"covariance": ((1, 0), (0, 1)), "center": (1e9, 0)}, ValueError, "too far from zero"),
    (
        {"deviations": (1e-200, 1e-100), "kept": InsideBall(2), "reach": None},
        ValueError,
        "squares leave the floats",
    ),
]
MANY: dict[str, Any] = {"deviations": (1.0,) * 4000 + (2.0,), "kept": InsideBall(70)}
LINE: list[tuple[Any, type[Exception], str]] = [
    ((1, 0), ValueError, "lower end first"),
    ((math.nan, 0), ValueError, "no NaN"),
    ((0, 0.1), ValueError, "holds at most 0.04"),
    ((40, math.inf), ValueError, "holds at most"),
    ((-math.inf, -40), ValueError, "holds at most"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        made(**change)


def test_too_many_unlike_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="divide the columns by"):
        made(4001, **MANY)


@pytest.mark.parametrize(("kept", "kind", "message"), LINE, ids=range(len(LINE)))
def test_bad_intervals_are_refused(kept: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        made(1, kept=kept)


@pytest.mark.parametrize("kept", [(1e308, math.inf), (-math.inf, -1e308), (1e308, 1.1e308)])
def test_intervals_beyond_the_floats_of_deviations_are_refused_as_given(kept: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"kept = {kept}: both ends are")):
        made(1, kept=kept, covariance=((1e-300,),))


@pytest.mark.parametrize("variance", [5e-324, 1e-300, 1e300, 1.7976931348623157e308])
def test_predicted_errors_are_in_the_data_s_units(variance: float) -> None:
    """Predict for variances whose sum, and whose squared inverse, leaves the floats."""
    one, own = (
        made(2, covariance=((v, 0.0), (0.0, v))).expected_error(1000) for v in (1.0, variance)
    )
    assert own == pytest.approx(one * math.sqrt(variance), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: HalfSpace((0.0, -0.0), 1), ValueError, "needs a direction"),
        (lambda: HalfSpace((1.0, math.inf), 1), ValueError, "not a finite float"),
        (lambda: HalfSpace(3, 1), TypeError, "give a sequence"),  # type: ignore[arg-type]
        (lambda: HalfSpace((1.0,), math.inf), ValueError, "not finite"),
        (lambda: InsideBall(0), ValueError, "not positive"),
        (lambda: OutsideBall(-1), ValueError, "not positive"),
        (lambda: InsideBall(10**400), ValueError, "beyond the floats"),
    ],
)
def test_sets_that_are_none_are_refused(
    make: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_no_bit_is_drawn_for_refused_data() -> None:
    mechanism = made(3, covariance=TILTED, adjacency=ADD, kept=HalfSpace((1.0, 1.0, 0.0), 2))
    for data in ([(np.nan, 1.0, 2.0)], [1.0, 2.0], [(1.0, 2.0)]):
        with pytest.raises((ValueError, TypeError), match=r"not finite|shape|columns"):
            mechanism.release(data, NoBits())


World = tuple[str, int, Any, Callable[[Floats], Any], dict[str, Any]]
MEAN = np.array([0.7, -0.4, 0.2])
WORLDS: list[World] = [
    ("a half-line", 1, (-math.inf, 1.0), lambda x: x[:, 0] <= 1, {}),
    ("an interval", 1, (-0.8, 1.6), lambda x: abs(x[:, 0] - 0.4) <= 1.2, {}),
    ("a ball", 2, InsideBall(1.6), lambda x: (x**2).sum(axis=1) <= 1.6**2, {}),
    ("outside of a ball", 2, OutsideBall(1.3), lambda x: (x**2).sum(axis=1) > 1.3**2, {}),
    ("a half-space", 3, HalfSpace((1.0, 1, 1), 0.5), lambda x: x.sum(axis=1) <= 0.5, {}),
    ("through the center", 2, HalfSpace((-3.0, 1), 0), lambda x: x[:, 1] <= 3 * x[:, 0], {}),
    (
        "a half-space and a covariance",
        3,
        HalfSpace((1.0, 1, -0.1), 2),
        lambda x: x @ [1.0, 1, -0.1] <= 2,
        {"covariance": TILTED},
    ),
    (
        "a ball of unlike deviations",
        2,
        InsideBall(1.8),
        lambda x: (x[:, 0] / 5) ** 2 + x[:, 1] ** 2 <= 1.8**2,
        {"deviations": (5.0, 1.0), "reach": 16},
    ),
]


def drawn(n: int, d: int, own: dict[str, Any], seed: int) -> Floats:
    """Draw records of mean MEAN, in the data's units."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array(own.get("covariance", np.eye(d))))
    records: Floats = rng.normal(size=(n, d)) @ root.T * own.get("deviations", 1.0) + MEAN[:d]
    return records


def size_of(off: Floats, own: dict[str, Any]) -> float:
    """Return the length in deviations."""
    covariance = np.array(own.get("covariance", np.eye(len(off))))
    scaled = off / own.get("deviations", 1.0)
    return float(math.sqrt(scaled @ np.linalg.solve(covariance, scaled)))


@pytest.mark.parametrize("world", WORLDS, ids=[w[0] for w in WORLDS])
def test_records_that_were_kept_need_their_set(world: World) -> None:
    """Keep, of 20,000 records, those in the set. Means of 4 estimates vary by at most .021 in
    length; without the set a masked one is off by more than .08, and a clipped one by more than
    .15."""
    _, d, kept, holds, own = world
    adjacency = (ADD, REPLACE)[WORLDS.index(world) % 2]
    offsets: dict[str, list[Floats]] = {"kept": [], "mask": [], "clip": []}
    ways: dict[str, dict[str, Any]] = {
        "kept": {"kept": kept},
        "mask": {},
        "clip": {"outside": "clip"},
    }
    for seed in range(4):
        data = drawn(20_000, d, own, seed)
        data = data[holds(data)]
        for name, way in ways.items():
            one = made(d, adjacency=adjacency, **own | way).release(data, SeededBits(seed))
            if isinstance(one, VectorMeanEstimate):
                offsets[name].append(one.value - MEAN[:d])
    assert len(offsets["kept"]) == 4
    bias = {name: size_of(np.mean(off, axis=0), own) for name, off in offsets.items() if off}
    assert bias["kept"] < 0.06
    assert bias["clip"] > 0.15
    assert bias.get("mask", 1.0) > 0.08


@pytest.mark.parametrize("world", WORLDS[3:7:3], ids=[w[0] for w in WORLDS[3:7:3]])
def test_intervals_hold_what_the_sum_without_noise_tells(world: World) -> None:
    """70 releases of one dataset, each against what its own balls tell without noise in the last
    sum. Squared errors over their stated covariance have a mean within .36 of 1 (their own
    deviation is at most .12, that of 140 degrees, so three of them; half of the noise, or
    sqrt(2) times it, is seen); 90% intervals hold more than 82% of 70 d numbers, which of
    independent ones fails with probability 2e-3. Seeds are fixed."""
    _, d, kept, holds, own = world
    mechanism = made(d, kept=kept, noise_multiplier=8, **own)
    data = drawn(8000, d, own, 5)
    law = mechanism.law(data[holds(data)])
    last = stages_of(mechanism.fixed_plan)[-1]
    squares, held = [], []
    batch = law.sample(SeededBits(0), 70)
    for i in range(70):
        one = batch[i]
        estimate = mechanism.estimate(one)
        _, center = law.built_after(last, [*one.released.values()][:-1])
        truth = mechanism.estimate(transcript({**one.released, last.name: tuple(center.tolist())}))
        assert isinstance(estimate, VectorMeanEstimate)
        assert isinstance(truth, VectorMeanEstimate)
        off = estimate.value - truth.value
        if "covariance" in own or len({*own.get("deviations", (1,))}) > 1:
            squares.append(float(off @ np.linalg.solve(estimate.covariance, off)) / d)
        else:  # stated for each column
            squares.append(float(np.mean((off / estimate.standard_deviation) ** 2)))
        low, high = estimate.interval(0.9)
        held.append((low <= truth.value) & (truth.value <= high))
    assert np.mean(squares) == pytest.approx(1, abs=0.36)
    assert np.mean(held) > 0.82


@pytest.mark.parametrize(("adjacency", "outside"), [(REPLACE, "clip"), (ADD, "mask")])
def test_a_covariance_is_deviations_of_whitened_records(adjacency: Adjacency, outside: str) -> None:
    """Transcripts are those of deviations 1 on the images, bit for bit; and errors in Mahalanobis'
    norm are those of them, as of the prediction: of 20 releases the mean square, chi-square of 60
    degrees, is within .7 of 1 (its deviation is .18)."""
    own: dict[str, Any] = {"adjacency": adjacency, "outside": outside, "noise_multiplier": 8}
    mechanism = made(3, covariance=TILTED, **own)
    plain = made(3, **own)
    public = whitening_of(TILTED, (0.0,) * 3)
    off = []
    for seed in range(20):
        data = drawn(1500, 3, {"covariance": TILTED}, seed)
        images = public.map.images(data)
        assert np.abs(images @ public.back.T - data).max() < 1e-3
        first, other = (
            one.law(rows).sample(SeededBits(seed), 1)
            for one, rows in ((mechanism, data), (plain, images))
        )
        assert first[0].released == other[0].released
        estimate, theirs = mechanism.estimate(first), plain.estimate(other)
        assert isinstance(estimate, VectorMeanEstimate)
        assert isinstance(theirs, VectorMeanEstimate)
        assert estimate.value == pytest.approx(public.back @ theirs.value, abs=1e-9)
        off.append(size_of(estimate.value - MEAN, {"covariance": TILTED}))
    predicted = float(spec.expected_error(mechanism.parameters, 1500))
    assert abs(np.mean(np.square(off)) / predicted**2 - 1) < 0.7
    ratio = mechanism.expected_error(1500) / plain.expected_error(1500)
    assert ratio == pytest.approx(math.sqrt(np.trace(np.array(TILTED)) / 3), rel=1e-5)


def test_units_of_columns_do_not_matter_to_a_covariance() -> None:
    """Scale by powers of two, and for deviations that are 1e150 apart: what is released is the
    same, bit for bit."""
    data = drawn(900, 3, {"covariance": TILTED}, 1)
    first = made(3, covariance=TILTED).law(data).sample(SeededBits(1), 1)
    units = np.array([2.0**-300, 4.0, 2.0**200])
    other = tuple(
        tuple(TILTED[j][k] * float(units[j]) * float(units[k]) for k in range(3)) for j in range(3)
    )
    mechanism = made(3, covariance=other)
    second = mechanism.law(data * units).sample(SeededBits(1), 1)
    assert first[0].released == second[0].released
    one, two = made(3, covariance=TILTED).estimate(first), mechanism.estimate(second)
    assert isinstance(one, VectorMeanEstimate)
    assert isinstance(two, VectorMeanEstimate)
    assert two.value == pytest.approx(one.value * units, rel=1e-12)
    assert two.covariance == pytest.approx(one.covariance * np.outer(units, units), rel=1e-9)


def test_what_is_left_of_too_few_is_an_outcome() -> None:
    """Abstain where a 200th of the records is kept, where the records are all at the plane, and
    where there are few or none."""
    mechanism = made(1, kept=(0.0, math.inf), adjacency=ADD, noise_multiplier=1)
    rng = np.random.default_rng(0)
    tail = rng.normal(size=(400_000, 1)) - 2.6
    datasets: list[Any] = [
        tail[tail[:, 0] > 0],
        np.full((3000, 1), 2.0**-30),
        np.zeros((0, 1)),
        [[1.0]],
        [[1.0], [1e308]],
    ]
    for seed, data in enumerate(datasets):
        outcome = mechanism.release(data, SeededBits(seed))
        assert isinstance(outcome, Abstained)
        if seed < 2:
            assert "no mean near the released center" in outcome.reason


@pytest.mark.parametrize("world", WORLDS, ids=[w[0] for w in WORLDS])
def test_every_transcript_has_a_typed_estimate(world: World) -> None:
    """Whatever noise makes of it: numbers of 1 to 2^80 units, and of both signs."""
    _, d, kept, _, own = world
    mechanism = made(d, kept=kept, at_least=1, **own)
    rng = np.random.default_rng(9)
    names = [stage.name for stage in stages_of(mechanism.fixed_plan)]
    kinds = set()
    for _ in range(60):
        released: dict[str, Any] = {}
        for name in names:
            width = 1 if name == "count" else d + (not name.startswith("side"))
            sizes = 2.0 ** rng.uniform(30, 80, width)
            numbers = [int(v) for v in sizes * rng.choice([-1, 1], width)]
            released[name] = (500,) if name == "count" else tuple(numbers)
        for name in names[-1:]:
            released[name] = (*released[name][:-1], abs(released[name][-1]))
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.estimate(transcript(released))
        assert isinstance(release, (VectorMeanEstimate, Abstained))
        kinds.add(type(release))
        if isinstance(release, VectorMeanEstimate):
            assert np.isfinite(release.value).all()
            assert np.isfinite(release.covariance).all()
    assert Abstained in kinds


@pytest.mark.parametrize("thin", [1e-9, 1e-8, 1e-7])
def test_a_set_that_a_ball_hardly_meets_is_an_outcome(thin: float) -> None:
    """A half-line that ends that little above the lower end of the last ball, which follows from
    noise."""
    plain = made(1, kept=(-math.inf, 0.0), at_least=1)
    one = int(UNIT)
    names = [stage.name for stage in stages_of(plain.fixed_plan)]
    last = {"warm sum": (0, 10 * one), "count": (500,), "sum and count": (0, 100 * one)}
    released = {name: last.get(name, (2 * one,)) for name in names}
    about, radius = plain.ball(plain.before_sum().row(transcript(released)))
    cells = about.center[0] - radius * GRAIN / about.factors[0]
    low = math.ldexp(cells, about.exponents[0])
    for total in (0, 10 * one, -10 * one, -40 * one):
        rows = {**released, "sum and count": (total, 100 * one)}
        outcome = made(1, kept=(-math.inf, low + thin), at_least=1).estimate(transcript(rows))
        assert isinstance(outcome, Abstained)


def test_many_columns() -> None:
    """200 of a covariance, cut by a half-space near the mean, of 8000 records: within 1.3 times the
    prediction without a set, and by 200 degrees its deviation is a 20th."""
    d = 200
    rng = np.random.default_rng(2)
    base = rng.normal(size=(d, 2 * d))
    covariance = base @ base.T / (2 * d)
    normal = rng.normal(size=d)
    bound = float(0.5 * math.sqrt(normal @ covariance @ normal) + normal.sum())
    data = rng.normal(size=(8000, d)) @ np.linalg.cholesky(covariance).T + 1.0
    mechanism = made(
        d, covariance=covariance.tolist(), kept=HalfSpace(tuple(normal), bound), noise_multiplier=1
    )
    kept = data[data @ normal <= bound]
    estimate = mechanism.release(kept, SeededBits(3))
    assert isinstance(estimate, VectorMeanEstimate)
    off = estimate.value - 1.0
    error = math.sqrt(off @ np.linalg.solve(covariance, off))
    plain = made(d, noise_multiplier=1).parameters
    predicted = float(spec.expected_error(plain, len(kept)))
    assert 0.8 * predicted < error < 1.3 * predicted


def test_order_of_rows_does_not_matter_and_one_row_is_mapped_as_many() -> None:
    mechanism = made(3, covariance=TILTED, kept=HalfSpace((0.0, 1.0, 0.0), 3))
    data = drawn(900, 3, {"covariance": TILTED}, 4)
    first, other = (mechanism.release(rows, SeededBits(1)) for rows in (data, data[::-1]))
    assert isinstance(first, VectorMeanEstimate)
    assert isinstance(other, VectorMeanEstimate)
    assert first.value.tolist() == other.value.tolist()
