"""Random filters in a plan: built ones, what is refused, and what is claimed."""

from __future__ import annotations

import dataclasses
import gc
import re
import weakref
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import NOTHING, Count, Transcripts, View
from dpverify.grid.nearness import Nearness
from dpverify.plans import (
    UNIT,
    DiscreteLaplace,
    Filtered,
    KeptCount,
    KeptMean,
    Law,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
)
from dpverify.plans.plan import derive, elements_of, stages_of
from dpverify.plans.walking import is_latent, with_stages
from dpverify.privacy import Adjacency
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.randomness import SeededBits
from dpverify.randomness.bits import IntArray
from dpverify.transformations import Agreement
from tests.plans.filtered import (
    ADD,
    BELOW,
    COUNT_NOISE,
    DATA,
    DOMAIN,
    FEW,
    FILTER,
    NEAR,
    PAID,
    Formal,
    Law_,
    by_hand,
    enumerated,
    inner,
    mean,
    number,
    plan,
)
from tests.plans.helpers import adaptive

# --- adaptive filters, and what is built ----------------------------------------------------------


def rows_first(build: Any) -> Plan:
    rows = Stage("rows", Count(), COUNT_NOISE)
    keys = lambda batch: np.minimum(batch.values["rows"][:, 0] % 2, 1)  # noqa: E731
    return (rows, adaptive(Filtered("core", FILTER, inner(0)), ("rows",), keys, build))


def test_a_filter_may_be_built_from_the_transcript() -> None:
    """The number's shift follows the parity of the noisy number of rows: again a mixture."""
    built: Plan = rows_first(lambda key: Filtered("core", FILTER, inner(-2 * key)))
    masses = enumerated(Law(built, DATA, ADD, DOMAIN))
    expected: Law_ = defaultdict(Fraction)
    for z in (-1, 0, 1):
        mass = Formal().rounded_gaussian(z, Fraction(3))
        for (after, stopped), share in by_hand(-2 * ((5 + z) % 2)).items():  # type: ignore[misc]
            expected[((5 + z,), *after), stopped] += mass * share  # type: ignore[has-type]
    assert masses == dict(expected)


def weaker(key: int) -> Filtered:
    stage = Stage("kept", KeptCount(NEAR, 0), RoundedGaussian(3 - key))
    return Filtered("core", FILTER, (stage, *inner(0)[1:]))


@dataclass(frozen=True, slots=True)
class Twice(KeptCount):
    """The number twice: as private as declared where noise is, and of another width."""

    @property
    def width(self) -> int:
        return 2

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        return np.repeat(KeptCount.evaluate(self, view, before), 2, axis=-1)


def wider(key: int) -> Filtered:
    return Filtered("core", FILTER, (Stage("kept", Twice(NEAR, 0), COUNT_NOISE), *inner(0)[1:]))


UNIT_NOISE = RoundedGaussian(UNIT)


def all_records(key: int) -> Filtered:
    """The mean is built to ask all records."""
    ask = adaptive(
        mean(1),
        ("kept",),
        number,
        lambda key: Stage("mean", Agreement(NEAR, 0), UNIT_NOISE),
        (BELOW,),
    )
    return Filtered("core", FILTER, (*inner(-9)[:2], ask, PAID))


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (weaker, ValueError, "declared"),
        (wider, ValueError, "of another width"),
        (all_records, TypeError, "Agreement has a sensitivity for inputs, not under friendly"),
    ],
)
def test_a_filter_that_breaks_its_promise_is_refused(build: Any, kind: Any, message: str) -> None:
    law = Law(rows_first(build), DATA, ADD, DOMAIN)
    with pytest.raises(kind, match=message):
        law.sample(SeededBits(4), 50)


@pytest.mark.parametrize("query", [Count(), Agreement(NEAR, 0)])
def test_a_query_of_all_records_is_no_part_of_an_inner_plan(query: Any) -> None:
    """Refuse it: its lemma would be read for friendly neighbors, its value is one of strangers
    too."""
    with pytest.raises(TypeError, match=f"asks {type(query).__name__} of all records"):
        Filtered("core", FILTER, (Stage("kept", query, UNIT_NOISE),))


def test_inner_gates_have_to_be_paid_for() -> None:
    """Refuse unpaid gates: where nothing is kept a gate stops whatever is released: {x} and {}
    are friendly neighbors."""
    derive(plan(0), ADD, DOMAIN)
    for forgetful in (inner(0)[:3], inner(0)[:2]):
        open_ = Filtered("core", FILTER, forgetful)
        assert open_.friendly_derivation(DOMAIN).conclusion.hypotheses == {BELOW}
        with pytest.raises(ValueError, match="needs a statement without hypotheses"):
            derive((open_,), ADD, DOMAIN)
    # the event: P(number >= 1 | {x}) and never after it for {}; no claim of the stages covers that
    one = enumerated(Law(plan(0), DATA[:1], ADD, DOMAIN))
    assert any(outcome[1] is None for outcome in one)  # type: ignore[index]
    none = enumerated(Law(plan(-9), DATA[:0], ADD, DOMAIN))
    assert all(outcome[1] == "too few" for outcome in none)  # type: ignore[index]


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (Friendly("others"), "The kept records are friends by 'others'"),
        (ADD, "has a sensitivity for friendly neighbors only, not under add-remove"),
    ],
)
@pytest.mark.parametrize("query", [KeptCount(NEAR, 0), KeptMean(NEAR, Fraction(1), 3)])
def test_kept_records_of_another_predicate_have_no_sensitivity(
    query: Any, about: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        query.sensitivity(about, DOMAIN)


def test_a_mean_of_another_map_s_cells_does_not_follow_from_the_filter() -> None:
    """Same radius, another scale: friends of one are no friends of the other."""
    other = Nearness(1, 0, (0.5,))
    stage = Stage("mean", KeptMean(other, Fraction(5), 3), RoundedGaussian(UNIT))
    with pytest.raises(ValueError, match="give both the same nearness"):
        derive((Filtered("core", FILTER, (stage,)),), ADD, DOMAIN)


# --- claims, and what is known of a latent law ----------------------------------------------------


@pytest.mark.parametrize("adjacency", Adjacency)
def test_unless_pays_for_its_event_inside_and_outside(adjacency: Adjacency) -> None:
    inside = Filtered("core", FILTER, inner(0)).friendly_derivation(DOMAIN).conclusion
    bare = derive(inner(0)[:3], FILTER.friendly, DOMAIN).conclusion
    assert bare.hypotheses == {BELOW}
    assert not inside.hypotheses
    assert isinstance(inside.guarantee, ApproximateGaussianDP)
    assert bare.guarantee.gaussian is not None
    assert inside.guarantee.mu_squared == bare.guarantee.gaussian.mu_squared
    assert inside.guarantee.delta == bare.guarantee.gaussian.delta + PAID.probability
    for needless in ((*inner(0), PAID), (inner(0)[0], PAID)):
        with pytest.raises(ValueError, match="the claim does not rest on its absence"):
            derive(needless, FILTER.friendly, DOMAIN)
    with pytest.raises(ValueError, match="has no stage 'kept'"):
        derive((*plan(0), PAID), adjacency, DOMAIN)


def test_a_latent_law_has_no_likelihood_and_knows_it() -> None:
    law = Law(plan(0), DATA, ADD, DOMAIN)
    assert is_latent(law._plan)
    assert law.latent
    assert not law.closed
    with pytest.raises(TypeError, match="a sum over all coins of its filter"):
        law.log_likelihood(law.sample(SeededBits(5), 3))
    with pytest.raises(TypeError, match="for inputs, not under"):
        derive(plan(0), FILTER.friendly, DOMAIN)


def test_names_are_unique_and_elements_in_order() -> None:
    assert [stage.name for stage in stages_of(plan(0))] == ["kept", "mean"]
    assert list(elements_of(plan(0)))[1] == FEW
    for again in (plan(0) + plan(0), (Stage("kept", Count(), COUNT_NOISE), *plan(0))):
        with pytest.raises(ValueError, match="two stages are named 'kept'"):
            derive(again, ADD, DOMAIN)
    with pytest.raises(ValueError, match="not released before it"):
        derive((FEW, *plan(0)), ADD, DOMAIN)


def test_stages_are_changed_inside_filters_as_declared_and_as_built() -> None:
    silent = with_stages(plan(0), lambda stage: dataclasses.replace(stage, noise=NoNoise()))
    declared = [stage.noise for stage in stages_of(silent)]
    assert declared == [NoNoise(), NoNoise()]
    batch = Law(with_stages(plan(0), _quiet), DATA[:3], ADD, DOMAIN).sample(SeededBits(6), 60)
    numbers = batch.values["kept"][:, 0]
    assert set(numbers) == {3}  # all three are friends and kept; noise of at most 1/2: 1 - 1e-60
    shift = with_stages(plan(0), lambda stage: stage)
    assert enumerated(Law(shift, DATA, ADD, DOMAIN)) == by_hand(0)


def _quiet(stage: Stage) -> Stage:
    return dataclasses.replace(stage, noise=RoundedGaussian(stage.noise.scale / 100))  # type: ignore[attr-defined]


def test_what_runs_behind_a_filter_alone_keeps_every_record() -> None:
    law = Law(plan(0)[0].inner, DATA, FILTER.friendly, DOMAIN)  # type: ignore[union-attr]
    for released_, _ in enumerated(law):  # type: ignore[misc]
        assert released_[0][0] in (4, 5, 6)  # type: ignore[has-type]


def test_a_law_keeps_its_data_to_itself() -> None:
    """It prints nothing of them, and nothing else holds them when it is gone."""
    secret = np.array([[12345.0], [12346.0]])
    law = Law(plan(0), secret, ADD, DOMAIN)
    law.sample(SeededBits(7), 3)
    mapped = law._view.images(NEAR)
    assert "12345" not in repr(law) + repr(mapped)
    gone = weakref.ref(mapped)
    del law, mapped
    gc.collect()
    assert gone() is None


def test_a_plan_with_laplace_noise_runs_too() -> None:
    kept = Stage("kept", KeptCount(NEAR, 0), DiscreteLaplace(2))
    law = Law((Filtered("core", FILTER, (kept, *inner(0)[1:])),), DATA[:3], ADD, DOMAIN)
    assert law.sample(SeededBits(8), 5).values["kept"].shape == (5, 1)
