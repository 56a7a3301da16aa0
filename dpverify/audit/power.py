"""Power of the auditor: what it sees and what it misses, measured on faults that are there.

Faults are attacked on one pair, the one that shows them best, at the level that an audit of all
pairs would leave for it: with more pairs an audit sees at least as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from dpverify.audit.attack import FixedAttack
from dpverify.audit.audit_targets import AuditTarget
from dpverify.audit.confidence_regions import at_least, at_most
from dpverify.audit.faults import deficit
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.subjects import Target, planted_in
from dpverify.privacy import Guarantee

DEFICITS = tuple(Fraction(percent, 100) for percent in (2, 3, 4, 5, 7, 10, 15, 20, 30, 50))
ENOUGH = 0.9
"""The power that is asked for."""
_LOOK = 200_000  # draws per side and pair to find the pair that shows a fault best


@dataclass(frozen=True, slots=True)
class Frequency:
    """Number of times that something was seen. stopped: whether the tries ended on the one miss
    that was too many.
    """

    seen: int
    tried: int
    stopped: bool = False

    @property
    def missed(self) -> int:
        """Number of times that it was not seen."""
        return self.tried - self.seen

    @property
    def rate(self) -> float:
        """Share of tries in which it was seen."""
        return self.seen / self.tried

    def miss_at_most(self, alpha: float = 0.05) -> float:
        """Return an upper confidence end for the probability of a miss. Clopper, Pearson 1934."""
        last = int(self.stopped)  # P(so late or later) = P(fewer misses before the last try)
        if self.tried == last:
            return 1.0
        return float(at_most(self.missed - last, self.tried - last, alpha))

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval for the probability of seeing it. Clopper, Pearson 1934."""
        high = 1 - float(at_least(self.missed, self.tried, 0.025))
        return 1 - self.miss_at_most(0.025), high


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting in which faults are attacked: the claim, a pair, draws per side, alpha of one
    attack.
    """

    guarantee: Guarantee
    pair: NeighboringPair
    trials: int
    alpha: float

    def sees(self, target: Target, seed: int) -> bool:
        """Return whether one attack refutes the claim."""
        attack = FixedAttack(self.guarantee, [self.pair], self.trials, self.alpha, seed)
        return any(certificate.refuted for certificate in attack.all_pairs(target, 0))

    def catches(self, name: str, target: Target, seed: int) -> bool:
        """Return whether one attack on a planted fault, both directions at the same level,
        detects it.
        """
        attack = FixedAttack(self.guarantee, [self.pair], self.trials, self.alpha, seed)
        return attack.fault(name, target, 0).caught


def frequency(
    see: Callable[[int], bool], repeats: int, seed: int, *, least: float | None = None
) -> Frequency:
    """Measure how often ``see(seed)`` holds in this many tries; with ``least``, only until it
    is clear that it is less.
    """
    allowed = repeats if least is None else repeats - math.ceil(least * repeats)
    seen = 0
    for tried, each in enumerate(_seeds(seed, repeats), 1):
        seen += see(each)
        if tried - seen > allowed:
            return Frequency(seen, tried, stopped=True)
    return Frequency(seen, repeats)


def _seeds(seed: int, number: int) -> list[int]:
    return [int(s) for s in np.random.default_rng(seed).integers(2**32, size=number)]


def best_pair(
    guarantee: Guarantee,
    pairs: Sequence[NeighboringPair],
    target: Target,
    alpha: float,
    seed: int,
    *,
    look: int = _LOOK,
) -> NeighboringPair:
    """Return the pair on which the claim is refuted, or nearly, with so many draws per side and
    pair.
    """
    if len(pairs) == 1:
        return pairs[0]
    result = FixedAttack(guarantee, pairs, look, alpha, seed).fault("look", target, 0)
    return next(pair for pair in pairs if pair.name == result.strongest.pair)


def smallest_deficit(
    see: Callable[[Fraction, int], bool], repeats: int, seed: int
) -> tuple[Fraction | None, dict[Fraction, Frequency]]:
    """Return the smallest of DEFICITS that is seen with frequency ENOUGH, and all that was
    measured.

    Found by bisection: what shows a deficit shows a larger one. The attack is
    ``see(deficit, seed)``.
    """
    low, high, measured = -1, len(DEFICITS), dict[Fraction, Frequency]()
    while high - low > 1:
        middle = (low + high) // 2
        share = DEFICITS[middle]
        power = frequency(partial(see, share), repeats, seed, least=ENOUGH)
        measured[share] = power
        low, high = (low, middle) if power.rate >= ENOUGH else (middle, high)
    best = DEFICITS[high] if high < len(DEFICITS) else None
    return best, dict(sorted(measured.items()))


# --- an audit ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Number of tries in a survey. few, many: draws per side of a quick and of a whole audit.

    deficits: attacks on each deficit of noise with ``many`` draws. faults: attacks on each planted
    fault with ``few``. again: those with ``many``, on what ``few`` missed or are not enough for.
    """

    few: int
    many: int
    deficits: int
    faults: int
    again: int


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """Frequencies with which a planted fault was detected on this pair, by the number of draws
    per side.
    """

    name: str
    pair: str
    caught: Mapping[int, Frequency]

    @property
    def final(self) -> Frequency:
        """Frequency with the most draws."""
        return self.caught[max(self.caught)]

    @property
    def missed(self) -> bool:
        """True if its power fell short of ENOUGH."""
        return self.final.seen < ENOUGH * self.final.tried


@dataclass(frozen=True, slots=True)
class Survey:
    """Plan of what is measured of one audit.

    alpha: for everything that the audit certifies about the claim. unseen: names of faults that
    are not planted, as by ``hidden``.
    """

    attacked: AuditTarget
    guarantee: Guarantee
    alpha: float
    effort: Effort
    seed: int
    unseen: frozenset[str] = frozenset()

    def deficit(self, share: Fraction) -> Target:
        """Return the mechanism with this share of every stage's noise missing."""
        fault = deficit(self.attacked.mechanism, share)
        ((_, target),) = planted_in(
            self.attacked.mechanism, [fault], vectorized=False, thorough=False
        )
        return target

    def pair_for(self, target: Target) -> NeighboringPair:
        """Return the pair that shows this target best."""
        return best_pair(self.guarantee, self.attacked.pairs, target, self.alpha, self.seed)

    def setting(self, pair: NeighboringPair, trials: int) -> Setting:
        """Return an attack on the claim itself."""
        return Setting(self.guarantee, pair, trials, self.alpha)

    def deficits(self, pair: NeighboringPair) -> tuple[Fraction | None, dict[Fraction, Frequency]]:
        """Return ``smallest_deficit`` with ``many`` draws."""
        setting = self.setting(pair, self.effort.many)
        return smallest_deficit(
            lambda share, seed: setting.sees(self.deficit(share), seed),
            self.effort.deficits,
            self.seed,
        )

    def faults(self) -> Iterator[PlantedFault]:
        """Yield, with few draws, all faults planted there; with many, what is planted or left
        only there.
        """
        mechanism, few, many = self.attacked.mechanism, self.effort.few, self.effort.many
        early = {fault.name for fault in self.attacked.planted()}
        listed = self.attacked.planted(thorough=self.effort.again > 0)
        listed = [fault for fault in listed if fault.name not in self.unseen]
        for name, target in planted_in(mechanism, listed, vectorized=False, thorough=False):
            pair = self.pair_for(target)
            caught: dict[int, Frequency] = {}
            if name in early:
                caught[few] = self._caught(pair, name, target, few, len(early))
            if self.effort.again and (name not in early or caught[few].missed):
                caught[many] = self._caught(pair, name, target, many, len(listed))
            yield PlantedFault(name, pair.name, caught)

    def _caught(
        self, pair: NeighboringPair, name: str, target: Target, trials: int, planted: int
    ) -> Frequency:
        """Measure a fault at the level that an audit leaves for one of so many faults on one
        pair.
        """
        alpha = self.alpha / planted / len(self.attacked.pairs)
        setting = Setting(self.guarantee, pair, trials, alpha)
        repeats = self.effort.faults if trials == self.effort.few else self.effort.again
        return frequency(lambda seed: setting.catches(name, target, seed), repeats, self.seed)
