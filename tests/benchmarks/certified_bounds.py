"""The auditor against targets: its certified bounds, its speed, and how soon it refutes.

Run by hand: python -m tests.benchmarks.certified_bounds [--seeds 100] [--undivided]
[--rows NAME...]

Draws are those of one side, the ones that choose the event included; no witness is given. Bounds
are medians over the seeds; a power is the share of the seeds that refuted. Slow rows take fewer
seeds, as the table says. Functions ("learned") are opaque to the auditor, ours ("law") are not.
Noise of functions is rounded to multiples of 2^-16 before anything is added: sums of floats
would show what was added. Seconds are of processor time, all seeds together.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpverify import Adjacency, ClippedMean, NoisyCount
from dpverify.audit import (
    AuditResult,
    NeighboringPair,
    Verdict,
    added,
    attack,
    audit,
    replaced,
)
from dpverify.audit.attack import FixedAttack
from dpverify.audit.betting import payoffs_of
from dpverify.audit.faults import deficit
from dpverify.audit.outputs.laws import TranscriptDraws
from dpverify.privacy import ApproxDP, GaussianDP, PureDP, calibrate
from tests.benchmarks.timing import header, table

ALPHA = 0.05
BUDGET = ApproxDP(1, "1e-5")
GRID = 2.0**16
PAIR = added("one enters", [], 1.0)
FAMILIES = ("laplace", "gaussian", "long", "wide", "profile", "gross", "sequential", "speed")


@dataclass(frozen=True)
class Row:
    """A row of the table: ``measure(seed)`` returns a number; ``shown`` returns cells and
    whether the target is met."""

    what: str
    target: str
    measure: Callable[[int], float]
    judge: Callable[[Sequence[float]], tuple[str, bool | None]]
    part: int = 1
    """The seeds are divided by this."""


# --- subjects -----------------------------------------------------------------------------------


def noise(kind: str, seed: int, shift: Any, width: int = 0) -> Callable[[Any, int], Any]:
    """Return f(dataset, size): noise of scale 1, moved by ``shift`` if there is a record."""
    draw = getattr(np.random.default_rng(seed), kind)

    def function(data: Any, size: int) -> Any:
        rounded = np.rint(draw(size=(size, width) if width else size) * GRID) / GRID
        return rounded + len(data) * np.rint(np.asarray(shift) * GRID) / GRID

    return function


def audited(seed: int, subject: Any, claim: Any, trials: int, **more: Any) -> AuditResult:
    """Audit at ALPHA, without planted faults."""
    pair: NeighboringPair = more.pop("pair", PAIR)
    known: dict[str, Any] = {"faults": (), "alpha": ALPHA, "vectorized": callable(subject), **more}
    return audit(subject, claim=claim, pairs=[pair], trials=trials, seed=seed, **known)


def mu_of_budget() -> Fraction:
    """Return the largest mu whose Gaussian mechanism has BUDGET."""
    guarantee = calibrate(GaussianDP, BUDGET)
    assert isinstance(guarantee, GaussianDP)
    return Fraction(math.sqrt(guarantee.mu_squared)).limit_denominator(10**9)


def mean(mu: Fraction, width: int) -> ClippedMean:
    """Build our mean, mu-GDP, in this dimension."""
    return ClippedMean(
        adjacency=Adjacency.REPLACE, noise_multiplier=1 / mu, center=(0.0,) * width, radius=1
    )


def opposite(width: int, all_move: bool) -> NeighboringPair:
    """Pair one record with its mirror image: in one coordinate, or in all."""
    point = np.zeros(width)
    point[: width if all_move else 1] = 1 / math.sqrt(width) if all_move else 1.0
    return replaced("mirrored", [tuple(point)], tuple(-point))


# --- judging ------------------------------------------------------------------------------------


def at_least(target: float) -> Callable[[Sequence[float]], tuple[str, bool | None]]:
    """Judge the median against the target."""

    def judge(values: Sequence[float]) -> tuple[str, bool | None]:
        middle, low = float(np.median(values)), float(np.quantile(values, 0.1))
        return f"{middle:.3f} (10%: {low:.3f})", middle >= target

    return judge


def power(values: Sequence[float]) -> tuple[str, bool | None]:
    """Judge the share of seeds that refute, which is to be 0.9 or more."""
    rate = float(np.mean(values))
    return f"{rate:.2f}", rate >= 0.9


def shares(values: Sequence[float]) -> tuple[str, bool | None]:
    """Show the share of seeds that refute, without a target."""
    return power(values)[0], None


def soon(target: float | None) -> Callable[[Sequence[float]], tuple[str, bool | None]]:
    """Judge the median number of draws until a refutation, inf without one."""

    def judge(values: Sequence[float]) -> tuple[str, bool | None]:
        middle, high = (float(np.quantile(values, q, method="higher")) for q in (0.5, 0.9))
        return f"{middle:,.0f} (90%: {high:,.0f})", None if target is None else middle <= target

    return judge


# --- rows ---------------------------------------------------------------------------------------


def laplace() -> Iterator[Row]:
    """List rows of Laplace noise at epsilon = 1."""
    for trials, target, part in ((10**4, 0.85, 1), (10**5, 0.96, 2), (10**6, 0.99, 10)):
        yield from _laplace(trials, target, part)


def _laplace(trials: int, target: float, part: int) -> Iterator[Row]:
    count = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1))

    def learned(seed: int) -> float:
        return audited(seed, noise("laplace", seed, 1), PureDP(1), trials).epsilon

    def law(seed: int) -> float:
        return audited(seed, count, PureDP(1), trials).epsilon

    for name, measure in (("learned", learned), ("law", law)):
        yield Row(f"{trials:,} draws, {name}", f"{target}", measure, at_least(target), part)


def gaussian() -> Iterator[Row]:
    """List rows with noise for (1, 1e-5): epsilon at 1e-5."""
    yield from _gaussian(1, False, 10**5, 0.52, part=2)
    for all_move in (False, True):
        yield from _gaussian(10, all_move, 10**5, 0.95 * 0.52, part=4)


def long() -> Iterator[Row]:
    """List the same rows with more draws."""
    yield from _gaussian(1, False, 10**6, 0.70, part=10)
    for all_move in (False, True):
        yield from _gaussian(10, all_move, 10**6, 0.95 * 0.70, part=25)


def wide() -> Iterator[Row]:
    """List the same rows in a thousand dimensions."""
    for trials, target, part in ((10**5, 0.52, 20), (10**6, 0.70, 50)):
        for all_move in (False, True):
            yield from _gaussian(1000, all_move, trials, 0.95 * target, part=part)


def _gaussian(
    width: int, all_move: bool, trials: int, target: float, *, part: int
) -> Iterator[Row]:
    """List rows with the event learned and with the law; in more dimensions within 5% of one."""
    mu = mu_of_budget()
    shift = np.zeros(width)
    shift[: width if all_move else 1] = float(mu) / math.sqrt(width if all_move else 1)

    def learned(seed: int) -> float:
        subject = noise("standard_normal", seed, shift, width)
        return audited(seed, subject, BUDGET, trials).epsilon

    def law(seed: int) -> float:
        pair = opposite(width, all_move)
        return audited(seed, mean(mu, width), BUDGET, trials, pair=pair).epsilon

    where = f"d = {width}, {'all move' if all_move else 'one moves'}, {trials:,} draws"
    for name, measure in (("learned", learned), ("law", law)):
        yield Row(f"{where}, {name}", f"{target:.3f}", measure, at_least(target), part)


def profile() -> Iterator[Row]:
    """List rows with a Gaussian claim and noise 5% too small: the share that is refuted."""
    for name, mu in (("mu of (1, 1e-5)", mu_of_budget()), ("mu 1", Fraction(1))):
        for trials in (50_000, 100_000, 200_000):
            yield from _profile(name, mu, trials)


def _profile(what: str, mu: Fraction, trials: int) -> Iterator[Row]:
    goal = trials == 200_000

    def learned(seed: int) -> float:
        subject = noise("standard_normal", seed, float(mu) / 0.95)
        return float(audited(seed, subject, GaussianDP(mu), trials).verdict is Verdict.VIOLATED)

    def law(seed: int) -> float:
        return _faulty(seed, mu, trials)

    for name, measure in (("learned", learned), ("law", law)):
        text = f"{what}, {trials:,} draws, {name}"
        yield Row(text, "0.9" if goal else "", measure, power if goal else shares, 2)


def _faulty(seed: int, mu: Fraction, trials: int) -> float:
    """Return 1 if ours with 5% less noise is refuted, and 0 otherwise."""
    fault = deficit(mean(mu, 1), Fraction(1, 20))
    attack = FixedAttack(GaussianDP(mu), [opposite(1, False)], trials, ALPHA, seed)
    certificates = attack.all_pairs(lambda data: TranscriptDraws(fault.law(data)), 0)
    return float(any(certificate.refuted for certificate in certificates))


def gross() -> Iterator[Row]:
    """List rows with true epsilon at least twice the claim: draws until the sequential audit
    refutes."""
    for claim, true in ((Fraction(1), 2), (Fraction(1), 4), (Fraction(1, 2), 1), (Fraction(2), 4)):
        for alpha in (ALPHA, 1e-6):
            yield from _betting(claim, Fraction(true), alpha, 1000 if alpha == ALPHA else None)


def sequential() -> Iterator[Row]:
    """List rows with true epsilon a little above the claimed 1: draws until the sequential audit
    refutes.

    Beside them bets on the best event, which is known to them: stakes from past payoffs (mean
    over second moment), or the best fixed stake.
    """
    for true, target, part in (
        ("1.5", 500, 2),
        ("1.2", 2500, 2),
        ("1.1", 4000, 5),
        ("1.05", 10_000, 10),
    ):
        yield from _betting(Fraction(1), Fraction(true), ALPHA, target, part)
        for known in ("event", "event and rates"):
            what = f"epsilon {true} against 1, alpha {ALPHA:g}, {known} known"
            measure = partial(_informed, true=float(true), rates=known != "event")
            yield Row(what, "", measure, soon(None))


def _informed(seed: int, true: float, rates: bool) -> float:
    """Bet that Laplace noise has epsilon 1, on outputs above the larger center, until 1 / ALPHA.

    rates: the best fixed stake (Kelly 1956); else mean over second moment of past payoffs.
    """
    p, q = 0.5, 0.5 * math.exp(-true)
    payoffs = payoffs_of(np.ones(1), np.zeros(1))[:, 0]
    chances = np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
    paid = np.random.default_rng(seed).choice(payoffs, 200_000, p=chances)
    possible = np.linspace(0, 0.95 / math.e, 2000)
    if rates:
        stakes = possible[np.argmax(np.log1p(np.outer(possible, payoffs)) @ chances)]
    else:
        past = np.cumsum(paid) - paid, 1 + np.cumsum(paid**2) - paid**2
        stakes = np.clip(past[0] / past[1], 0, possible[-1])
    won = np.cumsum(np.log1p(stakes * paid)) >= -math.log(ALPHA)
    return float(np.argmax(won)) + 1 if won.any() else math.inf


def _betting(
    claim: Fraction, true: Fraction, alpha: float, target: float | None, part: int = 2
) -> Iterator[Row]:
    """List rows with the event learned and with the law."""

    def learned(seed: int) -> float:
        return _until(seed, noise("laplace", seed, float(true)), claim, alpha)

    def law(seed: int) -> float:
        count = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=1 / true)
        return _until(seed, count, claim, alpha)

    for name, measure in (("learned", learned), ("law", law)):
        what = f"epsilon {float(true):g} against {float(claim):g}, alpha {alpha:g}, {name}"
        yield Row(what, "" if target is None else f"{target:,}", measure, soon(target), part)


def _until(seed: int, subject: Any, claim: Fraction, alpha: float) -> float:
    result = audited(seed, subject, PureDP(claim), 200_000, alpha=alpha, sequential=True)
    return result.draws / 2 if result.verdict is Verdict.VIOLATED else math.inf


def speed() -> Iterator[Row]:
    """List rows of speeds: audited draws of both sides a second of processor time, event and
    certificate included."""
    count = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1))
    trials = 2_000_000
    subjects: tuple[tuple[str, Any, NeighboringPair], ...] = (
        ("noisy count", count, PAIR),
        ("Gaussian", mean(Fraction(1), 1), opposite(1, False)),
    )
    for name, mechanism, pair in subjects:

        def measure(seed: int, mechanism: Any = mechanism, pair: NeighboringPair = pair) -> float:
            start = time.process_time()
            audited(seed, mechanism, None, trials, pair=pair)
            return 2 * trials / (time.process_time() - start)

        yield Row(
            f"{name}, law, {trials:,} draws a side: draws a second",
            "5,000,000",
            measure,
            lambda draws: (f"{np.median(draws):,.0f}", bool(np.median(draws) >= 5e6)),
            20,
        )


# --- the table ----------------------------------------------------------------------------------


def line(row: Row, seeds: int, undivided: bool) -> list[str]:
    """Return a row's cells."""
    number = seeds if undivided else max(1, seeds // row.part)
    start = time.process_time()
    shown, met = row.judge([row.measure(seed) for seed in range(number)])
    print(f"  {row.what}: {shown}, {number} seeds", file=sys.stderr, flush=True)
    verdict = {True: "met", False: "MISSED", None: ""}[met]
    seconds = f"{time.process_time() - start:.0f}"
    return [row.what, row.target or "-", shown, verdict, str(number), seconds]


def _auditor() -> str:
    """Return text that tells one state of the auditor from another."""
    digest = hashlib.sha256()
    for path in sorted(Path(attack.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--undivided", action="store_true", help="all seeds in slow rows, too")
    parser.add_argument("--rows", nargs="+", choices=FAMILIES, default=FAMILIES)
    options = parser.parse_args()
    more = "--undivided " if options.undivided else ""
    rows = f"{more}--rows {' '.join(options.rows)}"
    header(
        "Certified bounds",
        f"python -m tests.benchmarks.certified_bounds --seeds {options.seeds} {rows}",
    )
    print(f"# dpverify/audit as it was: sha256 of its files {_auditor()}")
    print(f"\n{__doc__}")
    columns = ["what", "target", "measured", "", "seeds", "s"]
    for name in options.rows:
        family: Callable[[], Iterator[Row]] = globals()[name]
        print(f"{name}: {(family.__doc__ or '').strip()} alpha {ALPHA:g} unless said otherwise.\n")
        table(columns, (line(row, options.seeds, options.undivided) for row in family()))
        print(flush=True)


if __name__ == "__main__":
    main()
