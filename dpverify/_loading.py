"""Searches for garbage while modules load: few, for nothing dies there, and they take a seventh
of the time.

They are few from the import of this module on, and as before from ``ended`` on.
"""

from __future__ import annotations

import gc

_BEFORE = gc.get_threshold()


def few_searches_for_garbage() -> None:
    """Look for garbage in cycles seldom in this process, or as seldom as now, if that is less.

    It is rare here, and looking for it took 3 to 9% of a worker's time, and a seventh of loading
    a suite.
    """
    first, *others = gc.get_threshold()
    if first:  # else never
        gc.set_threshold(max(first, 20_000), *others)


def ended() -> None:
    """Look for garbage as often as before."""
    gc.set_threshold(*_BEFORE)


few_searches_for_garbage()
