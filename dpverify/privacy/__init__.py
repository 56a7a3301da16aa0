"""The kernel: adjacency, guarantees, enclosures, and the rules that make claims."""

from dpverify.privacy.adjacency import Adjacency, Domain
from dpverify.privacy.derivation import Derivation, Norm, PrivacyClaim, Sensitivity, Status
from dpverify.privacy.guarantees import (
    ApproxDP,
    ApproximateGaussianDP,
    BoundedRange,
    DiscreteLaplaceShift,
    GaussianDP,
    Group,
    Guarantee,
    Lifted,
    PerfectPrivacy,
    Profile,
    PureDP,
    ZeroConcentratedDP,
    calibrate,
    parse_guarantee,
    point_of,
    points_of,
)
from dpverify.privacy.numbers import Exact, exact, render
from dpverify.privacy.sources import PAPERS, Paper, Source, SourceStatus, sources_of, states

__all__ = [
    "PAPERS",
    "Adjacency",
    "ApproxDP",
    "ApproximateGaussianDP",
    "BoundedRange",
    "Derivation",
    "DiscreteLaplaceShift",
    "Domain",
    "Exact",
    "GaussianDP",
    "Group",
    "Guarantee",
    "Lifted",
    "Norm",
    "Paper",
    "PerfectPrivacy",
    "PrivacyClaim",
    "Profile",
    "PureDP",
    "Sensitivity",
    "Source",
    "SourceStatus",
    "Status",
    "ZeroConcentratedDP",
    "calibrate",
    "exact",
    "parse_guarantee",
    "point_of",
    "points_of",
    "render",
    "sources_of",
    "states",
]
