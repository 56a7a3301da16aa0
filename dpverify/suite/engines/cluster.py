"""Engine of a Dask cluster: its scheduler deals the units, and its dashboard shows them.

Dask is needed for ``--cluster`` only, and imported only here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Any
from uuid import uuid4

import threadpoolctl

from dpverify.suite.engines import (
    ATTEMPTS,
    AnyUnit,
    EngineRefused,
    Replays,
    Unfinished,
    crashed,
    failed,
    killed,
)
from dpverify.suite.events import UnitFinished
from dpverify.suite.judges import code_behind, loaded_suite

REACHED_WITHIN = 10
"""Seconds in which the scheduler must answer, and have a worker."""
WORKERS_BACK_WITHIN = 60
"""Seconds that a run waits for a first worker to come back when all are gone."""
_LOOK_AFTER = 1.0
_LIKE_THIS = "give what the scheduler prints, tcp://HOST:8786, say."
_OTHER_CODE = (
    "the cluster's worker has another version of the code; start workers anew, with this one"
)
_ALONE = "try a cluster whose workers have more memory"


class Cluster:
    """Engine whose units are done by the workers of a scheduler; a unit whose worker dies goes
    to another one.
    """

    def __init__(self, address: str, code: str) -> None:
        """Connect to the scheduler. code: digest of the code that workers must have. Raises
        EngineRefused.
        """
        import asyncio  # 12 ms, for which no other command should wait

        self._address, self._code = address, code
        self._distributed = _imported()
        _hush()
        try:
            self._distributed.comm.get_address_host(address)
            answered = asyncio.run(asyncio.wait_for(self._who_answers(), REACHED_WITHIN))
            if answered != "Scheduler":
                raise EngineRefused(f"--cluster {address} is a {answered}'s; {_LIKE_THIS}")
            self._client = self._distributed.Client(
                address, timeout=REACHED_WITHIN, set_as_default=False, name="dpverify"
            )
        except EngineRefused:
            raise
        except ValueError:
            raise EngineRefused(f"--cluster {address} is no address; {_LIKE_THIS}") from None
        except TypeError:  # no certificates are configured
            raise EngineRefused(
                f"--cluster {address} is encrypted: name its certificates in Dask's configuration, "
                "under distributed.comm.tls."
            ) from None
        except OSError:
            raise EngineRefused(
                f"--cluster {address} did not answer within {REACHED_WITHIN} seconds; {_LIKE_THIS}"
            ) from None
        try:
            self._client.wait_for_workers(1, timeout=REACHED_WITHIN)
        except OSError:
            self._client.close()
            raise EngineRefused(
                f"--cluster {address} has no workers after {REACHED_WITHIN} seconds; start "
                f"`dask worker {address} --nthreads 1` first."
            ) from None
        self.workers = len(self._client.nthreads())

    async def _who_answers(self) -> str:
        """Return "Scheduler", or the name of what else answers; a client waits forever for a
        server that does not speak Dask's protocol.
        """
        comm = await self._distributed.comm.connect(self._address, timeout=REACHED_WITHIN)
        try:
            await comm.write({"op": "identity", "reply": True})
            return str((await comm.read())["type"])
        finally:
            comm.abort()

    def run(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[UnitFinished]:
        """Yield results as they come; then do, one at a time, the units that dead workers had
        been given.

        When a worker dies the scheduler blames all units that the worker had, also those that
        had not begun.
        """
        suspects = list[AnyUnit]()
        for unit, done in self._results(units, do, options):
            if done is None:
                suspects.append(unit)
            else:
                yield done
        for suspect in suspects:
            for unit, done in self._results([suspect], do, options):
                yield done or killed(unit, options, _ALONE)

    def _results(
        self,
        units: Sequence[AnyUnit],
        do: Callable[[AnyUnit, Any], UnitFinished],
        options: Replays[AnyUnit],
    ) -> Iterator[tuple[AnyUnit, UnitFinished | None]]:
        """Yield each unit with its result, or with None where workers died that had been given
        it.
        """
        ready, token = SimpleQueue[Any](), uuid4().hex
        doing = {
            self._client.submit(
                _on_worker, do, unit, options, self._code,
                key=(f"{unit.kind}-{token}", unit.name), pure=False, retries=ATTEMPTS - 1,
            ): unit
            for unit in units
        }  # fmt: skip
        for future in doing:
            future.add_done_callback(ready.put)
        try:
            while doing:
                future = self._next(ready)
                unit = doing.pop(future)
                yield unit, self._result(future, unit, options)
        finally:
            if doing and self._client.status == "running":
                self._client.cancel(list(doing), force=True)

    def _next(self, ready: SimpleQueue[Any]) -> Any:
        """Wait for a future that is done. Raises Unfinished where no worker is left to do one."""
        empty_since: float | None = None
        while True:
            try:
                return ready.get(timeout=_LOOK_AFTER)
            except Empty:
                pass
            if self._count() > 0:
                empty_since = None
                continue
            empty_since = empty_since or monotonic()
            if monotonic() - empty_since > WORKERS_BACK_WITHIN:
                self._lose(f"has had no workers for {WORKERS_BACK_WITHIN} seconds")

    def _count(self) -> int:
        if self._client.status != "running":
            self._lose("went away")
        try:
            return len(self._client.nthreads())
        except Exception:  # exceptions of any kind mean that the connection failed
            self._lose("went away")
            raise AssertionError from None  # never reached

    def _result(self, future: Any, unit: AnyUnit, options: Replays[AnyUnit]) -> UnitFinished | None:
        if future.status == "cancelled" or self._client.status != "running":
            self._lose("went away")
        try:
            done: UnitFinished = future.result()
        except self._distributed.KilledWorker:
            return None
        except self._distributed.CancelledError:
            self._lose("went away")
        except OSError:
            self._lose("went away")
        except Exception as error:  # for example a unit that cannot be sent to a worker
            return crashed(unit, options, error)
        return done

    def _lose(self, how: str) -> None:
        raise Unfinished(f"the cluster at {self._address} {how}")

    def __enter__(self) -> Cluster:
        """Return the engine."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the cluster as it is; only the connection ends."""
        self._client.close(timeout=_LOOK_AFTER)


def _imported() -> Any:
    try:
        import distributed
    except ImportError:
        raise EngineRefused(
            "--cluster needs Dask, which is not installed; run `pip install 'dpverify[cluster]'`."
        ) from None
    return distributed


def _hush() -> None:
    """Silence Dask's loggers: they show a traceback for each lost connection, and we report
    once what happened.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


_ONE_AT_A_TIME = threading.Lock()
"""Lock for units on a worker. The precision of mpmath belongs to the process, so a worker with
several threads does one unit at a time.
"""


def _on_worker(
    do: Callable[[AnyUnit, Any], UnitFinished],
    unit: AnyUnit,
    options: Any,
    code: str,
) -> UnitFinished:
    """Do a unit on a worker, if that has the same code and suite as the one who asks."""
    with _ONE_AT_A_TIME:
        _compute_in_one_thread()
        try:
            own = _own_code(options.suite)
        except Exception as error:
            return crashed(unit, options, error)
        if own != code:
            return failed(unit, options, _OTHER_CODE)
        try:
            return do(unit, options)
        except Exception as error:
            return crashed(unit, options, error)


@cache
def _own_code(suite: Path | None) -> str:
    """Hash the code as it is when this worker loads it: later changes do not reach a process
    that runs.
    """
    return code_behind(loaded_suite(suite))


@cache
def _compute_in_one_thread() -> None:
    threadpoolctl.threadpool_limits(1)
