"""A thousand different mechanisms composed: our bounds from both sides, a peer's, textbook sums.

Each mix: 499 pure DP, 250 discrete Laplace shifts, 250 Gaussians and one (epsilon, delta)
mechanism of delta 1e-60, or as its name says; + ranges: 249 of the pure ones are exponential
mechanisms (bounded range). Asked for: delta at epsilons where it is about 1e-6, 1e-20 and 1e-40,
and epsilon at 1e-6, each from cold caches. gap: (upper - lower) / lower. Our lower bound takes
randomized response of half the length for a bounded range, so with ranges the two sides stay
apart whatever the arithmetic does. Gaussian stages are merged first, for us and for the peer
(exact, and kinder to its time).

dp-accounting: privacy loss distributions at the default interval of 1e-4 and the default
truncation of 1e-15 a composition, equal stages by self_compose, the rest pairwise, smallest
first. It has no bounded range: its connect-the-dots is given our profile of one (pessimistic),
randomized response as above (optimistic). Its (epsilon, delta) stage has no optimistic version
and is randomized response there. "pessimistic below ours": its upper bound is below our lower
bound, so one of the two is wrong; "optimistic above ours" likewise.

Textbook, epsilon at delta = 1e-6. basic: epsilons add up, the Gaussian part by its own profile.
advanced: Kairouz, Oh, Viswanath 2015, Theorem 3.5, half of delta each for it and for the
Gaussian part. zCDP: rho + 2 sqrt(rho ln(1 / delta)), rho = epsilon^2 / 2, epsilon^2 / 8 (bounded
range), mu^2 / 2.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import count, cycle, islice
from typing import Any

from dpverify.privacy.balls import Enclosure
from dpverify.privacy.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
)
from tests.benchmarks.timing import clocked, cold, header, peer, quiet, table

TARGETS = (1e-6, 1e-20, 1e-40)
INTERVAL = 1e-4
LARGEST_GAP, LONGEST = 1e-3, 10.0
EVENT = ApproxDP("0.01", "1e-60")


def exacts(text: str) -> list[Fraction]:
    """Read rationals from text."""
    return [Fraction(word) for word in text.split()]


def pairs(text: str) -> list[tuple[int, Fraction]]:
    """Read shifts and scales from text."""
    return [(int(a), Fraction(b)) for a, b in (word.split(":") for word in text.split())]


def mixed(
    pure: list[Fraction],
    shifts: list[tuple[int, Fraction]],
    mus: list[Fraction],
    ranges: list[Fraction] | None = None,
) -> list[Guarantee]:
    """Build a thousand stages: the parameters in turn, and one stage with an event."""
    stages: list[Guarantee] = [PureDP(e) for e in islice(cycle(pure), 250 if ranges else 499)]
    stages += [BoundedRange(e) for e in islice(cycle(ranges or []), 249)]
    stages += [DiscreteLaplaceShift(*s) for s in islice(cycle(shifts), 250)]
    return [*stages, *(GaussianDP(mu) for mu in islice(cycle(mus), 250)), EVENT]


def mixes() -> Iterator[tuple[str, list[Guarantee], tuple[float, ...]]]:
    """List names, stages, and the epsilons where delta is about as in TARGETS."""
    pure, mus = exacts("0.01 0.02 0.03 0.04 0.05"), exacts("0.01 0.02 0.05")
    lattice: list[Guarantee] = [PureDP(e) for e in islice(cycle(pure), 500)]
    lattice += [DiscreteLaplaceShift(1 + i % 3, 100) for i in range(500)]
    yield "500 pure, 500 shifts", lattice, (4.23, 8.22, 11.61)
    shifts = pairs("1:50 2:100 3:100 1:25")
    yield "few, decimal", mixed(pure, shifts, mus), (4.87, 9.42, 13.36)
    few = mixed(pure, shifts, mus, exacts("0.02 0.04 0.05 0.1"))
    yield "few, decimal, + ranges", few, (4.94, 9.37, 13.25)
    pure, shifts = exacts("1/97 2/103 3/151"), pairs("1:101/3 2:211/7 3:307/5")
    yield "few, ugly", mixed(pure, shifts, exacts("1/37 1/71")), (4.55, 8.76, 12.28)
    pure, shifts = exacts("1e-4 1e-3 1e-2 0.1"), pairs("1:1000 1:100 1:10 100:10000")
    yield "few, scales 1 to 1000", mixed(pure, shifts, exacts("0.001 0.1")), (9.45, 17.32, 24.06)
    pure = [Fraction(100 + i, 10000) for i in range(499)]
    shifts = [(1 + i % 7, Fraction(400 + i, 10)) for i in range(250)]
    yield "all distinct, decimal", mixed(pure, shifts, pure), (8.59, 15.71, 21.59)
    yield (
        "all distinct, decimal, + ranges",
        mixed(pure, shifts, pure, pure[100:]),
        (7.62, 13.95, 18.95),
    )
    pure, mus = ([Fraction(1, first + 2 * i) for i in range(499)] for first in (21, 50))
    shifts = [(1 + i % 5, Fraction(200 + 3 * i, 7)) for i in range(250)]
    yield "all distinct, ugly", mixed(pure, shifts, mus), (3.95, 7.35, 9.77)
    lattice = [PureDP(Fraction(1, 21 + 2 * i)) for i in range(500)]
    lattice += [DiscreteLaplaceShift(1 + i % 5, Fraction(200 + 3 * i, 7)) for i in range(500)]
    yield "all distinct, no Gaussian", lattice, (4.2, 7.86, 10.62)
    draw = random.Random(1).uniform
    pure, mus = ([Fraction(draw(0.005, 0.05)) for _ in range(499)] for _ in range(2))
    shifts = [(1 + i % 5, Fraction(draw(30, 200))) for i in range(250)]
    yield "all distinct, 53 bits", mixed(pure, shifts, mus), (5.26, 10.04, 14.08)


def ours(stages: list[Guarantee], epsilons: tuple[float, ...]) -> list[Enclosure]:
    """Bound delta from cold caches."""
    cold()
    profile = Profile(stages)
    return [profile.delta_at(epsilon) for epsilon in epsilons]


def inverse(stages: list[Guarantee], delta: float) -> Enclosure:
    """Bound epsilon from cold caches."""
    cold()
    return Profile(stages).epsilon_at(delta)


def merged_mu(stages: list[Guarantee]) -> float:
    """Return the mu of all Gaussian stages together."""
    return math.sqrt(sum(float(s.mu_squared) for s in stages if isinstance(s, GaussianDP)))


def textbook(stages: list[Guarantee], delta: float) -> list[float]:
    """Bound epsilon by basic, advanced and zCDP composition."""
    mu = Fraction(merged_mu(stages))
    losses = [float(getattr(s, "epsilon", 0)) for s in stages if not isinstance(s, GaussianDP)]
    shares = (delta, delta / 2)
    whole, half = (float(GaussianDP(mu).epsilon_at(d).upper) if mu else 0.0 for d in shares)
    drift, square = sum(e * math.tanh(e / 2) for e in losses), sum(e * e for e in losses)
    slack = min(math.log(2 / delta), math.log(math.e + 2 * math.sqrt(square) / delta))
    advanced = drift + math.sqrt(2 * square * slack)
    ranges = sum(float(s.epsilon) ** 2 for s in stages if isinstance(s, BoundedRange))
    rho = float(mu) ** 2 / 2 + (square - ranges) / 2 + ranges / 8
    return [sum(losses) + whole, advanced + half, rho + 2 * math.sqrt(rho * -math.log(delta))]


def bounded_range(pld: Any, epsilon: float) -> Any:
    """Return the loss distribution of a bounded range, which the peer lacks.

    Its profile is delta(e) = (1 - e^((e - epsilon) / 2))^2 / (1 - e^-epsilon) for e from
    -epsilon to epsilon, and 1 - e^e below that.
    """
    last = math.ceil(epsilon / INTERVAL)
    gaps = [math.expm1(min(k * INTERVAL - epsilon, 0.0) / 2) for k in range(1 - last, last + 1)]
    deltas = [-math.expm1(-last * INTERVAL), *(g * g / -math.expm1(-epsilon) for g in gaps)]
    dots = pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(INTERVAL, -last, last, deltas)
    return pld.privacy_loss_distribution.PrivacyLossDistribution(dots)


def one_stage(pld: Any, stage: Guarantee, upper: bool) -> Any:
    """Return the peer's loss distribution of one stage."""
    make, side = pld.privacy_loss_distribution, {"pessimistic_estimate": upper}
    if isinstance(stage, GaussianDP):
        return make.from_gaussian_mechanism(1 / math.sqrt(stage.mu_squared), **side)
    if isinstance(stage, DiscreteLaplaceShift):
        return make.from_discrete_laplace_mechanism(1 / float(stage.scale), stage.shift, **side)
    if isinstance(stage, BoundedRange):
        if upper:
            return bounded_range(pld, float(stage.epsilon))
        stage = PureDP(stage.epsilon / 2)
    if isinstance(stage, ApproxDP) and upper:
        budget = pld.common.DifferentialPrivacyParameters(float(stage.epsilon), float(stage.delta))
        return make.from_privacy_parameters(budget)
    if isinstance(stage, (PureDP, ApproxDP)):
        return make.from_randomized_response(2 / (1 + math.exp(stage.epsilon)), 2, **side)
    raise TypeError(f"no loss distribution of {stage}")


def composed(pld: Any, stages: list[Guarantee], upper: bool) -> Any:
    """Compose all loss distributions, the smallest first."""
    mu = merged_mu(stages)
    times = Counter(s for s in stages if not isinstance(s, GaussianDP))
    if mu:
        times[GaussianDP(mu)] = 1
    heap: list[tuple[int, int, Any]] = []
    ticket = count()
    for stage, n in times.items():
        made = one_stage(pld, stage, upper)
        made = made.self_compose(n) if n > 1 else made
        heapq.heappush(heap, (made._pmf_remove.size, next(ticket), made))
    while len(heap) > 1:
        made = heapq.heappop(heap)[2].compose(heapq.heappop(heap)[2])
        heapq.heappush(heap, (made._pmf_remove.size, next(ticket), made))
    return heap[0][2]


Peer = tuple[list[tuple[float, ...]], list[float], list[float]]


def theirs(pld: Any, stages: list[Guarantee], epsilons: tuple[float, ...]) -> Peer:
    """Return (optimistic, pessimistic) at the epsilons, both epsilons at the first target, and
    seconds of each."""
    deltas, inverses, seconds = [], [], []
    for upper in (False, True):
        made, _, processor = clocked(composed, pld, stages, upper)
        deltas.append([float(made.get_delta_for_epsilon(e)) for e in epsilons])
        inverses.append(float(made.get_epsilon_for_delta(TARGETS[0])))
        seconds.append(processor)
    return list(zip(*deltas, strict=True)), inverses, seconds


def e(value: float | Fraction, digits: int = 4) -> str:
    """Format in scientific notation; as a float, a Fraction below the floats would be 0."""
    return f"{float(value):.{digits - 1}e}"


def verdict(ours: Enclosure, side: tuple[float, ...]) -> str:
    """Name the numbers that contradict each other; nan, for none, contradicts nothing."""
    optimistic, pessimistic = side
    words = ["pessimistic below ours"] * (pessimistic < ours.lower)
    return ", ".join([*words, *["optimistic above ours"] * (optimistic > ours.upper)]) or "-"


def main() -> None:
    """Print delta at the epsilons, then times and epsilons."""
    quiet()
    header("A thousand mechanisms", "python -m tests.benchmarks.accounting_composition")
    print(f"\n{__doc__}")
    pld, deltas, summary = peer("dp-accounting", "dp_accounting.pld"), [], []
    for name, stages, epsilons in mixes():
        try:
            enclosures, wall, processor = clocked(ours, stages, epsilons)
            least, _, search = clocked(inverse, stages, TARGETS[0])
        except (ValueError, ArithmeticError) as error:
            print(f"FAILED: {name}: {type(error).__name__}: {error}\n")
            continue
        none: Peer = [(math.nan, math.nan)] * len(TARGETS), [math.nan] * 2, [math.nan] * 2
        sides, inverses, seconds = theirs(pld, stages, epsilons) if pld else none
        for epsilon, both, side in zip(epsilons, enclosures, sides, strict=True):
            gap = (both.upper - both.lower) / both.lower if both.lower else math.inf
            row = [name, f"{epsilon:g}", e(both.lower, 7), e(both.upper, 7), e(gap, 2)]
            row += ["miss" if gap > LARGEST_GAP else "ok", *(e(x) for x in side)]
            deltas.append([*row, verdict(both, side)])
        late = "miss" if processor > LONGEST else "ok"
        times = [wall, processor, search, *seconds]
        ends = [float(least.lower), float(least.upper), *inverses, *textbook(stages, TARGETS[0])]
        row = [name, str(len(Profile(stages).parts)), *(f"{x:.2f}" for x in times), late]
        summary.append([*row, *(f"{x:.5f}" for x in ends)])
    print(f"delta at an epsilon; target: gap <= {LARGEST_GAP:g}")
    columns = "mix,epsilon,our lower,our upper,gap,target,optimistic,pessimistic,contradiction"
    table(columns.split(","), deltas)
    print(f"\nprocessor seconds; target: <= {LONGEST:g} for delta; then epsilon at delta = 1e-6")
    columns = "mix,parts,wall,delta,epsilon,optimistic,pessimistic,target,our lower,our upper,"
    table((columns + "optimistic,pessimistic,basic,advanced,zCDP").split(","), summary)


if __name__ == "__main__":
    main()
