"""Audit targets of a configuration: the whole mechanism, the part behind its filter, or its
first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpverify.audit.configuration import Configuration
from dpverify.audit.faults import Fault, Subject, generic_faults
from dpverify.audit.friendly_core import KeptPart
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.opening import Opening
from dpverify.plans.plan import is_filtered, stages_of

WHOLE = ""
BEHIND_THE_FILTER = ":kept"
"""Suffix of the names of audits of what runs behind a filter, on friendly neighbors."""
OPENING = ":opening"
"""Suffix of the names of audits of the first stage by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """Target of one audit: a mechanism, its pairs, and its planted faults.

    own, elsewhere, only: faults and stages as in ``Configuration``. quick_trials: likewise, for
    the whole mechanism; parts by themselves are cheap to draw from.
    """

    mechanism: Subject
    pairs: Sequence[NeighboringPair]
    own: Sequence[Fault] = ()
    elsewhere: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    quick_trials: int | None = None

    def planted(self, *, thorough: bool = False) -> list[Fault]:
        """Return the generic faults and those of the configuration."""
        generic = generic_faults(
            self.mechanism, thorough=thorough, elsewhere=self.elsewhere, only=self.only
        )
        return [*generic, *self.own]


def attacked_in(configuration: Configuration) -> dict[str, Attacked]:
    """Return the targets of a configuration, by the suffix of their audits' names."""
    whole, elsewhere = configuration.mechanism, configuration.elsewhere
    if configuration.opening:
        elsewhere |= {stage.name for stage in stages_of(whole.fixed_plan[:1])}
    parts = {
        WHOLE: Attacked(
            mechanism=whole,
            pairs=configuration.pairs,
            own=configuration.faults,
            elsewhere=elsewhere,
            only=configuration.attacked,
            quick_trials=configuration.quick_trials,
        )
    }
    if is_filtered(whole.fixed_plan):
        parts[BEHIND_THE_FILTER] = Attacked(mechanism=KeptPart(whole), pairs=configuration.friendly)
    if configuration.opening:
        parts[OPENING] = Attacked(mechanism=Opening(whole), pairs=configuration.opening)
    return parts
