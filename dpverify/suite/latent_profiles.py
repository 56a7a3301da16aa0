"""Exact deltas where stages do not simply add up: behind a filter, and after a released number."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.audit import Configuration
from dpverify.audit.friendly_core import FriendlyCore
from dpverify.grid import OneUnit
from dpverify.plans import AboveThreshold
from dpverify.plans.plan import Plan, stages_of
from dpverify.privacy import point_of
from dpverify.suite.entries import Entry
from dpverify.suite.events import Judgment, Outcome
from dpverify.suite.refinement import exact_records
from dpverify.suite.trees import Suite


def judge_friendly_core(suite: Suite, entry: Entry, configuration: Configuration) -> Judgment:
    """Judge the plan behind a filter on its friendly pairs, both ways, at two points of its
    claim.
    """
    part = FriendlyCore(configuration.mechanism)
    claimed, lines = part.claim.guarantee, [f"{p.name}: {_HIDDEN}" for p in configuration.pairs]
    worst, domain = (mp.mpf(-1), ""), part.domain
    for pair in configuration.friendly:
        sides = [
            entry.spec.law(part.mechanism.parameters, exact_records(data, domain)).everything
            for data in (pair.left, pair.right)
        ]
        for epsilon, direction in product((Fraction(0), point_of(claimed)[0]), (0, 1)):
            delta = summed(suite, sides[direction], sides[1 - direction], epsilon)
            allowed = claimed.delta_at(epsilon).upper
            share = delta * allowed.denominator / allowed.numerator
            where = f"{pair.name}, {('left', 'right')[direction]}, behind the filter"
            at = f"delta {mp.nstr(delta, 12)} at epsilon = {float(epsilon):.4g}"
            lines.append(f"{where}: {at}, {mp.nstr(share, 6)} of what is claimed")
            if share > 1:
                return Judgment(Outcome.REFUTED, "VIOLATED", lines[-1], tuple(lines))
            worst = max(worst, (share, pair.name))
    summary = (
        f"behind the filter at most {mp.nstr(worst[0], 6)} of the claimed delta, on {worst[1]!r}"
    )
    return Judgment(Outcome.HELD, "HOLDS", f"{summary}; {_HIDDEN}", tuple(lines))


_HIDDEN = "with the filter's coins not enumerated"
_DIGITS_OF_SUMS = 20


def one_number_decides(plan: Plan) -> bool:
    """Return whether the released number decides the losses of the later stages, so that these
    losses do not add up: a number decides the later scales, the place of a report decides which
    queries are left. It does not in one unit, where stages have the same noise after every
    number; and a number of millions of values is not summed over.
    """
    first, *later = stages_of(plan)
    if first.query.width not in (None, 1) or isinstance(first.query, OneUnit):
        return False
    return bool(later) and all(
        stage.query.reads or isinstance(stage.noise, AboveThreshold) for stage in later
    )


def summed(suite: Suite, p: Any, q: Any, epsilon: Fraction) -> Any:
    """Compute delta at epsilon, summed over all values of the number; hardly above the true
    delta.
    """
    with mp.workdps(_DIGITS_OF_SUMS):
        at = mp.mpf(epsilon.numerator) / epsilon.denominator
        return suite.theory["filtered_laws"].delta_of_transcripts(p, q, at)
