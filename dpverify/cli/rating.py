"""The command ``rates``: the error of every mechanism against theory, and beside others."""

from __future__ import annotations

import argparse

from rich.console import Console

from dpverify.cli.shared import (
    Commands,
    add_command,
    add_parallel,
    add_resume,
    add_seed,
    check_names,
    consumers_of,
    engine_of,
    resumed_from,
    seed_from,
    shard_of,
)
from dpverify.suite.events import Consumer, Event, UnitFinished
from dpverify.suite.judges import TOTAL_ALPHA
from dpverify.suite.rate_parts import Rates
from dpverify.suite.rating import THOROUGH, RateOptions
from dpverify.suite.reporting import PART, report, started_by
from dpverify.suite.resuming import known_parts
from dpverify.suite.trees import Suite


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "rates", rates, "error against n, d and the budget: slope, theory, lower bound",
        example="dpverify rates clipped_mean --quick --seed 7", names=True,
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true",
        help=f"1/{THOROUGH} of the releases, experiments in their cheapest panels: every planted "
        "fault caught",
    )  # fmt: skip
    add_seed(parser)
    add_parallel(parser)
    add_resume(parser)


def rates(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Measure the named rates, or what is missing of them."""
    check_names(options.names, [*suite.entries, *suite.rates, *suite.experiments])
    earlier, shard = resumed_from(options), shard_of(options)
    shared = RateOptions(options.suite, seed_from(options), options.quick)
    known = {} if earlier is None else known_parts(earlier, PART)
    asked = Rates(suite, options.names, shared)
    is_whole = shard.count == 1
    units = asked.units if is_whole else None
    about = "rates", suite, asked.parts, shared, TOTAL_ALPHA, shard
    started = started_by(*about, reported=units, names=options.names)
    with engine_of(options, suite) as engine:
        parts = asked.measured(shard.of(asked.parts), engine, known)
        terminal, *files = consumers_of(options, console, show_details=True)
        if is_whole:
            return report(started, asked.judged(parts), [whole_units(terminal), *files])
        return report(started, parts, [terminal, *files])


def whole_units(consumer: Consumer) -> Consumer:
    """Return a consumer that leaves out the parts, which are for resuming."""

    def take(event: Event) -> None:
        if not (isinstance(event, UnitFinished) and event.kind == PART):
            consumer(event)

    return take
