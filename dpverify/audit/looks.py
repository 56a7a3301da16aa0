"""Numbers of draws that choose an event: fewer where few tell enough.

Draws that choose certify nothing, or less than others do. Whether to draw more of them is decided
by those that were drawn before, and certify nothing. So no certificate has to pay for the decision:
given all draws before it, those that certify have the law that a certificate supposes, and how many
they are is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpverify.audit.outputs.draws import Draws
from dpverify.audit.studies import best_of
from dpverify.audit.witnesses.choosing import ranked
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task

_OFTEN, _MOSTLY = 0.1, 2 / 3
"""Shares of the draws of one side that make an event evident: one that promises a refutation, and
any.
"""
_FEW = 32  # scores of an event, up to which its threshold needs no more draws
_SETTLED = 1.1  # times as far apart on the draws that taught: then others would teach little


def halves(draws: Sequence[Draws]) -> tuple[list[Draws], list[Draws]]:
    """Divide the draws of both sides into the first half and the second."""
    half = len(draws[0]) // 2
    first, second = slice(half), slice(half, None)
    return [side.select(first) for side in draws], [side.select(second) for side in draws]


def is_evident(first: Sequence[Draws], second: Sequence[Draws], task: Task) -> bool:
    """Return whether few draws show an event that is common on one side, and that the other never
    has, and no other event is needed.

    How large an epsilon can be certified is then a matter of how many draws are left: with c times
    as many it is larger by ln c. An event of a tenth of the draws is as much as 2.3 short of the
    largest epsilon, so it is enough only where it promises a refutation. Plain events alone are
    looked at: what has to be learned takes draws, and so does where a threshold among many scores
    is best. first: draws that teach; second: others, that choose.
    """
    pool = candidates(
        *first, law_known=True, difference=None, seed=0, effort=Effort.QUICK, weak=True
    )
    options = ranked([second[0]], [second[1]], pool, task, (first[0], first[1]), contenders=1)
    best = best_of(options)
    side = int(best is options[1].witnesses[0])
    happens, others = (best.happens_in(second[i], {}) for i in (side, 1 - side))
    often = _OFTEN if best.promise > 0 else _MOSTLY
    if others.any() or np.count_nonzero(happens) < often * len(second[side]):
        return False
    return len(np.unique(best.candidate.score(second[side])[happens])) <= _FEW


def is_settled(candidate: Candidate, first: Sequence[Draws], second: Sequence[Draws]) -> bool:
    """Return whether a score tells other draws apart nearly as well as those that it was learned
    on, by the difference of its means, so that more draws would hardly teach a better one.

    first: the draws that taught; second: the others. Means that differ the other way round there
    tell nothing apart.
    """
    taught, fresh = (
        float(candidate.score(one[0]).mean() - candidate.score(one[1]).mean())
        for one in (first, second)
    )
    return taught * fresh >= 0 and abs(taught) <= _SETTLED * abs(fresh)


__all__ = ["halves", "is_evident", "is_settled"]
