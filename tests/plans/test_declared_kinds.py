"""An adaptive stage may declare any kind of guarantee; what is built must imply it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpverify.grid import NOTHING, Count, Query, Transcripts, View
from dpverify.plans import Adaptive, Stage
from dpverify.plans.built_stages import check_built
from dpverify.plans.noise import DiscreteLaplace, LogProbabilities, Noise
from dpverify.plans.plan import derive
from dpverify.privacy import (
    Adjacency,
    Derivation,
    Domain,
    Norm,
    PrivacyClaim,
    Profile,
    Sensitivity,
    Source,
    ZeroConcentratedDP,
    rules,
)
from dpverify.privacy.hypotheses import Quantity
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from tests.plans.helpers import adaptive

_ADD, _DOMAIN = Adjacency.ADD_REMOVE, Domain(columns=1)


@dataclass(frozen=True, slots=True)
class _SquaredCount(Query):
    """The count, whose sensitivity is given in squared L2 distance."""

    @property
    def width(self) -> int:
        return 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        return np.array([len(view)], dtype=np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        return rules.sensitivity_lemma(
            Quantity.of("the count", "Count"),
            norm=Norm.SQUARED_L2,
            value=1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/queries.py:obligation_count",
            source=Source("OURS", "a test's premise"),
        )


@dataclass(frozen=True, slots=True)
class _Claiming(Noise):
    """Noise that is never drawn: only its claim matters here."""

    sigma: Fraction
    rounded: bool

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        raise NotImplementedError

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        raise NotImplementedError

    def claim(self, sensitivity: Derivation[Sensitivity]) -> Derivation[PrivacyClaim]:
        rule = rules.rounded_gaussian if self.rounded else rules.discrete_gaussian
        return rule(sensitivity, self.sigma)


def _stage(sigma: int, *, rounded: bool) -> Stage:
    return Stage("again", _SquaredCount(), _Claiming(Fraction(sigma), rounded))


def _declaring(declared: Stage) -> Adaptive:
    return adaptive(declared, (), lambda batch: np.zeros(len(batch), int), lambda key: declared)


def test_what_is_built_may_be_of_a_stronger_kind() -> None:
    declared = _stage(3, rounded=False)  # 1/18-zCDP
    for built in (_stage(3, rounded=True), _stage(4, rounded=False)):
        check_built(_declaring(declared), built, _ADD, _DOMAIN)


@pytest.mark.parametrize(
    ("declared", "built"),
    [
        (_stage(3, rounded=False), _stage(2, rounded=False)),
        (_stage(3, rounded=False), _stage(2, rounded=True)),
        (_stage(3, rounded=True), _stage(3, rounded=False)),  # zCDP does not imply GDP
    ],
    ids=["less noise", "less noise of another kind", "a weaker kind"],
)
def test_what_is_built_with_less_privacy_is_refused_with_both_sides(
    declared: Stage, built: Stage
) -> None:
    sides = [stage.derivation(_ADD, _DOMAIN).conclusion.guarantee for stage in (declared, built)]
    with pytest.raises(ValueError, match="declare the largest loss it can have") as refusal:
        check_built(_declaring(declared), built, _ADD, _DOMAIN)
    for side in sides:
        assert str(side) in str(refusal.value)


def test_a_plan_of_different_kinds_composes_to_a_profile() -> None:
    plan = (
        Stage("count", Count(), DiscreteLaplace(2)),
        _stage(3, rounded=False),
    )
    guarantee = derive(plan, _ADD, _DOMAIN).conclusion.guarantee
    assert isinstance(guarantee, Profile)
    assert guarantee.implies(ZeroConcentratedDP(Fraction(1, 8) + Fraction(1, 18)))
