"""Secrets in single bits, noise of few seeds, long texts: seen where they are, and no candidates
where they are not.

Every audit has a false-alarm probability of 1e-6; seeds are fixed.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpverify.audit import AuditResult, Verdict, added, audit
from dpverify.audit.outputs.encoding import encode
from dpverify.audit.witnesses.bits import low_bits
from dpverify.audit.witnesses.events import seen_before
from dpverify.privacy import PureDP

PAIR = added("one enters", [0.0, 1.0], 1.0)
COMMON = 0.9  # how often the secret bit is set with the third record; 0.1 without


def _audited(function: Callable[..., Any], trials: int, *, vectorized: bool = True) -> AuditResult:
    return audit(
        function,
        claim=PureDP(1),
        pairs=[PAIR],
        trials=trials,
        alpha=1e-6,
        seed=1,
        vectorized=vectorized,
    )


def _secrets(rng: np.random.Generator, data: Any, size: int) -> Any:
    return (rng.random(size) < (COMMON if len(data) == 3 else 1 - COMMON)).astype(np.int64)


def _planted(words: Any, place: int, bits: Any) -> Any:
    return (words & ~np.int64(1 << place)) | (bits << place)


@pytest.mark.parametrize("place", [1, 9, 20, 33, 44, 48, 51])
def test_a_bit_of_the_mantissa(place: int) -> None:
    rng = np.random.default_rng(place)

    def function(data: Any, size: int) -> Any:
        words = rng.normal(size=size).view(np.int64)
        return _planted(words, place, _secrets(rng, data, size)).view(np.float64)

    assert _audited(function, 2000).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("place", [1, 6, 12, 20, 27])
def test_a_bit_of_a_grid(place: int) -> None:
    rng = np.random.default_rng(place)

    def function(data: Any, size: int) -> Any:
        words = np.rint(rng.normal(size=size) * 2.0**30).astype(np.int64)
        return _planted(words, place, _secrets(rng, data, size)) * 2.0**-30

    result = _audited(function, 2000)
    assert result.verdict is Verdict.VIOLATED
    assert f"weight 2^{place - 30}" in result.strongest.event


@pytest.mark.parametrize(("width", "column"), [(10, 7), (300, 150)])
def test_a_bit_of_one_column_of_many(width: int, column: int) -> None:
    """Find a column that has the mean and the variance of all others."""
    rng = np.random.default_rng(width)

    def function(data: Any, size: int) -> Any:
        rows = rng.normal(size=(size, width))
        words = np.ascontiguousarray(rows[:, column]).view(np.int64)
        rows[:, column] = _planted(words, 30, _secrets(rng, data, size)).view(np.float64)
        return rows

    event = _audited(function, 5000).strongest.event
    assert f"bit 30 of the mantissa of number {column}" in event


@pytest.mark.parametrize("place", [0, 3, 31, 32, 40, 60])
def test_a_bit_of_a_large_integer(place: int) -> None:
    """Beyond 2^53 no float has it."""
    rng = np.random.default_rng(place)

    def function(data: Any, size: int) -> Any:
        return _planted(rng.integers(2**62, size=size), place, _secrets(rng, data, size))

    assert _audited(function, 2000).verdict is Verdict.VIOLATED


def test_a_bit_of_128() -> None:
    source = random.Random(10)

    def function(data: Any) -> Any:
        secret = source.random() < (COMMON if len(data) == 3 else 1 - COMMON)
        return source.getrandbits(128) & ~(1 << 60) | secret << 60

    assert _audited(function, 2500, vectorized=False).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 0), (2**60 + 5, 2), (-(2**60) - 5, 2), (-(2**63), 2), (2**63 + 1, 2), (2**100 + 7, 4),
     (-(2**200) - 9, 4)],
)  # fmt: skip
def test_words_of_large_integers_are_exact(value: int, count: int) -> None:
    """Compare words in two's complement, whatever else is in the batch."""
    words = [float((value >> 32 * k) % 2**32) for k in range(count)]
    alone = encode([value]).numbers[0].tolist()
    assert alone[2:] == words
    among = encode([value, 1, -(2**300), 2**55]).numbers[0].tolist()
    assert among == [*alone, *[0.0] * (len(among) - len(alone))]
    if abs(value) < 2**63:
        assert encode(np.array([value])).numbers[0].tolist() == alone
    elif 0 < value < 2**64:
        assert encode(np.array([value], dtype=np.uint64)).numbers[0].tolist() == alone


@pytest.mark.parametrize("modulus", [3, 5, 7, 15])
def test_remainders(modulus: int) -> None:
    rng = np.random.default_rng(modulus)

    def function(data: Any, size: int) -> Any:
        return modulus * np.rint(rng.laplace(size=size) * 1e6) + (len(data) == 3)

    result = _audited(function, 2500)
    assert result.verdict is Verdict.VIOLATED
    assert "modulo" in result.strongest.event


def test_the_sign_and_the_payload_of_what_is_no_number() -> None:
    rng = np.random.default_rng(11)
    for low, high in ((0, 1 << 63), (5, 6)):

        def function(data: Any, size: int, low: int = low, high: int = high) -> Any:
            words = np.full(size, np.nan).view(np.uint64)
            secrets = _secrets(rng, data, size).astype(np.bool_)
            return (words | np.where(secrets, np.uint64(high), np.uint64(low))).view(np.float64)

        assert _audited(function, 2500).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("seeds", [2**10, 2**14])
def test_noise_of_few_seeds(seeds: int) -> None:
    rng, noise = np.random.default_rng(4), np.random.default_rng(5).normal(size=seeds)

    def function(data: Any, size: int) -> Any:
        return noise[rng.integers(seeds, size=size)] + 1e-3 * (len(data) == 3)

    result = _audited(function, 20_000)
    assert result.verdict is Verdict.VIOLATED
    assert result.epsilon > 4


@pytest.mark.parametrize("shift", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("grid", [0, 16, 40])
def test_noise_that_is_only_shifted_has_no_such_events(shift: float, grid: int) -> None:
    """Check that such events cost nothing: with or without them the same is certified."""
    rng = np.random.default_rng(6)
    sides = [
        encode(np.rint(rng.normal(size=(20_000, 2)) * 2.0**grid) / 2.0**grid + shift * k)
        for k in (0, 1)
    ]
    assert not low_bits([0, 1], sides[0], sides[1], 1 << 16, 16)
    if shift < 1:
        assert not list(seen_before(sides[0], sides[1]))


def test_a_long_double_shows_more_than_its_float() -> None:
    """0.1 of 64 bits plus less than a float has; nothing is lost of infinite and huge ones."""
    if np.dtype(np.longdouble).itemsize <= 8:
        pytest.skip("long doubles are floats here")
    near, rest = np.longdouble(1), np.longdouble(2) ** -60
    for outputs in ([near + rest], [np.array([near + rest])], np.array([near + rest])):
        assert encode(outputs).numbers.tolist() == [[1.0, 2.0**-60]]
    for pair in ([np.clongdouble(near + rest)], [np.array([near + rest], dtype=np.clongdouble)]):
        assert encode(pair).numbers.tolist() == [[1.0, 0.0, 2.0**-60, 0.0]]
    odd = encode([np.longdouble("inf"), np.longdouble("nan"), np.longdouble(10) ** 4000])
    assert odd.labels.tolist() == ["inf", "nan", "inf"]
    assert not odd.numbers.any()


_LETTER_OF = bytes(ord(string.ascii_lowercase[byte % 26]) for byte in range(256))


def _letters(source: random.Random, size: int) -> str:
    """Draw lowercase letters, a few of them a little more often than others."""
    return source.randbytes(size).translate(_LETTER_OF).decode("ascii")


TEXTS: dict[str, Callable[[random.Random, bool], Any]] = {
    "in the middle": lambda s, bit: _letters(s, 150) + "ab"[bit] + _letters(s, 180),
    "in the middle of a page": lambda s, bit: _letters(s, 1800) + "ab"[bit] + _letters(s, 2000),
    "near the end of a longer one": lambda s, bit: _letters(s, 4500) + "ab"[bit] + _letters(s, 30),
    "characters of one low byte": lambda s, bit: _letters(s, 20) + "a\u0161"[bit] + _letters(s, 5),
    "a bit of mutable bytes": lambda s, bit: bytearray(
        [*s.randbytes(8), s.randrange(128) * 2 + bit]
    ),
    "a word anywhere": lambda s, bit: (
        _letters(s, s.randrange(40)) + (" yes " if bit else " nope ") + _letters(s, s.randrange(40))
    ),
    "a field of JSON": lambda s, bit: f'{{"a": {s.random()}, "b": {s.random()}, "ok": {bit}}}',
    "a bit of bytes": lambda s, bit: s.randbytes(8) + bytes([s.randrange(128) * 2 + bit]),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_secrets_in_texts(kind: str) -> None:
    source = random.Random(7)

    def function(data: Any) -> Any:
        return TEXTS[kind](source, source.random() < (COMMON if len(data) == 3 else 1 - COMMON))

    assert _audited(function, 1200, vectorized=False).verdict is Verdict.VIOLATED


def test_one_very_long_output_among_short_ones() -> None:
    """Rows of one length would not fit into memory: refused in words, before they are made."""
    outputs = [[0.5]] * 1_000_000 + [[0.5] * 2000]
    with pytest.raises(ValueError, match=r"2,000 numbers.*hash"):
        encode(outputs)


def test_texts_of_outcomes_are_safe_to_print() -> None:
    """They can neither forge a line of a report nor move a terminal's cursor, nor stop the
    printing."""
    for text in ("a\nclaim      pure(99)\x1b[31m", "\ud800"):
        for label in encode([ValueError(text), Exception(text)]).labels:
            assert label.isprintable()
            label.encode()


def test_a_sequential_audit_of_a_function_that_mostly_fails() -> None:
    rng = np.random.default_rng(8)

    def function(data: Any) -> float:
        if rng.random() < 0.99:
            raise RuntimeError("no convergence")
        return float(len(data)) + rng.laplace()

    for seed in range(2):
        result = audit(
            function, claim=PureDP(1), pairs=[PAIR], trials=4000, seed=seed, sequential=True
        )
        assert result.verdict is not Verdict.VIOLATED
