"""Guarantees with exact rational parameters: everything that a claim can promise."""

from dpverify.privacy.guarantees.approximate import ApproxDP, PerfectPrivacy, PureDP
from dpverify.privacy.guarantees.base import GaussianPart, Guarantee
from dpverify.privacy.guarantees.concentrated import ZeroConcentratedDP
from dpverify.privacy.guarantees.gaussian import ApproximateGaussianDP, GaussianDP
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.guarantees.lifted import Lifted
from dpverify.privacy.guarantees.noise import BoundedRange, DiscreteLaplaceShift
from dpverify.privacy.guarantees.profile import Profile
from dpverify.privacy.guarantees.reading import calibrate, parse_guarantee, point_of, points_of
from dpverify.privacy.guarantees.smooth import SmoothLaplace
from dpverify.privacy.sealed import guard

__all__ = [
    "ApproxDP",
    "ApproximateGaussianDP",
    "BoundedRange",
    "DiscreteLaplaceShift",
    "GaussianDP",
    "GaussianPart",
    "Group",
    "Guarantee",
    "Lifted",
    "PerfectPrivacy",
    "Profile",
    "PureDP",
    "SmoothLaplace",
    "ZeroConcentratedDP",
    "calibrate",
    "parse_guarantee",
    "point_of",
    "points_of",
]

for _kind in (
    PerfectPrivacy, PureDP, ApproxDP, ZeroConcentratedDP, GaussianDP, ApproximateGaussianDP,
    BoundedRange, DiscreteLaplaceShift, SmoothLaplace, Group, Lifted, Profile,
):  # fmt: skip
    guard(_kind, "__setstate__")  # made by ``dataclass`` after the class
