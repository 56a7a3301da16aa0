"""Certified bounds beside jax-privacy with the exact score and DP-Sniper's method, at equal calls.

Run by hand: python -m tests.benchmarks.peers_power [ROW ...] [--seeds 5] [--first 0] [--draws N]
[--alphas 0.05 1e-6]

Each of the three has twice as many calls in all as the row says, and 1 - alpha confidence: the
peers as many of either side, as they ask for. Ours (``audit``) and DP-Sniper's method learn an
event from a part of them, and ours divides those that certify between the sides as the event asks
for; jax-privacy is given the log-likelihood ratio of every output, which nobody has who audits a
function. Pairs, and what is a number in an output, are known to all. Bounds on epsilon (at delta
1e-5 for Gaussian noise) are medians over the seeds, with the least and the largest; a step of pairs
several steps apart. truth: the least epsilon that holds on the pair. given: what our certificate
shows of the best threshold of the exact score, on the very draws that certify what ours chose; it
says what learning costs. expected: what that threshold shows where its counts are what is expected,
with as many draws as certify what ours chose, and with all of them: about the most that an auditor
can hope for who spends as many on learning, or none.

jax-privacy: the package, by ``epsilon_clopper_pearson`` as it is by default (over all
thresholds), and by the best of its methods that assume nothing of the mechanism, the one of the
largest median in each row: that one, the same with the threshold chosen on half of the draws
("split"), and ``epsilon_one_run`` (Steinke, Nasr, Jagielski 2023), in either way, with the
better direction known. DP-Sniper: its method from its paper, with delta taken off where there is
one; the better direction is chosen on draws put aside. "x": ours divided by theirs.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpverify.audit.attack import FixedAttack
from dpverify.audit.certificates import Aim, tested_points
from dpverify.audit.confidence_regions import PARTS, Counted, confidence_region, share_of
from dpverify.audit.studies import Shot
from dpverify.audit.subjects import target_of
from dpverify.audit.witnesses.choosing import Witness
from dpverify.audit.witnesses.features import Candidate
from dpverify.privacy.numbers import Floats
from tests.benchmarks.peer_methods import DEFAULT, Sniper, canary_bounds
from tests.benchmarks.peer_subjects import Subject, subjects
from tests.benchmarks.timing import header, peer, quiet, table

OURS, GIVEN, SNIPER = "ours", "given", "DP-Sniper's method"
EXPECTED, WITH_ALL = "expected", "expected, all"
AUDITORS_OWN = OURS, GIVEN, EXPECTED, WITH_ALL
MAIN = 0.9  # share of alpha of what ours certifies first
SAMPLE, CHUNK, LOOKED, FEW = 1_000_000, 200_000, 120, 10
COLUMNS = [
    "mechanism",
    "draws",
    "truth",
    *AUDITORS_OWN,
    "jax-privacy",
    "x",
    "its best",
    "method",
    "x",
    SNIPER,
    "x",
]


@dataclass(frozen=True)
class Bounds:
    """Bounds of one row at one alpha: for each method by seed, per step."""

    subject: Subject
    bounds: dict[str, list[float]]

    @property
    def best(self) -> str:
        """jax-privacy's best method; "" without the package."""
        theirs = [name for name in self.bounds if name not in (*AUDITORS_OWN, SNIPER)]
        return max(theirs, key=lambda name: np.median(self.bounds[name]), default="")

    def cells(self) -> list[str]:
        """Return the row."""
        one = self.subject
        truth = "-" if math.isnan(one.truth) else f"{one.truth:.4g}"
        cells = [one.name, f"{one.draws}", truth, *(shown(self.bounds[n]) for n in AUDITORS_OWN)]
        for name, named in ((DEFAULT, False), (self.best, True), (SNIPER, False)):
            known = name in self.bounds
            cells += [shown(self.bounds[name]) if known else "-"]
            cells += [name or "-"] * named
            cells += [self._ratio(name) if known else "-"]
        return cells

    def _ratio(self, name: str) -> str:
        ours, theirs = (float(np.median(self.bounds[key])) for key in (OURS, name))
        return f"{ours / theirs:.3f}" if theirs > 0 else "inf" if ours > 0 else "-"


def shown(bounds: Sequence[float]) -> str:
    """Format the median and the range."""
    return f"{np.median(bounds):.4g} ({min(bounds):.4g}-{max(bounds):.4g})"


def ours(one: Subject, alpha: float, seed: int, known: Exact) -> dict[str, float]:
    """Return the bound that an audit certifies, that of the exact score on the same draws, and
    what the latter is expected to be, with as many draws and with all.

    known: the events of the exact score.
    """
    rng = np.random.default_rng([seed, 1])
    attack = FixedAttack(one.claim, [one.pair], one.draws, alpha, seed)
    target = target_of(lambda data, size: one.outputs(data, size, rng), True)
    study = attack.study(target, 0, 0)
    (shots,) = attack.shots([study])
    expected, best = known.best_event(alpha, study.sizes)
    with_all, _ = known.best_event(alpha, (one.draws, one.draws))
    *result, given = attack.certify(0, study, [*shots, best])
    assert all(certificate.delta == one.delta for certificate in result)
    bounds = max(certificate.epsilon for certificate in result), given.epsilon, expected, with_all
    return {
        name: max(0.0, bound / one.steps) for name, bound in zip(AUDITORS_OWN, bounds, strict=True)
    }


class Exact:
    """The exact score of a subject, and of how many outputs it has which values."""

    def __init__(self, one: Subject) -> None:
        rng, self.one = np.random.default_rng(7), one
        sides = (one.pair.left, one.pair.right)
        self.samples = [[self._scores(data, rng) for data in sides] for _ in range(2)]

    def _scores(self, data: Any, rng: np.random.Generator) -> Floats:
        chunks = [self.one.outputs(data, CHUNK, rng) for _ in range(SAMPLE // CHUNK)]
        return np.sort(np.concatenate(list(map(self.one.score, chunks))))

    def best_event(self, alpha: float, sizes: tuple[int, int]) -> tuple[float, Shot]:
        """Find the threshold that certifies most with so many draws of either side, and about
        what it certifies where its counts are what is expected.

        Two samples of scores tell, and the smaller counts: the largest of many chances would be
        no property of a threshold.
        """
        one, level, shots = self.one, alpha * MAIN, list[tuple[float, Shot]]()
        score = Candidate("exact score >= {threshold}", lambda d: one.score(d.numbers), True, False)
        for side, sign in ((0, 1), (1, -1)):
            n, m = sizes[side], sizes[1 - side]
            ranks = np.geomspace(10, SAMPLE, LOOKED).astype(int)
            places = -ranks if sign > 0 else ranks - 1
            for threshold in np.unique(sign * self.samples[0][side][places]).tolist():
                shares = [
                    [_share(sample[at], sign, threshold) for at in (side, 1 - side)]
                    for sample in self.samples
                ]
                p, q = shares[0]
                if p <= one.delta:
                    continue
                spread, others = math.sqrt(p * (1 - p)) / (p - one.delta), (1 - q) / max(q, 1e-9)
                best = share_of(spread / math.sqrt(n), math.sqrt(others / m))
                for share in {best, *([PARTS] if q * m < FEW else [])}:
                    shown = min(
                        confidence_region(
                            Counted(round(own * n), n, round(other * m), m), share, level
                        ).epsilon_at(one.delta)
                        for own, other in shares
                    )
                    point = tested_points(one.claim)[0][0], one.delta
                    aim = Aim(point, share, own=n / (n + m))
                    witness = Witness(score, sign, threshold, aim, 0.0)
                    shots.append((shown, Shot(side, witness, level)))
        return max(shots, key=lambda shot: shot[0])


def _share(scores: Floats, sign: int, threshold: float) -> float:
    """Return the share of these sorted scores that are at least the threshold, with this sign."""
    if sign > 0:
        return 1 - int(np.searchsorted(scores, threshold)) / len(scores)
    return int(np.searchsorted(scores, -threshold, side="right")) / len(scores)


def measured(
    one: Subject, alphas: Sequence[float], seeds: Sequence[int], auditing: Any
) -> list[Bounds]:
    """Measure at each alpha; the peers look at the same outputs for all of them."""
    rows, known = [Bounds(one, {}) for _ in alphas], Exact(one)
    for seed in seeds:
        rng = np.random.default_rng([seed, 2])
        sides = [one.outputs(data, one.draws, rng) for data in (one.pair.left, one.pair.right)]
        scores = [one.score(side) for side in sides]
        for row, alpha in zip(rows, alphas, strict=True):
            bounds = ours(one, alpha, seed, known)
            sniper = Sniper(one.flags).bound(sides[0], sides[1], alpha, one.delta, seed)
            bounds[SNIPER] = sniper / one.steps
            if auditing is not None:
                jax = canary_bounds(auditing, scores[0], scores[1], alpha, one.delta, seed)
                bounds |= {name: bound / one.steps for name, bound in jax.items()}
            for name, bound in bounds.items():
                row.bounds.setdefault(name, []).append(bound)
    return rows


def above_truth(rows: Sequence[Bounds]) -> list[str]:
    """Count, for each method, the runs whose bound is above the truth, which alpha allows that
    rarely."""
    known = [row for row in rows if math.isfinite(row.subject.truth)]
    lines = []
    for name in known[0].bounds if known else ():
        if name in (EXPECTED, WITH_ALL):
            continue
        above = sum(
            bound > row.subject.truth * (1 + 1e-9) for row in known for bound in row.bounds[name]
        )
        lines.append(f"{name}: {above} of {sum(len(row.bounds[name]) for row in known)}")
    return lines


def main() -> None:
    """Print a table for each alpha."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", help="names of mechanisms, by default all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--draws", type=int, help="of either side, in place of each row's own")
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.05, 1e-6])
    given = parser.parse_args()
    auditing = peer("jax-privacy", "jax_privacy.auditing")
    quiet()
    alphas = " ".join(f"{alpha:g}" for alpha in given.alphas)
    named = "".join(f"{name!r} " for name in given.rows)
    draws = f" --draws {given.draws}" if given.draws else ""
    command = f"{named}--seeds {given.seeds} --first {given.first}{draws} --alphas {alphas}"
    header("Power beside peers", f"python -m tests.benchmarks.peers_power {command}")
    if auditing is not None:
        print(f"# jax-privacy {metadata.version('jax-privacy')}")
    print(f"\n{__doc__}", flush=True)
    seeds, rows = range(given.first, given.first + given.seeds), []
    for one in subjects():
        if one.name in (given.rows or [one.name]):
            start = time.process_time()
            one = replace(one, draws=given.draws or one.draws)
            with threadpool_limits(limits=1):
                rows.append(measured(one, given.alphas, seeds, auditing))
            seconds = time.process_time() - start
            print(f"  {one.name}: {seconds:.0f} s", file=sys.stderr, flush=True)
            for alpha, row in zip(given.alphas, rows[-1], strict=True):
                print(f"  alpha {alpha:g}  {'  '.join(row.cells())}", file=sys.stderr, flush=True)
    for alpha, measures in zip(given.alphas, zip(*rows, strict=True), strict=True):
        print(f"alpha {alpha:g}\n")
        table(COLUMNS, [row.cells() for row in measures])
        print(f"\nabove the truth: {'; '.join(above_truth(measures))}\n", flush=True)


if __name__ == "__main__":
    main()
