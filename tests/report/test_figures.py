"""Figures: what is drawn is what was claimed and certified, and nothing drawn promises more."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from dpverify.audit import certificates
from dpverify.privacy import ApproxDP, GaussianDP, Guarantee, PureDP
from dpverify.report.figures import (
    Axis,
    Figure,
    Layer,
    Point,
    Table,
    claimed_tradeoff,
    digits,
    figures_of,
    profile,
    rate,
    tradeoff,
)
from dpverify.report.svg import draw, ticks
from tests.report.cases import RATE, audited

_CERTIFICATE = {
    "pair": "p", "direction": "left over right", "event": "e", "draws": 1000, "other_draws": 1000,
    "epsilon": 0.5,
}  # fmt: skip


def _data(*counts: tuple[int, int, bool], profile: list[list[Any]] | None = None) -> dict[str, Any]:
    """Build the data of an audit with certificates of these hits, other hits and refutations."""
    curve = [{**_CERTIFICATE, "hits": h, "other_hits": o, "refuted": r} for h, o, r in counts]
    return {
        "curve": curve,
        "regions": [[[0.3, 0.6], [0.4, 0.55]] for _ in curve],
        "profile": profile or [[0.0, 0.46, 0.3], [0.5, 0.29, 0.1], [1.0, 0.0, 0.0],
            [1.25, 0.0, 0.0]],
    }  # fmt: skip


def _layer(figure: Figure, look: str) -> Layer:
    (layer,) = (one for one in figure.layers if one.look == look)
    return layer


@pytest.mark.parametrize("claim", [PureDP(1), ApproxDP(1, "1e-2"), GaussianDP(1)])
def test_the_claimed_curve_is_below_the_exact_one_and_close(claim: Guarantee) -> None:
    """A point of the profile allows what the whole profile allows, or more."""
    points = [(e, d) for e, d in certificates.tested_points(claim)]
    drawn = claimed_tradeoff(points)
    assert drawn == tuple(sorted(drawn))
    for alpha, beta in drawn:
        exact = float(claim.tradeoff_at(Fraction(alpha)).lower)
        assert exact - 0.02 <= beta <= exact + 1e-6
    if isinstance(claim, PureDP):  # one line and its mirror image are all there is
        assert min(drawn, key=lambda p: p[0] + p[1]) == pytest.approx(
            (0.268941, 0.268941), abs=1e-5
        )


def test_events_are_where_they_were_counted_and_those_that_refute_are_crosses() -> None:
    figure = tradeoff(_data((500, 200, False), (900, 10, True)))
    assert _layer(figure, "certified").marks == ((0.2, 0.5),)
    assert _layer(figure, "refuted").marks == ((0.01, 1 - 0.9),)
    assert figure.table.rows[0] == ("p", "left over right", "e", "0.2", "0.4", "0.5", "0.6", "0.5")
    refuted = [e for e in draw(figure, "f").iter("path") if e.get("class") == "mark refuted"]
    assert refuted[0].attrib["d"].count("l") == 2  # both strokes of a cross


def test_every_certified_event_of_an_audit_is_drawn_with_its_region() -> None:
    data = audited("noisy_count:add-remove:all").data
    figure = tradeoff(data)
    layer = _layer(figure, "certified")
    assert len(layer.marks) == len(layer.areas) == len(figure.table.rows) == len(data["curve"]) > 6
    for (x, y), corners in layer.areas:
        assert corners[-1][0] >= x
        assert corners[0][1] >= y
    drawn = draw(figure, "f")
    (areas,) = (e for e in drawn.iter("path") if e.get("class") == "area certified")
    assert areas.attrib["d"].count("M") == len(layer.areas)


def test_a_drawn_region_leaves_no_corner_out() -> None:
    """Steps that nobody could see become one that is wider, never narrower."""
    stairs = [(0.3 + i / 1000, 0.6 - i / 1000) for i in range(40)]
    layer = Layer("a", "certified", areas=(((0.2, 0.5), tuple(stairs)),))
    axis = Axis("x", 0, 1)
    figure = Figure("t", "d", axis, axis, (layer,), Table("", (), ()))
    (area,) = (e for e in draw(figure, "f").iter("path") if e.get("class") == "area certified")
    drawn = _corners(area)
    assert len(drawn) < len(stairs)
    left, right, top, bottom = 52, 342, 10, 196
    for x, y in stairs:
        across, down = left + x * (right - left), bottom - y * (bottom - top)
        assert any(across <= a + 0.06 and down >= b - 0.06 for a, b in drawn)


def _corners(area: Element) -> list[Point]:
    """Return the outer corners of a path of horizontal and vertical lines, in pixels."""
    made, height = list[Point](), 0.0
    for letter, number in re.findall(r"([HV])([\d.]+)", area.attrib["d"]):
        if letter == "H":
            made.append((float(number), height))
        height = float(number) if letter == "V" else height
    return made


def test_a_profile_falls_to_the_end_of_its_axis_and_shows_what_is_refuted() -> None:
    figure = profile(_data())
    assert _layer(figure, "claim").line == ((0.0, 0.46), (0.5, 0.29), (1.0, 0.1))
    assert figure.y.low == 0.1
    assert "stays below" in figure.description
    refuted = profile(_data(profile=[[0.0, 0.1, 0.2], [1.0, 1e-6, 1e-12]]))
    assert _layer(refuted, "refuted").marks == ((0.0, 0.2),)
    assert refuted.y.low == 1e-9  # smaller numbers are in the table alone
    assert refuted.table.rows[1] == ("1", "1e-06", "1e-12")
    assert "exceeds" in refuted.description


def test_a_rate_is_drawn_with_intervals_bounds_and_its_slope() -> None:
    figure = rate(RATE)
    assert figure.title == "Error against n: slope -1.010 [-1.050, -0.970]; claimed -1"
    assert {layer.look for layer in figure.layers} == {
        "certified",
        "fitted",
        "claim",
        "upper",
        "lower",
    }
    (left, high), (right, low) = _layer(figure, "fitted").line
    assert (left, right) == pytest.approx((100, 10_000))
    assert math.log(high / low) / math.log(left / right) == pytest.approx(-1.01)
    assert math.sqrt(high * low) == pytest.approx(1e-3)  # through the center of the points
    assert _layer(figure, "certified").bars[0] == pytest.approx((0.009, 0.012))
    assert figure.x.log
    assert figure.y.low <= 0.3e-4 < 0.03 <= figure.y.high


def test_rates_of_others_are_lines_with_their_names() -> None:
    lines = {"one, 1 / n": "inf", "another": 0.5}
    points = [dict(one, lines=lines) for one in RATE["points"]]
    figure = rate({**RATE, "points": points})
    (first,), (second,) = (
        [layer for layer in figure.layers if layer.look == look] for look in ("other", "another")
    )
    assert (first.label, second.label) == tuple(lines)
    assert [y for _, y in second.line] == [0.5] * len(points)
    assert figure.table.header[-2:] == tuple(lines)
    assert figure.table.rows[0][-2:] == ("\N{INFINITY}", "0.5")


def test_infinite_errors_and_missing_bounds_are_left_out_of_a_rate() -> None:
    points = [dict(one, upper=None, lower="inf") for one in RATE["points"]]
    points[0].update(measured="inf", low="inf", high="inf")
    figure = rate({**RATE, "points": points, "slope": None})
    assert len(_layer(figure, "certified").marks) == 2
    assert not [layer for layer in figure.layers if layer.look == "upper"]
    assert math.isfinite(figure.y.high)
    assert figure.title == "Error against n"
    assert figure.table.rows[0][1] == "\N{INFINITY}"


@pytest.mark.parametrize(
    "data",
    [
        {}, {"profile": "?"}, {"profile": []}, {"profile": [[1]]}, {"points": [{}], "variable": 3},
        {**RATE, "points": []}, {**_data((1, 1, False)), "regions": []},
        {"curve": 3, "profile": [[0, "x", 0]]},
    ],
)  # fmt: skip
def test_pieces_of_another_version_make_no_figure(data: dict[str, Any]) -> None:
    """Except those that are whole: a profile without regions is still drawn."""
    drawn = [figure.title for figure in figures_of(data)]
    assert drawn == (["Privacy profile"] if data.get("regions") == [] else [])


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis("", 0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (Axis("", 0, 1.25), [0, 0.5, 1]),
        (Axis("", 100, 500, log=True), [100, 200, 500]),
        (Axis("", 1e-5, 1, log=True), [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]),
    ],
)
def test_ticks_are_round(axis: Axis, expected: list[float]) -> None:
    assert ticks(axis) == pytest.approx(expected)


def test_a_figure_tells_its_title_description_and_numbers() -> None:
    svg = draw(rate(RATE), "f7")
    assert svg.get("aria-labelledby") == "f7t f7d"
    assert [(e.tag, e.get("id")) for e in svg][:2] == [("title", "f7t"), ("desc", "f7d")]
    legend = [group.findtext("text") for group in svg.iter("g")]
    assert legend == [
        "measured, 95% interval",
        "fitted slope",
        "theory",
        "upper bound",
        "lower bound",
    ]


def test_numbers_are_short_and_what_is_none_is_said() -> None:
    assert [digits(x) for x in (0.123456, 1e-9, "inf", math.nan, "?", None)] == [
        "0.1235", "1e-09", "\N{INFINITY}", "\N{EN DASH}", "?", "None",
    ]  # fmt: skip


def test_matplotlib_draws_the_same_figures_with_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tests.benchmarks import report_pictures

    figures = [*figures_of(audited("noisy_count:add-remove:all").data), rate(RATE)]
    for name in ("first.svg", "second.svg"):
        report_pictures.draw(figures, tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("first.svg", "second.svg"))
    assert first == second
    assert first.count(b'id="axes_') == 3
