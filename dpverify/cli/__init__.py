"""The command line: list, audit, prove, rates, merge, explain, papers, claims, report, init,
compare.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

import dpverify
from dpverify._loading import few_searches_for_garbage
from dpverify.cli import comparing, judging, merging, rating, reading, reporting, starting
from dpverify.cli.hints import refuse_unknown
from dpverify.cli.shared import EXIT_CODES, Command, UsageError, check_outputs
from dpverify.suite.engines import EngineRefused
from dpverify.suite.entries import SuiteError
from dpverify.suite.events import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_USAGE
from dpverify.suite.papers import statements, unsourced
from dpverify.suite.stored import NotEvents
from dpverify.suite.trees import NoSuite, Suite, load

__all__ = ["UsageError", "main"]


class _OurConsole(Console):
    """A console that leaves a closed output to ``main``.

    rich ends the process with exit code 1 when its output is closed; here 1 means refuted.
    """

    def on_broken_pipe(self) -> None:
        """Leave the broken pipe to ``main``."""
        raise BrokenPipeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    few_searches_for_garbage()
    options, unknown = _parser().parse_known_args(arguments)
    refuse_unknown(options.parser, unknown)
    try:
        check_outputs(options)
        if options.standalone is not None:
            return int(options.standalone(options))
        if options.suite is not None:
            if not options.suite.is_dir():
                raise UsageError(f"--suite {options.suite} is not a folder.")
            # workers elsewhere have another current folder
            options.suite = options.suite.absolute()
        command: Command = options.command
        if command is judging.prove and options.check:
            return judging.check_lemmas(options)
        return command(options, load(options.suite), _OurConsole(soft_wrap=True))
    except (UsageError, NoSuite, NotEvents, EngineRefused) as error:
        print(f"dpverify: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # Somebody closed our output, as `head` does. The run did not finish, so it may not say
        # that all held; what is still buffered goes nowhere, or the interpreter would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INVALID
    except (SuiteError, ValueError, OSError) as error:
        print(f"dpverify: {error}", file=sys.stderr)
        return EXIT_INVALID
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception:  # whatever it is, it is no refutation: exit code 1 must mean one
        traceback.print_exc()
        return EXIT_INVALID


class _Parser(argparse.ArgumentParser):
    """A parser that names the command nearest to one that there is not."""

    def error(self, message: str) -> NoReturn:
        """End with wrong usage."""
        given = re.search(r"argument COMMAND: invalid choice: '(.*?)'", message)
        commands = [name for action in self._actions for name in action.choices or ()]
        near = difflib.get_close_matches(given[1], commands, n=1) if given else []
        super().error(f"{message}; did you mean {near[0]}?" if near else message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dpverify",
        description="Differentially private estimators whose claims are derived, specified and "
        "attacked.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpverify {dpverify.__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    reading.add_list(commands)
    judging.add(commands)
    rating.add(commands)
    merging.add(commands)
    reading.add(commands, papers=_papers)
    reporting.add(commands)
    starting.add(commands)
    comparing.add(commands)
    return parser


def _papers(options: argparse.Namespace, suite: Suite, console: Console) -> int:
    """Show what the suite states, collected here and shown there."""
    return reading.show_papers(statements(suite), unsourced(suite))
