"""Engine of worker processes on this machine.

Each of N threads has a pool of one process. Where a process dies, the unit that killed it is
known, no other unit is lost, and the thread starts another process. One pool of N processes
breaks as a whole.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any

import threadpoolctl

from dpverify._loading import few_searches_for_garbage
from dpverify.suite.engines import (
    ATTEMPTS,
    AnyUnit,
    Replays,
    crashed,
    killed,
)
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import UnitFinished

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h
_MOST_KEPT, _LARGEST_KEPT = 1 << 29, 1 << 25  # bytes in all, and of one table: glibc's maximum
_ALONE = "try --workers 1, or fewer workers"
_START = "spawn"  # forked, a worker would have our threads' locks


class Processes:
    """Engine whose units are done in so many processes, each of which loads the suite once.

    one_here: a run of a single unit starts no process; the unit is done here, and whatever
    kills it kills the command.
    """

    def __init__(self, workers: int, one_here: bool = False) -> None:
        self.workers = workers
        self._one_here = one_here
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="dpverify-worker")
        self._own = threading.local()
        self._pools = set[ProcessPoolExecutor]()
        self._stopped = threading.Event()

    def run(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[UnitFinished]:
        """Yield results as they come, in no order."""
        if not units or (self._one_here and len(units) == 1):
            yield from Serial().run(units, do, options)
            return
        doing: list[Future[UnitFinished]] = [
            self._threads.submit(self._tried, do, unit, options) for unit in units
        ]
        try:
            for future in as_completed(doing):
                yield future.result()
        finally:
            for future in doing:
                future.cancel()

    def _tried(
        self,
        do: Callable[[AnyUnit, Any], UnitFinished],
        unit: AnyUnit,
        options: Replays[AnyUnit],
    ) -> UnitFinished:
        """Do a unit in this thread's process, and again in a new one if that dies."""
        for _ in range(ATTEMPTS):
            try:
                return self._pool().submit(do, unit, options).result()
            except BrokenProcessPool:
                self._discard()
            except Exception as error:  # for example a unit that cannot be sent to a process
                return crashed(unit, options, error)
            if self._stopped.is_set():
                break
        return killed(unit, options, _ALONE)

    def _pool(self) -> ProcessPoolExecutor:
        """Return the pool of this thread, made when it is first needed."""
        pool: ProcessPoolExecutor | None = getattr(self._own, "pool", None)
        if pool is None:
            context = multiprocessing.get_context(_START)
            pool = ProcessPoolExecutor(1, mp_context=context, initializer=_set_up_worker)
            self._own.pool = pool
            self._pools.add(pool)
        return pool

    def _discard(self) -> None:
        pool = self._own.pool
        self._own.pool = None
        pool.shutdown(wait=True)
        self._pools.discard(pool)

    def __enter__(self) -> Processes:
        """Return the engine."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the workers that are busy, and wait until all are gone."""
        self._stopped.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pool in list(self._pools):
            for process in list((pool._processes or {}).values()):
                # unfinished units are given up; the process may be in a loop that hears nothing
                # else
                process.kill()
        self._threads.shutdown(wait=True)
        for pool in list(self._pools):
            pool.shutdown(wait=True)


def _set_up_worker() -> None:
    """Leave Ctrl-C to the parent, compute in one thread, keep freed memory, look for garbage
    seldom, and end with the parent, however that ends.

    Ctrl-C reaches the whole process group. Workers whose linear algebra takes all cores each
    slow one another down up to twentyfold.
    """
    few_searches_for_garbage()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    threadpoolctl.threadpool_limits(1)
    _keep_memory()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _keep_memory() -> None:
    """Have glibc keep memory that is freed, up to half a gigabyte; do nothing elsewhere.

    Audits take and free tables of some megabytes thousands of times. The kernel would clear every
    page anew, which took a tenth of their time.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
