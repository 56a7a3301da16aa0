"""Shared properties of mechanisms: budgets on the safe side, the derivation, the refusals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpverify import (
    Abstained,
    Adjacency,
    ApproxDP,
    BoundedMean,
    ClippedMean,
    GaussianDP,
    LargeVariances,
    NoisyCount,
    PerfectPrivacy,
    PureDP,
    RandomizedResponse,
    SeededBits,
    StabilityHistogram,
    SumOfVariances,
)
from dpverify.grid import Count
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    DiscreteLaplace,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.privacy import (
    Derivation,
    Domain,
    Guarantee,
    PrivacyClaim,
    Sensitivity,
    Status,
    rules,
)
from spec.theory.laws import DiscreteLaplaceLaw, real, real_exponential
from spec.theory.profiles import profile
from tests.randomness.helpers import NoBits

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=40)


def mean(**parameters: Any) -> BoundedMean:
    base: dict[str, Any] = {"adjacency": ADD, "noise_multiplier": 1, "lower": 0.0, "upper": 1.0}
    return BoundedMean(**base | parameters)


@pytest.mark.parametrize(
    ("budget", "multiplier"),
    [
        (PureDP("0.3"), Fraction(10, 3)),
        (PureDP(1), Fraction(1)),
        (PureDP(Fraction(2, 3)), Fraction(3, 2)),
        (PureDP("1e-9"), Fraction(10**9)),
        (PureDP(10**6), Fraction(1, 10**6)),
        (PureDP(Decimal("0.7")), Fraction(10, 7)),
        (ApproxDP("0.3", 0), Fraction(10, 3)),
    ],
    ids=str,
)
def test_a_rational_budget_is_met_without_rounding(budget: Guarantee, multiplier: Fraction) -> None:
    count = NoisyCount.for_budget(budget, adjacency=ADD)
    average = BoundedMean.for_budget(budget, adjacency=REPLACE, lower=0.0, upper=1.0)
    answers = RandomizedResponse.for_budget(budget, adjacency=REPLACE, categories=2)
    for mechanism in (count, average, answers):
        assert mechanism.noise_multiplier == multiplier
        assert mechanism.claim.guarantee == budget
        assert mechanism.claim.status is Status.PROVED


def test_a_float_budget_stands_for_its_binary_value() -> None:
    count = NoisyCount.for_budget(PureDP(0.1), adjacency=ADD)
    assert count.noise_multiplier >= 1 / Fraction(0.1)
    assert count.claim.guarantee == PureDP(Fraction(0.1))


budgets = st.one_of(
    st.builds(PureDP, st.fractions(Fraction(1, 1000), 1000)),
    st.builds(PureDP, st.floats(1e-300, 1e6)),
    st.builds(
        ApproxDP,
        st.fractions(Fraction(1, 1000), 50),
        st.one_of(st.just(0), st.builds(lambda k: Fraction(1, 10**k), st.integers(1, 40))),
    ),
)


@REPEATABLE
@given(budgets, st.booleans())
@example(PureDP("1e-300"), False)
@example(PureDP(10**6), True)
@example(ApproxDP("1e-300", "1e-300"), True)
@example(ApproxDP(10**6, "0.999"), False)
def test_a_budget_is_met_on_the_safe_side(budget: PureDP | ApproxDP, average: bool) -> None:
    mechanism: Mechanism[Any] = NoisyCount.for_budget(budget, adjacency=ADD)
    if average:
        mechanism = BoundedMean.for_budget(budget, adjacency=ADD, lower=0.0, upper=3.0)
    unbudgeted = dataclasses.replace(mechanism, budget=None)
    own = unbudgeted.claim.guarantee
    assert isinstance(own, PureDP)
    assert own.implies(budget)
    with mp.workdps(60):  # against the spec: delta(epsilon) of epsilon0-DP is below the budget's
        assert profile(own.epsilon, Fraction(0), budget.epsilon) <= real(budget.delta)
    less = unbudgeted.noise_multiplier * (1 - Fraction(1, 10**12))
    assert not dataclasses.replace(unbudgeted, noise_multiplier=less).claim.guarantee.implies(
        budget
    )
    with pytest.raises(ValueError, match="does not imply"):
        dataclasses.replace(mechanism, noise_multiplier=less)


@pytest.mark.parametrize(
    ("budget", "noisy"),
    [(PureDP("1e-300"), True), (PureDP(10**6), False), (ApproxDP(10**6, "1e-300"), False)],
    ids=str,
)
def test_extreme_budgets_can_be_released_with(budget: Guarantee, noisy: bool) -> None:
    # At epsilon 10^6 a count's noise that is not 0, and a sum's of 1000 cells, have probabilities
    # below exp(-400); at 10^-300 noise that is so small has probability below 10^-290.
    count = NoisyCount.for_budget(budget, adjacency=ADD).release([1.0] * 5, SeededBits(51))
    average = BoundedMean.for_budget(budget, adjacency=REPLACE, lower=0.0, upper=1.0)
    release = average.release([0.25] * 5, SeededBits(52))
    assert not isinstance(count, Abstained)
    assert not isinstance(release, Abstained)
    assert (count.value != 5) == noisy
    assert (abs(release.value - 0.25) > 1e-3) == noisy
    assert 0.0 <= release.value <= 1.0


@pytest.mark.parametrize("cls", [NoisyCount, RandomizedResponse, BoundedMean])
def test_perfect_privacy_cannot_be_bought(cls: Any) -> None:
    extra: dict[Any, dict[str, Any]] = {
        NoisyCount: {"within": (0.0, 1.0)},
        RandomizedResponse: {"categories": 2},
        BoundedMean: {"lower": 0.0, "upper": 1.0},
    }
    with pytest.raises(
        ValueError,
        match=r"There is no least noise for perfect: no noise .* the stages have (pure|approx)",
    ):
        cls.for_budget(PerfectPrivacy(), adjacency=REPLACE, **extra[cls])


def test_a_budget_below_what_rounding_costs_is_refused_in_these_words() -> None:
    with pytest.raises(ValueError, match=r"at 2\^100 still gaussian.* rounded to the noise's unit"):
        ClippedMean.for_budget(GaussianDP("1e-60"), adjacency=ADD, center=(0.0, 0.0), radius=1)


@pytest.mark.parametrize("budget", [ApproxDP(1, "1e-9"), PureDP(1), GaussianDP("1/2")], ids=str)
@pytest.mark.parametrize(
    ("cls", "extra"),
    [
        (StabilityHistogram, {"width": 1, "noise": "gaussian"}),
        (SumOfVariances, {"d": 2}),
        (LargeVariances, {"d": 2, "reports": 1, "n_max": 4000}),
    ],
)
def test_a_delta_beyond_the_budgets_is_refused_at_once(
    cls: Any, extra: dict[str, Any], budget: Guarantee
) -> None:
    """Without asking at 2^8192, where thresholds take seconds to minutes."""
    with pytest.raises(ValueError, match=r"There is no least noise .* a smaller delta"):
        cls.for_budget(budget, adjacency=ADD, delta="1e-6", **extra)


@pytest.mark.parametrize("budget", [1, "1", 0.5, None, PureDP])
def test_a_number_is_no_budget(budget: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a guarantee; write PureDP\(1\)"):
        NoisyCount.for_budget(budget, adjacency=ADD)


def test_a_converted_claim_says_so_at_its_root() -> None:
    budget = ApproxDP(1, "1e-6")
    root = NoisyCount.for_budget(budget, adjacency=ADD).derivation
    assert root.conclusion.guarantee == budget
    assert root.rule.startswith("conversion from pure(")
    (released,) = root.premises
    assert released.rule.startswith("post-processing")
    plain = NoisyCount.for_budget(PureDP("0.3"), adjacency=ADD).derivation
    assert plain.rule.startswith("post-processing")


def test_a_claim_that_does_not_follow_is_never_built() -> None:
    with pytest.raises(ValueError, match="does not imply"):
        NoisyCount(adjacency=ADD, noise_multiplier=Fraction(1), budget=PureDP("0.999999"))
    weaker = NoisyCount(adjacency=ADD, noise_multiplier=Fraction(1), budget=PureDP(3))
    assert weaker.claim.guarantee == PureDP(3)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"adjacency": "replace"}, TypeError, r"write Adjacency\.ADD_REMOVE"),
    ({"adjacency": None}, TypeError, r"write Adjacency\.ADD_REMOVE"),
    ({"noise_multiplier": 0}, ValueError, r"not positive; use for_budget"),
    ({"noise_multiplier": Fraction(-1, 2)}, ValueError, r"not positive; use for_budget"),
    ({"noise_multiplier": float("nan")}, ValueError, "not finite"),
    ({"noise_multiplier": float("inf")}, ValueError, "not finite"),
    ({"noise_multiplier": "much"}, ValueError, "write it like"),
    ({"noise_multiplier": True}, TypeError, "truth value"),
    ({"noise_multiplier": None}, TypeError, "give an int, Fraction"),
    ({"noise_multiplier": 1j}, TypeError, "give an int, Fraction"),
    ({"budget": 1}, TypeError, "not a guarantee"),
    ({"budget": []}, TypeError, "not a guarantee"),
    ({"nonfinite": "ignore"}, ValueError, "write 'refuse'"),
    ({"nonfinite": True}, ValueError, "write 'refuse'"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_common_parameters_are_refused(
    change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        mean(**change)


def test_mechanisms_are_frozen_values() -> None:
    one, same = mean(noise_multiplier="0.5"), mean(noise_multiplier=Fraction(1, 2))
    assert one == same
    assert len({one, same, mean(noise_multiplier=2)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.noise_multiplier = Fraction(2)  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        one.secret = 1  # type: ignore[attr-defined]
    assert one.parameters["noise_multiplier"] == Fraction(1, 2)
    assert set(one.parameters) == {f.name for f in dataclasses.fields(one) if f.init}


def abstention(mechanism: BoundedMean, n: int) -> Any:
    """P(the noisy count of n records is below ``at_least``), by the spec's law."""
    scale = mechanism.noise_multiplier / mechanism.count_share
    return DiscreteLaplaceLaw(n, scale).at_most(mechanism.at_least - 1, real_exponential)


def check_minimum(mechanism: BoundedMean, beta: str) -> None:
    least = mechanism.minimum_n(beta=beta)
    with mp.workdps(50):
        assert abstention(mechanism, least) <= real(Fraction(beta))
        assert least == 0 or abstention(mechanism, least - 1) > real(Fraction(beta))


@pytest.mark.parametrize("beta", ["0.49", "0.3", "1e-3", "1e-40", "1e-400"])
@pytest.mark.parametrize(
    ("multiplier", "at_least"), [("1", 1), ("1/4", 3), ("1/1000", 5), ("10", 20), ("1e6", 1)]
)
def test_minimum_n_is_exact(multiplier: str, at_least: int, beta: str) -> None:
    check_minimum(mean(noise_multiplier=multiplier, at_least=at_least), beta)


@pytest.mark.parametrize("beta", ["0.5", "0.6", "0.9", "0.999"])
def test_minimum_n_is_exact_where_abstaining_is_likely(beta: str) -> None:
    check_minimum(mean(at_least=5), beta)


@pytest.mark.parametrize("beta", [0, 1, -1, "1.5", "2"])
def test_a_probability_of_abstaining_is_between_0_and_1(beta: Any) -> None:
    with pytest.raises(ValueError, match=r"outside \(0, 1\)"):
        mean().minimum_n(beta=beta)


def test_minimum_n_where_nothing_abstains() -> None:
    assert mean(adjacency=REPLACE, at_least=7).minimum_n(beta="1e-9") == 7
    assert NoisyCount(adjacency=ADD, noise_multiplier=Fraction(1)).minimum_n() == 0
    answers = RandomizedResponse(adjacency=REPLACE, noise_multiplier=Fraction(1), categories=2)
    assert answers.minimum_n() == 1


@dataclass(frozen=True, slots=True, init=False)
class BelievedNoise(DiscreteLaplace):
    """Discrete Laplace noise with a claim that is somebody's word."""

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        world = sensitivity.conclusion
        return rules.conjecture(
            PureDP(1 / self.scale), adjacency=world.adjacency, domain=world.domain
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BelievedCount(Mechanism[int]):
    """A count whose claim is conjectured."""

    def plan(self) -> Plan:
        return (Stage("count", Count(), BelievedNoise(self.noise_multiplier)),)

    def estimate(self, transcript: Transcripts) -> int | Abstained:
        return transcript.number("count")


@pytest.mark.parametrize("status", ["", "proved", "refuted", "Conjectured", "yes", " conjectured"])
def test_a_conjectured_claim_is_not_released_by_accident(status: str) -> None:
    believed = BelievedCount.for_budget(PureDP(1), adjacency=ADD)
    assert believed.claim.status is Status.CONJECTURED
    assert believed.claim.guarantee == PureDP(1)
    with pytest.raises(ValueError, match="accept_status='conjectured: <where that is recorded>'"):
        believed.release([1.0], NoBits(), accept_status=status)


def test_a_conjectured_claim_is_released_on_demand() -> None:
    # P(noise != 0) < exp(-10^5).
    believed = BelievedCount(adjacency=ADD, noise_multiplier=Fraction(1, 10**6))
    accepted = "conjectured: notes, page 3"
    assert believed.release([1.0] * 4, SeededBits(1), accept_status=accepted) == 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCount(Mechanism[int]):
    """The number of records where it is public: nothing to protect."""

    def plan(self) -> Plan:
        return (Stage("count", Count(), NoNoise()),)

    def estimate(self, transcript: Transcripts) -> int | Abstained:
        return transcript.number("count")


def test_a_public_fact_needs_no_budget() -> None:
    public = PublicCount(adjacency=REPLACE, noise_multiplier=Fraction(1))
    assert public.claim.guarantee == PerfectPrivacy()
    assert public.release([1.0, 2.0], NoBits()) == 2
    with pytest.raises(ValueError, match=r"any noise multiplier .* the stages have perfect"):
        PublicCount.for_budget(PureDP(1), adjacency=REPLACE)
    with pytest.raises(ValueError, match="without noise"):
        PublicCount(adjacency=ADD, noise_multiplier=Fraction(1))


@dataclass(frozen=True, slots=True)
class ForgetfulSides(SideCounts):
    """A query that states its sensitivity for what it was first asked about, whatever is asked."""

    about: tuple[Adjacency, Domain] = (ADD, Domain(1))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity under ``about``."""
        return SideCounts.sensitivity(self, *self.about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides(Mechanism[tuple[int, ...]]):
    """The numbers of records on either side of 1/2, by a query of one's own."""

    query: Any

    def plan(self) -> Plan:
        query = self.query
        scale = UNIT if isinstance(query, OneUnit) else self.noise_multiplier
        return (Stage("sides", query, RoundedGaussian(scale)),)

    def estimate(self, transcript: Transcripts) -> tuple[int, ...] | Abstained:
        return transcript.numbers("sides")


_OTHER_REPLACEMENT = REPLACE, Domain(1, replacement=7.0)


@pytest.mark.parametrize(
    ("about", "in_unit"),
    [
        ((ADD, Domain(1)), False),
        ((ADD, Domain(1)), True),
        ((REPLACE, Domain(1, most_rows=3)), False),
        ((REPLACE, Domain(1, most_rows=3)), True),
        (_OTHER_REPLACEMENT, False),
    ],
)
def test_a_claim_about_something_else_than_was_asked_is_no_mechanism(
    about: tuple[Adjacency, Domain], in_unit: bool
) -> None:
    """Under replace half as much noise would be enough for a sensitivity under add-remove."""

    assert _sides((REPLACE, Domain(1)), in_unit=in_unit).claim.adjacency is REPLACE
    with pytest.raises(ValueError, match=r"another one than was asked|the lemma is"):
        _sides(about, in_unit=in_unit)


def _sides(about: tuple[Adjacency, Domain], *, in_unit: bool) -> Sides:
    query: Any = ForgetfulSides((0.5,), about=about)
    query = OneUnit(query, Fraction(3)) if in_unit else query
    return Sides(adjacency=REPLACE, noise_multiplier=Fraction(3), query=query)


def test_a_value_in_a_unit_is_about_the_replacement_that_is_asked_for() -> None:
    assert _sides(_OTHER_REPLACEMENT, in_unit=True).domain.replacement == 0.0
