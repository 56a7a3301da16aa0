"""Hints where a command is given an option that it does not take."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence

_MEANT = {
    "--html": "--report",
    "--output": "--report",
    "--out": "--report",
    "-o": "--report",
    "--json": "--jsonl",
    "--seeds": "--seed",
    "--n": "--trials",
    "-n": "--trials",
    "--samples": "--trials",
    "--draws": "--trials",
    "--runs": "--trials",
    "--jobs": "--workers",
    "-j": "--workers",
    "--processes": "--workers",
    "--timeout": "--time",
    "--seconds": "--time",
}
"""Names that others give our options."""
_NO_OPTION = {
    "--alpha": "false alarms of a whole run have probability 1e-6; audit(..., alpha=) in Python "
    "takes another one.",
    "--epsilon": "a configuration in audits/ has its own claim; audit(..., claim=) in Python takes "
    "another one.",
}


def refuse_unknown(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    """End with wrong usage if a command was given what it does not take.

    The message has the option that is meant, or the nearest one.
    """
    if unknown:
        options = [
            name for name in parser._option_string_actions if name != "--help"
        ]  # argparse has no public name for them
        given = unknown[0].partition("=")[0]
        known = [_MEANT[given]] if _MEANT.get(given) in options else []
        near = known or difflib.get_close_matches(given, options, n=1)
        hint = f"did you mean {near[0]}?" if near else f"see `{parser.prog} --help`."
        if "--trials" in options:  # then it draws, for a claim
            hint = _NO_OPTION.get(given, hint)
        parser.error(f"the command takes no {unknown[0]}; {hint}")
