"""The kernel: adjacency, guarantees, enclosures, and the rules that make claims."""

from dpverify.privacy.adjacency import Adjacency, Domain
from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity, Status
from dpverify.privacy.guarantees import (
    ApproxDP,
    Guarantee,
    PerfectPrivacy,
    PureDP,
    parse_guarantee,
)
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.sources import PAPERS, Paper, Source, SourceStatus, sources_of, states

__all__ = [
    "PAPERS",
    "Adjacency",
    "ApproxDP",
    "Derivation",
    "Domain",
    "Exact",
    "Guarantee",
    "Norm",
    "Paper",
    "PerfectPrivacy",
    "PrivacyClaim",
    "PureDP",
    "Sensitivity",
    "Source",
    "SourceStatus",
    "Status",
    "exact",
    "parse_guarantee",
    "render",
    "sources_of",
    "states",
]
