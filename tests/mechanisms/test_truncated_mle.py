"""``truncated_mle``: parameters of named families and one's own; clipped, masked, kept before;
its errors, intervals, refusals, outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from scipy.optimize import brentq

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    FamilyEstimate,
    GaussianDP,
    SeededBits,
    TruncatedMle,
    result_from,
)
from dpverify.families import (
    ContinuousBernoulli,
    ContinuousPoisson,
    Family,
    LogNormal,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)
from dpverify.grid.transcripts import transcript
from dpverify.suite.refinement import compare_facts
from spec import truncated_mle as spec
from tests.families.test_families import Beta
from tests.mechanisms.spies import SEEN, spying
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
STRICT = ApproxDP(1, "1e-6")


def made(**parameters: Any) -> TruncatedMle:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "family": Poisson(),
        "lowest": 0.1,
        "highest": 1e4,
    }
    return TruncatedMle(**base | parameters)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"family": "poisson"}, TypeError, r"give a dpverify.families.Family, for example Poisson\(\)"),
    ({"lowest": 0.0}, ValueError, r"between 0 and 1e\+08, both left out"),
    ({"lowest": 5.0, "highest": 4.0}, ValueError, "give the lower end of the range first"),
    ({"kept": (0, 10**400), "outside": "mask"}, ValueError, "write math.inf for no end"),
    ({"kept": (math.nan, 1), "outside": "mask"}, ValueError, "and no NaN"),
    (
        {"family": Weibull(8.0), "lowest": 1.0, "kept": (0, 1e100), "outside": "mask"},
        ValueError,
        "nearer to its records",
    ),
    ({"highest": math.inf}, ValueError, "highest = inf is not finite"),
    ({"highest": 1e300}, ValueError, "Give a smaller public range inside"),
    ({"family": ContinuousBernoulli(), "highest": 1.0}, ValueError, "and 1, both left out"),
    ({"kept": (0, 5)}, ValueError, "Use outside='mask'"),
    ({"kept": (5, 0), "outside": "mask"}, ValueError, "give the lower end first"),
    ({"kept": 5, "outside": "mask"}, TypeError, "give two numbers"),
    ({"kept": (-9, -1), "outside": "mask"}, ValueError, "holds none of the family's records"),
    ({"kept": (2.2, 3.8), "outside": "mask"}, ValueError, "or a single count"),
    (
        {"family": Normal(1.0), "lowest": -1e30, "highest": 1e30},
        ValueError,
        "Give a smaller public",
    ),
    (
        {"family": Weibull(8.0), "lowest": 1e-30, "highest": 1.0},
        ValueError,
        "Give a smaller public",
    ),
    ({"outside": "drop"}, ValueError, "write 'clip' or 'mask'"),
    ({"search_share": 1}, ValueError, r"outside \(0, 1\)"),
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
            mechanism.release([1.0] * 59, NoBits())


EDGE = [0.0, -0.0, 0.5, 1.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308, -3.0]
FAMILIES: list[tuple[Family, float, float, float]] = [
    (Poisson(), 0.1, 1e4, 3.3),
    (ContinuousPoisson(), 0.1, 1e3, 20.0),
    (ContinuousBernoulli(), 0.01, 0.99, 0.8),
    (LogNormal(0.7), -20.0, 20.0, 11.0),
    (Weibull(2.5), 1e-3, 1e6, 27.0),
    (Pareto(1000.0), 0.2, 20.0, 2.5),
    (Normal(3.0), -1e6, 1e6, 777.0),
]
IDS = [type(one[0]).__name__ for one in FAMILIES]


WAYS: list[tuple[Adjacency, Literal["clip", "mask"]]] = [
    (ADD, "clip"),
    (REPLACE, "mask"),
    (ADD, "mask"),
    (REPLACE, "clip"),
]
CASES = [(*one[:3], *WAYS[k]) for i, one in enumerate(FAMILIES) for k in (i % 2, i % 2 + 2)]
"""Each family in two of the ways, one of each kind; the other two are the next family's."""


@pytest.mark.parametrize(("family", "low", "high", "adjacency", "outside"), CASES)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    family: Family, low: float, high: float, adjacency: Adjacency, outside: Literal["clip", "mask"]
) -> None:
    mechanism = made(
        family=family, lowest=low, highest=high, adjacency=adjacency, outside=outside, at_least=1
    )
    datasets: list[Any] = [EDGE[:n] for n in (0, 1, 2, 5, 11)] + [[0.5] * 40, EDGE[::-1] * 7]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    assert compare_facts(spec, mechanism, datasets[::2]) > len(datasets)
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (FamilyEstimate, Abstained))
        if isinstance(release, FamilyEstimate):
            assert low <= release.value <= high
            assert math.isfinite(release.spread)
            assert result_from(release.to_dict()) == release


@pytest.mark.parametrize(("family", "low", "high", "parameter"), FAMILIES, ids=IDS)
def test_errors_are_the_predicted_ones(
    family: Family, low: float, high: float, parameter: float
) -> None:
    """Compare 10 datasets of 4000 records in each of the four ways with the predictions.

    Mean squares over the predicted ones are about chi-square: of 40 degrees together, and above
    2.6, or below an eighth, with probability below 1e-7; of 10 degrees in each way, and above 5.3
    with probability below 1e-7."""
    theta = family.natural(parameter)
    squares: list[float] = []
    for adjacency, outside in WAYS:
        mechanism = TruncatedMle.for_budget(
            STRICT, adjacency=adjacency, family=family, lowest=low, highest=high, outside=outside
        )
        predicted = float(spec.expected_error(mechanism.parameters, 4000, parameter))
        for seed in range(10):
            data = family.sample(theta, 4000, np.random.default_rng(10 * len(squares) + seed))
            release = mechanism.release(data, SeededBits(seed))
            assert isinstance(release, FamilyEstimate)
            squares.append(((release.natural - theta) / predicted) ** 2)
            assert release.value == pytest.approx(family.textbook(release.natural))
        assert np.mean(squares[-10:]) < 5.3, (adjacency, outside)
        noise = float(spec.noise_error(mechanism.parameters, 4000, parameter))
        step = 1e-4 * abs(theta)
        steep = abs(family.textbook(theta + step) - family.textbook(theta - step)) / (2 * step)
        own = mechanism.expected_error(4000, parameter=parameter)
        assert own == pytest.approx(noise * steep, rel=1e-3)
        bound = float(spec.error_bound(mechanism.parameters, 4000, parameter, STRICT.delta))
        assert 5 * noise < bound < 6 * noise
    assert 1 / 8 < np.mean(squares) < 2.6


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_records_that_were_kept_need_the_mask(adjacency: Adjacency) -> None:
    """Fit counts of rate 6 from 3 to 8 alone, of 30000: masked estimates vary by .05; the
    clipped one has less than 5.6."""
    whole = Poisson().sample(math.log(6), 30_000, np.random.default_rng(1))
    kept = whole[(whole >= 3) & (whole <= 8)]
    for outside, own in (("mask", {"kept": (3, 8)}), ("clip", {})):
        mechanism = TruncatedMle.calibrated_for(
            STRICT,
            adjacency=adjacency,
            family=Poisson(),
            lowest=0.1,
            highest=1e4,
            outside=outside,
            **own,
        )
        release = mechanism.release(kept, SeededBits(3))
        assert isinstance(release, FamilyEstimate)
        if outside == "mask":
            assert abs(release.value - 6) < 0.4
        else:
            assert release.value < 5.6


def test_top_coded_logarithms() -> None:
    """Incomes above a cap are not there: of a log-normal law with mean 10.5 and deviation .8,
    those below 50000; a fifth is gone."""
    family = LogNormal(0.8)
    whole = family.sample(family.natural(10.5), 40_000, np.random.default_rng(2))
    mechanism = TruncatedMle.for_budget(
        STRICT,
        adjacency=REPLACE,
        family=family,
        lowest=0.0,
        highest=20.0,
        outside="mask",
        kept=(0, 50_000),
    )
    release = mechanism.release(whole[whole <= 50_000], SeededBits(0))
    assert isinstance(release, FamilyEstimate)
    assert abs(release.value - 10.5) < 0.08
    low, high = release.interval("0.999", sampling=True)
    assert low < 10.5 < high


def test_a_family_of_one_s_own_and_no_code_of_it_on_data() -> None:
    """Beta records with a known second parameter; the family is asked nothing once the mechanism
    has its data."""

    class Silent(Beta):
        def statistic(self, x: float) -> float:
            raise AssertionError("the statistic of a record was asked for")

    family = Silent()
    mechanism = TruncatedMle.for_budget(
        STRICT, adjacency=ADD, family=family, lowest=0.5, highest=50.0
    )
    data = np.random.default_rng(4).beta(3.0, 2.0, 8000)
    release = mechanism.release(data, SeededBits(1))
    assert isinstance(release, FamilyEstimate)
    assert release.family == "Silent"
    assert abs(release.value - 3) < 0.25  # five deviations


@pytest.mark.parametrize(
    ("family", "low", "high", "parameter"),
    [
        (Poisson(), 1e-6, 9e7, 5e7),
        (Normal(1.0), -1e11, 1e11, 9e10),
        (ContinuousBernoulli(), 1e-12, 1 - 1e-12, 1 - 1e-6),
        (Weibull(8.0), 1e-12, 1e12, 1e-10),
        (Weibull(1 / 16), 1e-30, 1e30, 1e20),
        (Pareto(2.0**400), 1e-3, 1e9, 5e8),
        (LogNormal(50.0), -700.0, 700.0, 600.0),
    ],
)
@pytest.mark.parametrize("outside", ["clip", "mask"])
def test_far_parameters(
    family: Family, low: float, high: float, parameter: float, outside: Literal["clip", "mask"]
) -> None:
    """Two estimates of 4000 records each: squares add up to above 33 predictions with
    probability below 1e-7."""
    mechanism = made(family=family, lowest=low, highest=high, outside=outside)
    theta, off = family.natural(parameter), 0.0
    for seed in range(2):
        data = family.sample(theta, 4000, np.random.default_rng(seed))
        release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, FamilyEstimate)
        off += (release.natural - theta) ** 2
    deviation = math.sqrt(family.limited(theta, *family.window(theta), "clip").variance)
    assert off < 33 * 1.5 / (4000 * deviation**2)


def test_the_estimate_stays_in_the_public_range() -> None:
    """Fit counts far above the range: its upper end; the interval is cut there too."""
    mechanism = TruncatedMle.for_budget(
        GaussianDP(1), adjacency=ADD, family=Poisson(), lowest=1.0, highest=9.0
    )
    release = mechanism.release([9.0, 10.0] * 2000, SeededBits(1))
    assert isinstance(release, FamilyEstimate)
    assert release.value == 9.0
    assert release.interval()[1] == 9.0


def test_means_that_no_parameter_near_has_are_an_outcome() -> None:
    mechanism = made(adjacency=REPLACE, at_least=1)
    unit, steps = 2**40, mechanism.search().steps
    released: dict[str, Any] = {"count": (1000,)}
    released |= {f"parameter {k + 1}": (0,) for k in range(steps)}
    for total in (10**7 * unit, -(10**7) * unit):
        outcome = mechanism.estimate(transcript(released | {"statistics": (total,)}))
        assert isinstance(outcome, Abstained)
        assert "no parameter near" in outcome.reason


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_budget_is_met(adjacency: Adjacency) -> None:
    for outside in ("clip", "mask"):
        mechanism = TruncatedMle.for_budget(
            STRICT,
            adjacency=adjacency,
            family=Poisson(),
            lowest=0.1,
            highest=1e4,
            outside=outside,
        )
        assert mechanism.claim.guarantee == STRICT
        with pytest.raises(ValueError, match="give parameter="):
            mechanism.expected_error(1000)
        assert mechanism.expected_error(1, parameter=3.0) == math.inf
        with pytest.raises(ValueError, match=r"parameter = -1\.0 is outside of"):
            mechanism.expected_error(1000, parameter=-1.0)


def test_order_of_rows_does_not_matter() -> None:
    data = np.random.default_rng(0).poisson(5, 900)
    first, other = (made().release(one, SeededBits(1)) for one in (data, data[::-1]))
    assert first == other


@dataclass(frozen=True)
class _Spying(Normal):
    as_array: bool = False

    def record(self, t: Any) -> Any:
        return spying(t, self.as_array)


@pytest.mark.parametrize("as_array", [False, True])
def test_a_family_s_own_numbers_never_meet_the_data(as_array: bool) -> None:
    """Records of objects, and of an array of another kind, become plain floats before any record
    is compared with them."""
    data = np.random.default_rng(3).normal(0.5, 1.0, 2000)
    parameters: dict[str, Any] = {"lowest": -10.0, "highest": 10.0, "adjacency": REPLACE}
    SEEN.clear()
    release = made(family=_Spying(1.0, as_array), **parameters).release(data, SeededBits(4))
    assert not SEEN
    plain = made(family=Normal(1.0), **parameters).release(data, SeededBits(4))
    assert isinstance(release, FamilyEstimate)
    assert isinstance(plain, FamilyEstimate)
    assert release.value == plain.value


@dataclass(frozen=True)
class _Nameless(Normal):
    """Has no record above 0.6."""

    def record(self, t: Any) -> Any:
        return np.where(t > 0.6, np.nan, t)


@pytest.mark.parametrize("method", ["statistic", "gradient"])
def test_records_that_are_no_numbers_raise_nothing(method: str) -> None:
    """A family's mistake is found by ``check_family``, not after bits were drawn."""
    parameters: dict[str, Any] = {"lowest": -10.0, "highest": 10.0, "adjacency": REPLACE}
    mechanism = made(family=_Nameless(1.0), outside="mask", method=method, **parameters)
    release = mechanism.release(np.full(2000, 0.5), SeededBits(4))
    assert isinstance(release, (FamilyEstimate, Abstained))


@pytest.mark.parametrize("kept", [None, (999_900.0, math.inf)])
def test_cells_of_several_counts_are_not_biased(kept: Any) -> None:
    """Fit counts about 10^6, two and more in a cell: of 40 releases the mean is within .15 of
    the records'; it was half a count too high.

    The noise of a release has a deviation of .2, that of the mean is .03: false alarm below 1e-5
    (and the seeds are fixed). Of kept records it is compared with maximum likelihood.
    """
    rng = np.random.default_rng(11)
    every = rng.poisson(1e6, 400_000).astype(np.float64)
    data = every if kept is None else every[every >= kept[0]]
    mechanism = made(
        adjacency=REPLACE, noise_multiplier=1, lowest=1.0, highest=5e6, kept=kept,
        outside="clip" if kept is None else "mask",
    )  # fmt: skip
    law = mechanism.law(data)
    estimates = [mechanism.estimate(law.sample(SeededBits(s), 1)[0]) for s in range(40)]
    values = [one.value for one in estimates if isinstance(one, FamilyEstimate)]
    truth = float(data.mean())
    if kept is not None:
        family = Poisson()
        truth = math.exp(
            brentq(
                lambda t: family.limited(t, kept[0], 2e6, "mask").mean - float(data.mean()),
                math.log(9.9e5), math.log(1.01e6),
            )
        )  # fmt: skip
    assert len(values) == 40
    assert abs(float(np.mean(values)) - truth) < (0.15 if kept is None else 0.6)


class _Hidden(Normal):
    def __init__(self, deviation: float) -> None:
        super().__init__(1.0)
        self.__dict__["own"] = deviation


@dataclass(frozen=True)
class _Listed(Normal):
    weights: Any = (1.0,)


@pytest.mark.parametrize("family", [_Hidden(2.0), _Listed(1.0, [1.0])])
def test_families_that_could_be_taken_for_others_are_refused(family: Any) -> None:
    """Numbers outside of fields, which equality does not see; and a list, which can be changed."""
    with pytest.raises(TypeError, match="frozen dataclass"):
        made(family=family, lowest=-10.0, highest=10.0)
    assert made(family=_Listed(1.0, (1.0,)), lowest=-10.0, highest=10.0).family == _Listed(1.0)
