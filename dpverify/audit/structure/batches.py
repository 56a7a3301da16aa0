"""Attacks on what surrounds a record: its order, its batch, its place in memory, the threads.

A float sum depends on the order of its terms, and a matrix product on the shape of the batch,
so a "deterministic" query moves by more than its sensitivity, or says who else was in the
batch. What these attacks find are two different answers to one question: proofs, without
statistics. Answers that change with the calls (a counter in them) are no such thing: the first
difference of a kind is asked for again and again, in an order of coins, and where answers do
not stay the finding says so.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify.audit.structure.result import Finding, attempt, describe

Array = NDArray[Any]
Query = Callable[[Any], Any]
Ask = Callable[[], Any]
ThreadLimit = Callable[[int], AbstractContextManager[Any]]
SIZES = (1, 2, 3, 4, 7, 8, 16, 33, 64, 100, 257)
THREADS = (1, 2, 4)
_LAYOUT = "another memory layout"
_NORMS = (1, 2, math.inf)
_AGAIN, _COINS = 20, 0xC01
_CHANGES = "the answer to one question changes from call to call: this is no deterministic query"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the answer that it got."""

    ask: Ask
    answer: Array

    def stays(self, other: Asked) -> bool:
        """Return whether this and another question get the answers they got, whichever a coin
        asks again.

        Answers that drift with the calls pass this test with probability 2^-20.
        """
        for coin in np.random.default_rng(_COINS).integers(2, size=_AGAIN).tolist():
            again = attempt((self, other)[coin].ask)
            if isinstance(again, Exception) or not same_bits(
                (self, other)[coin].answer, np.asarray(again)
            ):
                return False
        return True


@dataclass(slots=True)
class _Log:
    """Log of what was seen, by kind: how many variants differed, the first and largest of them,
    and how many did not.
    """

    same: int = 0
    seen: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    proofs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def compare(self, kind: str, where: str, base: Asked, ask: Ask) -> None:
        """Note an answer that is not that of the base bit for bit; the first of a kind is asked
        for again.
        """
        answer = attempt(ask)
        if isinstance(answer, Exception):
            self.problems.append(f"{kind} ({where}) raised {describe(answer)}")
        elif not same_bits(base.answer, np.asarray(answer)):
            if kind not in self.seen and not base.stays(Asked(ask, np.asarray(answer))):
                self.problems.append(f"{kind} ({where}): {_CHANGES}")
                return
            gap = _largest_gap(base.answer, np.asarray(answer))
            self.seen.setdefault(kind, []).append((where, gap))
        else:
            self.same += 1

    def finding(self, attack: str, reproduce: str) -> Finding:
        """Return the finding: ``detected`` if anything differed."""
        lines = list(self.proofs)
        for kind, cases in self.seen.items():
            largest = max(gap for _, gap in cases)
            lines.append(
                f"{kind}: {len(cases)} answers differ, by up to {largest:.3g}, first {cases[0][0]}"
            )
        text = "; ".join(lines) or f"{self.same} answers are the same bit for bit"
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        problem = self.problems[0] + more if self.problems else ""
        return Finding(attack, bool(lines), text, 0.0, reproduce, problem=problem)


def order_dependence(
    query: Query,
    data: ArrayLike,
    *,
    record: ArrayLike | None = None,
    sensitivity: float | Fraction | None = None,
    norm: float = 2,
    additive: bool = False,
    thread_limit: ThreadLimit | None = None,
    permutations: int = 20,
    seed: int = 0,
) -> Finding:
    """Test whether a query of a multiset of records changes with their order, memory layout or
    threads.

    query: a deterministic function of an array of records (the first axis), returning numbers.
    record, sensitivity, norm (1, 2 or inf): how far the record may move the answer, exactly, when
    it is inserted at the front, the middle and the end.
    additive: the answers on two chunks must add up to the whole's, in any partition.
    thread_limit(n): a context in which n threads compute, such as threadpoolctl.threadpool_limits.
    Errors: ValueError for a norm, or for a record without a sensitivity.
    Source: Casacuberta, Shoemate, Vadhan, Wagaman, "Widespread underestimation of sensitivity in
    differentially private libraries and how to fix it", CCS 2022.
    """
    if norm not in _NORMS or (record is None) != (sensitivity is None):
        raise ValueError("Give a record together with a sensitivity, in norm 1, 2 or inf.")
    rows = np.array(data)
    call = f"order_dependence(query, {reprlib.repr(rows)}, {permutations=}, {seed=})"
    log = _Log()
    base = _base(partial(_of_copy, query, rows), log)
    if base is None:
        return log.finding("order_dependence", call)
    for kind, where, variant in _variants(rows, permutations, seed):
        ask = _answer if kind == _LAYOUT else _of_copy  # a copy would have the usual layout
        log.compare(kind, where, base, partial(ask, query, variant))
    _threads(log, partial(_of_copy, query, rows), thread_limit)
    if additive:
        _chunks(log, base, query, rows)
    if record is not None and sensitivity is not None:
        _insert(log, base, query, rows, np.asarray(record), Fraction(sensitivity), norm)
    return log.finding("order_dependence", call)


def batch_dependence(
    rowwise: Query,
    record: ArrayLike,
    *,
    sizes: Sequence[int] = SIZES,
    thread_limit: ThreadLimit | None = None,
    seed: int = 0,
) -> Finding:
    """Test whether a row-by-row map gives one record other bits in another batch, position or
    layout.

    rowwise: maps an array of records, shape (n, ...), to an array of n results, each of its own
    record. record: of dtype and shape as it will be used; the others are its entries, shuffled.
    sizes: the batches it is put into, at the front, the middle and the end.
    Errors: ValueError for an empty batch. Source: as for ``order_dependence``.
    """
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes = {sizes}; give batch sizes of at least 1.")
    row = np.array(record)
    call = f"batch_dependence(rowwise, {reprlib.repr(row)}, sizes={tuple(sizes)}, seed={seed})"
    log = _Log()
    base = _base(lambda: _answer(rowwise, row[np.newaxis].copy())[0], log)
    if base is None:
        return log.finding("batch_dependence", call)
    rng = np.random.default_rng(seed)
    for size in sizes:
        others = np.stack([rng.permutation(row.ravel()).reshape(row.shape) for _ in range(size)])
        for at in sorted({0, size // 2, size - 1}):
            batch = others.copy()
            batch[at] = row
            where = f"at {at} of {size}"
            log.compare("another batch", where, base, partial(_one, rowwise, batch, at))
            for layout, copy in layouts(batch):
                log.compare(_LAYOUT, f"{where}, {layout}", base, partial(_one, rowwise, copy, at))
            _threads(log, partial(_one, rowwise, batch, at), thread_limit, f"{where}, ")
    return log.finding("batch_dependence", call)


def same_bits(left: Array, right: Array) -> bool:
    """Return whether two arrays have one type, one shape and the same bits (Python objects: are
    equal).
    """
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype == object:
        return bool(left.tolist() == right.tolist())
    return left.tobytes() == right.tobytes()


def layouts(rows: Array) -> Iterator[tuple[str, Array]]:
    """Yield the same records, differently laid out in memory."""
    yield "in Fortran order", np.asfortranarray(rows)
    wide = np.repeat(rows, 2, axis=0)
    yield "every other row of a larger array", wide[::2]
    yield "with negative strides", rows[::-1].copy()[::-1]
    buffer = np.empty(rows.size + 1, dtype=rows.dtype)
    buffer[1:] = rows.ravel()
    yield "shifted by one entry", buffer[1:].reshape(rows.shape)


def _base(ask: Ask, log: _Log) -> Asked | None:
    """Return the answer to compare with; None, and a problem, without a deterministic one."""
    first, second = attempt(ask), attempt(ask)
    for answer in (first, second):
        if isinstance(answer, Exception):
            log.problems.append(f"the query on the data as given raised {describe(answer)}")
            return None
    if not same_bits(np.asarray(first), np.asarray(second)):
        log.problems.append("two calls on the same data differ: this is no deterministic query")
        return None
    return Asked(ask, np.asarray(first))


def _variants(rows: Array, permutations: int, seed: int) -> Iterator[tuple[str, str, Array]]:
    """Yield the same multiset of records, with the kind of change, which one it is, and the
    array.
    """
    yield "permuted", "reversed", rows[::-1].copy()
    rng = np.random.default_rng(seed)
    for index in range(permutations):
        yield "permuted", f"permutation {index} of seed {seed}", rows[rng.permutation(len(rows))]
    for layout, copy in layouts(rows):
        yield _LAYOUT, layout, copy


def _threads(log: _Log, ask: Ask, thread_limit: ThreadLimit | None, where: str = "") -> None:
    """Compare with the first number of threads."""
    if thread_limit is None:
        return

    def limited(count: int) -> Any:
        with thread_limit(count):
            return ask()

    first = attempt(limited, THREADS[0])
    answered = np.zeros(0) if isinstance(first, Exception) else np.asarray(first)
    base = Asked(partial(limited, THREADS[0]), answered)
    for count in THREADS:
        log.compare(
            "another number of threads", f"{where}{count} threads", base, partial(limited, count)
        )


def _chunks(log: _Log, base: Asked, query: Query, rows: Array) -> None:
    n = len(rows)
    for cut in sorted({1, n // 3, n // 2, n - 1} & set(range(1, n))):

        def total(cut: int = cut) -> Any:
            return _of_copy(query, rows[:cut]) + _of_copy(query, rows[cut:])

        log.compare("in two chunks", f"cut at {cut}", base, total)


def _insert(
    log: _Log,
    base: Asked,
    query: Query,
    rows: Array,
    record: Array,
    sensitivity: Fraction,
    norm: float,
) -> None:
    for at in sorted({0, len(rows) // 2, len(rows)}):
        ask = partial(_of_copy, query, np.insert(rows, at, record, axis=0))
        answer = attempt(ask)
        failed = isinstance(answer, Exception)
        moved = answer if failed else attempt(_moved, base.answer, answer, norm)
        if isinstance(moved, Exception):
            log.problems.append(f"with the record at {at}: {describe(moved)}")
        elif moved <= (sensitivity**2 if norm == 2 else sensitivity):
            continue
        elif not base.stays(Asked(ask, np.asarray(answer))):
            log.problems.append(f"with the record at {at}: {_CHANGES}")
        else:
            distance = math.sqrt(moved) if norm == 2 else float(moved)
            log.proofs.append(
                f"one record at {at} moves the answer by {distance:.9g} in norm {norm:g}, more "
                f"than the claimed {float(sensitivity):.9g}"
            )


def _moved(base: Array, answer: Any, norm: float) -> Fraction:
    """Return the exact distance, squared for norm 2. Raises ValueError where it is not finite."""
    new = np.asarray(answer)
    if new.shape != base.shape:
        raise ValueError(f"the answer's shape went from {base.shape} to {new.shape}")
    gaps = [
        abs(Fraction(b) - Fraction(a))
        for a, b in zip(base.ravel().tolist(), new.ravel().tolist(), strict=True)
    ]
    if norm == 2:
        return sum((gap**2 for gap in gaps), Fraction(0))
    return max(gaps, default=Fraction(0)) if norm == math.inf else sum(gaps, Fraction(0))


def _answer(query: Query, rows: Array) -> Array:
    """Return a copy of the answer: a query may fill one array at every call, and all its
    answers would be equal.
    """
    return np.array(query(rows))


def _of_copy(query: Query, rows: Array) -> Array:
    """Return the answer to a copy of the records, which the query may alter."""
    return _answer(query, rows.copy())


def _one(rowwise: Query, batch: Array, at: int) -> Any:
    return _answer(rowwise, batch)[at]


def _largest_gap(left: Array, right: Array) -> float:
    """Return the largest difference of entries; infinity where they cannot be compared."""
    if left.shape != right.shape:
        return math.inf
    with np.errstate(all="ignore"):
        gaps = np.abs(np.asarray(left, np.float64) - np.asarray(right, np.float64))
    return float(np.max(np.nan_to_num(gaps, nan=math.inf), initial=0.0))
