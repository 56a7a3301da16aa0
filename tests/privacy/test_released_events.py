"""Events of a stage's own noise: exactly as likely as the rules say, and about their own
release."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency, GaussianDP, Norm, PureDP, rules
from dpverify.privacy.hypotheses import (
    Compared,
    Passed,
    Quantity,
    Relation,
    Seen,
    Side,
)
from dpverify.privacy.tails import Tail
from spec.theory import rules as spec_rules
from spec.theory.laws import real

from .makers import NEAR, conjectured, lemma
from .noise_laws import OVERFLOW, assuming, event

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNT = Quantity.of("the count", "Tested")
AT_MOST = Compared("number", Relation.AT_MOST, Side.SMALLER, COUNT)
GATED = Passed("number", 3)
OPEN = assuming(GaussianDP(1))
HAIR = Fraction(1, 10**12)


def closed(**changes: Any) -> Any:
    return conjectured(GaussianDP(1), **changes)


# --- events of a stage's own noise ----------------------------------------------------------------

SCALES = {Tail.DISCRETE_LAPLACE: Fraction(2), Tail.ROUNDED_GAUSSIAN: Fraction(3)}


def exact_tail(noise: Tail, t: int) -> Any:
    """P(Z >= t), by adding up masses."""
    return _exact_tail(noise, t, mp.mp.prec)


@cache
def _exact_tail(noise: Tail, t: int, precision: int) -> Any:
    scale = real(SCALES[noise])
    if noise is Tail.DISCRETE_LAPLACE:
        q = mp.exp(-1 / scale)
        return mp.fsum(q ** abs(z) for z in range(t, t + 400)) * (1 - q) / (1 + q)
    return mp.ncdf(-(t - mp.mpf(1) / 2) / scale)


@pytest.mark.parametrize("noise", SCALES)
def test_tails_are_exact(noise: Tail) -> None:
    from dpverify.privacy.balls import enclose

    with mp.workdps(40):
        for t in range(-8, 30):
            tail = enclose(lambda: noise.at_least(t, SCALES[noise]))  # noqa: B023
            assert tail.lower <= Fraction(str(exact_tail(noise, t))) * (1 + Fraction(1, 10**25))
            assert tail.upper >= Fraction(str(exact_tail(noise, t))) * (1 - Fraction(1, 10**25))


def worst_miss(noise: Tail, fails: Compared, shift: int, moved: int, other: int) -> Any:
    """Return the larger probability of the event under neighbors with values 0 and ``other``."""
    ends = (min(0, other), max(0, other))
    bound = ends[fails.side is Side.LARGER] - fails.slack
    assert abs(other) <= moved
    if fails.relation is Relation.AT_MOST:  # q - shift + Z > bound
        return max(exact_tail(noise, bound + shift - q + 1) for q in (0, other))
    return max(exact_tail(noise, q - shift - bound + 1) for q in (0, other))


@pytest.mark.parametrize("noise", SCALES)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("side", Side)
def test_an_event_of_a_stage_s_noise_is_enumerated(
    noise: Tail, relation: Relation, side: Side
) -> None:
    """Over all pairs of values the probability is at most what is accepted, and is attained by
    some; a hair less is refused."""
    for shift, slack, moved in product((-3, 0, 8), (-6, 0, 2), (0, 1, 5)):
        fails = Compared("number", relation, side, COUNT, slack)
        worst = max(worst_miss(noise, fails, shift, moved, o) for o in range(-moved, moved + 1))
        above, smaller = relation is Relation.AT_MOST, side is Side.SMALLER
        least = spec_rules.missed_number(shift, slack, moved, above=above, smaller=smaller)
        assert mp.almosteq(worst, exact_tail(noise, least), 1e-13)
        allowed = Fraction(str(mp.nstr(worst, 15)))
        premise = lemma(moved, query="the count", shift=shift)
        if allowed < Fraction(99, 100):
            assert _event(fails, premise, noise, allowed * (1 + HAIR)).conclusion.fails == fails
        with pytest.raises(ValueError, match="give a larger shift"):
            _event(fails, premise, noise, allowed * (1 - HAIR))


def _event(fails: Compared, premise: Any, noise: Tail, probability: Fraction) -> Any:
    laplace = noise is Tail.DISCRETE_LAPLACE
    rule: Any = rules.discrete_laplace if laplace else rules.rounded_gaussian
    return rules.released_event(fails, rule(premise, SCALES[noise]), probability=probability)


def test_an_event_is_about_the_stage_s_own_query() -> None:
    for query in ("another count", "the count"):
        quantity = Quantity.of(query, "Tested", predicate="near")
        fails = Compared("number", Relation.AT_MOST, Side.SMALLER, quantity)
        released = rules.discrete_laplace(lemma(1, query=query, shift=40), 1)
        with pytest.raises(ValueError, match="the stage releases"):
            rules.released_event(fails, released, probability="1e-9")
    unknown = rules.randomized_response(lemma(1, norm=Norm.HAMMING), 1)
    with pytest.raises(ValueError, match="the tails of that noise are not known"):
        rules.released_event(AT_MOST, unknown, probability="1e-9")


def test_runs_that_may_each_fail_are_paid_for_each() -> None:
    """Fifty runs under one name, and one event for all of them: each may fail."""
    many = [OPEN] * 50
    with pytest.raises(ValueError, match="if they are two runs, each may fail"):
        rules.compose(*many)
    with pytest.raises(ValueError, match="if they are two runs, each may fail"):
        rules.advanced_compose(many, slack="1e-6")
    paid = rules.compose(*(rules.add_delta_event(one, event("1e-3")) for one in many))
    assert paid.conclusion.guarantee.delta_floor == Fraction(50, 1000)


def test_what_is_known_of_all_records_pays_for_no_block() -> None:
    """A hundred blocks, each with an agreement of its own; the event is about that of all
    records."""
    moved = lemma(1, adjacency=REPLACE, shift=40)
    released = rules.discrete_laplace(moved, 1)
    block = conjectured(PureDP(1), adjacency=REPLACE, hypotheses=(AT_MOST, GATED, OVERFLOW))
    blocks = rules.parallel([block, block], by="index")
    assert len(blocks.conclusion.hypotheses) == 6
    whole = rules.compose(released, blocks)
    rare = rules.released_event(AT_MOST, released, probability="1e-9")
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        rules.add_delta_event(whole, rare)
    assert rules.passed_gate(whole, "number", 9) is whole
    with pytest.raises(ValueError, match="the claim does not rest on its absence"):
        rules.add_delta_event(whole, event("0.1", adjacency=REPLACE))


def test_slacks_and_numbers_are_whole() -> None:
    for wrong in (Fraction(1, 1000), 0.5, True):
        with pytest.raises((TypeError, ValueError)):
            Compared("number", Relation.AT_MOST, Side.SMALLER, COUNT, slack=wrong)  # type: ignore[arg-type]
        with pytest.raises((TypeError, ValueError)):
            Passed("number", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [Fraction(3), Fraction(20)])
def test_records_without_friends_are_kept_as_rarely_as_the_spec_says(sigma: Fraction) -> None:
    score = lemma(2, norm=Norm.L_INFINITY, keeps=NEAR)

    def made(threshold: int, records: int, probability: Fraction) -> Any:
        return rules.kept_by_noise(
            score, sigma=sigma, threshold=threshold, records=records, probability=probability
        )

    for threshold, records in product((30, 80), (1, 7, 1000)):
        near = Fraction(str(mp.nstr(spec_rules.kept_by_noise(2, threshold, sigma, records), 15)))
        if near < Fraction(99, 100):
            bound = made(threshold, records, near * (1 + HAIR)).conclusion
            assert bound.seen is Seen.LATENT
            with pytest.raises(ValueError, match="raise it"):
                made(threshold, records, near * (1 - HAIR))
