"""``private_quantiles``: many quantiles of one column between public bounds, at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Self

from dpverify.estimation.answers import Result, tail_of
from dpverify.grid import interval
from dpverify.grid.cells import floor_log2
from dpverify.grid.quantile_blocks import BlockScores
from dpverify.grid.tables import LONGEST
from dpverify.plans import BlockChoices, Handle, Mechanism, Plan, Stage, Transcripts
from dpverify.plans.parameters import Cell, Rational, probability, whole_from
from dpverify.privacy import Adjacency, Domain, GaussianDP, Guarantee, Profile
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.guarantees import BoundedRange
from dpverify.privacy.numbers import Exact, as_written, root_up, settle, to_float

_CELLS = 20  # the interval has at least 2^20 cells
_FEWEST_STEPS = 40  # in 64ths: a composition of ranges e is no better than GDP of e / 2 each
_MOST = 1000
_PARTS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantilesEstimate(Result):
    """Private quantiles of one column, in order: ``value[i]`` is the quantile of ``levels[i]``.

    The values are in the data's units, between the bounds.
    """

    value: tuple[float, ...]
    levels: tuple[float, ...]

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: how far in value a rank is off depends on the density of the private
        records.

        The error in ranks is known beforehand: ``PrivateQuantiles.rank_error``. Raises TypeError
        or ValueError for a level outside (0, 1).
        """
        tail_of(level)


def _levels(value: Any, name: str) -> tuple[Fraction, ...]:
    """Read rationals in [0, 1] in increasing order, of one moderate denominator."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} = {value!r}; give a list of quantiles, ['1/4', '1/2', '3/4'].")
    levels = tuple(as_written(one, name) for one in value)
    if not 1 <= len(levels) <= _MOST:
        raise ValueError(f"{name} lists {len(levels)} quantiles; give from 1 to {_MOST}.")
    if not 0 <= levels[0] <= levels[-1] <= 1 or sorted({*levels}) != list(levels):
        raise ValueError(
            f"{name} = {value}; give quantiles from 0 to 1 in increasing order, no two alike, for "
            "example ['1/4', '1/2', '3/4']."
        )
    shared = math.lcm(*(level.denominator for level in levels))
    if shared > LONGEST:
        raise ValueError(
            f"{name}: together the quantiles have the denominator {shared}, beyond 2^20; write "
            "simpler fractions, for example '9/10'."
        )
    return levels


def _parts(value: Any, name: str) -> int:
    """Read a power of two."""
    parts = int(whole_from(1, most=1 << 20)(value, name))
    if parts & (parts - 1):
        raise ValueError(f"{name} = {value} is no power of two; write for example 65536.")
    return parts


@dataclass(frozen=True, slots=True)
class _Node:
    """A quantile in the tree of halves, with its place and the places of the released quantiles
    around it.
    """

    place: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantiles(Mechanism[QuantilesEstimate]):
    """Many quantiles by the exponential mechanism in halves of the records: m of them take about
    log2(m) rounds.

    The middle level is chosen first, among all records. It divides them into the records up to it
    and those beyond, in which the next two are chosen as quantiles of their part of the records,
    and so on. A record is in one part of each round, so a round costs what one choice costs;
    under replace two parts change, and the noise is twice that under add-remove. The error of a
    round is handed on to the quantiles between: see ``expected_error``, and ``rank_error`` for
    all at once. ``PrivateQuantile`` does one quantile, with the same error.

    Data: one column, shape (n,) or (n, 1), in any unit; values beyond the bounds count as the
    bound. Output: ``QuantilesEstimate``; never abstains: for n = 0 the first is uniform on the
    grid.
    Claim: each of the ceil(log2(m + 1)) rounds for m quantiles has a bounded range of
    1 / noise_multiplier; they compose.
    lower, upper: public bounds, chosen without looking at the data.
    levels: rationals in [0, 1] in increasing order.
    cell: the grid's step, a power of two; by default at most 2^-20 of the interval.
    parts: a power of two. Records of one cell are spread over this many parts of it, so that many
    equal records are divided among the quantiles around them.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: KSS22, S11 (quantiles by the exponential mechanism).
    """

    lower: float
    upper: float
    levels: Annotated[tuple[Rational, ...], _levels]
    cell: Cell | None = None
    parts: Annotated[int, _parts] = _PARTS

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Calibrate as ``Mechanism`` does; for a GaussianDP budget to a 64th of the noise, which
        takes a tenth of the time.

        Each round alone implies GDP, and their mu^2 add up; the joint profile of the rounds needs
        less noise than that.
        """
        base = cls(adjacency=adjacency, noise_multiplier=Fraction(1), **parameters)
        rounds = len(base.fixed_plan)
        if not isinstance(budget, GaussianDP) or rounds == 1:
            return super(PrivateQuantiles, cls).calibrated_for(
                budget, adjacency=adjacency, **parameters
            )
        square = rounds * BoundedRange(1).gaussian.mu_squared / budget.mu_squared
        most = root_up(square, 40)

        def enough(steps: int) -> bool:
            made = Profile([BoundedRange(64 / (most * steps))] * rounds)
            return made.implies(budget)

        steps = least_integer(enough, above=_FEWEST_STEPS - 1, first=64)
        noise = most * steps / 64
        return replace(base, noise_multiplier=noise, budget=budget)

    def check_parameters(self) -> None:
        """Check that the bounds are in order."""
        lower, upper = interval(self.lower, self.upper, "lower and upper")
        settle(self, lower=lower, upper=upper)

    def replacement(self) -> float:
        """Return the middle of the bounds."""
        return self.lower / 2 + self.upper / 2

    def plan(self) -> Plan:
        """Plan one stage a round: a choice in each of the parts that the rounds before it left."""
        low, high = self._ends()
        stages: list[Stage] = []
        released: list[int] = []
        for nodes in self._rounds():
            blocks = tuple((self._gap(one, released), *self._share(one)) for one in nodes)
            after = tuple(stage.name for stage in stages)
            query = BlockScores(
                low, high, self._exponent(), self.parts, blocks, after, len(released)
            )
            moves = query.sensitivity(self.adjacency, Domain(1)).conclusion.value
            noise = BlockChoices.of(query, 2 * self.noise_multiplier * moves)
            stages.append(Stage(Handle(f"round {len(stages) + 1}"), query, noise))
            released = sorted([*released, *(one.place for one in nodes)])
        return tuple(stages)

    def estimate(self, transcript: Transcripts) -> QuantilesEstimate:
        """Return the cells of the chosen parts, in the order of the levels."""
        cell, first = Fraction(2) ** self._exponent(), self._ends()[0]
        values = [0.0] * len(self.levels)
        low, high = Fraction(self.lower), Fraction(self.upper)
        for number, nodes in enumerate(self._rounds()):
            released = transcript.numbers(f"round {number + 1}")
            for node, part in zip(nodes, released, strict=True):
                values[node.place] = float(min(max((first + part // self.parts) * cell, low), high))
        return QuantilesEstimate(tuple(values), tuple(map(to_float, self.levels)))

    def expected_error(self, n: int) -> float:
        """Predict the root mean square error of all quantiles in ranks, as a share of the n
        records, for records that are even and within the bounds.

        A choice has the rank error of a quantile of its part of the records, and takes on the
        errors of the two quantiles around it, in proportion to how near it is to each.
        """
        errors: dict[int | None, dict[int, float]] = {None: {}}
        total = 0.0
        for number, nodes in enumerate(self._rounds()):
            for node in nodes:
                p, q = self._share(node)
                own = {node.place: math.sqrt(2) * to_float(self._scale(number) * max(p, q - p) / q)}
                for side, weight in ((node.below, 1 - p / q), (node.above, p / q)):
                    for place, error in errors[side].items():
                        own[place] = own.get(place, 0.0) + weight * error
                errors[node.place] = own
                total += sum(error**2 for error in own.values())
        return math.sqrt(total / len(self.levels)) / n if n > 0 else math.inf

    def rank_error(self, *, beta: Exact = "1/20") -> float:
        """Bound the rank error of all quantiles at once: with probability 1 - beta none is
        further off than this many ranks, whatever the records are.

        This holds where at most ``parts`` records share a cell; more records add a rank a round
        for each further ``parts`` of them. Raises TypeError or ValueError for a beta outside (0,
        1).
        """
        fails = probability(beta, "beta")
        stage = self.fixed_plan[0]
        assert isinstance(stage, Stage)
        assert isinstance(stage.query, BlockScores)
        first, last = stage.query.ends
        likely = math.log((last - first + 1) * len(self.levels))
        likely += math.log(fails.denominator) - math.log(fails.numerator)
        total = 0.0
        for number, nodes in enumerate(self._rounds()):
            widest = max(Fraction(max(p, q - p), q) for p, q in map(self._share, nodes))
            total += to_float(self._scale(number) * widest) * likely + 1
        return total

    def _rounds(self) -> list[list[_Node]]:
        """List the quantiles of each round: the middle one of every remaining stretch of levels."""
        m, rounds = len(self.levels), list[list[_Node]]()
        stretches = [(0, m)]
        while stretches:
            nodes, inner = [], []
            for start, end in stretches:
                middle = (start + end) // 2
                below, above = start - 1 if start else None, end if end < m else None
                nodes.append(_Node(middle, below, above))
                inner += [(start, middle), (middle + 1, end)]
            rounds.append(nodes)
            stretches = [(start, end) for start, end in inner if start < end]
        return rounds

    def _share(self, node: _Node) -> tuple[int, int]:
        """Return p and q for which this quantile is the p/q quantile of the records in its part."""
        low = Fraction(0) if node.below is None else self.levels[node.below]
        high = Fraction(1) if node.above is None else self.levels[node.above]
        share = (self.levels[node.place] - low) / (high - low)
        return share.numerator, share.denominator

    def _gap(self, node: _Node, released: list[int]) -> int:
        return sum(place < node.place for place in released)

    def _scale(self, number: int) -> Fraction:
        stage = self.fixed_plan[number]
        assert isinstance(stage, Stage)
        assert isinstance(stage.noise, BlockChoices)
        return stage.noise.scale

    def _ends(self) -> tuple[int, int]:
        cell = Fraction(2) ** self._exponent()
        return round(Fraction(self.lower) / cell), round(Fraction(self.upper) / cell)

    def _exponent(self) -> int:
        if self.cell is not None:
            return floor_log2(self.cell)
        return floor_log2(Fraction(self.upper) - Fraction(self.lower)) - _CELLS
