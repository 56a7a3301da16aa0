"""Results of the structure attacks, and the calls that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpverify.audit.certificates import Certificate
from dpverify.audit.verdicts import Asked

FEWEST_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Finding(Asked):
    """Result of one attack.

    detected: whether the implementation betrays something. Silence is evidence, not a proof.
    evidence: what was seen, and on which inputs.
    false_alarm: the chance, at most, that this attack detects something in a sound
    implementation; 0 where what was seen is a proof.
    reproduce: the call, with its seeds.
    certificate: the certified lower bound of epsilon, for attacks that compare two datasets.
    problem: what kept the attack from looking everywhere (calls that raised, no os.fork); "" if
    nothing did.
    """

    attack: str
    detected: bool
    evidence: str
    false_alarm: float
    reproduce: str
    certificate: Certificate | None = None
    problem: str = ""

    @property
    def is_consistent(self) -> bool:
        """True if the attack looked everywhere and found nothing."""
        return not self.detected and not self.problem

    def __str__(self) -> str:
        verdict = "FOUND" if self.detected else "INCOMPLETE" if self.problem else "nothing found"
        chance = f"{self.false_alarm:.2g} at most" if self.false_alarm else "0: this is a proof"
        lines = [f"{verdict} by {self.attack}: {self.evidence}", f"false alarm  {chance}"]
        if not self.detected:
            lines.pop()
        if self.certificate is not None:
            best = self.certificate
            lines.append(
                f"certified    epsilon >= {max(0.0, best.epsilon):.4g} at delta "
                f"{best.delta:.4g}, with probability {1 - 2 * best.alpha:.7g} ({best.direction}, "
                f"event: {best.event}; {best.hits}/{best.draws} against "
                f"{best.other_hits}/{best.other_draws})"
            )
        if self.problem:
            lines.append(f"problem      {self.problem}")
        return "\n".join([*lines, f"reproduce    {self.reproduce}"])


def check_draws(draws: int, alpha: float) -> None:
    """Raise ValueError for too few draws or an alpha that is no probability."""
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws = {draws}; at least {FEWEST_DRAWS} are needed to say a thing.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} is outside (0, 1); give a probability, say 1e-6.")


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the call returns, or the exception that it raised: that can leak like any
    output.
    """
    try:
        return function(*arguments)
    except MemoryError:  # where memory ends says nothing of the function
        raise
    except Exception as error:
        return error


def describe(error: BaseException) -> str:
    """Describe an exception in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
