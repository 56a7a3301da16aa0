"""Structure attacks on numpy's noise, on other planted faults, on sound counterparts and on ours.

Every row is one attack on one subject, run with as many seeds as asked (100 by default). "found"
is in how many of them; "false alarm" is a call's, or "proof" where a finding is one. "median,
most" are of the certified epsilons at a claimed 1, or of the correlations of larger size.
"problems": runs that could not look everywhere. Slow rows (20,000 calls, one at a time) take a
tenth of the seeds.

expected: "found" in every run, "silent" in every run, or "open" where the table is the answer.
Timing depends on the machine and on what else it does, fresh seeds on chance; the rest is
repeatable.

    python -m tests.benchmarks.structure [seeds] [values vectors batches sources clock]
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpverify import Adjacency, NoisyCount
from dpverify.audit import structure
from dpverify.audit.structure import Finding
from dpverify.grid import ClampedSum, Count, VectorSum, clip_to_ball, quantize, to_cells
from tests.audit import structure_subjects as subjects
from tests.audit.structure_subjects import Ours
from tests.benchmarks.timing import table

DEFAULT_SEEDS = 100
_GRID_SUM = ClampedSum(-1024, 1024, 0, -10)
_GENERATOR = np.random.default_rng()


@dataclass(frozen=True)
class Case:
    """One row: the subject, the attack, and the expected finding."""

    attack: str
    subject: str
    expected: str
    run: Callable[[int], Finding]
    slow: bool = False


def value_cases() -> Iterator[Case]:
    """List cases of reachable floats."""
    makers = (
        ("numpy laplace", subjects.numpy_laplace, "found"),
        ("textbook laplace", subjects.textbook_laplace, "found"),
        ("numpy laplace, on a grid", _on_a_grid, "silent"),
    )
    for name, make, expected in makers:
        yield Case("membership", f"{name}, 0 and 1", expected, _membership(make, 0.0))
        yield Case("membership", f"{name}, 1 and 2", expected, _membership(make, 1.0))
    yield Case(
        "membership",
        "numpy laplace, 1000 and 1001",
        "open",
        _membership(subjects.numpy_laplace, 1000),
    )
    for name, make, expected in (*makers, ("numpy normal", subjects.numpy_normal, "found")):
        yield Case("lowest_set_bit", f"{name}, 0 and 1", expected, _lowest(make, 0.0))
    yield Case(
        "lowest_set_bit", "numpy normal, 1 and 2", "found", _lowest(subjects.numpy_normal, 1)
    )
    yield Case(
        "lowest_set_bit",
        "numpy normal, 1000 and 1001",
        "open",
        _lowest(subjects.numpy_normal, 1000),
    )
    yield from _values_of(subjects.OURS)


def _values_of(mechanisms: Iterable[Ours]) -> Iterator[Case]:
    for ours in mechanisms:
        for released in (False, True):
            name = f"ours: {ours.name}, {'release' if released else 'law'}"
            yield Case("membership", name, "silent", _our_membership(ours, released))
            yield Case("lowest_set_bit", name, "silent", _our_lowest(ours, released))


def vector_cases() -> Iterator[Case]:
    """List mechanisms of vectors, quantiles and histograms, and the maps and sums of vectors."""
    yield from _values_of(subjects.NEWER)
    total = VectorSum((0,) * 20, 1 << 20, -20)
    yield Case("order_dependence", "ours: VectorSum, +1 record", "silent", lambda seed: (
        structure.order_dependence(
            total.evaluate, subjects.unit_rows(seed, 500, 20, np.float64),
            record=subjects.unit_rows(seed + 1, 1, 20, np.float64)[0], sensitivity=1 << 20,
            additive=True, seed=seed,
        )
    ))  # fmt: skip
    yield Case("batch_dependence", "ours: clip_to_ball", "silent", lambda seed: (
        structure.batch_dependence(
            lambda rows: clip_to_ball(to_cells(rows, -30, (0,) * 300), 1 << 28),
            subjects.unit_rows(seed, 1, 300, np.float64)[0], seed=seed,
        )
    ))  # fmt: skip


def _on_a_grid(seed: int) -> subjects.Vectorized:
    return subjects.snapped(subjects.numpy_laplace(seed))


def _membership(make: Callable[[int], subjects.Vectorized], low: float) -> Callable[[int], Finding]:
    centers = (low, low + 1)
    return lambda seed: structure.membership(
        make(seed), *centers, centers=centers, scale=1.0, vectorized=True
    )


def _lowest(make: Callable[[int], subjects.Vectorized], low: float) -> Callable[[int], Finding]:
    return lambda seed: structure.lowest_set_bit(
        make(seed), low, low + 1, draws=100_000, vectorized=True
    )


def _our_membership(ours: Ours, released: bool) -> Callable[[int], Finding]:
    known: dict[str, Any] = {"centers": ours.centers(released), "scale": ours.scale(released)}
    known["draws"] = 500 if released else 2000
    return lambda seed: structure.membership(
        *_our_outputs(ours, released, seed), vectorized=not released, **known
    )


def _our_lowest(ours: Ours, released: bool) -> Callable[[int], Finding]:
    return lambda seed: structure.lowest_set_bit(
        *_our_outputs(ours, released, seed),
        draws=500 if released else 10_000,
        vectorized=not released,
    )


def _our_outputs(ours: Ours, released: bool, seed: int) -> tuple[Any, Any, Any]:
    return ours.release(seed) if released else ours.law(seed), ours.left, ours.right


def clock_cases() -> Iterator[Case]:
    """List running times: 20,000 calls of batch 1, fewer for the slow loop."""
    yield Case("timing", "geometric loop", "found", lambda seed: structure.timing(
        subjects.geometric_loop(seed), draws=5000
    ))  # fmt: skip
    yield Case("timing", "look-up", "silent", lambda seed: structure.timing(
        subjects.tabulated(seed, 20_000)
    ))  # fmt: skip
    for name in ("laplace", "normal"):
        yield Case("timing", f"numpy {name}", "open", _timed_numpy(name))
    wide = NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1000))
    wider = Ours("noisy_count, scale 1000", wide, subjects.PEOPLE, subjects.ONE_MORE)
    for ours in (subjects.COUNTED, wider, subjects.MANY_AVERAGED):
        for batch in (1, 100):
            label = f"ours: {ours.name}, batch {batch}"
            yield Case("timing", label, "open", _timed_ours(ours, batch), slow=batch == 1)


def _timed_numpy(name: str) -> Callable[[int], Finding]:
    def run(seed: int) -> Finding:
        draw = getattr(np.random.default_rng(seed), name)
        return structure.timing(lambda size: draw(size=size))

    return run


def _timed_ours(ours: Ours, batch: int) -> Callable[[int], Finding]:
    """Attack the last stage's noise by the time of the whole transcript; the law is built
    before."""

    def run(seed: int) -> Finding:
        release, center = ours.timed(seed)
        draws = 20_000 if batch == 1 else 2000
        return structure.timing(release, center=center, draws=draws, batch=batch)

    return run


def batch_cases() -> Iterator[Case]:
    """List cases of order, batch and layout."""
    for name in ("mean", "sum"):
        yield Case("order_dependence", f"float32 {name}", "found", _ordered(name))
    yield Case("order_dependence", "float32 sum, one record more", "found", _one_record)
    yield Case("order_dependence", "math.fsum", "silent", lambda seed: structure.order_dependence(
        subjects.exact_sum, subjects.unit_rows(seed, 1000, 3, np.float64), seed=seed
    ))  # fmt: skip
    for query, value in ((_GRID_SUM, 1024), (Count((-0.5, 0.5)), 1), (Count(), 1)):
        run = _grid(query, value)
        yield Case("order_dependence", f"ours: {type(query).__name__}, +1 record", "silent", run)
    for kind in (np.float32, np.float64):
        label = f"project, then clip, {kind.__name__}"
        yield Case("batch_dependence", label, "found", _projected(kind))
    yield Case(
        "batch_dependence",
        "ours: quantize",
        "silent",
        lambda seed: structure.batch_dependence(
            lambda rows: quantize(rows, -1024, 1024, -10),
            subjects.unit_rows(seed, 1, 300, np.float64)[0],
        ),
    )


def _ordered(name: str) -> Callable[[int], Finding]:
    return lambda seed: structure.order_dependence(
        lambda rows: getattr(rows, name)(axis=0), subjects.unit_rows(seed, 3000, 20), seed=seed
    )


def _one_record(seed: int) -> Finding:
    record = np.array([1.0, 0.0], dtype=np.float32)
    return structure.order_dependence(
        lambda rows: rows.sum(axis=0),
        subjects.crossing_rows(),
        record=record,
        sensitivity=1,
        seed=seed,
    )


def _grid(query: Any, sensitivity: int) -> Callable[[int], Finding]:
    return lambda seed: structure.order_dependence(
        query.evaluate,
        np.random.default_rng(seed).normal(size=(500, 1)),
        record=[1.0],
        sensitivity=sensitivity,
        norm=1,
        additive=True,
        seed=seed,
    )


def _projected(kind: type) -> Callable[[int], Finding]:
    return lambda seed: structure.batch_dependence(
        subjects.project_then_clip(seed, 300, kind),
        subjects.unit_rows(seed + 1000, 1, 300, kind)[0],
        seed=seed,
    )


def source_cases() -> Iterator[Case]:
    """List cases of seeds and forks."""
    yield Case("predictable_seeding", "default_rng(seed) by default", "found", _predicted(True))
    yield Case("predictable_seeding", "numpy's global generator", "found", _global)
    yield Case("predictable_seeding", "default_rng()", "silent", _predicted(False))
    yield Case("shared_state_after_fork", "module-level generator", "found", lambda _: (
        structure.shared_state_after_fork(_GENERATOR.normal)
    ))  # fmt: skip
    for ours in subjects.OURS:
        release = partial(ours.mechanism.release, ours.left)
        for attack, subject in (
            (structure.predictable_seeding, partial(partial, release)),
            (structure.shared_state_after_fork, release),
        ):
            run = partial(_once, attack, subject)
            yield Case(attack.__name__, f"ours: {ours.name}", "silent", run)


def _once(attack: Callable[[Any], Finding], subject: Any, seed: int) -> Finding:
    """Attack ours once more for each seed, for ours take system bits."""
    return attack(subject)


def _predicted(seeded: bool) -> Callable[[int], Finding]:
    return lambda seed: structure.predictable_seeding(
        lambda: np.random.default_rng(seed if seeded else None).laplace,
        model=lambda generator: generator.laplace(),
    )


def _global(seed: int) -> Finding:
    return structure.predictable_seeding(lambda: lambda: np.random.laplace())  # noqa: NPY002


def row(case: Case, seeds: int) -> tuple[list[str], str]:
    """Return the cells, and one finding's evidence."""
    start = time.perf_counter()
    seeds = max(1, seeds // 10) if case.slow else seeds
    findings = [case.run(seed) for seed in range(seeds)]
    hits = sum(finding.detected for finding in findings)
    wanted = {"found": hits == seeds, "silent": not hits, "open": True}[case.expected]
    chance = max(finding.false_alarm for finding in findings)
    cells = [case.attack, case.subject, case.expected, f"{hits}/{seeds}"]
    cells += ["ok" if wanted else "MISS", f"{chance:.0e}" if chance else "proof"]
    cells += [strongest(findings), f"{sum(bool(finding.problem) for finding in findings)}"]
    cells += [f"{time.perf_counter() - start:.0f}"]
    shown = next((finding for finding in findings if finding.detected), findings[0])
    return cells, f"{case.attack}, {case.subject}:\n  " + str(shown).replace("\n", "\n  ")


def strongest(findings: list[Finding]) -> str:
    """Return the median and largest certified epsilon, or correlation."""
    values = [max(0.0, f.certificate.epsilon) for f in findings if f.certificate is not None]
    if not values and findings[0].attack == "timing":
        for finding in findings:
            numbers = re.findall(r"([+-]\d\.\d+) \(", finding.evidence)
            values.append(max((float(number) for number in numbers), key=abs, default=0.0))
    if not values:
        return "-"
    return f"{np.median(values):.3g}, {max(values, key=abs):.3g}"


FAMILIES = {
    "values": value_cases,
    "vectors": vector_cases,
    "batches": batch_cases,
    "sources": source_cases,
    "clock": clock_cases,
}


def main() -> None:
    """Print a table and one finding of each row for the named families, by default all."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SEEDS
    print(f"# Structure attacks, {seeds} seeds")
    print(f"# date (UTC): {time.strftime('%Y-%m-%d %H:%M', time.gmtime())}")
    print(f"# Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    print(f"\n{__doc__}")
    columns = ["attack", "subject", "expected", "found", "", "false alarm", "median, most"]
    for name in sys.argv[2:] or FAMILIES:
        rows = [row(case, seeds) for case in FAMILIES[name]()]
        print(f"# command: python -m tests.benchmarks.structure {seeds} {name}\n")
        table([*columns, "problems", "s"], [cells for cells, _ in rows])
        print("\n" + "\n".join(text for _, text in rows) + "\n", flush=True)


if __name__ == "__main__":
    main()
