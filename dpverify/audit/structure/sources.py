"""An attack on where randomness comes from: seeds that are constant, small, shared or known."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.structure.coincidences import (
    Yardstick,
    exceptions,
    in_common,
    key,
    measured,
    sequence,
)
from dpverify.audit.structure.result import Finding, attempt, check_draws, describe

Release = Callable[[], Any]
Make = Callable[[], Release]
_NAME = "predictable_seeding"
_LEGACY = "numpy's legacy global generator"
_CONSTANT = (
    "{} outputs of one object are one and the same: it has no noise, or seeds it from a constant"
)
_SILENCE = "no noise recurs in fresh objects, after seeding global generators, or in guessed seeds"
_CLOCK = 2  # seconds, or milliseconds, around the making that are tried as seeds
_OTHERS = 4  # comparisons besides the guesses


@dataclass(slots=True)
class _Case:
    """Outputs of one object, and the results of comparing others with them."""

    observed: list[str]
    measure: Yardstick
    comparisons: int
    facts: list[str]
    problems: list[str]

    def compare(self, what: str, left: list[str], right: list[str]) -> None:
        """Note a common beginning too long for a coincidence."""
        shared = in_common(left, right)
        if shared >= self.measure.needed(self.comparisons):
            self.facts.append(f"{what} (the first {shared} outputs are equal)")

    def finding(self, silence: str, alpha: float, call: str) -> Finding:
        """Return the finding: ``detected`` if there is a fact."""
        if not self.facts:
            self.problems.append(self.measure.problem(len(self.observed), self.comparisons))
        text = "; ".join(self.facts) or silence
        problem = "; ".join(filter(None, self.problems))
        return Finding(_NAME, bool(self.facts), text, alpha, call, None, problem)


def predictable_seeding(
    make_release: Make,
    *,
    model: Callable[[Any], Any] | None = None,
    seeds: int = 1000,
    processes: bool = False,
    draws: int = 100,
    alpha: float = 1e-6,
) -> Finding:
    """Test whether the noise can be had again: from a fresh object, a fresh process, a global
    or guessable seed.

    make_release() makes what is attacked, as its users do by default; release() is one output.
    model(generator): one release from a numpy generator; the seeds 0..seeds-1, the clock around the
    making and their milliseconds are tried in default_rng and RandomState.
    processes: two freshly started processes as well; make_release must then be importable by
    name. False alarms: equal outputs count once they are too many for a coincidence, by how
    often the release's own outputs agree, without clocks and counters, and in their
    differences: fresh objects are at the same place of a public drift. A constant output is
    reported as well; it has probability below 1e-9 for a release whose outputs agree in at most
    90% of pairs. Errors: ValueError for too few draws or a bad alpha.
    """
    check_draws(draws, alpha)
    call = f"{_NAME}(make_release, seeds={seeds}, draws={draws}, alpha={alpha:g})"
    before = time.time()
    first = attempt(make_release)
    if isinstance(first, Exception):
        problem = f"make_release raised {describe(first)}"
        return Finding(_NAME, False, "nothing was drawn", alpha, call, None, problem)
    tried = [] if model is None else _guesses(seeds, before, time.time())
    observed = sequence(first, draws)
    further, measure = measured(first, draws, alpha)
    problems = [exceptions([*observed, *further])]
    case = _Case(observed, measure, _OTHERS + 2 * len(tried), [], problems)
    if len({*observed, *further}) == 1 and not problems[0]:
        case.facts.append(_CONSTANT.format(len(observed) + len(further)))
        return case.finding("", alpha, call)
    failed = attempt(_others, case, make_release, processes)
    if isinstance(failed, Exception):
        case.problems.append(f"another object raised {describe(failed)}")
    for name, generator in _generators(tried):
        _guess(case, name, generator, model)
    return case.finding(_SILENCE, alpha, call)


def _others(case: _Case, make_release: Make, processes: bool) -> None:
    """Compare with a second object, the global generators, and fresh processes."""
    draws = len(case.observed)
    case.compare(
        "two fresh objects give the same noise", case.observed, _fresh(make_release, draws)
    )
    for name in (_LEGACY, "Python's global generator"):
        # Another seed in between: noise that recurs whatever the seed does not come from it.
        one, control, two = (_after_seeding(name, s, make_release, draws) for s in (0, 1, 0))
        if in_common(one, control) < in_common(one, two):
            case.compare(f"seeding {name} with 0 repeats the noise", one, two)
    if processes:
        one, two = (_in_a_process(make_release, draws) for _ in range(2))
        case.compare("two fresh processes give the same noise", one, two)


def _fresh(make_release: Make, draws: int) -> list[str]:
    return sequence(make_release(), draws)


def _after_seeding(name: str, seed: int, make_release: Make, draws: int) -> list[str]:
    """Return outputs of a fresh object after seeding a global generator, whose state is put
    back.
    """
    # The attack is on this very state.
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        if name == _LEGACY:
            np.random.seed(seed)  # noqa: NPY002
        else:
            random.seed(seed)
        return _fresh(make_release, draws)
    finally:
        np.random.set_state(before[0])  # noqa: NPY002
        random.setstate(before[1])


def _in_a_process(make_release: Make, draws: int) -> list[str]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_fresh, make_release, draws).result()


def _guesses(seeds: int, before: float, after: float) -> list[int]:
    """Return guesses: small seeds, and the clock around the making in seconds and milliseconds."""
    guesses = list(range(seeds))
    for unit in (1, 1000):
        guesses += range(int(unit * before) - _CLOCK, int(unit * after) + _CLOCK + 1)
    return guesses


def _generators(guesses: list[int]) -> Iterator[tuple[str, Any]]:
    """Yield generators that an attacker would guess, with their names; two a seed."""
    for seed in guesses:
        yield f"default_rng({seed})", np.random.default_rng(seed)
        yield f"RandomState({seed % 2**32})", np.random.RandomState(seed % 2**32)


def _guess(case: _Case, name: str, generator: Any, model: Callable[..., Any] | None) -> None:
    """Draw from the model only as long as it agrees with what was observed."""
    assert model is not None
    shared: list[str] = []
    for expected in case.observed:
        output = attempt(model, generator)
        if isinstance(output, Exception):
            case.problems.append(f"the model with {name} raised {describe(output)}")
            return
        if key(output) != expected:
            break
        shared.append(expected)
    case.compare(f"the noise is that of {name}", case.observed, shared)
