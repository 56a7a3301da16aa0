"""The chance that a quick audit of the whole suite is POWERLESS, with fresh seeds.

Per unit and planted fault: the first stage (``dpverify.audit.staging``) that catches it with
each of 40 seeds, when it attacks alone, and by how much: the standardized excess of the event
over what refutes. Such margins are about normal; the chance of a miss there is the normal tail
at the 99% lower confidence bound of their mean in standard deviations, of which one is at least
a standard error. Beyond ten standard errors a margin counts as ten: which of two pairs catches a
fault, by much or by far more, says nothing of misses. Later stages draw anew, more, so their
misses are independent and no more likely: the chance of missing the fault is at most that tail
to the power of the stages left. Where that is more than one in a million, the next stage is
measured as well, and has a tail of its own. Chances are added up over faults and units.

python -m tests.benchmarks.powerless [--seeds 40] [--first 1000000] [--workers 2] [--out FILE]
    [UNIT ...]
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import nct

from dpverify.audit.attack import FixedAttack
from dpverify.audit.staging import STAGES, StagedAttack, _remembered, standardized
from dpverify.audit.subjects import claimed_of, planted_in
from dpverify.suite.judges import (
    QUICK_TRIALS,
    TOTAL_ALPHA,
    audit_target,
    audited_keys,
    certified_units,
    seed_of,
)
from dpverify.suite.trees import Suite, load

LEVEL = 0.99
PLAIN = 10.0
"""Standard errors: larger margins are no further from a miss."""
RARE = 1e-6
"""A fault that is missed more often than this is measured at its next stage as well."""
FIRST_SEED = 10**6
"""First of the seeds measured here, unless another one is asked for; a setting that was chosen on
some seeds is measured on others."""


@cache
def _suite() -> Suite:
    return load()


def measured(key: str, seeds: int, first: int = FIRST_SEED) -> list[dict[str, Any]]:
    """Return for each planted fault of a unit the stage that settles it, and its margins by
    seed."""
    suite = _suite()
    _, attacked = audit_target(suite, key)
    guarantee, _ = claimed_of(attacked.mechanism, None, attacked.pairs)
    faults = planted_in(attacked.mechanism, attacked.planted(), False, False)
    trials = attacked.quick_trials or QUICK_TRIALS
    share = TOTAL_ALPHA / certified_units(suite) / len(faults)
    staged = StagedAttack(guarantee, attacked.pairs, trials, share, 0)
    stages = list(staged.stages())
    rows = []
    for number, (name, target) in enumerate(faults):
        law = _remembered(target)
        row: dict[str, Any] = {"unit": key, "fault": name, "margins": [-math.inf], "later": []}
        for position, (stage, draws) in enumerate(stages):
            last = position == len(stages) - 1
            margins: list[float] = []
            for k in range(seeds):
                alpha, seed = share / len(stages), seed_of(key, first + k)
                attack = FixedAttack(guarantee, attacked.pairs, draws, alpha, seed, planted=True)
                stream = 1 + number * len(STAGES) + stage
                attempt = attack.attempt(
                    law, stream, range(len(attacked.pairs)), thorough=last, learns=draws >= trials
                )
                best = max((standardized(one, guarantee) for one in attempt.tried), default=0.0)
                margins.append(best if attempt.refuted else -math.inf)
                if margins[-1] == -math.inf and not last:
                    break
            if min(row["margins"]) > -math.inf:
                row["later"].append(margins)
            elif last or min(margins) > -math.inf:
                row |= {"draws": draws, "left": len(stages) - position, "margins": margins}
            if min(row["margins"]) > -math.inf and miss(row) <= RARE:
                break
        rows.append(row)
    return rows


def miss(fault: dict[str, Any]) -> float:
    """Bound from above the chance that all stages miss the fault, as the module says."""
    tails = [_tail(margins) for margins in (fault["margins"], *fault.get("later", ()))]
    unmeasured: int = fault["left"] - len(tails)
    return math.prod(tails) * tails[-1] ** unmeasured


def _tail(margins: list[float]) -> float:
    """Bound from above the chance that a stage with these margins misses."""
    if not np.isfinite(margins).all():
        return 1.0
    plain = np.minimum(margins, PLAIN)
    deviation = max(float(plain.std(ddof=1)), 1.0)  # counts that never vary leave none
    return float(ndtr(-lower_bound(float(plain.mean()) / deviation, len(plain))))


def lower_bound(ratio: float, size: int) -> float:
    """Return the one-sided confidence bound, at LEVEL, for mean / deviation of normal values
    with this observed ratio."""
    low, high = -10.0, ratio
    root = math.sqrt(size)
    while high - low > 1e-6:
        middle = (low + high) / 2
        above = nct.sf(ratio * root, size - 1, middle * root)
        low, high = (middle, high) if above < 1 - LEVEL else (low, middle)
    return low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first of the seeds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, help="JSON lines, one a unit; units that it has are not done again"
    )
    args = parser.parse_args()
    faults: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        faults = [json.loads(line) for line in args.out.read_text().splitlines()]
    done = {fault["unit"] for fault in faults}
    units = [key for key in args.units or audited_keys(_suite()) if key not in done]
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        for rows in pool.map(measured, units, repeat(args.seeds), repeat(args.first)):
            faults += rows
            if args.out is not None:
                with args.out.open("a") as file:
                    file.writelines(json.dumps(fault) + "\n" for fault in rows)
    report(faults)


def report(faults: list[dict[str, Any]]) -> None:
    """Print a line for each unit, the total, and the faults that no stage settles."""
    total = 0.0
    print(f"{'unit':56s} faults  most draws  least margin  chance of a miss, at most")
    for unit in dict.fromkeys(fault["unit"] for fault in faults):
        own = [fault for fault in faults if fault["unit"] == unit]
        chance = sum(map(miss, own))
        total += chance
        least = min(min(fault["margins"]) for fault in own)
        most = max(fault["draws"] for fault in own)
        print(f"{unit:56s} {len(own):6d} {most:11,d} {least:13.2f} {chance:12.3g}")
    print(f"{'all':56s} {len(faults):6d} {'':25s} {total:12.3g}")
    for fault in sorted(faults, key=miss, reverse=True)[:10]:
        print(f"  {miss(fault):9.3g}  {fault['unit']}  {fault['fault']}  {fault['draws']:,} draws")


if __name__ == "__main__":
    main()
