"""The attack on a declared sensitivity of a deterministic query."""

from dpverify.audit.sensitivity.auditing import audit_sensitivity
from dpverify.audit.sensitivity.norms import Excess, Mahalanobis, OutputNorm
from dpverify.audit.sensitivity.result import SensitivityPair, SensitivityResult

__all__ = [
    "Excess",
    "Mahalanobis",
    "OutputNorm",
    "SensitivityPair",
    "SensitivityResult",
    "audit_sensitivity",
]
