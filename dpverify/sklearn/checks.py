"""Checks of scikit-learn that privacy forbids, for ``check_estimator``'s expected_failed_checks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_AGAIN = "two fits of the same records are two releases, each with noise of its own"
_EMPTY = (
    "under add-remove the number of records is private: nobody at all is a dataset, and an error "
    "for it would tell it from a single record"
)
_REGRESSORS = {
    "check_estimators_empty_data_messages": _EMPTY,
    "check_fit_idempotent": _AGAIN,
    "check_regressor_data_not_an_array": _AGAIN,
    "check_regressors_int": _AGAIN,
    "check_supervised_y_2d": _AGAIN,
}
_TRANSFORMERS = {
    "check_estimators_empty_data_messages": _EMPTY,
    "check_fit_idempotent": _AGAIN,
    "check_pipeline_consistency": _AGAIN,
    "check_transformer_data_not_an_array": _AGAIN,
    "check_transformer_general": _AGAIN,
}
FORBIDDEN_CHECKS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "LinearRegression": MappingProxyType(_REGRESSORS),
        "PCA": MappingProxyType(_TRANSFORMERS),
        "Ridge": MappingProxyType(_REGRESSORS),
        "StandardScaler": MappingProxyType(_TRANSFORMERS),
    }
)
"""By the estimator's name: the check's name, and why no private estimator passes it."""
