"""The form of a tie: a rule, its theorem's statement as a Coq term, and why each hypothesis
holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

from dpverify.privacy import Adjacency, ApproxDP, Guarantee, PureDP
from tests.privacy.enumeration import premises as calls

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
HALF, TENTH = Fraction(1, 2), Fraction(1, 10)


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of a theorem, and why it holds: refused is a call of the rule that breaks it."""

    term: str
    why: str
    refused: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Example:
    """A conclusion of the rule, and what the theorem proves of the same premises."""

    concluded: Guarantee
    proved: Guarantee


def example(concluded: Guarantee, epsilon: Fraction, delta: Fraction) -> Example:
    """Compare a conclusion with an epsilon and a delta."""
    return Example(concluded, ApproxDP(epsilon, delta) if delta else PureDP(epsilon))


def rounded_up(number: Callable[[], mpf]) -> Fraction:
    """Compute a number of a theorem's at 60 digits, apart from the rule, rounded up at 45."""
    with mp.workdps(60):
        return Fraction(int(mp.ceil(number() * mpf(10) ** 45)), 10**45)


@dataclass(frozen=True)
class Tie:
    """A rule, its theorem and the theorem's statement.

    Where a theorem takes further variables after its first hypotheses, ``then`` has them and
    ``given`` has the hypotheses about them.
    """

    rule: Callable[..., Any]
    theorem: str
    variables: str
    hypotheses: tuple[Hypothesis, ...]
    conclusion: str
    examples: Callable[[], tuple[Example, ...]] = lambda: ()
    then: str = ""
    given: tuple[Hypothesis, ...] = ()

    @property
    def name(self) -> str:
        """The theorem's name, without its file's."""
        return self.theorem.partition(".")[2]

    def term(self) -> str:
        """Print the statement as Coq reads it."""
        first, second = (
            "".join(f"({one.term}) -> " for one in some) for some in (self.hypotheses, self.given)
        )
        rest = f"forall {self.then}, {second}" if self.then else second
        return f"forall {self.variables}, {first}{rest}{self.conclusion}"

    def definition(self) -> str:
        """Print what Coq must accept: the theorem, at the type that is printed here."""
        return f"Definition tie_{self.name} : {self.term()} := @{self.theorem}."


WORLD = "(R : realFieldType) (X : eqType)"
NEAR = f"{WORLD} (near : seq X -> seq X -> Prop)"
T = Hypothesis("0 <= t", "t stands for e^epsilon")
T1 = Hypothesis("1 <= t", "t stands for e^epsilon, and epsilon >= 0", lambda: PureDP(-1))
D = Hypothesis("0 <= d", "a delta", lambda: ApproxDP(1, -1))
LAWS = Hypothesis("has_laws M", "a mechanism has a law for every dataset")
ANY_GAUSSIAN = "(R : realFieldType) (gaussian : R -> (nat -> R) -> (nat -> R) -> Prop)"
GAUSSIAN_PREMISES = (
    Hypothesis(
        "forall m A B, gaussian m A B -> law A /\\ law B /\\ total A 1 /\\ total B 1",
        "listed premise: images of N(0, 1) and of N(mu, 1) are laws",
    ),
    Hypothesis(
        "forall m, 0 <= m -> exists A B, gaussian m A B", "listed premise: there are images"
    ),
    Hypothesis(
        "forall m A B A' B', gaussian m A B -> gaussian m A' B' -> "
        "exists C D, gaussian m C D /\\ coarser A B C D /\\ coarser A' B' C D",
        "listed premise: two images have a common refinement",
    ),
    Hypothesis(
        "forall m n A B C D, gaussian m A B -> gaussian n C D -> forall a b d, 0 <= a -> 0 <= b -> "
        "all_tested gaussian (m + n) a b d -> "
        "tested a b d (joint A (fun=> C)) (joint B (fun=> D))",
        "listed premise: mu^2 adds up in products",
    ),
)


def open_claim(adjacency: Adjacency = ADD) -> Any:
    """Claim something under a hypothesis about the output."""
    return calls.claim(ApproxDP(1, TENTH), adjacency, calls.SHOWN)


def claim(adjacency: Adjacency = ADD) -> Any:
    """Claim something under no hypothesis."""
    return calls.claim(ApproxDP(1, TENTH), adjacency)
