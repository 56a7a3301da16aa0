"""``location_scale``: both parameters of named families and one's own; clipped, masked, kept
before; errors, intervals, refusals, outcomes.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    LocationScale,
    LocationScaleEstimate,
    SeededBits,
    result_from,
)
from dpverify.families import (
    LocationScaleFamily,
    LogisticFamily,
    LogLogisticFamily,
    LogNormalFamily,
    NormalFamily,
    WeibullFamily,
)
from dpverify.grid.transcripts import transcript
from dpverify.plans.plan import stages_of
from dpverify.suite.refinement import compare_facts
from spec import location_scale as spec
from tests.mechanisms.spies import SEEN, spying
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
STRICT = ApproxDP(1, "1e-6")
WIDE = ((-1e3, 1e3), (1e-2, 1e2))
POSITIVE = ((1e-3, 1e6), (0.1, 20.0))


def made(**parameters: Any) -> LocationScale:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "family": NormalFamily(),
        "ranges": WIDE,
    }
    return LocationScale(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"family": "normal"}, TypeError, r"for example LogNormalFamily\(\)"),
    ({"ranges": (0, 1)}, TypeError, "give two numbers"),
    ({"ranges": ((0, 1),)}, TypeError, "a public range for each parameter"),
    ({"ranges": ((0, 1), (2, 1))}, ValueError, "give the lower end first"),
    ({"ranges": ((0, 1), (0, 1))}, ValueError, "Give smaller public ranges"),
    ({"ranges": ((0, 1), (1, math.inf))}, ValueError, "Give smaller public ranges"),
    ({"ranges": ((0, math.nan), (1, 2))}, ValueError, "and no NaN"),
    ({"ranges": ((-1e30, 1e30), (1e-3, 1))}, ValueError, "Give smaller public ranges"),
    ({"ranges": ((1e15, 1e15 + 64), (1e-3, 1))}, ValueError, "of the largest location"),
    ({"family": WeibullFamily(), "ranges": ((0, 1), (1, 2))}, ValueError, "a scale and power of"),
    ({"kept": (0, 5)}, ValueError, "Use outside='mask'"),
    ({"kept": (5, 0), "outside": "mask"}, ValueError, "give the lower end first"),
    (
        {"family": LogNormalFamily(), "kept": (-5, -1), "outside": "mask"},
        ValueError,
        "holds none of the family's records",
    ),
    ({"outside": "drop"}, ValueError, "write 'clip' or 'mask'"),
    ({"shares": ("1/2", "1/2")}, ValueError, "give 4 positive numbers"),
    ({"at_least": 0}, ValueError, "at_least = 0"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        made(**change)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_no_bit_is_drawn_for_refused_data(adjacency: Adjacency) -> None:
    mechanism = made(adjacency=adjacency)
    with pytest.raises(ValueError, match="Record 1 is not finite"):
        mechanism.release([0.0, math.nan], NoBits())
    if adjacency is REPLACE:
        with pytest.raises(ValueError, match="needs at least"):
            mechanism.release([1.0] * 199, NoBits())


EDGE = [0.0, -0.0, 0.5, 1.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308, -3.0]
FAMILIES: list[tuple[LocationScaleFamily, Any, tuple[float, float]]] = [
    (NormalFamily(), WIDE, (7.0, 3.0)),
    (LogNormalFamily(), ((-20.0, 20.0), (0.01, 10.0)), (3.5, 0.6)),
    (LogisticFamily(), WIDE, (-40.0, 0.5)),
    (LogLogisticFamily(), POSITIVE, (30.0, 2.5)),
    (WeibullFamily(), POSITIVE, (27.0, 1.7)),
]
IDS = [type(one[0]).__name__ for one in FAMILIES]
KEPT: dict[str, Any] = {"outside": "mask", "kept": (0.5, 5.0)}


HOWS: list[dict[str, Any]] = [{}, {"outside": "mask"}, KEPT]
CASES = [
    (*one[:2], adjacency, HOWS[(i + j) % 3])
    for i, one in enumerate(FAMILIES)
    for j, adjacency in enumerate((ADD, REPLACE))
]
"""Each family under both adjacencies, in two of the three ways; all six pairs of these two."""


@pytest.mark.parametrize(("family", "ranges", "adjacency", "how"), CASES)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    family: LocationScaleFamily, ranges: Any, adjacency: Adjacency, how: dict[str, Any]
) -> None:
    mechanism = made(family=family, ranges=ranges, adjacency=adjacency, at_least=1, **how)
    datasets: list[Any] = [EDGE[:n] for n in (0, 1, 2, 11)] + [[0.5] * 40, EDGE[::-1] * 7]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    assert compare_facts(spec, mechanism, datasets[-2:]) > 40
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (LocationScaleEstimate, Abstained))
        if isinstance(release, LocationScaleEstimate):
            assert all(map(math.isfinite, (*release.value, *release.spread, *release.sampling)))
            assert result_from(release.to_dict()) == release


@pytest.mark.parametrize(("family", "ranges", "truth"), FAMILIES, ids=IDS)
def test_errors_are_the_predicted_ones(
    family: LocationScaleFamily, ranges: Any, truth: tuple[float, float]
) -> None:
    """Compare 6 datasets of 8000 records in each of two ways with the predictions.

    Mean squares over the predicted ones are about chi-square: of 12 degrees together, and above
    4.2, or below a twentieth, with probability below 1e-6; of 6 degrees in each way, and above
    6.5 with probability below 1e-6."""
    law = family.standard(*truth)
    squares: list[Any] = []
    ways: tuple[tuple[Adjacency, Any], ...] = ((ADD, "clip"), (REPLACE, "mask"))
    for adjacency, outside in ways:
        mechanism = LocationScale.for_budget(
            STRICT, adjacency=adjacency, family=family, ranges=ranges, outside=outside
        )
        predicted = np.array(spec.expected_errors(mechanism.parameters, 8000, law), float)
        for seed in range(6):
            data = family.sample(*law, 8000, np.random.default_rng(len(squares)))
            one = mechanism.release(data, SeededBits(seed))
            assert isinstance(one, LocationScaleEstimate)
            off = ((one.location - law[0]) / law[1], math.log(one.scale / law[1]))
            squares.append((off / predicted) ** 2)
            assert one.value == pytest.approx(family.textbook(one.location, one.scale))
        assert isinstance(one, LocationScaleEstimate)
        for which in (0, 1):
            own = mechanism.expected_error(8000, parameters=truth, which=which)
            assert own == pytest.approx(one.spread[which], rel=0.35)
        assert (np.mean(squares[-6:], axis=0) < 6.5).all()
        noise = float(spec.noise_errors(mechanism.parameters, 8000, *law))
        bound = spec.error_bound(mechanism.parameters, 8000, law, STRICT.delta)
        assert 5 * noise < math.hypot(*bound) < 6 * noise
    together = np.mean(squares, axis=0)
    assert (together > 1 / 20).all()
    assert (together < 4.2).all()


def test_intervals_hold_the_truth() -> None:
    """Count: of 30 releases about 28.5 hold each parameter; 22 or fewer with probability below
    1e-4, and the seeds are fixed."""
    mechanism = LocationScale.for_budget(
        STRICT, adjacency=REPLACE, family=NormalFamily(), ranges=WIDE
    )
    held = np.zeros(2)
    for seed in range(30):
        data = np.random.default_rng(seed).normal(7.0, 3.0, 4000)
        estimate = mechanism.release(data, SeededBits(seed))
        assert isinstance(estimate, LocationScaleEstimate)
        ends = estimate.interval(sampling=True)
        held += [low < true < high for (low, high), true in zip(ends, (7.0, 3.0), strict=True)]
        assert all(a < b < c < d for (a, d), (b, c) in zip(ends, estimate.interval(), strict=True))
        with pytest.raises(ValueError, match="level"):
            estimate.interval(1)
    assert (held > 22).all()


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("family", [LogNormalFamily(), WeibullFamily()])
def test_records_that_were_kept_need_the_mask(
    adjacency: Adjacency, family: LocationScaleFamily
) -> None:
    """A third is above a cap and gone: masked estimates are within five of their own deviations;
    the clipped location is off by a third of a scale."""
    law, cap = (3.5, 0.6), math.exp(3.75)
    whole = family.sample(*law, 40_000, np.random.default_rng(2))
    kept = whole[whole < cap]
    ranges = ((-20.0, 20.0), (0.01, 10.0))
    if isinstance(family, WeibullFamily):
        ranges = POSITIVE
    for how, right in (({"outside": "mask", "kept": (0, cap)}, True), ({}, False)):
        mechanism = LocationScale.calibrated_for(
            STRICT, adjacency=adjacency, family=family, ranges=ranges, **how
        )
        estimate = mechanism.release(kept, SeededBits(3))
        assert isinstance(estimate, LocationScaleEstimate)
        if right:
            truth = family.textbook(*law)
            for value, true, *deviations in zip(
                estimate.value, truth, estimate.spread, estimate.sampling, strict=True
            ):
                assert abs(value - true) < 5 * math.hypot(*deviations)
        else:
            assert (law[0] - estimate.location) / law[1] > 1 / 4


def test_top_coded_records_at_the_cap_count_as_cut() -> None:
    """A fifth of all incomes stand at the cap itself, which is the upper end of what was kept;
    those at the lower end count.
    """
    data = np.minimum(np.exp(np.random.default_rng(1).normal(3.5, 0.6, 30_000)), 55.0)
    data = np.maximum(data, 8.0)
    mechanism = LocationScale.for_budget(
        STRICT,
        adjacency=REPLACE,
        family=LogNormalFamily(),
        ranges=((-20, 20), (0.01, 10)),
        outside="mask",
        kept=(math.nextafter(8.0, 9), 55.0),
    )
    estimate = mechanism.release(data, SeededBits(1))
    assert isinstance(estimate, LocationScaleEstimate)
    assert abs(estimate.value[0] - 3.5) < 0.05
    assert abs(estimate.value[1] - 0.6) < 0.05
    near = dataclasses.replace(mechanism, ranges=((2.5, 3.5), (0.5, 2.0)))
    edges = near._frames().edges(near._frame((0, 0))[1])
    assert (edges[0], edges[-1]) == (math.nextafter(8.0, 9), 55.0)


@dataclass(frozen=True)
class Laplace(LocationScaleFamily):
    """Two-sided exponential records: a user's own."""

    def log_density(self, y: Any) -> Any:
        return -np.abs(y)

    def window(self) -> tuple[float, float]:
        return -36.0, 36.0


class _Silent(Laplace):
    def statistic(self, x: float) -> float:
        raise AssertionError("the statistic of a record was asked for")


def test_a_family_of_one_s_own_and_no_code_of_it_on_data() -> None:
    """Fit 16000 Laplace records: the location has a deviation of about .012 scales, the scale of
    .01."""
    mechanism = LocationScale.for_budget(
        STRICT, adjacency=ADD, family=_Silent(), ranges=((-1e4, 1e4), (0.1, 100))
    )
    data = np.random.default_rng(4).laplace(300.0, 5.0, 16_000)
    estimate = mechanism.release(data, SeededBits(1))
    assert isinstance(estimate, LocationScaleEstimate)
    assert estimate.family == "_Silent"
    assert abs(estimate.value[0] - 300) < 5 * 0.07
    assert abs(estimate.value[1] - 5) < 5 * 0.06


@dataclass(frozen=True)
class _Spying(NormalFamily):
    as_array: bool = False

    def record(self, t: Any) -> Any:
        return spying(t, self.as_array)


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_a_family_s_own_numbers_never_meet_the_data(
    as_array: bool, outside: Literal["clip", "mask"]
) -> None:
    """Records of objects, and of an array of another kind, become plain floats before any record
    is compared with them.
    """
    data = np.random.default_rng(3).normal(0.5, 1.0, 2000)
    SEEN.clear()
    spied = made(family=_Spying(as_array), adjacency=REPLACE, outside=outside)
    estimate = spied.release(data, SeededBits(4))
    assert not [one for one in SEEN if np.size(one) == 2000]  # type: ignore[arg-type]
    plain = made(adjacency=REPLACE, outside=outside).release(data, SeededBits(4))
    assert isinstance(estimate, LocationScaleEstimate)
    assert isinstance(plain, LocationScaleEstimate)
    assert estimate.value == plain.value


@dataclass(frozen=True)
class _Listed(NormalFamily):
    weights: Any = (1.0,)


class _Hidden(NormalFamily):
    def __init__(self) -> None:
        self.__dict__["own"] = 2.0


@pytest.mark.parametrize("family", [_Hidden(), _Listed([1.0])])
def test_families_that_could_be_taken_for_others_are_refused(family: Any) -> None:
    with pytest.raises(TypeError, match="frozen dataclass"):
        made(family=family)


@pytest.mark.parametrize(("location", "scale"), [(1e11, 3.0), (-7e5, 2e-5), (0.0, 1e9)])
@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_far_laws(location: float, scale: float, outside: Literal["clip", "mask"]) -> None:
    """Ranges of up to 2^45 places; two estimates of 4000 records, each within six of their
    deviations.
    """
    ranges = ((-abs(location) * 2 - 10, abs(location) * 2 + 10), (scale / 4, scale * 1e3))
    mechanism = made(ranges=ranges, outside=outside, adjacency=REPLACE)
    for seed in range(2):
        data = np.random.default_rng(seed).normal(location, scale, 4000)
        estimate = mechanism.release(data, SeededBits(seed))
        assert isinstance(estimate, LocationScaleEstimate)
        assert abs(estimate.location - location) < 6 * 1.3 * scale / math.sqrt(4000)
        assert abs(math.log(estimate.scale / scale)) < 6 * 1.3 / math.sqrt(4000)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_what_is_no_law_is_an_outcome(
    adjacency: Adjacency, outside: Literal["clip", "mask"]
) -> None:
    """Equal records, two far clusters, and too few: abstentions, or a law that is no number
    beyond.
    """
    mechanism = made(adjacency=adjacency, outside=outside)
    for data in ([3.0] * 3000, [-900.0] * 1500 + [900.0] * 1500):
        release = mechanism.release(data, SeededBits(1))
        assert isinstance(release, (Abstained, LocationScaleEstimate))
        if isinstance(release, LocationScaleEstimate):
            assert all(map(math.isfinite, (*release.value, *release.spread)))
    assert isinstance(mechanism.release([3.0] * 3000, SeededBits(1)), Abstained)
    if adjacency is ADD:
        release = mechanism.release([], SeededBits(1))
        assert isinstance(release, Abstained)
        assert "fewer than 100 records" in release.reason


def test_moments_that_no_law_near_has_are_an_outcome() -> None:
    mechanism = made(adjacency=REPLACE, at_least=1)
    unit = 2**40
    released: dict[str, Any] = {"count": (1000,), "warm moments": (0, 0)}
    for stage in stages_of(mechanism.fixed_plan):
        if stage.name.startswith(("side", "spread")):
            released[stage.name] = (0,)
    for totals in ((10**7 * unit, 0), (0, -(10**7) * unit), (0, 10**9 * unit)):
        outcome = mechanism.estimate(transcript(released | {"moments": totals}))
        assert isinstance(outcome, Abstained)
        assert "no law near" in outcome.reason


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_budget_is_met_and_errors_are_told(adjacency: Adjacency) -> None:
    for outside in ("clip", "mask"):
        mechanism = LocationScale.for_budget(
            STRICT, adjacency=adjacency, family=NormalFamily(), ranges=WIDE, outside=outside
        )
        assert mechanism.claim.guarantee == STRICT
        with pytest.raises(ValueError, match="give parameters="):
            mechanism.expected_error(1000)
        assert mechanism.expected_error(1, parameters=(0.0, 1.0)) == math.inf
        n = mechanism.records_for(0.01, parameters=(0.0, 1.0), which=1)
        assert mechanism.expected_error(n, parameters=(0.0, 1.0), which=1) <= 0.01
        least = mechanism.minimum_n()
        assert mechanism.least() <= least < 1.3 * mechanism.least()


def test_order_of_rows_does_not_matter() -> None:
    data = np.random.default_rng(0).normal(5, 2, 900)
    first, other = (made().release(one, SeededBits(1)) for one in (data, data[::-1]))
    assert first == other
