"""Parts that the commands share: how one is declared, names, consumers, exit codes in words."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from dpverify.report.evidence import Evidence
from dpverify.report.jsonl import InUse, JsonLines
from dpverify.report.junit import JUnit
from dpverify.report.page import HtmlReport
from dpverify.report.saving import check_writable
from dpverify.report.terminal import Terminal
from dpverify.suite.changed import Changed
from dpverify.suite.engines import Engine
from dpverify.suite.engines.cluster import Cluster
from dpverify.suite.engines.processes import Processes
from dpverify.suite.engines.serial import Serial
from dpverify.suite.events import Consumer, Outcome
from dpverify.suite.judges import Unit, code_behind
from dpverify.suite.sharding import WHOLE, Shard
from dpverify.suite.stored import read
from dpverify.suite.trees import Suite

Commands = argparse._SubParsersAction  # of ArgumentParser; argparse has no public name for it
Command = Callable[[argparse.Namespace, Suite, Console], int]

EXIT_CODES = """\
exit codes:
  0    all held
  1    a claim refuted, an obligation false, or the ledger or lemmas.toml disagrees
  2    wrong usage
  3    internal error, or an invalid run
  4    powerless: nothing refuted, but not everything planted was seen, or not everything was done
  5    nothing collected
  130  stopped by Ctrl-C, with a valid partial report
  143  stopped by SIGTERM, likewise
"""


class UsageError(Exception):
    """An error: the command line asks for something that is not there."""


def add_command(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    function: Command,
    summary: str,
    *,
    example: str = "",
    names: bool = False,
    besides: str = "",
) -> argparse.ArgumentParser:
    """Declare a command about a suite.

    names: it takes any number of NAMEs, by default everything.
    besides: the text that its help adds after the exit codes.
    """
    parser = _declared(commands, name, summary, example, EXIT_CODES + besides)
    parser.set_defaults(command=function)
    parser.add_argument(
        "--suite",
        type=Path,
        metavar="PATH",
        help="a folder with audits/, and mechanisms/ and spec/ for mechanisms",
    )
    if names:
        parser.add_argument("names", nargs="*", metavar="NAME", help="default: everything")
    return parser


def add_standalone(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    function: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    example: str,
    codes: str = EXIT_CODES,
) -> argparse.ArgumentParser:
    """Declare a command that needs no suite. codes: the meanings of its exit codes."""
    parser = _declared(commands, name, summary, example, codes)
    parser.set_defaults(standalone=function)
    return parser


def _declared(
    commands: Commands[argparse.ArgumentParser], name: str, summary: str, example: str, codes: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example: {example or 'dpverify ' + name}\n\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser, standalone=None)
    return parser


def add_parallel(parser: argparse.ArgumentParser) -> None:
    """Add ``--workers``, ``--cluster``, ``--shard`` and ``--jsonl`` to a command.

    They are for commands that run units of work and emit events.
    """
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=at_least(1), metavar="N", help="default: one a core")
    where.add_argument(
        "--cluster", metavar="ADDRESS", help="have a Dask cluster do it: tcp://HOST:8786, say"
    )
    parser.add_argument(
        "--shard", type=_index_and_count, metavar="I/N",
        help="do the I-th of N shares alone; `dpverify merge` puts their --jsonl files together",
    )  # fmt: skip
    parser.add_argument(
        "--times", type=Path, metavar="FILE",
        help="events of an earlier run, the same for all shards: they are to take equally long",
    )  # fmt: skip
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="also write the events")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write an HTML report")


def add_changed(parser: argparse.ArgumentParser) -> None:
    """Add ``--changed``, for commands that run units that depend on files."""
    parser.add_argument(
        "--changed", action="store_true",
        help="only what depends, by imports, on files that differ from the last commit",
    )  # fmt: skip


def chosen(options: argparse.Namespace, suite: Suite, units: list[Unit]) -> list[Unit]:
    """Return those units that ``--changed`` leaves."""
    return Changed(suite.root).affected(units) if options.changed else units


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add ``--resume``, for commands that take long."""
    parser.add_argument(
        "--resume", type=Path, metavar="FILE",
        help="events of an earlier run with the same seed and code; what it did is not done again",
    )  # fmt: skip


def resumed_from(options: argparse.Namespace) -> Path | None:
    """Return the file of --resume, which needs the seed of its run."""
    path: Path | None = options.resume
    if path is not None and not path.is_file():
        raise UsageError(f"--resume {path} is not a file.")
    if path is not None and options.seed is None:
        raise UsageError("--resume needs --seed N, the seed that the earlier run printed.")
    return path


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed``, for commands that draw."""
    parser.add_argument("--seed", type=at_least(0), metavar="N", help="default: fresh, and printed")


def seed_from(options: argparse.Namespace) -> int:
    """Return the seed that is given, else a fresh one."""
    return secrets.randbelow(2**32) if options.seed is None else int(options.seed)


_LISTED = "see `dpverify list`, with --suite PATH for a suite of your own."


def check_names(names: Sequence[str], known: Sequence[str], *, listed: str = _LISTED) -> None:
    """Raise UsageError for a name that is not known.

    The message has the nearest names, or where they are ``listed``.
    """
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else listed
            if Path(name).suffix or Path(name).exists():
                hint = (
                    "names are of mechanisms and their audits. A folder of your own is given "
                    "with --suite; a function is audited from Python: dpverify.audit.audit."
                )
            raise UsageError(f"there is no {name!r}; {hint}")


def consumers_of(
    options: argparse.Namespace, console: Console, *, show_details: bool
) -> list[Consumer]:
    """Return the terminal, and a consumer for each file or folder that is asked for.

    Raises UsageError where one cannot be written.
    """
    consumers: list[Consumer] = [Terminal(console, show_details=show_details)]
    resumed: Path | None = getattr(options, "resume", None)
    for option, consumer in _WRITERS.items():
        path: Path | None = getattr(options, option, None)
        if path is not None and option == "jsonl" and resumed is not None and _same(resumed, path):
            consumer = partial(JsonLines, held=_keys(resumed, options.seed))
        if path is not None:
            consumers.append(_written(option, consumer, path))
    return consumers


_WRITERS: dict[str, Callable[[Path], Consumer]] = {
    "evidence": Evidence,  # first: what is refused here has opened no other file
    "jsonl": JsonLines,
    "junit": JUnit,
    "report": HtmlReport,
}


def check_outputs(options: argparse.Namespace) -> None:
    """Raise UsageError before anything is loaded or run for outputs that would fail later.

    These are two outputs that are one file, and a file that appears at the end of the run and
    could not be written then.
    """
    asked = {option: getattr(options, option, None) for option in (*_WRITERS, "output")}
    paths = {option: path for option, path in asked.items() if path is not None}
    for option, path in paths.items():
        if [one.resolve() for one in paths.values()].count(path.resolve()) > 1:
            raise UsageError(f"--{option} {path} is asked for twice; give each its own file.")
        if option in ("junit", "report", "output"):
            try:
                check_writable(path)
            except OSError as error:
                raise UsageError(
                    f"--{option} {path} cannot be written: {error.strerror}."
                ) from error


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _keys(path: Path, seed: int) -> set[str]:
    """Return keys of the results that a run which goes on in this file must not lose.

    Invalid results are done again. Raises UsageError for results of another seed, none of which
    the run would take or keep.
    """
    stored = read(path)
    others = {one.seed for one in stored.started} - {seed}
    if others:
        raise UsageError(
            f"--resume {path} has results of seed {min(others)}, which --jsonl would replace by "
            f"those of seed {seed}; give --seed {min(others)}, or --jsonl another file."
        )
    done = (unit for unit in stored.units if unit.outcome is not Outcome.INVALID)
    return {str(unit.data["key"]) for unit in done if "key" in unit.data}


def _written(option: str, consumer: Callable[[Path], Consumer], path: Path) -> Consumer:
    try:
        return consumer(path)
    except OSError as error:
        hint = "Give a file of its own." if isinstance(error, InUse) else _ELSEWHERE
        raise UsageError(
            f"--{option} {path} cannot be written: {error.strerror}. {hint}"
        ) from error


_ELSEWHERE = "Give a path in a folder that exists."


def engine_of(options: argparse.Namespace, suite: Suite) -> Engine:
    """Start the engine that is asked for; by default a worker process a core."""
    if options.cluster is not None:
        return Cluster(options.cluster, code_behind(suite))
    workers = options.workers or os.cpu_count() or 1
    return Serial() if workers == 1 else Processes(workers, one_here=options.workers is None)


def shard_of(options: argparse.Namespace) -> Shard:
    """Return the shard that is asked for; by default all there is."""
    if options.shard is None:
        if options.times is not None:
            raise UsageError("--times balances shards: give --shard I/N, too.")
        return WHOLE
    if options.jsonl is None:
        raise UsageError("--shard I/N needs --jsonl FILE, which `dpverify merge` takes.")
    if getattr(options, "seed", 0) is None:
        raise UsageError("--shard I/N needs --seed N, the same for all shards.")
    index, count = options.shard
    seconds = {}
    if options.times is not None:
        units = read(options.times).units
        seconds = {f"{unit.kind} {unit.name}": unit.seconds for unit in units}
    return Shard(index, count, seconds)


def _index_and_count(text: str) -> tuple[int, int]:
    """Parse an argument that is a part of several: 2/8, the second of eight."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 2/8 for the second of eight")
    return int(match[1]), int(match[2])


def duration(text: str) -> float:
    """Parse an argument that is a time such as 90s, 10m or 2h, in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 90s, 10m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def at_least(least: int) -> Callable[[str], int]:
    """Return a parser of an argument that is a whole number of at least this."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is too small; at least {least} is needed")
        return value

    return parse
