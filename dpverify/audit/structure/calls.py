"""Calls of a function on two datasets by an attack on values, and certificates of what tells
them apart.

The side of each call is a fair coin, as in an audit: what drifts with the calls (a clock, a
counter, a public center) does not look like the side then. Noise that calls share would: the
attack looks for it, and certifies nothing where it finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.certificates import (
    DIRECTIONS,
    Certificate,
    certify_guesses,
    is_pure,
    tested_points,
)
from dpverify.audit.certificates import certify as certified
from dpverify.audit.confidence_regions import Counted
from dpverify.audit.independence import (
    EventWatch,
    Watch,
    refuse_constant,
    require_even_batches,
)
from dpverify.audit.outputs.draws import Draws, together
from dpverify.audit.outputs.laws import CallableDraws, as_it_is, encode
from dpverify.audit.outputs.showing import EXCEPTION
from dpverify.audit.structure.result import attempt
from dpverify.audit.witnesses.choosing import Witness, choose
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import Guarantee

_BATCHES = 16  # batches per side of a function that gives many outputs at once
_COINS = 0xC01


@dataclass(frozen=True, slots=True)
class Called:
    """Outputs of a function on two datasets.

    sides: outputs of the left and of the right, in the order in which they were made. order:
    the side of every output, all together in that order. sizes: how many outputs each call
    gave, likewise. laws: what was called.
    """

    sides: tuple[Draws, Draws]
    order: NDArray[np.intp]
    sizes: NDArray[np.intp]
    laws: tuple[CallableDraws, CallableDraws]

    @property
    def problem(self) -> str:
        """Number of calls that raised an exception, with the first one, as text; "" if none did."""
        raised = Counter[str]()
        for side in self.sides:
            for label, number in side.coded.counts().items():
                if str(label).startswith(EXCEPTION):
                    raised[str(label).removeprefix(EXCEPTION)] += number
        first, made = next(iter(raised), ""), len(self.order)
        return f"{raised.total()} of {made} calls raised {first}"[:250] if raised else ""

    def until(self, share: float) -> tuple[int, int]:
        """Return how many outputs of either side the first calls gave, as many calls as this
        share of all.
        """
        made = int(self.sizes[: round(share * len(self.sizes))].sum())
        right = int(np.count_nonzero(self.order[:made]))
        return made - right, right

    def require_fresh(self) -> None:
        """Raise InvalidRun where outputs share noise, or where noise may have been drawn once."""
        refuse_constant("given", self.laws, self.sides)
        watch = Watch(self.laws)
        watch.take(self.sides)
        watch.require_fresh()


def called(
    release: Callable[..., Any], left: Any, right: Any, size: int, *, vectorized: bool, seed: int
) -> Called:
    """Call the function for ``size`` outputs per side, on average where each is a call of its
    own.

    vectorized: release(data, size) returns many outputs and is asked for them in several
    batches, a left and a right one in the order of a coin. Raises ValueError where it returns
    another number of them.
    """
    rng = np.random.default_rng((seed, _COINS))
    if vectorized:
        sizes = [len(part) for part in np.array_split(np.arange(size), _BATCHES) for _ in (0, 1)]
        sides = np.concatenate([rng.permutation(2) for _ in range(_BATCHES)])
    else:
        sizes, sides = [1] * (2 * size), rng.integers(2, size=2 * size)
    outputs: tuple[list[Any], list[Any]] = ([], [])
    for side, asked in zip(sides.tolist(), sizes, strict=True):
        made = _asked(release, (left, right)[side], asked, vectorized)
        # the function may fill one array again
        outputs[side].append(encode(made) if vectorized else made)
    drawn = [together(side) if vectorized else encode(side) for side in outputs]
    laws = (CallableDraws(release, left, vectorized), CallableDraws(release, right, vectorized))
    return Called((drawn[0], drawn[1]), np.repeat(sides, sizes), np.array(sizes), laws)


def _asked(release: Callable[..., Any], data: Any, size: int, vectorized: bool) -> Any:
    """Return what a call gives: one output, or an array or list of so many; if it raised an
    exception, that stands for each.
    """
    if not vectorized:
        return as_it_is(attempt(release, data))
    outputs = attempt(release, data, size)
    if isinstance(outputs, Exception):
        return [outputs] * size
    if len(outputs) != size:
        raise ValueError(f"release returned {len(outputs)} outputs when asked for {size}.")
    return outputs


@dataclass(frozen=True, slots=True)
class Sides:
    """Outputs on two datasets, by the features in which they are to be told apart.

    names: what each feature is; left, right: shape (size, len(names)), at most 4 of them.
    called: how they came about.
    """

    names: tuple[str, ...]
    left: Draws
    right: Draws
    called: Called

    def parts(self) -> Iterator[list[Draws]]:
        """Yield, for either side, what the first quarter of the calls gave, the second, and the
        other half.
        """
        cuts = [self.called.until(share) for share in (0.0, 0.25, 0.5, 1.0)]
        for start, end in pairwise(cuts):
            yield [
                side.select(np.arange(start[k], end[k]))
                for k, side in enumerate((self.left, self.right))
            ]


def certify(sides: Sides, claim: Guarantee, alpha: float) -> tuple[Certificate, Certificate]:
    """Certify both directions: events learned on a quarter of the calls, chosen on another,
    certified on the rest.

    Both hold together with probability 1 - alpha: for single calls and a claim without delta,
    whatever drifts (``witnesses.guesses``). Raises InvalidRun where outputs share noise.
    """
    sides.called.require_fresh()
    learning, choosing, final = sides.parts()
    learned = candidates(*learning, law_known=False, difference=None, seed=0, effort=Effort.QUICK)
    task = Task(tested_points(claim), alpha / 2, min(map(len, final)))
    left, right = choose([choosing[0]], [choosing[1]], learned, task)
    return (
        _certificate(sides, 0, left, final, alpha / 2, claim),
        _certificate(sides, 1, right, final, alpha / 2, claim),
    )


def _certificate(
    sides: Sides, side: int, witness: Witness, final: list[Draws], alpha: float, claim: Guarantee
) -> Certificate:
    """Certify one event. Raises InvalidRun where it refutes the claim but comes in runs, or in
    some batches more.
    """
    called = sides.called
    event = _named(str(witness), sides.names)
    happened = [witness.happens(witness.candidate.score(draws)) for draws in final]
    hits, sizes = ([int(count(one)) for one in happened] for count in (np.count_nonzero, len))
    counted = Counted(hits[side], sizes[side], hits[1 - side], sizes[1 - side])
    singly = not called.laws[0].vectorized
    judged = certify_guesses if singly and is_pure(tested_points(claim)) else certified
    made = judged(("given", DIRECTIONS[side], event), counted, witness.aim, alpha, claim)
    if made.refuted:
        watch = EventWatch(called.laws, event)
        for one in happened:
            watch.take([one, np.zeros(len(one), dtype=np.bool_)])
        watch.require_fresh()
        for one in () if singly else happened:
            parts = np.array_split(one, _BATCHES // 2)
            counts, lengths = np.array([(np.count_nonzero(part), len(part)) for part in parts]).T
            require_even_batches(counts, lengths, event)
    return made


def _named(event: str, names: tuple[str, ...]) -> str:
    """Return an event in the words of the features: they are all that is looked at."""
    every = " and ".join(names)
    event = event.replace("the exact output", every)
    for index, name in enumerate(names):
        event = event.replace(f"number {index} ", f"{name} ")
    return event if any(name in event for name in names) else f"{event}, of {every}"
