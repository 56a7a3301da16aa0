"""Searches as stages: keys that forget nothing, thresholds that close in, claims that do not move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpverify.plans import AdaptiveStage, Stage
from dpverify.plans.search import Prefix, Search, _packed, _unpacked


@pytest.mark.parametrize("bits", [(3, 1, 5), (1,) * 62, (20, 30, 12), (40, 30), (7,) * 50])
def test_packing_is_undone_by_unpacking(bits: Any) -> None:
    """In 62 bits as 64-bit integers, beyond in Python's."""
    rng, widths = np.random.default_rng(0), np.array(bits)
    rows = rng.integers(0, 1 << widths, size=(200, len(bits)))
    rows[0], rows[1] = 0, (1 << widths) - 1
    keys = _packed(rows, widths)
    assert keys.dtype == (np.int64 if widths.sum() <= 62 else object)
    assert [_unpacked(int(key), widths).tolist() for key in keys] == rows.tolist()
    assert len(set(keys.tolist())) == len({tuple(row) for row in rows.tolist()})


def test_a_search_closes_in_on_every_median() -> None:
    """Without noise: within 2^-steps of where it is, for all columns at once."""
    steps, targets = 12, np.linspace(-0.99, 0.99, 41)
    search = Search("side", len(targets), steps)
    released: dict[str, Any] = {}
    for k in range(steps):
        middles = np.array(search.middles(search.nodes(released, 1, k)[0])) / 2**steps
        assert np.abs(middles - targets).max() <= 2.0**-k
        released[search.stage(k)] = (np.sign(targets - middles) * 2**45).astype(np.int64)[None]


def test_a_batch_decides_row_by_row() -> None:
    """Also where values are Python integers."""
    rng, search = np.random.default_rng(1), Search("side", 3, 6)
    values = {search.stage(k): rng.integers(-(2**42), 2**42, size=(300, 3)) for k in range(6)}
    nodes = search.nodes(values, 300, 6)
    for i in range(0, 300, 7):
        row = {name: column[i : i + 1].astype(object) for name, column in values.items()}
        assert search.nodes(row, 1, 6)[0].tolist() == nodes[i].tolist()


def test_what_cannot_change_is_a_plain_stage() -> None:
    search, built = Search("side", 2, 3), []

    def build(row: Any) -> Any:
        built.append(row.tolist())
        return Stage.__new__(Stage)

    assert type(Prefix(()).then(search, 0).stage(build)) is Stage
    assert type(Prefix(()).then(search, 1).stage(build)) is AdaptiveStage
    assert built == [[1, 1], [1, 1]]


@pytest.mark.parametrize("steps", [0, 51, True, 2.0])
def test_a_search_of_other_lengths_is_refused(steps: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"takes from 1 to 50|give an integer"):
        Search("side", 2, steps)
