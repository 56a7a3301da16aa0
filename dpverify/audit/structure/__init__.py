"""Structure attacks: not on the size of the noise, but on how an implementation betrays its input.

They attack floating point, batches, the clock, seeds and processes; each attack is one function
on any callable and returns a ``Finding``.
"""

from dpverify.audit.structure.batches import batch_dependence, order_dependence
from dpverify.audit.structure.forks import shared_state_after_fork
from dpverify.audit.structure.result import Finding
from dpverify.audit.structure.sources import predictable_seeding
from dpverify.audit.structure.timing import timing
from dpverify.audit.structure.values import lowest_set_bit, membership

__all__ = [
    "Finding",
    "batch_dependence",
    "lowest_set_bit",
    "membership",
    "order_dependence",
    "predictable_seeding",
    "shared_state_after_fork",
    "timing",
]
