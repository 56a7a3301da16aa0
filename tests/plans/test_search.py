"""Searches as stages: rows that forget nothing, thresholds that close in, claims that do not
move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify.grid import Released, Transcripts
from dpverify.grid.masks import different_rows
from dpverify.plans import Adaptive, Stage
from dpverify.plans.search import MOST_STEPS, Prefix, Search
from dpverify.randomness.bits import IntArray


@pytest.mark.parametrize("bits", [(3, 1, 5), (1,) * 62, (20, 30, 12), (40, 30), (7,) * 50])
def test_rows_that_differ_in_one_number_stay_apart(bits: Any) -> None:
    """Compare rows where they fit one word, and beyond."""
    rng, widths = np.random.default_rng(0), np.array(bits)
    rows = rng.integers(0, 1 << widths, size=(200, len(bits)))
    rows[0], rows[1] = 0, (1 << widths) - 1
    for kind in (np.int64, object):
        seen, which = different_rows(rows.astype(kind), "rows")
        assert [list(seen[k]) for k in which] == rows.tolist()
        assert len(seen) == len({*seen}) == len({tuple(row) for row in rows.tolist()})


def drawn(values: dict[str, IntArray], size: int) -> Transcripts:
    return Transcripts(values, np.full(size, len(values)), np.full(size, -1))


def test_a_search_closes_in_on_every_median() -> None:
    """Search without noise: within 2^-steps of where it is, for all columns at once."""
    steps, targets = 12, np.linspace(-0.99, 0.99, 41)
    search = Search("side", len(targets), steps)
    released: dict[str, Any] = {}
    for k in range(steps):
        middles = (
            np.array(search.middles(search.nodes(k)(drawn(released, 1))[0].tolist())) / 2**steps
        )
        assert np.abs(middles - targets).max() <= 2.0**-k
        released[search.stage(k)] = (np.sign(targets - middles) * 2**45).astype(np.int64)[None]


def test_a_batch_decides_row_by_row() -> None:
    """Decide also where values are Python integers."""
    rng, search = np.random.default_rng(1), Search("side", 3, 6)
    values = {search.stage(k): rng.integers(-(2**42), 2**42, size=(300, 3)) for k in range(6)}
    nodes = search.nodes(6)(drawn(values, 300))
    for i in range(0, 300, 7):
        row = {name: column[i : i + 1].astype(object) for name, column in values.items()}
        assert search.nodes(6)(drawn(row, 1))[0].tolist() == nodes[i].tolist()


def test_what_cannot_change_is_a_plain_stage() -> None:
    search, built = Search("side", 2, 3), []

    def build(row: Any) -> Any:
        built.append(row)
        return Stage.__new__(Stage)

    assert type(Prefix().then(search, 0).part(build)) is Stage
    assert type(Prefix().then(search, 1).part(build)) is Adaptive
    assert built == [(1, 1), (1, 1)]


def test_a_prefix_is_a_row_of_python_integers_in_the_order_in_which_it_was_said() -> None:
    """Planted: numbers in another order, or NumPy's, which a builder would carry into frozen
    parameters."""
    search = Search("side", 2, 3)
    tens: Released[IntArray] = Released(("ten",), lambda before: before["ten"] * 10)
    prefix = Prefix().also(tens, (0,)).then(search, 1)
    row = prefix.row(drawn({"ten": np.array([[7]]), "side 1": np.array([[-(2**44), 2**44]])}, 1))
    assert row == (70, 2, 3)
    assert {*map(type, row)} == {int}
    part = prefix.part(lambda row: Stage.__new__(Stage))
    assert isinstance(part, Adaptive)
    assert part.numbers.reads == ("ten", "side 1")
    assert Prefix().row(drawn({}, 1)) == ()


@pytest.mark.parametrize("steps", [0, 51, True, 2.0])
def test_a_search_of_other_lengths_is_refused(steps: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"takes from 1 to 50|give an integer"):
        Search("side", 2, steps)


@pytest.mark.parametrize("steps", [1, 11, MOST_STEPS])
def test_middles_of_many_nodes_are_those_of_each(steps: int) -> None:
    rng, search = np.random.default_rng(steps), Search("search", 100, steps)
    depths = rng.permutation(np.arange(100) % (steps + 1)).tolist()
    nodes = [int(rng.integers(1 << depth, 2 << depth)) for depth in depths]
    middles = search.middles(nodes)
    assert middles == [middle for node in nodes for middle in search.middles([node])]
    assert {type(middle) for middle in middles} == {int}
