"""Draws per second of the exact samplers beside OpenDP and numpy; their laws and times.

Every row: the median of interleaved repeats (ours on each source of bits, OpenDP, numpy, again),
so that what else the machine does falls on all alike. Rates are millions of draws a second of
processor time on one core. Targets: discrete laws at 100 times OpenDP on the operating system's
bits and 300 times on a stream cipher or Philox; rounded Gaussian at 0.25 and 0.5 of numpy's
(inexact) normal.

Laws: 1e7 draws each, chi-square against exact masses, and Kolmogorov-Smirnov for scales where
the law is continuous for all purposes of 1e7 draws (scale >= 2^20). Times: the correlation
between the time of a call and the sum of the absolute noise that it draws.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from dpverify import randomness
from dpverify.randomness import Bits, SeededBits, SystemBits
from dpverify.randomness.bits import IntArray
from dpverify.randomness.samplers import discrete_gaussian, discrete_laplace, rounded_gaussian
from tests.benchmarks.timing import header, peer, quiet, table

Sampler = Callable[[Bits, Fraction, int], IntArray]
Calls = dict[str, tuple[Callable[[], object], int]]
SAMPLERS: list[Sampler] = [discrete_laplace, discrete_gaussian, rounded_gaussian]
SCALES = [Fraction(text) for text in ("1", "10", "100", "1000", "1000000")]
REPEATS = 7
DRAWS, PEER_DRAWS = 2_000_000, 20_000
BATCHES = ((1, 40_000), (1000, 20_000))
LARGEST_CORRELATION = 0.05


def sources() -> dict[str, Bits]:
    """Return sources of bits by name; the stream cipher where there is one."""
    bit_sources: dict[str, Bits] = {"SystemBits": SystemBits(), "SeededBits": SeededBits(1)}
    cipher = getattr(randomness, "CipherBits", None)
    if cipher is not None:
        bit_sources["CipherBits"] = cipher()
    return bit_sources


def rate(call: Callable[[], object], draws: int) -> float:
    """Measure millions of draws a second of processor time, once."""
    start = time.process_time()
    call()
    return draws / (time.process_time() - start) / 1e6


def opendp_call(opendp: Any, sampler: Sampler, scale: Fraction) -> Callable[[], object]:
    """Return a call of OpenDP's measurement on a vector of zeros."""
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    if sampler is discrete_laplace:
        made = opendp.m.make_laplace(domain, opendp.l1_distance("i64"), scale=float(scale))
    else:
        made = opendp.m.make_gaussian(domain, opendp.l2_distance("f64"), scale=float(scale))
    zeros = [0] * PEER_DRAWS
    return lambda: made(zeros)


def speeds(opendp: Any) -> int:
    """Print the table of rates; return the number of targets missed."""
    rows, missed = [], 0
    generator = np.random.default_rng(1)
    for sampler in SAMPLERS:
        for scale in SCALES:
            calls: Calls = {
                name: (partial(sampler, bits, scale, DRAWS), DRAWS)
                for name, bits in sources().items()
            }
            calls["numpy normal"] = (partial(generator.normal, size=DRAWS), DRAWS)
            if opendp is not None:
                calls["OpenDP"] = (opendp_call(opendp, sampler, scale), PEER_DRAWS)
            rates = interleaved(calls)
            row, misses = speed_row(sampler, scale, rates)
            rows.append(row)
            missed += misses
    columns = ["law", "scale", "SystemBits", "SeededBits", "CipherBits", "OpenDP", "numpy normal"]
    table([*columns, "ratio System", "Seeded", "Cipher", "targets"], rows)
    print(f"targets missed: {missed}")
    return missed


def interleaved(calls: Calls) -> dict[str, float]:
    """Return median rates; the first round, which fills caches, is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS + 1):
        for name, (call, draws) in calls.items():
            rates[name].append(rate(call, draws))
    return {name: statistics.median(samples[1:]) for name, samples in rates.items()}


def speed_row(sampler: Sampler, scale: Fraction, rates: dict[str, float]) -> tuple[list[str], int]:
    """Return cells, and the number of targets missed."""
    rounded = sampler is rounded_gaussian
    against = rates["numpy normal"] if rounded else rates.get("OpenDP", float("nan"))
    targets = (0.25, 0.5, 0.5) if rounded else (100, 300, 300)
    names = ("SystemBits", "SeededBits", "CipherBits")
    ratios = [rates.get(name, float("nan")) / against for name in names]
    misses = sum(ratio < target for ratio, target in zip(ratios, targets, strict=True))
    cells = [f"{rates.get(name, float('nan')):.3g}" for name in (*names, "OpenDP", "numpy normal")]
    shown = [f"{ratio:.3g}" for ratio in ratios]
    asked = f"{targets[0]:g} / {targets[1]:g}"
    return [sampler.__name__, str(scale), *cells, *shown, asked], misses


def masses(sampler: Sampler, scale: float, x: Any) -> Any:
    """Return P(Z = x) in floats, to about 1e-14."""
    if sampler is rounded_gaussian:
        near, far = np.abs(x) - 0.5, np.abs(x) + 0.5
        return special.ndtr(-near / scale) - special.ndtr(-far / scale)
    power = 1 if sampler is discrete_laplace else 2
    rate_ = 1 / scale if power == 1 else 1 / (2 * scale * scale)
    every = np.arange(-int(60 * scale) - 20, int(60 * scale) + 21)
    return np.exp(-rate_ * np.abs(x) ** power) / np.exp(-rate_ * np.abs(every) ** power).sum()


def laws(draws: int = 10_000_000) -> None:
    """Print P-values: chi-square per integer at small scales, Kolmogorov-Smirnov at large ones."""
    rows = []
    for sampler in SAMPLERS:
        for scale in (0.5, 1.0, 7 / 3, 40.0, 300.0):
            drawn = sampler(SeededBits(51), Fraction(scale), draws)
            rows.append(
                [sampler.__name__, f"{scale:.4g}", "chi-square", *chi_square(sampler, scale, drawn)]
            )
        for power in (20, 30, 45):
            drawn = sampler(SeededBits(52, power), Fraction(2) ** power, draws)
            law = stats.laplace if sampler is discrete_laplace else stats.norm
            # The integers are spread over their cells: to 2^-20 of the scale the law is the real
            # one.
            spread = np.random.default_rng(power).random(draws) - 0.5
            real = (drawn + spread) / 2.0**power
            test = stats.kstest(real, law.cdf)
            cells = ["Kolmogorov-Smirnov", f"{test.pvalue:.3g}", f"D = {test.statistic:.2e}"]
            rows.append([sampler.__name__, f"2^{power}", *cells])
    table(["law", "scale", "test", "P-value", "statistic"], rows)
    least = min(float(row[3]) for row in rows)
    print(f"{len(rows)} tests of {draws:,} draws; the least P-value is {least:.3g}")


def chi_square(sampler: Sampler, scale: float, drawn: IntArray) -> list[str]:
    """Test the masses: every integer that expects 20 draws is a cell; those beyond are one more."""
    largest = int(np.abs(drawn).max())
    x = np.arange(-largest, largest + 1)
    expected = masses(sampler, scale, x) * len(drawn)
    observed = np.bincount(drawn + largest, minlength=len(x))
    big = expected >= 20
    rest = len(drawn) - expected[big].sum()
    seen = np.append(observed[big], len(drawn) - observed[big].sum())
    hoped = np.append(expected[big], rest)
    seen, hoped = (seen, hoped) if rest >= 5 else (seen[:-1], hoped[:-1])
    statistic = float(((seen - hoped) ** 2 / hoped).sum())
    return [
        f"{stats.chi2.sf(statistic, len(hoped) - 1):.3g}",
        f"{statistic:.0f} of {len(hoped) - 1}",
    ]


def times() -> int:
    """Print Pearson's correlation, and that of ranks, which no interrupted call can hide."""
    rows, missed = [], 0
    for sampler in SAMPLERS:
        for scale in (Fraction(1), Fraction(1000)):
            for batch, calls in BATCHES:
                correlations = time_correlations(sampler, scale, batch, calls)
                missed += max(map(abs, correlations)) > LARGEST_CORRELATION
                shown = [f"{correlation:+.4f}" for correlation in correlations]
                rows.append([sampler.__name__, str(scale), str(batch), str(calls), *shown])
    table(["law", "scale", "batch", "calls", "correlation", "of ranks"], rows)
    print(f"target: at most {LARGEST_CORRELATION:g} in absolute value; missed: {missed}")
    return missed


def time_correlations(
    sampler: Sampler, scale: Fraction, batch: int, calls: int
) -> tuple[float, float]:
    """Correlate the wall time of a call with the sum of |noise|, over calls on SystemBits."""
    bits = SystemBits()
    seconds, sizes = np.empty(calls), np.empty(calls)
    gc.disable()
    for i in range(calls):
        start = time.perf_counter_ns()
        drawn = sampler(bits, scale, batch)
        seconds[i] = time.perf_counter_ns() - start
        sizes[i] = np.abs(drawn).sum()
    gc.enable()
    plain = float(np.corrcoef(seconds, sizes)[0, 1])
    return plain, float(stats.spearmanr(seconds, sizes).statistic)


def main() -> None:
    """Run all parts."""
    quiet()
    header("Exact samplers", "python -m tests.benchmarks.samplers")
    print(f"# {REPEATS} interleaved repeats of {DRAWS:,} draws ({PEER_DRAWS:,} of OpenDP)")
    print("\nSPEED: millions of draws a second of processor time")
    speeds(peer("opendp", "opendp.prelude"))
    print("\nLAWS")
    laws()
    print("\nTIMES: does the time of a call tell its noise?")
    times()


if __name__ == "__main__":
    main()
