"""Winsorized means with the constants of public implementations: what they lose, by the spec's
law."""

from __future__ import annotations

import importlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from scipy import stats

from audits.exhibits._winsorized import MEAN, released
from dpverify import PureDP
from dpverify.audit import Exhibit
from dpverify.randomness import SeededBits
from spec import winsorized_mean as spec
from spec.theory.laws import DiscreteLaplaceLaw, real_exponential
from spec.theory.quantiles import QuantilesLaw

CONSTANTS = {
    "half_scale": (Fraction(1, 2), Fraction(1)),
    "half_range": (Fraction(1, 2), Fraction(1, 4)),
}
"""Of each exhibit: by what the scale of the quartiles' choices is multiplied, and that of the
noise."""
SHIPPED = Fraction(1), Fraction(1)
BELOW = (
    6,
    17,
)  # the event: the quartiles are below these cells, and the sum is below the range's middle


def _exhibit(name: str) -> Exhibit:
    exhibit = importlib.import_module(f"audits.exhibits.winsorized_{name}").EXHIBIT
    assert isinstance(exhibit, Exhibit)
    return exhibit


def _sides() -> list[tuple[tuple[Fraction, ...], ...]]:
    pair = _exhibit("half_scale").pairs[0]
    return [tuple((Fraction(x),) for x in side) for side in (pair.left, pair.right)]


def _quartiles(rows: Any, factor: Fraction) -> QuantilesLaw:
    law = spec.quartile_law(MEAN.parameters, rows)
    return replace(law, parts=tuple(replace(one, scale=one.scale * factor) for one in law.parts))


def _probability(rows: Any, constants: tuple[Fraction, Fraction]) -> Any:
    """Compute the event's probability exactly: over all quartiles in it, the noise's probability
    to lie below."""
    e, probability, quartiles = real_exponential, mp.mpf(0), _quartiles(rows, constants[0])
    sums = dict(spec.law(MEAN.parameters, rows).stages)["sum"]
    first, second = (
        [part.probability((t,), e) for t in range(end)]
        for part, end in zip(quartiles.parts, BELOW, strict=True)
    )
    for a, p in enumerate(first):
        for b, q in enumerate(second):
            stage: Any = sums(((a, b), (len(rows),)))
            noise = DiscreteLaplaceLaw(stage.center[0], stage.scale * constants[1])
            probability += p * q * noise.at_most(-1, e)
    return probability


def _loss(constants: tuple[Fraction, Fraction]) -> float:
    left, right = (_probability(rows, constants) for rows in _sides())
    return float(mp.log(left / right))


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_claim_is_false_by_the_law_and_true_with_the_shipped_scales(name: str) -> None:
    claimed = _exhibit(name).claim.conclusion.guarantee
    assert claimed == PureDP(2)
    assert _loss(CONSTANTS[name]) > 2.4 > 2 > _loss(SHIPPED)


def test_what_is_lost_is_at_most_half_as_much_again() -> None:
    """1.5 epsilon in all: epsilon / 2 of either quartile, and as much of the sum. The event has
    2.42 of 3."""
    left, right = (_quartiles(rows, Fraction(1, 2)) for rows in _sides())
    assert max(left.ranges(right)) == 1
    assert _loss(CONSTANTS["half_scale"]) == pytest.approx(2.424, abs=1e-3)
    assert float(_probability(_sides()[0], CONSTANTS["half_scale"])) == pytest.approx(
        0.0532, abs=1e-4
    )


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("side", [0, 1])
def test_the_exhibit_draws_from_that_law(name: str, side: int) -> None:
    """A binomial count of 30,000 draws; false alarm 1e-6. With the shipped scales it would be
    rejected."""
    exhibit, draws = _exhibit(name), 30_000
    data: Any = (exhibit.pairs[0].left, exhibit.pairs[0].right)[side]
    exact = float(_probability(_sides()[side], CONSTANTS[name]))

    def p_value(outputs: Any) -> float:
        hits = outputs.count(3)  # all three point to the lower end
        return float(stats.binomtest(hits, draws, exact).pvalue)

    assert p_value(exhibit.function(data, draws, SeededBits(1, side))) > 1e-6
    honest = released(data, draws, SeededBits(1, side), quartiles=SHIPPED[0], noise=SHIPPED[1])
    assert p_value(honest) < 1e-6
