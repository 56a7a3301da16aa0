"""The proof that weighted means move little, step by step on graphs: the quantities of
weights.reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations

from dpverify.privacy import Adjacency, states

from . import embeddings, graphs
from .embeddings import Sides, Weight
from .obligations import require
from .weights import LEAST, REACH, STABILITY, agreements, larger, small, weight

ADD_REMOVE = Adjacency.ADD_REMOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Quantities of a pair under add-remove with some weight on both sides, named as in the proof.

    ``w`` and ``h`` by vertex; ``total`` is W', ``own`` is w_j; ``p`` and ``d`` by vertices of P
    and Q, for each record there.
    """

    sizes: tuple[int, ...]
    n: int
    own: Fraction
    w: tuple[Fraction, ...]
    total: Fraction
    p: dict[int, Fraction]
    d: dict[int, Fraction]

    @property
    def e(self) -> Fraction:
        """Ratio H' / W'."""
        return (self.n - 1) / self.total - 1

    @property
    def o(self) -> Fraction:
        """Ratio 1 / W'."""
        return 1 / self.total

    @property
    def big(self) -> Fraction:
        """Sum E of p."""
        return self._over(self.p, lambda i: self.p[i])

    @property
    def x(self) -> Fraction:
        """Sum X of d."""
        return self._over(self.d, lambda i: self.d[i])

    @property
    def t(self) -> Fraction:
        """Ratio 2 |Q| / n."""
        return self._over(self.d, lambda i: Fraction(2, self.n))

    @property
    def a(self) -> Fraction:
        """Sum of h over Q, divided by n."""
        return self._over(self.d, lambda i: (1 - self.w[i]) / self.n)

    @property
    def b(self) -> Fraction:
        """Part of m' in Q."""
        return self._over(self.d, lambda i: self.w[i] / self.total)

    @property
    def c(self) -> Fraction:
        """Sum of h over Q, divided by W'."""
        return self.a * self.n / self.total

    def masses(self) -> tuple[Fraction, ...]:
        """Return the mass that is moved, by vertex: step 1, and m' spread out. The masses add up
        to 0.
        """
        to_mean = self.own + self.big - self.x
        shares = enumerate(zip(self.sizes, self.w, strict=True))
        masses = [
            m * (self.p.get(i, 0) - self.d.get(i, 0) - to_mean * w / self.total)
            for i, (m, w) in shares
        ]
        return (*masses[:-1], self.own)

    def _over(self, part: dict[int, Fraction], value: Callable[[int], Fraction]) -> Fraction:
        return sum((self.sizes[i] * value(i) for i in part), Fraction(0))


def parts(sides: Sides, own: Weight = weight) -> Parts:
    """Return the parts of this pair under add-remove."""
    sizes, n = sides.right, sum(sides.left)
    before, after = sides.weights(sides.left, own), sides.weights(sizes, own)
    w = tuple(Fraction(x, n - 1) for x in after)
    others = range(len(sizes) - 1)
    knows = sides.rows[-1]
    return Parts(
        sizes=sizes,
        n=n,
        own=Fraction(before[-1], n),
        w=w,
        total=sum((x * m for x, m in zip(w, sizes, strict=True)), Fraction(0)),
        p={i: (1 - w[i]) / n for i in others if knows >> i & 1 and before[i] > 0},
        d={i: (1 + w[i]) / n for i in others if not knows >> i & 1 and after[i] > 0},
    )


Bound = Callable[[Fraction, Fraction], Fraction]
"""Bound on T, from e and o."""
BOUNDS: dict[str, Bound] = {
    "6": lambda e, o: Fraction(17, 16) + o / 16 + e,
    "7": lambda e, o: 1 + 3 * e / 4 + e / (1 + e),
    "8": lambda e, o: 1 + 5 * e / 4,
    "9": lambda e, o: 1 + 5 * e / 4,
    "9, n X > 2 W'": lambda e, o: 1 + e / 4,
}
"""Bounds by step of the proof."""


def costs(given: Parts) -> tuple[str, Fraction]:
    """Return the step that bounds T, and the cost of its transport."""
    own, x, big, a, b = given.own, given.x, given.big, given.a, given.b
    spread = big + given.e / 4
    if own >= x:
        served = own * (1 + b) + x * (1 - b)
        if big <= x:
            return "6", served + big * b + (min(big, a / x) if x else 0)
        return "7", served + spread
    if given.t <= 1:
        return "8", own + x + given.c + spread
    if given.n * x <= 2 * given.total:
        return "9", 2 * x * (1 - b) + spread
    return "9, n X > 2 W'", 2 * a + spread


# --- obligations --------------------------------------------------------------------------------


def _pairs(own: Weight = weight, least: int | None = None) -> Iterator[Sides]:
    """Yield pairs under add-remove, with weight on both sides; or of at least this agreement."""
    for sides in chain(small(ADD_REMOVE), larger(ADD_REMOVE)):
        enough = (
            all(any(sides.weights(sizes, own)) for sizes in (sides.left, sides.right))
            if least is None
            else min(agreements(sides, own)) >= least
        )
        if enough:
            yield sides


@states(STABILITY)
def obligation_identity(
    claimed: Callable[[Parts], Sequence[Fraction]] = Parts.masses, own: Weight = weight
) -> int:
    """Check steps 1 and 3: W (m - m') is the sum of these masses times records, whatever these
    are, W - W' is w_j + E - X, and S - S' is 2 G - 1.
    """
    cases = 0
    for sides in _pairs(own):
        stated = parts(sides, own)
        k = sides.weights(sides.left, own)
        before = Fraction(sum(x * m for x, m in zip(k, sides.left, strict=True)), stated.n)
        masses = [
            Fraction(m * x, stated.n) - before * n * w / stated.total
            for m, x, n, w in zip(sides.left, k, sides.right, stated.w, strict=True)
        ]
        require(masses == list(claimed(stated)), f"{sides}: {masses}, not {claimed(stated)}")
        gain = stated.own + stated.big - stated.x
        left, right = agreements(sides, own)
        moved = (before - stated.total, left - right)
        require(moved == (gain, 2 * gain - 1), f"{sides}: W and S move by {moved}, G = {gain}")
        cases += 1
    return cases


@states(STABILITY)
def obligation_friendly(claimed: Weight = weight) -> int:
    """Check step 2: any two records with weight on either side have a common friend in the larger
    dataset.
    """
    cases = 0
    for pair in (p for n in range(1, 6) for p in graphs.pairs(ADD_REMOVE, n, loops=(-1,))):
        sides = embeddings.sides_of(pair)
        with_weight = [sides.weights(sizes, claimed) for sizes in (sides.left, sides.right)]
        kept = [i for i, both in enumerate(zip(*with_weight, strict=True)) if any(both)]
        for i, k in combinations(kept, 2):
            common = pair.rows[i] & pair.rows[k] & pair.left
            require(bool(common), f"{pair}: the records {i} and {k} have no common friend")
            cases += 1
    return cases


@states(STABILITY)
def obligation_spread(claimed: Fraction = Fraction(1, 4)) -> int:
    """Check step 4: strangers add at most e / 4 where P is spread over all; and e / 5 is too
    little.
    """
    cases, largest = 0, Fraction(0)
    for sides in _pairs():
        given = parts(sides)
        added = Fraction(0)
        for i, mass in given.p.items():
            for k, (m, w) in enumerate(zip(given.sizes, given.w, strict=True)):
                friends = bool(sides.rows[i] >> k & 1)
                strangers = (0 if friends else m - 1) if i == k else (0 if friends else m)
                added += given.sizes[i] * mass * strangers * w / given.total
        require(added <= claimed * given.e, f"{sides}: {added} beyond {claimed} {given.e}")
        largest = max(largest, added / given.e) if given.e else largest
        cases += 1
    require(largest >= Fraction(1, 5), f"at most {float(largest)} e")
    return cases


@states(STABILITY)
def obligation_costs(claimed: Callable[[Parts], tuple[str, Fraction]] = costs) -> int:
    """Check steps 6 to 9: T, the least cost of moving the masses, is at most that of the step's
    transport, which is at most the step's bound in e and o, and (*) holds. Every step occurs.
    """
    cases, seen = 0, set()
    for sides in _pairs(least=LEAST[ADD_REMOVE]):
        given = parts(sides)
        cost = embeddings.farthest(sides.rows, given.masses(), 2)
        name, transport = claimed(given)
        bound = BOUNDS[name](given.e, given.o)
        enough = REACH[ADD_REMOVE] * (1 + given.o / 2) / (1 - given.e)
        case = f"{sides}, step {name}: {[float(x) for x in (cost, transport, bound, enough)]}"
        require(cost <= transport <= bound <= enough, case)
        seen.add(name)
        cases += 1
    require(seen == set(BOUNDS), f"only the steps {sorted(seen)} occur")
    return cases


Polynomial = tuple[int | Fraction, ...]
"""Coefficients, the constant one first."""


def target(reach: Fraction) -> dict[str, Polynomial]:
    """Return 16 (1 + e) (reach - (1 - e) T(e)) with the step's bound T at o = 0; the factor 1 + e
    in step 7 only.
    """
    c = 16 * reach
    return {
        "6": (c - 17, 1, 16),
        "7": (c - 16, c - 28, 32, 12),
        "8": (c - 16, -4, 20),
        "9": (c - 16, -4, 20),
        "9, n X > 2 W'": (c - 16, 12, 4),
    }


@states(STABILITY)
def obligation_target(claimed: Fraction = REACH[ADD_REMOVE]) -> int:
    """Check (*) for every e in [0, 1], exactly: the polynomials of ``target`` are not negative on
    cells of length 1/256, rising terms taken at the lower end and falling ones at the upper.

    The polynomials equal the stated expressions, as they do so at 5 points. And o only helps:
    it adds at least (17/32) o to the right side of (*), at most o / 16 to the left.
    """
    cases, cells = 0, 256
    for name, polynomial in target(claimed).items():
        for e in (Fraction(i, 4) for i in range(5)):
            value = sum(c * e**i for i, c in enumerate(polynomial))
            left = 16 * (claimed - (1 - e) * BOUNDS[name](e, Fraction(0)))
            factor = 1 + e if name == "7" else 1
            require(value == left * factor, f"step {name}: {value} for e = {e}")
        for cell in range(cells):
            ends = Fraction(cell, cells), Fraction(cell + 1, cells)
            least = sum(c * ends[c < 0] ** i for i, c in enumerate(polynomial))
            require(least >= 0, f"step {name}: {least} for e from {cell}/{cells}")
            cases += 1
    for e, o in ((Fraction(i, 8), Fraction(k, 8)) for i in range(8) for k in range(9)):
        for name, bound in BOUNDS.items():
            added = bound(e, o) - bound(e, Fraction(0))
            require(added <= claimed * o / 2 / (1 - e), f"step {name}: o = {o} adds {added}")
    return cases
