"""Neighboring datasets to search among: what records may be, random ones, moves between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Floats, settle

LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = 5e-324
_MOST_AXES = 6
_FEWEST = 8
_FEW = 6
_ATOMS = (
    *(0.0, 1.0, -1.0, LARGEST, -LARGEST, 0.5, 2.0, -0.0, 0.1, 1e-3, 3.0, 1e8, 1e16, 1e150, -1e150),
    *(2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**31, 2.0**31 - 1, -(2.0**31), -(2.0**31) - 1),
    *(2.0**63, -(2.0**63), 2.0**63 - 1024, 2.0**64, 2.0**24, 2.0**24 + 1, 2.0**32, 1e308, -1e308),
    *(127.0, 128.0, 255.0, 256.0, 32767.0, 32768.0, 65535.0, 65536.0),
    *(_SMALLEST, -_SMALLEST, float(np.finfo(np.float64).tiny)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Neighbors, as a dataset of shape (n, columns) and a change of its record ``at``.

    record: what replaces that record; None: it is removed.
    """

    rows: Floats
    at: int
    record: Floats | None

    def sides(self) -> tuple[Floats, Floats]:
        """Return the dataset and its neighbor."""
        if self.record is None:
            return self.rows, np.concatenate([self.rows[: self.at], self.rows[self.at + 1 :]])
        other = self.rows.copy()
        other[self.at] = self.record
        return self.rows, other


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The datasets that are searched: ``fewest`` to ``most`` records in the box from low to high.

    low, high: shape (columns,). values: public numbers to look around. nonfinite: whether records
    may hold NaN and infinities too. integers: whether all finite numbers are whole. atoms: numbers
    to try in every column, the most telling first; what is outside the box is moved in.
    """

    adjacency: Adjacency
    low: Floats
    high: Floats
    values: tuple[float, ...]
    nonfinite: bool
    integers: bool
    fewest: int
    most: int
    atoms: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settle(self, atoms=np.array(self._atoms()))

    @property
    def columns(self) -> int:
        """Number of numbers in a record."""
        return len(self.low)

    def admit(self, rows: Floats) -> Floats:
        """Return the rows, with every number moved into the box, and rounded there if whole;
        non-finite ones stay where allowed.
        """
        inside: Floats = np.where(np.isnan(rows), 0.0, rows).clip(self.low, self.high)
        if self.integers:
            inside = np.rint(inside)
        return np.where(np.isfinite(rows), inside, rows) if self.nonfinite else inside

    def _atoms(self) -> list[float]:
        corners = [*self.low[:_FEW].tolist(), *self.high[:_FEW].tolist()]
        told = [
            sign * near
            for value in self.values
            for near in (value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf))
            for sign in (1.0, -1.0)
        ]
        inner = [float(np.nextafter(edge, 0.0)) for edge in corners]
        signed = [sign * value for value in self.values[:1] for sign in (1.0, -1.0)]
        numbers = [*_ATOMS[:3], *signed, *_ATOMS[3:5], *corners, *told, *inner, *_ATOMS[5:]]
        return list(dict.fromkeys(numbers))

    def pool(self, rng: np.random.Generator) -> list[Floats]:
        """Return records to build from: atoms in all columns, in one column, between the
        corners, random.
        """
        atoms = self.atoms.tolist()
        units = np.eye(self.columns)[:_MOST_AXES] if self.columns > 1 else np.zeros((0, 1))
        scales = [1.0, -1.0, LARGEST, *self.values]
        rows = [np.full(self.columns, atom) for atom in atoms[:_FEW]]
        rows += [unit * scale for scale in scales[:2] for unit in units]
        rows += [np.full(self.columns, atom) for atom in atoms[_FEW:]]
        rows += [unit * scale for scale in scales[2:] for unit in units]
        rows += [self.low / 2 + self.high / 2, self.low * 0.75 + self.high * 0.25]
        if self.columns > 1:
            rows += [
                np.where(rng.random(self.columns) < 0.5, self.low, self.high) for _ in range(_FEW)
            ]
            directions = rng.normal(size=(_FEW, self.columns))
            rows += list(directions / np.linalg.norm(directions, axis=1, keepdims=True))
        distinct = {row.tobytes(): row for row in (self.admit(row) for row in rows)}
        pool = list(distinct.values())
        return pool + pool[:1] * (_FEWEST - len(pool))  # in a box of one point there is but one

    def about(
        self, base: Floats, record: Floats, others: Sequence[Floats], *, at: int
    ) -> Iterator[Candidate]:
        """Yield ``base`` with the record inserted, which is removed again or becomes one of the
        others.

        All numbers are moved into the box.
        """
        at = min(at, len(base))
        if len(base) + 1 < self.fewest:  # add more of the same
            filler = base if len(base) else np.zeros((1, self.columns))
            more = np.resize(filler, (self.fewest - 1 - len(base), self.columns))
            base = np.concatenate([base, more])
        rows = self.admit(np.concatenate([base[:at], record[None], base[at:]]))
        if self.adjacency is Adjacency.ADD_REMOVE:
            yield Candidate(rows, at, None)
        else:
            distinct = {other.tobytes(): other for other in map(self.admit, others)}
            distinct.pop(rows[at].tobytes(), None)  # replacing a record by itself is no change
            yield from (Candidate(rows, at, other) for other in distinct.values())


def random_candidate(space: Space, rng: np.random.Generator) -> Candidate:
    """Draw a random dataset, mostly of few records, and a random change."""
    number = int(rng.integers(1, 9)) if rng.random() < 0.8 else int(rng.integers(1, 200))
    rows = random_rows(space, min(max(number, space.fewest), space.most), rng)
    if rng.random() < 0.3:  # duplicates
        rows = rows[rng.integers(0, len(rows), len(rows))]
    at = int(rng.integers(len(rows)))
    removed = space.adjacency is Adjacency.ADD_REMOVE
    return Candidate(rows, at, None if removed else random_rows(space, 1, rng)[0])


def random_rows(space: Space, number: int, rng: np.random.Generator) -> Floats:
    """Draw rows of shape (number, columns): normal, of any magnitude, whole, atoms, or anywhere
    in the box.
    """
    shape = (number, space.columns)
    kind = rng.integers(5)
    if kind == 0:
        rows = rng.normal(size=shape) * 10.0 ** rng.integers(-1, 3)
    elif kind == 1:
        rows = np.exp(rng.normal(size=shape) * 5) * rng.choice([-1.0, 1.0], shape)
    elif kind == 2:
        rows = rng.integers(-10, 11, shape).astype(np.float64)
    elif kind == 3:
        rows = rng.choice(space.atoms, shape)
    else:
        share = rng.random(shape)
        rows = space.low * share + space.high * (1 - share)
    return space.admit(rows)


def moved(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Return a candidate near another one: one to three random moves away."""
    for _ in range(1 + int(rng.geometric(0.6) > 1) + int(rng.random() < 0.1)):
        candidate = _MOVES[rng.integers(len(_MOVES))](space, candidate, rng)
    return candidate


def _entry(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Change one number of one record, which is often the changed one."""
    rows, record = candidate.rows.copy(), candidate.record
    where = int(rng.integers(len(rows))) if rng.random() < 0.5 else candidate.at
    column = int(rng.integers(space.columns))
    if record is not None and rng.random() < 0.4:
        record = _with_entry(space, record, column, rng)
    else:
        rows[where] = _with_entry(space, rows[where], column, rng)
    return Candidate(rows, candidate.at, record)


def _with_entry(space: Space, row: Floats, column: int, rng: np.random.Generator) -> Floats:
    row = row.copy()
    number = row[column]
    with np.errstate(all="ignore"):
        choices = (
            number * 2,
            number / 2,
            -number,
            np.nextafter(number, np.inf),
            np.nextafter(number, -np.inf),
            number + rng.normal() * 10.0 ** rng.integers(-3, 3),
            number * (1 + rng.normal() * 0.1),
            rng.choice(space.atoms),
            random_rows(space, 1, rng)[0, column],
            0.0,
        )
    row[column] = choices[rng.integers(len(choices))]
    return space.admit(row)


def _record(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Change the whole changed record, a little or altogether."""
    rows, record = candidate.rows.copy(), candidate.record
    with np.errstate(all="ignore"):
        step = rng.normal(size=space.columns) * 10.0 ** rng.uniform(-3, 0.5)
        if record is not None and rng.random() < 0.5:
            record = space.admit(record + step * (1 + np.abs(record).max()))
        else:
            old = rows[candidate.at]
            rows[candidate.at] = space.admit(old + step * (1 + np.abs(old).max()))
    return Candidate(rows, candidate.at, record)


def _scale(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Make all records larger, smaller or shifted together."""
    factor = float(rng.choice([0.5, 2.0, -1.0, 1.5, 0.1, 10.0]))
    shift = float(rng.choice([0.0, 0.0, 1.0, -1.0])) * 10.0 ** rng.integers(-1, 3)
    with np.errstate(all="ignore"):
        rows = space.admit(candidate.rows * factor + shift)
        record = candidate.record
        record = None if record is None else space.admit(record * factor + shift)
    return Candidate(rows, candidate.at, record)


def _more(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Add another record, a copy of one, or all the others twice."""
    rows, at = candidate.rows, candidate.at
    if rng.random() < 0.15 and 2 * len(rows) - 1 <= space.most:
        rest = np.delete(rows, at, axis=0)
        return Candidate(np.concatenate([rows, rest]), at, candidate.record)
    if len(rows) >= space.most:
        return candidate
    copied = rng.random() < 0.5
    row = rows[rng.integers(len(rows))] if copied else random_rows(space, 1, rng)[0]
    where = int(rng.integers(len(rows) + 1))
    return Candidate(np.insert(rows, where, row, axis=0), at + (where <= at), candidate.record)


def _fewer(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Remove one record that does not change."""
    where = int(rng.integers(len(candidate.rows)))
    if where == candidate.at or len(candidate.rows) <= space.fewest:
        return candidate
    at = candidate.at - (where < candidate.at)
    return Candidate(np.delete(candidate.rows, where, axis=0), at, candidate.record)


def _elsewhere(space: Space, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Change the order: two records swapped, or the change at another place."""
    one, two = (int(i) for i in rng.integers(len(candidate.rows), size=2))
    if rng.random() < 0.5:
        return Candidate(candidate.rows, one, candidate.record)
    rows = candidate.rows.copy()
    rows[[one, two]] = rows[[two, one]]
    return Candidate(rows, candidate.at, candidate.record)


_MOVES: tuple[Callable[[Space, Candidate, np.random.Generator], Candidate], ...] = (
    *(_entry, _entry, _entry, _record, _record),
    *(_scale, _more, _fewer, _elsewhere),
)
