"""Outputs of every kind as draws: what is told apart, what is not, and what it costs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpverify import Adjacency, NoisyCount, PureDP, StabilityHistogram
from dpverify.audit.outputs.draws import PLAIN, Draws, Labels, together
from dpverify.audit.outputs.laws import (
    CallableDraws,
    SeededDraws,
    TranscriptDraws,
    all_failed,
    encode,
)
from dpverify.privacy import ApproxDP
from dpverify.randomness import SeededBits


@dataclass
class Report:
    mean: float
    note: str


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Private:
    __slots__ = ("__value",)

    def __init__(self, value: Any) -> None:
        self.__value = value


class Model:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, x: float) -> Any:
        return self.weight


class Table:
    """A table like a data frame: an array with names for its rows and columns."""

    def __init__(self, index: list[str], columns: list[str], name: str | None = None) -> None:
        self.index, self.columns, self.name = index, columns, name

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros((1, 1), dtype=dtype)


class Tagged(np.ndarray):
    pass


def _tagged(tag: int) -> Tagged:
    array = np.zeros(2).view(Tagged)
    vars(array)["tag"] = tag
    return array


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Trap:
    """Cannot be taken apart."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Point(NamedTuple):
    x: float
    y: float


class Color(Enum):
    RED = 1
    BLUE = 2


def _cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def _with_payload(bits: int) -> float:
    """Return a NaN like others but for its last bits."""
    return float((np.array([math.nan]).view(np.int64) | bits).view(np.float64)[0])


# No two of these are the same outcome.
DIFFERENT: list[Any] = [
    1, 2, 1.0, 2.0, True, False, None, "1", b"1", "None", 2**60, 2**60 + 1, -(10**400), 10**400,
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1j, 1 + 1j, complex(math.nan, 1),
    Decimal("1.1"), Decimal("1.10000000000000000000001"), Decimal("1.10"), Decimal("NaN"),
    Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30), np.float32(1.0),
    np.int32(1), np.uint8(1), (), [], {}, set(), (1,), [1], [1.0], (1, 2), [[1], 2], [1, [2]],
    [1, 2, 3], [0.0, math.nan],
    [math.nan, 0.0], [-0.0, 0.0], ("a", 1.5), ("b", 1.5), ("a", 2.5), ("a", None),
    (("a",), "b"), ("a", ("b",)), {"a": 1}, {"b": 1}, {"a": 2}, {1, 2}, frozenset({1, 2}),
    np.array([1.0]), np.array([[1.0]]), np.array(1.0), np.array([1], dtype=np.int8),
    np.array([1], dtype=np.int64), np.array([2**60]), np.array([2**60 + 1]), np.array([True]),
    np.array([1j]), np.array(["a"]), np.array([None, "a"]), np.array([1.0, math.nan]),
    np.array([math.nan, 1.0]), np.array([-0.0] * 30), np.array([0.0] * 30), np.array([-0.0] * 99),
    np.array([0.0] * 99),
    np.ma.array([1.0, 2.0], mask=[False, True]), np.datetime64("2020-01-01"),
    ValueError("a"), ValueError("b"), KeyError("a"), ValueError(),
    Report(1.0, "a"), Report(1.0, "b"), Report(2.0, "a"), Slotted(1), Slotted(2), Slotted("1"),
    Private(1), Private(2), Model(1), Model(2), _tagged(1), _tagged(2), memoryview(b"1"[:0]),
    Table(["a"], ["b"]), Table(["b"], ["b"]), Table(["a"], ["a"]), Table(["a"], ["b"], "c"),
    ExceptionGroup("a", [ValueError("0x1")]), ExceptionGroup("a", [ValueError("0x2")]),
    ValueError("failed at 0x1"), ValueError("failed at 0x2"),
    Point(1.0, 2.0), Point(2.0, 1.0), Color.RED, Color.BLUE, Mute(), Trap(), len, _cycle(),
    bytearray(b"1"), memoryview(b"1"), -math.nan, _with_payload(1), _with_payload(2), 2**64 + 5,
    2**96 + 5,
    "x" * 1000, "x" * 1001, "x" * 999 + "y", {"deep": [{"er": (1, "z")}]}, np.uint64(2**64 - 1),
]  # fmt: skip


def seen(draws: Draws, i: int) -> tuple[Any, ...]:
    """Everything that is known of one draw, without what is not there."""
    marks = {j: m.array()[i] for j, m in draws.marks.items() if m.array()[i] != PLAIN}
    numbers = {j: x for j, x in enumerate(draws.numbers[i].tolist()) if x}
    return draws.kinds.array()[i], draws.labels[i], marks, numbers


def test_different_outcomes_look_different() -> None:
    draws = encode(DIFFERENT)
    assert len(draws) == len(DIFFERENT)
    outcomes = [seen(draws, i) for i in range(len(draws))]
    for i, one in enumerate(outcomes):
        for j in range(i):
            assert one != outcomes[j], (DIFFERENT[i], DIFFERENT[j])
    assert np.isfinite(draws.numbers).all()


def test_an_outcome_looks_the_same_in_every_batch() -> None:
    """Alone, with all the others, and within one more list."""
    together = encode(DIFFERENT)
    for i, value in enumerate(DIFFERENT):
        assert seen(encode([value]), 0) == seen(together, i)
    nested = encode([[value] for value in DIFFERENT])
    for i, value in enumerate(DIFFERENT):
        assert seen(encode([[value]]), 0) == seen(nested, i)


EQUAL: list[tuple[Any, Any]] = [
    (object(), object()), (Mute(), Mute()), (Slotted([1]), Slotted([1])),
    (ValueError(f"in {object()}"), ValueError(f"in {object()}")), (True, np.bool_(True)),
    (1, np.int64(1)), (1, np.longlong(1)), (0.5, np.float64(0.5)), ("a", np.str_("a")),
    (b"a", np.bytes_(b"a")),
    (lambda: 0, lambda: 0), ({2, 1}, {1, 2}),
    ({Model(1), Model(2)}, {Model(2), Model(1)}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_addresses_do_not_tell_equal_objects_apart(one: Any, two: Any) -> None:
    draws = encode([one, two])
    assert seen(draws, 0) == seen(draws, 1)


async def _later() -> int:
    return 1


@pytest.mark.parametrize(
    "make", [lambda: (x for x in [1]), lambda: map(abs, [1]), lambda: zip([1]), lambda: iter([1])]
)
def test_iterators_are_refused(make: Any) -> None:
    """They would all look alike, whatever they give."""
    name = type(make()).__name__
    for batch in ([make()], [1.0, (2, {"a": make()})]):
        with pytest.raises(ValueError, match=rf"is a {name}, .* return list\(\.\.\.\)"):
            encode(batch)


def test_coroutines_are_refused() -> None:
    unfinished = _later()
    with pytest.raises(ValueError, match="is a coroutine"):
        encode([unfinished])
    unfinished.close()


def _buffers() -> list[Any]:
    """Mutable things with a place to count in, and how to count there."""
    array, rows, objects = np.zeros(1), [0], np.zeros(1, dtype=object)
    model, raw = Model(0), bytearray(1)
    return [
        (array, array), (rows, rows), (objects, objects), (raw, raw), (memoryview(raw), raw),
        ((array,), array), ({"a": rows}, rows), (array.view(Tagged), array), (model, vars(model)),
        ([[rows]], rows), (np.ma.array([0.0, 1.0]), None),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(_buffers())))
def test_a_function_may_return_one_buffer_again_and_again(case: int) -> None:
    """Each output is as it was when it was returned, not as the last call left it."""
    output, place = _buffers()[case]
    place = output if place is None else place
    key = "weight" if isinstance(place, dict) else 0
    calls = iter(range(5))

    def fills(data: Any) -> Any:
        place[key] = next(calls)
        return output

    draws = CallableDraws(fills, [0.0]).draw(SeededBits(0), 5)
    assert len({str(seen(draws, i)) for i in range(5)}) == 5


def test_what_an_array_carries_is_kept() -> None:
    draws = CallableDraws(lambda data: _tagged(len(data)), [0.0]).draw(SeededBits(0), 1)
    assert seen(draws, 0) == seen(encode([_tagged(1)]), 0) != seen(encode([_tagged(2)]), 0)


@pytest.mark.parametrize("outputs", [{0: 1, 1: 2}, {1, 2}, "ab", b"ab", {0: 1, 1: 2}.keys()])
def test_vectorized_outputs_have_an_order(outputs: Any) -> None:
    with pytest.raises(ValueError, match=r"not 2 outputs; return a list or an array"):
        CallableDraws(lambda data, size: outputs, [0.0], vectorized=True).draw(SeededBits(0), 2)


def test_fast_paths_agree_with_one_by_one() -> None:
    rng = np.random.default_rng(0)
    floats = rng.normal(size=(50, 3))
    floats[rng.random((50, 3)) < 0.2] = np.nan
    floats[rng.random((50, 3)) < 0.2] = -0.0
    integers = rng.integers(-(2**63), 2**63 - 1, size=(50, 2)) >> rng.integers(0, 60, size=(50, 2))
    batches: list[Any] = [
        np.hstack([floats] * 30), np.hstack([integers] * 40), np.hstack([floats] * 30).tolist(),
        floats, floats[:, 0], floats.astype(np.float32), integers, integers[:, 0],
        integers.astype(np.uint64), floats.reshape(25, 2, 3), floats[:, 0].tolist(),
        floats.tolist(), list(map(tuple, floats.tolist())), integers[:, 0].tolist(),
    ]  # fmt: skip
    for batch in batches:
        draws = encode(batch)
        for i in range(len(batch)):
            assert seen(draws, i) == seen(encode([batch[i]]), 0)


def test_large_batches_are_cheap() -> None:
    """The fastest of three; a million floats take about 5 ms here, and 200 are allowed."""
    values = np.random.default_rng(0).normal(size=10**6)

    def seconds() -> float:
        start = time.perf_counter()
        encode(values)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.2
    assert encode(values).coded.codes.strides == (0,)  # one label, whatever the size


def test_labels_count_and_weigh() -> None:
    labels = Labels.of(["a", "b", "a"])
    assert labels.counts() == {"a": 2, "b": 1}
    assert labels.are("a").tolist() == [True, False, True]
    assert labels.are("c").tolist() == [False] * 3
    assert labels.weighted({"a": 2.0}, unknown=-1.0).tolist() == [2.0, -1.0, 2.0]
    assert labels.select(np.array([1])).counts() == {"b": 1}
    assert Labels.of([]).weighted({}).tolist() == []
    draws = Draws(np.array(["a", "b"], dtype=object), np.ones((2, 1)))
    assert (draws.labels == "a").tolist() == [True, False]
    assert draws.column(5).tolist() == [0.0, 0.0]
    assert draws.columns(3).tolist() == [[1.0, 0.0, 0.0]] * 2


def test_batches_together_are_one() -> None:
    middle = len(DIFFERENT) // 2
    whole, parts = encode(DIFFERENT), [encode(DIFFERENT[:middle]), encode(DIFFERENT[middle:])]
    joined = together(parts)
    assert len(joined) == len(whole)
    for i in range(len(whole)):
        assert seen(joined, i) == seen(whole, i)
    assert len(together([encode([]), encode([])])) == 0


def test_failures_of_one_type_are_recognized() -> None:
    assert all_failed(encode([ValueError("a"), ValueError("b")])) == "ValueError"
    assert all_failed(encode([ValueError("a"), KeyError("a")])) is None
    assert all_failed(encode([ValueError("a"), 1.0])) is None
    assert all_failed(encode([1.0])) is None
    assert all_failed(encode([])) is None


def test_another_number_of_outputs_is_refused() -> None:
    short = CallableDraws(lambda data, size: [1.0] * 3, [0.0], vectorized=True)
    with pytest.raises(ValueError, match="returned 3 outputs when asked for 5"):
        short.draw(SeededBits(0), 5)
    single = CallableDraws(lambda data, size: 1.0, [0.0], vectorized=True)
    with pytest.raises(ValueError, match="returned float, not 5 outputs"):
        single.draw(SeededBits(0), 5)
    seeded = SeededDraws(lambda data, size, bits: [1.0] * 4, [0.0])
    with pytest.raises(ValueError, match="returned 4 outputs when asked for 5"):
        seeded.draw(SeededBits(0), 5)


def test_a_batch_that_raises_is_refused_and_says_where_exceptions_are_outcomes() -> None:
    def fails(data: Any, size: int) -> Any:
        raise KeyError("too many")

    with pytest.raises(ValueError, match=r"raised KeyError .* called as f\(dataset\)"):
        CallableDraws(fails, [0.0], vectorized=True).draw(SeededBits(0), 5)


def test_rows_of_one_dataset_have_one_shape() -> None:
    """The planted leak is of no record: a width that each batch draws anew, and all its rows
    share."""
    widths = iter((3, 3, 4))
    draws = CallableDraws(lambda data, size: np.zeros((size, next(widths))), [0.0], vectorized=True)
    draws.draw(SeededBits(0), 5)
    draws.draw(SeededBits(0), 7)
    with pytest.raises(ValueError, match=r"shape \(3,\) and then \(4,\)"):
        draws.draw(SeededBits(0), 5)


def test_transcripts_have_gates_as_labels_and_all_values_as_numbers() -> None:
    mechanism = NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE)
    draws = TranscriptDraws(mechanism.law([0.0] * 3)).draw(SeededBits(0), 100)
    assert set(draws.labels) == {"released"}
    assert draws.numbers[:, 0].tolist() == draws.raw.values["count"][:, 0].tolist()


def test_histograms_show_which_keys_they_hold() -> None:
    budget = ApproxDP(1, "1e-3")
    mechanism = StabilityHistogram.for_budget(
        budget, adjacency=Adjacency.ADD_REMOVE, width=1, delta=Fraction(1, 10**4)
    )
    data = [7] * 40 + [-2] * 40 + [5]
    draws = TranscriptDraws(mechanism.law(data)).draw(SeededBits(0), 200)
    (released,) = draws.raw.values.values()
    for row, numbers in zip(released, draws.numbers.tolist(), strict=True):
        assert numbers[:2] == [len(row), sum(row)]
        assert tuple(numbers[2 : 2 + len(row)]) == row
        assert not any(numbers[2 + len(row) :])
