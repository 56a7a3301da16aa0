"""Sources of random bits, and the exact coins made of them.

``Bits`` supplies words of uniform bits and turns them into coins of exact probability. The
source of a mechanism's noise is a parameter: the operating system
(``SystemBits``, the default), a stream cipher that it keys (``dpverify.randomness.cipher``), a
seed (``SeededBits``, another type, for audits and tests), or every outcome in turn
(``dpverify.randomness.enumeration``).

Nothing here is picklable: two processes must never hold the same source.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]
"""Integers of exact value: int64, or Python ints (dtype object) where 63 bits are too few."""
BoolArray = NDArray[np.bool_]
Attempt = Callable[[NDArray[np.intp]], tuple[IntArray, BoolArray]]
_CHUNK = 1 << 14  # coins whose words stay in the processor's cache together
_PLACES = tuple(np.array(place, np.uint64) for place in range(64))
"""Numbers of places by which words are shifted, which numpy need not convert every time."""


class NoiseLaw(Protocol):
    """A law of integer noise that knows its own sampler."""

    def draw(self, bits: Bits, size: int) -> IntArray:
        """Draw ``size`` independent integers."""


class Bits(ABC):
    """A source of independent uniform bits; every coin below is exact given ideal bits."""

    word_bits: int = 64

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` independent words, uniform on [0, 2^word_bits)."""

    def below(self, n: int, size: int) -> IntArray:
        """Draw ``size`` independent integers, uniform on [0, n)."""
        if n < 1:
            raise ValueError(f"n = {n}; a uniform integer below n needs n >= 1.")
        if n == 1:
            return np.zeros(size, dtype=np.int64)
        # Masking the word to the bit length of n - 1 and rejecting keeps every value equally
        # likely.
        bits = (n - 1).bit_length()
        if n == 1 << bits:  # nothing to reject
            return self._integers(bits, size)

        def attempt(pending: NDArray[np.intp]) -> tuple[IntArray, BoolArray]:
            values = self._integers(bits, len(pending))
            return values, np.asarray(values < n, dtype=np.bool_)

        return self.until_accepted(size, attempt)

    def order(self, n: int) -> NDArray[np.intp]:
        """Draw an order of the numbers below n, all orders equally likely.

        Source: Durstenfeld 1964: the last place takes what is in a uniform one, then the last
        but one.
        """
        order = list(range(n))
        places = self._below_each(np.arange(n, 1, -1)).tolist()
        for last, one in zip(range(n - 1, 0, -1), places, strict=True):
            order[last], order[one] = order[one], order[last]
        return np.array(order, np.intp)

    def _below_each(self, limits: NDArray[np.int64]) -> IntArray:
        """Draw for each of these falling limits, of 2 or more, an integer below it, as
        ``below`` does.

        Limits of one bit length are drawn together.
        """
        draws = [np.zeros(0, np.int64)]
        for bits in range(int(limits[0] - 1).bit_length() if len(limits) else 0, 0, -1):
            own = limits[(limits > 1 << (bits - 1)) & (limits <= 1 << bits)]

            def attempt(
                pending: NDArray[np.intp], own: IntArray = own, bits: int = bits
            ) -> tuple[IntArray, BoolArray]:
                values = self._integers(bits, len(pending))
                return values, np.asarray(values < own[pending], dtype=np.bool_)

            draws.append(self.until_accepted(len(own), attempt))
        return np.concatenate(draws)

    def bernoulli(self, numerators: IntArray, denominator: int) -> BoolArray:
        """Draw independent coins, true with probability numerators[i] / denominator."""
        bits, size = (denominator - 1).bit_length(), len(numerators)
        many = size > _CHUNK and numerators.dtype == np.int64 and bits < self.word_bits
        if not many or denominator == 1 << bits:
            draws = self.below(denominator, size)
            return np.asarray(draws < numerators, dtype=np.bool_)
        # as ``below`` draws, some at a time
        coins, rejected = np.empty(size, dtype=np.bool_), []
        for start in range(0, size, _CHUNK):
            own = numerators[start : start + _CHUNK]
            draws = self._integers(bits, len(own))
            np.less(draws, own, out=coins[start : start + _CHUNK])
            rejected.append((draws >= denominator).nonzero()[0] + start)
        again = np.concatenate(rejected)
        coins[again] = self.bernoulli(numerators[again], denominator)
        return coins

    def bernoulli_rows(self, numerators: IntArray, denominator: int, size: int) -> BoolArray:
        """Draw ``size`` rows of independent coins, the i-th of each true with probability p =
        numerators[i] / denominator, int64 below 2^54.

        A coin asks whether a uniform U is below p. The first eight bits of U are a byte of a
        word. They decide unless they are f = floor(256 p), or 255 for p = 1. Then another coin
        decides, of probability 256 p - f, as the bits that follow would. In all a coin is true
        with probability f / 256 + (256 p - f) / 256 = p.
        """
        width = len(numerators)
        if self.word_bits != 64:
            return self.bernoulli(np.tile(numerators, size), denominator).reshape(size, width)
        first = np.minimum((numerators << 8) // denominator, 255)
        rest, first = (numerators << 8) - first * denominator, first.astype(np.uint8)
        coins, ties = np.empty((size, width), dtype=np.bool_), [np.zeros(0, np.intp)]
        step = max(1, 8 * _CHUNK // max(1, width))
        for start in range(0, size if width else 0, step):
            rows = min(step, size - start)
            words = self.words(-(-rows * width // 8))
            drawn = words.view(np.uint8)[: rows * width].reshape(rows, width)
            np.less(drawn, first, out=coins[start : start + rows])
            ties.append((drawn == first).ravel().nonzero()[0] + start * width)
        tied = np.concatenate(ties)
        coins.reshape(-1)[tied] = self.bernoulli(rest[tied % max(1, width)], denominator)
        return coins

    def bernoulli_exp(self, numerators: IntArray, denominator: int) -> BoolArray:
        """Draw independent coins, true with probability exp(-g), g = numerators[i] / denominator.

        g is at most 1. The number K of the first failure in Bernoulli(g/1), Bernoulli(g/2), ...
        is odd with probability 1 - g + g^2/2! - ... = exp(-g).

        Source: Canonne, Kamath, Steinke 2020, Algorithm 1 (after von Neumann). Raises
        ValueError for g > 1, where the series needs another start.
        """
        if len(numerators) and int(numerators.max()) > denominator:
            raise ValueError("exp(-g) coins are drawn for g <= 1; split a larger exponent.")
        k, odd = 1, np.ones(len(numerators), dtype=np.bool_)
        running, left = np.arange(len(numerators)), numerators
        while len(running):
            succeeded = self.bernoulli(left, denominator * k).nonzero()[0]
            running, left = running[succeeded], left[succeeded]
            k += 1
            odd[running] = k % 2 == 1  # where a later coin is the first to fail, it is set again
        return odd

    def noise(self, law: NoiseLaw, size: int) -> IntArray:
        """Draw ``size`` independent integers of a law, by its sampler.

        Enumeration takes the law's atoms instead.
        """
        return law.draw(self, size)

    def until_accepted(self, size: int, attempt: Attempt) -> IntArray:
        """Return ``size`` values, each from its first accepted attempt.

        ``attempt(pending)`` tries anew, independently of the past, for the indices it is given.
        """
        values, accepted = attempt(np.arange(size))
        pending = (~accepted).nonzero()[0]
        while len(pending):
            again, accepted = attempt(pending)
            if again.dtype != values.dtype:  # one of the two needed more than 63 bits
                values = values.astype(object)
            values[pending] = again
            pending = pending[(~accepted).nonzero()[0]]
        return values

    def _integers(self, bits: int, count: int) -> IntArray:
        if bits <= self.word_bits:
            kept = self.words(count) >> _PLACES[self.word_bits - bits]
            return kept.view(np.int64) if bits <= 63 else kept.astype(object)
        high = self._integers(bits - self.word_bits, count).astype(object)
        low = self.words(count).astype(object)
        joined: IntArray = high * (1 << self.word_bits) + low
        return joined

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is not picklable: two processes would share their draws. "
            "Make a new source in each process (SystemBits(), or SeededBits with its own seed)."
        )


def require_bits(bits: Any) -> None:
    """Raise TypeError for what is no source of bits.

    The message shows integers, which are seeds, and nothing else: it may be data.
    """
    if not isinstance(bits, Bits):
        seed = bits if type(bits) is int else "seed"
        given = f"{seed}" if type(bits) is int else f"a {type(bits).__name__}"
        raise TypeError(
            f"bits = {given} is no source of random bits; leave it out for the operating system's "
            f"bits, or give SeededBits({seed}) in a test."
        )


class SystemBits(Bits):
    """Bits of the operating system, read when they are needed.

    Nothing is read ahead, so nothing can be handed out twice: not to threads, not to signal
    handlers, not to a forked child.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` words of os.urandom."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def _entropy(digest: bytes) -> int | NDArray[np.uint32]:
    """Return the digest as an integer, or as its words, which numpy need not split.

    The stream is the same, unless the first word is zero: numpy leaves it out of an integer.
    """
    words = np.frombuffer(digest[::-1], "<u4").astype(np.uint32)
    return words if words[-1] else int.from_bytes(digest)


class SeededBits(Bits):
    """Reproducible bits for audits and tests. NEVER release with them.

    Who knows the seed knows the noise. A forked child refuses to go on with its parent's
    stream.
    """

    def __init__(self, *seed: int) -> None:
        if not all(isinstance(part, Integral) for part in seed):
            raise TypeError(f"seed = {seed!r}; give one or more integers >= 0.")
        if not seed or any(part < 0 for part in seed):
            raise ValueError(f"seed = {seed}; give one or more integers >= 0.")
        # Hashed, for numpy's seeds are not one to one: (1,) and (1, 0) give the same stream.
        digest = hashlib.sha256(repr(tuple(map(int, seed))).encode()).digest()
        self._generator = np.random.Philox(np.random.SeedSequence(_entropy(digest)))
        self._process = os.getpid()
        self._lock = threading.Lock()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` words of the stream; raises RuntimeError in a forked child."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "This SeededBits was made in another process; give each process its own seed."
            )
        with self._lock:
            return self._generator.random_raw(count)
