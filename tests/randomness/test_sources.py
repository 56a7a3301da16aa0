"""Sources of bits: no word twice, in any buffer, thread or forked process."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify.randomness import Bits, CipherBits, SeededBits, SystemBits
from dpverify.randomness.bits import _entropy

SAFE = pytest.mark.parametrize("source", [SystemBits(), CipherBits()], ids=["system", "cipher"])
"""The sources that a release may use."""
_TIMED = 20
COUNTS = (1, 7, 100, 8000, 190, 1, 0, 3000, 8192, 5, 20_000, 8191, 2, 8191, 33)


class CountingSystem:
    """Stands in for os.urandom: every word it ever gives is another number, so a repetition is
    certain to show, and chance cannot show one."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()

    def __call__(self, size: int) -> bytes:
        assert size % 8 == 0
        with self._lock:
            start, self._next = self._next, self._next + size // 8
        return np.arange(start, start + size // 8, dtype=np.uint64).tobytes()


class Reused(SystemBits):
    """A planted fault: what was read is kept and handed out again."""

    kept: NDArray[np.uint64] | None = None

    def words(self, count: int) -> NDArray[np.uint64]:
        if self.kept is None:
            self.kept = super().words(5000)
        return self.kept[:count]


class NotReentrant(Bits):
    """A planted fault: a place in a sequence of words is read first and moved on afterwards."""

    place = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        start = self.place
        batch = np.array([start + i for i in range(count)], dtype=np.uint64)
        self.place = start + count
        return batch


def interrupted_draws(source: Bits, draws: int, count: int) -> tuple[list[int], list[int]]:
    """Draw again and again, each time with one signal whose handler draws from the source as well.

    Returns the words of the draws and those of the handlers. The signal comes after a part of
    what one draw takes on this machine, a different part each time, and the next one is set only
    after its handler is done: so a handler never interrupts a handler, however slow the machine
    is.
    """
    started = time.perf_counter()
    for _ in range(_TIMED):
        source.words(count).tolist()
    one_draw = (time.perf_counter() - started) / _TIMED
    drawn: list[int] = []
    taken: list[int] = []
    handled = True

    def handler(number: int, frame: object) -> None:
        nonlocal handled
        taken.extend(source.words(count).tolist())
        handled = True

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(draws):
            if handled:
                handled = False
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, one_draw * (i % 16 + 1) / 16))
            drawn.extend(source.words(count).tolist())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return drawn, taken


def in_threads(number: int, work: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def words_are_distinct(source: Bits, counts: tuple[int, ...], threads: int) -> bool:
    """Return whether no word comes twice, over requests of these sizes in each of some threads."""
    handed_out: list[NDArray[np.uint64]] = []

    def work() -> None:
        for count in counts:
            words = source.words(count)
            assert len(words) == count
            handed_out.append(words.copy())

    in_threads(threads, work)
    assert len(handed_out) == threads * len(counts)
    everything = np.concatenate(handed_out)
    return len(np.unique(everything)) == len(everything)


@SAFE
@pytest.mark.parametrize("threads", [1, 4])
def test_no_word_comes_twice(source: Bits, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # System bits: for certain. Cipher bits: no two keys are equal, and 2e5 words of keystreams
    # have two equal ones with probability below 4e10 / 2^65 < 1e-8.
    monkeypatch.setattr("os.urandom", CountingSystem())
    assert words_are_distinct(source, COUNTS, threads)


def test_words_handed_out_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", CountingSystem())
    assert not words_are_distinct(Reused(), (1, 7), 1)


@SAFE
@pytest.mark.parametrize(("draws", "count"), [(20_000, 2), (1000, 300)], ids=["small", "large"])
def test_a_signal_handler_shares_no_word_with_what_it_interrupts(
    source: Bits, draws: int, count: int
) -> None:
    """A handler that draws from the same source, again and again, in the middle of draws."""
    drawn, taken = interrupted_draws(source, draws, count)
    # Below 1e6 independent words: two equal ones have probability below 1e12 / 2^65 < 1e-7.
    assert len({*drawn, *taken}) == len(drawn) + len(taken)
    assert taken


def test_a_source_that_an_interruption_breaks_is_seen() -> None:
    """A planted fault: the handler's words are those of the draw that it interrupts."""
    drawn, taken = interrupted_draws(NotReentrant(), 200, 300)
    assert {*drawn} & {*taken}


def test_two_sources_share_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", CountingSystem())
    first, second = SystemBits().words(100), SystemBits().words(100)
    assert not set(first.tolist()) & set(second.tolist())


def test_words_handed_out_stay_as_they_were() -> None:
    source = SystemBits()
    first = source.words(10)
    before = first.tolist()
    source.words(5000)
    source.words(5000)
    assert first.tolist() == before


def drawn_by_child(draw: Callable[[], bytes]) -> bytes:
    """Return what ``draw`` returns in a forked child; b"" if it raised."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forks in a process with threads (pytest-xdist has some).
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(write_end, draw())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    return received


LARGE = 400  # words: as few as fit into a pipe at once, enough for the cipher to be used


def shares_with_child(source: Bits) -> bool:
    """Return whether the next 400 words of the parent and of a forked child have one in common.

    Independent words: a false alarm has probability 400 * 400 / 2^64 < 1e-13.
    """
    source.words(3)  # a buffer, if there is one, is filled before the fork
    source.words(LARGE)
    received = drawn_by_child(lambda: source.words(LARGE).tobytes())
    child = np.frombuffer(received, dtype=np.uint64).tolist()
    assert len(child) == LARGE
    return bool(set(child) & set(source.words(LARGE).tolist()))


@SAFE
def test_a_forked_child_shares_no_word_with_its_parent(source: Bits) -> None:
    assert not shares_with_child(source)


def test_a_child_that_shares_is_noticed() -> None:
    assert shares_with_child(Reused())


@SAFE
def test_a_child_forked_in_a_thread_shares_no_word_with_that_thread(source: Bits) -> None:
    shared: list[bool] = []
    in_threads(1, lambda: shared.append(shares_with_child(source)))
    assert shared == [False]


@SAFE
def test_two_children_of_one_parent_share_no_word(source: Bits) -> None:
    source.words(LARGE)
    children = [
        np.frombuffer(drawn_by_child(lambda: source.words(LARGE).tobytes()), dtype=np.uint64)
        for _ in range(2)
    ]
    # A false alarm has probability 400 * 400 / 2^64 < 1e-13.
    assert [len(child) for child in children] == [LARGE, LARGE]
    assert not set(children[0].tolist()) & set(children[1].tolist())


@SAFE
def test_a_grandchild_shares_no_word_with_the_child(source: Bits) -> None:
    def child() -> bytes:
        source.words(LARGE)
        grandchild = drawn_by_child(lambda: source.words(LARGE).tobytes())
        return grandchild + source.words(LARGE).tobytes()

    words = np.frombuffer(drawn_by_child(child), dtype=np.uint64).tolist()
    # 800 independent words: two equal ones have probability below 800^2 / 2^65 < 1e-13.
    assert (len(words), len(set(words))) == (2 * LARGE, 2 * LARGE)


def test_seeded_bits_are_reproducible() -> None:
    once, again = SeededBits(1, 2), SeededBits(1, 2)
    assert once.words(1000).tolist() == again.words(1000).tolist()
    # Whatever the sizes of the requests, it is one stream.
    parts = [*SeededBits(1, 2).words(400).tolist()]
    stream = SeededBits(1, 2)
    assert parts == [word for _ in range(4) for word in stream.words(100).tolist()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), (2,)),
        ((1, 2), (2, 1)),
        ((1, 2), (12,)),
        ((0,), (0, 0)),
        ((1,), (1, 0)),
        ((2**40,), (0, 256)),
        ((2**32, 1), (0, 1, 1)),
    ],
)
def test_another_seed_is_another_stream(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    # Two independent streams that agree in their first 4 words have probability 2^-256.
    assert SeededBits(*one).words(4).tolist() != SeededBits(*other).words(4).tolist()


@pytest.mark.parametrize("digest", [bytes(range(32)), bytes(4) + bytes(range(28)), bytes(32)])
def test_a_stream_is_that_of_the_digest_as_an_integer(digest: bytes) -> None:
    """Also where the first words of the digest are zero, which numpy leaves out."""
    seeds = np.random.SeedSequence(_entropy(digest)), np.random.SeedSequence(int.from_bytes(digest))
    one, other = (np.random.Philox(seed).random_raw(8).tolist() for seed in seeds)
    assert one == other


def test_seeded_bits_refuse_a_bad_seed() -> None:
    with pytest.raises(ValueError, match="one or more integers"):
        SeededBits()
    with pytest.raises(ValueError, match=">= 0"):
        SeededBits(3, -1)


def test_threads_share_a_seeded_stream_without_repeating_a_word() -> None:
    # 20,000 independent words: two equal ones have probability below 20000^2 / 2^65 < 1e-10.
    assert words_are_distinct(SeededBits(11), (2500, 2500), 4)


def test_seeded_bits_refuse_to_go_on_in_a_forked_child() -> None:
    source = SeededBits(4)
    source.words(2)

    def draw() -> bytes:
        try:
            return source.words(1).tobytes()
        except RuntimeError as refusal:
            return str(refusal).encode()

    assert b"another process" in drawn_by_child(draw)
    assert source.words(1).tolist() == SeededBits(4).words(3).tolist()[2:]


def test_a_seeded_source_made_in_the_child_works() -> None:
    drawn = np.frombuffer(drawn_by_child(lambda: SeededBits(4).words(3).tobytes()), np.uint64)
    assert drawn.tolist() == SeededBits(4).words(3).tolist()


@pytest.mark.parametrize(
    "source", [SystemBits(), SeededBits(1), CipherBits()], ids=["system", "seeded", "cipher"]
)
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_no_source_can_be_duplicated(source: Bits, duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="not picklable"):
        duplicate(source)
    with pytest.raises(TypeError, match="not picklable"):
        duplicate({"nested": [source]}) if duplicate is not copy.copy else duplicate(source)
