"""The classical benchmark of auditors: sound and broken mechanisms of the literature, as exhibits.

Their noise is numpy's, with noisy values rounded to multiples of 2^-20 so that floats add no
leak of their own. Their parameters are those in print (epsilon = .1 unless they say otherwise),
and each record says exactly how private its mechanism is and on which neighbors. None is
importable from dpverify, and none is to be released with.
"""

from .counts import LAPLACE, NOISY_HIST_1, NOISY_HIST_2
from .noisy_max import RNM_1, RNM_2, RNM_3, RNM_4
from .rappor import RAPPOR
from .record import Classical
from .sparse_vector import SVT_1, SVT_2, SVT_3, SVT_4, SVT_5, SVT_6

CLASSICAL: tuple[Classical, ...] = (
    LAPLACE,
    NOISY_HIST_1,
    NOISY_HIST_2,
    RNM_1,
    RNM_2,
    RNM_3,
    RNM_4,
    SVT_1,
    SVT_2,
    SVT_3,
    SVT_4,
    SVT_5,
    SVT_6,
    RAPPOR,
)

__all__ = ["CLASSICAL", "Classical"]
