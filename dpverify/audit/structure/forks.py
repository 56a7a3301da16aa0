"""An attack on processes: forked workers may draw the same noise as their parent or each other."""

from __future__ import annotations

import math
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any, NoReturn

from dpverify.audit.structure.coincidences import (
    Yardstick,
    exceptions,
    in_common,
    measured,
    raised,
    sequence,
)
from dpverify.audit.structure.result import Finding, check_draws, describe

_NAME = "shared_state_after_fork"
_CHUNK = 1 << 16


def shared_state_after_fork(
    release: Callable[[], Any],
    *,
    children: int = 2,
    draws: int = 100,
    alpha: float = 1e-6,
    seconds: float = 60.0,
) -> Finding:
    """Test whether a process and its forked children, or two children, draw the same noise.

    release() is one output; each of ``children`` forked processes draws ``draws`` of them, and
    then the parent does. A child that raises is reported; one that needs more than ``seconds``
    is ended. False alarms: equal outputs count once they are too many for a coincidence, by how
    often the release's own outputs agree, without clocks and counters, and in their
    differences: all processes are at the same place of a public drift. Errors: ValueError for
    too few draws, a bad alpha, no children. Without os.fork (Windows) nothing is attacked, and
    the finding says so.
    """
    check_draws(draws, alpha)
    if children < 1:
        raise ValueError(f"children = {children}; at least 1 is needed.")
    call = f"{_NAME}(release, children={children}, draws={draws}, alpha={alpha:g})"
    if not hasattr(os, "fork"):
        problem = "this platform has no os.fork, so no process inherits a generator this way"
        return Finding(_NAME, False, "nothing was drawn", alpha, call, None, problem)
    further, measure = measured(release, draws, alpha)
    pipes = [_child(release, draws) for _ in range(children)]
    drawn = [("the parent", sequence(release, draws))]
    problems = [exceptions([*further, *drawn[0][1]])]
    for number, (process, pipe) in enumerate(pipes):
        answer = _read(process, pipe, seconds)
        if isinstance(answer, str):
            problems.append(f"child {number}: {answer}")
        else:
            drawn.append((f"child {number}", answer))
    facts = _facts(drawn, measure, problems)
    pairs = math.comb(len(drawn), 2)
    text = "; ".join(facts) or f"{pairs} pairs of processes drew different outputs"
    problem = "; ".join(filter(None, problems))
    return Finding(_NAME, bool(facts), text, alpha, call, None, problem)


def _facts(
    drawn: list[tuple[str, list[str]]], measure: Yardstick, problems: list[str]
) -> list[str]:
    """Return which two processes drew the same; without any, note a problem if the draws cannot
    tell.
    """
    pairs = list(combinations(drawn, 2))
    facts = []
    for (one, left), (two, right) in pairs:
        shared = in_common(left, right)
        if shared >= measure.needed(len(pairs)):
            facts.append(f"{one} and {two} drew the same {shared} outputs")
    if pairs and not facts:
        problems.append(measure.problem(len(drawn[0][1]), len(pairs)))
    return facts


def _child(release: Callable[[], Any], draws: int) -> tuple[int, int]:
    """Fork a child that writes its outputs into a pipe and ends; return its process id and the
    pipe.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # idle threads of numeric libraries make newer Pythons warn
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        os.close(reading)
        _draw_and_end(release, draws, writing)
    os.close(writing)
    return process, reading


def _draw_and_end(release: Callable[[], Any], draws: int, writing: int) -> NoReturn:
    try:
        try:
            outputs = _strictly(release, draws)
        except BaseException as error:  # whatever happens, the child must not run the parent's code
            outputs = raised(error)
        message = pickle.dumps(outputs)
        while message:
            message = message[os.write(writing, message[:_CHUNK]) :]
    finally:
        os._exit(0)


def _strictly(release: Callable[[], Any], draws: int) -> list[str] | str:
    """Return the outputs, or what the first call raised, as a source that refuses to be shared
    does.
    """
    keys = sequence(release, draws)
    return exceptions(keys) or keys


def _read(process: int, pipe: int, seconds: float) -> list[str] | str:
    """Return what a child wrote, or what went wrong in it."""
    message, end = b"", time.monotonic() + seconds
    try:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                os.kill(process, signal.SIGKILL)
                return f"did not end within {seconds:g} seconds"
            part = os.read(pipe, _CHUNK)
            if not part:
                break
            message += part
        answer: list[str] | str = pickle.loads(message)
        return answer
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        return f"ended without an answer ({describe(error)})"
    finally:
        os.close(pipe)
        os.waitpid(process, 0)
