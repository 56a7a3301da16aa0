"""Spec of ``private_quantiles``: in rounds, a quantile of each remaining part of the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import private_quantile
from .theory import queries
from .theory.laws import Outcome, TranscriptLaw, real, real_exponential
from .theory.obligations import Departure, datasets, neighbors, require
from .theory.quantile_blocks import Block, BlockChoicesLaw, block_sensitivity, spread

Parameters = Mapping[str, Any]
Node = tuple[int, int | None, int | None]
"""A level's place, and the places of the released ones below and above it."""

DEPARTURES = (
    Departure(
        "KSS22, Algorithm 1 (approximate quantiles)",
        "records of one cell are spread over parts of it, in one order for all datasets",
        "records equal to a released quantile would all go to one side of it, so that with many "
        "equal records the quantiles beside them are of the wrong records; spread, a record "
        "more is a part more, and ranks are as if no two were equal",
    ),
    Departure(
        "KSS22, Algorithm 1 (approximate quantiles)",
        "a round is one choice of the exponential mechanism, of as many parts as there are blocks, "
        "and has its bounded range; there it is a parallel composition",
        "a record moves one block's scores, so the sum of all scores moves by no more; the "
        "range of losses composes better than the epsilon does",
    ),
    Departure(
        "KSS22, Algorithm 1 (approximate quantiles)",
        "parts of a fixed public grid are chosen, and scores are divided by max(p, q - p)",
        "as for private_quantile",
    ),
    Departure(
        "KSS22, Theorem 3.5 (rank error of all quantiles)",
        "the errors of rounds add up, as there, with the constants of our scores",
        "an error is handed on to a weighted mean of two, so a round adds its own",
    ),
)


def rounds(levels: Sequence[Any]) -> list[list[Node]]:
    """Return the middle one of each stretch of levels that is left, as in the code: stated
    again.
    """
    by_round: list[list[Node]] = []
    left = [(-1, len(levels))]
    while left:
        nodes, inner = [], []
        for below, above in left:
            place = (below + 1 + above) // 2
            ends = (below if below >= 0 else None, above if above < len(levels) else None)
            nodes.append((place, *ends))
            inner += [(below, place), (place, above)]
        by_round.append(nodes)
        left = [(below, above) for below, above in inner if above - below > 1]
    return by_round


def share(levels: Sequence[Fraction], node: Node) -> Fraction:
    """Return the node's quantile among the records between those around it."""
    place, below, above = node
    low = Fraction(0) if below is None else levels[below]
    high = Fraction(1) if above is None else levels[above]
    return (levels[place] - low) / (high - low)


def blocks(levels: Sequence[Fraction]) -> list[tuple[Block, ...]]:
    """Return the blocks of each round."""
    by_round, released = [], set[int]()
    for nodes in rounds(levels):
        by_round.append(
            tuple(
                (sum(z < node[0] for z in released), *share(levels, node).as_integer_ratio())
                for node in nodes
            )
        )
        released |= {node[0] for node in nodes}
    return by_round


def grid(parameters: Parameters) -> queries.Grid:
    """Return the grid, of cells that are at most 2^-20 of the interval, unless given."""
    return queries.grid(parameters["lower"], parameters["upper"], 2**20, parameters["cell"])


def sensitivities(parameters: Parameters) -> dict[str, Fraction]:
    """Return the sensitivity of each stage."""
    return {
        f"round {i + 1}": block_sensitivity([(p, q) for _, p, q in one], parameters["adjacency"])
        for i, one in enumerate(blocks(parameters["levels"]))
    }


@states(
    Source("KSS22", "Algorithm 1, approximate quantiles"),
    Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of each round: a part for each block, whose edges are all parts released
    before.
    """
    lower, upper, cell = grid(parameters)
    parts = parameters["parts"]
    placed = spread([queries.to_cells(z, lower, upper, cell) - lower for z in records], parts)
    every, moves = blocks(parameters["levels"]), list(sensitivities(parameters).values())

    def stage(prefix: tuple[Outcome, ...]) -> BlockChoicesLaw:
        own, edges = every[len(prefix)], tuple(sorted(t for outcome in prefix for t in outcome))
        scale = 2 * parameters["noise_multiplier"] * moves[len(prefix)]
        return BlockChoicesLaw(placed, edges, lower, upper, parts, own, scale)

    names = tuple((f"round {i + 1}", stage) for i in range(len(every)))
    middle = (upper - lower + 1) * parts // 2
    return TranscriptLaw(names, tuple((middle,) * len(one) for one in every[:-1]))


_SMALL: dict[str, Any] = {"lower": 0.0, "upper": 2.0, "cell": Fraction(1), "parts": 2}
_LEVELS = (
    (Fraction(1, 2),),
    (Fraction(1, 3), Fraction(2, 3)),
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
)


def _rounds_of(parameters: Parameters, records: Sequence[int]) -> Iterator[BlockChoicesLaw]:
    """Return the law of each round after every prefix of edges in order."""
    whole = law(parameters, [Fraction(z) for z in records])
    prefixes: list[tuple[Outcome, ...]] = [()]
    for i, (_, stage) in enumerate(whole.stages):
        yield from (stage(prefix) for prefix in prefixes)  # type: ignore[misc]
        if i + 1 < len(whole.stages):
            prefixes = [(*prefix, (t,)) for prefix in prefixes for t in range(6)]


@states(Source("MT07", "the exponential mechanism", note="bounded range: DDR20, Section 3"))
def obligation_range(claimed: Fraction = Fraction(1)) -> int:
    """Check that the losses of a round, for all neighbors of at most 3 records and after all
    edges, lie in an interval of length claimed / multiplier, and some in no shorter one.
    """
    cases = 0
    for adjacency, levels in product(Adjacency, _LEVELS):
        parameters = _SMALL | {"levels": levels, "adjacency": adjacency}
        parameters["noise_multiplier"] = Fraction(1)
        known = {
            z: list(_rounds_of(parameters, z))
            for z in {tuple(sorted(z)) for z in datasets(range(3), 3)}
        }
        largest = Fraction(0)
        for pair in {tuple(tuple(sorted(z)) for z in p) for p in neighbors(range(3), 3, adjacency)}:
            for own, other in zip(*(known[z] for z in pair), strict=True):
                largest, cases = max(largest, own.range(other)), cases + 1
        require(largest == claimed, f"{levels}, {adjacency}: {largest}, not {claimed}")
    return cases


@states(Source("OURS", "every part of a block is possible for every dataset"))
def obligation_support() -> int:
    """Check that after all edges the masses of a round add up to 1, and that all parts between a
    block's edges have positive mass.
    """
    cases = 0
    parameters = _SMALL | {"levels": _LEVELS[2], "adjacency": Adjacency.ADD_REMOVE}
    parameters["noise_multiplier"] = Fraction(1, 2)
    for records in {tuple(sorted(z)) for z in datasets(range(3), 2)}:
        for one in _rounds_of(parameters, records):
            outcomes = list(product(range(6), repeat=len(one.blocks)))
            masses = [one.probability(outcome, _formal) for outcome in outcomes]
            possible = 1
            for inside in one.in_blocks():
                possible *= 1 if isinstance(inside, int) else inside.upper - inside.lower + 1
            require(sum(masses) == 1, f"{records}, {one.edges}: {sum(masses)}")
            support = sum(mass > 0 for mass in masses)
            require(support == possible, f"{records}, {one.edges}: {support} of {possible}")
            cases += len(masses)
    return cases


def _formal(exponent: Fraction) -> Fraction:
    """Return a stand-in for e^-exponent, for whole exponents."""
    require(exponent.denominator == 1, f"{exponent} is no whole exponent")
    return Fraction(1, 2) ** int(exponent)


@states(Source("KSS22", "Theorem 3.5, rank error of all quantiles", note="with our constants"))
def error_bound(parameters: Parameters, beta: Fraction, shared: int = 1) -> Any:
    """Return a bound on the rank errors of all quantiles together, which holds with probability at
    least 1 - beta.

    It is the sum over the rounds of widest scale ln(cells parts m / beta) + shared, where
    widest is the largest max(p, q - p) / q of the round, and ``shared`` how many records have
    one part at most.

    Proof. Let a block have N records and d = #{z <= t} - p N / q for the part t that is chosen.
    Some part has the score 0, so that all the weights are at least 1 in all, and one with a
    score above s has a probability below cells parts e^(-s / (max(p, q - p) scale)), which is
    beta / m for this s. So except with probability beta none of the m scores is above that, and
    then -s / q <= d <= s / q + shared. Let E be how many more records are up to a released part
    than its level says: then E = (1 - f) E' + f E'' + d, where E' and E'' are those of the
    edges, 0 at the ends, and f = p / q. So |E| is at most the larger of |E'|, |E''| and |d|
    more. A rank error is at most |E|. QED
    """
    lower, upper, _ = grid(parameters)
    cells, m = (upper - lower + 1) * parameters["parts"], len(parameters["levels"])
    total, likely = mp.mpf(0), mp.log(cells * m / real(beta))
    for one, moves in zip(
        blocks(parameters["levels"]), sensitivities(parameters).values(), strict=True
    ):
        widest = max(Fraction(max(p, q - p), q) for _, p, q in one)
        scale = 2 * parameters["noise_multiplier"] * moves
        total += real(widest * scale) * likely + shared
    return total


def obligation_error(claimed: Fraction = Fraction(1)) -> int:
    """Check on every small dataset that ``claimed`` times the bound is exceeded with probability
    at most beta.

    Records have 8 cells of one part each, so that several share a part.
    """
    cases = 0
    parameters: dict[str, Any] = {"lower": 0.0, "upper": 7.0, "cell": Fraction(1), "parts": 1}
    parameters |= {"adjacency": Adjacency.ADD_REMOVE, "levels": _LEVELS[2]}
    parameters["noise_multiplier"] = Fraction(1, 2)
    universe = (
        (0,) * 4,
        (0, 1, 2, 3),
        (1, 4, 6, 7),
        (3, 3, 5, 6, 7),
        (0,) * 3 + (7,) * 3,
        tuple(range(8)),
    )
    for records, beta in product(universe, (Fraction(1, 2), Fraction(1, 50))):
        shared = max(records.count(z) for z in records)
        bound = real(claimed) * error_bound(parameters, beta, shared)
        missed = mp.mpf(0)
        model = law(parameters, [Fraction(z) for z in records])
        for first in range(8):
            stage = model.stages[0][1](())
            mass = stage.probability((first,), real_exponential)  # type: ignore[union-attr]
            second = model.stages[1][1](((first,),))
            assert isinstance(second, BlockChoicesLaw)
            for pair in product(range(8), repeat=2):
                errors = [
                    rank_error(records, t, level)
                    for t, level in zip((pair[0], first, pair[1]), _LEVELS[2], strict=True)
                ]
                if real(max(errors)) > bound:
                    missed += mass * second.probability(pair, real_exponential)
                cases += 1
        require(missed <= real(beta), f"{records}: beyond {bound} with {missed}, not {beta}")
    return cases


@states(Source("HT10", "packing argument", note="of the quantile of the first round alone"))
def lower_bound(parameters: Parameters, epsilon: Fraction, n: int) -> Any:
    """Return a lower bound on the expected rank error of the middle one of the levels, on some
    dataset of n records, of every epsilon-DP release: that of ``private_quantile`` for one.

    It bounds the worst of the levels too.
    """
    levels = parameters["levels"]
    alone = {**parameters, "quantile": levels[len(levels) // 2]}
    return private_quantile.lower_bound(alone, epsilon, n)


def obligation_lower_bound_is_below_error() -> int:
    """Check that the expected worst error of all quantiles on the hardest dataset is above the
    bound, and that the bound of it is within 80 times of that: three rounds share epsilon, and
    their errors add up.
    """
    cases = 0
    for adjacency, epsilon in product(Adjacency, (Fraction(1, 100), Fraction(1, 10))):
        parameters: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "cell": None, "parts": 1}
        parameters |= {"adjacency": adjacency, "levels": tuple(Fraction(k, 6) for k in range(1, 6))}
        parameters["noise_multiplier"] = len(rounds(parameters["levels"])) / epsilon
        bound = lower_bound(parameters, epsilon, 10**4)
        # P(error > error_bound(e^-s)) <= e^-s, and that bound is affine in s
        most = 2 * error_bound(parameters, Fraction(1)) - error_bound(parameters, Fraction(3))
        require(0 < bound <= most <= 80 * bound, f"{adjacency}, {epsilon}: {bound}, {most}")
        cases += 1
    return cases


def rank_error(records: Sequence[int], t: int, level: Fraction) -> Fraction:
    """Return the distance of the rank level n from the ranks #{z < t}..#{z <= t}."""
    wanted = level * len(records)
    below, up_to = sum(z < t for z in records), sum(z <= t for z in records)
    return max(Fraction(0), below - wanted, wanted - up_to)


def expected_error(parameters: Parameters, records: Sequence[Fraction]) -> Any:
    """Return the root mean square, over all quantiles, of the rank error, for many records in even
    steps.

    E = (1 - f) E' + f E'' + d with independent d, each discrete Laplace of mass e^(-rate |d|),
    rate = q / (max(p, q - p) scale), and variance 1 / (2 sinh(rate / 2)^2).
    """
    levels = parameters["levels"]
    errors: dict[int | None, dict[int, Any]] = {None: {}}
    total = mp.mpf(0)
    for nodes, moves in zip(rounds(levels), sensitivities(parameters).values(), strict=True):
        for node in nodes:
            f = share(levels, node)
            widest = max(f, 1 - f)
            rate = 1 / real(2 * parameters["noise_multiplier"] * moves * widest)
            own = {node[0]: 1 / (mp.sqrt(2) * mp.sinh(rate / 2))}
            for side, weight in ((node[1], 1 - f), (node[2], f)):
                for place, error in errors[side].items():
                    own[place] = own.get(place, mp.mpf(0)) + real(weight) * error
            errors[node[0]] = own
            total += mp.fsum(error**2 for error in own.values())
    return mp.sqrt(total / len(levels))
