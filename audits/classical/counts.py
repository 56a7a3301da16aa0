"""Noisy counts: one answer, and a histogram of five bins. An answer moves by at most 1.

The densities' ratio is exp(d / scale) where an output lies beyond both centers, d the move. The
event {output 0 <= the smaller center} has probability 1/2 and attains it.
"""

from __future__ import annotations

import numpy as np

from dpverify.audit.neighbors.pairs import QueryMoves, moved
from dpverify.privacy.adjacency import Dataset

from .record import Classical, Function, Outputs, rounded

_BINS = 5
_ONE_BIN = QueryMoves(by=1, at_once=1)


def _with_laplace(scale: float) -> Function:
    def noisy(data: Dataset, size: int, generator: np.random.Generator) -> Outputs:
        """Return noisy answers, shape (size, answers), or (size,) for a single one."""
        answers = np.asarray(data, dtype=np.float64)
        outputs = rounded(answers + generator.laplace(scale=scale, size=(size, len(answers))))
        return outputs[:, 0] if len(answers) == 1 else outputs

    return noisy


LAPLACE = Classical(
    name="Laplace",
    function=_with_laplace(10.0),
    pairs=(moved("one count", [0.0], [1.0], _ONE_BIN),),
    truth=0.1,
    supremum=0.1,
    published=0.0976,
    reach=0.085,
    source="Dwork, McSherry, Nissim, Smith 2006",
)

_FIRST_BIN = moved("the first bin", [0.0] * _BINS, [1.0] + [0.0] * (_BINS - 1), _ONE_BIN)

NOISY_HIST_1 = Classical(
    name="NoisyHist1",
    function=_with_laplace(10.0),
    pairs=(_FIRST_BIN,),
    truth=0.1,
    supremum=0.1,
    published=0.0978,
    source="Ding, Wang, Wang, Zhang, Kifer 2018",
)

NOISY_HIST_2 = Classical(
    name="NoisyHist2",
    function=_with_laplace(0.1),  # epsilon, where 1 / epsilon is right
    pairs=(_FIRST_BIN,),
    truth=10.0,
    supremum=10.0,
    published=4.60,
    reach=9.0,
    source="Ding, Wang, Wang, Zhang, Kifer 2018",
)
