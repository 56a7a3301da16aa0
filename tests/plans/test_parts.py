"""Plans in plans: what they claim and what they release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import Abstained, PureDP, RefinedMean, SeededBits
from dpverify.grid import UNIT, Released, Transcripts
from dpverify.grid.linear import Integers
from dpverify.grid.transcript_queries import MovingSum
from dpverify.plans import (
    Adaptive,
    Gate,
    KaryResponse,
    Mechanism,
    Part,
    Plan,
    RoundedGaussian,
    Stage,
    stages_of,
)
from dpverify.plans.plan import derive
from dpverify.plans.walking import with_stages
from dpverify.privacy import rules
from tests.plans.helpers import adaptive
from tests.plans.nested import (
    ADD,
    DOMAIN,
    REPLACE,
    Masses,
    Rounds,
    answers,
    enumerated,
    law,
    likelihoods_are_masses,
    mean,
    outcome,
    stopping,
    twice,
)
from tests.plans.parted import DATA, NEAR, asked, side

# --- claims ---------------------------------------------------------------------------------------


def test_two_rounds_of_one_mean_claim_what_both_compose_to() -> None:
    """Planted: a part that counts once because both plans are one object."""
    one = mean(noise_multiplier=3)
    both = Rounds(adjacency=ADD, parts=(("a", one), ("b", one)))
    composed = rules.compose(one.derivation, one.derivation).conclusion.guarantee
    assert both.claim.guarantee == composed == PureDP(Fraction(2, 3))
    names = ["a/count", "a/sum", "b/count", "b/sum"]
    assert [stage.name for stage in stages_of(both.fixed_plan)] == names
    assert both.parts[0][1].part("a")["count"] == "a/count"


def test_two_rounds_of_a_refined_mean_pay_for_the_events_of_both() -> None:
    """Planted: an Unless that pays once for two parts."""
    one = refined()
    both = Rounds(adjacency=ADD, parts=(("a", one), ("b", one)))
    composed = rules.compose(one.derivation, one.derivation).conclusion.guarantee
    assert both.claim.guarantee == composed
    assert not both.claim.hypotheses
    assert not composed.implies(one.claim.guarantee)


def refined(**parameters: Any) -> RefinedMean:
    given: dict[str, Any] = {"matrix": (1.0,), "radius": 12, "record_radius": 6, "n_max": 400}
    given |= {"adjacency": ADD, "noise_multiplier": 1, "center_multiplier": 3, "tail": "1e-7"}
    return RefinedMean(**given | parameters)


# --- a mean inside a mean -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Around(Mechanism[Any]):
    """Another mean, then a sum of the records about it: it reads the inner sum by its handle."""

    inner: Any

    def plan(self) -> Plan:
        part = self.inner.part("inner")
        last = stages_of((part,))[-1]
        place = Released((last.name,), self._place)
        query = MovingSum(NEAR, self.noise_multiplier, self.adjacency, place)
        return part, Stage("around", query, RoundedGaussian(UNIT))

    def _place(self, before: Transcripts) -> tuple[Integers, Integers]:
        (column,) = before.values.values()  # what is read, and nothing else
        points = np.clip(column[:, :1], -9, 9)
        return points.astype(np.int64), np.full(len(before), 5)

    def estimate(self, transcript: Transcripts) -> Any:
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        inner = self.inner.estimate(transcript.within("inner"))
        return inner, transcript.numbers("around")


def test_a_mean_inside_a_mean_is_that_mean_from_the_same_bits() -> None:
    """Two levels deep. Planted: a part that draws in another order, or is estimated from another
    stage."""
    one = mean()
    two = Around(adjacency=ADD, noise_multiplier=Fraction(2), inner=one)
    three = Around(adjacency=ADD, noise_multiplier=Fraction(3), inner=two)
    names = ["inner/inner/count", "inner/inner/sum", "inner/around", "around"]
    assert [stage.name for stage in stages_of(three.fixed_plan)] == names
    seen: set[str] = set()
    for seed in range(30):
        alone: Any = two.release(DATA, SeededBits(seed))
        whole: Any = three.release(DATA, SeededBits(seed))
        own = one.release(DATA, SeededBits(seed))
        if isinstance(own, Abstained):
            assert own == alone == whole
        else:
            assert repr(whole[0]) == repr(alone)
            assert repr(alone[0]) == repr(own)
        seen.add(type(own).__name__)
    assert seen == {"Abstained", "MeanEstimate"}
    claims = [m.derivation for m in (one, two)]
    assert not claims[1].conclusion.guarantee.implies(claims[0].conclusion.guarantee)


def test_the_outer_sum_is_about_what_the_inner_one_released() -> None:
    """Compare in a batch whose draws have unlike centers. Planted: one center for all, or that
    of another draw."""
    three = Around(adjacency=ADD, noise_multiplier=Fraction(2), inner=mean(noise_multiplier=9))
    records = three.law(DATA)
    drawn = records.sample(SeededBits(3), 400)
    live = np.flatnonzero(drawn.stopped_by < 0)
    stage = three.fixed_plan[-1]
    assert isinstance(stage, Stage)
    centers = set()
    for i in live.tolist()[::7]:
        one = drawn[i]
        numbers = [one.numbers(name) for name in ("inner/count", "inner/sum")]
        center = records.center_after(stage, numbers)
        centers.add(tuple(center.tolist()))
        point = min(max(numbers[1][0], -9), 9)
        inside = [x - point for x in (0, 3, 1, -9) if abs(x - point) <= 5]
        unit = stage.query.unit(5)  # type: ignore[attr-defined]
        assert center.tolist() == [round(v * UNIT / unit) for v in (sum(inside), len(inside))]
        assert np.abs(one["around"][0] - center).max() < 8 * UNIT  # 200 numbers: below 1e-12
    assert len(centers) > 3


def test_an_adaptive_stage_outside_is_built_from_a_number_of_a_part() -> None:
    plan: Plan = (
        Part("p", twice()),
        adaptive(
            answers("last"),
            ("p/second",),
            lambda b: b["p/second"][:, 0],
            lambda k: answers("last", 1 + k),
        ),
    )
    assert derive(plan, REPLACE, DOMAIN).conclusion.guarantee == PureDP(3)
    masses, draws = enumerated(law(plan))
    assert likelihoods_are_masses(law(plan))
    for key, draw in draws.items():
        if draw.stopped is None:
            flipped = (*key[0][:-1], ("last", (1 - draw.number("last"),))), None
            ratio = float(masses[key] / masses[flipped])
            scale = 1 + draw.number("p/second")
            assert abs(abs(np.log(ratio)) - 1 / scale) < 1e-12


# --- laws -----------------------------------------------------------------------------------------


def by_hand(scale: Fraction | int = 1, path: str = "", reason: str = "said no") -> Masses:
    """Compute the law of ``twice`` on a record of 1: KaryResponse tells the truth with odds
    e^(1 / scale)."""
    truth = 1 / (1 + np.exp(-1 / float(scale)))
    kept = {1: truth, 0: 1 - truth}
    masses: Masses = {(((f"{path}first", (0,)),), reason): kept[0]}
    for second, mass in kept.items():
        released = (f"{path}first", (1,)), (f"{path}second", (second,))
        masses[released, None] = kept[1] * mass
    return masses


def same(masses: Masses, expected: Masses) -> bool:
    alike = masses.keys() == expected.keys()
    return alike and all(abs(float(masses[key]) - float(expected[key])) < 1e-12 for key in masses)


def test_a_gate_of_a_part_stops_the_whole_plan_and_the_law_is_the_product_by_hand() -> None:
    """Planted: a gate that stops its part alone, and laws of other noise."""
    plan: Plan = (Part("a", twice(1, reason="a")), Part("b", twice(2, reason="b")), answers("last"))
    masses, draws = enumerated(law(plan))
    last: Masses = {(((("last", (v,))),), None): m for v, m in _answer(1).items()}
    expected = stopping(by_hand(1, "a/", "a"), stopping(by_hand(2, "b/", "b"), last))
    assert same(masses, expected)
    assert not same(masses, stopping(by_hand(1, "a/", "a"), stopping(by_hand(1, "b/", "b"), last)))
    assert {draw.stopped for draw in draws.values()} == {"a", "b", None}
    for draw in draws.values():
        inner = draw.within("b")
        at_b = [name for name in draw.released if name.startswith("b/")]
        assert [f"b/{name}" for name in inner.released] == at_b


def _answer(scale: int) -> dict[int, float]:
    truth = float(1 / (1 + np.exp(-1 / scale)))
    return {1: truth, 0: 1 - truth}


def test_likelihoods_of_nested_plans_are_their_masses() -> None:
    """Planted: likelihoods of parts with other noise, and of parts in another order."""
    deep: Plan = (Part("in", (Part("a", twice(1)), answers("x", 2))), Part("b", twice(3)))
    assert likelihoods_are_masses(law(deep))
    other: Plan = (Part("in", (Part("a", twice(2)), answers("x", 2))), Part("b", twice(3)))
    assert not likelihoods_are_masses(law(deep), law(other))
    turned: Plan = (Part("in", (Part("a", twice(1)), answers("x", 3))), Part("b", twice(2)))
    assert not likelihoods_are_masses(law(deep), law(turned))


def test_a_part_is_built_from_the_transcript() -> None:
    """Planted: the part as declared, whatever was released."""
    plan: Plan = (answers("side"), Adaptive(asked((0,)), Released(("side",), side), asked))
    masses, _ = enumerated(law(plan))
    expected: Masses = {}
    for value, mass in _answer(1).items():
        after = by_hand(1 + value, "p/", "p")
        expected |= {((("side", (value,)), *o), s): mass * m for (o, s), m in after.items()}
    assert same(masses, expected)
    assert likelihoods_are_masses(law(plan))
    assert not likelihoods_are_masses(law(plan), law((answers("side"), asked((0,)))))
    assert not same(enumerated(law((answers("side"), asked((0,)))))[0], expected)


def test_adaptive_stages_of_one_plan_in_two_parts_read_their_own_part() -> None:
    """Planted: a memo or a reading that does not know which part it is in."""
    inner: Plan = (
        answers("side"),
        adaptive(
            answers("more"),
            ("side",),
            lambda b: side(b)[:, 0],
            lambda k: answers("more", 1 + 3 * k),
        ),
    )
    plan: Plan = (Part("a", inner), Part("b", inner))
    masses, _ = enumerated(law(plan))
    expected: Masses = {}
    for a, left in _answer(1).items():
        for x, kept in _answer(1 + 3 * a).items():
            for b, right in _answer(1).items():
                for y, again in _answer(1 + 3 * b).items():
                    key = ("a/side", (a,)), ("a/more", (x,)), ("b/side", (b,)), ("b/more", (y,))
                    expected[key, None] = left * kept * right * again
    assert same(masses, expected)
    assert likelihoods_are_masses(law(plan))


def test_a_batch_of_parts_is_what_its_draws_are_alone() -> None:
    """Shapes, stops and reasons of a batch whose draws take different parts; no chance in the
    verdict."""
    plan: Plan = (answers("side"), Adaptive(asked((0,)), Released(("side",), side), asked))
    own = law(plan)
    drawn = own.sample(SeededBits(5), 300)
    assert {drawn[i].stopped for i in range(300)} == {"p", None}
    assert np.isfinite(own.log_likelihood(drawn)).all()
    whole = own.log_likelihood(drawn)
    assert [own.log_likelihood(drawn[i])[0] for i in range(300)] == whole.tolist()
    assert {len(drawn[i].released) for i in range(300) if drawn[i].stopped} == {2}
    impossible = replace(drawn, reached=np.where(drawn.stopped_by >= 0, 3, drawn.reached))
    assert np.isinf(own.log_likelihood(impossible)[drawn.stopped_by >= 0]).all()
    assert outcome(drawn.within("p")[0])[1] == drawn[0].stopped


def test_an_outer_gate_reads_a_stage_of_a_part() -> None:
    plan: Plan = (Part("p", (answers("x"),)), Gate("p/x", 1, "outer"), answers("y"))
    _, draws = enumerated(law(plan))
    assert {(draw.number("p/x"), draw.stopped) for draw in draws.values()} == {
        (0, "outer"),
        (1, None),
    }
    assert likelihoods_are_masses(law(plan))
    with pytest.raises(ValueError, match="a gate reads 'x', which is not released before it"):
        derive((plan[0], Gate("x", 1, "outer")), REPLACE, DOMAIN)


def test_faults_are_planted_in_stages_of_parts_under_their_full_names() -> None:
    plan: Plan = (answers("x"), Adaptive(asked((0,)), Released(("x",), lambda b: b["x"]), asked))
    seen: list[str] = []

    def change(stage: Stage) -> Stage:
        seen.append(stage.name)
        noisy = stage.name == "p/second"
        return replace(stage, noise=KaryResponse(2, 50)) if noisy else stage

    changed = with_stages(plan, change)
    assert seen == ["x", "p/first", "p/second"]
    assert [s.noise.scale for s in stages_of(changed)] == [1, 1, 50]  # type: ignore[attr-defined]
    masses, _ = enumerated(law(changed))
    ends = [float(m) for (o, stopped), m in masses.items() if stopped is None and o[0][1] == (1,)]
    assert len(ends) == 2
    assert abs(np.log(ends[0] / ends[1])) < 1 / 49  # as built, too
