"""``location_scale`` at the ends of its parameters: far and short kept intervals, parameters beyond
the floats, families that are none; and neighbors after any transcript.
"""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Abstained, Adjacency, LocationScale, LocationScaleEstimate, SeededBits
from dpverify.estimation.location_scale_frames import Law
from dpverify.families import LogLogisticFamily, LogNormalFamily, NormalFamily, WeibullFamily
from dpverify.families.fitting import Near, fitted
from dpverify.families.location_scale import Interval
from dpverify.grid.transcripts import transcript
from dpverify.plans import UNIT, NoNoise
from dpverify.plans.plan import stages_of
from dpverify.suite.refinement import compare_facts
from spec import location_scale as spec

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
MOST = 1.7976931348623157e308


def made(**parameters: Any) -> LocationScale:
    base: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": 1,
        "family": NormalFamily(),
        "ranges": ((-1.0, 1.0), (0.1, 1.0)),
        "at_least": 1,
        "nonfinite": "replace",
    }
    return LocationScale(**base | parameters)


KEPT = [
    (1e20, math.inf),
    (1e308, MOST),
    (MOST, math.inf),
    (-math.inf, -1e300),
    (-math.inf, -MOST),
    (0.0, 5e-324),
    (-5e-324, 1e308),
    (1.0, math.nextafter(1.0, 2)),
]


@pytest.mark.parametrize("kept", KEPT, ids=str)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_kept_intervals_far_from_the_search_or_short_are_an_outcome(
    kept: tuple[float, float], adjacency: Adjacency
) -> None:
    mechanism = made(outside="mask", kept=kept, adjacency=adjacency)
    datasets: list[Any] = [[kept[0]] * 40, [0.0, 1e308, -1e308], [math.nan] * 9]
    # The spec's middle of the first is beyond the floats; cells of the last are below them.
    if kept not in ((1e308, MOST), KEPT[-1]):
        assert compare_facts(spec, mechanism, [[-1e308, 0.0, 1.0, MOST]]) > 10
    for seed, data in enumerate(datasets):
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (Abstained, LocationScaleEstimate))


def test_intervals_and_steps_are_finite_at_the_largest_floats() -> None:
    for low in (1e308, MOST, -MOST):
        kept = (low, math.inf) if low > 0 else (-math.inf, low)
        where = made(outside="mask", kept=kept)._frames().about(Law(0.0, 1.0), 3.0)
        assert -MOST <= where.low < where.high <= MOST
        with np.errstate(all="raise"):
            assert np.isfinite(where.steps(np.array([-1.0, 0.0, 1.0]))).all()
    near, where = Near(0.0, 1.0, 1.0, 2.0), Interval(-2.0, 2.0, 0.625, "clip")
    assert fitted(NormalFamily(), np.array([math.nan, 0.5]), where, near) is None


@pytest.mark.parametrize("family", [WeibullFamily(), LogLogisticFamily()])
def test_parameters_beyond_the_floats_are_an_outcome(family: Any) -> None:
    """The law with these moments is half a scale above the upper end of the range, e^709 times
    e^(half a scale of 100)."""
    mechanism = made(family=family, ranges=((1e307, 1.7e308), (0.01, 0.02)))
    released: dict[str, Any] = {"count": (10**6,)}
    for stage in stages_of(mechanism.fixed_plan):
        if stage.name.startswith(("side", "spread")):
            released[stage.name] = (int(4 * UNIT),)
    for name, place in (("warm moments", 2), ("moments", 3)):
        scale = spec.scale(mechanism.parameters, place)
        shares = (Fraction(1, 4) * 4, Fraction(3, 8) * 5 * 2**12)
        released[name] = tuple(int(s * 2**12 * 10**6 * UNIT / scale) for s in shares)
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        outcome = mechanism.estimate(transcript(released))
    assert isinstance(outcome, Abstained)
    assert "parameters beyond the floats" in outcome.reason
    assert mechanism.expected_error(10**6, parameters=(1.7e308, 0.01)) == math.inf


@dataclass(frozen=True)
class Odd(NormalFamily):
    """A normal family with one thing wrong."""

    wrong: str

    def record(self, t: Any) -> Any:
        if self.wrong == "NaN":
            return np.full(np.shape(t), math.nan)
        if self.wrong == "falls":
            return -np.asarray(t)
        if self.wrong == "NaN beyond":
            return np.where(np.abs(t) > 1.5, math.nan, t)
        return t[:1] if self.wrong == "one number" else t

    def log_density(self, y: Any) -> Any:
        if self.wrong == "overflows":
            return -np.exp(np.square(y) ** 2)
        return y * math.nan if self.wrong == "density" else super().log_density(y)

    def window(self) -> tuple[float, float]:
        return (-1e6, 1e6) if self.wrong == "window" else (-9.0, 9.0)

    def textbook(self, location: float, scale: float) -> tuple[float, float]:
        if self.wrong == "textbook":
            raise OverflowError
        return location, scale


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("NaN", r"4096 NaN"),
        ("one number", r"shape \(1,\)"),
        ("density", "no finite mean"),
        ("window", "no finite mean"),
    ],
)
def test_families_that_are_none_are_refused(wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(family=Odd(wrong))


@pytest.mark.parametrize("outside", ["clip", "mask"])
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
@pytest.mark.parametrize("wrong", ["falls", "NaN beyond", "textbook", "overflows"])
def test_what_a_family_gives_beyond_its_range_is_an_outcome(wrong: str, outside: str) -> None:
    data = np.random.default_rng(0).normal(0.9, 1.0, 900)
    mechanism = made(family=Odd(wrong), outside=outside)
    with np.errstate(all="raise", under="ignore"):
        release = mechanism.release(data, SeededBits(1))
    assert isinstance(release, (Abstained, LocationScaleEstimate))
    if wrong == "textbook":
        assert isinstance(release, Abstained)


WORLDS: list[dict[str, Any]] = [
    {},
    {"outside": "mask"},
    {"outside": "mask", "kept": (-1.0, 2.0)},
    {"outside": "mask", "kept": (1e300, math.inf)},
    {"family": LogNormalFamily(), "outside": "mask", "kept": (0.0, 2.5)},
    {"family": WeibullFamily(), "ranges": ((0.5, 4.0), (0.5, 4.0))},
    {"family": Odd("falls")},
    {"family": Odd("NaN beyond"), "outside": "mask"},
]
HOSTILE = (0.0, -0.0, 5e-324, 1e308, -1e308, MOST, -MOST, math.nan, math.inf, 1.0, 2.0, -1.0, 2.5)


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("which", range(len(WORLDS)))
def test_after_any_transcript_neighbors_are_as_near_as_claimed(
    adjacency: Adjacency, which: int
) -> None:
    """Squares of what all stages move by, in deviations of their noise, add up to at most the
    claim's; records of n from 0 on, a family that is none, transcripts that lead anywhere."""
    multiplier = ("1/1000000000", "3/2", 10**9)[which % 3]
    mechanism = made(adjacency=adjacency, noise_multiplier=multiplier, **WORLDS[which])
    rng, most = random.Random(7), mechanism.claim.guarantee.mu_squared  # type: ignore[attr-defined]
    for n in (1, 30) if adjacency is REPLACE else (0, 30):
        base = [rng.choice(HOSTILE) for _ in range(n)]
        kept = base if adjacency is ADD else base[1:]
        added = HOSTILE[1::2] if n == 30 else HOSTILE
        laws = [mechanism.law(one) for one in (base, *([*kept, x] for x in added))]
        total, prefix = [Fraction(0)] * len(added), ()
        for stage in stages_of(mechanism.fixed_plan):
            (built, ours), *others = (law.built_after(stage, prefix) for law in laws)
            own = [int(v) for v in np.ravel(ours)]
            if isinstance(built.noise, NoNoise):
                assert all(np.array_equal(ours, theirs) for _, theirs in others)
            else:
                for i, (_, theirs) in enumerate(others):
                    pairs = zip(own, np.ravel(theirs), strict=True)
                    total[i] += Fraction(sum((a - int(b)) ** 2 for a, b in pairs)) / UNIT**2
                own = [v + rng.choice((0, 1, -3, 40)) * 2**41 for v in own]
            prefix = (*prefix, tuple(own))  # type: ignore[assignment]
        assert max(total) <= most
        assert max(total) > 0
