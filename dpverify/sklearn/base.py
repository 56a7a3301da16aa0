"""The base of the estimators: a budget, public bounds, one release for each ``fit``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dpverify.estimation.moment_matrices import MomentMatrixEstimate
from dpverify.mechanisms.moment_matrix import MomentMatrix
from dpverify.plans import Abstained
from dpverify.privacy import Derivation, PrivacyClaim, PureDP
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Floats
from dpverify.randomness import Bits

_PAID = "budget=ApproxDP(1, '1e-6'), adjacency=Adjacency.ADD_REMOVE"


class NoRelease(ValueError):
    """A model without numbers: the mechanism abstained, and the budget of that ``fit`` is spent."""


class SecondRelease(UserWarning):
    """A second ``fit`` of one object: both releases together cost the composition of their
    claims.
    """


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The base of all private estimators, whose ``fit`` is one release of ``MomentMatrix``.

    ``claim_`` and ``derivation_`` are those of the last ``fit``, ``derivations_`` those of all.
    ``estimate_`` is the released matrix. A model itself says nothing of its records beyond that,
    but the outputs of ``score`` and ``predict`` on private records are functions of these
    records.
    """

    _bounded = "bounds=(0, 1)"
    """The public bounds in an example of a call."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            example = f"{cls.__name__}({_PAID}, {cls._bounded})"
            cls.__init__ = fitting(cls.__name__, lambda _: example)(cls.__init__)  # type: ignore[method-assign]

    def _release(
        self, columns: Floats, low: Any, high: Any, bits: Bits | None, targets: int = 0
    ) -> None:
        """Release the moments of the columns between these bounds, without those of the last
        ``targets`` among themselves. Raises TypeError or ValueError, before a bit is drawn, for
        parameters that are missing or make no sense.
        """
        for name in ("budget", "adjacency"):
            if getattr(self, name) is None:
                raise ValueError(
                    f"{name} is missing: give {type(self).__name__} a budget, as ApproxDP(1, "
                    "'1e-6'), and an adjacency, as Adjacency.ADD_REMOVE."
                )
        mechanism = MomentMatrix.for_budget(
            self.budget,
            adjacency=self.adjacency,
            lower=low,
            upper=high,
            radius=self.radius,
            noise=noise_for(self.budget),
            at_least=self.at_least,
            targets=targets,
        )
        before = getattr(self, "derivations_", ())
        if before:
            times = "once" if len(before) == 1 else f"{len(before)} times"
            warnings.warn(
                f"fit was called {times} before on this {type(self).__name__}: each call is a "
                "release of its own, and where records are the same, claims compose "
                "(`derivations_` has all).",
                SecondRelease,
                stacklevel=3,
            )
        released = mechanism.release(columns, bits)
        self.mechanism_ = mechanism
        self.derivations_ = (*before, mechanism.derivation)
        self.estimate_: MomentMatrixEstimate | Abstained = released

    @property
    def derivation_(self) -> Derivation[PrivacyClaim]:
        """Derivation of the last ``fit``'s release."""
        check_is_fitted(self, "mechanism_")
        return self.mechanism_.derivation

    @property
    def claim_(self) -> PrivacyClaim:
        """Privacy claim of the last ``fit``."""
        return self.derivation_.conclusion

    def _moments(self) -> MomentMatrixEstimate:
        """Return the released moments. Raises NotFittedError before ``fit``, NoRelease after an
        abstention.
        """
        check_is_fitted(self, "mechanism_")
        if isinstance(self.estimate_, Abstained):
            raise NoRelease(
                f"There is no model: {self.estimate_.reason}. The budget of this fit is spent; fit "
                "more records, or with a larger budget."
            )
        return self.estimate_

    def _records(self, X: Any) -> Floats:
        """Read records to predict or transform, with the columns that were fitted."""
        check_is_fitted(self, "mechanism_")
        return self._read(X, reset=False)

    def _read(self, X: Any, **options: Any) -> Floats:
        """Read records, columns and their names. Raises TypeError or ValueError, whose text shows
        no record.
        """
        return _quietly(lambda: validate_data(self, X, dtype=np.float64, **options), "X")


def noise_for(budget: Any) -> Literal["gaussian", "laplace"]:
    """Return Laplace noise for a pure budget, else Gaussian noise."""
    return "laplace" if isinstance(budget, PureDP) else "gaussian"


def targets_of(y: Any) -> Floats:
    """Read targets of any number of records. Raises TypeError or ValueError, whose text shows no
    record."""
    options: dict[str, Any] = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "y"}
    targets = _quietly(lambda: check_array(y, dtype=np.float64, **options), "y")
    if not targets.ndim:
        raise ValueError("y is a single number; give one for each record.")
    return targets


def _quietly(read: Callable[[], Any], name: str) -> Floats:
    """Read by scikit-learn, and repeat from its refusals only words that show no record: for
    other shapes and complex numbers scikit-learn shows the records, for texts numpy does.
    """
    try:
        return np.asarray(read())
    except (TypeError, ValueError, OverflowError) as error:
        said, kind = str(error), TypeError if isinstance(error, TypeError) else ValueError
    if said.startswith("Expected 2D"):
        said = f"{said.splitlines()[0].rstrip(':.')}. Reshape your data."
    elif said.startswith("Complex data"):
        said = "Complex data not supported."
    elif said.startswith(_NOT_FINITE):  # scikit-learn goes on, and recommends an imputer
        said = f"{said.splitlines()[0]} {_CLEAN}"
    elif not said.startswith(_SHOW_NOTHING):  # its checks want "argument must be", and these words
        said = (
            "argument must be made of numbers, or of strings that each spell a number, with a row "
            "for each record, and something in it is neither. Give a numeric array or data frame."
        )
    raise kind(said if name in said.split() else f"{name}: {said}")


_NOT_FINITE = ("Input X contains", "Input y contains")
_CLEAN = (
    "Drop or fill such records by a rule that looks at each record alone, say with a public "
    "number: what an imputer learns from the records is a release that no claim covers."
)
_SHOW_NOTHING = (
    "Feature names",
    "Found array",
    "Sparse data",
    "The feature names",
    "X has",
)


def bounds_of(given: Any, columns: int, name: str) -> tuple[list[float], list[float]]:
    """Read (low, high), each a number for all columns or a list with one for each.

    For two columns [(0, 1), (5, 10)] could be either all lower and all upper bounds or a pair for
    each column, so there only a tuple of two lists or arrays is read. Raises TypeError or
    ValueError.
    """
    if given is None:
        raise ValueError(
            f"{name} is missing: give public bounds (low, high), each a number or one for each "
            "column, chosen without looking at the data."
        )
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != 2:
        raise TypeError(
            f"{name} = {given!r:.200}; give a pair (low, high), each a number or a list with one "
            "for each column."
        )
    nested = columns == 2 and all(np.shape(end) == (2,) for end in given)
    if nested and not (isinstance(given, tuple) and not any(isinstance(e, tuple) for e in given)):
        raise ValueError(
            f"{name} = {given!r:.200} could be a pair for each of the two columns, or all lower "
            "and then all upper bounds; write the latter as a tuple of two lists, "
            "([0, 5], [1, 10]) for a column from 0 to 1 and one from 5 to 10."
        )
    ends = []
    for end in given:
        try:
            numbers = np.atleast_1d(np.asarray(end, np.float64))
        except (TypeError, ValueError):
            raise TypeError(f"{name}: {end!r} is no number, nor one for each column.") from None
        if numbers.shape not in ((1,), (columns,)):
            raise ValueError(
                f"{name}: an end of shape {numbers.shape} for {columns} columns; give one number, "
                "or one for each."
            )
        ends.append(np.broadcast_to(numbers, columns).tolist())
    return ends[0], ends[1]
