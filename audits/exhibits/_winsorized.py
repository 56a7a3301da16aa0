"""What the exhibits of Winsorized means share: this package's mean with other constants."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, PureDP, WinsorizedMean, conjecture
from dpverify.audit import Exhibit, replaced
from dpverify.audit.faults import FaultyLaw
from dpverify.grid import ingest
from dpverify.mechanisms.winsorized_mean import RADIUS
from dpverify.plans import Stage
from dpverify.plans.plan import rescaled_stage, with_stages
from dpverify.privacy import Domain, Source, SourceStatus
from dpverify.randomness import Bits

_EPSILON = Fraction(2)
_FAR = 1e308
MEAN = WinsorizedMean.for_budget(
    PureDP(_EPSILON),
    adjacency=Adjacency.REPLACE,
    lower=(0.0,),
    upper=(6.0,),
    noise="laplace",
    cells=6,
)
"""As shipped here: a quarter of epsilon for each quartile, half of it for the sum."""


def released(
    data: Any, size: int, bits: Bits, *, quartiles: Fraction, noise: Fraction
) -> Sequence[Any]:
    """Both quartiles, and whether the noisy sum is below two half ranges, which is enough.

    The scales of the choices and of the noise are multiplied by these.
    """

    def change(stage: Stage) -> Stage:
        return rescaled_stage(stage, quartiles if stage.name == "quartiles" else noise)

    plan = with_stages(MEAN.fixed_plan, change)
    law = FaultyLaw(plan, ingest(data, MEAN.domain), MEAN.adjacency, MEAN.domain)
    values = law.sample(bits, size).values
    below = (values["sum"][:, 0] < 2 * RADIUS).tolist()
    return [(a, b, s) for (a, b), s in zip(values["quartiles"].tolist(), below, strict=True)]


def exhibit(name: str, function: Any, statement: str, why: str) -> Exhibit:
    """Claimed as (2, 0)-DP, with records of which one goes from end to end."""
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
        pairs=(replaced("from end to end, past the others", [-_FAR, 1.0, 1.0, 1.0], _FAR),),
        why=why,
    )
