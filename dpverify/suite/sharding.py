"""Shards: a run dealt to several machines, which know nothing of one another.

Which units a shard has follows from the list of all units alone, or from it and a file of times
that every shard is given; never from what this machine remembers, or shards would overlap. A
unit's seed does not depend on its shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpverify.suite.engines import AnyUnit


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``index``-th of ``count`` shards, from 1. seconds: what units took, by kind and name,
    to balance by.
    """

    index: int = 1
    count: int = 1
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, units: Sequence[AnyUnit]) -> list[AnyUnit]:
        """Return the units of this shard, in their order.

        Without times every ``count``-th one: neighbors in the list, audits of one mechanism
        say, take about as long. With times the longest first, each to the shard that has least
        to do.
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
