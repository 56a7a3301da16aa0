"""What the structure attacks return, and how they call what they attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.audit.certificates import DIRECTIONS, Certificate, tested_points
from dpverify.audit.certificates import certify as certified
from dpverify.audit.outputs.laws import Draws, as_it_is, encode
from dpverify.audit.outputs.showing import EXCEPTION
from dpverify.audit.regions import Counted
from dpverify.audit.verdicts import Asked
from dpverify.audit.witnesses.choosing import choose
from dpverify.audit.witnesses.learned import Effort, candidates
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy import Guarantee

FEWEST_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Finding(Asked):
    """What one attack saw.

    found: whether the implementation betrays something. Silence is evidence, not a proof.
    evidence: what was seen, and on which inputs.
    false_alarm: the chance, at most, that this attack says ``found`` of a sound implementation; 0
    where what was seen is a proof.
    reproduce: the call, with its seeds.
    certificate: the certified lower bound of epsilon, for attacks that compare two datasets.
    problem: what kept the attack from looking everywhere (calls that raised, no os.fork); "" if
    nothing did.
    """

    attack: str
    found: bool
    evidence: str
    false_alarm: float
    reproduce: str
    certificate: Certificate | None = None
    problem: str = ""

    @property
    def is_consistent(self) -> bool:
        """Whether the attack looked everywhere and found nothing."""
        return not self.found and not self.problem

    def __str__(self) -> str:
        verdict = "FOUND" if self.found else "INCOMPLETE" if self.problem else "nothing found"
        chance = f"{self.false_alarm:.2g} at most" if self.false_alarm else "0: this is a proof"
        lines = [f"{verdict} by {self.attack}: {self.evidence}", f"false alarm  {chance}"]
        if not self.found:
            lines.pop()
        if self.certificate is not None:
            best = self.certificate
            lines.append(
                f"certified    epsilon >= {max(0.0, best.epsilon):.4g} at delta {best.delta:.4g}, with "
                f"probability {1 - 2 * best.alpha:.7g} ({best.direction}, event: "
                f"{best.event}; {best.hits}/{best.draws} against {best.other_hits}/{best.other_draws})"
            )
        if self.problem:
            lines.append(f"problem      {self.problem}")
        return "\n".join([*lines, f"reproduce    {self.reproduce}"])


def check_draws(draws: int, alpha: float) -> None:
    """Raises ValueError for too few draws or an alpha that is no probability."""
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws = {draws}; at least {FEWEST_DRAWS} are needed to say a thing.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")


def _outputs(release: Callable[..., Any], data: Any, size: int, vectorized: bool) -> Any:
    """``size`` outputs; an exception stands where a call raised one.

    vectorized: release(data, size) returns all of them; otherwise release(data) returns one.
    Raises ValueError when a vectorized release returns another number of outputs.
    """
    if not vectorized:
        return [as_it_is(attempt(release, data)) for _ in range(size)]
    outputs = attempt(release, data, size)
    if isinstance(outputs, Exception):
        return [outputs] * size
    if len(outputs) != size:
        raise ValueError(f"release returned {len(outputs)} outputs when asked for {size}.")
    return outputs


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the call returns, or the exception that it raised: that can leak like any output."""
    try:
        return function(*arguments)
    except MemoryError:  # where memory ends says nothing of the function
        raise
    except Exception as error:
        return error


def _failures(draws: Draws) -> str:
    """How many of these are exceptions, and the first one; "" if none is."""
    raised = {
        str(label).removeprefix(EXCEPTION): number
        for label, number in draws.coded.counts().items()
        if str(label).startswith(EXCEPTION)
    }
    first = next(iter(raised), "")
    return f"{sum(raised.values())} of {len(draws)} calls raised {first}"[:250] if raised else ""


def describe(error: BaseException) -> str:
    """One line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]


@dataclass(frozen=True, slots=True)
class Sides:
    """Outputs on two datasets, with the features in which they are to be told apart.

    names: what each feature is; left, right: shape (size, len(names)), at most 4 of them.
    """

    names: tuple[str, ...]
    left: Draws
    right: Draws


def certify(sides: Sides, claim: Guarantee, alpha: float) -> tuple[Certificate, Certificate]:
    """Both directions: events learned on a quarter of the draws, chosen on another, certified on the rest.

    Both hold together with probability 1 - alpha.
    """
    (first, second), (other_first, other_second) = _halves(sides.left), _halves(sides.right)
    (learning, choosing), (other_learning, other_choosing) = _halves(first), _halves(other_first)
    learned = candidates(
        learning, other_learning, law_known=False, difference=None, seed=0, effort=Effort.QUICK
    )
    draws = min(len(second), len(other_second))
    task = Task(tested_points(claim), alpha / 2, draws)
    found = []
    for side, witness in enumerate(choose([choosing], [other_choosing], learned, task)):
        own, other = (second, other_second) if side == 0 else (other_second, second)
        counts = [
            int(np.count_nonzero(witness.happens(witness.candidate.score(draws))))
            for draws in (own, other)
        ]
        counted = Counted(counts[0], len(own), counts[1], len(other))
        where = ("given", DIRECTIONS[side], _named(str(witness), sides.names))
        found.append(certified(where, counted, witness.aim, alpha / 2, claim))
    return found[0], found[1]


def conclude(
    attack: str,
    sides: Sides,
    claim: Guarantee,
    alpha: float,
    seen: str,
    reproduce: str,
    problem: str,
) -> Finding:
    """A finding if a certificate refutes the claim; ``seen`` is what to say besides."""
    certificates = certify(sides, claim, alpha)
    best = max(certificates, key=lambda one: one.epsilon - one.claimed)
    found = any(certificate.refuted for certificate in certificates)
    text = (
        f"the outputs {'tell' if found else 'do not tell'} the inputs apart beyond {claim}; {seen}"
    )
    return Finding(attack, found, text, alpha, reproduce, best, problem)


def drawn(release: Callable[..., Any], data: Any, size: int, vectorized: bool) -> tuple[Draws, str]:
    """Encoded outputs, and what went wrong."""
    draws = encode(_outputs(release, data, size, vectorized))
    return draws, _failures(draws)


def _halves(draws: Draws) -> tuple[Draws, Draws]:
    rows = np.arange(len(draws))
    middle = len(rows) // 2
    return draws.select(rows[:middle]), draws.select(rows[middle:])


def _named(event: str, names: tuple[str, ...]) -> str:
    """In the words of the features: they are all that is looked at."""
    event = event.replace("the exact output", " and ".join(names))
    for index, name in enumerate(names):
        event = event.replace(f"number {index} ", f"{name} ")
    return event
