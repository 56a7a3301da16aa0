"""Attacks on a mean whose radius is voted for: a record that moves a vote, and votes on the edge
between two rungs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpverify import Adjacency, ApproxDP, RescaledMean
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.scale_ladder import ON_RUNG, chosen_rungs, on_rung
from dpverify.grid import Transcripts, View, ingest
from dpverify.grid.pair_rungs import PairRungs, scattered
from dpverify.plans import Stage
from dpverify.plans.law import Law
from dpverify.randomness.bits import IntArray

from ._moving import Faulty
from ._rescaled_faults import at, crowd

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_FEW, _MANY = 60, 2000
_EDGE = 4
"""Number of 1000 pairs above the stated rung that leave a lower one for the rest; with one more
it is refused."""
_LAGS = 8


def _votes(mechanism: RescaledMean) -> tuple[Stage, PairRungs]:
    stage = mechanism.fixed_plan[0]
    assert isinstance(stage, Stage)
    assert isinstance(stage.query, PairRungs)
    return stage, stage.query


# --- planted faults -----------------------------------------------------------------------------


def _overlapping(mechanism: RescaledMean) -> Fault:
    """Let every record vote with each of the next eight; one more record changes all these
    pairs."""
    stage, query = _votes(mechanism)

    def value(base: PairRungs, view: View, before: Transcripts) -> IntArray:
        images = view.images(base.nearness).images
        total = np.zeros(base.width, np.int64)
        for lag in range(1, _LAGS + 1):
            first = np.arange(max(0, len(images) - lag))
            total += base.counted(images, first, first + lag)
        return total

    wrong = dataclasses.replace(stage, query=Faulty.of(query, value))
    return plan_fault("pairs that overlap", mechanism, (wrong, *mechanism.fixed_plan[1:]))


def _from_the_data(mechanism: RescaledMean) -> Fault:
    """Release noisy votes, but choose the rung from the exact ones."""
    stage, query = _votes(mechanism)

    def law(data: ArrayLike) -> Law:
        records = ingest(data, mechanism.domain)
        exact = query.evaluate(View(records))
        here = on_rung(mechanism, int(chosen_rungs(exact[np.newaxis], Fraction(1))[0]))
        plan = (stage, here.part(ON_RUNG))
        return Law(plan, records, mechanism.adjacency, mechanism.domain)

    return Fault("the rung from votes without noise", law)


# --- pairs --------------------------------------------------------------------------------------


def _moving(mechanism: RescaledMean, base: Any) -> tuple[float, ...]:
    """Find a record two rungs up that changes the vote of its pair, among 200 similar ones."""
    _, query = _votes(mechanism)
    before = query.evaluate(View(ingest(base, mechanism.domain)))
    for record in (at(mechanism, 1.5 + 0.001 * i) for i in range(200)):
        after = query.evaluate(View(ingest([*base, record], mechanism.domain)))
        if ((after - before) ** 2).sum() == 2:
            return record
    raise AssertionError("no record of 200 changes a vote")


def _voting() -> Configuration:
    """Attack the votes: they have nine tenths of mu^2, and records are too few for a mean."""
    mechanism = _laddered(ADD, n_max=_FEW, ladder_multiplier=Fraction(5, 4))
    same = crowd(mechanism, (0, _FEW))
    two = crowd(mechanism, (0, _FEW // 2), (3, _FEW // 2))
    pairs = (
        added("a pair moves to another rung", same, _moving(mechanism, same)),
        added("a pair of two crowds moves", two, _moving(mechanism, two)),
    )
    return Configuration(
        name="votes",
        mechanism=mechanism,
        pairs=pairs,
        faults=[_overlapping(mechanism)],
        target_stages=frozenset({"rungs"}),
        quick_trials=10_000,
    )


def _in_pairs(records: list[Any]) -> list[Any]:
    """Order the records so that consecutive ones are paired, the first pair with place 0.

    The number of records is even.
    """
    pairs = scattered(len(records)).reshape(-1, 2).tolist()
    pairs.sort(key=lambda places: 0 not in places)
    placed = dict(zip((place for places in pairs for place in places), records, strict=True))
    return [placed[place] for place in range(len(records))]


def _averaging() -> Configuration:
    """Attack the mean on whatever rung is chosen: a 20th of mu^2 is for the votes, most of the
    rest for the mean."""
    mechanism = _laddered(REPLACE, n_max=_MANY)
    same, rung = crowd(mechanism, (0, _MANY)), 2.0**-4
    far = at(mechanism, 3)
    one, apart = at(mechanism, 1), at(mechanism, 4)  # off the origin: sums are in cells of the rung
    edge = _in_pairs([one, one, *([one, apart] * _EDGE), *([one] * (_MANY - 2 * _EDGE - 2))])
    pairs = (
        replaced("from end to end", [at(mechanism, rung), *same[1:]], at(mechanism, -rung)),
        replaced("on the edge between two rungs", edge, apart),
        replaced("one of a clique for a stranger", same, far),
        replaced(
            "around the least number", same[: mechanism.core().minimum_n(Fraction(1, 2))], far
        ),
    )
    return Configuration(
        name="rungs",
        mechanism=mechanism,
        pairs=pairs,
        faults=[_from_the_data(mechanism)],
        target_stages=frozenset({"on rung/agreement", "on rung/mean"}),
        elsewhere=frozenset({"on rung/agreement"}),
        quick_trials=30_000,
    )


def _laddered(adjacency: Adjacency, **own: Any) -> RescaledMean:
    given: dict[str, Any] = {"matrix": (16.0,), "radius": 1, **own}
    return RescaledMean.for_budget(ApproxDP(4, "1e-6"), adjacency=adjacency, **given)


def configurations() -> tuple[Configuration, ...]:
    """Return the attack on the votes of pairs by a hash, and on the mean after votes of pairs by
    place."""
    return _voting(), _averaging()


# --- small instances ----------------------------------------------------------------------------


def followed(make: Any, **own: Any) -> Iterator[SmallInstance]:
    """Yield records on three scales, some of them equal, under either adjacency and on several
    rungs."""
    line = (0.0, 0.1, 1.0, 3.0, 50.0, 1e308) + (0.2, 0.2) * 30
    datasets: dict[str, Any] = {"near": (0.0, 0.01) * 40, "scattered": line, "nobody": ()}
    for adjacency in Adjacency:
        for name, data in datasets.items():
            mechanism = make(
                adjacency=adjacency,
                noise_multiplier=Fraction(1, 2),
                ladder_multiplier=Fraction(1),
                matrix=(16.0,),
                n_max=40,
                tail=Fraction(9, 100),
                **own,
            )
            yield SmallInstance(
                name=f"ladder, {name}, {adjacency}", mechanism=mechanism, data=data, followed=10
            )
