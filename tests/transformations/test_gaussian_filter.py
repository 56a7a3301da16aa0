"""The Gaussian filter: scores against thresholds, enumerated and counted, and what its claim
assumes."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify.grid.nearness import Nearness
from dpverify.plans import RoundedGaussian
from dpverify.privacy import Adjacency, Domain, GaussianDP, ZeroConcentratedDP, rules
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.randomness import Bits, SeededBits, enumerate_law
from dpverify.transformations import GaussianFilter
from dpverify.transformations.gaussian_filter import margin
from spec import gaussian_filter as spec

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
NEAR = Nearness(1, 0, (1.0,))
DOMAIN = Domain(columns=1)
HALF = Fraction(1, 2)


def make(
    adjacency: Adjacency = ADD, share: Any = HALF, rows: int = 100, **changes: Any
) -> GaussianFilter:
    """Return one whose threshold is the least that is allowed."""
    sigma, missed = changes.pop("sigma", Fraction(30)), changes.pop("missed", Fraction(1, 10**6))
    above = 1
    while not RoundedGaussian(sigma).falls_short(above, missed / rows):
        above += 1
    least = margin(Fraction(share), adjacency) - 1 + above
    threshold = changes.pop("threshold", least)
    return GaussianFilter(
        adjacency=adjacency,
        nearness=NEAR,
        strangers_share=share,
        most_rows=rows,
        sigma=sigma,
        threshold=threshold,
        missed=missed,
        budget=changes.pop("budget", Fraction(4)),
    )


def inner(filter_: GaussianFilter, guarantee: Any = None) -> Any:
    shown = ApproximateGaussianDP("0.5", "1e-7", 0) if guarantee is None else guarantee
    return rules.conjecture(shown, adjacency=filter_.friendly, domain=DOMAIN)


class Formal:
    """Noise is -1, 0 or 1 with these masses."""

    masses = (Fraction(1, 8), Fraction(5, 8), Fraction(1, 4))

    def __call__(self, exponent: Fraction) -> Fraction:
        raise AssertionError("no coin of exp here")

    def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
        return self.masses[z + 1]


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["1/2", "1/3", "2/5"])
@pytest.mark.parametrize("degrees", [[3, 3, 3], [3, 2, 2], [1, 1], []], ids=str)
def test_a_record_is_kept_where_score_and_noise_are_above_the_threshold(
    share: str, degrees: list[int]
) -> None:
    """Compare at thresholds that the scores just reach, too: above is not at."""
    weights = Fraction(share)
    p, q, n = weights.numerator, weights.denominator, len(degrees)
    scores = [p * degree - (q - p) * (n - degree) for degree in degrees]
    for threshold in {s + gap for s in scores for gap in (-2, -1, 0, 1)}:
        filter_ = make(share=share, threshold=threshold)

        def run(bits: Bits, filter_: GaussianFilter = filter_) -> Any:
            return tuple(filter_.keep(bits, np.array(degrees, np.int64), 1)[0].tolist())

        enumeration = enumerate_law(run, max_choices=10, exponential=Formal())
        for i, score in enumerate(scores):
            masses: dict[Any, Fraction] = dict(enumeration.masses)
            mass = sum((m for kept, m in masses.items() if kept[i]), Fraction(0))
            noise = zip((-1, 0, 1), Formal.masses, strict=True)
            assert mass == sum(m for z, m in noise if score + z > threshold)


def test_large_batches_keep_records_as_often_as_normal_tails_say() -> None:
    """False alarm below 1e-6: 40 counts, each leaves its binomial's interval w.p. 1e-8 at most."""
    filter_ = make(threshold=37, share="1/3")
    degrees = np.arange(20, 60)
    kept = filter_.keep(SeededBits(12), degrees, 20_000)
    scores = 3 * degrees - 2 * 40
    chances = stats.norm.sf((37.5 - scores) / 30)
    for count, chance in zip(kept.sum(axis=0), chances, strict=True):
        low, high = (stats.binom.ppf(q, 20_000, chance) for q in (5e-9, 1 - 5e-9))
        assert low <= count <= high
    assert min(chances) < 0.2 < 0.9 < max(chances)


def test_the_order_of_records_does_not_show_in_the_scores() -> None:
    filter_ = make(sigma=Fraction(8))  # its threshold is 7 deviations below a score of 100
    degrees = np.array([100, 3, 80, 60] * 25)
    one, two = (filter_.keep(SeededBits(13), d, 50) for d in (degrees, degrees[::-1]))
    assert one[:, 0::4].all()
    assert two[:, 3::4].all()
    assert not one[:, 1::4].any()
    assert not two[:, 2::4].any()


# --- what is claimed ------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("share", ["1/2", "1/3", "1/5"])
def test_the_claim_is_its_budget_on_the_spec_s_numbers(adjacency: Adjacency, share: str) -> None:
    filter_ = make(adjacency, share, sigma=Fraction(90))
    derivation = filter_.lift(inner(filter_), adjacency, DOMAIN)
    assert derivation.conclusion.guarantee == ApproximateGaussianDP.of_square(
        4, Fraction(1, 10**6) + Fraction(1, 10**7)
    )
    weights = (Fraction(share).numerator, Fraction(share).denominator)
    for shown, inside in zip(derivation.premises[1:3], (True, False), strict=True):
        expected = spec.moved_scores(adjacency, inside, 100, weights)
        assert shown.conclusion.value == expected  # type: ignore[union-attr]
    assert margin(Fraction(share), adjacency) == spec.score_margin(adjacency, weights)
    assert {leaf.obligation for leaf in derivation.lemmas} == {
        "gaussian_filter.py:obligation_scores",
        "gaussian_filter.py:obligation_missed",
    }


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("share", ["1/2", "2/5"])
def test_a_threshold_that_is_passed_too_often_is_refused(adjacency: Adjacency, share: str) -> None:
    """The least one is accepted, one less is not, and its tail is what the spec's law says."""
    filter_ = make(adjacency, share, sigma=Fraction(60))
    filter_.lift(inner(filter_), adjacency, DOMAIN)
    lower = dataclasses.replace(filter_, threshold=filter_.threshold - 1)
    with pytest.raises(ValueError, match="raise it"):
        lower.lift(inner(lower), adjacency, DOMAIN)
    score = margin(Fraction(share), adjacency)
    rare = [stats.norm.sf((f.threshold - score + 0.5) / 60) * 100 for f in (filter_, lower)]
    assert rare[0] <= 1e-6 < rare[1]


def test_the_budget_is_not_to_be_exceeded() -> None:
    least = make(budget=Fraction(1, 4) + Fraction(100, 900))
    assert least.lift(inner(least), ADD, DOMAIN).conclusion.guarantee.mu_squared == least.budget  # type: ignore[attr-defined]
    less = dataclasses.replace(least, budget=least.budget - Fraction(1, 10**20))
    with pytest.raises(ValueError, match="is more than the budget"):
        less.lift(inner(less), ADD, DOMAIN)
    with pytest.raises(ValueError, match="is no Gaussian guarantee"):
        least.lift(inner(least, ZeroConcentratedDP("0.1")), ADD, DOMAIN)


@pytest.mark.parametrize(
    ("share", "rows", "strangers"),
    [("1/2", 100, 49), ("1/2", 101, 50), ("1/3", 100, 33), ("1/3", 99, 32), ("1/5", 1, 0)],
)
def test_kept_records_have_fewer_strangers_than_the_share(
    share: str, rows: int, strangers: int
) -> None:
    assert make(share=share, rows=rows).strangers == strangers
    assert make(share=share, rows=rows).friendly.strangers == strangers
    replaced = make(REPLACE, share, rows).friendly
    assert (replaced.strangers, replaced.exchange) == (None, True)


def test_claims_about_other_friends_or_another_adjacency_are_refused() -> None:
    filter_ = make()
    others = [
        dataclasses.replace(filter_, nearness=Nearness(1, 0, (0.5,))),
        dataclasses.replace(filter_, strangers_share=Fraction(1, 3)),
        dataclasses.replace(filter_, adjacency=REPLACE),
    ]
    for other in others:
        with pytest.raises(ValueError, match="is not about"):
            filter_.lift(inner(other), ADD, DOMAIN)
    with pytest.raises(ValueError, match="is not about"):
        filter_.lift(inner(filter_, GaussianDP(1)), REPLACE, DOMAIN)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"share": "2/3"}, ValueError, "outside (0, 1/2]"),
        ({"share": 0}, ValueError, "outside (0, 1/2]"),
        ({"rows": 0}, ValueError, "most_rows = 0"),
        ({"threshold": 1.5}, TypeError, "threshold = 1.5 is a float"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    good = make()
    fields = {"share": "strangers_share", "rows": "most_rows", "threshold": "threshold"}
    with pytest.raises(kind, match=re.escape(message)):
        dataclasses.replace(good, **{fields[name]: value for name, value in changes.items()})
