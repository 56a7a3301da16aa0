"""Lists of a public size: what is on them, in which order, what runs on them, and faults in how
they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import pytest

from dpverify.audit import Fault, Verdict, added, audit
from dpverify.grid import UNIT, Count, OneUnit, Query, Transcripts, View
from dpverify.grid.queries import Answers, ClampedSum
from dpverify.grid.splits import ByIndex
from dpverify.grid.steps import StepSums
from dpverify.grid.transcripts import NOTHING, Released
from dpverify.plans import (
    Adaptive,
    Blocks,
    DiscreteLaplace,
    Law,
    Mechanism,
    Part,
    Plan,
    RoundedGaussian,
    Stage,
)
from dpverify.plans.plan import derive, stages_of
from dpverify.plans.transforming import Transformation
from dpverify.plans.walking import is_latent
from dpverify.privacy import Adjacency, Domain, GaussianDP, Norm, PureDP, Source, rules
from dpverify.privacy.hypotheses import Quantity
from dpverify.randomness import Bits, SeededBits, enumerate_law
from dpverify.transformations import Truncation
from spec import truncation

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE = Domain(columns=1)
LIST = Truncation(low=(-1.0,), high=(1.0,), size=3, pad=(1.0,))
SUM = ClampedSum(-1, 1, 0, 0)
EDGES = Released((), lambda before: (np.array([[0.5]]), np.zeros(len(before), np.intp)))
DATA = [[], [5.0], [0.25, 9.0, -1.0], [-1.0, 1.0, 0.0, 5.0, 0.5], [1e308, -1e308, 5e-324, -0.0]]


def stage(query: Query = SUM, scale: Any = 2) -> Stage:
    return Stage("sum", query, DiscreteLaplace(Fraction(scale)))


def on(listed: Any, *plan: Any) -> Plan:
    return (Part("list", tuple(plan), on=listed),)


@pytest.mark.parametrize("data", DATA, ids=str)
@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_list_is_the_spec_s(data: list[float], size: int) -> None:
    listed = replace(LIST, size=size).listed(np.array(data, np.float64).reshape(-1, 1) + 0.0)
    expected = truncation.of_public_size(data, lambda x: -1 <= x <= 1, size, 1.0)
    assert listed[:, 0].tolist() == [*expected]
    assert listed.shape == (size, 1)


def test_boxes_have_a_side_for_each_column() -> None:
    box = Truncation(low=(0.0, -np.inf), high=(1.0, 2.0), size=2, pad=(0.5, 0.5))
    records = np.array([[0.5, 3.0], [1.0, -1e308], [2.0, 0.0], [0.0, 2.0], [0.5, 0.0]])
    assert box.listed(records).tolist() == [[1.0, -1e308], [0.0, 2.0]]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_all_orders_are_equally_likely(n: int) -> None:
    enumeration = enumerate_law(lambda bits: tuple(bits.order(n).tolist()), max_choices=9)
    assert enumeration.undecided == 0
    every = [*permutations(range(n))]
    assert enumeration.masses == dict.fromkeys(every, Fraction(1, len(every)))


def test_orders_of_words_are_equally_likely_after_every_retry() -> None:
    """The shipped loop on words of 2 bits, of which a 3 is drawn anew: each of 6 orders has a
    sixth of the mass, but for the longest paths'."""
    enumeration = enumerate_law(
        lambda bits: tuple(bits.order(3).tolist()), word_bits=2, max_choices=8, follow_retries=True
    )
    assert set(enumeration.masses) == {*permutations(range(3))}
    assert enumeration.undecided < Fraction(1, 1000)
    assert all(
        m <= Fraction(1, 6) <= m + enumeration.undecided for m in enumeration.masses.values()
    )


@pytest.mark.parametrize("n", [63, 64, 65, 1000])
def test_the_places_of_long_orders_are_uniform(n: int) -> None:
    """Draw 1500 orders: where the last number is, and what is first, in four quarters each
    within 6 deviations of what uniform places have (false alarm below 1e-7); every order has
    every number once."""
    bits = SeededBits(5)
    orders = np.array([bits.order(n) for _ in range(1500)])
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    for places in (np.argmax(orders == n - 1, axis=1), orders[:, 0], orders[:, n // 2]):
        for quarter in range(4):
            share = ((np.arange(n) * 4 // n) == quarter).mean()
            seen = int((places * 4 // n == quarter).sum())
            assert abs(seen - 1500 * share) < 6 * np.sqrt(1500 * share * (1 - share))


def test_what_depends_on_the_order_has_the_spec_s_law() -> None:
    """The first of two records of a list, exactly: the shipped law over all coins. False twin:
    the list as it is."""
    plan = on(replace(LIST, size=2), Stage("first", _First(), _Quiet()))
    law = Law(plan, np.array([[-1.0], [5.0], [1.0], [1.0]]), ADD, ONE)

    def run(bits: Bits) -> Any:
        return tuple(law.sample(bits, 1)[0].released["list/first"])

    expected: dict[Any, Fraction] = {}
    for order, mass in truncation.law([-1, 5, 1, 1], lambda x: x != 5, 2, 1).items():
        expected[order[:1]] = expected.get(order[:1], Fraction(0)) + mass
    assert enumerate_law(run, max_choices=9).masses == expected
    assert expected != {(-1,): Fraction(1)}


def test_every_draw_has_an_order_of_its_own() -> None:
    """Draw a list of two 600 times: both firsts are drawn, in a share within 6 deviations of
    half: false alarm below 1e-8."""
    plan = on(replace(LIST, size=2), Stage("first", _First(), _Quiet()))
    law = Law(plan, np.array([[-1.0], [1.0]]), ADD, ONE)
    first = law.sample(SeededBits(7), 600).values["list/first"][:, 0]
    assert abs(int((first == 1).sum()) - 300) < 6 * np.sqrt(150)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_claim_is_that_for_lists(adjacency: Adjacency) -> None:
    """Sums of lists under replace: twice the radius, under either adjacency; and what does not
    matter is not shuffled."""
    plan = on(LIST, stage())
    derivation = derive(plan, adjacency, ONE)
    assert derivation.conclusion.guarantee == PureDP(1)
    assert derivation.conclusion.adjacency is adjacency
    lemmas = {lemma.obligation for lemma in derivation.lemmas}
    assert lemmas == {
        "truncation.py:obligation_coupling",
        "theory/queries.py:obligation_clamped_sum",
    }
    assert not is_latent(plan)
    one, other = (Law(plan, np.array(d), adjacency, ONE) for d in ([[1.0], [9.0]], [[9.0], [1.0]]))
    batch = one.sample(SeededBits(1), 50)
    assert (one.log_likelihood(batch) == other.log_likelihood(batch)).all()
    assert one.center_after(Stage("list/sum", SUM, plan[0].plan[0].noise), ()).tolist() == [3]  # type: ignore[union-attr]


def test_disjoint_chunks_of_a_list_are_paid_for_once_under_both_adjacencies() -> None:
    """Divide by index, which under add-remove has no claim on the records themselves."""
    chunks = Blocks("chunk", ByIndex(2), ((stage(),), (stage(),)))
    for adjacency in Adjacency:
        claim = derive(on(LIST, chunks), adjacency, ONE).conclusion
        assert (claim.guarantee, claim.adjacency) == (PureDP(1), adjacency)
    with pytest.raises(ValueError, match="the conclusion is asked under add-remove"):
        derive((chunks,), ADD, ONE)
    assert is_latent(on(LIST, chunks))
    law = Law(on(LIST, chunks), np.array([[1.0]] * 5), ADD, ONE)
    batch = law.sample(SeededBits(3), 40)
    assert {*batch.values} == {"list/chunk/0/sum", "list/chunk/1/sum"}
    with pytest.raises(TypeError, match="latent"):
        law.log_likelihood(batch)


def test_a_list_of_a_list_is_of_a_shuffled_one() -> None:
    """Shuffle twice: the first record is one of four with a fourth of the mass, though no query
    looks at the order. False alarm below 1e-8 (6 deviations)."""
    inner = Part("in", (stage(SUM, "1/1000"),), on=replace(LIST, size=1))
    plan = (Part("out", (inner,), on=replace(LIST, size=4)),)
    assert is_latent(plan)
    law = Law(plan, np.array([[-1.0], [1.0], [1.0], [1.0]]), ADD, ONE)
    first = law.sample(SeededBits(5), 400).values["out/in/sum"][:, 0]
    assert abs(int((first == -1).sum()) - 100) < 6 * np.sqrt(75)


def test_every_other_record_of_a_list_is_no_false_claim() -> None:
    """A map that looks at places, private under replace alone: on a list each draw has its own
    order."""
    halves = Part("half", (stage(),), on=_EveryOther())
    plan = (Part("list", (halves,), on=replace(LIST, size=20)),)
    assert derive(plan, ADD, ONE).conclusion.guarantee == PureDP(1)
    assert is_latent(plan)
    law = Law(plan, np.array([[1.0], [-1.0]] * 10), ADD, ONE)
    assert len({*law.sample(SeededBits(5), 60).values["list/half/sum"][:, 0].tolist()}) > 5


def test_centers_are_those_of_what_is_built_and_others_need_no_order() -> None:
    """A box that follows from a number before it, in a part of a part; beside a part whose order
    matters."""
    few, many = (Part("p", (stage(),), on=replace(LIST, size=k)) for k in (1, 3))
    number = Stage("n", Count(), DiscreteLaplace(Fraction(1)))
    after: Released[Any] = Released(("n",), lambda b: np.asarray(b["n"], np.int64)[:, :1])
    built = Adaptive(few, after, lambda row: many if row[0] > 5 else few)
    latent = Part("a", (Stage("first", _First(), _Quiet()),), on=LIST)
    inner = Part("w", (number, built))
    plan = (latent, inner, Part("b", (stage(),)))
    law = Law(plan, np.ones((4, 1)), ADD, ONE)
    stages = {one.name: one for one in stages_of(plan)}
    prefix = [(1,), (9,), (0,)]
    assert law.center_after(stages["b/sum"], prefix).tolist() == [4]
    assert law.built_after(stages["w/p/sum"], prefix[:2])[1].tolist() == [3]
    assert law.center_after(stages["w/p/sum"], prefix[:2]).tolist() == [3]
    assert law.built_after(stages["w/p/sum"], [(1,), (2,)])[1].tolist() == [1]
    with pytest.raises(TypeError, match="depends on the order of a list"):
        law.center_after(stages["a/first"], [])


@dataclass(frozen=True, slots=True)
class _EveryOther(Transformation):
    """Records in even places: replacing one replaces one at most."""

    within: ClassVar[Adjacency] = REPLACE

    def listed(self, records: Any) -> Any:
        return records[::2]

    def carry(self, inner: Any, adjacency: Adjacency, domain: Domain) -> Any:
        assert adjacency is REPLACE
        coupling = rules.sensitivity_lemma(
            Quantity.of("every other record", "Planted"), norm=Norm.COUPLED, value=1,
            adjacency=adjacency,
            domain=domain, obligation="truncation.py:obligation_coupling",
            source=Source("OURS", "a test"), keeps=REPLACE,
        )  # fmt: skip
        return rules.coupled_map(inner, coupling)


@dataclass(frozen=True, slots=True)
class _First(Query):
    """The first record: what depends on the order."""

    width = 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Any:
        return np.array([int(view.records[0, 0])])

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Any:
        return SUM.sensitivity(adjacency, domain)


class _Quiet(RoundedGaussian):
    """A law without any noise, planted so that the order shows."""

    def __init__(self) -> None:
        super().__init__(Fraction(1))

    def sample(self, bits: Bits, center: Any, size: int) -> Any:
        return np.tile(center, (size, 1))


# --- faults -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeanPads(Truncation):
    def listed(self, records: Any) -> Any:
        kept = records[(records >= self.low) & (records <= self.high)][: self.size]
        mean = kept.mean() if len(kept) else 0.0
        return np.r_[kept, np.full(self.size - len(kept), mean)][:, np.newaxis]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trimmed(Truncation):
    """A size that follows from the data: half of the records inside."""

    def listed(self, records: Any) -> Any:
        kept = records[(records >= self.low) & (records <= self.high)]
        return kept[: len(kept) // 2][:, np.newaxis]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Both(Truncation):
    """Trims what is inside to an even number, then pads with what was there last."""

    def listed(self, records: Any) -> Any:
        kept = records[(records >= self.low) & (records <= self.high)]
        kept = kept[len(kept) % 2 :][: self.size]
        return np.r_[kept, np.full(self.size - len(kept), -1.0 if len(kept) % 4 else 1.0)][
            :, np.newaxis
        ]


def _moves(listed: Truncation, left: list[float], right: list[float]) -> int:
    """Return how far the clamped sum of the lists moves; by 2 at most where one record is
    replaced."""
    sums = [
        SUM.evaluate(View(listed.listed(np.array(data).reshape(-1, 1)))) for data in (left, right)
    ]
    return abs(int(sums[0][0] - sums[1][0]))


def test_faulty_lists_move_the_sum_by_more_than_a_replaced_record_does() -> None:
    """One record enters. The spec's twins of the coupling are the same faults, on all small
    datasets."""
    parameters = {"low": (-1.0,), "high": (1.0,), "size": 8, "pad": (1.0,)}
    many = [1.0] * 5 + [-1.0] * 5
    assert max(_moves(Truncation(**parameters), many, [x, *many]) for x in (-1.0, 1.0, 9.0)) == 2  # type: ignore[arg-type]
    assert _moves(_MeanPads(**parameters), [-1.0], [1.0, -1.0]) > 2  # type: ignore[arg-type]
    assert _moves(_Both(**parameters), [1.0] * 3, [1.0] * 4) > 2  # type: ignore[arg-type]
    rows = [len(_Trimmed(**parameters).listed(np.ones((n, 1)))) for n in (5, 6)]  # type: ignore[arg-type]
    assert rows == [2, 3]


def test_a_list_that_is_not_shuffled_shows_in_chunks() -> None:
    """Planted: chunks of the list in its own order. One record in front moves the sums of both
    chunks, for which nobody pays."""
    left = [1.0, -1.0, 1.0, -1.0]
    listed = replace(LIST, size=4)
    sums = []
    for data in (left, [-1.0, *left]):
        rows = View(listed.listed(np.array(data).reshape(-1, 1)))
        sums.append([int(SUM.evaluate(view)[0]) for view in rows.parts(ByIndex(2))])
    assert sums == [[2, -2], [-2, 2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunks(Mechanism[Any]):
    """Noisy sums of two chunks of a list of four."""

    def plan(self) -> Plan:
        own = (stage(scale=self.noise_multiplier),)
        return on(replace(LIST, size=4), Blocks("chunk", ByIndex(2), (own, own)))

    def estimate(self, transcript: Transcripts) -> Any:
        return transcript


def test_an_audit_of_chunks_is_silent_and_sees_a_list_that_is_not_shuffled() -> None:
    """A record enters in front. Planted: the same chunks of the list in its own order. False
    alarm below 1e-6 over both."""
    mechanism = _Chunks(adjacency=ADD, noise_multiplier=Fraction(1))
    (listed,) = mechanism.fixed_plan
    assert isinstance(listed, Part)

    def unshuffled(data: Any) -> Law:
        rows = replace(LIST, size=4).listed(np.asarray(data, np.float64).reshape(-1, 1))
        return Law(listed.plan, rows, REPLACE, ONE)

    pair = added("in front", [1.0, -1.0, 1.0, -1.0], -1.0, at=0)
    planted = [Fault("does not shuffle", unshuffled)]
    result = audit(mechanism, pairs=[pair], faults=planted, trials=3000, seed=3)
    assert result.verdict is Verdict.CONSISTENT


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pad": (2.0,)}, "those of the pad between the others"),
        ({"pad": (float("nan"),)}, "finite numbers"),
        ({"low": (2.0,)}, "those of the pad between the others"),
        ({"low": (0.0, 0.0)}, "as many finite numbers"),
        ({"size": 0}, "from 1 to 2^24"),
        ({"size": 2**24 + 1}, "from 1 to 2^24"),
    ],
)
def test_wrong_lists_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        replace(LIST, **changes)


def test_claims_that_are_not_about_lists_are_refused() -> None:
    gaussian = rules.conjecture(GaussianDP(1), adjacency=ADD, domain=ONE)
    with pytest.raises(ValueError, match="in steps of replace; the claim is under add-remove"):
        LIST.carry(gaussian, REPLACE, ONE)
    short = Domain(columns=1, most_rows=2)
    for domain in (Domain(columns=2), short):
        inner = rules.conjecture(GaussianDP(1), adjacency=REPLACE, domain=domain)
        with pytest.raises(ValueError, match="A list of 3 records of 1 columns"):
            LIST.carry(inner, ADD, domain)


QUERIES: list[Query] = [
    Count(),
    Count((-0.5, 0.5)),
    SUM,
    OneUnit(StepSums(cells=1, edges=EDGES), Fraction(UNIT)),
]


def test_what_is_said_not_to_depend_on_the_order_does_not() -> None:
    """All queries of these kinds; a list of answers does, and says so."""
    records = np.array([[0.1], [0.9], [-0.4], [7.0]])
    batch = Transcripts({}, np.zeros(1, np.intp), np.zeros(1, np.intp), ())
    for query in QUERIES:
        assert query.in_any_order
        values = {
            tuple(np.ravel(query.evaluate(View(records[[*order]]), batch)).tolist())
            for order in permutations(range(4))
        }
        assert len(values) == 1
    assert not Answers(3).in_any_order
