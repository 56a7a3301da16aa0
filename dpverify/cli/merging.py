"""The command ``merge``: the results of shards as those of one run."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from dpverify.cli.rating import whole_units
from dpverify.cli.shared import Commands, UsageError, add_command, consumers_of
from dpverify.suite.judges import code_behind
from dpverify.suite.merging import Merged, NotOneRun, merge
from dpverify.suite.rate_parts import Rates
from dpverify.suite.rating import RateOptions
from dpverify.suite.reporting import report
from dpverify.suite.trees import Suite


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "merge", merging, "results of shards, as --jsonl wrote them, as those of one run",
        example="dpverify merge first.jsonl second.jsonl -o both.jsonl",
    )  # fmt: skip
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="events of each shard")
    parser.add_argument(
        "-o", "--output", dest="jsonl", type=Path, metavar="FILE", help="also write all events here"
    )


def merging(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Show what one run would have shown, and return its exit code; 4 if units are missing."""
    output: Path | None = options.jsonl
    if (
        output is not None
        and output.exists()
        and any(output.samefile(f) for f in options.files if f.exists())
    ):
        raise UsageError(f"-o {output} is one of the files that are merged; give another one.")
    merged = merge(options.files)
    if merged.started.command != "rates":
        consumers = consumers_of(options, console, show_details=False)
        return report(merged.started, merged.results(), consumers)
    return _rates(merged, options, suite, console)


def _rates(merged: Merged, options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Judge rates and experiments from the parts of all shards."""
    started = merged.started
    if started.code != code_behind(suite):
        raise NotOneRun(
            f"{options.files[0]} was measured with another version of the code, or for another "
            "suite; merge with the code that measured, and give --suite PATH where it was given."
        )
    shared = RateOptions(options.suite, started.seed, bool(started.asked["quick"]))
    asked = Rates(suite, list(started.asked["names"]), shared)
    terminal, *files = consumers_of(options, console, show_details=True)
    begun = replace(started, units=asked.units)
    return report(begun, asked.judged(merged.results()), [whole_units(terminal), *files])
