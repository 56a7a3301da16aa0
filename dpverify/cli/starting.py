"""The command ``init``: a working suite of one's own, to change."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from dpverify.cli.shared import Commands, UsageError, add_standalone
from dpverify.suite.events import EXIT_HELD
from dpverify.suite.starting import write_suite


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = add_standalone(
        commands, "init", init, "write a working suite of your own: a black box and a mechanism",
        example="dpverify init privacy",
    )  # fmt: skip
    parser.add_argument("folder", type=Path, metavar="DIR", help="empty, or not there yet")


def init(options: argparse.Namespace) -> int:
    """Write the suite, and say what to run."""
    folder: Path = options.folder
    try:
        files = write_suite(folder)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from error
    for file in files:
        print(f"wrote {folder / file}")
    suite = shlex.quote(str(folder))
    readme = folder / "README.md"
    print(f"now run `dpverify audit --quick --suite {suite}`; {readme} says what is what")
    return EXIT_HELD
