"""Blocks of the documentation's pages, as tests run them."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpverify.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")


def blocks(page: str, language: str) -> list[str]:
    """Return the bodies of a page's blocks in one language."""
    return [match["body"] for match in _BLOCK.finditer(page) if match["language"] == language]


def files(page: str) -> dict[str, str]:
    """Return the blocks of Python that begin with a comment that names a file, by that name."""
    named = [(_FILE.match(block), block) for block in blocks(page, "python")]
    return {match[1]: block[match.end() :] for match, block in named if match}


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console with what it prints, in order."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def follow(
    page: str, capsys: pytest.CaptureFixture[str], forget: Callable[[], None]
) -> Iterator[str]:
    """Write a page's files and run its commands in this folder, in their order; give each command.

    dpverify's commands run in this process, and print what the page says, "..." for anything. A
    comment "exits with N" says how a command ends.
    """
    checker = doctest.OutputChecker()
    for match in _BLOCK.finditer(page):
        named = _FILE.match(match["body"])
        if match["language"] == "python" and named:
            Path(named[1]).write_text(match["body"][named.end() :], encoding="utf-8")
        if match["language"] != "console":
            continue
        for command, expected in commands(match["body"]):
            words = shlex.split(command, comments=True)
            if words[0] != "dpverify":
                subprocess.run(words, check=True)
                yield command
                continue
            forget()
            told = re.search(r"# exits with (\d+)$", command)
            ended = main(words[1:])
            printed = capsys.readouterr().out
            assert ended == int(told[1] if told else 0), f"{command}\n{printed}"
            same = checker.check_output(expected, printed, doctest.ELLIPSIS)
            assert same, f"{command}\nexpected:\n{expected}\nprinted:\n{printed}"
            yield command
