"""The auditor: neighboring pairs, planted faults, witnesses, certificates, verdicts.

It sees a mechanism only through its law, or as a function of a dataset. ``structure`` looks at how
an implementation betrays its input besides: floats, batches, the clock, seeds, processes.
"""

from dpverify.audit import structure
from dpverify.audit.auditing import FaultResult, InvalidRun, audit
from dpverify.audit.calibration import CalibrationResult, Noise, audit_calibration
from dpverify.audit.certificates import Certificate
from dpverify.audit.configuration import (
    BlackBox,
    Configuration,
    Exhibit,
    SmallInstance,
    Traced,
)
from dpverify.audit.evidence import witness_of, write_witness
from dpverify.audit.faults import Fault, generic_faults
from dpverify.audit.instances import Bits, Covariances, Gaussians
from dpverify.audit.neighbors.boxes import Box
from dpverify.audit.neighbors.pairs import (
    Neighboring,
    NeighboringPair,
    QueryMoves,
    added,
    moved,
    replaced,
)
from dpverify.audit.neighbors.search import SearchResult, search
from dpverify.audit.neighbors.templates import templates
from dpverify.audit.reach import OutOfReachWarning
from dpverify.audit.result import AuditResult
from dpverify.audit.scaled import scaled_faults
from dpverify.audit.sensitivity import (
    Excess,
    Mahalanobis,
    OutputNorm,
    SensitivityResult,
    audit_sensitivity,
)
from dpverify.audit.tracing import TracingResult, audit_tracing
from dpverify.audit.verdicts import NotConsistent, Verdict

__all__ = [
    "AuditResult",
    "Bits",
    "BlackBox",
    "Box",
    "CalibrationResult",
    "Certificate",
    "Configuration",
    "Covariances",
    "Excess",
    "Exhibit",
    "Fault",
    "FaultResult",
    "Gaussians",
    "InvalidRun",
    "Mahalanobis",
    "Neighboring",
    "NeighboringPair",
    "Noise",
    "NotConsistent",
    "OutOfReachWarning",
    "OutputNorm",
    "QueryMoves",
    "SearchResult",
    "SensitivityResult",
    "SmallInstance",
    "Traced",
    "TracingResult",
    "Verdict",
    "added",
    "audit",
    "audit_calibration",
    "audit_sensitivity",
    "audit_tracing",
    "generic_faults",
    "moved",
    "replaced",
    "scaled_faults",
    "search",
    "structure",
    "templates",
    "witness_of",
    "write_witness",
]
