"""Shared parts of the exhibits of Winsorized means: this package's mean with other constants,
and one pair."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpverify import Adjacency, PureDP, WinsorizedMean, conjecture
from dpverify.audit import Exhibit, replaced
from dpverify.grid import ingest
from dpverify.plans import Law, Stage
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.walking import rescaled_stage, with_stages
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

_EPSILON = Fraction(2)
_FAR = 1e308
_BESIDE = 6, 17
"""Cells of the records beside which the quartiles are drawn."""
MEAN = WinsorizedMean.for_budget(
    PureDP(_EPSILON),
    adjacency=Adjacency.REPLACE,
    lower=(0.0,),
    upper=(40.0,),
    noise="laplace",
    cells=40,
)
"""The mean as shipped here: a quarter of epsilon for each quartile, half of it for the sum."""


def released(
    data: Any, size: int, bits: Bits, *, quartiles: Fraction, noise: Fraction
) -> Sequence[int]:
    """Return how many of three releases point to the lower end: the quartiles that are below the
    records beside them, and the noisy sum of the clipped records if it is below the range's middle.

    Cells between two records are equally likely, so this is enough to refute the claim. The scales
    of the choices and of the noise are multiplied by the given factors.
    """
    law = _law(tuple(data), quartiles, noise)
    values = law.sample(bits, size).values
    quartiles_below = np.count_nonzero(values["quartiles"] < _BESIDE, axis=1)
    pointing: Sequence[int] = (quartiles_below + (values["sum"][:, 0] < 0)).tolist()
    return pointing


@lru_cache(maxsize=4)
def _law(data: tuple[Any, ...], quartiles: Fraction, noise: Fraction) -> Law:
    """Return the law, cached for a dataset: a sum has a stage for every two quartiles."""

    def change(stage: Stage) -> Stage:
        return rescaled_stage(stage, quartiles if stage.name == "quartiles" else noise)

    plan = with_stages(MEAN.fixed_plan, change)
    return FaultyLaw(plan, ingest(data, MEAN.domain), MEAN.adjacency, MEAN.domain)


def exhibit(
    name: str, function: Any, statement: str, why: str, quick_trials: int | None = None
) -> Exhibit:
    """Claim (2, 0)-DP, for one of four records that goes from the upper end to the lower one.

    Every cell then has one more record below. Where those are too few for a quartile, its score
    improves by one; where they are too many, it worsens by one. The other three records lie so
    that each quartile is drawn from the cells above with more than 80%. A cell below therefore
    gains nearly twice what one rank is worth, once in its own weight and once in the sum of all.
    And the mean moves by its whole range.
    """
    return Exhibit(
        name=name,
        function=function,
        claim=conjecture(
            PureDP(_EPSILON),
            adjacency=Adjacency.REPLACE,
            domain=Domain(columns=1),
            source=Source(
                "S11", statement, SourceStatus.REFUTED, "a public implementation's constants"
            ),
        ),
        pairs=(
            replaced("from end to end, past the others", [-_FAR, *map(float, _BESIDE), 17.0], _FAR),
        ),
        why=why,
        quick_trials=quick_trials,
    )
