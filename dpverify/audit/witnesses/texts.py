"""Texts of outputs: labels, kinds, marks, orders of numbers; and what can be read in a text:
characters, words, numbers.

A column gives one text a draw. Characters and words count where texts are nearly all different.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.audit.outputs.draws import PLAIN, Draws, Labels
from dpverify.audit.witnesses.features import Column, Feature, Score, by_rows, tame, telling
from dpverify.privacy.numbers import Floats

KIND = "kind of output"
"""Name of the column of kinds, which have events of their own."""
_WORD = re.compile(r"\w{2,40}")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_NUMBERS = 4
_ORDERED = 3
_ORDERS = tuple("-".join(map(str, order)) for order in product(range(_ORDERED), repeat=_ORDERED))
_NARROW = 64
_FRONT, _BACK = 3200, 900  # places that are looked at: all that is kept of a text
_LOOKED, _FEWEST, _TIMES = (
    2000,
    50,
    5,
)  # draws per side; texts among them, at least, and how often each at most
_CHARACTERS = 1 << 19  # characters per side that are looked at
_BEGINNING = 400  # characters in which numbers are read
_MOST, _MOST_WORDS = 16, 8  # places and words of which there are events


def texts_of(own: Draws, other: Draws, *, orders: bool) -> list[tuple[str, Column]]:
    """Return all texts of these draws: labels, kinds, marks, characters; with ``orders`` how
    their numbers compare.
    """
    columns: list[tuple[str, Column]] = [("output", lambda draws: draws.coded)]
    if own.kinds is not own.coded or other.kinds is not other.coded:
        columns.append((KIND, lambda draws: draws.kinds))
    width = max(own.numbers.shape[1], other.numbers.shape[1])
    if width > 1:
        columns += [(f"entry {j}", _mark(j)) for j in _telling_marks(own, other)]
    columns += inside(own, other)
    if width > 1 and orders:
        columns += [
            ("place of the largest number", lambda draws: _place(draws, width, np.argmax)),
            ("place of the smallest number", lambda draws: _place(draws, width, np.argmin)),
            ("order of the first numbers", _order),
        ]
    return columns


def _telling_marks(own: Draws, other: Draws) -> list[int]:
    """Return the places with marks; of many, those whose share of ordinary numbers differs most."""
    columns = sorted({*own.marks, *other.marks})
    if len(columns) <= _NARROW:
        return columns
    plain = [[side.marked(j).counts().get(PLAIN, 0) for j in columns] for side in (own, other)]
    z_scores = np.abs(telling(plain[0], plain[1], len(own), len(other)))
    return [columns[k] for k in np.argsort(-z_scores, kind="stable")[:_NARROW]]


def _mark(j: int) -> Column:
    return lambda draws: draws.marked(j)


def _place(draws: Draws, width: int, which: Callable[..., Any]) -> Labels:
    places = by_rows(draws.columns(width), lambda rows: which(rows, axis=1)).astype(np.intp)
    return Labels(places, tuple(f"{j}" for j in range(width)))


def _order(draws: Draws) -> Labels:
    """Return the order of the numbers from the smallest; outputs with fewer numbers count as if
    0 followed.
    """
    ranks = np.argsort(draws.columns(_ORDERED), axis=1, kind="stable")
    codes = ranks @ (_ORDERED ** np.arange(_ORDERED)[::-1])
    return Labels(codes, _ORDERS)


def inside(own: Draws, other: Draws) -> list[tuple[str, Column]]:
    """Return those characters and words in the texts that differ most; none where texts are
    often the same.
    """
    sides = own.select(slice(_LOOKED)), other.select(slice(_LOOKED))
    different = [len(np.unique(side.coded.codes)) for side in sides]
    if not any(max(_FEWEST, len(s) / _TIMES) <= n for n, s in zip(different, sides, strict=True)):
        return []
    texts = [[str(text) for text in side.labels] for side in sides]
    longest = max(len(text) for side in texts for text in side)
    texts = [side[: max(_FEWEST, _CHARACTERS // longest)] for side in texts]
    return [*_characters(*texts), *_words(*texts)]


def _characters(own: list[str], other: list[str]) -> list[tuple[str, Column]]:
    longest = max(map(len, [*own, *other]))
    places = [*range(min(longest, _FRONT)), *range(-1, -min(longest, _BACK) - 1, -1)]
    letters = [_letters(side, places) for side in (own, other)]
    hits = [_histograms(side) for side in letters]
    z_scores = np.abs(telling(hits[0], hits[1], len(own), len(other))).max(axis=1, initial=0.0)
    both, chosen = np.concatenate(letters), list[int]()
    for k in np.argsort(-z_scores, kind="stable").tolist():
        if z_scores[k] == 0 or len(chosen) == _MOST:
            break
        if not any(np.array_equal(both[:, k], both[:, j]) for j in chosen):  # from front and back
            chosen.append(k)
    return [(f"character {places[k]} of the output's text", _at(places[k])) for k in chosen]


def _letters(texts: list[str], places: list[int]) -> NDArray[np.uint32]:
    """Return code points, shape (size, len(places)): of all from the front, then of all from
    the back; 0 beyond.
    """
    back = -min(places)
    front = len(places) - back
    starts = np.array([text[:front] for text in texts], dtype=f"U{front}").view(np.uint32)
    ends = np.array([text[: -back - 1 : -1] for text in texts], dtype=f"U{back}").view(np.uint32)
    return np.hstack([starts.reshape(-1, front), ends.reshape(-1, back)])


def _histograms(letters: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Count each character at each place, by its lowest byte with some of the others; shape
    (places, 256).
    """
    places = letters.shape[1]
    cells = ((letters + 37 * (letters >> 8)) & 255) + 256 * np.arange(places)
    return np.bincount(cells.ravel(), minlength=256 * places).reshape(places, 256)


def _at(k: int) -> Column:
    """Return the character at a place, from the end where it is negative; none beyond."""
    key = "character", k
    place = slice(k, (k + 1) or None)

    def column(draws: Draws) -> Labels:
        if key not in draws.made:
            characters = [str(text)[place] for text in draws.coded.table]
            draws.made[key] = np.array([ord(c) if c else 0 for c in characters] or [0])
        letters = draws.made[key][draws.coded.codes]
        values, codes = np.unique(letters, return_inverse=True)
        return Labels(codes, tuple(chr(v) if v else "none" for v in values.tolist()))

    return column


def _words(own: list[str], other: list[str]) -> list[tuple[str, Column]]:
    """Return those words that differ most, wherever they are."""
    ours, theirs = (
        Counter(chain.from_iterable(set(_WORD.findall(text)) for text in side))
        for side in (own, other)
    )
    words = [word for word in {**ours, **theirs} if ours[word] + theirs[word] > 1]
    hits = [ours[word] for word in words], [theirs[word] for word in words]
    z_scores = np.abs(telling(*hits, len(own), len(other)))
    best = np.argsort(-z_scores, kind="stable")[:_MOST_WORDS]
    return [(f"whether the output's text has {words[i]!r}", _has(words[i])) for i in best]


def _has(word: str) -> Column:
    key = f"has {word}", 0

    def column(draws: Draws) -> Labels:
        if key not in draws.made:
            hits = [word in str(text) for text in draws.coded.table]
            draws.made[key] = np.array(hits or [False], dtype=np.intp)
        return Labels(draws.made[key][draws.coded.codes], ("no", "yes"))

    return column


def label_numbers() -> list[Feature]:
    """Return the length of the text, and the first numbers in it."""
    features = [Feature("length of the output's text", _of_label(len))]
    for k in range(_NUMBERS):
        name = f"number {k} in the output's text"
        features.append(Feature(name, _of_label(partial(_number, k=k))))
    return features


def _of_label(function: Callable[[str], float]) -> Score:
    def score(draws: Draws) -> Floats:
        values = [function(str(label)) for label in draws.coded.table]
        return tame(np.array(values or [0.0], dtype=np.float64)[draws.coded.codes])

    return score


def _number(text: str, k: int) -> float:
    number = next(islice(_NUMBER.finditer(text[:_BEGINNING]), k, None), None)
    return float(number.group()) if number else 0.0
