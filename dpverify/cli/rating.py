"""``rates``: the error of every mechanism against theory, and beside others."""

from __future__ import annotations

import argparse
from itertools import chain

from rich.console import Console

import dpverify
from dpverify.cli.shared import (
    Commands,
    add_command,
    add_parallel,
    add_resume,
    add_seed,
    check_names,
    consumers_of,
    resumed_from,
    seed_from,
    workers_of,
)
from dpverify.suite.events import Consumer, Event, RunStarted, UnitFinished
from dpverify.suite.experimenting import experiment_names, experiment_results, units_of
from dpverify.suite.judges import TOTAL_ALPHA
from dpverify.suite.rating import THOROUGH, RateOptions, rate_names, rate_results
from dpverify.suite.resuming import known_parts
from dpverify.suite.runner import PART, report
from dpverify.suite.trees import Suite


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "rates", rates, "error against n, d and the budget: slope, theory, lower bound",
        example="dpverify rates clipped_mean --quick --seed 7", names=True,
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true",
        help=f"1/{THOROUGH} of the releases, experiments in their cheapest panels: every planted fault caught",
    )  # fmt: skip
    add_seed(parser)
    add_parallel(parser)
    add_resume(parser)


def rates(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Measure the named rates, or what is missing of them."""
    check_names(options.names, [*suite.entries, *suite.rates, *suite.experiments])
    earlier = resumed_from(options)
    seed = seed_from(options)
    shared = RateOptions(options.suite, seed, options.quick)
    known = {} if earlier is None else known_parts(earlier, PART)
    names = rate_names(suite, options.names)
    experiments = experiment_names(suite, options.names)
    units = len(names) + units_of(suite, experiments, shared)
    started = RunStarted("rates", dpverify.__version__, str(suite.root), seed, units, TOTAL_ALPHA)
    workers = workers_of(options)
    finishing = chain(
        rate_results(suite, names, shared, workers=workers, known=known),
        experiment_results(suite, experiments, shared, workers=workers, known=known),
    )
    terminal, *files = consumers_of(options, console, show_details=True)
    return report(started, finishing, [_whole_units(terminal), *files])


def _whole_units(consumer: Consumer) -> Consumer:
    """Without the parts, which are for resuming."""

    def take(event: Event) -> None:
        if not (isinstance(event, UnitFinished) and event.kind == PART):
            consumer(event)

    return take
