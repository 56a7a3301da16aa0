"""Converters in annotations: what is kept, what is refused, and that none is passed over."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import dpverify
from dpverify import Abstained, Adjacency
from dpverify.grid import Count
from dpverify.plans import DiscreteLaplace, Mechanism, Plan, Stage, Transcripts
from dpverify.plans.parameters import (
    AtLeast,
    Cell,
    Delta,
    Share,
    converted,
    one_of,
    positive,
    probability,
    rational,
    whole_from,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy(Mechanism[int]):
    """A count with parameters of all kinds."""

    share: Share = Fraction(1, 4)
    at_least: AtLeast = 1
    cell: Cell | None = None
    delta: Delta | None = None
    length: Annotated[float, positive(as_given=True)] = 1.0
    kind: Annotated[Literal["a", "b", "c"], one_of("a", "b", "c")] = "a"
    twice: Annotated[int, whole_from(0, most=9), lambda value, name: 2 * value] = 1
    plain: Any = None
    unread: Annotated[Any, "a text is no converter"] = None

    def plan(self) -> Plan:
        return (Stage("count", Count(), DiscreteLaplace(self.noise_multiplier)),)

    def estimate(self, transcript: Transcripts) -> int | Abstained:
        return transcript.number("count")


def toy(**parameters: Any) -> Toy:
    return Toy(adjacency=Adjacency.ADD_REMOVE, **{"noise_multiplier": 2, **parameters})


def test_what_is_kept_is_what_the_converter_gives() -> None:
    made = toy(noise_multiplier="3/2", share="1/3", at_least=np.int64(2), cell=0.25, delta="1e-6")
    assert (made.noise_multiplier, made.share, made.delta) == (
        Fraction(3, 2),
        Fraction(1, 3),
        Fraction(1, 10**6),
    )
    assert type(made.at_least) is int
    assert made.cell == Fraction(1, 4)
    assert type(made.cell) is Fraction
    given = toy(length="2.50", plain="1/2", unread="x")
    assert repr((given.length, given.plain, given.unread)) == "('2.50', '1/2', 'x')"
    again = dataclasses.replace(made, kind="b")
    assert (again.share, again.cell, again.kind) == (made.share, made.cell, "b")


def test_none_is_kept_where_the_annotation_allows_it_and_refused_elsewhere() -> None:
    assert toy(cell=None, delta=None).cell is None
    with pytest.raises(TypeError, match="share is a NoneType"):
        toy(share=None)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"share": "1"}, ValueError, "share = 1 is outside (0, 1); try '1/4'."),
        ({"share": 0.0}, ValueError, "share = 0.0 is outside (0, 1); try '1/4'."),
        ({"delta": 2}, ValueError, "delta = 2 is outside (0, 1); try '1e-6'."),
        ({"at_least": 0}, ValueError, "at_least = 0; a mean needs at least 1 record."),
        ({"at_least": 1.0}, TypeError, "at_least = 1.0 is a float; give an integer."),
        ({"at_least": True}, TypeError, "at_least = True is a bool; give an integer."),
        ({"twice": 10}, ValueError, "twice = 10; give an integer from 0 to 9."),
        ({"twice": -1}, ValueError, "twice = -1; give an integer from 0 to 9."),
        (
            {"cell": "1/3"},
            ValueError,
            "cell = 1/3 is not a power of two; write for example '1/1024'.",
        ),
        ({"length": "-0.50"}, ValueError, "length = -0.50 is not positive; give one above 0."),
        ({"kind": "d"}, ValueError, "kind = 'd'; write 'a', 'b' or 'c'."),
        (
            {"noise_multiplier": 0},
            ValueError,
            "noise_multiplier = 0 is not positive; use for_budget(...).",
        ),
    ],
)
def test_a_refusal_says_what_was_given(
    given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as refused:
        toy(**given)
    assert str(refused.value) == message


def test_converters_are_applied_one_after_the_other() -> None:
    assert toy(twice=3).twice == 6


def test_the_ends_of_intervals() -> None:
    assert whole_from(2, "", most=5)(5, "k") == 5
    assert rational(lambda x: x <= 1, "")("1", "x") == 1
    for beta in (0, 1, -1, 2):
        with pytest.raises(ValueError, match="is outside"):
            probability(beta, "beta")


def test_the_mechanisms_have_their_converters() -> None:
    # a converter that is passed over leaves a parameter as it was given
    kinds = [getattr(dpverify, name) for name in dpverify.__all__]
    kinds = [k for k in kinds if isinstance(k, type) and issubclass(k, Mechanism)]
    assert len(kinds) >= 20
    made = dpverify.ClippedMean(
        adjacency=Adjacency.REPLACE, noise_multiplier=Fraction(2), center=(0.0,), radius=1.0
    )
    assert {"noise_multiplier", "center", "radius", "at_least", "outside"} == converted(made).keys()
