"""The auditor: neighboring pairs, planted faults, witnesses, certificates, verdicts.

It sees a mechanism only through its law, or as a function of a dataset. ``structure`` looks at how
an implementation betrays its input besides: floats, batches, the clock, seeds, processes.
"""

from dpverify.audit import structure
from dpverify.audit.auditing import AuditResult, FaultResult, Verdict, audit
from dpverify.audit.certificates import Certificate
from dpverify.audit.configuration import Configuration, Exhibit, SmallInstance
from dpverify.audit.faults import Fault, generic_faults
from dpverify.audit.pairs import NeighboringPair, added, replaced

__all__ = [
    "AuditResult",
    "Certificate",
    "Configuration",
    "Exhibit",
    "Fault",
    "FaultResult",
    "NeighboringPair",
    "SmallInstance",
    "Verdict",
    "added",
    "audit",
    "generic_faults",
    "replaced",
    "structure",
]
