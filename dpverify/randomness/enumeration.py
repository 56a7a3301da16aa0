"""Enumeration of every coin outcome of shipped code, in turn: its exact law on a small instance.

``enumerate_law(run)`` calls ``run(bits)`` once per path of coin outcomes and returns the law of
what it returns, as fractions. This is what ties a sampler to its spec: no statistics, no
tolerance.

Coins can be enumerated at three levels, so that each layer is checked on its own: words of few
bits (is ``below`` uniform?), rational coins (is ``bernoulli_exp`` right to within the undecided
mass?), and exponential coins of a *formal* probability: ``exponential`` maps g to a rational
stand-in for exp(-g) with exponential(a + b) = exponential(a) exponential(b). A law that is a
rational function of such coins is then checked fraction for fraction; one that agrees for every
stand-in agrees for the real exponential too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.bits import Attempt, Bits, BoolArray, IntArray, NoiseLaw

Exponential = Callable[[Fraction], Fraction]
Atoms = Sequence[tuple[int, Fraction]]
"""Values and masses; the mass that is missing to 1 is left undecided."""


class Formal(Protocol):
    """Rational stand-ins for the numbers that laws are made of."""

    def __call__(self, exponent: Fraction) -> Fraction:
        """Return the stand-in for exp(-exponent), multiplicative."""

    def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
        """Return the stand-in for P(round(scale N(0, 1)) = z).

        Masses are of finitely many z, and add up to 1.
        """


class _Rejected(BaseException):
    def __init__(self, depth: int) -> None:
        self.depth = depth


class _Undecided(BaseException):
    pass


@dataclass(slots=True)
class _Node:
    """One choice: the probabilities of its outcomes and what followed each."""

    probabilities: tuple[Fraction, ...] = ()
    children: list[_Node] = field(default_factory=list)
    outcome: Hashable = None
    rejected_at: int = -1
    undecided: bool = False


@dataclass(frozen=True, slots=True)
class EnumeratedLaw:
    """An exact law: ``masses[outcome] <= P(outcome) <= masses[outcome] + undecided``.

    ``undecided`` is the mass of the paths that were cut at the depth limit; where it is 0, the
    masses are the probabilities.
    """

    masses: dict[Hashable, Fraction]
    undecided: Fraction
    paths: int


_Choices = tuple[tuple[int, ...], tuple[Fraction, ...]]
"""The atoms of a law of noise; their masses, and what is left if they are not all."""


class EnumeratedBits(Bits):
    """A source that follows one path of coin outcomes.

    The scripted choices come first, then the first outcome of every new choice.
    """

    def __init__(
        self,
        script: Sequence[int],
        *,
        max_choices: int,
        word_bits: int | None = None,
        exponential: Exponential | None = None,
        follow_retries: bool = False,
        atoms: dict[NoiseLaw, _Choices] | None = None,
    ) -> None:
        self.path: list[tuple[int, tuple[Fraction, ...]]] = []
        self._script = script
        self._max_choices = max_choices
        self._words_only = word_bits is not None
        self.word_bits = word_bits if word_bits is not None else 64
        self._exponential = exponential
        self._follow_retries = follow_retries
        self._atoms = {} if atoms is None else atoms

    def words(self, count: int) -> NDArray[np.uint64]:
        """Enumerate every word of ``word_bits`` bits.

        Only for enumeration at the level of words.
        """
        if not self._words_only:
            raise TypeError("Words are enumerated only when word_bits is given (at most 16).")
        return np.array(self._uniform(1 << self.word_bits, count), dtype=np.uint64)

    def below(self, n: int, size: int) -> IntArray:
        """Enumerate every integer below n, n equally likely outcomes."""
        if self._words_only:
            return super().below(n, size)
        return np.array(self._uniform(n, size), dtype=np.int64 if n < 2**63 else object)

    def _below_each(self, limits: NDArray[np.int64]) -> IntArray:
        """Enumerate every integer below its limit, each by itself."""
        if self._words_only:
            return super()._below_each(limits)
        return np.array([self.below(int(n), 1)[0] for n in limits], np.int64)

    def bernoulli(self, numerators: IntArray, denominator: int) -> BoolArray:
        """Enumerate both outcomes of each coin."""
        if self._words_only:
            return super().bernoulli(numerators, denominator)
        return self._coins([Fraction(int(n), denominator) for n in numerators])

    def bernoulli_rows(self, numerators: IntArray, denominator: int, size: int) -> BoolArray:
        """Enumerate both outcomes of each coin."""
        coins = self.bernoulli(np.tile(numerators, size), denominator)
        return coins.reshape(size, len(numerators))

    def bernoulli_exp(self, numerators: IntArray, denominator: int) -> BoolArray:
        """Enumerate both outcomes of each coin, at its formal probability when there is one."""
        if self._exponential is None:
            return super().bernoulli_exp(numerators, denominator)
        return self._coins([self._exponential(Fraction(int(n), denominator)) for n in numerators])

    def until_accepted(self, size: int, attempt: Attempt) -> IntArray:
        """Return values of accepted attempts, with the mass of rejections shared out exactly.

        A rejection returns to where the attempt began. With ``follow_retries`` the shipped loop
        runs instead, until a path is cut.
        """
        if self._follow_retries:
            return super().until_accepted(size, attempt)
        values: list[int] = []
        for i in range(size):
            start = len(self.path)
            value, accepted = attempt(np.array([i]))
            if not accepted[0]:
                raise _Rejected(start)
            values.append(int(value[0]))
        return np.array(values, dtype=np.int64 if _fits(values) else object)

    def noise(self, law: NoiseLaw, size: int) -> IntArray:
        """Enumerate every atom of a law that has atoms, at the level of exponential coins.

        The law's sampler is refined apart, at words of few bits.
        """
        if self._exponential is None or not hasattr(law, "atoms"):
            return super().noise(law, size)
        if law not in self._atoms:
            values, masses = zip(*law.atoms(self._exponential), strict=True)
            rest = 1 - sum(masses)
            self._atoms[law] = values, (*masses, rest) if rest else masses
        values, choices = self._atoms[law]
        drawn = [self._choose(choices) for _ in range(size)]
        if len(values) in drawn:
            raise _Undecided
        return np.array([values[i] for i in drawn], dtype=np.int64)

    def _uniform(self, n: int, count: int) -> list[int]:
        return [self._choose((Fraction(1, n),) * n) for _ in range(count)]

    def _coins(self, probabilities: list[Fraction]) -> BoolArray:
        drawn = [bool(p == 1 or (p > 0 and self._choose((1 - p, p)))) for p in probabilities]
        return np.array(drawn, dtype=np.bool_)

    def _choose(self, probabilities: tuple[Fraction, ...]) -> int:
        if len(probabilities) == 1:
            return 0
        depth = len(self.path)
        if depth >= self._max_choices:
            raise _Undecided
        choice = self._script[depth] if depth < len(self._script) else 0
        self.path.append((choice, probabilities))
        return choice


def enumerate_law(
    run: Callable[[Bits], Hashable],
    *,
    max_choices: int,
    word_bits: int | None = None,
    exponential: Exponential | None = None,
    follow_retries: bool = False,
    max_paths: int = 2_000_000,
) -> EnumeratedLaw:
    """Return the exact law of ``run``; paths of over ``max_choices`` choices are left undecided.

    follow_retries: run the shipped rejection loop too, rather than share a rejected path's mass
    out.

    Raises RuntimeError when there are more than ``max_paths`` paths: take a smaller instance.
    """
    root, paths = _Node(), 0
    script: list[int] = []
    atoms: dict[NoiseLaw, _Choices] = {}  # of the same stand-ins on every path
    while True:
        bits = EnumeratedBits(
            script,
            max_choices=max_choices,
            word_bits=word_bits,
            exponential=exponential,
            follow_retries=follow_retries,
            atoms=atoms,
        )
        leaf = _Node()
        try:
            leaf.outcome = run(bits)
        except _Rejected as rejection:
            leaf.rejected_at = rejection.depth
        except _Undecided:
            leaf.undecided = True
        paths += 1
        if paths > max_paths:
            raise RuntimeError(f"more than {max_paths} paths; enumerate a smaller instance")
        root = _insert(root, bits.path, leaf)
        next_script = _successor(bits.path)
        if next_script is None:
            break
        script = next_script
    masses, rejected, undecided = _law(root, 0)
    if rejected:
        raise RuntimeError("a rejection led outside its own attempt")
    return EnumeratedLaw(masses, undecided, paths)


def _successor(path: list[tuple[int, tuple[Fraction, ...]]]) -> list[int] | None:
    for depth in range(len(path) - 1, -1, -1):
        choice, probabilities = path[depth]
        if choice + 1 < len(probabilities):
            return [c for c, _ in path[:depth]] + [choice + 1]
    return None


def _insert(root: _Node, path: list[tuple[int, tuple[Fraction, ...]]], leaf: _Node) -> _Node:
    """Hang the leaf at the end of its path. Paths come in order, so a child is always the last."""
    if not path:
        return leaf
    node = root
    for depth, (choice, probabilities) in enumerate(path):
        node.probabilities = probabilities
        last = depth == len(path) - 1
        if choice == len(node.children):
            node.children.append(leaf if last else _Node())
        node = node.children[choice]
    return root


_Masses = tuple[dict[Hashable, Fraction], dict[int, Fraction], Fraction]


def _law(node: _Node, depth: int) -> _Masses:
    if not node.children:
        if node.undecided:
            return {}, {}, Fraction(1)
        if node.rejected_at >= 0:
            if node.rejected_at == depth:
                raise RuntimeError("an attempt that draws nothing was rejected: it never ends")
            return {}, {node.rejected_at: Fraction(1)}, Fraction(0)
        return {node.outcome: Fraction(1)}, {}, Fraction(0)
    masses: dict[Hashable, Fraction] = defaultdict(Fraction)
    rejected: dict[int, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    for probability, child in zip(node.probabilities, node.children, strict=True):
        below, again, cut = _law(child, depth + 1)
        for outcome, mass in below.items():
            masses[outcome] += probability * mass
        for start, mass in again.items():
            rejected[start] += probability * mass
        undecided += probability * cut
    if depth not in rejected:
        return dict(masses), dict(rejected), undecided
    # Attempts that began here start over from this very state: condition on not being rejected.
    kept = 1 - rejected.pop(depth)
    if kept == 0:
        raise RuntimeError("every attempt is rejected: the loop never ends")
    return (
        {outcome: mass / kept for outcome, mass in masses.items()},
        {start: mass / kept for start, mass in rejected.items()},
        undecided / kept,
    )


def _fits(values: list[int]) -> bool:
    return all(-(2**63) <= value < 2**63 for value in values)
