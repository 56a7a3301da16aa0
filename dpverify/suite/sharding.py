"""Shards: a run dealt to several machines, which know nothing of one another.

The units of a shard follow from the list of all units alone, or from that list and a file of
times that every shard is given; never from what this machine remembers, since shards would then
overlap. A unit's seed does not depend on its shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpverify.suite.engines import AnyUnit


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``index``-th of ``count`` shards, from 1. seconds: the times of units, by kind and
    name, by which shards are balanced.
    """

    index: int = 1
    count: int = 1
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, units: Sequence[AnyUnit]) -> list[AnyUnit]:
        """Return the units of this shard, in their order.

        Without times a shard gets every ``count``-th unit, because neighbors in the list, say
        audits of one mechanism, take about as long. With times the longest unit is dealt first,
        and each unit goes to the shard that has least to do.
        """
        if not self.seconds:
            return list(units[self.index - 1 :: self.count])
        taken = [self.seconds.get(f"{unit.kind} {unit.name}") for unit in units]
        known = [seconds for seconds in taken if seconds is not None]
        usual = sum(known) / len(known) if known else 1.0
        each = [usual if seconds is None else seconds for seconds in taken]
        loads, own = [0.0] * self.count, list[int]()
        for place in sorted(range(len(units)), key=lambda place: (-each[place], place)):
            least = min(range(self.count), key=lambda shard: loads[shard])
            loads[least] += each[place]
            if least == self.index - 1:
                own.append(place)
        return [units[place] for place in sorted(own)]


WHOLE = Shard()
