"""Rounding to one side: privacy loss distributions in integers, and bounds in decimals."""

from __future__ import annotations

from .lemmas import Lemma, Term, larger, quotient_is, rounded_up_is, z3

_LOSSES = "dpverify/privacy/losses.py"


def _shifts(always_apart: bool) -> Term:
    x, unit, low, high = z3.Ints("x unit low high")
    known = z3.And(unit >= 1, quotient_is(low, x, unit), rounded_up_is(high, x, unit))
    encloses = z3.And(unit * low <= x, x <= unit * high)
    exact = (high == low) == (x == unit * low)
    apart = high == low + 1 if always_apart else z3.And(low <= high, high <= low + 1, exact)
    return z3.Implies(known, z3.And(encloses, apart))


def shifts_enclose() -> Term:
    """x >> b and -((-x) >> b) are the floor and the ceiling of x / 2^b (any divisor here): at most
    1 apart, equal only where nothing is lost."""
    return _shifts(False)


def shifts_are_one_apart() -> Term:
    """Twin: the ceiling is the floor plus 1."""
    return _shifts(True)


def _least(strict: bool) -> Term:
    n, d, c, other = z3.Ints("n d c other")
    up = quotient_is(c - 1, n, d) if strict else rounded_up_is(c, n, d)
    known = z3.And(d >= 1, up)
    return z3.Implies(known, z3.And(n <= d * c, z3.Implies(n <= d * other, c <= other)))


def negated_division_is_the_least_bound() -> Term:
    """-(-n // d) is the least integer that is not below n / d: round_up is safe and no looser than
    its digits."""
    return _least(False)


def division_plus_one_is_the_least_bound() -> Term:
    """Twin: n // d + 1."""
    return _least(True)


def _nonnegative(about_the_end: bool) -> Term:
    end, mass = z3.Reals("end mass")
    low, up = z3.ToInt(end), -z3.ToInt(-end)
    below = z3.Implies(end <= mass, larger(low, 0) <= (end if about_the_end else mass))
    above = z3.Implies(end >= mass, larger(up, 0) >= mass)
    return z3.Implies(mass >= 0, z3.And(below, above))


def a_rounded_mass_stays_on_its_side() -> Term:
    """``rounded`` raises a negative end of a ball to 0: still on its side of the mass itself, which
    is not negative."""
    return _nonnegative(False)


def a_rounded_mass_stays_below_its_lower_end() -> Term:
    """Twin: on its side of the end of the ball."""
    return _nonnegative(True)


def _products(nonnegative: bool) -> Term:
    low, low2, q, unit = z3.Ints("low low2 q unit")
    true, true2 = z3.Reals("true true2")
    known = [unit >= 1, low <= true, low2 <= true2, quotient_is(q, low * low2, unit)]
    known += [low >= 0, low2 >= 0] if nonnegative else []
    return z3.Implies(z3.And(*known), q * unit <= true * true2)


def lower_bounds_multiply() -> Term:
    """_times rounds a product of two lower bounds down to a lower bound: both are at least 0."""
    return _products(True)


def lower_bounds_of_either_sign_multiply() -> Term:
    """Twin: whatever their signs."""
    return _products(False)


def _shared(exactly: bool) -> Term:
    mass, low, high, unit, above, taken = z3.Ints("mass low high unit above taken")
    share = z3.Real("share")  # of the multiple above, in the same units
    known = [mass >= 0, low >= 0, low <= share, share <= high, high <= unit, unit >= 1]
    known += [rounded_up_is(above, mass * high, unit), quotient_is(taken, mass * low, unit)]
    below = mass - taken
    sides = [unit * above >= mass * share, unit * below >= mass * (unit - share)]
    kept = above + below == mass if exactly else above + below >= mass
    return z3.Implies(z3.And(*known), z3.And(*sides, kept, below >= 0))


def a_shared_mass_is_at_least_itself() -> Term:
    """regrid splits an atom between two multiples, each part rounded up: neither falls short of its
    share, nor both of the atom, nor is one negative."""
    return _shared(False)


def a_shared_mass_is_itself() -> Term:
    """Twin: the parts add up to the atom exactly."""
    return _shared(True)


def _falling(strictly: bool) -> Term:
    x, decay, unit, low, high = z3.Ints("x decay unit low high")
    known = [x >= 0, decay >= 0, decay <= unit, unit >= 1]
    known += [quotient_is(low, decay * x, unit), rounded_up_is(high, decay * x, unit)]
    falls = z3.And(low < x, high < x) if strictly else z3.And(low >= 0, low <= high, high <= x)
    return z3.Implies(z3.And(*known), falls)


def rounded_nodes_fall() -> Term:
    """Consecutive nodes of a ProfileTable differ by x less decay * x, rounded either way, for an
    integer x >= 0 and decay <= 1: a table never rises, so ``at`` may round its share one way."""
    return _falling(False)


def rounded_nodes_fall_strictly() -> Term:
    """Twin: strictly. A small x is rounded up to itself."""
    return _falling(True)


def _between(falling: bool) -> Term:
    left, right, share, low, high = z3.Reals("left right share low high")
    known = [low >= 0, low <= share, share <= high, high <= 1]
    known += [right <= left] if falling else []
    true = left + share * (right - left)
    above, below = (left + end * (right - left) for end in (low, high))
    return z3.Implies(z3.And(*known), z3.And(above >= true, below <= true))


def a_smaller_share_of_the_way_down_is_above() -> Term:
    """Between two nodes of a falling table a share rounded down gives an upper bound, one rounded
    up a lower bound."""
    return _between(True)


def a_smaller_share_of_any_way_is_above() -> Term:
    """Twin: in a table that may rise."""
    return _between(False)


_ATOMS = 5


def _cut() -> tuple[list[Term], Term, Term, Term, Term, tuple[Term, Term]]:
    masses = list(z3.Ints(" ".join(f"m{i}" for i in range(_ATOMS))))
    infinite, bottom, top = z3.Ints("infinite bottom top")
    known = z3.And(*(m >= 0 for m in (*masses, infinite)), bottom >= 0, bottom < top, top <= _ATOMS)
    below = z3.Sum([z3.If(i < bottom, m, 0) for i, m in enumerate(masses)])
    above = z3.Sum([z3.If(i >= top, m, 0) for i, m in enumerate(masses)])
    return masses, infinite, bottom, top, known, (below, above)


def _upward(above_to_infinity: bool) -> Term:
    masses, infinite, bottom, top, known, (below, above) = _cut()
    kept = [
        z3.If(z3.And(bottom <= i, i < top), m, 0)
        + z3.If(i == bottom, below, 0)
        + (0 if above_to_infinity else z3.If(i == top - 1, above, 0))
        for i, m in enumerate(masses)
    ]
    end = infinite + (above if above_to_infinity else 0)
    same = z3.Sum(kept) + end == z3.Sum(masses) + infinite
    no_lower = [z3.Sum(kept[i:]) + end >= z3.Sum(masses[i:]) + infinite for i in range(_ATOMS)]
    return z3.Implies(known, z3.And(same, *no_lower))


def trimming_an_upper_bound_moves_mass_up() -> Term:
    """_trimmed moves the lower tail to the first atom kept and the upper one to infinity: the total
    is kept, and no loss has less mass at or above it than before (five atoms here)."""
    return _upward(True)


def trimming_to_the_nearest_atom_moves_mass_up() -> Term:
    """Twin: the upper tail to the last atom kept, which keeps the total too."""
    return _upward(False)


def _dropped(same: bool) -> Term:
    masses, infinite, bottom, top, known, (below, above) = _cut()
    kept = [z3.If(z3.And(bottom <= i, i < top), m, 0) for i, m in enumerate(masses)]
    lost = z3.Sum(kept) + below + above == z3.Sum(masses)
    no_higher = [z3.Sum(kept[i:]) <= z3.Sum(masses[i:]) for i in range(_ATOMS)]
    total = z3.Sum(kept) + infinite == z3.Sum(masses) + infinite
    return z3.Implies(known, z3.And(lost, *no_higher, *([total] if same else [])))


def trimming_a_lower_bound_drops_mass() -> Term:
    """_trimmed drops both tails of a lower bound: just these are lost, and no loss has more mass at
    or above it than before."""
    return _dropped(False)


def trimming_a_lower_bound_keeps_mass() -> Term:
    """Twin: the total stays the same."""
    return _dropped(True)


def _infinite(both_sides: bool) -> Term:
    finite, infinite, finite2, infinite2 = z3.Reals("finite infinite finite2 infinite2")
    known = [part >= 0 for part in (finite, infinite, finite2, infinite2)]
    coded = infinite * (finite2 + infinite2) + (finite * infinite2 if both_sides else 0)
    true = (finite + infinite) * (finite2 + infinite2) - finite * finite2
    return z3.Implies(z3.And(*known), coded == true)


def the_infinite_mass_of_a_product_is_what_is_not_finite_in_both() -> Term:
    """``product`` counts two infinite losses at once only once."""
    return _infinite(True)


def the_infinite_mass_of_a_product_comes_from_the_first() -> Term:
    """Twin: the second factor's is forgotten where the first is finite."""
    return _infinite(False)


def _squares(copy_first: bool) -> Term:
    before, now = z3.Ints("before now")
    bit = now % 2
    known = z3.And(before >= 1, quotient_is(before, now, 2))
    return z3.Implies(known, (2 * (before + bit) if copy_first else 2 * before + bit) == now)


def squares_and_copies_count_up() -> Term:
    """``power`` has as many copies as the leading bits of ``times`` say: one more bit doubles them
    and adds it."""
    return _squares(False)


def copies_and_squares_count_up() -> Term:
    """Twin: the copy comes before the square."""
    return _squares(True)


_TRIM, _TABLE = f"{_LOSSES}:_trimmed", f"{_LOSSES}:ProfileTable"
LEMMAS = (
    Lemma("floor and ceiling", f"{_LOSSES}:product", shifts_enclose, shifts_are_one_apart),
    Lemma(
        "least integer above",
        "dpverify/privacy/balls.py:round_up",
        negated_division_is_the_least_bound,
        division_plus_one_is_the_least_bound,
    ),
    Lemma(
        "rounded masses",
        f"{_LOSSES}:rounded",
        a_rounded_mass_stays_on_its_side,
        a_rounded_mass_stays_below_its_lower_end,
    ),
    Lemma(
        "rounded products",
        f"{_LOSSES}:_times",
        lower_bounds_multiply,
        lower_bounds_of_either_sign_multiply,
    ),
    Lemma(
        "shared masses",
        f"{_LOSSES}:regrid",
        a_shared_mass_is_at_least_itself,
        a_shared_mass_is_itself,
    ),
    Lemma("falling nodes", f"{_TABLE}._build", rounded_nodes_fall, rounded_nodes_fall_strictly),
    Lemma(
        "between two nodes",
        f"{_TABLE}.at",
        a_smaller_share_of_the_way_down_is_above,
        a_smaller_share_of_any_way_is_above,
    ),
    Lemma(
        "trimming upward",
        _TRIM,
        trimming_an_upper_bound_moves_mass_up,
        trimming_to_the_nearest_atom_moves_mass_up,
    ),
    Lemma(
        "trimming downward",
        _TRIM,
        trimming_a_lower_bound_drops_mass,
        trimming_a_lower_bound_keeps_mass,
    ),
    Lemma(
        "infinite mass",
        f"{_LOSSES}:product",
        the_infinite_mass_of_a_product_is_what_is_not_finite_in_both,
        the_infinite_mass_of_a_product_comes_from_the_first,
    ),
    Lemma("copies", f"{_LOSSES}:power", squares_and_copies_count_up, copies_and_squares_count_up),
)
