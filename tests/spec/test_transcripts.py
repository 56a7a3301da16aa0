"""Transcripts: the law of several stages, the later ones chosen, or not reached, by the earlier."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dpverify.privacy import Adjacency
from spec import bounded_mean
from spec.theory.laws import (
    DiscreteLaplaceLaw,
    IntegerLaw,
    KaryResponseLaw,
    Outcome,
    PointLaw,
    TranscriptLaw,
    closed,
    real_exponential,
)

_SCALE = Fraction(1)
_WEIGHT = Fraction(1, 3)


def _formal(exponent: Fraction) -> Fraction:
    assert exponent.denominator == 1
    return _WEIGHT**exponent.numerator


def _coin(prefix: tuple[Outcome, ...]) -> IntegerLaw:
    return KaryResponseLaw((0,), 2, _SCALE)


def _after_heads(prefix: tuple[Outcome, ...]) -> IntegerLaw | None:
    """Stops after (1,); else three categories about the first outcome."""
    return None if prefix[0] == (1,) else KaryResponseLaw((2,), 3, _SCALE)


def _copy(prefix: tuple[Outcome, ...]) -> IntegerLaw:
    return PointLaw(prefix[1])


_LAW = TranscriptLaw(
    (("coin", _coin), ("choice", _after_heads), ("copy", _copy)), example=((0,), (1,))
)
_KEPT, _CHANGED = Fraction(3, 4), Fraction(1, 4)  # 1 / (1 + 1/3) and the rest


@pytest.mark.parametrize(
    ("transcript", "mass"),
    [
        (((1,),), _CHANGED),
        (((0,), (2,), (2,)), _KEPT * Fraction(3, 5)),
        (((0,), (0,), (0,)), _KEPT * Fraction(1, 5)),
        (((0,), (0,), (1,)), Fraction(0)),
    ],
)
def test_a_whole_transcript_has_the_product_of_its_masses(
    transcript: tuple[Outcome, ...], mass: Fraction
) -> None:
    assert mass == _LAW.probability(transcript, _formal)


@pytest.mark.parametrize("transcript", [(), ((0,),), ((0,), (2,))])
def test_a_prefix_is_no_transcript(transcript: tuple[Outcome, ...]) -> None:
    assert _LAW.probability(transcript, _formal) == 0


@pytest.mark.parametrize(
    "transcript",
    [((1,), (2,)), ((1,), (2,), (2,)), ((0,), (2,), (2,), (2,)), ((0,), (2,), (2,), ())],
)
def test_more_than_a_transcript_is_none(transcript: tuple[Outcome, ...]) -> None:
    assert _LAW.probability(transcript, _formal) == 0


def test_all_transcripts_together_have_mass_one() -> None:
    outcomes = [(x,) for x in range(3)]
    coins = [(0,), (1,)]
    every: list[tuple[Outcome, ...]] = [(c,) for c in coins]
    every += list(product(coins, outcomes)) + list(product(coins, outcomes, outcomes))
    assert sum(_LAW.probability(transcript, _formal) for transcript in every) == 1


def test_stage_laws_are_those_after_the_example() -> None:
    assert _LAW.stage_laws() == [
        ("coin", KaryResponseLaw((0,), 2, _SCALE)),
        ("choice", KaryResponseLaw((2,), 3, _SCALE)),
        ("copy", PointLaw((1,))),
    ]
    stopping = TranscriptLaw((("coin", _coin), ("choice", _after_heads)), example=((1,),))
    assert [name for name, _ in stopping.stage_laws()] == ["coin"]


def test_a_closed_law_is_a_transcript_of_one() -> None:
    law = closed("count", DiscreteLaplaceLaw(2, _SCALE))
    assert law.probability(((2,),), _formal) == Fraction(1, 2)  # (1 - 1/3) / (1 + 1/3)
    assert law.probability((), _formal) == 0
    assert law.probability(((2,), (2,)), _formal) == 0


def test_a_point_has_all_the_mass() -> None:
    here, there = PointLaw((1, 2)), PointLaw((2, 1))
    assert here.probability((1, 2), _formal) == 1
    assert here.probability((2, 1), _formal) == 0
    assert here.largest_loss(here) == 0
    assert here.largest_loss(there) is None
    for epsilon in (Fraction(0), Fraction(700)):
        assert here.profile(here, epsilon) == 0
        assert here.profile(there, epsilon) == 1
    assert here.facts() == ("NoNoise", (1, 2))


def _mean(adjacency: Adjacency, at_least: int) -> Mapping[str, Any]:
    return {
        "adjacency": adjacency,
        "noise_multiplier": Fraction(1),
        "lower": 0.0,
        "upper": 2.0,
        "count_share": Fraction(1, 2),
        "at_least": at_least,
        "cell": Fraction(1),
    }


def test_the_mean_s_transcripts_stop_below_the_least_count() -> None:
    # Scales 1 / (1/2) for the count and for the sum about 1: weight 1/3 stands for e^(-1/2).
    def formal(exponent: Fraction) -> Fraction:
        return _WEIGHT ** (2 * exponent).numerator

    law = bounded_mean.law(_mean(Adjacency.ADD_REMOVE, 2), [Fraction(5), Fraction(2)])
    count = DiscreteLaplaceLaw(2, Fraction(2))
    total = DiscreteLaplaceLaw(2, Fraction(2))  # both records clamped to 2, about 1
    assert law.probability(((1,),), formal) == count.probability((1,), formal)
    assert law.probability(((2,),), formal) == 0
    assert law.probability(((1,), (2,)), formal) == 0
    for c, s in product((2, 3, 5), (-1, 2, 4)):
        expected = count.probability((c,), formal) * total.probability((s,), formal)
        assert expected == law.probability(((c,), (s,)), formal)


def test_the_mean_s_count_is_public_under_replace() -> None:
    law = bounded_mean.law(_mean(Adjacency.REPLACE, 1), [Fraction(0), Fraction(2)])
    assert law.stage_laws() == [
        ("count", PointLaw((2,))),
        ("sum", DiscreteLaplaceLaw(0, Fraction(2))),
    ]
    assert law.probability(((3,), (0,)), real_exponential) == 0
    assert law.probability(((2,), (0,)), real_exponential) > 0
