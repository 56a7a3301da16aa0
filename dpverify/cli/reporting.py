"""The command ``report``: the HTML report of runs whose events were kept."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpverify.cli.shared import Commands, UsageError, add_standalone
from dpverify.report.page import page
from dpverify.report.saving import save
from dpverify.suite.events import EXIT_EMPTY, EXIT_HELD, Event, UnitFinished
from dpverify.suite.stored import read


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_standalone(
        commands, "report", report, "one HTML page of runs whose events --jsonl kept",
        example="dpverify report audit.jsonl prove.jsonl rates.jsonl -o report.html",
    )  # fmt: skip
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="written by --jsonl")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PAGE", help="the page to write"
    )


def report(options: argparse.Namespace) -> int:
    """Write the page from the files alone, wherever they come from."""
    output: Path = options.output
    if output.resolve() in [file.resolve() for file in options.files]:
        raise UsageError(f"-o {output} would overwrite the events that it is made of.")
    events = list[Event]()
    for file in options.files:
        events += read(file).events
    units = sum(isinstance(event, UnitFinished) for event in events)
    save(output, page(events))
    print(f"{output}: {units} units of {len(options.files)} files")
    return EXIT_HELD if units else EXIT_EMPTY
