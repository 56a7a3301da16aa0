"""Errors of slabs' middles and of correlated records' means are the spec's; changes of them
show."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dpverify.estimation import correlated_cuts as fast
from dpverify.privacy.numbers import Floats
from spec.theory import cut_errors as spec

Named = Callable[..., Any]
POINTS = 200  # of those that stand for a normal law: the spec takes them one by one


def changed(function: Named, old: str, new: str) -> Named:
    """Return the function with one piece of its source replaced."""
    source = inspect.getsource(function)
    assert source.count(old) == 1, f"{old!r} in {function.__name__}"
    names = dict(vars(fast))
    exec(source.replace(old, new), names)
    made: Named = names[function.__name__]
    return made


@lru_cache
def window_error(*given: Any) -> float:
    """Return the spec's, which takes long."""
    return float(spec.window_error(*given))


def window(own: Named) -> bool:
    """Compare mean square errors of middles for some widths, variances and numbers; without a slab
    they have no bound."""
    given = [
        (0.8, 1.0, 3.0, 0.5, 400, 24),
        (1.5, 2.5, 3.0, 0.4, 400, 24),
        (1.5, 1.0, 40.0, 0.5, 5000, 32),
        (4.0, 2.5, 40.0, 0.3, 5000, 24),
    ]
    without = own(np.inf, 1.0, 3.0, 0.5, 400, 24), own(0.0, 1.0, 3.0, 0.5, 400, 24)
    close = [own(*one) == pytest.approx(window_error(*one), rel=1e-9) for one in given]
    return all(close) and without == (np.inf, np.inf)


def inner(own: Named) -> bool:
    """Compare mean square errors along axes that inner moments show, with places drawn in."""
    rng = np.random.default_rng(7)
    close = []
    for d, k, radius in ((3, 2, 2.2), (6, 3, 9.0)):
        points, variances = fast.points(d), rng.uniform(0.3, 3, d)
        leading = np.linalg.qr(rng.normal(size=(d, k)))[0].T
        axes, step = leading[:2], rng.normal(size=d) * 0.5
        made = fast.Inner(radius, 1.9, 1.1, 35.0)
        listed = variances.tolist(), leading.tolist(), (radius, 1.9, 1.1, 35.0), 900.0
        wanted = [
            spec.inner_error(one.tolist(), step.tolist(), *listed, points.tolist()) for one in axes
        ]
        got = own(axes, step, variances, leading, made, 900.0)
        close.append(got == pytest.approx(wanted, rel=1e-9))
    return all(close)


def shown(own: Named) -> bool:
    """Compare variances that moments show, with noise that explains a part, none or all."""
    rng = np.random.default_rng(8)
    close = []
    for d, noise, away in ((1, 0.1, 0.0), (3, 0.1, 0.3), (6, 0.2, 0.1), (6, 0.0, 2.0), (3, 9.0, 0)):
        moments = np.sort(rng.uniform(0.3, 2, d))
        moments[-1] *= 3
        given = noise, 1.2 * d**0.5, 0.8 * d**0.5, away
        wanted = spec.spectrum(moments.tolist(), *given, fast.points(d).tolist())
        close.append(own(moments, *given).tolist() == pytest.approx(wanted, rel=1e-9))
    return all(close)


def along(own: Named) -> bool:
    """Compare mean square errors with none, two or all axes of slabs."""
    rng = np.random.default_rng(9)
    close = []
    for count, apart in ((0, False), (2, False), (2, True), (4, True)):
        turned = np.linalg.qr(rng.normal(size=(4, 4)))[0][:count]
        errors, lost = rng.uniform(0.1, 1, count), rng.uniform(-0.2, 0.8, 4)
        square: Floats = rng.uniform(0.1, 1, 4)
        wanted = spec.along_squares(
            square.tolist(), lost.tolist(), turned.tolist(), errors.tolist(), apart
        )
        got, spans = own(square, lost, list(zip(turned, errors, strict=True)), apart=apart)
        close.append(got.tolist() == pytest.approx(wanted, rel=1e-9))
        of_axes = [sum(axis[i] ** 2 for axis in turned) for i in range(4)]
        close.append(spans.tolist() == pytest.approx(of_axes, rel=1e-9))
        close.append(max(spans) <= 1)
    return all(close)


CASES: dict[str, tuple[Callable[[Named], bool], list[tuple[str, str]]]] = {
    "window_error": (
        window,
        [
            ("(1 - follows) ** 4", "(1 - follows) ** 3"),
            ("/ (3 * width)", "/ (2 * width)"),
            ("width * width / 12", "width * width / 11"),
            ("noise * noise * bins / 4", "noise * noise * bins / 2"),
            ("+ number / 4", "+ number / 2"),
            ("(1 / (follows * share) - 1)", "(1 / (follows * share))"),
            ("1 - 2 * ratio", "1 - ratio"),
            ("left**2 * start", "left * start"),
        ],
    ),
    "inner_errors": (
        inner,
        [
            ("np.square(leading @ step).sum()", "np.square(leading @ step).sum() * 0"),
            ("inner.reach) ** 2", "inner.reach)"),
            ("+ float(step @ step) <=", "<="),
            ("square - 2 * follows", "square - follows"),
            ("_LEAST_RESPONSE) - 1) * step", "_LEAST_RESPONSE)) * step"),
            ("+ noise * noise", ""),
            ("inner.constant * counted * number", "inner.constant * number"),
        ],
    ),
    "spectrum": (
        shown,
        [
            ("(d + 1) / 2 - 1 / d", "(d + 1) / 2"),
            ("np.square(noise / mean)", "np.square(noise)"),
            ("math.sqrt(own / seen)", "own / seen"),
            ("range(_ROUNDS)", "range(5)"),
            ("squares @ variances + away", "squares @ variances"),
            ("limited(lengths, reach) ** 2", "limited(lengths, reach)"),
            ("(lengths <= radius * radius)", "(lengths <= radius)"),
        ],
    ),
    "along_squares": (
        along,
        [
            ("np.square(1 + alike)", "(1 + alike)"),
            ("np.square(lost) * errors", "lost * errors"),
            ("if apart else lost", ""),
            ("lost * (1 - spans) if apart", "lost if apart"),
            (", 0.0)\n    return", ", -1.0)\n    return"),
            ("* errors, spans", "* errors, 0 * spans"),
            ("* errors, spans", "* errors, 1 - spans"),
        ],
    ),
}


@pytest.fixture(autouse=True)
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {d: fast.points(d)[:POINTS] for d in (1, 3, 6)}
    monkeypatch.setattr(fast, "points", drawn.__getitem__)


@pytest.mark.parametrize("name", CASES)
def test_errors_are_the_spec_s(name: str) -> None:
    assert CASES[name][0](getattr(fast, name))


@pytest.mark.parametrize(
    ("name", "old", "new"), [(name, *one) for name, (_, made) in CASES.items() for one in made]
)
def test_a_change_of_them_is_seen(name: str, old: str, new: str) -> None:
    assert not CASES[name][0](changed(getattr(fast, name), old, new))
