"""Choice of what an attack certifies: draws that learn events, and draws that choose among them.

A second look chooses again; ``studies`` says why its draws may certify as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np

from dpverify.audit.certificates import (
    Point,
    fewest_draws,
    guessed_epsilon,
    is_pure,
    tested_points,
)
from dpverify.audit.counting import hits_of, in_chunks
from dpverify.audit.independence import (
    InvalidRun,
    Watch,
    refuse_constant,
)
from dpverify.audit.looks import halves, is_evident, is_settled
from dpverify.audit.neighbors.pairs import NeighboringPair
from dpverify.audit.outputs.draws import together
from dpverify.audit.outputs.laws import (
    AuditedLaw,
    Draws,
    all_failed,
    are_functions,
    both_drawn,
    called_singly,
    is_known,
)
from dpverify.audit.outputs.transcripts import parted
from dpverify.audit.studies import (
    MAIN,
    SEVERAL,
    SUSPICIOUS,
    Before,
    Study,
    best_of,
    doubtful,
    events_of,
    root_of,
    speaks_against,
)
from dpverify.audit.subjects import Target
from dpverify.audit.witnesses.choosing import (
    CONTENDERS,
    Options,
    Witness,
    along_curve,
    likelihood_ratio,
    ranked,
    refitted,
)
from dpverify.audit.witnesses.features import Candidate
from dpverify.audit.witnesses.guesses import Guess, guesses_of
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import Guarantee
from dpverify.privacy.numbers import Floats

_ENOUGH = 50_000  # draws per side from which some may be spent on a second look
_PLAINER = 0.002  # in epsilon: how much more than an event the guesses of either side must promise
LEARNING, CHOOSING, CERTIFYING, AGAIN = range(4)
"""Parts of the draws on a side of a pair: each has seeds of its own."""


@dataclass(frozen=True, slots=True)
class Scouting:
    """Choice of events on every pair, for an attack with ``trials`` draws per side and pair.

    alpha: for all that one call of the attack certifies.
    curve: how many more events to certify on the most promising pair, along the trade-off curve.
    planted: whether what is attacked is known to be broken, and may draw no noise at all.
    """

    guarantee: Guarantee
    pairs: Sequence[NeighboringPair]
    trials: int
    alpha: float
    seed: int
    curve: int = 0
    planted: bool = False

    def studies(self, target: Target, stream: int) -> list[Study]:
        """Study every pair. Second looks come after the first draws on all pairs: these divide
        alpha among the pairs, and what a function draws may depend on all that it drew before.
        """
        begun = [self._studied(target, stream, index) for index in range(len(self.pairs))]
        for one in begun:
            next(one)
        return list(map(_ended, begun))

    def study(self, target: Target, stream: int, index: int, learns: bool = True) -> Study:
        """Take the first draws on a pair, and learn and choose events from them. learns: as in
        ``attempt``.
        """
        return _ended(self._studied(target, stream, index, learns))

    def _studied(
        self, target: Target, stream: int, index: int, learns: bool = True
    ) -> Generator[None, None, Study]:
        """Study a pair, and pause once, before a second look may draw."""
        pair = self.pairs[index]
        laws = target(pair.left), target(pair.right)
        address = (self.seed, stream, index)

        def drawn(part: int, size: int) -> list[Draws]:
            return both_drawn(laws, [(*address, side, part) for side in (0, 1)], size)

        known, points = is_known(laws[0]), tested_points(self.guarantee)
        learning, choosing = study_sizes(self.trials, known, len(points))
        one_point = not known and len(points) == 1 and self.trials >= _ENOUGH
        divides = one_point and not self.planted and not called_singly(laws)
        # Where nothing is learned, one batch of draws chooses as well as two, for less.
        whole = drawn(CHOOSING, learning + choosing) if known and self.planted else []
        first, second, evident = (
            (*parted(whole, learning), False)
            if whole
            else self._two_batches(drawn, learning, choosing, points if one_point else ())
        )
        left = self.trials - learning - (0 if evident else choosing)
        watch = self._watch(pair, laws, [first, second])

        def chosen(alpha: float, *, refute: bool = False) -> tuple[Options, Options]:
            task = Task(points, alpha * MAIN, left, refute, divides and not refute)
            most, contenders = 2 if refute else 1, 1 if known else CONTENDERS
            learned_on = first[0], first[1]

            def among(pool: Sequence[Candidate]) -> tuple[Options, Options]:
                return ranked([second[0]], [second[1]], pool, task, learned_on, most, contenders)

            if whole:  # where the law is known, no event tells more
                best = ranked([whole[0]], [whole[1]], [likelihood_ratio(*laws)], task, contenders=1)
                if not (learns and doubtful(best)):
                    return best
            best = among(self._candidates(pair, laws, first, known, weak=refute))
            if not one_point or refute:
                return best
            both = [together(batches) for batches in zip(first, second, strict=True)]
            return refitted(best, (both[0], both[1]), task)

        options, before = chosen(self.alpha), None
        yield
        suspicious = doubtful(options) and any(root_of(one) >= SUSPICIOUS for one in options)
        affords = one_point and not evident and left - choosing >= self._fewest()
        if affords and (suspicious or self._may_learn_more(options, first, second)):
            # Fewer draws on the right event are better: all that was seen teaches, as many again
            # choose.
            first = [together(batches) for batches in zip(first, second, strict=True)]
            chunks = list(in_chunks(laws, address, choosing, AGAIN))
            second = [together(side) for side in zip(*chunks, strict=True)]
            left -= choosing
            if not _are_guessed(laws, points):
                events = events_of(options)
                against = [speaks_against(events[side], first, side, points[0]) for side in (0, 1)]
                counts = hits_of(laws, events, chunks, watch.copied())
                before = Before.of(options, against, counts, choosing, left, suspicious)
            options = chosen(self.alpha * SEVERAL[0], refute=suspicious)
        return self._study_of(index, laws, options, second, left, watch, before)

    def _two_batches(
        self,
        drawn: Callable[[int, int], list[Draws]],
        learning: int,
        choosing: int,
        evident_at: Sequence[Point],
    ) -> tuple[list[Draws], list[Draws], bool]:
        """Return draws of both sides that teach, others that choose, and whether the former show
        an evident event. That needs no more draws: they would teach less than they certify.

        evident_at: the points of the claim at which an evident event is looked for.
        """
        first = drawn(LEARNING, learning)
        if evident_at and not self.planted:
            task = Task(evident_at, self.alpha * MAIN, self.trials - learning)
            if is_evident(*halves(first), task):
                return *halves(first), True
        return first, drawn(CHOOSING, choosing), False

    def _study_of(
        self,
        index: int,
        laws: tuple[AuditedLaw, AuditedLaw],
        options: tuple[Options, Options],
        second: Sequence[Draws],
        left: int,
        watch: Watch,
        before: Before | None,
    ) -> Study:
        """Return the study of these options, with what else is certified besides the best. second:
        the draws that chose.
        """
        points = tested_points(self.guarantee)
        witnesses = events_of(options)
        suspects = (options[0].suspect, options[1].suspect) if doubtful(options) else (None, None)
        task = Task(points, self.alpha * MAIN, left)
        along = tuple(
            along_curve(witness, second[side], second[1 - side], task, self.curve)
            for side, witness in enumerate(witnesses)
        )
        besides = options[0].witnesses[1:], options[1].witnesses[1:]
        guess = _guess_of(witnesses, second, task) if _are_guessed(laws, points) else None
        return Study(index, laws, witnesses, besides, along, left, watch, guess, suspects, before)

    def _may_learn_more(
        self, options: tuple[Options, Options], first: Sequence[Draws], second: Sequence[Draws]
    ) -> bool:
        """Return whether what was learned may tell more after more draws. Of a fault it is enough
        that it shows; of a claim also by how much. A score that was learned again on all draws
        tells about as much as it can.
        """
        best = best_of(options).candidate
        if not best.fitted or best.again is not None or not _is_rich(first):
            return False
        return doubtful(options) if self.planted else not is_settled(best, first, second)

    def _fewest(self) -> int:
        """Return with how many draws certifying makes sense after a second look."""
        return fewest_draws(self.guarantee, self.alpha / 2)

    def _watch(
        self,
        pair: NeighboringPair,
        laws: tuple[AuditedLaw, AuditedLaw],
        phases: Sequence[Sequence[Draws]],
    ) -> Watch:
        """Return a watch over the first draws, for noise that outputs share. Raises InvalidRun
        where that is evident.
        """
        refuse_failures(pair, phases[0])
        watch = Watch(laws)
        if are_functions(laws):
            drawn = [together(batches) for batches in zip(*phases, strict=True)]
            if not self.planted:
                refuse_constant(pair.name, laws, drawn)
            watch.take(drawn)
            watch.require_fresh()
        return watch

    def _candidates(
        self,
        pair: NeighboringPair,
        laws: tuple[AuditedLaw, AuditedLaw],
        draws: Sequence[Draws],
        known: bool,
        *,
        weak: bool,
    ) -> list[Candidate]:
        effort = Effort.QUICK if known else Effort.FULL
        learned = candidates(
            *draws,
            law_known=known,
            difference=suggested_direction(pair),
            seed=self.seed % 2**32,
            effort=effort,
            weak=weak,
        )
        return [likelihood_ratio(*laws), *learned] if known else learned


def _ended(study: Generator[None, None, Study]) -> Study:
    """Run what is left of it."""
    while True:
        try:
            next(study)
        except StopIteration as end:
            result: Study = end.value
            return result


def _are_guessed(laws: tuple[AuditedLaw, AuditedLaw], points: Sequence[Point]) -> bool:
    """Return whether right guesses are counted in place of hits (``witnesses.guesses``)."""
    return called_singly(laws) and is_pure(points)


def _is_rich(draws: Sequence[Draws]) -> bool:
    """Return whether outputs are more than one number, so that more draws may teach something."""
    return any(side.numbers.shape[1] > 1 or len(side.coded.table) > 1 for side in draws)


def _guess_of(
    witnesses: tuple[Witness, Witness], draws: Sequence[Draws], task: Task
) -> tuple[Guess, float]:
    """Return a guess at either side, with a promise above that of both events if as many guesses
    of one side would show less; otherwise the promise is -inf.
    """
    options = guesses_of(witnesses)
    scale = task.draws / max(1, len(draws[0]))
    shown = []
    for guess in options:
        right, wrong = guess.counts(draws[0], draws[1])
        shown.append(guessed_epsilon(round(right * scale), round(wrong * scale), task.alpha))
    best = max(witness.promise for witness in witnesses)
    better = shown[2] > max(shown[:2]) + _PLAINER
    return options[2], best + _PLAINER if better else -math.inf


def suggested_direction(pair: NeighboringPair) -> Floats | None:
    """Return the difference of the two datasets' column sums: the direction in which a sum or a
    mean moves.
    """
    try:
        sides = [np.asarray(data, dtype=np.float64) for data in (pair.left, pair.right)]
    except (TypeError, ValueError):
        return None
    rows = [side.reshape(len(side), -1) if side.size else None for side in sides]
    width = next((row.shape[1] for row in rows if row is not None), 0)
    with np.errstate(all="ignore"):
        sums = [np.zeros(width) if row is None else row.sum(axis=0) for row in rows]
        difference: Floats = sums[0] - sums[1] if len(sums[0]) == len(sums[1]) else np.zeros(0)
    told = np.isfinite(difference).all() and difference.any()
    return difference if told else None


def study_sizes(trials: int, law_known: bool, points: int = 1) -> tuple[int, int]:
    """Return how many of these draws learn events, and how many choose among them.

    Fewer are needed where the law is known or a whole profile is claimed: what to expect is
    known then.
    """
    share = 10 if points > 1 else 8 if law_known else 6
    learning = min(max(trials // 16, min(trials // 5, 500)), 10_000 if law_known else 60_000)
    choosing = min(max(trials // share, min(trials // 5, 500)), 200_000)
    return learning, choosing


def trials_to_certify(draws: float) -> float:
    """Return with how many trials a function is drawn from so often, per side, to certify. From
    ``_ENOUGH`` on a second look takes as many as the first that chose.
    """
    trials = draws
    for _ in range(40):  # each step has at most .4 of the error before
        learning, choosing = study_sizes(math.ceil(trials), law_known=False)
        trials = draws + learning + choosing * (2 if trials >= _ENOUGH else 1)
    return trials


def refuse_failures(pair: NeighboringPair, batches: Sequence[Draws]) -> None:
    """Raise InvalidRun if every call on both sides raised the same exception.

    An exception whose text depends on the dataset is an outcome like any other.
    """
    said = {label for draws in batches for label in draws.coded.counts()}
    failed = all_failed(batches[0])
    if len(said) == 1 and failed is not None:
        text = str(next(iter(said))).partition(": ")[2] or "none"
        array = ""
        if isinstance(pair.left, np.ndarray):
            array = (
                " The pair holds arrays, which added and replaced also make of a data frame; "
                "NeighboringPair(name=..., left=frame, right=other, adjacency=...) keeps frames."
            )
        raise InvalidRun(
            f"Every call on both sides of the pair {pair.name!r} raised {failed}: nothing was "
            f"audited. Its message: {text}. Call the function once by hand on pair.left.{array}"
        )
