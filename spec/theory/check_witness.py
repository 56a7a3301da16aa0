"""Verify the JSON witness of a violated claim: python spec/theory/check_witness.py witness.json

"joint": hits ~ Binomial(draws, p), other hits ~ Binomial(other draws, q), A =
P(at least hits | p), B = P(at most other hits | q), z = -(normal quantile); (p, q) is rejected
if A or B <= alpha / 100, or w z(A) + v z(B) >= z(0.98 alpha), v^2 = 1 - w^2 = share / 64. All p
<= e^epsilon q + delta must be: in a cell of q, at its ends. Where share = 0, z(C) stands in place
of the sum, C = P(at least hits | all hits), which rises with the ratio of the odds of p and q and
depends on nothing else (the noncentral hypergeometric law). With an earlier event, chosen before
the draws that chose the other, u^2 = weight and u max(Z_1, -2) + v Z_2 >= z(0.9386 alpha): both
are rejected as above, from scores (z_1, z_2) whose sum is that, the first unless z_1 = -2.
"betting": the product of 1 + stake
(1{own} - e^epsilon 1{other} - delta) must reach 1 / level, of chance <= level under the claim
(Ville 1939); of single calls whose side is a fair coin "own" is a right guess at it, "other" a
wrong one, and delta is halved unless either side is guessed. "guesses", of such calls, and
delta = 0: right guesses among all are stochastically at most Binomial(guesses, e^epsilon /
(1 + e^epsilon)). Exits with 1 if it is refused, with 2 if a part cannot be checked. Alphas:
0.05 at most.
"""

import base64
import hashlib
import json
import re
import sys
import zlib
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import mpmath

mp, mp.prec = mpmath.MPContext(), 160  # a separate context with its own precision
FAR, EITHER = 1e3, "either side guessed"  # farther than any score
DIRECTIONS = ("left over right", "right over left", EITHER)
MOST, ONE, QUANTILE, TAIL = 0.05, 1 << 128, 1e-12, 1e-12  # alpha; for sums; relative errors


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)


def check(witness: Any) -> list[str]:
    """Return what was verified, in words, or raise ValueError (malformed: KeyError, ...)."""
    _require(witness["schema"] == {"name": "dpverify witness", "version": 1}, "unknown schema")
    text = json.dumps({**witness, "sha256": ""}, sort_keys=True, allow_nan=False)
    _require(hashlib.sha256(text.encode()).hexdigest() == witness["sha256"], "checksum differs")
    claim, run, proof = witness["claim"], witness["run"], witness["certificate"]
    said = [neighbors(**pair, relation=claim["adjacency"]) for pair in witness["pairs"]]
    names = [pair["name"] for pair in witness["pairs"]]
    known = all(name in names and way in DIRECTIONS for name, way, _ in witness["events"])
    _require(known and witness["events"] and witness["points"], "no pair, direction or point")
    said += [on_claim(claim["guarantee"], *point) for point in witness["points"]]
    _require(0 < proof["alpha"] <= run["alpha"] <= MOST, "alpha exceeds that of the run, or MOST")
    _require(proof["method"] == "joint" or "earlier" not in proof, "an earlier event, of no counts")
    methods = {"joint": joint, "guesses": guesses, "betting": betting}
    said.append(methods[proof["method"]](witness, proof))
    return [*said, f"NOT KNOWN here: whether it was observed; replay: {run['replay'] or run}"]


def neighbors(name: str, data: Any, relation: str, **_: Any) -> str:
    """Return words that the pair may be compared, or that the witness does not tell."""
    moves = re.fullmatch(r"(all|at most (\d+)) answers move by at most (\S+)", relation)
    if data is None or not (moves or relation in ("replace", "add-remove")):
        return f"NOT CHECKED: whether {name!r} are {relation} neighbors (too large, or unknown)"
    packed = zlib.decompress(base64.b64decode(data)) if isinstance(data, str) else None
    short, long = sorted(json.loads(packed) if packed else data, key=len)
    apart = [i for i, x in enumerate(short) if x != long[i]]
    if relation == "add-remove":
        close = short == long[: (at := [*apart, len(short)][0])] + long[at + 1 :] != long
    else:
        most, by = (int(moves[2] or len(apart)), Fraction(moves[3])) if moves else (1, None)
        close = len(short) == len(long) and 0 < len(apart) <= most
        close &= by is None or all(abs(Fraction(short[i]) - Fraction(long[i])) <= by for i in apart)
    close &= type(short) is type(long) is list
    _require(close, f"pair {name!r}: the datasets are no {relation} neighbors")
    return f"pair {name!r}: {relation} neighbors"


def on_claim(guarantee: str, epsilon: float, delta: float) -> str:
    """Return words that delta >= delta(epsilon) of the guarantee, or that this is trusted."""
    _require(epsilon >= 0 and 0 <= delta < 1, f"no claim has a point ({epsilon}, {delta})")
    call = re.fullmatch(r"(perfect|pure|approx|zcdp|a?gaussian)(?:\((.*)\))?", guarantee)
    if call is None:
        return f"TAKEN FROM THE WITNESS: the point ({epsilon}, {delta}) of {guarantee}"
    given = re.findall(r"[^\s,()]+", (call[2] or "").removeprefix("sqrt"))
    first, more, tv, at, least = map(mp.mpf, (*given, *[0] * (3 - len(given)), epsilon, 0))
    mu = first = mp.sqrt(first) if "sqrt" in guarantee and first > 0 else first
    whole = len(given) == {"perfect": 0, "approx": 2, "agaussian": 3}.get(call[1], 1)
    _require(whole and first >= 0 <= more < 1 > tv >= 0, f"{guarantee} is no claim")
    if call[1] in ("pure", "approx"):  # Kairouz, Oh, Viswanath 2015: the dominating pair
        least = more + (1 - more) * max(least, mp.exp(first) - mp.exp(at)) / (1 + mp.exp(first))
    elif call[1] == "zcdp":  # Canonne, Kamath, Steinke 2020, Proposition 12: any t > 0 is valid
        low, high, t = mp.mpf(2) ** -300, mp.mpf(2) ** 300, mp.mpf(1)
        while high > low * (1 + mp.mpf(2) ** -70):
            low, high = (low, t) if (2 * t + 1) * first - at > mp.log1p(1 / t) else (t, high)
            t = mp.sqrt(low * high)
        least = mp.exp(t * ((1 + t) * first - at) - t * mp.log1p(1 / t)) / (1 + t)
    elif call[1] != "perfect":  # Balle, Wang 2018; with tv, at the best smaller epsilon
        at = max(0, min(at, mu * (mp.sqrt(2) * mp.erfinv(1 - 2 * tv) - mu / 2)))
        far = mp.exp(at) * (mp.ncdf(-mu / 2 - at / mu) - tv)
        least = mp.ncdf(mu / 2 - at / mu) - far + more + tv
    if delta < min(least, 1) * (1 - mp.mpf(2) ** -100):
        raise ValueError(f"the point ({epsilon}, {delta}) is not promised by {guarantee}")
    return f"the point ({epsilon}, {delta}) lies on {guarantee}"


def score(hits: int, draws: int, p: Any) -> float:
    """Return at most z(P(X >= hits)), X ~ Binomial(draws, p)."""
    if hits <= 0 or p >= 1:
        return -FAR
    up = hits >= (draws + 1) * p  # else the complement, counted from the other end
    at, p = (hits, p) if up else (draws - hits + 1, 1 - p)
    over, rest, i, total, term = int(p * ONE), int((1 - p) * ONE), at, 0, ONE
    while term:  # terms fall
        total, i, term = total + term, i + 1, term * (draws - i) * over // (i + 1) // rest
    return least(mp.binomial(draws, at) * p**at * (1 - p) ** (draws - at) * total / ONE, up)


def least(mass: Any, up: bool) -> float:
    """Return at most z of this probability; of its complement, if not ``up``."""
    if mass < 1e-300:
        return 36.0 if up else -FAR
    at = float(mass) * (1 + (TAIL if up else -TAIL))
    return (-1 if up else 1) * NormalDist().inv_cdf(at) - QUANTILE


def conditional(hits: int, draws: int, others: int, other_draws: int, odds: float) -> float:
    """Return at most z(P(X >= hits | X + Y)), X and Y binomial, with this ratio of odds."""
    total, over = hits + others, int(mp.mpf(odds) * ONE)
    first, last = max(0, total - other_draws), min(draws, total)
    if hits <= first or odds < QUANTILE:
        return -FAR
    above, below, term = ONE, 0, ONE  # masses, over that of so many hits
    for i in range(hits, last):
        term = term * (draws - i) * (total - i) * over
        above += (term := term // ((i + 1) * (other_draws - total + i + 1) * ONE))
    term = ONE
    for i in range(hits - 1, first - 1, -1):
        term = term * (i + 1) * (other_draws - total + i + 1) * ONE
        below += (term := term // ((draws - i) * (total - i) * over))
    up = above < below  # else the complement
    return least(mp.mpf(above if up else below) / (above + below), up)


def joint(witness: Any, proof: Any) -> str:
    """Return words that the counts refute the point, and the certified epsilon besides."""
    (_,), run, earlier = witness["events"], witness["run"], proof.get("earlier")
    _require(witness["events"][0][1] != EITHER, "two events have no joint counts")
    blocks, left = [earlier, proof] if earlier else [proof], min(run["draws"], 2 * run["trials"])
    bar, full, far = (-NormalDist().inv_cdf(proof["alpha"] * x) for x in (0.9386, 0.98, 0.01))
    bars, u = (earlier["scores"], earlier["weight"] ** 0.5) if earlier else ([full], 0)
    total = u * bars[0] + (1 - u**2) ** 0.5 * bars[-1]
    reached = not earlier or (0 < u < 1 and bars[0] >= -2 and total >= bar - TAIL)
    _require(reached, "the scores do not reach the bar, or the weight is none")
    for (k, n, j, m), share in ((block["counts"], block["share"]) for block in blocks):
        _require(all(type(x) is int and x >= 0 for x in (k, n - k, j, m - j)), "impossible counts")
        left -= n + m  # both sides together, since these may divide their draws
        _require(0 <= share <= 64 and left >= 0, "share or draws")
    for epsilon, delta in [*witness["points"], *proof["certified"]]:
        for block, least in zip(blocks, bars, strict=True):
            if least > -2 or block is proof:
                excludes(block, least + 3 * TAIL, far + TAIL, epsilon, delta)
    told = [f"{k}/{n} against {j}/{m}" for k, n, j, m in (block["counts"] for block in blocks)]
    return f"{', then '.join(told)} refutes it at level {proof['alpha']}"


def excludes(block: Any, bar: float, far: float, epsilon: float, delta: float) -> None:
    """Raise ValueError unless the counts reject all that the point allows."""
    (k, n, j, m), share = block["counts"], block["share"] / 64
    _require(share or "odds" in block, "neither a share nor a ratio of odds")
    odds = 0 if share else block["odds"]  # all ratios up to this are rejected
    _require(share or conditional(k, n, j, m, odds) >= bar, "the ratio of odds is too large")
    own, other = (1 - share) ** 0.5, share**0.5
    cells = [(mp.mpf(0), mp.mpf(1), -FAR, -FAR)]  # q; z(A) at its end, z(B) at its start
    while cells:
        low, high, a, b = cells.pop()
        passes = own * a + other * b < bar if share else ratio(low, high, epsilon, delta) > odds
        if max(a, b) < far and passes:
            _require(high - low > 2**-60, f"the counts do not refute ({epsilon}, {delta})")
            q = (low + high) / 2
            ends = score(k, n, mp.exp(epsilon) * q + delta), score(m - j, m, 1 - q)
            cells += [(q, high, a, ends[1]), (low, q, ends[0], b)]


def ratio(low: Any, high: Any, epsilon: float, delta: float) -> Any:
    """Return at least the ratio of odds of all p <= e^epsilon q + delta, q from low to high."""
    p = mp.exp(epsilon) * high + delta
    return p * (1 - low) / (low * (1 - p)) if low > 0 and p < 1 else mp.inf


def guesses(witness: Any, proof: Any) -> str:
    """Return words that so many right guesses refute the point and the certified epsilon."""
    (_,), (right, wrong) = witness["events"], proof["counts"]
    _require(all(type(x) is int and x >= 0 for x in (right, wrong)), "impossible counts")
    _require(right + wrong <= witness["run"]["draws"], "more guesses than draws")
    bar = QUANTILE - NormalDist().inv_cdf(proof["alpha"])
    for epsilon, delta in [*witness["points"], *proof["certified"]]:
        most = mp.exp(epsilon) / (1 + mp.exp(epsilon))
        shown = delta == 0 and score(right, right + wrong, most) >= bar
        _require(shown, f"the guesses do not refute ({epsilon}, {delta})")
    return f"{right} right guesses against {wrong} refute it at level {proof['alpha']}"


def betting(witness: Any, proof: Any) -> str:
    """Return words that the bets, none of which could lose everything, won enough."""
    growth, level, left = min(proof["omitted"], mp.mpf(0)), proof["level"], witness["run"]["draws"]
    single = proof.get("single", False)
    for event, point, stake, *tally in witness["bets"]:
        (epsilon, delta), way = map(mp.mpf, witness["points"][point]), witness["events"][event][1]
        _require(not tally[0] if single else way != EITHER, "counts: of pairs, or of calls?")
        delta /= 2 if single and way != EITHER else 1
        payoffs = (1 - mp.exp(epsilon) - delta, 1 - delta, -mp.exp(epsilon) - delta, -delta)
        _require(0 <= stake * -payoffs[2] < 1, f"a stake of {stake} could lose everything")
        left -= (1 if single else 2) * sum(tally)  # pairs of draws
        _require(all(type(x) is int and x >= 0 for x in (event, left, *tally)), f"counts: {tally}")
        growth += sum(n * mp.log1p(stake * x) for n, x in zip(tally, payoffs, strict=True))
    _require(0 < level <= proof["alpha"] and growth >= -mp.log(level), "too little was won")
    _require(not proof["certified"], "bets against a claim show no bound")
    return f"bets won {mp.nstr(mp.exp(growth), 6)} >= 1 / {level}"


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="ascii") as file:
            print(*(said := check(json.load(file))), sep="\n")
    except Exception as error:
        sys.exit(f"REFUSED {sys.argv[1:]}: {type(error).__name__}: {error}")
    sys.exit(2 * any(line.startswith(("NOT CHECKED", "TAKEN FROM")) for line in said))
