"""The simplest witnesses: an output has a certain text or value, or is a certain output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import PLAIN, Draws
from dpverify.audit.outputs.showing import EXCEPTION
from dpverify.audit.witnesses.features import Candidate, Column, Score
from dpverify.privacy.numbers import Floats

_SHOWN = 80
_BRIEF = 40  # characters of a text in the name of a log-ratio
_STRIKING = 8.0  # standard errors from which on texts name the log-ratio of all
_ENOUGH = 64
_RAISES, _RETURNS = "the call raises ", "the call does not raise "
_OF_KIND = "kind of output is"
_RATIO = "log-ratio of the "
_ABOUT_KINDS = re.compile(
    rf"(?:^|(?:left|right) where )(?:not \()?(?:{_RAISES}|{_RETURNS}|{_OF_KIND}|"
    rf"output is (?:not )?{EXCEPTION}|{_RATIO}output \({EXCEPTION})"
)
_REPEATED, _FEWER = 10, 4  # pairs of equal outputs on one side; how many times rarer across


def text_event(name: str, column: Column, text: Any, z_score: float) -> Candidate:
    """Return the event that a text is this one. z_score: how telling that is, positive where
    likelier on the own side.
    """
    return event(
        f"{name} is", _words_of(text), lambda draws: column(draws).are(text).astype(float), z_score
    )


def ratio_event(name: str, texts: list[Any], z_scores: Floats, score: Score) -> Candidate:
    """Return the event that the log-ratio of a column's texts is large, named after the most
    telling text of either side if both are striking.

    z_scores: how telling each text is, positive where likelier on the own side.
    """
    most = int(z_scores.argmax()), int(z_scores.argmin())
    told = [_shortened(_words_of(texts[i]), _BRIEF) for i in most if abs(z_scores[i]) > _STRIKING]
    shown = f" ({' against '.join(told)})" if len(told) == len(most) else ""
    return Candidate(f"{_RATIO}{name}{shown} >= {{threshold}}", score)


def _words_of(text: Any) -> str:
    return "a number" if text == PLAIN else str(text)


def _shortened(words: str, most: int) -> str:
    """Return at most so many characters of them, as part of a candidate's description, which is
    a format.
    """
    shown = words if len(words) <= most else words[:most] + "..."
    return shown.replace("{", "{{").replace("}", "}}")


def kind_event(kind: str, z_score: float) -> Candidate:
    """Return the event that the call raises an exception of this kind, or gives an output of
    this type and shape.
    """
    raised = kind.removeprefix(EXCEPTION)
    if raised == kind:
        return replace(event(_OF_KIND, kind, _is_of(kind), z_score), fitted=False)
    words = _RAISES if z_score > 0 else _RETURNS
    score = _is_of(kind)
    return Candidate(
        words + raised, score if z_score > 0 else lambda draws: 1.0 - score(draws), fitted=False
    )


def _is_of(kind: str) -> Score:
    return lambda draws: draws.kinds.are(kind).astype(np.float64)


def is_about_kinds(text: str) -> bool:
    """Return whether an event, or one of the two of a guess, is about exceptions, types or
    shapes.
    """
    return _ABOUT_KINDS.search(text) is not None


def event(what: str, value: str, score: Score, z_score: float) -> Candidate:
    """Return the event that something happens, or that it does not where it is the less likely
    on the own side.
    """
    shown = _shortened(value, _SHOWN)
    if z_score > 0:
        return Candidate(f"{what} {shown}", score)
    return Candidate(f"{what} not {shown}", lambda draws: 1.0 - score(draws))


def equals(j: int, value: float) -> Score:
    """Return a score: 1 where the number at one place is this one."""
    return lambda draws: (draws.column(j) == value).astype(np.float64)


def somewhere(value: float, width: int) -> Score:
    """Return a score: 1 where one of the first ``width`` numbers is this one (0 where there are
    fewer).
    """
    return lambda draws: np.any(draws.columns(width) == value, axis=1).astype(np.float64)


def is_print(value: np.uint64) -> Score:
    """Return a score: 1 for outputs with this fingerprint."""
    return lambda draws: (fingerprints(draws) == value).astype(np.float64)


def seen_before(own: Draws, other: Draws) -> Iterator[Candidate]:
    """Yield the event that an output is one of those that only the own side gave while
    learning: for noise of few seeds.

    Yields it only where outputs repeat within the sides, and far less often across them.
    """
    if min(len(own), len(other)) < 2 or not (own.numbers.any() or other.numbers.any()):
        return
    sides = first_prints(own), first_prints(other)
    values, which = np.unique(np.concatenate(sides), return_inverse=True)
    ours, theirs = (
        np.bincount(part, minlength=len(values)) for part in np.split(which, [len(own)])
    )
    within = sum(float((n * (n - 1.0)).sum()) / (n.sum() * (n.sum() - 1.0)) for n in (ours, theirs))
    pairs = float((ours * (ours - 1.0) + theirs * (theirs - 1.0)).sum()) / 2
    across = float((ours * theirs).sum()) / (len(own) * len(other))
    if pairs < _REPEATED or _FEWER * across >= within / 2:
        return
    known = values[(ours > 0) & (theirs == 0)]

    def score(draws: Draws) -> Floats:
        return np.isin(first_prints(draws), known).astype(np.float64)

    yield Candidate("output was seen on this side alone while learning", score)


def first_prints(draws: Draws) -> NDArray[np.uint64]:
    """Return a hash of the label and the first numbers of each output, which are enough where
    noise repeats.
    """
    wide = draws.numbers.shape[1] > _ENOUGH
    return fingerprints(Draws(draws.coded, draws.columns(_ENOUGH)) if wide else draws)


def fingerprints(draws: Draws) -> NDArray[np.uint64]:
    """Return a hash of the whole output: equal for equal outputs, and almost surely for no
    others.
    """
    key = "fingerprint", draws.numbers.shape[1]
    if key not in draws.made:
        draws.made[key] = _fingerprints(draws)
    return draws.made[key]


def _fingerprints(draws: Draws) -> NDArray[np.uint64]:
    texts = [_hash_of(label) for label in draws.coded.table]
    result = np.array(texts or [0], dtype=np.uint64)[draws.coded.codes]
    for j in range(draws.numbers.shape[1]):
        column = draws.numbers[:, j] + 0.0
        there = np.ascontiguousarray(column).view(np.uint64)
        # Zeros change nothing, so the batch's width does not matter.
        result = result + _mixed(there + np.uint64(j + 1)) * (column != 0)
    return result


def _hash_of(label: Any) -> int:
    """Return 64 bits, the same in every process."""
    text = str(label).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
