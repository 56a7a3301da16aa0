"""``TruncatedMle(method="gradient")``: steps on a list, chunks of it; beside one release;
hostile data; what the order of a list hides."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

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
from dpverify.audit import SmallInstance
from dpverify.estimation import gradient_steps as steps
from dpverify.estimation.stepped import CELLS
from dpverify.families import Family, LogNormal, Normal, Pareto, Poisson, Weibull
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import is_latent, lists_of
from dpverify.suite.judges import Options, Unit, run_unit
from dpverify.suite.refinement import RefinementFailed, compare_facts, refine
from dpverify.suite.trees import load
from spec import truncated_mle as spec
from spec.theory import centered, listed_laws
from spec.theory import gradient_steps as stated

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
STRICT = ApproxDP(1, "1e-6")


def made(**parameters: Any) -> TruncatedMle:
    base: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": 1,
        "family": Poisson(),
        "lowest": 0.1,
        "highest": 1e4,
        "outside": "mask",
        "method": "gradient",
    }
    return TruncatedMle(**base | parameters)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outside": "clip"}, "write outside='mask' with it"),
        ({"method": "statistic", "steps": 5}, "write method='gradient', or leave them out"),
        ({"method": "statistic", "runs": 3}, "write method='gradient', or leave them out"),
        ({"method": "newton"}, "write 'statistic' or 'gradient'"),
        ({"steps": 0}, "steps = 0"),
        ({"runs": 0}, "runs = 0"),
        ({"steps": 10**6}, "steps = 1000000"),
        ({"steps": 1000, "runs": 1000}, "1000000 sums to release"),
    ],
)
def test_wrong_parameters_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(**changes)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("runs", [1, 4])
def test_the_claim_is_that_of_one_release(adjacency: Adjacency, runs: int) -> None:
    """Whatever steps and runs: sums of disjoint chunks cost as much as those of one."""
    mechanism = made(adjacency=adjacency, runs=runs, steps=7)
    assert mechanism.claim.guarantee.implies(GaussianDP(Fraction(1 + Fraction(1, 2**20))))
    assert not mechanism.claim.guarantee.implies(GaussianDP(1 - Fraction(1, 2**10)))
    assert is_latent(mechanism.fixed_plan) is (runs > 1)
    assert len(lists_of(mechanism.fixed_plan)) == 7 * runs
    named = {lemma.obligation for lemma in mechanism.derivation.lemmas}
    assert "truncation.py:obligation_coupling" in named


EDGE = [0.0, -0.0, 0.5, 1.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1e308, 1.7976931348623157e308, -3.0]
FAMILIES: list[tuple[Family, float, float, float]] = [
    (Poisson(), 0.1, 1e4, 3.3),
    (LogNormal(0.7), -20.0, 20.0, 3.0),
    (Weibull(2.5), 1e-3, 1e6, 27.0),
    (Pareto(1000.0), 0.2, 20.0, 2.5),
    (Normal(3.0), -1e6, 1e6, 777.0),
]
IDS = [type(one[0]).__name__ for one in FAMILIES]


CASES = [
    (*one[:3], adjacency, 1 + 2 * ((i + j) % 2))
    for i, one in enumerate(FAMILIES)
    for j, adjacency in enumerate(Adjacency)
]


@pytest.mark.parametrize(("family", "low", "high", "adjacency", "runs"), CASES)
def test_every_dataset_has_a_typed_release_and_the_spec_s_law(
    family: Family, low: float, high: float, adjacency: Adjacency, runs: int
) -> None:
    """n = 0, 1, 2 and what is no record of any law; the laws of what is not shuffled are
    compared stage by stage. A family has one run under one adjacency, three under the other."""
    mechanism = made(
        family=family, lowest=low, highest=high, adjacency=adjacency, runs=runs, steps=2, at_least=1
    )
    datasets: list[Any] = [EDGE[:n] for n in (0, 1, 2, 11)] + [[0.5] * 40, EDGE[::-1] * 7]
    datasets = [one for one in datasets if len(one) >= mechanism.fewest_records()]
    assert compare_facts(spec, mechanism, datasets) > len(datasets)
    for seed, data in enumerate(datasets):
        with np.errstate(all="raise", under="ignore"):
            release = mechanism.release(data, SeededBits(seed))
        assert isinstance(release, (FamilyEstimate, Abstained))
        if isinstance(release, FamilyEstimate):
            assert low <= release.value <= high
            assert math.isfinite(release.spread)
            assert result_from(release.to_dict()) == release


@pytest.mark.parametrize(("family", "low", "high", "truth"), FAMILIES[1:3], ids=IDS[1:3])
def test_ten_steps_say_what_one_release_says(
    family: Family, low: float, high: float, truth: float
) -> None:
    """Release on the same records: errors of both (without sampling's) within 1.35 of each other
    over 60 releases each, whose ratio of root mean squares has a deviation of .13: false alarm
    below .01 for one family if the true ratio is 1.05, at fixed seeds."""
    rng = np.random.default_rng(17)
    records = family.sample(family.natural(truth), 5000, rng)
    range_: dict[str, Any] = {
        "family": family,
        "lowest": low,
        "highest": high,
        "adjacency": REPLACE,
    }
    errors = []
    for changes in ({"method": "statistic"}, {"method": "gradient"}):
        mechanism = TruncatedMle.for_budget(STRICT, outside="mask", **range_ | changes)
        batch = mechanism.law(records).sample(SeededBits(6), 60)
        every = [mechanism.estimate(batch[i]) for i in range(60)]
        values = [one.value for one in every if isinstance(one, FamilyEstimate)]
        assert len(values) == 60
        about = mechanism.expected_error(5000, parameter=truth)
        spread = float(np.std(values))
        assert 0.7 * about < spread < 1.35 * about
        errors.append(spread)
    assert 1 / 1.35 < errors[1] / errors[0] < 1.35


def test_gradients_see_through_a_cut() -> None:
    """Logarithms cut at 40: the mean of 30 releases is within 5 of its deviations of the truth,
    on new records each (false alarm below 1e-6)."""
    family = LogNormal(0.7)
    mechanism = TruncatedMle.for_budget(
        STRICT, adjacency=ADD, family=family, lowest=-5, highest=9, outside="mask", kept=(0, 40),
        method="gradient"
    )  # fmt: skip
    rng, values = np.random.default_rng(4), []
    for seed in range(30):
        records = family.sample(family.natural(3.0), 9000, rng)
        estimate = mechanism.release(records[records < 40][:4000], SeededBits(seed))
        assert isinstance(estimate, FamilyEstimate)
        values.append(estimate.value)
    off = np.mean(values) - 3.0
    assert abs(off) < 5 * np.std(values) / math.sqrt(30) + 1e-3
    assert (
        float(np.mean(records[records < 40])) < math.exp(3.0 + 0.49 / 2) * 0.95
    )  # the cut matters


def test_of_several_runs_most_may_be_wrong_by_nothing() -> None:
    """Five runs, of which two see only wrong records: the median is one of the other three's.
    (Runs are on chunks of a random order, so their means alone are planted here.)"""
    family = Normal(1.0)
    law = family.limited
    ends, thetas = (-5.0, 5.0), []
    for mean in (0.1, 0.1, 0.1, 4.0, -4.0):
        one = steps.descend(lambda theta: law(theta, -9.0, 9.0, "mask"), [mean] * 30, 0.0, ends)
        assert one is not None
        thetas.append(one)
    assert abs(float(np.median(thetas)) - 0.1) < 1e-6
    assert max(map(abs, thetas)) > 3


def test_steps_find_the_maximum_of_the_likelihood() -> None:
    """Take steps without noise, for a law whose slope varies by a factor of 6 over the ends: 200
    steps are within 1e-3 of the solution."""
    family = Weibull(1.0)
    target = family.limited(-1 / 27.0, 0.0, 100.0, "mask").mean
    solution = steps.descend(
        lambda theta: family.limited(theta, 0.0, 100.0, "mask"), [target] * 200, -1 / 40,
        (-1 / 15, -1 / 80)
    )  # fmt: skip
    assert solution is not None
    assert abs(solution * -27.0 - 1) < 1e-3
    flat = steps.descend(
        lambda theta: family.limited(theta, -9.0, -8.0, "mask"), [1.0], -1.0, (-2, -1)
    )
    assert flat is None


@pytest.mark.parametrize("count", [1, 2, 3, 10, 57, 100])
def test_noise_of_an_average_of_steps_is_the_closed_one(count: int) -> None:
    assert steps.widening(count) == pytest.approx(float(stated.widening(count)), rel=1e-12)


@pytest.mark.parametrize("runs", range(1, 9))
def test_the_deviation_of_a_median_is_about_right(runs: int) -> None:
    """Draw 200000 medians, whose root mean square is off by a hundredth of itself with
    probability below 1e-9."""
    medians = np.median(np.random.default_rng(runs).normal(size=(200_000, runs)), axis=1)
    stated_by = steps.middle_of(runs) / float(np.sqrt((medians**2).mean()))
    assert 0.97 < stated_by < (1.02 if runs % 2 else 1.12)
    assert steps.middle_of(runs) == pytest.approx(float(stated.middle_of(runs)), rel=1e-12)


def test_sizes_of_lists_agree_with_the_spec_and_are_hardly_ever_padded() -> None:
    """Draw 4000 numbers of kept records: at most 20 are below the list's size; 3 deviations are
    .0013, so false alarm below 1e-6."""
    rng = np.random.default_rng(3)
    for number, share, runs in ((1000, 0.9, 1), (50_000, 0.999, 7), (1, 0.5, 3), (10**15, 1.0, 2)):
        size = steps.list_size(float(number), share, runs)
        assert size == stated.list_size(Fraction(number), Fraction(str(share)) * 1.0, runs)
        assert size % runs == 0
        assert 1 <= size <= 2**24
        if 100 < number < 10**9:
            assert (rng.binomial(number, share, 4000) < size).sum() <= 20
    for number in (0, 1, 63, 64, 65, 127, 129, 1000, 12345, 10**9 + 7, 10**18, 10**30):
        (cut,) = steps.cut_number(np.array([float(number)])).tolist()
        assert cut == stated.cut_number(Fraction(number))
        assert cut <= max(number, 1)
        assert cut * 64 >= min(number, 10**18) * 63


# --- the order of a list ------------------------------------------------------------------------


def _chunks(**changes: Any) -> SmallInstance:
    mechanism = made(
        adjacency=REPLACE, lowest=3.9, highest=4.1, at_least=1, runs=2, steps=1, **changes
    )
    return SmallInstance(name="chunks", mechanism=mechanism, data=[4.0, 9.0, 2.0, 5.0, 3.0])


def test_the_law_over_all_orders_is_the_spec_s_and_not_that_of_the_records_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """False twin: the spec's list in one order."""
    assert refine(spec, _chunks()).exact_mass == 1
    monkeypatch.setattr(listed_laws, "permutations", lambda listed: [tuple(listed)])
    with pytest.raises(RefinementFailed, match="has mass"):
        refine(spec, _chunks())


def test_lists_drawn_together_differ_in_one_place() -> None:
    """All neighbors of up to four counts of two kinds: the profile's pair of lists has equal
    laws but for one chunk; the largest loss is the claim's."""
    parameters = _chunks(noise_multiplier=1).mechanism.parameters
    largest = Fraction(0)
    for values in combinations_with_replacement((1, 9), 4):
        for at in range(4):
            for new in (1, 9, 1000):
                other = [*values[:at], new, *values[at + 1 :]]
                pair = [spec.law(parameters, [Fraction(x) for x in one]) for one in (values, other)]
                assert all(isinstance(one, listed_laws.ListedLaw) for one in pair)
                left, right = pair[0].aligned(pair[1])  # type: ignore[union-attr, arg-type]
                laws = zip(left.stage_laws()[-2:], right.stage_laws()[-2:], strict=True)
                moved = [a.mu_squared(b) for (_, a), (_, b) in laws]
                assert sum(1 for one in moved if one) <= 1
                largest = max(largest, *moved)
    share = 1 - Fraction(15, 100)
    assert Fraction(999, 1000) * share < largest <= share * (1 + Fraction(1, 2**16))


def test_a_profile_whose_lists_are_not_drawn_together_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: both lists in their records' own order, in which one record moves all others."""
    unit = Unit("profile", "truncated_mle:replace:chunks")
    assert run_unit(unit, Options()).outcome.value == "held"

    def side_by_side(one: Any, other: Any) -> Any:
        first = len(one.first_stages)
        return tuple(law.in_order(law.listed(law.example[:first])) for law in (one, other))

    own = load(None).theory["listed_laws"]
    monkeypatch.setattr(own.ListedLaw, "aligned", side_by_side)
    assert run_unit(unit, Options()).outcome.value == "refuted"


def test_one_record_moves_no_more_than_one_place_of_a_list_whatever_was_released() -> None:
    """Hostile neighbors through the shipped code, with random transcripts: a list's sums move by
    2 CELLS at most in one order; for some by as much."""
    rng, farthest = np.random.default_rng(8), 0.0
    for trial in range(30):
        family, low, high, _ = FAMILIES[trial % len(FAMILIES)]
        mechanism = replace(
            made(family=family, lowest=low, highest=high, steps=1, at_least=1),
            noise_multiplier=Fraction(3)
        )  # fmt: skip
        truth = family.natural(
            float(np.exp(rng.uniform(math.log(max(low, 0.3)), math.log(high)))) if low > 0 else 2.0
        )
        base = [*family.sample(truth, int(rng.integers(0, 30)), rng).tolist(), *rng.choice(EDGE, 3)]
        pair = mechanism.law(base), mechanism.law([rng.choice([*EDGE, *base]), *base])
        batch = pair[trial % 2].sample(SeededBits(trial), 1)
        prefix = [tuple(v[0].tolist()) for v in list(batch.values.values())[:-1]]
        *_, declared = stages_of(mechanism.fixed_plan)
        moved = [int(np.ravel(law.built_after(declared, prefix)[1])[0]) for law in pair]
        unit = mechanism.descent().scale
        farthest = max(farthest, float(abs(moved[0] - moved[1]) * unit / 2**40))
    assert CELLS / 8 < farthest <= 2 * CELLS + 1


def _of_lists(listed: Any, size: int) -> Any:
    noise = [("descent/step 1", centered.noisy((0,), Fraction(1)))]
    return listed_laws.ListedLaw(
        (("count", lambda prefix: None),), listed, lambda _: noise, ((size,),)
    )


def test_lists_are_drawn_together_after_one_prefix_and_only_as_neighbors() -> None:
    """The size follows from what both released, however many records each has; other sizes or
    two exchanges have no one pair of orders."""
    zeros = _of_lists(lambda prefix: (0,) * prefix[0][0], 3)
    ones = _of_lists(lambda prefix: (1, *(0,) * (prefix[0][0] - 1)), 4)
    assert len(zeros.aligned(ones)) == 2
    longer, other = (_of_lists(lambda _, one=one: one, 3) for one in ((0, 0, 0, 0), (0, 1, 1)))
    for one in (longer, other):
        with pytest.raises(AssertionError, match="lists of 3 and"):
            zeros.aligned(one)


def test_a_profile_of_a_list_whose_size_is_private_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the list is shorter where a record is far, so that those behind a place move to
    other chunks."""
    own = load(None).entries["truncated_mle"].spec
    filled = own.list_after

    def short(parameters: Any, values: Any, *released: Any) -> Any:
        listed = filled(parameters, values, *released)
        return listed[:-1] if max(map(abs, values)) > 100 else listed

    monkeypatch.setattr(own, "list_after", short)
    done = run_unit(Unit("profile", "truncated_mle:replace:chunks"), Options())
    assert done.outcome.value == "refuted"
    assert "cannot be drawn together" in done.summary


# --- the ends of what parameters can be -----------------------------------------------------------


@pytest.mark.parametrize("method", ["statistic", "gradient"])
@pytest.mark.parametrize("lowest", [1e-12, 1e-20, 1e-200])
def test_the_rarest_counts_have_an_estimate(method: str, lowest: float) -> None:
    """Estimate from no count at all: the estimate may be the end of the range, where the law has
    hardly any variance."""
    for adjacency in Adjacency:
        mechanism = made(adjacency=adjacency, lowest=lowest, highest=10, method=method)
        for seed in range(3):
            with np.errstate(all="raise", under="ignore"):
                estimate = mechanism.release(np.zeros(3000), SeededBits(seed))
            assert isinstance(estimate, FamilyEstimate)
            assert estimate.spread < 0.1
        assert mechanism.expected_error(3000, parameter=2 * lowest) < 0.1


def test_where_nothing_is_learned_the_expected_error_is_infinite() -> None:
    """Kept records that the law hardly has, an interval that is a single float, and longer lists
    than there are."""
    far: dict[str, Any] = {"family": Normal(3.0), "lowest": -1e6, "highest": 1e6}
    for changes in ({"kept": (1e9, 1e9 + 1)}, {"kept": (1e300, 1e308)}):
        for method in ("statistic", "gradient"):
            mechanism = made(**far | changes, method=method, at_least=1)
            assert mechanism.expected_error(1000, parameter=0.5) == math.inf
    mechanism = made(adjacency=REPLACE, noise_multiplier=10**7)
    assert mechanism.expected_error(10**12, parameter=3.0) == math.inf
