"""An attack on the clock: a release may take longer when its noise is larger."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from dpverify.audit.structure.result import Finding, attempt, check_draws, describe
from dpverify.privacy.numbers import Floats

_WINDOW = 101  # calls; slower changes of the machine's speed are removed
_CLIPPED = 0.01  # the share of times at either end that is pulled in: interruptions
_LOOP = range(30)


def timing(
    release: Callable[[int], Any],
    *,
    center: float = 0.0,
    draws: int = 20_000,
    batch: int = 1,
    threshold: float = 0.05,
    alpha: float = 1e-6,
) -> Finding:
    """Test whether the running time of a call correlates with the size of the noise in it.

    release(size) returns ``size`` numbers; it is called ``draws`` times with size ``batch``,
    and the noise of a call is the sum of |output - center|. Found: Pearson's or Spearman's
    correlation is at least ``threshold`` and a permutation test rejects independence at level
    ``alpha``.

    The test swaps the noise of adjacent calls, which changes nothing in law if times do not
    depend on the (independent) noises: the sum of products of rank differences is one of random
    signs, bounded by Hoeffding 1963. Slow changes of the machine cancel within a pair; ranks
    are deaf to interruptions. A fixed loop timed in between shows the machine alone. A center
    that drifts slowly, or jumps now and then, shows nothing, even where the times do as well;
    one that alternates from call to call together with the times is found, though it may be
    public. Errors: ValueError for too few draws, a bad alpha, threshold or batch.
    Source: Jin, McMurtry, Rubinstein, Ohrimenko, "Are we there yet? Timing and floating-point
    attacks on differential privacy systems", S&P 2022.
    """
    check_draws(draws, alpha)
    if not 0 < threshold < 1 or batch < 1:
        raise ValueError(f"threshold = {threshold}, batch = {batch}; try 0.05 and 1.")
    call = f"timing(release, center={center!r}, draws={draws}, batch={batch}, alpha={alpha:g})"
    measured = _measure(release, center, draws, batch)
    if isinstance(measured, str):
        return Finding("timing", False, "nothing was timed", alpha, call, problem=measured)
    seconds, noise, loop = measured
    values, chance = correlations(seconds, noise), swap_test(seconds, noise)
    leaks = max(map(abs, values)) >= threshold and chance <= alpha
    text = (
        f"over {draws} calls of batch {batch} the time's correlation with the noise is "
        f"{values[0]:+.3f} (Pearson), {values[1]:+.3f} (Spearman), threshold {threshold:g}; "
        f"p-value {chance:.2g} at most; median {np.median(seconds):.3g} s a call; a fixed loop "
        f"in between: {max(correlations(loop, noise), key=abs):+.3f}"
    )
    return Finding("timing", leaks, text, alpha, call)


def correlations(seconds: Floats, noise: Floats) -> tuple[float, float]:
    """Return Pearson's and Spearman's correlations of times without their trend and extremes; 0
    where nothing varies.
    """
    level = _without_trend(seconds)
    clipped = np.clip(level, *np.quantile(level, [_CLIPPED, 1 - _CLIPPED]))
    return _correlation(clipped, noise), _correlation(
        scipy.stats.rankdata(level), scipy.stats.rankdata(noise)
    )


def swap_test(seconds: Floats, noise: Floats) -> float:
    """Return an upper bound of the two-sided p-value under swaps of adjacent noises; shape (n,)
    each.
    """
    even = len(seconds) // 2 * 2
    # Changing the times alone keeps the test exact, because only noises are swapped.
    slower, larger = (
        np.diff(scipy.stats.rankdata(values[:even]).reshape(-1, 2), axis=1)
        for values in (_without_trend(seconds), noise)
    )
    terms = slower * larger
    squares = float(np.sum(terms**2))
    if squares == 0.0:
        return 1.0
    return min(1.0, 2 * math.exp(-(float(np.sum(terms)) ** 2) / (2 * squares)))


def _without_trend(seconds: Floats) -> Floats:
    trend = scipy.ndimage.median_filter(seconds, size=min(_WINDOW, len(seconds)), mode="nearest")
    return np.asarray(seconds - trend, dtype=np.float64)


def _measure(
    release: Callable[[int], Any], center: float, draws: int, batch: int
) -> tuple[Floats, Floats, Floats] | str:
    """Return seconds, noise and the fixed loop's seconds, shape (draws,) each; or what went
    wrong.
    """
    seconds, noise, loop = np.zeros(draws), np.zeros(draws), np.zeros(draws)
    for i in range(draws):
        start = time.perf_counter()
        output = attempt(release, batch)
        seconds[i] = time.perf_counter() - start
        if isinstance(output, Exception):
            return f"call {i} raised {describe(output)}"
        size = attempt(_size, output, center)
        if isinstance(size, Exception) or not math.isfinite(size):
            return f"call {i} returned {output!r:.80}, which has no finite distance from {center}"
        noise[i] = size
        loop[i] = _fixed_loop()
    return seconds, noise, loop


def _size(output: Any, center: float) -> float:
    return float(np.sum(np.abs(np.asarray(output, dtype=np.float64) - center)))


def _fixed_loop() -> float:
    start = time.perf_counter()
    for _ in _LOOP:
        pass
    return time.perf_counter() - start


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / size if size > 0 and math.isfinite(size) else 0.0
