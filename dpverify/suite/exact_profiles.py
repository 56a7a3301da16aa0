"""Exact losses of the crafted pairs, from the spec's law, against the claim."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.plans.walking import is_closed, is_filtered, is_latent
from dpverify.privacy import point_of
from dpverify.suite.events import Judgment, Outcome
from dpverify.suite.latent_profiles import judge_friendly_core, one_number_decides, summed
from dpverify.suite.refinement import RefinementFailed, exact_records
from dpverify.suite.trees import Suite


def exact_profile(suite: Suite, name: str) -> Judgment:
    """Judge the exact loss of every crafted pair, both ways, against the claim."""
    configuration, entry = suite.configuration(name), suite.entries[name.partition(":")[0]]
    mechanism = configuration.mechanism
    if is_filtered(mechanism.fixed_plan):
        return judge_friendly_core(suite, entry, configuration)
    closed = is_closed(mechanism.fixed_plan)
    worst, lines = (mp.mpf(-1), mp.mpf(-1), ""), []
    claimed = point_of(mechanism.claim.guarantee)[1]
    allowed = mp.mpf(claimed.numerator) / claimed.denominator
    for pair in configuration.pairs:
        left, right = (
            entry.spec.law(mechanism.parameters, exact_records(data, mechanism.domain))
            for data in (pair.left, pair.right)
        )
        for direction, own, other in (("left", left, right), ("right", right, left)):
            try:
                loss, delta = _exact_pair(suite, mechanism, own, other)
            except RefinementFailed as failure:
                return Judgment(Outcome.REFUTED, "VIOLATED", f"{pair.name}: {failure}")
            size = _size(loss)
            lines.append(
                f"{pair.name}, {direction}: {_LOSS[closed]} {_in_digits(size)}, "
                f"delta {'' if closed else 'at most '}{mp.nstr(delta, 12)} at the claim's epsilon"
            )
            if delta > allowed:
                return Judgment(Outcome.REFUTED, "VIOLATED", lines[-1], tuple(lines))
            worst = max(worst, (size, delta, pair.name))
    most = _in_digits(worst[0])
    tail = "" if not is_latent(mechanism.fixed_plan) else ", with the order of lists drawn together"
    tail += "" if worst[0] < mp.inf else f", delta {mp.nstr(worst[1], 12)} at the claim's epsilon"
    summary = f"claim {mechanism.claim.guarantee}, {_LOSS[closed]} {most}{tail}"
    return Judgment(Outcome.HELD, "HOLDS", f"{summary} on {worst[2]!r}", tuple(lines))


def _size(loss: Any) -> Any:
    """Return a loss as a number: a rational loss, a real one (where totals are sums of
    exponentials), or infinity for None, which is an unbounded loss.
    """
    if isinstance(loss, Fraction):
        return mp.mpf(loss.numerator) / loss.denominator
    return mp.inf if loss is None else loss


def _in_digits(size: Any) -> str:
    return mp.nstr(size, 12) if size < mp.inf else "unbounded"


_LOSS = {True: "largest exact loss", False: "losses of the stages add up to"}


def _exact_pair(suite: Suite, mechanism: Any, p: Any, q: Any) -> tuple[Any, Any]:
    """Compute (largest loss, delta at the claim's epsilon): exact where one stage differs, else
    from the sum of the stages' losses, which is what the transcript's loss can reach. Losses:
    as in ``_size``.
    """
    # lists are in an order that nobody sees, so both are drawn together
    if is_latent(mechanism.fixed_plan):
        try:
            p, q = p.aligned(q)
        except AssertionError as failure:
            raise RefinementFailed(f"the lists cannot be drawn together: {failure}") from failure
    example = p.example if len(p.example) == len(p.stages) - 1 else ()
    stages = [
        (law(example[:i]), q.stages[i][1](example[:i])) for i, (_, law) in enumerate(p.stages)
    ]
    losses = [a.largest_loss(b) for a, b in stages]
    epsilon, _ = point_of(mechanism.claim.guarantee)
    if one_number_decides(mechanism.fixed_plan):
        return None, summed(suite, p, q, epsilon)
    differing = [pair for pair, loss in zip(stages, losses, strict=True) if loss != 0]
    if len(stages) == 1 or len(differing) == 1:
        first, second = (differing or stages)[0]
        return first.largest_loss(second), first.profile(second, epsilon)
    # squares of mu add up
    if differing and all(hasattr(law, "mu_squared") for law, _ in differing):
        square = sum((a.mu_squared(b) for a, b in differing), Fraction(0))
        return None, suite.theory["profiles"].gaussian_profile(square, epsilon)
    if any(loss is None for loss in losses):
        return None, _mixed(suite, differing, epsilon)
    total = sum(losses, Fraction(0))
    return total, suite.theory["profiles"].profile(total, Fraction(0), epsilon)


def _mixed(suite: Suite, differing: list[tuple[Any, Any]], epsilon: Fraction) -> Any:
    """Bound the delta of stages of several kinds. Squares of mu add up; so do bounds on the
    others' losses, which are subtracted from epsilon. Keys that only one side has surface with
    the rest of delta.
    """
    square, shift, missed = Fraction(0), Fraction(0), mp.mpf(0)
    for a, b in differing:
        if hasattr(a, "mu_squared"):
            square += a.mu_squared(b)
        elif hasattr(a, "gaussian_part"):
            own, rare = a.gaussian_part(b)
            square, missed = square + own, missed + rare
        elif hasattr(a, "pure_part"):
            own, rare = a.pure_part(b)
            shift, missed = shift + own, missed + rare
        else:
            loss = a.largest_loss(b)
            if loss is None:
                raise RefinementFailed("several stages differ, one without a bound on its loss")
            shift += loss
    profiles = suite.theory["profiles"]
    if not square:
        return missed + profiles.profile(shift, Fraction(0), epsilon)
    return missed + profiles.gaussian_profile(square, epsilon - shift)
