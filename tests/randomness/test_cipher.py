"""The stream cipher: wired as the standard says, keyed anew for every draw, sharing no word."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from scipy import stats

from dpverify.randomness import Bits, CipherBits, SystemBits
from dpverify.randomness.cipher import BULK, SEED_BYTES, keystream

SEED = bytes(range(SEED_BYTES))
PIECE = (1 << 16) // 8  # words that are encrypted at a time


class FixedKey(CipherBits):
    """The cipher with a key that the test knows; the second draw repeats the first."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return keystream(SEED, count)


class Buffered(SystemBits):
    """A planted fault: words are read ahead, and what is taken is struck off a moment later."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        if count > len(self._buffer):
            self._buffer = super().words(10_000)
        taken = self._buffer[:count]
        self._buffer = self._buffer[count:]
        return taken


def test_the_keystream_is_the_published_one() -> None:
    """NIST SP 800-38A, F.5.5: the output blocks of CTR-AES256."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    counter = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    blocks = (
        "0bdf7df1591716335e9a8b15c860c502" "5a6e699d536119065433863c8f657b94"
        "1bc12c9c01610d5d0d8bd6a3378eca62" "2956e1c8693536b1bee99c73a31576b6"
    )  # fmt: skip
    assert keystream(bytes.fromhex(key + counter), 8).tobytes().hex() == blocks


@pytest.mark.parametrize("count", [0, 1, 3, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7])
def test_pieces_join_to_one_encryption_of_zeros(count: int) -> None:
    encryptor = Cipher(algorithms.AES(SEED[:32]), modes.CTR(SEED[32:])).encryptor()
    assert keystream(SEED, count).tobytes() == encryptor.update(bytes(8 * count))


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many bytes are asked of the operating system, request by request."""
    sizes: list[int] = []

    def system(size: int) -> bytes:
        sizes.append(size)
        return bytes([len(sizes)]) * size

    monkeypatch.setattr("os.urandom", system)
    return sizes


def test_every_large_draw_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, source = recorded(monkeypatch), CipherBits()
    first, second = source.words(BULK), source.words(5 * PIECE)
    assert sizes == [SEED_BYTES] * 2
    assert first.tolist() == keystream(bytes([1]) * SEED_BYTES, BULK).tolist()
    assert second.tolist() == keystream(bytes([2]) * SEED_BYTES, 5 * PIECE).tolist()


def test_small_draws_are_the_operating_systems_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, source = recorded(monkeypatch), CipherBits()
    assert source.words(BULK - 1).tobytes() == bytes([1]) * (8 * BULK - 8)
    assert source.words(0).tolist() == []
    assert sizes == [8 * BULK - 8, 0]


def test_a_source_keeps_nothing() -> None:
    source = CipherBits()
    source.words(10 * BULK)
    assert vars(source) == {}


def test_words_that_the_cipher_left_unwritten_are_not_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lazy:
        def __init__(self, *_: object) -> None: ...

        def encryptor(self) -> Lazy:
            return self

        def update_into(self, data: memoryview, out: memoryview) -> int:
            return len(out) - 1

    monkeypatch.setattr("cryptography.hazmat.primitives.ciphers.Cipher", Lazy)
    with pytest.raises(RuntimeError, match="unwritten"):
        keystream(SEED, 4)


def test_a_missing_package_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ImportError, match=r"pip install 'dpverify\[fast\]'"):
        CipherBits()


def test_the_package_is_loaded_only_when_it_is_needed() -> None:
    code = "import sys, dpverify, dpverify.randomness; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def interrupted_draw(source: Bits, count: int, place: int) -> tuple[list[int], list[int]]:
    """Return a draw and the one that interrupts it, as a signal handler would, before this
    bytecode of the source's own code; the latter is empty if the code ends before."""
    traced, steps = (type(source).words.__code__, keystream.__code__), 0
    taken: list[int] = []

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal steps
        if frame.f_code not in traced:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps += 1
            if steps == place:  # Python traces nothing while a trace function runs
                taken.extend(source.words(count).tolist())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        words = source.words(count)
    finally:
        sys.settrace(before)
    return words.tolist(), taken


def repeats_when_interrupted(source: Bits, count: int) -> bool:
    """Return whether a draw inside another draw, at any place, ever has a word of the other."""
    for place in range(1, 10_000):
        drawn, taken = interrupted_draw(source, count, place)
        if not taken:
            assert place > 10
            return False
        if set(drawn) & set(taken):
            return True
    raise AssertionError("the code of a draw does not end")


@pytest.mark.parametrize("count", [3, BULK, PIECE + 1])
def test_a_draw_in_the_middle_of_a_draw_shares_no_word(count: int) -> None:
    # At most 200 comparisons of 8193 words with 8193: a false alarm has probability below 1e-9.
    assert not repeats_when_interrupted(CipherBits(), count)


def test_a_source_that_reads_ahead_is_noticed() -> None:
    assert repeats_when_interrupted(Buffered(), 3)


def shared_by_workers(source: Bits, workers: int, count: int) -> bool:
    """Return whether forked worker processes and their parent have a word in common."""
    context = multiprocessing.get_context("fork")
    source.words(3)  # a buffer, if there is one, is filled before the fork
    receivers = []
    for _ in range(workers):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=lambda to: to.send(source.words(count)), args=(send,))
        with warnings.catch_warnings():
            # Python 3.12 warns of forks in a process with threads (pytest-xdist has some).
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        receivers.append((process, receive))
    drawn = [source.words(count), *(receive.recv() for _, receive in receivers)]
    for process, _ in receivers:
        process.join()
    everything = np.concatenate(drawn)
    assert len(everything) == (workers + 1) * count
    return len(np.unique(everything)) < len(everything)


@pytest.mark.parametrize("count", [3, 20 * BULK])
@pytest.mark.parametrize("source", [SystemBits(), CipherBits()], ids=["system", "cipher"])
def test_worker_processes_share_no_word(source: Bits, count: int) -> None:
    # Below 21,000 independent words: two equal ones have probability below 1e-10.
    assert not shared_by_workers(source, 3, count)


def test_workers_that_share_are_noticed() -> None:
    assert shared_by_workers(Buffered(), 3, 3)
    assert shared_by_workers(FixedKey(), 1, 3)


def test_threads_share_no_word() -> None:
    # 8 * 20 * 1000 independent words: two equal ones have probability below 1e-9.
    source, drawn = CipherBits(), list[NDArray[np.uint64]]()

    def work() -> None:
        for _ in range(20):
            drawn.append(source.words(1000))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = np.concatenate(drawn)
    assert len(np.unique(everything)) == len(everything) == 160_000


def bytes_are_uniform(words: NDArray[np.uint64]) -> bool:
    """Run a chi-square test; its false alarm has probability 1e-6, had the key been drawn."""
    observed = np.bincount(words.view(np.uint8), minlength=256)
    expected = 8 * len(words) / 256
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return bool(statistic < stats.chi2.isf(1e-6, 255))


def bits_are_fair(words: NDArray[np.uint64]) -> bool:
    """Check each of the 64 positions within 6 standard deviations: false alarm 64 * 2e-9 < 1e-6."""
    ones = [int(((words >> np.uint64(i)) & np.uint64(1)).sum()) for i in range(64)]
    return all(abs(2 * count - len(words)) < 6 * len(words) ** 0.5 for count in ones)


def test_the_words_are_uniform() -> None:
    words = FixedKey().words(200_000)
    assert bytes_are_uniform(words)
    assert bytes_are_uniform(words[1:] ^ words[:-1])  # neighbors are independent
    assert bits_are_fair(words)


def test_words_that_are_not_uniform_are_noticed() -> None:
    words = FixedKey().words(200_000)
    octets = words.view(np.uint8).copy()
    octets[np.flatnonzero(octets == 0)[::5]] = 1  # a byte that comes 20% too seldom
    assert not bytes_are_uniform(octets.view(np.uint64))
    unfair = words & ~((words >> np.uint64(30)) & np.uint64(1 << 17))
    assert not bits_are_fair(unfair)
