"""Rare events, thresholds on unbounded histograms, and filters that keep friendly records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.adjacency import Adjacency, Friendly
from dpverify.privacy.balls import ball, enclose, is_at_most, round_up
from dpverify.privacy.derivation import (
    Derivation,
    EventBound,
    Norm,
    PrivacyClaim,
    Sensitivity,
)
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    GaussianDP,
    Guarantee,
    Lifted,
    PerfectPrivacy,
    Profile,
    PureDP,
)
from dpverify.privacy.numbers import Exact, approximately, render, whole
from dpverify.privacy.rules.making import (
    claim_of,
    derive,
    positive_scale,
    require_norm,
    require_same_world,
)
from dpverify.privacy.sources import Source, SourceStatus, states

_DELTA = Source("OURS", "an event of the output costs its probability", note="no factor e^epsilon")
_TOTAL_VARIATION = Source(
    "OURS", "a change of the law costs (1 + e^epsilon) times its total variation"
)
_HISTOGRAM = Source(
    "KKMN09", "thresholded histograms", SourceStatus.CHANGED_CONSTANTS, "delta from the predicate"
)
_GAUSSIAN_HISTOGRAM = Source(
    "OURS", "thresholded Gaussian histograms are approximately GDP", note="no shift of epsilon"
)
_MOST_LIFTED = 64
_LIFT = Source(
    "TCKMS22", "Theorem 4.11, paradigm for friendly differential privacy",
    SourceStatus.CHANGED_CONSTANTS, "smaller and tight delta, and the replace version",
)  # fmt: skip


@states(_DELTA)
def add_delta_event(
    claim: Derivation[PrivacyClaim], event: Derivation[EventBound]
) -> Derivation[PrivacyClaim]:
    """The claim is about the mechanism with the event's outputs replaced by one symbol.

    The event must be decided by the output, so that it is the same set of outputs for both
    neighbors. Off that set the two mechanisms agree, P(S) <= P(S off the event) + delta, and the claim compares the parts off the event: delta
    without a factor e^epsilon. An event hidden in the
    coins costs more: ``add_total_variation_event``.
    """
    bound = event.conclusion
    if not bound.in_output:
        raise ValueError(
            f"{bound}: only an event that the output decides costs its probability alone. Use "
            "add_total_variation_event, at 1 + e^epsilon times the probability."
        )
    require_same_world((claim, event))
    guarantee = _with_delta(claim.conclusion.guarantee, bound.probability)
    return derive(claim_of(guarantee, claim, event), "a delta event", (claim, event), _DELTA)


@states(_TOTAL_VARIATION)
def add_total_variation_event(
    claim: Derivation[PrivacyClaim], event: Derivation[EventBound]
) -> Derivation[PrivacyClaim]:
    """The claim is about a mechanism that can be coupled with this one so that both give the same
    output unless the event happens. Costs (1 + e^epsilon) times its probability, at the final epsilon.
    """
    bound = event.conclusion
    require_same_world((claim, event))
    guarantee = _with_tv(claim.conclusion.guarantee, bound.probability)
    rule = "a total variation event"
    return derive(claim_of(guarantee, claim, event), rule, (claim, event), _TOTAL_VARIATION)


@states(_HISTOGRAM)
def stability_histogram(
    keys: Derivation[Sensitivity], *, scale: Exact, threshold: int
) -> Derivation[PrivacyClaim]:
    """Release (key, count + Z) for every key that occurs and has count + Z >= threshold, in an order
    that the keys decide; Z discrete Laplace of ``scale``.

    With q = e^(-1 / scale) a key that one record holds surfaces with probability
    d = P(1 + Z >= threshold) = q^(threshold - 1) / (1 + q), from the predicate itself. A record
    touches at most k keys, once each (the premise). Restricted to outputs without a key that only
    one of the neighbors has, both laws are at least (1 - d)^k times laws of ratio e^epsilon, so
    (epsilon, 1 - (1 - d)^k)-DP with epsilon = k / scale (add-remove) or 2 k / scale (replace).
    Where k of a public number of things move to other keys (MOVED), several may meet at a key that is
    new: epsilon = 2 k / scale, and delta is that of the worst partition of k into counts.
    """
    change = _change(keys)
    scale, least = positive_scale(scale), _threshold(threshold, change)
    epsilon = change.total / scale

    def surfaces(count: int) -> arb:
        q = ball(-1 / scale).exp()
        return ball(-(least - count) / scale).exp() / (1 + q)

    delta = _surfacing(surfaces, change)
    rule = f"key threshold {least} under discrete Laplace noise of scale {render(scale)}"
    return derive(claim_of(_approximate(epsilon, delta), keys), rule, (keys,), _HISTOGRAM)


@states(_GAUSSIAN_HISTOGRAM, Source("KV18", "Lemma 2.3, histograms over unbounded bins"))
def gaussian_stability_histogram(
    keys: Derivation[Sensitivity], *, sigma: Exact, threshold: int
) -> Derivation[PrivacyClaim]:
    """As ``stability_histogram`` with noise round(sigma N(0, 1)): approximate GDP.

    A key that one record holds surfaces with probability Phi(-(threshold - 3/2) / sigma); mu =
    sqrt(k) / sigma (add-remove) or sqrt(2 k) / sigma (replace), delta = 1 - (1 - that)^k. Where k things
    move, all may go from one key to another: mu = sqrt(2) k / sigma.
    """
    change = _change(keys)
    sigma, least = positive_scale(sigma, "sigma"), _threshold(threshold, change)

    def surfaces(count: int) -> arb:
        return (ball((least - count - Fraction(1, 2)) / sigma) / arb(2).sqrt()).erfc() / 2

    delta = _surfacing(surfaces, change)
    guarantee = ApproximateGaussianDP.of_square(change.squares / sigma**2, delta)
    rule = f"key threshold {least} under rounded Gaussian noise of deviation {render(sigma)}"
    return derive(claim_of(guarantee, keys), rule, (keys,), _GAUSSIAN_HISTOGRAM)


@states(_LIFT, Source("OURS", "filter composition: delta (e^(aT) - 1) / a, tight"))
def friendly_lift(
    friendly: Derivation[PrivacyClaim], stability: Derivation[Sensitivity]
) -> Derivation[PrivacyClaim]:
    """A filter that keeps each record independently, then a mechanism that is private for friendly
    neighbors only.

    T = the largest sum of changes of the keep-probabilities (the premise: 2 under add-remove, 3 under
    replace for the filter of FriendlyCore), every set on the way being friendly by the predicate of
    the inner claim. If the mechanism is friendly (e, d)-DP, then with
    a = e^e - 1 the whole is (a T, d (e^(a T) - 1) / a)-DP.
    """
    inner = friendly.conclusion
    if not isinstance(inner.adjacency, Friendly):
        raise ValueError(
            f"friendly_lift needs a claim for friendly neighbors, but this one is under "
            f"{inner.adjacency} ({inner}); an ordinary claim needs no lift."
        )
    require_norm(stability, (Norm.KEEP,), "friendly_lift")
    outer = stability.conclusion
    if inner.adjacency.predicate != outer.predicate:
        raise ValueError(
            f"The friendly claim is about {inner.adjacency.predicate!r}, the filter about "
            f"{outer.predicate!r}; prove both for the same predicate."
        )
    if inner.domain != outer.domain:
        raise ValueError(
            f"The friendly claim is for {inner.domain}, the filter's stability for {outer.domain}."
        )
    if not isinstance(outer.adjacency, Adjacency):
        raise ValueError(f"The filter's stability is under {outer.adjacency}; prove it for inputs.")
    guarantee = _lifted(inner.guarantee, outer.value)
    conclusion = claim_of(guarantee, friendly, stability, adjacency=outer.adjacency)
    return derive(conclusion, "friendly lift", (friendly, stability), _LIFT)


def _lifted(guarantee: Guarantee, moved: Fraction) -> Guarantee:
    if isinstance(guarantee, PerfectPrivacy) or moved == 0:
        return PerfectPrivacy()
    if not isinstance(guarantee, (PureDP, ApproxDP)):
        return Lifted(guarantee, moved)
    inner, delta = guarantee.epsilon, guarantee.delta
    if inner > _MOST_LIFTED:
        raise ValueError(
            f"{guarantee} is too weak to lift: epsilon would be e^{approximately(inner)} and more."
        )
    epsilon = round_up(enclose(lambda: ball(moved) * ball(inner).expm1()).upper)
    if not delta:
        return PureDP(epsilon)

    def grown() -> arb:
        a = ball(inner).expm1()
        return ball(delta) * (ball(moved) * a).expm1() / a

    if not is_at_most(grown, Fraction(999, 1000)):
        raise ValueError(f"delta of {guarantee} would grow to 1: this promises nothing.")
    return ApproxDP(epsilon, round_up(enclose(grown).upper))


def _with_delta(guarantee: Guarantee, delta: Fraction) -> Guarantee:
    if delta == 0:
        return guarantee
    if isinstance(guarantee, (PureDP, ApproxDP)):
        return _approximate(guarantee.epsilon, guarantee.delta + delta)
    if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)):
        part = guarantee.gaussian
        assert part is not None
        _require_promise(part.delta + delta)
        return ApproximateGaussianDP.of_square(part.mu_squared, part.delta + delta, part.tv)
    return Profile([guarantee], delta=delta)


def _with_tv(guarantee: Guarantee, tv: Fraction) -> Guarantee:
    if tv == 0:
        return guarantee
    if isinstance(guarantee, (GaussianDP, ApproximateGaussianDP)):
        part = guarantee.gaussian
        assert part is not None
        _require_promise(part.tv + tv)
        return ApproximateGaussianDP.of_square(part.mu_squared, part.delta, part.tv + tv)
    return Profile([guarantee], tv=tv)


def _approximate(epsilon: Fraction, delta: Fraction) -> Guarantee:
    _require_promise(delta)
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _require_promise(delta: Fraction) -> None:
    if delta >= 1:
        raise ValueError(_NOTHING.format(render(delta)))


_NOTHING = "the deltas add up to {}: together they promise nothing."


_MOST_MOVED = 16  # partitions are listed


@dataclass(frozen=True, slots=True)
class _Change:
    """Of the counts between neighbors: the sum of all changes, the sum of their squares, and what the
    keys that only one of the neighbors has may hold together."""

    total: Fraction
    squares: Fraction
    alone: tuple[tuple[int, ...], ...]


def _change(keys: Derivation[Sensitivity]) -> _Change:
    require_norm(keys, (Norm.KEYS, Norm.MOVED), "a thresholded histogram")
    premise = keys.conclusion
    moved = premise.norm is Norm.MOVED
    if premise.value.denominator != 1 or premise.value < 1:
        what = (
            "a whole number of things move" if moved else "a record touches a whole number of keys"
        )
        raise ValueError(f"{premise}; {what}, at least 1.")
    if not isinstance(premise.adjacency, Adjacency):
        raise ValueError(f"a thresholded histogram has no claim under {premise.adjacency}.")
    most = premise.value.numerator
    if not moved:
        steps = 2 if premise.adjacency is Adjacency.REPLACE else 1
        return _Change(Fraction(steps * most), Fraction(steps * most), ((1,) * most,))
    if most > _MOST_MOVED:
        raise ValueError(f"{premise}; a thresholded histogram is for up to {_MOST_MOVED}.")
    return _Change(Fraction(2 * most), Fraction(2 * most**2), tuple(_partitions(most, most)))


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The ways to write the total as a sum of positive integers up to the largest."""
    if not total:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first):
            yield first, *rest


def _threshold(threshold: int, change: _Change) -> int:
    least, alone = whole(threshold, "threshold"), max(map(max, change.alone))
    if least <= alone:
        held = "one record holds" if alone == 1 else f"{alone} things that move hold"
        raise ValueError(
            f"threshold = {least}: a key that {held} would surface about every other time. "
            f"Give a threshold of {alone + 1} or more, as large as the data allow."
        )
    return least


def _surfacing(single: Callable[[int], arb], change: _Change) -> Fraction:
    """Of the worst keys that only one of the neighbors has: the probability that one surfaces.

    1 minus the product of 1 - single(count), without cancellation, rounded up.
    """

    def one_of(counts: tuple[int, ...]) -> Fraction:
        def chance() -> arb:
            return -sum(((-single(count)).log1p() for count in counts), arb(0)).expm1()

        return round_up(enclose(chance).upper)

    delta = max(map(one_of, change.alone))
    if delta >= 1:
        raise ValueError(
            f"one of {len(change.alone[-1])} keys that only one record holds would surface almost "
            "surely; raise the threshold or the noise."
        )
    return delta
