"""Answers of OpenDP and diffprivlib to ``linear_models``, in an environment of their own.

Reads a list of tasks from standard input as JSON: kind, runs, epsilon, bounds and records.
Writes for each task what each peer that has the model answers, for every run: coefficients with
the intercept last, or components. Imports nothing of this project.

A replaced record is one step of diffprivlib's models, and two of OpenDP's symmetric distance,
also where the number of records is public. So OpenDP's parameters are those for which its own
privacy map gives epsilon at 2: the noise scale of its regression (Theil and Sen's, of one
feature), and n_changes = 2 of its PCA, whose map with n_changes = 1 gives 2 epsilon.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

Answer = Callable[[], Any]


def diffprivlib(task: dict[str, Any]) -> Answer:
    """Return a function that answers a task once."""
    models: Any = import_module("diffprivlib.models")
    numpy: Any = import_module("numpy")
    x, low, high = numpy.array(task["x"]), numpy.array(task["low"]), numpy.array(task["high"])
    if task["kind"] == "components":
        own = {"epsilon": task["epsilon"], "bounds": (low, high), "data_norm": task["norm"]}
        return lambda: models.PCA(task["k"], **own).fit(x).components_.tolist()
    y, ends = numpy.array(task["y"]), (task["least"], task["most"])

    def fit() -> Any:
        model = models.LinearRegression(
            epsilon=task["epsilon"], bounds_X=(low, high), bounds_y=ends
        )
        model.fit(x, y)
        return [*numpy.ravel(model.coef_).tolist(), float(numpy.ravel(model.intercept_)[0])]

    return fit


def opendp(task: dict[str, Any]) -> Answer | None:
    """Return a function that answers a task once; None for a regression on several features."""
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib", "floating-point", "honest-but-curious", "idealized-numerics")
    numpy: Any = import_module("numpy")
    x = numpy.array(task["x"])
    if task["kind"] == "components":
        decomposition: Any = import_module("opendp.extras.sklearn.decomposition")
        own = {
            "epsilon": task["epsilon"],
            "row_norm": task["norm"],
            "n_samples": len(x),
            "n_features": x.shape[1],
            "n_components": task["k"],
            "n_changes": 2,
        }
        costs = decomposition.PCA(**own).measurement().map(2)
        assert 0.999 * task["epsilon"] < costs <= task["epsilon"], costs
        return lambda: decomposition.PCA(**own).fit(x).components_.tolist()
    if x.shape[1] > 1:
        return None
    linear: Any = import_module("opendp.extras.sklearn.linear_model")

    def made(scale: float) -> Any:
        return linear.LinearRegression(
            dp.max_divergence(),
            x_bounds=[(task["low"][0], task["high"][0])],
            y_bounds=(task["least"], task["most"]),
            scale=scale,
        )

    scale = dp.binary_search(
        lambda s: made(s).measurement.map(2) <= task["epsilon"], bounds=(1e-3, 1e6)
    )
    model, y = made(scale), numpy.array(task["y"])

    def fit() -> Any:
        fitted = model.fit(X=x.tolist(), y=y.tolist())
        return [float(numpy.ravel(fitted.coef_)[0]), float(numpy.ravel(fitted.intercept_)[0])]

    return fit


def answers(task: dict[str, Any]) -> dict[str, list[Any]]:
    """Ask both, as often as the task says; an error of a peer is no answer of that run."""
    by_peer: dict[str, list[Any]] = {}
    for name, peer in (("diffprivlib", diffprivlib), ("OpenDP", opendp)):
        answer = peer(task)
        for _ in range(task["runs"] if answer else 0):
            assert answer is not None
            try:
                by_peer.setdefault(name, []).append(answer())
            except Exception as error:  # how often is part of what is measured
                by_peer.setdefault(name, []).append(f"{error!r:.80}")
    return by_peer


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump([answers(task) for task in json.load(sys.stdin)], sys.stdout)
