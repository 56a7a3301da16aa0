"""Audit targets of a configuration: the whole mechanism, the part behind its filter, or its
first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpverify.audit.configuration import Configuration
from dpverify.audit.faults import Fault, Subject, generic_faults
from dpverify.audit.first_stage import FirstStage
from dpverify.audit.friendly_core import FriendlyCore
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.plans.plan import stages_of
from dpverify.plans.walking import is_filtered

WHOLE = ""
FRIENDLY_CORE = ":friendly-core"
"""Suffix of the names of audits of what runs behind a filter, on friendly neighbors."""
FIRST_STAGE = ":first-stage"
"""Suffix of the names of audits of the first stage by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
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


def audit_targets(configuration: Configuration) -> dict[str, AuditTarget]:
    """Return the targets of a configuration, by the suffix of their audits' names."""
    whole, elsewhere = configuration.mechanism, configuration.elsewhere
    if configuration.first_stage:
        elsewhere |= {stage.name for stage in stages_of(whole.fixed_plan[:1])}
    parts = {
        WHOLE: AuditTarget(
            mechanism=whole,
            pairs=configuration.pairs,
            own=configuration.faults,
            elsewhere=elsewhere,
            only=configuration.target_stages,
            quick_trials=configuration.quick_trials,
        )
    }
    if is_filtered(whole.fixed_plan):
        parts[FRIENDLY_CORE] = AuditTarget(
            mechanism=FriendlyCore(whole), pairs=configuration.friendly
        )
    if configuration.first_stage:
        parts[FIRST_STAGE] = AuditTarget(
            mechanism=FirstStage(whole), pairs=configuration.first_stage
        )
    return parts
