"""The kernel's rules again, as plain functions on fractions and mpmath numbers.

The tests hold dpverify.privacy.rules against these, and these against brute force on random
finite mechanisms. Each rule that the kernel derives is proved here, beside the function; the
guarantees' profiles are in spec/theory/profiles.py.

Domination. For measures P0, Q0 (of any mass) write H_g(P0, Q0) = sup_S P0(S) - g Q0(S), g > 0.
If H_g(P0, Q0) <= phi(g) for all g, and for every output x of the first stage H_g(K(x),
L(x)) <= psi(g) for all g, then the two stages together have H_g <= chi(g), chi the profile of
independent pairs that attain phi and psi. Proof: psi is convex and decreasing with psi(g) -> c,
so psi(g) = c + the integral of (t - g)^+ over a measure dn(t). The two stages have
H_g = integral of P0(dx) H_(g Q0/P0)(K(x), L(x)) <= integral of P0(dx) psi(g Q0/P0) = c P0(all)
+ integral dn(t) of sum_x (t P0(x) - g Q0(x))^+, and the inner sum is t H_(g/t)(P0, Q0) <= t
phi(g/t), with equality for the independent pairs. QED. Masses may be rounded up in phi and psi,
or measures cut down in P0 and Q0: the proof asks for no total mass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .laws import real

FiniteLaw = Mapping[Any, Fraction]


def hockey_stick(p: FiniteLaw, q: FiniteLaw, factor: Any) -> Any:
    """Return sup over events S of P(S) - factor Q(S), by summation; ``factor`` is e^epsilon."""
    zero = Fraction(0)
    gaps = (mass - factor * q.get(o, zero) for o, mass in p.items())
    return sum((gap for gap in gaps if gap > 0), zero)


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity"))
def discrete_laplace(sensitivity: Fraction, scale: Fraction) -> Fraction:
    """Return epsilon of an integer query with this L1 sensitivity under Laplace noise of this
    scale.
    """
    return sensitivity / scale


@states(Source("KBR16", "Section 3, k-ary randomized response"))
def randomized_response(sensitivity: Fraction, scale: Fraction) -> Fraction:
    """Return epsilon of randomized response when at most ``sensitivity`` answers change."""
    return sensitivity / scale


@states(Source("DR14", "Theorem B.1", note="Theorem 3.16 for adaptive stages, by induction"))
def compose(parts: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Return (epsilon, delta) of the joint release of all outputs, under adaptive composition."""
    return sum((e for e, _ in parts), Fraction(0)), sum((d for _, d in parts), Fraction(0))


@states(Source("CKS20", "Theorem 14, the multivariate discrete Gaussian"))
def discrete_gaussian(squared_sensitivity: Fraction, sigma: Fraction) -> Fraction:
    """Return rho of an integer query with this squared L2 sensitivity under discrete Gaussian
    noise.
    """
    return squared_sensitivity / (2 * sigma**2)


@states(Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP"))
def rounded_gaussian(squared_sensitivity: Fraction, sigma: Fraction) -> Fraction:
    """Return mu^2 of round(query + sigma Z): rounding is post-processing."""
    return squared_sensitivity / sigma**2


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
def exponential_mechanism(moved: Fraction, scale: Fraction, *, one_way: bool) -> Fraction:
    """Return the range of the privacy loss when each score moves by at most ``moved``.

    With ``one_way`` all scores move in the same direction. The loss of a candidate is its
    change of score over the scale, plus a number that is the same for all candidates.
    """
    return (moved if one_way else 2 * moved) / scale


@states(
    Source(
        "DR14",
        "Theorem 3.23, AboveThreshold",
        SourceStatus.CHANGED_CONSTANTS,
        "a profile, on integers",
    ),
    Source("OURS", "AboveThreshold of queries that move one way has a bounded range"),
)
def above_threshold(
    moved: int, scale: Fraction, query_scale: Fraction, *, one_way: bool
) -> tuple[Fraction, Fraction]:
    """Return (the largest loss, the largest loss minus the smallest) of one report.

    Proof. Let P, Q be the laws for answers q, q', and K(k | z), L(k | z) the probabilities that
    k is reported given that the threshold's noise is z. Let |q_i - q_i'| <= D for all i. Then
    Y < T + z - q_i implies Y < T + (z + D) - q_i'. A report of k needs Y >= T + z - q_k under
    K(. | z), and Y >= T + z + D - q_k' under L(. | z + D), which is at most 2 D higher
    (D if no query falls). So K(k | z) <= e^(2 D / query_scale) L(k | z + D), and z + D in place
    of z costs e^(D / scale). If all queries move one way, start from the side where they are
    larger and keep z itself: answers below stay below, and a report is at most D further. So
    losses are at most D / scale + 2 D / query_scale; if all move one way, they are at most
    D / scale + D / query_scale on one side and D / query_scale on the other. QED.
    The profile is proved in dpverify/privacy/rules/above_threshold.py and compared with small
    models by theory/above_threshold.py:obligation_profile.
    """
    step, query = moved / scale, moved / query_scale
    return (step + query, step + 2 * query) if one_way else (step + 2 * query, 2 * step + 4 * query)


@states(
    Source("BS16", "composition of zCDP", note="adaptive"),
    Source("DRS22", "composition of GDP", note="adaptive"),
)
def add_up(parameters: Sequence[Fraction]) -> Fraction:
    """Return rho of composed zCDP stages from their rho, or mu^2 of GDP stages from their mu^2."""
    return sum(parameters, Fraction(0))


@states(Source("OURS", "approximate GDP: composition and profile"))
def compose_approximate_gaussian(
    parts: Sequence[tuple[Fraction, Fraction, Fraction]],
) -> tuple[Fraction, Fraction, Fraction]:
    """Return (mu^2, delta, tv) of all stages together: each component adds up.

    Proof for two stages, laws P and K(x), measures P0 and K0(x) of mass at most 1. As K <= 1
    and P0(all) <= 1: PK(S) - P0K0(S) = (P - P0)K(S) + P0(K - K0)(S) <= (delta1 + tv1) +
    (delta2 + tv2), and P0K0(S) - PK(S) = P0(K0 - K)(S) + (P0 - P)K(S) <= tv2 + tv1. The product
    has mass at most 1, and by domination (above) its H_g is at most the profile of independent
    Gaussian pairs, which is the one of mu1^2 + mu2^2. QED.
    """
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    mu_squared, delta, tv = (sum(column, Fraction(0)) for column in columns)
    return mu_squared, delta, tv


@states(Source("DRV10", "advanced composition", note="as Theorem 3.20 of DR14"))
def advanced_composition(
    epsilon: Fraction, delta: Fraction, stages: int, slack: Fraction
) -> tuple[Any, Fraction]:
    """Return (epsilon', delta') of ``stages`` adaptive stages of (epsilon, delta)-DP."""
    e = real(epsilon)
    loss = mp.sqrt(2 * stages * -mp.log(real(slack))) * e + stages * e * mp.expm1(e)
    return loss, stages * delta + slack


@states(Source("M09", "parallel composition", note="with the side conditions made explicit"))
def parallel(parts: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Return (epsilon, delta) when neighbors differ in one block only: the largest of the blocks.

    With blocks by an independent label, the laws are averages over the labels of such pairs,
    and H_g is jointly convex. In a chain of blocks, the predecessors of the changed block have
    one law on both sides. So the laws are averages over the predecessors' output, which is
    released, and the successors' output is post-processing.
    """
    return max(e for e, _ in parts), max(d for _, d in parts)


@states(Source("V17", "Lemma 2.2, group privacy", note="zCDP: BS16; GDP: DRS22"))
def group(epsilon: Fraction, delta: Fraction, size: int) -> tuple[Fraction, Any]:
    """Return (epsilon, delta) for datasets ``size`` steps apart."""
    growth = sum(mp.exp(real(i * epsilon)) for i in range(size))
    return size * epsilon, real(delta) * growth


@states(Source("BS16", "Definition of zero-concentrated differential privacy, group privacy"))
def group_root(parameter: Fraction, size: int) -> Fraction:
    """Return rho (zCDP) or mu^2 (GDP) for datasets ``size`` steps apart."""
    return size**2 * parameter


@states(Source("OURS", "group privacy of a profile, in equal steps"))
def group_profile(delta_at_step: Any, step: Fraction, size: int) -> Any:
    """Return delta at size * step, from the delta at ``step`` for one record.

    P_0(S) <= e^s P_1(S) + delta(s) <= e^(2 s) P_2(S) + (1 + e^s) delta(s) <= ...
    """
    return sum(mp.exp(real(i * step)) for i in range(size)) * delta_at_step


@states(Source("OURS", "a replacement is a removal and an addition"))
def replace_from_add_remove(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Any]:
    """Return (epsilon, delta) under replacement: a replaced record is one removed and one added.

    So is a record that changes its block in parallel composition by value, or its value inside
    a block: two stages composed would miss the second case, where GDP has 2 mu and not sqrt(2)
    mu.
    """
    return group(epsilon, delta, 2)


@states(Source("OURS", "an event of the output costs its probability"))
def delta_event(epsilon: Fraction, delta: Fraction, probability: Fraction) -> Fraction:
    """Return the delta at ``epsilon`` if outputs in an event E of at most this probability were
    hidden.

    Proof. P(S) <= P(S off E) + P(E), and off E the law is that of the mechanism that releases
    one symbol in place of outputs in E: P(S off E) <= e^epsilon Q(S off E) + delta <= e^epsilon
    Q(S) + delta. QED. For approximate GDP, restrict P0 and Q0 of the other mechanism to outputs
    off E. Then P - P0 grows by at most P(E), while P0 - P and the comparison of P0 with Q0 do
    not grow. QED.
    """
    return delta + probability


@states(Source("OURS", "a change of the law costs (1 + e^epsilon) times its total variation"))
def total_variation_event(epsilon: Fraction, delta: Fraction, probability: Fraction) -> Any:
    """Return the delta at ``epsilon`` when each law is within this total variation distance of the
    law that the claim is about.

    Proof. P(S) <= P'(S) + tv <= e^epsilon Q'(S) + delta + tv <= e^epsilon (Q(S) + tv) + delta +
    tv. QED.
    """
    return real(delta) + (1 + mp.exp(real(epsilon))) * real(probability)


@states(
    Source(
        "KKMN09",
        "thresholded histograms",
        SourceStatus.CHANGED_CONSTANTS,
        "delta from the predicate",
    )
)
def stability_histogram(
    scale: Fraction, threshold: int, keys: int, *, replaced: bool
) -> tuple[Fraction, Any]:
    """Return (epsilon, delta) of releasing the noisy counts >= threshold of the keys that occur.

    Proof. Let x, x' be neighbors, A the keys only x has, A' those only x' has: at most ``keys``
    each, of count 1. A key of count 1 surfaces with probability d = P(1 + Z >= threshold). Let
    R, R' be the laws of the output for the common keys: their ratio is at most e^epsilon. The
    law of x is at least (1 - d)^|A| R >= m R, m = (1 - d)^keys, on outputs without A; likewise
    m R' for x'. So P0 = m R and Q0 = m R' have mass m, and P(S) <= P0(S) + 1 - m <= e^epsilon
    Q0(S) + 1 - m. QED.
    """
    q = mp.exp(-1 / real(scale))
    surfaces = q ** (threshold - 1) / (1 + q)
    steps = 2 if replaced else 1
    return steps * keys / scale, 1 - (1 - surfaces) ** keys


@states(
    Source("DL09", "propose-test-release", note="the noisy distance is released with the value")
)
def propose_test_release(scale: Fraction, threshold: int, values: int) -> tuple[Fraction, Any]:
    """Return (epsilon, delta) of releasing each (value, distance + Z) with distance + Z >=
    threshold, out of ``values`` values.

    A value's distance is the least number of records that have to change for it to change.
    Proof. Let x, x' be neighbors, J the values that differ. Each of J has distance 1 on both
    sides, for the neighbor has another; so it passes with probability d = P(1 + Z >= threshold)
    on either side, and if it does not pass, its output is the same. The distances of the others
    differ by at most 1, for a path from x' is one from x with one more step; so their outputs
    have laws R, R' of ratio e^(1 / scale) each. On outputs without any of J both laws are
    (1 - d)^|J| R and (1 - d)^|J| R'. So P(S) <= e^((values - |J|) / scale) Q(S) + 1 -
    (1 - d)^|J|. QED
    """
    q = mp.exp(-1 / real(scale))
    passes = q ** (threshold - 1) / (1 + q)
    return values / scale, 1 - (1 - passes) ** values


@states(Source("OURS", "thresholded Gaussian histograms are approximately GDP"))
def gaussian_stability_histogram(
    sigma: Fraction, threshold: int, keys: int, *, replaced: bool
) -> tuple[Fraction, Any]:
    """Return (mu^2, delta) as in ``stability_histogram``, for round(sigma N(0, 1)) as noise.

    The proof is the same: P0 = m R and Q0 = m R' are dominated by m times a Gaussian pair. Both
    are reduced to the same mass m, which P' allows, so epsilon is not shifted by ln(1 / m).
    """
    surfaces = mp.erfc((real(Fraction(threshold)) - mp.mpf(3) / 2) / real(sigma) / mp.sqrt(2)) / 2
    steps = 2 if replaced else 1
    return steps * keys / sigma**2, 1 - (1 - surfaces) ** keys


@states(Source("OURS", "thresholded histograms of a public number of things, some of which move"))
def moved_histogram(
    scale: Fraction, threshold: int, moved: int, *, gaussian: bool = False
) -> tuple[Fraction, Any]:
    """Return (epsilon, delta), or (mu^2, delta), of a histogram when ``moved`` of the counted
    things go to other keys.

    The proof is the same. Counts change by 2 ``moved`` in all, and in squares by 2 moved^2 at
    most, where all go from one key to another. The keys A that only x has hold at most
    ``moved`` together. Their counts may be taken as a partition of that number: larger counts
    in A only surface more often. P(nothing of A surfaces) is the product over its parts c of
    1 - P(c + Z >= threshold); m is the least over partitions, and it also bounds the keys that
    only x' has. QED.
    """

    def surfaces(count: int) -> Any:
        if gaussian:
            away = real(threshold - count - Fraction(1, 2)) / real(scale)
            return mp.erfc(away / mp.sqrt(2)) / 2
        q = mp.exp(-1 / real(scale))
        return q ** (threshold - count) / (1 + q)

    hidden = [mp.mpf(1)]
    for total in range(1, moved + 1):
        hidden.append(min((1 - surfaces(c)) * hidden[total - c] for c in range(1, total + 1)))
    change = Fraction(2 * moved**2) / scale**2 if gaussian else Fraction(2 * moved) / scale
    return change, 1 - hidden[moved]


@states(
    Source(
        "TCKMS22",
        "Theorem 4.11, paradigm for friendly differential privacy",
        SourceStatus.CHANGED_CONSTANTS,
        "smaller and tight delta, and the replace version",
    ),
    Source("OURS", "filter composition: delta (e^(aT) - 1) / a, tight"),
)
def friendly_lift(epsilon: Fraction, delta: Fraction, moved: Fraction) -> tuple[Any, Any]:
    """Return (epsilon, delta) of a filter followed by a friendly (epsilon, delta)-DP mechanism;
    ``moved`` is T, the total change of the keep-probabilities.

    Proof. Change one keep-probability at a time, first those that fall, then those that rise,
    so that all sets on the way are friendly (a premise): F_p = p G1 + (1 - p) G0, the averages
    with and without that record. Let a = e^epsilon - 1. If p > p', G1 <= e^epsilon G0 + delta
    gives F_p + delta/a <= (1 + p a)/(1 + p' a) (F_p' + delta/a), a factor of at most 1 + a |p -
    p'|; if p < p' the same with 1 - p. The factors multiply to at most e^(a T). QED.
    """
    a = mp.expm1(real(epsilon))
    return a * real(moved), real(delta) * mp.expm1(a * real(moved)) / a


@states(Source("OURS", "a released number that misses the true one is an event"))
def missed_number(shift: int, slack: int, moved: int, *, above: bool, smaller: bool) -> int:
    """Return the t for which q - shift + Z misses a bound with probability at most P(Z >= t), Z
    symmetric.

    The bound is missed by being above it (``above``) or below it: it is q0 - slack, where q0 is
    the smaller (larger) of the quantity's values for the two neighbors, which differ by at most
    ``moved``, and q is either of the two values.

    Proof. q - shift + Z > q0 - slack if Z >= shift - slack + 1 - (q - q0), and q - q0 is at
    most ``moved`` where q0 is the smaller value, at most 0 where it is the larger. Below:
    -Z >= slack - shift + 1 - (q0 - q), the mirror image. QED.
    """
    away = shift - slack if above else slack - shift
    return away + 1 - (moved if above == smaller else 0)


@states(Source("OURS", "records without enough friends are kept rarely: one bound for all of them"))
def kept_by_noise(score: int, threshold: int, sigma: Fraction, records: int) -> Any:
    """Return a bound on the probability that one of at most ``records`` scores of at most
    ``score`` passes the threshold with rounded Gaussian noise of deviation sigma: score + Z >
    threshold, added up.
    """
    edge = real(threshold - score + Fraction(1, 2)) / real(sigma)
    return records * mp.erfc(edge / mp.sqrt(2)) / 2


@states(Source("OURS", "a Gaussian filter, then a noisy number and mean: approximate GDP"))
def noisy_degree_lift(
    friendly: tuple[Fraction, Fraction],
    inside: Fraction,
    outside: Fraction,
    sigma: Fraction,
    missed: Fraction,
) -> tuple[Fraction, Fraction]:
    """Return (mu^2, delta) of a filter by noisy scores followed by a friendly mechanism.

    For friendly neighbors the mechanism has ``friendly`` = (mu^2, delta). The scores of the
    other records move by ``inside`` or ``outside`` (squared L2), by where the changed record
    is.

    Proof. Let v tell which of the others are kept. It is a function of noisy scores, so it has
    mu^2 = inside / sigma^2 or outside / sigma^2, by where the record in question is. Given v, a
    record outside is kept with a probability that ``missed`` pays for; if it is not kept,
    nothing differs. A record inside is kept or not by a coin that does not depend on v: the
    mechanism's laws for v with and without it are a friendly pair, and a mixture with the same
    law on both sides is no worse (joint convexity of H_g in the pair). The two stages compose
    to the sum of their mu^2. Measures are reduced for each v, so deltas add up. QED. Under
    replace both records have coins, so pairs with one exchanged for the other are compared too.
    """
    mu_squared, delta = friendly
    return max(inside / sigma**2 + mu_squared, outside / sigma**2), delta + missed
